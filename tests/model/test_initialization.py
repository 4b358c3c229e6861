"""Fresh weights have the distributions of their scheme; biases and normalizations are left alone."""

import math

import pytest
import torch

from electra.model.configuration import discriminator_config
from electra.model.initialization import initialize
from electra.model.networks import masked_lm, token_detector


def network(initialization: str) -> torch.nn.Module:
    config = discriminator_config(
        vocab_size=500,
        pad_token_id=0,
        embedding_size=64,
        hidden_size=128,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=256,
        max_position_embeddings=64,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
        initializer_range=0.05,
    )
    torch.manual_seed(0)
    model = token_detector(config)
    initialize(model, initialization)
    return model


@pytest.mark.parametrize(("initialization", "std"), [("normal", 0.05), ("truncated_normal", 0.05 * 0.8796)])
def test_weights_are_normal_and_truncated_where_asked(initialization: str, std: float) -> None:
    """A normal cut off at two standard deviations keeps .8796 of its own."""
    for name, parameter in network(initialization).named_parameters():
        if parameter.dim() == 2 and parameter.numel() > 4000:
            assert parameter.std().item() == pytest.approx(std, rel=0.05), name
            assert (parameter.abs().max() > 0.1).item() == (initialization == "normal"), name
        if name.endswith("bias"):
            assert not parameter.any(), name


def test_the_padding_token_s_embedding_stays_zero_also_where_the_lm_head_is_the_same_table() -> None:
    detector = network("truncated_normal")
    generator = masked_lm(detector.config)
    initialize(generator, "original")
    for model in (detector, generator):
        table = model.get_input_embeddings().weight
        assert not table[0].any() and table[1].any()


def test_the_original_draws_projection_and_output_evenly_as_glorot_does() -> None:
    model = network("original")
    for weight in (model.electra.embeddings_project.weight, model.discriminator_predictions.dense_prediction.weight):
        bound = math.sqrt(6 / sum(weight.shape))
        assert bound * 0.9 < weight.abs().max() <= bound
        assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.15)
    assert model.discriminator_predictions.dense.weight.abs().max() <= 0.1  # which has an initializer there
