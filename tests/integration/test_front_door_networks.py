"""From Python, a run goes on and a model is used with the networks and the tokenizer that it was trained with."""

import json
import random
import shutil

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoModelForSequenceClassification

from electra import (
    ElectraForJointPretraining,
    ElectraTrainer,
    ElectraTrainingArguments,
    SegmentArguments,
    fine_tune,
    finish_run,
    load_tokenizer,
    predict,
    replaced_token_probabilities,
    tokenize_corpus,
)
from tests.conftest import refused
from tests.helpers import read_json
from tests.integration.test_front_door import NETWORKS, SEGMENTS, TRAINING, parts  # noqa: F401 - a fixture

ROTARY = {"discriminator_type": "modernbert", "initialization": "normal", "embedding_size": None, "tie": "none"}
"""Options of networks with rotary positions."""
ROWS = [{"text": word, "label": word} for word in ("a", "b")] * 10
"""Texts with labels."""


def make(parts, output, networks=None, tokenizer=None, segments=None, **options):  # noqa: F811
    """Return the trainer of a tiny run with these networks, this folder of a tokenizer, and these options."""
    folder, text = parts
    tokenizer = load_tokenizer(tokenizer or folder / "tokenizer")
    corpus = tokenize_corpus(text, tokenizer, cache_dir=folder / "cache")
    sizes = {name: value for name, value in {**NETWORKS, **(networks or {})}.items() if value is not None}
    model = ElectraForJointPretraining.from_recipe("small", tokenizer, **sizes)
    args = ElectraTrainingArguments(output, **{**TRAINING, **options})
    segments = SegmentArguments(**{**SEGMENTS, **(segments or {})})
    return ElectraTrainer(model=model, args=args, train_dataset=corpus, processing_class=tokenizer, segments=segments)


@pytest.fixture(scope="module")
def begun(parts, tmp_path_factory):  # noqa: F811
    """The folder of a run of four steps, with its exported networks."""
    trainer = make(parts, tmp_path_factory.mktemp("begun") / "run", max_steps=4)
    trainer.train()
    finish_run(trainer)
    return trainer.run_folder


@pytest.fixture(scope="module")
def other_tokenizer(parts, tmp_path_factory):  # noqa: F811
    """The folder of a tokenizer of equal size, in which nearly all ids mean something else."""
    folder = tmp_path_factory.mktemp("other")
    shutil.copytree(parts[0] / "tokenizer", folder, dirs_exist_ok=True)
    state = json.loads((folder / "tokenizer.json").read_text())
    special = {token["id"] for token in state["added_tokens"]}
    words = [word for word, number in state["model"]["vocab"].items() if number not in special]
    numbers = [state["model"]["vocab"][word] for word in words]
    state["model"]["vocab"] |= zip(words, [*numbers[1:], numbers[0]], strict=True)
    (folder / "tokenizer.json").write_text(json.dumps(state))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("networks", "named"),
    [
        ({"num_attention_heads": 1}, "discriminator.num_attention_heads 2, not 1"),
        ({"num_hidden_layers": 3}, "discriminator.num_hidden_layers 2, not 3"),
        ({"generator_size": 1, "generator_layer_size": 0.5}, "generator."),
        ({"tie": "none"}, "tie"),
        ({"mlm_probability": 0.2}, "mlm_probability"),
    ],
)
def test_a_run_with_other_networks_or_another_objective_is_not_continued(parts, begun, networks, named):  # noqa: F811
    checkpoint = begun / "checkpoint-4"
    before = {path: path.stat().st_mtime_ns for path in begun.rglob("*")}
    message = refused(make(parts, begun, networks).train)
    assert named in message and str(checkpoint) in message and "move" not in message
    assert before == {path: path.stat().st_mtime_ns for path in begun.rglob("*")}
    if "mlm_probability" not in networks:  # which the objective asks for, also in the next phase
        started = refused(lambda: make(parts, begun.parent / "next", networks, init_checkpoint=str(begun)))
        assert named.split(",")[0] in started
        assert not (begun.parent / "next").exists()


