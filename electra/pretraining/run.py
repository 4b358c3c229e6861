"""A pre-training run from its options to the exported networks."""

import sys
from pathlib import Path

from electra.io.console import RunLog, shown_command
from electra.io.hub import push_run
from electra.pretraining.budget import fit_to_budget
from electra.pretraining.callbacks.checkpoints import StopRequests
from electra.pretraining.card import first_command
from electra.pretraining.configuration import Configuration
from electra.pretraining.data import load_data
from electra.pretraining.finish import finish_run, report_finished
from electra.pretraining.model import build_model, record_given_parts
from electra.pretraining.options import parse_arguments, resolve
from electra.pretraining.plan import announce_plan
from electra.pretraining.resources import announce_trial, check_disk, run_trial
from electra.pretraining.resume import check_resumed, origin_of
from electra.pretraining.run_folder import open_run, save_options
from electra.pretraining.setup import (
    compile_step,
    make_callbacks,
    make_trainer,
    seed_dropout,
    tune_for_device,
)
from electra.runtime.tracking import check_trackers


def pretrain(args: Configuration, argv: list[str], log: RunLog, started: float) -> None:
    """Pre-train as `args` ask, which were parsed from `argv`; `started` is when the command began, in seconds."""
    if args.training.budget is not None:
        args = parse_arguments(fit_to_budget(argv, args))
    check_trackers(args.training.report_to)
    run = open_run(args)
    if run.is_finished:
        report_finished(run.folder)
        return

    data = load_data(args, run.checkpoint)
    args = resolve(args, run.folder, run.checkpoint, len(data.policy), has_held_out=data.evaluation is not None)

    model = build_model(args, data.tokenizer, run.checkpoint)
    record = record_given_parts(args, model, data.tokenizer)
    origin = origin_of(args.values(), model, data.text, args.training.segments_per_step)
    if run.checkpoint is not None:
        origin = check_resumed(Path(run.checkpoint), origin, model)

    plan = announce_plan(args, model, data, origin.changes)
    check_disk(args, model, plan)
    if args.training.plan:
        announce_trial(run_trial(args, model, data, plan), args.training, plan)
        return

    stop = StopRequests(args.training.max_hours, started)
    tune_for_device(model, args.training)
    callbacks = [*make_callbacks(args, record, model, plan), stop]
    trainer = make_trainer(args, model, data, plan, origin, callbacks)
    compile_step(trainer)
    seed_dropout(args.training)

    save_options(args, record, run, data.tokenizer, plan.changes)
    command = shown_command("run_pretraining.py", argv)
    if args.training.process_index == 0:
        log.write_to(run.folder)
        command = first_command(run.folder, command)

    with stop.listening():
        trainer.train(resume_from_checkpoint=run.checkpoint)
    if stop.exit_code:
        sys.exit(stop.exit_code)

    finish_run(trainer, args, record, data, command)
    training = args.training
    if training.push_to_hub and trainer.is_world_process_zero():
        push_run(
            run.folder,
            training.hub_model_id or run.folder.name,
            token=training.hub_token,
            private=training.hub_private_repo,
        )
