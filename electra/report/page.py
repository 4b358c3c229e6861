"""Pre-training runs -> report.html and training_curves.png. No torch."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from electra.io.console import format_seconds
from electra.io.errors import UserError
from electra.io.files import write_file
from electra.report.blocks import Block, Details, Figure, Heading, Items, Table, Text, to_html
from electra.report.charts import COLOURS, Line, line_chart
from electra.report.curves import AXES, Axis, Panel, colour_of, draw, make_panels, metric_title, style_of
from electra.report.runs import RunRecord, is_number, read_runs
from electra.samples import to_html as sample_to_html

logger = logging.getLogger(__name__)

REPORT_NAME, PICTURE_NAME = "report.html", "training_curves.png"
KINDS = {
    "training": ("training", "thin"),
    "held-out": ("held-out text", "dots"),
    "frequencies": ("token frequencies, no context", "dashed"),
}
"""Kind of a curve -> its label in the legend, the style of its line."""
GREY = 7
MAIN_NETWORK = "main network"
"""Replaced by the network's name, such as discriminator, if all runs of the page have the same."""
ABOUT_SAMPLES = (
    "Held-out text. Replaced tokens are underlined. A darker background means that the discriminator considers the "
    "token more likely to be replaced; the number above is this probability in percent."
)
PLAN = {
    "objective": "objective",
    "documents": "documents",
    "corpus_tokens": "tokens of the corpus",
    "held_out_documents": "held-out documents",
    "held_out_tokens": "their tokens",
    "discriminator_shape": MAIN_NETWORK,
    "discriminator_parameters": "its parameters",
    "generator_shape": "generator",
    "generator_parameters": "its parameters",
    "total_parameters": "parameters of both",
    "steps": "steps",
    "batch_size": "segments in a batch",
    "max_length": "tokens in a segment",
    "total_tokens": "tokens, with padding",
    "epochs": "epochs",
    "flops": "FLOPs, 6 N T and attention",
    "google_flops": "FLOPs, the original's count",
    "google_sparse_flops": "the same, embeddings looked up",
}
COMPUTE = {
    "tokens": "tokens seen",
    "training_seconds": "training",
    "evaluation_seconds": "evaluation",
    "tokens_per_second": "tokens per second",
    "device": "device",
    "devices": "devices",
    "dtype": "matrix products in",
    "peak_flops_per_second": "peak measured, each device",
    "mfu": "model FLOPs utilization, of the measured peak",
}


def report_page(runs: Sequence[RunRecord], panels: Sequence[Panel], axis: Axis, more: Sequence[Block] = ()) -> str:
    """The HTML page of at most `COLOURS` runs; `more`: a section of its own, such as GLUE results."""
    is_single = len(runs) == 1
    names = [run.name for run in runs]
    notes = [note for run in runs for note in run.notes]
    notes += [
        f"{names[curve.run]}: {curve.not_finite:,} values of {panel.title} ({curve.kind}) are not finite"
        for panel in panels
        for curve in panel.curves
        if curve.not_finite
    ]
    drawn = [panel for panel in panels if panel.has_points]
    main, others = ([_chart(p, runs, axis) for p in drawn if p.is_main == which] for which in (True, False))
    kinds = {curve.kind: colour_of(curve, runs) for panel in drawn for curve in panel.curves}
    legend = [] if is_single else [(name, f"c{number} dots") for number, name in enumerate(names)]
    legend += [
        (label, f"c{0 if is_single and kind != 'frequencies' else GREY} {style}")
        for kind, (label, style) in KINDS.items()
        if kind in kinds
    ]
    legend += [(kind, f"c{colour if is_single else GREY} dots") for kind, colour in kinds.items() if ":" in kind]
    blocks: list[Block] = [Items(notes)] if notes else []
    blocks += [Heading("Curves"), Figure(main, legend=legend)]
    if others:
        blocks.append(Details("More curves", [Figure(others)]))
    blocks += [*_held_out(runs), *more]
    networks = {run.plan.get("main_network", "discriminator") for run in runs}
    plan = PLAN | ({"discriminator_shape": networks.pop()} if len(networks) == 1 else {})
    for part, labels in (("plan", plan), ("compute", COMPUTE)):
        values = [run.metrics.get(part, {}) for run in runs]
        rows = [[label, *(_cell(key, v.get(key)) for v in values)] for key, label in labels.items()]
        if any(values):
            blocks += [Heading(part.capitalize()), Table(["", *names], [row for row in rows if any(row[1:])])]
    sampled = [run for run in runs if run.samples]
    if sampled:
        blocks += [Heading("Samples"), Text(ABOUT_SAMPLES)]
    for run in sampled:
        if not is_single:
            blocks.append(Heading(run.name, 3))
        blocks += [Markup(sample_to_html(sample)) for sample in run.samples]  # it escapes the tokens itself
    blocks += _options(runs)
    return to_html(f"Pre-training: {names[0] if is_single else f'{len(runs)} runs'}", blocks)


