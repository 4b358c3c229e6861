"""Scores of classification, and reports: beside scores of a constant answer, with classes and confusions. No torch.

In a report, scores come from results.jsonl, classes and confusions from predictions/TASK-SEED-details.json of the best
run of each folder: that whose answers and model are kept.
"""

import math
import warnings
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, Required

import numpy as np
from scipy.special import expit, softmax
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    f1_score,
    matthews_corrcoef,
    precision_recall_fscore_support,
)
from typing_extensions import TypedDict

from electra.finetuning.data import Array
from electra.finetuning.task import by_split, calibration_error, has_one_answer
from electra.finetuning.trainer import Logits
from electra.finetuning.words import NUMBER, SEVERAL, SINGLE
from electra.io.files import read_json
from electra.report.blocks import Blocks, Code, Fold, Heading, Table, Text, table_of
from electra.report.evaluation import CONSTANT, Reporting, percent
from electra.report.results import Result, defined, read_evaluation, without_model
from electra.report.runs import names_of
from electra.tasks.classify.labels import LabelSet

# ---- scores

# Numbers are scaled to [0, 1] by the range of the training data. Scores are fractions in float64; nan where a metric
# has no value.


class ClassificationReferences(NamedTuple):
    """The references of a split of N texts.

    Args:
        targets: labels as `LabelledTexts.targets` returns them; None if unknown.
        owners: number of the text of each row of logits, int64 (R,), ascending; a text that is read in windows has
            several rows.
        places: source and line of each text, for files of predictions.
        constant: logits (C,) of the best constant answer, from the frequencies or the mean of the training data.
    """

    labels: LabelSet
    targets: Any
    owners: Array
    places: Sequence[str]
    constant: Array


MOST_CONFUSIONS = 100
"""Classes up to which a table has all confusions; of more classes, it has the most frequent ones."""
MOST_ROWS = 50
"""Rows of a table of the most frequent confusions, and classes that a page shows without a click, at most."""


def mean_by_text(logits: Array, owners: Array) -> Array:
    """Return the mean logits of each text, float64 (N, C), over its windows: rows (R, C) of texts `owners` (R,)."""
    counts = np.bincount(owners)
    firsts = np.cumsum(counts) - counts
    sums = np.add.reduceat(logits.astype(np.float64), firsts)
    return sums / counts[:, None]


def decide_classes(labels: LabelSet, logits: Array, thresholds: Any = None) -> Array:
    """Return the answers of logits (N, C), in the form of `LabelledTexts.targets`.

    Args:
        thresholds: probability (C,) above which each of several classes is answered; None for one half.
    """
    if labels.kind == NUMBER:
        return logits
    if labels.kind == SINGLE:
        return logits.argmax(1)
    is_answer = logits > 0 if thresholds is None else expit(logits) > thresholds
    return is_answer.astype(np.uint8)


def class_names_of(labels: LabelSet, answers: Array) -> list[Any]:
    """Return each text's class by name, or its list of classes, or its number on the scale of the data."""
    if labels.kind == NUMBER:
        numbers = labels.low + (labels.high - labels.low) * answers[:, 0]
        return list(numbers.tolist())
    if labels.kind == SINGLE:
        return [labels.classes[number] for number in answers]
    return [list(compress(labels.classes, row)) for row in answers]


