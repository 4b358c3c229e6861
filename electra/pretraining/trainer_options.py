"""Options of transformers' Trainer that would stop a run in the middle: refused before anything is read or built."""

from typing import Any

import huggingface_hub
import torch
from torch.utils.checkpoint import checkpoint

from electra.arguments import ModelArguments, ObjectiveArguments, PretrainingArguments
from electra.backbones import UNIFORM
from electra.errors import UserError
from electra.pretraining.results import rows_of


def check_best_metric(training: PretrainingArguments, model: ModelArguments, objective: ObjectiveArguments) -> None:
    """Refuse to look for the best checkpoint by a metric that evaluations of this objective do not have."""
    name = training.metric_for_best_model
    if name is None:
        return
    rows = rows_of(objective.objective, model.generator_type == UNIFORM)
    possible = ["loss", *(metric for metric, _ in rows)]
    if name.removeprefix("eval_") not in possible:
        raise UserError(
            f"--metric_for_best_model {name}: --objective {objective.objective} has no such metric; it has "
            f"{', '.join(possible)}"
        )


def check_checkpointing(kwargs: dict[str, Any] | None) -> None:
    """Refuse keywords and values that torch.utils.checkpoint does not take, by a trial."""
    if not kwargs:
        return
    try:
        output: torch.Tensor = checkpoint(torch.square, torch.ones(1, requires_grad=True), **kwargs)
        output.sum().backward()
    except (ValueError, TypeError, RuntimeError, AttributeError, LookupError) as error:
        raise UserError(
            f"--gradient_checkpointing_kwargs {kwargs} do not work: {error}; it takes use_reentrant, "
            "preserve_rng_state, determinism_check, debug and early_stop"
        ) from error


def check_hub(training: PretrainingArguments) -> None:
    """Refuse to push to a Hub that cannot be reached, or by no one it knows."""
    if not training.push_to_hub:
        return
    if huggingface_hub.constants.HF_HUB_OFFLINE:
        raise UserError("--push_to_hub needs the Hub, and HF_HUB_OFFLINE forbids it; unset it, or push later")
    token = training.hub_token or huggingface_hub.get_token()
    if token is None:
        raise UserError("--push_to_hub found no token on this machine; run `hf auth login`, or set HF_TOKEN")
    try:
        huggingface_hub.whoami(token)
    except Exception as error:  # those of the Hub's client, and of the library it speaks through
        raise UserError(f"--push_to_hub does not work: {error}; check the network and the token") from error
