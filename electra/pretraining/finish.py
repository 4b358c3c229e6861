"""The end of a run: last evaluation and baselines, exported networks with model cards, metrics.json, a table.

The main network is always in `discriminator/`, whatever its objective, so fine-tuning needs no case distinction. Where
it is a masked language model, `AutoModelForMaskedLM` opens it. Without a generator network it is written alone. In a
card, nothing is claimed that the user did not state or the run did not measure.
"""

import json
import logging
import math
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCardData
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from electra.data.corrupted import CorruptedSegments
from electra.io.checkpoints import describe_latest_valid, translate_write_errors, write_manifest
from electra.io.console import environment, format_seconds, without_secrets
from electra.io.files import replace_folder, write_as_yaml, write_file, write_json
from electra.model.joint import ElectraForJointPretraining
from electra.model.pretrained import ENERGY_KEY, STEP_KEY
from electra.model.probe import probe, to_samples
from electra.model.transfer import POSITIONS_KEY
from electra.model.tying import plain_state
from electra.objectives import objective_of
from electra.pretraining.callbacks.health import DiscriminatorHealth
from electra.pretraining.callbacks.progress import compute_ledger, ledger_line
from electra.pretraining.configuration import Configuration
from electra.pretraining.data import PretrainingData
from electra.pretraining.metrics import Rows, rows_of, token_counts, unigram_metrics
from electra.pretraining.plan import Plan
from electra.pretraining.run_folder import METRICS_NAME, STATE_NAME
from electra.pretraining.trainer import ElectraTrainer
from electra.report.blocks import Table, text_table
from electra.report.card import Card, write_card
from electra.report.labels import metric_title
from electra.report.page import try_to_report
from electra.runtime.tracking import tensorboard_folder, track_results
from electra.samples import write_samples

logger = logging.getLogger(__name__)

SAMPLES = 5
"""Held-out segments in samples.json."""

# ---- the end of a run


def finish_run(trainer: ElectraTrainer, args: Configuration, data: PretrainingData) -> None:
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
    folder = trainer.run_folder
    with translate_write_errors(folder, lambda: describe_latest_valid(folder)):
        ledger = compute_ledger(trainer.state, trainer.args, trainer.plan)
        health = trainer.pop_callback(DiscriminatorHealth)
        baseline = results.get("frequencies", {}).get("discriminator_auc", math.nan)
        verdict = health.verdict(trainer.args, trainer.state, baseline) if health else ""
        _write_results(trainer, args, results, ledger, verdict)
        if results:
            logger.info("\nHeld-out metrics on the same segments and masks ('frequencies': token frequencies only)\n")
            logger.info(results_table(results, rows_of(trainer.model.objective)))
        logger.info("\n%s\n", ledger_line(ledger))
        logger.info("%-13s  %s", trainer.plan.main_network, folder / "discriminator")
        if trainer.model.generator is not None:
            logger.info("generator      %s", folder / "generator")
        logger.info("Fine-tune it:  python run_glue.py --pretrain_path %s", folder)
        _track(trainer, results, ledger)
        if verdict:
            logger.info("\n%s", verdict)


def evaluate_at_end(trainer: ElectraTrainer, data: PretrainingData, is_continued: bool) -> dict[str, dict[str, float]]:
    """Held-out metrics of the pair before its first step, of token frequencies alone, and of the trained pair.

    All three are measured on the same segments with the same masks, so a run resumed with other held-out text has no
    first column. Empty if nothing is held out. `is_continued`: the networks were trained before this run.
    """
    if data.evaluation is None:
        return {}
    evaluations = [logs for logs in trainer.state.log_history if "eval_loss" in logs]
    first = evaluations[0] if evaluations else {}
    last = evaluations[-1] if evaluations else {}
    is_current = last.get("step") == trainer.state.global_step
    if not is_current or trainer.last_records is None:
        last = trainer.evaluate()
    assert trainer.last_records is not None
    config = trainer.model.config
    rows = rows_of(trainer.model.objective)

    def column(logs: Mapping[str, Any], prefix: str) -> dict[str, float]:
        return {name: float(logs[prefix + name]) for name, _ in rows if prefix + name in logs}

    origin = trainer.checkpoints.origin
    is_same_text = origin is not None and origin.first_held_out_text == origin.held_out_text
    has_first = is_same_text and first.get("step") == 0 and first["eval_tokens"] == last["eval_tokens"]
    start = "start" if is_continued else "untrained"
    columns = {start: column(first, "eval_")} if has_first else {}
    columns["frequencies"] = unigram_metrics(
        trainer.last_records,
        token_counts(data.cache, data.training_documents, config.discriminator.vocab_size),
        config.special_token_ids,
        trainer.model.objective,
    )
    columns["trained"] = column(last, "eval_")
    for name, segments in data.more_evaluations.items():
        if has_first:
            columns[f"{name}: {start}"] = column(first, f"eval_{name}_")
        if isinstance(segments, CorruptedSegments):
            columns[f"{name}: frequencies"] = {"discriminator_auc": segments.frequencies_auc}
        columns[f"{name}: trained"] = column(last, f"eval_{name}_")
    return columns


