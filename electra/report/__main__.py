"""Reports of pre-training runs and of evaluations, from their files alone. No torch.

    python -m electra.report RUN                                     RUN/report.html, RUN/training_curves.png
    python -m electra.report RUN RUN --x tokens --output FILE.html   several runs in one page
    python -m electra.report RUN --glue GLUE_FOLDER                  with GLUE results, also in the model card
    python -m electra.report EVALUATION EVALUATION --output FOLDER   report.md, report.html, report.json

Runs may be unfinished or killed. Evaluations are the folders of run_glue.py, run_squad.py, run_tagging.py,
run_swag.py and run_blimp.py.
"""

import json
import logging
import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from electra.io.console import log_plainly
from electra.io.errors import Parser, UserError, run_script
from electra.io.files import write_file
from electra.report.blocks import Block, to_markdown
from electra.report.curves import AXES, Axis
from electra.report.evaluation import Reporting, terminal_table, write_report
from electra.report.page import write_report as write_run_report
from electra.report.results import ENVIRONMENT_NAME, RESULTS_NAME, read_evaluation
from electra.tasks.glue.report import TITLE, glue_section
from electra.tasks.glue.tasks import TASKS
from electra.tasks.minimal_pairs import report as minimal_pairs

logger = logging.getLogger("electra.report")


def main(argv: list[str] | None = None) -> None:
    parser = Parser(prog="python -m electra.report", description="Write reports of pre-training runs or evaluations.")
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
    arguments = parser.parse_args(argv)
    log_plainly()
    try:
        paths = _write(arguments.folders, arguments.glue, arguments.x, arguments.output)
    except UserError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError) as error:  # a file that was edited by hand
        names = ", ".join(map(str, arguments.folders))
        why = f"a file does not have the form that a run writes ({error!r})"
        raise UserError(f"cannot report {names}: {why}; restore it") from error
    for path in paths:
        logger.info("%s", path)


def _write(folders: list[Path], glue: Path | None, x: Axis, output: Path | None) -> list[Path]:
    """Write the report of runs or of evaluations; return its files."""
    if glue is None and all((folder / minimal_pairs.RESULTS_NAME).exists() for folder in folders):
        logger.info("%s\n", minimal_pairs.terminal_table(folders))
        return minimal_pairs.write_report(folders, output or folders[0])
    is_evaluation = any((folder / RESULTS_NAME).exists() for folder in folders)
    if glue is not None and (is_evaluation or len(folders) > 1):
        raise UserError(f"--glue belongs to one run, not to {', '.join(map(str, folders))}; name one run")
    if not is_evaluation:
        section = [] if glue is None else glue_section(glue)
        paths = write_run_report(folders, x, output, section)
        card = folders[0] / "discriminator" / "README.md"
        return [*paths, add_to_card(card, TITLE, section)] if section and card.exists() else paths
    kinds = {kind_of(folder): folder for folder in folders}
    if len(kinds) > 1:
        named = " and ".join(f"{folder} of {kind}" for kind, folder in kinds.items())
        raise UserError(f"the evaluations are of different kinds, {named}; report them separately")
    # A package is imported when it is needed, because one of them needs seqeval.
    reporting: Reporting = import_module(f"electra.tasks.{next(iter(kinds))}.report").REPORTING
    paths = write_report(reporting, folders, output or folders[0])
    logger.info("%s\n", terminal_table(reporting, folders))
    return paths


def kind_of(folder: Path) -> str:
    """The package in electra/tasks, as recorded; for a folder of an earlier version, by its options and metrics."""
    results = read_evaluation(folder)
    recorded = folder / ENVIRONMENT_NAME
    if recorded.is_file() and (kind := json.loads(recorded.read_text(encoding="utf-8")).get("kind")):
        return str(kind)
    metrics, path = results[0].metrics, folder / "config.yaml"
    options = re.findall(r"^\w+(?=:)", path.read_text(encoding="utf-8") if path.exists() else "", re.MULTILINE)
    if "exact_match" in metrics:
        return "squad"
    if "glue_dir" in options or (results[0].task in TASKS and "train_file" not in options):
        return "glue"
    return "tagging" if "f1" in metrics or "label_column" in options else "multiple_choice"


def add_to_card(path: Path, title: str, section: Sequence[Block]) -> Path:
    """Put a section into a model card, in place of an earlier one with the same title; the rest is unchanged."""
    card = path.read_text(encoding="utf-8")
    before, heading, rest = card.partition(f"## {title}\n")
    _, next_heading, after = rest.partition("\n## ")
    before = before if heading else f"{before.rstrip()}\n\n"
    write_file((before + to_markdown(section) + next_heading + after).encode(), path)
    return path


if __name__ == "__main__":
    run_script(main)
