"""`electra detect`: probabilities are the network's, offsets those of the text, measures those of the labels."""

import json
import random

import numpy as np
import pytest
import torch
from pytest import approx
from safetensors.torch import load_file, save_file

from electra.report.evaluation import BAG_OF_WORDS
from electra.tasks.detect.scores import Detector, LabelledText, ScoredTokens, read_texts
from electra.tasks.detect.task import (
    Scores,
    agreement_of_words,
    agreement_table,
    auroc_error,
    main,
    verdict_of,
)
from electra.tasks.minimal_pairs.task import main as pairs
from electra.tokenizers.options import TokenizerArguments
from electra.tokenizers.train import train_on_documents
from electra.tools.inspect import main as inspect
from tests.conftest import refused, refused_command
from tests.helpers import parametrize, read_json
from tests.tasks.minimal_pairs.networks import random_pair, write_run

TEXTS = ["the dog sells sea shells", "", "a fox  jumps 🦊 over the café\u0301 — שלום dog", "fox"]


@pytest.fixture(scope="module")
def detector(wordpiece_tokenizer):
    return Detector(random_pair(wordpiece_tokenizer)[0], wordpiece_tokenizer, max_length=24, batch_size=3)


def test_probabilities_are_those_of_the_network_at_the_text(detector, wordpiece_tokenizer):
    for text, scored in zip(TEXTS, detector.score(TEXTS), strict=True):
        encoded = wordpiece_tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
        offsets = encoded.pop("offset_mapping")[0, 1:-1]
        with torch.no_grad():
            expected = detector.network(**encoded).logits[0, 1:-1].sigmoid()
        assert scored.probabilities == approx(expected.numpy(), abs=1e-6)
        assert np.stack(scored[:2], axis=1).tolist() == offsets.tolist()
        assert all(text[start:end].strip() for start, end in offsets.tolist())


def test_texts_that_the_network_cannot_read_are_counted(wordpiece_tokenizer):
    network, *_ = random_pair(wordpiece_tokenizer)
    reader = Detector(network, wordpiece_tokenizer, max_length=24)
    reader.score(["\u03b1\u03b2 \u03b3", "fox"])
    reader.score(["\u03b1"])
    assert (reader.unknown.unknown, reader.unknown.rows, reader.unknown.unreadable) == (3, 3, 2)
    measures = {"AUROC": 0.9, "wrong": 50, "right": 50}
    summary = {"agreement": {"text": measures}, "unknown_share": 0.6}
    assert verdict_of(summary).is_good is None
    assert verdict_of({**summary, "unknown_share": 0.1}).is_good


def test_long_texts_are_judged_in_windows_each_token_once(detector, wordpiece_tokenizer):
    text = " ".join(["the dog sells sea shells by the sea"] * 9)
    (scored,) = detector.score([text])
    ids = wordpiece_tokenizer(text, add_special_tokens=False)["input_ids"]
    assert len(scored.starts) == len(ids) > 3 * 22
    assert (np.diff(scored.starts) > 0).all() and scored.ends[-1] == len(text)
    cls = wordpiece_tokenizer.cls_token_id
    sep = wordpiece_tokenizer.sep_token_id
    expected = [[] for _ in ids]
    for start in dict.fromkeys(min(start, len(ids) - 22) for start in range(0, len(ids) - 11, 11)):
        window = torch.tensor([[cls, *ids[start : start + 22], sep]])
        with torch.no_grad():
            found = detector.network(window).logits[0, 1:-1].sigmoid().tolist()
        for token, p in enumerate(found, start):
            expected[token].append(p)
    assert set(map(len, expected)) == {1, 2, 3}  # the last window begins earlier, to be as long as the others
    assert scored.probabilities == approx([sum(values) / len(values) for values in expected], abs=1e-6)


