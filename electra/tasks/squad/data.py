"""Reads SQuAD's JSON, or a data set with the same columns, as questions on paragraphs.

Version 2.0 is recognised by questions without an answer or with `is_impossible`.
"""

import json
import logging
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from electra.finetuning.encoding import load_hub_splits
from electra.io.errors import UserError
from electra.io.files import expand, is_encodable

logger = logging.getLogger(__name__)

NEARBY = 50
"""An answer is searched for up to this many characters away from its given position."""


@dataclass(frozen=True)
class Question:
    id: str
    text: str
    paragraph: int  # its index
    answers: tuple[str, ...]  # texts of all correct answers, in the file's order; empty if the question has none
    start: int | None  # first character of the first answer in the paragraph; None without an answer


@dataclass(frozen=True)
class Questions:
    """The questions of one split."""

    paragraphs: list[str]
    questions: list[Question]
    is_version_2: bool
    source: str  # file or data set, for messages

    def __len__(self) -> int:
        return len(self.questions)

    @cached_property
    def references(self) -> dict[str, tuple[str, ...]]:
        """Id of each question -> its correct answers."""
        return {question.id: question.answers for question in self.questions}


def read_questions(path: str | Path) -> Questions:
    """Reads SQuAD's JSON, version 1.1 or 2.0."""
    return _parse(read_json(path), str(path))


def load_dataset_questions(name: str) -> dict[str, Questions]:
    """The splits `train` and `dev` of a data set with SQuAD's columns: a Hub id, or a folder saved by `datasets`."""
    tables = load_hub_splits(name, None)
    paragraphs = {split: [{**row, "qas": [row]} for row in tables[split]] for split in ("train", "dev")}
    return {split: _parse({"data": [{"paragraphs": p}]}, f"{name} ({split})") for split, p in paragraphs.items()}


def read_json(path: str | Path) -> Any:
    try:
        return json.loads(expand(path).read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path} as JSON: {error}") from error


def _parse(content: Any, source: str) -> Questions:
    paragraphs: dict[str, int] = {}
    questions: dict[str, Question] = {}
    is_version_2 = False
    try:
        for paragraph in chain.from_iterable(article["paragraphs"] for article in content["data"]):
            for values in paragraph["qas"]:
                answers = [] if values.get("is_impossible") else values["answers"]
                if isinstance(answers, dict):  # data sets have lists of texts and of positions
                    pairs = zip(answers["text"], answers["answer_start"], strict=True)
                    answers = [{"text": text, "answer_start": start} for text, start in pairs]
                texts = [values["question"], paragraph["context"], *(answer["text"] for answer in answers)]
                if not all(isinstance(text, str) and is_encodable(text) for text in texts):
                    raise TypeError("a question, context or answer is not Unicode text")
                is_version_2 |= "is_impossible" in values or not answers
                if values["id"] in questions:
                    raise ValueError(f"two questions have the id {values['id']}")
                questions[values["id"]] = Question(
                    id=values["id"],
                    text=values["question"],
                    paragraph=paragraphs.setdefault(paragraph["context"], len(paragraphs)),
                    answers=tuple(answer["text"] for answer in answers),
                    start=int(answers[0]["answer_start"]) if answers else None,
                )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(
            f"{source} is not in SQuAD's format: {type(error).__name__} {error}, after {len(questions)} questions"
        ) from error
    if not questions:
        raise UserError(f"{source} has no questions; name other data")
    return Questions(list(paragraphs), list(questions.values()), is_version_2, source)


def align_answers(data: Questions) -> Questions:
    """Corrects the positions of answers, and drops questions whose first answer is not found.

    An answer that is not at its given position is taken from where its text occurs, if it occurs exactly once at most
    `NEARBY` characters away. Logs how many were moved and dropped.
    """
    kept, moved = [], 0
    for question in data.questions:
        if question.start is not None:
            paragraph, answer = data.paragraphs[question.paragraph], question.answers[0]
            if not answer.strip():
                continue
            if question.start < 0 or not paragraph.startswith(answer, question.start):
                first = max(0, question.start - NEARBY)
                around = paragraph[first : max(0, question.start + len(answer) + NEARBY)]
                place = around.find(answer)
                if place < 0 or around.find(answer, place + 1) >= 0:
                    continue
                question = replace(question, start=first + place)
                moved += 1
        kept.append(question)
    dropped = len(data) - len(kept)
    if moved or dropped:
        logger.warning(
            "%s: %d answers are not at their given position: %d found nearby, %d questions left out",
            data.source, moved + dropped, moved, dropped,
        )  # fmt: skip
    if dropped and not any(question.answers for question in kept):
        raise UserError(f"{data.source}: no answer is at its given position; do the positions belong to other text?")
    return replace(data, questions=kept)
