"""The page of pre-training runs: report.html and training_curves.png. No torch."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from electra.base.console import format_seconds
from electra.base.files import write_file
from electra.core.errors import UserError
from electra.core.flops import pfs_days
from electra.core.objectives import OBJECTIVES
from electra.report.about import folded_commands, shown_name
from electra.report.blocks import (
    Block,
    Blocks,
    BulletList,
    Figure,
    Fold,
    Heading,
    Table,
    Text,
    Verdict,
    to_html,
    without_folders,
)
from electra.report.drawing import Curve, draw_curves, render
from electra.report.evaluation import percent
from electra.report.metrics import LEADING_PANELS, PRETRAINING_METRICS, make_panels, metric_title
from electra.report.published import published_costs
from electra.report.runs import HAS_LEARNED, RunRecord, names_of, next_step, read_run

logger = logging.getLogger(__name__)


ABOUT_HELD_OUT = (
    "All columns of a run, but for a test set, use the same held-out text and masks. 'frequencies' is a baseline that "
    "knows how frequent each token is, and no context; it has no value where a network may copy what it sees."
)
"""Sentence above the table of held-out metrics."""
ABOUT_SAMPLES = (
    "Beginnings of held-out segments. Underlined: a token that a generator, or a language model, has put in the place "
    "of the one that is struck out. On a background: a token that the discriminator takes for replaced, or that a "
    "language model had to guess."
)
"""Sentences above the samples."""
ABOUT_SEGMENTS = (
    "A segment is usually split into two parts at a random place, A [SEP] B [SEP], because tasks on pairs of texts "
    "need trained type embeddings; so [SEP] may stand inside a sentence."
)
"""Sentence above the whole segments of the samples."""
TOKENS_OF_SAMPLE = 32
"""Tokens of a sample that a page shows unfolded: about a sentence, in which some five tokens were chosen."""
COUNTS = {"documents": "documents", "corpus_tokens": "tokens"}
"""Name of a number in the plan that the first line of a page has -> its unit."""
STARTED = (
    "Started: the discriminator has started to learn once its AUC is at least .05 above that of token frequencies and "
    "at least .6, and its loss is below that of the base rate, which is the loss of a guess that knows only the share "
    "of replaced tokens."
)
"""Definition behind those of the metrics, where a verdict speaks of the discriminator."""
ABOUT_FLOPS = (
    "6 N T and attention: six operations for each of the N parameters at each of the T tokens, and those of the "
    "attention. The original's count is that of google-research/electra, with which the paper's FLOPs are comparable."
)
"""Sentence below the table of plan and cost."""
RUN_SIZES = {
    "objective": "objective",
    "documents": "documents",
    "corpus_tokens": "tokens of the corpus",
    "held_out_documents": "held-out documents",
    "held_out_tokens": "held-out tokens",
    "discriminator_shape": "main network",
    "discriminator_parameters": "parameters of the main network",
    "generator_shape": "generator",
    "generator_parameters": "parameters of the generator",
    "total_parameters": "parameters of both",
    "steps": "steps",
    "batch_size": "segments in a batch",
    "max_length": "tokens in a segment",
    "total_tokens": "tokens, with padding",
    "epochs": "epochs",
    "flops": "training, by 6 N T and attention",
    "google_flops": "training, by the original's count",
    "tokens": "tokens seen, without padding",
    "training_seconds": "training steps alone",
    "tokens_per_second": "tokens per second",
    "device": "device",
    "devices": "devices",
    "dtype": "matrix products in",
    "peak_flops_per_second": "peak measured, each device",
}
"""Name of a value in the plan or in the cost of a run -> its title."""


def report_blocks(
    runs: Sequence[RunRecord],
    panels: Mapping[str, Sequence[Curve]],
    more: Sequence[Block] = (),
    code_base: str = "",
) -> Blocks:
    """Return the blocks of the page about runs.

    Args:
        panels: the curves of each metric, see `make_panels`; empty for a log without metrics.
        more: blocks of a further section, such as GLUE results.
        code_base: code base of `CODE_BASE_METRICS` whose metrics the curves show; "" for those of the run's log.
    """
    blocks: Blocks = [Text(f"{run.name}: {about_run(run.metrics or {}, run.step)}") for run in runs]
    for run in runs:
        verdict = run.metrics.get("verdict") if run.metrics else None
        if verdict:
            text = verdict if len(runs) == 1 else f"{run.name}: {verdict}"
            blocks.append(Verdict(text, is_good=HAS_LEARNED in verdict))
        verdict_of_generator = run.metrics.get("generator_verdict") if run.metrics else None
        if verdict_of_generator:
            text = verdict_of_generator["text"] if len(runs) == 1 else f"{run.name}: {verdict_of_generator['text']}"
            blocks.append(Verdict(text, verdict_of_generator["is_good"]))
    blocks.append(BulletList([note for run in runs for note in run.notes]))
    if panels:
        blocks += [Heading("Curves"), *_curves(panels, runs, code_base)]
    blocks += _held_out(runs)
    blocks += more
    blocks += _sizes(runs)
    blocks += _samples(runs)
    blocks += _options(runs)
    if len(runs) == 1 and runs[0].metrics:
        verdict = runs[0].metrics.get("verdict", HAS_LEARNED)
        step = next_step(str(runs[0].folder), has_learned=HAS_LEARNED in verdict)
        blocks.append(Text(without_folders(step)))
    return blocks


def _curves(panels: Mapping[str, Sequence[Curve]], runs: Sequence[RunRecord], code_base: str) -> Blocks:
    """Return a figure of `LEADING_PANELS`, and one of the others, which is folded; of a code base, one of all."""
    leading = dict(panels)
    if not code_base:  # accuracy at [MASK] stands for that at all chosen positions
        shown_first = [name for name in LEADING_PANELS if name in panels and f"{name}_mask_token" not in panels]
        leading = {name: panels[name] for name in shown_first}
    others = {name: curves for name, curves in panels.items() if name not in leading}
    figures = []
    for shown in filter(None, (leading, others)):
        titled = {metric_title(name, code_base): curves for name, curves in shown.items()}
        figure = draw_curves(titled, [run.name for run in runs])
        figures.append(Figure(render(figure, "svg"), f"Curves of {', '.join(titled)}", is_wide=len(shown) > 2))
    if not leading or not others:
        return [*figures]
    return [figures[0], Fold(f"{len(others)} more: losses, accuracies, speed", figures[1:])]


# ---- tables


def about_run(metrics: Mapping[str, Any], step: int) -> str:
    """Return what a run was trained on, for how long and when, in words.

    Args:
        metrics: content of metrics.json; {} before the run ends.
        step: number of steps so far.
    """
    plan = metrics.get("plan", {})
    sources = [shown_name(source["name"]) for source in plan.get("sources", [])]
    texts = [f"{plan[key]:,} {word}" for key, word in COUNTS.items() if key in plan]
    steps = f"{step:,} steps"
    if plan.get("batch_size"):
        steps += f" of {plan['batch_size']} x {plan['max_length']} tokens"
    return ", ".join(filter(None, [*sources, *texts, steps, metrics.get("date", "")]))


def _held_out(runs: Sequence[RunRecord]) -> Blocks:
    """Return the table of held-out metrics: all columns of one run, or the last column of each of several runs."""
    columns = runs[0].held_out
    if len(runs) > 1:
        columns = {run.name: list(run.held_out.values())[-1] for run in runs if run.held_out}
    elif runs[0].test:
        columns = {**columns, "test set": runs[0].test}
    measured = {name for column in columns.values() for name in column}
    metrics = [metric for name, metric in PRETRAINING_METRICS.items() if name in measured]
    if not metrics:
        return []
    rows = []
    for metric in metrics:
        cells = [_value(metric.name, column.get(metric.name)) for column in columns.values()]
        rows.append([metric.title, *cells])
    objectives = {str(run.plan.get("objective")): None for run in runs}  # a dictionary keeps the order
    definitions = [
        f"{name}, loss of the {OBJECTIVES[name].main_network}: {OBJECTIVES[name].meaning}"
        for name in objectives
        if name in OBJECTIVES
    ]
    definitions += [metric.definition for metric in metrics if metric.definition]
    if any(run.metrics and run.metrics.get("verdict") for run in runs):
        definitions.append(STARTED)
    about = Text(ABOUT_HELD_OUT)
    table = Table(["", *columns], rows)
    return [Heading("Held-out metrics"), about, table, Fold("What the metrics mean", [BulletList(definitions)])]


def _value(metric: str, value: float | None) -> str:
    """Return a metric's value as text for a table: losses, areas and correlations as numbers, shares in percent."""
    if value is None:
        return ""
    return f"{percent(value)} %" if PRETRAINING_METRICS[metric].error == "share" else f"{value:.3f}"


