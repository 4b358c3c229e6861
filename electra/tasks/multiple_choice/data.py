"""Reads csv, tsv and jsonl files, or data sets of the Hub, as multiple-choice questions.

| kind | columns |
|---|---|
| SWAG | sent1, sent2, ending0, ending1 ...; label |
| HellaSwag | ctx, endings; label |
| general | question, optionally context; choices, or choice0, choice1 ..., or A, B, C ...; answer |
| ARC | question; choices as lists of text and label, or within the question: (A) one (B) two; answerKey |
| no header | question, choices, answer, in this order |

The number of choices may differ from row to row; empty choices are dropped. The context may also be called passage or
premise. Public copies have some invalid rows, such as an answer that names a fifth of four choices: these are counted
and left out of training and development sets. In a test set they are an error.
"""

import csv
import io
import json
import logging
import re
import string
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from electra.errors import UserError
from electra.files import expand
from electra.finetuning.sources import SPLITS, load_hub_splits

logger = logging.getLogger(__name__)

Row = Mapping[str, Any]

MAX_INVALID = 0.2
"""A file with a larger fraction of invalid rows is refused."""
ANSWER_COLUMNS = ("label", "answer", "answerkey", "answer_key", "gold", "correct")
"""In lower case. They hold letters, names of choices, or numbers, which `detect_numbering` tells how to read."""
CONTEXT_COLUMNS = ("context", "passage", "ctx", "article", "premise")
_MARKER = re.compile(r"\s*\(([A-Z1-9])\)\s*")
_NUMBERED = re.compile(r"(ending|choice|option|answer)_?(\d{1,3})")
_LETTER = re.compile(r"(?:choice_|option_)?([a-z])")
_NUMBER = re.compile(r"\d{1,9}")
LETTERS, DIGITS = string.ascii_uppercase, string.digits[1:]


class InvalidRow(ValueError):
    """A row is not a question; the message says why."""


class Question(NamedTuple):
    """A question, and the pair of texts that the encoder reads for each choice.

    Args:
        place: source and row, "FILE row 3"; rows count from 1, without the header.
        first: first text of all pairs: the context, or the question if there is no context.
        seconds: second text of each pair: the choice, after the question if there is a context.
        choices: text of each choice.
        names: name of each choice, as answers have it.
        answer: index of the correct choice; None if unknown.
    """

    place: str
    first: str
    seconds: list[str]
    choices: list[str]
    names: list[str]
    answer: int | None


class Numbering(NamedTuple):
    """The number of the first choice in the column `label`, and in other columns of answers."""

    label: int = 0
    other: int = 1


DEFAULT_NUMBERING = Numbering()


def parse_question(row: Row, place: str, numbering: Numbering = DEFAULT_NUMBERING) -> Question:
    """A row with named columns as a question.

    Raises:
        InvalidRow: there is no question, there are fewer than two choices, or the answer is not one of them.
    """
    cells = _normalized(row)
    context, question, names, choices = _texts_and_choices(cells)
    if not question and not context:
        raise InvalidRow("there is no question")
    kept = [i for i, choice in enumerate(choices) if choice]
    if len(kept) < 2:
        raise InvalidRow(f"{len(kept)} choices are not empty, expected 2 or more")
    column, written = _written_answer(cells)
    shown = names or (LETTERS if len(choices) <= len(LETTERS) else [str(i + 1) for i in range(len(choices))])
    answer = None
    if written not in ("", "-1"):
        position = _position(written, names, numbering.label if column == "label" else numbering.other)
        if position not in kept:
            raise InvalidRow(f"the answer '{written:.60}' is not one of {' '.join(shown[i] for i in kept)}")
        answer = kept.index(position)
    return Question(
        place,
        context or question,
        [f"{question} {choices[i]}" if context and question else choices[i] for i in kept],
        [choices[i] for i in kept],
        [shown[i] for i in kept],
        answer,
    )


def detect_numbering(rows: Iterable[Row]) -> Numbering:
    """Detects from the rows of all splits whether numbers in answers count from 0 or from 1.

    Labels count from 0, unless none is 0 and one is the number of its choices. Other columns count from 1, unless a 0
    occurs.
    """
    zeros = {True: False, False: False}
    is_label_beyond = False
    for row in rows:
        cells = _normalized(row)
        column, written = _written_answer(cells)
        zeros[column == "label"] |= written == "0"
        if column == "label" and not is_label_beyond and _NUMBER.fullmatch(written):
            try:
                _, _, names, choices = _texts_and_choices(cells)
            except InvalidRow:
                continue
            kept = [i for i, choice in enumerate(choices) if choice]
            is_label_beyond = bool(kept) and written not in names and int(written) == kept[-1] + 1
    return Numbering(1 if is_label_beyond and not zeros[True] else 0, 0 if zeros[False] else 1)


