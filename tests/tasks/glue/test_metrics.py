"""GLUE's answers, metrics and submission against numbers computed by hand."""

import math
import warnings
import zipfile

import numpy as np
from pytest import approx

from electra.finetuning.data import Examples
from electra.report.evaluation import BAG_OF_WORDS, CONSTANT
from electra.tasks.glue.metrics import combine, decide_glue_labels, is_glue_model_collapsed, score_glue_task
from electra.tasks.glue.task import glue_baselines, score_glue_examples, write_submission
from electra.tasks.glue.tasks import DIAGNOSTICS, GLUE_TASKS, KNOWN_TASKS
from tests.helpers import parametrize


def test_classification_metrics_are_their_definitions():
    # 3 true positives, 2 false positives, 1 false negative, 4 true negatives
    answers = np.array([1, 1, 1, 0, 1, 1, 0, 0, 0, 0])
    references = [1, 1, 1, 1, 0, 0, 0, 0, 0, 0]
    mcc = (3 * 4 - 2 * 1) / math.sqrt((3 + 2) * (3 + 1) * (4 + 2) * (4 + 1))
    assert score_glue_task(KNOWN_TASKS["cola"], {"dev": answers}, {"dev": references}) == {
        "mcc": approx(mcc),
        "accuracy": 0.7,
    }
    f1 = 2 * 3 / (2 * 3 + 2 + 1)
    assert score_glue_task(KNOWN_TASKS["mrpc"], {"dev": answers}, {"dev": references}) == {
        "accuracy": 0.7,
        "f1": approx(f1),
    }
    for name in ("sst2", "qnli", "rte", "wnli"):
        assert score_glue_task(KNOWN_TASKS[name], {"dev": answers}, {"dev": references}) == {"accuracy": 0.7}


def test_each_task_has_the_metrics_of_the_benchmark():
    """As gluebenchmark.com/tasks lists them; each development set of MNLI has its accuracy."""
    two_classes = {"f1", "accuracy"}
    official = {"cola": {"mcc"}, "mrpc": two_classes, "qqp": two_classes, "stsb": {"pearson", "spearman"}}
    for name in GLUE_TASKS:
        assert {*KNOWN_TASKS[name].metrics} >= official.get(name, {"accuracy"})


def test_correlations_are_their_definitions():
    answers = np.array([1.0, 2.0, 2.0, 10.0])
    references = [0.0, 1.0, 3.0, 2.0]
    # deviations from the means 3.75 and 1.5
    covariance = -2.75 * -1.5 + -1.75 * -0.5 + -1.75 * 1.5 + 6.25 * 0.5
    pearson = covariance / math.sqrt((2.75**2 + 2 * 1.75**2 + 6.25**2) * 5)
    # ranks 1 2.5 2.5 4 and 1 2 4 3: deviations -1.5 0 0 1.5 and -1.5 -.5 1.5 .5
    spearman = (1.5 * 1.5 + 1.5 * 0.5) / math.sqrt(4.5 * 5)
    scores = score_glue_task(KNOWN_TASKS["stsb"], {"dev": answers}, {"dev": references})
    assert scores == {"pearson": approx(pearson, abs=1e-14), "spearman": approx(spearman, abs=1e-14)}
    close = 1 + np.array([0, 1, 2, 3]) * 1e-9  # all the same in float32
    assert score_glue_task(KNOWN_TASKS["stsb"], {"dev": close}, {"dev": [0.0, 1.0, 2.0, 3.0]})["spearman"] == approx(1)


@parametrize("answers", [[2.5, 2.5, 2.5], [1.0, math.nan, 3.0]])
def test_an_undefined_correlation_is_nan(answers):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = score_glue_task(KNOWN_TASKS["stsb"], {"dev": np.array(answers)}, {"dev": [1.0, 2.0, 3.0]})
        assert math.isnan(scores["pearson"]) and math.isnan(scores["spearman"])
        assert score_glue_task(KNOWN_TASKS["cola"], {"dev": np.array([1, 1])}, {"dev": [0, 1]})["mcc"] == 0
        assert score_glue_task(KNOWN_TASKS["mrpc"], {"dev": np.array([0, 0])}, {"dev": [0, 0]})["f1"] == 0


