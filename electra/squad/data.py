"""SQuAD's json, or a data set of the same columns -> questions on paragraphs. No torch.

Both versions come through here; version 2.0 is recognised by questions that have no answer, or that say whether they
have one. Answers are taken as characters of the paragraph, and an answer that does not stand where its file says is
never trained on as if it did.
"""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from electra.errors import UserError
from electra.files import expand, is_encodable

logger = logging.getLogger(__name__)

NEARBY = 50
"""An answer is looked for at most so many characters from where its file says that it starts."""


@dataclass(frozen=True)
class Question:
    """A question on a paragraph.

    Args:
        id: of the question.
        text: the question.
        paragraph: index of its paragraph.
        answers: texts of all answers that count as right, in the file's order; none if it cannot be answered.
        start: of the first answer, in characters of the paragraph; None without an answer.
    """

    id: str
    text: str
    paragraph: int
    answers: tuple[str, ...]
    start: int | None


@dataclass(frozen=True)
class Questions:
    """A split: its questions, and the paragraphs they are on.

    Args:
        paragraphs: texts; several questions share one.
        is_version_2: whether questions may have no answer.
        source: what it was read from, for messages.
    """

    paragraphs: list[str]
    questions: list[Question]
    is_version_2: bool
    source: str

    def __len__(self) -> int:
        return len(self.questions)

    @property
    def references(self) -> dict[str, tuple[str, ...]]:
        """Answers that count as right, by id of the question."""
        return {question.id: question.answers for question in self.questions}


def read_questions(path: Path) -> Questions:
    """SQuAD's own json, of either version.

    Raises:
        UserError: it cannot be read, or something is missing in it or of another type; the message says where.
    """
    content = read_json(path)
    paragraphs: list[str] = []
    questions: list[Question] = []
    is_version_2 = False
    for article_place, article in _items(content, "data", str(path)):
        for place, paragraph in _items(article, "paragraphs", article_place):
            paragraphs.append(_value(paragraph, "context", str, place))
            for question_place, question in _items(paragraph, "qas", place):
                is_version_2 |= "is_impossible" in question
                questions.append(_question(question, len(paragraphs) - 1, question_place))
    is_version_2 |= any(not question.answers for question in questions)
    return _checked(Questions(paragraphs, questions, is_version_2, str(path)))


def load_dataset_questions(name: str) -> dict[str, Questions]:
    """`train` and `validation` of a data set with SQuAD's columns: a Hub id, or a folder saved by `datasets`.

    Raises:
        UserError: it cannot be loaded, or a split or column is missing.
    """
    import datasets

    try:
        is_saved = (Path(name) / "dataset_dict.json").is_file()
        tables = datasets.load_from_disk(name) if is_saved else datasets.load_dataset(name)
    except Exception as error:  # OSError, ValueError, and what the versions of the Hub's clients raise offline
        raise UserError(
            f"--dataset_name {name} could not be loaded ({type(error).__name__}: {error}); name SQuAD's json files "
            f"with --train_file and --validation_file"
        ) from error
    return {split: questions_of_table(tables, split, name) for split in ("train", "validation")}


def questions_of_table(tables: Mapping[str, Any], split: str, name: str) -> Questions:
    """A split with the columns id, context, question and answers (text, answer_start).

    Raises:
        UserError: the split or a column is missing.
    """
    if split not in tables:
        raise UserError(f"--dataset_name {name} has no split {split}; it has {' '.join(tables)}")
    table, source = tables[split], f"{name} ({split})"
    missing = [c for c in ("id", "context", "question", "answers") if c not in table.column_names]
    if missing:
        raise UserError(f"--dataset_name {name}, split {split}: no column {missing[0]}; SQuAD's are needed")
    paragraphs: dict[str, int] = {}
    questions = []
    for row, values in enumerate(table):
        place = f"{source} row {row}"
        paragraph = paragraphs.setdefault(_value(values, "context", str, place), len(paragraphs))
        answers = _value(values, "answers", dict, place)
        texts, starts = (_value(answers, key, list, f"{place} answers") for key in ("text", "answer_start"))
        if len(texts) != len(starts):
            raise UserError(f"{place} has {len(texts)} texts of answers and {len(starts)} places; correct the data")
        listed = [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)]
        questions.append(_question({**values, "answers": listed}, paragraph, place))
    is_version_2 = any(not question.answers for question in questions)
    return _checked(Questions(list(paragraphs), questions, is_version_2, source))


def with_found_answers(data: Questions) -> Questions:
    """Without the questions whose first answer is not found; one that stands near its place is moved there.

    An answer is near if its text occurs exactly once in the characters up to `NEARBY` away. Says how many were moved
    and left out.
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
    left_out = len(data.questions) - len(kept)
    if moved or left_out:
        logger.warning(
            "%s: %d answers do not stand where it says: %d found nearby, %d questions left out",
            data.source,
            moved + left_out,
            moved,
            left_out,
        )
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


def _question(values: Mapping[str, Any], paragraph: int, place: str) -> Question:
    answers = [
        (_value(answer, "text", str, where), _value(answer, "answer_start", int, where))
        for where, answer in _items(values, "answers", place)
    ]
    if _value(values, "is_impossible", bool, place) if "is_impossible" in values else False:
        answers = []
    return Question(
        id=_value(values, "id", str, place),
        text=_value(values, "question", str, place),
        paragraph=paragraph,
        answers=tuple(text for text, _ in answers),
        start=answers[0][1] if answers else None,
    )


def _checked(data: Questions) -> Questions:
    """Refuse a split without questions, or with two of one id, whose predictions could not be told apart."""
    if not data.questions:
        raise UserError(f"{data.source} has no questions")
    seen: set[str] = set()
    for question in data.questions:
        if question.id in seen:
            raise UserError(f"{data.source} has two questions with the id {question.id}")
        seen.add(question.id)
    return data


def read_json(path: Path) -> Any:
    """The content of a json file.

    Raises:
        UserError: it cannot be read, or is no json; the message says where.
    """
    try:
        return json.loads(expand(path).read_text(encoding="utf-8-sig"))
    except json.JSONDecodeError as error:
        raise UserError(f"{path} line {error.lineno} column {error.colno} is not json: {error.msg}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8: {error}") from error
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits, lists in lists without end
        raise UserError(f"{path} is json that cannot be read: {error}") from error


_KINDS = {str: "a text", int: "a whole number", list: "a list", dict: "an object", bool: "true or false"}


def _value(values: Any, key: str, kind: type, place: str) -> Any:
    if not isinstance(values, Mapping):
        raise UserError(f"{place} must be an object with a '{key}', as in SQuAD's json")
    if key not in values:
        raise UserError(f"{place} has no '{key}'; SQuAD's json is expected")
    value = values[key]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise UserError(f"{place}: '{key}' is {value!r:.60}, expected {_KINDS[kind]}")
    if isinstance(value, str) and not is_encodable(value):
        raise UserError(f"{place}: '{key}' has half of a surrogate pair, which is not text")
    return value


def _items(values: Any, key: str, place: str) -> Iterator[tuple[str, Any]]:
    """The members of a list, each with the place to name in a message."""
    members: Sequence[Any] = _value(values, key, list, place)
    for index, member in enumerate(members):
        yield f"{place} {key}[{index}]", member
