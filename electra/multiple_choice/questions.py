"""One row of any data set of multiple choice -> a question: a text, its choices, which of them is right. No torch.

| kind | columns |
|---|---|
| SWAG | sent1, sent2, ending0, ending1 ...; label |
| HellaSwag | ctx, endings; label |
| general | question, and context if there is one; choices, or choice0, choice1 ..., or A, B, C ...; answer |
| ARC | question; choices as lists of text and label, or within the question: (A) one (B) two; answerKey |
| without a header | question, choices, answer, in this order |

Numbers of choices may differ from row to row. An empty choice is none. A context may also be a passage or a premise.
"""

import re
import string
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from electra.files import is_encodable

ANSWER_COLUMNS = ("label", "answer", "answerkey", "answer_key", "gold", "correct")
"""In lower case; they hold letters, names of choices, or numbers, which `how_numbers_count` says how to read."""
CONTEXT_COLUMNS = ("context", "passage", "ctx", "article", "premise")
_MARKER = re.compile(r"\s*\(([A-Z1-9])\)\s*")
_NUMBERED = re.compile(r"(ending|choice|option|answer)_?(\d{1,3})")
_LETTER = re.compile(r"(?:choice_|option_)?([a-z])")
_NUMBER = re.compile(r"\d{1,9}")
LETTERS, DIGITS = string.ascii_uppercase, string.digits[1:]
NOWHERE = -1
"""The position of an answer that names no choice."""


class BadRow(ValueError):
    """A row that is no question; the message says why."""


class Question(NamedTuple):
    """A row.

    Args:
        place: where it is from, "FILE row 3"; rows from 1, a header not counted.
        first: the first text of each choice's pair: the context, or the question where there is none.
        seconds: the second text of each choice's pair: the choice, behind the question if there is a context.
        choices: what the row calls them.
        names: of the choices, as answers name them.
        answer: which of them is right; None if it is not said.
    """

    place: str
    first: str
    seconds: list[str]
    choices: list[str]
    names: list[str]
    answer: int | None


class Counting(NamedTuple):
    """The number of the first choice in a column `label`, and in the other columns of answers."""

    label: int = 0
    other: int = 1

    def of(self, column: str) -> int:
        return self.label if column == "label" else self.other


USUAL = Counting()


def as_question(row: Mapping[str, Any], place: str, counting: Counting = USUAL) -> Question:
    """A row with named columns as a question.

    Raises:
        BadRow: no question or less than two choices, or an answer that is none of them.
    """
    cells = _cells(row)
    context, question, names, choices = _texts_and_choices(cells)
    if not question and not context:
        raise BadRow("no text of a question")
    if not all(map(is_encodable, (context, question, *choices))):
        raise BadRow("half of a surrogate pair, which is not text")
    kept = [i for i, choice in enumerate(choices) if choice]
    if len(kept) < 2:
        raise BadRow(f"{len(kept)} choices that are not empty, at least 2 are needed")
    column, said = _said(cells)
    named = names or _letters(len(choices))
    position = _position(said, names, counting.of(column))
    if position is not None and position not in kept:
        raise BadRow(f"the answer '{said:.60}' is none of the {len(kept)} choices {' '.join(named[i] for i in kept)}")
    first = context or question
    return Question(
        place,
        first,
        [f"{question} {choices[i]}" if context and question else choices[i] for i in kept],
        [choices[i] for i in kept],
        [named[i] for i in kept],
        None if position is None else kept.index(position),
    )


def how_numbers_count(rows: Iterable[Mapping[str, Any]]) -> Counting:
    """From all rows of all splits, what answers that are numbers count from.

    A `label` counts from 0, unless there is no 0 and some label is the number of its choices; others count from 1,
    unless there is a 0.
    """
    zeros = {True: False, False: False}
    is_label_beyond = False
    for row in rows:
        cells = _cells(row)
        column, said = _said(cells)
        zeros[column == "label"] |= said == "0"
        if column == "label" and not is_label_beyond and _NUMBER.fullmatch(said):
            try:
                _, _, names, choices = _texts_and_choices(cells)
            except BadRow:
                continue
            kept = [i for i, choice in enumerate(choices) if choice]
            is_label_beyond = bool(kept) and said not in names and int(said) == kept[-1] + 1
    return Counting(1 if is_label_beyond and not zeros[True] else 0, 0 if zeros[False] else 1)


def _cells(row: Mapping[str, Any]) -> dict[str, Any]:
    return {str(name).strip().lower(): value for name, value in row.items()}


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _said(cells: Mapping[str, Any]) -> tuple[str, str]:
    """The column of the answer, and what it says; "" and "" if there is none."""
    column = next((name for name in ANSWER_COLUMNS if cells.get(name) is not None), "")
    return column, _text(cells.get(column))


def _texts_and_choices(cells: Mapping[str, Any]) -> tuple[str, str, list[str], list[str]]:
    """Context and question, either of which may be empty; names and texts of the choices, as `_choices`."""
    context, question = _texts(cells)
    names, choices = _choices(cells)
    if not choices:
        question, names, choices = _choices_inside(question)
    return context, question, names, choices


