"""results.jsonl of one or more run folders -> report.md, report.html, report.json and a table for the terminal.

What kind of task they are of is said by a `Reporting`. A folder is a row, so that a pre-trained model and one from
scratch stand beside each other. A report is a function of those files alone, without dates: the same results give the
same bytes. No torch: it can be written anywhere.
"""

import json
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electra.errors import Parser, UserError
from electra.files import write_file
from electra.finetuning.protocol.aggregate import Average, RunSummary, Spread, TaskSummary
from electra.finetuning.protocol.cells import Column, percent, seeds_cell
from electra.finetuning.protocol.pages import Block, to_html, to_markdown
from electra.finetuning.results import RESULTS_NAME, Result, read_results

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Reporting:
    """How results of one kind of task are reported.

    Args:
        title: of the report.
        summarize: results of a folder and its name -> a row for each model in it.
        blocks: rows -> the report but its title.
        columns: rows -> the scores of the table on the terminal.
        averages: name -> the tasks that it is the mean of, where there are such means.
        titles: tasks -> what to call them in a sentence.
        values: what report.json holds beside the runs.
    """

    title: str
    summarize: Callable[[Sequence[Result], str], list[RunSummary]]
    blocks: Callable[[Sequence[RunSummary]], list[Block]]
    columns: Callable[[Sequence[RunSummary]], list[Column]]
    values: Callable[[], dict[str, Any]]
    averages: Mapping[str, Sequence[str]]
    titles: Callable[[Sequence[str]], str]


def read_runs(reporting: Reporting, folders: Sequence[Path]) -> list[RunSummary]:
    """One row for each folder, or for each model in it; a folder that is named twice is read once.

    Raises:
        UserError: no folder is there, or it has no results, or they do not fit together.
    """
    found: dict[Path, Path] = {}
    for folder in folders:
        found.setdefault(folder.resolve(), folder)
    names = [path.name for path in found]
    runs = []
    for path, folder in found.items():
        if not path.is_dir():
            raise UserError(f"there is no folder {folder}; name the output folder of a fine-tuning run")
        if not (path / RESULTS_NAME).is_file():
            raise UserError(f"{folder} has no {RESULTS_NAME}; name the output folder of a fine-tuning run")
        results = read_results(path / RESULTS_NAME)
        if not results:
            raise UserError(f"{folder / RESULTS_NAME} is empty: no run has finished yet")
        runs += reporting.summarize(results, path.name if names.count(path.name) == 1 else str(folder))
    return runs


def write_report(reporting: Reporting, folders: Sequence[Path], output: Path) -> list[Path]:
    """Write report.md, report.html and report.json, each whole or not at all.

    Args:
        folders: each with a results.jsonl; one row each.
        output: where to; made if it is not there.

    Raises:
        UserError: see `read_runs`; or the output cannot be written.
    """
    runs = read_runs(reporting, folders)
    content = reporting.blocks(runs)
    values = report_values(reporting, runs)
    texts = {
        "report.md": to_markdown(reporting.title, content),
        "report.html": to_html(reporting.title, content),
        "report.json": json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False) + "\n",
    }
    try:
        output.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            write_file(text.encode(errors="backslashreplace"), output / name)
    except OSError as error:
        raise UserError(f"cannot write the report to {output}: {error}; name another --output") from error
    return [output / name for name in texts]


def terminal_table(reporting: Reporting, folders: Sequence[Path]) -> str:
    """Aligned text, one row a score, one column a run.

    Raises:
        UserError: see `read_runs`.
    """
    runs = read_runs(reporting, folders)
    rows = [["percent, median ± std", *(run.name for run in runs)], ["seeds", *(seeds_cell(r) for r in runs)]]
    scores = [[column.title, *(column.cell(run) for run in runs)] for column in reporting.columns(runs)]
    rows += [row for row in scores if any(row[1:])]
    for name, tasks in reporting.averages.items():
        if any(set(run.tasks) & set(tasks) for run in runs):
            rows.append([name, *(_average_cell(reporting, run.averages[name]) for run in runs)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(runs) + 1)]
    lines = (
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def report_values(reporting: Reporting, runs: Sequence[RunSummary]) -> dict[str, Any]:
    """What report.json holds: the report's numbers, in percent, and what they rest on."""
    values = reporting.values()
    return {
        "unit": "percent",
        "definitions": values.pop("definitions"),
        "average_tasks": {name: list(tasks) for name, tasks in reporting.averages.items()},
        "runs": [
            {
                "name": run.name,
                "model": run.model,
                "parameters": run.parameters,
                "tasks": {name: _task_values(summary) for name, summary in run.tasks.items()},
                "averages": {name: _average_values(average) for name, average in run.averages.items()},
            }
            for run in runs
        ],
        **values,
    }


def _task_values(summary: TaskSummary) -> dict[str, Any]:
    return {
        "headline": _spread_values(summary.headline),
        "metrics": {name: _spread_values(spread) for name, spread in summary.metrics.items()},
        "runs": len(summary.results),
        "collapsed": summary.collapsed,
        "collapsed_seeds": [result.seed for result in summary.results if result.collapsed],
        "rows_not_official": summary.other_rows,
        "by_seed": [
            {"seed": r.seed, "epoch": r.epoch, "start": r.start, "rows": r.rows, "settings": r.settings}
            for r in summary.results
        ],
    }


def _spread_values(spread: Spread) -> dict[str, Any]:
    return {
        "median": _percent(spread.median),
        "mean": _percent(spread.mean),
        "best": _percent(spread.best),
        "std": _percent(spread.std),
        "undefined": spread.undefined,
        "values": {str(seed): _percent(value) for seed, value in spread.values.items()},
    }


def _average_values(average: Average) -> dict[str, Any]:
    return {"value": _percent(average.value), "missing": list(average.missing)}


def _percent(fraction: float | None) -> float | None:
    return None if fraction is None else round(100 * fraction, 6)


def _average_cell(reporting: Reporting, average: Average) -> str:
    if average.value is not None:
        return percent(average.value)
    if len(average.missing) > 3:
        return f"needs {len(average.missing)} more tasks"
    return f"needs {reporting.titles(average.missing)}"


def report_command(reporting: Reporting, module: str, argv: list[str] | None = None) -> None:
    """The command `python -m MODULE RUN [RUN ...] [--output FOLDER]`."""
    parser = Parser(prog=f"python -m {module}", description="Write a report from the results of fine-tuning runs.")
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help=f"folder with a {RESULTS_NAME}")
    parser.add_argument("--output", type=Path, help="folder of the report; default: the first RUN")
    arguments = parser.parse_args(argv)
    logging.basicConfig(stream=sys.stdout, format="%(message)s", level=logging.INFO)
    paths = write_report(reporting, arguments.runs, arguments.output or arguments.runs[0])
    table = terminal_table(reporting, arguments.runs)
    logger.info("%s\n\n%s", table, "\n".join(str(path) for path in paths))
