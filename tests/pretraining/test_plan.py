"""The plan's numbers against sums over the weights of the model itself."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from pytest import approx

from electra.core.flops import TransformerShape, google_training_flops
from electra.data.options import SegmentArguments
from electra.pretraining import plan as plan_module
from electra.pretraining.options import parse_pretraining_arguments
from electra.pretraining.plan import Plan, announce_plan, make_plan
from tests.helpers import parametrize
from tests.pretraining.conftest import Rows
from tests.pretraining.runs import flags


def weights(module):
    """The number of a module's weights."""
    return sum(p.numel() for p in module.parameters())


@pytest.fixture
def planned(make_pair, plan_of):
    """`planned(**options)`: the plan of 12 steps of 10 x 16 tokens with a pair of these options, and the pair."""

    def make(**options):
        pair = make_pair(**options)
        return plan_of(pair), pair

    return make


def test_sizes_of_corpus_run_and_networks_are_those_given(planned):
    plan, pair = planned()
    assert (plan.documents, plan.corpus_tokens, plan.held_out_documents, plan.held_out_tokens) == (4, 100, 1, 10)
    assert (plan.steps, plan.tokens_per_step, plan.total_tokens, plan.epochs) == (12, 160, 1920, 4.0)
    vocab_size = pair.config.discriminator.vocab_size
    shared = (vocab_size + 40 + 2 + 2) * 8  # word, position and type table, LayerNorm
    assert plan.discriminator_parameters == weights(pair.discriminator)
    assert plan.generator_parameters == weights(pair.generator)
    assert plan.total_parameters == plan.discriminator_parameters + plan.generator_parameters - shared
    assert plan.discriminator_shape == "2 layers of 32, 2 heads, feed-forward 48"
    assert Plan(**json.loads(json.dumps(asdict(plan)))) == plan


def test_the_plan_has_a_fact_for_each_part(planned):
    plan, _ = planned(objective="two_stage", generator_steps=9)
    names = ["corpus", "source", "held out", "discriminator", "generator", "training", "compute"]
    facts = replace(plan, changes=["from step 4 on: seed 2 instead of 1"]).facts()
    assert [name for name, _ in facts] == [*names, "stages", "resumed"]
    assert f"{plan.discriminator_parameters:,} parameters" in facts[3][1]
    assert [name for name, _ in planned(objective="mlm")[0].facts()][3:5] == ["masked LM", "training"]


def test_each_doubtful_size_of_a_plan_is_warned_of(make_pair, cache, monkeypatch):
    """A step has 12 rows of 16 tokens, and 30 rows are an epoch."""
    warn = Mock()
    monkeypatch.setattr(plan_module.logger, "warning", warn)
    monkeypatch.setattr(plan_module, "FEW_TRAINED_TOKENS", 2000)  # 12 steps have 2304
    data = SimpleNamespace(
        cache=cache, sources=[], held_out_lengths=[1000], policy=Rows(30, 14), segments=SegmentArguments(max_length=16)
    )

    def announce(**options):
        warn.reset_mock()
        args = parse_pretraining_arguments(
            flags(Path(), gradient_accumulation_steps=3, validation_fraction=0, **options)
        )
        pair = make_pair()
        plan = make_plan(args.training, pair, data)
        announce_plan(args, plan)
        return plan

    plan = announce(checkpoint_fractions=0.5)
    assert (plan.steps, plan.batch_size, plan.max_length, plan.segments_per_epoch) == (12, 12, 16, 30)
    assert plan.checkpoint_steps == [6]
    assert not warn.called
    announce(warmup_steps=12)
    assert "--warmup_steps 12" in warn.call_args[0][0] and warn.call_count == 1
    announce(max_steps=101, warmup_steps=2)  # 1212 rows, 40.4 epochs
    assert "choose --max_steps 100," in warn.call_args[0][0]
    data.held_out_lengths = [999]
    announce()
    assert "--validation_fraction" in warn.call_args[0][0]
    data.held_out_lengths = [1000]
    data.policy = Rows(30, 6)
    announce(max_steps=24)  # 2304 tokens
    assert "50% " in warn.call_args[0][0] and "--segment_policy packed" in warn.call_args[0][0]
    data.policy = Rows(30, 14)
    announce(max_steps=10)
    assert "1,920 tokens" in warn.call_args[0][0] and "--budget" in warn.call_args[0][0]
    warn.reset_mock()
    announce(max_steps=10, objective="mlm")  # has no discriminator
    announce(max_steps=10, init_discriminator="trained")
    assert not warn.called


@parametrize("objective", ["electra", "mlm", "replace_mlm", "all_tokens_mlm"])
def test_flops_follow_from_the_weights(planned, objective):
    plan, pair = planned(objective=objective, mlm_probability=0.3)
    everywhere = objective == "all_tokens_mlm"
    per_token = 0.0
    for network, width_in_layers, share in (
        (pair.discriminator, 2 * 32, 1.0 if everywhere else 0.3),
        (pair.generator, 16, 0.3),
    ):
        if network is not None:
            if objective == "electra" and network is pair.discriminator:
                head = 1.0 * weights(network.discriminator_predictions)
            else:
                head = share * (weights(network.generator_predictions) + weights(network.generator_lm_head))
            encoder = weights(network.electra) - weights(network.electra.embeddings)
            per_token += 6 * (encoder + head) + 12 * 16 * width_in_layers
    assert plan.flops == approx(plan.total_tokens * per_token, rel=1e-12)
    vocab_size = pair.config.discriminator.vocab_size
    large = TransformerShape(32, 48, 2, 2, 8, vocab_size)
    small = TransformerShape(16, 64, 1, 1, 8, vocab_size)
    run = {"max_length": 16, "train_batch_size": 10, "steps": 12}
    if objective == "electra":
        expected = google_training_flops(large, None, **run)
    else:
        expected = google_training_flops(None, large, **run, mlm_positions_fraction=1.0 if everywhere else 0.15625)
    if objective != "mlm":
        expected += google_training_flops(None, small, **run)
    assert plan.google_flops == approx(expected, rel=1e-12)


def test_stages_and_generators_cost_what_they_run(planned):
    """Forward and backward are 3 forward passes by 6 N T, and 2 by the original's count."""
    (plan, _), (both, _), (without, pair) = (
        planned(**options)
        for options in ({"objective": "two_stage", "generator_steps": 9}, {}, {"uniform_generator": True})
    )
    for name, forward in (("flops", 1 / 3), ("google_flops", 1 / 2)):
        discriminator = getattr(without, name)
        generator = getattr(both, name) - discriminator
        expected = 9 / 12 * generator + 3 / 12 * (forward * generator + discriminator)
        assert getattr(plan, name) == approx(expected, rel=1e-12)
    assert plan.total_parameters == plan.generator_parameters + plan.discriminator_parameters
    encoder = weights(pair.discriminator.electra) - weights(pair.discriminator.electra.embeddings)
    per_token = 6 * (encoder + weights(pair.discriminator.discriminator_predictions)) + 12 * 16 * 2 * 32
    assert without.flops == approx(without.total_tokens * per_token, rel=1e-12)
    assert without.generator_parameters == 0
    assert planned(objective="adversarial")[0].flops == both.flops
