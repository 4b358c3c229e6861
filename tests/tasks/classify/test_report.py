"""Metrics on logits by hand; windows of one text; collapsed runs."""

import json
import math

import numpy as np
from pytest import approx
from scipy.special import logit

from electra.finetuning.labelled.labels import LabelSet
from electra.finetuning.labelled.metrics import LABEL_METRICS, NUMBER, SEVERAL, SINGLE
from electra.finetuning.labelled.scores import (
    ClassificationReferences,
    best_thresholds,
    class_names_of,
    decide_classes,
    details,
    is_classifier_collapsed,
    mean_by_text,
    score_classification,
    score_splits,
    score_texts,
    useful_thresholds,
)
from electra.report.blocks import Fold, Heading, Table, Text, Verdict, to_markdown
from electra.report.classes import MOST_CLASSES, class_blocks
from electra.report.evaluation import BAG_OF_WORDS, CONSTANT, UNKNOWN_SHARE
from electra.report.results import Result, append_result
from electra.tasks.classify.report import CLASSIFY_REPORTING, HEADLINES, read_details
from tests.helpers import parametrize


def references(labels, matrix):
    """Return the right answers to texts, from a matrix with a row for each; one text has one window."""
    matrix = np.array(matrix, dtype=float)
    targets = matrix.argmax(1) if labels.kind == SINGLE else matrix
    return ClassificationReferences(labels, targets, np.arange(len(matrix)), [""] * len(matrix))


COLOURS = LabelSet(SINGLE, ["red", "green", "blue"])
FOUR_TEXTS = references(COLOURS, [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 0]])
"""The right answers to four texts."""
ANSWERS = np.array([[2, 1, 0], [0, 1, 0], [0, 1, 0], [0, 3, 0]], dtype=np.float32)
"""Logits of these texts; the second answer is wrong."""


def test_scores_of_one_class_are_those_worked_out_by_hand():
    scores = score_classification(ANSWERS, FOUR_TEXTS)
    expected = {"accuracy": 3 / 4, "macro_f1": (2 / 3 + 4 / 5) / 2, "micro_f1": 3 / 4, "mcc": 1 / 3**0.5}
    # red: precision 1, recall 1/2; green: precision 2/3, recall 1; blue does not occur
    # probabilities of the answers: .665 right; .576 wrong and .576 right; .909 right
    assert scores["ece"] == approx((0.3348 + 0.1522 + 0.0906) / 4, abs=1e-4)
    assert {name: scores[name] for name in expected} == approx(expected)


def test_each_kind_of_labels_has_its_metrics():
    several = references(LabelSet(SEVERAL, ["a", "b"]), [[1, 1], [0, 1], [1, 0], [0, 0]])
    numbers = references(LabelSet(NUMBER, [], 10.0, 20.0), [[0.0], [0.5], [1.0]])
    for answers, labels in (
        (ANSWERS, FOUR_TEXTS),
        (np.ones((4, 2), dtype=np.float32), several),
        (np.array([[1.0], [2.5], [3.0]], dtype=np.float32), numbers),
    ):
        scores = score_classification(answers, labels)
        assert [*scores] == [metric.name for metric in LABEL_METRICS if labels.labels.kind in metric.kinds]
        assert HEADLINES[labels.labels.kind] in scores and all(isinstance(score, float) for score in scores.values())


def test_scores_of_several_classes_are_those_worked_out_by_hand():
    labels = references(LabelSet(SEVERAL, ["a", "b"]), [[1, 1], [0, 1], [1, 0], [0, 0]])
    scores = score_classification(np.array([[1, 2], [2, 1], [3, -1], [-1, -2]], dtype=np.float32), labels)
    # a: 2 right, 1 wrong, precision at recall 1/2 is 1, at 1 it is 2/3; b: all right
    expected = {"macro_f1": (4 / 5 + 1) / 2, "micro_f1": 8 / 9, "average_precision": (5 / 6 + 1) / 2}
    expected["subset_accuracy"] = 3 / 4
    assert {name: scores[name] for name in expected} == approx(expected)


def test_numbers_are_scored_as_parts_of_the_range_of_training_and_written_in_it():
    labels = references(LabelSet(NUMBER, [], 10.0, 20.0), [[0.0], [0.5], [1.0]])
    scores = score_classification(np.array([[0.1], [0.5], [0.9]], dtype=np.float32), labels)
    expected = {"pearson": 1, "spearman": 1, "rmse": (0.02 / 3) ** 0.5}
    assert {name: scores[name] for name in expected} == approx(expected)
    assert class_names_of(labels.labels, np.array([[0.1], [1.5]])) == approx([11, 25])


