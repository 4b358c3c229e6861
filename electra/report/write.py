"""Run folders -> report.html and training_curves.png, from files alone. No torch."""

import logging
from collections.abc import Sequence
from pathlib import Path

from electra.errors import UserError
from electra.files import write_file
from electra.markup import COLOURS
from electra.report.glue_table import GlueTable
from electra.report.page import X_LABELS, report_page
from electra.report.panels import Axis, make_panels
from electra.report.picture import draw
from electra.report.runs import read_runs

logger = logging.getLogger(__name__)

REPORT_NAME, PICTURE_NAME = "report.html", "training_curves.png"


def write_report(
    folders: Sequence[Path], axis: Axis = "steps", output: Path | None = None, glue: GlueTable | None = None
) -> list[Path]:
    """Write the page and the picture, each whole or not at all.

    Args:
        folders: runs of run_pretraining.py, killed ones too; several are laid over each other.
        axis: of the curves.
        output: the page's file; the picture is beside it, with its name. Not given: report.html and
            training_curves.png in the run's folder, of several runs comparison.html and .png beside the first.
        glue: results to show with them.
    Returns:
        both files.
    Raises:
        UserError: a run cannot be read, there are too many, or the output cannot be written.
    """
    runs = read_runs(list(folders))
    if len(runs) > COLOURS:
        raise UserError(f"{len(runs)} runs are too many for one picture; name at most {COLOURS}")
    if output is not None:
        if output.name in ("", "..") or output.is_dir():
            raise UserError(f"--output {output} must name a file, such as report.html")
        page_file, picture_file = output, output.with_suffix(".png")
    elif len(runs) == 1:
        page_file, picture_file = runs[0].folder / REPORT_NAME, runs[0].folder / PICTURE_NAME
    else:
        page_file = runs[0].folder.resolve().parent / "comparison.html"
        picture_file = page_file.with_suffix(".png")
    if picture_file == page_file:
        raise UserError(f"--output {page_file} is the page, not the picture; name an .html file")
    panels = make_panels(runs, axis)
    page = report_page(runs, panels, axis, glue)
    picture = draw([panel for panel in panels if panel.is_main and panel.has_points], runs, X_LABELS[axis])
    try:
        page_file.parent.mkdir(parents=True, exist_ok=True)
        write_file(page.encode(errors="backslashreplace"), page_file)
        write_file(picture, picture_file)
    except OSError as error:
        raise UserError(f"cannot write the report to {page_file.parent}: {error}; name another --output") from error
    return [page_file, picture_file]


def try_to_report(folder: Path) -> list[Path]:
    """`write_report` of a run that has ended; whatever goes wrong is said, and costs the run nothing but the files."""
    try:
        files = write_report([folder])
    except Exception as error:  # the networks are trained and saved: a picture of them is no reason to fail
        logger.warning("no report of %s could be made: %s", folder, " ".join(str(error).split()))
        return []
    logger.info("report         %s, %s", files[0], files[1].name)
    return files
