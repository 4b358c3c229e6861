"""The command `electra glue` (run_glue.py): its options, GLUE's tasks as `Task`s, and submission.zip."""

import io
import json
import logging
import zipfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import softmax
from transformers import AutoModelForSequenceClassification, PreTrainedModel, PreTrainedTokenizerBase

from electra.base.command_line import CommandLine
from electra.base.files import CONFIGS, write_file
from electra.base.options import Values
from electra.base.parser import as_flags
from electra.core.errors import UserError
from electra.data.rows import Columns
from electra.finetuning.commands import TaskCommand
from electra.finetuning.config import HYPERPARAMETERS, Arguments, EncoderArguments, HyperParameters
from electra.finetuning.data import Array, Examples, Logits, both_orders, encode_examples
from electra.finetuning.evaluation import Evaluation
from electra.finetuning.heads import EncoderWithHead
from electra.finetuning.labelled.answers import predictor_of_texts
from electra.finetuning.labelled.labels import PROBLEM_TYPES, Example
from electra.finetuning.labelled.metrics import NUMBER, SINGLE, calibration_error
from electra.finetuning.labelled.texts import TextColumns, read_example
from electra.finetuning.predict import AskedColumns, Predictor, Saved
from electra.finetuning.task import (
    Split,
    Task,
    TaskData,
    TaskKind,
    classifier_example,
    score_all,
)
from electra.finetuning.words import fit_words
from electra.report.evaluation import BAG_OF_WORDS, CONSTANT, CUT_TEXTS
from electra.tasks.glue.data import GlueArguments, GlueTuningArguments, load_task, task_data_settings
from electra.tasks.glue.metrics import (
    GlueLabels,
    combine,
    decide_glue_labels,
    is_glue_model_collapsed,
    score_glue_task,
)
from electra.tasks.glue.report import GLUE_REPORTING, MOST_FITTED
from electra.tasks.glue.tasks import DIAGNOSTICS, KNOWN_TASKS, REGRESSION_RANGE, GlueTask, task_by_name

logger = logging.getLogger(__name__)


# ---- the command


DEMO = CONFIGS / "glue" / "demo.yaml"
"""Options of `--tasks demo` without --config."""
TASK_OPTIONS = {*HYPERPARAMETERS, "double_unordered"} - {"left_to_right"}
"""Options that `--task_overrides` may set."""
GLUE_GROUPS = (EncoderArguments, GlueArguments, GlueTuningArguments)
"""Groups of options of `electra glue`."""


def parse_glue_arguments(argv: Sequence[str] | Values | None) -> Arguments:
    """Return the options of `electra glue`, checked; `--tasks demo` without --config takes those of demo.yaml.

    Args:
        argv: words of a command line, None for those of `sys.argv`; or options by name, as a program passes them.
    Raises:
        UserError: an option or its value is refused, or no encoder is named.
    """
    command_line = CommandLine(GLUE_GROUPS, "Fine-tune an encoder on GLUE and score it.")
    flags = command_line.read(argv)
    parsed = command_line.parse(flags, default_config=_default_config)
    encoder, glue, tuning = parsed.groups
    glue = replace(
        glue,
        tasks=_task_names(glue.tasks),
        start_from_mnli=_task_names(glue.start_from_mnli),
    )
    if not set(glue.start_from_mnli) <= set(glue.tasks) - {"mnli"}:
        raise UserError(f"--start_from_mnli {' '.join(glue.start_from_mnli)}: name tasks of --tasks, without mnli")
    overrides = _overrides(glue.task_overrides, flags)
    # Recorded even if empty: else the defaults would apply where the recorded options are used as --config.
    record = {**parsed.record, "task_overrides": overrides}
    return Arguments(encoder, glue, tuning, record, overrides)


def _default_config(flags: Values) -> str | None:
    """Return the file of the demonstration's options if the flags ask for `--tasks demo`, else None."""
    is_demo = _task_names(flags.get("tasks", [])) == ["demo"]
    return str(DEMO) if is_demo else None