def test_a_text_has_the_mean_of_its_windows():
    logits = np.array([[1, 0], [0, 3], [5, 1]], dtype=np.float32)
    assert mean_by_text(logits, np.array([0, 0, 1])).tolist() == [[0.5, 1.5], [5, 1]]


def test_details_have_each_class_and_the_confusions():
    class_details = details(ANSWERS, FOUR_TEXTS)
    red, green, blue = ({**row} for row in class_details["classes"])
    assert red == {"name": "red", "texts": 2, "answers": 1, "precision": 1.0, "recall": 0.5, "f1": approx(2 / 3)}
    assert green == {"name": "green", "texts": 2, "answers": 3, "precision": approx(2 / 3), "recall": 1, "f1": 0.8}
    assert blue == {"name": "blue", "texts": 0, "answers": 0, "precision": 0, "recall": 0, "f1": 0}
    assert class_details["confusions"] == {"red": {"red": 1, "green": 1}, "green": {"green": 2}}


def tables_of(blocks):
    """Return the tables behind each heading, also those that are folded."""
    by_heading = {}
    heading = ""
    for block in blocks:
        if isinstance(block, Heading):
            heading = block.text
        elif isinstance(block, Table):
            by_heading.setdefault(heading, []).append(block)
        elif isinstance(block, Fold):
            for name, tables in tables_of([Heading(block.title), *block.blocks]).items():
                by_heading.setdefault(name, []).extend(tables)
    return by_heading


def test_every_class_is_a_column_and_scores_are_in_percent():
    tables = tables_of(class_blocks(details(ANSWERS, FOUR_TEXTS), "Seed 1."))
    (classes,), (confusions,) = tables["Classes"], tables["Confusions"]
    assert [row[0] for row in classes.rows] == ["red", "green", "blue"]
    assert classes.rows[0][1:] == ["2", "1", "100.0", "50.0", "66.7"]
    assert confusions.header[1:] == ["red", "green", "blue"]
    assert confusions.rows == [["red", "1", "1", "0"], ["green", "0", "2", "0"], ["blue", "0", "0", "0"]]
    assert all(confusions.is_number(column) for column in (1, 2, 3))


@parametrize(("count", "is_shown"), [(MOST_CLASSES, True), (MOST_CLASSES + 1, False)])
def test_confusions_of_more_than_the_most_classes_are_left_out(count, is_shown):
    labels = LabelSet(SINGLE, [f"class {number}" for number in range(count)])
    targets = np.arange(count)
    logits = np.eye(count, dtype=np.float32)[(targets + 1) % count]  # all are confused
    right_classes = ClassificationReferences(labels, targets, np.arange(count), [""] * count)
    tables = tables_of(class_blocks(details(logits, right_classes), "Seed 1."))
    assert [row[0] for row in tables["Classes"][0].rows] == labels.classes
    assert ("Confusions" in tables) == is_shown


def evaluation_of(folder, accuracies, bag_of_words=0.5, answers=None, texts=400, paired=(), **settings):
    """Write a folder with a run for each accuracy (seeds 1, 2 ...), and what needs no network; return it.

    Args:
        bag_of_words: accuracy of the bag of words, on all seeds; one answer to all has 0.25.
        answers: logits of each seed on `FOUR_TEXTS`, of which the details are; None for `ANSWERS`.
        texts: number of texts for development.
        paired: recorded error of each seed's difference to the bag of words; None for no record.
    """
    (folder / "predictions").mkdir(parents=True)
    for seed, accuracy in enumerate(accuracies, start=1):
        metrics = {"accuracy": accuracy, "macro_f1": 0.4, "micro_f1": accuracy}
        rows = {"train": 100, "dev": texts}
        result = Result("mine", seed, metrics, False, 1.0, "pretrained", "m", 10, rows, {"encoder": "m", **settings})
        if paired and paired[seed - 1] is not None:
            result.paired_errors[BAG_OF_WORDS] = {"dev": paired[seed - 1]}
        append_result(folder / "results.jsonl", result)
        class_details = details(ANSWERS if answers is None else answers[seed - 1], FOUR_TEXTS)
        (folder / "predictions" / f"mine-{seed}-details.json").write_text(json.dumps(class_details))
        baselines = {CONSTANT: {"accuracy": 0.25}, BAG_OF_WORDS: {"accuracy": bag_of_words}}
        (folder / "predictions" / f"mine-{seed}-baselines.json").write_text(json.dumps(baselines))
    return folder


