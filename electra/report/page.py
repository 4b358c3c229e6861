"""Pre-training runs -> report.html and training_curves.png. No torch."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from electra.io.console import format_seconds
from electra.io.errors import UserError
from electra.io.files import write_file
from electra.report.blocks import Block, Details, Figure, Heading, Items, Table, Text, to_html
from electra.report.curves import AXES, Axis, Panel, make_panels
from electra.report.drawing import COLOURS, draw, render
from electra.report.labels import DEFINITIONS, LABELS, metric_title
from electra.report.runs import RunRecord, is_number, read_runs

logger = logging.getLogger(__name__)

MARK = b'content="electra.report"'
"""Stands in every page of this package."""
REPORT_NAME, PICTURE_NAME = "report.html", "training_curves.png"
MAIN_NETWORK = "main network"
"""Replaced by the network's name, such as discriminator, if all runs of the page have the same."""
ABOUT_HELD_OUT = (
    "All columns of a run use the same held-out text and masks. Losses are in nats; other values are shares, from 0 "
    "to 1, and areas under curves. 'frequencies' is a baseline that knows how frequent each token is, and no context."
)
ABOUT_SAMPLES = (
    "Segments of held-out documents. A segment is usually split into two parts at a random place, A [SEP] B [SEP], "
    "because tasks on pairs of texts need trained type embeddings; so [SEP] may stand inside a sentence. Replaced "
    "tokens are underlined. A darker background means that the discriminator considers the token more likely to be "
    "replaced; the number above is this probability in percent."
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
}
COMPUTE = {
    "tokens": "tokens seen, without padding",
    "training_seconds": "training",
    "evaluation_seconds": "evaluation",
    "tokens_per_second": "tokens per second",
    "device": "device",
    "devices": "devices",
    "dtype": "matrix products in",
    "peak_flops_per_second": "peak measured, each device",
    "mfu": "model FLOPs utilization, of the measured peak",
}


def report_blocks(
    runs: Sequence[RunRecord], panels: Sequence[Panel], axis: Axis, more: Sequence[Block] = ()
) -> list[Block]:
    """The page of at most `len(COLOURS)` runs; `more`: a section of its own, such as GLUE results."""
    drawn = [panel for panel in panels if panel.has_points]
    others = [panel for panel in drawn if not panel.is_main]
    blocks: list[Block] = []
    for run in runs:
        blocks += [Text(text if len(runs) == 1 else f"{run.name}: {text}") for text in summary(run)]
    if notes := _notes(runs, panels):
        blocks.append(Items(notes))
    blocks += [Heading("Curves"), _figure([panel for panel in drawn if panel.is_main], runs, axis)]
    if others:
        blocks.append(Details("More curves", [_figure(others, runs, axis)]))
    blocks += [*_held_out(runs), *more, *_sizes(runs), *_samples(runs), *_options(runs)]
    return blocks


def summary(run: RunRecord) -> list[str]:
    """The verdict of a finished run, and what was trained on what for how long; empty for an unfinished one."""
    if not run.metrics:
        return []
    plan, compute = run.plan, run.metrics.get("compute", {})
    sources = ", ".join(Path(source["name"]).name for source in plan.get("sources", [])[:3])
    text = (
        f"Objective {plan.get('objective')}: a {plan.get('main_network', 'discriminator')} of "
        f"{plan.get('discriminator_parameters', 0):,} parameters and a generator of "
        f"{plan.get('generator_parameters', 0):,}, trained on {sources} ({plan.get('documents', 0):,} documents, "
        f"{plan.get('corpus_tokens', 0):,} tokens) for {plan.get('steps', 0):,} steps of {plan.get('batch_size')} "
        f"segments of up to {plan.get('max_length')} tokens, in {_cell('_seconds', compute.get('training_seconds'))} "
        f"on {compute.get('device')}."
    )
    verdict = run.metrics.get("verdict")
    return [verdict, text] if verdict else [text]


def _notes(runs: Sequence[RunRecord], panels: Sequence[Panel]) -> list[str]:
    notes = [note for run in runs for note in run.notes]
    for panel in panels:
        for curve in panel.curves:
            if curve.not_finite:
                what = f"{curve.not_finite:,} values of {panel.title} ({curve.kind}) are not finite"
                notes.append(f"{runs[curve.run].name}: {what}")
    return notes


def _figure(panels: Sequence[Panel], runs: Sequence[RunRecord], axis: Axis) -> Figure:
    titles = ", ".join(panel.title for panel in panels)
    return Figure(render(draw(panels, runs, AXES[axis]), "svg"), f"Curves of {titles}")


# ---- tables


