"""The end of a run: the last evaluation and its baselines, samples, metrics.json, the printed table."""

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from electra.checkpoint import recording
from electra.console import environment
from electra.files import write_file, write_json
from electra.model.joint import ElectraForJointPretraining
from electra.model.probe import probe, to_samples
from electra.pretraining.callbacks.cost import compute_ledger, ledger_line
from electra.pretraining.callbacks.health import DiscriminatorHealth
from electra.pretraining.data import PretrainingData
from electra.pretraining.metrics import unigram_metrics
from electra.pretraining.plan import Plan
from electra.pretraining.results import results_table, rows_of, token_counts, without_prefix
from electra.pretraining.resume import FIRST_HELD_OUT
from electra.pretraining.run_folder import METRICS_NAME, STATE_NAME
from electra.pretraining.trainer import ElectraTrainer
from electra.samples import SAMPLES_NAME, write_samples
from electra.tracking import tensorboard_folder, track_results

logger = logging.getLogger(__name__)

SAMPLES = 5
"""Held-out segments in samples.json."""


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
    config = trainer.model.config
    asked = {"objective": config.objective, "uniform_generator": config.uniform_generator}
    rows = rows_of(**asked)
    columns = {}
    is_same_text = trainer.origin[FIRST_HELD_OUT] == data.text[FIRST_HELD_OUT]
    if is_same_text and first.get("step") == 0 and first["eval_tokens"] == last["eval_tokens"]:
        columns["start" if is_continued else "untrained"] = without_prefix(first, rows=rows)
    assert trainer.last_records is not None
    counts = token_counts(data.cache, data.training_documents, config.discriminator.vocab_size)
    columns["frequencies"] = unigram_metrics(
        trainer.last_records, counts, config.special_token_ids, config.vocabulary_gaps, **asked
    )
    columns["trained"] = without_prefix(last, rows=rows)
    return columns


def step_of_weights(trainer: ElectraTrainer) -> int:
    """The step of the model's weights after training: the last, or the best if that was loaded."""
    best = trainer.state.best_global_step if trainer.args.load_best_model_at_end else None
    return best or trainer.state.global_step


def gather_model(trainer: ElectraTrainer) -> ElectraForJointPretraining:
    """The model with all of its weights, which becomes the trainer's own; call it on every process.

    With FSDP each process has a part of each weight: only the first process gets the whole model.
    """
    if trainer.is_fsdp_enabled:
        weights = trainer.accelerator.get_state_dict(trainer.model_wrapped)
        if trainer.is_world_process_zero():
            trainer.model = ElectraForJointPretraining(trainer.model.config)
            trainer.model.load_state_dict(weights)
    return trainer.model


def save_logs(trainer: ElectraTrainer, folder: Path, plan: Plan) -> dict[str, Any]:
    """Write the log, and samples if text is held out, into the run folder; measure the cost, see `compute_ledger`."""
    ledger = compute_ledger(trainer.state, trainer.args, plan)
    with recording(folder, STATE_NAME, SAMPLES_NAME):
        write_file((json.dumps(asdict(trainer.state), indent=2) + "\n").encode(), folder / STATE_NAME)
        if trainer.eval_dataset is not None:
            model, tokenizer = trainer.model, trainer.processing_class
            segments = trainer.eval_dataset.__getitems__(list(range(min(SAMPLES, len(trainer.eval_dataset)))))
            batch = {name: values.to(model.device) for name, values in trainer.data_collator(segments).items()}
            samples = to_samples(probe(model.generator, model.discriminator, batch, model.config), tokenizer)
            write_samples(samples, folder, step_of_weights(trainer))
    return ledger


def report(
    folder: Path,
    plan: Plan,
    results: dict[str, dict[str, float]],
    ledger: dict[str, Any],
    networks: dict[str, Path],
) -> None:
    """Write metrics.json; print the table, the cost, and the folders of the networks."""
    sizes = plan.as_dict() | {"main_network": plan.main_network}
    with recording(folder, METRICS_NAME):
        values = {"held_out": results, "plan": sizes, "compute": ledger, **environment()}
        write_json(values, folder / METRICS_NAME)
    if results:
        logger.info("\nHeld-out metrics on the same segments and masks ('frequencies': token frequencies only)\n")
        logger.info(results_table(results, rows_of(plan.objective, plan.uniform_generator)))
    logger.info("\n%s", ledger_line(ledger))
    logger.info("\n%-13s  %s", plan.main_network, networks["discriminator"])
    if "generator" in networks:
        logger.info("generator      %s", networks["generator"])
    logger.info('Fine-tune it:  AutoModelForSequenceClassification.from_pretrained("%s")', networks["discriminator"])


def track(
    trainer: ElectraTrainer, results: dict[str, dict[str, float]], ledger: dict[str, Any], files: Sequence[Path]
) -> None:
    """Send the held-out table, the cost and the files of the report to the trackers."""
    scalars = {f"held_out/{column}/{name}": v for column, values in results.items() for name, v in values.items()}
    scalars |= {f"compute/{name}": v for name, v in ledger.items() if isinstance(v, int | float)}
    names = dict.fromkeys(name for values in results.values() for name in values)
    rows = [[name, *(values.get(name) for values in results.values())] for name in names]
    track_results(
        trainer.args.report_to,
        scalars,
        {"held_out": (["metric", *results], rows)} if results else {},
        files,
        folder=tensorboard_folder(trainer),
        step=trainer.state.global_step,
    )


def log_verdict(trainer: ElectraTrainer) -> None:
    """The last line of a run: whether the discriminator has learned."""
    health = trainer.pop_callback(DiscriminatorHealth)
    verdict = health and health.verdict(trainer.args, trainer.state)
    if verdict:
        logger.info("\n%s", verdict)
