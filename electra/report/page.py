"""Records of runs -> report.html: curves, held-out metrics, plan, compute, samples, options. No torch."""

import html
from collections.abc import Sequence
from typing import Any

from electra.markup import details, heading, html_table, items, page, paragraph
from electra.report.glue_table import TITLE as GLUE_TITLE
from electra.report.glue_table import GlueTable, about_averages
from electra.report.panels import Axis, Curve, Panel, title_of
from electra.report.runs import RunRecord, is_number
from electra.samples import to_html
from electra.svg import Line, line_chart
from electra.units import format_seconds

_STYLES = {"training": "thin", "held-out": "dots", "frequencies": "dashed"}
X_LABELS = {"steps": "steps", "tokens": "tokens", "flops": "FLOPs"}
_PLAN = (
    ("objective", "objective"),
    ("documents", "documents"),
    ("corpus_tokens", "tokens of the corpus"),
    ("held_out_documents", "held-out documents"),
    ("discriminator_shape", "large network"),
    ("discriminator_parameters", "its parameters"),
    ("generator_shape", "generator"),
    ("generator_parameters", "its parameters"),
    ("total_parameters", "parameters of both"),
    ("steps", "steps"),
    ("batch_size", "segments in a batch"),
    ("max_length", "tokens in a segment"),
    ("total_tokens", "tokens, with padding"),
    ("epochs", "epochs"),
    ("flops", "FLOPs, 6 N T and attention"),
    ("google_flops", "FLOPs, the original's count"),
    ("google_sparse_flops", "the same, embeddings looked up"),
)
_COMPUTE = (
    ("tokens", "tokens seen"),
    ("training_seconds", "training"),
    ("evaluation_seconds", "evaluation"),
    ("tokens_per_second", "tokens per second"),
    ("device", "device"),
    ("devices", "devices"),
    ("dtype", "matrix products in"),
    ("peak_flops_per_second", "peak measured, each device"),
    ("mfu", "model FLOPs utilization"),
    ("energy_joules", "energy"),
    ("energy_source", "energy measured by"),
)


def report_page(runs: Sequence[RunRecord], panels: Sequence[Panel], axis: Axis, glue: GlueTable | None = None) -> str:
    """The whole page.

    Args:
        runs: one or several, no more than there are colours.
        panels: theirs.
        axis: of the panels.
        glue: results of the fine-tuned network, if there are any.
    """
    notes = [note for run in runs for note in run.notes] + _not_finite(runs, panels)
    title = f"Pre-training: {runs[0].name}" if len(runs) == 1 else f"Pre-training: {len(runs)} runs"
    drawn = [panel for panel in panels if panel.has_points]
    main, more = ([panel for panel in drawn if panel.is_main == is_main] for is_main in (True, False))
    parts = [items(notes)] if notes else []
    parts += [heading("Curves"), _legend(runs, drawn), _charts(runs, main, axis)]
    if more:
        parts.append(details("More curves", _charts(runs, more, axis)))
    parts += _held_out(runs)
    if glue is not None:
        parts += [heading(GLUE_TITLE), paragraph(about_averages()), html_table(GLUE_TITLE, *glue)]
    for name, fields, values in (
        ("Plan", _PLAN, [run.plan for run in runs]),
        ("Compute", _COMPUTE, [run.compute for run in runs]),
    ):
        rows = [
            [label, *(_cell(key, v.get(key)) for v in values)]
            for key, label in fields
            if any(key in v for v in values)
        ]
        if rows:
            parts += [heading(name), html_table(name, ["", *(run.name for run in runs)], rows)]
    parts += _samples(runs)
    parts += _options(runs)
    return page(title, parts)


def chart(panel: Panel, runs: Sequence[RunRecord], axis: Axis) -> str:
    """One panel as an SVG element."""
    lines = [_line(curve, runs) for curve in panel.curves]
    return line_chart(f"chart-{panel.name}", panel.title, X_LABELS[axis], lines)


