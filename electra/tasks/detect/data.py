"""Texts to be judged, with labels if the file has them.

The column `label` says whether a text is wrong: 1, or right: 0. The column `spans` says which passages are wrong: a
list of [start, end], counted in characters; an empty list is a right text.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from electra.io.errors import UserError
from electra.io.rows import read_rows

CHARACTERS = 200_000
"""Texts of about as many characters are judged at once; more would need more memory."""


class Labelled(NamedTuple):
    """A text; `place` says where it is from, such as FILE:3."""

    place: str
    text: str
    is_wrong: bool | None
    spans: list[list[int]] | None
    """Start and end of the wrong passages."""


def read_texts(path: str, text_column: str) -> Iterator[list[Labelled]]:
    """Lists of texts, each of about `CHARACTERS`.

    Raises:
        UserError: a row has no text, or another label than 0, 1 or pairs of numbers.
    """
    texts: list[Labelled] = []
    characters = 0
    for place, row in read_rows(path):
        text = row.get(text_column)
        if not isinstance(text, str):
            raise UserError(f"{place} has no text in its column {text_column} of {', '.join(row)}; see --text_column")
        # Half of a surrogate pair, which JSON can hold, is no character for a tokenizer.
        readable = text.encode("utf-8", "replace").decode()
        texts.append(Labelled(place, readable, *_labels(row, place)))
        characters += len(text)
        if characters >= CHARACTERS:
            yield texts
            texts = []
            characters = 0
    if texts:
        yield texts


def _labels(row: dict[str, Any], place: str) -> tuple[bool | None, list[list[int]] | None]:
    label = row.get("label")
    spans = row.get("spans")
    try:
        if spans is not None:
            spans = [[int(start), int(end)] for start, end in spans]
            label = int(bool(spans))
        if label is not None:
            label = {"0": False, "1": True}[str(label)]
    except (LookupError, TypeError, ValueError) as error:
        raise UserError(f"{place}: label {label} or spans {spans} are not 0, 1 or a list of [start, end]") from error
    return label, spans
