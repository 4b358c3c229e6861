"""A joint model of a few thousand parameters, and batches for it."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from electra.model.configuration import ElectraPretrainingConfig, discriminator_config, generator_config
from electra.model.joint import ElectraForJointPretraining
from tests.model.helpers import LONGEST, NETWORK_VOCAB_SIZE, VOCAB_SIZE


def _tiny_config(**options: Any) -> ElectraPretrainingConfig:
    discriminator = discriminator_config(
        vocab_size=VOCAB_SIZE,
        pad_token_id=0,
        embedding_size=8,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        max_position_embeddings=40,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
    )
    generator, _ = generator_config(discriminator, generator_size=0.5, generator_layer_size=0.5)
    options = {"mask_token_id": 4, "special_token_ids": [0, 1, 2, 3, 4], **options}
    return ElectraPretrainingConfig(generator, discriminator, **options)


@pytest.fixture
def make_model() -> Callable[..., ElectraForJointPretraining]:
    """A model with weights far enough from 0 that its predictions differ; options are those of its configuration."""

    def make(**options: Any) -> ElectraForJointPretraining:
        torch.manual_seed(0)
        model = ElectraForJointPretraining(_tiny_config(**options))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
        return model

    return make


@pytest.fixture
def make_batch() -> Callable[..., dict[str, Tensor]]:
    """[CLS] text [SEP] text [SEP] and padding, with fixed noise; `lengths` count all but the padding."""

    def make(*lengths: int, width: int | None = None, seed: int = 0) -> dict[str, Tensor]:
        width = width or max(lengths)
        random = torch.Generator().manual_seed(seed)
        ends = torch.tensor(lengths).unsqueeze(1)
        columns = torch.arange(width)
        attention_mask = (columns < ends).long()
        input_ids = torch.randint(5, VOCAB_SIZE, (len(lengths), width), generator=random)
        input_ids = input_ids.masked_fill(columns == 0, 2)
        input_ids = input_ids.masked_fill((columns == ends // 2) | (columns == ends - 1), 3)
        return {
            "input_ids": input_ids.masked_fill(attention_mask == 0, 0),
            "attention_mask": attention_mask,
            "token_type_ids": ((columns > ends // 2) & (columns < ends)).long(),
            "mask_noise": torch.rand(len(lengths), width, 2, generator=random),
        }

    return make


@pytest.fixture
def batch() -> dict[str, Tensor]:
    """Two rows of the longest length; the second ends in padding."""
    input_ids = torch.randint(5, NETWORK_VOCAB_SIZE, (2, LONGEST), generator=torch.Generator().manual_seed(0))
    attention_mask = torch.ones_like(input_ids)
    attention_mask[1, 15:] = 0
    input_ids[1, 15:] = 0
    token_type_ids = (torch.arange(LONGEST) > 8).long().expand_as(input_ids) * attention_mask
    return {"input_ids": input_ids, "attention_mask": attention_mask, "token_type_ids": token_type_ids}
