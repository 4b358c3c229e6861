"""Encoders from everything a user may name, tensor by tensor against what was saved; and all that is refused."""

import functools
import json
import logging
import shutil

import pytest
import torch
from pytest import approx
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    BartConfig,
    BertConfig,
    BertLMHeadModel,
    GPT2Config,
)

from electra.base.checkpoints import write_manifest
from electra.core.configuration import (
    DROPOUTS,
    SIZE_NAMES,
    ElectraPretrainingConfig,
    embedding_width,
    generator_config,
    value_of,
)
from electra.core.recipes import RECIPES
from electra.finetuning.heads import encoder_fingerprint, fresh_encoder, load_encoder
from electra.model.joint import ElectraForJointPretraining
from electra.tokenizers.load import load_tokenizer
from tests.conftest import make_number_tokenizer, refused
from tests.finetuning.encoders import tiny_configs
from tests.helpers import parametrize, read_json

VOCAB_SIZE = 60
SMALL = {"vocab_size": VOCAB_SIZE, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
NARROW = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
JOINT_EMBEDDINGS = "generator.electra.embeddings."


@pytest.fixture(scope="module")
def tokenizer():
    """The number tokenizer with the ids of the encoders."""
    return make_number_tokenizer(VOCAB_SIZE)


@pytest.fixture(scope="module")
def joint():
    """Generator and discriminator as pre-training trains them."""
    discriminator = tiny_configs(VOCAB_SIZE)["electra"]
    generator = generator_config(discriminator, 0.5, 0.5)
    torch.manual_seed(0)
    return ElectraForJointPretraining(
        ElectraPretrainingConfig(
            generator=generator, discriminator=discriminator, mask_token_id=4, special_token_ids=[0, 1, 2, 3, 4]
        )
    )


@pytest.fixture
def save(tmp_path, tokenizer):
    """`save(model, name)`: a folder as `save_pretrained` writes it, with a tokenizer."""

    def save(model, name="model", **options):
        model.save_pretrained(tmp_path / name, **options)
        tokenizer.save_pretrained(tmp_path / name)
        return tmp_path / name

    return save


@pytest.fixture
def checkpoint(save, joint):
    """A checkpoint in the folder of a run, as Trainer leaves it."""
    folder = save(joint, "run/checkpoint-20")
    (folder / "trainer_state.json").write_text("{}")
    return folder


@pytest.fixture
def electra(save):
    """The folder of an ELECTRA with the head of a masked language model."""
    torch.manual_seed(1)
    return save(AutoModelForMaskedLM.from_config(tiny_configs(VOCAB_SIZE)["electra"]))


def assert_equal_weights(model, expected):
    """All weights of `expected` but a pooling layer's, and no others."""
    state = model.state_dict()
    weights = {name: value for name, value in expected.state_dict().items() if not name.startswith("pooler.")}
    assert state.keys() == weights.keys()
    for name, value in weights.items():
        assert torch.equal(state[name], value), name


def edit_config(folder, **values):
    """Set values of the configuration in a folder."""
    path = folder / "config.json"
    path.write_text(json.dumps({**read_json(path), **values}))


def edit_weights(folder, edit):
    """Change the weights in a folder by a function of their dictionary."""
    weights = load_file(folder / "model.safetensors")
    edit(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def drop(*names):
    """Return an edit that removes the weights whose names begin like this."""

    def edit(weights):
        for name in [name for name in weights if name.startswith(names)]:
            del weights[name]

    return edit


def make_nan(name):
    """Return an edit that makes all numbers of one weight NaN."""
    return lambda weights: weights[name].fill_(torch.nan)


def truncate(path):
    """Cut off the last 100 bytes of a file."""
    path.write_bytes(path.read_bytes()[:-100])


# ---- what can be loaded


def test_a_joint_checkpoint_gives_the_discriminators_encoder(checkpoint, joint, tmp_path):
    encoder = load_encoder(str(checkpoint))
    assert type(encoder.model).__name__ == "ElectraModel"
    assert_equal_weights(encoder.model, joint.discriminator.electra)
    assert (encoder.name, encoder.max_length) == (str(checkpoint), 40)
    assert len(encoder.tokenizer) == VOCAB_SIZE
    encoder.model.save_pretrained(tmp_path / "plain")
    reopened, info = AutoModel.from_pretrained(tmp_path / "plain", output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert_equal_weights(reopened, encoder.model)


def test_exported_networks_give_their_encoders(save, checkpoint, joint, electra):
    generator = save(joint.generator, "generator")
    assert_equal_weights(load_encoder(str(generator)).model, joint.generator.electra)
    shutil.copytree(electra, checkpoint.parent / "discriminator")
    assert_equal_weights(load_encoder(str(checkpoint.parent)).model, AutoModel.from_pretrained(electra))


@parametrize("damaged", ["model.safetensors", "trainer_state.json"])
def test_a_run_gives_its_latest_undamaged_checkpoint(checkpoint, damaged, caplog):
    run = checkpoint.parent
    for step, change in ((3, 3.0), (100, 100.0)):
        shutil.copytree(checkpoint, run / f"checkpoint-{step}")
        shifted = {f"{JOINT_EMBEDDINGS}LayerNorm.bias": torch.full((8,), change)}
        edit_weights(run / f"checkpoint-{step}", functools.partial(dict.update, **shifted))
    for path in run.iterdir():
        write_manifest(path)

    def bias():
        return load_encoder(str(run)).model.embeddings.LayerNorm.bias[0].item()

    assert bias() == 100.0
    (run / "checkpoint-100" / damaged).unlink()
    with caplog.at_level(logging.WARNING):
        assert bias() == 0.0
    assert str(run / "checkpoint-100") in caplog.text


@parametrize("model_type", list(tiny_configs()))
def test_every_kind_of_encoder_is_loaded_or_made_fresh(save, model_type, capfd, caplog):
    torch.manual_seed(2)
    saved = AutoModelForMaskedLM.from_config(tiny_configs(VOCAB_SIZE)[model_type]).to(torch.bfloat16)
    folder = save(saved)
    saved.float()
    capfd.readouterr()
    encoder = load_encoder(str(folder))
    assert_equal_weights(encoder.model, saved.base_model)
    # RoBERTa's table begins behind its padding id 1
    assert encoder.max_length == (38 if model_type == "roberta" else 40)
    assert capfd.readouterr() == ("", "")
    assert caplog.text == ""
    (folder / "model.safetensors").unlink()
    fresh = fresh_encoder(str(folder))
    for model in (encoder.model, fresh.model):
        assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    shapes = {name: parameter.shape for name, parameter in encoder.model.named_parameters()}
    assert {name: parameter.shape for name, parameter in fresh.model.named_parameters()} == shapes
    assert not any("pooler" in name for name in shapes)
    assert (len(fresh.tokenizer), fresh.name) == (VOCAB_SIZE, str(folder))


def test_shards_and_pickled_weights_are_loaded_too(save, electra):
    expected = AutoModel.from_pretrained(electra)
    sharded = save(expected, "sharded", max_shard_size="4KB")
    assert len(list(sharded.glob("*.safetensors"))) > 1
    assert_equal_weights(load_encoder(str(sharded)).model, expected)
    next(sharded.glob("model-00002-*")).unlink()
    assert str(sharded) in refused(lambda: load_encoder(str(sharded)))
    torch.save(load_file(electra / "model.safetensors"), electra / "pytorch_model.bin")
    (electra / "model.safetensors").unlink()
    assert_equal_weights(load_encoder(str(electra)).model, expected)


# ---- what is refused


@parametrize(
    ("damage", "named"),
    [  # a number alone is that of the missing weights
        (lambda folder: edit_weights(folder, drop("electra.encoder.layer.1.output.dense.bias")), "dense.bias"),
        (lambda folder: edit_weights(folder, drop("electra.encoder.")), "32 weights"),
        (lambda folder: edit_weights(folder, make_nan("electra.encoder.layer.0.output.dense.bias")), "not finite"),
        (lambda folder: edit_config(folder, intermediate_size=32), "(24,), not (32,)"),
        (lambda folder: edit_config(folder, hidden_size=0), "weights"),
        (lambda folder: edit_config(folder, num_hidden_layers=1), "16 weights"),  # no layer is dropped in silence
        (lambda folder: edit_config(folder, model_type="elektra"), "'elektra'"),
        (lambda folder: (folder / "config.json").unlink(), "config.json"),
        (lambda folder: (folder / "model.safetensors").unlink(), "model.safetensors"),
        (lambda folder: truncate(folder / "model.safetensors"), "weights"),
    ],
)
def test_a_folder_that_is_no_whole_model_is_refused(electra, damage, named):
    damage(electra)
    assert named in refused(lambda: load_encoder(str(electra)))


@parametrize(
    ("damage", "named"),
    [  # a number alone is that of the missing weights
        (lambda folder: edit_weights(folder, drop("discriminator.")), " 38 "),
        (lambda folder: edit_weights(folder, drop("discriminator.electra.encoder.layer.1.output.dense.w")), " 1 "),
        (lambda folder: edit_weights(folder, drop(f"{JOINT_EMBEDDINGS}position_")), "embeddings.position_embeddings"),
        (lambda folder: tiny_configs(VOCAB_SIZE)["electra"].save_pretrained(folder), " 39 "),  # not the joint model's
    ],
)
def test_a_joint_checkpoint_without_its_encoder_is_refused(checkpoint, damage, named):
    damage(checkpoint)
    assert named in refused(lambda: load_encoder(str(checkpoint)))


@parametrize("load", [load_encoder, fresh_encoder])
def test_a_path_to_nothing_is_not_asked_of_the_hub(load, tmp_path, monkeypatch):
    (tmp_path / "output").mkdir()
    monkeypatch.chdir(tmp_path)
    for name in ("/no/such/model", "~/no/such", "a/b/c", "", "x/config.json", "output/typo"):
        assert f"there is no folder '{name}'" in refused(lambda name=name: load(name))
    assert "Hub" in refused(lambda: load("no-such-owner/no-such-model"))


def test_a_file_and_a_run_without_a_whole_checkpoint_are_refused(checkpoint):
    assert "there is no folder" in refused(lambda: load_encoder(str(checkpoint / "model.safetensors")))
    truncate(checkpoint / "model.safetensors")
    assert "checkpoint-N" in refused(lambda: load_encoder(str(checkpoint.parent)))


@parametrize(
    ("model_type", "make"),
    [
        ("gpt2", lambda: AutoModel.from_config(GPT2Config(n_embd=16, n_layer=1, n_head=2, **SMALL))),
        ("bart", lambda: AutoModel.from_config(
            BartConfig(d_model=16, encoder_layers=1, decoder_layers=1, forced_eos_token_id=3, **SMALL))),
        ("bert", lambda: BertLMHeadModel(BertConfig(is_decoder=True, **NARROW, **SMALL))),
    ],
)  # fmt: skip
def test_models_that_generate_are_refused(save, model_type, make):
    folder = save(make())
    for load in (load_encoder, fresh_encoder):
        assert f"type {model_type}" in refused(lambda load=load: load(str(folder)))


# ---- tokenizers


def test_a_named_tokenizer_is_used_where_the_model_has_none(electra, tmp_path, caplog):
    for path in electra.glob("*token*"):
        path.unlink()
    for load in (load_encoder, fresh_encoder):
        assert "--tokenizer_path" in refused(lambda load=load: load(str(electra)))
    make_number_tokenizer(VOCAB_SIZE - 3).save_pretrained(tmp_path / "mine")
    assert len(load_encoder(str(electra), str(tmp_path / "mine")).tokenizer) == VOCAB_SIZE - 3
    assert caplog.text == ""


def test_a_named_tokenizer_must_be_the_model_s(electra, tmp_path, tokenizer, caplog):
    make_number_tokenizer(VOCAB_SIZE - 1).save_pretrained(tmp_path / "other")
    tokenizer.save_pretrained(tmp_path / "same")
    assert "59 tokens" in refused(lambda: load_encoder(str(electra), str(tmp_path / "other")))
    assert len(load_encoder(str(electra), str(tmp_path / "same")).tokenizer) == VOCAB_SIZE
    (electra / "tokenizer.json").write_text("{")  # a damaged one is replaced
    assert "tokenizer" in refused(lambda: load_encoder(str(electra)))
    with caplog.at_level(logging.WARNING):
        assert len(load_encoder(str(electra), str(tmp_path / "same")).tokenizer) == VOCAB_SIZE
    assert "cannot be compared" in caplog.text


def test_the_tokens_must_fit_the_rows_of_the_embeddings(save):
    for rows in (59, 60, 1060, 1061):  # up to 1000 rows may have no token
        folder = str(save(AutoModel.from_config(tiny_configs(rows)["bert"])))
        if rows in (60, 1060):
            assert load_encoder(folder).model.embeddings.word_embeddings.num_embeddings == rows
        else:
            assert str(rows) in refused(lambda folder=folder: load_encoder(folder))


def test_a_tokenizer_must_pad_and_may_bound_the_length(electra):
    edited = load_tokenizer(str(electra))
    edited.model_max_length = 24
    edited.save_pretrained(electra)
    assert load_encoder(str(electra)).max_length == 24
    edited.pad_token = None
    edited.save_pretrained(electra)
    assert "pad token" in refused(lambda: load_encoder(str(electra)))


# ---- fresh encoders


def test_an_edited_configuration_is_another_encoder(electra):
    fingerprint = lambda: encoder_fingerprint(load_encoder(str(electra)), is_fresh=False)  # noqa: E731
    before = fingerprint()
    write_manifest(electra)
    assert fingerprint() == before
    edit_config(electra, layer_norm_eps=1e-3)
    assert fingerprint() != before


def test_a_fresh_encoder_follows_from_the_seed(checkpoint):
    def weights(seed):
        torch.manual_seed(seed)
        return fresh_encoder(str(checkpoint)).model.state_dict()

    first = weights(7)
    again = weights(7)
    other = weights(8)
    name = "encoder.layer.1.output.dense.weight"
    assert torch.equal(first[name], again[name])
    assert not torch.equal(first[name], other[name])
    assert first[name].std().item() == approx(0.02, rel=0.1)  # of 384 weights: an error of 4 %


def test_a_fresh_encoder_takes_any_tokenizer_that_fits(electra, tmp_path):
    make_number_tokenizer(59).save_pretrained(tmp_path / "other")
    assert len(fresh_encoder(str(electra), str(tmp_path / "other")).tokenizer) == 59


@parametrize(("recipe", "model_type"), [("small", "electra"), ("tiny", "modernbert")])
def test_a_recipe_gives_its_sizes_and_the_tokenizer_its_rows(recipe, model_type, electra):
    encoder = fresh_encoder(recipe, str(electra))
    config = encoder.model.config
    wanted = {"initializer_range": 0.02, **RECIPES[recipe]}
    assert (config.model_type, embedding_width(config)) == (model_type, wanted["embedding_size"])
    for name in (*SIZE_NAMES[1:], *DROPOUTS, "initializer_range"):
        assert value_of(config, name) == wanted[name], name
    assert (config.vocab_size, config.pad_token_id, encoder.max_length) == (VOCAB_SIZE, 0, 512)
    assert "--tokenizer_path" in refused(lambda: fresh_encoder(recipe))
