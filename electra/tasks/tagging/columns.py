"""Files of columns <-> sentences of words with labels.

A line holds a word and its columns; a blank line ends a sentence; -DOCSTART- begins a document and is not a sentence.
Lines of different widths are refused, because a lost column would shift all labels after it. Recognised are a first
column that counts the words, a header line, comments before a sentence, and the ranges of words and empty nodes of
CoNLL-U; what is found is logged.
"""

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, pairwise
from typing import NamedTuple

from electra.io.errors import UserError
from electra.io.lines import form_of, open_lines
from electra.tasks.tagging.schemes import LABEL, OUTSIDE

logger = logging.getLogger(__name__)

DOCUMENT = "-DOCSTART-"
"""First word of the line that begins a document, as CoNLL-2003 writes it."""
CELLS = re.compile(r"[^ \t]+")  # not \S: U+00A0 and others occur within words
COMMENT = re.compile(r"#(\s|$|begin document|end document)")
GLOBAL_COLUMNS = re.compile(r"#\s*global\.columns\s*=\s*(.+)")
"""The comment that names the columns in CoNLL-U Plus."""
UNIVERSAL = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
"""Names of the columns of CoNLL-U."""
WORD_NAMES = frozenset(("word", "words", "token", "tokens", "form"))
"""Names of the column of words, in lower case."""
ENTITIES_OF_2012 = 10
"""Number of the column with the entities in files of CoNLL-2012, such as OntoNotes; more columns may follow."""
LONGEST_SENTENCE = 1000
"""Words; more say that the blank lines between sentences are missing."""
RANGE = re.compile(r"[0-9]+[-.][0-9]+")
"""The number of a range of words or of an empty node in CoNLL-U, such as 3-4 or 5.1."""


@dataclass(frozen=True)
class TaggedSentences:
    """The sentences of one split: words, and labels as in the source; None if there are no labels."""

    words: list[list[str]]
    labels: list[list[str]] | None

    def __len__(self) -> int:
        return len(self.words)


class Line(NamedTuple):
    number: int
    cells: list[str]


def read_columns(
    path: str,
    label_column: str | int | None = None,
    word_column: str | int | None = None,
    *,
    needs_labels: bool = True,
) -> TaggedSentences:
    """Return the sentences of a file whose columns are separated by spaces or tabs.

    Args:
        label_column: column of the labels: a number, from 0 or from the end, or a name in the header; None for the
            last column, in CoNLL-U for the part of speech.
        word_column: column of the words in the same form; None for the first column that does not count words.
        needs_labels: False to accept a file without the column of the labels, whose sentences then have no labels.
    """
    suffix = form_of(path)
    texts = [line.rstrip("\r\n") for line in open_lines(path)]
    if suffix == ".ann":
        raise UserError(f"{path} is brat's; write rows with a text and entities: [[start, end, label], ...] as jsonl")
    if texts and texts[0].startswith("#FORMAT=WebAnno"):
        raise UserError(f"{path} is WebAnno TSV; export the project as CoNLL 2002 or CoNLL-U")
    named = next((match[1].split() for match in map(GLOBAL_COLUMNS.match, texts) if match), None)
    is_universal = suffix == ".conllu"
    if label_column is None and any(text.startswith("#begin document") for text in texts):
        label_column = ENTITIES_OF_2012
        logger.info(
            "%s: the labels are the entities of CoNLL-2012, in column %d; see --label_column", path, label_column
        )
    sentences = _sentences(path, texts, is_universal or suffix == ".conllup", label_column)
    if not sentences:
        raise UserError(f"{path} has no sentences; name a file of words and labels")
    names = named or (list(UNIVERSAL) if is_universal else [])
    sentences, header = _without_header(sentences, path)
    names = header or names
    width = min(len(line.cells) for line in chain.from_iterable(sentences))
    word = _index(path, word_column, names, width, "word_column")
    if word is None:
        word = next((n for n, name in enumerate(names[:width]) if name.lower() in WORD_NAMES), None)
    if word is None:
        word = _column_of_words(sentences, width)
        if word:
            logger.info("%s: column %d counts, so the words are in column %d; see --word_column", path, word - 1, word)
    if not is_universal and word == 1:  # also of CoNLL-U by another name
        sentences = [[line for line in sentence if not RANGE.fullmatch(line.cells[0])] for sentence in sentences]
        sentences = [sentence for sentence in sentences if sentence]
        is_universal = width == len(UNIVERSAL) and not names
    label = _index(path, label_column, names, width, "label_column")
    if label is None:
        label = _default_label(path, sentences, names, is_universal, word)
    has_labels = label != word and 0 <= label < width
    if needs_labels and not has_labels:
        given = -1 if label_column is None else label_column
        raise UserError(f"{path} has {width} columns; --label_column {given} must name one beside that of the word")
    longest = max(sentences, key=len)
    if len(longest) > LONGEST_SENTENCE:
        logger.warning(
            "%s: the sentence at line %d has %d words; a blank line must end each sentence",
            path, longest[0].number, len(longest),
        )  # fmt: skip
    if word_column is None and has_labels and _holds_labels(sentences, word) and not _holds_labels(sentences, label):
        raise UserError(
            f"{path} has labels in column {word}, where words are expected; name the columns with --word_column and "
            f"--label_column {word}"
        )
    words = [[line.cells[word] for line in sentence] for sentence in sentences]
    for line in chain.from_iterable(sentences):
        if not line.cells[word]:
            raise UserError(f"{path} line {line.number} has no word in column {word}; correct it")
    labels = [[line.cells[label] for line in sentence] for sentence in sentences] if has_labels else None
    return TaggedSentences(words, labels)


