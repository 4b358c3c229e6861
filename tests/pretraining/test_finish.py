"""The exported folders: plain transformers computes what the pair computed; their cards; interrupted exports."""

import math
from dataclasses import replace
from unittest.mock import DEFAULT, Mock

import pytest
import torch
import transformers
from huggingface_hub import ModelCard
from pytest import raises
from torch.testing import assert_close
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForPreTraining,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)
from transformers.pipelines import get_supported_tasks

from electra.core.errors import UserError
from electra.core.objectives import OBJECTIVES
from electra.model.pretrained import locate_model
from electra.pretraining.finish import ABOUT, export_networks
from electra.report.runs import HAS_LEARNED
from tests.helpers import contents, parametrize, read_json

METRICS = {"generator_loss": 4.56789, "masked_accuracy": 0.25, "discriminator_auc": 0.87654321}
TEXT = "The quick fox sells sea shells; the unwonted dog does not mind."


@pytest.fixture
def export(make_pair, wordpiece_tokenizer, plan, tmp_path):
    """Export a pair into tmp_path/run."""

    def run(pair=None, **values):
        values = {"plan": plan, "metrics": METRICS, "options": {}, **values}
        return export_networks(pair or make_pair(), wordpiece_tokenizer, tmp_path / "run", **values)

    return run


def test_each_kind_of_network_has_sentences_for_its_card():
    kinds = {objective.main_network.replace("LM", "language model") for objective in OBJECTIVES.values()}
    assert ABOUT.keys() == kinds | {"generator"}


@parametrize(
    ("objective", "tie"),
    [("electra", "embeddings"), ("electra", "gdes"), ("mlm", "none"), ("all_tokens_mlm", "embeddings")],
)
def test_plain_transformers_computes_what_the_export_has(
    make_pair, wordpiece_tokenizer, plan_of, export, objective, tie
):
    pair = make_pair(objective=objective, tie=tie)
    folders = export(pair, plan=plan_of(pair))
    assert list(folders) == (["discriminator"] if objective == "mlm" else ["generator", "discriminator"])
    columns = torch.arange(17)
    inputs = {
        "input_ids": torch.randint(5, 140, (3, 17), generator=torch.Generator().manual_seed(0)),
        "attention_mask": (columns < torch.tensor([[17], [9], [3]])).long(),
        "token_type_ids": (columns > 6).long().expand(3, -1),
    }
    for network, folder in folders.items():
        is_detector = network == "discriminator" and objective == "electra"
        auto = AutoModelForMaskedLM
        name = "ElectraForMaskedLM"
        if is_detector:
            auto = AutoModelForPreTraining
            name = "ElectraForPreTraining"
        model, info = auto.from_pretrained(folder, output_loading_info=True)
        assert type(model) is getattr(transformers, name) and model.dtype == torch.float32
        assert not any(info.values())
        config = read_json(folder / "config.json")
        assert (config["model_type"], config["architectures"]) == ("electra", [name])
        assert config["pretraining_step"] == 12
        assert AutoTokenizer.from_pretrained(folder)(TEXT)["input_ids"] == wordpiece_tokenizer(TEXT)["input_ids"]
        trained = getattr(pair, network)
        with torch.no_grad():
            assert_close(model(**inputs).logits, trained(**inputs).logits, atol=1e-5, rtol=0)
            hidden = AutoModel.from_pretrained(folder)(**inputs).last_hidden_state
            assert_close(hidden, trained.electra(**inputs).last_hidden_state, atol=1e-5, rtol=0)
        card = ModelCard.load(folder / "README.md")
        assert card.data.pipeline_tag in get_supported_tasks()
        fills_masks = network == "generator" or objective == "mlm"
        assert card.data.pipeline_tag == ("fill-mask" if fills_masks else "feature-extraction")
        assert set(card.data.tags) == {"electra", objective} | {
            network if is_detector or network == "generator" else "masked-language-model"
        }
        assert f'{auto.__name__}.from_pretrained("{network}")' in card.text
    classifier, info = AutoModelForSequenceClassification.from_pretrained(
        folders["discriminator"], num_labels=3, output_loading_info=True
    )
    assert {key.split(".")[0] for key in info["missing_keys"]} == {"classifier"}
    with torch.no_grad():
        assert_close(classifier.electra(**inputs).last_hidden_state, hidden)


def test_the_metadata_of_a_card_is_what_the_hub_reads(export):
    options = {
        "license": "apache-2.0",
        "language": ["en"],
        "init_generator": "/home/someone/generator",
        "hub_token": "hf_secret",
    }
    metrics = {**METRICS, "discriminator_mcc": math.nan}
    folders = export(metrics=metrics, options=options)
    cards = {network: ModelCard.load(folder / "README.md") for network, folder in folders.items()}
    for card in cards.values():
        assert card.data.library_name == "transformers"
        assert (card.data.license, card.data.language) == ("apache-2.0", ["en"])
        assert "hf_secret" not in card.text
    assert "/home" not in cards["generator"].text  # also in the options


