"""Losses of every objective, and their gradients, against a computation written out over copies of the networks.

The model computes its head at the masked positions only, with tuned kernels; the copies are transformers' own.
"""

import copy

import torch
import torch.nn.functional as F
from torch.testing import assert_close

from electra.core import ablations, losses
from electra.core.corruption import sample_tokens
from electra.core.objectives import OBJECTIVES, objective_of
from electra.runtime.device import tune_for_cpu
from tests.core.helpers import (
    ALWAYS_LIKELIEST,
    JUDGES,
    MASK,
    MAY_DRAW_UNIFORMLY,
    VOCAB_SIZE,
    make_batch,
    make_model,
    objectives,
)
from tests.helpers import parametrize

LENGTHS = (30, 17, 4, 33)
DISCRIMINATOR_LOSSES = {
    "cross_entropy": lambda logits, labels, is_real, config: F.binary_cross_entropy_with_logits(
        logits, labels, reduction="none"
    )
}
"""Plain computations of the losses of a discriminator, by the name that an objective gives; a row has one text."""
CASES = [
    *((objective, {}) for objective in OBJECTIVES if objective != "mlm"),
    ("mlm", {"mlm_random_probability": 0.1}),
    ("electra", {"disallow_correct": True, "sampling_temperature": 0.5}),
    ("electra", {"sampling_temperature": 0.5}),
    *((objective, {"uniform_generator": True}) for objective in MAY_DRAW_UNIFORMLY),
]


def noisy_batch(*lengths):
    """A batch of rows of these lengths, with fixed noise for masks and samples."""
    batch = make_batch(*lengths)
    sample_noise = torch.rand(batch["input_ids"].shape, generator=torch.Generator().manual_seed(1))
    return {**batch, "sample_noise": sample_noise}


def of_generator(network, batch, output, config, cells):
    """The generator's fields; log p (N, V) and hidden states (N, width) at the masked positions."""
    ids = batch["input_ids"]
    originals = ids[cells]
    masked = ids.index_put(cells, originals.masked_fill(output.is_mask_token[output.mlm_mask], MASK))
    answer = network(masked, batch["attention_mask"], batch["token_type_ids"], output_hidden_states=True)
    logits = answer.logits[cells]
    log_p = logits.log_softmax(1)
    nll = F.nll_loss(log_p, originals, reduction="none")
    fields = {"generator_nll": nll, "generator_loss": nll.mean(), "predicted_ids": logits.argmax(1)}
    fields["sampled_ids"] = sample_tokens(
        logits,
        batch["sample_noise"][cells],
        temperature=config.sampling_temperature,
        disallowed_ids=originals if config.disallow_correct else None,
    )
    return fields, log_p, answer.hidden_states[-1][cells]


def of_main_network(network, ids, attention_mask, token_type_ids, is_causal):
    """The network's output with its hidden states; causal logits predict each token from those before it."""
    if is_causal:
        earlier = torch.ones(ids.size(1), ids.size(1)).tril()
        attention_mask = (attention_mask[:, None, None] * earlier).log()
    answer = network(ids, attention_mask, token_type_ids, output_hidden_states=True)
    if is_causal:
        answer.logits = answer.logits.roll(1, dims=1)
    return answer


def of_language_model(answer, copy_gate, ids, corrupted_ids):
    """The probabilities (B, L, V), the loss of each token (B, L), and the copy gate's logits (B, L, 1) or None."""
    probabilities = answer.logits.softmax(2)
    gate = None
    if copy_gate is not None:
        gate = copy_gate(answer.hidden_states[-1])
        copied = F.one_hot(corrupted_ids, VOCAB_SIZE)
        probabilities = gate.sigmoid() * copied + (1 - gate.sigmoid()) * probabilities
    return probabilities, -probabilities.gather(2, ids.unsqueeze(2)).squeeze(2).log(), gate


