"""The data of multiple choice: options; questions from tables, or from a data set.

A row has one of two forms, told apart by the columns; the number of choices may differ from row to row:

    question    question, context or both; choices, a list, in a csv as JSON; label
    SWAG        sent1, sent2, ending0, ending1 ...; label. Empty endings at the end are dropped

`label` is the number of the right choice, from 0.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import chain, count, takewhile
from typing import NamedTuple

from electra.core.errors import UserError, abridged
from electra.core.options import option
from electra.data.rows import Columns, parse_value, shown_names
from electra.finetuning.config import LabelledFileArguments
from electra.finetuning.data import NamedRows, rows_by_split
from electra.finetuning.held_out import plain_content, with_development
from electra.finetuning.row_checks import is_unlabelled, plain_name, read_all, set_apart, warn_if_unused

# ---- options


@dataclass(frozen=True)
class MultipleChoiceArguments(LabelledFileArguments):
    """Questions with choices, and output."""

    train_file: list[str] = option(
        [],
        "Tables with the columns question, choices and label, or with those of SWAG. Default without a data set: "
        "allenai/swag from the Hub.",
        replaced_by=("dataset_name",),
    )
    validation_file: list[str] = option(
        [], "Development set in the same format. Default: see --validation_fraction.", replaced_by=("dataset_name",)
    )
    test_file: list[str] = option(
        [], "Test set in the same format; rows without a label are predicted, but not scored."
    )


QUESTION_FORMS = (
    "question, choices (a list) and label, or sent1, sent2, ending0, ending1 ... and label, as SWAG has them"
)
"""The forms of a question in words, for messages."""


class ChoiceQuestion(NamedTuple):
    """A question with choices: the pair of texts that the encoder reads for each choice, and the answer.

    Args:
        place: source and line, FILE:LINE, for messages.
        first: first text of all pairs: the context, or the question if there is no context.
        seconds: second text of each pair: the choice, after the question if there is a context.
        choices: the choices alone.
        answer: number of the right choice; None if it is unknown.
    """

    place: str
    first: str
    seconds: list[str]
    choices: list[str]
    answer: int | None


def load_choice_splits(
    options: MultipleChoiceArguments, program_rows: Mapping[str, NamedRows] = {}
) -> dict[str, list[ChoiceQuestion]]:
    """Return the splits train, dev and, if there is one, test, of files, a data set or a program; see `set_apart`.

    Args:
        program_rows: see `data_settings`.
    Raises:
        UserError: a file cannot be read, rows are no questions, or no row of train or dev has an answer.
    """
    no_label = options.no_label
    questions_of_split = {
        split: read_all(rows, lambda placed: parse_question(placed[1], placed[0], no_label))
        for split, rows in rows_by_split(options, program_rows).items()
    }
    answers = [question.answer for question in chain.from_iterable(questions_of_split.values())]
    warn_if_unused(no_label, None in answers)
    apart = set_apart(questions_of_split, right_choices, lambda question: question.place)
    return with_development(apart, options, shared_context, "questions")


def right_choices(question: ChoiceQuestion) -> list[str]:
    """Return the text of the right choice as a list; [] if the question has no answer."""
    return [] if question.answer is None else [question.choices[question.answer]]


def shared_context(question: ChoiceQuestion) -> tuple[str, ...]:
    """Return the first text of a question, such as its context, as `plain_content` has it."""
    return plain_content(question.first)


def parse_question(row: Columns, place: str, no_label: Collection[str] = ()) -> ChoiceQuestion:
    """Return the question of a row.

    Raises:
        UserError: the row has another form, fewer than two choices, or a label that is not the number of a choice.
    """
    if "sent1" in row:
        columns = ("sent1", "sent2")
        choices: object = _endings(row)
    else:
        columns = ("context", "question")
        choices = parse_value(row.get("choices"))
    context, question = (_text(row.get(column)) for column in columns)
    if not isinstance(choices, list) or not choices or not (context or question):
        raise UserError(
            f"{place} is no question with choices: its columns are {shown_names(row)}; expected {QUESTION_FORMS}"
        )
    texts = [_text(choice) for choice in choices]
    if len(texts) < 2 or not all(texts):
        raise UserError(f"{place} has the choices {abridged(choices)}; expected two or more texts that are not empty")
    seconds = [f"{question} {text}" for text in texts] if context and question else texts
    label = row.get("label")
    answer = None if is_unlabelled(label, no_label) else _answer(label, len(texts), place)
    return ChoiceQuestion(place, context or question, seconds, texts, answer)


def _text(value: object) -> str:
    """Return a text or a number as text; an empty one for None, and for a list or a mapping, which is no text."""
    return "" if value is None or isinstance(value, list | dict | bytes) else str(value).strip()


def _endings(row: Columns) -> list[object]:
    """Return the values of the columns ending0, ending1 ... up to the last that is not empty."""
    columns = takewhile(row.__contains__, (f"ending{number}" for number in count()))
    endings = [row[column] for column in columns]
    while endings and not _text(endings[-1]):
        endings.pop()
    return endings


def _answer(label: object, num_choices: int, place: str) -> int:
    """Return the number of the right choice; raise a UserError if a label is no number of a choice."""
    written = plain_name(label)
    if not written.isdecimal() or int(written) >= num_choices:
        raise UserError(
            f"{place} has the label {abridged(label)}, not the number of a choice, 0 to {num_choices - 1}; correct "
            f"it, or name it with --no_label if it means that there is no label"
        )
    return int(written)
