"""The end of a run: last evaluation and baselines, exported networks with model cards, metrics.json, a table.

The main network is always in `discriminator/`, whatever its objective, so fine-tuning needs no case distinction. If it
is a masked language model, `AutoModelForMaskedLM` opens it. The generator is in `generator/`, if the run has one. A
card claims nothing that the user did not state or the run did not measure.
"""

import json
import logging
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pandas as pd
from huggingface_hub import ModelCardData
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from electra.base.checkpoints import MAKE_ROOM, UNFINISHED, translate_write_errors, write_manifest
from electra.base.console import environment, without_secrets
from electra.base.files import CARD, replace_folder, write_file, write_json, yaml_text
from electra.base.samples import write_samples
from electra.core.errors import UserError
from electra.core.tying import plain_state
from electra.model.inference import corrupt_and_detect, to_samples
from electra.model.joint import ElectraForJointPretraining
from electra.model.pretrained import ENERGY_KEY, OBJECTIVE_KEY, STEP_KEY
from electra.model.transfer import POSITIONS_KEY
from electra.pretraining.callbacks import DiscriminatorHealth, compute_ledger, last_evaluation
from electra.pretraining.checkpoints import WHERE_NETWORKS_ARE
from electra.pretraining.metrics import (
    PROBE_ROWS,
    MetricRows,
    generator_verdict,
    metric_rows,
    token_counts,
    unigram_metrics,
)
from electra.pretraining.plan import Plan
from electra.pretraining.testset import CorruptedTestSet
from electra.pretraining.trainer import ElectraTrainer
from electra.report.blocks import Card, Table, Verdict, card_content
from electra.report.metrics import metric_title
from electra.report.page import try_to_report
from electra.report.runs import HAS_LEARNED, METRICS_NAME, STATE_NAME, TEST, fine_tuning_command, next_step
from electra.runtime.device import computing
from electra.runtime.tracking import track_results

logger = logging.getLogger(__name__)

SAMPLES = 5
"""Number of held-out segments in samples.json, at most."""

# ---- the end of a run


def finish_run(
    trainer: ElectraTrainer, options: Mapping[str, object] = MappingProxyType({}), *, first_column: str = "untrained"
) -> dict[str, Any]:
    """Evaluate the networks at the end of a run, and write, print and track the results; call it on every process.

    The run's folder gets the networks in `generator/` and `discriminator/`, with model cards, and metrics.json,
    samples.json, trainer_state.json and report.html. `AutoModel` and `AutoTokenizer` open both folders.

        trainer.train()
        finish_run(trainer)
        AutoModel.from_pretrained("output/mine/discriminator")

    With FSDP each process has a part of each weight: the first process gathers the whole model, which becomes the
    trainer's own, and writes it.

    Args:
        trainer: the trainer of a run that has ended.
        options: options of the run by name, for the model cards.
        first_column: title of the column of the networks before the first step.
    Returns:
        the content of metrics.json (docs/metrics.md): `["held_out"]["trained"]["discriminator_auc"]`, ...; {} on all
        processes but the first.
    Raises:
        UserError: no step of the run was taken, or a file cannot be written.
    """
    step = trainer.state.global_step
    if step == 0:
        raise UserError(f"the networks for {trainer.run_folder} are untrained; call train(), which goes on from there")
    if step < trainer.plan.steps:
        logger.warning(
            "the run is at step %d of %d: the exported networks are those of this step", step, trainer.plan.steps
        )
    results, verdict_of_generator = evaluate_at_end(trainer, first_column)
    test = trainer.evaluate_test_set()
    if trainer.is_fsdp_enabled:
        weights = trainer.accelerator.get_state_dict(trainer.model_wrapped)
        if trainer.is_world_process_zero():
            trainer.model = ElectraForJointPretraining(trainer.model.config)
            trainer.model.load_state_dict(weights)
    if not trainer.is_world_process_zero():
        return {}
    folder = trainer.run_folder
    with translate_write_errors(folder, MAKE_ROOM):
        metrics = _write_results(trainer, options, results, test, verdict_of_generator)
        if results:
            logger.info("\nHeld-out metrics on the same segments and masks ('frequencies': token frequencies only)\n")
            rows = (*metric_rows(trainer.model.objective), *PROBE_ROWS)
            measured = set().union(*results.values())
            logger.info(results_table(results, tuple(row for row in rows if row[0] in measured)))
        if test:
            column = {name.removeprefix(f"{TEST}_"): value for name, value in test.items()}
            logger.info("\nThe test set, evaluated once\n")
            logger.info(results_table({"test set": column}, metric_rows(trainer.model.objective)))
        logger.info("\n%s", advice_after_run(trainer, results))
    return metrics


