"""Logits -> answers -> GLUE's metrics. All values are fractions in float64. No network, no files.

The metrics are those of scikit-learn and scipy, as metrics of `evaluate`.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence

import datasets
import evaluate
import numpy as np
from scipy.special import softmax
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

from electra.finetuning.task import has_one_answer
from electra.tasks.glue.tasks import REGRESSION_RANGE, GlueTask

GlueLabels = np.ndarray | Sequence[int] | Sequence[float]
"""Class ids, or scores of a regression, (N,)."""

COLLAPSED_SPREAD = 0.01
"""Ratio of the answers' standard deviation to that of the references, below which a regression has collapsed. A model
that always answers the mean is below it; a model that correlates with STS-B at all has about the spread of the
references."""
GLUE_METRICS: dict[str, Callable[[GlueLabels, GlueLabels], float]] = {
    "mcc": matthews_corrcoef,
    "accuracy": accuracy_score,
    "f1": lambda references, answers: f1_score(references, answers, pos_label=1, zero_division=0.0),
    "pearson": lambda references, answers: pearsonr(references, answers).statistic,
    "spearman": lambda references, answers: spearmanr(references, answers).statistic,
}
"""Metric -> function of (references, answers). F1 is that of class 1. A correlation with constant numbers is nan; the
MCC of constant answers and the F1 without any positive are 0."""


class GlueMetric(evaluate.Metric):
    """A metric of `GLUE_METRICS` for `evaluate`: `GlueMetric("mcc").compute(predictions=, references=)`.

    `evaluate.load("glue", ...)` would download a script from the Hub and compute in float32.
    """

    def _info(self) -> evaluate.MetricInfo:
        number = datasets.Value("float64")  # holds class ids exactly
        features = datasets.Features({"predictions": number, "references": number})
        return evaluate.MetricInfo(description="GLUE", citation="", inputs_description="", features=features)

    def _build_data_dir(self) -> str:
        return ""  # evaluate would make a folder in the user's cache

    def _compute(self, *, predictions: list[float], references: list[float]) -> dict[str, float]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about undefined values, as `GLUE_METRICS` says
            return {self.config_name: float(GLUE_METRICS[self.config_name](references, predictions))}


def decide_glue_labels(logits: np.ndarray, task: GlueTask) -> np.ndarray:
    """Return the answers of one run: class ids (N,) int64 by argmax, or scores (N,) float64 on GLUE's scale.

    The logits are (N, C); those of a regression are (N, 1), trained on targets scaled to [0, 1] as in
    google-research/electra, finetune/classification/classification_tasks.py. Scores are not clipped to the scale:
    clipping would create ties and change correlations. A nan score stays nan; a row of nan logits gets class 0.
    """
    if not task.is_regression:
        return logits.argmax(axis=1).astype(np.int64)
    low, high = REGRESSION_RANGE
    targets = logits[:, 0].astype(np.float64)
    return np.asarray(low + (high - low) * targets)


def combine(logits: Sequence[np.ndarray], task: GlueTask) -> np.ndarray:
    """Return the answers of an ensemble, (N,), from finite logits, (N, C) of each model.

    The answers are those of the mean probabilities; in a regression the mean scores, clipped to the scale.
    """
    stacked = np.stack(logits).astype(np.float64)
    if task.is_regression:
        return np.clip(decide_glue_labels(stacked.mean(axis=0), task), *REGRESSION_RANGE)
    return decide_glue_labels(softmax(stacked, axis=-1).mean(axis=0), task)


def score_glue_task(
    task: GlueTask,
    answers: Mapping[str, np.ndarray],
    references: Mapping[str, GlueLabels],
) -> dict[str, float]:
    """Return the metrics of a task's development sets, as fractions; nan where undefined.

    Args:
        answers: development split -> answers of `decide_glue_labels`, (N,). One of MNLI's two splits may be missing.
        references: development split -> labels, (N,); scores of a regression on GLUE's scale.

    Returns:
        the metrics `task.metrics`. For MNLI `accuracy_matched`, `accuracy_mismatched`, and `accuracy`, the mean of
        both, if both splits are there; google-research/electra reports only the first.
    """

    def compute(name: str, split: str) -> float:
        metric = GlueMetric(name, keep_in_memory=True)
        values = metric.compute(predictions=answers[split], references=references[split])
        return float(values[name])

    if task.name != "mnli":
        return {name: compute(name, "dev") for name in task.metrics}
    parts = {"dev": "accuracy_matched", "dev_mismatched": "accuracy_mismatched"}
    scores = {name: compute("accuracy", split) for split, name in parts.items() if split in answers}
    if len(scores) == 2:
        scores["accuracy"] = sum(scores.values()) / 2
    return scores


def is_glue_model_collapsed(task: GlueTask, answers: np.ndarray, references: GlueLabels) -> bool:
    """Return True if a model gives (almost) all examples one answer, or has diverged."""
    if not np.isfinite(answers).all():
        return True
    if task.is_regression:
        return bool(np.std(answers) < COLLAPSED_SPREAD * np.std(references))
    return has_one_answer(answers, references)