def _normalized(row: Row) -> dict[str, Any]:
    return {str(name).strip().lower(): value for name, value in row.items()}


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _written_answer(cells: Row) -> tuple[str, str]:
    """The column of the answer and its content; empty if there is none."""
    column = next((name for name in ANSWER_COLUMNS if cells.get(name) is not None), "")
    return column, _text(cells.get(column))


def _texts_and_choices(cells: Row) -> tuple[str, str, list[str], list[str]]:
    """Context and question, of which one may be empty; names of the choices, if they have names; their texts."""
    names, choices = _choices(cells)
    if cells.get("sent1") is not None:
        context, question = _text(cells["sent1"]), _text(cells.get("sent2"))
    else:
        context = next((_text(cells[name]) for name in CONTEXT_COLUMNS if cells.get(name) is not None), "")
        asked = cells.get("question")
        question = _text(asked.get("stem") if isinstance(asked, Mapping) else asked)
    if not choices:
        question, names, choices = _choices_within(question)
    return context, question, names, choices


def _choices(cells: Row) -> tuple[list[str], list[str]]:
    """Names and texts of the choices that have their own columns. There are no names if only their order counts.

    A choice that is null keeps its place.
    """
    question = cells.get("question")
    inner = question.get("choices") if isinstance(question, Mapping) else None
    found = next((c for c in (*map(cells.get, ("choices", "endings", "options")), inner) if c is not None), None)
    if isinstance(found, Mapping):
        return _named_choices(found.get("label"), found.get("text"))
    if isinstance(found, Sequence) and not isinstance(found, str):
        if any(isinstance(choice, Mapping) for choice in found):
            pairs = [choice if isinstance(choice, Mapping) else {} for choice in found]
            return _named_choices([pair.get("label") for pair in pairs], [pair.get("text") for pair in pairs])
        return [], [_text(choice) for choice in found]
    numbered = sorted((int(m[2]), name) for name in cells if (m := _NUMBERED.fullmatch(name)))
    if numbered:
        if [number for number, _ in numbered] != list(range(numbered[0][0], numbered[0][0] + len(numbered))):
            raise InvalidRow(f"the columns {' '.join(name for _, name in numbered)} do not have each number once")
        return [], [_text(cells[name]) for _, name in numbered]
    lettered = sorted((m[1].upper(), name) for name in cells if (m := _LETTER.fullmatch(name)))
    return [letter for letter, _ in lettered], [_text(cells[name]) for _, name in lettered]


def _named_choices(labels: Any, texts: Any) -> tuple[list[str], list[str]]:
    if not isinstance(labels, list | tuple) or not isinstance(texts, list | tuple):
        raise InvalidRow("the choices have no lists 'label' and 'text'")
    if len(labels) != len(texts) or None in labels:
        num_labels = sum(label is not None for label in labels)
        raise InvalidRow(f"the choices have {num_labels} labels and {len(texts)} texts")
    return [_text(label) for label in labels], [_text(text) for text in texts]


def _choices_within(question: str) -> tuple[str, list[str], list[str]]:
    """`Which? (A) this (B) that` -> the question without its choices, their names and texts.

    Choices are marked A, B, C ... or 1, 2, 3 ... up to the end; earlier markers belong to the question.
    """
    markers = list(_MARKER.finditer(question))
    names = [marker[1] for marker in markers]
    for first in reversed(range(len(names) - 1)):
        if any("".join(names[first:]) == row[: len(names) - first] for row in (LETTERS, DIGITS)):
            ends = [*(marker.start() for marker in markers[first + 1 :]), len(question)]
            texts = [question[m.end() : end].strip() for m, end in zip(markers[first:], ends, strict=True)]
            return question[: markers[first].start()].strip(), names[first:], texts
    if len(names) > 1:
        raise InvalidRow(f"the choices are marked {' '.join(names)}, expected A B C ... or 1 2 3 ...")
    return question, [], []


