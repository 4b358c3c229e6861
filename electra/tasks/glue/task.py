"""GLUE for the fine-tuning runner: options, encoded rows, MNLI as a starting point, the submission."""

import json
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from transformers import AutoModelForSequenceClassification, PreTrainedModel

from electra.cli import CommandLine
from electra.errors import UserError
from electra.files import CONFIGS, replace_folder
from electra.finetuning import config as options
from electra.finetuning.config import (
    HYPERPARAMETERS,
    ClassificationArguments,
    EncoderArguments,
    FineTuningArguments,
    GlueArguments,
)
from electra.finetuning.encoding import EncodedExamples, Examples, both_orders, encode
from electra.finetuning.heads import FIRST_TOKEN_HEADS, EncoderWithHead
from electra.finetuning.runner import evaluate
from electra.finetuning.task import TaskAdapter, TaskRows
from electra.finetuning.trainer import Logits, Outcome
from electra.tasks.glue.data import HUB_ID, TaskData, load_diagnostics, load_tasks, task_data_settings
from electra.tasks.glue.metrics import combine, decide, is_collapsed, score
from electra.tasks.glue.report import REPORTING
from electra.tasks.glue.submission import prediction_words, write_submission
from electra.tasks.glue.tasks import DIAGNOSTICS, REGRESSION_RANGE, TASKS, Task, task_by_name

logger = logging.getLogger(__name__)

DEMO = CONFIGS / "glue" / "demo.yaml"
GROUPS = (EncoderArguments, GlueArguments, ClassificationArguments)
TASK_OPTIONS = {*HYPERPARAMETERS} | {"double_unordered"}
"""Options that `--task_overrides` may set."""


@dataclass(frozen=True)
class Arguments(options.Arguments[GlueArguments]):
    """All options of a GLUE evaluation."""

    @property
    def glue(self) -> GlueArguments:
        return self.options


def parse_arguments(argv: list[str] | None = None) -> Arguments:
    """Parse and check the command line. `--tasks demo` without `--config` uses configs/glue/demo.yaml."""
    argv = list(sys.argv[1:] if argv is None else argv)
    command_line = CommandLine(GROUPS, "Fine-tune an encoder on GLUE and score it.")
    encoder, glue, tuning = command_line.parse(argv)
    if command_line.value_of("config", argv) is None and _task_names(glue.tasks, "--tasks") == ["demo"]:
        encoder, glue, tuning = command_line.parse(argv, str(DEMO))
    glue.tasks = _task_names(glue.tasks, "--tasks")
    glue.start_from_mnli = _task_names(glue.start_from_mnli, "--start_from_mnli") if glue.start_from_mnli else []
    for name in glue.start_from_mnli:
        if name in ("mnli", "demo"):
            raise UserError(f"--start_from_mnli {name} is not possible: name tasks other than mnli and demo")
        if name not in glue.tasks:
            raise UserError(f"--start_from_mnli {name}: that task is not run; add it to --tasks")
    if glue.glue_dir is not None:
        if not glue.glue_dir:
            raise UserError("--glue_dir is empty; name a folder, or leave it out to load from the Hub")
        glue.glue_dir = os.path.expanduser(glue.glue_dir)
    overrides = _overrides(glue.task_overrides, command_line.flags)
    # Also if empty: otherwise the default overrides would apply when this file is used as --config.
    effective = {**command_line.effective, "task_overrides": overrides}
    return Arguments(encoder, glue, tuning, effective, overrides)


def _task_names(names: list[str], option: str) -> list[str]:
    """Task names in the order of GLUE's tables, without repetitions. A word may hold several, with commas."""
    words = [word for name in names for word in name.split(",") if word]
    if not words:
        raise UserError(f"{option} names no task; choose from {' '.join(TASKS)}")
    chosen = {task_by_name(word).name for word in words}
    return [name for name in TASKS if name in chosen]


def _overrides(text: str, flags: set[str]) -> dict[str, dict[str, Any]]:
    """Parse `--task_overrides`, with the checks of the options. Flags of the command line take precedence.

    Raises:
        UserError: not a mapping from tasks to options, an unknown task or option, or an invalid value.
    """
    try:
        mapping = json.loads(text)
    except ValueError as error:
        raise UserError(f"--task_overrides {text} is not a mapping from tasks to options: {error}") from error
    if not isinstance(mapping, dict) or not all(isinstance(chosen, dict) for chosen in mapping.values()):
        raise UserError(f'--task_overrides {text} must be like {{"rte": {{"learning_rate": 2e-5}}}}')
    overrides: dict[str, dict[str, Any]] = {}
    for name, chosen in mapping.items():
        unknown = [option for option in chosen if option not in TASK_OPTIONS]
        if unknown:
            raise UserError(
                f"--task_overrides of {name}: {unknown[0]} is not an option that can differ by task; those are "
                f"{' '.join(sorted(TASK_OPTIONS))}"
            )
        chosen = {option: value for option, value in chosen.items() if value is not None}  # null: not set
        words = [f"--{option}={str(v).lower() if isinstance(v, bool) else v}" for option, v in chosen.items()]
        try:
            _, glue, tuning = CommandLine(GROUPS, "").parse(words)
        except UserError as error:
            raise UserError(f"--task_overrides of {name}: {error}") from error
        values = {**vars(glue), **vars(tuning)}
        kept = {option: values[option] for option in chosen if option not in flags}
        if kept:
            overrides[task_by_name(name).name] = kept
    return overrides


