"""Options of `electra classify`: the user's texts and labels, and how much of them is used."""

from dataclasses import dataclass
from typing import Literal

from electra.finetuning.config import FileTaskArguments
from electra.options import INSIDE, NOT_EMPTY, UP_TO_ONE, option


@dataclass(frozen=True)
class ClassifyArguments(FileTaskArguments):
    """Texts and labels, and output."""

    train_file: str | None = option(
        None,
        "Texts with labels: .csv or .tsv with a header, .jsonl or .parquet; without it, give --dataset_name.",
        replaced_by=("dataset_name",),
    )
    validation_file: str | None = option(
        None, "Development set in one of these formats. Default: see the next option.", replaced_by=("dataset_name",)
    )
    validation_fraction: float = option(
        0.1, "Share of the training data that becomes the development set, if there is none.", INSIDE
    )
    test_file: str | None = option(None, "Test set in one of these formats; labels are optional.")
    text_column: str | None = option(None, "Column of the text. Default: text or sentence.", NOT_EMPTY)
    text_pair_column: str | None = option(None, "Column of a second text, for labels of pairs.", NOT_EMPTY)
    label_column: str | None = option(None, "Column of the label. Default: label or labels.", NOT_EMPTY)
    label_separator: str | None = option(
        None, "What separates several labels in a cell, such as ';'. Lists need none.", NOT_EMPTY
    )
    label_kind: Literal["auto", "single", "several", "number"] = option(
        "auto",
        "single: one of several classes; several: any number of them; number: a regression. auto: several for lists "
        "and with --label_separator, number for fractions or more than 20 whole numbers, otherwise single.",
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
        "Share of the training texts to use, in (0, 1], drawn for each seed; a smaller share is part of a larger "
        "one. Several: a learning curve, from the encoder and from fresh "
        "weights, each fraction in a folder of its own.",
        UP_TO_ONE,
    )
    eval_seed: int = option(0, "Seed of the choice of rows for --validation_fraction and --train_fractions.")
