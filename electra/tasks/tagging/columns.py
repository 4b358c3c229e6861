"""Files of columns <-> sentences of words with labels.

columns   a line for each word, with the word first and its label last, or where numbers of columns say. Columns are
          separated by tabs, if all lines have one, else by spaces and tabs. A blank line ends a sentence, and so does
          a line that begins with -DOCSTART-, which CoNLL-2003 writes before a document.
.conllu   CoNLL-U: the word is FORM, its label UPOS, or the column with the given number. Ranges of words, such as 1-2,
          and empty nodes, such as 1.1, are left out.

A line that begins with `#` and white space, before a sentence, is a comment, unless it has as many cells as other
lines and ends in a label that they have. Nothing else is guessed: lines of different widths, a first column that
counts or names the sentence, two columns of labels of the same types, and names of columns are refused.
"""

import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, pairwise, takewhile
from typing import NamedTuple

from electra.core.errors import UserError
from electra.data.lines import form_of, open_lines
from electra.tasks.tagging.schemes import LABEL, OUTSIDE

logger = logging.getLogger(__name__)

DOCUMENT = "-DOCSTART-"
"""First word of the line that begins a document, as CoNLL-2003 writes it."""
CELLS = re.compile(r"[^ \t]+")  # not \S: U+00A0 and others occur within words
COMMENT = re.compile(r"#([ \t]|$)")
WORD_NAMES = frozenset(("word", "words", "token", "tokens", "form", "text"))
"""Names of the column of words, in lower case, by which a line of names is known."""
FORM_COLUMN, UPOS_COLUMN = 1, 3
"""Numbers of the columns of CoNLL-U with the word and its part of speech."""
WORD_NUMBER = re.compile(r"([0-9]+)([-.][0-9]+)?")
"""The number of a word; in CoNLL-U also of a range of words, such as 3-4, or of an empty node, such as 5.1."""
LONGEST_SENTENCE = 1000
"""Words; more say that the blank lines between sentences are missing."""
FORMS_PAGE = "docs/data.md shows the forms; examples/convert_annotations.py converts those of annotation tools"
"""What helps with data that has none of the forms, the end of messages."""


@dataclass(frozen=True)
class TaggedSentences:
    """The sentences of one split: words, and labels as in the source; None if there are no labels."""

    words: list[list[str]]
    labels: list[list[str]] | None

    def __len__(self) -> int:
        return len(self.words)


class Line(NamedTuple):
    number: int
    text: str
    cells: list[str]


def no_form(place: str, got: str) -> UserError:
    """Build the error for data that has none of the forms; `place` is FILE:LINE, and `got` what stands there."""
    return UserError(f"{place} {got}; {FORMS_PAGE}")


def read_columns(
    path: str,
    label_column: str | int | None = None,
    word_column: str | int | None = None,
    *,
    needs_labels: bool = True,
) -> TaggedSentences:
    """Return the sentences of a file of columns or of CoNLL-U.

    Args:
        label_column: number of the column of the labels, from 0, or from -1 at the end; None for the last column, in
            CoNLL-U for the part of speech.
        word_column: number of the column of the words, counted likewise; None for the first column, in CoNLL-U for
            FORM.
        needs_labels: False to accept a file without the column of the labels, whose sentences then have no labels.
    Raises:
        UserError: the file has another form.
    """
    is_universal = form_of(path) == ".conllu"
    word = _number("word_column", word_column, FORM_COLUMN if is_universal else 0)
    label = _number("label_column", label_column, UPOS_COLUMN if is_universal else -1)
    sentences = _read_sentences(path)
    sentences = _words_of_conllu(sentences, path) if is_universal else _without_comments(sentences, path, label)
    if not sentences:
        raise no_form(path, "has no sentences")
    width = _check_widths(sentences, path, may_differ=label_column is not None and min(word, label) >= 0)
    asked = f"--word_column {word} and --label_column {label}"
    word, label = (column + width if column < 0 else column for column in (word, label))
    has_labels = label != word and 0 <= label < width
    if not 0 <= word < width or (needs_labels and not has_labels):
        raise no_form(
            f"{path}:{sentences[0][0].number}", f"has {width} columns; {asked} must be two of them, counted from 0"
        )
    if not is_universal:
        _check_words(sentences, path, None if word_column is None else word)
        if has_labels:
            _check_no_names(sentences[0][0], label, sentences, path)
        if needs_labels and label_column is None:
            _check_one_column_of_labels(sentences, path, word, label)
    for line in chain.from_iterable(sentences):
        if not line.cells[word] or (has_labels and not line.cells[label]):
            raise no_form(f"{path}:{line.number}", f"has no word in column {word}, or no label in column {label}")
    longest = max(sentences, key=len)
    if len(longest) > LONGEST_SENTENCE:
        logger.warning(
            "%s: the sentence at line %d has %d words; a blank line must end each sentence",
            path, longest[0].number, len(longest),
        )  # fmt: skip
    words = [[line.cells[word] for line in sentence] for sentence in sentences]
    labels = [[line.cells[label] for line in sentence] for sentence in sentences] if has_labels else None
    return TaggedSentences(words, labels)


