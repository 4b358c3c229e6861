"""results.jsonl of a GLUE evaluation -> the table of a report and of a model card. No torch."""

from pathlib import Path
from typing import NamedTuple

from electra.errors import UserError
from electra.finetuning.protocol.aggregate import RunSummary
from electra.finetuning.results import RESULTS_NAME, read_results
from electra.glue.report import summarize_glue
from electra.glue.tasks import AVG_TASKS, GLUE_TASKS

TITLE = "GLUE, development sets, percent"


class GlueTable(NamedTuple):
    """A row for each model that was fine-tuned: its medians, the number of seeds behind them, its averages."""

    header: list[str]
    rows: list[list[str]]


def read_glue(folder: Path) -> list[RunSummary]:
    """One summary for each model with results in an output folder of run_glue.py.

    Raises:
        UserError: the folder has no results.
    """
    if not (folder / RESULTS_NAME).is_file():
        raise UserError(f"{folder} has no {RESULTS_NAME}; name the output folder of run_glue.py")
    results = read_results(folder / RESULTS_NAME)
    if not results:
        raise UserError(f"{folder / RESULTS_NAME} is empty: no run has finished yet")
    return summarize_glue(results, folder.resolve().name)


def glue_table(summaries: list[RunSummary]) -> GlueTable:
    """Tasks that any of the models has, and both averages; what is missing is empty."""
    tasks = {name: task.task for summary in summaries for name, task in summary.tasks.items()}
    ordered = [name for name in GLUE_TASKS if name in tasks] + [name for name in tasks if name not in GLUE_TASKS]
    header = ["", "seeds", *(f"{tasks[name].title} {tasks[name].headline_title}" for name in ordered), "AVG", "GLUE"]
    rows = []
    for summary in summaries:
        medians = [summary.tasks[n].headline.median if n in summary.tasks else None for n in ordered]
        seeds = {len(task.results) for task in summary.tasks.values()}
        counts = f"{min(seeds)}" if len(seeds) == 1 else f"{min(seeds)} to {max(seeds)}"
        values = [*medians, summary.averages["AVG"].value, summary.averages["GLUE"].value]
        rows.append([summary.name, counts, *(percent(value) for value in values)])
    return GlueTable(header, rows)


def percent(fraction: float | None) -> str:
    return "" if fraction is None else f"{100 * fraction:.1f}"


def about_averages() -> str:
    return (
        f"Medians over seeds. AVG is the mean of {len(AVG_TASKS)} tasks, GLUE of {len(GLUE_TASKS)}, with WNLI; an "
        "average with a missing task stays empty."
    )
