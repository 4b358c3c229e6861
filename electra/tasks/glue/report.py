"""GLUE's part of reports: columns, averages, published rows. No torch.

Development and test sets, official and other data, GLUE and the demo are never mixed in one table without a note.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from electra.errors import UserError
from electra.report.aggregate import RunSummary, summarize
from electra.report.blocks import Block, Figure, Heading, Items, Link, Table, Text
from electra.report.evaluation import (
    GENERAL_DEFINITIONS,
    HOW_TO_READ,
    PUBLISHED_TICKS,
    SUMMARY,
    Column,
    Reporting,
    details,
    other_data,
    overview,
    percent,
    plot,
    seeds_cell,
    tasks_of,
)
from electra.report.results import RESULTS_NAME, Result, read_results
from electra.tasks.glue.published import PUBLISHED, Published
from electra.tasks.glue.tasks import AVG_TASKS, GLUE_TASKS, TASKS

MNLI_HALVES = ("accuracy_matched", "accuracy_mismatched")
"""Metrics of MNLI's two development sets."""


def columns_of(runs: Sequence[RunSummary], *, demo: bool = False) -> list[Column]:
    """Columns of the tasks that some run has; MNLI has two."""
    have = {task for run in runs for task in run.tasks}
    glue = [task for task in GLUE_TASKS if task in have]
    columns = []
    for name in [*glue, *(["demo"] if demo and "demo" in have else [])]:
        task = TASKS[name]
        if name == "mnli":
            columns += [Column("MNLI m", name, MNLI_HALVES[0]), Column("MNLI mm", name, MNLI_HALVES[1])]
        else:
            columns.append(Column(f"{task.title} {task.headline_title}".removesuffix(" acc"), name))
    return columns


def titles(tasks: Sequence[str]) -> str:
    return ", ".join(TASKS[name].title for name in tasks)


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
    "In averages, MNLI is each run's mean of accuracy on the matched and the mismatched set; with only one of the two "
    "sets it has no score. Published rows have what their source reports: see the column MNLI is.",
    "AVG is the mean of the medians of eight tasks: all but WNLI. GLUE is that of nine tasks, with WNLI; it is not "
    "the leaderboard's score. An average is given only if each of its tasks has a median.",
    *GENERAL_DEFINITIONS[2:],
)


def report_blocks(runs: Sequence[RunSummary]) -> list[Block]:
    """The report without its title."""
    glue = [run for run in runs if set(run.tasks) & set(GLUE_TASKS)]
    demo = [run for run in runs if "demo" in run.tasks]
    content: list[Block] = [Text(SUMMARY)]
    if glue:
        content += [Heading("Development sets"), overview(glue, columns_of(glue)), *_remarks(glue)]
        content += [
            Figure([_plot(task, glue) for task in tasks_of(glue, GLUE_TASKS)], f"{HOW_TO_READ} {PUBLISHED_TICKS}")
        ]
        content += [Heading("By task"), *details(glue, GLUE_TASKS, METRIC_TITLES, HEADLINE_TITLES)]
    if demo:
        words = "A toy task for trying things out. It is no part of GLUE, and nothing published compares with it."
        content += [Heading("Demonstration"), Text(words), *details(demo, ("demo",), METRIC_TITLES, {})]
        content += [Figure([_plot("demo", demo)], HOW_TO_READ)]
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
    """Missing averages, and results on other data than the official one."""
    remarks = [
        f"{run.name}: no {name}, which needs {titles(average.missing)}."
        for run in runs
        for name, average in run.averages.items()
        if average.missing
    ]
    remarks += other_data(runs)
    return [Items(remarks)] if remarks else []


