"""Summaries of runs -> the blocks of a report: tables, pictures, definitions. No torch.

Dev and test, official data and other data, GLUE and the demonstration never share a table without a word about it.
"""

from collections.abc import Sequence

from electra.finetuning.protocol.aggregate import RunSummary
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
from electra.finetuning.protocol.cells import Column, percent, seeds_cell
from electra.finetuning.protocol.pages import Block, Drawing, Heading, Items, Link, Table, Text
from electra.glue.cells import MNLI_HALVES, columns_of, titles
from electra.glue.published import PUBLISHED, Published
from electra.glue.tasks import AVG_TASKS, GLUE_TASKS, TASKS

METRIC_TITLES = {
    "mcc": "MCC",
    "f1": "F1",
    "pearson": "Pearson",
    "spearman": "Spearman",
    "accuracy_matched": "accuracy, matched",
    "accuracy_mismatched": "accuracy, mismatched",
}
HEADLINE_TITLES = {"mnli": "mean of both"}
DEFINITIONS = (
    *GENERAL_DEFINITIONS[:2],
    "CoLA is reported by Matthews' correlation (MCC), STS-B by Spearman's correlation, the others by accuracy.",
    "MNLI stands in averages with each run's mean of accuracy on the matched and the mismatched set; with only one "
    "of the two sets it has no score. Published rows have what their source reports: see the column MNLI is.",
    "AVG is the mean of the medians of eight tasks: all but WNLI. GLUE is that of nine tasks, WNLI included; it is "
    "not the leaderboard's score. Neither exists unless every one of its tasks has a median.",
    *GENERAL_DEFINITIONS[2:],
)


def report_blocks(runs: Sequence[RunSummary]) -> list[Block]:
    """The whole report but its title."""
    glue = [run for run in runs if set(run.tasks) & set(GLUE_TASKS)]
    demo = [run for run in runs if "demo" in run.tasks]
    content: list[Block] = [Text(SUMMARY)]
    if glue:
        content += [Heading("Development sets"), overview(glue, columns_of(glue)), *_remarks(glue)]
        content += [
            Drawing([_plot(task, glue) for task in tasks_of(glue, GLUE_TASKS)], f"{HOW_TO_READ} {PUBLISHED_TICKS}")
        ]
        content += [Heading("By task"), *details(glue, GLUE_TASKS, METRIC_TITLES, HEADLINE_TITLES)]
    if demo:
        words = "A toy task for trying things out. It is no part of GLUE, and nothing published compares with it."
        content += [Heading("Demonstration"), Text(words), *details(demo, ("demo",), METRIC_TITLES, {})]
        content += [Drawing([_plot("demo", demo)], HOW_TO_READ)]
    if glue:
        content += [Heading("Beside published results: development sets"), _published("dev", glue)]
        content += [
            Heading("Published results: test sets"),
            Text(
                "Another set than above, without any run of this report: the labels of the test sets are not public."
            ),
            _published("test", []),
        ]
    content += [Heading("Definitions"), Items(DEFINITIONS)]
    if glue:
        notes = [f"{row.name}, {row.split}: {note}." for row in PUBLISHED for note in row.notes]
        content += [Heading("Notes on published rows"), Items(notes)]
    return content


def _remarks(runs: Sequence[RunSummary]) -> list[Block]:
    """Which averages lack what, and what was not trained or measured on the official data."""
    remarks = [
        f"{run.name}: no {name}, which needs {titles(average.missing)}."
        for run in runs
        for name, average in run.averages.items()
        if average.missing
    ]
    remarks += other_data(runs)
    return [Items(remarks)] if remarks else []


def _plot(name: str, runs: Sequence[RunSummary]) -> str:
    """The headline's seeds. MNLI with one set only: that set, beside rows that report it alone."""
    task = TASKS[name]
    spreads = {run.name: run.tasks[name].headline for run in runs if name in run.tasks}
    title, rows = f"{task.title}, {task.headline_title}", [row for row in PUBLISHED if row.split == "dev"]
    if name == "mnli" and all(spread.median is None for spread in spreads.values()):
        title, rows = "MNLI, acc m", [row for row in rows if row.mnli == "matched"]
        spreads = {
            r.name: r.tasks[name].metrics.get(MNLI_HALVES[0], spreads[r.name]) for r in runs if r.name in spreads
        }
    return plot(name, title, runs, spreads, [(row.label, row.scores[name]) for row in rows if name in row.scores])


def _published(split: str, runs: Sequence[RunSummary]) -> Table:
    """Our runs, if any, and the published rows of one split. MNLI has one column: what it is stands in another."""
    columns = [Column(TASKS[name].title, name) for name in AVG_TASKS]
    header = ["Model", *(column.title for column in columns), "AVG", "MNLI is", "Protocol", "Source"]
    ours: list[Sequence[str | Link]] = [
        [
            f"{run.name} (this report)",
            *(column.cell(run, with_std=False) for column in columns),
            "" if run.averages["AVG"].value is None else percent(run.averages["AVG"].value),
            "mean" if "mnli" in run.tasks else "",
            _protocol(run),
            "",
        ]
        for run in runs
    ]
    rows = [*ours, *(_published_row(row) for row in PUBLISHED if row.split == split)]
    return Table(header, rows, words=("MNLI is", "Protocol", "Source"))


def _protocol(run: RunSummary) -> str:
    other = [name for name in AVG_TASKS if name in run.tasks and run.tasks[name].other_rows]
    return f"median of {seeds_cell(run)}" + (f"; other data than official: {titles(other)}" if other else "")


def _published_row(row: Published) -> list[str | Link]:
    return [
        row.name,
        *(f"{row.scores[name]:.1f}" if name in row.scores else "" for name in AVG_TASKS),
        "" if row.average is None else f"{row.average:.1f}",
        row.mnli,
        row.protocol,
        Link(row.table, row.source),
    ]
