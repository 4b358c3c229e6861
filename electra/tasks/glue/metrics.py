"""Logits -> answers -> GLUE's metrics. All values are fractions in float64. No network, no files.

`evaluate.load("glue", ...)` would download a script from the Hub and compute in float32. `GlueMetric` has the
interface of `evaluate.Metric` and computes with scikit-learn and scipy.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import datasets
import evaluate
import numpy as np
from scipy.special import softmax
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

from electra.errors import UserError
from electra.finetuning.task import is_one_answer
from electra.tasks.glue.tasks import REGRESSION_RANGE, Task

Labels = np.ndarray | Sequence[int] | Sequence[float]

COLLAPSED_SPREAD = 0.01
"""A regression has collapsed if its standard deviation is below this fraction of the references'. A model that always
answers the mean stays below it; one that correlates with STS-B at all has a spread like the references'."""


def _correlation(function: Callable[..., Any]) -> Callable[[Labels, Labels], float]:
    """nan also for fewer than two rows, where scipy raises an error for one of the coefficients."""
    return lambda references, predictions: (
        function(references, predictions).statistic if len(references) > 1 else float("nan")
    )


METRICS: dict[str, Callable[[Labels, Labels], float]] = {
    "mcc": matthews_corrcoef,
    "accuracy": accuracy_score,
    "f1": lambda references, predictions: f1_score(references, predictions, pos_label=1, zero_division=0.0),
    "pearson": _correlation(pearsonr),
    "spearman": _correlation(spearmanr),
}
"""Name -> function of (references, predictions). F1 is that of class 1."""


class GlueMetric(evaluate.Metric):
    """One of `METRICS`. `GlueMetric("mcc").compute(predictions=..., references=...)` is `{"mcc": float}`.

    Undefined values: a correlation with constant numbers is nan; the MCC of constant answers and F1 without any
    positive are 0.
    """

    def __init__(self, config_name: str, **kwargs: Any) -> None:
        super().__init__(config_name, keep_in_memory=True, **kwargs)

    def _info(self) -> evaluate.MetricInfo:
        # float64 represents class ids exactly, and makes scikit-learn refuse probabilities; int64 would round them.
        number = datasets.Value("float64")
        return evaluate.MetricInfo(
            description=f"GLUE: {self.config_name}",
            citation="",
            inputs_description="",
            features=datasets.Features({"predictions": number, "references": number}),
        )

    def _build_data_dir(self) -> str:
        return ""  # the parent class creates a folder in the user's cache

    def _compute(self, *, predictions: list[float], references: list[float]) -> dict[str, float]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about undefined values, which are documented above
            return {self.config_name: float(METRICS[self.config_name](references, predictions))}


def decide(logits: np.ndarray, task: Task) -> np.ndarray:
    """Answers of one run: class ids (N,) int64 by argmax, or scores (N,) float64 on GLUE's scale.

    Scores are not clipped to the scale: clipping would create ties and change correlations. A nan score stays nan; a
    row of nan logits gets class 0.

    Args:
        logits: (N, C). A regression has (N, 1), trained on targets scaled to [0, 1] as in
            google-research/electra, finetune/classification/classification_tasks.py.

    Raises:
        UserError: the shape does not fit the task.
    """
    columns = len(task.labels) or 1
    if logits.ndim != 2 or logits.shape[1] != columns:
        raise UserError(f"logits of {task.title} have shape {logits.shape}, expected (rows, {columns})")
    if not task.is_regression:
        return logits.argmax(axis=1).astype(np.int64)
    low, high = REGRESSION_RANGE
    return np.asarray(low + (high - low) * logits[:, 0].astype(np.float64))


def combine(logits: Sequence[np.ndarray], task: Task) -> np.ndarray:
    """Answers of an ensemble, from mean probabilities or mean scores; scores are clipped to GLUE's scale.

    Args:
        logits: (N, C) for each run, all finite.

    Raises:
        UserError: the runs have different numbers of rows: the test file has changed since.
    """
    shapes = {run.shape for run in logits}
    if len(shapes) != 1:
        raise UserError(f"runs of {task.title} have predictions of different shapes: {sorted(shapes)}")
    if len(logits) == 1:
        mean = logits[0]  # without softmax, whose rounding can create ties
    else:
        runs = np.stack(logits).astype(np.float64)
        mean = (runs if task.is_regression else softmax(runs, axis=-1)).mean(axis=0)
    answers = decide(mean, task)
    return np.clip(answers, *REGRESSION_RANGE) if task.is_regression else answers


def score(task: Task, answers: Mapping[str, np.ndarray], references: Mapping[str, Labels]) -> dict[str, float]:
    """Metrics of a task's development set, as fractions; nan where undefined.

    Args:
        answers: development split -> answers of `decide`, (N,). One of MNLI's two splits may be missing.
        references: development split -> labels, (N,); scores of a regression on GLUE's scale.

    Returns:
        The metrics `task.metrics`. MNLI: `accuracy_matched`, `accuracy_mismatched`, and `accuracy`, their mean, if
        both splits are there; google-research/electra reports only the first.
    """
    scores = {
        split: {
            name: GlueMetric(name).compute(predictions=decided, references=references[split])[name]
            for name in task.metrics
        }
        for split, decided in answers.items()
    }
    if "dev_mismatched" not in task.rows:
        return scores["dev"]
    halves = {"accuracy_matched": "dev", "accuracy_mismatched": "dev_mismatched"}
    found = {name: scores[split]["accuracy"] for name, split in halves.items() if split in scores}
    return found if len(found) < len(halves) else {**found, "accuracy": sum(found.values()) / len(halves)}


def is_collapsed(task: Task, answers: np.ndarray, references: Labels) -> bool:
    """Whether a model gives (almost) all examples the same answer although the references differ.

    Scores are clipped first, because a model that varies only outside the scale gives every example the same score.
    nan and inf come from a run that diverged; they count as collapsed.

    Args:
        answers: (N,) of `decide`.
    """
    if not np.isfinite(answers).all():
        return True
    if task.is_regression:
        return bool(np.std(np.clip(answers, *REGRESSION_RANGE)) < COLLAPSED_SPREAD * np.std(references))
    classes, counts = np.unique(answers, return_counts=True)
    most = counts.argmax()
    return is_one_answer(counts[most] / len(answers), float(np.mean(np.asarray(references) == classes[most])))
