"""The --tie modes by gradients and by storage: after a move, saving, loading, copying."""

import copy

import torch
from pytest import raises
from torch.testing import assert_close

from electra.core.errors import UserError
from electra.core.tying import DisentangledEmbedding, encoder_weights, load_plain_state, plain_state
from electra.model.joint import ElectraForJointPretraining
from electra.pretraining.plan import parameter_counts
from tests.core.helpers import joint_model
from tests.helpers import parametrize

WORD = "embeddings.word_embeddings.weight"
OTHERS = ("embeddings.position_embeddings.weight", "embeddings.token_type_embeddings.weight")
NORM = ("embeddings.LayerNorm.weight", "embeddings.LayerNorm.bias")
SHARED = {"none": set(), "word": {WORD}, "embeddings": {WORD, *OTHERS, *NORM}, "gdes": set()}
"""Of ELECTRA, by the mode; of the mode `all` it is the whole encoder."""


def shared_names(model):
    """Weights of the encoders that are one tensor in both networks, by name and by storage alike."""
    ours = encoder_weights(model.generator)
    theirs = encoder_weights(model.discriminator)
    in_both = ours.keys() & theirs.keys()
    names = {name for name in in_both if ours[name] is theirs[name]}
    assert names == {name for name in in_both if ours[name].data_ptr() == theirs[name].data_ptr()}
    return names


# Ways in which a model may come to be used: functions of a model and a folder that return the model.


def _moved(model, folder):
    return model.to(torch.float64).to(torch.float32)


def _loaded(model, folder):
    model.save_pretrained(folder)
    return ElectraForJointPretraining.from_pretrained(folder)


def _resumed(model, folder):
    fresh = ElectraForJointPretraining(model.config)
    fresh.load_state_dict(model.state_dict())
    return fresh


def _copied(model, folder):
    return copy.deepcopy(model)


@parametrize("way", [_moved, _loaded, _resumed, _copied])
@parametrize("tie", ["none", "word", "embeddings", "all", "gdes"])
@parametrize("model_type", ["electra", "bert", "albert"])
def test_what_is_shared_is_one_tensor_and_stays_so(model_type, tie, way, tmp_path):
    model = joint_model(model_type, tie=tie)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model = way(model, tmp_path)
    expected = SHARED.get(tie, set(encoder_weights(model.discriminator)))
    assert shared_names(model) == expected
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    # The LM head is the word table of its own network in every mode.
    assert model.generator.get_output_embeddings().weight is model.generator.get_input_embeddings().weight


@parametrize("tie", ["none", "word", "embeddings", "all", "gdes"])
def test_the_discriminator_s_gradient_reaches_shared_weights(tie, batch):
    """The generator's loss is left out: what remains in its weights comes from the discriminator."""
    model = joint_model("electra", tie=tie)
    model.train()
    model(**batch, train_generator=False).loss.backward()
    reached = {name for name, p in encoder_weights(model.generator).items() if p.grad is not None}
    assert reached == SHARED.get(tie, set(encoder_weights(model.generator)))


def test_disentangled_embeddings_are_the_generator_s_and_a_difference_that_learns():
    model = joint_model("electra", tie="gdes")
    table = model.discriminator.electra.embeddings.word_embeddings
    shared = model.generator.electra.embeddings.word_embeddings
    assert isinstance(table, DisentangledEmbedding) and not table.weight.any()
    with torch.no_grad():
        table.weight.normal_()
    ids = torch.tensor([[7, 9, 7]])
    assert_close(table(ids), (shared.weight + table.weight)[ids])
    table(ids).sum().backward()
    assert shared.weight.grad is None
    assert table.weight.grad[7].tolist() == [2.0] * 16 and table.weight.grad[9].tolist() == [1.0] * 16
    positions = model.discriminator.electra.embeddings.position_embeddings
    assert isinstance(positions, DisentangledEmbedding)
    assert not isinstance(model.discriminator.electra.embeddings.token_type_embeddings, DisentangledEmbedding)


def test_a_disentangled_discriminator_takes_a_loaded_table():
    model = joint_model("electra", tie="gdes")
    trained = {name: torch.randn(value.shape) for name, value in plain_state(model.discriminator).items()}
    load_plain_state(model.discriminator, trained)
    table = model.discriminator.electra.embeddings.word_embeddings
    assert_close(table.table(), trained["electra.embeddings.word_embeddings.weight"])
    assert torch.equal(table.shared.weight, model.generator.generator_lm_head.weight)


def test_one_encoder_has_one_number_of_heads():
    config = joint_model("albert", tie="none").config
    config.tie = "all"
    config.generator.num_attention_heads = 1
    with raises(UserError, match=r"--tie all.*num_attention_heads is 1"):
        ElectraForJointPretraining(config)


def test_encoders_of_two_sizes_cannot_be_one():
    with raises(UserError, match=r"--tie all .*embeddings_project.*--generator_size"):
        joint_model("electra", generator_size=0.5, tie="all")


def test_a_common_encoder_is_counted_once_and_may_be_computed_more_often_in_one_network():
    model = joint_model("albert", tie="all")
    counts = parameter_counts(model)
    common = sum(weight.numel() for weight in encoder_weights(model.discriminator).values())
    assert counts["total"] == counts["generator"] + counts["discriminator"] - common
    deeper = copy.deepcopy(model.config)
    deeper.discriminator.num_hidden_layers = 5
    assert shared_names(ElectraForJointPretraining(deeper)) == set(encoder_weights(model.discriminator))
