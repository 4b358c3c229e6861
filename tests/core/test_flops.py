"""The published compute of ELECTRA and its baselines, and the parameter count behind 6 N T against real models."""

import pytest
import torch
from pytest import approx
from transformers import ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining

from electra.core.flops import TransformerShape, google_training_flops, pfs_days, six_n_t_flops
from tests.helpers import parametrize


def shape(hidden_size, num_layers, embedding_size, vocab_size=30522):
    """A network whose other sizes follow from its width, as those of BERT."""
    heads = max(1, hidden_size // 64)
    return TransformerShape(hidden_size, 4 * hidden_size, num_layers, heads, embedding_size, vocab_size)


SMALL = shape(256, 12, 128)
LARGE = shape(1024, 24, 1024), shape(256, 24, 1024)


# Expected: what google-research/electra's flops_computation.py prints for these networks.
@parametrize(
    ("networks", "run", "expected"),
    [
        pytest.param((SMALL, shape(64, 12, 128)), (128, 128, 1_000_000), 1.293743798e18, id="electra_small"),
        pytest.param((None, SMALL), (128, 128, 1_450_000), 1.418739915e18, id="bert_small"),
        pytest.param((shape(768, 12, 768), shape(256, 12, 768)), (512, 256, 766_000), 6.424541834e19, id="base"),
        pytest.param(LARGE, (512, 2048, 400_000), 7.117606041e20, id="electra_400k"),
        pytest.param((None, shape(4096, 12, 128, 30000)), (512, 4096, 1_500_000), 3.113923955e22, id="albert"),
    ],
)
def test_the_google_rule_gives_the_published_training_flops(networks, run, expected):
    sizes = dict(zip(("max_length", "train_batch_size", "steps"), run, strict=True))
    assert google_training_flops(*networks, **sizes) == approx(expected, rel=1e-9)


def test_the_google_rule_counts_the_lm_head_at_its_share_of_the_positions():
    """Also flops_computation.py's number: of GPT, whose LM head is at all positions."""
    gpt = {"max_length": 512, "train_batch_size": 128, "steps": 960_800, "mlm_positions_fraction": 1.0}
    assert google_training_flops(None, shape(768, 12, 768, 40000), **gpt) == approx(3.968752231e19, rel=1e-9)


@parametrize("embedding_size", [16, 32])
def test_six_n_t_counts_the_parameters_of_the_real_models(embedding_size):
    layers = {"hidden_size": 32, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 2}
    config = ElectraConfig(vocab_size=101, embedding_size=embedding_size, **layers)
    with torch.device("meta"):
        discriminator = ElectraForPreTraining(config)
        generator = ElectraForMaskedLM(config)

    def count(model, *prefixes):
        parameters = model.named_parameters(remove_duplicate=False)
        return sum(
            p.numel() for name, p in parameters if name.startswith(prefixes) and "electra.embeddings." not in name
        )

    encoder = count(discriminator, "electra.")
    discriminator_head = count(discriminator, "discriminator_predictions")
    lm_head = count(generator, "generator_predictions", "generator_lm_head")  # the decoder is the embedding table
    sizes = TransformerShape(32, 96, 3, 2, embedding_size, 101)
    tokens = 8 * 5 * 7
    attention = 12 * 3 * 32 * 8  # of a token: 12 x layers x width x length
    run = {"max_length": 8, "train_batch_size": 5, "steps": 7, "mlm_positions_fraction": 0.25}
    assert six_n_t_flops(sizes, None, **run) == tokens * (6 * (encoder + discriminator_head) + attention)
    assert six_n_t_flops(None, sizes, **run) == tokens * (6 * (encoder + 0.25 * lm_head) + attention)
    assert six_n_t_flops(sizes, sizes, **run) == six_n_t_flops(sizes, None, **run) + six_n_t_flops(None, sizes, **run)


def test_a_petaflop_per_second_day_is_8_64e19_flops():
    assert pfs_days(8.64e19) == approx(1.0)
