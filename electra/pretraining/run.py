"""The command `electra pretrain`: a run from its options to the exported networks, all side effects in their order."""

import gc
import logging
import shutil
import sys
import tempfile
import time
from dataclasses import asdict, replace

import torch
from transformers import TrainerCallback

from electra.io.console import RunLog, setup_logging, without_secrets
from electra.io.files import holds_files
from electra.model.joint import ElectraForJointPretraining
from electra.pretraining.callbacks import Probe, default_callbacks
from electra.pretraining.checkpoints import StopRequests
from electra.pretraining.configuration import Configuration, ElectraTrainingArguments
from electra.pretraining.data import PretrainingData, load_data
from electra.pretraining.device import allow_open_files
from electra.pretraining.finish import finish_run
from electra.pretraining.model import build_model, networks_changed, with_given_parts
from electra.pretraining.options import check_steps, parse_pretraining_arguments, resolve_options
from electra.pretraining.plan import Plan, announce_plan, make_plan
from electra.pretraining.run_folder import (
    Run,
    check_resumed,
    first_files,
    open_run,
    provenance_of,
    save_options,
    upload_networks,
)
from electra.pretraining.trainer import ElectraTrainer
from electra.pretraining.trial import (
    TRIAL_BATCHES,
    TRIAL_STEPS,
    Clock,
    FirstSteps,
    Trial,
    announce_elsewhere,
    announce_memory,
    announce_trial,
    fit_to_budget,
    set_threads,
    shows_time,
    trial_arguments,
)
from electra.report.page import REPORT_NAMES, try_to_report
from electra.runtime.device import keep_freed_memory
from electra.runtime.tracking import RecordSettings, TrackerError, log_in
from electra.schedules import check_optimizer


def main(argv: list[str] | None = None) -> None:
    started = time.monotonic()
    setup_logging()
    log = RunLog()
    args = parse_pretraining_arguments(argv)
    pretrain(args, log, started)


