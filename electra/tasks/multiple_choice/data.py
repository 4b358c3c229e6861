"""The data of multiple choice: options; questions from csv and jsonl files, or from a data set.

Four forms are known by their columns:

    SWAG        sent1, sent2, ending0, ending1 ...; label
    HellaSwag   ctx, endings; label
    general     question, optionally context; choices, a list, or choice0, choice1 ...; label or answer
    ARC         question; choices, an object with the lists text and label; answerKey, one of these labels

`label` is the number of the right choice, from 0. If it is missing, empty or -1, the answer is unknown. The number of
choices may differ from row to row: empty choices at the end are dropped. In csv a list is the text of one.
"""

import re
from dataclasses import dataclass
from itertools import count, takewhile
from typing import Any, NamedTuple

from electra.finetuning.config import FileTaskArguments
from electra.finetuning.data import rows_by_split
from electra.io.errors import UserError
from electra.io.rows import Columns, check_encodable, parse_value, shown_names
from electra.options import option

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
    elif "question" in row:
        columns = ("context", "question")
        choices = row.get("choices")
        choices = (parse_value(choices) or choices) if choices else _numbered(row, "choice")
    else:
        raise UserError(f"{place} has the columns {' '.join(map(str, row))}; expected {QUESTION_FORMS}")
    label = next((row[name] for name in ("label", "answerKey", "answer") if name in row), None)
    if isinstance(choices, dict) and isinstance(choices.get("text"), list) and isinstance(choices.get("label"), list):
        keys = [_text(key) for key in choices["label"]]
        label = keys.index(_text(label)) if _text(label) in keys else label
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
    return ChoiceQuestion(place, context or question, seconds, texts, _answer(label, len(texts), place))


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _numbered(row: Columns, name: str) -> list[Any]:
    """Return the values of the columns NAME0, NAME1 ... up to the first that is missing."""
    columns = takewhile(row.__contains__, (f"{name}{number}" for number in count()))
    return [row[column] for column in columns]


def _answer(label: Any, num_choices: int, place: str) -> int | None:
    written = re.sub(r"\.0$", "", _text(label))  # tables have 1.0 and nan in a column with gaps
    if written in ("", "-1", "nan"):
        return None
    if not written.isdecimal() or int(written) >= num_choices:
        raise UserError(
            f"{place} has the label '{written:.60}'; expected the number of a choice, 0 to {num_choices - 1}"
        )
    return int(written)
