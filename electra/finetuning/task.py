"""The interface of a kind of task: what the runner needs to train and score it.

The runner does everything else: seeds, folder, resuming, plan, progress, tracking, results, report.
"""

import logging
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import PreTrainedModel

from electra.finetuning.config import Arguments, Tuning
from electra.finetuning.encoder import Encoder
from electra.finetuning.encoding import ColumnRows, PaddingCollator, data_settings
from electra.finetuning.evaluation import Evaluation
from electra.finetuning.heads import TransformersHead
from electra.finetuning.trainer import Logits, Outcome, step_loss
from electra.io.files import expand, write_file
from electra.report.evaluation import Reporting
from electra.report.results import Result

logger = logging.getLogger(__name__)

COLLAPSED_SHARE = 0.99
"""Share of examples with the same answer from which a run may be collapsed."""
RARE_ANSWERS = 0.1
"""A run is collapsed if its other answers are rarer than this fraction of those in the references."""


def is_one_answer(share: float, expected: float) -> bool:
    """Whether a `share` of almost all examples gets one answer, which only an `expected` share of references is."""
    return bool(share >= COLLAPSED_SHARE and 1 - share < RARE_ANSWERS * (1 - expected))


@dataclass(frozen=True)
class TaskRows:
    """Tokenized data of a task; `dev` and `test` by name of the split.

    Args:
        examples: numbers of examples in train and dev, recorded with each result. There may be more rows: pairs in
            both orders, windows of long texts.
        references: what the logits of a split are compared with, and the texts that its predictions are written with.
        labels: names of the classes; None if there are none.
    """

    train: ColumnRows
    dev: dict[str, ColumnRows]
    examples: dict[str, int]
    references: Mapping[str, Any]
    labels: Sequence[str] | None = None
    test: dict[str, ColumnRows] = field(default_factory=dict)

    @classmethod
    def of_splits(
        cls,
        rows: Mapping[str, ColumnRows],
        examples: Mapping[str, Sized],
        references: Mapping[str, Any],
        labels: Sequence[str] | None = None,
    ) -> Self:
        """From rows, examples and references by split. Splits without labels are test splits."""
        labelled = [split for split in rows if "labels" in rows[split].columns]
        dev = {split: rows[split] for split in labelled if split != "train"}
        test = {split: found for split, found in rows.items() if split not in labelled}
        counts = {split: len(examples[split]) for split in labelled}
        return cls(rows["train"], dev, counts, references, labels, test)


class TaskAdapter(ABC):
    """The tasks of one kind in one command. The model of `encoder` must not be modified.

    Attributes:
        kind: name of the package in electra/tasks.
        script: what Python runs as this command, such as `run_glue.py` or `-m electra squad`.
        default_max_length: maximum input length in tokens without --max_length.
        auto_model: class of transformers that loads a saved model, such as `AutoModelForSequenceClassification`.
        pipeline: pipeline tag of the Hub for this kind of task.
        saved_heads: heads that are a `TransformersHead`: their models can be saved.
    """

    kind: ClassVar[str]
    script: ClassVar[str]
    reporting: ClassVar[Reporting]
    default_max_length: ClassVar[int] = 128
    auto_model: ClassVar[Any]
    pipeline: ClassVar[str]
    saved_heads: ClassVar[Sequence[str]]

    def __init__(self, args: Arguments[Any], encoder: Encoder, evaluation: Evaluation) -> None:
        self.args, self.encoder, self.evaluation = args, encoder, evaluation

    @classmethod
    def folder_prefix(cls, args: Any) -> str:
        """First part of the folder's name without --experiment_name."""
        return cls.kind

    # ---- data

    @abstractmethod
    def names(self) -> list[str]:
        """The tasks in the order in which they are run."""

    @abstractmethod
    def load(self, names: Sequence[str], tunings: Mapping[str, Tuning]) -> dict[str, TaskRows]:
        """Read and tokenize unfinished tasks, with their resolved options. Tasks without data may be left out."""

    def hub_dataset(self, task: str) -> tuple[str | None, str | None]:
        """Hub id and configuration of a task's data; None if it is read from files."""
        name = getattr(self.args.options, "dataset_name", None)
        if name is None or expand(name).is_dir():
            return None, None
        return name, getattr(self.args.options, "dataset_config_name", None)

    # ---- training

    @abstractmethod
    def make_model(self, encoder: PreTrainedModel, tuning: Tuning, data: TaskRows) -> nn.Module:
        """A module with the attributes `encoder` and `head`, which is drawn from torch's random state.

        It takes the collator's output without `labels` and returns one tensor (B, ...).
        """

    def loss(self, output: Tensor, labels: Tensor, num_items_in_batch: Tensor | int | None) -> Tensor:
        """The contribution of a batch to the loss of its step, in which so many labels are not -100."""
        return step_loss(output, labels, num_items_in_batch)

    def collator(self) -> Callable[[Any], dict[str, Tensor]]:
        """Rows -> a batch."""
        return PaddingCollator(self.encoder.tokenizer.pad_token_id)

    def more_settings(self, task: str) -> dict[str, Any]:
        """What a score depends on besides the hyper-parameters, recorded with each result."""
        return {}

    # ---- scores

    @abstractmethod
    def metrics(self, logits: Logits, references: Mapping[str, Any]) -> dict[str, float]:
        """Metrics of the development splits as fractions; more is better; nan if undefined."""

    @abstractmethod
    def headlines(self, task: str) -> Sequence[str]:
        """The metric that runs are ranked by, then substitutes if a run does not have it."""

    def headline(self, task: str, metrics: Mapping[str, float | None]) -> float:
        """The score that runs are ranked by; -infinity if it is undefined."""
        value = next((metrics[name] for name in self.headlines(task) if name in metrics), None)
        return value if value is not None and math.isfinite(value) else -math.inf

    @abstractmethod
    def is_collapsed(self, logits: Logits, references: Mapping[str, Any]) -> bool:
        """Whether a run gives the same answer to (almost) every example."""

    def best_first(self, task: str, *more: Result) -> list[int]:
        """Seeds of this command's finished runs and of `more`, ordered by headline, best first."""
        found = {(r.task, r.seed): r for r in (*more, *self.evaluation.results)}  # the first result of a run counts
        runs = [r for r in found.values() if r.task == task and r.seed in self.args.seeds]
        return [r.seed for r in sorted(runs, key=lambda r: (-self.headline(task, r.metrics), r.seed))]

    # ---- saved models

    def transformers_head(self, model: Any) -> TransformersHead:
        """The head of a model with one of the heads in `saved_heads`."""
        head: TransformersHead = model.head
        return head

    def config(self, task: str) -> dict[str, Any]:
        """Additional values of a saved model's configuration."""
        return {}

    def note(self, task: str) -> str:
        """A hint for users of a saved model."""
        return ""

    # ---- optional steps

    @property
    def wants_test(self) -> bool:
        """Whether a finished run must have predictions of test splits."""
        return False

    def start_title(self, task: str) -> str:
        """What the runs of a task start from, recorded as a setting."""
        return self.args.start

    def start(self, task: str, seed: int) -> tuple[str, str | None]:
        """What a run starts from: its name in the results, and its folder unless it is the encoder itself."""
        return self.args.start, None

    def is_kept(self, task: str, seed: int) -> bool:
        """Whether the output of `keep` exists."""
        return True

    def keep(self, task: str, seed: int, outcome: Outcome, references: Mapping[str, Any]) -> None:  # noqa: B027
        """Write output of a run besides its logits; on the main process, before the result is written."""

    def finish(self, tasks: Sequence[str]) -> None:  # noqa: B027
        """Write output of all runs besides the report; on the main process."""