def test_the_page_begins_with_the_verdict_on_the_runs(tmp_path):
    report = CLASSIFY_REPORTING.report([evaluation_of(tmp_path / "a", (0.7, 0.8, 0.9))])
    blocks = report.blocks
    scores = [row[0] for row in report.table.rows]
    assert scores == ["Seeds", "accuracy", "macro F1"]  # micro F1 is accuracy
    assert "Classes" in tables_of(blocks)
    assert isinstance(blocks[0], Text) and "400 texts for development" in blocks[0].text
    assert isinstance(blocks[1], Verdict) and blocks[1].is_good
    for words in ("mine accuracy 80.0 ± 10.0 % over 3", "the bag of words (50.0), by 30.0", "to all (25.0), by 55.0"):
        assert words in blocks[1].text


@parametrize(
    ("accuracies", "bag_of_words", "expected"),
    [
        ((0.6, 0.62), 0.7, "below the bag of words (70.0), by 9.0 (± 3.6 with 400 texts)"),
        ((0.6, 0.8), 0.65, "not clearly above the bag of words (65.0), by 5.0"),  # the seeds differ by more
        # Each of the two scores has an error of 2.5.
        ((0.56,), 0.5, "not clearly above the bag of words (50.0), by 6.0, at most twice the error of 3.5 with"),
        ((0.5,), 0.56, "not clearly below the bag of words (56.0), by 6.0, at most twice the error of 3.5"),
        ((0.6,), 0.5, "above the bag of words (50.0), by 10.0"),
    ],
)
def test_a_verdict_is_as_sure_as_seeds_and_texts_allow(tmp_path, accuracies, bag_of_words, expected):
    (verdict,) = CLASSIFY_REPORTING.verdicts([evaluation_of(tmp_path / "a", accuracies, bag_of_words)])
    assert expected in verdict.text and verdict.is_good == expected.startswith("above")


@parametrize(
    ("accuracies", "paired", "expected"),
    [
        ((0.56,), (0.02,), ": above the bag of words (50.0), by 6.0 (± 2.0 with 400 texts)"),
        ((0.56,), (0.04,), ": not clearly above the bag of words (50.0), by 6.0, at most twice the error of 4.0"),
        ((0.56, 0.58, 0.57), (0.01, 0.09, 0.024), ": above the bag of words (50.0), by 7.0 (± 2.6"),
        ((0.56, 0.58), (0.02, None), "(50.0), by 7.0, at most twice the error of 3.8"),
    ],
)
def test_a_recorded_error_of_the_same_texts_is_the_error_of_the_difference(tmp_path, accuracies, paired, expected):
    """With the std of the seeds. Without a record of each seed it is that of two scores on different texts: about .025
    of each, here with a std of .0141.
    """
    folder = evaluation_of(tmp_path / "a", accuracies, paired=paired)
    (verdict,) = CLASSIFY_REPORTING.verdicts([folder])
    assert expected in verdict.text and "above one answer to all (25.0)" in verdict.text


def test_the_parts_of_texts_have_the_headline_as_their_mean():
    assert score_texts(ANSWERS, FOUR_TEXTS).tolist() == [1, 0, 1, 1]
    several = references(LabelSet(SEVERAL, ["a", "b"]), [[1, 1], [0, 1], [1, 0]])
    logits = np.array([[1, 1], [1, 1], [-1, -1]], np.float32)
    # twice the right answers of each text 4, 2, 0; its answers and labels 4, 3, 1; F1 6 / 8
    assert score_texts(logits, several) == approx([0.75 + 3 / 8, 0.75 - 0.75 / 8, 0.75 - 2.25 / 8])
    assert score_texts(logits, several).mean() == approx(score_classification(logits, several)["micro_f1"])
    assert score_texts(np.zeros((1, 1)), references(LabelSet(NUMBER, [], 0.0, 1.0), [[0.0]])) is None


def test_a_handful_of_texts_gives_no_verdict(tmp_path):
    (verdict,) = CLASSIFY_REPORTING.verdicts([evaluation_of(tmp_path / "a", (1.0, 1.0), texts=49)])
    assert "49 texts" in verdict.text and "bag of words" not in verdict.text and verdict.is_good is None
    (verdict,) = CLASSIFY_REPORTING.verdicts([evaluation_of(tmp_path / "b", (1.0, 1.0), texts=50)])
    assert verdict.is_good


