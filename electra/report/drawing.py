"""Metrics in words and in pictures: their names and definitions, the panels of training logs as SVG and PNG. No torch.

matplotlib is imported inside the functions, because that takes a second. Without pyplot there is no window and no
global state.
"""

import io
import math
import statistics
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from electra.io.errors import UserError
from electra.report.runs import RunRecord

# ---- what metrics are called, and what they mean


METRIC_LABELS = {
    "generator_loss_mask_token": "generator loss at [MASK] (nats)",
    "masked_accuracy_mask_token": "generator accuracy at [MASK]",
    "generator_loss": "generator loss (nats)",
    "masked_accuracy": "generator accuracy",
    "sampled_accuracy": "generator accuracy of its samples",
    "generator_entropy": "generator entropy (nats)",
    "replaced_rate": "replaced tokens",
    "discriminator_loss": "discriminator loss (nats)",
    "discriminator_accuracy": "discriminator accuracy",
    "discriminator_precision": "discriminator precision",
    "discriminator_recall": "discriminator recall",
    "discriminator_f1": "discriminator F1",
    "discriminator_mcc": "discriminator MCC",
    "discriminator_auc": "discriminator AUC",
    "mlm_loss_mask_token": "MLM loss at [MASK] (nats)",
    "mlm_accuracy_mask_token": "MLM accuracy at [MASK]",
    "mlm_loss": "MLM loss (nats)",
    "mlm_accuracy": "MLM accuracy",
    "all_tokens_loss": "loss at all tokens (nats)",
    "all_tokens_accuracy": "accuracy at all tokens",
    "copy_gate_accuracy": "copy gate accuracy",
    "copy_gate_auc": "copy gate AUC",
    "pairs_accuracy": "minimal pairs",
    "probe_accuracy": "linear probe",
}
"""Labels of all metrics but the total loss, in the order of the table."""
METRIC_DEFINITIONS = {
    "generator_loss_mask_token": "Generator loss at [MASK]: mean of -log q(original token) at the masked positions; "
    "log of the vocabulary size if it knows nothing. Token frequencies are measured at the same positions.",
    "masked_accuracy_mask_token": "Generator accuracy at [MASK]: share of the masked positions where its most likely "
    "token is the original.",
    "generator_loss": "Generator loss: the same at all chosen positions. At most of them it sees [MASK], at a few the "
    "token itself, which it may copy: no comparison with token frequencies.",
    "masked_accuracy": "Generator accuracy: the same at all chosen positions.",
    "sampled_accuracy": "Accuracy of its samples: share of the chosen positions where a sample equals the original. "
    "Low values are normal; these positions count as original.",
    "replaced_rate": "Replaced tokens: share of all tokens that differ from the original.",
    "discriminator_loss": "Discriminator loss: mean binary cross-entropy. Compare it with the entropy of the share of "
    "replaced tokens, which the best guess without looking at the text reaches.",
    "discriminator_recall": "Precision and recall: share of the tokens judged replaced that are, and share of the "
    "replaced tokens that are found, at probability .5. A low recall is normal early in training.",
    "discriminator_auc": "Discriminator AUC: probability that a replaced token gets a higher score than an original "
    "one; .5 is chance. It depends on the generator, so it compares runs with the same generator only.",
    "mlm_accuracy": "MLM accuracy: share of the chosen positions where the most likely token is the original.",
    "all_tokens_accuracy": "Accuracy at all tokens: the same at every position, with the copy gate applied.",
    "pairs_accuracy": "Minimal pairs: share of the pairs of --eval_pairs whose acceptable sentence has the higher "
    "score; .5 is guessing. It does not depend on the generator.",
    "probe_accuracy": "Linear probe: cross-validated accuracy of a logistic regression on the mean of the last hidden "
    "states of the texts of --eval_classify. The network itself is not trained on them.",
}
"""Metric that a reader may not know -> one sentence or two about it."""


