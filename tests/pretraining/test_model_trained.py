"""Starting from trained networks: their weights, their sizes, their tokenizer, and what does not fit."""

import json
import math
import shutil
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer

from electra.core.backbones import BACKBONES
from electra.core.configuration import network_config
from electra.core.networks import masked_lm
from electra.pretraining.run import main
from electra.tokenizers.extend import extend_tokenizer
from electra.tokenizers.load import SPECIAL_TOKENS, load_tokenizer
from tests.conftest import refused
from tests.helpers import parametrize, read_json
from tests.pretraining.runs import TINY, WORDS, flags, write_corpus

pytestmark = pytest.mark.slow

SIZES = dict.fromkeys(
    ("embedding_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size")
)
"""No flags for what the trained network has already."""
NOTHING_LEARNED = {"learning_rate": 0.0, "max_steps": 1, "eval_strategy": "no", "validation_fraction": 0}


def resume_at(run, step):
    """Resume a run from a checkpoint, as if it had been killed before it saved a later one."""
    for later in run.glob("checkpoint-*"):
        if int(later.name.partition("-")[2]) > step:
            shutil.rmtree(later)
    main([f"--resume_from_checkpoint={run / f'checkpoint-{step}'}"])


def continued(folder, **options):
    """The folder of a run of text in this folder, which starts from trained networks."""
    write_corpus(folder / "corpus.txt")
    main(flags(folder, **{**SIZES, "max_position_embeddings": None, **options}, experiment_name="second"))
    return folder / "output" / "second"


def weights(folder):
    """The tensors of a network's folder, by name."""
    return load_file(folder / "model.safetensors")


@parametrize("with_generator", [False, True])
def test_trained_networks_keep_all_their_weights(finished_run, tmp_path, with_generator):
    """A run folder is enough to name them. Other sizes in a file have no effect."""
    (tmp_path / "sizes.yaml").write_text("hidden_size: 64\nnum_hidden_layers: 2\ngenerator_size: 0.125\n")
    options = {"init_discriminator": finished_run / "discriminator", "generator_size": 0.25}
    if with_generator:
        options = {"init_discriminator": finished_run, "init_generator": finished_run, "generator_size": None}
    run = continued(tmp_path, **options, **NOTHING_LEARNED, config=tmp_path / "sizes.yaml")
    for role in ("discriminator", "generator")[: 1 + with_generator]:
        before = weights(finished_run / role)
        after = weights(run / role)
        assert before.keys() == after.keys()
        assert all(torch.equal(before[name], after[name]) for name in before)  # embeddings and head, too
    size = TINY["generator_size"] if with_generator else 0.25
    assert yaml.safe_load((run / "config.yaml").read_text())["generator_size"] == size
    generator = AutoModel.from_pretrained(run / "generator")
    assert generator.config.hidden_size == TINY["hidden_size"] * size
    table = "electra.embeddings.word_embeddings.weight"
    assert torch.equal(weights(run / "generator")[table], weights(finished_run / "discriminator")[table])
    state = read_json(run / "checkpoint-1" / "trainer_state.json")
    assert state["global_step"] == 1  # a schedule of its own, from step 0


