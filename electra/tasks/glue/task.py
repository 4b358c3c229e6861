"""GLUE for the fine-tuning runner: options, encoded rows, MNLI as a starting point, the submission."""

import io
import logging
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from transformers import AutoModelForSequenceClassification, PreTrainedModel

from electra.finetuning.config import (
    Arguments,
    GlueArguments,
    Tuning,
)
from electra.finetuning.encoding import ColumnRows, Examples, both_orders, encode
from electra.finetuning.heads import EncoderWithHead
from electra.finetuning.task import TaskAdapter, TaskRows
from electra.finetuning.trainer import Logits, Outcome
from electra.io.errors import UserError
from electra.io.files import replace_folder, write_file
from electra.tasks.glue.data import HUB_ID, load_task, load_tasks, task_data_settings
from electra.tasks.glue.metrics import Labels, combine, decide, is_collapsed, score
from electra.tasks.glue.report import REPORTING
from electra.tasks.glue.tasks import DIAGNOSTICS, REGRESSION_RANGE, TASKS, Task

logger = logging.getLogger(__name__)

DOUBLED_TASKS = ("mrpc", "stsb")
"""Tasks with unordered pairs, which --double_unordered doubles as google-research/electra does."""


class References(NamedTuple):
    """A labelled split, on GLUE's scale."""

    task: Task
    labels: Labels


class Glue(TaskAdapter):
    """Tasks of one GLUE evaluation. Its folder also has encoders/mnli-SEED/ and submission.zip, if asked for."""

    args: Arguments[GlueArguments]
    kind, script = "glue", "run_glue.py"
    reporting = REPORTING
    auto_model, pipeline, saved_heads = AutoModelForSequenceClassification, "text-classification", ("hf",)

    def names(self) -> list[str]:
        """Tasks of the command line; MNLI first if others start from it, even if it is not among them."""
        first = ["mnli"] if self.args.options.start_from_mnli else []
        return [*first, *(name for name in self.args.options.tasks if name not in first)]

    def load(self, names: Sequence[str], tunings: Mapping[str, Tuning]) -> dict[str, TaskRows]:
        glue_dir = self.args.options.glue_dir
        data = load_tasks(names, glue_dir, with_test=self.wants_test)
        if self.args.options.start_from_mnli and "mnli" in names and "mnli" not in data:
            raise UserError("--start_from_mnli needs the files of MNLI, which are missing")
        if self.wants_test and "mnli" in data:
            data["mnli"] |= load_task(DIAGNOSTICS, glue_dir, ["ax"])
        return {name: self._encoded(name, data[name], tunings[name].max_length) for name in data}

    def _encoded(self, task: str, splits: Mapping[str, Examples], length: int) -> TaskRows:
        def encoded(examples: Examples) -> ColumnRows:
            if TASKS[task].is_regression and examples.labels is not None:
                # Targets in [0, 1], as in google-research/electra.
                low, high = REGRESSION_RANGE
                examples = replace(examples, labels=[(label - low) / (high - low) for label in examples.labels])
            return encode(examples, self.encoder.tokenizer, length)

        doubled = {"train": both_orders(splits["train"])} if self._is_doubled(task) else {}
        rows = {split: encoded(examples) for split, examples in {**splits, **doubled}.items()}
        references = {
            split: References(TASKS[task], examples.labels)
            for split, examples in splits.items()
            if examples.labels is not None
        }
        return TaskRows.of_splits(rows, splits, references, TASKS[task].labels or ("score",))

    def _is_doubled(self, task: str) -> bool:
        """Whether the pairs of a task are trained on in both orders."""
        options = {"double_unordered": self.args.options.double_unordered, **self.args.overrides.get(task, {})}
        return task in DOUBLED_TASKS and bool(options["double_unordered"])

    def more_settings(self, task: str) -> dict[str, Any]:
        data = task_data_settings(TASKS[task], self.args.options.glue_dir)
        return {"double_unordered": self._is_doubled(task), **data}

    def make_model(self, encoder: PreTrainedModel, tuning: Tuning, data: TaskRows) -> EncoderWithHead:
        return EncoderWithHead(encoder, tuning.head, len(data.labels or ()), tuning.head_dropout)

    def metrics(self, logits: Logits, references: Mapping[str, References]) -> dict[str, float]:
        task = references["dev"].task
        answers = {split: decide(values, task) for split, values in logits.items()}
        return score(task, answers, {split: references[split].labels for split in answers})

    def headlines(self, task: str) -> Sequence[str]:
        """The headline metric, or matched accuracy for MNLI without mismatched examples."""
        return TASKS[task].headline, "accuracy_matched"

    def is_collapsed(self, logits: Logits, references: Mapping[str, References]) -> bool:
        task = references["dev"].task
        return any(
            is_collapsed(task, decide(values, task), references[split].labels)
            for split, values in logits.items()
            if split.startswith("dev")
        )

    # ---- saved models

    def config(self, task: str) -> dict[str, Any]:
        return {"problem_type": "regression" if TASKS[task].is_regression else "single_label_classification"}

    def note(self, task: str) -> str:
        low, high = REGRESSION_RANGE
        note = f"The model outputs a score in [0, 1], which corresponds to [{low:g}, {high:g}] in the data."
        return note if TASKS[task].is_regression else ""

    def hub_dataset(self, task: str) -> tuple[str | None, str | None]:
        return (None, None) if task == "demo" else (HUB_ID, task)

    # ---- MNLI as a start

    def start_title(self, task: str) -> str:
        if task in self.args.options.start_from_mnli:
            return f"mnli, {self.args.options.mnli_run.replace('_', ' ')}"
        return super().start_title(task)

    def start(self, task: str, seed: int) -> tuple[str, str | None]:
        """The pre-trained encoder, or one that was fine-tuned on MNLI."""
        if task not in self.args.options.start_from_mnli:
            return super().start(task, seed)
        if self.args.options.mnli_run == "best":
            seed = self.best_first("mnli")[0]
            others = {r.start for r in self.evaluation.results if r.task == task} - {f"mnli-{seed}"}
            if others:
                named = f"{task} started from {' '.join(sorted(others))}, but mnli-{seed} is now the best run"
                raise UserError(f"{self.evaluation.folder} holds {named}; choose another --experiment_name")
        return f"mnli-{seed}", str(self.encoder_path(seed))

    def encoder_path(self, seed: int) -> Path:
        return self.evaluation.folder / "encoders" / f"mnli-{seed}"

    def is_kept(self, task: str, seed: int) -> bool:
        return task != "mnli" or not self.args.options.start_from_mnli or self.encoder_path(seed).is_dir()

    def keep(self, task: str, seed: int, outcome: Outcome, references: Mapping[str, References]) -> None:
        if task == "mnli" and self.args.options.start_from_mnli:
            target = self.encoder_path(seed)
            unfinished = target.with_name(f".{target.name}.unfinished")
            model: Any = outcome.trainer.model
            model.encoder.save_pretrained(unfinished)
            self.encoder.tokenizer.save_pretrained(unfinished)
            replace_folder(unfinished, target)

    @property
    def wants_test(self) -> bool:
        return self.args.options.predict_test != "none"

    def finish(self, tasks: Sequence[str]) -> None:
        """Write submission.zip, if asked: answers of the best run of a task, or of the ensemble of all its runs."""
        if not self.wants_test:
            return
        answers = {}
        for name in tasks:
            files = {**TASKS[name].test_files, **(DIAGNOSTICS.test_files if name == "mnli" else {})}
            logits = [self.evaluation.read_predictions(name, seed) for seed in self.best_first(name)]
            for split, title in files.items():
                runs = [run[split] for run in logits if split in run and np.isfinite(run[split]).all()]
                if unusable := len(logits) - len(runs):
                    logger.warning("%s: %d of %d runs have no usable predictions", title, unusable, len(logits))
                if runs:
                    chosen = runs[:1] if self.args.options.predict_test == "best" else runs
                    answers[title] = combine(chosen, TASKS[name])
        path = self.evaluation.folder / "submission.zip"
        logger.info("submission     %s", path)
        for note in write_submission(path, answers):
            logger.info("  %s", note)