def written_out(copies, batch, output, config):
    """Fields of the output, from logits over the vocabulary at all positions and from what the output says is masked.

    Fields of masked positions have one value for each of them, (N,); `at_masked` selects the output's.
    """
    ids = batch["input_ids"]
    inputs = (batch["attention_mask"], batch["token_type_ids"])
    rows, _ = output.mlm_mask.nonzero(as_tuple=True)
    cells = rows, output.mlm_positions[output.mlm_mask]
    objective = objective_of(config.objective, config.uniform_generator)
    fields = {}
    if objective.has_generator:
        fields, log_p, hidden = of_generator(copies["generator"], batch, output, config, cells)
    elif objective.draws_uniformly:
        fields["sampled_ids"] = (batch["sample_noise"][cells] * VOCAB_SIZE).long()
    corrupted_ids = output.corrupted_input_ids
    if objective.sees_samples:
        is_noise = torch.ones_like(ids[cells], dtype=torch.bool)
        if objective.is_energy_based:
            is_noise = batch["mask_noise"][..., 1][cells] < 0.5
        drawn = torch.where(is_noise, fields["sampled_ids"], ids[cells])
        corrupted_ids = fields["corrupted_input_ids"] = ids.index_put(cells, drawn)
        fields["is_replaced"] = corrupted_ids != ids
        if objective.is_energy_based:
            fields["is_replaced"] = torch.zeros_like(ids, dtype=torch.bool).index_put(cells, is_noise)
    answer = of_main_network(copies["discriminator"], corrupted_ids, *inputs, objective.is_causal)
    if objective.finds_replaced:
        logits = answer.logits
        if objective.is_energy_based:  # k = 1/2
            log_q = log_p.detach().gather(1, drawn.unsqueeze(1)).squeeze(1)
            logits = logits.index_put(cells, logits[cells] + log_q)
        fields["discriminator_logits"] = logits if objective.at_all_tokens else logits[cells]
        is_real = batch["attention_mask"].bool()
        nll = DISCRIMINATOR_LOSSES[objective.loss](logits, fields["is_replaced"].float(), is_real, config)
    else:
        probabilities, nll, gate = of_language_model(answer, copies.get("copy_gate"), ids, corrupted_ids)
        likeliest = probabilities.argmax(2)
        fields["mlm_predictions"] = likeliest if objective.at_all_tokens else likeliest[cells]
        if objective.has_copy_gate:
            fields["discriminator_logits"] = -gate.squeeze(2)
    counted = batch["attention_mask"].bool() if objective.at_all_tokens else cells
    fields["main_loss"] = fields["loss"] = nll[counted].mean()
    if objective.has_generator:
        generator_loss = fields["generator_loss"]
        if objective.is_adversarial:
            fields |= of_adversary(copies["baseline"], hidden, log_p, fields["sampled_ids"], nll[cells].detach())
            generator_loss = fields["adversarial_loss"] + fields["baseline_loss"]
        fields["loss"] = generator_loss + config.discriminator_weight * fields["main_loss"]
    return fields


def of_adversary(baseline, hidden, log_p, sampled, reward):
    """The fields of a generator that is trained by reinforcement; the reward is the discriminator's loss."""
    score = baseline(hidden.detach()).squeeze(1)
    right = torch.exp(-reward)
    advantage = reward + F.logsigmoid(score.detach())
    return {
        "adversarial_loss": F.nll_loss(log_p * advantage[:, None], sampled),
        "baseline_loss": (-right * F.logsigmoid(score) - (1 - right) * F.logsigmoid(-score)).mean(),
        "generator_entropy": -(log_p.exp() * log_p).sum(1),
    }


def at_masked(output, values):
    """The values (B, L) or (B, K) at the masked positions, (N,)."""
    is_of_tokens = values.shape == output.corrupted_input_ids.shape
    return (values.gather(1, output.mlm_positions) if is_of_tokens else values)[output.mlm_mask]


