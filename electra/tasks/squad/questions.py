"""Questions on paragraphs, from SQuAD's JSON or from rows; what is wrong with them, counted over the whole file.

Version 2.0 is recognised by questions without an answer or with `is_impossible`.
"""

import logging
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from electra.io.console import is_encodable
from electra.io.errors import UserError
from electra.io.rows import Columns, PlacedRow, parse_value, read_rows

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

    def __len__(self) -> int:
        return len(self.questions)

    @cached_property
    def references(self) -> dict[str, tuple[str, ...]]:
        """Return id of each question -> its correct answers."""
        return {question.id: question.answers for question in self.questions}


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
    return Questions(paragraphs, questions, is_version_2, " ".join(part.source for part in parts))


# ---- what is wrong with the questions of a source


class Faults:
    """The faults of the questions in a source: how often each kind occurs, and its first question."""

    def __init__(self) -> None:
        self.firsts: dict[str, str] = {}
        self.counts: Counter[str] = Counter()

    def add(self, what: str, question: str) -> None:
        self.firsts.setdefault(what, question)
        self.counts[what] += 1

    def check(self, source: str, total: int, advice: str) -> None:
        """Raise a UserError that names all kinds of faults, if there is a fault among `total` questions."""
        if self.counts:
            raise UserError(f"{self._shown(source, total)}; {advice}")

    def warn(self, source: str, total: int) -> None:
        """Log a warning that names all kinds of faults, if there is a fault among `total` questions."""
        if self.counts:
            logger.warning(self._shown(source, total))

    def _shown(self, source: str, total: int) -> str:
        found = [f"{number} {what} (first: {self.firsts[what]})" for what, number in self.counts.most_common(5)]
        return f"{source}: of {total} questions, {'; '.join(found)}"


# ---- reading

FEW_UNANSWERED = 0.05
"""Share of questions without an answer, below which they may be a mistake in data of version 1.1."""
FORM = (
    'a question needs id, question, context and answers, such as {"text": ["Rome"], "answer_start": [3]}, in '
    "SQuAD's JSON or in a row"
)
"""The form of a question in words, for messages."""


def parse_questions(rows: Iterable[PlacedRow], source: str) -> Questions:
    """Return the questions of articles with 'paragraphs', of paragraphs with 'qas', or of rows of one question each.

    Raises:
        UserError: questions have faults; the message names those of the whole source.
    """
    paragraphs: dict[str, int] = {}
    questions: dict[str, SquadQuestion] = {}
    faults = Faults()
    doubts = Faults()
    are_marked = False  # by is_impossible
    total = 0
    for place, values in chain.from_iterable(_questions_in(row, place, faults) for place, row in rows):
        total += 1
        asked = f"question {values['id']!s:.60}" if _is_name(values.get("id")) else place
        answers = _answers(values)
        found = _faults_of(values, answers)
        for what in found:
            faults.add(what, asked)
        name = str(values.get("id"))
        if _truth(values.get("is_impossible")) and values.get("answers"):
            doubts.add("are impossible, but have answers, which are not read", asked)
        if not found and not values["question"].strip():
            doubts.add("have an empty question", asked)
        if not found and name in questions:
            faults.add("have the id of another", f"two questions have the id {name!s:.60}")
        if found or answers is None or name in questions:
            continue
        are_marked |= "is_impossible" in values
        context = values["context"]
        questions[name] = SquadQuestion(
            id=name,
            text=values["question"],
            paragraph=paragraphs.setdefault(context, len(paragraphs)),
            answers=tuple(text for text, _ in answers),
            start=answers[0][1] if answers else None,
        )
    faults.check(source, total, FORM)
    if not questions:
        raise UserError(f"{source} has no questions; name other data")
    doubts.warn(source, total)
    unanswered = [question.id for question in questions.values() if not question.answers]
    if not are_marked and 0 < len(unanswered) < FEW_UNANSWERED * total:
        logger.warning(
            "%s: %d of %d questions have no answer (first: question %s), so this is version 2.0; without them, 1.1",
            source, len(unanswered), total, unanswered[0],
        )  # fmt: skip
    is_version_2 = are_marked or len(unanswered) > 0
    return Questions(list(paragraphs), list(questions.values()), is_version_2, source)


