"""Pre-train an ELECTRA on any corpus. See run_pretraining.py."""

import sys
import time
from pathlib import Path

from electra.checkpoint import describe_latest_valid, translate_write_errors
from electra.console import setup_logging, shown_command
from electra.hub import push_run
from electra.pretraining.callbacks.checkpoints import StopRequests
from electra.pretraining.data import load_data
from electra.pretraining.export import export_networks
from electra.pretraining.finish import (
    evaluate_at_end,
    gather_model,
    log_verdict,
    report,
    save_logs,
    step_of_weights,
    track,
)
from electra.pretraining.model import build_model, record_given_parts
from electra.pretraining.options import parse_arguments, resolve
from electra.pretraining.plan import announce_plan
from electra.pretraining.resources import check_disk, run_trial
from electra.pretraining.resume import check_resumed, origin_of
from electra.pretraining.run_folder import open_run, save_options
from electra.pretraining.trainer import make_trainer
from electra.report.page import REPORT_NAME, try_to_report
from electra.tracking import check_trackers


def main(argv: list[str] | None = None) -> None:
    started = time.monotonic()
    setup_logging()
    args = parse_arguments(argv)
    check_trackers(args.training.report_to)
    run = open_run(args)
    if run.is_finished:
        if args.training.process_index == 0 and not (run.folder / REPORT_NAME).is_file():  # killed before it had one
            try_to_report(run.folder)
        return
    data = load_data(args, run.checkpoint)
    args = resolve(args, run.folder, run.checkpoint, len(data.policy), has_held_out=data.evaluation is not None)
    model = build_model(args, data.tokenizer, run.checkpoint)
    args = record_given_parts(args, model, data.tokenizer)
    origin = origin_of(args.values(), model, data.text, args.training.segments_per_step)
    if run.checkpoint is not None:
        origin = check_resumed(Path(run.checkpoint), origin, model)
    plan = announce_plan(args, model, data, origin["changes"])
    check_disk(args, model, plan)
    if args.training.plan:
        run_trial(args, model, data, plan)
        return
    stop = StopRequests(args.training.max_hours, started)
    trainer = make_trainer(args, model, data, plan, origin, stop)
    save_options(args, run, data.tokenizer, plan.changes)

    with stop.listening():
        trainer.train(resume_from_checkpoint=run.checkpoint)
    if stop.exit_code:
        sys.exit(stop.exit_code)

    is_continued = bool(args.model.init_discriminator or args.model.init_generator)
    results = evaluate_at_end(trainer, data, is_continued)
    model = gather_model(trainer)
    if trainer.is_world_process_zero():
        with translate_write_errors(run.folder, lambda: describe_latest_valid(run.folder)):
            ledger = save_logs(trainer, run.folder, plan)
            folders = export_networks(
                model,
                data.tokenizer,
                run.folder,
                plan=plan,
                metrics=results.get("trained", {}),
                step=step_of_weights(trainer),
                options=args.effective,
                command=shown_command("run_pretraining.py", sys.argv[1:] if argv is None else argv),
                ledger=ledger,
            )
            report(run.folder, plan, results, ledger, folders)
            track(trainer, results, ledger, try_to_report(run.folder))
            log_verdict(trainer)
        if args.training.push_to_hub:
            push_run(
                run.folder,
                args.training.hub_model_id or run.folder.name,
                token=args.training.hub_token,
                private=args.training.hub_private_repo,
                revision=args.training.hub_revision,
                with_checkpoints=args.training.hub_strategy in ("checkpoint", "all_checkpoints"),
            )
