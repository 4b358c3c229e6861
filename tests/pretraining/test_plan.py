"""The plan's numbers against sums over the weights of the model itself."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from pytest import approx

from electra.flops import TransformerShape, google_training_flops
from electra.pretraining import plan as plan_module
from electra.pretraining.options import parse_arguments
from electra.pretraining.plan import Plan, announce_plan, document_warnings, make_plan, size_for
from tests.helpers import parametrize
from tests.pretraining.conftest import Rows
from tests.pretraining.runs import flags


def weights(module):
    return sum(p.numel() for p in module.parameters())


@pytest.fixture
def planned(make_pair, plan_of):
    """The plan of 12 steps of 10 x 16 tokens with a pair of these options, and the pair."""

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
    assert Plan(**json.loads(json.dumps(plan.as_dict()))) == plan


def test_the_plan_has_a_line_for_each_part(planned):
    plan, _ = planned(objective="two_stage", generator_steps=9)
    names = ["corpus", "source", "held out", "discriminator", "generator", "training", "compute"]
    assert [line[:15].strip() for line in plan.lines()] == [*names, "stages"]
    assert f"{plan.discriminator_parameters:,} parameters" in plan.lines()[3]
    assert [line[:15].strip() for line in planned(objective="mlm")[0].lines()][3:5] == ["masked LM", "training"]


def test_many_sources_are_summed_up_behind_the_first(plan):
    sources = [
        {"name": f"{n}.txt", "files": 1, "text_files": 1, "documents": n, "tokens": 10 * n} for n in range(1, 24)
    ]
    lines = replace(plan, sources=sources).source_lines()
    assert lines[0].startswith("1.txt: ") and lines[20:] == ["and 3 more: 66 documents, 660 tokens"]


def test_a_plan_follows_the_options(make_pair, cache, monkeypatch):
    warn = Mock()
    monkeypatch.setattr(plan_module.logger, "warning", warn)
    data = SimpleNamespace(cache=cache, held_out_lengths=[10], policy=Rows(30, 14))

    def announce(**options):
        warn.reset_mock()
        args = parse_arguments(flags(Path(), gradient_accumulation_steps=3, validation_fraction=0, **options))
        pair = make_pair()
        plan = make_plan(args, pair, data, [{"step": 4, "option": "seed", "before": 1, "now": 2}])
        announce_plan(args, pair, plan)
        return plan

    plan = announce(checkpoint_fractions=0.5)
    assert (plan.steps, plan.batch_size, plan.max_length, plan.segments_per_epoch) == (12, 12, 16, 30)
    assert plan.checkpoint_steps == [6] and plan.changes == ["from step 4 on: seed 2 instead of 1"]
    assert not warn.called
    for options, named in (({"save_steps": 13}, "save_steps=13"), ({"warmup_steps": 12}, "--warmup_steps 12")):
        announce(**options)
        assert named in warn.call_args[0][0] and warn.call_count == 1
    announce(max_steps=101, warmup_steps=2)  # 1212 rows, 40.4 epochs
    assert "--model_size tiny --max_steps 1," in warn.call_args[0][0]
    announce(max_steps=101, warmup_steps=2, init_generator="run")  # which has a size
    assert "choose --max_steps 100," in warn.call_args[0][0]


def books(*sizes):
    """A text file for each pair of documents and tokens."""
    one_file = {"name": "book", "files": 1, "text_files": 1}
    return [{**one_file, "documents": documents, "tokens": tokens} for documents, tokens in sizes]


@parametrize(
    ("sources", "separator", "is_suspect"),
    [
        (books((60, 9999), (40, 15_600)), "blank_line", True),
        (books((60, 9999), (40, 15_601)), "blank_line", False),
        (books((60, 600), (40, 900)), "line", False),  # asked for
        (books((100, 1500)), "blank_line", False),  # one file would be one document
        ([{**books((100, 1500))[0], "files": 2, "text_files": 0}], "blank_line", False),  # of tables
    ],
)
def test_short_pieces_of_text_are_called_into_question(plan, sources, separator, is_suspect):
    warnings = document_warnings(replace(plan, sources=sources), separator, 0.0)
    assert ["--document_separator" in warning for warning in warnings] == [True] * is_suspect


@parametrize(("documents", "fraction", "warned"), [(10, 0.1, 0), (9, 0.1, 1), (2, 0, 0)])
def test_a_small_hold_out_is_called_into_question(plan, documents, fraction, warned):
    assert len(document_warnings(replace(plan, held_out_documents=documents), "blank_line", fraction)) == warned


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
    large, small = TransformerShape(32, 48, 2, 2, 8, vocab_size), TransformerShape(16, 64, 1, 1, 8, vocab_size)
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


def test_the_size_follows_from_the_text():
    # A recipe's steps and tokens of a step against 40 epochs.
    for tokens, options in (
        (10**6, "--model_size tiny --max_steps 9765"),  # 4,096 tokens a step
        (60_000 * 4096 // 40, "--model_size mini"),
        (10**6 * 128 * 128 // 40, "--model_size small"),
    ):
        assert size_for(tokens) == options