THEIR_METRICS: dict[str, dict[str, str]] = {
    "google": {
        "masked_accuracy": "masked_lm_accuracy",
        "generator_loss": "masked_lm_loss",
        "sampled_accuracy": "sampled_masked_lm_accuracy",
        "discriminator_loss": "disc_loss",
        "discriminator_auc": "disc_auc",
        "discriminator_accuracy": "disc_accuracy",
        "discriminator_precision": "disc_precision",
        "discriminator_recall": "disc_recall",
    },
    "rc2020": {
        "loss": "loss",
        "generator_loss": "generator_loss",
        "masked_accuracy_mask_token": "mlm_ACCURACY",
        "sampled_accuracy": "sampled_mlm_ACCURACY",
        "discriminator_loss": "discriminant_token_loss",
        "discriminator_accuracy": "is_fake_token_ACCURACY",
        "discriminator_precision": "is_fake_token_PRECISION",
        "discriminator_recall": "is_fake_token_RECALL",
        "discriminator_f1": "is_fake_token_F1",
        "discriminator_mcc": "is_fake_token_MCC",
        "discriminator_auc": "is_fake_token_AUC",
        "learning_rate": "learning_rate",
    },
}
"""Code base -> metric of its training plots -> the metric's name there. docs/glossary.md compares definitions."""


def their_value(names: str, metric: str, value: float, options: Mapping[str, Any]) -> float:
    """Return a metric's value as the code base `names` counts it.

    For rc2020_electra, the generator is right at all positions at which the original was kept.
    """
    if (names, metric) == ("rc2020", "masked_accuracy_mask_token"):
        masked = float(options.get("mlm_replacement_probability") or 0.85)
        return 1 - masked + masked * value
    return value


def metric_title(name: str, names: str = "") -> str:
    """Return the title of a metric that stands alone: ours, or that of the code base `names` in `THEIR_METRICS`."""
    if names:
        return THEIR_METRICS[names][name]
    return "total loss" if name == "loss" else METRIC_LABELS.get(name, name.replace("_", " "))


# ---- curves of training logs, a panel for each metric

# These are the panels of google-research/electra's training plots, in its order, with the generator's accuracy where
# the generator sees [MASK], and those of the ablations. Other metrics of the log are in wandb and TensorBoard.


MAIN = (
    *("loss", "generator_loss", "discriminator_loss", "mlm_loss", "all_tokens_loss"),
    *("masked_accuracy_mask_token", "sampled_accuracy", "mlm_accuracy_mask_token", "mlm_accuracy"),
    "all_tokens_accuracy",
    *("discriminator_accuracy", "discriminator_auc", "discriminator_precision", "discriminator_recall"),
    *(
        "copy_gate_accuracy",
        "copy_gate_auc",
        "pairs_accuracy",
        "probe_accuracy",
        "replaced_rate",
        "learning_rate",
        "tokens_per_second",
    ),
)
"""Metrics that have a panel, in order, without `eval_`."""
LEADING = (
    *("discriminator_auc", "masked_accuracy_mask_token", "pairs_accuracy", "probe_accuracy"),
    *("mlm_accuracy_mask_token", "mlm_accuracy", "all_tokens_accuracy", "copy_gate_auc"),
)
"""Metrics whose panels stand first on a page, because they show whether the networks learn."""


class Curve(NamedTuple):
    """A curve of a panel: the number of its run, its kind, and points with x ascending.

    The kind is `training`, `held-out`, `held-out: NAME` for another held-out text, or `frequencies` for a baseline
    with one value from the first to the last x.
    """

    run: int
    kind: str
    x: list[float]
    y: list[float]


