"""The exported folders, opened by transformers alone in a process of its own, compute what the pair computed."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import PreTrainedTokenizerBase

from electra.data.token_cache import TokenCache
from electra.errors import UserError
from electra.model.joint import ElectraForJointPretraining
from electra.model.pretrained import locate_model
from electra.pretraining.export import export_networks
from electra.pretraining.plan import Plan, make_plan

METRICS = {"generator_loss": 4.56789, "discriminator_auc": 0.87654321}
TEXT = "The quick fox sells sea shells; the unwonted dog does not mind."

STRANGER = """
import sys, json, torch
from importlib.util import find_spec
from transformers import (AutoModel, AutoModelForMaskedLM, AutoModelForPreTraining,
    AutoModelForSequenceClassification, AutoTokenizer)

run, answers_to = sys.argv[1:]
case = torch.load(run + "/case.pt", weights_only=True)
answers = {}
for network, auto in (("generator", AutoModelForMaskedLM), ("discriminator", AutoModelForPreTraining)):
    model, info = auto.from_pretrained(run + "/" + network, output_loading_info=True)
    answers[network] = model.eval()(**case["inputs"]).logits.detach()
    answers[network + "_info"] = {name: sorted(keys) for name, keys in info.items()}
    answers[network + "_class"] = type(model).__name__
    answers[network + "_dtype"] = str(model.dtype)
    answers[network + "_ids"] = AutoTokenizer.from_pretrained(run + "/" + network)(case["text"])["input_ids"]
    answers[network + "_hidden"] = AutoModel.from_pretrained(run + "/" + network).eval()(
        **case["inputs"]).last_hidden_state.detach()
classifier, info = AutoModelForSequenceClassification.from_pretrained(
    run + "/discriminator", num_labels=3, output_loading_info=True)
