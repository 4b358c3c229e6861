"""GLUE for the protocol: its tasks as rows of tokens, its metrics, MNLI as a start, the submission."""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedModel

from electra.errors import UserError
from electra.files import replace_folder
from electra.finetuning.encoding import EncodedExamples, both_orders, encode
from electra.finetuning.examples import Examples
from electra.finetuning.heads import EncoderWithHead
from electra.finetuning.protocol.family import Family, TaskRows
from electra.finetuning.run import Logits, Outcome
from electra.finetuning.trainer import Hyperparameters
from electra.glue.data import TaskData, load_diagnostics, load_tasks, task_data_settings
from electra.glue.decisions import combine, decide
from electra.glue.metrics import is_collapsed, score
from electra.glue.options import Arguments
from electra.glue.report import REPORTING
from electra.glue.submission import prediction_words, write_submission
from electra.glue.tasks import DIAGNOSTICS, REGRESSION_RANGE, TASKS, Task

logger = logging.getLogger(__name__)

SUBMISSION_NAME = "submission.zip"
DOUBLED_TASKS = ("mrpc", "stsb")
"""Tasks whose pairs have no order, doubled by --double_unordered as in google-research/electra."""


class Glue(Family):
    """The tasks of one evaluation on GLUE.

    In its folder, beside what every evaluation has:

    encoders/mnli-SEED/      encoders fine-tuned on MNLI, if other tasks start from them
    submission.zip           test predictions, if wanted
    """

    args: Arguments
    reporting = REPORTING

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.references: dict[str, dict[str, Sequence[int] | Sequence[float]]] = {}
        """Labels of the development splits as GLUE defines them, by task; a regression is trained on scaled ones."""
        self.data_settings: dict[str, dict[str, str]] = {}
        """Of which data a task is, as it was when it was first asked."""

    # ---- data

    def names(self) -> list[str]:
        """As on the command line; MNLI first where others start from it."""
        names, starting = list(self.args.glue.tasks), self.args.glue.start_from_mnli
        if not starting:
            return names
        if "mnli" not in names:
            logger.info("mnli is run as well: %s start from it", " ".join(starting))
        return ["mnli", *(name for name in names if name != "mnli")]

    def load(self, names: Sequence[str], settings: Mapping[str, Hyperparameters]) -> dict[str, TaskRows]:
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

    def make_model(self, task: str, encoder: PreTrainedModel, settings: Hyperparameters) -> EncoderWithHead:
        return EncoderWithHead(encoder, settings.head, max(1, len(TASKS[task].labels)), settings.head_dropout)

    def more_settings(self, task: str) -> dict[str, Any]:
        if task not in self.data_settings:
            self.data_settings[task] = task_data_settings(TASKS[task], self.args.glue.glue_dir)
        return {"double_unordered": is_doubled(self.args, task), **self.data_settings[task]}

    def metrics(self, task: str, logits: Logits) -> dict[str, float]:
        answers = {split: decide(values, TASKS[task]) for split, values in logits.items()}
        return score(TASKS[task], answers, self.references[task])

    def headline(self, task: str, metrics: Mapping[str, float | None]) -> float:
        """Matched accuracy for MNLI without mismatched examples."""
        value = metrics.get(TASKS[task].headline, metrics.get("accuracy_matched"))
        return value if value is not None and math.isfinite(value) else -math.inf

    def is_collapsed(self, task: str, logits: Logits) -> bool:
        references = self.references[task]
        return any(
            is_collapsed(TASKS[task], decide(logits[split], TASKS[task]), references[split]) for split in references
        )

    # ---- MNLI as a start

    def start_title(self, task: str) -> str:
        if task in self.args.glue.start_from_mnli:
            return f"mnli, {self.args.glue.mnli_run.replace('_', ' ')}"
        return super().start_title(task)

    def start(self, task: str, seed: int) -> tuple[str, str | None]:
        """The encoder itself, or what was fine-tuned on MNLI.

        Raises:
            UserError: another run of MNLI is the best by now than the one that others started from.
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
        """Where the encoder of a run of MNLI is kept."""
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
        """What the submission says of each test row, by file: of the best run of a task, or of all its runs."""
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
    """Whether a task is trained on its pairs in both orders."""
    doubled: bool = args.overrides.get(task, {}).get("double_unordered", args.glue.double_unordered)
    return doubled and task in DOUBLED_TASKS


def scaled(examples: Examples, task: Task) -> Examples:
    """With the targets of a regression scaled to [0, 1], as in google-research/electra."""
    if not task.is_regression or examples.labels is None:
        return examples
    low, high = REGRESSION_RANGE
    return replace(examples, labels=[(label - low) / (high - low) for label in examples.labels])
