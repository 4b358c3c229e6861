"""Questions on paragraphs, from SQuAD's JSON or from rows as the Hub has them.

Version 2.0 is recognised by questions without an answer or with `is_impossible`.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

from typing_extensions import TypedDict

from electra.base.typed import check_type
from electra.core.errors import UserError, abridged
from electra.data.cells import PAGE
from electra.data.rows import PlacedRow, parse_value
from electra.finetuning.row_checks import is_missing, read_all, truth_of

logger = logging.getLogger(__name__)


class SquadQuestion(NamedTuple):
    """A question on a paragraph, with its answers."""

    id: str
    text: str
    paragraph: int  # number of the paragraph in `Questions.paragraphs`
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
        """Return a split of some of the questions and of the paragraphs that these questions are about."""
        numbers = {number: new for new, number in enumerate(sorted({question.paragraph for question in questions}))}
        return replace(
            self,
            paragraphs=[self.paragraphs[number] for number in numbers],
            questions=[question._replace(paragraph=numbers[question.paragraph]) for question in questions],
            articles=[self.articles[number] for number in numbers],
        )


# ---- reading

QUESTION_FORM = (
    'a question needs id, question, context and answers, such as {"text": ["Rome"], "answer_start": [3]}, in '
    "SQuAD's JSON or in a row"
)
"""The form of a question in words, for messages."""
KEYS_OF_PARTS = {"paragraphs": ("title",), "qas": ("title", "context")}
"""Name of a list in SQuAD's JSON -> keys beside this list whose values also hold for each part of the list."""


class AnswerEntry(TypedDict):
    """An answer in SQuAD's JSON: its text, and its first character in the context."""

    text: str
    answer_start: int


class AnswerLists(TypedDict):
    """The answers to a question in a row of the Hub's data set: their texts and first characters."""

    text: list[str]
    answer_start: list[int]


class SquadRow(TypedDict):
    """A question with its context, as it is read."""

    id: str | int
    question: str
    context: str
    answers: list[AnswerEntry] | AnswerLists


def parse_questions(rows: Iterable[PlacedRow], source: str) -> Questions:
    """Return the questions in SQuAD's JSON, or in rows of one question each.

    Args:
        source: file or data set, for messages.
    Raises:
        UserError: there are no questions, or some have another form; the message has the first one and their number.
    """
    paragraphs: dict[str, int] = {}
    articles: list[str] = []

    def read(placed: PlacedRow) -> SquadQuestion:
        question = _parse_question(*placed, paragraphs)
        if question.paragraph == len(articles):  # a new one
            _, row = placed
            articles.append(str(row.get("title") or row["context"]))
        return question

    question_rows = [*chain.from_iterable(_questions_in(row, place) for place, row in rows)]
    questions = read_all(question_rows, read)
    if not questions:
        raise UserError(f"{source} has no questions; name other data")
    are_marked = any("is_impossible" in row for _, row in question_rows if isinstance(row, dict))
    is_version_2 = are_marked or any(not question.answers for question in questions)
    return Questions([*paragraphs], questions, is_version_2, source, articles)


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


def _parse_question(place: str, row: object, paragraphs: dict[str, int]) -> SquadQuestion:
    """Return the question of a row, and add its context to `paragraphs`, text -> number."""
    columns = row if isinstance(row, dict) else {}
    marked = columns.get("is_impossible")
    answers = [] if truth_of(marked) else parse_value(columns.get("answers"))
    try:
        if truth_of(marked) is None and not is_missing(marked):
            raise ValueError(f"is_impossible: it is true or false, not {abridged(marked)}")
        checked_row: SquadRow = check_type({**columns, "answers": answers}, SquadRow)
        spans = _spans(checked_row["answers"])
    except ValueError as error:
        raise UserError(f"{place}, question {columns.get('id')!s:.60}: {error}; {QUESTION_FORM}") from error
    return SquadQuestion(
        id=str(checked_row["id"]),
        text=checked_row["question"],
        paragraph=paragraphs.setdefault(checked_row["context"], len(paragraphs)),
        answers=tuple(text for text, _ in spans),
        start=spans[0][1] if spans else None,
    )


def _spans(answers: list[AnswerEntry] | AnswerLists) -> list[tuple[str, int]]:
    """Return text and first character of each answer; raise a ValueError if their numbers differ."""
    if isinstance(answers, list):
        return [(answer["text"], answer["answer_start"]) for answer in answers]
    if len(answers["text"]) != len(answers["answer_start"]):
        raise ValueError("answers: there must be as many starts as texts")
    return [*zip(answers["text"], answers["answer_start"], strict=True)]


def check_question_ids(data: Questions) -> None:
    """Raise a UserError if two questions have the same id, by which answers are scored."""
    (name, count), *_ = Counter(question.id for question in data.questions).most_common(1)
    if count > 1:
        raise UserError(f"{data.source} has {count} questions with the id {name:.60}; give each its own")


def check_answers(data: Questions) -> None:
    """Raise a UserError if the first answer to a question is empty, or not at its position in the paragraph."""

    def check(question: SquadQuestion) -> None:
        if question.start is None:
            return
        answer = question.answers[0]
        paragraph = data.paragraphs[question.paragraph]
        if not answer.strip() or question.start < 0 or not paragraph.startswith(answer, question.start):
            raise UserError(
                f"{data.source}: the answer '{answer:.50}' to question {question.id} is not at its answer_start "
                f"{question.start} in the context; count characters from 0"
            )

    read_all(data.questions, check)


def warn_of_unfindable(data: Questions) -> None:
    """Log a warning if there are questions with answers none of which is in their paragraph."""
    unfindable_ids = []
    for question in data.questions:
        paragraph = data.paragraphs[question.paragraph].casefold()
        written_answers = [answer.strip().casefold() for answer in question.answers]
        if written_answers and not any(answer and answer in paragraph for answer in written_answers):
            unfindable_ids.append(question.id)
    if unfindable_ids:
        logger.warning(
            "%s: %d of %d questions have no answer in their context (first: question %s), so none can be right",
            data.source, len(unfindable_ids), len(data), unfindable_ids[0],
        )  # fmt: skip
