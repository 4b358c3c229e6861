"""Small joint models of any backbone, batches for them, and what the tests of the model compute from them."""

import torch

from electra.core.configuration import ElectraPretrainingConfig, generator_config, network_config
from electra.core.objectives import OBJECTIVES
from electra.model.joint import ElectraForJointPretraining
from tests.helpers import parametrize

VOCAB_SIZE = 40
"""Of the models of `make_model`, where no other is given."""
NETWORK_VOCAB_SIZE = 60
LONGEST = 24
"""Of `tiny_network_config`."""
MASK = 4
"""The id of [MASK] in the models of `joint_model`."""
objectives = parametrize("objective", OBJECTIVES)
JUDGES = [name for name, objective in OBJECTIVES.items() if objective.finds_replaced and not objective.is_energy_based]
"""Objectives whose main network judges each token of any text."""
MAY_DRAW_UNIFORMLY = [
    name
    for name, objective in OBJECTIVES.items()
    if objective.has_generator and not (objective.has_stages or objective.is_adversarial or objective.is_energy_based)
]
"""Objectives that a uniform generator goes with."""

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


def tiny_network_config(model_type="electra", **changes):
    """The configuration of a network of two layers, with two dropouts that can be told apart."""
    sizes = {
        "vocab_size": NETWORK_VOCAB_SIZE,
        "pad_token_id": 0,
        "embedding_size": 16,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 128,
        "max_position_embeddings": LONGEST,
        "hidden_dropout_prob": 0.25,
        "attention_probs_dropout_prob": 0.125,
    }
    return network_config(model_type=model_type, **{**sizes, **changes})


def joint_model(discriminator, generator=None, generator_size=1.0, generator_layer_size=1.0, **options):
    """An untrained model of a discriminator, a type or a configuration, and a generator of the same or another type.

    Options are those of the model's configuration.
    """
    config = tiny_network_config(discriminator) if isinstance(discriminator, str) else discriminator
    smaller = generator_config(config, generator_size, generator_layer_size, model_type=generator)
    torch.manual_seed(0)
    options = {"mask_token_id": MASK, "special_token_ids": [0, 1, 2, 3, MASK], **options}
    return ElectraForJointPretraining(ElectraPretrainingConfig(generator=smaller, discriminator=config, **options))


def make_model(dropout=0.1, vocab_size=VOCAB_SIZE, **options):
    """A model with weights far enough from 0 that its predictions differ; options are those of its configuration."""
    config = tiny_network_config(
        vocab_size=vocab_size,
        embedding_size=8,
        intermediate_size=48,
        max_position_embeddings=40,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    model = joint_model(config, generator_size=0.5, generator_layer_size=0.5, **options)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def make_batch(*lengths, seed=0):
    """[CLS] text [SEP] text [SEP] and padding, with fixed noise; `lengths` count all but the padding."""
    random = torch.Generator().manual_seed(seed)
    columns = torch.arange(max(lengths))
    ends = torch.tensor(lengths).unsqueeze(1)
    attention_mask = (columns < ends).long()
    input_ids = torch.randint(5, VOCAB_SIZE, attention_mask.shape, generator=random)
    input_ids = input_ids.masked_fill(columns == 0, 2)
    input_ids = input_ids.masked_fill((columns == ends // 2) | (columns == ends - 1), 3)
    return {
        "input_ids": input_ids.masked_fill(attention_mask == 0, 0),
        "attention_mask": attention_mask,
        "token_type_ids": ((columns > ends // 2) & (columns < ends)).long(),
        "mask_noise": torch.rand(*attention_mask.shape, 2, generator=random),
    }


def chosen_cells(output):
    """(row, slot, position) of every chosen position."""
    return [(row, slot, int(output.mlm_positions[row, slot])) for row, slot in output.mlm_mask.nonzero().tolist()]


def run(model, batch):
    """The output from a fixed random state."""
    torch.manual_seed(0)
    return model(**batch)
