"""The command `electra classify`: labels of the user's texts as a task, answers to new texts."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModelForSequenceClassification, PreTrainedModel, PreTrainedTokenizerBase

from electra.base.errors import where_is
from electra.base.files import TINY_EN
from electra.base.options import Values
from electra.core.errors import UserError, abridged
from electra.data.cells import PAGE
from electra.finetuning.commands import TaskCommand
from electra.finetuning.config import (
    Arguments,
    ClassificationArguments,
    EncoderArguments,
    HyperParameters,
    parse_data_options,
)
from electra.finetuning.data import Array, Logits, NamedRows, rows_by_split, task_name
from electra.finetuning.heads import EncoderWithHead
from electra.finetuning.held_out import with_development
from electra.finetuning.labelled.answers import predictor_of_texts
from electra.finetuning.labelled.baselines import make_baselines
from electra.finetuning.labelled.labels import (
    PROBLEM_TYPES,
    Example,
    LabelledTexts,
    LabelSet,
    find_labels,
    number_labels,
    parse_cell,
)
from electra.finetuning.labelled.metrics import NUMBER, SEVERAL, SINGLE
from electra.finetuning.labelled.notes import log_labels
from electra.finetuning.labelled.scores import (
    ClassificationReferences,
    class_names_of,
    decide_classes,
    details,
    is_classifier_collapsed,
    mean_by_text,
    score_splits,
    score_texts,
    useful_thresholds,
)
from electra.finetuning.labelled.selection import content_of, label_order, nested_order
from electra.finetuning.labelled.texts import TextColumns, encode_texts, read_examples
from electra.finetuning.row_checks import is_named_unlabelled, is_unlabelled, read_all, set_apart, warn_if_unused
from electra.finetuning.task import Split, Task, TaskData, TaskKind, classifier_example, step_loss
from electra.report.evaluation import CUT_TEXTS
from electra.tasks.classify.data import ClassifyArguments
from electra.tasks.classify.report import CLASSIFY_REPORTING, HEADLINES

logger = logging.getLogger(__name__)


# ---- the command


CLASSIFY_GROUPS = (EncoderArguments, ClassifyArguments, ClassificationArguments)
"""Groups of options of `electra classify`."""


def parse_classify_arguments(
    argv: Sequence[str] | Values | None, rows: Mapping[str, NamedRows] = {}, preset: Mapping[str, object] = {}
) -> Arguments:
    """Return the options of `electra classify`, checked; arguments and errors as in `parse_data_options`."""
    about = "Fine-tune an encoder on texts with labels of your own, and score it."
    args = parse_data_options(CLASSIFY_GROUPS, about, argv, rows, preset, encoder=TINY_EN)
    fractions = args.options.train_fractions
    if len(fractions) != 1:
        shares = " ".join(map(str, fractions))
        program = where_is("examples/learning_curve.py")
        raise UserError(f"--train_fractions takes one share, not {shares}; see {program} for several")
    return args


# ---- the task

CLASSIFY = TaskKind(
    CLASSIFY_REPORTING,
    AutoModelForSequenceClassification,
    "text-classification",
    kept_lists=("thresholds",),
)
"""The kind of the tasks of `electra classify`."""
THRESHOLDS_NOTE = (
    "A text may have several classes. If thresholds are named below, a class is answered if its probability is above "
    "its own, otherwise above one half; the pipeline gives the probabilities."
)
"""Note in the card of a model that gives texts several classes."""


def open_classification(args: Arguments) -> Task:
    """Return the task of the command; read the data first, because the kind of the labels decides what the task is."""
    options = args.options
    data = read_labelled(options, args.rows)
    kind = data.labels.kind
    # A data set may lack a development set, which is then drawn; the seed also chooses texts of --train_fractions.
    settings = {"label_kind": kind, "eval_seed": options.eval_seed, "validation_fraction": options.validation_fraction}
    if len(options.label_column) < 2:
        settings["label_column"] = next(iter(options.label_column), None)
    weights = class_weights(data) if options.class_weights == "balanced" else None
    (fraction,) = options.train_fractions
    if fraction < 1:  # results of runs that all had the same texts are not continued
        settings["train_texts"] = "drawn for each seed"
    return Task(
        kind=CLASSIFY,
        name=task_name(options, CLASSIFY.name),
        headlines=(HEADLINES[kind],),
        settings=settings,
        load=partial(load_classification, data, options.long_texts == "windows", fraction, options.eval_seed),
        head=partial(build_classifier, data.labels),
        loss=partial(step_loss, weights=weights),
        metrics=score_splits,
        is_collapsed=is_classifier_collapsed,
        row_scores=score_texts,
        predictions=classification_files,
        kept_values=kept_thresholds,
        texts=round(fraction * len(data.splits["train"])),
        note=THRESHOLDS_NOTE if kind == SEVERAL else "",
        example=classifier_example(is_pair=bool(options.text_pair_column), has_several_classes=kind == SEVERAL),
    )


# ---- data


def read_labelled(options: ClassifyArguments, program_rows: Mapping[str, NamedRows] = {}) -> LabelledTexts:
    """Return the texts of all splits with their labels; without a development set, hold out one of the training data.

    Args:
        program_rows: rows of a program by split, see `data_settings`.
    Raises:
        UserError: data or rows cannot be read, or the labels cannot be learned.
    """
    columns = TextColumns(options.text_column, options.text_pair_column, options.label_column)
    kind = options.label_kind
    all_examples: dict[str, list[Example]] = {}
    for split, rows in rows_by_split(options, program_rows, needs=["train"]).items():
        examples = read_examples(rows, columns, needs_labels=split != "test")
        all_examples[split] = read_all(examples, partial(parse_cell, kind=kind))
    has_no_label = partial(is_unlabelled, no_label=options.no_label)
    splits = set_apart(
        all_examples,
        lambda example: [] if has_no_label(example.label) else [example.label],
        lambda example: example.place,
    )
    is_used = any(is_named_unlabelled(example.label, options.no_label) for example in chain(*all_examples.values()))
    warn_if_unused(options.no_label, is_used)
    separator = options.label_separator
    labels = find_labels(splits["train"], kind, separator)
    if labels.low == labels.high or (labels.kind != NUMBER and len(labels.classes) < 2):
        raise UserError(
            f"all labels are {abridged(splits['train'][0].label)}; the training data needs two or more, see {PAGE}"
        )
    for split, examples in splits.items():
        if has_no_label(examples[0].label):
            splits[split] = [example._replace(label=None) for example in examples]
        else:
            splits[split] = number_labels(examples, labels, separator)
    splits = with_development(splits, options, content_of, "texts", label_order)
    if not round(options.train_fractions[0] * len(splits["train"])):
        raise UserError("there are too few texts to train on; add some, or raise --train_fractions")
    data = LabelledTexts(labels, splits)
    check_trained(data)
    log_labels(data)
    return data


def check_trained(data: LabelledTexts) -> None:
    """Raise a UserError if a class has texts in the development set and none to train on."""
    trained, scored = data.shares("train"), data.shares("dev")
    untrained = [name for number, name in enumerate(data.labels.classes) if scored[number] and not trained[number]]
    if untrained:
        raise UserError(
            f"of {len(untrained)} classes, such as {abridged(untrained[0])}, all texts are in the development set and "
            "none are left to train on; add texts of a rare class, merge it with another one, or leave it out"
        )


def load_classification(
    data: LabelledTexts,
    in_windows: bool,
    fraction: float,
    eval_seed: int,
    tokenizer: PreTrainedTokenizerBase,
    tuning: HyperParameters,
) -> TaskData:
    """Return all splits, encoded: `Task.load`.

    Args:
        in_windows: see `encode_texts`.
        fraction: share of the training texts that a run trains on, in (0, 1]; its seed and `eval_seed` choose them.
    """
    kind = data.labels.kind
    splits = {}
    measured = {}
    for split, examples in data.splits.items():
        rows, owners = encode_texts(examples, tokenizer, tuning.max_length, in_windows)
        cut_texts = np.unique(owners[rows.lengths >= tuning.max_length])
        if len(cut_texts):
            how = "are read in windows" if in_windows else "are cut there; --long_texts windows reads all of a text"
            logger.info(
                "%-14s %d of %d texts have %d tokens or more, and %s",
                split, len(cut_texts), len(examples), tuning.max_length, how,
            )  # fmt: skip
        if split == "dev" and not in_windows:
            measured[CUT_TEXTS] = round(len(cut_texts) / len(examples), 4)
        targets = None
        if examples[0].label is not None:
            targets = data.targets(split)
            trained_targets = targets[:, 0].astype(np.float32) if kind == NUMBER else targets
            rows = replace(rows, columns={**rows.columns, "labels": trained_targets[owners]})
        places = [example.place for example in examples]
        references = ClassificationReferences(data.labels, targets, owners, places)
        examples_used = round(fraction * len(examples)) if split == "train" else len(examples)
        splits[split] = Split(rows, references, examples_used, targets is not None)
    choose_for_seed = None if fraction == 1 else partial(choose_rows, data, splits["train"], eval_seed)
    baselines = make_baselines(data, splits, choose_for_seed)
    names = data.labels.classes or ("score",)
    return TaskData(splits, names, PROBLEM_TYPES[kind], choose_for_seed, baselines=baselines, measured=measured)


def choose_rows(data: LabelledTexts, train: Split, eval_seed: int, seed: int) -> Array:
    """Return the numbers of the rows that the run with this seed trains on, int64 (M,), ascending.

    Args:
        train: the encoded training data, whose `examples` is the number of texts to choose.
        eval_seed, seed: seeds whose sum decides the choice.
    """
    texts = nested_order(data.splits["train"], eval_seed + seed)[: train.examples]
    return np.flatnonzero(np.isin(train.references.owners, texts))


# ---- the model


def class_weights(data: LabelledTexts) -> Tensor:
    """Return weights (C,) of the classes, or of a yes to each class, in inverse proportion to their frequency."""
    shares = torch.tensor(data.shares("train"), dtype=torch.float32).clamp(min=1e-6)
    if data.labels.kind == SINGLE:
        return 1 / (len(shares) * shares)
    return (1 - shares) / shares


def build_classifier(
    labels: LabelSet, encoder: PreTrainedModel, tuning: HyperParameters, data: TaskData
) -> EncoderWithHead:
    """Return the encoder with a new head; for numbers, the saved model answers on the scale of the data."""
    model = EncoderWithHead(encoder, tuning.head, len(data.labels), tuning.head_dropout)
    head: Any = model.head
    head.output_range = (labels.low, labels.high)
    return model


def kept_thresholds(logits: Logits, references: Mapping[str, ClassificationReferences]) -> Values:
    """Return `useful_thresholds` for the configuration of a saved model, {} without any: `Task.kept_values`."""
    thresholds = useful_thresholds(logits, references)
    return {} if thresholds is None else {"thresholds": thresholds.tolist()}


def classification_files(
    split: str,
    logits: Logits,
    references: Mapping[str, ClassificationReferences],
) -> dict[str, str | Values]:
    """Return the files of predictions: a csv row per text with its place in the data; for dev also the details.

    Arguments and result are those of `Task.predictions`.
    """
    import pandas as pd  # not at the top: `electra predict` needs none

    split_references = references[split]
    labels = split_references.labels
    thresholds = useful_thresholds(logits, references)
    table = pd.DataFrame({"place": split_references.places})
    if split_references.targets is not None:
        table["label"] = class_names_of(labels, split_references.targets)
    by_text = mean_by_text(logits[split], split_references.owners)
    table["prediction"] = class_names_of(labels, decide_classes(labels, by_text, thresholds))
    files: dict[str, str | Values] = {f"-{split}.csv": table.to_csv(index=False)}
    if split == "dev":
        files["-details.json"] = details(logits[split], split_references, thresholds)
    return files


# ---- the command, of which the verb, `fine_tune` and `electra predict` are made


CLASSIFY_COMMAND = TaskCommand(
    CLASSIFY,
    CLASSIFY_GROUPS,
    parse_classify_arguments,
    lambda args: [open_classification(args)],
    lambda options: f"classify_{task_name(options, 'data')}",
    predictor_of_texts,
)
"""The command of `electra classify`."""
main = CLASSIFY_COMMAND.run