def make_panels(runs: Sequence[RunRecord], names: str = "") -> dict[str, list[Curve]]:
    """Return the curves of each metric in logs, over the steps of one run or the tokens of several.

    Args:
        names: code base of `THEIR_METRICS`, for its metrics as it counts them; "" for the metrics of `MAIN`.
    """
    wanted = tuple(THEIR_METRICS[names]) if names else MAIN
    panels: dict[str, list[Curve]] = {name: [] for name in wanted}
    for number, run in enumerate(runs):
        scale = 1.0
        if len(runs) > 1:  # tokens of a step, at the mean of the run
            seen = [line for line in run.logs if line["step"] and "tokens_seen" in line]
            if not seen:
                raise UserError(f"the log of {run.folder} has no line of training yet; leave this run out")
            scale = seen[-1]["tokens_seen"] / seen[-1]["step"]
        baselines = run.held_out.get("frequencies", {})
        curves: dict[tuple[str, str], Curve] = {}
        for line in run.logs:
            for key, value in line.items():
                kind, name = _kind_and_name(key)
                if name in wanted and isinstance(value, int | float):
                    curve = curves.setdefault((kind, name), Curve(number, kind, [], []))
                    curve.x.append(line["step"] * scale)
                    curve.y.append(their_value(names, name, value, run.options))
        training_first = sorted(curves.items(), key=lambda item: item[1].kind != "training")
        for (kind, name), curve in training_first:
            panels[name].append(curve)
            if kind == "held-out" and name in baselines:
                ends = [0.0, run.step * scale]
                values = 2 * [their_value(names, name, baselines[name], run.options)]
                panels[name].append(Curve(number, "frequencies", ends, values))
    return {name: curves for name, curves in panels.items() if curves}


def _kind_and_name(key: str) -> tuple[str, str]:
    """Return kind of curve and metric of a key of the log: eval_new_mlm_loss -> "held-out: new", "mlm_loss"."""
    if not key.startswith("eval_"):
        return "training", key
    rest = key.removeprefix("eval_")
    for name in (*METRIC_LABELS, "loss"):
        if rest not in (*MAIN, *METRIC_LABELS) and rest.endswith(f"_{name}"):
            return f"held-out: {rest.removesuffix(f'_{name}')}", name
    return "held-out", rest


COLOURS = ("#0b62c4", "#c2410c", "#047857", "#a21caf", "#a16207", "#0e7490", "#be123c", "#4b5563")
"""Colours of curves, which remain distinguishable; further runs use them again."""
STYLES: dict[str, dict[str, Any]] = {
    "training": {"linewidth": 0.8, "alpha": 0.8},
    "held-out": {"linewidth": 1.5, "marker": "o", "markersize": 2},
    "frequencies": {"linewidth": 1.0, "linestyle": "--"},
    "point": {"linestyle": "none", "marker": "o", "markersize": 4, "alpha": 0.5, "color": COLOURS[0]},
    "median": {"linewidth": 1.5, "marker": "_", "markersize": 9, "color": COLOURS[1]},
    "seed": {"linestyle": "none", "marker": "o", "markersize": 5, "alpha": 0.6, "color": COLOURS[0]},
    "of seeds": {"linestyle": "none", "marker": "|", "markersize": 12, "markeredgewidth": 2, "color": COLOURS[1]},
}
"""Kind of a curve -> the style of its line in matplotlib."""
CURVE_LABELS = {"held-out": "held-out text", "frequencies": "token frequencies, no context"}
"""Kind of a curve -> its label in the legend, where that is not the kind."""
PANEL_COLUMNS = 4
"""Panels of a row of a figure: a page of usual width has room for so many."""
LONGEST_NAME = 32
"""Characters of a name beside a chart, at most."""
MOST_WITHOUT_LINE = 2
"""Points of a curve, at most, that are drawn without a line, which would suggest measurements in between."""
MOST_POINTS = 2000
"""Points of a curve from which it is part of the SVG as pixels, so that a page stays small."""
_SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "electra", "text.parse_math": False, "font.size": 8}
"""Settings of matplotlib: text stays text, the same numbers give the same bytes, and names of runs may contain $."""


