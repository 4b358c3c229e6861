"""The end of a run: the last evaluation and its baselines, networks, samples, metrics.json, the printed table."""

import json
import logging
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from accelerate import PartialState

from electra.data.corrupted import CorruptedSegments
from electra.io.checkpoints import describe_latest_valid, translate_write_errors
from electra.io.console import environment
from electra.io.files import write_file, write_json
from electra.model.joint import ElectraForJointPretraining
from electra.model.probe import probe, to_samples
from electra.pretraining.callbacks.health import DiscriminatorHealth
from electra.pretraining.callbacks.progress import compute_ledger, ledger_line
from electra.pretraining.configuration import Configuration
from electra.pretraining.data import PretrainingData
from electra.pretraining.export import export_networks
from electra.pretraining.metrics import Rows, rows_of, token_counts, unigram_metrics
from electra.pretraining.run_folder import METRICS_NAME, STATE_NAME
from electra.pretraining.trainer import ElectraTrainer
from electra.report.blocks import text_table
from electra.report.page import REPORT_NAME, try_to_report
from electra.runtime.tracking import tensorboard_folder, track_results
from electra.samples import write_samples

logger = logging.getLogger(__name__)

SAMPLES = 5
"""Held-out segments in samples.json."""


def finish_run(
    trainer: ElectraTrainer, args: Configuration, record: Mapping[str, Any], data: PretrainingData, command: str
) -> None:
    """Evaluate, and write, print and track the results; call it on every process.

    With FSDP each process has a part of each weight: the first one gathers the whole model, which becomes the
    trainer's own, and writes.
    """
    results = evaluate_at_end(trainer, data, bool(args.model.init_discriminator or args.model.init_generator))
    if trainer.is_fsdp_enabled:
        weights = trainer.accelerator.get_state_dict(trainer.model_wrapped)
        if trainer.is_world_process_zero():
            trainer.model = ElectraForJointPretraining(trainer.model.config)
            trainer.model.load_state_dict(weights)
    if not trainer.is_world_process_zero():
        return
    folder, plan, state = trainer.run_folder, trainer.plan, trainer.state
    step = (trainer.args.load_best_model_at_end and state.best_global_step) or state.global_step
    with translate_write_errors(folder, lambda: describe_latest_valid(folder)):
        ledger = compute_ledger(state, trainer.args, plan)
        _save_logs(trainer, step)
        networks = export_networks(
            trainer.model,
            data.tokenizer,
            folder,
            plan=plan,
            metrics=results.get("trained", {}),
            step=step,
            options=record,
            command=command,
            ledger=ledger,
        )
        health = trainer.pop_callback(DiscriminatorHealth)
        baseline = results.get("frequencies", {}).get("discriminator_auc", math.nan)
        verdict = health.verdict(trainer.args, state, baseline) if health else ""
        sizes = plan.as_dict() | {"main_network": plan.main_network}
        values = {"held_out": results, "plan": sizes, "compute": ledger, **environment()}
        started = trainer.model.config.initialized_from
        values |= {"initialized_from": started} if started else {}
        values |= {"verdict": verdict} if verdict else {}
        write_json(values, folder / METRICS_NAME)
        if results:
            logger.info("\nHeld-out metrics on the same segments and masks ('frequencies': token frequencies only)\n")
            logger.info(results_table(results, rows_of(trainer.model.objective)))
        logger.info("\n%s\n", ledger_line(ledger))
        logger.info("%-13s  %s", plan.main_network, networks["discriminator"])
        if "generator" in networks:
            logger.info("generator      %s", networks["generator"])
        logger.info("Fine-tune it:  python run_glue.py --pretrain_path %s", folder)
        _track(trainer, results, ledger)
        if verdict:
            logger.info("\n%s", verdict)


def report_finished(folder: Path) -> None:
    """Make the report of a finished run that was killed before it had one."""
    if PartialState().is_main_process and not (folder / REPORT_NAME).is_file():
        try_to_report(folder)


