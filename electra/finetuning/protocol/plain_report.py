"""A report for kinds of tasks without averages: overview, pictures, details, published rows, definitions. No torch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from electra.finetuning.protocol.aggregate import RunSummary, Task, TaskSummary, summarize
from electra.finetuning.protocol.blocks import (
    GENERAL_DEFINITIONS,
    HOW_TO_READ,
    PUBLISHED_TICKS,
    SUMMARY,
    details,
    other_data,
    overview,
    plot,
)
from electra.finetuning.protocol.cells import Column
from electra.finetuning.protocol.pages import Block, Drawing, Heading, Items, Link, Table, Text
from electra.finetuning.protocol.report import Reporting
from electra.finetuning.results import Result


@dataclass(frozen=True)
class PublishedScores:
    """One row of a published table.

    Args:
        name: of the model, with whose it is.
        label: the same in a picture; no longer than `electra.finetuning.protocol.picture.MAX_LABEL`.
        task: the task that it is about, by name.
        scores: metric -> percent, as the source prints it, on the development set.
        protocol: how the numbers came about, in a few words.
        source: address.
        table: which table there.
    """

    name: str
    label: str
    task: str
    scores: Mapping[str, float]
    protocol: str
    source: str
    table: str


def plain_reporting(
    title: str,
    known: Callable[[Sequence[Result]], Mapping[str, Task]],
    shown: Mapping[str, str],
    definitions: Sequence[str],
    published: Sequence[PublishedScores] = (),
) -> Reporting:
    """A report with a column for each task and each of some metrics.

    Args:
        title: of the report.
        known: results -> the tasks there may be, by name, in the order of the tables.
        shown: metrics of the overview and the published rows, with what to call them.
        definitions: of these metrics, a sentence or two each.
        published: rows to stand beside ours, of these metrics.
    """

    def summarize_plain(results: Sequence[Result], name: str) -> list[RunSummary]:
        return summarize(results, name, known(results), {})

    def columns(runs: Sequence[RunSummary]) -> list[Column]:
        return [
            Column(f"{summary.task.title} {words}", task, metric)
            for task, summary in _tasks(runs).items()
            for metric, words in shown.items()
            if metric in summary.metrics
        ]

    def blocks(runs: Sequence[RunSummary]) -> list[Block]:
        tasks = _tasks(runs)
        beside = [row for row in published if row.task in tasks]
        remarks = other_data(runs)
        pictures = [
            plot(
                name,
                f"{summary.task.title}, {summary.task.headline_title}",
                runs,
                {run.name: run.tasks[name].headline for run in runs if name in run.tasks},
                [
                    (row.label, row.scores[summary.task.headline])
                    for row in beside
                    if row.task == name and summary.task.headline in row.scores
                ],
            )
            for name, summary in tasks.items()
        ]
        published_blocks: list[Block] = (
            [Heading("Beside published results"), _published(beside, tasks, shown)] if beside else []
        )
        return [
            Text(SUMMARY),
            Heading("Development sets"),
            overview(runs, columns(runs)),
            *([Items(remarks)] if remarks else []),
            Drawing(pictures, f"{HOW_TO_READ} {PUBLISHED_TICKS}" if beside else HOW_TO_READ),
            Heading("By task"),
            *details(runs, list(tasks), shown, {}),
            *published_blocks,
            Heading("Definitions"),
            Items([*definitions, *GENERAL_DEFINITIONS]),
        ]

    def values() -> dict[str, Any]:
        rows = [{**vars(row), "scores": dict(row.scores)} for row in published]
        return {"definitions": [*definitions, *GENERAL_DEFINITIONS], "published": rows}

    return Reporting(title, summarize_plain, blocks, columns, values, {}, ", ".join)


def _tasks(runs: Sequence[RunSummary]) -> dict[str, TaskSummary]:
    """Every task of some run, with one of its summaries."""
    return {name: summary for run in reversed(runs) for name, summary in run.tasks.items()}


def _published(rows: Sequence[PublishedScores], tasks: Mapping[str, TaskSummary], shown: Mapping[str, str]) -> Table:
    metrics = [metric for metric in shown if any(metric in row.scores for row in rows)]
    header = ["Model", "Task", *(shown[metric] for metric in metrics), "Protocol", "Source"]
    return Table(
        header,
        [
            [
                row.name,
                tasks[row.task].task.title,
                *(f"{row.scores[metric]:.1f}" if metric in row.scores else "" for metric in metrics),
                row.protocol,
                Link(row.table, row.source),
            ]
            for row in rows
        ],
        words=("Task", "Protocol", "Source"),
    )
