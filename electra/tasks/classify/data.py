"""The options of a classification."""

from dataclasses import dataclass
from typing import Literal

from electra.base.options import NOT_EMPTY
from electra.core.options import option
from electra.core.ranges import UP_TO_ONE
from electra.finetuning.config import LabelledFileArguments


@dataclass(frozen=True)
class ClassifyArguments(LabelledFileArguments):
    """Texts and labels, and output."""

    train_file: str | None = option(
        None,
        "Texts with labels: .csv or .tsv with a header, .jsonl or .parquet; without it, give --dataset_name.",
        replaced_by=("dataset_name",),
    )
    validation_file: str | None = option(
        None,
        "Development set in one of these formats. Default: see --validation_fraction.",
        replaced_by=("dataset_name",),
    )
    test_file: str | None = option(
        None, "Test set in one of these formats; rows without a label are predicted, but not scored."
    )
    text_column: str | None = option(None, "Column of the text. Default: text or sentence.", NOT_EMPTY)
    text_pair_column: str | None = option(None, "Column of a second text, for labels of pairs.", NOT_EMPTY)
    label_column: list[str] = option(
        [],
        "Column of the label. Several: a column for each class, with 1 or 0. Default: label or labels.",
        NOT_EMPTY,
    )
    label_separator: str | None = option(
        None, "What separates several labels in a cell, such as ';'. Lists need none.", NOT_EMPTY
    )
    label_kind: Literal["auto", "single", "several", "number"] = option(
        "auto",
        "single: one of several classes; several: any number of them; number: a regression. auto: several for lists, "
        "columns of 0 and 1 and --label_separator, number for fractions or more than 20 whole numbers, else single.",
    )
    long_texts: Literal["truncate", "windows"] = option(
        "truncate",
        "What is read of a text of more than --max_length tokens. truncate: its beginning; windows: pieces that "
        "overlap by a quarter, whose logits are averaged.",
    )
    class_weights: Literal["none", "balanced"] = option(
        "none", "balanced: rare classes count more in the loss, in inverse proportion to their frequency."
    )
    train_fractions: list[float] = option(
        [1.0],
        "Share of the training texts to use, in (0, 1], drawn for each seed; a smaller share is part of a larger one.",
        UP_TO_ONE,
    )