def _sentences(
    path: str, texts: Sequence[str], is_universal: bool, label_column: str | int | None
) -> list[list[Line]]:
    """Return the lines of each sentence, cut into cells: at spaces and tabs if that gives one width, else at tabs."""
    has_tabs = all("\t" in text for text in texts if text.strip(" \t") and not text.startswith(("#", DOCUMENT)))
    is_by_tab = is_universal and any("\t" in text for text in texts)
    splits: list[Callable[[str], list[str]]] = [_by_tab] if is_by_tab else [CELLS.findall]
    if has_tabs and not is_universal:
        splits.append(_by_tab)
    uneven = ""
    for split in splits:
        groups = []
        for is_text, group in groupby(enumerate(texts, start=1), key=lambda one: _is_word(one[1])):
            if is_text:
                groups.append([Line(number, split(text)) for number, text in group])
        sentences = list(filter(None, _without_comments(groups, texts, is_universal)))
        found = _uneven(path, sentences, label_column)
        if not found:
            return sentences
        uneven = uneven or found
    raise UserError(uneven)


def _is_word(text: str) -> bool:
    """Return False for a blank line and for the beginning of a document."""
    cells = CELLS.findall(text)
    return bool(cells) and cells[0] != DOCUMENT


def _by_tab(text: str) -> list[str]:
    cells = [cell.strip(" ") for cell in text.split("\t")]
    return cells[:-1] if len(cells) > 1 and not cells[-1] else cells


def _without_comments(groups: list[list[Line]], texts: Sequence[str], is_universal: bool) -> list[list[Line]]:
    """Return the lines of each sentence without comments at its beginning.

    A line that begins like a comment, but has as many cells as others, is a word if its last cell is a label
    elsewhere.
    """
    if is_universal:
        return [
            [line for line in group if line.cells[0].isdecimal() or line.cells[0].lower() == "id"] for group in groups
        ]
    split_groups = []
    for lines in groups:
        count = 0
        while count < len(lines) and COMMENT.match(texts[lines[count].number - 1]):
            count += 1
        split_groups.append((lines[:count], lines[count:]))
    others = [line for _, rest in split_groups for line in rest] or [line for lines in groups for line in lines]
    width = len(others[0].cells) if others else 0
    labels = {line.cells[-1] for line in others}

    def is_word(line: Line) -> bool:
        last = line.cells[-1]
        return len(line.cells) == width and (last in labels or last == OUTSIDE or bool(LABEL.fullmatch(last)))

    return [[*filter(is_word, begun), *rest] for begun, rest in split_groups]


def _uneven(path: str, sentences: Sequence[Sequence[Line]], label_column: str | int | None) -> str:
    """Return a message if lines have different numbers of cells, otherwise "".

    Between sentences, the number may differ if the column is counted from the front, as in CoNLL-2009, which has a
    column for each predicate.
    """
    by_sentence = label_column is not None and str(label_column).isdecimal()
    width = len(sentences[0][0].cells) if sentences else 0
    are_even = all(len({len(line.cells) for line in sentence}) == 1 for sentence in sentences)
    advice = "count --label_column from the front, as for CoNLL-2009" if are_even and width > 2 else "correct it"
    for sentence in sentences:
        if by_sentence:
            width = len(sentence[0].cells)
        for line in sentence:
            if len(line.cells) != width:
                found = f"{path} line {line.number} has {len(line.cells)} columns"
                return f"{found}, but earlier lines have {width}; {advice}"
    return ""


