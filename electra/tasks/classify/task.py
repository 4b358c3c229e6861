"""Labels of the user's texts as a task: what the labels are, rows of tokens, loss, files of predictions."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.special import logit
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from transformers import AutoModelForSequenceClassification, PreTrainedModel, PreTrainedTokenizerBase

from electra.finetuning.config import Arguments, Tuning
from electra.finetuning.heads import EncoderWithHead, TransformersHead
from electra.finetuning.sources import SPLITS, data_settings, files_by_split, load_tables
from electra.finetuning.task import Kind, Split, Task, TaskData, by_split, file_task
from electra.finetuning.trainer import step_loss
from electra.io.errors import UserError
from electra.io.rows import Row, read_rows
from electra.tasks.classify.data import (
    KINDS,
    NUMBER,
    SEVERAL,
    SINGLE,
    Example,
    Labels,
    choose_examples,
    find_labels,
    number_label,
    read_examples,
    table_rows,
)
from electra.tasks.classify.encoding import encode_texts
from electra.tasks.classify.metrics import References, decide, details, is_collapsed, mean_by_text, names_of, score
from electra.tasks.classify.report import HEADLINES, REPORTING

CLASSIFY = Kind(
    "classify",
    "-m electra classify",
    REPORTING,
    AutoModelForSequenceClassification,
    "text-classification",
)
PROBLEM_TYPES = {
    SINGLE: "single_label_classification",
    SEVERAL: "multi_label_classification",
    NUMBER: "regression",
}
"""Kind of the labels -> its name in transformers."""
RECORDED = (
    "text_column",
    "text_pair_column",
    "label_column",
    "label_separator",
    "class_weights",
    "long_texts",
    "train_fractions",
    "validation_fraction",
    "eval_seed",
)
"""Options that a score depends on."""
IMBALANCED = 10
"""Say so if the most frequent class has this many times the texts of the rarest."""

logger = logging.getLogger(__name__)


class Labelled(NamedTuple):
    """The texts of all splits, with labels as numbers; a test set may have none."""

    labels: Labels
    splits: Mapping[str, Sequence[Example]]

    def matrix(self, split: str) -> NDArray[np.float64]:
        """The labels (N, C)."""
        return np.array([example.label for example in self.splits[split]])


def open_task(args: Arguments) -> Task:
    """Reads the data, because the kind of its labels decides what the task is."""
    options = args.options
    data = read_labelled(options)
    log_labels(data)
    kind = data.labels.kind
    return file_task(
        CLASSIFY,
        options,
        headlines=(HEADLINES[kind],),
        settings={
            "label_kind": kind,
            **{name: getattr(options, name) for name in RECORDED},
            **data_settings(options),
        },
        load=partial(load, data, options.long_texts == "windows"),
        head=partial(head, data.labels),
        loss=partial(loss, class_weights(data) if options.class_weights == "balanced" else None),
        metrics=by_split(score),
        is_collapsed=is_collapsed,
        predictions=predictions,
    )


# ---- data


def read_labelled(options: Any) -> Labelled:
    """All splits; without a development set, a share of the training data."""
    columns = (options.text_column, options.text_pair_column, options.label_column)
    splits = {split: read_examples(rows, columns, split != "test") for split, rows in split_rows(options).items()}
    if not all(splits.get(split) for split in {"train", *splits}):
        raise UserError("a file, or the training data, has no rows; give a header and at least one row")
    separator = options.label_separator
    labels = find_labels(splits["train"], options.label_kind, separator)
    if labels.low == labels.high or (labels.kind != NUMBER and len(labels.classes) < 2):
        raise UserError(f"all labels are {splits['train'][0].label}; the training data needs two or more")
    for split, examples in splits.items():
        if examples[0].label is not None:
            splits[split] = [number_label(example, labels, separator) for example in examples]
    if "dev" not in splits:
        share = options.validation_fraction
        splits["dev"], splits["train"] = choose_examples(splits["train"], share, options.eval_seed)
        logger.info("held out       %g %% of the training data, %d texts", 100 * share, len(splits["dev"]))
    splits["train"], _ = choose_examples(splits["train"], options.train_fractions[0], options.eval_seed)
    if not splits["train"] or not splits["dev"]:
        raise UserError("there are too few texts to train on and to hold out; add some, or give a --validation_file")
    return Labelled(labels, splits)


def split_rows(options: Any) -> dict[str, Iterable[Row]]:
    """The rows of each split, of files or of a data set."""
    if options.dataset_name is None:
        return {split: read_rows(path) for split, (path,) in files_by_split(options).items()}
    tables = load_tables(options.dataset_name, options.dataset_config_name, "name a file with --train_file")
    return {
        split: table_rows(tables[theirs], f"{options.dataset_name} {theirs}")
        for split, theirs in SPLITS.items()
        if theirs in tables
    }


def log_labels(data: Labelled) -> None:
    """What the labels are, how frequent they are, and which texts are in two splits."""
    labels = data.labels
    means = data.matrix("train").mean(0)
    shares = [f"{name} {100 * share:.1f} %" for name, share in zip(labels.classes, means, strict=False)]
    logger.info("labels         %s: %.500s", KINDS[labels.kind], ", ".join(shares) or f"{labels.low} to {labels.high}")
    if means.max() >= IMBALANCED * means.min():
        logger.info("               imbalanced: consider --class_weights balanced, and macro F1")
    known = {example.key for example in data.splits["train"]}
    for split in data.splits.keys() - {"train"}:
        repeated = sum(example.key in known for example in data.splits[split])
        if repeated:
            logger.warning("%d texts of %s are also in the training data: scores are too good", repeated, split)


def load(
    data: Labelled,
    in_windows: bool,
    tokenizer: PreTrainedTokenizerBase,
    tuning: Tuning,
) -> TaskData:
    kind = data.labels.kind
    mean = data.matrix("train").mean(0)
    splits = {}
    for split, examples in data.splits.items():
        rows, owners = encode_texts(examples, tokenizer, tuning.max_length, in_windows)
        long = len(np.unique(owners[rows.lengths >= tuning.max_length])) / len(examples)
        if long:
            what = f"read in {len(rows)} windows" if in_windows else "cut off there"
            length = tuning.max_length
            logger.info("%-14s %.1f %% of the texts have %d tokens or more: %s", split, 100 * long, length, what)
        matrix = None
        if examples[0].label is not None:
            matrix = data.matrix(split)
            rows = replace(rows, columns={**rows.columns, "labels": targets(kind, matrix)[owners]})
        references = References(
            data.labels,
            matrix,
            owners,
            [example.place for example in examples],
            mean if kind == NUMBER else logit(mean),
        )
        splits[split] = Split(rows, references, len(examples), matrix is not None)
    return TaskData(splits, data.labels.classes or ("score",), PROBLEM_TYPES[kind])


def targets(kind: str, matrix: NDArray[np.float64]) -> NDArray[Any]:
    """What `loss` expects: numbers of classes (N,), 0 or 1 for each class (N, C), or float32 numbers (N,)."""
    if kind == NUMBER:
        return matrix[:, 0].astype(np.float32)
    return matrix.argmax(1) if kind == SINGLE else matrix.astype(np.int64)


# ---- the model


def class_weights(data: Labelled) -> Tensor:
    """Weights (C,) of the classes, N / (C n), or of the positive answers, (N - n) / n, for n of N texts."""
    if data.labels.kind == NUMBER:
        raise UserError("--class_weights balanced needs classes, but the labels are numbers; leave it out")
    share = torch.tensor(data.matrix("train").mean(0), dtype=torch.float32).clamp(min=1e-6)
    return 1 / (len(share) * share) if data.labels.kind == SINGLE else (1 - share) / share


def head(
    labels: Labels,
    encoder: PreTrainedModel,
    tuning: Tuning,
    data: TaskData,
) -> EncoderWithHead:
    """A saved model answers numbers on the scale of the data."""
    model = EncoderWithHead(encoder, tuning.head, len(data.labels or ()), tuning.head_dropout)
    if isinstance(model.head, TransformersHead):
        model.head.output_range = (labels.low, labels.high)
    return model


def loss(
    weights: Tensor | None,
    output: Tensor,
    labels: Tensor,
    num_items_in_batch: Tensor | int | None = None,
) -> Tensor:
    """`step_loss` with weights of classes; for several classes at once, labels (B, C), that of each yes or no."""
    if weights is not None:
        weights = weights.to(output.device)
    if labels.dim() == 2:
        losses = binary_cross_entropy_with_logits(output.float(), labels.float(), pos_weight=weights, reduction="none")
    elif weights is not None:
        losses = cross_entropy(output.float(), labels, weights, reduction="none")
    else:
        return step_loss(output, labels, num_items_in_batch)
    return losses.mean() if num_items_in_batch is None else losses.sum() / num_items_in_batch


def predictions(
    split: str,
    logits: NDArray[np.float32],
    references: References,
) -> dict[str, Any]:
    """A csv row per text, with its place in the data; of the development set also what the report shows."""
    labels = references.labels
    table = pd.DataFrame({"row": references.places})
    if references.matrix is not None:
        table["label"] = names_of(labels, references.matrix)
    table["prediction"] = names_of(labels, decide(labels, mean_by_text(logits, references.owners)))
    files: dict[str, Any] = {f"-{split}.csv": table.to_csv(index=False)}
    if split == "dev":
        files["-details.json"] = details(logits, references)
    return files
