"""`tiny-en`, the network of the package: found by name, after the user's own paths; as good as its card says."""

import re

import torch
from pandas import DataFrame
from pytest import approx, mark, raises
from transformers import AutoModel, AutoModelForMaskedLM

from electra import load_tokenizer, predict, replaced_token_probabilities
from electra.base.files import PACKAGED_NETWORK, TINY_EN
from electra.core.errors import UserError
from electra.finetuning.heads import load_encoder
from electra.model.inference import run_corruption
from electra.model.pretrained import load_networks, locate_model, trained_source
from electra.tasks.classify.task import parse_classify_arguments
from electra.tasks.minimal_pairs.task import main as pairs
from electra.tasks.squad.task import main as squad
from electra.tasks.squad.task import parse_squad_arguments
from electra.tasks.tagging.task import parse_tagging_arguments
from tests.conftest import refused
from tests.finetuning.encoders import tiny_configs
from tests.helpers import ROOT, parametrize, read_json
from tests.tasks.minimal_pairs.networks import write_run
from tests.tasks.squad.files import flags, write_squad

if_packaged = mark.skipif(not PACKAGED_NETWORK.is_dir(), reason="the network of the package was removed")


@if_packaged
def test_the_name_stands_for_the_networks_of_the_package():
    networks = load_networks(TINY_EN)
    assert networks.generator.num_parameters() == 277_024
    assert networks.discriminator.num_parameters() == 2_303_041
    assert run_corruption(networks).mlm_probability == 0.25  # of its run
    assert locate_model(TINY_EN) == trained_source(TINY_EN, "discriminator") == networks.source
    assert trained_source(TINY_EN, "generator") == str(PACKAGED_NETWORK / "generator")
    assert load_encoder(TINY_EN).name == TINY_EN
    assert load_tokenizer(TINY_EN).get_vocab() == networks.tokenizer.get_vocab()
    assert "electra classify --pretrain_path tiny-en" in refused(lambda: predict(TINY_EN, ["the fox"]))


@if_packaged
@parametrize(("role", "auto_class"), [("discriminator", AutoModel), ("generator", AutoModelForMaskedLM)])
def test_transformers_opens_the_networks_in_float32(role, auto_class):
    network = auto_class.from_pretrained(PACKAGED_NETWORK / role)
    assert {weight.dtype for weight in network.parameters()} == {torch.float32}


def test_a_path_of_the_user_comes_before_the_package(tmp_path, monkeypatch, wordpiece_tokenizer):
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / TINY_EN, wordpiece_tokenizer)
    assert (tmp_path / locate_model(TINY_EN)).resolve() == tmp_path / TINY_EN / "discriminator"
    assert len(replaced_token_probabilities(["the fox"], TINY_EN)) == 1


@if_packaged
def test_what_is_no_list_of_texts_is_refused():
    for texts in ({"text": ["the fox"]}, DataFrame({"text": ["the fox"]}), [1], None):  # no names of columns are read
        with raises(UserError, match="list of texts"):
            replaced_token_probabilities(texts, TINY_EN)


def test_a_folder_of_the_user_without_networks_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / TINY_EN).mkdir()
    with raises(UserError, match="holds no model"):
        locate_model(TINY_EN)


def test_without_the_network_its_name_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("electra.base.files.PACKAGED_NETWORK", tmp_path / "removed")
    with raises(UserError, match="tiny-en"):
        locate_model(TINY_EN)


@parametrize("parse", [parse_classify_arguments, parse_tagging_arguments])
def test_commands_for_rows_of_the_user_take_tiny_en_by_default(parse):
    data = ["--train_file", "a.csv"]
    args = parse(data)
    assert args.encoder.pretrain_path == args.record["pretrain_path"] == TINY_EN
    assert parse([*data, "--pretrain_path", "output/mine"]).encoder.pretrain_path == "output/mine"
    scratch = parse([*data, "--from_scratch", "tiny"])
    assert scratch.encoder.pretrain_path is None and "pretrain_path" not in scratch.record


def test_squad_takes_no_encoder_by_default():
    with raises(UserError, match="pretrain_path"):
        parse_squad_arguments(["--train_file", "a.json"])


@if_packaged
def test_a_score_of_the_card_is_that_of_the_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pairs(["--data", str(ROOT / "tests" / "fixtures" / "zorro" / "pairs.jsonl"), "--use_cpu"])
    scores = read_json(tmp_path / "output" / "blimp_tiny-en" / "minimal_pairs.json")["scores"]
    card = (PACKAGED_NETWORK / "README.md").read_text(encoding="utf-8")
    (score,) = re.findall(r"\| Zorro, first 10 pairs .*?\| ([\d.]+) \|", card)
    # A pair is 0.43 points; rounding decides pairs whose scores are nearly equal.
    assert 100 * scores["corrected"]["overall"]["accuracy"] == approx(float(score), abs=1)


@if_packaged
@parametrize(("length", "is_longer"), [({}, True), ({"max_length": 128}, False)])
def test_the_plan_names_windows_longer_than_those_of_pre_training(tmp_path, capsys, length, is_longer):
    """tiny-en was pre-trained with 128 tokens; the windows of `squad` have 512 where no length is named."""
    write_squad(tmp_path / "squad")
    squad(["--plan", *flags(tmp_path, pretrain_path=TINY_EN, **length)])
    assert ("pre-trained with 128 tokens" in capsys.readouterr().out) == is_longer


def test_an_encoder_that_does_not_say_how_long_its_texts_were_can_be_planned(tmp_path, capsys, wordpiece_tokenizer):
    encoder = AutoModel.from_config(tiny_configs(len(wordpiece_tokenizer))["distilbert"])
    for part in (encoder, wordpiece_tokenizer):
        part.save_pretrained(tmp_path / "encoder")
    write_squad(tmp_path / "squad")
    squad(["--plan", *flags(tmp_path, max_length=32)])
    plan = capsys.readouterr().out
    assert "2 runs" in plan and "pre-trained with" not in plan
