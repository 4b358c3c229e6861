"""Small joint models of any backbone, and what the tests of the model compute from them."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import ElectraForMaskedLM, ElectraForPreTraining, PreTrainedConfig

from electra.model.configuration import ElectraPretrainingConfig, discriminator_config, generator_config
from electra.model.joint import ElectraForJointPretraining, ElectraPretrainingOutput

VOCAB_SIZE = 40
"""Of the models of `make_model`."""
NETWORK_VOCAB_SIZE, LONGEST = 60, 24
"""Of `network_config`."""
MASK = 4
Make = Callable[..., ElectraForJointPretraining]
MakeBatch = Callable[..., dict[str, Tensor]]

SHARED_EMBEDDINGS = (
    "word_embeddings.weight",
    "position_embeddings.weight",
    "token_type_embeddings.weight",
    "LayerNorm.weight",
    "LayerNorm.bias",
)
"""What generator and discriminator share, section 3.2 of the paper and its code."""
ALWAYS_LIKELIEST = 1e-7
"""A sampling temperature at which the noise never decides, so that samples follow from the logits alone."""


def network_config(model_type: str, hidden_size: int = 32, embedding_size: int = 16) -> PreTrainedConfig:
    return discriminator_config(
        vocab_size=NETWORK_VOCAB_SIZE,
        pad_token_id=0,
        embedding_size=embedding_size,
        hidden_size=hidden_size,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=4 * hidden_size,
        max_position_embeddings=LONGEST,
        hidden_dropout_prob=0.25,
        attention_probs_dropout_prob=0.125,
        model_type=model_type,
    )


def joint_model(
    discriminator: str, generator: str | None = None, generator_size: float = 1.0, **options: object
) -> ElectraForJointPretraining:
    config = network_config(discriminator)
    smaller, _ = generator_config(config, generator_size, 1.0, model_type=generator)
    torch.manual_seed(0)
    options = {"mask_token_id": 4, "special_token_ids": [0, 1, 2, 3, 4], **options}
    return ElectraForJointPretraining(ElectraPretrainingConfig(smaller, config, **options))  # type: ignore[arg-type]


def untie_networks(model: ElectraForJointPretraining) -> None:
    """Give the discriminator embeddings of its own, of the same values."""
    model.discriminator.electra.embeddings = copy.deepcopy(model.discriminator.electra.embeddings)


def plain_networks(model: ElectraForJointPretraining) -> tuple[ElectraForMaskedLM, ElectraForPreTraining]:
    """Two models of transformers with the same weights and nothing in common."""
    generator = ElectraForMaskedLM(copy.deepcopy(model.config.generator)).to(model.dtype).eval()
    discriminator = ElectraForPreTraining(copy.deepcopy(model.config.discriminator)).to(model.dtype).eval()
    generator.load_state_dict(model.generator.state_dict())
    discriminator.load_state_dict(model.discriminator.state_dict())
    return generator, discriminator


def chosen_cells(output: ElectraPretrainingOutput) -> list[tuple[int, int, int]]:
    """(row, slot, position) of every chosen position."""
    assert output.mlm_mask is not None and output.mlm_positions is not None
    return [(row, slot, int(output.mlm_positions[row, slot])) for row, slot in output.mlm_mask.nonzero().tolist()]


def gradients(model: nn.Module) -> dict[str, Tensor]:
    return {
        name: torch.zeros_like(p) if p.grad is None else p.grad.clone()
        for name, p in model.named_parameters(remove_duplicate=False)
    }


def loss_gradients(model: ElectraForJointPretraining, batch: dict[str, Tensor], weight: float) -> dict[str, Tensor]:
    model.config.discriminator_weight = weight
    model.zero_grad()
    torch.manual_seed(0)
    model(**batch).loss.backward()
    return gradients(model)


def run(model: ElectraForJointPretraining, batch: dict[str, Tensor]) -> Any:
    """The output from a fixed random state."""
    torch.manual_seed(0)
    return model(**batch)