def test_the_measures_of_hand_made_scores():
    scores = Scores()
    right = ScoredTokens(np.array([0, 2]), np.array([1, 3]), np.array([0.1, 0.6], np.float32))
    wrong = ScoredTokens(np.array([0, 2]), np.array([1, 3]), np.array([0.3, 0.8], np.float32))
    scores.add(right, False, [])
    scores.add(wrong, True, [[2, 3]])
    scores.add(wrong, None, None)  # without labels
    found = scores.agreement({"token": 0.2, "text": 0.5})
    # One wrong token of four, the highest; three are above the threshold: precision 1 / 3, recall 1.
    measures = {"AUROC": 1.0, "average precision": 1.0, "F0.5": approx(1.25 / 3.25)}
    assert found["token"] == {**measures, "wrong": 1, "right": 3}
    assert found["text"]["F0.5"] == 1.0


def test_thresholds_are_exceeded_by_a_share_of_right_texts():
    scores = Scores()
    for tenths in range(5):  # each text has a token of 0, too
        probabilities = np.array([0.0, tenths / 10], np.float32)
        scores.add(ScoredTokens(np.array([0, 2]), np.array([1, 3]), probabilities), False, [])
    assert scores.thresholds(0.25) == approx({"text": 0.15, "token": 0.2}, abs=1e-6)


def labelled(texts):
    return [LabelledText(f"a:{n}", text, is_wrong, None) for n, (text, is_wrong) in enumerate(texts)]


def test_a_bag_of_words_judges_texts_that_it_has_not_seen():
    informative = [(f"{'bad' if n % 2 else 'good'} film {n}", bool(n % 2)) for n in range(40)]
    found = agreement_of_words(labelled(informative))
    assert found["AUROC"] == found["average precision"] == 1 and (found["wrong"], found["right"]) == (20, 20)
    rng = random.Random(0)
    # Each text is there four times, in other cases and white space, with labels that say nothing: to have seen a copy
    # would be to know the label.
    words = [" ".join(rng.sample("abcdefghijklmnopqrstuvwxyz", 4)).replace(" ", "x ") for _ in range(60)]
    copies = [(form(text), n % 2 == 0) for n, text in enumerate(words) for form in (str, str.upper, "  {} ".format)]
    assert 0.3 < agreement_of_words(labelled(copies))["AUROC"] < 0.7


@parametrize(
    "texts",
    [
        [],
        [("one", True), ("two", True)],
        [("one", True), ("ONE ", True), ("two", False), ("three", False)],  # one different text is wrong
        [("!", True), ("?", True), (".", False), (",", False)],
    ],
)
def test_labels_of_which_nothing_can_be_learned_have_no_bag_of_words(texts):
    assert agreement_of_words(labelled(texts)) == {}


def test_the_error_of_an_auroc():
    # of guesses that of Mann and Whitney's test, sqrt((n + m + 1) / (12 n m))
    assert auroc_error({"AUROC": 0.5, "wrong": 51, "right": 58}) == approx((110 / (12 * 51 * 58)) ** 0.5)
    assert auroc_error({"AUROC": 1.0, "wrong": 5, "right": 5}) == 0


def summary_of(**agreement):
    return {"file": "a", "texts": 9, "tokens": 8, "spans": 7, "thresholds": {"token": 0.5}, "agreement": agreement}


@parametrize(
    ("area", "count", "is_good"),
    [(0.8, 50, True), (0.95, 24, None), (0.52, 100, False), (0.5, 1000, False), (0.2, 1000, False)],
)
def test_the_verdict_on_scores_with_labels(area, count, is_good):
    measures = {"AUROC": area, "average precision": 0.5, "F0.5": 0.5, "wrong": count, "right": count}
    summary = {
        **summary_of(text=measures, token={**measures, "AUROC": 0.9}),
        BAG_OF_WORDS: {**measures, "AUROC": 0.95},
    }
    verdict = verdict_of(summary)
    assert verdict.is_good is is_good and f"AUROC of {area:.3f}" in verdict.text and "0.950" in verdict.text
    assert [row[:2] for row in agreement_table(summary).rows] == [
        ["texts", "D"],
        ["tokens", "D"],
        ["texts", BAG_OF_WORDS],
    ]
    assert verdict_of(summary_of()).is_good is None


