"""Reports of pre-training runs and of evaluations, from their files alone. No torch.

    electra report RUN                                     RUN/report.html, RUN/training_curves.png
    electra report RUN RUN --output FOLDER                 several runs in one page, over tokens
    electra report RUN --glue GLUE_FOLDER                  with GLUE results and their cost
    electra report RUN --names rc2020                      curves under the names of another code base
    electra report EVALUATION EVALUATION --output FOLDER   report.md, report.html

Runs may be unfinished or killed. Evaluations are the folders of the kinds of tasks in `TASKS`.
"""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from electra.base.console import setup_logging
from electra.base.files import read_json
from electra.base.parser import Parser
from electra.core.errors import UserError
from electra.finetuning.registry import BY_KIND, TASKS, part, reporting_of
from electra.report.blocks import PAGE_MARK, Blocks, BulletList, Heading, Report, Text, write_report
from electra.report.evaluation import unit_of_scores
from electra.report.metrics import CODE_BASE_METRICS
from electra.report.page import REPORT_NAMES, efficiency_section, write_run_report
from electra.report.results import ENVIRONMENT_NAME, Environment
from electra.report.runs import read_run

logger = logging.getLogger("electra.report")


def main(argv: list[str] | None = None) -> None:
    parser = Parser(prog="electra report", description="Write reports of pre-training runs or evaluations.")
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="runs, or evaluations of one kind")
    parser.add_argument("--output", type=Path, help="folder of the report (default: the first folder)")
    parser.add_argument(
        "--glue",
        type=Path,
        metavar="FOLDER",
        help="folder of run_glue.py; adds its scores and their cost to the page",
    )
    parser.add_argument(
        "--names",
        choices=CODE_BASE_METRICS,
        default="",
        help="draw the curves of another code base, under its names, in files of their own",
    )
    args = parser.parse_args(argv)
    setup_logging()
    first = args.folders[0]
    if args.output is not None and args.output not in args.folders:
        refuse_other_files(args.output)
    paths = [folder / ENVIRONMENT_NAME for folder in args.folders]
    recorded = [read_json(path, Environment) for path in paths if path.is_file()]
    kinds = sorted({values["kind"] for values in recorded if "kind" in values})
    if len(kinds) > 1:
        raise UserError(f"the folders hold {', '.join(kinds)}; report each kind separately")
    if kinds:
        if kinds[0] not in BY_KIND:
            raise UserError(
                f"{first / ENVIRONMENT_NAME} has the kind {kinds[0]!r}; the kinds are {', '.join(BY_KIND)}"
            )
        write_report(report_of(kinds[0])(args.folders), args.output or first)
        return
    section: Blocks = []
    if args.glue is not None:
        reporting = reporting_of("glue")
        summaries = reporting.read_summaries([args.glue])
        about = Text(f"Development sets, {unit_of_scores(summaries)}.")
        section += [
            Heading(reporting.title),
            about,
            *reporting.section(summaries),
            BulletList(reporting.explanations),
        ]
        section += efficiency_section(read_run(first), summaries[0].averages)
    for path in write_run_report(args.folders, args.output, section, args.names):
        logger.info("%s", path)


def report_of(kind: str) -> Callable[[Sequence[Path]], Report]:
    """Return the function that makes the report of evaluations of a kind, such as `glue`, from their folders."""
    row = TASKS[BY_KIND[kind]]
    report: Callable[[Sequence[Path]], Report] = reporting_of(kind).report if row.is_trained else part(row.report)
    return report


def refuse_other_files(folder: Path) -> None:
    """Refuse a folder in which another program's files have the names of a report's files.

    Raises:
        UserError: there is such a file.
    """
    page = folder / "report.html"
    is_ours = page.is_file() and PAGE_MARK in page.read_bytes()[:1000]
    for name in (*REPORT_NAMES, "report.md"):
        if not is_ours and (folder / name).exists():
            raise UserError(f"{folder / name} is no report of this command; choose another --output")