def _sizes(runs: Sequence[RunRecord]) -> Blocks:
    """Return the table of plan and cost, with a column per run."""
    facts = [{**run.plan, **run.compute} for run in runs]
    rows = []
    for key, label in RUN_SIZES.items():
        cells = [_cell(key, values.get(key)) for values in facts]
        if any(cells):
            rows.append([label, *cells])
    header = ["", *(run.name for run in runs)]
    if not rows:
        return []
    about = [Text(ABOUT_FLOPS)] if any("flops" in values for values in facts) else []
    return [Fold("Plan and cost", [Table(header, rows), *about])]


def _samples(runs: Sequence[RunRecord]) -> Blocks:
    """Return the beginnings of the samples of all runs, and under a fold whole segments."""
    blocks: Blocks = []
    for run in runs:
        if run.samples and len(runs) > 1:
            blocks.append(Heading(run.name, 3))
        blocks += [sample.part(1, 1 + TOKENS_OF_SAMPLE) for sample in run.samples]  # without [CLS]
        if run.samples:
            blocks.append(Fold("Whole segments", [Text(ABOUT_SEGMENTS), *run.samples]))
    return [Heading("Samples"), Text(ABOUT_SAMPLES), *blocks] if blocks else []


def _options(runs: Sequence[RunRecord]) -> Blocks:
    """Return the table of options: all of one run, or those in which several runs differ."""
    rows = []
    for name in dict.fromkeys(name for run in runs for name in run.options):
        values = [without_folders(str(run.options.get(name, ""))) for run in runs]
        if len(runs) == 1 or len(set(values)) > 1:
            rows.append([name, *values])
    header = ["", *(run.name for run in runs)]
    if len(runs) > 1:
        return [Heading("Options that differ"), Table(header, rows)]
    return [Fold("All options", [Table(header, rows)]), *folded_commands("-m electra pretrain", [runs[0].options])]