@pytest.fixture
def world(tmp_path, wordpiece_tokenizer, monkeypatch):
    write_run(tmp_path / "run", wordpiece_tokenizer)
    monkeypatch.chdir(tmp_path)
    return tmp_path


FLAGS = ["--pretrain_path", "run", "--max_length", "24"]


def test_the_command_writes_lines_and_a_summary(world, capsys):
    rows = [{"text": text, "spans": [[4, 7]] if "dog" in text else []} for text in TEXTS]
    (world / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (world / "right.txt").write_text("the dog\r\n\r\nshe sells <b>real</b> shells\n" * 20)
    for _ in range(2):  # the folder may be of an earlier start of the same command
        main(["texts.jsonl", *FLAGS, "--validation_file", "right.txt", "--false_alarm_rate", "0.2"])
    folder = world / "output" / "detect_texts"
    lines = [json.loads(line) for line in (folder / "scores.jsonl").read_text().splitlines()]
    assert [line["text"] for line in lines] == TEXTS and lines[2]["place"] == "texts.jsonl:3"
    assert lines[1]["tokens"] == [] and lines[1]["mean"] == 0
    summary = read_json(folder / "summary.json")
    threshold = summary["thresholds"]["token"]
    for line in lines:
        values = [p for _, _, p in line["tokens"]]
        assert line["mean"] == approx(sum(values) / max(1, len(values)), abs=1e-4)
        above = [start for start, _, p in line["tokens"] if p > threshold + 1e-4]
        assert all(any(start <= first < end for start, end, _ in line["spans"]) for first in above)
    assert set(summary["agreement"]) == {"token", "text"} and summary[BAG_OF_WORDS]["wrong"] == 2
    assert {path.name for path in folder.iterdir()} == {"scores.jsonl", "summary.json"}
    said = capsys.readouterr().out
    assert "texts.jsonl:3" in said and "agreement with the labels" in said and "AUROC of" in said


@parametrize(
    ("files", "argv"),
    [
        ({}, ["missing.txt"]),
        ({"a.jsonl": '{"text": "the dog"}\n{"text": 5}\n'}, ["a.jsonl"]),
        ({"a.txt": "\u200b\n"}, ["a.txt"]),
        (
            {"a.txt": "the dog", "b.jsonl": '{"text": ""}\n{"text": "\u200b"}\n'},
            ["a.txt", "--validation_file=b.jsonl"],
        ),
    ],
)
def test_what_is_refused_leaves_no_folder(world, capsys, files, argv):
    for name, content in files.items():
        (world / name).write_text(content)
    refused_command(main, [*argv, *FLAGS], capsys)
    assert not (world / "output").exists()


def test_the_terminal_has_counts_and_agreement(world, capsys):
    (world / "a.jsonl").write_text('{"text": "the dog", "spans": [[4, 7]]}\n{"text": "the fox", "spans": []}\n')
    main(["a.jsonl", *FLAGS, "--threshold=0.999"])
    said = capsys.readouterr().out
    assert "AUROC" in said and " 0 spans above 0.999" in said


def test_texts_have_labels_or_spans_or_none(tmp_path):
    (tmp_path / "a.csv").write_bytes('\ufefftext,label\r\n"a ""b""\nc",1\r\nd,0\r\n'.encode())
    first, second = read_texts(str(tmp_path / "a.csv"), "text")
    assert (first.text, first.is_wrong, second.is_wrong) == ('a "b"\nc', True, False)
    (tmp_path / "a.jsonl").write_text('{"body": "x"}\n\n{"body": "y", "spans": [[0, 1]]}\n')
    (tmp_path / "b.jsonl").write_text('{"text": "x", "label": true}\n{"text": "y", "label": 0.0}\n')
    assert [text.is_wrong for text in read_texts(str(tmp_path / "b.jsonl"), "text")] == [True, False]
    found = [(text.text, text.place[-2:], text.is_wrong) for text in read_texts(str(tmp_path / "a.jsonl"), "body")]
    assert found == [("x", ":1", None), ("y", ":3", True)]
    for content, message in (
        ('{"body": "x"}', "a.jsonl:1 has no text in its column text of body"),
        ('{"text": 3}', "no text"),
        ('{"text": "x", "label": "bad"}', "0 or 1, not 'bad'"),
        ('{"text": "x", "spans": [[1]]}', "a list of [start, end]"),
        ('{"text": "x", "spans": [[0, 2]]}', "within the text"),
        ('{"text": "x", "spans": [[0.0, 1]]}', "within the text"),
        ('{"text": "x", "spans": [[false, true]]}', "within the text"),
    ):
        (tmp_path / "a.jsonl").write_text(content)
        assert message in refused(lambda: list(read_texts(str(tmp_path / "a.jsonl"), "text")))


def test_a_column_of_other_labels_can_be_left_out(tmp_path):
    (tmp_path / "a.csv").write_text(",text,label\n7,fine,positive\n")  # with pandas' index
    (text,) = read_texts(str(tmp_path / "a.csv"), "text", "")
    assert text.is_wrong is None
    (tmp_path / "plain.txt").write_text("fine\n")  # --text_column is for tables
    assert [text.text for text in read_texts(str(tmp_path / "plain.txt"), "body")] == ["fine"]


def test_tokens_do_not_begin_with_the_space_before_them():
    text = "the dog sells shells"
    options = TokenizerArguments(tokenizer_algorithm="byte_bpe", vocab_size=270, min_frequency=1)
    tokenizer = train_on_documents([text] * 3, options, seed=0)
    (scored,) = Detector(random_pair(tokenizer)[0], tokenizer, max_length=24).score([text])
    assert all(not text[start:end].startswith(" ") for start, end in zip(scored.starts, scored.ends, strict=True))


@parametrize(
    ("argv", "message"),
    [
        (["a.txt", "--pretrain_path", "run", "--max_length", "2"], "--max_length 2"),
        (["nothing.txt", *FLAGS], "nothing.txt"),
        (["a.txt", "--pretrain_path", "run/generator"], "no head that finds replaced tokens"),
        (["a.txt", "--pretrain_path", "electric", "--max_length", "24"], "no head"),
        (["a.txt", *FLAGS, "--false_alarm_rate", "1.5"], "--false_alarm_rate 1.5"),
        (["a.txt", *FLAGS, "--threshold", "1.5"], "--threshold 1.5"),
        (["a.txt", *FLAGS, "--validation_file", "empty.txt"], "empty.txt has no text"),
        (["zero.txt", *FLAGS], "zero.txt has no text"),
        (["cut.csv", *FLAGS], "cut.csv:3 cannot be read"),
        (["a.txt", *FLAGS, "--output_dir", "run"], "run holds other files or other results"),
    ],
)
def test_wrong_commands_are_refused(world, wordpiece_tokenizer, argv, message, capsys):
    write_run(world / "electric", wordpiece_tokenizer, objective="electric")
    (world / "a.txt").write_text("the dog")
    (world / "empty.txt").write_text("")
    (world / "zero.txt").write_text("\u200b\n")
    (world / "cut.csv").write_text('text\nthe dog\n"the')
    assert message in refused_command(main, argv, capsys)
    assert not any(path.is_file() for path in world.glob("output/*/*"))


def test_weights_that_are_not_finite_are_refused_by_name(world, capsys):
    path = next((world / "run").rglob("discriminator/model.safetensors"), None) or next(
        world.rglob("model.safetensors")
    )
    weights = load_file(path)
    name = next(name for name in weights if "word_embeddings" in name)
    weights[name][3, 0] = float("inf")
    save_file(weights, path, metadata={"format": "pt"})
    for manifest in world.rglob("manifest.json"):
        manifest.unlink()
    (world / "a.txt").write_text("the dog")
    folder = str(path.parent)
    for command, argv in (
        (main, ["a.txt", "--pretrain_path", folder]),
        (inspect, [folder, "the dog"]),
        (pairs, ["--pretrain_path", folder, "--data=a.txt"]),
    ):
        assert "word_embeddings" in refused_command(command, argv, capsys)
