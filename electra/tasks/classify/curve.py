"""The learning curve: scores against the number of labelled texts, from the encoder and from fresh weights.

Each point is an evaluation of its own, in a folder such as pretrained-0.05 of the curve's folder.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from electra.finetuning.config import Arguments
from electra.finetuning.evaluation import Evaluation, evaluation_folder
from electra.finetuning.runner import evaluate
from electra.io.files import write_file
from electra.report.blocks import Figure, Heading, write_report
from electra.report.drawing import render
from electra.tasks.classify.report import CLASSIFY_REPORTING
from electra.tasks.classify.task import open_classification


def run_curve(args: Arguments, prefix: str) -> None:
    """Evaluate every fraction from both starts, then write the report and the picture."""
    folder = evaluation_folder(args, prefix)
    path = args.encoder.pretrain_path
    encoders = {args.start: args.encoder}
    if path is not None:
        encoders["scratch"] = replace(args.encoder, pretrain_path=None, from_scratch=path)
    points: dict[str, list[Evaluation]] = {start: [] for start in encoders}
    for start, encoder in encoders.items():
        for fraction in args.options.train_fractions:
            changes: dict[str, Any] = {
                "output_dir": str(folder),
                "experiment_name": f"{start}-{fraction:g}",
                "train_fractions": [fraction],
            }
            options = replace(args.options, **changes)
            record = {**args.record, **changes, **vars(encoder)}
            part = replace(args, encoder=encoder, options=options, record=record)
            evaluation = evaluate(part, [open_classification(part)], prefix)
            if evaluation is not None and evaluation.results:  # another command may make all runs of a point
                points[start].append(evaluation)
    if not any(points.values()):  # with --plan, and on other processes than the first
        return
    report = CLASSIFY_REPORTING.report([one.folder for evaluations in points.values() for one in evaluations])
    figure = draw_curves(points)
    picture = Figure(render(figure, "svg"), "Scores against the number of labelled texts")
    write_file(render(figure, "png"), folder / "learning_curve.png")
    blocks = [Heading("Learning curve"), picture, *report.blocks]
    write_report(report._replace(blocks=blocks), folder)


def draw_curves(points: Mapping[str, Sequence[Evaluation]]) -> Any:
    """Draw the median over seeds against the number of texts, a curve for each start."""
    from matplotlib.figure import Figure as Picture  # takes a second

    figure = Picture(figsize=(7.2, 4))
    axes = figure.subplots()
    for start, evaluations in points.items():
        counts = []
        scores = []
        for evaluation in evaluations:
            (run,) = CLASSIFY_REPORTING.summarize(evaluation.results, start)
            (task,) = run.tasks.values()
            counts.append(task.results[0].rows["train"])
            scores.append(task.headline.median or 0.0)
        axes.plot(counts, scores, marker="o", label=start)
    axes.set(xscale="log", xlabel="labelled texts", ylabel=CLASSIFY_REPORTING.metrics[task.task.headline])
    axes.set_xticks(counts, [f"{count:,}" for count in counts], minor=False)
    axes.minorticks_off()
    axes.legend()
    return figure
