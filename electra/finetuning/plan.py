"""Which runs an evaluation still has to do."""

import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from accelerate import PartialState

from electra.finetuning.config import HYPERPARAMETERS, HyperParameters, resolve_hyperparameters
from electra.finetuning.encoder import encoder_fingerprint
from electra.finetuning.evaluation import Evaluation, on_main
from electra.finetuning.export import is_saved
from electra.finetuning.task import Task, TaskData
from electra.io.errors import UserError

logger = logging.getLogger(__name__)


class PlannedTask(NamedTuple):
    """A task with runs to do."""

    task: Task
    tuning: HyperParameters
    settings: dict[str, Any]  # everything a score depends on, as recorded with each result
    data: TaskData
    seeds: list[int]  # that are not finished

    @property
    def rows(self) -> int:
        """Number of rows that a run trains on. Between seeds it differs if texts are chosen and cut into windows."""
        return len(self.data.rows_of(self.seeds[0]))

    @property
    def steps(self) -> int:
        """Number of optimizer steps of a run with the processes of this command, as Trainer counts them."""
        tuning = self.tuning
        processes = PartialState().num_processes
        step = tuning.per_device_train_batch_size * tuning.gradient_accumulation_steps * processes
        return math.ceil(math.ceil(self.rows / step) * tuning.num_train_epochs)


def plan_runs(evaluation: Evaluation) -> list[PlannedTask]:
    """Compare the results in the folder, then read and tokenize the tasks with unfinished runs.

    Raises:
        UserError: the folder holds results of other settings or data, or no task has data.
    """
    args = evaluation.args
    encoder = evaluation.encoder
    first_seed = args.options.seed
    fingerprint = encoder_fingerprint(encoder, is_fresh=args.encoder.from_scratch is not None)
    tunings = {}
    settings = {}
    for task in evaluation.tasks:
        tuning = resolve_hyperparameters(args, task.name, encoder, default_max_length=task.kind.max_length)
        tunings[task.name] = tuning
        settings[task.name] = {
            **{option: getattr(tuning, option) for option in HYPERPARAMETERS},
            **task.settings,
            "precision": tuning.precision,
            "processes": PartialState().num_processes,
            "encoder": fingerprint,
            "start": f"{task.start}, best" if task.start else args.start,
        }
    for result in evaluation.results:
        expected = settings.get(result.task, {**result.settings, "encoder": fingerprint})
        check_same(evaluation.folder, result.task, result.settings, expected)

    to_do = []
    missing = set()
    for task in evaluation.tasks:
        wanted = list(range(first_seed, first_seed + args.options.num_seeds))
        if evaluation.is_start(task) or args.options.save_model:
            # The best run may be one of another command, which kept no encoder and no model.
            wanted += [seed for seed in evaluation.best_first(task) if seed not in wanted]
        seeds = unfinished_seeds(evaluation, task, wanted)
        data = task.load(encoder.tokenizer, tunings[task.name]) if seeds else None
        if data is not None:
            to_do.append(PlannedTask(task, tunings[task.name], settings[task.name], data, seeds))
        elif seeds:
            missing.add(task.name)
        if task.start in missing or len(missing) == len(evaluation.tasks):
            raise UserError(f"there is no data of {' '.join(sorted(missing))}; see the warnings")
    return to_do


def unfinished_seeds(evaluation: Evaluation, task: Task, seeds: Sequence[int]) -> list[int]:
    """Return the seeds without a result, or whose encoder or model is missing."""

    def is_finished(seed: int) -> bool:
        if evaluation.find(task.name, seed) is None:
            return False
        if evaluation.is_start(task) and not evaluation.encoder_path(task.name, seed).is_dir():
            return False
        return is_saved(evaluation, task, seed)

    return on_main(lambda: [seed for seed in seeds if not is_finished(seed)])


def check_same(
    folder: Path,
    task: str,
    then: Mapping[str, Any],
    now: Mapping[str, Any],
) -> None:
    """Refuse a folder whose results have other settings. Options that are gone do not count."""
    then = with_batch(then)
    differences = [
        f"{name} is {then.get(name)} there and {value} here"
        for name, value in with_batch(now).items()
        if then.get(name) != value
    ]
    if differences:
        raise UserError(
            f"{folder} holds results of {task} with other settings: {'; '.join(differences[:4])}; choose another "
            f"--experiment_name"
        )


def with_batch(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with the rows of a training step in place of the options that they result from."""
    rest = dict(settings)
    rows = rest.pop("per_device_train_batch_size", 1) * rest.pop("gradient_accumulation_steps", 1)
    rows *= rest.pop("processes", 1)
    return {**rest, "training batch": rows}


def log_plan(evaluation: Evaluation, to_do: Sequence[PlannedTask]) -> None:
    model = evaluation.encoder.model
    parameters = model.num_parameters()
    logger.info("model          %s: %s, %d parameters", evaluation.encoder.name, type(model).__name__, parameters)
    logger.info("folder         %s", evaluation.folder)
    for p in to_do:
        logger.info(
            "%-14s %d rows, %d steps, learning rate %g, %d tokens, seeds %s",
            p.task.name, p.rows, p.steps, p.tuning.learning_rate, p.tuning.max_length, p.seeds,
        )  # fmt: skip
    runs = sum(len(p.seeds) for p in to_do)
    logger.info("%d runs, %d are finished", runs, len(evaluation.results))