def test_mnli_averages_its_two_halves_each_counting_the_same():
    answers = {"dev_mismatched": np.array([0, 1, 2, 0]), "dev": np.array([2])}
    references = {"dev": [2], "dev_mismatched": [0, 1, 0, 1]}
    scores = score_glue_task(KNOWN_TASKS["mnli"], answers, references)
    assert scores == {"accuracy_matched": 1.0, "accuracy_mismatched": 0.5, "accuracy": 0.75}
    answers.pop("dev")
    assert score_glue_task(KNOWN_TASKS["mnli"], answers, references) == {"accuracy_mismatched": 0.5}


def test_an_answer_is_the_largest_logit_or_a_score():
    decided = decide_glue_labels(
        np.array([[-3.0, -1.0], [2.0, 1.0], [0.5, 0.5]], dtype=np.float32), KNOWN_TASKS["cola"]
    )
    assert decided.tolist() == [1, 0, 0] and decided.dtype == np.int64
    assert decide_glue_labels(np.array([[0.0, -1.0, 2.0]]), KNOWN_TASKS["mnli"]).tolist() == [2]
    decided = decide_glue_labels(
        np.array([[0.5], [-0.1], [1.7], [math.nan], [0.1]], dtype=np.float32), KNOWN_TASKS["stsb"]
    )
    assert decided[:3].tolist() == approx([2.5, -0.5, 8.5]) and math.isnan(decided[3])
    assert decided[4] == 5 * float(np.float32(0.1))  # scaled in double precision


@parametrize(
    ("others_predicted", "others_expected", "collapsed"),
    [(0, 300, True), (10, 300, True), (11, 300, False), (0, 11, True), (9, 11, False), (500, 500, False)],
)
def test_a_classifier_collapsed_if_99_percent_get_one_class(others_predicted, others_expected, collapsed):
    answers = np.ones(1000, dtype=np.int64)
    references = np.ones(1000, dtype=np.int64)
    answers[:others_predicted] = 0
    references[-others_expected:] = 0
    assert is_glue_model_collapsed(KNOWN_TASKS["cola"], answers, references) is collapsed
    assert is_glue_model_collapsed(KNOWN_TASKS["mnli"], answers + 1, (references + 1).tolist()) is collapsed
    assert is_glue_model_collapsed(
        KNOWN_TASKS["cola"], np.zeros(1000, dtype=np.int64), np.ones(1000, dtype=np.int64)
    )  # wrong for all


def test_a_regression_collapsed_if_it_hardly_spreads():
    references = np.linspace(0, 5, 100)
    for spread, collapsed in ((0.0, True), (0.0099, True), (0.0101, False), (1.0, False)):
        assert (
            is_glue_model_collapsed(KNOWN_TASKS["stsb"], 2.5 + spread * (references - 2.5), references.tolist())
            is collapsed
        )
    assert is_glue_model_collapsed(KNOWN_TASKS["stsb"], np.where(references < 1, math.nan, references), references)


def test_an_ensemble_averages_probabilities():
    # Probabilities of class 1: .999, .4, .4. Votes say 0; the mean of probabilities, .6, says 1.
    logits = [np.array([[0.0, math.log(probability / (1 - probability))]]) for probability in (0.999, 0.4, 0.4)]
    assert combine(logits, KNOWN_TASKS["rte"]).tolist() == [1]
    # .0001, .6, .7, .8: the mean of logits is negative, that of probabilities .525
    logits = [np.array([[0.0, math.log(probability / (1 - probability))]]) for probability in (0.0001, 0.6, 0.7, 0.8)]
    assert combine([logits[0] + 1000, *logits[1:]], KNOWN_TASKS["rte"]).tolist() == [1]
    combined = combine([np.array([[0.2], [1.5]]), np.array([[0.4], [0.1]])], KNOWN_TASKS["stsb"])
    assert combined.tolist() == approx([1.5, 4.0])  # scores are clipped last; else the second were 2.75


def official_answers():
    """Return answers to each official test set: all labels in turn, or scores from 0 to 5."""
    answers = {}
    for task in (*KNOWN_TASKS.values(), DIAGNOSTICS):
        for split, title in task.test_files.items():
            index = np.arange(task.rows[split])
            answers[title] = index * 5 / len(index) if task.is_regression else index % len(task.labels)
    return answers


