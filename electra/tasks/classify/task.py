"""Labels of the user's texts as a task: what the labels are, rows of tokens, loss, files of predictions."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy.special import logit
from torch import Tensor
from transformers import AutoModelForSequenceClassification, PreTrainedModel, PreTrainedTokenizerBase

from electra.finetuning.config import Arguments, HyperParameters
from electra.finetuning.encoding import Array
from electra.finetuning.heads import EncoderWithHead
from electra.finetuning.sources import SPLITS, data_settings, rows_by_split, task_name
from electra.finetuning.task import TaskKind, Split, Task, TaskData, by_split
from electra.finetuning.trainer import step_loss
from electra.io.errors import UserError
from electra.tasks.classify.data import (
    NUMBER,
    SEVERAL,
    SINGLE,
    Example,
    LabelSet,
    find_labels,
    hold_out,
    nested_order,
    number_label,
    read_examples,
)
from electra.tasks.classify.encoding import encode_texts
from electra.tasks.classify.metrics import ClassificationReferences, decide_classes, details, is_classifier_collapsed, mean_by_text, class_names_of, score_classification
from electra.tasks.classify.report import HEADLINES, CLASSIFY_REPORTING

CLASSIFY = TaskKind(
    "classify",
    "-m electra classify",
    CLASSIFY_REPORTING,
    AutoModelForSequenceClassification,
    "text-classification",
)
PROBLEM_TYPES = {
    SINGLE: "single_label_classification",
    SEVERAL: "multi_label_classification",
    NUMBER: "regression",
}
"""Kind of the labels -> its name in transformers."""
COLUMN_OPTIONS = ("text_column", "text_pair_column", "label_column")
CLASSIFY_SETTINGS = (
    *COLUMN_OPTIONS,
    "label_separator",
    "long_texts",
    "class_weights",
    "train_fractions",
    "validation_fraction",
    "eval_seed",
)
"""Options that a score depends on."""
IMBALANCED = 10
"""Say so if the most frequent class has this many times the texts of the rarest."""

logger = logging.getLogger(__name__)


class LabelledTexts(NamedTuple):
    """The texts of all splits, with labels as numbers; a test set may have none."""

    labels: LabelSet
    splits: Mapping[str, Sequence[Example]]

    def matrix(self, split: str) -> Array:
        """Return the labels, float64 (N, C)."""
        return np.array([example.label for example in self.splits[split]])


def open_classification(args: Arguments) -> Task:
    """Read the data, because the kind of its labels decides what the task is."""
    options = args.options
    data = read_labelled(options)
    kind = data.labels.kind
    settings = {name: getattr(options, name) for name in CLASSIFY_SETTINGS}
    weights = class_weights(data) if options.class_weights == "balanced" else None
    (fraction,) = options.train_fractions
    if fraction < 1:  # results of runs that all had the same texts are not continued
        settings["train_texts"] = "drawn for each seed"
    return Task(
        kind=CLASSIFY,
        name=task_name(options, CLASSIFY.name),
        headlines=(HEADLINES[kind],),
        settings={"label_kind": kind, **settings, **data_settings(options)},
        load=partial(load_classification, data, options.long_texts == "windows", fraction, options.eval_seed),
        head=partial(build_classifier, data.labels),
        loss=partial(step_loss, weights=weights),
        metrics=by_split(score_classification),
        is_collapsed=is_classifier_collapsed,
        predictions=classification_files,
    )


# ---- data


def read_labelled(options: Any) -> LabelledTexts:
    """Read all splits, of files or of a data set; without a development set, draw one from the training data."""
    columns = [getattr(options, name) for name in COLUMN_OPTIONS]
    splits = {}
    for split, rows in rows_by_split(options, needs=["train"]).items():
        splits[split] = read_examples(rows, columns, split != "test")
        if not splits[split]:
            raise UserError(f"the {SPLITS[split]} data has no rows; give a header and rows")
    separator = options.label_separator
    labels = find_labels(splits["train"], options.label_kind, separator)
    if labels.low == labels.high or len(labels.classes) == 1:
        raise UserError(f"all labels are {splits['train'][0].label}; the training data needs two or more")
    for split, examples in splits.items():
        if examples[0].label is not None:
            splits[split] = [number_label(example, labels, separator) for example in examples]
    seed = options.eval_seed
    if "dev" not in splits:
        splits["dev"], splits["train"] = hold_out(splits["train"], options.validation_fraction, seed)
    if not round(options.train_fractions[0] * len(splits["train"])) or not splits["dev"]:
        raise UserError("there are too few texts to train on and to hold out; add some, or give a --validation_file")
    data = LabelledTexts(labels, splits)
    log_labels(data)
    return data


def log_labels(data: LabelledTexts) -> None:
    """Log what the labels are, how frequent they are, and which texts are in two splits."""
    labels = data.labels
    shares = data.matrix("train").mean(0)
    shown = [f"{name}: {share:.1%}" for name, share in zip(labels.classes, shares, strict=False)]
    if labels.kind == NUMBER:
        shown = [f"{labels.low:g} to {labels.high:g}; if they name classes, give --label_kind single"]
    logger.info("labels         %s, %.500s", labels.kind, ", ".join(shown))
    if shares.max() >= IMBALANCED * shares.min():
        logger.info("               imbalanced: consider --class_weights balanced, and macro F1")
    known = {example[:2] for example in data.splits["train"]}
    for split in data.splits.keys() - {"train"}:
        repeated = sum(example[:2] in known for example in data.splits[split])
        if repeated:
            logger.warning("%d texts of %s are also in the training data: scores are too good", repeated, split)


def load_classification(
    data: LabelledTexts,
    in_windows: bool,
    fraction: float,
    eval_seed: int,
    tokenizer: PreTrainedTokenizerBase,
    tuning: HyperParameters,
) -> TaskData:
    """Encode all splits. If `fraction` < 1, a run trains on a part of the training texts, which its seed chooses."""
    kind = data.labels.kind
    mean = data.matrix("train").mean(0)
    constant = mean if kind == NUMBER else logit(mean)
    splits = {}
    for split, examples in data.splits.items():
        rows, owners = encode_texts(examples, tokenizer, tuning.max_length, in_windows)
        cut = np.unique(owners[rows.lengths >= tuning.max_length])
        logger.info("%-14s %d of %d texts have %d tokens or more", split, len(cut), len(examples), tuning.max_length)
        matrix = None
        if examples[0].label is not None:
            matrix = data.matrix(split)
            targets = {
                SINGLE: matrix.argmax(1),
                SEVERAL: matrix.astype(np.int64),
                NUMBER: matrix[:, 0].astype(np.float32),
            }
            rows = replace(rows, columns={**rows.columns, "labels": targets[kind][owners]})
        places = [example.place for example in examples]
        references = ClassificationReferences(data.labels, matrix, owners, places, constant)
        used = round(fraction * len(examples)) if split == "train" else len(examples)
        splits[split] = Split(rows, references, used, matrix is not None)
    chosen = None if fraction == 1 else partial(choose_rows, data, splits["train"], eval_seed)
    return TaskData(splits, data.labels.classes or ("score",), PROBLEM_TYPES[kind], chosen)


def choose_rows(data: LabelledTexts, train: Split, eval_seed: int, seed: int) -> Array:
    """Return the numbers of the rows of the texts that the run with this seed trains on, int64 (M,), ascending."""
    texts = nested_order(data.splits["train"], eval_seed + seed)[: train.examples]
    return np.flatnonzero(np.isin(train.references.owners, texts))


# ---- the model


def class_weights(data: LabelledTexts) -> Tensor:
    """Return weights (C,) of the classes, or of a yes to each, in inverse proportion to their frequency."""
    shares = torch.tensor(data.matrix("train").mean(0), dtype=torch.float32).clamp(min=1e-6)
    if data.labels.kind == SINGLE:
        return 1 / (len(shares) * shares)
    return (1 - shares) / shares


def build_classifier(labels: LabelSet, encoder: PreTrainedModel, tuning: HyperParameters, data: TaskData) -> EncoderWithHead:
    """Build encoder and head; a saved model answers numbers on the scale of the data."""
    model = EncoderWithHead(encoder, tuning.head, len(data.labels), tuning.head_dropout)
    head: Any = model.head
    head.output_range = (labels.low, labels.high)
    return model


def classification_files(
    split: str,
    logits: Array,
    references: ClassificationReferences,
) -> dict[str, Any]:
    """Write a csv row per text, with its place in the data; of the development set also what the report shows."""
    labels = references.labels
    table = pd.DataFrame({"place": references.places})
    if references.matrix is not None:
        table["label"] = class_names_of(labels, references.matrix)
    table["prediction"] = class_names_of(labels, decide_classes(labels, mean_by_text(logits, references.owners)))
    files: dict[str, Any] = {f"-{split}.csv": table.to_csv(index=False)}
    if split == "dev":
        files["-details.json"] = details(logits, references)
    return files