answers["classifier_info"] = {name: sorted(keys) for name, keys in info.items()}
answers["classifier_hidden"] = classifier.eval().electra(**case["inputs"]).last_hidden_state.detach()
answers["classifier_shape"] = list(classifier(**case["inputs"]).logits.shape)
answers["knows_this_package"] = find_spec("electra") is not None
torch.save(answers, answers_to)
"""


@pytest.fixture
def pair(make_pair: Callable[..., ElectraForJointPretraining]) -> ElectraForJointPretraining:
    return make_pair()


@pytest.fixture
def export(
    pair: ElectraForJointPretraining, wordpiece_tokenizer: PreTrainedTokenizerBase, plan: Plan, tmp_path: Path
) -> Callable[[], dict[str, Path]]:
    """Export the pair into tmp_path."""

    def run() -> dict[str, Path]:
        return export_networks(pair, wordpiece_tokenizer, tmp_path, plan=plan, metrics=METRICS)

    return run


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_plain_transformers_opens_the_folders_and_computes_the_same(
    pair: ElectraForJointPretraining,
    wordpiece_tokenizer: PreTrainedTokenizerBase,
    export: Callable[[], dict[str, Path]],
    tmp_path: Path,
) -> None:
    assert export() == {"generator": tmp_path / "generator", "discriminator": tmp_path / "discriminator"}
    columns = torch.arange(17)
    inputs = {
        "input_ids": torch.randint(5, 140, (3, 17), generator=torch.Generator().manual_seed(0)),
        "attention_mask": (columns < torch.tensor([[17], [9], [3]])).long(),
        "token_type_ids": (columns > 6).long().expand(3, -1),
    }
    torch.save({"inputs": inputs, "text": TEXT}, tmp_path / "case.pt")
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-I", "-c", STRANGER, str(tmp_path), str(tmp_path / "answers.pt")]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    answers: dict[str, Any] = torch.load(tmp_path / "answers.pt", weights_only=True)

    assert answers["knows_this_package"] is False
    assert answers["generator_class"] == "ElectraForMaskedLM"
    assert answers["discriminator_class"] == "ElectraForPreTraining"
    complaints: dict[str, list[str]] = {
        "missing_keys": [],
        "unexpected_keys": [],
        "mismatched_keys": [],
        "error_msgs": [],
    }
    with torch.no_grad():
        for network in ("generator", "discriminator"):
            model = getattr(pair, network)
            torch.testing.assert_close(answers[network], model(**inputs).logits, atol=1e-5, rtol=0)
            hidden = model.electra(**inputs).last_hidden_state
            torch.testing.assert_close(answers[f"{network}_hidden"], hidden, atol=1e-5, rtol=0)
            assert answers[f"{network}_info"] == complaints
            assert answers[f"{network}_dtype"] == "torch.float32"
            assert answers[f"{network}_ids"] == wordpiece_tokenizer(TEXT)["input_ids"]
    torch.testing.assert_close(answers["classifier_hidden"], answers["discriminator_hidden"], atol=0, rtol=0)
    assert answers["classifier_shape"] == [3, 3]
    info = answers["classifier_info"]
    assert info["missing_keys"] == [
        f"classifier.{layer}.{kind}" for layer in ("dense", "out_proj") for kind in ("bias", "weight")
    ]
    assert all(key.startswith("discriminator_predictions.") for key in info["unexpected_keys"])
    assert info["mismatched_keys"] == info["error_msgs"] == []


def test_a_disentangled_discriminator_is_exported_with_the_shared_table(
    make_pair: Callable[..., ElectraForJointPretraining],
    wordpiece_tokenizer: PreTrainedTokenizerBase,
    plan: Plan,
    tmp_path: Path,
) -> None:
    pair = make_pair(tie="gdes")
    folders = export_networks(pair, wordpiece_tokenizer, tmp_path, plan=plan, metrics={})
    words = pair.discriminator.electra.embeddings.word_embeddings
    exported = load_file(folders["discriminator"] / "model.safetensors")["electra.embeddings.word_embeddings.weight"]
    assert torch.equal(exported, words.shared.weight + words.weight)


def test_the_folders_hold_configuration_weights_tokenizer_and_card(export: Callable[[], dict[str, Path]]) -> None:
    for network, folder in export().items():
        names = {path.name for path in folder.iterdir()}
        assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "README.md"} <= names
        config = json.loads((folder / "config.json").read_text())
        assert (config["model_type"], config["pretraining_step"]) == ("electra", 12)
        assert config["architectures"] == [
            {"generator": "ElectraForMaskedLM", "discriminator": "ElectraForPreTraining"}[network]
        ]


def test_the_cards_say_what_was_trained_on_what_and_how_good_it_is(
    pair: ElectraForJointPretraining, export: Callable[[], dict[str, Path]], plan: Plan
) -> None:
    vocabulary = f"| vocabulary | {pair.config.discriminator.vocab_size} tokens |"
    cards = {network: (folder / "README.md").read_text() for network, folder in export().items()}
    for network, card in cards.items():
        assert card.startswith("---\nlibrary_name: transformers\n") and f"tags: [electra, {network}]" in card
        assert f"| text | {plan.sources[0]['name']}: 1 file, 4 documents, 100 tokens |" in card
        assert "12 steps of 10 x 16 tokens, 4.00 epochs" in card and vocabulary in card
        assert "| generator_loss | 4.568 |" in card and "| discriminator_auc | 0.8765 |" in card
        assert not re.search(r"[{}]", card)  # every field was filled
    assert "AutoModelForMaskedLM" in cards["generator"] and "AutoModelForPreTraining" in cards["discriminator"]
    assert "1 layer of 16, 1 head, feed-forward 64" in cards["generator"]
    assert "2 layers of 32, 2 heads, feed-forward 48" in cards["discriminator"]


def test_a_card_without_metrics_says_so(
    pair: ElectraForJointPretraining, wordpiece_tokenizer: PreTrainedTokenizerBase, plan: Plan, tmp_path: Path
) -> None:
    folders = export_networks(pair, wordpiece_tokenizer, tmp_path, plan=plan, metrics={}, step=8)
    card = (folders["generator"] / "README.md").read_text()
    assert "| none | |" in card and "| weights | of step 8 |" in card


def test_exporting_again_replaces_all_of_the_older_export(
    pair: ElectraForJointPretraining, export: Callable[[], dict[str, Path]], tmp_path: Path
) -> None:
    folders = export()
    before = files_below(tmp_path)
    (folders["generator"] / "left_over.bin").touch()
    with torch.no_grad():
        pair.discriminator.electra.embeddings.word_embeddings.weight[9] += 1.0
    export()
    after = files_below(tmp_path)
    assert after.keys() == before.keys()
    changed = {name for name in after if after[name] != before[name]}
    files = ("manifest.json", "model.safetensors")  # what is shared is in both networks
    assert changed == {f"{network}/{file}" for network in ("generator", "discriminator") for file in files}


@pytest.mark.parametrize("stop", [OSError("disk full"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("saved_before_it_stops", [0, 1])
def test_an_interrupted_export_leaves_the_older_one_and_nothing_half_written(
    pair: ElectraForJointPretraining,
    wordpiece_tokenizer: PreTrainedTokenizerBase,
    export: Callable[[], dict[str, Path]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stop: BaseException,
    saved_before_it_stops: int,
) -> None:
    def save_and_stop(folder: Path) -> None:
        if len(attempts) == saved_before_it_stops:
            raise stop
        attempts.append(folder)
        save(folder)

    save = wordpiece_tokenizer.save_pretrained
    attempts: list[Path] = []
    with monkeypatch.context() as patch, pytest.raises(type(stop)):
        patch.setattr(wordpiece_tokenizer, "save_pretrained", save_and_stop)
        export()
    assert list(tmp_path.iterdir()) == []

    export()
    before = files_below(tmp_path)
    with torch.no_grad():
        pair.discriminator.electra.embeddings.word_embeddings.weight[9] += 1.0
    attempts.clear()
    with monkeypatch.context() as patch, pytest.raises(type(stop)):
        patch.setattr(wordpiece_tokenizer, "save_pretrained", save_and_stop)
        export()
    assert files_below(tmp_path) == before
    assert {path.name for path in tmp_path.iterdir()} == {"generator", "discriminator"}


def test_the_weights_of_an_export_are_guarded_and_its_card_is_free_to_be_filled_in(
    export: Callable[[], dict[str, Path]], tmp_path: Path
) -> None:
    for folder in export().values():
        (folder / "README.md").write_text("license: mit")
        assert locate_model(str(folder)) == str(folder)
        weights = folder / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-1] + b"x")
        with pytest.raises(UserError, match=rf"{folder.name} is damaged: model\.safetensors is not what was written"):
            locate_model(str(folder))
        (folder / "manifest.json").unlink()  # on purpose
        assert locate_model(str(folder)) == str(folder)


def test_what_a_killed_export_left_behind_is_not_exported(
    export: Callable[[], dict[str, Path]], tmp_path: Path
) -> None:
    (tmp_path / "generator.unfinished").mkdir()
    (tmp_path / "generator.unfinished" / "pytorch_model.bin").write_bytes(b"half")
    folders = export()
    assert not (folders["generator"] / "pytorch_model.bin").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"generator", "discriminator"}


MASKED_LM_STRANGER = """
import sys, torch
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification

