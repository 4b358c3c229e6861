"""The losses against numbers worked out by hand, and their gradients token by token."""

import math
import re
from dataclasses import fields, replace

import torch
import torch.nn.functional as F
from pytest import approx
from torch.testing import assert_close

from electra.core.losses import (
    NOISE_SHARE,
    adversarial_nll,
    baseline_nll,
    copy_nll,
    copy_prediction,
    discriminator_loss,
    discriminator_nll,
    entropy,
    generator_nll,
    nll_and_probabilities,
    noise_logits,
    weighted_mean,
)
from electra.core.objectives import KEYS, OBJECTIVES, Objective, ObjectiveOptions, check_values, objective_of
from tests.helpers import parametrize

LANGUAGE_MODEL = {"finds_replaced": False, "discriminator_weight": 1.0}
HELP = {option.name: option.metadata["help"] for option in fields(ObjectiveOptions)}
LN2 = math.log(2)
LN3 = math.log(3)


@parametrize("dtype", [torch.float32, torch.bfloat16])
def test_generator_loss_and_gradient_are_those_of_cross_entropy(dtype):
    random = torch.Generator().manual_seed(0)
    logits = (5 * torch.randn(40, 300, generator=random)).to(dtype)
    originals = torch.arange(40)
    weights = torch.rand(40, generator=random)
    logits[:20].scatter_add_(1, originals[:20, None], torch.linspace(0, 40, 20)[:, None].to(dtype))  # some are certain
    exact = logits.double().requires_grad_()
    expected = F.cross_entropy(exact, originals, reduction="none")
    (expected * weights).sum().backward()
    for compiled in (False, True):
        inputs = logits.clone().requires_grad_()
        function = torch.compile(nll_and_probabilities, backend="eager") if compiled else nll_and_probabilities
        nll, probabilities = function(inputs, originals)
        (nll * weights).sum().backward()
        assert_close(nll.double(), expected.detach(), rtol=1e-5, atol=1e-5)
        assert_close(probabilities.double(), exact.detach().softmax(1), rtol=1e-5, atol=1e-7)
        assert not probabilities.requires_grad and inputs.grad is not None and exact.grad is not None
        rounding = torch.finfo(dtype).eps
        assert_close(inputs.grad.double(), exact.grad, rtol=rounding, atol=1e-6 if not compiled else 1e-5)


def test_the_discriminator_loss_is_the_binary_cross_entropy():
    logits = torch.tensor([[0.0, 0.0, LN3, LN3, -LN3, -LN3]])
    is_replaced = torch.tensor([[True, False, True, False, True, False]])
    expected = torch.tensor([[LN2, LN2, math.log(4 / 3), math.log(4), math.log(4), math.log(4 / 3)]])
    assert_close(discriminator_nll(logits, is_replaced), expected)


def test_losses_of_extreme_logits_are_finite():
    logits = torch.tensor([[1e4, -1e4]])
    assert discriminator_nll(logits, torch.tensor([[False, True]])).tolist() == [[1e4, 1e4]]
    assert discriminator_nll(logits, torch.tensor([[True, False]])).tolist() == [[0.0, 0.0]]
    assert generator_nll(logits, torch.tensor([1])).tolist() == [2e4]


def test_losses_of_half_precision_logits_are_computed_in_fp32():
    """Of the discriminator, and of the copy gate against the mixture in float64."""
    random = torch.Generator().manual_seed(0)
    logits = torch.randn(64, 30, generator=random).bfloat16()
    gate = torch.randn(64, generator=random).bfloat16()
    seen_ids = torch.arange(64) % 7
    originals = torch.arange(64) % 30
    is_replaced = originals.unsqueeze(1) % 2 == torch.arange(30) % 2
    probability = torch.sigmoid(logits.double())
    for nll, likelihood in (
        (discriminator_nll(logits, is_replaced), torch.where(is_replaced, probability, 1 - probability)),
        (
            copy_nll(logits, gate, seen_ids, originals),
            mixture(logits, gate, seen_ids).gather(1, originals[:, None]).squeeze(1),
        ),
    ):
        assert nll.dtype == torch.float32
        assert_close(nll.double(), -likelihood.log(), atol=1e-5, rtol=1e-5)  # half precision: off by 1e-2


def test_the_weighted_mean_is_over_what_has_weight():
    values = torch.tensor([[1.0, 2.0, 50.0], [6.0, 70.0, 80.0]], requires_grad=True)
    weights = torch.tensor([[1, 1, 0], [1, 0, 0]])
    assert weighted_mean(values, weights) == weighted_mean(values, weights.bool()) == 3.0
    assert weighted_mean(values, torch.ones(2, 3)).item() == approx(209 / 6)
    mean = weighted_mean(values, torch.zeros(2, 3, dtype=torch.bool))
    mean.backward()
    assert mean == 0.0 and values.grad is not None and not values.grad.any()