@pytest.mark.slow
def test_a_changed_dropout_is_recorded(parts, begun, tmp_path):  # noqa: F811
    shutil.copytree(begun / "checkpoint-4", tmp_path / "run" / "checkpoint-4")
    trainer = make(parts, tmp_path / "run", {"hidden_dropout_prob": 0.5}, max_steps=5)
    trainer.train()
    (changes,) = read_json(tmp_path / "run" / "checkpoint-5" / "origin.json")["changes"]
    assert "discriminator.hidden_dropout_prob 0.5 instead of 0.1" in changes and changes.startswith("from step 4 on")
    started = make(parts, tmp_path / "next", {"hidden_dropout_prob": 0.5}, init_checkpoint=str(begun), max_steps=1)
    assert started.model.config.discriminator.hidden_dropout_prob == 0.5


@pytest.mark.slow
def test_a_run_with_another_theta_of_its_rotary_positions_is_not_continued(parts, tmp_path):  # noqa: F811
    make(parts, tmp_path / "run", ROTARY, max_steps=1).train()
    message = refused(make(parts, tmp_path / "run", {**ROTARY, "rope_theta": 500.0}).train)
    assert "full_attention.rope_theta 160000.0, not 500.0" in message


@pytest.mark.slow
def test_networks_that_were_not_trained_are_not_exported(parts, begun):  # noqa: F811
    before = (begun / "discriminator" / "model.safetensors").read_bytes()
    assert "train()" in refused(lambda: finish_run(make(parts, begun, max_steps=4)))
    assert (begun / "discriminator" / "model.safetensors").read_bytes() == before


def test_a_network_that_cannot_hide_tokens_is_refused(parts, tmp_path):  # noqa: F811
    network = {"discriminator_type": "deberta-v2", "initialization": "normal"}
    causal = {**network, "objective": "causal", "generator_size": None}
    assert "deberta-v2" in refused(lambda: make(parts, tmp_path / "run", causal))
    packed = {"segment_policy": "packed"}
    assert "deberta-v2" in refused(lambda: make(parts, tmp_path / "run", network, segments=packed))
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_tokenizer_of_equal_size_is_refused(parts, begun, other_tokenizer, tmp_path):  # noqa: F811
    folder, text = parts
    original = load_tokenizer(folder / "tokenizer")
    other = load_tokenizer(other_tokenizer)
    assert len(original) == len(other) and original.get_vocab() != other.get_vocab()
    encoder = AutoModel.from_pretrained(begun / "discriminator")
    classifier = AutoModelForSequenceClassification.from_pretrained(begun / "discriminator")
    joint = ElectraForJointPretraining.from_pretrained(begun)
    corpus = tokenize_corpus(text, other, cache_dir=folder / "cache")
    args = ElectraTrainingArguments(tmp_path / "run", **TRAINING)
    options = {"output_dir": tmp_path, "num_seeds": 1, "num_train_epochs": 1, "max_length": 16}
    for use in (
        lambda: fine_tune(encoder, ROWS, ROWS, processing_class=other, **options),
        lambda: predict(classifier, ["a"], processing_class=other),
        lambda: replaced_token_probabilities("a", joint, other),
        lambda: replaced_token_probabilities("a", begun, other),
        lambda: ElectraTrainer(joint, args, corpus, processing_class=other, segments=SegmentArguments(**SEGMENTS)),
        lambda: make(parts, tmp_path / "run", tokenizer=other_tokenizer, init_checkpoint=str(begun)),
        make(parts, begun, tokenizer=other_tokenizer).train,
    ):
        assert "tokenizer" in refused(use)
    assert not (tmp_path / "run").exists()
    swapped = shutil.copytree(begun / "discriminator", tmp_path / "swapped")
    shutil.copyfile(other_tokenizer / "tokenizer.json", swapped / "tokenizer.json")
    assert "tokenizer.json" in refused(lambda: fine_tune(AutoModel.from_pretrained(swapped), ROWS, ROWS, **options))
    other.add_tokens(["[NEW]"])
    assert "tokenizer" in refused(lambda: predict(classifier, ["a"], processing_class=other))
    original.add_tokens(["[NEW]"])  # for which a program gives the network a row
    classifier.resize_token_embeddings(len(original))
    assert len(predict(classifier, ["a [NEW]"], processing_class=original)) == 1


