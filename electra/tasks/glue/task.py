"""GLUE's tasks as values: rows, head, metrics."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from transformers import AutoModelForSequenceClassification, PreTrainedModel, PreTrainedTokenizerBase

from electra.finetuning.config import Arguments, HyperParameters
from electra.finetuning.encoding import Examples, both_orders, encode_examples
from electra.finetuning.heads import EncoderWithHead
from electra.finetuning.task import TaskKind, Split, Task, TaskData
from electra.finetuning.trainer import Logits
from electra.tasks.glue.data import load_task, task_data_settings
from electra.tasks.glue.metrics import GlueLabels, decide_glue_labels, is_glue_model_collapsed, score_glue_task
from electra.tasks.glue.report import GLUE_REPORTING
from electra.tasks.glue.tasks import DIAGNOSTICS, REGRESSION_RANGE, KNOWN_TASKS, GlueTask

logger = logging.getLogger(__name__)

GLUE = TaskKind("glue", "run_glue.py", GLUE_REPORTING, AutoModelForSequenceClassification, "text-classification")
DOUBLED_TASKS = ("mrpc", "stsb")
"""Tasks with unordered pairs, which --double_unordered doubles as google-research/electra does."""
LOW, HIGH = REGRESSION_RANGE
REGRESSION_NOTE = f"The model outputs a score in [0, 1], which corresponds to [{LOW:g}, {HIGH:g}] in the data."


def open_tasks(args: Arguments) -> list[Task]:
    """The tasks of the command line; MNLI first if others start from it, even if it is not among them."""
    first = ["mnli"] if args.options.start_from_mnli else []
    names = dict.fromkeys([*first, *args.options.tasks])
    return [open_glue_task(args, KNOWN_TASKS[name]) for name in names]


def open_glue_task(args: Arguments, task: GlueTask) -> Task:
    options = args.options
    chosen = {"double_unordered": options.double_unordered, **args.overrides.get(task.name, {})}
    is_doubled = task.name in DOUBLED_TASKS and bool(chosen["double_unordered"])
    is_predicted = options.predict_test != "none"
    settings = {"double_unordered": is_doubled, **task_data_settings(task, options.glue_dir)}
    if is_predicted:  # runs without predictions cannot be part of a submission
        settings["predicts_test"] = "yes"
    return Task(
        kind=GLUE,
        name=task.name,
        # MNLI without mismatched examples has only the second metric.
        headlines=(task.headline, "accuracy_matched"),
        settings=settings,
        load=partial(load_glue_task, task, options.glue_dir, is_doubled, is_predicted),
        head=build_glue_model,
        metrics=partial(metrics, task),
        is_collapsed=lambda logits, references: is_glue_model_collapsed(task, decide_glue_labels(logits, task), references),
        start="mnli" if task.name in options.start_from_mnli else None,
        note=REGRESSION_NOTE if task.is_regression else "",
    )


def read_test_rows(task: GlueTask, glue_dir: str | None, is_predicted: bool) -> dict[str, Examples] | None:
    """Return the rows of a task by split; None, with a warning, if it has no training or development set."""
    wanted = [split for split in task.rows if is_predicted or split not in task.test_files]
    found = load_task(task, glue_dir, wanted)
    if not {"train", "dev"} <= set(found):
        logger.warning("%s is skipped", task.title)
        return None
    return found


def load_glue_task(
    task: GlueTask,
    glue_dir: str | None,
    is_doubled: bool,
    is_predicted: bool,
    tokenizer: PreTrainedTokenizerBase,
    tuning: HyperParameters,
) -> TaskData | None:
    """The encoded splits of a task; None, with a warning, if it has no training or development set.

    Labels of a regression are targets in [0, 1], as in google-research/electra; references are on GLUE's scale.
    """
    found = read_test_rows(task, glue_dir, is_predicted)
    if found is None:
        return None
    if is_predicted and task.name == "mnli":
        found |= load_task(DIAGNOSTICS, glue_dir, ["ax"])
    splits = {}
    for name, examples in found.items():
        used = both_orders(examples) if is_doubled and name == "train" else examples
        if task.is_regression and used.labels is not None:
            targets = [(label - LOW) / (HIGH - LOW) for label in used.labels]
            used = replace(used, labels=targets)
        splits[name] = Split(
            rows=encode_examples(used, tokenizer, tuning.max_length),
            references=examples.labels,
            examples=len(examples),
            is_labelled=examples.labels is not None,
        )
    problem_type = "regression" if task.is_regression else "single_label_classification"
    return TaskData(splits, task.labels or ("score",), problem_type)


def build_glue_model(encoder: PreTrainedModel, tuning: HyperParameters, data: TaskData) -> EncoderWithHead:
    return EncoderWithHead(encoder, tuning.head, len(data.labels), tuning.head_dropout)


def metrics(
    task: GlueTask,
    logits: Logits,
    references: Mapping[str, GlueLabels],
) -> dict[str, float]:
    answers = {split: decide_glue_labels(values, task) for split, values in logits.items()}
    return score_glue_task(task, answers, references)