def _write_results(
    trainer: ElectraTrainer,
    args: Configuration,
    results: dict[str, dict[str, float]],
    ledger: dict[str, Any],
    verdict: str,
) -> None:
    """Write log, samples, networks and metrics.json into the run folder."""
    folder = trainer.run_folder
    model = trainer.model
    plan = trainer.plan
    write_file((json.dumps(asdict(trainer.state), indent=2) + "\n").encode(), folder / STATE_NAME)
    if trainer.eval_dataset is not None:
        segments = trainer.eval_dataset.__getitems__(trainer.eval_dataset.spread(SAMPLES))
        batch = {name: values.to(model.device) for name, values in trainer.data_collator(segments).items()}
        probed = probe(model.generator, model.discriminator, batch, model.config)
        write_samples(to_samples(probed, trainer.processing_class), folder, plan.steps)
    trained = results.get("trained", {})
    export_networks(model, trainer.processing_class, folder, plan, trained, args.record, ledger)
    sizes = plan.as_dict() | {"main_network": plan.main_network}
    values = {"held_out": results, "plan": sizes, "compute": ledger, **environment()}
    if verdict:
        values["verdict"] = verdict
    write_json(values, folder / METRICS_NAME)


def results_table(columns: Mapping[str, Mapping[str, float]], rows: Rows) -> str:
    """Aligned text with one row per metric and one column per model; missing values stay empty."""
    cells = []
    for name, label in rows:
        values = [column.get(name, math.nan) for column in columns.values()]
        cells.append([label, *("" if math.isnan(value) else f"{value:.4f}" for value in values)])
    return text_table(["", *columns], cells)


def _track(trainer: ElectraTrainer, results: dict[str, dict[str, float]], ledger: dict[str, Any]) -> None:
    """Make the report; send it, the held-out metrics and the cost to the trackers."""
    scalars = {f"compute/{name}": value for name, value in ledger.items() if isinstance(value, int | float)}
    for column, values in results.items():
        scalars |= {f"held_out/{column}/{name}": value for name, value in values.items()}
    track_results(
        trainer.args.report_to,
        scalars,
        {},
        try_to_report(trainer.run_folder),
        folder=tensorboard_folder(trainer),
        step=trainer.state.global_step,
    )


# ---- exported networks


def export_networks(
    model: ElectraForJointPretraining,
    tokenizer: PreTrainedTokenizerBase,
    run_folder: Path,
    plan: Plan,
    metrics: Mapping[str, float],
    options: Mapping[str, Any],
    ledger: Mapping[str, Any],
) -> dict[str, Path]:
    """Write run_folder/discriminator and, if there is one, run_folder/generator; neither if anything fails.

    Args:
        metrics: held-out metrics without the `eval_` prefix, for the cards.
        options, ledger: for the cards: effective options, cost.
    Returns:
        the folder of each network. Earlier ones are replaced.
    """
    pair: dict[str, PreTrainedModel | None] = {"generator": model.generator, "discriminator": model.discriminator}
    networks = {name: network for name, network in pair.items() if network is not None}
    unfinished = {name: run_folder / f"{name}.unfinished" for name in networks}
    is_energy_based = objective_of(plan.objective, plan.uniform_generator).is_energy_based
    try:
        for name, network in networks.items():
            folder = unfinished[name]
            shutil.rmtree(folder, ignore_errors=True)  # left by a killed process
            config = network.config
            setattr(config, STEP_KEY, plan.steps)
            setattr(config, POSITIONS_KEY, max(getattr(config, POSITIONS_KEY, 0), plan.max_length))
            if name == "discriminator" and (is_energy_based or hasattr(config, ENERGY_KEY)):
                setattr(config, ENERGY_KEY, is_energy_based)
            network.save_pretrained(folder, state_dict=plain_state(network))
            tokenizer.save_pretrained(folder)
            facts = _facts(name, config, plan, options, ledger)
            data, card = _card(name, config.model_type, run_folder.name, plan, metrics, options, facts)
            write_card(folder / "README.md", data, card)
            write_manifest(folder, "README.md")  # users edit the card
    except BaseException:
        for folder in unfinished.values():
            shutil.rmtree(folder, ignore_errors=True)
        raise
    for name, folder in unfinished.items():
        replace_folder(folder, run_folder / name)
    return {name: run_folder / name for name in networks}


