"""Export of the trained networks as plain Hugging Face folders with tokenizer and model card.

The main network is always in `discriminator/`, whatever its objective, so fine-tuning needs no case distinction. Where
it is a masked language model, `AutoModelForMaskedLM` opens it. Without a generator network it is written alone.
"""

import math
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCardData
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from electra.checkpoint import write_manifest
from electra.console import format_seconds, without_secrets
from electra.data.corpus import BUILTIN, SHORT_NAMES, absolute_dataset_name
from electra.files import expand, may_be_hub_id, replace_folder, write_as_yaml
from electra.hub import write_card
from electra.model.joint import ElectraForJointPretraining
from electra.model.pretrained import STEP_KEY
from electra.model.tying import plain_state
from electra.objectives import objective_of
from electra.pretraining.plan import Plan

_FINE_TUNE = "This is the network to fine-tune: open it with AutoModelForSequenceClassification and the like, which "
_KINDS = {
    "discriminator": (
        f"Detects for every token whether it was replaced. {_FINE_TUNE}drops its replaced-token head and reports so.",
        "AutoModelForPreTraining",
        ("token-classification", "Replaced token detection"),
        {
            "discriminator_accuracy": "accuracy",
            "discriminator_precision": "precision",
            "discriminator_recall": "recall",
            "discriminator_f1": "f1",
            "discriminator_mcc": "matthews_correlation",
            "discriminator_auc": "roc_auc",
        },
    ),
    "generator": (
        "Fills in masked tokens. It was trained to challenge the other network, not for use downstream.",
        "AutoModelForMaskedLM",
        ("fill-mask", "Masked language modeling"),
        {"masked_accuracy": "accuracy", "generator_loss": "loss"},
    ),
    "masked language model": (
        f"Predicts the original tokens. {_FINE_TUNE}drops its LM head and reports so.",
        "AutoModelForMaskedLM",
        ("fill-mask", "Masked language modeling"),
        {"mlm_accuracy": "accuracy", "mlm_loss": "loss"},
    ),
}
"""What a network does, the class that opens it, the Hub's task with a name, the Hub's metric of each of our scores."""
_HOW_IT_WAS_TRAINED = {
    ("mlm", "discriminator"): " It was trained like BERT, with [MASK] at most of the predicted positions.",
    ("replace_mlm", "discriminator"): " It was trained on replaced tokens and never saw [MASK].",
    ("all_tokens_mlm", "discriminator"): " It was trained on replaced tokens and never saw [MASK]. Its copy gate is "
    "in the checkpoints only, not in this folder.",
    ("two_stage", "discriminator"): " It was trained on the samples of a generator that was trained before it.",
    ("two_stage", "generator"): " It was trained first, alone, and does not share its embeddings.",
    ("adversarial", "generator"): " It was trained by REINFORCE on the other network's mistakes alone, without the "
    "original tokens. Its baseline is in the checkpoints only, not in this folder.",
}
_OWN_HEAD = (
    " transformers has no such head for this architecture: it is in the file as `discriminator_predictions`, and "
    "`electra.model.networks.token_detector` makes the model that reads it."
)


def export_networks(
    model: ElectraForJointPretraining,
    tokenizer: PreTrainedTokenizerBase,
    run_folder: Path,
    *,
    plan: Plan,
    metrics: Mapping[str, float],
    step: int | None = None,
    options: Mapping[str, Any] | None = None,
    command: str = "",
    ledger: Mapping[str, Any] | None = None,
) -> dict[str, Path]:
    """Write run_folder/discriminator and, if there is one, run_folder/generator; neither if anything fails.

    Args:
        metrics: held-out metrics without the `eval_` prefix, for the cards.
        step: of the weights, by default the last; the configurations have it, too.
        options, command, ledger: for the cards: effective options, command line, cost.
    Returns:
        the folder of each network. Earlier ones are replaced.
    """
    networks = ("generator", "discriminator")
    folders = {network: run_folder / network for network in networks if getattr(model, network) is not None}
    unfinished = {network: run_folder / f"{network}.unfinished" for network in folders}
    step = plan.steps if step is None else step
    try:
        for network, folder in unfinished.items():
            shutil.rmtree(folder, ignore_errors=True)  # left by a killed process
            exported: PreTrainedModel = getattr(model, network)
            setattr(exported.config, STEP_KEY, step)
            exported.save_pretrained(folder, state_dict=plain_state(exported))
            tokenizer.save_pretrained(folder)
            facts = [["vocabulary", f"{exported.config.vocab_size:,} tokens"], ["weights", f"of step {step:,}"]]
            card = _card(network, run_folder.name, plan, metrics, facts, options or {}, command, ledger or {})
            write_card(folder / "README.md", *card)
            write_manifest(folder, "README.md")  # users edit the card
    except BaseException:
        for folder in unfinished.values():
            shutil.rmtree(folder, ignore_errors=True)
        raise
    for network, folder in folders.items():
        replace_folder(unfinished[network], folder)
    return folders