run, answers_to = sys.argv[1:]
inputs = torch.load(run + "/inputs.pt", weights_only=True)
model, info = AutoModelForMaskedLM.from_pretrained(run + "/discriminator", output_loading_info=True)
classifier = AutoModelForSequenceClassification.from_pretrained(run + "/discriminator", num_labels=3)
torch.save({
    "logits": model.eval()(**inputs).logits.detach(),
    "info": {name: sorted(keys) for name, keys in info.items()},
    "hidden": classifier.eval().electra(**inputs).last_hidden_state.detach(),
}, answers_to)
"""


@pytest.mark.parametrize("objective", ["mlm", "all_tokens_mlm"])
def test_plain_transformers_opens_the_main_network_of_other_objectives_as_a_masked_language_model(
    make_pair: Callable[..., ElectraForJointPretraining],
    wordpiece_tokenizer: PreTrainedTokenizerBase,
    cache: TokenCache,
    tmp_path: Path,
    objective: str,
) -> None:
    model = make_pair(objective=objective)
    plan = make_plan(
        model, cache, held_out_lengths=[10], segments_per_epoch=30, steps=12, batch_size=10, max_length=16
    )
    folders = export_networks(model, wordpiece_tokenizer, tmp_path, plan=plan, metrics={"mlm_loss": 2.0})
    networks = {"discriminator"} if objective == "mlm" else {"generator", "discriminator"}
    assert set(folders) == {path.name for path in tmp_path.iterdir()} == networks
    inputs = {"input_ids": torch.randint(5, 140, (3, 17), generator=torch.Generator().manual_seed(0))}
    torch.save(inputs, tmp_path / "inputs.pt")
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-I", "-c", MASKED_LM_STRANGER, str(tmp_path), str(tmp_path / "answers.pt")]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    answers: dict[str, Any] = torch.load(tmp_path / "answers.pt", weights_only=True)
    with torch.no_grad():
        torch.testing.assert_close(answers["logits"], model.discriminator(**inputs).logits, atol=1e-5, rtol=0)
        hidden = model.discriminator.electra(**inputs).last_hidden_state
        torch.testing.assert_close(answers["hidden"], hidden, atol=1e-5, rtol=0)
    assert not any(answers["info"].values())
    card = (tmp_path / "discriminator" / "README.md").read_text()
    assert "tags: [electra, masked-language-model]" in card and f"| objective | {objective} |" in card
    assert "# ELECTRA masked language model: " in card and "AutoModelForMaskedLM.from_pretrained" in card
    assert "2 layers of 32, 2 heads, feed-forward 48" in card and "| mlm_loss | 2 |" in card
    assert ("copy gate" in card) == (objective == "all_tokens_mlm")