@parametrize("padding_logit", [0.0, 30.0, -1e6, 1e30])
def test_the_discriminator_gradient_is_the_error_at_real_tokens(padding_logit):
    attention_mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])  # [CLS] and [SEP] are real tokens like others
    logits = torch.randn(2, 5, generator=torch.Generator().manual_seed(0))
    logits = logits.where(attention_mask.bool(), padding_logit).requires_grad_()
    is_replaced = torch.tensor([[0, 1, 0, 1, 0], [0, 1, 0, 0, 0]]).bool()
    weighted_mean(discriminator_nll(logits, is_replaced), attention_mask).backward()
    expected = (torch.sigmoid(logits.detach()) - is_replaced.float()) / 8 * attention_mask
    assert_close(logits.grad, expected)


# ---- the copy gate of All-Tokens MLM


def mixture(logits, copy_logits, input_ids):
    """p(x) over the whole vocabulary as the paper writes it, in float64."""
    copies = torch.sigmoid(copy_logits.double()).unsqueeze(1)
    return copies * F.one_hot(input_ids, logits.size(1)) + (1 - copies) * logits.double().softmax(1)


@parametrize("size", [100.0, 1e4])
def test_extreme_gates_and_softmaxes_give_finite_gradients(size):
    gate = torch.tensor([size, size, -size, -size, -size], requires_grad=True)
    logits = torch.zeros(5, 2)
    logits[4, 1] = size
    logits.requires_grad_()
    seen_ids = torch.tensor([0, 0, 0, 0, 0])
    originals = torch.tensor([0, 1, 0, 1, 0])
    nll = copy_nll(logits, gate, seen_ids, originals)
    # The last: the gate says so by e^-size, and the softmax of a closed gate by e^-size: together twice that.
    assert_close(nll, torch.tensor([0.0, size + LN2, LN2, LN2, size - LN2]))
    nll.sum().backward()
    assert torch.isfinite(gate.grad).all() and torch.isfinite(logits.grad).all()


def test_the_most_likely_token_counts_what_is_copied_to_it():
    random = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(400, 7, generator=random)
    gate = torch.randn(400, generator=random) - 1
    seen_ids = torch.randint(7, (400,), generator=random)
    predicted = copy_prediction(logits, gate, seen_ids)
    assert torch.equal(predicted, mixture(logits, gate, seen_ids).argmax(1))
    # All cases occur: the softmax alone would be wrong, a token is copied by a closed gate, and one is not copied.
    is_open = gate > 0
    assert (predicted != logits.argmax(1)).any() and (predicted[~is_open] == seen_ids[~is_open]).any()
    assert (predicted != seen_ids).any()


DIFFERENCES = {
    "electra": {"has_known_rates": True},
    "electra_15": {"at_all_tokens": False},
    "mlm": {
        **LANGUAGE_MODEL,
        "has_generator": False,
        "at_all_tokens": False,
        "mlm_replacement_probability": 0.8,
        "mlm_random_probability": 0.1,
    },
    "replace_mlm": {**LANGUAGE_MODEL, "at_all_tokens": False},
    "all_tokens_mlm": LANGUAGE_MODEL,
    "two_stage": {"has_stages": True, "tie": "none", "discriminator_weight": 1.0},
    "adversarial": {"is_adversarial": True},
    "electric": {
        "at_all_tokens": False,
        "is_energy_based": True,
        "mlm_replacement_probability": 1.0,
    },
    "causal": {
        **LANGUAGE_MODEL,
        "has_generator": False,
        "at_all_tokens": False,
        "is_causal": True,
        "mlm_probability": 1.0,
        "mlm_replacement_probability": 0.0,
    },
}
"""Of each objective from: a discriminator at all tokens on samples, 15 % chosen, 85 % [MASK], lambda 50, shared
embeddings."""
USUAL = {
    "loss": "cross_entropy",
    "has_generator": True,
    "finds_replaced": True,
    "at_all_tokens": True,
    **dict.fromkeys(("has_known_rates", "has_stages", "is_adversarial", "draws_uniformly"), False),
    **dict.fromkeys(("is_energy_based", "is_causal", "init_from_generator", "disallow_correct"), False),
    "tie": "embeddings",
    "mlm_probability": 0.15,
    "mlm_replacement_probability": 0.85,
    "mlm_random_probability": 0.0,
    "discriminator_weight": 50.0,
    "generator_steps": 0,
    "temperature": 1.0,
}


def test_the_objectives_of_the_papers_have_their_values():
    assert {field.name: field.default for field in fields(Objective) if field.name in USUAL} == USUAL
    for name, differences in DIFFERENCES.items():
        values = vars(OBJECTIVES[name])
        assert {key: values[key] for key in USUAL if values[key] != USUAL[key]} == differences
    assert "all_tokens_mlm" in [name for name, objective in OBJECTIVES.items() if objective.has_copy_gate]