def _number(option: str, column: str | int | None, default: int) -> int:
    try:
        return default if column is None else int(column)
    except ValueError as error:
        raise UserError(
            f"--{option} {column} must be a number for files of columns, counted from 0, or from -1 at the end"
        ) from error


# ---- lines


def _read_sentences(path: str) -> list[list[Line]]:
    """Return the lines of each sentence, comments included, cut into cells."""
    texts = [line.rstrip("\r\n") for line in open_lines(path)]
    is_by_tab = all("\t" in text for text in texts if _is_text(text) and not text.startswith("#"))
    sentences = []
    for is_text, group in groupby(enumerate(texts, start=1), key=lambda numbered: _is_text(numbered[1])):
        if is_text:
            sentences.append([Line(number, text, _cells(text, is_by_tab=is_by_tab)) for number, text in group])
    return sentences


def _is_text(text: str) -> bool:
    """Return False for a blank line and for the beginning of a document."""
    return bool(text.strip(" \t")) and not text.startswith(DOCUMENT)


def _cells(text: str, *, is_by_tab: bool) -> list[str]:
    return [cell.strip(" ") for cell in text.rstrip(" \t").split("\t")] if is_by_tab else CELLS.findall(text)


def _words_of_conllu(sentences: Sequence[Sequence[Line]], path: str) -> list[list[Line]]:
    """Return the lines of words, without comments, ranges of words and empty nodes."""
    kept = []
    for sentence in sentences:
        lines = [line for line in sentence if not line.text.startswith("#")]
        for line in lines:
            if not WORD_NUMBER.fullmatch(line.cells[0]):
                raise no_form(f"{path}:{line.number}", f"begins with '{line.cells[0]:.40}', not the number of a word")
        kept.append([line for line in lines if line.cells[0].isdecimal()])
    return [*filter(None, kept)]


def _without_comments(sentences: Sequence[Sequence[Line]], path: str, label: int) -> list[list[Line]]:
    """Return the lines of each sentence without the comments before it; see the module's docstring."""
    begun = [[*takewhile(lambda line: COMMENT.match(line.text), sentence)] for sentence in sentences]
    bodies = [[*sentence[len(before) :]] for before, sentence in zip(begun, sentences, strict=True)]
    rows = [line.cells for line in chain.from_iterable(bodies)] or [line.cells for line in chain.from_iterable(begun)]
    width = len(rows[0]) if rows else 0
    is_inside = width > 1 and -width <= label < width
    labels = {cells[label] for cells in rows if is_inside and len(cells) == width}

    def is_word(line: Line) -> bool:
        return len(line.cells) == width and (not is_inside or line.cells[label] in labels)

    kept = [[*filter(is_word, before), *lines] for before, lines in zip(begun, bodies, strict=True)]
    comments = [line.number for before in begun for line in before if not is_word(line)]
    if comments:
        logger.info("%s: %d lines with # are comments, the first is line %d", path, len(comments), comments[0])
    return [*filter(None, kept)]


# ---- checks


def _check_widths(sentences: Sequence[Sequence[Line]], path: str, *, may_differ: bool) -> int:
    """Refuse lines of different widths, because a lost column would shift all labels after it; return the width.

    With `may_differ`, sentences may have different widths, as in CoNLL-2009, which has a column for each predicate;
    the smallest one is returned.
    """
    width = len(sentences[0][0].cells)
    for sentence in sentences:
        if may_differ:
            width = len(sentence[0].cells)
        for line in sentence:
            if len(line.cells) != width:
                raise no_form(
                    f"{path}:{line.number}", f"has {len(line.cells)} columns, but lines before it have {width}"
                )
    return min(len(sentence[0].cells) for sentence in sentences)


def _check_words(sentences: Sequence[Sequence[Line]], path: str, word: int | None) -> None:
    """Refuse a first column without words, if no column is named (`word` is None), and cells with a space inside.

    A column counts or names the sentence if its cells never descend within a sentence, or are equal there.
    """
    lines = [*chain.from_iterable(sentences)]
    for line in lines:
        spaced = [cell for number, cell in enumerate(line.cells) if number != (word or 0) and " " in cell]
        if spaced:
            raise no_form(
                f"{path}:{line.number}",
                f"has '{spaced[0]:.60}' between tabs; separate all columns by tabs or by spaces",
            )
    first = [[line.cells[0] for line in sentence] for sentence in sentences]
    place = f"{path}:{lines[0].number}"
    if word and any(_is_of_conllu(before, after) for cells in first for before, after in pairwise(cells)):
        raise no_form(place, "has ranges of words or empty nodes of CoNLL-U; name the file .conllu")
    if word is not None or len(lines[0].cells) == 1:
        return
    if _counts(first):
        raise no_form(
            place,
            "has a first column that counts or names the sentence; number the columns of word and label from 0, "
            "for example --word_column 1 --label_column 2",
        )
    if _types(chain.from_iterable(first)):
        raise no_form(
            place, "has labels in the first column; name the columns with --word_column and --label_column 0"
        )