def _plot(name: str, runs: Sequence[RunSummary]) -> str:
    """Headline metric of each seed. MNLI with only one set: that set, next to published rows of that set."""
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
    """Runs, if any, above the published rows of one split, for the tasks of the runs; all tasks without runs.

    MNLI has one column; another says which set or mean it is.
    """
    tasks = tasks_of(runs, AVG_TASKS) if runs else AVG_TASKS
    columns = [Column(TASKS[name].title, name) for name in tasks]
    has_mnli = "mnli" in tasks
    header = ["Model", *(column.title for column in columns), "AVG", *["MNLI is"] * has_mnli, "Protocol", "Source"]
    ours: list[Sequence[str | Link]] = [
        [
            f"{run.name} (this report)",
            *(column.cell(run, with_std=False) for column in columns),
            "" if run.averages["AVG"].value is None else percent(run.averages["AVG"].value),
            *["mean" if "mnli" in run.tasks else ""] * has_mnli,
            _protocol(run),
            "",
        ]
        for run in runs
    ]
    rows = [*ours, *(_published_row(row, tasks) for row in PUBLISHED if row.split == split)]
    return Table(header, rows, words=("MNLI is", "Protocol", "Source"))


def _protocol(run: RunSummary) -> str:
    other = [name for name in AVG_TASKS if name in run.tasks and run.tasks[name].other_rows]
    return f"median of {seeds_cell(run)}" + (f"; other data than official: {titles(other)}" if other else "")


def _published_row(row: Published, tasks: Sequence[str]) -> list[str | Link]:
    return [
        row.name,
        *(f"{row.scores[name]:.1f}" if name in row.scores else "" for name in tasks),
        "" if row.average is None else f"{row.average:.1f}",
        *[row.mnli] * ("mnli" in tasks),
        row.protocol,
        Link(row.table, row.source),
    ]


AVERAGES = {"AVG": AVG_TASKS, "GLUE": GLUE_TASKS}


def summarize_glue(results: Sequence[Result], name: str) -> list[RunSummary]:
    """`summarize` with GLUE's tasks and averages."""
    return summarize(results, name, TASKS, AVERAGES)


def report_values() -> dict[str, Any]:
    """Definitions and published rows, in percent."""
    return {"definitions": list(DEFINITIONS), "published": [_published_values(row) for row in PUBLISHED]}


def _published_values(row: Published) -> dict[str, Any]:
    return {
        "name": row.name,
        "split": row.split,
        "scores": dict(row.scores),
        "average": None if row.average is None else round(row.average, 6),
        "printed_average": row.printed_average,
        "printed_glue": row.printed_glue,
        "protocol": row.protocol,
        "mnli": row.mnli,
        "source": row.source,
        "table": row.table,
        "notes": list(row.notes),
    }


TITLE = "GLUE, development sets, percent"


def read_glue(folder: Path) -> list[RunSummary]:
    """One summary per model with results in a folder of run_glue.py.

    Raises:
        UserError: the folder has no results.
    """
    if not (folder / RESULTS_NAME).is_file():
        raise UserError(f"{folder} has no {RESULTS_NAME}; name the output folder of run_glue.py")
    results = read_results(folder / RESULTS_NAME)
    if not results:
        raise UserError(f"{folder / RESULTS_NAME} is empty: no run has finished yet")
    return summarize_glue(results, folder.resolve().name)


def glue_section(folder: Path) -> list[Block]:
    """GLUE results as a section of a run's report and of its model card: medians and both averages.

    Raises:
        UserError: see `read_glue`.
    """
    runs = read_glue(folder)
    names = tasks_of(runs, list(TASKS))
    header = ["", "seeds", *(f"{TASKS[name].title} {TASKS[name].headline_title}" for name in names), *AVERAGES]
    rows = []
    for run in runs:
        medians = [run.tasks[name].headline.median if name in run.tasks else None for name in names]
        values = [*medians, *(average.value for average in run.averages.values())]
        rows.append([run.name, seeds_cell(run), *("" if value is None else percent(value) for value in values)])
    about = (
        f"Medians over seeds. AVG is the mean of {len(AVG_TASKS)} tasks, GLUE of {len(GLUE_TASKS)}, with WNLI; an "
        "average with a missing task stays empty."
    )
    return [Heading(TITLE), Text(about), Table(header, rows)]


REPORTING = Reporting(
    title="GLUE results",
    summarize=summarize_glue,
    blocks=report_blocks,
    columns=lambda runs: columns_of(runs, demo=True),
    values=report_values,
    averages=AVERAGES,
    titles=titles,
)