def _task_names(names: list[str]) -> list[str]:
    """Return the names of tasks, each once, in the order of GLUE's tables; a word may hold several with commas."""
    words = ",".join(names).split(",")
    chosen_names = {task_by_name(word).name for word in words if word}
    return [name for name in KNOWN_TASKS if name in chosen_names]


def _overrides(text: str, flags: Collection[str]) -> Mapping[str, Values]:
    """Return the checked options of `--task_overrides` by task; an option that is also a flag is left to the flag."""
    try:
        mapping = {name: dict(task_options) for name, task_options in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f'--task_overrides {text} must look like {{"rte": {{"learning_rate": 2e-5}}}}') from error
    overrides = {}
    for name, task_options in mapping.items():
        if other_options := set(task_options) - TASK_OPTIONS:
            raise UserError(f"--task_overrides of {name}: {min(other_options)} cannot differ by task; remove it")
        _, glue, tuning = CommandLine(GLUE_GROUPS, "").parse(as_flags(task_options)).groups
        values = {**vars(glue), **vars(tuning)}
        names = {option for option, value in task_options.items() if value is not None} - {*flags}
        if names:
            overrides[task_by_name(name).name] = {option: values[option] for option in names}
    return overrides


# ---- the tasks

GLUE = TaskKind(GLUE_REPORTING, AutoModelForSequenceClassification, "text-classification")
"""The kind of the tasks of `electra glue`."""
DOUBLED_TASKS = ("mrpc", "stsb")
"""Tasks with unordered pairs, which --double_unordered doubles as google-research/electra does."""
LOW, HIGH = REGRESSION_RANGE
ECE_NAMES = {("mnli", "dev"): "ece_matched", ("mnli", "dev_mismatched"): "ece_mismatched"}
"""Task and development set -> name of its calibration error, where that is not ece."""
REGRESSION_NOTE = f"The model outputs a score in [0, 1], which corresponds to [{LOW:g}, {HIGH:g}] in the data."
"""Note in the card of a model of STS-B."""


def open_tasks(args: Arguments) -> list[Task]:
    """Return the tasks of --tasks; MNLI comes first, named or not, if other tasks start from its encoder."""
    first = ["mnli"] if args.options.start_from_mnli else []
    names = dict.fromkeys([*first, *args.options.tasks])
    return [open_glue_task(args, KNOWN_TASKS[name]) for name in names]


def open_glue_task(args: Arguments, task: GlueTask) -> Task:
    """Return the `Task` of a task of GLUE with the options of the command line; its data are not read yet."""
    options = args.options
    task_options = {"double_unordered": options.double_unordered, **args.overrides.get(task.name, {})}
    is_doubled = task.name in DOUBLED_TASKS and bool(task_options["double_unordered"])
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
        metrics=partial(score_glue, task),
        is_collapsed=lambda logits, references: is_glue_model_collapsed(
            task, decide_glue_labels(logits, task), references
        ),
        row_scores=partial(score_glue_examples, task),
        start="mnli" if task.name in options.start_from_mnli else None,
        note=REGRESSION_NOTE if task.is_regression else "",
        example=classifier_example(is_pair=len(task.text_columns) == 2),
    )


def read_splits(task: GlueTask, glue_dir: str | None, is_predicted: bool) -> dict[str, Examples] | None:
    """Read the examples of a task by split; without a training or development set, log a warning and return None.

    Args:
        is_predicted: read test sets, too.
    """
    split_names = [split for split in task.rows if is_predicted or split not in task.test_files]
    splits_of_files = load_task(task, glue_dir, split_names)
    if not {"train", "dev"} <= set(splits_of_files):
        logger.warning("%s is skipped", task.title)
        return None
    return splits_of_files


