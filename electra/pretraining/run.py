"""The command `electra pretrain`: a run from its options to the exported networks, all side effects in their order."""

import sys
import time
from dataclasses import asdict, replace

from transformers import PreTrainedTokenizerBase

from electra.base.console import RunLog, setup_logging, show_from, without_secrets
from electra.core.schedules import check_optimizer
from electra.model.joint import ElectraForJointPretraining
from electra.pretraining.budget import announce_cost, fit_to_budget
from electra.pretraining.callbacks import Probe
from electra.pretraining.configuration import Configuration, ElectraTrainingArguments
from electra.pretraining.data import load_data
from electra.pretraining.device import allow_open_files
from electra.pretraining.finish import finish_run
from electra.pretraining.model import changed_network_values, prepare_model
from electra.pretraining.options import check_steps, parse_pretraining_arguments
from electra.pretraining.plan import announce_plan, make_plan
from electra.pretraining.run_folder import (
    Run,
    check_resumed,
    create_or_discard_folder,
    open_run,
    provenance_of,
    save_options,
    upload_networks,
)
from electra.pretraining.trainer import ElectraTrainer
from electra.report.page import REPORT_NAMES, try_to_report
from electra.runtime.device import keep_freed_memory
from electra.runtime.threads import use_threads
from electra.runtime.tracking import RecordSettings, log_in, removing_refused


def main(argv: list[str] | None = None) -> None:
    started = time.monotonic()
    setup_logging()
    log = RunLog()
    args = parse_pretraining_arguments(argv)
    if args.training.log_level != "passive":
        show_from(args.training.get_process_log_level())
    pretrain(args, log, started)


def pretrain(args: Configuration, log: RunLog, started: float) -> None:
    """Run a pre-training from its options to the exported networks.

    Args:
        args: configuration of the run.
        log: log that keeps lines until the run folder is known.
        started: `time.monotonic()` at the start of the command, in seconds.
    """
    if args.training.report_to:
        log_in(args.training.report_to)
    check_optimizer(args.training)
    run = open_run(args)
    if run.is_finished:
        complete(args.training, run)
        return

    check_steps(args, run)
    args = set_up_process(args, run)
    data = load_data(args, run.checkpoint)
    timing = None
    if args.training.budget:
        args, timing = fit_to_budget(args, run, data)
    args, model = prepare_model(args, run, data)
    probes = probes_of(args.training, model, data.tokenizer)
    provenance_now = provenance_of(args.used_values(), data.text_provenance, args.training.segments_per_step)
    provenance = check_resumed(run, provenance_now, changed_network_values(run.checkpoint, model.config))
    plan = make_plan(args.training, model, data, provenance.changes)
    announce_plan(args, plan)
    if args.training.plan:
        announce_cost(args, model, data, plan, timing)
        return

    trainer = ElectraTrainer(
        model, args.training, data, objective=args.objective, provenance=provenance, probes=probes
    )
    exit_code = train(trainer, args, run, log, started)
    if exit_code:
        sys.exit(exit_code)
    finish_run(trainer, args.record, first_column="start" if args.starts_from_trained else "untrained")
    upload(args.training, run)


def set_up_process(args: Configuration, run: Run) -> Configuration:
    """Set open files, threads and memory of this process as the run needs them; return options with the threads."""
    training = args.training
    allow_open_files(training)
    threads = use_threads(training.device, training.threads, run.options.get("threads"))
    keep_freed_memory(use_cpu=training.use_cpu)
    return replace(args, training=training.with_values(threads=threads))


def train(trainer: ElectraTrainer, args: Configuration, run: Run, log: RunLog, started: float) -> int:
    """Write options, tokenizer and log into the run's folder, and train until the end, a signal or --max_hours.

    A folder that is new is removed if it cannot be written, or if a tracker refuses the run.

    Args:
        started: `time.monotonic()` at the start of the command, in seconds.
    Returns:
        the exit code of a run that was stopped, else 0.
    """
    stop = trainer.stop
    if args.training.max_hours:
        stop.deadline = started + 3600 * args.training.max_hours
    if args.training.report_to:
        record = {"options": without_secrets(args.record), "plan": asdict(trainer.plan)}
        trainer.add_callback(RecordSettings(record))
    with stop.requests.listening(), removing_refused(run.folder):
        if args.training.process_index == 0:
            with create_or_discard_folder(run):
                save_options(args.record, run, trainer.data.tokenizer)
                log.write_to(run.folder)
        trainer.train(resume_from_checkpoint=run.checkpoint or False)
    return stop.exit_code


def complete(training: ElectraTrainingArguments, run: Run) -> None:
    """Write the report of a finished run that was killed while it wrote it, and upload its networks."""
    has_report = all((run.folder / name).is_file() for name in REPORT_NAMES)
    if training.process_index == 0 and not has_report:
        try_to_report(run.folder)
    upload(training, run)


def upload(training: ElectraTrainingArguments, run: Run) -> None:
    """Upload the exported networks of a finished run, if --push_to_hub is given; only the first process does."""
    if training.push_to_hub and training.process_index == 0:
        upload_networks(training, run.folder)


def probes_of(
    training: ElectraTrainingArguments, model: ElectraForJointPretraining, tokenizer: PreTrainedTokenizerBase
) -> list[Probe]:
    """Return the probes of --eval_pairs and --eval_classify; none if neither is given."""
    if training.eval_pairs is None and training.eval_classify is None:
        return []
    from electra.tools.probes import make_probes  # not at the top: few runs need the tasks and what they import

    return make_probes(training.eval_pairs, training.eval_classify, model, tokenizer)