def test_the_test_set_has_a_sentence_of_its_own(tmp_path):
    folder = evaluation_of(tmp_path / "a", (0.7,))
    (line,) = (folder / "results.jsonl").read_text().splitlines()
    result = json.loads(line)
    result["metrics"] |= {"test_accuracy": 0.4}
    result["rows"]["test"] = 300
    (folder / "results.jsonl").write_text(json.dumps(result) + "\n")
    baselines = {
        CONSTANT: {"accuracy": 0.25, "test_accuracy": 0.25},
        BAG_OF_WORDS: {"accuracy": 0.5, "test_accuracy": 0.6},
    }
    (folder / "predictions" / "mine-1-baselines.json").write_text(json.dumps(baselines))
    of_dev, of_test = CLASSIFY_REPORTING.verdicts([folder])
    assert of_dev.is_good and "400 texts" in of_dev.text
    assert "mine test accuracy 40.0 %" in of_test.text and not of_test.is_good
    assert "below the bag of words (60.0), by 20.0" in of_test.text and "300 texts" in of_test.text
    assert ["TF-IDF" in sentence.text for sentence in CLASSIFY_REPORTING.advice([folder])] == [True]


@parametrize(("error", "texts", "is_said"), [(0.21, 400, True), (0.19, 400, False), (0.5, 49, False)])
def test_probabilities_that_are_far_off_are_said(tmp_path, error, texts, is_said):
    folder = evaluation_of(tmp_path / "a", (0.7,), texts=texts)
    results = (folder / "results.jsonl").read_text()
    (folder / "results.jsonl").write_text(results.replace('"macro_f1"', f'"ece": {error}, "macro_f1"'))
    sentences = CLASSIFY_REPORTING.verdicts([folder])
    assert ["probabilities" in sentence.text for sentence in sentences] == [False, *[True] * is_said]


def test_the_command_on_a_page_has_the_options_that_the_encoder_decided(tmp_path):
    folder = evaluation_of(tmp_path / "a", (0.7, 0.8), learning_rate=1e-3, num_train_epochs=12.0, head="hf_mean")
    (folder / "config.yaml").write_text("train_file: a.csv\nlearning_rate: 0.002\n")
    page = to_markdown(CLASSIFY_REPORTING.report([folder]).blocks)
    for words in ("--train_file a.csv", "--learning_rate 0.002", "--num_train_epochs 12.0", "--head hf_mean"):
        assert words in page


@parametrize(("cut", "is_said"), [(0.98, True), (0.1, False)])
def test_a_verdict_says_that_the_bag_of_words_reads_more(tmp_path, cut, is_said):
    folder = evaluation_of(tmp_path / "a", (0.6,), dev_texts_cut=cut, max_length=128)
    (verdict,) = CLASSIFY_REPORTING.verdicts([folder])
    of_words = next(part for part in verdict.text.split("; ") if "bag of words" in part)
    assert ("whole texts" in of_words and "128 tokens" in of_words and "98 %" in of_words) == is_said
    assert verdict.text.count("whole texts") == is_said


def test_classes_are_those_of_the_run_whose_model_is_kept(tmp_path):
    folder = evaluation_of(tmp_path / "a", (0.7, 0.9, 0.9), answers=[ANSWERS[::-1], ANSWERS, ANSWERS[::-1]])
    result, class_details = read_details(folder)
    assert result.seed == 2 and class_details["confusions"] == details(ANSWERS, FOUR_TEXTS)["confusions"]
    blocks = CLASSIFY_REPORTING.report([folder]).blocks
    assert any(isinstance(block, Text) and block.text.startswith("Seed 2, the best of 3") for block in blocks)
    several = CLASSIFY_REPORTING.report([folder, evaluation_of(tmp_path / "b", (0.5,))]).blocks
    assert {"Classes of a, seed 2", "Classes of b, seed 1"} <= {
        block.title for block in several if isinstance(block, Fold)
    }


def test_scores_lead_and_micro_f1_does_not_repeat_accuracy(tmp_path):
    report = CLASSIFY_REPORTING.report([evaluation_of(tmp_path / "a", (0.7, 0.8))])
    header = next(block for block in report.blocks if isinstance(block, Table)).header
    assert [*header] == ["Run", "Seeds", "accuracy", "macro F1", "Model", "Start", "Params"]
    assert [row[0] for row in report.table.rows] == ["Seeds", "accuracy", "macro F1"]
    assert [*report.table.rows[0][1:]] == ["2", "", ""]  # what needs no network has no seed


def test_one_answer_to_all_is_collapsed():
    same = np.tile(ANSWERS[:1], (4, 1))
    assert is_classifier_collapsed(same, FOUR_TEXTS) and not is_classifier_collapsed(ANSWERS, FOUR_TEXTS)
    assert is_classifier_collapsed(ANSWERS * np.nan, FOUR_TEXTS)
    numbers = references(LabelSet(NUMBER, [], 0.0, 1.0), np.linspace(0, 1, 50)[:, None])
    assert is_classifier_collapsed(np.full((50, 1), 0.503, np.float32), numbers)
    assert not is_classifier_collapsed(np.linspace(0.4, 0.6, 50, dtype=np.float32)[:, None], numbers)


