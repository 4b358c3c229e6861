"""One row of any data set of multiple choice -> a question: a text, its choices, which of them is right. No torch.

| kind | columns |
|---|---|
| SWAG | sent1, sent2, ending0, ending1 ...; label |
| HellaSwag | ctx, endings; label |
| general | question, and context if there is one; choices, or choice0, choice1 ..., or A, B, C ...; answer |
| ARC | question; choices as lists of text and label, or within the question: (A) one (B) two; answerKey |
| without a header | question, choices, answer, in this order |

Numbers of choices may differ from row to row. An empty choice is none.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

ANSWER_COLUMNS = ("label", "answer", "answerkey", "answer_key", "gold", "correct")
"""In lower case. A `label` is a number from 0; the others hold letters, or numbers from 1 unless a 0 is among them."""
_INSIDE = re.compile(r"\s*\(([A-Z1-9])\)\s*")
_NUMBERED = re.compile(r"(ending|choice|option|answer)_?(\d+)")
_LETTER = re.compile(r"(?:choice_|option_)?([a-z])")


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


def as_question(row: Mapping[str, Any], place: str, *, counts_from: int = 1) -> Question:
    """A row with named columns as a question.

    Args:
        counts_from: the first choice's number, where answers of another column than `label` are numbers.

    Raises:
        BadRow: no question or less than two choices, or an answer that is none of them.
    """
    cells = {str(name).strip().lower(): value for name, value in row.items() if value is not None}
    context, question = _texts(cells)
    names, choices = _choices(cells)
    if not choices:
        question, names, choices = _choices_inside(question)
    if not question and not context:
        raise BadRow("no text of a question")
    column = next((name for name in ANSWER_COLUMNS if name in cells), None)
    said = "" if column is None else str(cells[column]).strip()
    position = _position(said, names, 0 if column == "label" else counts_from)
    kept = [i for i, choice in enumerate(choices) if choice]
    if len(kept) < 2:
        raise BadRow(f"{len(kept)} choices that are not empty, at least 2 are needed")
    if position is not None and position not in kept:
        raise BadRow(f"the answer '{said}' is none of the {len(kept)} choices {' '.join(names[i] for i in kept)}")
    first = context or question
    return Question(
        place,
        first,
        [f"{question} {choices[i]}" if context and question else choices[i] for i in kept],
        [choices[i] for i in kept],
        [names[i] for i in kept],
        None if position is None else kept.index(position),
    )


def _texts(cells: Mapping[str, Any]) -> tuple[str, str]:
    """Context and question, either of which may be empty."""
    if "sent1" in cells:
        return str(cells["sent1"]).strip(), str(cells.get("sent2", "")).strip()
    context = next(
        (str(cells[name]).strip() for name in ("context", "passage", "ctx", "article") if name in cells), ""
    )
    question = cells.get("question", "")
    return context, str(question.get("stem", "") if isinstance(question, Mapping) else question).strip()


def _choices(cells: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Names and texts of the choices that have columns of their own; none if they stand within the question."""
    question = cells.get("question")
    found = cells.get("choices", cells.get("endings", cells.get("options")))
    if found is None and isinstance(question, Mapping):
        found = question.get("choices")
    if isinstance(found, Mapping):
        return [str(name) for name in found["label"]], [str(text).strip() for text in found["text"]]
    if isinstance(found, Sequence) and not isinstance(found, str):
        if all(isinstance(choice, Mapping) for choice in found):
            return [str(c["label"]) for c in found], [str(c["text"]).strip() for c in found]
        texts = [str(choice).strip() for choice in found]
        return _letters(len(texts)), texts
    numbered = sorted((int(m[2]), name) for name in cells if (m := _NUMBERED.fullmatch(name)))
    lettered = sorted(name for name in cells if _LETTER.fullmatch(name))
    columns = [name for _, name in numbered] or lettered
    return _letters(len(columns)), [str(cells[name]).strip() for name in columns]


def _choices_inside(question: str) -> tuple[str, list[str], list[str]]:
    """`Which? (A) this (B) that` -> the question without its choices, their names and texts."""
    question, *rest = _INSIDE.split(question)
    return question, rest[::2], [text.strip() for text in rest[1::2]]


def _letters(count: int) -> list[str]:
    return [chr(ord("A") + i) if count <= 26 else str(i + 1) for i in range(count)]


def _position(said: str, names: Sequence[str], counts_from: int) -> int | None:
    """Which choice an answer names; None if it says nothing, as -1 does. One that is not there has a position, too."""
    if said in ("", "-1"):
        return None
    if said in names:
        return names.index(said)
    if re.fullmatch(r"\d+", said):
        return int(said) - counts_from
    if re.fullmatch(r"[A-Za-z]", said):
        return ord(said.upper()) - ord("A")
    raise BadRow(f"the answer '{said}' is neither a letter nor a number")


def counts_from_zero(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether some answer is the number 0."""
    return any(
        str(value).strip() == "0"
        for row in rows
        for name, value in row.items()
        if str(name).strip().lower() in ANSWER_COLUMNS
    )


def without_header(cells: Sequence[str]) -> dict[str, Any]:
    """A line of a file without a header as a row with columns."""
    return {"question": cells[0], "choices": list(cells[1:-1]), "answer": cells[-1]}


def is_header(cells: Sequence[str]) -> bool:
    """Whether the first line of a file names columns rather than being a question."""
    names = {cell.strip().lower() for cell in cells}
    return bool(names & {"question", "sent1", "ctx", "context"})
