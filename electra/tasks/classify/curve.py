"""The learning curve: scores against the number of labelled texts, from the encoder and from fresh weights.

Each point is an evaluation of its own, in a folder such as pretrained-0.05 of the curve's folder.
"""

import logging
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from electra.finetuning.config import Arguments
from electra.finetuning.evaluation import Evaluation, evaluation_folder
from electra.finetuning.runner import evaluate
from electra.io.files import write_file
from electra.report.blocks import Figure, Heading, text_table, write_report
from electra.report.curves import Curve, Panel
from electra.report.drawing import draw, render
from electra.tasks.classify.report import REPORTING
from electra.tasks.classify.task import open_task

logger = logging.getLogger(__name__)


def run_curve(args: Arguments, prefix: str) -> None:
    """Evaluate every fraction from both starts, then write the report and the picture."""
    folder = evaluation_folder(args, prefix)
    starts = {"scratch": args.encoder}
    if args.encoder.pretrain_path is not None:
        fresh = replace(args.encoder, pretrain_path=None, from_scratch=args.encoder.pretrain_path)
        starts = {"pretrained": args.encoder, "scratch": fresh}
    points: dict[str, list[Evaluation]] = {start: [] for start in starts}
    for start, encoder in starts.items():
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
            if evaluation is not None:
                points[start].append(evaluation)
    found = [evaluation.folder for evaluations in points.values() for evaluation in evaluations]
    if not found:  # nothing is run, or another process writes
        return
    report = REPORTING.report(found)
    figure = draw_curves(points)
    picture = Figure(render(figure, "svg"), "Scores against the number of labelled texts")
    paths = write_report(replace(report, blocks=[Heading("Learning curve"), picture, *report.blocks]), folder)
    write_file(render(figure, "png"), folder / "learning_curve.png")
    table = text_table(report.table.header, report.table.rows)
    logger.info("\n%s\n\nlearning curve %s", table, "  ".join(map(str, paths)))


def draw_curves(points: dict[str, list[Evaluation]]) -> Any:
    """The median over seeds against the number of texts, a curve for each start."""
    curves = []
    for number, (start, evaluations) in enumerate(points.items()):
        curve = Curve(number, "median", [], [])
        for evaluation in evaluations:
            (run,) = REPORTING.summarize(evaluation.results, start)
            (task,) = run.tasks.values()
            curve.x.append(task.results[0].rows["train"])
            curve.y.append(task.headline.median or 0.0)
        curves.append(curve)
    runs: Any = [SimpleNamespace(name=start) for start in points]
    figure = draw([Panel(task.task.headline, curves)], runs, "labelled texts")
    counts = sorted({count for curve in curves for count in curve.x})
    axes = figure.axes[0]
    axes.set_xscale("log")
    axes.set_xticks(counts, [f"{count:,}" for count in counts])
    axes.minorticks_off()
    return figure