def load_glue_task(
    task: GlueTask,
    glue_dir: str | None,
    is_doubled: bool,
    is_predicted: bool,
    tokenizer: PreTrainedTokenizerBase,
    tuning: HyperParameters,
) -> TaskData | None:
    """Read and encode the splits of a task, `Task.load`; return None where `read_splits` does.

    A regression is trained on targets in [0, 1], as in google-research/electra, and scored on GLUE's scale.

    Args:
        is_doubled: train on each pair in both orders.
        is_predicted: read test sets, too, and for MNLI the diagnostic set.
    """
    parts = read_splits(task, glue_dir, is_predicted)
    if parts is None:
        return None
    if is_predicted and task.name == "mnli":
        parts |= load_task(DIAGNOSTICS, glue_dir, ["ax"])
    splits = {}
    for name, examples in parts.items():
        used_examples = both_orders(examples) if is_doubled and name == "train" else examples
        if task.is_regression and used_examples.labels is not None:
            targets = [(label - LOW) / (HIGH - LOW) for label in used_examples.labels]
            used_examples = replace(used_examples, labels=targets)
        splits[name] = Split(
            rows=encode_examples(used_examples, tokenizer, tuning.max_length),
            references=examples.labels,
            examples=len(examples),
            is_labelled=examples.labels is not None,
        )
    problem_type = PROBLEM_TYPES[NUMBER if task.is_regression else SINGLE]
    scored = {name: parts[name] for name, split in splits.items() if split.is_labelled and name != "train"}
    score = partial(score_all, partial(score_glue, task), partial(score_glue_examples, task))
    baselines = cache(lambda: score(glue_baselines(task, parts["train"], scored), splits))
    cut_share = np.mean([length >= tuning.max_length for name in scored for length in splits[name].rows.lengths])
    return TaskData(
        splits,
        task.labels or ("score",),
        problem_type,
        baselines=lambda seed: baselines(),
        measured={CUT_TEXTS: round(float(cut_share), 4)},
    )


def glue_baselines(task: GlueTask, train: Examples, scored_parts: Mapping[str, Examples]) -> dict[str, Logits]:
    """Return logits (N, C) by baseline and split: the best constant answer, and a bag of words.

    The bag of words is fitted to the first `MOST_FITTED` training examples; that of a pair is of both texts joined.
    """
    answer = constant_answer(task, train.labels)
    answers = {CONSTANT: {name: np.tile(answer, (len(examples), 1)) for name, examples in scored_parts.items()}}
    targets = np.asarray(train.labels[:MOST_FITTED])
    kind = SINGLE
    if task.is_regression:
        targets = (targets[:, None] - LOW) / (HIGH - LOW)
        kind = NUMBER
    score = fit_words(texts_of_examples(train)[:MOST_FITTED], targets, kind, len(answer))
    if score is not None:
        answers[BAG_OF_WORDS] = {name: score(texts_of_examples(examples)) for name, examples in scored_parts.items()}
    return answers


def texts_of_examples(examples: Examples) -> list[str]:
    """Return a text for each example; for a pair, both texts joined."""
    if examples.second is None:
        return examples.first
    return [" ".join(pair) for pair in zip(examples.first, examples.second, strict=True)]


def constant_answer(task: GlueTask, labels: Sequence[float]) -> Array:
    """Return the logits of the best constant answer: (C,) of the classes, or (1,), the mean target of a regression."""
    if task.is_regression:
        return np.array([(np.mean(labels) - LOW) / (HIGH - LOW)])
    counts = np.bincount(np.asarray(labels, np.int64), minlength=len(task.labels))
    return np.log(np.maximum(counts, 1e-9) / len(labels))


def build_glue_model(encoder: PreTrainedModel, tuning: HyperParameters, data: TaskData) -> EncoderWithHead:
    """Return the encoder with a new head that has a logit for each class, or one for the score of a regression."""
    return EncoderWithHead(encoder, tuning.head, len(data.labels), tuning.head_dropout)


def score_glue(
    task: GlueTask,
    logits: Logits,
    references: Mapping[str, GlueLabels],
) -> dict[str, float]:
    """Return the metrics of a task, and of classes the calibration error of each development set: `Task.metrics`."""
    answers = {split: decide_glue_labels(values, task) for split, values in logits.items()}
    scores = score_glue_task(task, answers, references)
    if not task.is_regression:
        for split, values in logits.items():
            name = ECE_NAMES.get((task.name, split), "ece")
            is_right = answers[split] == np.asarray(references[split])
            scores[name] = calibration_error(softmax(values, axis=1).max(1), is_right)
    return scores