def _cell(key: str, value: Any) -> str:
    if not isinstance(value, int | float):
        return str(value or "")
    if key.endswith("_seconds"):
        return format_seconds(value)
    if "flops" in key:
        return f"{value:.3g} FLOP{'/s' * key.endswith('_per_second')}"
    return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"


# ---- files

REPORT_NAMES = ("report.html", "training_curves.png")
"""Files of the report in the folder of a run."""


def write_run_report(
    folders: Sequence[Path],
    output: Path | None = None,
    more: Sequence[Block] = (),
    code_base: str = "",
) -> list[Path]:
    """Write report.html and training_curves.png of runs, finished or not, and return the paths of both files.

    Args:
        output: folder of the files; None for the folder of the run, or of the first run.
        more: see `report_blocks`.
        code_base: code base of `CODE_BASE_METRICS` whose metrics the curves show; the names of the files then end
            with its name, as in `report_rc2020.html`. "" for the metrics of the log.
    Raises:
        UserError: a folder is no run, or the first one has no metric of the code base.
    """
    runs = [read_run(folder, name) for folder, name in names_of(folders).items()]
    folder = output or runs[0].folder
    ending = f"_{code_base}" if code_base else ""
    page_file = folder / f"report{ending}.html"
    picture_file = folder / f"training_curves{ending}.png"
    folder.mkdir(parents=True, exist_ok=True)
    title = f"Pre-training: {', '.join(run.name for run in runs)}"
    panels = make_panels(runs, code_base)
    if code_base and not panels:
        raise UserError(f"{runs[0].folder} has no metric of {code_base}; leave --names out")
    page = to_html(title, report_blocks(runs, panels, more, code_base))
    write_file(page.encode(errors="backslashreplace"), page_file)
    titled = {metric_title(name, code_base): curves for name, curves in panels.items()}
    curves = draw_curves(titled, [run.name for run in runs])
    curves.set_layout_engine("none")  # the panels have their places, which take half of the time
    write_file(render(curves, "png"), picture_file)
    return [page_file, picture_file]


def try_to_report(folder: Path) -> list[Path]:
    """Write the report at the end of a run, and return the paths; if it fails, warn, and return [].

    The run has not failed, since its networks are saved.
    """
    try:
        files = write_run_report([folder])
    except Exception as error:
        logger.warning("the report of %s could not be written: %s", folder, error)
        return []
    logger.info("report         %s", files[0])
    return files


# ---- the cost of a GLUE score beside published systems

# The table is that of efficiency in rc2020_electra's README. A cost in pfs-days is devices x days x peak rate x .33,
# and is divided by the score as a fraction: .155 pfs-days for 77.0 are .202. Another column has the pfs-days of the
# counted FLOPs.


PEAK_UTILIZATION = 0.33
"""Share of the peak rate that devices reach, by the rule of OpenAI's "AI and Compute" (2018, appendix)."""


def efficiency_section(run: RunRecord, averages: Mapping[str, float | None]) -> Blocks:
    """Return the table of costs, the run's row above published ones; [] if the run has not recorded its cost.

    Args:
        averages: averages `AVG` and `GLUE` as fractions, None if a task is missing.
    """
    compute = run.compute
    needed = {"training_seconds", "peak_flops_per_second", "devices", "device", "google_flops"}
    if not needed <= compute.keys() or "discriminator_parameters" not in run.plan:
        return []
    seconds = compute["training_seconds"]
    devices = compute["devices"]
    cost = pfs_days(devices * seconds * compute["peak_flops_per_second"] * PEAK_UTILIZATION)
    scores = [averages["AVG"], averages["GLUE"]]
    row = [
        run.name,
        f"{run.plan['discriminator_parameters'] / 1e6:.3g} M",
        f"{format_seconds(seconds)} on {devices} x {compute['device']}",
        _number(cost),
        _number(pfs_days(compute["google_flops"])),
        *(percent(score, empty="") for score in scores),
        *("" if not score else _number(cost / score) for score in scores),
    ]
    published = published_costs()
    table = Table(published["columns"], [row, *published["rows"]])
    return [Heading("Cost of the score"), table, BulletList(published["notes"])]


def _number(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else f"{value:.1e}"
