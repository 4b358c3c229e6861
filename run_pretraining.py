"""Pre-train an ELECTRA on any corpus.

    python run_pretraining.py                                                  a few minutes, on text Python brings
    python run_pretraining.py --train_file my_corpus/*.txt --experiment_name mine
    python run_pretraining.py --dataset_name openwebtext --model_size small
    python run_pretraining.py --config configs/pretraining/quickstart.yaml --generator_size 0.5
    python run_pretraining.py --dataset_name openwebtext --plan                what it would take; trains nothing

Every option: --help. Values come from defaults, then the recipe of --model_size, then --config, then flags.
"""

import sys
import time

from electra.console import setup_logging
from electra.errors import run_script
from electra.pretraining.export import export_networks
from electra.pretraining.finish import evaluate_at_end, report, save_logs, track
from electra.pretraining.inputs import get_tokenizer, make_segments, open_corpora
from electra.pretraining.manifest import naming_failed_writes
from electra.pretraining.networks import build_model
from electra.pretraining.options import parse_arguments
from electra.pretraining.run_folder import open_run, save_options
from electra.pretraining.setup import announce_plan, make_trainer
from electra.pretraining.stopping import StopRequests
from electra.pretraining.trial import run_trial
from electra.redaction import shown_command
from electra.report.write import REPORT_NAME, try_to_report


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
    model = build_model(args, tokenizer, run.checkpoint)
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

    results = evaluate_at_end(trainer, data)
    model = trainer.whole_model()
    if trainer.is_world_process_zero():
        with naming_failed_writes(run.folder, lambda: trainer.last_whole(run.folder)):
            ledger = save_logs(trainer, run.folder, plan)
            folders = export_networks(
                model,
                tokenizer,
                run.folder,
                plan=plan,
                sources=data.source_names,
                metrics=results.get("trained", {}),
                options=args.effective,
                command=shown_command("run_pretraining.py", sys.argv[1:] if argv is None else argv),
                ledger=ledger,
            )
            report(run.folder, plan, results, ledger, folders)
            track(trainer, results, ledger, try_to_report(run.folder))


if __name__ == "__main__":
    run_script(main)
