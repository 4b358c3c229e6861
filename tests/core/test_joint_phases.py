"""Which network a step trains: what gets a gradient and what must not."""

import pytest
import torch
from torch.testing import assert_close

from electra.finetuning.heads import load_encoder
from electra.model.joint import ElectraForJointPretraining
from tests.conftest import make_number_tokenizer
from tests.core.helpers import VOCAB_SIZE, make_batch, make_model, run
from tests.helpers import parametrize


def trained(model, batch):
    """The output of a training step, and the gradients there are: a weight without one is missing, not zero."""
    model.train().zero_grad()
    output = run(model, batch)
    output.loss.backward()
    return output, {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def names_of(model, network):
    """The names of a network's weights, without those that another network owns."""
    return {name for name, _ in model.named_parameters() if name.startswith(network)}


# ---- stages


def test_the_first_stage_trains_the_generator_alone():
    model = make_model(objective="two_stage")
    batch = make_batch(30, 17)
    together, both = trained(model, batch)
    model.discriminator.register_forward_pre_hook(lambda *_: pytest.fail("the discriminator runs"))
    model.discriminator.electra.register_forward_pre_hook(lambda *_: pytest.fail("the discriminator runs"))
    alone, grads = trained(model, batch | {"train_discriminator": False})
    assert set(grads) == names_of(model, "generator")
    assert all(torch.equal(grad, both[name]) for name, grad in grads.items())
    assert torch.equal(alone.loss, together.generator_loss) and torch.equal(alone.loss, alone.generator_loss)
    assert alone.main_loss is alone.sampled_ids is alone.is_replaced is None


def test_the_second_stage_trains_the_discriminator_alone():
    model = make_model(objective="two_stage", discriminator_weight=1.0)
    batch = make_batch(30, 17)
    together, both = trained(model, batch)
    with_graph = []  # kept for a backward pass that would never come
    model.generator.electra.register_forward_hook(
        lambda module, args, output: with_graph.append(output.last_hidden_state.requires_grad)
    )
    alone, grads = trained(model, batch | {"train_generator": False})
    assert with_graph == [False]
    assert set(grads) == names_of(model, "discriminator")
    assert "discriminator.electra.embeddings.word_embeddings.weight" in grads
    assert all(torch.equal(grad, both[name]) for name, grad in grads.items())
    assert torch.equal(alone.generator_loss, together.generator_loss)
    assert torch.equal(alone.loss, alone.main_loss) and alone.loss == together.main_loss


def test_in_evaluation_both_networks_always_answer():
    model = make_model(objective="two_stage", discriminator_weight=3.0).eval()
    batch = make_batch(30, 17)
    expected = run(model, batch)
    assert_close(expected.loss, expected.generator_loss + 3 * expected.main_loss)
    for phase in ({"train_discriminator": False}, {"train_generator": False}):
        output = run(model, batch | phase)
        assert torch.equal(output.loss, expected.loss)
        assert torch.equal(output.main_nll, expected.main_nll)


def test_an_evaluation_without_gradients_keeps_no_graph():
    model = make_model().eval()
    batch = make_batch(30, 17)
    with_graph = []
    for network in (model.generator, model.discriminator):
        network.electra.register_forward_hook(
            lambda module, args, output: with_graph.append(output.last_hidden_state.requires_grad)
        )
    with torch.no_grad():
        run(model, batch)
    assert with_graph == [False, False]


def test_the_networks_of_two_stages_share_nothing(tmp_path):
    model = make_model(objective="two_stage")
    model.save_pretrained(tmp_path)
    loaded = ElectraForJointPretraining.from_pretrained(tmp_path)
    of_generator, of_discriminator = (
        network.electra.embeddings.word_embeddings.weight for network in (loaded.generator, loaded.discriminator)
    )
    assert not torch.equal(of_generator, of_discriminator) and of_generator.data_ptr() != of_discriminator.data_ptr()
    assert loaded.generator.generator_lm_head.weight is of_generator
    make_number_tokenizer(VOCAB_SIZE).save_pretrained(tmp_path)
    encoder = load_encoder(str(tmp_path)).model
    assert torch.equal(encoder.embeddings.word_embeddings.weight, of_discriminator)


# ---- the gate


@parametrize("objective", ["electra", "electra_15", "replace_mlm", "all_tokens_mlm"])
def test_behind_a_closed_gate_only_shared_weights_learn(objective):
    model = make_model(objective=objective, discriminator_weight=7.0)
    batch = make_batch(30, 17)
    opened, both = trained(model, batch)
    closed, grads = trained(model, batch | {"train_generator": False})
    shared = {name for name in names_of(model, "generator") if ".electra.embeddings." in name}
    assert set(grads) == shared | names_of(model, "discriminator") | names_of(model, "copy_gate")
    assert torch.equal(closed.sampled_ids, opened.sampled_ids)
    assert_close(closed.loss, 7 * closed.main_loss)
    assert torch.equal(closed.generator_loss, opened.generator_loss)
    for name in grads.keys() - shared:
        assert_close(grads[name], both[name])
    word_table = "generator.electra.embeddings.word_embeddings.weight"
    assert grads[word_table].abs().sum() > 0 and not torch.allclose(grads[word_table], both[word_table])


def test_a_frozen_generator_hides_no_shared_weight_from_autocast():
    """A weight that autocast cast without gradient, and kept, would get none where the other network uses it."""
    model = make_model(objective="replace_mlm")
    batch = make_batch(30, 17)
    batch |= {"train_generator": False}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        _, cached = trained(model, batch)
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        _, expected = trained(model, batch)
    assert cached.keys() == expected.keys()
    for name, grad in cached.items():
        assert_close(grad, expected[name])