def _chart(panel: Panel, runs: Sequence[RunRecord], axis: Axis) -> str:
    lines = [
        Line(
            curve.kind if len(runs) == 1 else f"{runs[curve.run].name}, {curve.kind}",
            colour_of(curve, runs),
            KINDS[style_of(curve.kind)][1],
            curve.x.tolist(),
            curve.y.tolist(),
        )
        for curve in panel.curves
    ]
    return line_chart(f"chart-{panel.name}", panel.title, AXES[axis], lines)


def _held_out(runs: Sequence[RunRecord]) -> list[Block]:
    """All columns of one run; the last column of each of several runs."""
    columns = runs[0].held_out
    if len(runs) > 1:
        columns = {run.name: list(run.held_out.values())[-1] for run in runs if run.held_out}
    names = dict.fromkeys(name for column in columns.values() for name in column)
    rows = [
        [metric_title(name), *(f"{c[name]:.4f}" if name in c else "" for c in columns.values())]
        for name in names
        if name != "runtime" and not name.endswith("_per_second")
    ]
    if not rows:
        return []
    about = "All columns of a run use the same held-out text and masks. Losses are in nats."
    return [Heading("Held-out metrics"), Text(about), Table(["", *columns], rows)]


def _options(runs: Sequence[RunRecord]) -> list[Block]:
    """All options; options that differ between runs stand first."""
    names = dict.fromkeys(name for run in runs for name in run.options)
    if not names:
        return []
    rows = []
    for name in names:
        values = ["" if (value := run.options.get(name)) is None else value for run in runs]
        rows.append([str(name), *(" ".join(map(str, v)) if isinstance(v, list) else str(v) for v in values)])
    differing = [row for row in rows if len(set(row[1:])) > 1]
    header = ["", *(run.name for run in runs)]
    first = [Table(header, differing, words=header)] if differing else []
    return [Heading("Options"), *first, Details("All options", [Table(header, rows, words=header)])]


def _cell(key: str, value: Any) -> str:
    if not is_number(value):
        return value or ""
    if key.endswith("_seconds"):
        return format_seconds(value)
    if key.endswith("flops") or key == "peak_flops_per_second":
        return f"{value:.3g}"
    if key.startswith("mfu"):
        return f"{100 * value:.1f} %"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def write_report(
    folders: Sequence[Path], axis: Axis = "steps", output: Path | None = None, more: Sequence[Block] = ()
) -> list[Path]:
    """Write the page and, if matplotlib is installed, the picture; returns their files.

    Without `output`, the file of the page, they are report.html and training_curves.png in the run's folder; for
    several runs, which may be unfinished, comparison.html and .png beside the first. For `more` see `report_page`.

    Raises:
        UserError: a run cannot be read, or there are too many.
    """
    runs = read_runs(list(folders))
    if len(runs) > COLOURS:
        raise UserError(f"{len(runs)} runs do not fit in one chart; name at most {COLOURS}")
    if output is not None and (output.is_dir() or output.suffix == ".png"):
        raise UserError(f"--output {output} is a folder or the picture; name the .html file of the page")
    page_file = output or runs[0].folder.resolve().parent / "comparison.html"
    picture_file = page_file.with_suffix(".png")
    if output is None and len(runs) == 1:
        page_file, picture_file = runs[0].folder / REPORT_NAME, runs[0].folder / PICTURE_NAME
    panels = make_panels(runs, axis)
    page = report_page(runs, panels, axis, more)
    page_file.parent.mkdir(parents=True, exist_ok=True)
    write_file(page.encode(errors="backslashreplace"), page_file)
    try:
        picture = draw([panel for panel in panels if panel.is_main and panel.has_points], runs, AXES[axis])
    except ModuleNotFoundError:
        logger.warning("%s needs matplotlib; run: pip install matplotlib", picture_file.name)
        return [page_file]
    write_file(picture, picture_file)
    return [page_file, picture_file]


def try_to_report(folder: Path) -> list[Path]:
    """`write_report` after a run: a failure is logged and does not fail the run, whose networks are already saved."""
    try:
        files = write_report([folder])
    except Exception as error:
        logger.warning("the report of %s could not be written: %s", folder, " ".join(str(error).split()))
        return []
    logger.info("report         %s", ", ".join([str(files[0]), *(path.name for path in files[1:])]))
    return files
