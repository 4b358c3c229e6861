"""Accuracies on minimal pairs: outcomes -> results, tables, a report. No torch.

The accuracy of a phenomenon is the mean over its paradigms, the overall one the mean over all paradigms, as in BLiMP's
paper. Standard errors take the paradigms as given and their pairs as a sample.
"""

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from electra.io.errors import UserError
from electra.report.blocks import Block, Heading, Items, Link, Report, Table, Text
from electra.tasks.minimal_pairs.data import Pair

RESULTS_NAME = "minimal_pairs.json"
TITLE = "Minimal pairs"
DEFINITIONS = (
    "Accuracy: share of the pairs whose acceptable sentence has the higher score, in percent. A tie counts half; "
    "guessing gives 50.",
    "A phenomenon is the mean of its paradigms, overall is the mean of all paradigms. ± is the standard error, "
    "sqrt(sum of s^2) / k for k paradigms, each with s = sqrt(a (1 - a) / pairs) if there are no ties. With a single "
    "pair in a paradigm there is none.",
    "Scores are sums over the tokens of a sentence without [CLS] and [SEP], not corrected for its length. "
    "discriminator: log(1 - D), D being the probability that a token was replaced. corrected: log p, which follows "
    "from D and the generator's probability of the token where it is masked. "
    "pll: the language model's log probability of a token where it and the rest of its word are masked.",
)
_PAPER = "models_summary.jsonl", "https://github.com/alexwarstadt/blimp/tree/master/raw_results/summary"
_BABYLM = "README", "https://github.com/babylm/evaluation-pipeline-2024"
PUBLISHED = (
    ("5-gram", "61.2", "Gigaword, 3.1 B tokens", "log probability", *_PAPER),
    ("LSTM", "69.8", "Wikipedia, 83 M tokens", "log probability", *_PAPER),
    ("Transformer-XL", "69.6", "WikiText-103, 103 M tokens", "log probability", *_PAPER),
    ("GPT-2 large", "83.0", "WebText, 40 GB", "log probability", *_PAPER),
    ("people, one by one", "88.6", "", "forced choice", "BLiMP", "https://arxiv.org/abs/1912.00582"),
    ("LTG-BERT, baseline", "60.6", "BabyLM, 10 M words", "pseudo-log-likelihood, filtered pairs", *_BABYLM),
    ("ELECTRA-Tiny", "50.7", "BabyLM 2024", "as of a masked language model, filtered pairs", "model card",
     "https://huggingface.co/bakirgrbic/electra-tiny"),
)  # fmt: skip
"""Model, overall accuracy, training data, score, source and its address. Filtered: BabyLM leaves out pairs with words
that its text does not have."""


def summarize(pairs: Sequence[Pair], outcomes: NDArray[np.float64]) -> dict[str, Any]:
    """Accuracies as fractions, overall and by paradigm and phenomenon, from 1, 0.5 or 0 for each pair."""
    rows: dict[str, list[int]] = defaultdict(list)
    for row, pair in enumerate(pairs):
        rows[pair.paradigm].append(row)
    paradigms = {name: _accuracy(outcomes[rows[name]]) for name in sorted(rows)}
    phenomena: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for name in paradigms:
        phenomena[pairs[rows[name][0]].phenomenon].append(paradigms[name])
    return {
        "overall": {**_mean(list(paradigms.values())), "ties": int((outcomes == 0.5).sum())},
        "phenomena": {name: _mean(phenomena[name]) for name in sorted(phenomena)},
        "paradigms": paradigms,
    }


def _accuracy(outcomes: NDArray[np.float64]) -> dict[str, Any]:
    """Accuracy of one paradigm; a single pair has no standard error."""
    count = len(outcomes)
    error = float(outcomes.std() / math.sqrt(count)) if count > 1 else None
    return {"accuracy": float(outcomes.mean()), "standard_error": error, "pairs": count}


def _mean(paradigms: Sequence[dict[str, Any]]) -> dict[str, Any]:
    errors = [one["standard_error"] for one in paradigms if one["standard_error"] is not None]
    count = len(paradigms)
    return {
        "accuracy": sum(one["accuracy"] for one in paradigms) / count,
        "standard_error": math.hypot(*errors) / count if len(errors) == count else None,
        "pairs": sum(one["pairs"] for one in paradigms),
        "paradigms": count,
    }


def read_results(folder: Path) -> dict[str, Any]:
    """The content of a folder's minimal_pairs.json; UserError if it cannot be read."""
    path = folder / RESULTS_NAME
    try:
        results = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(results["scores"], dict):
            raise TypeError("scores is no mapping")
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise UserError(f"{path} cannot be read as results of minimal pairs ({error!r}); restore it") from error
    return dict(results)


def accuracy_table(columns: Mapping[str, dict[str, Any]], level: str) -> Table:
    """A row for each of the "phenomena" or "paradigms", and the mean; `columns`: title -> see `summarize`."""
    names = dict.fromkeys(name for results in columns.values() for name in results[level])
    rows = [_row(name, [results[level].get(name) for results in columns.values()]) for name in names]
    overall = [results["overall"] for results in columns.values()]
    counts = dict.fromkeys(str(one["paradigms"]) for one in overall)
    rows.append(_row(f"overall, mean of {' / '.join(counts)} paradigms", overall))
    return Table([level, "pairs", *columns], rows)


def _row(name: str, found: Sequence[dict[str, Any] | None]) -> list[str]:
    """The different numbers of pairs, from the left, and the accuracies."""
    counts = dict.fromkeys(str(one["pairs"]) for one in found if one)
    return [name, " / ".join(counts), *map(_cell, found)]


def _cell(result: dict[str, Any] | None) -> str:
    if result is None:
        return ""
    accuracy = f"{100 * result['accuracy']:.1f}"
    error = result["standard_error"]
    return accuracy if error is None else f"{accuracy} ± {100 * error:.1f}"


def report(folders: Sequence[Path]) -> Report:
    """The scores of one or more folders side by side."""
    columns = {}
    for folder in folders:
        prefix = f"{folder.resolve().name}: " if len(folders) > 1 else ""
        for name, results in read_results(folder)["scores"].items():
            columns[prefix + name] = results
    table = accuracy_table(columns, "phenomena")
    blocks: list[Block] = [Text("Accuracy in percent ± standard error. Definitions at the end.")]
    blocks += [Heading("By phenomenon"), table]
    ties = {title: results["overall"]["ties"] for title, results in columns.items()}
    if any(ties.values()):
        blocks.append(Items([f"{title}: {count} ties" for title, count in ties.items() if count]))
    # The published accuracies are of BLiMP's 67 paradigms.
    if all(results["overall"]["paradigms"] == 67 for results in columns.values()):
        header = ["model", "overall", "training data", "score", "source"]
        rows: list[list[str | Link]] = [[*row[:4], Link(*row[4:])] for row in PUBLISHED]
        blocks += [Heading("Beside published results"), Table(header, rows, words=header[2:])]
    blocks += [Heading("By paradigm"), accuracy_table(columns, "paradigms")]
    blocks += [Heading("Definitions"), Items(DEFINITIONS)]
    return Report(TITLE, blocks, table)