class FileTask(TaskAdapter):
    """One task on files of the user or a data set, named after its data. In addition to the usual files it writes:

    predictions/TASK-SEED-SPLIT.SUFFIX   predictions of one run
    predictions.SUFFIX                   predictions of the best run for the test set, or else the development set
    """

    suffix: ClassVar[str]

    @staticmethod
    def data_name(args: Arguments[Any]) -> str:
        """--task_name or the last part of the data set's name, usable as a file name; "" if neither is given."""
        return _as_name(args.options.task_name or args.options.dataset_name or "")

    @classmethod
    def task_name(cls, args: Arguments[Any]) -> str:
        """The name of the data, or else that of the folder of the (first) training file."""
        path = next(iter(_paths(args.options.train_file)), "")
        return cls.data_name(args) or _as_name(expand(path).absolute().parent.name) or cls.kind

    def names(self) -> list[str]:
        return [self.task_name(self.args)]

    @cached_property
    def files(self) -> dict[str, list[str]]:
        """The files by split; empty with a data set."""
        options = self.args.options
        files = {"train": options.train_file, "dev": options.validation_file, "test": options.test_file}
        return {split: _paths(named) for split, named in files.items() if named}

    def more_settings(self, task: str) -> dict[str, Any]:
        options = self.args.options
        train, dev = (self.files.get(split, []) for split in ("train", "dev"))
        return data_settings(train, dev, options.dataset_name, options.dataset_config_name)

    @abstractmethod
    def score(self, logits: NDArray[np.float32], references: Any) -> dict[str, float]:
        """Metrics of one split, as fractions."""

    @abstractmethod
    def predictions_text(self, logits: NDArray[np.float32], references: Any) -> str:
        """Content of the file of predictions."""

    def metrics(self, logits: Logits, references: Mapping[str, Any]) -> dict[str, float]:
        """Those of the test set have the prefix test_."""
        found: dict[str, float] = {}
        for split, values in logits.items():
            prefix = "" if split == "dev" else f"{split}_"
            scores = self.score(values, references[split])
            found |= {f"{prefix}{name}": value for name, value in scores.items()}
        return found

    def _path(self, task: str, seed: int, split: str) -> Path:
        return self.evaluation.folder / "predictions" / f"{task}-{seed}-{split}.{self.suffix}"

    def is_kept(self, task: str, seed: int) -> bool:
        splits = ["dev", "test"] if self.args.options.test_file else ["dev"]
        return all(self._path(task, seed, split).is_file() for split in splits)

    def keep(self, task: str, seed: int, outcome: Outcome, references: Mapping[str, Any]) -> None:
        for split, logits in outcome.logits.items():
            text = self.predictions_text(logits, references[split])
            write_file(text.encode(), self._path(task, seed, split))

    def finish(self, tasks: Sequence[str]) -> None:
        for task in tasks:
            paths = [self._path(task, self.best_first(task)[0], split) for split in ("test", "dev")]
            best = next(path for path in paths if path.is_file())
            target = self.evaluation.folder / f"predictions.{self.suffix}"
            write_file(best.read_bytes(), target)
            logger.info("predictions    %s (%s)", target, best.name)


def _as_name(text: str) -> str:
    return re.sub(r"[^\w.-]+", "_", Path(text).name)


def _paths(files: str | list[str] | None) -> list[str]:
    """The paths of an option that takes one file or several."""
    return [files] if isinstance(files, str) else files or []
