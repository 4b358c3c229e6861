"""Logits -> answers, of one run or of several together. No torch."""

from collections.abc import Sequence

import numpy as np
from scipy.special import softmax

from electra.errors import UserError
from electra.glue.tasks import REGRESSION_RANGE, Task


def decide(logits: np.ndarray, task: Task) -> np.ndarray:
    """Answers of one run: class ids (N,) int64 by argmax, or numbers (N,) float64 on GLUE's scale.

    Numbers may lie beyond the ends of the scale: cut off, they would be equal there, and correlations others.

    Args:
        logits: (N, C); of a regression (N, 1), trained on targets scaled to [0, 1] as in
            google-research/electra, finetune/classification/classification_tasks.py. nan stays nan there, while
            a row of nan gets class 0.

    Raises:
        UserError: the logits are not of this task.
    """
    columns = len(task.labels) or 1
    if logits.ndim != 2 or logits.shape[1] != columns:
        raise UserError(f"logits of {task.title} have shape {logits.shape}, expected (rows, {columns})")
    if not task.is_regression:
        return logits.argmax(axis=1).astype(np.int64)
    low, high = REGRESSION_RANGE
    return np.asarray(low + (high - low) * logits[:, 0].astype(np.float64))


def combine(logits: Sequence[np.ndarray], task: Task) -> np.ndarray:
    """Answers of an ensemble, as of `decide` but within the scale: by the runs' mean probabilities or mean values.

    Args:
        logits: of each run, (N, C). One run decides as it does alone.

    Raises:
        UserError: runs of different sizes, or one that diverged.
    """
    shapes = [run.shape for run in logits]
    if len(set(shapes)) != 1:
        raise UserError(f"runs of {task.title} have logits of shapes {shapes}, expected one and the same")
    for number, run in enumerate(logits, start=1):
        if not np.isfinite(run).all():
            raise UserError(f"run {number} of {task.title} has logits that are no numbers; leave this run out")
    if len(logits) == 1:
        return _within_range(decide(logits[0], task), task)  # rounding in the softmax can make equal what is not
    runs = np.stack(logits).astype(np.float64)
    answers = decide((runs if task.is_regression else softmax(runs, axis=-1)).mean(axis=0), task)
    return _within_range(answers, task)


def _within_range(answers: np.ndarray, task: Task) -> np.ndarray:
    return np.clip(answers, *REGRESSION_RANGE) if task.is_regression else answers
