"""From options to what is to be run: the encoder, the data as tokens, the plan."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from transformers import PreTrainedTokenizerBase, set_seed

from electra.console import check_trackers
from electra.finetuning.encoder import Encoder, fresh_encoder, load_encoder
from electra.finetuning.encoding import EncodedExamples, both_orders, encode
from electra.finetuning.examples import Examples
from electra.finetuning.trainer import Machine, training_arguments
from electra.glue.data import TaskData, load_diagnostics, load_tasks
from electra.glue.evaluation import Evaluation
from electra.glue.options import Arguments
from electra.glue.plan import PlannedTask, estimate_seconds, plan_lines
from electra.glue.protocol import encoder_fingerprint, hyperparameters, is_doubled, machine
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
    for name in names:  # what is wrong with the settings of the last task is said before the first
        hyperparameters(args, name, encoder)
    seeds = range(args.glue.seed, args.glue.seed + args.glue.num_seeds)
    left = {name: [s for s in seeds if not evaluation.is_finished(args, name, s)] for name in names}
    wants_test = args.glue.predict_test != "none"
    unfinished = [name for name in names if left[name]]
    data = load_tasks(unfinished, args.glue.glue_dir, with_test=wants_test) if unfinished else {}
    planned = [_planned(args, encoder, data[name], left[name]) for name in names if name in data]
    tests = {name: _tests(args, encoder, data[name]) for name in data}
    if wants_test and "mnli" in data:
        diagnostics = load_diagnostics(args.glue.glue_dir)
        if diagnostics is not None:
            length = hyperparameters(args, "mnli", encoder).max_length
            tests["mnli"]["ax"] = encode(diagnostics, encoder.tokenizer, length)
    fingerprint = encoder_fingerprint(encoder.model, is_fresh=args.encoder.from_scratch is not None)
    runs = GlueRuns(args, encoder, evaluation, computed, tests, fingerprint)
    _announce(encoder, evaluation, planned, computed, done=sum(len(seeds) - len(left[name]) for name in names))
    return Prepared(planned, runs, [name for name in names if name in data or not left[name]])


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
    encoder: Encoder, evaluation: Evaluation, planned: Sequence[PlannedTask], computed: Machine, *, done: int
) -> None:
    size = sum(parameter.numel() for parameter in encoder.model.parameters())
    logger.info("model          %s: %s, %s parameters", encoder.name, type(encoder.model).__name__, f"{size:,}")
    logger.info("folder         %s", evaluation.folder)
    if not planned:
        logger.info("all %d runs are finished", done)
        return
    args = training_arguments(planned[0].settings, computed, seed=0, folder=evaluation.folder, name="")
    seconds = estimate_seconds(encoder.model, planned, computed, args.device, encoder.tokenizer.pad_token_id)
    for line in plan_lines(planned, seconds, done):
        logger.info(line)
