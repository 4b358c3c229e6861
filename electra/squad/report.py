"""How results on SQuAD are reported: its two versions, their scores, published rows. No torch.

    python -m electra.squad.report RUN [RUN ...] [--output FOLDER]

A folder is a row, so that a pre-trained model and one from scratch stand beside each other.
"""

from collections.abc import Sequence
from typing import Any

from electra.errors import run_script
from electra.finetuning.protocol.aggregate import RunSummary, ScoredTask, summarize
from electra.finetuning.protocol.blocks import (
    GENERAL_DEFINITIONS,
    HOW_TO_READ,
    PUBLISHED_TICKS,
    SUMMARY,
    details,
    other_data,
    overview,
    plot,
    tasks_of,
)
from electra.finetuning.protocol.cells import Column, seeds_cell
from electra.finetuning.protocol.pages import Block, Drawing, Heading, Items, Link, Table, Text
from electra.finetuning.protocol.report import Reporting, report_command
from electra.finetuning.results import Result
from electra.squad.published import PUBLISHED, V1_METRICS, V2_METRICS, Published

TASKS = {
    "squad_v1": ScoredTask("squad_v1", "SQuAD 1.1", "f1", "F1", {"train": 87_599, "dev": 10_570}),
    "squad_v2": ScoredTask("squad_v2", "SQuAD 2.0", "best_f1", "F1", {"train": 130_319, "dev": 11_873}),
}
"""Official numbers are of questions."""
METRICS = {"squad_v1": V1_METRICS, "squad_v2": V2_METRICS}
METRIC_TITLES = {
    "exact_match": "exact match",
    "f1": "F1",
    "best_exact": "exact match",
    "best_f1": "F1",
    "HasAns_exact": "exact match, questions with an answer",
    "HasAns_f1": "F1, questions with an answer",
    "NoAns_exact": "accuracy, questions without an answer",
}
DEFINITIONS = (
    *GENERAL_DEFINITIONS,
    "Exact match is the share of questions whose answer is one of the references; F1 is the overlap of its words with "
    "the best reference. Both are those of the official scripts, without case, punctuation and articles.",
    "SQuAD 2.0: a question whose odds of having no answer are above a threshold is not answered. Exact match and F1 "
    "each are at the threshold that is best on this set, the official best_exact and best_f1, as published rows are. "
    "The scores of questions with and without an answer are at the threshold best for F1.",
)


def columns_of(runs: Sequence[RunSummary]) -> list[Column]:
    """Exact match and F1 of the versions that a run has."""
    return [
        Column(f"{TASKS[name].title} {'F1' if metric.endswith('f1') else 'EM'}", name, metric)
        for name in tasks_of(runs, list(TASKS))
        for metric in METRICS[name]
    ]


def report_blocks(runs: Sequence[RunSummary]) -> list[Block]:
    """The whole report but its title."""
    names = tasks_of(runs, list(TASKS))
    remarks = other_data(runs)
    plots = [_plot(name, runs) for name in names]
    return [
        Text(SUMMARY),
        Heading("Development sets"),
        overview(runs, columns_of(runs)),
        *([Items(remarks)] if remarks else []),
        Drawing(plots, f"{HOW_TO_READ} {PUBLISHED_TICKS}"),
        Heading("By version"),
        *details(runs, names, METRIC_TITLES, {}),
        Heading("Beside published results"),
        _published(runs, names),
        Heading("Definitions"),
        Items(DEFINITIONS),
    ]


def _plot(name: str, runs: Sequence[RunSummary]) -> str:
    task = TASKS[name]
    spreads = {run.name: run.tasks[name].headline for run in runs if name in run.tasks}
    published = [
        (row.label, row.scores[name][task.headline])
        for row in PUBLISHED
        if task.headline in row.scores.get(name, {})
    ]
    return plot(name, f"{task.title}, {task.headline_title}", runs, spreads, published)


def _published(runs: Sequence[RunSummary], names: Sequence[str]) -> Table:
    columns = columns_of(runs)
    header = ["Model", *(column.title for column in columns), "Protocol", "Source"]
    ours: list[Sequence[str | Link]] = [
        [
            f"{run.name} (this report)",
            *(column.cell(run, with_std=False) for column in columns),
            f"median of {seeds_cell(run)}" + ("; other data than official" if other_data([run]) else ""),
            "",
        ]
        for run in runs
    ]
    rows = [[*_published_cells(row, columns), row.protocol, Link(row.table, row.source)] for row in PUBLISHED]
    return Table(header, [*ours, *(r for r in rows if any(r[1 : 1 + len(columns)]))], words=("Protocol", "Source"))


def _published_cells(row: Published, columns: Sequence[Column]) -> list[str | Link]:
    scores = [row.scores.get(column.task, {}).get(column.metric or "") for column in columns]
    return [row.name, *("" if score is None else f"{score:.1f}" for score in scores)]


def summarize_squad(results: Sequence[Result], name: str) -> list[RunSummary]:
    """As `summarize`, of both versions."""
    return summarize(results, name, TASKS, {})


def report_values() -> dict[str, Any]:
    """Definitions and published rows, in percent."""
    rows = [
        {"name": r.name, "scores": r.scores, "protocol": r.protocol, "source": r.source, "table": r.table}
        for r in PUBLISHED
    ]
    return {"definitions": list(DEFINITIONS), "published": rows}


REPORTING = Reporting(
    title="SQuAD results",
    summarize=summarize_squad,
    blocks=report_blocks,
    columns=columns_of,
    values=report_values,
    averages={},
    titles=lambda names: ", ".join(TASKS[name].title for name in names),
)


def main(argv: list[str] | None = None) -> None:
    report_command(REPORTING, "electra.squad.report", argv)


if __name__ == "__main__":
    run_script(main)
