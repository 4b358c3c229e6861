"""The model cards of the networks of a run.

Nothing is claimed that the user did not state or the run did not measure.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCardData

from electra.data.corpus import BUILTIN, SHORT_NAMES, absolute_dataset_name
from electra.io.console import format_seconds, without_secrets
from electra.io.files import expand, may_be_hub_id, write_as_yaml, write_file
from electra.objectives import objective_of
from electra.pretraining.plan import Plan
from electra.report.blocks import Table
from electra.report.card import Card, write_card
from electra.report.labels import metric_title

COMMAND_NAME = "command.txt"
"""The command that began a run, in its folder."""


_TO_FINE_TUNE = "This is the network to fine-tune; the classes of transformers for a task drop its head and report so."
ABOUT = {
    "discriminator": f"Detects for every token whether it was replaced. {_TO_FINE_TUNE}",
    "generator": "Fills in masked tokens. It was trained to challenge the other network, not for use downstream.",
    "masked language model": f"Predicts the original tokens. {_TO_FINE_TUNE}",
}
"""What a network does."""
HOW_IT_WAS_TRAINED = {
    ("mlm", "discriminator"): "It was trained like BERT, with [MASK] at most of the predicted positions.",
    ("replace_mlm", "discriminator"): "It was trained on replaced tokens and never saw [MASK].",
    ("all_tokens_mlm", "discriminator"): "It was trained on replaced tokens and never saw [MASK]. Its copy gate is in "
    "the checkpoints only, not in this folder.",
    ("two_stage", "discriminator"): "It was trained on the samples of a generator that was trained before it.",
    ("two_stage", "generator"): "It was trained first, alone, and does not share its embeddings.",
    ("electric", "discriminator"): "It was trained as Electric: the output of its head is minus the log probability "
    "of a token given the others, not the log odds of its replacement.",
    ("adversarial", "generator"): "It was trained by REINFORCE on the other network's mistakes alone, without the "
    "original tokens. Its baseline is in the checkpoints only, not in this folder.",
}
"""Objective and network -> a sentence."""
OWN_HEAD = (
    "transformers has no such head for this architecture: it is in the file as discriminator_predictions, and "
    "electra.model.networks.token_detector makes the model that reads it."
)


@dataclass(frozen=True)
class Made:
    """How the networks of a run were made.

    Args:
        run: name of the run.
        metrics: held-out metrics without the `eval_` prefix.
        step: of the weights.
        options: effective options.
        command: the command that began the run.
        ledger: cost.
    """

    run: str
    plan: Plan
    metrics: Mapping[str, float]
    step: int
    vocab_size: int
    options: Mapping[str, Any]
    command: str
    ledger: Mapping[str, Any]


def first_command(run_folder: Path, command: str) -> str:
    """The command that began the run. It is `command` if the folder has none yet; then it is kept there."""
    path = run_folder / COMMAND_NAME
    if path.is_file():
        return path.read_text(encoding="utf-8").strip()
    write_file(f"{command}\n".encode(errors="backslashreplace"), path)
    return command


def write_network_card(path: Path, network: str, made: Made) -> None:
    """Write the card of the `network` "discriminator", which stands for the main network, or "generator"."""
    plan = made.plan
    objective = objective_of(plan.objective, plan.uniform_generator)
    is_main = network == "discriminator"
    kind = "masked language model" if is_main and not objective.finds_replaced else network
    about = [ABOUT[kind], HOW_IT_WAS_TRAINED.get((plan.objective, network), "")]
    auto_class = "AutoModelForPreTraining" if kind == "discriminator" else "AutoModelForMaskedLM"
    if kind == "discriminator" and plan.discriminator_type != "electra":
        about.append(OWN_HEAD)
        auto_class = "AutoModel"
    # A main network that never saw [MASK] does not fill it in.
    fills_masks = not is_main or not (objective.finds_replaced or objective.sees_samples)
    scores = [[metric_title(name), f"{value:.4g}"] for name, value in made.metrics.items()]
    options = without_secrets(made.options)
    start = options.get(f"init_{network}") or ""
    data = ModelCardData(
        language=options.get("language") or None,
        license=options.get("license"),
        library_name="transformers",
        pipeline_tag="fill-mask" if fills_masks else "feature-extraction",
        tags=["electra", plan.objective, kind.replace(" ", "-")],
        datasets=_hub_names(plan) or None,
        base_model=start if start and may_be_hub_id(start) and not expand(start).exists() else None,
    )
    card = Card(
        title=f"ELECTRA {kind}: {made.run}",
        about=" ".join(filter(None, about)),
        auto_class=auto_class,
        folder=network,
        scores_title="Held-out metrics",
        scores=Table(["metric", "value"], scores or [["none", ""]]),
        training=_training(network, made),
        command=made.command,
        options=write_as_yaml(options) if options else "",
        fine_tune=f"python run_glue.py --pretrain_path {network}" if is_main else "",
    )
    write_card(path, data, card)


def _hub_names(plan: Plan) -> list[str]:
    """The sources of text that are data sets of the Hub."""
    names = []
    for source in plan.sources:
        name = source["name"]
        hub_name = SHORT_NAMES[name][0] if name in SHORT_NAMES else absolute_dataset_name(name)
        if not source["files"] and hub_name != BUILTIN and not os.path.isabs(hub_name):
            names.append(hub_name)
    return names


def _training(network: str, made: Made) -> list[tuple[str, str]]:
    """What was trained, on what, for how long."""
    plan, ledger = made.plan, made.ledger
    architecture = f"{plan.discriminator_shape}, {plan.discriminator_parameters:,} parameters"
    if network == "generator":
        architecture = f"{plan.generator_shape}, {plan.generator_parameters:,} parameters"
    size = f"{plan.batch_size} x {plan.max_length} tokens"
    rows = [
        ("objective", plan.objective + (", replacements drawn uniformly" if plan.uniform_generator else "")),
        ("architecture", architecture),
        ("vocabulary", f"{made.vocab_size:,} tokens"),
    ]
    if start := made.options.get(f"init_{network}"):
        rows.append(("continued from", start))
    rows += [
        ("text", "; ".join(plan.source_lines())),
        ("training", f"{plan.steps:,} steps of {size}, {plan.epochs:.2f} epochs"),
        ("weights", f"of step {made.step:,}"),
        *(("resumed with other options", line) for line in plan.changes),
        ("compute", f"{plan.flops:.2e} FLOPs by 6 N T and attention, {plan.google_flops:.2e} by the original's count"),
    ]
    if "training_seconds" in ledger:
        devices = f"{ledger['devices']} x " if ledger["devices"] > 1 else ""
        rows.append(("cost", f"{format_seconds(ledger['training_seconds'])} on {devices}{ledger['device']}"))
    return rows
