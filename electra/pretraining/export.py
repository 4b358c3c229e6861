"""From a trained pair to two plain Hugging Face folders, each with its tokenizer and a model card."""

import os
import shutil
from pathlib import Path

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from electra.model.modeling import ElectraForJointPretraining
from electra.pretraining.plan import Plan

NETWORKS = ("generator", "discriminator")

_CARD = """---
library_name: transformers
tags: [electra, {network}]
---
# ELECTRA {network}: {name}

{what}

```python
from transformers import AutoTokenizer, {auto_class}

tokenizer = AutoTokenizer.from_pretrained("{network}")
model = {auto_class}.from_pretrained("{network}")
```

## Training
| | |
|---|---|
| architecture | {shape}, {parameters:,} parameters |
| text | {sources}: {documents:,} documents, {tokens:,} tokens |
| training | {steps:,} steps of {batch_size} x {max_length} tokens, {epochs:.2f} epochs |
| compute | {flops:.2e} FLOPs |

## Held-out metrics
| metric | value |
|---|---|
{metrics}
"""

_WHAT = {
    "discriminator": "Tells for every token whether it was replaced. This is the network to fine-tune: open it with "
    "AutoModelForSequenceClassification and the like; its replaced-token head is then dropped and reported as such.",
    "generator": "Fills in masked tokens. It was trained to challenge the discriminator, not for use downstream.",
}
_AUTO_CLASS = {"discriminator": "AutoModelForPreTraining", "generator": "AutoModelForMaskedLM"}


def export_networks(
    model: ElectraForJointPretraining,
    tokenizer: PreTrainedTokenizerBase,
    run_folder: Path,
    *,
    plan: Plan,
    sources: list[str],
    metrics: dict[str, float],
) -> dict[str, Path]:
    """Write run_folder/generator and run_folder/discriminator, each whole or not at all.

    Args:
        model: the trained pair.
        tokenizer: saved into both folders.
        run_folder: named in the cards.
        plan, sources, metrics: for the cards; metrics without the `eval_` prefix.
    Returns:
        the folder of each network.
    """
    folders = {}
    for network in NETWORKS:
        folder = run_folder / network
        unfinished = run_folder / f"{network}.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        exported: PreTrainedModel = getattr(model, network)
        exported.save_pretrained(unfinished)
        tokenizer.save_pretrained(unfinished)
        is_discriminator = network == "discriminator"
        card = _CARD.format(
            network=network,
            name=run_folder.name,
            what=_WHAT[network],
            auto_class=_AUTO_CLASS[network],
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
            metrics="\n".join(f"| {name} | {value:.4g} |" for name, value in metrics.items()) or "| none | |",
        )
        (unfinished / "README.md").write_text(card, encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(unfinished, folder)
        folders[network] = folder
    return folders