def score_glue_examples(task: GlueTask, logits: Array, references: GlueLabels) -> Array | None:
    """Return 1 for each example that is answered right, else 0, (N,): `Task.row_scores`; None for correlations."""
    if task.headline != "accuracy":
        return None
    return np.asarray(decide_glue_labels(logits, task) == np.asarray(references), np.float64)


# ---- submission.zip for gluebenchmark.com


def submit(evaluation: Evaluation) -> None:
    """Write submission.zip, if asked to: the answers of each task's best run, or of the ensemble of all its runs."""
    if evaluation.args.options.predict_test == "none":
        return
    answers: dict[str, np.ndarray] = {}
    finished_tasks = {result.task for result in evaluation.results}  # by this command or an earlier one
    for name, task in KNOWN_TASKS.items():
        if name not in finished_tasks:
            continue
        files = dict(task.test_files)
        if name == "mnli":
            files |= DIAGNOSTICS.test_files
        seeds = evaluation.best_first(open_glue_task(evaluation.args, task))
        runs = [evaluation.read_logits(name, seed) for seed in seeds]
        for split, title in files.items():
            usable = [run[split] for run in runs if split in run and np.isfinite(run[split]).all()]
            if evaluation.args.options.predict_test == "best":
                usable = usable[:1]
            if usable:
                answers[title] = combine(usable, task)
    path = evaluation.folder / "submission.zip"
    missing_titles = write_submission(path, answers)
    logger.info("submission     %s", path)
    if missing_titles:
        logger.warning("%s has no answers for %s: the server rejects it", path, ", ".join(missing_titles))


def write_submission(path: Path, answers: Mapping[str, np.ndarray]) -> list[str]:
    """Write the zip for gluebenchmark.com, and return the titles of the files that are missing in the answers.

    Equal answers give equal bytes.

    Args:
        answers: title of a file ("CoLA") -> answers of `combine`, (N,). If WNLI is missing, all its answers are, as
            usual, the majority class of its training data (0, right on 65.1 % of the test data).
    """
    majority = np.zeros(KNOWN_TASKS["wnli"].rows["test"], np.int64)
    columns = {"WNLI": majority, **answers}
    missing_titles = []
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for task in (*KNOWN_TASKS.values(), DIAGNOSTICS):
            for title in task.test_files.values():
                if title not in columns:
                    missing_titles.append(title)
                    continue
                column = pd.Series(columns[title], name="prediction")
                if not task.is_regression:
                    column = column.map(dict(enumerate(task.written_labels)))
                text = column.to_csv(sep="\t", index_label="index", float_format="%.3f")
                archive.writestr(zipfile.ZipInfo(f"{title}.tsv"), text)  # always dated 1980: equal bytes
    write_file(content.getvalue(), path)
    return missing_titles


# ---- answers to new texts


GLUE_PAIRS = (
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("#1 String", "#2 String"),
)
"""Names of the columns of pairs in GLUE's tasks."""


def predictor(saved: Saved, asked_columns: AskedColumns) -> Predictor:
    """Return the predictor of a saved model of GLUE, for columns that the user names, else for those of its tasks."""
    return predictor_of_texts(saved, asked_columns, None if asked_columns.text_column else read_glue_row)


def read_glue_row(row: Columns, place: str) -> Example:
    """Return the example of a row: a pair if the row has both texts of a task, else a single text."""
    text, pair = next((names for names in GLUE_PAIRS if set(names) <= set(row)), (None, None))
    return read_example(TextColumns(text, pair), row, place)


# ---- the command, of which the verb, `fine_tune` and `electra predict` are made


GLUE_COMMAND = TaskCommand(
    GLUE,
    GLUE_GROUPS,
    parse_glue_arguments,
    open_tasks,
    lambda options: "glue",
    predictor,
    submit,
)
"""The command of `electra glue`."""
main = GLUE_COMMAND.run