def test_each_loss_of_a_discriminator_is_trained_and_written_out():
    trained = {objective.loss for objective in OBJECTIVES.values() if objective.finds_replaced}
    assert trained == losses.DISCRIMINATOR_LOSSES.keys() == DISCRIMINATOR_LOSSES.keys()


@parametrize("training", [False, True])
@parametrize(("objective", "options"), CASES)
def test_losses_and_gradients_are_those_written_out(objective, options, training, monkeypatch):
    """Copies share nothing: equal gradients mean that shared weights get the sum, and that no other gradient flows."""
    monkeypatch.setattr(ablations, "HEAD_POSITIONS", 7)  # many blocks, of which the last is not full
    shares = {"mlm_probability": 0.3, "discriminator_weight": 3.0}
    model = make_model(dropout=0.0, objective=objective, **shares, **options).train(training)
    copies = {role: copy.deepcopy(module) for role, module in model.named_children()}
    tune_for_cpu(model)
    batch = noisy_batch(*LENGTHS)
    output = model(**batch)
    output.loss.backward()
    assert output.mlm_mask.sum(dim=1).tolist() == [round(0.3 * length) for length in LENGTHS]
    expected = written_out(copies, batch, output, model.config)
    for name, expected_value in expected.items():
        value = getattr(output, name)
        if training and name in ("predicted_ids", "mlm_predictions"):
            assert value is None
        else:
            assert name == "loss" or not value.requires_grad
            if expected_value.dim() < value.dim():
                value = at_masked(output, value)
            assert_close(value, expected_value, atol=1e-5, rtol=1e-5, msg=lambda text, name=name: f"{name}: {text}")

    expected["loss"].backward()
    gradients = {}
    for role, network in copies.items():
        for name, parameter in network.named_parameters():
            weight = model.get_parameter(f"{role}.{name}")
            grad = parameter.grad
            gradients[weight] = gradients.get(weight, 0.0) + (torch.zeros_like(weight) if grad is None else grad)
    for name, parameter in model.named_parameters():
        grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        assert_close(grad, gradients[parameter], atol=1e-5, rtol=1e-4, msg=name)
        # softmax is blind to a key's bias, and a loss of differences of logits to the bias of the last layer
        blind = ["attention.self.key.bias"] + ["dense_prediction.bias"] * (not OBJECTIVES[objective].has_threshold)
        assert grad.any() or any(part in name for part in blind)


@objectives
def test_losses_of_parts_of_a_batch_are_means_over_all_its_tokens(objective):
    model = make_model(objective=objective, mlm_probability=0.3).eval()
    batch = noisy_batch(30, 12, 9, 25, 6, 11)
    whole = model(**batch)
    whole.loss.backward()
    expected = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    parts = [{name: values[rows] for name, values in batch.items()} for rows in ([0], [1, 2], [3, 4, 5])]
    counts = torch.stack([model.count_tokens(part["input_ids"], part["attention_mask"]) for part in parts])
    assert torch.equal(counts.sum(dim=0), model.count_tokens(batch["input_ids"], batch["attention_mask"]))
    assert counts.sum(dim=0).tolist() == [whole.mlm_mask.sum(), batch["attention_mask"].sum()]
    outputs = [model(**part, token_counts=counts.sum(dim=0) / 3) for part in parts]
    assert torch.equal(model(**parts[0], token_counts=counts[0] / 1).loss, model(**parts[0]).loss)  # the same bits
    sum(output.loss / 3 for output in outputs).backward()
    for name in ("loss", "generator_loss", "main_loss", "adversarial_loss", "baseline_loss"):
        if whole.get(name) is not None:
            assert_close(sum(output[name] for output in outputs) / 3, whole[name])
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    assert_close(gradients, expected, rtol=1e-4, atol=1e-5)


