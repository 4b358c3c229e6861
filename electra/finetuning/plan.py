"""Which runs an evaluation still has to do, and a table of them."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from accelerate import PartialState

from electra.finetuning.config import HYPERPARAMETERS, Tuning, resolve
from electra.finetuning.encoder import encoder_fingerprint
from electra.finetuning.evaluation import Evaluation, on_main
from electra.finetuning.export import is_saved
from electra.finetuning.task import Task, TaskData
from electra.io.errors import UserError
from electra.model.pretrained import STEP_KEY

FREE = ("processes",)
"""Settings that may differ between the runs of an evaluation."""

logger = logging.getLogger(__name__)


class PlannedTask(NamedTuple):
    """A task with runs to do."""

    task: Task
    tuning: Tuning
    settings: dict[str, Any]  # everything a score depends on, as recorded with each result
    data: TaskData
    seeds: list[int]  # that are not finished
    splits: list[str]  # of which a finished run must have logits

    @property
    def steps(self) -> int:
        """Approximate number of optimizer steps of a run on one device."""
        batch = self.tuning.per_device_train_batch_size * self.tuning.gradient_accumulation_steps
        batches = -(-len(self.data.train) // batch)
        return max(1, round(batches * self.tuning.num_train_epochs))


class Plan(NamedTuple):
    to_do: list[PlannedTask]
    available: list[Task]  # those whose data is there, finished or not


def plan_runs(evaluation: Evaluation) -> Plan:
    """Compare the results in the folder, then read and tokenize the tasks with unfinished runs.

    Raises:
        UserError: the folder holds results of other settings or data, or no task has data.
    """
    args, encoder = evaluation.args, evaluation.encoder
    fingerprint = encoder_fingerprint(encoder, is_fresh=args.encoder.from_scratch is not None)
    tunings = {}
    settings = {}
    for task in evaluation.tasks:
        tuning = resolve(args, task.name, encoder, default_max_length=task.kind.max_length)
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

    plan = Plan([], [])
    for task in evaluation.tasks:
        if not unfinished_seeds(evaluation, task, args.seeds, task.must_predict):
            plan.available.append(task)
            continue
        data = task.load(encoder.tokenizer, tunings[task.name])
        if data is None:
            continue
        for result in evaluation.results:
            if result.task == task.name:
                check_same(evaluation.folder, task.name, rows_of(result.rows), rows_of(data.examples))
        plan.available.append(task)
        splits = [split for split in task.must_predict if split in data.splits]
        if seeds := unfinished_seeds(evaluation, task, args.seeds, splits):
            planned = PlannedTask(task, tunings[task.name], settings[task.name], data, seeds, splits)
            plan.to_do.append(planned)
    if not plan.available:
        raise UserError(f"there is no data of {' '.join(task.name for task in evaluation.tasks)}; see the warnings")
    available = {task.name for task in plan.available}
    for task in plan.available:
        if task.start is not None and task.start not in available:
            raise UserError(f"{task.name} starts from {task.start}, whose data is missing; see the warnings")
    return plan


def unfinished_seeds(
    evaluation: Evaluation,
    task: Task,
    seeds: Sequence[int],
    splits: Sequence[str],
) -> list[int]:
    """The seeds without a result, or whose predictions of these splits, encoder or model are missing."""

    def is_finished(seed: int) -> bool:
        if evaluation.find(task.name, seed) is None:
            return False
        if splits and not set(splits) <= set(evaluation.read_logits(task.name, seed)):
            return False
        if evaluation.is_start(task) and not evaluation.encoder_path(task.name, seed).is_dir():
            return False
        return is_saved(evaluation, task, seed)

    return on_main(lambda: [seed for seed in seeds if not is_finished(seed)])


def rows_of(examples: Mapping[str, int]) -> dict[str, int]:
    return {f"rows of {split}": count for split, count in examples.items()}


def check_same(
    folder: Path,
    task: str,
    then: Mapping[str, Any],
    now: Mapping[str, Any],
) -> None:
    """Refuse a folder whose results have other settings or numbers of examples. Options that are gone do not count."""
    differences = [
        f"{name} is {then.get(name)} there and {value} here"
        for name, value in now.items()
        if then.get(name) != value and name not in FREE
    ]
    if differences:
        raise UserError(
            f"{folder} holds results of {task} with other settings: {'; '.join(differences[:4])}; choose another "
            f"--experiment_name"
        )


def log_plan(evaluation: Evaluation, plan: Plan) -> None:
    model = evaluation.encoder.model
    about = f"{type(model).__name__}, {model.num_parameters():,} parameters"
    step = getattr(model.config, STEP_KEY, None)
    if step is not None and evaluation.args.encoder.pretrain_path:
        about += f", step {step:,} of pre-training"
    logger.info("model          %s: %s", evaluation.encoder.name, about)
    logger.info("folder         %s", evaluation.folder)
    runs = sum(len(p.seeds) for p in plan.to_do)
    done = len(plan.available) * len(evaluation.args.seeds) - runs
    if not runs:
        logger.info("all %d runs are finished", done)
        return
    for line in plan_lines(plan.to_do):
        logger.info(line)
    logger.info("%d runs, %d more are done", runs, done)


def plan_lines(to_do: Sequence[PlannedTask]) -> list[str]:
    """A table of the runs to do."""
    width = max(5, *(len(p.task.name) for p in to_do))
    lines = [f"{'task':{width}}    train     dev  steps  epochs       rate  decay  length  seeds"]
    for p in to_do:
        tuning = p.tuning
        dev = sum(len(split.rows) for split in p.data.scored.values())
        lines.append(
            f"{p.task.name:{width}} {len(p.data.train):8,} {dev:7,} {p.steps:6,} {tuning.num_train_epochs:7g} "
            f"{tuning.learning_rate:10.1e} {tuning.layerwise_lr_decay:6g} {tuning.max_length:7} {len(p.seeds):6}"
        )
    return lines