def _is_of_conllu(before: str, after: str) -> bool:
    """Return True for the number of a range and that of its first word, or of a word and of the empty node behind."""
    ranged, empty = WORD_NUMBER.fullmatch(before), WORD_NUMBER.fullmatch(after)
    return bool(ranged and ranged[2] and ranged[1] == after) or bool(empty and empty[2] and empty[1] == before)


def _counts(sentences: Sequence[Sequence[str]]) -> bool:
    """Return True if the cells of a column count words or name the sentence.

    Each value is that of lines which follow each other; or the cells are numbers that never descend in a sentence, or
    that count by one and begin anew.
    """
    cells = [*chain.from_iterable(sentences)]
    runs = [cell for cell, _ in groupby(cells)]
    if len(set(runs)) == len(runs) <= len(cells) / 2:
        return True
    if max(map(len, sentences)) < 2:
        return False
    matches = [[WORD_NUMBER.fullmatch(cell) for cell in sentence] for sentence in sentences]
    numbers = [[int(match[1]) for match in row if match] for row in matches]
    steps = [step for row in numbers for step in pairwise(row)]
    ascend = all(before <= after for before, after in steps)
    begin_anew = all(after == before + 1 or 0 <= after < min(before, 2) for before, after in steps)
    return all(map(all, matches)) and (ascend or begin_anew)


def _check_no_names(first: Line, label: int, sentences: Sequence[Sequence[Line]], path: str) -> None:
    """Refuse a first line that names the columns, which no other line has as its label."""
    other_labels = {line.cells[label] for line in chain.from_iterable(sentences) if line is not first}
    first_label = first.cells[label]
    is_name = first_label not in {*other_labels, OUTSIDE} and not LABEL.fullmatch(first_label)
    if is_name and WORD_NAMES & {cell.lower() for cell in first.cells}:
        raise no_form(
            f"{path}:{first.number}", f"names the columns ({' '.join(first.cells):.60}); leave this line out"
        )


def _check_one_column_of_labels(sentences: Sequence[Sequence[Line]], path: str, word: int, label: int) -> None:
    """Refuse a second column of the same labels, such as nested entities or predictions; chunks have other types."""
    lines = [*chain.from_iterable(sentences)]
    cells = [{line.cells[column] for line in lines} for column in range(min(len(line.cells) for line in lines))]
    label_kinds = _kinds(cells[label])
    label_columns = []
    for column in set(range(len(cells))) - {word, label}:
        kinds = _kinds(cells[column])
        are_entities = bool(_types(cells[column]))
        is_same = are_entities or OUTSIDE in cells[column]
        if label_kinds:
            is_same = bool(kinds) and (kinds <= label_kinds or kinds >= label_kinds)
        if kinds and (is_same or (are_entities and _types(cells[column]) & _types(cells[label]))):
            label_columns.append(column)
    if label_columns:
        raise no_form(
            f"{path}:{lines[0].number}",
            f"has labels in the columns {', '.join(map(str, [*label_columns, label]))}; choose one, "
            f"for example --label_column {label_columns[0]}",
        )


def _kinds(cells: Iterable[str]) -> set[str]:
    """Return the labels in a column, without their prefixes, without O and what stands for nothing."""
    return {match[2] if (match := LABEL.fullmatch(cell)) else cell for cell in cells} - {OUTSIDE, "_", "-"}


def _types(cells: Iterable[str]) -> set[str]:
    """Return the types of the labels in a column, such as PER of B-PER; none if the column has other cells, but O."""
    matches = [LABEL.fullmatch(cell) for cell in set(cells) - {OUTSIDE}]
    return {match[2] for match in matches if match} if all(matches) else set()


def as_columns(words: Sequence[Sequence[str]], *labels: Sequence[Sequence[str]]) -> str:
    """Return a text with a line for each word with its labels, and a blank line behind each sentence."""
    lines = []
    for columns in zip(words, *labels, strict=True):
        for cells in zip(*columns, strict=True):
            # White space inside a word would begin another column, and a blank word would end the sentence.
            written = [re.sub(r"[ \t\r\n]+", "_", cell.strip()) or "_" for cell in cells]
            lines.append(" ".join(written))
        lines.append("")
    return "\n".join(lines) + "\n"
