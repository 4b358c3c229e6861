"""Tasks on files of the user: checks of the options of data, and a file of predictions for each run and split."""

import logging
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from electra.errors import UserError
from electra.files import expand, write_file
from electra.finetuning.config import Arguments, as_name
from electra.finetuning.sources import data_settings
from electra.finetuning.task import TaskAdapter
from electra.finetuning.trainer import Logits, Outcome

logger = logging.getLogger(__name__)


def check_data_options(options: Any) -> bool:
    """Whether files are given; a data set and files exclude each other.

    Raises:
        UserError: both are given, or only one of --train_file and --validation_file.
    """
    given = [name for name in ("train_file", "validation_file", "test_file") if getattr(options, name, None)]
    if given and options.dataset_name is not None:
        raise UserError(f"--dataset_name and --{given[0]} both name the data; leave one of them out")
    for name in ("train_file", "validation_file"):
        if given and name not in given:
            raise UserError(f"--{name} is missing; give --train_file and --validation_file, or --dataset_name")
    return bool(given)


def _paths(files: str | list[str] | None) -> list[str]:
    """The paths of an option that takes one file or several."""
    return [files] if isinstance(files, str) else files or []


class FileTask(TaskAdapter):
    """One task, named after its data. Besides the files of every evaluation, its folder has:

    predictions/TASK-SEED-SPLIT.SUFFIX   predictions of one run
    predictions.SUFFIX                   predictions of the best run for the test set, or else the development set
    """

    kind: ClassVar[str]
    """Name of the task if its data has none."""
    suffix: ClassVar[str]

    @classmethod
    def task_name(cls, args: Arguments[Any]) -> str:
        """--task_name, or the name of the data set, or that of the folder of the (first) training file."""
        path = next(iter(_paths(args.options.train_file)), "")
        return args.data_name or as_name(expand(path).absolute().parent.name) or cls.kind

    def names(self) -> list[str]:
        return [self.task_name(self.args)]

    @cached_property
    def data_settings(self) -> dict[str, str]:
        """Fingerprints of the data."""
        options = self.args.options
        train, validation = _paths(options.train_file), _paths(options.validation_file)
        return data_settings(train, validation, options.dataset_name, options.dataset_config_name)

    def more_settings(self, task: str) -> dict[str, Any]:
        return dict(self.data_settings)

    @abstractmethod
    def score(self, split: str, logits: NDArray[np.float32]) -> dict[str, float]:
        """Metrics of one split, as fractions."""

    @abstractmethod
    def predictions_text(self, split: str, logits: NDArray[np.float32]) -> str:
        """Content of the file of predictions."""

    def metrics(self, task: str, logits: Logits) -> dict[str, float]:
        """Those of the test set have the prefix test_."""
        return {
            name if split == "dev" else f"{split}_{name}": value
            for split, values in logits.items()
            for name, value in self.score(split, values).items()
        }

    def _predictions_path(self, task: str, seed: int, split: str) -> Path:
        return self.evaluation.folder / "predictions" / f"{task}-{seed}-{split}.{self.suffix}"

    def is_kept(self, task: str, seed: int) -> bool:
        test = ["test"] if self.args.options.test_file else []
        return all(self._predictions_path(task, seed, split).is_file() for split in ("dev", *test))

    def keep(self, task: str, seed: int, outcome: Outcome) -> None:
        for split, logits in outcome.logits.items():
            write_file(self.predictions_text(split, logits).encode(), self._predictions_path(task, seed, split))

    def finish(self, tasks: Sequence[str]) -> None:
        for task in tasks:
            paths = [self._predictions_path(task, self.best_first(task)[0], split) for split in ("test", "dev")]
            best = next(path for path in paths if path.is_file())
            target = self.evaluation.folder / f"predictions.{self.suffix}"
            write_file(best.read_bytes(), target)
            logger.info("predictions    %s (%s)", target, best.name)
