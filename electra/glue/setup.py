"""From options to what is to be run: the encoder, the data as tokens, the plan."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from accelerate import PartialState
from transformers import PreTrainedTokenizerBase, set_seed

from electra.console import check_trackers
from electra.errors import UserError
from electra.finetuning.encoder import Encoder, fresh_encoder, load_encoder
from electra.finetuning.encoding import EncodedExamples, both_orders, encode
from electra.finetuning.examples import Examples
from electra.finetuning.trainer import Machine, training_arguments
from electra.glue.data import TaskData, load_diagnostics, load_tasks
from electra.glue.evaluation import Evaluation
from electra.glue.options import Arguments
from electra.glue.plan import PlannedTask, estimate_seconds, plan_lines
from electra.glue.protocol import (
    check_same_protocol,
    encoder_fingerprint,
    hyperparameters,
    is_doubled,
    machine,
    settings_of,
)
from electra.glue.runs import GlueRuns
from electra.glue.tasks import REGRESSION_RANGE, Task

logger = logging.getLogger(__name__)


def open_encoder(args: Arguments) -> Encoder:
    """What is fine-tuned: trained, or of a configuration alone.

    Raises:
        UserError: it cannot be used, or options cannot.
    """
    check_trackers(args.tuning.report_to)
    path, tokenizer_path = args.encoder.pretrain_path, args.encoder.tokenizer_path
    if path is not None:
        return load_encoder(path, tokenizer_path)
    set_seed(args.glue.seed)
    return fresh_encoder(args.encoder.from_scratch or "", tokenizer_path)


class Prepared(NamedTuple):
    """What is left to be run, task by task, and what runs it."""

    planned: list[PlannedTask]
    runs: GlueRuns
    tasks: list[str]
    """All tasks of the evaluation whose data is there, finished ones included."""


def prepare(args: Arguments, encoder: Encoder, evaluation: Evaluation) -> Prepared:
    """Read and tokenize the tasks that have something left to do, and say what it will take.

    Raises:
        UserError: data or settings cannot be used.
    """
    computed = machine(args.tuning)
    names = list(args.glue.tasks)
    if args.glue.start_from_mnli:
        if "mnli" not in names:
            logger.info("mnli is run as well: %s start from it", " ".join(args.glue.start_from_mnli))
        names = ["mnli", *(name for name in names if name != "mnli")]
    fingerprint = encoder_fingerprint(encoder, is_fresh=args.encoder.from_scratch is not None)
    settings = {
        name: settings_of(args, name, hyperparameters(args, name, encoder), computed, fingerprint) for name in names
    }
    _check_results(evaluation, settings, fingerprint)

    wants_test = args.glue.predict_test != "none"

    def left(name: str, has_test: bool) -> list[int]:
        return [seed for seed in args.seeds if not evaluation.is_finished(args, name, seed, has_test=has_test)]

    unfinished = [name for name in names if left(name, wants_test)]
    data = load_tasks(unfinished, args.glue.glue_dir, with_test=wants_test) if unfinished else {}
    if args.glue.start_from_mnli and "mnli" in unfinished and "mnli" not in data:
        raise UserError("--start_from_mnli needs MNLI, which is not there; leave it out or add MNLI's files")
    tests = {name: _tests(args, encoder, data[name]) for name in data}
    planned = [_planned(args, encoder, data[name], left(name, bool(tests[name]))) for name in names if name in data]
    for p in planned:
        for found in evaluation.results:
            if found.task == p.task.name:
                check_same_protocol(found, settings[p.task.name], p.rows, str(evaluation.folder))
    planned = [p for p in planned if p.seeds]
    if wants_test and "mnli" in data:
        diagnostics = load_diagnostics(args.glue.glue_dir)
        if diagnostics is not None:
            length = hyperparameters(args, "mnli", encoder).max_length
            tests["mnli"]["ax"] = encode(diagnostics, encoder.tokenizer, length)
    runs = GlueRuns(args, encoder, evaluation, computed, tests, fingerprint)
    available = [name for name in names if name in data or name not in unfinished]
    done = len(available) * len(args.seeds) - sum(len(p.seeds) for p in planned)
    if PartialState().is_main_process:
        evaluation.begin(args)
    _announce(encoder, evaluation, planned, computed, done)
    return Prepared(planned, runs, available)


def _check_results(evaluation: Evaluation, settings: dict[str, dict[str, Any]], fingerprint: str) -> None:
    """Refuse a folder whose results, finished or not, are not those of this command.

    Raises:
        UserError: another encoder, or other settings of a task.
    """
    for found in evaluation.results:
        if found.task in settings:
            check_same_protocol(found, settings[found.task], {}, str(evaluation.folder))
        elif found.settings.get("encoder") != fingerprint:
            raise UserError(
                f"{evaluation.folder} holds {found.task} of another encoder ({found.model}, weights "
                f"{found.settings.get('encoder')}, not {fingerprint}); choose another --experiment_name"
            )


def _planned(args: Arguments, encoder: Encoder, data: TaskData, seeds: list[int]) -> PlannedTask:
    task = data.task
    settings = hyperparameters(args, task.name, encoder)
    train = both_orders(data.splits["train"]) if is_doubled(args, task.name) else data.splits["train"]
    dev = {split: examples for split, examples in data.splits.items() if split.startswith("dev")}
    return PlannedTask(
        task,
        settings,
        train=_encode(train, task, encoder.tokenizer, settings.max_length),
        train_rows=len(data.splits["train"]),
        dev={split: _encode(dev[split], task, encoder.tokenizer, settings.max_length) for split in dev},
        references={split: examples.labels or [] for split, examples in dev.items()},
        seeds=seeds,
    )


def _tests(args: Arguments, encoder: Encoder, data: TaskData) -> dict[str, EncodedExamples]:
    length = hyperparameters(args, data.task.name, encoder).max_length
    splits = {split: examples for split, examples in data.splits.items() if split.startswith("test")}
    return {split: encode(replace(splits[split], labels=None), encoder.tokenizer, length) for split in splits}


def _encode(examples: Examples, task: Task, tokenizer: PreTrainedTokenizerBase, max_length: int) -> EncodedExamples:
    """Tokens of a split; targets of a regression scaled to [0, 1] as in google-research/electra."""
    if task.is_regression and examples.labels is not None:
        low, high = REGRESSION_RANGE
        examples = replace(examples, labels=[(label - low) / (high - low) for label in examples.labels])
    return encode(examples, tokenizer, max_length)


def _announce(
    encoder: Encoder, evaluation: Evaluation, planned: Sequence[PlannedTask], computed: Machine, done: int
) -> None:
    size = encoder.model.num_parameters()
    logger.info("model          %s: %s, %s parameters", encoder.name, type(encoder.model).__name__, f"{size:,}")
    logger.info("folder         %s", evaluation.folder)
    if not planned:
        logger.info("all %d runs are finished", done)
        return
    args = training_arguments(planned[0].settings, computed, seed=0, folder=evaluation.folder, name="")
    seconds = estimate_seconds(encoder.model, planned, computed, args.device, encoder.tokenizer.pad_token_id)
    for line in plan_lines(planned, seconds, done):
        logger.info(line)
