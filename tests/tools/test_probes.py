"""Minimal pairs and a linear probe at each evaluation of a run: values, and files that cannot be used."""

import itertools
import json
import math
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from pytest import approx
from safetensors.torch import load_file

from electra.pretraining.options import parse_pretraining_arguments
from electra.pretraining.run import main as pretrain
from electra.tasks.minimal_pairs.task import main as pairs
from electra.tools import probes
from electra.tools.probes import LabelProbe, PairsProbe, draw_rows, make_probes
from tests.conftest import refused
from tests.core.helpers import make_model
from tests.helpers import parametrize, read_json
from tests.pretraining.runs import WORDS, flags, make, write_corpus


@pytest.fixture(scope="module")
def folder(tmp_path_factory, short_end):
    """A folder with a corpus, pairs.jsonl of two paradigms, and labels.jsonl of two classes, sorted by class."""
    path = tmp_path_factory.mktemp("probes")
    write_corpus(path / "corpus.txt")
    rows = [
        {
            "sentence_good": " ".join(WORDS[place : place + 4]),
            "sentence_bad": " ".join(WORDS[place + 9 : place + 13]),
            "UID": uid,
        }
        for uid, count in (("a", 6), ("b", 2))
        for place in range(count)
    ]
    (path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    texts = [
        {"text": " ".join(WORDS[20 * label : 20 * label + 3 + number % 5]), "label": label}
        for label in (0, 1)
        for number in range(20)
    ]
    (path / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in texts))
    return path


@pytest.mark.slow
def test_a_run_is_the_same_with_probes_and_logs_what_the_command_measures(folder, tmp_path):
    for name, probe_files in (
        ("with", {"eval_pairs": folder / "pairs.jsonl", "eval_classify": folder / "labels.jsonl"}),
        ("without", {}),
    ):
        options = {
            "train_file": folder / "corpus.txt",
            "experiment_name": name,
            "max_steps": 6,
            "eval_steps": 3,
            **probe_files,
        }
        pretrain(flags(tmp_path, **options))
    probed, plain = (tmp_path / "output" / name for name in ("with", "without"))
    weights, expected = (load_file(run / "discriminator" / "model.safetensors") for run in (probed, plain))
    assert all(torch.equal(weights[name], expected[name]) for name in expected)
    logs = [line for line in read_json(probed / "trainer_state.json")["log_history"] if "eval_loss" in line]
    assert [line["step"] for line in logs] == [0, 3, 6]
    for name in ("pairs_accuracy", "probe_accuracy"):
        assert all(0 <= line[f"eval_{name}"] <= 1 for line in logs)
        held_out = read_json(probed / "metrics.json")["held_out"]
        assert (
            held_out["trained"][name] == logs[-1][f"eval_{name}"]
            and held_out["untrained"][name] == logs[0][f"eval_{name}"]
        )
        assert name not in read_json(plain / "metrics.json")["held_out"]["trained"]
    page = (probed / "report.html").read_text()
    assert "linear probe" in page and "minimal pairs" in page

    argv = {"pretrain_path": probed, "data": folder / "pairs.jsonl", "output_dir": tmp_path, "experiment_name": "p"}
    pairs([*(f"--{name}={value}" for name, value in argv.items()), "--score=discriminator", "--use_cpu"])
    of_command = read_json(tmp_path / "p" / "minimal_pairs.json")["scores"]["discriminator"]["overall"]["accuracy"]
    assert logs[-1]["eval_pairs_accuracy"] == approx(of_command)


@parametrize(
    ("objective", "score"),
    [("electra", "discriminator"), ("electric", "electric"), ("mlm", "pll"), ("causal", "causal")],
)
def test_probes_measure_the_main_network_by_its_score_and_draw_nothing(folder, tmp_path, objective, score):
    trainer = make(tmp_path, train_file=folder / "corpus.txt", objective=objective)
    trainer.model.eval()
    run_probes = make_probes(
        str(folder / "pairs.jsonl"), str(folder / "labels.jsonl"), trainer.model, trainer.processing_class
    )
    before = torch.random.get_rng_state()
    measured = {name: value for probe in run_probes for name, value in probe(trainer.model).items()}
    assert torch.equal(torch.random.get_rng_state(), before)
    assert run_probes[0].score == score and set(measured) == {"pairs_accuracy", "probe_accuracy"}
    assert measured["probe_accuracy"] == 1.0  # the words of the two classes differ
    for parameter in trainer.model.parameters():  # what is measured depends on them
        parameter.data.fill_(math.nan)
    assert all(math.isnan(value) for probe in run_probes for value in probe(trainer.model).values())


def test_features_are_the_mean_states_of_each_text_in_order(tmp_path, framed_tokenizer, monkeypatch):
    monkeypatch.setattr(probes, "BATCH", 5)  # texts of different lengths in three batches
    texts = [
        " ".join(str(5 + (7 * number + place) % 30) for place in range(1 + 5 * number % 7)) for number in range(12)
    ]
    rows = [json.dumps({"text": text, "label": number % 2}) for number, text in enumerate(texts)]
    (tmp_path / "a.jsonl").write_text("\n".join(rows))
    probe = LabelProbe.read(str(tmp_path / "a.jsonl"), framed_tokenizer, 16)
    model = make_model().eval()
    all_features = probe.features(model)
    with torch.no_grad():
        for text, features in zip(texts, all_features, strict=True):
            states = model.discriminator.electra(**framed_tokenizer(text, return_tensors="pt")).last_hidden_state
            assert features == approx(states[0].mean(0).numpy(), abs=1e-5)


