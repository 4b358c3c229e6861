"""Files of columns -> sentences of words with labels, and back.

columns   a line for each word. Of two columns, the first has the words and the second the labels; of more, as many
          corpora have them, the user numbers both. Only in files with lines that begin with -DOCSTART-, which is
          written before each document of CoNLL-2003, the word is always first and the label last. Columns are
          separated by tabs, if all lines have one, else by spaces and tabs. A blank line ends a sentence.
.conllu   CoNLL-U: the word is FORM, its label UPOS, or the column with the given number. Ranges of words, such as 1-2,
          and empty nodes, such as 1.1, are left out.

A line that begins with `#` and white space, before a sentence, is a comment, unless it has as many cells as other
lines.
"""

import logging
import re
from collections.abc import Sequence
from itertools import chain, dropwhile, groupby
from typing import NamedTuple

from electra.base.errors import where_is
from electra.core.errors import UserError
from electra.data.cells import PAGE
from electra.data.lines import extension_of, open_lines

logger = logging.getLogger(__name__)

DOCUMENT_START = "-DOCSTART-"
"""First word of the line that begins a document, as CoNLL-2003 writes it."""
CELLS = re.compile(r"[^ \t]+")  # not \S: U+00A0 and others occur within words
"""A cell of a line whose columns are separated by spaces and tabs."""
COMMENT = re.compile(r"#([ \t]|$)")
"""Beginning of a line that may be a comment."""
FORM_COLUMN, UPOS_COLUMN = 1, 3
"""Numbers of the columns of CoNLL-U with the word and its part of speech."""
WORD_NUMBER = re.compile(r"([0-9]+)([-.][0-9]+)?")
"""The number of a word of CoNLL-U, of a range of words, such as 3-4, or of an empty node, such as 5.1."""
LONGEST_SENTENCE = 1000
"""Words of a sentence above which a warning says that the blank lines between sentences are missing."""
FORMS_PAGE = (
    f"{PAGE} shows the forms; {where_is('examples/convert_annotations.py')} converts those of annotation tools"
)
"""Advice for a user whose data has none of the forms, the end of messages."""


class TaggedSentence(NamedTuple):
    """A sentence with the labels of its words.

    Args:
        place: file and line, row or sentence, for messages.
        labels: label of each word; None if the sentence has none.
        is_cut: whether a span, of which labels were made, begins or ends inside a word.
    """

    place: str
    words: list[str]
    labels: list[str] | None
    is_cut: bool = False


class Line(NamedTuple):
    """A line of a file of columns, with its number, from 1, and its text cut into cells."""

    number: int
    text: str
    cells: list[str]


def no_form(place: str, what: str) -> UserError:
    """Return the error for data that has none of the forms.

    Args:
        place: FILE:LINE, the beginning of the message.
        what: what is wrong there, words behind the place.
    """
    return UserError(f"{place} {what}; {FORMS_PAGE}")


def read_columns(
    path: str,
    label_column: str | int | None = None,
    word_column: str | int | None = None,
    *,
    needs_labels: bool = True,
) -> list[TaggedSentence]:
    """Return the sentences of a file of columns or of CoNLL-U.

    Args:
        label_column: number of the column of the labels, from 0, or from -1 at the end; None for the last column, in
            CoNLL-U for the part of speech.
        word_column: number of the column of the words, counted likewise; None for the first column, in CoNLL-U for
            FORM.
        needs_labels: whether a file without the column of the labels is refused; otherwise its sentences have none.
    Raises:
        UserError: the file has another form, or more than two columns whose numbers are not given.
    """
    is_universal = extension_of(path) == ".conllu"
    word = _number("word_column", word_column, FORM_COLUMN if is_universal else 0)
    label = _number("label_column", label_column, UPOS_COLUMN if is_universal else -1)
    texts = [line.rstrip("\r\n") for line in open_lines(path)]
    sentences = _read_sentences(texts)
    sentences = _words_of_conllu(sentences, path) if is_universal else _without_comments(sentences, path)
    if not sentences:
        raise no_form(path, "has no sentences")
    lines = [*chain.from_iterable(sentences)]
    width = _check_widths(lines, path)
    is_numbered = word_column is not None and (label_column is not None or not needs_labels)
    place = f"{path}:{lines[0].number}"
    if width > 2 and not (is_universal or is_numbered or any(text.startswith(DOCUMENT_START) for text in texts)):
        raise no_form(
            place, f"has {width} columns; number those of word and label, such as --word_column 0 --label_column 1"
        )
    chosen_columns = f"--word_column {word} and --label_column {label}"
    word, label = (column + width if column < 0 else column for column in (word, label))
    has_labels = label != word and 0 <= label < width
    if not 0 <= word < width or (needs_labels and not has_labels):
        raise no_form(place, f"has {width} columns; {chosen_columns} must be two of them, counted from 0")
    if has_labels and not is_universal:
        _check_labels(lines, path, word, label, is_numbered)
    for line in lines:
        if not line.cells[word] or (has_labels and not line.cells[label]):
            raise no_form(f"{path}:{line.number}", f"has no word in column {word}, or no label in column {label}")
    words = [[line.cells[word] for line in sentence] for sentence in sentences]
    labels = [[line.cells[label] for line in sentence] for sentence in sentences] if has_labels else None
    longest = max(sentences, key=len)
    if len(longest) > LONGEST_SENTENCE:
        logger.warning(
            "%s: the sentence at line %d has %d words; a blank line must end each sentence",
            path, longest[0].number, len(longest),
        )  # fmt: skip
    return [
        TaggedSentence(f"{path} sentence {number + 1}", sentence, labels[number] if labels else None)
        for number, sentence in enumerate(words)
    ]


