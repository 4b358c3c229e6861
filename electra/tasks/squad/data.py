"""Reads SQuAD's json, or a data set with the same columns, as questions on paragraphs.

Version 2.0 is recognised by questions without an answer or with `is_impossible`. Answers are positions in the
paragraph; those that are not at the position given by the file are not used for training.
"""

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from electra.errors import UserError
from electra.files import expand
from electra.finetuning.sources import load_hub_splits

logger = logging.getLogger(__name__)

NEARBY = 50
"""An answer is searched for up to this many characters away from its given position."""


@dataclass(frozen=True)
class Question:
    """A question on a paragraph.

    Args:
        paragraph: index of its paragraph.
        answers: texts of all correct answers, in the file's order; empty if the question has none.
        start: first character of the first answer in the paragraph; None without an answer.
    """

    id: str
    text: str
    paragraph: int
    answers: tuple[str, ...]
    start: int | None


@dataclass(frozen=True)
class Questions:
    """The questions of one split, and their paragraphs.

    Args:
        is_version_2: whether questions may have no answer.
        source: file or data set, for messages.
    """

    paragraphs: list[str]
    questions: list[Question]
    is_version_2: bool
    source: str

    def __post_init__(self) -> None:
        if not self.questions:
            raise UserError(f"{self.source} has no questions")
        seen: set[str] = set()
        for question in self.questions:
            if question.id in seen:
                raise UserError(f"{self.source} has two questions with the id {question.id}")
            seen.add(question.id)

    def __len__(self) -> int:
        return len(self.questions)

    @property
    def references(self) -> dict[str, tuple[str, ...]]:
        """Id of each question -> its correct answers."""
        return {question.id: question.answers for question in self.questions}


def read_questions(path: Path) -> Questions:
    """Reads SQuAD's json, version 1.1 or 2.0.

    Raises:
        UserError: the file cannot be read, or a value is missing or of the wrong type; the message says where.
    """
    paragraphs: list[str] = []
    questions: list[Question] = []
    is_version_2 = False
    for article_place, article in _items(read_json(path), "data", str(path)):
        for place, paragraph in _items(article, "paragraphs", article_place):
            paragraphs.append(_value(paragraph, "context", str, place))
            for question_place, question in _items(paragraph, "qas", place):
                questions.append(_question(question, len(paragraphs) - 1, question_place))
                is_version_2 |= "is_impossible" in question or not questions[-1].answers
    return Questions(paragraphs, questions, is_version_2, str(path))


def load_dataset_questions(name: str) -> dict[str, Questions]:
    """The splits `train` and `dev` of a data set with SQuAD's columns: a Hub id, or a folder saved by `datasets`.

    Raises:
        UserError: it cannot be loaded, or a split or column is missing.
    """
    tables = load_hub_splits(name, None)
    return {split: _questions_of_table(tables[split], f"{name} ({split})") for split in ("train", "dev")}


def _questions_of_table(table: Any, source: str) -> Questions:
    """A table with the columns id, context, question and answers (text, answer_start)."""
    missing = [c for c in ("id", "context", "question", "answers") if c not in table.column_names]
    if missing:
        raise UserError(f"{source} has no column {missing[0]}; its columns are {' '.join(table.column_names)}")
    paragraphs: dict[str, int] = {}
    questions = []
    for row, values in enumerate(table):
        place = f"{source} row {row}"
        paragraph = paragraphs.setdefault(_value(values, "context", str, place), len(paragraphs))
        texts, starts = (_value(values["answers"], key, list, place) for key in ("text", "answer_start"))
        if len(texts) != len(starts):
            raise UserError(f"{place} has {len(texts)} answer texts and {len(starts)} answer_start; correct the data")
        answers = [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)]
        questions.append(_question({**values, "answers": answers}, paragraph, place))
    return Questions(list(paragraphs), questions, any(not question.answers for question in questions), source)


def align_answers(data: Questions) -> Questions:
    """Corrects the positions of answers, and drops questions whose first answer is not found.

    An answer that is not at its given position is taken from where its text occurs, if it occurs exactly once at most
    `NEARBY` characters away. Logs how many were moved and dropped.
    """
    kept, moved = [], 0
    for question in data.questions:
        if question.start is None:
            kept.append(question)
            continue
        start = _find(data.paragraphs[question.paragraph], question.answers[0], question.start)
        if start is not None:
            moved += start != question.start
            kept.append(replace(question, start=start))
    dropped = len(data.questions) - len(kept)
    if moved or dropped:
        logger.warning(
            "%s: %d answers are not at their given position: %d found nearby, %d questions left out",
            data.source, moved + dropped, moved, dropped,
        )  # fmt: skip
    if not any(question.answers for question in kept) and any(question.answers for question in data.questions):
        raise UserError(f"{data.source}: no answer is at its given position; do the positions belong to other text?")
    return replace(data, questions=kept)


def _find(paragraph: str, answer: str, start: int) -> int | None:
    if not answer.strip():
        return None
    if start >= 0 and paragraph.startswith(answer, start):
        return start
    first = max(0, start - NEARBY)
    around = paragraph[first : max(0, start + len(answer) + NEARBY)]
    place = around.find(answer)
    return first + place if place >= 0 and around.find(answer, place + 1) < 0 else None


def _question(values: Any, paragraph: int, place: str) -> Question:
    answers = [
        (_value(answer, "text", str, where), _value(answer, "answer_start", int, where))
        for where, answer in _items(values, "answers", place)
    ]
    if "is_impossible" in values and _value(values, "is_impossible", bool, place):
        answers = []
    return Question(
        id=_value(values, "id", str, place),
        text=_value(values, "question", str, place),
        paragraph=paragraph,
        answers=tuple(text for text, _ in answers),
        start=answers[0][1] if answers else None,
    )


def read_json(path: Path) -> Any:
    """The content of a json file.

    Raises:
        UserError: it cannot be read, or is not json.
    """
    try:
        return json.loads(expand(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise UserError(f"{path} is not json: {error}") from error


_KINDS = {str: "a text", int: "a whole number", list: "a list", bool: "true or false"}


def _value(values: Any, key: str, kind: type, place: str) -> Any:
    value = values.get(key) if isinstance(values, Mapping) else None
    if not isinstance(value, kind) or isinstance(value, bool) != (kind is bool):
        found = f"'{key}' is {value!r:.60}" if value is not None else f"there is no '{key}'"
        raise UserError(f"{place}: {found}, expected {_KINDS[kind]} as in SQuAD's json")
    return value


def _items(values: Any, key: str, place: str) -> Iterator[tuple[str, Any]]:
    """The items of a list, each with its place for messages."""
    for index, item in enumerate(_value(values, key, list, place)):
        yield f"{place} {key}[{index}]", item
