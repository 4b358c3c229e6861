"""From options to what is to be run: the encoder, the data as tokens, the plan."""

import logging
from collections.abc import Sequence
from typing import Any

from accelerate import PartialState
from transformers import set_seed

from electra.console import check_trackers
from electra.errors import UserError
from electra.finetuning.encoder import Encoder, fresh_encoder, load_encoder
from electra.finetuning.protocol.evaluation import Evaluation
from electra.finetuning.protocol.family import Family
from electra.finetuning.protocol.options import Arguments
from electra.finetuning.protocol.plan import PlannedTask, estimate_seconds, plan_lines
from electra.finetuning.protocol.runs import Runs
from electra.finetuning.protocol.settings import (
    check_same_protocol,
    encoder_fingerprint,
    hyperparameters,
    machine,
    settings_of,
)
from electra.finetuning.trainer import training_arguments

logger = logging.getLogger(__name__)


def open_encoder(args: Arguments[Any]) -> Encoder:
    """What is fine-tuned: trained, or of a configuration alone.

    Raises:
        UserError: it cannot be used, or options cannot.
    """
    check_trackers(args.tuning.report_to)
    path, tokenizer_path = args.encoder.pretrain_path, args.encoder.tokenizer_path
    if path is not None:
        return load_encoder(path, tokenizer_path)
    set_seed(args.options.seed)
    return fresh_encoder(args.encoder.from_scratch or "", tokenizer_path)


def prepare(family: Family) -> Runs:
    """Read and tokenize the tasks that have something left to do, and say what it will take.

    Raises:
        UserError: data or settings cannot be used.
    """
    args, encoder, evaluation = family.args, family.encoder, family.evaluation
    computed = machine(args.tuning)
    names = family.names()
    fingerprint = encoder_fingerprint(encoder, is_fresh=args.encoder.from_scratch is not None)
    tuned = {
        name: family.adjust(name, hyperparameters(args, name, encoder, default_max_length=family.default_max_length))
        for name in names
    }
    settings = {
        name: settings_of(tuned[name], family.more_settings(name), computed, fingerprint, family.start_title(name))
        for name in names
    }
    _check_results(evaluation, settings, fingerprint)

    def left(name: str, has_test: bool) -> list[int]:
        return [
            seed
            for seed in args.seeds
            if not (evaluation.is_finished(name, seed, has_test=has_test) and family.is_kept(name, seed))
        ]

    unfinished = [name for name in names if left(name, family.wants_test)]
    data = family.load(unfinished, tuned) if unfinished else {}
    planned = [
        PlannedTask(name, tuned[name], rows.train, rows.dev, rows.examples, left(name, bool(rows.test)))
        for name, rows in data.items()
    ]
    for p in planned:
        for found in evaluation.results:
            if found.task == p.name:
                check_same_protocol(found, settings[p.name], p.rows, str(evaluation.folder))
    planned = [p for p in planned if p.seeds]
    available = [name for name in names if name in data or name not in unfinished]
    runs = Runs(family, computed, fingerprint, planned, {name: data[name].test for name in data}, available)
    done = len(available) * len(args.seeds) - sum(len(p.seeds) for p in planned)
    if PartialState().is_main_process:
        evaluation.begin(args)
    _announce(runs, done)
    return runs


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


def _announce(runs: Runs, done: int) -> None:
    encoder, folder = runs.family.encoder, runs.family.evaluation.folder
    size = encoder.model.num_parameters()
    logger.info("model          %s: %s, %s parameters", encoder.name, type(encoder.model).__name__, f"{size:,}")
    logger.info("folder         %s", folder)
    planned: Sequence[PlannedTask] = runs.planned
    if not planned:
        logger.info("all %d runs are finished", done)
        return
    args = training_arguments(planned[0].settings, runs.computed, seed=0, folder=folder, name="")
    seconds = estimate_seconds(planned, runs.how_to_train, runs.computed, args.device)
    for line in plan_lines(planned, seconds, done):
        logger.info(line)