def advice_after_run(trainer: ElectraTrainer, results: Mapping[str, Mapping[str, float]]) -> str:
    """Return what the user can do now: train on if the networks have not started to learn, else fine-tune them.

    Args:
        results: the columns of `evaluate_at_end`.
    """
    folder = str(trainer.run_folder)
    health = health_of(trainer)
    if health is None or not results:
        return next_step(folder)
    auc = results["frequencies"]["discriminator_auc"]
    return next_step(folder, has_learned=health.has_learned(last_evaluation(trainer.state), auc))


def health_of(trainer: ElectraTrainer) -> DiscriminatorHealth | None:
    """Return the trainer's callback that watches whether the networks learn; None if it has no such callback."""
    callbacks = trainer.callback_handler.callbacks
    return next((callback for callback in callbacks if isinstance(callback, DiscriminatorHealth)), None)


class HeldOutMetrics(NamedTuple):
    """The metrics on held-out text, as columns of a table, and the verdict on the generator."""

    columns: dict[str, dict[str, float]]
    """Title of a column -> values of the metrics by name; {} without held-out text."""
    verdict_of_generator: Verdict | None = None
    """None without a generator or without held-out text."""


def evaluate_at_end(trainer: ElectraTrainer, first_column: str) -> HeldOutMetrics:
    """Return the metrics on held-out text: of the pair at the start, of token frequencies, and of the trained pair.

    The trained pair is evaluated now, unless it was evaluated after the last step. All three columns are of the same
    segments with the same masks, so a run that was resumed with other held-out text lacks the first column.

    Args:
        first_column: title of the first column.
    """
    data = trainer.data
    if data.evaluation is None:
        return HeldOutMetrics({})
    state = trainer.state
    objective = trainer.model.objective
    evaluations = [logs for logs in state.log_history if "eval_loss" in logs]
    if trainer.last_records is None or evaluations[-1]["step"] != state.global_step:
        evaluations.append(trainer.evaluate())
    at_start = evaluations[0]
    at_end = evaluations[-1]
    provenance = trainer.checkpoints.provenance
    is_same_text = provenance.first_held_out_text == provenance.held_out_text
    has_first = is_same_text and at_start.get("step") == 0 and at_start["eval_tokens"] == at_end["eval_tokens"]

    config = trainer.model.config
    counts = token_counts(data.cache, data.training_documents, config.discriminator.vocab_size)
    baselines = {"": unigram_metrics(trainer.last_records, counts, config.special_token_ids, objective)}
    for name, segments in data.more_evaluations.items():
        if isinstance(segments, CorruptedTestSet):
            baselines[name] = {"discriminator_auc": segments.frequencies_auc}
    rows = (*metric_rows(objective), *PROBE_ROWS)
    columns = {}
    for name in ("", *data.more_evaluations):
        title = f"{name}: " if name else ""
        prefix = f"eval_{name}_" if name else "eval_"
        if has_first:
            columns[title + first_column] = {
                metric: at_start[prefix + metric] for metric, _ in rows if prefix + metric in at_start
            }
        if name in baselines:
            columns[f"{title}frequencies"] = baselines[name]
        columns[f"{title}trained"] = {
            metric: at_end[prefix + metric] for metric, _ in rows if prefix + metric in at_end
        }
    return HeldOutMetrics(
        columns, generator_verdict(trainer.last_records, counts) if objective.has_generator else None
    )


