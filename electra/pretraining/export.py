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

from electra.data.corpus import BUILTIN, SHORT_NAMES, absolute_dataset_name
from electra.io.checkpoints import write_manifest
from electra.io.console import format_seconds, without_secrets
from electra.io.files import expand, may_be_hub_id, replace_folder, write_as_yaml
from electra.io.hub import write_card
from electra.model.joint import ElectraForJointPretraining
from electra.model.pretrained import ENERGY_KEY, STEP_KEY
from electra.model.transfer import POSITIONS_KEY
from electra.model.tying import plain_state
from electra.objectives import objective_of
from electra.pretraining.metrics import held_out_texts
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
    (
        "electric",
        "discriminator",
    ): " It was trained as Electric: the output of its head is minus the log probability of "
    "a token given the others, not the log odds of its replacement.",
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
    names = ("generator", "discriminator")
    networks: dict[str, PreTrainedModel] = {name: getattr(model, name) for name in names if getattr(model, name)}
    unfinished = {name: run_folder / f"{name}.unfinished" for name in networks}
    objective = objective_of(plan.objective, plan.uniform_generator)
    options, step = options or {}, plan.steps if step is None else step
    try:
        for name, network in networks.items():
            folder = unfinished[name]
            shutil.rmtree(folder, ignore_errors=True)  # left by a killed process
            setattr(network.config, STEP_KEY, step)
            before = getattr(network.config, POSITIONS_KEY, 0)
            setattr(network.config, POSITIONS_KEY, max(before, plan.max_length))
            if name == "discriminator" and (objective.is_energy_based or hasattr(network.config, ENERGY_KEY)):
                setattr(network.config, ENERGY_KEY, objective.is_energy_based)
            network.save_pretrained(folder, state_dict=plain_state(network))
            tokenizer.save_pretrained(folder)
            kind = "masked language model" if name == "discriminator" and not objective.finds_replaced else name
            data = _metadata(name, kind, run_folder.name, plan, metrics, options)
            lines = [
                *_introduction(name, kind, run_folder.name, plan),
                *_training(name, plan, step, network.config.vocab_size, options, ledger or {}),
                *([f"\nMade by this command:\n\n```bash\n{command}\n```"] if command else []),
                *([f"\n```yaml\n{write_as_yaml(without_secrets(options))}```"] if options else []),
                "\n## Held-out metrics\n| metric | value |\n|---|---|",
                *([f"| {metric} | {value:.4g} |" for metric, value in metrics.items()] or ["| none | |"]),
            ]
            write_card(folder / "README.md", data, "\n".join(lines) + "\n")
            write_manifest(folder, "README.md")  # users edit the card
    except BaseException:
        for folder in unfinished.values():
            shutil.rmtree(folder, ignore_errors=True)
        raise
    for name, folder in unfinished.items():
        replace_folder(folder, run_folder / name)
    return {name: run_folder / name for name in networks}


def _metadata(
    network: str, kind: str, run: str, plan: Plan, metrics: Mapping[str, float], options: Mapping[str, Any]
) -> ModelCardData:
    """What the Hub reads. Nothing is claimed that the user did not state or the run did not measure."""
    objective = objective_of(plan.objective, plan.uniform_generator)
    *_, (task, task_name), scores = _KINDS[kind]
    corpora = [source["name"] for source in plan.sources]
    ids = [SHORT_NAMES[name][0] if name in SHORT_NAMES else absolute_dataset_name(name) for name in corpora]
    is_on_hub = [
        not source["files"] and name != BUILTIN and not os.path.isabs(name)
        for source, name in zip(plan.sources, ids, strict=True)
    ]
    hub_ids = [name for name, is_there in zip(ids, is_on_hub, strict=True) if is_there]
    held_out = next(iter(held_out_texts(options.get("validation_file") or []).values()), [])
    results = [
        EvalResult(
            task_type=task,
            task_name=task_name,
            dataset_type=hub_ids[0] if all(is_on_hub) and not held_out else "custom",
            dataset_name=", ".join(Path(name).name for name in held_out or corpora),
            dataset_split="held-out documents",
            metric_type=metric_type,
            metric_name=metric,
            metric_value=float(f"{metrics[metric]:.6g}"),
        )
        for metric, metric_type in scores.items()
        if math.isfinite(metrics.get(metric, math.nan))
    ]
    # A main network that never saw [MASK] does not fill it in.
    fills_masks = network == "generator" or not (objective.finds_replaced or objective.sees_samples)
    start = options.get(f"init_{network}")
    return ModelCardData(
        language=options.get("language") or None,
        license=options.get("license"),
        library_name="transformers",
        pipeline_tag="fill-mask" if fills_masks else "feature-extraction",
        tags=["electra", plan.objective, kind.replace(" ", "-")],
        datasets=hub_ids or None,
        base_model=start if start and may_be_hub_id(start) and not expand(start).exists() else None,
        model_name=f"{run}-{network}" if results else None,
        eval_results=results or None,
    )


def _introduction(network: str, kind: str, run: str, plan: Plan) -> list[str]:
    what, auto_class, *_ = _KINDS[kind]
    what += _HOW_IT_WAS_TRAINED.get((plan.objective, network), "")
    if kind == "discriminator" and plan.discriminator_type != "electra":
        what, auto_class = what + _OWN_HEAD, "AutoModel"
    return [
        f"# ELECTRA {kind}: {run}\n\n{what}\n",
        f"```python\nfrom transformers import AutoTokenizer, {auto_class}\n",
        f'tokenizer = AutoTokenizer.from_pretrained("{network}")',
        f'model = {auto_class}.from_pretrained("{network}")\n```',
    ]


def _training(
    network: str, plan: Plan, step: int, vocab_size: int, options: Mapping[str, Any], ledger: Mapping[str, Any]
) -> list[str]:
    """The table of what was trained, on what, for how long."""
    architecture = f"{plan.discriminator_shape}, {plan.discriminator_parameters:,} parameters"
    if network == "generator":
        architecture = f"{plan.generator_shape}, {plan.generator_parameters:,} parameters"
    start, sources = options.get(f"init_{network}"), "<br>".join(plan.source_lines())
    size = f"{plan.batch_size} x {plan.max_length} tokens"
    rows = [
        ("objective", plan.objective + (", replacements drawn uniformly" if plan.uniform_generator else "")),
        ("architecture", architecture),
        ("vocabulary", f"{vocab_size:,} tokens"),
        *([("continued from", start)] if start else []),
        ("text", sources.replace("|", "\\|")),
        ("training", f"{plan.steps:,} steps of {size}, {plan.epochs:.2f} epochs"),
        ("weights", f"of step {step:,}"),
        *(("resumed with other options", line) for line in plan.changes),
        ("compute", f"{plan.flops:.2e} FLOPs by 6 N T and attention, {plan.google_flops:.2e} by the original's count"),
    ]
    if "training_seconds" in ledger:
        devices = f"{ledger['devices']} x " if ledger["devices"] > 1 else ""
        rows.append(("cost", f"{format_seconds(ledger['training_seconds'])} on {devices}{ledger['device']}"))
    return ["\n## Training\n| | |\n|---|---|", *(f"| {name} | {value} |" for name, value in rows)]
