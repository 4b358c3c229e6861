"""Questions on paragraphs, from SQuAD's JSON or from rows as the Hub has them.

Version 2.0 is recognised by questions without an answer or with `is_impossible`.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from electra.core.errors import UserError, abridged
from electra.data.cells import PAGE
from electra.data.rows import Columns, PlacedRow, parse_value, read_rows, shown_names
from electra.finetuning.row_checks import is_missing, read_all, truth_of

logger = logging.getLogger(__name__)


class SquadQuestion(NamedTuple):
    """A question on a paragraph, with its answers."""

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
    articles: Sequence[str] = ()  # title of the article of each paragraph; the paragraph itself if it has none

    def __len__(self) -> int:
        return len(self.questions)

    @cached_property
    def references(self) -> dict[str, tuple[str, ...]]:
        """Return id of each question -> its correct answers."""
        return {question.id: question.answers for question in self.questions}

    def with_questions(self, questions: Sequence[SquadQuestion]) -> "Questions":
        """Return some of the questions as a split of their own, with the paragraphs that they are about."""
        numbers = {number: new for new, number in enumerate(sorted({question.paragraph for question in questions}))}
        return replace(
            self,
            paragraphs=[self.paragraphs[number] for number in numbers],
            questions=[question._replace(paragraph=numbers[question.paragraph]) for question in questions],
            articles=[self.articles[number] for number in numbers],
        )


def read_questions(path: str | Path) -> Questions:
    """Return the questions of a file: SQuAD's JSON, version 1.1 or 2.0, or a table with a question in each row."""
    return parse_questions(read_rows(path, names_classes=False), str(path))


def join(parts: Sequence[Questions]) -> Questions:
    """Return the questions of several files as one split; ids may be the same in several files.

    The split is one of version 2.0 if one of its files is.
    """
    if len(parts) == 1:
        return parts[0]
    paragraphs: list[str] = []
    questions: list[SquadQuestion] = []
    for part in parts:
        first = len(paragraphs)
        questions += [question._replace(paragraph=first + question.paragraph) for question in part.questions]
        paragraphs += part.paragraphs
    is_version_2 = any(part.is_version_2 for part in parts)
    articles = [*chain.from_iterable(part.articles for part in parts)]
    return Questions(paragraphs, questions, is_version_2, " ".join(part.source for part in parts), articles)


# ---- reading

FEW_UNANSWERED = 0.05
"""Share of questions without an answer, below which they may be a mistake in data of version 1.1."""
QUESTION_FORM = (
    'a question needs id, question, context and answers, such as {"text": ["Rome"], "answer_start": [3]}, in '
    "SQuAD's JSON or in a row"
)
"""The form of a question in words, for messages."""
KEYS_OF_PARTS = {"paragraphs": ("title",), "qas": ("title", "context")}
"""Name of a list in SQuAD's JSON -> keys beside the list that each of its parts has, too."""


def parse_questions(rows: Iterable[PlacedRow], source: str) -> Questions:
    """Return the questions in SQuAD's JSON, or in rows of one question each.

    Raises:
        UserError: questions have another form; the message has the first one and their number.
    """
    paragraphs: dict[str, int] = {}
    articles: list[str] = []

    def read(placed: PlacedRow) -> SquadQuestion:
        question = _parse_question(*placed, paragraphs)
        if question.paragraph == len(articles):  # a new one
            _, row = placed
            articles.append(str(row.get("title") or row["context"]))
        return question

    asked = [*chain.from_iterable(_questions_in(row, place) for place, row in rows)]
    questions = read_all(asked, read)
    if not questions:
        raise UserError(f"{source} has no questions; name other data")
    (name, count), *_ = Counter(question.id for question in questions).most_common(1)
    if count > 1:
        raise UserError(f"{source} has {count} questions with the id {name:.60}; give each its own")
    unanswered = [question.id for question in questions if not question.answers]
    are_marked = any("is_impossible" in row for _, row in asked)
    if not are_marked and 0 < len(unanswered) < FEW_UNANSWERED * len(questions):
        logger.warning(
            "%s: %d of %d questions have no answer (first: question %s), so this is version 2.0; without them, 1.1",
            source, len(unanswered), len(questions), unanswered[0],
        )  # fmt: skip
    return Questions([*paragraphs], questions, are_marked or bool(unanswered), source, articles)


