"""Which network a step trains: what gets a gradient and what must not; adversarial and uniform generators."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from electra.finetuning.encoder import load_encoder
from electra.model.joint import ElectraForJointPretraining
from tests.model.helpers import VOCAB_SIZE, Make, MakeBatch, plain_networks, run, untie_networks


def trained(model: ElectraForJointPretraining, batch: dict[str, Tensor]) -> tuple[Any, dict[str, Tensor]]:
    """The output of a training step, and the gradients there are: a weight without one is missing, not zero."""
    model.train().zero_grad()
    output = run(model, batch)
    output.loss.backward()
    return output, {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def names_of(model: ElectraForJointPretraining, network: str) -> set[str]:
    return {name for name, _ in model.named_parameters() if name.startswith(network)}


# ---- stages


def test_the_first_stage_trains_the_generator_alone_and_leaves_the_discriminator_out(
    make_model: Make, make_batch: MakeBatch
) -> None:
    model, batch = make_model(objective="two_stage"), make_batch(30, 17)
    together, both = trained(model, batch)
    model.train_discriminator = False
    model.discriminator.register_forward_pre_hook(lambda *_: pytest.fail("the discriminator runs"))
    model.discriminator.electra.register_forward_pre_hook(lambda *_: pytest.fail("the discriminator runs"))
    alone, grads = trained(model, batch)
    assert set(grads) == names_of(model, "generator")
    assert all(torch.equal(grad, both[name]) for name, grad in grads.items())
    assert torch.equal(alone.loss, together.generator_loss) and torch.equal(alone.loss, alone.generator_loss)
    assert alone.main_loss is alone.sampled_ids is alone.is_replaced is None


def test_the_second_stage_trains_the_discriminator_alone(make_model: Make, make_batch: MakeBatch) -> None:
    model, batch = make_model(objective="two_stage", discriminator_weight=1.0), make_batch(30, 17)
    together, both = trained(model, batch)
    model.train_generator = False
    assert model.generator is not None
    kept: list[bool] = []  # for a backward pass that never comes
    model.generator.electra.register_forward_hook(lambda *a: kept.append(a[2].last_hidden_state.requires_grad))
    alone, grads = trained(model, batch)
    assert kept == [False]
    assert set(grads) == names_of(model, "discriminator")
    assert "discriminator.electra.embeddings.word_embeddings.weight" in grads
    assert all(torch.equal(grad, both[name]) for name, grad in grads.items())
    assert torch.equal(alone.generator_loss, together.generator_loss)
    assert torch.equal(alone.loss, alone.main_loss) and alone.loss == together.main_loss


def test_in_evaluation_both_networks_always_answer(make_model: Make, make_batch: MakeBatch) -> None:
    model, batch = make_model(objective="two_stage", discriminator_weight=3.0).eval(), make_batch(30, 17)
    expected = run(model, batch)
    model.train_discriminator, model.discriminator_weight = False, 0.5
    first = run(model, batch)
    model.train_generator, model.train_discriminator = False, True
    for output in (first, run(model, batch)):
        assert torch.equal(output.loss, expected.loss)
        assert torch.equal(output.main_nll, expected.main_nll)
    torch.testing.assert_close(expected.loss, expected.generator_loss + 3 * expected.main_loss)


def test_the_networks_of_two_stages_share_nothing_and_both_are_saved(make_model: Make, tmp_path: Any) -> None:
    model = make_model(objective="two_stage")
    model.save_pretrained(tmp_path)
    loaded, report = ElectraForJointPretraining.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    tables = [
        network.electra.embeddings.word_embeddings.weight for network in (loaded.generator, loaded.discriminator)
    ]
    assert not torch.equal(*tables) and tables[0].data_ptr() != tables[1].data_ptr()
    assert loaded.generator.generator_lm_head.weight is tables[0]
    for name, value in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], value)
    # What is fine-tuned is the discriminator's encoder, its own embeddings included.
    encoder = load_encoder(str(_with_tokenizer(tmp_path))).model
    assert torch.equal(
        encoder.embeddings.word_embeddings.weight, model.discriminator.electra.embeddings.word_embeddings.weight
    )


def _with_tokenizer(folder: Any) -> Any:
    from transformers import BertTokenizer

    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(VOCAB_SIZE - 5))]
    BertTokenizer(vocab={token: i for i, token in enumerate(vocabulary)}).save_pretrained(folder)
    return folder


# ---- the gate and the ramp


@pytest.mark.parametrize("objective", ["electra", "electra_15", "replace_mlm", "all_tokens_mlm"])
def test_behind_a_closed_gate_the_generator_gets_no_gradient_but_what_is_shared_gets_the_discriminators(
    make_model: Make, make_batch: MakeBatch, objective: str
) -> None:
    model, batch = make_model(objective=objective, discriminator_weight=7.0), make_batch(30, 17)
    opened, both = trained(model, batch)
    model.train_generator = False
    closed, grads = trained(model, batch)
    shared = {name for name in names_of(model, "generator") if ".electra.embeddings." in name}
    assert set(grads) == shared | names_of(model, "discriminator") | names_of(model, "copy_gate")
    assert torch.equal(closed.sampled_ids, opened.sampled_ids)
    torch.testing.assert_close(closed.loss, 7 * closed.main_loss)
    assert torch.equal(closed.generator_loss, opened.generator_loss)
    for name, grad in grads.items():
        torch.testing.assert_close(grad, both[name]) if name not in shared else None
    word_table = "generator.electra.embeddings.word_embeddings.weight"
    assert grads[word_table].abs().sum() > 0 and not torch.allclose(grads[word_table], both[word_table])


def test_a_frozen_generator_hides_no_shared_weight_from_autocast(make_model: Make, make_batch: MakeBatch) -> None:
    """A weight that autocast cast without gradient, and kept, would get none where the other network uses it."""
    model, batch = make_model(objective="replace_mlm"), make_batch(30, 17)
    model.train_generator = False
    with torch.autocast("cpu", dtype=torch.bfloat16):
        _, cached = trained(model, batch)
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        _, expected = trained(model, batch)
    assert cached.keys() == expected.keys()
    for name, grad in cached.items():
        torch.testing.assert_close(grad, expected[name])


def test_the_weight_of_a_training_step_is_the_attributes(make_model: Make, make_batch: MakeBatch) -> None:
    model, batch = make_model(discriminator_weight=8.0), make_batch(30, 17)
    assert model.discriminator_weight == 8.0
    model.discriminator_weight = 2.0
    output, _ = trained(model, batch)
    torch.testing.assert_close(output.loss, output.generator_loss + 2 * output.main_loss)
    output = run(model.eval(), batch)
    torch.testing.assert_close(output.loss, output.generator_loss + 8 * output.main_loss)


# ---- the adversarial generator


def test_an_adversarial_generator_follows_reinforce_and_nothing_else(make_model: Make, make_batch: MakeBatch) -> None:
    """Every gradient against losses written out over two plain networks: the sum of three that share nothing."""
    model = make_model(objective="adversarial", mlm_probability=0.3, discriminator_weight=5.0).eval()
    untie_networks(model)
    batch = make_batch(30, 17, 4)
    output = run(model, batch)
    output.loss.backward()
    generator, discriminator = plain_networks(model)
    inputs = batch["attention_mask"], batch["token_type_ids"]
    is_chosen, positions = output.mlm_mask, output.mlm_positions
    assert not is_chosen.all()

    # What the generator saw is the original but for [MASK].
    shown = batch["input_ids"].gather(1, positions).masked_fill(output.is_mask_token, 4)
    hidden = generator.electra(batch["input_ids"].scatter(1, positions, shown), *inputs).last_hidden_state
    log_p = generator.generator_lm_head(generator.generator_predictions(hidden)).log_softmax(dim=2)
    real = batch["attention_mask"].bool()
    logits = discriminator(output.corrupted_input_ids, *inputs).logits
    nll = F.binary_cross_entropy_with_logits(logits, output.is_replaced.float(), reduction="none")
    policy, baseline, entropies = [], [], []
    weight = model.baseline.weight.detach().clone().requires_grad_()
    for row, slot in is_chosen.nonzero().tolist():
        position = int(positions[row, slot])
        reward = nll[row, position].detach()
        score = hidden[row, position].detach() @ weight[0]
        advantage = reward + F.logsigmoid(score.detach())
        policy.append(-log_p[row, position, output.sampled_ids[row, slot]] * advantage)
        right = torch.exp(-reward)
        baseline.append(-right * F.logsigmoid(score) - (1 - right) * F.logsigmoid(-score))
        entropies.append(-(log_p[row, position].exp() * log_p[row, position]).sum())
    losses = torch.stack(policy).mean(), torch.stack(baseline).mean(), 5 * nll[real].mean()
    torch.testing.assert_close(output.adversarial_loss, losses[0].detach())
    torch.testing.assert_close(output.baseline_loss, losses[1].detach())
    torch.testing.assert_close(output.loss.detach(), sum(loss.detach() for loss in losses))
    torch.testing.assert_close(output.generator_entropy[is_chosen], torch.stack(entropies).detach())
    for loss in losses:
        loss.backward()
    torch.testing.assert_close(model.baseline.weight.grad, weight.grad, atol=1e-6, rtol=1e-4)
    for network, plain in ((model.generator, generator), (model.discriminator, discriminator)):
        expected = dict(plain.named_parameters())
        for name, parameter in network.named_parameters():
            assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name
            torch.testing.assert_close(parameter.grad, expected[name].grad, atol=1e-5, rtol=1e-4)


def test_training_an_adversarial_generator_makes_its_samples_harder_to_judge(
    make_model: Make, make_batch: MakeBatch
) -> None:
    """Against a discriminator that stands still: the sign of the gradient, end to end."""
    torch.manual_seed(0)
    model, batch = make_model(objective="adversarial", mlm_probability=0.3).eval(), make_batch(30, 30, 30, 30)
    untie_networks(model)
    trained_weights = [*model.generator.parameters(), *model.baseline.parameters()]
    optimizer = torch.optim.Adam(trained_weights, lr=5e-3)

    def reward(draws: int = 40) -> float:
        with torch.no_grad():
            outputs = [model(**batch) for _ in range(draws)]
        return float(torch.stack([o.main_nll.gather(1, o.mlm_positions).mean() for o in outputs]).mean())

    before = reward()
    for _ in range(60):
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()
    assert reward() > before + 0.1


def test_the_baseline_is_in_checkpoints_and_is_no_part_of_a_network(make_model: Make, tmp_path: Any) -> None:
    model: Any = make_model(objective="adversarial")
    assert model.baseline.weight.shape == (1, 16) and model.baseline.bias is None
    model.save_pretrained(tmp_path)
    loaded = ElectraForJointPretraining.from_pretrained(tmp_path)
    assert torch.equal(loaded.baseline.weight, model.baseline.weight)
    assert make_model().baseline is None


# ---- no generator network


@pytest.mark.parametrize("objective", ["electra", "electra_15", "replace_mlm", "all_tokens_mlm"])
def test_a_uniform_generator_is_none_and_its_samples_are_any_token(
    make_model: Make, make_batch: MakeBatch, objective: str
) -> None:
    model = make_model(objective=objective, uniform_generator=True, mlm_probability=0.5)
    assert model.generator is None and model.config.generator is None
    batch = make_batch(*[33] * 40)
    output, grads = trained(model, batch)
    assert set(grads) == names_of(model, "discriminator") | names_of(model, "copy_gate")
    assert output.generator_loss is output.generator_nll is output.predicted_ids is None
    assert torch.equal(output.loss, output.main_loss) or torch.equal(output.loss.detach(), output.main_loss)
    sampled = output.sampled_ids[output.mlm_mask]
    assert set(sampled.tolist()) == set(range(VOCAB_SIZE))  # special tokens too
    seen = output.corrupted_input_ids.gather(1, output.mlm_positions)
    assert torch.equal(seen[output.mlm_mask], sampled)
    assert torch.equal(output.is_replaced, output.corrupted_input_ids != batch["input_ids"])
    is_chosen = torch.zeros_like(output.is_replaced).scatter(1, output.mlm_positions, output.mlm_mask)
    assert not (output.is_replaced & ~is_chosen).any()


def test_a_uniform_draw_is_repeatable_from_the_noise_of_its_position(make_model: Make, make_batch: MakeBatch) -> None:
    model, batch = make_model(uniform_generator=True).eval(), make_batch(33, 20)
    noise = torch.rand(2, 33, generator=torch.Generator().manual_seed(1))
    state = torch.get_rng_state()
    output = model(**batch, sample_noise=noise)
    assert torch.equal(torch.get_rng_state(), state)
    expected = (noise.gather(1, output.mlm_positions) * VOCAB_SIZE).long()
    assert torch.equal(output.sampled_ids, expected)
