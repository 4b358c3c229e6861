"""Accuracies on minimal pairs by paradigm and phenomenon, and margins over baselines. No torch.

The accuracy of a phenomenon is the mean over its paradigms, the overall one the mean over all paradigms, as in BLiMP's
paper. Standard errors take the paradigms as given and their pairs as a sample.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from electra.tasks.minimal_pairs.data import Pair
from electra.tasks.minimal_pairs.report import GUESSING, Accuracies, Accuracy, Margin


def summarize(pairs: Sequence[Pair], outcomes: NDArray[np.float64]) -> Accuracies:
    """Return accuracies as fractions, overall and by paradigm and phenomenon.

    Args:
        outcomes: result of `outcomes_of` for the N pairs, or differences of two such results, (N,).
    """
    table = pd.DataFrame(pairs).assign(outcome=outcomes)
    paradigms: dict[str, Accuracy] = {}
    phenomena: dict[str, list[Accuracy]] = defaultdict(list)
    for (phenomenon, name), values in table.groupby(["phenomenon", "paradigm"])["outcome"]:
        paradigms[name] = {
            "accuracy": float(values.mean()),
            "standard_error": float(values.sem(ddof=0)) if len(values) > 1 else None,
            "pairs": len(values),
        }
        phenomena[phenomenon].append(paradigms[name])
    return {
        "overall": _mean(list(paradigms.values())),
        "phenomena": {name: _mean(members) for name, members in phenomena.items()},
        "paradigms": paradigms,
    }


def _mean(paradigms: Sequence[Accuracy]) -> Accuracy:
    """Return the mean accuracy of independent paradigms; its error is None if a paradigm has none."""
    count = len(paradigms)
    errors = [error for paradigm in paradigms if (error := paradigm["standard_error"]) is not None]
    return {
        "accuracy": sum(paradigm["accuracy"] for paradigm in paradigms) / count,
        "standard_error": math.hypot(*errors) / count if len(errors) == count else None,
        "pairs": sum(paradigm["pairs"] for paradigm in paradigms),
        "paradigms": count,
    }


def outcomes_of(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each pair 1 if the good sentence has the higher score, 0.5 for a tie, else 0, (N,).

    Args:
        scores: scores of the good and the bad sentence of each pair in turns, (2 N,).
    """
    return (np.sign(scores[0::2] - scores[1::2]) + 1) / 2


def margin(
    pairs: Sequence[Pair], outcomes: NDArray[np.float64], baselines: Mapping[str, NDArray[np.float64]]
) -> Margin:
    """Return the margin of a score over the best of the baselines and guessing.

    Its standard error takes the paradigms as a sample, because the pairs of a paradigm resemble each other: a network
    that knows nothing may prefer the same word in all of them. The error of the pairs counts where it is larger, or
    where there is one paradigm.

    Args:
        outcomes: result of `outcomes_of` for the score, (N,).
        baselines: results of `outcomes_of` for the baselines by name, (N,) each.
    """
    rivals = {GUESSING: np.full(len(pairs), 0.5), **baselines}
    best = max(rivals, key=lambda name: summarize(pairs, rivals[name])["overall"]["accuracy"])
    differences = summarize(pairs, outcomes - rivals[best])
    difference = differences["overall"]
    error = difference["standard_error"]
    by_paradigm = [paradigm["accuracy"] for paradigm in differences["paradigms"].values()]
    if error is not None and len(by_paradigm) > 1:
        error = max(error, float(np.std(by_paradigm, ddof=1)) / math.sqrt(len(by_paradigm)))
    return Margin(baseline=best, difference=difference["accuracy"], standard_error=error)
