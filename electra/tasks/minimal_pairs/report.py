"""Accuracies on minimal pairs: outcomes -> results, tables, a report. No torch.

The accuracy of a phenomenon is the mean over its paradigms, the overall one the mean over all paradigms, as in BLiMP's
paper. Standard errors take the paradigms as given and their pairs as a sample.
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

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
LANGUAGE_MODELS = ("5-gram", "LSTM", "Transformer-XL", "GPT-2")
PUBLISHED_PHENOMENA = {
    "anaphor_agreement": (47.9, 91.7, 94.1, 99.3),
    "argument_structure": (71.9, 73.2, 72.2, 81.8),
    "binding": (64.4, 73.5, 74.7, 80.9),
    "control_raising": (68.5, 67.0, 71.5, 81.9),
    "determiner_noun_agreement": (70.1, 85.4, 83.0, 95.8),
    "ellipsis": (36.9, 67.6, 77.2, 89.3),
    "filler_gap_dependency": (60.2, 73.9, 66.6, 81.3),
    "irregular_forms": (79.5, 89.0, 78.1, 91.9),
    "island_effects": (57.2, 46.6, 48.3, 72.7),
    "npi_licensing": (45.5, 51.7, 55.2, 76.8),
    "quantifiers": (53.5, 64.5, 69.3, 79.0),
    "subject_verb_agreement": (60.3, 80.1, 75.9, 86.4),
}
"""Percent, as in models_summary.jsonl of BLiMP's repository, which corrects the tables of its paper."""
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
    members: dict[str, list[str]] = defaultdict(list)
    for row, pair in enumerate(pairs):
        if not rows[pair.paradigm]:
            members[pair.phenomenon].append(pair.paradigm)
        rows[pair.paradigm].append(row)
    paradigms: dict[str, dict[str, Any]] = {}
    for name in sorted(rows):
        values = outcomes[rows[name]]
        count = len(values)
        error = float(values.std() / math.sqrt(count)) if count > 1 else None
        paradigms[name] = {"accuracy": float(values.mean()), "standard_error": error, "pairs": count}

    def mean(names: Sequence[str]) -> dict[str, Any]:
        chosen = [paradigms[name] for name in names]
        errors = [one["standard_error"] for one in chosen if one["standard_error"] is not None]
        return {
            "accuracy": float(np.mean([one["accuracy"] for one in chosen])),
            "standard_error": math.hypot(*errors) / len(chosen) if len(errors) == len(chosen) else None,
            "pairs": sum(one["pairs"] for one in chosen),
            "paradigms": len(chosen),
        }

    return {
        "overall": {**mean(list(rows)), "ties": int((outcomes == 0.5).sum())},
        "phenomena": {name: mean(members[name]) for name in sorted(members)},
        "paradigms": paradigms,
    }


class Column(NamedTuple):
    """One score of one folder; `results`: see `summarize`."""

    title: str
    results: dict[str, Any]


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


def read_columns(folders: Sequence[Path]) -> list[Column]:
    """All scores of all folders."""
    columns = []
    for folder in folders:
        prefix = f"{folder.resolve().name}: " if len(folders) > 1 else ""
        columns += [Column(prefix + name, scores) for name, scores in read_results(folder)["scores"].items()]
    return columns


def accuracy_table(columns: Sequence[Column], level: Literal["phenomena", "paradigms"]) -> Table:
    """A row per phenomenon or paradigm; below phenomena the mean, beside BLiMP's the published accuracies."""
    names = list(dict.fromkeys(name for column in columns for name in column.results[level]))
    # The published accuracies are of BLiMP's 67 paradigms.
    all_paradigms = [column.results["overall"]["paradigms"] for column in columns]
    has_published = {*names} == {*PUBLISHED_PHENOMENA} and {*all_paradigms} == {67}
    rows = []
    for name in names:
        found = [column.results[level].get(name) for column in columns]
        published = [f"{value:.1f}" for value in PUBLISHED_PHENOMENA[name]] if has_published else []
        rows.append([name, _each(one["pairs"] for one in found if one), *map(_cell, found), *published])
    if level == "phenomena":
        found = [column.results["overall"] for column in columns]
        published = [row[1] for row in PUBLISHED[: len(LANGUAGE_MODELS)]] if has_published else []
        title = f"overall, mean of {_each(all_paradigms)} paradigms"
        rows.append([title, _each(one["pairs"] for one in found), *map(_cell, found), *published])
    header = [level, "pairs", *(column.title for column in columns), *(LANGUAGE_MODELS if has_published else ())]
    return Table(header, rows)


def _each(counts: Iterable[int]) -> str:
    """The different counts of the columns, from the left."""
    return " / ".join(dict.fromkeys(map(str, counts)))


def _cell(result: dict[str, Any] | None) -> str:
    if result is None:
        return ""
    accuracy = f"{100 * result['accuracy']:.1f}"
    error = result["standard_error"]
    return accuracy if error is None else f"{accuracy} ± {100 * error:.1f}"


def report(folders: Sequence[Path]) -> Report:
    """The scores of one or more folders side by side."""
    columns = read_columns(folders)
    table = accuracy_table(columns, "phenomena")
    blocks: list[Block] = [Text("Accuracy in percent ± standard error. Definitions at the end.")]
    blocks += [Heading("By phenomenon"), table]
    ties = {column.title: column.results["overall"]["ties"] for column in columns}
    if any(ties.values()):
        blocks.append(Items([f"{title}: {count} ties" for title, count in ties.items() if count]))
    if table.header[-1] == LANGUAGE_MODELS[-1]:
        header = ["model", "overall", "training data", "score", "source"]
        rows: list[list[str | Link]] = [[*row[:4], Link(*row[4:])] for row in PUBLISHED]
        blocks += [Heading("Beside published results"), Table(header, rows, words=header[2:])]
    blocks += [Heading("By paradigm"), accuracy_table(columns, "paradigms")]
    blocks += [Heading("Definitions"), Items(DEFINITIONS)]
    return Report(TITLE, blocks, table)