@objectives
def test_a_row_has_the_same_losses_alone_and_padded_in_a_batch(objective):
    model = make_model(objective=objective, mlm_probability=0.3, sampling_temperature=ALWAYS_LIKELIEST)
    model = model.to(torch.float64).eval()
    batch = noisy_batch(*LENGTHS)
    is_padding = batch["attention_mask"] == 0
    batch["mask_noise"][is_padding] = 0.0  # would be chosen if it counted
    batch["token_type_ids"][is_padding] = 1
    together = model(**batch)
    at_masked_alone = []
    for row, length in enumerate(LENGTHS):
        alone = model(**{name: values[row : row + 1, :length] for name, values in batch.items()})
        assert torch.equal(alone.corrupted_input_ids[0], together.corrupted_input_ids[row, :length])
        at_masked_alone.append(at_masked(alone, alone.main_nll))
        if OBJECTIVES[objective].at_all_tokens:
            assert_close(alone.main_nll[0], together.main_nll[row, :length])
    assert_close(torch.cat(at_masked_alone), at_masked(together, together.main_nll))
    without = model(**{**batch, "attention_mask": None})
    ones = model(**{**batch, "attention_mask": torch.ones_like(batch["input_ids"])})
    assert without.loss == ones.loss != together.loss


@objectives
def test_losses_are_fp32_and_finite_in_bf16_and_in_autocast(objective):
    exact = make_model(objective=objective, sampling_temperature=ALWAYS_LIKELIEST).train()
    for model in (copy.deepcopy(exact).to(torch.bfloat16), exact):
        with torch.autocast("cpu", torch.bfloat16, enabled=model is exact):
            output = model(**noisy_batch(*LENGTHS))
            special = model(torch.tensor([[2, 3], [2, 3]]))  # nothing can be masked
        losses = [value for name, value in output.items() if name.endswith(("loss", "_nll"))]
        assert len(losses) >= 3 and {value.dtype for value in losses} == {torch.float32}
        (output.loss + special.loss).backward()
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        assert torch.isfinite(special.loss) and all(torch.isfinite(grad).all() for grad in grads)


@parametrize("objective", JUDGES)
def test_a_text_that_was_corrupted_before_is_judged_as_in_its_step(objective):
    model = make_model(objective=objective, mlm_probability=0.3).eval()
    batch = make_batch(*LENGTHS)
    step = model(**batch)
    del batch["mask_noise"]
    judged = model(**batch, corrupted_input_ids=step.corrupted_input_ids)
    for name in ("corrupted_input_ids", "is_replaced", "discriminator_logits", "main_nll"):
        assert torch.equal(judged[name], step[name]), name
    assert_close(judged.loss, step.main_nll[batch["attention_mask"].bool()].mean())
    assert judged.mlm_positions.shape == judged.mlm_mask.shape == (4, 0)  # no other metric has a token to count


def test_a_loss_is_told_the_text_of_each_token_of_a_row(monkeypatch):
    """Texts are numbered in their row, and padding behind them has the next number; without lengths all have 0."""

    def number(logits, is_replaced, text_numbers, objective):
        return logits * 0 + text_numbers

    monkeypatch.setitem(losses.DISCRIMINATOR_LOSSES, "cross_entropy", number)
    model = make_model().eval()
    batch = make_batch(6, 4)
    before = {"corrupted_input_ids": batch["input_ids"]}
    lengths = {"segment_lengths": torch.tensor([[2, 4], [4, 0]])}
    for inputs in (batch, {**batch, **before}):
        assert model(**inputs).main_nll.tolist() == [[0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1]]
    assert model(**batch, **lengths).main_nll.tolist() == [[0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 2, 2]]


def test_logits_of_all_positions_are_not_kept_for_the_backward_pass(monkeypatch):
    monkeypatch.setattr(ablations, "HEAD_POSITIONS", 7)
    model = make_model(objective="all_tokens_mlm").train()
    kept_shapes = []

    def keep(tensor):
        kept_shapes.append(tuple(tensor.shape))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = model(**make_batch(33, 33))
    assert (output.mlm_positions.numel(), VOCAB_SIZE) in kept_shapes  # the generator's
    assert (7, VOCAB_SIZE) not in kept_shapes
