"""Answers and references -> GLUE's metrics, as `evaluate.Metric` classes that need no network and write no file.

`evaluate.load("glue", ...)` fetches a script from the Hub, copies it below HF_MODULES_CACHE behind a lock, and keeps
numbers in float32 files. Here only the interface is evaluate's: numbers stay in memory, in float64, and scikit-learn
and scipy compute. All values are fractions.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import datasets
import evaluate
import numpy as np
import torch
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

from electra.errors import UserError
from electra.glue.tasks import REGRESSION_RANGE, Task

Labels = np.ndarray | Sequence[int] | Sequence[float]

COLLAPSED_SHARE = 0.99
"""From here on a classifier says the same of (almost) all. The most frequent class of a GLUE development set has 69 %
(CoLA), and the smallest set 71 rows: a model that learned anything stays far below."""
COLLAPSED_SPREAD = 0.01
"""Of the references' standard deviation. A model that answers the mean whatever it reads moves by less; one that
learned to correlate at all with STS-B has a spread of the references' own order."""


def _correlation(function: Callable[..., Any]) -> Callable[[Labels, Labels], float]:
    """nan for less than two rows, too, where scipy raises for one coefficient and not for the other."""
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
"""Name -> function of (references, predictions)."""


class GlueMetric(evaluate.Metric):
    """One metric. `GlueMetric("mcc").compute(predictions=..., references=...)` is `{"mcc": float}`.

    Undefined values: a correlation with constant numbers is nan, the MCC of constant answers 0, F1 without any
    positive 0. F1 is that of class 1.

    Args:
        config_name: one of `METRICS`.
        num_process: how many processes of the torch.distributed group each bring a share of the rows. They are
            gathered over the group. 1: every process computes its own, whatever others do.
        process_id: of this process; those other than 0 get None instead of a result, as evaluate has it.

    Raises:
        UserError: there is no such metric.
    """

    def __init__(self, config_name: str, num_process: int = 1, process_id: int = 0, **kwargs: Any) -> None:
        if config_name not in METRICS:
            raise UserError(f"unknown metric '{config_name}'; choose from {' '.join(METRICS)}")
        super().__init__(config_name, keep_in_memory=True, **kwargs)
        # Not told to the parent: it would gather through locked files, and lose shares when used a second time.
        self._shares, self._share = num_process, process_id

    def _info(self) -> evaluate.MetricInfo:
        # float64 holds class ids exactly, and lets scikit-learn refuse probabilities where int64 would cut them to 0.
        number = datasets.Value("float64")
        return evaluate.MetricInfo(
            description=f"GLUE: {self.config_name}",
            citation="",
            inputs_description="",
            features=datasets.Features({"predictions": number, "references": number}),
        )

    def _build_data_dir(self) -> str:
        return ""  # the parent makes a folder in the user's cache

    def _compute(self, *, predictions: list[float], references: list[float]) -> dict[str, float] | None:
        if self._shares > 1:
            shares: list[Any] = [None] * self._shares
            torch.distributed.all_gather_object(shares, (predictions, references))
            predictions, references = ([row for share in shares for row in share[i]] for i in (0, 1))
            if self._share:
                return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a value is undefined; the value says so
            return {self.config_name: float(METRICS[self.config_name](references, predictions))}


def score(task: Task, answers: Mapping[str, np.ndarray], references: Mapping[str, Labels]) -> dict[str, float]:
    """Metrics of a task's development set, as fractions; nan where undefined.

    Args:
        answers: development split -> answers of `decide`, (N,). MNLI has two splits, of which one may be missing.
        references: development split -> labels, (N,); a regression's on GLUE's scale.

    Returns:
        The metrics of `task.metrics`. MNLI: `accuracy_matched`, `accuracy_mismatched`, and if both splits are there
        their mean, `accuracy`; google-research/electra reports the first alone.
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


def is_collapsed(task: Task, predictions: np.ndarray, references: Labels) -> bool:
    """Whether a model gives one and the same answer to (almost) every example, though the references do not.

    Predictions are answers of `decide`, (N,). Those of a regression are cut to the range first, since a model that
    varies only outside it answers the same to all. Numbers that are none (nan, inf) come from a run that diverged and
    count as collapsed.
    """
    if not np.isfinite(predictions).all():
        return True
    if task.is_regression:
        predictions = np.clip(predictions, *REGRESSION_RANGE)
        return bool(np.std(predictions) < COLLAPSED_SPREAD * np.std(references))
    classes, counts = np.unique(predictions, return_counts=True)
    most = counts.argmax()
    share, expected = counts[most] / len(predictions), np.mean(np.asarray(references) == classes[most])
    return bool(share >= COLLAPSED_SHARE > expected)