def test_a_paradigm_counts_once_whatever_its_number_of_pairs(folder, number_tokenizer, monkeypatch):
    probe = PairsProbe.read(str(folder / "pairs.jsonl"), number_tokenizer, "discriminator", 32)
    values = np.array([1.0, 0.0] * 6 + [0.0, 1.0, 2.0, 2.0])  # of a all right; of b one wrong, one tie
    monkeypatch.setattr(
        probes, "Scorer", lambda *arguments: SimpleNamespace(scores=lambda *pairs: {"discriminator": values})
    )
    assert probe(SimpleNamespace(discriminator=None)) == {"pairs_accuracy": (1 + 0.25) / 2}


@parametrize("names", [("premise", "hypothesis"), ("sentence1", "sentence2")])  # of MNLI, and of MRPC, RTE, STS-B
def test_two_texts_are_read_as_a_pair(tmp_path, framed_tokenizer, names):
    rows = [{names[0]: f"{10 + number}", names[1]: "7 8", "label": "yn"[number % 2]} for number in range(12)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    probe = LabelProbe.read(str(tmp_path / "a.jsonl"), framed_tokenizer, 16)
    assert probe.classes.tolist() == [1, 0] * 6 and set(probe.rows.lengths.tolist()) == {6}  # [CLS] 10 [SEP] 7 8 [SEP]


@parametrize("groups", ["ab" * 300, "abc" * 200, "a" * 300 + "b" * 300, "a" * 20 + "b" * 581])
def test_rows_of_a_long_file_are_drawn_in_equal_shares_of_groups(groups):
    """In their order, the same each time, and not every n-th, which could be one group."""
    numbers = draw_rows(groups, 500)
    assert numbers == sorted({*numbers}) == draw_rows(groups, 500) and len(numbers) == 500
    drawn = Counter(groups[number] for number in numbers)
    total = Counter(groups)
    shares = {group: min(total[group], 500 // len(total)) for group in total}
    assert all(drawn[group] >= share for group, share in shares.items())
    distances = Counter(b - a for a, b in itertools.pairwise(numbers))
    assert len(distances) > 2
    assert draw_rows(groups, 5000) == list(range(len(groups)))


def test_a_long_file_whose_groups_take_turns_is_drawn_from_all_groups(tmp_path, number_tokenizer, monkeypatch):
    monkeypatch.setattr(probes, "MOST_PAIRS", 30)
    monkeypatch.setattr(probes, "MOST_TEXTS", 40)
    rows = [{"sentence_good": "5 6", "sentence_bad": "7 8", "UID": "ab"[number % 2]} for number in range(60)]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pairs_probe = PairsProbe.read(str(tmp_path / "pairs.jsonl"), number_tokenizer, "discriminator", 32)
    assert Counter(pair.paradigm for pair in pairs_probe.pairs) == {"a": 15, "b": 15}
    # Every fourth row would be one class.
    texts = [{"text": f"{5 + number % 30}", "label": number % 4} for number in range(160)]
    (tmp_path / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in texts))
    before = number_tokenizer.backend_tokenizer.to_str()
    probe = LabelProbe.read(str(tmp_path / "labels.jsonl"), number_tokenizer, 16)
    assert np.bincount(probe.classes).tolist() == [10, 10, 10, 10]
    assert number_tokenizer.backend_tokenizer.to_str() == before  # no truncation is left in what is exported


@parametrize(
    ("content", "named"),
    [
        ("", "fewer than two classes"),
        ('{"text": "a"}\n', "a.jsonl:1 has no column 'label'"),
        ('{"text": "a", "label": "x"}\n' * 9, "fewer than two classes"),
        ('{"txt": "a", "label": "x"}\n', "a.jsonl:1 has no column 'text'"),
    ],
)
def test_labels_that_cannot_be_probed_are_refused(tmp_path, number_tokenizer, content, named):
    (tmp_path / "a.jsonl").write_text(content)
    assert named in refused(lambda: LabelProbe.read(str(tmp_path / "a.jsonl"), number_tokenizer, 16))


def test_a_sentence_longer_than_the_network_is_refused(tmp_path, number_tokenizer):
    row = {"sentence_good": " ".join(["7"] * 20), "sentence_bad": "8"}
    (tmp_path / "a.jsonl").write_text(json.dumps(row) + "\n")
    path = str(tmp_path / "a.jsonl")
    message = refused(lambda: PairsProbe.read(path, number_tokenizer, "discriminator", 16))
    assert "a.jsonl:1 has 20 tokens" in message


@parametrize("more", [{"eval_strategy": "no"}, {"validation_fraction": 0}])
def test_probes_without_evaluations_are_said_to_have_no_effect(folder, caplog, more):
    parse_pretraining_arguments(flags(folder, eval_pairs=folder / "pairs.jsonl", **more))
    assert "no effect: --eval_pairs" in caplog.text


def test_probes_are_refused_with_fsdp_which_has_parts_of_a_network(folder):
    options = {"eval_pairs": folder / "pairs.jsonl", "fsdp": "full_shard"}
    assert "--eval_pairs" in refused(lambda: parse_pretraining_arguments(flags(folder, **options)))
