"""The plan's numbers against sums over the weights of the model itself."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from torch import nn

from electra.data.token_cache import TokenCache
from electra.flops import TransformerShape, google_training_flops
from electra.model.joint import ElectraForJointPretraining
from electra.pretraining.plan import Plan, document_warnings, make_plan


@pytest.fixture
def pair(make_pair: Callable[..., ElectraForJointPretraining]) -> ElectraForJointPretraining:
    return make_pair()


def weights(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def test_sizes_of_corpus_and_run_are_those_given(plan: Plan, cache: TokenCache) -> None:
    assert (plan.documents, plan.corpus_tokens, plan.held_out_documents) == (4, 100, 1)
    assert plan.unknown_rate == 0.0
    assert plan.cache == str(cache.path)
    assert plan.cache_bytes == (cache.path / "data-00000-of-00001.arrow").stat().st_size
    assert (plan.steps, plan.batch_size, plan.max_length, plan.segments_per_epoch) == (12, 10, 16, 30)
    assert plan.tokens_per_step == 160 and plan.total_tokens == 1920
    assert plan.epochs == 4.0


def test_parameters_are_those_of_the_model(plan: Plan, pair: ElectraForJointPretraining) -> None:
    vocab_size = pair.config.discriminator.vocab_size
    shared = (vocab_size + 40 + 2 + 2) * 8  # word, position and type table, LayerNorm
    assert plan.discriminator_parameters == weights(pair.discriminator)
    assert plan.generator_parameters == weights(pair.generator)
    assert plan.total_parameters == weights(pair)
    assert plan.total_parameters == plan.discriminator_parameters + plan.generator_parameters - shared
    assert plan.discriminator_shape == "2 layers of 32, 2 heads, feed-forward 48"
    assert plan.generator_shape == "1 layer of 16, 1 head, feed-forward 64"


@pytest.mark.parametrize("mlm_probability", [0.15, 0.25])
def test_flops_follow_from_the_weights_each_token_is_multiplied_with(
    make_pair: Callable[..., ElectraForJointPretraining], cache: TokenCache, mlm_probability: float
) -> None:
    pair = make_pair(mlm_probability=mlm_probability)
    plan = make_plan(pair, cache, held_out_lengths=[10], segments_per_epoch=30, steps=12, batch_size=10, max_length=16)
    generator, discriminator = pair.generator, pair.discriminator
    encoders = sum(weights(n.electra) - weights(n.electra.embeddings) for n in (generator, discriminator))
    lm_head = weights(generator.generator_predictions) + weights(generator.generator_lm_head)
    attention = 12 * 16 * (2 * 32 + 1 * 16)  # layers times width
    head = weights(discriminator.discriminator_predictions)
    per_token = 6 * (encoders + head + mlm_probability * lm_head) + attention
    assert plan.flops == pytest.approx(plan.total_tokens * per_token, rel=1e-12)
    vocab_size = pair.config.discriminator.vocab_size
    shapes = TransformerShape(32, 48, 2, 2, 8, vocab_size), TransformerShape(16, 64, 1, 1, 8, vocab_size)
    assert plan.google_flops == google_training_flops(*shapes, max_length=16, train_batch_size=10, steps=12)
    one_hot = 2 * 2 * (2 * 8 * vocab_size) * plan.total_tokens  # two networks, forward and backward
    assert plan.google_sparse_flops == pytest.approx(plan.google_flops - one_hot)


def test_the_plan_is_said_in_aligned_lines_with_all_its_numbers(plan: Plan) -> None:
    lines = plan.lines()
    assert [line[:15].strip() for line in lines] == [
        "corpus",
        "source",
        "held out",
        "token cache",
        "discriminator",
        "generator",
        "training",
        "compute",
    ]
    assert lines[0].endswith("  1 file, 4 documents, 100 tokens, unknown 0.000%")
    assert lines[1].endswith(f"  {plan.sources[0]['name']}: 1 file, 4 documents, 100 tokens")
    assert lines[2].endswith("  1 document, 10 tokens, equal to 10.00% of the corpus")
    assert f"{plan.discriminator_parameters:,} parameters" in lines[4]
    assert f"both together {plan.total_parameters:,}, embeddings shared" in lines[5]
    assert lines[6].endswith("12 steps of 10 x 16 = 160 tokens: 1,920 tokens, 4.00 epochs of 30 segments")
    assert f"{plan.flops:.2e} FLOPs" in lines[7] and f"{plan.google_flops:.2e} by the original's count" in lines[7]


def test_many_sources_are_summed_up_behind_the_first(plan: Plan) -> None:
    sources = [
        {"name": f"{n}.txt", "files": 1, "text_files": 1, "documents": n, "tokens": 10 * n} for n in range(1, 24)
    ]
    sources.insert(0, {"name": "builtin", "files": 0, "text_files": 0, "documents": 1000, "tokens": 2000})
    lines = replace(plan, sources=sources).source_lines()
    assert lines[:2] == ["builtin: 1,000 documents, 2,000 tokens", "1.txt: 1 file, 1 document, 10 tokens"]
    assert lines[20:] == ["and 4 more: 4 files, 86 documents, 860 tokens"]


def books(*sizes: tuple[int, int]) -> list[dict[str, Any]]:
    """A text file for each pair of documents and tokens."""
    one_file = {"name": "book", "files": 1, "text_files": 1}
    return [{**one_file, "documents": documents, "tokens": tokens} for documents, tokens in sizes]


@pytest.mark.parametrize(
    ("sources", "separator", "named"),
    [
        (books((60, 600), (40, 900)), "blank_line", "2 text files became 100 documents of 15 tokens.*_separator file"),
        (books((60, 9999), (40, 15_600)), "blank_line", "100 documents of 256 tokens"),  # a little less
        (books((60, 9999), (40, 15_601)), "blank_line", None),
        (books((60, 600), (40, 900)), "line", None),  # asked for
        (books((100, 1500)), "blank_line", None),  # one file would be one document
        (books((1, 10), (1, 5)), "blank_line", None),
        ([{**books((100, 1500))[0], "files": 2, "text_files": 0}], "blank_line", None),  # of tables
    ],
)
def test_short_pieces_of_several_text_files_are_called_into_question(
    plan: Plan, sources: list[dict[str, Any]], separator: str, named: str | None
) -> None:
    warnings = document_warnings(replace(plan, sources=sources), separator, 0.0)
    assert len(warnings) == (named is not None)
    assert named is None or re.search(named, warnings[0])


@pytest.mark.parametrize(
    ("documents", "tokens", "fraction", "named"),
    [
        (10, 1000, 0.1, []),
        (10, 501, 0.1, []),
        (10, 1999, 0.1, []),
        (2, 1000, 0.1, ["2 documents"]),
        (10, 499, 0.1, ["4.99%"]),
        (9, 2100, 0.1, ["9 documents", "21.00%"]),
        (2, 5000, 0.0, []),  # other text is held out, or none
    ],
)
def test_a_hold_out_of_few_documents_or_of_another_share_than_asked_is_called_into_question(
    plan: Plan, documents: int, tokens: int, fraction: float, named: list[str]
) -> None:
    sizes = {"corpus_tokens": 10_000, "held_out_documents": documents, "held_out_tokens": tokens}
    warnings = document_warnings(replace(plan, **sizes), "blank_line", fraction)
    assert len(warnings) == len(named)
    assert all(words in warning for words, warning in zip(named, warnings, strict=True))


def test_the_plan_goes_into_json_as_it_is(plan: Plan) -> None:
    assert Plan(**json.loads(json.dumps(plan.as_dict()))) == plan


@pytest.mark.parametrize(("objective", "head_share"), [("mlm", 0.3), ("replace_mlm", 0.3), ("all_tokens_mlm", 1.0)])
def test_flops_of_a_masked_language_model_count_its_head_where_it_predicts(
    make_pair: Callable[..., ElectraForJointPretraining], cache: TokenCache, objective: str, head_share: float
) -> None:
    pair = make_pair(objective=objective, mlm_probability=0.3)
    plan = make_plan(pair, cache, held_out_lengths=[10], segments_per_epoch=30, steps=12, batch_size=10, max_length=16)
    per_token = 0.0
    for network, width_in_layers, share in ((pair.discriminator, 2 * 32, head_share), (pair.generator, 16, 0.3)):
        if network is not None:
            head = weights(network.generator_predictions) + weights(network.generator_lm_head)
            per_token += 6 * (weights(network.electra) - weights(network.electra.embeddings) + share * head)
            per_token += 12 * 16 * width_in_layers
    assert plan.flops == pytest.approx(plan.total_tokens * per_token, rel=1e-12)
    vocab_size = pair.config.discriminator.vocab_size
    large, small = TransformerShape(32, 48, 2, 2, 8, vocab_size), TransformerShape(16, 64, 1, 1, 8, vocab_size)
    run = {"max_length": 16, "train_batch_size": 10, "steps": 12}
    share = 1.0 if objective == "all_tokens_mlm" else 0.15625
    expected = google_training_flops(None, large, **run, mlm_positions_fraction=share)
    expected += 0 if objective == "mlm" else google_training_flops(None, small, **run)
    assert plan.google_flops == pytest.approx(expected, rel=1e-12)


def test_the_plan_of_mlm_knows_one_network(
    make_pair: Callable[..., ElectraForJointPretraining], cache: TokenCache
) -> None:
    pair = make_pair(objective="mlm")
    plan = make_plan(pair, cache, held_out_lengths=[10], segments_per_epoch=30, steps=12, batch_size=10, max_length=16)
    assert (plan.objective, plan.generator_parameters, plan.generator_shape) == ("mlm", 0, "")
    assert plan.discriminator_parameters == plan.total_parameters == weights(pair)
    lines = plan.lines()
    names = ["corpus", "source", "held out", "token cache", "masked LM", "training", "compute"]
    assert [line[:15].strip() for line in lines] == names
    assert Plan(**json.loads(json.dumps(plan.as_dict()))) == plan


def flops_of(make_pair: Callable[..., ElectraForJointPretraining], cache: TokenCache, **options: object) -> Plan:
    return make_plan(
        make_pair(**options),
        cache,
        held_out_lengths=[10],
        segments_per_epoch=30,
        steps=12,
        batch_size=10,
        max_length=16,
    )


def test_two_stages_count_each_network_for_the_steps_and_passes_it_runs(
    make_pair: Callable[..., ElectraForJointPretraining], cache: TokenCache
) -> None:
    """Forward and backward are 3 forward passes by 6 N T, and 2 by the original's count."""
    plan, both, without = (
        flops_of(make_pair, cache, **options)
        for options in ({"objective": "two_stage", "generator_steps": 9}, {}, {"uniform_generator": True})
    )
    for name, forward in (("flops", 1 / 3), ("google_flops", 1 / 2)):
        discriminator = getattr(without, name)
        generator = getattr(both, name) - discriminator
        expected = 9 / 12 * generator + 3 / 12 * (forward * generator + discriminator)
        assert getattr(plan, name) == pytest.approx(expected, rel=1e-12)
    assert plan.generator_steps == 9 and both.generator_steps == 0
    assert plan.total_parameters == plan.generator_parameters + plan.discriminator_parameters
    lines = plan.lines()
    assert lines[5].endswith(f"both together {plan.total_parameters:,}, nothing shared")
    assert lines[8] == "stages         9 steps of the generator, then 3 of the discriminator"


def test_a_uniform_generator_costs_nothing(
    make_pair: Callable[..., ElectraForJointPretraining], cache: TokenCache
) -> None:
    plan = flops_of(make_pair, cache, uniform_generator=True)
    pair = make_pair(uniform_generator=True)
    encoder = weights(pair.discriminator.electra) - weights(pair.discriminator.electra.embeddings)
    per_token = 6 * (encoder + weights(pair.discriminator.discriminator_predictions)) + 12 * 16 * 2 * 32
    assert plan.flops == pytest.approx(plan.total_tokens * per_token, rel=1e-12)
    assert plan.generator_parameters == 0 and plan.lines()[5] == (
        "generator      none: replacements are drawn evenly from the vocabulary"
    )
    assert flops_of(make_pair, cache, objective="adversarial").flops == flops_of(make_pair, cache).flops