def pretrain(args: Configuration, log: RunLog, started: float) -> None:
    """Run a pre-training.

    Args:
        args: configuration of the run.
        log: log that keeps lines until the run folder is known.
        started: `time.monotonic()` at the start of the command, in seconds.
    """
    log_in(args.training.report_to)
    check_optimizer(args.training)
    allow_open_files(args.training)
    run = open_run(args)
    if run.is_finished:
        has_report = all((run.folder / name).is_file() for name in REPORT_NAMES)
        if args.training.process_index == 0 and not has_report:  # the run was killed while it wrote its report
            try_to_report(run.folder)
        upload(args.training, run)
        return

    check_steps(args, run)
    asked = args  # without the numbers that the text and the networks decide, such as steps: they may be found twice
    data = load_data(asked, run.checkpoint)
    args, model = prepare_model(asked, run, data)
    probes: list[Probe] = []
    if args.training.eval_pairs is not None or args.training.eval_classify is not None:
        from electra.tools.probes import make_probes  # not at the top: few runs need the tasks and what they import

        probes = make_probes(args.training.eval_pairs, args.training.eval_classify, model, data.tokenizer)
    keep_freed_memory(use_cpu=args.training.use_cpu)
    threads = set_threads(args, run, model, data)
    asked, args = (with_threads(one, threads) for one in (asked, args))
    trial = None
    if asked.training.budget:
        plan = make_plan(args.training, model, data)
        trial = time_steps(args, model, data, plan, TRIAL_STEPS)
        asked = fit_to_budget(asked, trial, plan)
        args, model = prepare_model(asked, run, data)
    now = provenance_of(args.used_values(), data.text, args.training.segments_per_step)
    provenance = check_resumed(run, now, networks_changed(run.checkpoint, model.config))
    plan = make_plan(args.training, model, data, provenance.changes)
    announce_plan(args, plan)
    if args.training.device_flops is not None:
        announce_elsewhere(plan, args.training.device_flops, args.training.utilization)
        return
    left = plan.steps - run.step
    if trial is None and left > 0 and (args.training.plan or shows_time(args.training)):
        steps = TRIAL_STEPS if args.training.plan else max(1, min(TRIAL_STEPS, left // 10))
        trial = time_steps(args, model, data, plan, steps)
        if not args.training.plan:
            args, model = prepare_model(asked, run, data)  # fresh networks
    if trial is not None:
        announce_trial(trial, args.training, plan, run.step)
    if args.training.plan:
        announce_memory(args.training)
        return

    stop = StopRequests(args.training.max_hours, started)
    timed = [FirstSteps(plan)] if trial is None else []
    trainer = ElectraTrainer(
        model,
        args.training,
        data,
        callbacks=[*make_callbacks(args, model, plan), *timed, stop],
        objective=args.objective,
        plan=plan,
        provenance=provenance,
        probes=probes,
    )
    is_new = not holds_files(run.folder)
    if args.training.process_index == 0:
        with first_files(run):
            save_options(args.record, run, data.tokenizer)
            log.write_to(run.folder)

    with stop.listening():
        try:
            trainer.train(resume_from_checkpoint=run.checkpoint or False)
        except TrackerError:
            if is_new and args.training.process_index == 0:
                shutil.rmtree(run.folder, ignore_errors=True)
            raise
    if stop.exit_code:
        sys.exit(stop.exit_code)

    is_continued = any((args.model.init_discriminator, args.model.init_generator, args.training.init_checkpoint))
    finish_run(trainer, args.record, first_column="start" if is_continued else "untrained")
    upload(args.training, run)


def upload(training: ElectraTrainingArguments, run: Run) -> None:
    """Upload the exported networks of a finished run, if --push_to_hub is given, on the first process."""
    if training.push_to_hub and training.process_index == 0:
        upload_networks(training, run.folder)


def prepare_model(
    asked: Configuration, run: Run, data: PretrainingData
) -> tuple[Configuration, ElectraForJointPretraining]:
    """Return the configuration with the steps and sizes that this text and the networks give, and the model."""
    args = resolve_options(asked, run, len(data.policy), has_held_out=data.evaluation is not None)
    model = build_model(args, data.tokenizer, run.checkpoint)
    return with_given_parts(args, model, data.tokenizer), model


def with_threads(args: Configuration, threads: int | None) -> Configuration:
    """Return the configuration with the number of threads that the run uses."""
    return replace(args, training=args.training.with_values(threads=threads))


def time_steps(
    args: Configuration, model: ElectraForJointPretraining, data: PretrainingData, plan: Plan, steps: int
) -> Trial:
    """Return the time of a few training steps, which the model takes in a temporary folder without a log.

    With --budget an evaluation of a few held-out segments is timed, too. It waits for the device by itself.
    """
    clock = Clock()
    segments = [] if data.evaluation is None else [data.evaluation, *data.more_evaluations.values()]
    total = sum(map(len, segments))
    is_on_cpu = args.training.device.type == "cpu"
    few = args.training.eval_batch_size * args.training.world_size * (1 if is_on_cpu else TRIAL_BATCHES)
    evaluation = None if data.evaluation is None else replace(data.evaluation, max_segments=few)
    sample = replace(data, evaluation=evaluation, more_evaluations={})
    seconds = 0.0
    logging.disable(logging.INFO)
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            trial = trial_arguments(args, folder, steps)
            trainer = ElectraTrainer(
                model, trial.training, sample, callbacks=[clock], objective=trial.objective, plan=plan
            )
            if args.training.device.type == "cuda":
                torch.cuda.reset_peak_memory_stats()  # of the measured matrix product, with --budget
            trainer.train(resume_from_checkpoint=False)
            if args.training.budget and args.training.eval_strategy != "no" and evaluation is not None:
                if not is_on_cpu:
                    trainer.evaluate()  # a GPU loads its kernels at their first use
                started = time.monotonic()
                trainer.evaluate()
                seconds = (time.monotonic() - started) * total / len(evaluation)
    finally:
        logging.disable(logging.NOTSET)
    del trainer
    gc.collect()  # gradients and moments, before the run makes its own
    return Trial(clock.steps, clock.seconds_per_step, seconds)


def make_callbacks(args: Configuration, model: ElectraForJointPretraining, plan: Plan) -> list[TrainerCallback]:
    """Return the callbacks of a run: those that save, log and warn, and those of trackers."""
    settings = RecordSettings({"options": without_secrets(args.record), "plan": asdict(plan)})
    return [settings, *default_callbacks(model, args.training, plan)]
