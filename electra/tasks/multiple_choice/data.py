"""The data of multiple choice: options; questions from csv and jsonl files, or from a data set.

Four forms are known by their columns:

    SWAG        sent1, sent2, ending0, ending1 ...; label
    HellaSwag   ctx, endings; label
    general     question, optionally context, article or passage; choices or options, a list, or choice0, choice1 ...,
                or A, B ...; label or answer
    ARC         question or question_stem; choices, an object with the lists text and label; answerKey, one of these

`label` is the number of the right choice, from 0; `answer` may also be its letter or its text. If the label is
missing, empty or -1, the answer is unknown. The number of choices may differ from row to row: empty choices at the end
are dropped. In csv a list is the text of one.
"""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, takewhile
from string import ascii_uppercase
from typing import Any, NamedTuple

from electra.finetuning.config import FileTaskArguments
from electra.finetuning.data import first_of, rows_by_split
from electra.io.errors import UserError
from electra.io.rows import Columns, check_encodable, parse_value, shown_names
from electra.options import option

logger = logging.getLogger(__name__)

# ---- options


@dataclass(frozen=True)
class MultipleChoiceArguments(FileTaskArguments):
    """Questions with choices, and output."""

    train_file: list[str] = option(
        [],
        "Question files (.csv with a header, or .jsonl) in the form of SWAG or HellaSwag, or with the columns "
        "question, choices and label. Default without a data set: allenai/swag from the Hub.",
        replaced_by=("dataset_name",),
    )
    validation_file: list[str] = option([], "Development set in the same format.", replaced_by=("dataset_name",))
    test_file: list[str] = option([], "Test set in the same format; answers are optional.")


QUESTIONS = ("question", "question_stem")
CONTEXTS = ("context", "article", "passage")
CHOICES = ("choices", "options")
LABELS = ("label", "answerKey", "answer")
"""Names of the columns of the general form, by preference."""
MANY_ANSWERS = 20
"""Questions with an answer from which a warning says that none of the answers is 0."""
QUESTION_FORMS = "sent1 and ending0, ending1 ...; ctx and endings; or question and choices, a list"
"""The forms of a question in words, for messages."""


class ChoiceQuestion(NamedTuple):
    """A question with choices: the pair of texts that the encoder reads for each choice, and the answer."""

    place: str  # source and line or row, "FILE:3", for messages
    first: str  # first text of all pairs: the context, or the question if there is no context
    seconds: list[str]  # second text of each pair: the choice, after the question if there is a context
    choices: list[str]
    answer: int | None  # index of the right choice, if known


def load_choice_splits(options: Any) -> dict[str, list[ChoiceQuestion]]:
    """Return the splits train, dev and, if there is one, test, of files or of a data set.

    Raises:
        UserError: a file cannot be read, a row is no question, or a row of train or dev has no answer.
    """
    splits = {}
    for split, rows in rows_by_split(options, names_classes=False).items():
        questions = [parse_question(row, place) for place, row in rows]
        if not questions:
            raise UserError(f"there are no questions for {split}; name a file or a data set of questions")
        answers = [question.answer for question in questions if question.answer is not None]
        if len(answers) >= MANY_ANSWERS and min(answers) > 0:
            logger.warning("no answer of %s is 0, the first choice: labels count from 0", split)
        unanswered = [question.place for question in questions if question.answer is None]
        if unanswered and split != "test":
            raise UserError(f"{unanswered[0]} has no label, which {split} needs; correct the file")
        splits[split] = questions
    return splits


def parse_question(row: Columns, place: str) -> ChoiceQuestion:
    """Return the question of a row in one of the forms.

    Raises:
        UserError: the columns fit no form, there are fewer than two choices, or the label is not that of a choice.
    """
    if "sent1" in row:
        columns: Any = ("sent1", "sent2")
        choices: Any = _numbered(row, "ending")
    elif "ctx" in row:
        columns = ("ctx", None)
        choices = parse_value(row.get("endings"))
    elif any(name in row for name in QUESTIONS):
        columns = (first_of(CONTEXTS, row), first_of(QUESTIONS, row))
        choices = row.get(first_of(CHOICES, row))
        choices = (parse_value(choices) or choices) if choices else _numbered(row, "choice") or _lettered(row)
    else:
        raise UserError(f"{place} has the columns {' '.join(map(str, row))}; expected {QUESTION_FORMS}")
    name = first_of(LABELS, row)
    label = row.get(name)
    if isinstance(choices, dict) and isinstance(choices.get("text"), list) and isinstance(choices.get("label"), list):
        keys = [_text(key) for key in choices["label"]]
        if _text(label) in keys:
            label, name = keys.index(_text(label)), "label"
        elif name == "answerKey" and _text(label) not in UNKNOWN:
            raise UserError(f"{place} has the answerKey '{_text(label):.60}'; expected one of {', '.join(keys):.60}")
        choices = choices["text"]
    if not isinstance(choices, list) or not choices:
        raise UserError(
            f"{place} has no list of choices in its columns {shown_names(row)}; expected {QUESTION_FORMS}, "
            "or choice0, choice1 ..."
        )
    context, question = (_text(row.get(column)) for column in columns)
    texts = [_text(choice) for choice in choices]
    check_encodable([context, question, *texts], place)
    while texts and not texts[-1]:
        texts.pop()
    if len(texts) < 2 or not all(texts):
        raise UserError(f"{place} has the choices {texts}; expected two or more that are not empty")
    seconds = [f"{question} {text}" for text in texts] if context and question else texts
    if name == "answer":
        label = _number_of(label, texts, place)
    return ChoiceQuestion(place, context or question, seconds, texts, _answer(label, len(texts), place))


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _numbered(row: Columns, name: str) -> list[Any]:
    """Return the values of the columns NAME0, NAME1 ... up to the first that is missing."""
    columns = takewhile(row.__contains__, (f"{name}{number}" for number in count()))
    return [row[column] for column in columns]


def _lettered(row: Columns) -> list[Any]:
    """Return the values of the columns A, B ... up to the first that is missing."""
    return [row[letter] for letter in takewhile(row.__contains__, ascii_uppercase)]


def _number_of(answer: Any, texts: Sequence[str], place: str) -> Any:
    """Return the number of the choice whose text or letter an answer is; return other answers as they are."""
    written = _text(answer)
    number = int(written) if written.isdecimal() and len(written) < 3 else None
    if texts.count(written) == 1:
        found = texts.index(written)
        if number is not None and number < len(texts) and number != found:
            raise UserError(
                f"{place} has the answer '{written}', which is the text of choice {found} and the number of another; "
                "give the number as label"
            )
        return found
    letters = ascii_uppercase[: len(texts)]
    return letters.index(written) if len(written) == 1 and written in letters else answer


UNKNOWN = ("", "-1", "nan")
"""Labels, as text, of questions whose answer is unknown."""


def _answer(label: Any, num_choices: int, place: str) -> int | None:
    written = re.sub(r"\.0$", "", _text(label))  # tables have 1.0 and nan in a column with gaps
    if written in UNKNOWN:
        return None
    if not written.isdecimal() or int(written) >= num_choices:
        raise UserError(
            f"{place} has the label '{written:.60}'; expected the number of a choice, 0 to {num_choices - 1}"
        )
    return int(written)
