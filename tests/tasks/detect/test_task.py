"""`electra detect`: probabilities are the network's, offsets those of the text, measures those of the labels."""

import json

import numpy as np
import pytest
import torch
from pytest import approx
from safetensors.torch import load_file, save_file

from electra.tasks.detect.scores import Detector, LabelledText, ScoredTokens, read_texts
from electra.tasks.detect.task import agreement, auroc_error, main, verdicts_of, worst_row
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
    """A discriminator with random weights that reads 24 tokens at once."""
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
    measures = {"AUROC": 0.9, "standard_error": 0.03, "wrong": 50, "right": 50}
    for share, is_good in ((0.6, None), (0.1, True)):
        (verdict,) = verdicts_of({"agreement": {"text": measures}, "unknown_share": share})
        assert verdict.is_good is is_good


def test_long_texts_are_judged_in_windows_each_token_once(detector, wordpiece_tokenizer):
    text = " ".join(["the dog sells sea shells by the sea"] * 9)
    (scored,) = detector.score([text])
    ids = wordpiece_tokenizer(text, add_special_tokens=False)["input_ids"]
    assert len(scored.starts) == len(ids) > 3 * 22
    assert (np.diff(scored.starts) > 0).all() and scored.ends[-1] == len(text)
    cls = wordpiece_tokenizer.cls_token_id
    sep = wordpiece_tokenizer.sep_token_id
    expected = [[] for _ in ids]
    # A window has 22 tokens between [CLS] and [SEP]; the next one begins half a window later.
    for start in dict.fromkeys(min(start, len(ids) - 22) for start in range(0, len(ids) - 11, 11)):
        window = torch.tensor([[cls, *ids[start : start + 22], sep]])
        with torch.no_grad():
            window_probabilities = detector.network(window).logits[0, 1:-1].sigmoid().tolist()
        for token, probability in enumerate(window_probabilities, start):
            expected[token].append(probability)
    assert set(map(len, expected)) == {1, 2, 3}  # the last window begins earlier, to be as long as the others
    assert scored.probabilities == approx([sum(values) / len(values) for values in expected], abs=1e-6)


def scored_tokens(*probabilities):
    """Return tokens of one character, a space between them, with these probabilities."""
    starts = np.arange(0, 2 * len(probabilities), 2)
    return ScoredTokens(starts, starts + 1, np.array(probabilities, np.float32))


def test_agreement_with_labels_is_that_worked_out_by_hand():
    texts = [
        LabelledText("a:1", "a b", False, []),
        LabelledText("a:2", "a b", True, [[2, 3]]),
        LabelledText("a:3", "a b", None, None),  # without labels
        LabelledText("a:4", "a b", False, None),
    ]
    scores = [scored_tokens(*pair) for pair in ((0.125, 0.625), (0.25, 0.5), (0.9, 0.9), (0.25, 0.25))]
    agreed = agreement(texts, scores)
    # The wrong token is above two of three right ones; the wrong text level with one right text, above the other.
    error = approx((0.4 / 3) ** 0.5)
    assert agreed["token"] == {"AUROC": approx(2 / 3), "standard_error": error, "wrong": 1, "right": 3}
    assert agreed["text"]["AUROC"] == 0.75 and agreed["text"]["right"] == 2
    assert agreement(texts[:1], scores[:1]) == {}


def test_the_error_of_an_auroc_of_guesses_is_that_of_mann_and_whitney():
    # of guesses that of Mann and Whitney's test, sqrt((n + m + 1) / (12 n m))
    assert auroc_error(0.5, 51, 58) == approx((110 / (12 * 51 * 58)) ** 0.5)
    assert auroc_error(1.0, 5, 5) == 0


@parametrize(
    ("area", "count", "is_good"),
    [(0.8, 50, True), (0.95, 24, None), (0.52, 100, False), (0.5, 1000, False), (0.2, 1000, False)],
)
def test_a_good_verdict_needs_enough_texts_and_an_auroc_above_guessing(area, count, is_good):
    measures = {"AUROC": area, "standard_error": auroc_error(area, count, count), "wrong": count, "right": count}
    (verdict,) = verdicts_of({"unknown_share": 0.1, "agreement": {"text": measures}})
    assert verdict.is_good is is_good and f"AUROC of {area:.3f}" in verdict.text
    assert verdicts_of({"unknown_share": 0.1, "agreement": {}}) == []


@pytest.fixture
def world(tmp_path, wordpiece_tokenizer, monkeypatch):
    """A run/ in the working directory."""
    write_run(tmp_path / "run", wordpiece_tokenizer)
    monkeypatch.chdir(tmp_path)
    return tmp_path


FLAGS = ["--pretrain_path", "run", "--max_length", "24"]