def test_the_text_of_a_card_describes_the_network(plan, export):
    folders = export(plan=replace(plan, changes=["step 4: seed 1"]))
    facts = ["4 documents, 100 tokens", "12 steps of 10 x 16 tokens", f"{plan.flops:.2e} FLOPs"]
    facts += [f"{plan.google_flops:.2e} by", "step 4: seed 1", "| 4.568 |"]
    sizes = {
        "generator": f"{plan.generator_parameters:,} parameters (1 layer of 16, 1 head, feed-forward 64)",
        "discriminator": f"{plan.discriminator_parameters:,} parameters (2 layers of 32, 2 heads, feed-forward 48)",
    }
    for network, folder in folders.items():
        text = ModelCard.load(folder / "README.md").text
        assert [fact for fact in (*facts, sizes[network]) if fact not in text] == []


def test_positions_that_were_trained_before_stay_trained(make_pair, export):
    """The longer of what was trained before and of the plan's text, which has 16 tokens."""
    pair = make_pair()
    pair.discriminator.config.pretraining_positions = 30
    pair.generator.config.pretraining_positions = 9
    positions = {
        name: read_json(folder / "config.json")["pretraining_positions"] for name, folder in export(pair).items()
    }
    assert positions == {"generator": 16, "discriminator": 30}


def test_a_card_shows_how_to_fine_tune(export):
    folders = export(metrics={"masked_accuracy": 0.5})
    cards = {name: ModelCard.load(folder / "README.md") for name, folder in folders.items()}
    texts = {name: card.text for name, card in cards.items()}
    for card in cards.values():  # it claims nothing that nobody gave
        assert set(card.data.to_dict()) == {"library_name", "pipeline_tag", "tags"}
    assert "python -m electra classify --pretrain_path discriminator" in texts["discriminator"]
    assert "classify" not in texts["generator"] and "| generator accuracy | 0.5 |" in texts["generator"]


def test_a_card_of_a_network_that_has_not_started_says_so(export):
    verdict = "step 12: the discriminator has not started to learn yet. Held-out AUC 0.500."
    texts = [ModelCard.load(folder / "README.md").text for folder in export(verdict=verdict).values()]
    assert sorted(verdict in text for text in texts) == [False, True]
    assert not any("electra classify" in text for text in texts)
    learned = f"step 12: the discriminator {HAS_LEARNED}. Held-out AUC 0.900."
    texts = [ModelCard.load(folder / "README.md").text for folder in export(verdict=learned).values()]
    assert not any(learned in text for text in texts) and any("electra classify" in text for text in texts)


def test_an_interrupted_export_leaves_the_older_one(make_pair, wordpiece_tokenizer, export, tmp_path, monkeypatch):
    run = tmp_path / "run"
    pair = make_pair()
    (run / "unfinished" / "generator").mkdir(parents=True)
    (run / "unfinished" / "generator" / "pytorch_model.bin").write_bytes(b"half")  # left by a killed export
    export(pair)
    before = contents(run)
    assert {path.parent for path in before} == {run / "generator", run / "discriminator"}
    assert not any(path.name == "pytorch_model.bin" for path in before)
    with torch.no_grad():
        pair.discriminator.electra.embeddings.word_embeddings.weight[9] += 1.0
    save = wordpiece_tokenizer.save_pretrained
    with monkeypatch.context() as patch, raises(KeyboardInterrupt):  # when one of two networks has been saved
        save_and_stop = Mock(wraps=save, side_effect=[DEFAULT, KeyboardInterrupt])
        patch.setattr(wordpiece_tokenizer, "save_pretrained", save_and_stop)
        export(pair)
    assert contents(run) == before
    export(pair)
    after = contents(run)
    assert after.keys() == before.keys()
    changed = {path.name for path in after if after[path] != before[path]}
    assert changed == {"manifest.json", "model.safetensors"}


def test_an_edited_tokenizer_is_refused_and_an_edited_configuration_is_warned_of(export, caplog):
    folder = export()["discriminator"]

    def edit(name):
        (folder / name).write_text((folder / name).read_text() + " ")

    assert locate_model(str(folder)) == str(folder) and "config.json" not in caplog.text
    edit("config.json")
    assert locate_model(str(folder)) == str(folder) and "config.json" in caplog.text
    edit("tokenizer.json")
    with raises(UserError, match=r"tokenizer\.json"):
        locate_model(str(folder))


@parametrize("objective", ["electric", "electra"])
def test_an_export_says_whether_its_head_gives_energies(make_pair, export, objective):
    config = read_json(export(make_pair(objective=objective))["discriminator"] / "config.json")
    assert config.get("head_gives_energies", False) == (objective == "electric")


def test_the_weights_of_an_export_are_guarded(export):
    folder = export()["discriminator"]
    (folder / "README.md").write_text("license: mit")
    assert locate_model(str(folder)) == str(folder)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with raises(UserError, match=r"model\.safetensors"):
        locate_model(str(folder))
    (folder / "manifest.json").unlink()  # on purpose
    assert locate_model(str(folder)) == str(folder)