def test_a_continued_run_resumes_without_what_it_started_from(finished_run, tmp_path):
    moved = Path(shutil.copytree(finished_run / "discriminator", tmp_path / "moved"))
    longer = extend_tokenizer(load_tokenizer(str(moved)), ["blogofim neredosa"] * 3, 2, 2)
    longer.save_pretrained(tmp_path / "longer")
    options = {"max_steps": 4, "save_steps": 2, "hidden_dropout_prob": 0.0, "generator_size": 0.5}
    run = continued(tmp_path, init_discriminator=moved, tokenizer_path=tmp_path / "longer", **options)
    trained = read_json(run / "discriminator" / "config.json")
    assert (trained["hidden_dropout_prob"], trained["attention_probs_dropout_prob"]) == (0.0, 0.1)
    recorded = yaml.safe_load((run / "config.yaml").read_text())
    sizes = {name: value for name, value in TINY.items() if name in SIZES or name == "max_position_embeddings"}
    assert recorded | sizes | {"hidden_dropout_prob": 0.0, "vocab_size": len(longer)} == recorded
    assert set(read_json(run / "metrics.json")["held_out"]) == {"start", "frequencies", "trained"}
    assert AutoTokenizer.from_pretrained(run / "discriminator").model_max_length == TINY["max_position_embeddings"]
    whole = weights(run / "discriminator")
    assert len(whole["electra.embeddings.word_embeddings.weight"]) == len(longer)
    shutil.rmtree(moved)
    shutil.rmtree(tmp_path / "longer")
    resume_at(run, 2)
    resumed = weights(run / "discriminator")
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_dropout_of_a_trained_network_stays_its_own_when_its_run_is_resumed(finished_run, tmp_path):
    trained = Path(shutil.copytree(finished_run / "generator", tmp_path / "trained"))
    config = read_json(trained / "config.json")
    (trained / "config.json").write_text(json.dumps({**config, "hidden_dropout_prob": 0.3}))
    networks = {"init_discriminator": finished_run, "init_generator": trained, "generator_size": None}
    run = continued(tmp_path, **networks, hidden_dropout_prob=None, max_steps=4, save_steps=2)
    assert read_json(run / "generator" / "config.json")["hidden_dropout_prob"] == 0.3
    whole = weights(run / "generator")
    resume_at(run, 2)
    assert read_json(run / "generator" / "config.json")["hidden_dropout_prob"] == 0.3
    resumed = weights(run / "generator")
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_a_longer_tokenizer_and_text_start_from_what_was_trained(finished_run, tmp_path):
    """Also where the text is longer than the table; a resumed run still knows what it started from."""
    old = load_tokenizer(str(finished_run))
    words = ["blogofim", "neredosa", "nikomelu"]
    extend_tokenizer(old, words * 3, 3, 2).save_pretrained(tmp_path / "longer")
    write_corpus(tmp_path / "corpus.txt", seed=1)
    (tmp_path / "corpus.txt").open("a").write("\n\n".join([" ".join(words * 10)] * 5))
    options = {"tokenizer_path": tmp_path / "longer", "max_position_embeddings": 40, "max_length": 36}
    options |= {"init_discriminator": finished_run, "init_generator": finished_run, "generator_size": None}
    main(flags(tmp_path, **SIZES | NOTHING_LEARNED | options | {"max_steps": 2, "save_steps": 1}))
    run = tmp_path / "output" / "run"
    size = len(old)
    trained = TINY["max_length"]
    for role in ("discriminator", "generator"):
        before = weights(finished_run / role)
        after = weights(run / role)
        table = "electra.embeddings.word_embeddings.weight"
        words_before, words_after = before[table], after[table]
        assert torch.equal(words_after[:size], words_before) and len(words_after) == size + 3
        positions = after["electra.embeddings.position_embeddings.weight"]
        assert len(positions) == 40
        assert torch.equal(positions[trained : 2 * trained], positions[:trained])
        assert read_json(run / role / "config.json")["pretraining_positions"] == 36
    resume_at(run, 1)


@parametrize("model_type", [name for name in BACKBONES if name not in ("electra", "camembert")])
def test_a_masked_lm_becomes_a_discriminator_and_a_generator(model_type, finished_run, tmp_path, capsys):
    tokenizer = load_tokenizer(str(finished_run))
    sizes = {name: TINY[name] for name in SIZES if name != "vocab_size"}
    config = network_config(
        vocab_size=len(tokenizer) + 7, pad_token_id=0, max_position_embeddings=32, hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1, model_type=model_type, **sizes,
    )  # fmt: skip
    if model_type in ("eurobert", "ultrabert"):  # as released: an LM head of its own
        config.tie_word_embeddings = False
    torch.manual_seed(0)
    released, source = masked_lm(config), tmp_path / "released"  # padded, as those of DeBERTa-v3
    released.save_pretrained(source)
    tokenizer.save_pretrained(source)
    if model_type == "deberta-v2":  # released as a pickle, with a head that no class of transformers has
        (source / "model.safetensors").unlink()
        head = {"mask_predictions.classifier.weight": torch.zeros(1, 32)}
        torch.save(released.state_dict() | head, source / "pytorch_model.bin")
    options = {"init_discriminator": source, "init_generator": source, "init_generator_layers": 1}
    run = continued(tmp_path, **options, generator_size=None, **NOTHING_LEARNED)
    assert "does not have the discriminator's" in capsys.readouterr().out
    before = AutoModelForMaskedLM.from_pretrained(source).state_dict()
    after = AutoModelForMaskedLM.from_pretrained(run / "generator").state_dict()
    assert 0 < len(after) < len(before) or model_type == "albert"  # whose layers are one
    tables = {name for name, value in before.items() if len(value) == len(tokenizer) + 7}
    assert all(torch.equal(value, before[name][: len(value)]) for name, value in after.items())
    assert all(len(after[name]) == len(tokenizer) for name in tables & after.keys())
    encoder = AutoModel.from_pretrained(run / "discriminator").state_dict()
    prefix = f"{released.base_model_prefix}."
    is_equal = {
        name: torch.equal(value, before[prefix + name][: len(value)])
        for name, value in encoder.items()
        if prefix + name in before
    }
    assert all(is_equal.values()) and len(is_equal) > len(encoder) / 2