def _number(option: str, column: str | int | None, default: int) -> int:
    """Return the number of a column that an option names; raise a UserError for a name."""
    try:
        return default if column is None else int(column)
    except ValueError as error:
        raise UserError(
            f"--{option} {column} must be a number for files of columns, counted from 0, or from -1 at the end"
        ) from error


# ---- lines


def _read_sentences(texts: Sequence[str]) -> list[list[Line]]:
    """Return the lines of each sentence, comments included, cut into cells."""
    is_by_tab = all("\t" in text for text in texts if _is_text(text) and not text.startswith("#"))
    sentences = []
    for is_text, group in groupby(enumerate(texts, start=1), key=lambda numbered: _is_text(numbered[1])):
        if is_text:
            sentences.append([Line(number, text, _cells(text, is_by_tab=is_by_tab)) for number, text in group])
    return sentences


def _is_text(text: str) -> bool:
    """Return False for a blank line and for the beginning of a document."""
    return bool(text.strip(" \t")) and not text.startswith(DOCUMENT_START)


def _cells(text: str, *, is_by_tab: bool) -> list[str]:
    """Return the cells of a line, without spaces around them."""
    return [cell.strip(" ") for cell in text.rstrip(" \t").split("\t")] if is_by_tab else CELLS.findall(text)


def _words_of_conllu(sentences: Sequence[Sequence[Line]], path: str) -> list[list[Line]]:
    """Return the lines of each sentence of a .conllu, without comments, ranges of words and empty nodes."""
    kept_sentences = []
    for sentence in sentences:
        lines = [line for line in sentence if not line.text.startswith("#")]
        for line in lines:
            if not WORD_NUMBER.fullmatch(line.cells[0]):
                raise no_form(f"{path}:{line.number}", f"begins with '{line.cells[0]:.40}', not the number of a word")
        kept_sentences.append([line for line in lines if line.cells[0].isdecimal()])
    return [*filter(None, kept_sentences)]


def _without_comments(sentences: Sequence[Sequence[Line]], path: str) -> list[list[Line]]:
    """Return the lines of each sentence without the comments before it; see the module's docstring."""
    width = next((len(line.cells) for line in chain.from_iterable(sentences) if not COMMENT.match(line.text)), 1)

    def is_comment(line: Line) -> bool:
        return len(line.cells) != width and COMMENT.match(line.text) is not None

    kept_sentences = [[*dropwhile(is_comment, sentence)] for sentence in sentences]
    count = sum(map(len, sentences)) - sum(map(len, kept_sentences))
    if count:
        logger.info("%s: %d lines with # are comments", path, count)
    return [*filter(None, kept_sentences)]


# ---- checks


def _check_widths(lines: Sequence[Line], path: str) -> int:
    """Return the number of columns; raise a UserError if lines differ in it, because labels would be shifted then."""
    width = len(lines[0].cells)
    for line in lines:
        if len(line.cells) != width:
            raise no_form(f"{path}:{line.number}", f"has {len(line.cells)} columns, but lines before it have {width}")
    return width


def _check_labels(lines: Sequence[Line], path: str, word: int, label: int, is_numbered: bool) -> None:
    """Raise a UserError for labels with a space, and for more different labels than words in columns without numbers.

    Args:
        word, label: numbers of the columns.
        is_numbered: whether the user has given these numbers.
    """
    for line in lines:
        if " " in line.cells[label]:
            raise no_form(
                f"{path}:{line.number}",
                f"has the label '{line.cells[label]:.60}'; separate all columns by tabs, or all by spaces",
            )
    words, labels = ({line.cells[column] for line in lines} for column in (word, label))
    if not is_numbered and len(labels) > len(words):
        raise no_form(
            f"{path}:{lines[0].number}",
            f"is of a file with {len(words)} different words and {len(labels)} labels; name the columns with "
            "--word_column and --label_column, counted from 0",
        )


def as_columns(words: Sequence[Sequence[str]], *labels: Sequence[Sequence[str]]) -> str:
    """Return a text with a line for each word and its labels, and a blank line behind each sentence.

    Args:
        words: words of each sentence.
        labels: one or more columns of labels, in the form of `words`.
    """
    lines = []
    for columns in zip(words, *labels, strict=True):
        for cells in zip(*columns, strict=True):
            # White space inside a word would begin another column, and a blank word would end the sentence.
            written_cells = [re.sub(r"[ \t\r\n]+", "_", cell.strip()) or "_" for cell in cells]
            lines.append(" ".join(written_cells))
        lines.append("")
    return "\n".join(lines) + "\n"
