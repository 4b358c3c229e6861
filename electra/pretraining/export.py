"""Export of the trained networks as plain Hugging Face folders with tokenizer and model card.

The main network is always in `discriminator/`, whatever its objective, so fine-tuning needs no case distinction. Where
it is a masked language model, `AutoModelForMaskedLM` opens it. Without a generator network it is written alone.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from electra.checkpoint import write_manifest
from electra.console import format_seconds
from electra.environment import without_secrets
from electra.files import replace_folder
from electra.model.joint import ElectraForJointPretraining
from electra.model.pretrained import STEP_KEY
from electra.model.tying import plain_state
from electra.objectives import objective_of
from electra.pretraining.plan import Plan
from electra.yaml_text import write_as_yaml

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
| vocabulary | {vocabulary:,} tokens |
| text | {sources} |
| training | {plan.steps:,} steps of {plan.batch_size} x {plan.max_length} tokens, {plan.epochs:.2f} epochs |
| weights | of step {step:,} |
{changes}| compute | {plan.flops:.2e} FLOPs by 6 N T and attention, {plan.google_flops:.2e} by the original's count |
| cost | {cost} |
{made_by}
## Held-out metrics
| metric | value |
|---|---|
{metrics}

## License
To be filled in, here and at the top of this file: it depends on the text above, and on who publishes the model.
"""

_FINE_TUNE = "This is the network to fine-tune: open it with AutoModelForSequenceClassification and the like, which "
_KINDS = {
    "discriminator": (
        f"Detects for every token whether it was replaced. {_FINE_TUNE}drops its replaced-token head and reports so.",
        "AutoModelForPreTraining",
    ),
    "generator": (
        "Fills in masked tokens. It was trained to challenge the other network, not for use downstream.",
        "AutoModelForMaskedLM",
    ),
    "masked language model": (
        f"Predicts the original tokens. {_FINE_TUNE}drops its LM head and reports so.",
        "AutoModelForMaskedLM",
    ),
}
"""What a network does, and the class that opens it."""
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
    metrics: dict[str, float],
    step: int | None = None,
    options: Mapping[str, Any] | None = None,
    command: str = "",
    ledger: Mapping[str, Any] | None = None,
) -> dict[str, Path]:
    """Write run_folder/discriminator and, if there is one, run_folder/generator; neither if anything fails.

    Args:
        model: the trained pair.
        tokenizer: saved into both folders.
        run_folder: its name goes into the cards.
        plan, metrics: for the cards; metrics without the `eval_` prefix.
        step: of the weights, by default the last; the configurations have it, too.
        options, command, ledger: for the cards: effective options, command line, cost.
    Returns:
        the folder of each network. Earlier ones are replaced.
    """
    networks = ("generator", "discriminator")
    folders = {network: run_folder / network for network in networks if getattr(model, network) is not None}
    unfinished = {network: run_folder / f"{network}.unfinished" for network in folders}
    step = plan.steps if step is None else step
    origin = {"made_by": _made_by(options or {}, command), "cost": _cost(ledger or {})}
    try:
        for network, folder in unfinished.items():
            shutil.rmtree(folder, ignore_errors=True)  # left by a killed process
            exported: PreTrainedModel = getattr(model, network)
            setattr(exported.config, STEP_KEY, step)
            exported.save_pretrained(folder, state_dict=plain_state(exported))
            tokenizer.save_pretrained(folder)
            card = _card(
                network,
                plan,
                metrics,
                name=run_folder.name,
                step=step,
                vocabulary=exported.config.vocab_size,
                **origin,
            )
            (folder / "README.md").write_text(card, encoding="utf-8", errors="replace")
            write_manifest(folder, "README.md")  # users fill in the license
    except BaseException:
        for folder in unfinished.values():
            shutil.rmtree(folder, ignore_errors=True)
        raise
    for network, folder in folders.items():
        replace_folder(unfinished[network], folder)
    return folders


def _card(network: str, plan: Plan, metrics: dict[str, float], **values: Any) -> str:
    is_discriminator = network == "discriminator"
    objective = objective_of(plan.objective, plan.uniform_generator)
    kind = "masked language model" if is_discriminator and not objective.finds_replaced else network
    model_type = plan.discriminator_type if is_discriminator else plan.generator_type
    has_own_head = kind == "discriminator" and model_type != "electra"
    what, auto_class = _KINDS[kind]
    what += _HOW_IT_WAS_TRAINED.get((plan.objective, network), "") + (_OWN_HEAD if has_own_head else "")
    return _CARD.format(
        network=network,
        kind=kind,
        tag=kind.replace(" ", "-"),
        what=what,
        auto_class="AutoModel" if has_own_head else auto_class,
        objective=plan.objective + (", replacements drawn uniformly" if plan.uniform_generator else ""),
        shape=plan.discriminator_shape if is_discriminator else plan.generator_shape,
        parameters=plan.discriminator_parameters if is_discriminator else plan.generator_parameters,
        sources="<br>".join(line.replace("|", "\\|") for line in plan.source_lines()),
        changes="".join(f"| resumed with other options | {line} |\n" for line in plan.changes),
        metrics="\n".join(f"| {name} | {value:.4g} |" for name, value in metrics.items()) or "| none | |",
        plan=plan,
        **values,
    )


def _made_by(options: Mapping[str, Any], command: str) -> str:
    if not command:
        return ""
    text = f"\nMade by this command, with the options below it:\n\n```bash\n{command}\n```\n"
    return text + f"\n```yaml\n{write_as_yaml(without_secrets(options))}```\n"


def _cost(ledger: Mapping[str, Any]) -> str:
    if "training_seconds" not in ledger:
        return "not measured"
    count = f"{ledger['devices']} x " if ledger["devices"] > 1 else ""
    cost = f"{format_seconds(ledger['training_seconds'])} of training on {count}{ledger['device']}"
    return cost + (f", {ledger['energy_joules'] / 3.6e6:.3g} kWh" if "energy_joules" in ledger else "")