def score_classification(logits: Array, references: ClassificationReferences) -> dict[str, float]:
    """Return the metrics of a split from its logits (R, C)."""
    kind = references.labels.kind
    targets = references.targets
    by_text = mean_by_text(logits, references.owners)
    answers = decide_classes(references.labels, by_text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about undefined values
        if kind == NUMBER:
            pair = targets[:, 0], answers[:, 0]
            return {
                "pearson": float(pearsonr(*pair).statistic),
                "spearman": float(spearmanr(*pair).statistic),
                "rmse": float(np.sqrt(np.square(targets - answers).mean())),
            }
        accuracy = accuracy_score(targets, answers)
        scores = f1_scores(targets, answers, by_text.shape[1])
        if kind == SINGLE:
            mcc = matthews_corrcoef(targets, answers)
            ece = calibration_error(softmax(by_text, axis=1).max(1), targets == answers)
            return {"accuracy": accuracy, **scores, "mcc": float(mcc), "ece": ece}
        occurs = targets.any(0)
        ranked = np.nan_to_num(by_text[:, occurs])
        scores["average_precision"] = math.nan
        if occurs.any():
            scores["average_precision"] = float(average_precision_score(targets[:, occurs], ranked))
        ece = calibration_error(expit(by_text).ravel(), targets.ravel().astype(np.float64))
        return {**scores, "subset_accuracy": accuracy, "ece": ece}


def f1_scores(targets: Array, answers: Array, classes: int) -> dict[str, float]:
    """Return macro and micro F1; a class that occurs in neither labels nor answers does not count."""
    f1 = partial(f1_score, targets, answers, labels=np.arange(classes))
    return {
        "macro_f1": f1(average="macro", zero_division=np.nan),
        "micro_f1": f1(average="micro", zero_division=0.0),
    }


# ---- Thresholds of several classes at once

# With rare classes hardly any probability is above one half. The threshold of a class is the one with the best F1 on
# the development set. What thresholds are worth is measured on other texts: on the test set, or on one half of the
# development set with the thresholds of the other.


def best_thresholds(probabilities: Array, matrix: Array) -> Array:
    """Return the threshold of each class (C,) with the best F1 on N texts; one half for a class that does not occur.

    Args:
        probabilities: probabilities of the classes, float (N, C).
        matrix: 1 where a text has a class, else 0, (N, C).
    """
    thresholds = np.full(matrix.shape[1], 0.5)
    for number, (column, is_class) in enumerate(zip(probabilities.T, matrix.T, strict=True)):
        order = np.argsort(-column, kind="stable")
        ranked = column[order]
        found = np.cumsum(is_class[order])
        f1 = 2 * found / (np.arange(1, len(column) + 1) + is_class.sum())
        f1[:-1][ranked[:-1] == ranked[1:]] = -1  # no threshold lies between equal probabilities
        best = int(f1.argmax())
        if is_class.any():
            below = ranked[best + 1] if best + 1 < len(ranked) else 0.0
            thresholds[number] = (ranked[best] + below) / 2
    return thresholds


def score_thresholds(logits: Logits, references: Mapping[str, ClassificationReferences]) -> dict[str, float]:
    """Return the F1 of several classes at thresholds that are best on other texts.

    Each half of the development set has the thresholds of the other half, a test set those of the development set.
    Other kinds of labels have no thresholds: {}.
    """
    dev = references["dev"]
    if dev.labels.kind != SEVERAL:
        return {}
    scores = {}
    for split, values in logits.items():
        probabilities = expit(mean_by_text(values, references[split].owners))
        matrix = references[split].targets
        if split == "dev":
            is_even = np.arange(len(matrix)) % 2 == 0
            thresholds = np.empty(matrix.shape)
            thresholds[is_even] = best_thresholds(probabilities[~is_even], matrix[~is_even])
            thresholds[~is_even] = best_thresholds(probabilities[is_even], matrix[is_even])
            prefix = ""
        else:
            thresholds = best_thresholds(expit(mean_by_text(logits["dev"], dev.owners)), dev.targets)
            prefix = f"{split}_"
        for name, value in f1_scores(matrix, (probabilities > thresholds).astype(np.uint8), matrix.shape[1]).items():
            scores[f"{prefix}threshold_{name}"] = float(value)
    return scores


def score_splits(logits: Logits, references: Mapping[str, ClassificationReferences]) -> dict[str, float]:
    """Return the metrics of all splits, with the F1 at thresholds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about undefined values
        return by_split(score_classification)(logits, references) | score_thresholds(logits, references)


def useful_thresholds(logits: Logits, references: Mapping[str, ClassificationReferences]) -> Any:
    """Return the best thresholds (C,) on the development set, if such thresholds raise the macro F1 of other texts.

    Otherwise, and for other kinds of labels, return None: a class is then answered above one half.
    """
    dev = references["dev"]
    if dev.labels.kind != SEVERAL or not np.isfinite(logits["dev"]).all():
        return None
    at_half = score_classification(logits["dev"], dev)["macro_f1"]
    at_thresholds = score_splits({"dev": logits["dev"]}, references)["threshold_macro_f1"]
    if not at_thresholds > at_half:
        return None
    return best_thresholds(expit(mean_by_text(logits["dev"], dev.owners)), dev.targets)


def is_classifier_collapsed(logits: Array, references: ClassificationReferences) -> bool:
    """Return True if logits are not finite or (almost) all answers are equal (numbers: to two digits)."""
    answers = decide_classes(references.labels, mean_by_text(logits, references.owners))
    named = []
    for labels in (answers, references.targets):
        names = class_names_of(references.labels, labels.round(2))
        named.append(list(map(str, names)))
    return not np.isfinite(logits).all() or has_one_answer(*named)


class ClassScores(TypedDict):
    """The scores of a class on the development set, as fractions, and how many texts and answers have the class.

    `threshold` is the probability above which the class is answered, if a text may have several and it is not one
    half.
    """

    name: str
    texts: int
    answers: int
    precision: float
    recall: float
    f1: float
    threshold: NotRequired[float]


class Details(TypedDict, total=False):
    """The content of predictions/TASK-SEED-details.json: classes or, for numbers, the range of the training labels.

    `confusions` is label -> answer -> number of texts, where a text has one class. Earlier versions wrote a `text`
    about the classes.
    """

    baseline: Required[dict[str, float | None]]
    range: list[float]
    classes: list[ClassScores]
    confusions: dict[str, dict[str, int]]
    text: str


def details(logits: Array, references: ClassificationReferences, thresholds: Any = None) -> Details:
    """Return the details of a run for its report: scores of the constant answer, classes and confusions."""
    labels = references.labels
    constant = np.tile(references.constant, (len(references.owners), 1))
    found = Details(baseline=score_classification(constant, references))  # type: ignore[typeddict-item]
    if labels.kind == NUMBER:
        found["range"] = [labels.low, labels.high]
        return found
    answers = decide_classes(labels, mean_by_text(logits, references.owners), thresholds)
    numbers = np.arange(len(labels.classes))
    columns = precision_recall_fscore_support(references.targets, answers, labels=numbers, zero_division=0.0)
    one_hot = answers if labels.kind == SEVERAL else answers[:, None] == numbers
    found["classes"] = []
    for number, name in enumerate(labels.classes):
        precision, recall, f1, texts = (column[number] for column in columns)
        scores = ClassScores(
            name=name,
            texts=int(texts),
            answers=int(one_hot[:, number].sum()),
            precision=float(precision),
            recall=float(recall),
            f1=float(f1),
        )
        if thresholds is not None:
            scores["threshold"] = float(thresholds[number])
        found["classes"].append(scores)
    if labels.kind == SINGLE:
        pairs = Counter(zip(references.targets.tolist(), answers.tolist(), strict=True))
        found["confusions"] = {}
        for (label, answer), texts in sorted(pairs.items()):
            found["confusions"].setdefault(labels.classes[label], {})[labels.classes[answer]] = texts
    return found


# ---- the report

CLASSIFY_TITLES = {
    "accuracy": "accuracy",
    "macro_f1": "macro F1",
    "micro_f1": "micro F1",
    "mcc": "MCC",
    "average_precision": "average precision",
    "subset_accuracy": "subset accuracy",
    "threshold_macro_f1": "macro F1 at thresholds",
    "threshold_micro_f1": "micro F1 at thresholds",
    "ece": "ECE",
    "pearson": "Pearson",
    "spearman": "Spearman",
    "rmse": "RMSE",
}
"""Metric -> its title in tables."""
CLASSIFY_METRICS = CLASSIFY_TITLES | {f"test_{name}": f"test {title}" for name, title in CLASSIFY_TITLES.items()}
"""Metric, also of a test set, -> its title in tables."""
HEADLINES = {
    "single": "accuracy",
    "several": "micro_f1",
    "number": "spearman",
}
"""Kind of the labels -> headline metric; a result's headline is the first of these that it has."""
CLASSIFY_DEFINITIONS = (
    "Macro F1 is the mean of the F1 of all classes that occur, micro F1 that of all decisions together; for one of "
    "several classes it equals accuracy. MCC is Matthews' correlation.",
    "Of several classes at once, a class is answered if its probability is above one half. Average precision is the "
    "area under precision over recall, the mean over classes; subset accuracy counts texts with every class right.",
    "At thresholds: a class is answered above its own threshold, the one with the best F1 on the development set. On "
    "this set, each half is scored with the thresholds of the other.",
    "ECE of several classes at once is that of the probability of each class, of one class that of the answer.",
    "RMSE is the root of the mean squared error, in percent of the range of the training labels; lower is better.",
    "Majority or mean: every text gets the same answer, the majority class, or the mean, of the texts that a run "
    "trains on; of several classes at once, all that most of these texts have, or the most frequent one. Bag of "
    "words: logistic regression (C = 10; for more than 50 classes naive Bayes, for numbers ridge regression) on "
    "tf-idf of words and pairs of words, trained on the same texts.",
    "Metrics that begin with test are of the test set; no run is chosen by them.",
)
"""Definitions of the metrics, for the end of a report."""


class LabelReporting(Reporting):
    """A report with a row for the constant answer, and with the classes and confusions of each folder."""

    def baselines_of(self, folder: Path) -> dict[str, list[Result]]:
        """Return the results of constant answer and bag of words; of earlier versions, of the constant answer."""
        found = super().baselines_of(folder)
        if not found:
            result, details = read_details(folder)
            found = {CONSTANT: [without_model(result, details["baseline"])]}
        return found

    def columns_of(self, result: Result) -> Collection[str]:
        """Return the metrics of the overview, without micro F1 where it equals accuracy: one class for each text."""
        same = ("micro_f1", "test_micro_f1") if "accuracy" in result.metrics else ()
        return [metric for metric in self.metrics if metric not in same]

    def details(self, folders: Sequence[Path]) -> Blocks:
        """Return classes and confusions of the best run of each folder, folded if there are several folders."""
        blocks: Blocks = []
        for folder, name in names_of(folders).items():
            results = read_evaluation(folder)
            result, found = read_details(folder)
            which = f"Seed {result.seed}, the only one"
            if len(results) > 1:
                metric = self.metrics[headline_of(result)]
                which = f"Seed {result.seed}, the best of {len(results)} by {metric}, whose answers and model are kept"
            shown = class_blocks(found, f"{which}.")
            what = "Labels" if "range" in found else "Classes"
            blocks += shown if len(folders) == 1 else [Fold(f"{what} of {name}, seed {result.seed}", shown)]
        return blocks


def headline_of(result: Result) -> str:
    """Return the headline metric of a result."""
    return next(metric for metric in HEADLINES.values() if metric in result.metrics)


def read_details(folder: Path) -> tuple[Result, Details]:
    """Return the best result of an evaluation, whose model is kept, and the details of its run."""
    first, *others = read_evaluation(folder)

    def order(result: Result) -> tuple[float, int]:
        score = defined(result.metrics.get(headline_of(first)))
        return -math.inf if score is None else score, -result.seed

    best = max([first, *(result for result in others if result.task == first.task)], key=order)
    path = folder / "predictions" / f"{best.task}-{best.seed}-details.json"
    return best, read_json(path, Details)


def class_blocks(details: Details, whose: str) -> Blocks:
    """Return blocks with the classes of a run and their confusions; `whose` is a sentence about the run."""
    if "range" in details:
        low, high = details["range"][:1], details["range"][-1:]
        edges = " to ".join(f"{edge:g}" for edge in (*low, *high))
        return [Heading("Labels"), Text(f"The labels of the training data are {edges}.")]
    if "classes" not in details:
        return [Heading("Classes"), Text(whose), Code(details.get("text", ""), "")]
    classes = details["classes"]
    rows = []
    for one in classes:
        row = {"class": one["name"], "texts": f"{one['texts']:,}", "answers": f"{one['answers']:,}"}
        row |= {"precision": percent(one["precision"]), "recall": percent(one["recall"]), "F1": percent(one["f1"])}
        if "threshold" in one:
            row["threshold"] = percent(one["threshold"])
        rows.append(row)
    about = f"{whose} Development set; precision, recall and F1 in percent."
    if any("threshold" in one for one in classes):
        about += " A class is answered above its threshold, which is the best one on this set."
    blocks: Blocks = [Heading("Classes"), Text(about), table_of(rows[:MOST_ROWS])]
    if len(rows) > MOST_ROWS:
        blocks.append(Fold(f"{len(rows) - MOST_ROWS:,} more classes", [table_of(rows[MOST_ROWS:])]))
    confusions = details.get("confusions")
    if confusions is None:
        return blocks
    names = [one["name"] for one in classes]
    if len(names) <= MOST_CONFUSIONS:
        about = "Texts with the label of the row and the answer of the column."
        matrix = [[name, *(str(confusions.get(name, {}).get(answer, 0)) for answer in names)] for name in names]
        return [*blocks, Heading("Confusions"), Text(about), Table(["label \\ answer", *names], matrix)]
    wrong = [(texts, label, answer) for label, row in confusions.items() for answer, texts in row.items()]
    wrong = sorted((one for one in wrong if one[1] != one[2]), key=lambda one: -one[0])
    about = f"The most frequent wrong answers. All confusions of {len(names):,} classes are too many for a table"
    if len(wrong) > MOST_ROWS:
        left = sum(texts for texts, _, _ in wrong[MOST_ROWS:])
        about += f": {len(wrong) - MOST_ROWS:,} other pairs of a label and an answer, of {left:,} texts, are left out"
    about += ". predictions.csv has the answer to each text."
    shown = Table(
        ["label", "answer", "texts"], [[label, answer, f"{texts:,}"] for texts, label, answer in wrong[:MOST_ROWS]]
    )
    return [*blocks, Heading("Confusions"), Text(about), *([shown] if wrong else [])]


CLASSIFY_REPORTING = LabelReporting(
    "Classification results",
    {},
    CLASSIFY_METRICS,
    CLASSIFY_DEFINITIONS,
    headlines=tuple(HEADLINES.values()),
    unit="texts",
)
"""How evaluations of `electra classify` are reported."""
report = CLASSIFY_REPORTING.report
"""Return the report of evaluations of `electra classify`; `electra report` calls it."""