def test_without_any_class_there_is_no_average_precision():
    nothing = references(LabelSet(SEVERAL, ["a", "b"]), np.zeros((2, 2)))
    assert math.isnan(score_classification(np.ones((2, 2)), nothing)["average_precision"])


def test_a_diverged_run_has_scores_without_an_error():
    assert np.isnan(
        score_classification(np.full((3, 1), np.nan), references(LabelSet(NUMBER, []), [[0.0], [0.5], [1.0]]))["rmse"]
    )
    several = references(LabelSet(SEVERAL, ["a", "b"]), [[1, 0], [0, 1]])
    assert score_classification(np.full((2, 2), np.nan), several)["micro_f1"] == 0


# ---- thresholds


def test_a_threshold_lies_where_f1_is_best():
    probabilities = np.array([[0.9, 0.2, 0.7], [0.4, 0.2, 0.6], [0.3, 0.1, 0.5], [0.1, 0.1, 0.4]])
    matrix = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0], [0, 0, 0]], dtype=float)
    # between .4 and .3; never between two equal probabilities; one half for a class that does not occur
    assert best_thresholds(probabilities, matrix).tolist() == approx([0.35, 0.15, 0.5])
    everything = np.ones((4, 3))
    assert (probabilities > best_thresholds(probabilities, everything)).all()


def rare_classes(count=400, seed=0):
    """Return texts and logits of three classes of 5 % each, which are told apart, but with probabilities below 1/2."""
    rng = np.random.default_rng(seed)
    matrix = (rng.random((count, 3)) < 0.05).astype(float)
    logits = logit(np.where(matrix == 1, 0.3, 0.05)) + rng.normal(0, 0.2, matrix.shape)
    return references(LabelSet(SEVERAL, ["a", "b", "c"]), matrix), logits.astype(np.float32)


def test_thresholds_find_rare_classes_of_other_texts():
    (dev, logits), (test, of_test) = rare_classes(), rare_classes(seed=1)
    scores = score_splits({"dev": logits, "test": of_test}, {"dev": dev, "test": test})
    assert scores.keys() <= CLASSIFY_REPORTING.metrics.keys()
    assert scores["macro_f1"] == scores["test_macro_f1"] == 0
    assert scores["threshold_macro_f1"] > 0.95 and scores["test_threshold_macro_f1"] > 0.95
    thresholds = useful_thresholds({"dev": logits}, {"dev": dev})
    assert (decide_classes(dev.labels, logits, thresholds) == dev.targets).mean() > 0.99
    assert [row["threshold"] for row in details(logits, dev, thresholds)["classes"]] == thresholds.tolist()


def test_thresholds_that_do_not_help_are_not_kept():
    labels = references(LabelSet(SEVERAL, ["a", "b"]), [[1, 0], [0, 1]] * 4)
    right = np.array([[3, -3], [-3, 3]] * 4, dtype=np.float32)
    assert useful_thresholds({"dev": right}, {"dev": labels}) is None
    assert useful_thresholds({"dev": ANSWERS}, {"dev": FOUR_TEXTS}) is None
    assert "threshold_macro_f1" not in score_splits({"dev": ANSWERS}, {"dev": FOUR_TEXTS})
    assert useful_thresholds({"dev": right * np.nan}, {"dev": labels}) is None


def test_a_score_below_the_bag_of_words_ends_with_what_to_try(tmp_path):
    settings = {"num_train_epochs": 3.0, "per_device_train_batch_size": 32, "learning_rate": 1e-3, "max_length": 128}
    low = evaluation_of(tmp_path / "a", (0.4, 0.42), **settings)
    first, last = (block for block in CLASSIFY_REPORTING.report([low]).blocks if isinstance(block, Verdict))
    assert "below the bag of words" in first.text and not first.is_good
    assert last.is_good is None and "12 steps" in last.text and "--num_train_epochs 40" in last.text
    (last,) = CLASSIFY_REPORTING.advice([evaluation_of(tmp_path / "b", (0.25,), bag_of_words=0.2, **settings)])
    for number, folders in enumerate(
        [
            [low, evaluation_of(tmp_path / "c", (0.4,), **settings)],  # a comparison is not about one of the two
            [evaluation_of(tmp_path / "d", (0.8,), **settings)],
            [evaluation_of(tmp_path / "e", (0.4,), **settings, **{UNKNOWN_SHARE: 0.5})],  # of what the network reads
        ]
    ):
        assert CLASSIFY_REPORTING.advice(folders) == [], number
