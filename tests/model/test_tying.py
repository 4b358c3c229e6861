"""The --tie modes by gradients and by storage: after a move, saving, loading, copying."""

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from electra.io.errors import UserError
from electra.model.joint import ElectraForJointPretraining, parameter_counts
from electra.model.tying import DisentangledEmbedding, encoder_weights, load_plain_state, plain_state
from tests.model.helpers import joint_model

WORD = "embeddings.word_embeddings.weight"
OTHERS = ("embeddings.position_embeddings.weight", "embeddings.token_type_embeddings.weight")
NORM = ("embeddings.LayerNorm.weight", "embeddings.LayerNorm.bias")
SHARED = {"none": set(), "word": {WORD}, "embeddings": {WORD, *OTHERS, *NORM}, "gdes": set()}


def shared_names(model: ElectraForJointPretraining) -> set[str]:
    """Weights of the encoders that are one tensor in both networks, by name and by storage alike."""
    assert model.generator is not None
    ours, theirs = encoder_weights(model.generator), encoder_weights(model.discriminator)
    names = {name for name in ours.keys() & theirs.keys() if ours[name] is theirs[name]}
    assert names == {n for n in ours.keys() & theirs.keys() if ours[n].data_ptr() == theirs[n].data_ptr()}
    return names


def _moved(model: ElectraForJointPretraining, folder: Path) -> ElectraForJointPretraining:
    return model.to(torch.float64).to(torch.float32)


def _loaded(model: ElectraForJointPretraining, folder: Path) -> ElectraForJointPretraining:
    model.save_pretrained(folder)
    return ElectraForJointPretraining.from_pretrained(folder)


def _resumed(model: ElectraForJointPretraining, folder: Path) -> ElectraForJointPretraining:
    fresh = ElectraForJointPretraining(model.config)
    fresh.load_state_dict(model.state_dict())
    return fresh


WAYS = pytest.mark.parametrize("way", [_moved, _loaded, _resumed, lambda model, _: copy.deepcopy(model)])


@WAYS
@pytest.mark.parametrize("tie", ["none", "word", "embeddings", "all", "gdes"])
@pytest.mark.parametrize("model_type", ["electra", "bert", "albert"])
def test_what_is_shared_is_one_tensor_and_stays_so(
    model_type: str, tie: str, way: Callable[..., ElectraForJointPretraining], tmp_path: Path
) -> None:
    model = joint_model(model_type, tie=tie)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model = way(model, tmp_path)
    expected = SHARED.get(tie, set(encoder_weights(model.discriminator)))
    assert shared_names(model) == expected
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    # The LM head is the word table of its own network in every mode.
    assert model.generator.get_output_embeddings().weight is model.generator.get_input_embeddings().weight


@pytest.mark.parametrize("tie", ["none", "word", "embeddings", "all", "gdes"])
def test_the_discriminator_s_gradient_reaches_the_generator_s_weights_only_where_they_are_shared(
    tie: str,
    batch: dict[str, Tensor],
) -> None:
    """The generator's loss is left out: what remains in its weights comes from the discriminator."""
    model = joint_model("electra", tie=tie)
    model.train()
    model.train_generator = False
    model(**batch).loss.backward()
    reached = {name for name, p in encoder_weights(model.generator).items() if p.grad is not None}
    assert reached == SHARED.get(tie, set(encoder_weights(model.generator)))


def test_disentangled_embeddings_add_up_and_only_the_difference_gets_the_discriminator_s_gradient() -> None:
    model = joint_model("electra", tie="gdes")
    table = model.discriminator.electra.embeddings.word_embeddings
    shared = model.generator.electra.embeddings.word_embeddings
    assert isinstance(table, DisentangledEmbedding) and not table.weight.any()
    with torch.no_grad():
        table.weight.normal_()
    ids = torch.tensor([[7, 9, 7]])
    torch.testing.assert_close(table(ids), (shared.weight + table.weight)[ids])
    table(ids).sum().backward()
    assert shared.weight.grad is None
    assert table.weight.grad[7].tolist() == [2.0] * 16 and table.weight.grad[9].tolist() == [1.0] * 16
    positions = model.discriminator.electra.embeddings.position_embeddings
    assert isinstance(positions, DisentangledEmbedding)
    assert not isinstance(model.discriminator.electra.embeddings.token_type_embeddings, DisentangledEmbedding)


def test_a_disentangled_discriminator_on_its_own_is_the_sum(tmp_path: Path, batch: dict[str, Tensor]) -> None:
    model = joint_model("electra", tie="gdes").eval()
    with torch.no_grad():
        model.discriminator.electra.embeddings.word_embeddings.weight.normal_()
    model.discriminator.save_pretrained(tmp_path, state_dict=plain_state(model.discriminator))
    alone = type(model.discriminator).from_pretrained(tmp_path).eval()
    torch.testing.assert_close(alone(**batch).logits, model.discriminator(**batch).logits)


def test_a_disentangled_discriminator_that_loads_a_table_is_that_table() -> None:
    model = joint_model("electra", tie="gdes")
    trained = {name: torch.randn(value.shape) for name, value in plain_state(model.discriminator).items()}
    load_plain_state(model.discriminator, trained)
    table = model.discriminator.electra.embeddings.word_embeddings
    torch.testing.assert_close(table.table(), trained["electra.embeddings.word_embeddings.weight"])
    assert torch.equal(table.shared.weight, model.generator.generator_lm_head.weight)


def test_one_encoder_has_one_number_of_heads() -> None:
    config = joint_model("albert", tie="none").config
    config.tie, config.generator.num_attention_heads = "all", 1
    with pytest.raises(UserError, match=r"--tie all.*attention heads"):
        ElectraForJointPretraining(config)


def test_encoders_of_two_sizes_cannot_be_one_but_albert_s_of_two_depths_can() -> None:
    with pytest.raises(UserError, match=r"--tie all .*embeddings_project.*--generator_size"):
        joint_model("electra", generator_size=0.5, tie="all")
    model = joint_model("albert", tie="all")
    counts = parameter_counts(model)
    assert counts["total"] < counts["generator"] + counts["discriminator"] - 10_000
    deeper = copy.deepcopy(model.config)
    deeper.discriminator.num_hidden_layers = 5
    assert shared_names(ElectraForJointPretraining(deeper)) == set(encoder_weights(model.discriminator))
