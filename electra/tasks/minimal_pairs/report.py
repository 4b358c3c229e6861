"""Accuracies on minimal pairs: outcomes -> results, tables, a report. No torch.

The accuracy of a phenomenon is the mean over its paradigms, the overall one the mean over all paradigms, as in BLiMP's
paper. Standard errors take the paradigms as given and their pairs as a sample.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from electra.io.files import read_json
from electra.report.blocks import Blocks, Heading, Items, Report, Table, Text, table_of
from electra.report.evaluation import percent
from electra.report.runs import names_of
from electra.tasks.minimal_pairs.data import Pair

PAIR_RESULTS_NAME = "minimal_pairs.json"
TITLE = "Minimal pairs"
PAIRS_TITLES = {"phenomena": "phenomenon", "paradigms": "paradigm"}
PAIRS_DEFINITIONS = (
    "Accuracy: share of the pairs whose acceptable sentence has the higher score, in percent. A tie counts half; "
    "guessing gives 50. So does a network that knows nothing where both sentences have the same number of tokens; of "
    "others it tends to prefer the shorter one.",
    "A phenomenon is the mean of its paradigms, overall is the mean of all paradigms. ± is the standard error, "
    "sqrt(sum of s^2) / k for k paradigms, each with s = sqrt(a (1 - a) / pairs) if there are no ties.",
    "Scores are sums over the tokens of a sentence without [CLS] and [SEP], not corrected for its length. "
    "discriminator: log(1 - D), D being the probability that a token was replaced. corrected: log p, which follows "
    "from D and the generator's probability of the token where it is masked. "
    "pll: the language model's log probability of a token where it and the later pieces of its word are masked. "
    "causal: that of a token given those before it.",
)


class Accuracy(TypedDict):
    """Accuracy and its standard error as fractions; None if there is no error."""

    accuracy: float
    standard_error: float | None


class Accuracies(TypedDict):
    """The results of one score, see `summarize`."""

    overall: Accuracy
    phenomena: dict[str, Accuracy]
    paradigms: dict[str, Accuracy]


class PairResults(TypedDict):
    """What minimal_pairs.json holds, beside what was scored."""

    scores: dict[str, Accuracies]


def summarize(pairs: Sequence[Pair], outcomes: NDArray[np.float64]) -> dict[str, Any]:
    """Accuracies as fractions, overall and by paradigm and phenomenon, from 1, 0.5 or 0 for each pair."""
    table = pd.DataFrame(pairs).assign(outcome=outcomes)
    paradigms = {}
    phenomena: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for (phenomenon, name), values in table.groupby(["phenomenon", "paradigm"])["outcome"]:
        paradigms[name] = {
            "accuracy": float(values.mean()),
            "standard_error": float(values.sem(ddof=0)) if len(values) > 1 else None,
            "pairs": len(values),
        }
        phenomena[phenomenon].append(paradigms[name])
    return {
        "overall": _mean(list(paradigms.values())),
        "phenomena": {name: _mean(found) for name, found in phenomena.items()},
        "paradigms": paradigms,
    }


def _mean(paradigms: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The mean accuracy, whose error follows from the standard errors of independent paradigms; None without one."""
    count = len(paradigms)
    errors = [one["standard_error"] for one in paradigms]
    return {
        "accuracy": sum(one["accuracy"] for one in paradigms) / count,
        "standard_error": None if None in errors else math.hypot(*errors) / count,
        "pairs": sum(one["pairs"] for one in paradigms),
        "paradigms": count,
    }


def accuracy_table(columns: Mapping[str, Any], level: str) -> Table:
    """A row for each of the "phenomena" or "paradigms", then the mean; `columns`: results of `summarize` by title."""
    rows = []
    for name in dict.fromkeys(name for results in columns.values() for name in results[level]):
        row = {PAIRS_TITLES[level]: name}
        for title, results in columns.items():
            if name in results[level]:
                row[title] = _cell(results[level][name])
        rows.append(row)
    means = {title: _cell(results["overall"]) for title, results in columns.items()}
    return table_of([*rows, {PAIRS_TITLES[level]: "overall", **means}])


def _cell(scores: Mapping[str, float | None]) -> str:
    error = scores["standard_error"]
    return percent(scores["accuracy"]) if error is None else f"{percent(scores['accuracy'])} ± {percent(error)}"


def report(folders: Sequence[Path]) -> Report:
    """The scores of one or more folders side by side."""
    columns = {}
    for folder, title in names_of(folders).items():
        for score, results in read_json(folder / PAIR_RESULTS_NAME, PairResults)["scores"].items():
            columns[score if len(folders) == 1 else f"{title}: {score}"] = results
    table = accuracy_table(columns, "phenomena")
    blocks: Blocks = [Text("Accuracy in percent ± standard error. Definitions at the end.")]
    blocks += [Heading("By phenomenon"), table]
    blocks += [Heading("By paradigm"), accuracy_table(columns, "paradigms")]
    blocks += [Heading("Definitions"), Items(PAIRS_DEFINITIONS)]
    return Report(TITLE, blocks, table)