SUBMISSION_NAME = "submission.zip"
DOUBLED_TASKS = ("mrpc", "stsb")
"""Tasks with unordered pairs, which --double_unordered doubles as google-research/electra does."""


class Glue(TaskAdapter):
    """Tasks of one GLUE evaluation. Its folder contains, in addition to what every evaluation writes:

    encoders/mnli-SEED/      encoders fine-tuned on MNLI, if other tasks start from them
    submission.zip           test predictions, if asked for
    """

    args: Arguments
    reporting = REPORTING
    script = "run_glue.py"
    auto_model = AutoModelForSequenceClassification
    pipeline = "text-classification"
    saved_heads = FIRST_TOKEN_HEADS

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.references: dict[str, dict[str, Sequence[int] | Sequence[float]]] = {}
        """Task -> development split -> labels on GLUE's scale."""
        self.data_settings: dict[str, dict[str, str]] = {}
        """Task -> fingerprints of its data, computed once."""

    @classmethod
    def folder_prefix(cls, args: Any) -> str:
        return "glue"

    # ---- data

    def names(self) -> list[str]:
        """Tasks of the command line; MNLI first if others start from it."""
        names, starting = list(self.args.glue.tasks), self.args.glue.start_from_mnli
        if not starting:
            return names
        if "mnli" not in names:
            logger.info("mnli is run as well: %s start from it", " ".join(starting))
        return ["mnli", *(name for name in names if name != "mnli")]

    def load(self, names: Sequence[str], settings: Mapping[str, FineTuningArguments]) -> dict[str, TaskRows]:
        glue_dir = self.args.glue.glue_dir
        data = load_tasks(names, glue_dir, with_test=self.wants_test)
        if self.args.glue.start_from_mnli and "mnli" in names and "mnli" not in data:
            raise UserError("--start_from_mnli needs MNLI, which is not there; leave it out or add MNLI's files")
        loaded = {name: self._encoded(data[name], settings[name].max_length) for name in data}
        if self.wants_test and "mnli" in loaded:
            diagnostics = load_diagnostics(glue_dir)
            if diagnostics is not None:
                loaded["mnli"].test["ax"] = self._encode(diagnostics, settings["mnli"].max_length)
        return loaded

    def _encoded(self, data: TaskData, length: int) -> TaskRows:
        task, splits = data
        train = both_orders(splits["train"]) if is_doubled(self.args, task.name) else splits["train"]
        dev = {split: examples for split, examples in splits.items() if split.startswith("dev")}
        tests = {split: replace(rows, labels=None) for split, rows in splits.items() if split.startswith("test")}
        self.references[task.name] = {split: examples.labels or [] for split, examples in dev.items()}
        return TaskRows(
            self._encode(scaled(train, task), length),
            {split: self._encode(scaled(examples, task), length) for split, examples in dev.items()},
            {"train": len(splits["train"]), **{split: len(examples) for split, examples in dev.items()}},
            {split: self._encode(examples, length) for split, examples in tests.items()},
        )

    def _encode(self, examples: Examples, length: int) -> EncodedExamples:
        return encode(examples, self.encoder.tokenizer, length)

    # ---- training and scores

    def make_model(self, task: str, encoder: PreTrainedModel, settings: FineTuningArguments) -> EncoderWithHead:
        return EncoderWithHead(encoder, settings.head, max(1, len(TASKS[task].labels)), settings.head_dropout)

    def more_settings(self, task: str) -> dict[str, Any]:
        if task not in self.data_settings:
            self.data_settings[task] = task_data_settings(TASKS[task], self.args.glue.glue_dir)
        return {"double_unordered": is_doubled(self.args, task), **self.data_settings[task]}

    def metrics(self, task: str, logits: Logits) -> dict[str, float]:
        answers = {split: decide(values, TASKS[task]) for split, values in logits.items()}
        return score(TASKS[task], answers, self.references[task])

    def headlines(self, task: str) -> Sequence[str]:
        """The headline metric, or matched accuracy for MNLI without mismatched examples."""
        return TASKS[task].headline, "accuracy_matched"

    def is_collapsed(self, task: str, logits: Logits) -> bool:
        references = self.references[task]
        return any(
            is_collapsed(TASKS[task], decide(logits[split], TASKS[task]), references[split]) for split in references
        )

    # ---- saved models

    def labels(self, task: str) -> Sequence[str]:
        return TASKS[task].labels or ("score",)

    def config(self, task: str) -> dict[str, Any]:
        return {"problem_type": "regression" if TASKS[task].is_regression else "single_label_classification"}

    def note(self, task: str) -> str:
        if not TASKS[task].is_regression:
            return ""
        low, high = REGRESSION_RANGE
        return f"The model outputs a score in [0, 1], which corresponds to [{low:g}, {high:g}] in the data."

    def hub_dataset(self, task: str) -> tuple[str | None, str | None]:
        return (None, None) if task == "demo" else (HUB_ID, task)

    # ---- MNLI as a start

    def start_title(self, task: str) -> str:
        if task in self.args.glue.start_from_mnli:
            return f"mnli, {self.args.glue.mnli_run.replace('_', ' ')}"
        return super().start_title(task)

    def start(self, task: str, seed: int) -> tuple[str, str | None]:
        """The pre-trained encoder, or one that was fine-tuned on MNLI.

        Raises:
            UserError: earlier runs of the task started from a run of MNLI that is no longer the best.
        """
        if task not in self.args.glue.start_from_mnli:
            return super().start(task, seed)
        if self.args.glue.mnli_run == "best":
            seed = self.best_first("mnli")[0]
            others = {r.start for r in self.evaluation.results if r.task == task} - {f"mnli-{seed}"}
            if others:
                raise UserError(
                    f"{self.evaluation.folder} holds {task} started from {' '.join(sorted(others))}, and the "
                    f"best run of mnli is now mnli-{seed}; choose another --experiment_name"
                )
        return f"mnli-{seed}", str(self.encoder_path(seed))

    def encoder_path(self, seed: int) -> Path:
        """Folder of the encoder of a run on MNLI."""
        return self.evaluation.folder / "encoders" / f"mnli-{seed}"

    def is_kept(self, task: str, seed: int) -> bool:
        return task != "mnli" or not self.args.glue.start_from_mnli or self.encoder_path(seed).is_dir()

    def keep(self, task: str, seed: int, outcome: Outcome) -> None:
        if task == "mnli" and self.args.glue.start_from_mnli:
            target = self.encoder_path(seed)
            unfinished = target.with_name(f".{target.name}.unfinished")
            model: Any = outcome.trainer.model
            model.encoder.save_pretrained(unfinished)
            self.encoder.tokenizer.save_pretrained(unfinished)
            replace_folder(unfinished, target)

    # ---- the submission

    @property
    def wants_test(self) -> bool:
        return self.args.glue.predict_test != "none"

    def finish(self, tasks: Sequence[str]) -> None:
        """Write submission.zip, if asked."""
        if not self.wants_test:
            return
        path = self.evaluation.folder / SUBMISSION_NAME
        notes = write_submission(path, self.submitted_words(tasks))
        logger.info("submission     %s", path)
        for note in notes:
            logger.info("  %s", note)

    def submitted_words(self, tasks: Sequence[str]) -> dict[str, list[str]]:
        """File title -> answers: those of the best run of a task, or of the ensemble of all its runs."""
        words: dict[str, list[str]] = {}
        for name in tasks:
            task = TASKS[name]
            logits = [self.evaluation.read_predictions(name, seed) for seed in self.best_first(name)]
            for split, title in {**task.test_files, **({"ax": DIAGNOSTICS.title} if name == "mnli" else {})}.items():
                runs = [run[split] for run in logits if split in run and np.isfinite(run[split]).all()]
                if len(runs) < len(logits):
                    unusable = len(logits) - len(runs)
                    logger.warning("%s: %d of %d runs have no usable predictions", title, unusable, len(logits))
                if runs:
                    chosen = runs[:1] if self.args.glue.predict_test == "best" else runs
                    words[title] = prediction_words(task, combine(chosen, task))
        return words


def is_doubled(args: Arguments, task: str) -> bool:
    """Whether the pairs of a task are trained on in both orders."""
    doubled: bool = args.overrides.get(task, {}).get("double_unordered", args.glue.double_unordered)
    return doubled and task in DOUBLED_TASKS


def scaled(examples: Examples, task: Task) -> Examples:
    """Examples with the targets of a regression scaled to [0, 1], as in google-research/electra."""
    if not task.is_regression or examples.labels is None:
        return examples
    low, high = REGRESSION_RANGE
    return replace(examples, labels=[(label - low) / (high - low) for label in examples.labels])


def main(argv: list[str] | None = None) -> None:
    evaluate(argv, parse_arguments, Glue)