def _write_results(
    trainer: ElectraTrainer,
    options: Mapping[str, Any],
    results: dict[str, dict[str, float]],
    test: dict[str, float],
    verdict_of_generator: Verdict | None,
) -> dict[str, Any]:
    """Write log, samples, networks, metrics.json and report into the run folder, and send the report to wandb.

    Args:
        options: options of the run by name, for the model cards.
        results, verdict_of_generator: see `HeldOutMetrics`.
        test: metrics of the test set; {} without one.
    Returns:
        the content of metrics.json.
    """
    folder = trainer.run_folder
    model = trainer.model
    plan = trainer.plan
    state = trainer.state
    write_file(json.dumps(asdict(state), indent=2).encode(), folder / STATE_NAME)
    if not (folder / CARD).exists():
        write_file(WHERE_NETWORKS_ARE.encode(), folder / CARD)
    if trainer.eval_dataset is not None:
        segments = trainer.eval_dataset.__getitems__(trainer.eval_dataset.evenly_spaced(SAMPLES))
        batch = {name: values.to(model.device) for name, values in trainer.data_collator(segments).items()}
        with computing(trainer.args.device, trainer.args.threads):
            detected = corrupt_and_detect(model.generator, model.discriminator, batch, model.config, may_diverge=True)
        write_samples(to_samples(detected, trainer.processing_class), folder, plan.steps)
    health = health_of(trainer)
    verdict = ""
    if health is not None and results:
        verdict = health.verdict(trainer.args, state, results["frequencies"]["discriminator_auc"])
    trained = results.get("trained", {})
    export_networks(model, trainer.processing_class, folder, plan, trained, options, verdict)

    cost = compute_ledger(state, trainer.args, plan)
    sizes = asdict(plan) | {"main_network": model.objective.main_network}
    content = {"held_out": results, "plan": sizes, "compute": cost, **environment()}
    if test:
        content["test"] = test
    if verdict:
        content["verdict"] = verdict
        logger.info("\n%s", verdict)
    if verdict_of_generator is not None:
        content["generator_verdict"] = verdict_of_generator._asdict()
        logger.info("%s", verdict_of_generator.text)
    write_json(content, folder / METRICS_NAME)

    track_results(trainer.args.report_to, {}, try_to_report(folder))
    return content


def results_table(columns: Mapping[str, Mapping[str, float]], rows: MetricRows) -> str:
    """Return metrics as a table of aligned text, with empty cells for missing values.

    Args:
        columns: title of a column -> values of the metrics by name.
        rows: name and label of the metric of each row.
    """
    values = pd.DataFrame(columns, index=[name for name, _ in rows]).rename(dict(rows))
    return values.to_string(float_format="{:.4f}".format, na_rep="")


# ---- exported networks


def export_networks(
    model: ElectraForJointPretraining,
    tokenizer: PreTrainedTokenizerBase,
    run_folder: Path,
    plan: Plan,
    metrics: Mapping[str, float],
    options: Mapping[str, object],
    verdict: str = "",
) -> dict[str, Path]:
    """Write run_folder/discriminator and, if the model has a generator, run_folder/generator; or nothing on failure.

    Args:
        metrics: held-out metrics without the `eval_` prefix, for the cards.
        options: options that had an effect, by name, for the cards.
        verdict: sentence of `DiscriminatorHealth`, "" if there is none. If the discriminator has not started to learn,
            its card says so, and not how to fine-tune it.
    Returns:
        the folder of each network by its name; earlier folders are replaced.
    """
    pair: dict[str, PreTrainedModel | None] = {"generator": model.generator, "discriminator": model.discriminator}
    networks = {name: network for name, network in pair.items() if network is not None}
    unfinished = run_folder / UNFINISHED
    shutil.rmtree(unfinished, ignore_errors=True)  # left by a killed process
    objective = model.objective
    is_energy_based = objective.is_energy_based
    needs_name = objective.finds_replaced and not (objective.answers_probability or is_energy_based)
    try:
        for name, network in networks.items():
            folder = unfinished / name
            config = network.config
            setattr(config, STEP_KEY, plan.steps)
            setattr(config, POSITIONS_KEY, max(getattr(config, POSITIONS_KEY, 0), plan.max_length))
            if name == "discriminator" and (is_energy_based or hasattr(config, ENERGY_KEY)):
                setattr(config, ENERGY_KEY, is_energy_based)
            if name == "discriminator" and (needs_name or hasattr(config, OBJECTIVE_KEY)):
                setattr(config, OBJECTIVE_KEY, objective.name)
            network.save_pretrained(folder, state_dict=plain_state(network))
            tokenizer.save_pretrained(folder)
            data, card = _card(name, model, run_folder.name, plan, metrics, options, verdict)
            write_file(card_content(data, card), folder / "README.md")
            write_manifest(folder, "README.md")  # users edit the card
        for name in networks:
            replace_folder(unfinished / name, run_folder / name)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return {name: run_folder / name for name in networks}


