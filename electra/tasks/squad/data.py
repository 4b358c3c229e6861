"""Reads SQuAD's JSON, or a data set with the same columns, as questions on paragraphs.

Version 2.0 is recognised by questions without an answer or with `is_impossible`.
"""

import json
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from electra.finetuning.sources import files_by_split, rows_by_split
from electra.io.errors import UserError
from electra.io.files import expand
from electra.io.text import is_encodable


class SquadQuestion(NamedTuple):
    id: str
    text: str
    paragraph: int  # its index
    answers: tuple[str, ...]  # texts of all correct answers, in the file's order; empty if the question has none
    start: int | None  # first character of the first answer in the paragraph; None without an answer


@dataclass(frozen=True)
class Questions:
    """The questions of one split."""

    paragraphs: list[str]
    questions: list[SquadQuestion]
    is_version_2: bool
    source: str  # file or data set, for messages

    def __len__(self) -> int:
        return len(self.questions)

    @cached_property
    def references(self) -> dict[str, tuple[str, ...]]:
        """Map the id of each question to its correct answers."""
        return {question.id: question.answers for question in self.questions}


def read_questions(path: str | Path) -> Questions:
    """Read SQuAD's JSON, version 1.1 or 2.0."""
    try:
        content = json.loads(expand(path).read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"cannot read {path} as JSON: {error}") from error
    return _parse(content, str(path))


def load_questions(options: Any) -> dict[str, Questions]:
    """Load the splits `train` and `dev` of files, or of a data set with SQuAD's columns."""
    if options.dataset_name is None:
        return {split: read_questions(path) for split, (path,) in files_by_split(options).items()}
    rows = rows_by_split(options, names_classes=False)
    loaded = {}
    for split in ("train", "dev"):
        paragraphs = [{**row, "qas": [row]} for _, row in rows[split]]
        loaded[split] = _parse({"data": [{"paragraphs": paragraphs}]}, f"{options.dataset_name} ({split})")
    return loaded


def _parse(content: Any, source: str) -> Questions:
    paragraphs: dict[str, int] = {}
    questions: dict[str, SquadQuestion] = {}
    is_version_2 = False
    try:
        for paragraph in chain.from_iterable(article["paragraphs"] for article in content["data"]):
            for values in paragraph["qas"]:
                answers = [] if values.get("is_impossible") else values["answers"]
                if isinstance(answers, dict):  # data sets have lists of texts and of positions
                    pairs = zip(answers["text"], answers["answer_start"], strict=True)
                    answers = [{"text": text, "answer_start": start} for text, start in pairs]
                texts = [answer["text"] for answer in answers]
                found = (values["question"], paragraph["context"], *texts)
                if not all(isinstance(text, str) and is_encodable(text) for text in found):
                    raise TypeError(f"question {values['id']} or its context or answer is no text")
                is_version_2 |= "is_impossible" in values or not answers
                if values["id"] in questions:
                    raise ValueError(f"two questions have the id {values['id']}")
                questions[values["id"]] = SquadQuestion(
                    id=values["id"],
                    text=values["question"],
                    paragraph=paragraphs.setdefault(paragraph["context"], len(paragraphs)),
                    answers=tuple(texts),
                    start=int(answers[0]["answer_start"]) if answers else None,
                )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{source} is not in SQuAD's format: {error!r}, after {len(questions)} questions") from error
    if not questions:
        raise UserError(f"{source} has no questions; name other data")
    return Questions(list(paragraphs), list(questions.values()), is_version_2, source)


def check_answers(data: Questions) -> None:
    """Refuse training data in which an answer is empty or not at its given position."""
    for question in data.questions:
        if question.start is None:
            continue
        answer = question.answers[0]
        paragraph = data.paragraphs[question.paragraph]
        if not answer.strip() or question.start < 0 or not paragraph.startswith(answer, question.start):
            raise UserError(
                f"{data.source}: the answer '{answer:.50}' to question {question.id} is not at its position "
                f"{question.start}; correct the file"
            )