@parametrize(
    ("options", "named"),
    [
        ({"init_discriminator": "{folder}/damaged"}, "damaged weights"),
        ({"init_discriminator": "{folder}/incomplete"}, "electra.encoder.layer.0"),
        ({"init_discriminator": "{run}/checkpoint-12"}, "--init_checkpoint checkpoint-12"),
        ({"init_discriminator": "{folder}/bare", "tokenizer_path": "{folder}/other"}, "bare embeddings 120"),
        ({"init_generator": "{run}", "init_generator_layers": 3, "generator_size": None}, "--init_generator_layers 3"),
    ],
    ids=str,
)
def test_networks_that_cannot_be_continued_are_refused(finished_run, wordpiece_tokenizer, tmp_path, options, named):
    for name in ("damaged", "incomplete", "bare"):
        shutil.copytree(finished_run / "discriminator", tmp_path / name)
        (tmp_path / name / "manifest.json").unlink()  # which other programs do not write
    (tmp_path / "damaged" / "model.safetensors").write_bytes(b"nothing")
    incomplete = weights(finished_run / "discriminator")
    del incomplete["electra.encoder.layer.0.output.dense.weight"]
    save_file(incomplete, tmp_path / "incomplete" / "model.safetensors", metadata={"format": "pt"})
    wordpiece_tokenizer.save_pretrained(tmp_path / "other")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "bare" / name).unlink()
    places = {"folder": tmp_path, "run": finished_run}
    options = {name: value.format(**places) if isinstance(value, str) else value for name, value in options.items()}
    options = {"init_discriminator": finished_run, "generator_size": None, **NOTHING_LEARNED, **options}
    message = refused(lambda: continued(tmp_path, **options))
    assert all(word in message for word in named.split()), message


@parametrize(
    ("options", "named"),
    [
        ({"discriminator_type": "bert"}, "--discriminator_type electra"),
        ({"hidden_size": 64, "max_position_embeddings": 24}, "hidden_size 32 max_position_embeddings 32"),
        ({"init_generator": True, "generator_size": 0.25}, "generator_size 0.5"),
    ],
    ids=str,
)
def test_trained_networks_keep_their_sizes_with_a_warning(finished_run, tmp_path, capsys, options, named):
    start = {"init_discriminator": finished_run, "generator_size": None, **NOTHING_LEARNED}
    start |= {name: finished_run if value is True else value for name, value in options.items()}
    continued(tmp_path, **start)
    (warning,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("no effect"))
    assert all(word in warning for word in named.split())


def test_a_vocabulary_with_gaps_is_trained_with(folder):
    tokens = [*SPECIAL_TOKENS.values(), "not in the text", *sorted(set(WORDS))]
    # Id 5 is missing, and so are all between the words and the last one.
    vocabulary = {token: index for index, token in enumerate(tokens) if index != 5} | {tokens[-1]: 70_000}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    main(flags(folder, tokenizer_path=folder / "tokenizer.json", vocab_size=None, max_steps=1, save_steps=1))
    run = folder / "output" / "run"
    config = read_json(run / "checkpoint-1" / "config.json")
    assert config["discriminator"]["vocab_size"] == 70_001
    held_out = read_json(run / "metrics.json")["held_out"]
    assert all(math.isfinite(value) for value in held_out["frequencies"].values())
