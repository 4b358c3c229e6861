"""Pre-train an ELECTRA on any corpus. See run_pretraining.py."""

import sys
import time

from electra.checkpoint import describe_latest_valid, translate_write_errors
from electra.console import setup_logging
from electra.environment import shown_command
from electra.hub import push_run
from electra.pretraining.callbacks.stopping import StopRequests
from electra.pretraining.data import get_tokenizer, make_segments, open_corpora
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
from electra.pretraining.options import parse_arguments
from electra.pretraining.run_folder import open_run, save_options
from electra.pretraining.setup import announce_plan, make_trainer, resolve
from electra.pretraining.trial import run_trial
from electra.report.page import REPORT_NAME, try_to_report


def main(argv: list[str] | None = None) -> None:
    started = time.monotonic()
    setup_logging()
    args = parse_arguments(argv)
    run = open_run(args)
    if run.is_finished:
        if args.training.process_index == 0 and not (run.folder / REPORT_NAME).is_file():  # killed before it had one
            try_to_report(run.folder)
        return
    corpus, validation = open_corpora(args)
    tokenizer = get_tokenizer(args, run, corpus)
    data = make_segments(args, tokenizer, corpus, validation)
    args = resolve(args, run, data)
    model = build_model(args, tokenizer, run.checkpoint)
    record_given_parts(args, model, tokenizer)
    plan = announce_plan(args, run, model, data)
    if args.training.plan:
        run_trial(args, model, tokenizer, data, plan)
        return
    stop = StopRequests(args.training.max_hours, started)
    trainer = make_trainer(args, run, model, tokenizer, data, plan, stop)
    save_options(args, run, tokenizer)

    with stop.listening():
        trainer.train(resume_from_checkpoint=run.checkpoint)
    if stop.exit_code:
        sys.exit(stop.exit_code)

    is_fresh = not (args.model.init_discriminator or args.model.init_generator)
    results = evaluate_at_end(trainer, data, before="untrained" if is_fresh else "start")
    model = gather_model(trainer)
    if trainer.is_world_process_zero():
        with translate_write_errors(run.folder, lambda: describe_latest_valid(run.folder)):
            ledger = save_logs(trainer, run.folder, plan)
            folders = export_networks(
                model,
                tokenizer,
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
