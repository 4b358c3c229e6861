"""From a trained pair to two plain Hugging Face folders, each with its tokenizer and a model card.

The large network is in `discriminator/` whatever its objective, so that what fine-tunes it need not know; where it is
a masked language model, `AutoModelForMaskedLM` opens it. Without a generator network that folder is written alone.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from electra.files import replace_folder
from electra.model.modeling import ElectraForJointPretraining
from electra.model.tying import plain_state
from electra.objectives import objective_of
from electra.pretraining.plan import Plan
from electra.redaction import without_secrets
from electra.units import format_seconds

NETWORKS = ("generator", "discriminator")
DISCRIMINATOR, GENERATOR, MASKED_LM = "discriminator", "generator", "masked language model"
"""What a network is."""

_CARD = """---
library_name: transformers
license: unknown  # to be filled in by whoever publishes this, such as apache-2.0
tags: [electra, {tag}]
---
# ELECTRA {kind}: {name}

{what}

```python
from transformers import AutoTokenizer, {auto_class}

tokenizer = AutoTokenizer.from_pretrained("{network}")
model = {auto_class}.from_pretrained("{network}")
```

## Training
| | |
|---|---|
| objective | {objective} |
| architecture | {shape}, {parameters:,} parameters |
| text | {sources}: {documents:,} documents, {tokens:,} tokens |
| training | {steps:,} steps of {batch_size} x {max_length} tokens, {epochs:.2f} epochs |
| compute | {flops:.2e} FLOPs by 6 N T and attention, {google_flops:.2e} by the original's count |
| cost | {cost} |
{made_by}
## Held-out metrics
| metric | value |
|---|---|
{metrics}

## License
To be filled in, here and at the top of this file: it depends on the text above, and on who publishes the model.
"""
_MADE_BY = """
Made by this command{options_follow}:

```bash
{command}
```
{options}"""

_WHAT = {
    DISCRIMINATOR: "Tells for every token whether it was replaced. This is the network to fine-tune: open it with "
    "AutoModelForSequenceClassification and the like; its replaced-token head is then dropped and reported as such.",
    GENERATOR: "Fills in masked tokens. It was trained to challenge the other network, not for use downstream.",
    MASKED_LM: "Predicts the original tokens. This is the network to fine-tune: open it with "
    "AutoModelForSequenceClassification and the like; its LM head is then dropped and reported as such.",
}
_WHAT_IT_SAW = {
    "mlm": " It was trained as BERT was: it saw [MASK] at most of the positions asked for.",
    "replace_mlm": " It was trained on replaced tokens and never saw [MASK].",
    "all_tokens_mlm": " It was trained on replaced tokens and never saw [MASK]. The gate by which it copied tokens is "
    "in the checkpoints only, not in this folder.",
}
_HOW_IT_WAS_TRAINED = {
    ("two_stage", DISCRIMINATOR): " It was trained on the samples of a generator that was trained before it.",
    ("two_stage", GENERATOR): " It was trained first, alone, and does not share its embeddings.",
    (
        "adversarial",
        GENERATOR,
    ): " It learned from the other network's mistakes alone, by REINFORCE, and was never told "
    "the original tokens. Its baseline is in the checkpoints only, not in this folder.",
}
_HEAD_OF_OURS = (
    " transformers has no such head for this architecture: it is in the file as `discriminator_predictions`, and "
    "`electra.model.networks.token_detector` makes the model that reads it."
)
_AUTO_CLASS = {
    DISCRIMINATOR: "AutoModelForPreTraining",
    GENERATOR: "AutoModelForMaskedLM",
    MASKED_LM: "AutoModelForMaskedLM",
}


def export_networks(
    model: ElectraForJointPretraining,
    tokenizer: PreTrainedTokenizerBase,
    run_folder: Path,
    *,
    plan: Plan,
    sources: list[str],
    metrics: dict[str, float],
    options: Mapping[str, Any] | None = None,
    command: str = "",
    ledger: Mapping[str, Any] | None = None,
) -> dict[str, Path]:
    """Write run_folder/discriminator and, if there is one, run_folder/generator: whole, or neither if anything fails.

    Args:
        model: the trained pair.
        tokenizer: saved into both folders.
        run_folder: named in the cards.
        plan, sources, metrics: for the cards; metrics without the `eval_` prefix.
        options, command, ledger: for the cards, too: the effective options, how the run was started, what it has cost.
    Returns:
        the folder of each network. One that was there is replaced.
    """
    folders = {network: run_folder / network for network in NETWORKS if getattr(model, network) is not None}
    unfinished = {network: run_folder / f"{network}.unfinished" for network in folders}
    try:
        for network, folder in unfinished.items():
            shutil.rmtree(folder, ignore_errors=True)  # of an export that was killed
            exported: PreTrainedModel = getattr(model, network)
            exported.save_pretrained(folder, state_dict=plain_state(exported))
            tokenizer.save_pretrained(folder)
            made_by = _made_by(options or {}, command)
            card = _card(network, run_folder.name, plan, sources, metrics, made_by, _cost(ledger or {}))
            (folder / "README.md").write_text(card, encoding="utf-8", errors="replace")
    except BaseException:
        for folder in unfinished.values():
            shutil.rmtree(folder, ignore_errors=True)
        raise
    for network, folder in folders.items():
        replace_folder(unfinished[network], folder)
    return folders


def _made_by(options: Mapping[str, Any], command: str) -> str:
    if not command:
        return ""
    text = yaml.safe_dump(without_secrets(options), sort_keys=False, allow_unicode=True) if options else ""
    return _MADE_BY.format(
        command=command,
        options_follow="; all that it chose is below" if text else "",
        options=f"\n```yaml\n{text}```\n" if text else "",
    )


def _cost(ledger: Mapping[str, Any]) -> str:
    """Time, hardware and energy in words."""
    if "training_seconds" not in ledger:
        return "not measured"
    count = f"{ledger['devices']} x " if ledger["devices"] > 1 else ""
    cost = f"{format_seconds(ledger['training_seconds'])} of training on {count}{ledger['device']}"
    return cost + (f", {ledger['energy_joules'] / 3.6e6:.3g} kWh" if "energy_joules" in ledger else "")


def _card(
    network: str,
    name: str,
    plan: Plan,
    sources: list[str],
    metrics: dict[str, float],
    made_by: str,
    cost: str,
) -> str:
    is_discriminator = network == "discriminator"
    model_type = plan.discriminator_type if is_discriminator else plan.generator_type
    has = objective_of(plan.objective, plan.uniform_generator)
    kind = MASKED_LM if is_discriminator and not has.finds_replaced else network
    is_bare = kind == DISCRIMINATOR and model_type != "electra"
    return _CARD.format(
        network=network,
        kind=kind,
        tag=kind.replace(" ", "-"),
        name=name,
        what=_WHAT[kind]
        + (_WHAT_IT_SAW[plan.objective] if kind == MASKED_LM else "")
        + _HOW_IT_WAS_TRAINED.get((plan.objective, kind), "")
        + (_HEAD_OF_OURS if is_bare else ""),
        auto_class="AutoModel" if is_bare else _AUTO_CLASS[kind],
        objective=plan.objective + (", replacements drawn uniformly" if plan.uniform_generator else ""),
        shape=plan.discriminator_shape if is_discriminator else plan.generator_shape,
        parameters=plan.discriminator_parameters if is_discriminator else plan.generator_parameters,
        sources=", ".join(sources),
        documents=plan.documents,
        tokens=plan.corpus_tokens,
        steps=plan.steps,
        batch_size=plan.batch_size,
        max_length=plan.max_length,
        epochs=plan.epochs,
        flops=plan.flops,
        google_flops=plan.google_flops,
        cost=cost,
        made_by=made_by,
        metrics="\n".join(f"| {name} | {value:.4g} |" for name, value in metrics.items()) or "| none | |",
    )