def test_the_command_writes_lines_and_a_summary(world, capsys):
    rows = [{"text": text, "spans": [[4, 7]] if "dog" in text else []} for text in TEXTS]
    (world / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for _ in range(2):  # the folder may be of an earlier start of the same command
        main(["texts.jsonl", *FLAGS, "--threshold", "0.4"])
    folder = world / "output" / "detect_texts"
    lines = [json.loads(line) for line in (folder / "scores.jsonl").read_text().splitlines()]
    assert [line["text"] for line in lines] == TEXTS and lines[2]["place"] == "texts.jsonl:3"
    assert lines[1]["tokens"] == [] and lines[1]["mean"] == 0
    summary = read_json(folder / "summary.json")
    assert any(line["spans"] for line in lines)
    for line in lines:
        values = [probability for _, _, probability in line["tokens"]]
        assert line["mean"] == approx(sum(values) / max(1, len(values)), abs=1e-4)
        above = [start for start, _, probability in line["tokens"] if probability > 0.4 + 1e-4]
        assert all(any(start <= first < end for start, end, _ in line["spans"]) for first in above)
    assert set(summary["agreement"]) == {"token", "text"}
    assert summary["threshold"] == 0.4 and summary["agreement"]["text"]["wrong"] == 2
    assert {path.name for path in folder.iterdir()} == {"scores.jsonl", "summary.json"}
    output = capsys.readouterr().out
    assert "texts.jsonl:3" in output and "AUROC of" in output


def test_a_value_without_a_name_is_named_where_an_option_is_unknown(capsys):
    message = refused_command(main, ["--validation_file", "a.txt"], capsys)
    assert "--validation_file; give FILE without a name" in message


def test_the_terminal_has_counts_and_agreement(world, capsys):
    (world / "a.jsonl").write_text('{"text": "the dog", "spans": [[4, 7]]}\n{"text": "the fox", "spans": []}\n')
    main(["a.jsonl", *FLAGS, "--threshold=0.999"])
    output = capsys.readouterr().out
    assert "AUROC" in output and " 0 spans above 0.999" in output


def test_the_most_suspicious_words_of_a_text_are_shown_with_their_probability():
    text = "aa bb cc dd " + "x" * 99
    spans = [[0, 2, 0.6], [3, 5, 0.9], [6, 8, 0.7], [9, 11, 0.5123]]
    row = worst_row({"place": "a:1", "text": text, "mean": 0.25, "spans": spans, "tokens": []})
    assert row["suspicious"] == "bb 0.90, cc 0.70, aa 0.60"
    assert worst_row({"place": "a:1", "text": text, "mean": 0.25, "spans": [], "tokens": []})["suspicious"] == ""


def test_texts_have_labels_or_spans_or_none(tmp_path):
    (tmp_path / "a.csv").write_bytes('\ufefftext,label\r\n"a ""b""\nc",1\r\nd,0\r\n'.encode())
    first, second = read_texts(str(tmp_path / "a.csv"), "text")
    assert (first.text, first.is_wrong, second.is_wrong) == ('a "b"\nc', True, False)
    (tmp_path / "a.jsonl").write_text('{"body": "x"}\n\n{"body": "y", "spans": [[0, 1]]}\n')
    (tmp_path / "b.jsonl").write_text('{"text": "x", "label": true}\n{"text": "y", "label": 0.0}\n')
    assert [text.is_wrong for text in read_texts(str(tmp_path / "b.jsonl"), "text")] == [True, False]
    labelled_texts = [
        (text.text, text.place[-2:], text.is_wrong) for text in read_texts(str(tmp_path / "a.jsonl"), "body")
    ]
    assert labelled_texts == [("x", ":1", None), ("y", ":3", True)]
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
    pieces = [text[start:end] for start, end in zip(scored.starts, scored.ends, strict=True)]
    assert "".join(pieces) == text.replace(" ", "")


@parametrize(
    ("argv", "message"),
    [
        (["a.txt", "--pretrain_path", "run", "--max_length", "2"], "--max_length 2"),
        (["nothing.txt", *FLAGS], "nothing.txt"),
        (["a.txt", "--pretrain_path", "run/generator"], "no head that finds replaced tokens"),
        (["a.txt", "--pretrain_path", "electric", "--max_length", "24"], "no probabilities"),
        (["a.txt", *FLAGS, "--false_alarm_rate", "0.5"], "--threshold"),
        (["a.txt", *FLAGS, "--threshold", "1.5"], "--threshold 1.5"),
        (["empty.txt", *FLAGS], "empty.txt"),
        (["zero.txt", *FLAGS], "zero.txt has no text"),
        (["cut.csv", *FLAGS], "cut.csv:3 cannot be read"),
        (["number.jsonl", *FLAGS], "number.jsonl:2 has no text"),
        (["a.txt", *FLAGS, "--output_dir", "run"], "run holds other files or other results"),
    ],
)
def test_wrong_commands_are_refused_and_leave_nothing(world, wordpiece_tokenizer, argv, message, capsys):
    write_run(world / "electric", wordpiece_tokenizer, objective="electric")
    (world / "a.txt").write_text("the dog")
    (world / "empty.txt").write_text("")
    (world / "number.jsonl").write_text('{"text": "the dog"}\n{"text": 5}\n')
    (world / "zero.txt").write_text("\u200b\n")
    (world / "cut.csv").write_text('text\nthe dog\n"the')
    assert message in refused_command(main, argv, capsys)
    assert not [*(world / "output").rglob("*")]


def test_weights_that_are_not_finite_are_refused_by_name(world, capsys):
    path = world / "run" / "discriminator" / "model.safetensors"
    weights = load_file(path)
    name = next(name for name in weights if "word_embeddings" in name)
    weights[name][3, 0] = float("inf")
    save_file(weights, path, metadata={"format": "pt"})
    (world / "a.txt").write_text("the dog")
    folder = str(path.parent)
    for command, argv in (
        (main, ["a.txt", "--pretrain_path", folder]),
        (inspect, [folder, "the dog"]),
        (pairs, ["--pretrain_path", folder, "--data=a.txt"]),
    ):
        assert "word_embeddings" in refused_command(command, argv, capsys)
