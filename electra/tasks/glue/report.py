"""GLUE's part of reports: columns, averages, published rows. No torch.

Development and test sets, official and other data, GLUE and the demo are never mixed in one table without a note.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from electra.report.blocks import Block, Figure, Heading, Items, Link, Table, Text
from electra.report.evaluation import (
    HOW_TO_READ,
    SUMMARY,
    Column,
    Reporting,
    details,
    other_data,
    overview,
    percent,
    plot,
    seeds_cell,
    tasks_in,
)
from electra.report.results import RunSummary, read_evaluation
from electra.tasks.glue.published import PUBLISHED
from electra.tasks.glue.tasks import AVG_TASKS, GLUE_TASKS, TASKS

METRIC_TITLES = {
    "mcc": "MCC", "f1": "F1", "pearson": "Pearson", "spearman": "Spearman",
    "accuracy_matched": "accuracy, matched", "accuracy_mismatched": "accuracy, mismatched",
}  # fmt: skip
DEFINITIONS = (
    "CoLA is reported by Matthews' correlation (MCC), STS-B by Spearman's correlation, the others by accuracy.",
    "In averages, MNLI is each run's mean of accuracy on the matched and the mismatched set; with only one of the two "
    "sets it has no score. Published rows have what their source reports: see the column MNLI is.",
    "AVG is the mean of the medians of eight tasks: all but WNLI. GLUE is that of nine tasks, with WNLI; it is not "
    "the leaderboard's score. An average is given only if each of its tasks has a median.",
)


class GlueReporting(Reporting):
    """The demo has tables of its own, MNLI two columns; test sets are in a table without any run."""

    def columns(self, runs: Sequence[RunSummary]) -> list[Column]:
        columns = []
        for name in (name for name in TASKS if name in tasks_in(runs)):
            if name == "mnli":
                columns += [Column("MNLI m", name, "accuracy_matched"), Column("MNLI mm", name, "accuracy_mismatched")]
            else:
                columns.append(Column(f"{TASKS[name].title} {TASKS[name].headline_title}".removesuffix(" acc"), name))
        return columns

    def blocks(self, runs: Sequence[RunSummary]) -> list[Block]:
        tasks = [name for name in TASKS if name != "demo"]
        glue = [run for run in runs if set(run.tasks) & set(tasks)]
        demo = [run for run in runs if "demo" in run.tasks]
        published = [row for row in PUBLISHED if row.split == "dev"]
        found: list[Block] = [Text(SUMMARY)]
        if glue:
            remarks = [
                f"{run.name}: no {name}, which needs {', '.join(TASKS[task].title for task in average.missing)}."
                for run in glue
                for name, average in run.averages.items()
                if average.missing
            ] + other_data(glue)
            columns = [column for column in self.columns(glue) if column.task != "demo"]
            found += [Heading("Development sets"), overview(glue, columns), *([Items(remarks)] if remarks else [])]
            plots = [
                plot(TASKS[name], glue, [(row.label, row.scores[name]) for row in published if name in row.scores])
                for name in dict.fromkeys(column.task for column in columns)
            ]
            found += [Figure(plots, HOW_TO_READ), Heading("By task"), *details(glue, tasks, METRIC_TITLES)]
        if demo:
            words = "A toy task for trying things out. It is no part of GLUE, and nothing published compares with it."
            found += [Heading("Demonstration"), Text(words), *details(demo, ("demo",), METRIC_TITLES)]
            found += [Figure([plot(TASKS["demo"], demo, ())], HOW_TO_READ)]
        if glue:
            words = "Another set than above, without runs of this report: the labels of the test sets are not public."
            found += [Heading("Beside published results: development sets"), _published_table("dev", glue)]
            found += [Heading("Published results: test sets"), Text(words), _published_table("test", [])]
        found += [Heading("Definitions"), Items(self.all_definitions)]
        if glue:
            notes = [f"{row.name}, {row.split}: {note}." for row in PUBLISHED for note in row.notes]
            found += [Heading("Notes on published rows"), Items(notes)]
        return found

    def published_values(self) -> list[dict[str, Any]]:
        return [{**asdict(row), "average": row.average and round(row.average, 6)} for row in PUBLISHED]


def _published_table(split: str, runs: Sequence[RunSummary]) -> Table:
    """Runs, if any, above the published rows of one split, for the tasks of the runs; all tasks without runs."""
    tasks = [name for name in AVG_TASKS if not runs or name in tasks_in(runs)]
    columns = [Column(TASKS[name].title, name) for name in tasks]
    rows: list[list[str | Link]] = []
    for run in runs:
        other = [TASKS[name].title for name in tasks if name in run.tasks and run.tasks[name].other_rows]
        note = f"; other data than official: {', '.join(other)}" if other else ""
        protocol = f"median of {seeds_cell(run)}{note}"
        average = percent(run.averages["AVG"].value, empty="")
        scores = [*(column.cell(run, with_std=False) for column in columns), average]
        rows.append([f"{run.name} (this report)", *scores, "mean" if "mnli" in run.tasks else "", protocol, ""])
    for row in PUBLISHED:
        if row.split == split:
            scores = [f"{row.scores[name]:.1f}" if name in row.scores else "" for name in tasks]
            scores.append("" if row.average is None else f"{row.average:.1f}")
            rows.append([row.name, *scores, row.mnli, row.protocol, Link(row.table, row.source)])
    header = ["Model", *(column.title for column in columns), "AVG", "MNLI is", "Protocol", "Source"]
    return Table(header, rows, words=("MNLI is", "Protocol", "Source"))


AVERAGES = {"AVG": AVG_TASKS, "GLUE": GLUE_TASKS}
REPORTING = GlueReporting("GLUE results", lambda results: TASKS, METRIC_TITLES, DEFINITIONS, averages=AVERAGES)
TITLE = "GLUE, development sets, percent"


def read_glue(folder: Path) -> list[RunSummary]:
    """One summary per model with results in a folder of run_glue.py."""
    return REPORTING.summarize(read_evaluation(folder), folder.resolve().name)


def glue_section(folder: Path) -> list[Block]:
    """GLUE results as a section of a run's report and of its model card: medians and both averages."""
    runs = read_glue(folder)
    names = [name for name in TASKS if name in tasks_in(runs)]
    header = ["", "seeds", *(f"{TASKS[name].title} {TASKS[name].headline_title}" for name in names), *AVERAGES]
    rows = []
    for run in runs:
        medians = [run.tasks[name].headline.median if name in run.tasks else None for name in names]
        values = [*medians, *(average.value for average in run.averages.values())]
        rows.append([run.name, seeds_cell(run), *(percent(value, empty="") for value in values)])
    about = "Medians over seeds. AVG is the mean of eight tasks, GLUE of nine, with WNLI, if each of them is there."
    return [Heading(TITLE), Text(about), Table(header, rows)]
