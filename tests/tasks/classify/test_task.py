"""`electra classify` on tiny tables: scores, files, saved models, and what is refused."""

import csv
import json
import re
import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from pytest import approx
from scipy.special import softmax
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from transformers import ElectraForSequenceClassification, pipeline

from electra.base.parser import as_flags
from electra.finetuning.labelled.answers import predictor_of_texts
from electra.finetuning.labelled.labels import LabelledTexts, LabelSet
from electra.finetuning.labelled.metrics import LABEL_METRICS, SEVERAL, SINGLE
from electra.finetuning.labelled.texts import encode_texts
from electra.finetuning.predict import Saved
from electra.finetuning.task import step_loss
from electra.report.command import main as report
from electra.report.evaluation import CONSTANT, CUT_TEXTS
from electra.report.results import Result, append_result, read_results
from electra.tasks.classify.report import CLASSIFY_REPORTING
from electra.tasks.classify.task import (
    class_weights,
    open_classification,
    parse_classify_arguments,
)
from electra.tasks.classify.task import main as classify
from tests.conftest import refused
from tests.finetuning.encoders import tiny_electra
from tests.helpers import ROOT, parametrize, read_json
from tests.pretraining.runs import WORDS
from tests.tasks.classify.files import flags, write_table, write_texts
from tests.tasks.classify.test_data import examples
from tests.tasks.classify.test_report import rare_classes
from tests.tasks.glue.files import write_encoder

