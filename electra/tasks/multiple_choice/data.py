"""Reads csv, tsv and jsonl files, or data sets of the Hub, as multiple-choice questions.

docs/multiple_choice.md lists the columns of SWAG, HellaSwag, ARC and files without a header. The number of choices may
differ from row to row; empty choices are dropped. Public copies have some invalid rows, such as an answer that names a
fifth of four choices: they are counted and left out of training and development sets. In a test set they are an error.
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

from electra.finetuning.encoding import SPLITS, load_hub_splits
from electra.io.errors import UserError
from electra.io.files import expand

logger = logging.getLogger(__name__)

Row = Mapping[str, Any]

MAX_INVALID = 0.2
"""A file with a larger fraction of invalid rows is refused."""
ANSWER_COLUMNS = ("label", "answer", "answerkey", "answer_key", "gold", "correct")
"""In lower case. They hold letters, names of choices, or numbers."""
CONTEXT_COLUMNS = ("context", "passage", "ctx", "article", "premise")
_MARKER = re.compile(r"\s*\(([A-Z1-9])\)\s*")
_NUMBERED = re.compile(r"(ending|choice|option|answer)_?(\d{1,3})")
_LETTERED = re.compile(r"(?:choice_|option_)?([a-z])")
_NUMBER = re.compile(r"\d{1,9}")
_LETTER = re.compile(r"[A-Za-z]")
LETTERS, DIGITS = string.ascii_uppercase, string.digits[1:]


class InvalidRow(ValueError):
    """A row is not a question; the message says why."""


class Question(NamedTuple):
    """A question, and the pair of texts that the encoder reads for each choice."""

    place: str  # source and row, "FILE row 3"; rows count from 1, without the header
    first: str  # first text of all pairs: the context, or the question if there is no context
    seconds: list[str]  # second text of each pair: the choice, after the question if there is a context
    choices: list[str]
    names: list[str]  # of the choices, as answers have them
    answer: int | None  # index of the correct choice, if known


def parse_question(row: Row, place: str, first_number: int = 1) -> Question:
    """A row with named columns as a question.

    Args:
        first_number: what an answer calls the first choice if it is a number; in the column `label` always 0.
    Raises:
        InvalidRow: there is no question, there are fewer than two choices, or the answer is not one of them.
    """
    cells = _cells(row)
    context, question, names, choices = _texts_and_choices(cells)
    if not question and not context:
        raise InvalidRow("there is no question")
    kept = [i for i, choice in enumerate(choices) if choice]
    if len(kept) < 2 or len(names) not in (0, len(choices)):
        raise InvalidRow(f"{len(kept)} choices are not empty and {len(names)} have labels, expected 2 or more")
    column, written = _answer(cells)
    shown = names or (LETTERS if len(choices) <= len(LETTERS) else [str(i + 1) for i in range(len(choices))])
    answer = None
    if written not in ("", "-1"):
        position = _position(written, names, 0 if column == "label" else first_number)
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


def _cells(row: Row) -> dict[str, Any]:
    """The cells by name in lower case; a question with its choices within one cell is taken apart."""
    cells = {str(name).strip().lower(): value for name, value in row.items()}
    question = cells.get("question")
    if isinstance(question, Mapping):
        cells |= {"question": question.get("stem"), "choices": question.get("choices")}
    return cells


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _answer(cells: Row) -> tuple[str, str]:
    """The column of the answer and its content; empty if there is none."""
    column = next((name for name in ANSWER_COLUMNS if cells.get(name) is not None), "")
    return column, _text(cells.get(column))


def _texts_and_choices(cells: Row) -> tuple[str, str, list[str], list[str]]:
    """Context and question, of which one may be empty; names of the choices, if they have names; their texts.

    A choice that is null keeps its place.
    """
    if cells.get("sent1") is not None:
        context, question = _text(cells["sent1"]), _text(cells.get("sent2"))
    else:
        context = next((_text(cells[name]) for name in CONTEXT_COLUMNS if cells.get(name) is not None), "")
        question = _text(cells.get("question"))
    found = next((cells[name] for name in ("choices", "endings", "options") if cells.get(name) is not None), None)
    names: Iterable[Any] = ()
    if isinstance(found, Mapping):  # lists of labels and texts
        names, texts = found.get("label") or (), found.get("text") or ()
    elif isinstance(found, Sequence) and not isinstance(found, str):
        is_named = all(isinstance(choice, Mapping) for choice in found)
        names = [choice["label"] for choice in found if choice.get("label") is not None] if is_named else ()
        texts = [choice.get("text") for choice in found] if is_named else found
    elif numbered := sorted((int(m[2]), name) for name in cells if (m := _NUMBERED.fullmatch(name))):
        texts = [cells[name] for _, name in numbered]
    elif lettered := sorted((m[1].upper(), name) for name in cells if (m := _LETTERED.fullmatch(name))):
        names, texts = [letter for letter, _ in lettered], [cells[name] for _, name in lettered]
    else:
        return context, *_choices_within(question)
    return context, question, list(map(_text, names)), list(map(_text, texts))


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
    return question, [], []


def _position(written: str, names: Sequence[str], first_number: int) -> int | None:
    """The choice that an answer names, which need not exist; None if it names none."""
    for name in (written, written.upper(), written.lower()):
        if name in names:
            return names.index(name)
    if _NUMBER.fullmatch(written) and not any(map(_NUMBER.fullmatch, names)):
        return int(written) - first_number
    if _LETTER.fullmatch(written) and not any(map(_LETTER.fullmatch, names)):
        return LETTERS.index(written.upper())
    return None


def load_splits(
    files: Mapping[str, Sequence[str]], dataset_name: str | None, config: str | None
) -> dict[str, list[Question]]:
    """The splits train, dev and, if there is one, test, from files by split or from a data set."""
    if dataset_name is None:
        tables = {split: [(path, _read_rows(path)) for path in paths] for split, paths in files.items() if paths}
    else:
        tables = {
            split: [(f"{dataset_name} {SPLITS[split]}", list(table))]
            for split, table in load_hub_splits(dataset_name, config).items()
        }
    answers = [_answer(_cells(row)) for sources in tables.values() for _, rows in sources for row in rows]
    # Answers count from 1, unless a 0 occurs in any split.
    first_number = 0 if any(written == "0" for column, written in answers if column != "label") else 1
    splits = {
        split: [question for source, rows in sources for question in _parse_all(rows, source, split, first_number)]
        for split, sources in tables.items()
    }
    for split, found in splits.items():
        if split != "test" and (row := next((q for q in found if q.answer is None), None)):
            raise UserError(f"{row.place} has no answer, which {split} needs; correct the file")
    return splits


def _parse_all(rows: Sequence[Row], source: str, split: str, first_number: int) -> list[Question]:
    if not rows:
        raise UserError(f"{source} has no rows; name a file of questions")
    found: list[Question] = []
    invalid: list[str] = []
    for number, row in enumerate(rows, start=1):
        place = f"{source} row {number}"
        try:
            found.append(parse_question(row, place, first_number))
        except InvalidRow as error:
            invalid.append(f"{place}: {error}")
    if invalid and (split == "test" or len(invalid) > MAX_INVALID * len(rows)):
        raise UserError(f"{invalid[0]} ({len(invalid)} of {len(rows)} rows are invalid); correct the file")
    if invalid:
        logger.warning("%s: %d of %d rows are left out, such as %s", source, len(invalid), len(rows), invalid[0])
    return found


def _read_rows(path: str) -> list[Row]:
    suffix = Path(path).suffix.lower()
    rows: list[Row] = []
    try:
        text = expand(path).read_text(encoding="utf-8-sig")
        if suffix in (".jsonl", ".json"):
            for line in filter(str.strip, text.split("\n")):
                rows.append(dict(json.loads(line)))
            return rows
        reader = csv.reader(io.StringIO(text, newline=""), delimiter="\t" if suffix == ".tsv" else ",", strict=True)
        lines = [cells for cells in reader if cells]
    except (OSError, ValueError, TypeError, csv.Error) as error:
        raise UserError(f"cannot read {path} after row {len(rows)}: {error}; each row holds one question") from error
    header = [cell.strip().lower() for cell in lines[0]] if lines else []
    has_header = not {"question", "sent1", "ctx", "context", "premise"}.isdisjoint(header)
    lines = lines[1:] if has_header else lines
    for number, cells in enumerate(lines, start=1):
        if len(cells) != len(header):
            raise UserError(f"{path} row {number} has {len(cells)} columns, expected {len(header)}; correct it")
    if has_header:
        return [dict(zip(header, cells, strict=True)) for cells in lines]
    return [{"question": cells[0], "choices": cells[1:-1], "answer": cells[-1]} for cells in lines]
