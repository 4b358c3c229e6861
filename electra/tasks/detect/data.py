"""Texts to be judged, with labels if the file has them.

The column `label` says whether a text is wrong: 1, or right: 0. The column `spans` says which passages are wrong: a
list of [start, end], counted in characters; an empty list is a right text.
"""

from collections.abc import Iterator
from typing import NamedTuple

from electra.io.errors import UserError
from electra.io.rows import check_encodable, read_rows

LABEL_COLUMNS = {"none": None, "nan": None, "": None, "0": False, "false": False, "1": True, "true": True}


class LabelledRows(NamedTuple):
    """A text; `place` says where it is from, such as FILE:3."""

    place: str
    text: str
    is_wrong: bool | None
    spans: list[tuple[int, int]] | None
    """Start and end of the wrong passages."""


def read_texts(
    path: str,
    text_column: str,
    label_column: str = "label",
) -> Iterator[LabelledRows]:
    """The texts of a file; an error if a row has no text, or another label than 0, 1 or pairs of numbers.

    Args:
        text_column: of tables; a plain text has the column `text` only.
    """
    for place, row in read_rows(path):
        text = row["text"] if [*row] == ["text"] else row.get(text_column)
        check_encodable(text, place)
        if not isinstance(text, str):
            raise UserError(f"{place} has no text in its column {text_column} of {', '.join(row)}; see --text_column")
        label = row.get(label_column) if label_column else None
        spans = row.get("spans")
        try:
            if spans is not None:
                spans = [(start, end) for start, end in spans]
                if {type(edge) for span in spans for edge in span} - {int}:
                    raise TypeError("no whole numbers")
                if not all(0 <= start <= end <= len(text) for start, end in spans):
                    raise ValueError("outside the text")
                label = int(bool(spans))
            is_wrong = LABEL_COLUMNS[str(label).lower().removesuffix(".0")]
        except (LookupError, TypeError, ValueError) as error:
            raise UserError(
                f"{place}: the label must be 0 or 1, not {label!r:.40}; spans must be a list of [start, end] within "
                f"the text, not {spans!r:.40}; see --label_column"
            ) from error
        yield LabelledRows(place, text, is_wrong, spans)
