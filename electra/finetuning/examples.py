"""Labelled text as every fine-tuning task hands it over, before a tokenizer has seen it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Examples:
    """The rows of one split, column by column; all columns are equally long.

    Args:
        first: the first text of each row.
        second: the second one, or None if rows have one text.
        labels: class ids (int) or targets of a regression (float); None where labels are kept secret.
    """

    first: list[str]
    second: list[str] | None = None
    labels: list[int] | list[float] | None = None

    def __len__(self) -> int:
        return len(self.first)