@parametrize("objective", OBJECTIVES)
def test_an_answer_is_a_probability_where_the_loss_is_least_at_the_share_of_replaced_tokens(objective):
    spec = OBJECTIVES[objective]
    replaced = torch.tensor([1, 3, 8])  # of ten tokens each, which have one logit
    is_replaced = (torch.arange(10) < replaced[:, None]).reshape(1, 30)

    def slopes(step):
        logits = (torch.logit(replaced / 10) + step).requires_grad_()
        losses = discriminator_loss(logits.repeat_interleave(10)[None], is_replaced, torch.zeros(1, 30).long(), spec)
        losses.sum().backward()
        return logits.grad

    is_least = bool((slopes(0.0).abs() < 1e-5).all() and (slopes(-0.1) < -1e-3).all() and (slopes(0.1) > 1e-3).all())
    assert spec.answers_probability == (is_least and spec.finds_replaced and not spec.is_energy_based)


def test_each_option_of_an_objective_has_a_value_and_a_name_of_its_own():
    """What a user may give is what an objective has; only a run has a gate."""
    names = {option.name for option in fields(ObjectiveOptions)} - {"objective", "generator_gate"}
    assert names == KEYS.keys() <= {field.name for field in fields(Objective)}
    assert len({*KEYS.values()}) == len(KEYS)
    for objective in OBJECTIVES.values():
        check_values(objective)
        assert f"{objective.name}: {objective.summary}" in HELP["objective"]


@parametrize("objective", OBJECTIVES)
def test_reports_and_cards_have_sentences_of_each_objective(objective):
    spec = OBJECTIVES[objective]
    sentences = [spec.meaning, spec.card]
    if spec.has_stages or spec.is_adversarial:  # the generator is not trained as in the paper
        sentences.append(spec.card_of_generator)
    assert all(re.fullmatch(r"[\w-].{20,}\.", sentence) for sentence in sentences)
    others = [other for name, other in OBJECTIVES.items() if name != objective]
    assert spec.summary not in [other.summary for other in others]


def test_help_names_the_objectives_with_other_values():
    for option, values in (
        ("mlm_replacement_probability", ("0.85", "0.8 with mlm", "1 with electric")),
        ("discriminator_weight", ("50", "1 with replace_mlm, all_tokens_mlm")),
    ):
        assert all(value in HELP[option] for value in values)


def test_a_uniform_generator_is_no_network_and_leaves_one_loss():
    assert objective_of("electra") is OBJECTIVES["electra"]
    uniform = objective_of("electra_15", uniform_generator=True)
    changes = {"has_generator": False, "draws_uniformly": True, "discriminator_weight": 1.0}
    assert uniform == replace(OBJECTIVES["electra_15"], **changes)
    assert uniform.sees_samples and OBJECTIVES["electra"].sees_samples and not OBJECTIVES["mlm"].sees_samples


def test_values_of_the_user_win_over_those_of_the_objective():
    objective = objective_of("mlm", mlm_random_probability=0.0, mlm_replacement_probability=None, temperature=2.0)
    values = (objective.mlm_random_probability, objective.mlm_replacement_probability, objective.temperature)
    assert values == (0.0, 0.8, 2.0)


# ---- adversarial training


def test_the_adversarial_loss_weighs_log_probabilities():
    logits = torch.tensor([[0.0, 0.0, 0.0, 0.0], [0.0, LN3, 0.0, 0.0]])
    rewards, baseline = torch.tensor([3.0, 0.5]), torch.tensor([0.0, LN3])  # b: log 2, log 4/3
    expected = torch.tensor([(3 - LN2) * 2 * LN2, (0.5 - math.log(4 / 3)) * LN2])
    assert_close(adversarial_nll(logits, torch.tensor([2, 1]), rewards, baseline), expected)


def test_the_baseline_loss_is_the_cross_entropy():
    nll = baseline_nll(torch.tensor([0.0, LN3, LN3, -LN3]), torch.tensor([1.7, LN2, 0.0, 0.0]))
    # sigmoid 1/2: log 2 whatever the reward; 3/4 against 1/2; 3/4 against 1; 1/4 against 1
    half = -(math.log(3 / 4) + math.log(1 / 4)) / 2
    assert_close(nll, torch.tensor([LN2, half, math.log(4 / 3), math.log(4)]))


def test_entropy_is_in_nats_and_finite():
    logits = torch.tensor([[0.0, 0.0, 0.0, 0.0], [0.0, LN3, -1e4, -1e4], [1e4, 0.0, 0.0, 0.0]])
    mixed = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    assert_close(entropy(logits), torch.tensor([2 * LN2, mixed, 0.0]))


# ---- Electric


def test_noise_contrastive_energies_become_log_probabilities():
    """The expected loss is convex in each energy, so its minimum is where the gradient is zero."""
    data = torch.tensor([0.6, 0.3, 0.08, 0.02])
    noise = torch.tensor([0.1, 0.2, 0.3, 0.4])

    def gradient(energies):
        energies.requires_grad_()
        logits = noise_logits(energies, noise.log())
        of_noise, of_data = (discriminator_nll(logits, torch.full((4,), label)) for label in (True, False))
        (NOISE_SHARE * noise * of_noise + (1 - NOISE_SHARE) * data * of_data).sum().backward()
        return energies.grad

    assert_close(gradient(-data.log()), torch.zeros(4), rtol=0, atol=1e-7)  # rounding of terms below one half
    for step in (-0.001, 0.001):  # not only up to a constant
        assert (gradient(step - data.log()) * step > 1e-9).all()