AVERAGE_SEEDS = str(ROOT / "runs" / "average_seeds.py")
SETTINGS = {"learning_rate": 1e-2, "num_train_epochs": 12, "bf16": False, "save_model": True}
"""With this rate and these epochs the tiny encoder learns the first words of texts."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory, glue_tokenizer):
    """The data of `write_texts` with an encoder for them; evaluations are in output/."""
    path = write_texts(tmp_path_factory.mktemp("classify"))
    write_encoder(path / "encoder", glue_tokenizer)
    return path


def run(folder, name, suffix, **options):
    """Run an evaluation of `name`/; return its folder."""
    values = {"pretrain_path": folder / "encoder", "experiment_name": name, **SETTINGS, **options}
    classify(flags(folder, name, suffix, **values))
    return folder / "output" / name


# ---- options and data


def opened(**options):
    """Return the data of a task with these options."""
    words = as_flags({"pretrain_path": "encoder", **{name: str(value) for name, value in options.items()}})
    task = open_classification(parse_classify_arguments(words))
    data, *_ = task.load.args
    return data


def test_what_the_rows_decide_is_recorded(folder):
    train = folder / "reviews" / "train.csv"
    values = {"pretrain_path": "encoder", "train_file": str(train), "eval_seed": 3, "train_fractions": 0.5}
    task = open_classification(parse_classify_arguments(as_flags(values)))
    recorded = {
        "label_kind": "single",
        "eval_seed": 3,
        "validation_fraction": 0.1,
        "train_texts": "drawn for each seed",
    }
    assert task.settings == {**recorded, "label_column": None}  # one name, or None, as in earlier results
    assert task.texts == round(0.5 * 44)  # of 48, four are held out


@parametrize(("option", "is_weighted"), [("none", False), ("balanced", True)])
def test_rare_classes_count_more_in_the_loss_on_request(tmp_path, option, is_weighted):
    rows = [[f"text {number}", "rare" if number % 4 == 0 else "usual"] for number in range(40)]
    train = write_table(tmp_path / "train.csv", ["text", "label"], rows)
    values = {"pretrain_path": "encoder", "train_file": str(train), "class_weights": option}
    task = open_classification(parse_classify_arguments(as_flags(values)))
    rare, usual = (task.loss(torch.zeros(1, 2), torch.tensor([label]), 1).item() for label in (0, 1))
    assert (rare > 2 * usual) == is_weighted  # there are three times as many usual texts


def test_what_a_saved_model_keeps_is_in_its_card(folder):
    args = parse_classify_arguments(
        as_flags({"pretrain_path": "encoder", "train_file": str(folder / "topics" / "train.jsonl")})
    )
    task = open_classification(args)
    references, logits = rare_classes()
    assert "thresholds" in task.note
    assert {*task.kept_values({"dev": logits}, {"dev": references})} == {*task.kind.kept_lists} == {"thresholds"}


def test_texts_in_two_splits_and_rare_classes_are_said(tmp_path, caplog):
    rows = [[f"text {number}", "rare" if number < 2 else "usual"] for number in range(40)]
    train = write_table(tmp_path / "train.csv", ["text", "label"], rows)
    repeated = [*rows[1:3], ["Text  3 ", "usual"], ["text 99", "usual"]]  # one in another case, with more white space
    dev = write_table(tmp_path / "dev.csv", ["text", "label"], repeated)
    with caplog.at_level("INFO", "electra"):
        data = opened(train_file=train, validation_file=dev)
    for words in ("rare: 5.0%, usual: 95.0%", "imbalanced", "3 of 4 texts of dev are also in the training data"):
        assert words in caplog.text
    assert class_weights(data).tolist() == approx([10, 10 / 19])


def test_a_class_that_is_held_out_as_a_whole_is_refused(tmp_path):
    rows = [[f"text {number}", f"class {number}" if number < 30 else "usual"] for number in range(60)]
    file = write_table(tmp_path / "train.csv", ["text", "label"], rows)
    message = refused(lambda: opened(train_file=file))
    assert re.search("of 3 classes, such as 'class [0-9]+'.*merge it with another one", message)


def test_the_weight_of_a_yes_is_the_ratio_of_no_to_yes():
    texts = examples([(0,), (0, 1), (0,), ()])
    data = LabelledTexts(LabelSet(SEVERAL, ["a", "b"]), {"train": texts})
    assert class_weights(data).tolist() == approx([1 / 3, 3])


def test_weights_of_classes_are_those_of_torch():
    logits = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    weights = torch.tensor([0.5, 1.0, 3.0])
    numbers = torch.tensor([0, 1, 2, 2, 1, 0])
    expected = cross_entropy(logits, numbers, weights, reduction="sum") / 6
    assert step_loss(logits, numbers, 6, weights).item() == approx(expected.item())
    several = torch.tensor([[1, 0, 1]] * 6)
    expected = binary_cross_entropy_with_logits(logits, several.float(), pos_weight=weights)
    assert step_loss(logits, several, several.numel(), weights).item() == approx(expected.item())


def test_a_share_of_the_training_data_is_held_out(folder):
    file = folder / "reviews" / "train.csv"
    data = opened(train_file=file, validation_fraction=0.25)
    assert {split: len(rows) for split, rows in data.splits.items()} == {"train": 36, "dev": 12}
    assert data.shares("dev").tolist() == [0.5, 0.5]
    half = opened(train_file=file, validation_fraction=0.25, train_fractions=0.5)
    assert half == data


@parametrize("long_texts", ["truncate", "windows"])
def test_each_seed_trains_on_its_own_texts_and_shares_are_nested(folder, glue_tokenizer, long_texts):
    file = folder / "reviews" / "train.csv"

    def texts(fraction, seed, eval_seed=0):
        options = {"train_fractions": fraction, "eval_seed": eval_seed, "long_texts": long_texts, "max_length": 8}
        args = parse_classify_arguments(
            as_flags({"pretrain_path": "encoder", "train_file": str(file), "validation_file": str(file), **options})
        )
        task = open_classification(args)
        assert ("train_texts" in task.settings) == (fraction < 1)
        data = task.load(glue_tokenizer, args.tuning)
        owners = data.references["train"].owners
        rows = range(len(data.train)) if data.chosen_rows is None else data.chosen_rows(seed)
        assert len(data.rows_of(seed)) == len(rows)
        assert [*data.rows_of(seed)[0]["input_ids"]] == [*data.train[int(rows[0])]["input_ids"]]
        chosen = {int(owner) for owner in owners[list(rows)]}
        assert len(chosen) == data.examples["train"]
        return chosen

    assert len(texts(0.25, 42)) == 12 and len(texts(1.0, 42)) == 48
    assert texts(0.25, 42) < texts(0.5, 42) < texts(1.0, 42)
    assert texts(0.25, 42) != texts(0.25, 43) == texts(0.25, 42, eval_seed=1)


@parametrize(("long_texts", "how"), [("truncate", "--long_texts windows reads all"), ("windows", "read in windows")])
def test_texts_that_are_cut_are_said(folder, glue_tokenizer, caplog, long_texts, how):
    file = folder / "reviews" / "train.csv"
    for max_length in (8, 100):
        values = {"pretrain_path": "encoder", "train_file": str(file), "long_texts": long_texts}
        args = parse_classify_arguments(as_flags({**values, "max_length": max_length}))
        task = open_classification(args)
        caplog.clear()
        with caplog.at_level("INFO", "electra"):
            data = task.load(glue_tokenizer, args.tuning)
        assert (how in caplog.text) == (max_length == 8)
        lengths = data.splits["dev"].rows.lengths
        cut = {"truncate": {CUT_TEXTS: approx(np.mean(lengths >= max_length), abs=1e-4)}, "windows": {}}
        assert data.measured == cut[long_texts]


@parametrize(
    ("rows", "more", "named"),
    [
        ([], {}, "no rows"),
        ([["a", "1"], ["b", "1"]], {}, "two or more"),
        ([["a", "1"], ["b", "2"]], {"validation_fraction": 1e-9}, "too few texts"),
        ([["a", "1.5"], ["b", "x"], ["c", "2"]], {"label_kind": "number"}, "train.csv:3"),
        ([["a", "x"], ["b", "y"]], {"label_kind": "number"}, "train.csv:2"),
    ],
)
def test_data_that_teach_nothing_are_refused(rows, more, named, tmp_path):
    file = write_table(tmp_path / "train.csv", ["text", "label"], rows)
    assert named in refused(lambda: opened(train_file=file, **more))


@parametrize(
    ("rows", "named"),
    [([], "dev.csv has no rows"), ([["a", "good"], ["b", "fine"]], "dev.csv:3 has the label 'fine'")],
)
def test_a_development_set_without_known_classes_is_refused(folder, tmp_path, rows, named):
    file = write_table(tmp_path / "dev.csv", ["text", "label"], rows)
    assert named in refused(lambda: opened(train_file=folder / "reviews" / "train.csv", validation_file=file))


def test_windows_cover_a_long_text_and_overlap(number_tokenizer):
    rows = examples([0, 1])
    rows[0] = rows[0]._replace(text=" ".join(map(str, range(10, 40))))
    rows[1] = rows[1]._replace(text="7 8")
    windows, owners = encode_texts(rows, number_tokenizer, 12, in_windows=True)
    pieces = [row.tolist() for row in windows.columns["input_ids"]]
    assert owners.tolist() == [0] * (len(pieces) - 1) + [1]
    assert pieces[0] == list(range(10, 22)) and pieces[1][:3] == [19, 20, 21] and pieces[-2][-1] == 39
    assert encode_texts(rows, number_tokenizer, 12, in_windows=False)[0].lengths.tolist() == [12, 2]


def test_windows_belong_to_their_texts_in_many_batches(number_tokenizer, monkeypatch):
    for module in ("electra.finetuning.data", "electra.finetuning.labelled.texts"):
        monkeypatch.setattr(f"{module}.TOKENIZER_BATCH", 2)
    long = " ".join(map(str, range(10, 30)))
    rows = [row._replace(text=text) for row, text in zip(examples(range(5)), ["7", long, "8", long, "9"], strict=True)]
    _, owners = encode_texts(rows, number_tokenizer, 12, in_windows=True)
    assert owners.tolist() == [0, 1, 1, 2, 3, 3, 4]


# ---- runs


def test_texts_of_unknown_tokens_have_no_verdict(folder, tmp_path, capsys):
    greek = "\u03b1\u03b2\u03b3"
    rows = [
        [f"{'' if number % 2 else WORDS[number // 2]} {greek * (number + 1)}", ("good", "bad")[number % 2]]
        for number in range(120)
    ]
    (tmp_path / "greek").mkdir()
    write_table(tmp_path / "greek" / "train.csv", ["text", "label"], rows)
    words = flags(tmp_path, "greek", "csv", validation_file=None, pretrain_path=folder / "encoder", num_seeds=1)
    classify([*words, "--validation_fraction=.5"])
    (result,) = read_results(tmp_path / "output" / "run" / "results.jsonl")
    assert 0.4 < result.settings["unknown_share"] < 1
    (warning,) = (line for line in capsys.readouterr().out.splitlines() if "unknown tokens" in line)
    assert "greek" in warning and "have no other" in warning
    (verdict,) = CLASSIFY_REPORTING.verdicts([tmp_path / "output" / "run"])
    assert verdict.is_good is None and "unknown" in verdict.text
    classify([*words, "--validation_fraction=.5"])  # the share of unknown tokens is no other setting
    assert len(read_results(tmp_path / "output" / "run" / "results.jsonl")) == 1


@pytest.fixture(scope="module")
def reviews(folder):
    """A finished evaluation on reviews/, with two seeds and saved models."""
    return run(folder, "reviews", "csv", class_weights="balanced", seed=43)


@pytest.mark.slow
def test_classes_that_a_word_names_are_learned(reviews):
    first, second = read_results(reviews / "results.jsonl")
    assert first.metrics["accuracy"] == 1 and second.metrics["accuracy"] > 0.9
    assert set(first.metrics) == {metric.name for metric in LABEL_METRICS if SINGLE in metric.kinds}
    assert first.settings["label_kind"] == "single" and first.settings["class_weights"] == "balanced"
    rows = list(csv.DictReader((reviews / "predictions.csv").open()))
    assert all(row["label"] == row["prediction"] for row in rows) and rows[0]["place"].endswith("dev.csv:2")
    assert not (reviews / "logs").exists()  # nothing was logged


@pytest.mark.slow
def test_the_report_has_baseline_classes_and_confusions(reviews):
    text = (reviews / "report.md").read_text()
    assert "| bag of words | " in text and "| one answer to all |" in text and "| 50.0 | 33.3 | 0.0 |" in text
    assert "| good | 8 | 8 | 100.0 | 100.0 | 100.0 |" in text and "| bad | 8 | 0 |" in text
    report([str(reviews)])
    assert (reviews / "report.md").read_text() == text


def test_an_evaluation_of_the_papers_defaults_goes_on_with_them(folder):
    """As those of earlier versions, which had no others for narrow encoders."""
    paper = {"learning_rate": 3e-4, "layerwise_lr_decay": 0.8, "num_train_epochs": 3.0, "head": "hf"}
    options = {"pretrain_path": folder / "encoder", "num_train_epochs": None, "bf16": False}
    for name, command_options, expected in (
        ("begun", {**paper, "num_seeds": 1}, paper),
        ("begun", {}, paper),
        ("new", {}, {"learning_rate": 1e-3, "layerwise_lr_decay": 1.0, "num_train_epochs": 40.0, "head": "hf"}),
    ):
        classify(flags(folder, "reviews", "csv", experiment_name=name, **{**options, **command_options}))
        results = read_results(folder / "output" / name / "results.jsonl")
        assert len(results) == command_options.get("num_seeds", 2)
        assert all({option: result.settings[option] for option in expected} == expected for result in results)


def test_the_log_names_random_weights_and_the_defaults_that_were_not_given(folder, capsys):
    def said(**options):
        classify([*flags(folder, "reviews", "csv", experiment_name="planned", **options), "--plan"])
        return capsys.readouterr().out

    chosen = {"num_train_epochs": 9, "learning_rate": 2e-3, "layerwise_lr_decay": 0.9, "head": "hf"}
    for given in ({}, {"num_train_epochs": 9}, {"num_train_epochs": 9, "head": "hf"}, chosen):
        text = said(pretrain_path=None, from_scratch=folder / "encoder", **{**dict.fromkeys(chosen), **given})
        line = "".join(re.findall("narrower than 256: (.*)", text))
        assert set(re.findall(r"--(\w+)", line)) == chosen.keys() - given.keys()
        assert "with random weights" in text
    assert "random weights" not in said(pretrain_path=folder / "encoder")


@pytest.mark.slow
def test_several_classes_are_saved_for_the_pipeline(folder):
    evaluation = run(folder, "topics", "jsonl", num_seeds=1)
    (result,) = read_results(evaluation / "results.jsonl")
    assert result.metrics["micro_f1"] > 0.9 and result.metrics["average_precision"] > 0.9
    config = read_json(evaluation / "models" / "topics" / "config.json")
    assert config["problem_type"] == "multi_label_classification" and config["label2id"] == {"blue": 0, "red": 1}
    rows = [json.loads(line) for line in (folder / "topics" / "dev.jsonl").open()]
    ask = pipeline("text-classification", str(evaluation / "models" / "topics"), top_k=None)
    answers = ask([row["text"] for row in rows])
    chosen = [sorted(label["label"] for label in answer if label["score"] > 0.5) for answer in answers]
    right = sum(classes == sorted(row["labels"]) for classes, row in zip(chosen, rows, strict=True))
    assert right / len(rows) == result.metrics["subset_accuracy"]


@pytest.mark.slow
def test_a_saved_regression_answers_on_the_scale_of_data(folder):
    evaluation = run(folder, "marks", "tsv", num_seeds=1, label_kind="number")
    (result,) = read_results(evaluation / "results.jsonl")
    assert result.metrics["pearson"] > 0.8
    rows = [line.split("\t") for line in (folder / "marks" / "dev.tsv").read_text().splitlines()[1:]]
    answers = pipeline("text-classification", str(evaluation / "models" / "marks"))([text for text, _ in rows])
    errors = [(answer["score"] - float(mark)) ** 2 for answer, (_, mark) in zip(answers, rows, strict=True)]
    assert (sum(errors) / len(errors)) ** 0.5 / 7.5 == approx(result.metrics["rmse"], abs=1e-5)
    assert "10 to 17.5" in (evaluation / "report.md").read_text()


SEVERAL_CLASSES = {"problem_type": "multi_label_classification", "id2label": {0: "a", 1: "b"}}


def saved_model(tokenizer, **values):
    """Return a saved model of the classes a and b with random weights."""
    model = ElectraForSequenceClassification(tiny_electra(vocab_size=200, **SEVERAL_CLASSES, **values).config)
    return Saved(model, tokenizer, {"max_length": 16, "label_kind": "several"})


def test_predict_answers_above_the_thresholds_of_the_model(glue_tokenizer):
    columns = SimpleNamespace(text_column=None, text_pair_column=None, model="m")
    logits = np.array([[-1.0, -1.0]])  # probabilities of .27
    for more, expected in (({}, []), ({"thresholds": [0.2, 0.3]}, ["a"])):
        predictor = predictor_of_texts(saved_model(glue_tokenizer, **more), columns)
        item = predictor.parse({"text": "a text"}, "a:1")
        assert predictor.answer([item], lambda rows: logits)[0]["prediction"] == expected


@parametrize("thresholds", [[0.5], "high", [0.1, None], [0.1, 2]])
def test_thresholds_that_cannot_be_used_are_refused(glue_tokenizer, thresholds):
    columns = SimpleNamespace(text_column=None, text_pair_column=None, model="models/a")
    model = saved_model(glue_tokenizer, thresholds=thresholds)
    assert "models/a has the thresholds" in refused(lambda: predictor_of_texts(model, columns))


def test_several_shares_of_the_texts_are_refused(folder):
    message = refused(lambda: run(folder, "reviews", "csv", train_fractions=[0.5, 1], experiment_name="curve"))
    assert "--train_fractions" in message and "0.5 1" in message and not (folder / "output" / "curve").exists()


def test_each_folder_has_its_own_constant_answer(tmp_path):
    for name, baseline in (("a", 0.2), ("b", 0.2), ("c", 0.6)):
        part = tmp_path / name
        (part / "predictions").mkdir(parents=True)
        result = Result("t", 1, {"accuracy": 0.9}, False, 1.0, "pretrained", name, 10, {}, {"encoder": name})
        append_result(part / "results.jsonl", result)
        baselines = {CONSTANT: {"accuracy": baseline}}
        (part / "predictions" / "t-1-baselines.json").write_text(json.dumps(baselines))
    parts = [tmp_path / name for name in "abc"]
    rows = {run.name: run.tasks["t"].headline.median for run in CLASSIFY_REPORTING.read_baselines(parts)}
    assert rows == {"one answer to all of a, b": 0.2, "one answer to all of c": 0.6}
    assert [run.name for run in CLASSIFY_REPORTING.read_baselines(parts[:2])] == ["one answer to all"]
    assert [run.name for run in CLASSIFY_REPORTING.read_summaries(parts[:2])] == ["a", "b"]


@pytest.mark.slow
def test_the_example_of_a_learning_curve_compares_both_starts(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    draw_curve = runpy.run_path(str(ROOT / "examples" / "learning_curve.py"))["main"]
    words = ["encoder", "reviews/train.csv", "--fractions", ".5", "1", "--seeds=1", "--epochs=1", "--output=curve"]
    draw_curve(words)
    curves = {line.split("   ")[0]: line.split("   ")[1:] for line in capsys.readouterr().out.splitlines()}
    for name in ("pretrained", "scratch", "majority or mean", "bag of words"):
        half, whole = (int(point.split(":")[0]) for point in curves[name])
        assert (half, whole) == (22, 43)  # a tenth of 48 texts is held out
    (result,) = read_results(folder / "curve" / "scratch-0.5" / "results.jsonl")
    assert result.start == "scratch" and result.rows["train"] == 22
    assert (folder / "curve" / "learning_curve.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_networks_of_the_same_texts_are_averaged(folder, capsys, monkeypatch):
    """Two evaluations whose second and first seed draw the same texts."""
    options = {**SETTINGS, "num_train_epochs": 4, "save_model": False, "train_fractions": 0.5, "num_seeds": 2}
    run(folder, "reviews", "csv", experiment_name="seeds_1_2", seed=1, eval_seed=9, **options)
    run(folder, "reviews", "csv", experiment_name="seeds_4_5", seed=4, eval_seed=7, **options)
    run(folder, "reviews", "csv", experiment_name="all", **{**options, "train_fractions": None})
    first, second, third = (folder / "output" / name for name in ("seeds_1_2", "seeds_4_5", "all"))
    monkeypatch.setattr("sys.argv", ["average_seeds.py", str(first), str(second), str(third)])
    runpy.run_path(AVERAGE_SEEDS)["main"]()
    table = [
        re.split(r"\s{2,}", line) for line in capsys.readouterr().out.splitlines() if line.startswith("reviews, ")
    ]
    assert [line[:2] for line in table] == [
        ["reviews, 24 (10)", "1"],
        ["reviews, 24 (11)", "2"],
        ["reviews, 24 (12)", "1"],
        ["reviews, 48 (all)", "2"],
    ]

    def probabilities(evaluation, seed):
        logits = np.load(evaluation / "predictions" / f"reviews-{seed}.npz")["dev"]
        return softmax(logits.astype(np.float64), axis=1)

    labels = np.array([row % 2 for row in range(16)])  # good is the second class and the odd label
    both = [probabilities(first, 2), probabilities(second, 4)]
    alone = np.mean([np.mean(answers.argmax(1) == labels) for answers in both])
    average = np.mean(np.mean(both, axis=0).argmax(1) == labels)
    assert table[1][2:4] == [f"{100 * alone:.1f}", f"{100 * average:.1f}"]


def evaluation_to_average(folder, places, logits, **settings):
    """Write a folder with one network's answers to two texts at these places; return it."""
    (folder / "predictions").mkdir(parents=True)
    settings = {"label_kind": "single", "train_data": "t", "eval_seed": 0, **settings}
    result = Result("t", 1, {}, False, 1.0, "pretrained", "m", 1, {"train": 4, "dev": 2}, settings)
    append_result(folder / "results.jsonl", result)
    start = folder / "predictions" / "t-1"
    classes = {"classes": [{"name": "a"}, {"name": "b"}]}
    Path(f"{start}-details.json").write_text(json.dumps(classes))
    write_table(Path(f"{start}-dev.csv"), ["place", "label"], zip(places, "ab", strict=True))
    np.savez(f"{start}.npz", dev=np.array(logits, np.float32))
    Path(f"{start}-baselines.json").write_text('{"bag of words": {"accuracy": 0.5}}')
    return folder