def test_a_submission_has_the_official_format(tmp_path):
    answers = official_answers()
    assert write_submission(tmp_path / "first.zip", answers) == []
    with zipfile.ZipFile(tmp_path / "first.zip") as archive:
        files = {name: archive.read(name).decode().split("\n") for name in archive.namelist()}
    assert {name: len(lines) - 2 for name, lines in files.items()} == {
        "CoLA.tsv": 1063, "SST-2.tsv": 1821, "MRPC.tsv": 1725, "STS-B.tsv": 1379, "QQP.tsv": 390965,
        "MNLI-m.tsv": 9796, "MNLI-mm.tsv": 9847, "QNLI.tsv": 5463, "RTE.tsv": 3000, "WNLI.tsv": 146, "AX.tsv": 1104,
    }  # fmt: skip
    assert all(lines[0] == "index\tprediction" and lines[-1] == "" for lines in files.values())
    for name in ("CoLA", "SST-2", "MRPC", "QQP", "WNLI"):
        assert files[f"{name}.tsv"][1:4] == ["0\t0", "1\t1", "2\t0"]
    for name in ("QNLI", "RTE"):
        assert files[f"{name}.tsv"][1:3] == ["0\tentailment", "1\tnot_entailment"]
    for name in ("MNLI-m", "MNLI-mm", "AX"):
        assert files[f"{name}.tsv"][1:4] == ["0\tentailment", "1\tneutral", "2\tcontradiction"]
    assert files["STS-B.tsv"][1:3] == ["0\t0.000", "1\t0.004"]
    write_submission(tmp_path / "second.zip", dict(reversed(answers.items())))
    assert (tmp_path / "first.zip").read_bytes() == (tmp_path / "second.zip").read_bytes()


def test_wnli_is_filled_with_its_majority_class(tmp_path):
    answers = {title: labels for title, labels in official_answers().items() if title not in ("WNLI", "QQP", "AX")}
    assert write_submission(tmp_path / "glue.zip", answers) == ["QQP", "AX"]
    with zipfile.ZipFile(tmp_path / "glue.zip") as archive:
        assert archive.read("WNLI.tsv").decode().split("\n")[1:-1] == [f"{number}\t0" for number in range(146)]


def test_baselines_are_one_answer_and_a_bag_of_words():
    train = Examples(["good film", "bad film", "very good", "bad plot"] * 3, labels=[1, 0, 1, 0] * 3)
    dev = Examples(["good", "bad", "good end"], labels=[1, 0, 1])
    baselines = glue_baselines(KNOWN_TASKS["sst2"], train, {"dev": dev})
    assert {name: logits["dev"].argmax(1).tolist() for name, logits in baselines.items()} == {
        CONSTANT: [0, 0, 0],
        BAG_OF_WORDS: [1, 0, 1],
    }
    pairs = Examples(["a cat", "a cat", "a dog"] * 4, ["red", "blue", "red"] * 4, [5.0, 1.0, 3.0] * 4)
    baselines = glue_baselines(
        KNOWN_TASKS["stsb"], pairs, {"dev": Examples(["cat", "cat"], ["red", "blue"], [5.0, 1.0])}
    )
    assert baselines[CONSTANT]["dev"].tolist() == [[0.6], [0.6]]  # the mean of 5, 1 and 3, as a target in [0, 1]
    red, blue = baselines[BAG_OF_WORDS]["dev"][:, 0]
    assert red > 0.6 > blue


def test_examples_are_right_or_wrong_where_the_headline_is_accuracy():
    logits = np.array([[1.0, 0], [0, 1], [0, 1]])
    assert score_glue_examples(KNOWN_TASKS["rte"], logits, [0, 1, 0]).tolist() == [1, 1, 0]
    assert score_glue_examples(KNOWN_TASKS["cola"], logits, [0, 1, 0]) is None


def test_texts_without_words_have_one_answer_only():
    train = Examples(["!", "?"], labels=[1, 0])
    assert list(glue_baselines(KNOWN_TASKS["cola"], train, {"dev": train})) == [CONSTANT]