_TO_FINE_TUNE = "This is the network to fine-tune; the classes of transformers for a task drop its head and report so."
"""A sentence for cards of networks that are worth fine-tuning."""
ABOUT = {
    "discriminator": f"Detects for every token whether it was replaced. {_TO_FINE_TUNE}",
    "generator": "Fills in masked tokens. It was trained to challenge the other network, not for use downstream.",
    "masked language model": f"Predicts the original tokens. {_TO_FINE_TUNE}",
    "causal language model": "Predicts each token from those before it. As a masked language model of transformers it "
    f"sees all tokens; electra.core.networks.encode hides the later ones. {_TO_FINE_TUNE}",
}
"""Main network of an objective, or the generator -> sentences of its model card that say what it does."""
OWN_HEAD = (
    " transformers has no such head for this architecture: it is in the file as discriminator_predictions, and "
    "electra.core.networks.class_of gives the class that reads it."
)
"""A sentence for the card of a discriminator of another type than electra."""


def _card(
    network: str,
    model: ElectraForJointPretraining,
    run: str,
    plan: Plan,
    metrics: Mapping[str, float],
    options: Mapping[str, Any],
    verdict: str,
) -> tuple[ModelCardData, Card]:
    """Return the metadata, for the Hub, and the content of a network's model card.

    Args:
        network: "discriminator", which stands for the main network, or "generator".
        run: name of the run.
        metrics, options, verdict: see `export_networks`.
    """
    objective = model.objective
    is_main = network == "discriminator"
    network_type = objective.main_network.replace("LM", "language model") if is_main else network
    training = f"{objective.card} Its loss: {objective.meaning}".strip() if is_main else objective.card_of_generator
    about = " ".join(filter(None, (ABOUT[network_type], training)))
    auto_class = "AutoModelForPreTraining" if network_type == "discriminator" else "AutoModelForMaskedLM"
    if network_type == "discriminator" and model.discriminator.config.model_type != "electra":
        about += OWN_HEAD
        auto_class = "AutoModel"
    is_ready = is_main and (not verdict or HAS_LEARNED in verdict)
    if is_main and not is_ready:
        about += f" It has to learn more before it is worth fine-tuning: {verdict}"
    # A main network that never saw [MASK] does not fill it in.
    fills_masks = not is_main or not (objective.finds_replaced or objective.sees_samples or objective.is_causal)
    shown_options = without_secrets(options)
    data = ModelCardData(
        language=shown_options.get("language") or None,
        license=shown_options.get("license"),
        library_name="transformers",
        pipeline_tag="fill-mask" if fills_masks else "feature-extraction",
        tags=["electra", plan.objective, network_type.replace(" ", "-")],
    )
    scores = [[metric_title(name), f"{value:.4g}"] for name, value in metrics.items()]
    card = Card(
        title=f"ELECTRA {network_type}: {run}",
        about=about,
        auto_class=auto_class,
        folder=network,
        scores_title="Held-out metrics",
        scores=Table(["metric", "value"], scores or [["none", ""]]),
        training=plan.facts(),
        options=yaml_text(shown_options) if shown_options else "",
        fine_tune=fine_tuning_command(network) if is_ready else "",
    )
    return data, card