def write_submission(path: Path, answers: Mapping[str, np.ndarray]) -> list[str]:
    """Write the zip for gluebenchmark.com, even if it is incomplete. The same answers give the same bytes.

    Args:
        answers: file title ("CoLA") -> answers of `combine`, (N,). Without WNLI all its answers become the majority
            class of its training data (0, right on 65.1 % of the test data), as is usual.
    Returns:
        What was filled in, and what the server will reject.
    """
    notes = []
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for task in (*TASKS.values(), DIAGNOSTICS):
            for split, title in task.test_files.items():
                found, rows = answers.get(title), task.rows[split]
                if found is None and title == "WNLI":
                    found = np.zeros(rows, dtype=np.int64)
                    notes.append("WNLI.tsv was not predicted; it has 0, the majority class of the training data")
                if found is None:
                    notes.append(f"{title}.tsv is missing; the server rejects the zip without it")
                    continue
                if len(found) != rows:
                    notes.append(f"{title}.tsv has {len(found)} rows, expected {rows}; the server rejects it")
                words = [f"{a:.3f}" if task.is_regression else task.written_labels[int(a)] for a in found]
                lines = ["index\tprediction", *(f"{index}\t{word}" for index, word in enumerate(words)), ""]
                archive.writestr(zipfile.ZipInfo(f"{title}.tsv"), "\n".join(lines))  # dated 1980, as all of them
    write_file(content.getvalue(), path)
    return notes