def test_averaged_answers_are_of_two_networks_to_the_same_texts(tmp_path):
    average = runpy.run_path(AVERAGE_SEEDS)["score_averages"]
    first = evaluation_to_average(tmp_path / "a", ("train.csv:3", "train.csv:5"), [[3, 0], [1, 0]])
    same = evaluation_to_average(tmp_path / "b", ("train.csv:3", "train.csv:5"), [[1, 0], [0, 3]])
    other = evaluation_to_average(tmp_path / "c", ("train.csv:7", "train.csv:9"), [[1, 0], [0, 2]])
    by_networks = {count: values for _, count, *values in average([first, same, other])}
    assert by_networks == {2: [75.0, 100.0, 50.0], 1: [100.0, 100.0, 50.0]}
    copy = evaluation_to_average(tmp_path / "copy", ("train.csv:3", "train.csv:5"), [[3, 0], [1, 0]])
    for twice in (first, copy):
        assert "one network" in refused(lambda twice=twice: average([first, twice]))


@parametrize("settings", [{"label_kind": "several"}, {"label_kind": "single", "long_texts": "windows"}])
def test_answers_without_a_row_for_each_text_are_not_averaged(settings, tmp_path):
    result = Result("t", 1, {}, False, 1.0, "pretrained", "m", 1, {"train": 4, "dev": 2}, settings)
    append_result(tmp_path / "results.jsonl", result)
    networks = runpy.run_path(AVERAGE_SEEDS)["finetuned_networks"]
    assert "--long_texts windows" in refused(lambda: networks(tmp_path))
