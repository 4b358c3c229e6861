"""Reports of pre-training runs, from their files alone, also while they go on and after they were killed.

    python -m electra.report RUN                                     RUN/report.html, RUN/training_curves.png
    python -m electra.report RUN RUN --x tokens --output FILE.html   several runs in one page
    python -m electra.report RUN --glue GLUE_FOLDER                  with GLUE results, in the model card, too

No torch: a report can be written anywhere.
"""

import logging
from pathlib import Path

from electra.console import log_plainly
from electra.errors import Parser, UserError, run_script
from electra.report.cards import add_glue
from electra.report.glue_table import glue_table, read_glue
from electra.report.panels import AXES
from electra.report.write import write_report

logger = logging.getLogger("electra.report")


def main(argv: list[str] | None = None) -> None:
    parser = Parser(
        prog="python -m electra.report", description="Write report.html and training_curves.png of pre-training runs."
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folder of a run of run_pretraining.py")
    parser.add_argument("--x", choices=AXES, default="steps", help="what the horizontal axis counts")
    parser.add_argument("--output", type=Path, metavar="FILE", help="the page; the picture is written beside it")
    parser.add_argument(
        "--glue", type=Path, metavar="FOLDER", help="of run_glue.py: shown, and added to the run's model card"
    )
    arguments = parser.parse_args(argv)
    log_plainly()
    if arguments.glue is not None and len(arguments.runs) > 1:
        raise UserError(f"--glue belongs to one run, and {len(arguments.runs)} are named; name one RUN")
    table = None if arguments.glue is None else glue_table(read_glue(arguments.glue))
    paths = write_report(arguments.runs, arguments.x, arguments.output, table)
    if table is not None:
        paths += add_glue(arguments.runs[0], table)
    for path in paths:
        logger.info("%s", path)


if __name__ == "__main__":
    run_script(main)