_TO_FINE_TUNE = "This is the network to fine-tune; the classes of transformers for a task drop its head and report so."
ABOUT = {
    "discriminator": f"Detects for every token whether it was replaced. {_TO_FINE_TUNE}",
    "generator": "Fills in masked tokens. It was trained to challenge the other network, not for use downstream.",
    "masked language model": f"Predicts the original tokens. {_TO_FINE_TUNE}",
}
"""What a network does."""
HOW_IT_WAS_TRAINED = {
    ("mlm", "discriminator"): " It was trained like BERT, with [MASK] at most of the predicted positions.",
    ("replace_mlm", "discriminator"): " It was trained on replaced tokens and never saw [MASK].",
    (
        "all_tokens_mlm",
        "discriminator",
    ): " It was trained on replaced tokens and never saw [MASK]. Its copy gate is in "
    "the checkpoints only, not in this folder.",
    ("two_stage", "discriminator"): " It was trained on the samples of a generator that was trained before it.",
    ("two_stage", "generator"): " It was trained first, alone, and does not share its embeddings.",
    ("electric", "discriminator"): " It was trained as Electric: the output of its head is minus the log probability "
    "of a token given the others, not the log odds of its replacement.",
    ("adversarial", "generator"): " It was trained by REINFORCE on the other network's mistakes alone, without the "
    "original tokens. Its baseline is in the checkpoints only, not in this folder.",
}
"""Objective and network -> a sentence."""
OWN_HEAD = (
    " transformers has no such head for this architecture: it is in the file as discriminator_predictions, and "
    "electra.model.networks.token_detector makes the model that reads it."
)


def _card(
    network: str,
    model_type: str,
    run: str,
    plan: Plan,
    metrics: Mapping[str, float],
    options: Mapping[str, Any],
    facts: list[tuple[str, str]],
) -> tuple[ModelCardData, Card]:
    """The card of the `network` "discriminator", which stands for the main network, or "generator"."""
    objective = objective_of(plan.objective, plan.uniform_generator)
    is_main = network == "discriminator"
    kind = "masked language model" if is_main and not objective.finds_replaced else network
    about = ABOUT[kind] + HOW_IT_WAS_TRAINED.get((plan.objective, network), "")
    auto_class = "AutoModelForPreTraining" if kind == "discriminator" else "AutoModelForMaskedLM"
    if kind == "discriminator" and model_type != "electra":
        about += OWN_HEAD
        auto_class = "AutoModel"
    # A main network that never saw [MASK] does not fill it in.
    fills_masks = not is_main or not (objective.finds_replaced or objective.sees_samples)
    shown = without_secrets(options)
    data = ModelCardData(
        language=shown.get("language") or None,
        license=shown.get("license"),
        library_name="transformers",
        pipeline_tag="fill-mask" if fills_masks else "feature-extraction",
        tags=["electra", plan.objective, kind.replace(" ", "-")],
    )
    scores = [[metric_title(name), f"{value:.4g}"] for name, value in metrics.items()]
    card = Card(
        title=f"ELECTRA {kind}: {run}",
        about=about,
        auto_class=auto_class,
        folder=network,
        scores_title="Held-out metrics",
        scores=Table(["metric", "value"], scores or [["none", ""]]),
        training=facts,
        options=write_as_yaml(shown) if shown else "",
        fine_tune=f"python run_glue.py --pretrain_path {network}" if is_main else "",
    )
    return data, card


def _facts(
    network: str, config: Any, plan: Plan, options: Mapping[str, Any], ledger: Mapping[str, Any]
) -> list[tuple[str, str]]:
    """What was trained, on what, for how long."""
    sizes = plan.as_dict()
    uniform = ", replacements drawn uniformly" if plan.uniform_generator else ""
    size = f"{plan.batch_size} x {plan.max_length} tokens"
    facts = [
        ("objective", plan.objective + uniform),
        ("architecture", f"{sizes[f'{network}_shape']}, {sizes[f'{network}_parameters']:,} parameters"),
        ("vocabulary", f"{config.vocab_size:,} tokens"),
        ("continued from", options.get(f"init_{network}") or ""),
        ("text", "; ".join(plan.source_lines())),
        (
            "training",
            f"{plan.steps:,} steps of {size}, {plan.epochs:.2f} epochs",
        ),
        *(("resumed with other options", line) for line in plan.changes),
        ("compute", f"{plan.flops:.2e} FLOPs by 6 N T and attention, {plan.google_flops:.2e} by the original's count"),
    ]
    if "training_seconds" in ledger:
        devices = f"{ledger['devices']} x " if ledger["devices"] > 1 else ""
        facts.append(("cost", f"{format_seconds(ledger['training_seconds'])} on {devices}{ledger['device']}"))
    return [(name, fact) for name, fact in facts if fact]