def _position(written: str, names: Sequence[str], first_number: int) -> int | None:
    """The choice that an answer names, which need not exist; None for a letter or number that is not among such names.

    Args:
        names: as the row has them; empty if only the order of the choices counts.
    """
    for name in (written, written.upper(), written.lower()):
        if name in names:
            return names.index(name)
    if _NUMBER.fullmatch(written):
        return None if any(_NUMBER.fullmatch(name) for name in names) else int(written) - first_number
    if re.fullmatch(r"[A-Za-z]", written):
        return None if any(re.fullmatch(r"[A-Za-z]", name) for name in names) else LETTERS.index(written.upper())
    raise InvalidRow(f"the answer '{written:.60}' is neither a letter nor a number")


def load_splits(
    files: Mapping[str, Sequence[str]], dataset_name: str | None, config: str | None
) -> dict[str, list[Question]]:
    """The splits train, dev and, if there is one, test.

    Args:
        files: paths by split, `.csv`, `.tsv` or `.jsonl`.
        dataset_name, config: data set on the Hub, or a folder that `datasets` opens; used instead of files.

    Raises:
        UserError: the data cannot be read, has too many invalid rows, or lacks answers for training or development.
    """
    if dataset_name is None:
        tables = {split: [(path, _read_rows(path)) for path in paths] for split, paths in files.items() if paths}
    else:
        tables = {
            split: [(f"{dataset_name} {SPLITS[split]}", list(table))]
            for split, table in load_hub_splits(dataset_name, config).items()
        }
    numbering = detect_numbering(row for sources in tables.values() for _, rows in sources for row in rows)
    if numbering.label == 1:
        logger.warning("no label is 0, and one is the number of its choices: labels are counted from 1")
    splits = {
        split: [question for source, rows in sources for question in _parse_all(rows, source, split, numbering)]
        for split, sources in tables.items()
    }
    for split, found in splits.items():
        if split != "test" and (row := next((q for q in found if q.answer is None), None)):
            raise UserError(f"{row.place} has no answer, which {split} needs; correct the file")
    return splits


def _parse_all(rows: Sequence[Row], source: str, split: str, numbering: Numbering) -> list[Question]:
    if not rows:
        raise UserError(f"{source} has no rows; name a file of questions")
    found: list[Question] = []
    invalid: list[str] = []
    for number, row in enumerate(rows, start=1):
        place = f"{source} row {number}"
        try:
            found.append(parse_question(row, place, numbering))
        except InvalidRow as error:
            invalid.append(f"{place}: {error}")
    if invalid and (split == "test" or len(invalid) > MAX_INVALID * len(rows)):
        raise UserError(f"{invalid[0]} ({len(invalid)} of {len(rows)} rows are invalid); correct the file")
    if invalid:
        logger.warning("%s: %d of %d rows are left out, such as %s", source, len(invalid), len(rows), invalid[0])
    return found


def _read_rows(path: str) -> list[Row]:
    suffix = Path(path).suffix.lower()
    try:
        text = expand(path).read_text(encoding="utf-8-sig")
        if suffix in (".jsonl", ".json"):
            return _json_rows(text, path)
        delimiter = "\t" if suffix == ".tsv" else ","
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        return _table_rows([cells for cells in reader if cells], path)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"cannot read {path}: {error}") from error


def _table_rows(lines: list[list[str]], path: str) -> list[Row]:
    width = len(lines[0]) if lines else 0
    names = [cell.strip().lower() for cell in lines[0]] if lines else []
    has_header = not {"question", "sent1", "ctx", "context", "premise"}.isdisjoint(names)
    rows = lines[1:] if has_header else lines
    duplicate = next((name for name in names if name and names.count(name) > 1), None)
    if has_header and duplicate is not None:
        raise UserError(f"{path} has two columns {duplicate}; remove one of them")
    for number, cells in enumerate(rows, start=1):
        if len(cells) != width:
            first = "header" if has_header else "first row"
            raise UserError(f"{path} row {number} has {len(cells)} columns and the {first} {width}; correct it")
    if has_header:
        return [dict(zip(lines[0], cells, strict=True)) for cells in rows]
    if 0 < width < 4:
        raise UserError(
            f"{path} has {width} columns; without a header, expected a question, two or more choices and the answer"
        )
    return [without_header(cells) for cells in rows]


def without_header(cells: Sequence[str]) -> Row:
    """A line of a file without a header as a row with named columns."""
    return {"question": cells[0], "choices": list(cells[1:-1]), "answer": cells[-1]}


def _json_rows(text: str, path: str) -> list[Row]:
    rows: list[Row] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise UserError(f"{path} line {number} is not json: {error}; each line holds one question") from error
        if not isinstance(row, dict):
            raise UserError(f"{path} line {number} holds a {type(row).__name__}, expected an object")
        rows.append(row)
    return rows
