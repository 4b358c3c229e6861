"""Export of the trained networks as plain Hugging Face folders with tokenizer and model card.

The main network is always in `discriminator/`, whatever its objective, so fine-tuning needs no case distinction. Where
it is a masked language model, `AutoModelForMaskedLM` opens it. Without a generator network it is written alone.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from electra.io.checkpoints import write_manifest
from electra.io.files import replace_folder
from electra.model.joint import ElectraForJointPretraining
from electra.model.pretrained import ENERGY_KEY, STEP_KEY
from electra.model.transfer import POSITIONS_KEY
from electra.model.tying import plain_state
from electra.objectives import objective_of
from electra.pretraining.card import Made, write_network_card
from electra.pretraining.plan import Plan


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
            made = Made(
                run_folder.name, plan, metrics, step, network.config.vocab_size, options, command, ledger or {}
            )
            write_network_card(folder / "README.md", name, made)
            write_manifest(folder, "README.md")  # users edit the card
    except BaseException:
        for folder in unfinished.values():
            shutil.rmtree(folder, ignore_errors=True)
        raise
    for name, folder in unfinished.items():
        replace_folder(folder, run_folder / name)
    return {name: run_folder / name for name in networks}