def _held_out(runs: Sequence[RunRecord]) -> list[Block]:
    """All columns of one run; the last column of each of several runs."""
    columns = runs[0].held_out
    if len(runs) > 1:
        columns = {run.name: list(run.held_out.values())[-1] for run in runs if run.held_out}
    found = dict.fromkeys(name for column in columns.values() for name in column)
    names = [name for name in (*LABELS, *(found.keys() - LABELS.keys())) if name in found]
    names = [name for name in names if name != "runtime" and not name.endswith("_per_second")]
    if not names:
        return []
    rows = []
    for name in names:
        cells = [f"{column[name]:.4f}" if name in column else "" for column in columns.values()]
        rows.append([LABELS.get(name, metric_title(name)), *cells])
    definitions = [text for name, text in DEFINITIONS.items() if name in found]
    about = Text(ABOUT_HELD_OUT)
    return [Heading("Held-out metrics"), about, Table(["", *columns], rows), Items(definitions)]


def _sizes(runs: Sequence[RunRecord]) -> list[Block]:
    """Plan and cost, a column per run."""
    networks = {run.plan.get("main_network", "discriminator") for run in runs}
    plan = dict(PLAN)
    if len(networks) == 1:
        plan["discriminator_shape"] = networks.pop()
    blocks: list[Block] = []
    for part, labels in (("plan", plan), ("compute", COMPUTE)):
        values = [run.metrics.get(part, {}) for run in runs]
        rows = [[label, *(_cell(key, v.get(key)) for v in values)] for key, label in labels.items()]
        rows = [row for row in rows if any(row[1:])]
        if rows:
            blocks += [Heading(part.capitalize()), Table(["", *(run.name for run in runs)], rows)]
    return blocks


def _samples(runs: Sequence[RunRecord]) -> list[Block]:
    sampled = [run for run in runs if run.samples]
    if not sampled:
        return []
    blocks: list[Block] = [Heading("Samples"), Text(ABOUT_SAMPLES)]
    for run in sampled:
        if len(runs) > 1:
            blocks.append(Heading(run.name, 3))
        blocks += run.samples
    return blocks


def _options(runs: Sequence[RunRecord]) -> list[Block]:
    """All options; options that differ between runs stand first."""
    names = dict.fromkeys(name for run in runs for name in run.options)
    if not names:
        return []
    rows = [[str(name), *(_option_cell(run.options.get(name)) for run in runs)] for name in names]
    differing = [row for row in rows if len(set(row[1:])) > 1]
    header = ["", *(run.name for run in runs)]
    first = [Table(header, differing, words=header)] if differing else []
    return [Heading("Options"), *first, Details("All options", [Table(header, rows, words=header)])]


def _option_cell(value: Any) -> str:
    if value is None:
        return ""
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _cell(key: str, value: Any) -> str:
    if not is_number(value):
        return str(value or "")
    if key.endswith("_seconds"):
        return format_seconds(value)
    if key.endswith("flops") or key == "peak_flops_per_second":
        return f"{value:.3g}"
    if key.startswith("mfu"):
        return f"{100 * value:.1f} %"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


# ---- files


def write_report(
    folders: Sequence[Path], axis: Axis = "steps", output: Path | None = None, more: Sequence[Block] = ()
) -> list[Path]:
    """Write the page and the picture; returns their files.

    Without `output`, the file of the page, they are report.html and training_curves.png in the run's folder; for
    several runs, which may be unfinished, comparison.html and .png beside the first. For `more` see `report_blocks`.

    Raises:
        UserError: a run cannot be read, or there are too many.
    """
    runs = read_runs(list(folders))
    if len(runs) > len(COLOURS):
        raise UserError(f"{len(runs)} runs do not fit in one chart; name at most {len(COLOURS)}")
    page_file, picture_file = _files(runs, output)
    panels = make_panels(runs, axis)
    title = f"Pre-training: {runs[0].name if len(runs) == 1 else f'{len(runs)} runs'}"
    page = to_html(title, report_blocks(runs, panels, axis, more))
    main = [panel for panel in panels if panel.is_main and panel.has_points]
    page_file.parent.mkdir(parents=True, exist_ok=True)
    write_file(page.encode(errors="backslashreplace"), page_file)
    write_file(render(draw(main, runs, AXES[axis]), "png"), picture_file)
    return [page_file, picture_file]


def _files(runs: Sequence[RunRecord], output: Path | None) -> tuple[Path, Path]:
    """The files of the page and of the picture."""
    if output is not None and (output.is_dir() or output.suffix != ".html"):
        raise UserError(f"--output {output} is not a page; name a file that ends in .html")
    if output is not None and output.exists() and MARK not in output.read_bytes():
        raise UserError(f"--output {output} was not written by this command; name another file")
    if output is None and len(runs) == 1:
        return runs[0].folder / REPORT_NAME, runs[0].folder / PICTURE_NAME
    page_file = output or runs[0].folder.resolve().parent / "comparison.html"
    return page_file, page_file.with_suffix(".png")


def try_to_report(folder: Path) -> list[Path]:
    """`write_report` after a run: a failure is logged and does not fail the run, whose networks are already saved."""
    try:
        files = write_report([folder])
    except Exception as error:
        logger.warning("the report of %s could not be written: %s", folder, " ".join(str(error).split()))
        return []
    logger.info("report         %s", ", ".join([str(files[0]), *(path.name for path in files[1:])]))
    return files
