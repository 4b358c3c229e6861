"""Scores in the two forms that the Hub reads: `model-index` in the metadata of a card, and `.eval_results/`. No torch.

A file in `.eval_results/` names a data set of the Hub, whose page then lists the score. Scores on files of the user
are in the card alone. A score on fewer rows than the official ones is not called one on the official data set.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from huggingface_hub import EvalResult, EvalResultEntry, eval_result_entries_to_yaml

from electra.base.files import write_file, yaml_text
from electra.report.evaluation import Reporting
from electra.report.results import SeedScores, TaskSummary

EVAL_RESULTS = ".eval_results"
"""Folder of a repository in which the Hub looks for scores."""
MNLI_SPLITS = ("matched", "mismatched")
"""Ends of the names of metrics on the Hub's splits validation_matched and validation_mismatched."""


class HubData(NamedTuple):
    """A data set: its name on the Hub, "" for files of the user, and its configuration there, None without one."""

    name: str = ""
    config: str | None = None


OWN_FILES = HubData()
"""The data set of scores on files of the user: none of the Hub."""


class HubScore(NamedTuple):
    """A score: a metric of one split, for one seed or as the median of several seeds.

    Args:
        task, title: names of the task in results and in reports.
        data: data set with the rows that are scored.
        split: name of the split on the Hub, such as validation.
        metric, metric_title: names of the metric in results, without the split, and in reports.
        value: score as a fraction.
        notes: sentence about the metric, the seeds and their standard deviation.
        is_headline: whether the metric is the one that represents the task.
    """

    task: str
    title: str
    data: HubData
    split: str
    metric: str
    metric_title: str
    value: float
    notes: str
    is_headline: bool


def hub_scores(
    reporting: Reporting, summary: TaskSummary, data: HubData = OWN_FILES, seed: int | None = None
) -> list[HubScore]:
    """Return the scores of a task, but for undefined ones and for means over the two splits of MNLI.

    Args:
        data: data set that the user named; an official task with all of its rows has that of `Reporting.datasets`.
        seed: seed of the model that is described; None for the median over all seeds.
    """
    task = summary.task
    if task.name in reporting.datasets and has_official_rows(summary):
        data = HubData(*reporting.datasets[task.name])
    scores = []
    for name, seed_scores in summary.metrics.items():
        split, metric = split_and_metric(name)
        value = seed_scores.median if seed is None else seed_scores.values.get(seed)
        is_mean_of_splits = f"{name}_{MNLI_SPLITS[0]}" in summary.metrics
        if value is None or is_mean_of_splits:
            continue
        title = reporting.title_of(name)
        notes = f"{title} ({split}), a fraction; {seeds_in_words(seed_scores, seed)}"
        is_headline = metric == task.headline
        scores.append(HubScore(task.name, task.title, data, split, metric, title, round(value, 4), notes, is_headline))
    return scores


def has_official_rows(summary: TaskSummary) -> bool:
    """Return True if all development sets of all runs have the official number of rows."""
    official = {split: rows for split, rows in summary.task.rows.items() if split.startswith("dev")}
    return bool(official) and all(
        result.rows.get(split) == rows for result in summary.results for split, rows in official.items()
    )


def split_and_metric(name: str) -> tuple[str, str]:
    """Return the Hub's name of a metric's split, and the metric alone: test_f1 -> test, f1; f1 -> validation, f1."""
    if name.startswith("test_"):
        return "test", name.removeprefix("test_")
    metric, _, end = name.rpartition("_")
    return (f"validation_{end}", metric) if end in MNLI_SPLITS else ("validation", name)


def seeds_in_words(seed_scores: SeedScores, seed: int | None) -> str:
    """Return the seeds of a score in words, with the standard deviation over all of them.

    Args:
        seed: seed of the model that is described; None for the median over all seeds.
    """
    seeds = " ".join(map(str, seed_scores.values))
    median = "undefined" if seed_scores.median is None else f"{seed_scores.median:.4f}"
    std = "" if seed_scores.std is None else f", std {seed_scores.std:.4f}"
    if seed is None:
        return f"median of the seeds {seeds}{std}"
    return f"seed {seed}, the best on the development set of the seeds {seeds}: median {median}{std}"


def model_index(scores: Sequence[HubScore], pipeline: str) -> list[EvalResult]:
    """Return scores as the metadata of a card has them; `pipeline` is the Hub's tag of the kind of model."""
    return [
        EvalResult(
            task_type=pipeline,
            dataset_type=score.data.name or score.task,
            dataset_name=score.title,
            dataset_config=score.data.config,
            dataset_split=score.split,
            metric_type=score.metric,
            metric_name=score.metric_title,
            metric_value=score.value,
        )
        for score in scores
    ]


def write_eval_results(scores: Sequence[HubScore], folder: Path) -> None:
    """Write each headline score on a data set of the Hub to `.eval_results/TASK-SPLIT.yaml` of a folder."""
    for score in scores:
        if not score.data.name or not score.is_headline:
            continue
        entry = EvalResultEntry(
            dataset_id=score.data.name,
            task_id=score.data.config or "default",
            value=score.value,
            notes=score.notes,
        )
        path = folder / EVAL_RESULTS / f"{score.task}-{score.split}.yaml"
        path.parent.mkdir(exist_ok=True)
        write_file(yaml_text(eval_result_entries_to_yaml([entry])).encode(), path)