@pytest.mark.slow
def test_folders_have_cards_and_the_dtype_of_their_weights(begun, tmp_path):
    """Without its dtype, transformers would load weights that are stored in bfloat16 as such."""
    for folder in (begun, begun / "checkpoint-4"):
        assert "discriminator" in (folder / "README.md").read_text()
    encoder = AutoModel.from_pretrained(begun / "discriminator")
    options = {"output_dir": tmp_path, "num_seeds": 1, "num_train_epochs": 1}
    tuned = fine_tune(encoder, ROWS, ROWS, max_length=16, **options)
    for folder in (begun / "discriminator", begun / "generator", tuned.model_folder):
        assert read_json(folder / "config.json")["dtype"] == "float32"


@pytest.mark.slow
# The network has 32 positions.
@pytest.mark.parametrize(
    ("max_length", "model_max_length", "limit"), [(40, 56, "32 positions"), (20, 16, "model_max_length")]
)
def test_texts_longer_than_the_network_or_the_tokenizer_allows_are_refused(
    parts,  # noqa: F811
    begun,
    tmp_path,
    max_length,
    model_max_length,
    limit,
):
    tokenizer = load_tokenizer(parts[0] / "tokenizer")
    tokenizer.model_max_length = model_max_length
    encoder = AutoModel.from_pretrained(begun / "discriminator")
    options = {"processing_class": tokenizer, "max_length": max_length, "output_dir": tmp_path}
    assert limit in refused(lambda: fine_tune(encoder, ROWS, ROWS, **options))


@pytest.mark.slow
def test_a_checkpoint_may_have_a_card_of_its_user(begun, tmp_path):
    checkpoint = shutil.copytree(begun / "checkpoint-4", tmp_path / "run" / "checkpoint-4")
    (checkpoint / "README.md").write_text("mine")
    assert ElectraForJointPretraining.from_pretrained(tmp_path / "run").name_or_path == str(checkpoint)


@pytest.mark.slow
def test_a_program_s_own_objects_and_random_states_stay(parts, begun, tmp_path):  # noqa: F811
    folder, text = parts
    tokenizer = load_tokenizer(folder / "tokenizer")
    tokenizer.model_max_length = 999
    corpus = tokenize_corpus(text, tokenizer, cache_dir=folder / "cache")
    model = ElectraForJointPretraining.from_recipe("small", tokenizer, **NETWORKS)
    args = ElectraTrainingArguments(tmp_path / "run", **TRAINING)
    segments = SegmentArguments(**SEGMENTS)
    trainer = ElectraTrainer(model, args, corpus, processing_class=tokenizer, segments=segments)
    assert (tokenizer.model_max_length, trainer.processing_class.model_max_length) == (999, 32)
    model.config.special_token_ids = [0]
    assert "special_token_ids" in refused(
        lambda: ElectraTrainer(model, args, corpus, processing_class=tokenizer, segments=segments)
    )

    classifier = AutoModelForSequenceClassification.from_pretrained(begun / "discriminator")
    options = {"output_dir": tmp_path, "num_seeds": 1, "num_train_epochs": 1, "max_length": 16}
    draws = []
    for work in (
        lambda: None,
        lambda: predict(classifier, ["a"]),
        lambda: replaced_token_probabilities("a", begun),
        lambda: fine_tune(begun, ROWS, ROWS, **options),
    ):
        random.seed(0), np.random.seed(0), torch.manual_seed(0)
        work()
        draws.append((random.random(), np.random.rand(), torch.rand(1).item()))
    assert len({*draws}) == 1
