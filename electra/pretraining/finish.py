"""After training: the last evaluation, its baselines, and what is written and said at the end of a run."""

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from electra.environment import environment
from electra.files import write_file, write_json
from electra.pretraining.inputs import Segments
from electra.pretraining.ledger import compute_ledger, ledger_line
from electra.pretraining.metrics import unigram_metrics
from electra.pretraining.origin import FIRST_HELD_OUT
from electra.pretraining.plan import Plan
from electra.pretraining.results import results_table, rows_of, token_counts, without_prefix
from electra.pretraining.run_folder import METRICS_NAME, STATE_NAME
from electra.pretraining.samples import save_samples
from electra.pretraining.trainer import ElectraTrainer
from electra.tracking import tensorboard_folder, track_results

logger = logging.getLogger(__name__)


def evaluate_at_end(trainer: ElectraTrainer, data: Segments) -> dict[str, dict[str, float]]:
    """Held-out metrics of the untrained pair, of token frequencies alone, and of the trained pair.

    All three are asked the same: the same segments with the same masks; a run resumed with other held-out text has no
    first column. Empty if nothing is held out.
    """
    if data.evaluation is None:
        return {}
    evaluations = [logs for logs in trainer.state.log_history if "eval_loss" in logs]
    last = evaluations[-1] if evaluations else {}
    is_current = last.get("step") == trainer.state.global_step and not trainer.args.load_best_model_at_end
    if not is_current or trainer.last_records is None:
        last = trainer.evaluate()
    config = trainer.model.config
    asked = {"objective": config.objective, "uniform_generator": config.uniform_generator}
    rows = rows_of(**asked)
    columns = {}
    is_same_text = trainer.origin.get(FIRST_HELD_OUT) in (None, data.held_out)
    is_at_start = bool(evaluations) and evaluations[0]["step"] == 0
    if is_same_text and is_at_start and evaluations[0]["eval_tokens"] == last["eval_tokens"]:
        columns["untrained"] = without_prefix(evaluations[0], rows=rows)
    assert trainer.last_records is not None
    counts = token_counts(data.cache, data.training_documents, config.discriminator.vocab_size)
    columns["frequencies"] = unigram_metrics(trainer.last_records, counts, config.special_token_ids, **asked)
    columns["trained"] = without_prefix(last, rows=rows)
    return columns


def save_logs(trainer: ElectraTrainer, folder: Path, plan: Plan) -> dict[str, Any]:
    """Write the whole log and the samples into the run's folder, and measure what the run has cost.

    Returns:
        see `compute_ledger`.
    """
    ledger = compute_ledger(trainer.state, trainer.args, plan)
    write_file((json.dumps(asdict(trainer.state), indent=2) + "\n").encode(), folder / STATE_NAME)
    save_samples(trainer, folder)
    return ledger


def track(
    trainer: ElectraTrainer, results: dict[str, dict[str, float]], ledger: dict[str, Any], files: Sequence[Path]
) -> None:
    """Give the trackers the held-out table, what the run has cost, and its report; last of all.

    Args:
        results: see `evaluate_at_end`.
        ledger: see `compute_ledger`.
        files: of the report.
    """
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


def report(
    folder: Path,
    plan: Plan,
    results: dict[str, dict[str, float]],
    ledger: dict[str, Any],
    networks: dict[str, Path],
) -> None:
    """Write metrics.json; print the table, the cost, and where the networks are."""
    values: dict[str, Any] = {
        "held_out": results,
        "plan": plan.as_dict(),
        "compute": ledger,
        **environment(),
    }
    write_json(values, folder / METRICS_NAME)
    if results:
        logger.info("\nHeld-out metrics, same segments and masks ('frequencies': token frequencies, no context)\n")
        logger.info(results_table(results, rows_of(plan.objective, plan.uniform_generator)))
    logger.info("\n%s", ledger_line(ledger))
    logger.info("\n%-13s  %s", plan.large_network, networks["discriminator"])
    if "generator" in networks:
        logger.info("generator      %s", networks["generator"])
    logger.info('Fine-tune it:  AutoModelForSequenceClassification.from_pretrained("%s")', networks["discriminator"])