def _line(curve: Curve, runs: Sequence[RunRecord]) -> Line:
    label = curve.kind if len(runs) == 1 else f"{runs[curve.run].name}, {curve.kind}"
    colour = curve.run if len(runs) > 1 or curve.kind != "frequencies" else 7
    return Line(label, colour, _STYLES[curve.kind], curve.x.tolist(), curve.y.tolist())  # type: ignore[arg-type]


def _charts(runs: Sequence[RunRecord], panels: Sequence[Panel], axis: Axis) -> str:
    return "\n".join(['<div class="charts">', *(chart(panel, runs, axis) for panel in panels), "</div>"])


def _legend(runs: Sequence[RunRecord], panels: Sequence[Panel]) -> str:
    """What the styles of lines mean, as far as they occur, and whose a colour is."""
    kinds = dict.fromkeys(curve.kind for panel in panels for curve in panel.curves)
    words = {"training": "training", "held-out": "held-out text", "frequencies": "token frequencies, no context"}
    entries = [(run.name, number, "dots") for number, run in enumerate(runs)] if len(runs) > 1 else []
    entries += [(words[k], 7 if k == "frequencies" or len(runs) > 1 else 0, _STYLES[k]) for k in words if k in kinds]
    lines = (
        f'<li><svg viewBox="0 0 32 12" aria-hidden="true"><path class="c{colour} {style}" d="M0 6H32"/></svg>'
        f"{html.escape(label)}</li>"
        for label, colour, style in entries
    )
    return "\n".join(['<ul class="legend">', *lines, "</ul>"])


def _held_out(runs: Sequence[RunRecord]) -> list[str]:
    """Of one run its columns; of several the last column of each."""
    if len(runs) == 1:
        columns = runs[0].held_out
    else:
        columns = {run.name: list(run.held_out.values())[-1] for run in runs if run.held_out}
    names = [name for name in dict.fromkeys(n for column in columns.values() for n in column) if _is_metric(name)]
    if not names:
        return []
    rows = [[title_of(name), *(f"{c[name]:.4f}" if name in c else "" for c in columns.values())] for name in names]
    about = "Same held-out text and masks in each column of a run. Losses in nats."
    return [heading("Held-out metrics"), paragraph(about), html_table("Held-out metrics", ["", *columns], rows)]


def _is_metric(name: str) -> bool:
    return name != "runtime" and not name.endswith("_per_second")


def _samples(runs: Sequence[RunRecord]) -> list[str]:
    with_samples = [run for run in runs if run.samples]
    if not with_samples:
        return []
    parts = [
        heading("Samples"),
        paragraph(
            "Held-out text. Replaced tokens are underlined. The stronger a token's ground, the likelier the "
            "discriminator takes it for replaced; the number above it says so in percent."
        ),
    ]
    for run in with_samples:
        parts += [heading(run.name, 3)] if len(runs) > 1 else []
        parts += [to_html(sample) for sample in run.samples]
    return parts


def _options(runs: Sequence[RunRecord]) -> list[str]:
    """Every option of every run; of several runs those that differ first."""
    names = list(dict.fromkeys(name for run in runs for name in run.options))
    if not names:
        return []
    cells = {name: [_option(run.options.get(name)) for run in runs] for name in names}
    differing = [[name, *cells[name]] for name in names if len(set(cells[name])) > 1]
    header = ["", *(run.name for run in runs)]
    parts = [heading("Options")]
    if differing:
        parts.append(html_table("Options that differ", header, differing, numbers=False))
    table = html_table("Options", header, [[name, *cells[name]] for name in names], numbers=False)
    return [*parts, details("All options", table)]


def _not_finite(runs: Sequence[RunRecord], panels: Sequence[Panel]) -> list[str]:
    return [
        f"{runs[curve.run].name}: {curve.not_finite:,} values of {panel.title} ({curve.kind}) are no numbers"
        for panel in panels
        for curve in panel.curves
        if curve.not_finite
    ]


def _option(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)


def _cell(key: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if not is_number(value):
        return ""
    if key.endswith("_seconds"):
        return format_seconds(value)
    if key.endswith("flops") or key == "peak_flops_per_second":
        return f"{value:.3g}"
    if key == "mfu":
        return f"{100 * value:.1f} %"
    if key == "energy_joules":
        return f"{value / 3.6e6:.3g} kWh"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"