def _questions_in(row: Any, place: str) -> Iterator[PlacedRow]:
    """Yield the place and the columns of each question in SQuAD's JSON, or in a part of it, or in a row.

    The columns of a question in a paragraph have the paragraph's context and the title of its article.
    """
    parts = row if isinstance(row, dict) else {}
    name = next((name for name in ("data", "paragraphs", "qas") if name in parts), None)
    if name is None:
        yield place, row
        return
    if not isinstance(parts[name], list):
        raise UserError(f"{place} has '{name}' that is no list; {QUESTION_FORM}, see {PAGE}")
    inherited = {key: parts[key] for key in KEYS_OF_PARTS.get(name, ()) if key in parts}
    for part in parts[name]:
        yield from _questions_in({**inherited, **part} if isinstance(part, dict) else part, place)


def _parse_question(place: str, row: Any, paragraphs: dict[str, int]) -> SquadQuestion:
    """Return the question of a row, and add its context to the paragraphs, text -> index."""
    if not isinstance(row, dict) or "question" not in row:
        what = f"has the columns {shown_names(row)}" if isinstance(row, dict) else f"has {abridged(row)}"
        raise UserError(f"{place} {what}; {QUESTION_FORM}")
    answers = _answers(row)
    parts = {
        "id": _is_name,
        "question": _is_text,
        "context": _is_text,
        "is_impossible": lambda value: is_missing(value) or truth_of(value) is not None,
        "answers": lambda _: answers is not None,
    }
    wrong = next((name for name, holds in parts.items() if not holds(row.get(name))), None)
    if wrong is not None:
        which = f"{place}, question {row['id']!s:.60}," if wrong != "id" else place
        what = f"{abridged(row[wrong])} as its {wrong}" if wrong in row else f"no {wrong}"
        raise UserError(f"{which} has {what}; {QUESTION_FORM}")
    return SquadQuestion(
        id=str(row["id"]),
        text=row["question"],
        paragraph=paragraphs.setdefault(row["context"], len(paragraphs)),
        answers=tuple(text for text, _ in answers or []),
        start=answers[0][1] if answers else None,
    )


def _is_name(value: Any) -> bool:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return is_number or (isinstance(value, str) and bool(value))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _answers(row: Columns) -> list[tuple[str, int]] | None:
    """Return text and position of each answer, [] for an impossible question; None if answers have another form."""
    if truth_of(row.get("is_impossible")):
        return []
    answers = parse_value(row.get("answers"))
    if isinstance(answers, dict):  # rows have lists of texts and of places, SQuAD's JSON has a list of both
        texts, starts = answers.get("text"), answers.get("answer_start")
        if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
            return None
        answers = [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)]
    if not isinstance(answers, list) or not all(isinstance(answer, dict) for answer in answers):
        return None
    spans = []
    for answer in answers:
        text, start = answer.get("text"), answer.get("answer_start")
        if not _is_text(text) or isinstance(start, bool) or not isinstance(start, int | float) or start % 1:
            return None
        spans.append((str(text), int(start)))
    return spans


def check_answers(data: Questions) -> None:
    """Refuse training data in which an answer is empty or not at its given position."""

    def check(question: SquadQuestion) -> None:
        if question.start is None:
            return
        answer = question.answers[0]
        paragraph = data.paragraphs[question.paragraph]
        if not answer.strip() or question.start < 0 or not paragraph.startswith(answer, question.start):
            place = nearest_place(answer, paragraph, question.start) if answer.strip() else None
            where = "nor elsewhere" if place is None else f"but at {place}"
            raise UserError(
                f"{data.source}: the answer '{answer:.50}' to question {question.id} is not at its answer_start "
                f"{question.start} in the context, {where}; count characters from 0"
            )

    read_all(data.questions, check)


def nearest_place(answer: str, paragraph: str, start: int) -> int | None:
    """Return the position of the occurrence of an answer that is nearest to `start`; None without an occurrence."""
    places = [match.start() for match in re.finditer(f"(?={re.escape(answer)})", paragraph)]
    return min(places, key=lambda place: abs(place - start), default=None)


def warn_of_unfindable(data: Questions) -> None:
    """Log a warning if questions of a development set have answers none of which is in their paragraph."""
    wrong = []
    for question in data.questions:
        paragraph = data.paragraphs[question.paragraph].casefold()
        written = [answer.strip().casefold() for answer in question.answers]
        if written and not any(answer and answer in paragraph for answer in written):
            wrong.append(question.id)
    if wrong:
        logger.warning(
            "%s: %d of %d questions have no answer in their context (first: question %s), so none can be right",
            data.source, len(wrong), len(data), wrong[0],
        )  # fmt: skip