def evaluate_at_end(trainer: ElectraTrainer, data: PretrainingData, is_continued: bool) -> dict[str, dict[str, float]]:
    """Held-out metrics of the pair before its first step, of token frequencies alone, and of the trained pair.

    All three are measured on the same segments with the same masks, so a run resumed with other held-out text has no
    first column. Empty if nothing is held out. `is_continued`: the networks were trained before this run.
    """
    if data.evaluation is None:
        return {}
    evaluations = [logs for logs in trainer.state.log_history if "eval_loss" in logs]
    first, last = (evaluations[0], evaluations[-1]) if evaluations else ({}, {})
    is_current = last.get("step") == trainer.state.global_step and not trainer.args.load_best_model_at_end
    if not is_current or trainer.last_records is None:
        last = trainer.evaluate()
    assert trainer.last_records is not None
    config = trainer.model.config
    rows = rows_of(trainer.model.objective)

    def column(logs: dict[str, Any], prefix: str = "eval_") -> dict[str, float]:
        return {name: float(logs[prefix + name]) for name, _ in rows if prefix + name in logs}

    columns = {}
    origin = trainer.checkpoints.origin
    is_same_text = origin is not None and origin.first_held_out_text == data.text.held_out_text
    if is_same_text and first.get("step") == 0 and first["eval_tokens"] == last["eval_tokens"]:
        columns["start" if is_continued else "untrained"] = column(first)
    columns["frequencies"] = unigram_metrics(
        trainer.last_records,
        token_counts(data.cache, data.training_documents, config.discriminator.vocab_size),
        config.special_token_ids,
        trainer.model.objective,
    )
    columns["trained"] = column(last)
    for name, segments in data.more_evaluations.items():
        if next(iter(columns)) != "frequencies":
            columns[f"{name}: {next(iter(columns))}"] = column(first, f"eval_{name}_")
        if isinstance(segments, CorruptedSegments):
            columns[f"{name}: frequencies"] = {"discriminator_auc": segments.frequencies_auc}
        columns[f"{name}: trained"] = column(last, f"eval_{name}_")
    return columns


def _save_logs(trainer: ElectraTrainer, step: int) -> None:
    """Write the log, and samples if text is held out, into the run folder; `step` is that of the weights."""
    folder = trainer.run_folder
    write_file((json.dumps(asdict(trainer.state), indent=2) + "\n").encode(), folder / STATE_NAME)
    if trainer.eval_dataset is not None:
        model, tokenizer = trainer.model, trainer.processing_class
        segments = trainer.eval_dataset.__getitems__(trainer.eval_dataset.spread(SAMPLES))
        batch = {name: values.to(model.device) for name, values in trainer.data_collator(segments).items()}
        samples = to_samples(probe(model.generator, model.discriminator, batch, model.config), tokenizer)
        write_samples(samples, folder, step)


def results_table(columns: dict[str, dict[str, float]], rows: Rows) -> str:
    """Aligned text with one row per metric and one column per model; missing values stay empty."""

    def cell(value: float) -> str:
        return "" if math.isnan(value) else f"{value:.4f}"

    cells = [[label, *(cell(values.get(name, math.nan)) for values in columns.values())] for name, label in rows]
    return text_table(["", *columns], cells)


def _track(trainer: ElectraTrainer, results: dict[str, dict[str, float]], ledger: dict[str, Any]) -> None:
    """Make the report; send it, the held-out table and the cost to the trackers."""
    scalars = {f"held_out/{column}/{name}": v for column, values in results.items() for name, v in values.items()}
    scalars |= {f"compute/{name}": v for name, v in ledger.items() if isinstance(v, int | float)}
    names = dict.fromkeys(name for values in results.values() for name in values)
    rows = [[name, *(values.get(name) for values in results.values())] for name in names]
    track_results(
        trainer.args.report_to,
        scalars,
        {"held_out": (["metric", *results], rows)} if results else {},
        try_to_report(trainer.run_folder),
        folder=tensorboard_folder(trainer),
        step=trainer.state.global_step,
    )