def _card(
    network: str,
    name: str,
    plan: Plan,
    metrics: Mapping[str, float],
    facts: list[list[str]],
    options: Mapping[str, Any],
    command: str,
    ledger: Mapping[str, Any],
) -> tuple[ModelCardData, str]:
    """The metadata of a network for the Hub, and the text of its card."""
    is_main = network == "discriminator"
    objective = objective_of(plan.objective, plan.uniform_generator)
    kind = "masked language model" if is_main and not objective.finds_replaced else network
    has_own_head = kind == "discriminator" and plan.discriminator_type != "electra"
    what, auto_class, (task, task_name), scores = _KINDS[kind]
    what += _HOW_IT_WAS_TRAINED.get((plan.objective, network), "") + (_OWN_HEAD if has_own_head else "")
    auto_class = "AutoModel" if has_own_head else auto_class

    start = options.get(f"init_{network}")
    names = [source["name"] for source in plan.sources if not source["files"] and source["name"] != BUILTIN]
    hub_ids = [SHORT_NAMES[n][0] if n in SHORT_NAMES else absolute_dataset_name(n) for n in names]
    hub_ids = [dataset for dataset in hub_ids if not os.path.isabs(dataset)]  # not folders of this machine
    own_text = [Path(file).name for file in options.get("validation_file") or ()]
    results = [
        EvalResult(
            task_type=task,
            task_name=task_name,
            dataset_type="custom" if own_text or len(plan.sources) != len(hub_ids) else hub_ids[0],
            dataset_name=", ".join(own_text or [Path(source["name"]).name for source in plan.sources]),
            dataset_split=None if own_text else "held-out documents",
            metric_type=metric_type,
            metric_name=metric,
            metric_value=float(f"{metrics[metric]:.6g}"),
        )
        for metric, metric_type in scores.items()
        if math.isfinite(metrics.get(metric, math.nan))
    ]
    data = ModelCardData(
        language=options.get("language") or None,
        license=options.get("license"),
        library_name="transformers",
        # A main network that never saw [MASK] does not fill it in.
        pipeline_tag="feature-extraction"
        if is_main and (objective.finds_replaced or objective.sees_samples)
        else task,
        tags=["electra", plan.objective, kind.replace(" ", "-")],
        datasets=hub_ids or None,
        base_model=start if start and may_be_hub_id(start) and not expand(start).exists() else None,
        model_name=f"{name}-{network}" if results else None,
        eval_results=results or None,
    )

    size = f"{plan.discriminator_shape}, {plan.discriminator_parameters:,} parameters"
    if not is_main:
        size = f"{plan.generator_shape}, {plan.generator_parameters:,} parameters"
    flops = f"{plan.flops:.2e} FLOPs by 6 N T and attention, {plan.google_flops:.2e} by the original's count"
    facts = [
        ["objective", plan.objective + (", replacements drawn uniformly" if plan.uniform_generator else "")],
        ["architecture", size],
        *([["continued from", start]] if start else []),
        *(["text", line.replace("|", "\\|")] for line in plan.source_lines()),
        [
            "training",
            f"{plan.steps:,} steps of {plan.batch_size} x {plan.max_length} tokens, {plan.epochs:.2f} epochs",
        ],
        *facts,
        *(["resumed with other options", line] for line in plan.changes),
        ["compute", flops],
    ]
    if "training_seconds" in ledger:
        devices = f"{ledger['devices']} x " if ledger["devices"] > 1 else ""
        energy = f", {ledger['energy_joules'] / 3.6e6:.3g} kWh" if "energy_joules" in ledger else ""
        facts.append(["cost", f"{format_seconds(ledger['training_seconds'])} on {devices}{ledger['device']}{energy}"])
    code = f"""from transformers import AutoTokenizer, {auto_class}

tokenizer = AutoTokenizer.from_pretrained("{network}")
model = {auto_class}.from_pretrained("{network}")"""
    parts = [
        f"# ELECTRA {kind}: {name}",
        what,
        f"```python\n{code}\n```",
        "## Training\n| | |\n|---|---|\n" + "\n".join(f"| {fact} | {value} |" for fact, value in facts),
    ]
    if command:
        parts.append(f"Made by this command, with the options below it:\n\n```bash\n{command}\n```")
        parts.append(f"```yaml\n{write_as_yaml(without_secrets(options))}```")
    score_lines = [f"| {metric} | {value:.4g} |" for metric, value in metrics.items()] or ["| none | |"]
    parts.append("## Held-out metrics\n| metric | value |\n|---|---|\n" + "\n".join(score_lines))
    return data, "\n\n".join(parts) + "\n"