def _questions_in(row: Any, place: str, faults: Faults) -> Iterator[tuple[str, Columns]]:
    """Yield the place and the columns of each question in an article, a paragraph or a row; add others to `faults`.

    The columns of a question in a paragraph have the paragraph's context.
    """
    if not isinstance(row, dict):
        faults.add("are no objects", place)
    elif "Data" in row:
        raise UserError(
            f"{place.rpartition(':')[0]} is in TriviaQA's format; convert it to SQuAD's: python -m "
            "electra.tasks.squad.trivia_qa --help"
        )
    elif "paragraphs" in row or "qas" in row:
        below = row["paragraphs"] if "paragraphs" in row else row["qas"]
        if not isinstance(below, list):
            faults.add("have no list of 'paragraphs' or 'qas'", place)
            return
        inherited = {} if "paragraphs" in row else {"context": row.get("context")}
        for one in below:
            yield from _questions_in({**inherited, **one} if isinstance(one, dict) else one, place, faults)
    elif "question" in row:
        yield place, row
    else:
        faults.add("have no 'paragraphs', 'qas' or 'question'", place)


def _is_name(value: Any) -> bool:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return is_number or (isinstance(value, str) and bool(value) and is_encodable(value))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and is_encodable(value)


def _faults_of(values: Columns, answers: Any) -> list[str]:
    """Return the faults of a question, as the ends of sentences."""
    faults = [f"have no text as their {name}" for name in ("question", "context") if not _is_text(values.get(name))]
    if not _is_name(values.get("id")):
        faults.append("have no id")
    if _truth(values.get("is_impossible")) is None:
        faults.append("have another is_impossible than true or false")
    if answers is None:
        faults.append("have no list of answers, each a text with a whole number as its answer_start")
    return faults


def _truth(value: Any) -> bool | None:
    """Return a truth value that may be text or a number; False if it is missing, None for other values."""
    written = {"": False, "none": False, "0": False, "false": False, "1": True, "true": True}
    return written.get(str(value).lower())


def _answers(values: Columns) -> list[tuple[str, int]] | None:
    """Return text and position of each answer, [] for an impossible question; None if answers have another form."""
    if _truth(values.get("is_impossible")):
        return []
    answers = parse_value(values.get("answers"))
    if isinstance(answers, dict):  # data sets have lists of texts and of places
        texts, starts = answers.get("text"), answers.get("answer_start")
        if isinstance(texts, str) and not isinstance(starts, list):
            texts, starts = [texts], [starts]
        if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
            return None
        answers = [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)]
    if not isinstance(answers, list) or not all(isinstance(answer, dict) for answer in answers):
        return None
    found = []
    for answer in answers:
        text, start = answer.get("text"), answer.get("answer_start")
        if isinstance(start, str) and start.strip().isdecimal():
            start = int(start)
        if not _is_text(text) or isinstance(start, bool) or not isinstance(start, int | float) or start % 1:
            return None
        found.append((str(text), int(start)))
    return found


def check_answers(data: Questions) -> None:
    """Refuse training data in which an answer is empty or not at its given position."""
    faults = Faults()
    for question in data.questions:
        if question.start is None:
            continue
        answer = question.answers[0]
        paragraph = data.paragraphs[question.paragraph]
        where = f"the answer '{answer:.50}' to question {question.id} at position {question.start}"
        if not answer.strip():
            faults.add("have an empty answer, instead of an empty list of answers", where)
        elif question.start < 0 or not paragraph.startswith(answer, question.start):
            place = nearest_place(answer, paragraph, question.start)
            if place is not None:
                faults.add("have an answer at another position", f"{where} is at {place}")
            elif unicodedata.normalize("NFKC", answer) in unicodedata.normalize("NFKC", paragraph):
                faults.add("have an answer in another Unicode form than its paragraph", where)
            else:
                faults.add("have an answer that is not in its paragraph", where)
    faults.check(data.source, len(data), "correct the file; answer_start counts characters from 0")


def nearest_place(answer: str, paragraph: str, start: int) -> int | None:
    """Return the position of the occurrence of an answer that is nearest to `start`; None without an occurrence."""
    places = [match.start() for match in re.finditer(f"(?={re.escape(answer)})", paragraph)]
    return min(places, key=lambda place: abs(place - start), default=None)


def warn_of_unfindable(data: Questions) -> None:
    """Log a warning if questions of a development set have answers none of which is in their paragraph."""
    faults = Faults()
    for question in data.questions:
        paragraph = data.paragraphs[question.paragraph].casefold()
        written = [answer.strip().casefold() for answer in question.answers]
        if written and not any(answer and answer in paragraph for answer in written):
            where = f"'{question.answers[0]:.50}' to question {question.id}"
            faults.add("have no answer that is in their paragraph, so that none can be right", where)
    faults.warn(data.source, len(data))