def _texts(cells: Mapping[str, Any]) -> tuple[str, str]:
    if cells.get("sent1") is not None:
        return _text(cells["sent1"]), _text(cells.get("sent2"))
    context = next((_text(cells[name]) for name in CONTEXT_COLUMNS if cells.get(name) is not None), "")
    question = cells.get("question")
    return context, _text(question.get("stem") if isinstance(question, Mapping) else question)


def _choices(cells: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Names and texts of the choices that have columns of their own; none if they stand within the question.

    There are no names where choices have only their place. A choice that is null keeps it.
    """
    question = cells.get("question")
    inner = question.get("choices") if isinstance(question, Mapping) else None
    found = next((c for c in (*map(cells.get, ("choices", "endings", "options")), inner) if c is not None), None)
    if isinstance(found, Mapping):
        return _named(found.get("label"), found.get("text"))
    if isinstance(found, Sequence) and not isinstance(found, str):
        if any(isinstance(choice, Mapping) for choice in found):
            pairs = [choice if isinstance(choice, Mapping) else {} for choice in found]
            return _named([pair.get("label") for pair in pairs], [pair.get("text") for pair in pairs])
        return [], [_text(choice) for choice in found]
    numbered = sorted((int(m[2]), name) for name in cells if (m := _NUMBERED.fullmatch(name)))
    if numbered:
        gap = next((n for n, (number, _) in enumerate(numbered, start=numbered[0][0]) if n != number), None)
        if gap is not None:
            raise BadRow(f"the columns {' '.join(name for _, name in numbered)} do not have each number once")
        return [], [_text(cells[name]) for _, name in numbered]
    lettered = sorted((m[1].upper(), name) for name in cells if (m := _LETTER.fullmatch(name)))
    return [letter for letter, _ in lettered], [_text(cells[name]) for _, name in lettered]


def _named(labels: Any, texts: Any) -> tuple[list[str], list[str]]:
    if not all(isinstance(part, Sequence) and not isinstance(part, str) for part in (labels, texts)):
        raise BadRow("its choices have no lists 'label' and 'text'")
    if len(labels) != len(texts) or any(label is None for label in labels):
        raise BadRow(f"its choices have {sum(label is not None for label in labels)} labels and {len(texts)} texts")
    return [_text(label) for label in labels], [_text(text) for text in texts]


def _choices_inside(question: str) -> tuple[str, list[str], list[str]]:
    """`Which? (A) this (B) that` -> the question without its choices, their names and texts.

    Choices are the markers from the last A, or 1, on that names each the next to the end; what is before belongs to
    the question.
    """
    markers = list(_MARKER.finditer(question))
    names = [marker[1] for marker in markers]
    for first in reversed(range(len(names) - 1)):
        if any("".join(names[first:]) == row[: len(names) - first] for row in (LETTERS, DIGITS)):
            behind = [*(marker.start() for marker in markers[first + 1 :]), len(question)]
            texts = [question[m.end() : end].strip() for m, end in zip(markers[first:], behind, strict=True)]
            return question[: markers[first].start()].strip(), names[first:], texts
    if len(names) > 1:
        raise BadRow(f"its choices are marked {' '.join(names)}, not A B C ... or 1 2 3 ...")
    return question, [], []


def _letters(count: int) -> list[str]:
    return list(LETTERS[:count]) if count <= len(LETTERS) else [str(i + 1) for i in range(count)]


def _position(said: str, names: Sequence[str], counts_from: int) -> int | None:
    """Which choice an answer names; None if it says nothing, as -1 does. One that is not there has a position, too.

    Args:
        names: as the row has them; empty if choices have only their place.
    """
    if said in ("", "-1"):
        return None
    for name in (said, said.upper(), said.lower()):
        if name in names:
            return names.index(name)
    # Where choices are named by letters, another letter is none of them; a number still is a place. And so reversed.
    are_letters = any(re.fullmatch(r"[A-Za-z]", name) for name in names)
    are_numbers = any(_NUMBER.fullmatch(name) for name in names)
    if _NUMBER.fullmatch(said):
        return NOWHERE if are_numbers else int(said) - counts_from
    if re.fullmatch(r"[A-Za-z]", said):
        return NOWHERE if are_letters else ord(said.upper()) - ord("A")
    raise BadRow(f"the answer '{said:.60}' is neither a letter nor a number")


def without_header(cells: Sequence[str]) -> dict[str, Any]:
    """A line of a file without a header as a row with columns."""
    return {"question": cells[0], "choices": list(cells[1:-1]), "answer": cells[-1]}


def is_header(cells: Sequence[str]) -> bool:
    """Whether the first line of a file names columns rather than being a question."""
    names = {cell.strip().lower() for cell in cells}
    return bool(names & {"question", "sent1", "ctx", "context", "premise"})