def _without_header(sentences: list[list[Line]], path: str) -> tuple[list[list[Line]], list[str]]:
    """Return the sentences without a header, and the names of the columns in it; [] without a header."""
    first = sentences[0][0]
    others = {line.cells[-1] for sentence in sentences for line in sentence if line is not first}
    is_header = bool(WORD_NAMES & {cell.lower() for cell in first.cells}) and first.cells[-1] not in others
    if not is_header or len(first.cells) < 2 or LABEL.fullmatch(first.cells[-1]) or first.cells[-1] == OUTSIDE:
        return sentences, []
    logger.info("%s: line %d names the columns %s", path, first.number, ", ".join(first.cells))
    rest = [sentences[0][1:], *sentences[1:]]
    return [sentence for sentence in rest if sentence], first.cells


def _column_of_words(sentences: Sequence[Sequence[Line]], width: int) -> int:
    """Return the number of the first column behind one that counts the words, or 0.

    Before the column that counts, there may be some with one value in each sentence, such as the document's name.
    """
    for column in range(width - 1):
        if _counts(sentences, column, width):
            return column + 1
        if any(len({line.cells[column] for line in sentence}) > 1 for sentence in sentences):
            break
    return 0


def _counts(sentences: Sequence[Sequence[Line]], column: int, width: int) -> bool:
    """Return True if a column counts the words.

    The numbers of such a column ascend in each sentence. If there is only one other column, the numbers have no gaps,
    either: from 0 or 1 in each sentence, or from one sentence to the next.
    """
    if width < 2:
        return False
    found = []
    for sentence in sentences:
        cells = [line.cells[column] for line in sentence if not RANGE.fullmatch(line.cells[column])]
        if not all(cell.isascii() and cell.isdecimal() for cell in cells):
            return False
        found.append([int(cell) for cell in cells])
    if max(map(len, found)) < 2:
        return False
    if width > 2:
        return all(before < after for row in found for before, after in pairwise(row))
    whole = [*chain.from_iterable(found)]
    each = all(not row or (row == list(range(row[0], row[0] + len(row))) and row[0] in (0, 1)) for row in found)
    return each or whole == list(range(whole[0], whole[0] + len(whole)))


def _holds_labels(sentences: Sequence[Sequence[Line]], column: int) -> bool:
    """Return True if all cells of a column are labels of entities, such as B-PER, or O, and some are the former."""
    cells = {line.cells[column] for line in chain.from_iterable(sentences)} - {OUTSIDE}
    return bool(cells) and all(map(LABEL.fullmatch, cells))


def _index(path: str, given: str | int | None, names: Sequence[str], width: int, option: str) -> int | None:
    """Return the number of the column that a user gives by number or name; None if no column is given."""
    if given is None:
        return None
    lower = [name.lower() for name in names]
    if str(given).lower() in lower:
        return lower.index(str(given).lower())
    try:
        number = int(given)
    except ValueError as error:
        known = f"one of {', '.join(names)} or " if names else ""
        raise UserError(f"--{option} {given} must be {known}a number for files of columns, counted from 0") from error
    return number + width if number < 0 else number


def _default_label(
    path: str,
    sentences: Sequence[Sequence[Line]],
    names: Sequence[str],
    is_universal: bool,
    word: int,
) -> int:
    """Return the number of the column of labels by default: in CoNLL-U the part of speech, otherwise the last one.

    Raises:
        UserError: two columns have labels of the same types, as in files of nested entities.
    """
    if is_universal:
        return UNIVERSAL.index("UPOS")
    own = [number for number, name in enumerate(names) if name.upper() not in UNIVERSAL and number != word]
    if names and "UPOS" in names and len(own) != 1:
        return names.index("UPOS")
    lines = [*chain.from_iterable(sentences)]
    width = min(len(line.cells) for line in lines)
    types: dict[int, set[str]] = {}
    for column in range(width):
        cells = {line.cells[column] for line in lines}
        matches = [match for match in map(LABEL.fullmatch, cells) if match]
        if column != word and len(cells - {OUTSIDE}) == len(matches) and (matches or cells == {OUTSIDE}):
            types[column] = {match[2] for match in matches}
    last = own[0] if len(own) == 1 and "UPOS" in names else width - 1
    others = [column for column in types if column != last and types[column]]
    if last in types and any(not types[last] or types[last] & types[column] for column in others):
        raise UserError(
            f"{path} has labels of entities in the columns {', '.join(map(str, [*others, last]))}; choose one with "
            f"--label_column {others[0]}"
        )
    return last


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