def draw(panels: Mapping[str, Sequence[Curve]], runs: Sequence[RunRecord], names: str = "") -> Any:
    """Return a matplotlib figure of the panels in rows of up to four, with a legend of runs and kinds of curves.

    Curves of several runs, whose batches may differ, are over tokens without padding. `names` is as in `make_panels`.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    columns = max(1, min(PANEL_COLUMNS, len(panels)))
    rows = math.ceil(len(panels) / columns)
    lines: dict[str, Any] = {}
    with rc_context(_SETTINGS):
        width = 3.6 * max(2, columns)
        height = 2.5 * rows + 0.6
        figure = Figure(figsize=(width, height), dpi=110, layout="constrained")
        for position, (name, curves) in enumerate(panels.items(), start=1):
            axes = figure.add_subplot(rows, columns, position)
            axes.set_title(metric_title(name, names), fontsize=9)
            axes.grid(alpha=0.25)
            axes.margins(x=0.01)
            if position > len(panels) - columns:
                axes.set_xlabel("steps" if len(runs) == 1 else "tokens")
            for curve in curves:
                label = CURVE_LABELS.get(curve.kind, curve.kind)
                if len(runs) > 1:
                    label = f"{runs[curve.run].name}, {label}"
                known = [*lines, label]
                number = curve.run if len(runs) > 1 else known.index(label)
                style = STYLES[curve.kind.partition(":")[0]]
                if len(curve.x) <= MOST_WITHOUT_LINE and curve.kind != "frequencies":
                    style = {**style, "linestyle": "none", "marker": "o", "markersize": 5}
                colour = COLOURS[number % len(COLOURS)]
                (line,) = axes.plot(curve.x, curve.y, color=colour, label=label, **style)
                line.set_rasterized(len(curve.x) > MOST_POINTS)
                lines.setdefault(label, line)
            if name == "replaced_rate":  # it hardly changes: from 0, noise looks like noise
                axes.set_ylim(bottom=0)
        figure.legend(handles=lines.values(), loc="outside lower center", ncols=columns, frameon=False)
    return figure


def render(figure: Any, form: Literal["svg", "png"]) -> bytes:
    """Return a matplotlib figure as bytes of an SVG or PNG. A browser has the letters that matplotlib's font lacks."""
    from matplotlib import rc_context

    content = io.BytesIO()
    metadata = {"Date": None} if form == "svg" else None
    with rc_context(_SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .*missing")
        figure.savefig(content, format=form, metadata=metadata)
    return content.getvalue()


class Scatter(NamedTuple):
    """A panel of scores over the values of one option: each point, and medians of the points with the same value.

    Values that are no numbers stand next to each other.
    """

    option: str
    score: str
    points: Sequence[tuple[Any, float]]
    medians: Sequence[tuple[Any, float]] = ()
    is_logarithmic: bool = False


def draw_scatters(scatters: Sequence[Scatter]) -> Any:
    """Return a matplotlib figure with a panel for each option, in rows of up to four."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    columns = min(PANEL_COLUMNS, len(scatters))
    rows = math.ceil(len(scatters) / columns)
    with rc_context(_SETTINGS):
        figure = Figure(figsize=(3.6 * max(2, columns), 2.8 * rows + 0.4), dpi=110, layout="constrained")
        for position, one in enumerate(scatters, start=1):
            axes = figure.add_subplot(rows, columns, position)
            axes.set(xlabel=one.option, ylabel=one.score)
            axes.grid(alpha=0.25)
            values = [value for value, _ in one.points]
            are_numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
            # In the order of the medians, which are sorted.
            names = list(dict.fromkeys(str(value) for value, _ in (*one.medians, *one.points)))
            for kind, pairs in (("point", one.points), ("median", one.medians)):
                x = [value if are_numbers else names.index(str(value)) for value, _ in pairs]
                has_line = are_numbers and len(pairs) > MOST_WITHOUT_LINE
                style = STYLES[kind] if has_line else {**STYLES[kind], "linestyle": "none"}
                axes.plot(x, [score for _, score in pairs], label=kind, **style)
            if not are_numbers:
                is_long = max(map(len, names)) > 8
                turned: dict[str, Any] = {"rotation": 20, "ha": "right"} if is_long else {}
                axes.set_xticks(range(len(names)), [name[-24:] for name in names], **turned)
            elif one.is_logarithmic or (min(values) > 0 and max(values) >= 20 * min(values)):
                axes.set_xscale("log")
                axes.xaxis.set_major_formatter("{x:g}")
                axes.xaxis.set_minor_formatter("")
        handles = axes.get_legend_handles_labels()[0] if one.medians else []
        if handles:
            figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
    return figure


class ScoreRows(NamedTuple):
    """A chart's scores of a task in percent: the scores of each run's seeds, and one score of each baseline."""

    title: str
    runs: Mapping[str, Sequence[float]]
    baselines: Mapping[str, float]


def draw_scores(charts: Sequence[ScoreRows]) -> Any:
    """Return a matplotlib figure with a panel for each task: a row per run, a dashed line per baseline."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    columns = min(PANEL_COLUMNS, len(charts))
    rows = math.ceil(len(charts) / columns)
    most = max(len(chart.runs) for chart in charts)
    lines: dict[str, Any] = {}
    with rc_context(_SETTINGS):
        width = 5.4 if columns == 1 else 3.6 * columns
        figure = Figure(figsize=(width, rows * (0.9 + 0.25 * most) + 0.5), dpi=110, layout="constrained")
        for position, chart in enumerate(charts, start=1):
            axes = figure.add_subplot(rows, columns, position)
            axes.set_title(f"{chart.title}, percent", fontsize=9)
            axes.grid(alpha=0.25)
            for place, scores in enumerate(chart.runs.values()):
                (points,) = axes.plot(scores, [place] * len(scores), label="seed", **STYLES["seed"])
                (middle,) = axes.plot([statistics.median(scores)], [place], label="median", **STYLES["of seeds"])
                lines |= {"seed": points, "median of seeds": middle}
            for number, (name, score) in enumerate(chart.baselines.items(), start=2):
                colour = COLOURS[number % len(COLOURS)]
                lines.setdefault(name, axes.axvline(score, color=colour, linestyle="--", linewidth=1.2))
            axes.set_yticks(range(len(chart.runs)), [shortened(name) for name in chart.runs])
            axes.set_ylim(len(chart.runs) - 0.5, -0.5)
            axes.margins(x=0.08)
        figure.legend(
            lines.values(),
            map(shortened, lines),
            loc="outside lower center",
            ncols=4 if columns > 1 else 2,
            frameon=False,
        )
    return figure


def shortened(name: str) -> str:
    """Return a name that fits beside a chart: beginning and end of a long one."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME // 3]}…{name[1 - LONGEST_NAME * 2 // 3 :]}"


class Measured(NamedTuple):
    """A score in percent with its standard error, None if there is none."""

    score: float
    error: float | None


def draw_groups(groups: Sequence[tuple[str, Mapping[str, Measured]]], baselines: Collection[str], metric: str) -> Any:
    """Return a matplotlib figure with a row for each group, in which each score is a point with its error.

    Args:
        groups: name of each group, and name of a score -> its value.
        baselines: names of scores that need no network, which are squares.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(name for _, scores in groups for name in scores))
    with rc_context(_SETTINGS):
        figure = Figure(figsize=(5.4, 1.0 + 0.13 * len(groups) * (1 + len(names))), dpi=160, layout="constrained")
        axes = figure.subplots()
        axes.set_title(f"{metric} ± standard error", fontsize=9)
        axes.grid(alpha=0.25)
        for number, name in enumerate(names):
            beside = 0.8 * ((number + 0.5) / len(names) - 0.5)
            known = [(place + beside, scores[name]) for place, (_, scores) in enumerate(groups) if name in scores]
            axes.errorbar(
                [one.score for _, one in known],
                [place for place, _ in known],
                xerr=[one.error or 0.0 for _, one in known],
                color=COLOURS[number % len(COLOURS)],
                linestyle="none",
                marker="s" if name in baselines else "o",
                markersize=4,
                label=shortened(name),
            )
        axes.set_yticks(range(len(groups)), [shortened(name) for name, _ in groups])
        axes.set_ylim(len(groups) - 0.5, -0.5)
        figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure
