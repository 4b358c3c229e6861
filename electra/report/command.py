"""Reports of pre-training runs and of evaluations, from their files alone. No torch.

    electra report RUN                                     RUN/report.html, RUN/training_curves.png
    electra report RUN RUN --x tokens --output FILE.html   several runs in one page
    electra report RUN --glue GLUE_FOLDER                  with GLUE results, also in the model card
    electra report EVALUATION EVALUATION --output FOLDER   report.md, report.html

Runs may be unfinished or killed. Evaluations are the folders of
`electra glue`, `squad`, `tag`, `choose` and `pairs`.
"""

import json
import logging
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from electra.io.console import log_plainly
from electra.io.errors import Parser, UserError
from electra.io.files import write_file
from electra.report.blocks import Block, Heading, Items, Text, text_table, to_markdown, write_report
from electra.report.curves import AXES
from electra.report.efficiency import efficiency_section
from electra.report.evaluation import Reporting
from electra.report.page import write_report as write_run_report
from electra.report.results import ENVIRONMENT_NAME, RESULTS_NAME
from electra.report.runs import read_run

logger = logging.getLogger("electra.report")

KINDS = ("glue", "squad", "tagging", "multiple_choice", "minimal_pairs")
"""The packages of electra/tasks, as environment.json of an evaluation names them."""


def main(argv: list[str] | None = None) -> None:
    parser = Parser(prog="electra report", description="Write reports of pre-training runs or evaluations.")
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="runs, or evaluations of one kind")
    parser.add_argument("--x", choices=AXES, default="steps", help="for runs: unit of the horizontal axis")
    parser.add_argument(
        "--output",
        type=Path,
        help="for runs: file of the page, with the picture beside it; for evaluations: folder",
    )
    parser.add_argument(
        "--glue",
        type=Path,
        metavar="FOLDER",
        help="folder of run_glue.py; adds its scores to page and model card",
    )
    given = parser.parse_args(argv)
    log_plainly()
    kinds = {kind: folder for folder in given.folders if (kind := kind_of(folder))}
    if given.glue is not None and (kinds or len(given.folders) > 1):
        raise UserError(f"--glue belongs to one run, not to {', '.join(map(str, given.folders))}; name one run")
    if len(kinds) > 1:
        named = " and ".join(f"{folder} of {kind}" for kind, folder in kinds.items())
        raise UserError(f"the evaluations are of different kinds, {named}; report them separately")
    if kinds:
        report = task_reports(next(iter(kinds))).report(given.folders)
        logger.info("%s\n", text_table(report.table.header, report.table.rows))
        paths = write_report(report, given.output or given.folders[0])
    else:
        section = [] if given.glue is None else evaluation_section(given.glue, given.folders[0])
        paths = write_run_report(given.folders, given.x, given.output, section)
        card = given.folders[0] / "discriminator" / "README.md"
        if section and card.exists():
            paths.append(add_to_card(card, section))
    for path in paths:
        logger.info("%s", path)


def kind_of(folder: Path) -> str | None:
    """The kind of an evaluation, as its environment.json records it; None for other folders."""
    path = folder / ENVIRONMENT_NAME
    if not path.is_file():
        if (folder / RESULTS_NAME).is_file():
            raise UserError(f"{folder} has {RESULTS_NAME} but no {path.name}, which names its kind; copy it, too")
        return None
    try:
        kind = json.loads(path.read_text(encoding="utf-8")).get("kind")
    except (ValueError, AttributeError) as error:
        raise UserError(f"{path} cannot be read ({error}); restore it") from error
    if kind not in KINDS:
        raise UserError(f"{path} names the unknown kind {kind!r}; run the evaluation's command again, which writes it")
    return str(kind)


def task_reports(kind: str) -> Any:
    """The module that reports a kind of task, imported when it is needed."""
    return import_module(f"electra.tasks.{kind}.report")


def evaluation_section(evaluation: Path, run: Path) -> list[Block]:
    """The results of an evaluation for the page and the card of the run, with the cost of the score."""
    kind = kind_of(evaluation)
    if kind is None or kind == "minimal_pairs":
        raise UserError(f"{evaluation} has no scores of fine-tuning; name the output folder of run_glue.py")
    reporting: Reporting = task_reports(kind).REPORTING
    summaries = reporting.read_runs([evaluation])
    about = Text("Development sets, percent: median over seeds ± standard deviation.")
    blocks: list[Block] = [
        Heading(reporting.title),
        about,
        *reporting.section(summaries),
        Items(reporting.definitions),
    ]
    if len(summaries) == 1 and reporting.averages:
        record = read_run(run)
        averages = {name: average.value for name, average in summaries[0].averages.items()}
        blocks += efficiency_section(record.name, record.plan, record.metrics.get("compute", {}), averages)
    return blocks


def add_to_card(path: Path, section: Sequence[Block]) -> Path:
    """Put a section into a model card, in place of earlier ones with the same titles; the rest is unchanged."""
    card = path.read_text(encoding="utf-8")
    for title in (block.text for block in section if isinstance(block, Heading)):
        before, heading, rest = card.partition(f"## {title}\n")
        _, next_heading, after = rest.partition("\n## ")
        card = before + (f"## {after}" if next_heading else "") if heading else card
    write_file(f"{card.rstrip()}\n\n{to_markdown(section)}".encode(), path)
    return path
