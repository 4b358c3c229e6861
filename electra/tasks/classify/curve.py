"""The learning curve: scores against the number of labelled texts, from the encoder and from fresh weights.

Each point is an evaluation of its own, in a folder such as pretrained-0.05 of the curve's folder.
"""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from electra.finetuning.config import Arguments, EncoderArguments
from electra.finetuning.evaluation import evaluation_folder
from electra.finetuning.runner import evaluate
from electra.io.files import write_file
from electra.report.blocks import Figure, Heading, text_table, write_report
from electra.report.curves import Curve, Panel
from electra.report.drawing import draw, render
from electra.report.results import TaskSummary
from electra.tasks.classify.report import REPORTING
from electra.tasks.classify.task import open_task

Points = Mapping[str, Sequence[TaskSummary]]
"""The evaluations of each start, in the order of their fractions."""

logger = logging.getLogger(__name__)


def run_curve(args: Arguments, prefix: str) -> None:
    """Evaluate every fraction from both starts, then write the report and the picture."""
    folder = evaluation_folder(args, prefix)
    folders = []
    points: dict[str, list[TaskSummary]] = {}
    for start, encoder in starts(args.encoder).items():
        for fraction in args.options.train_fractions:
            changes: dict[str, Any] = {
                "output_dir": str(folder),
                "experiment_name": f"{start}-{fraction:g}",
                "train_fractions": [fraction],
            }
            options = replace(args.options, **changes)
            record = {**args.record, **changes, **vars(encoder)}
            part = replace(args, encoder=encoder, options=options, record=record)
            evaluation = evaluate(part, [open_task(part)], prefix)
            if evaluation is None:  # nothing is run, or another process writes
                continue
            folders.append(evaluation.folder)
            for run in REPORTING.summarize(evaluation.results, start):
                points.setdefault(start, []).extend(run.tasks.values())
    if folders:
        write_curves(folder, folders, draw_curves(points))


def write_curves(folder: Path, folders: Sequence[Path], figure: Any) -> None:
    """The report of all evaluations, which begins with the picture."""
    report = REPORTING.report(folders)
    picture = Figure(render(figure, "svg"), "Scores against the number of labelled texts")
    report = replace(report, blocks=[Heading("Learning curve"), picture, *report.blocks])
    paths = write_report(report, folder)
    write_file(render(figure, "png"), folder / "learning_curve.png")
    table = text_table(report.table.header, report.table.rows)
    logger.info("\n%s\n\nlearning curve %s", table, "  ".join(map(str, paths)))


def starts(encoder: EncoderArguments) -> dict[str, EncoderArguments]:
    """The encoder, and fresh weights of the same architecture."""
    if encoder.pretrain_path is None:
        return {"scratch": encoder}
    fresh = replace(encoder, pretrain_path=None, from_scratch=encoder.pretrain_path)
    return {"pretrained": encoder, "scratch": fresh}


def draw_curves(points: Points) -> Any:
    """A panel for each metric: the median over seeds against the number of texts, for each start."""
    first = next(iter(points.values()))[0]
    panels = []
    for metric in first.metrics:
        curves = []
        for number, tasks in enumerate(points.values()):
            curve = Curve(number, "median", [], [])
            for task in tasks:
                median = task.metrics[metric].median
                curve.x.append(task.results[0].rows["train"])
                curve.y.append(math.nan if median is None else median)
            curves.append(curve)
        panels.append(Panel(metric, curves))
    runs: Any = [SimpleNamespace(name=start) for start in points]
    figure = draw(panels, runs, "labelled texts")
    for axes in figure.axes:
        axes.set_xscale("log")
    return figure
