"""Summaries -> the words of single cells, alike in the report and on the terminal. No torch."""

from dataclasses import dataclass

from electra.finetuning.protocol.aggregate import RunSummary, Spread, TaskSummary


@dataclass(frozen=True)
class Column:
    """One score of the overview: a task's headline, or one metric of it."""

    title: str
    task: str
    metric: str | None = None

    def cell(self, run: RunSummary, *, with_std: bool = True) -> str:
        summary = run.tasks.get(self.task)
        spread = summary and (summary.metrics.get(self.metric) if self.metric else summary.headline)
        return score_cell(spread, summary, with_std=with_std) if spread and summary else ""


def score_cell(spread: Spread, summary: TaskSummary, *, with_std: bool = True) -> str:
    """`53.5 ± 1.2 (1 of 3 collapsed)`."""
    std = f" ± {percent(spread.std)}" if with_std and spread.std is not None else ""
    counts = ((summary.collapsed, "collapsed"), (spread.undefined, "undefined"))
    flags = ", ".join(f"{count} of {len(spread.values)} {what}" for count, what in counts if count)
    return f"{percent(spread.median)}{std}" + (f" ({flags})" if flags else "")


def seeds_cell(run: RunSummary) -> str:
    """How many seeds a task has, or from how few to how many."""
    counts = [len(summary.results) for summary in run.tasks.values()]
    return str(min(counts)) if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"


def percent(fraction: float | None, digits: int = 1) -> str:
    """A fraction as percent; a dash if it is undefined."""
    return "–" if fraction is None else f"{round(100 * fraction, digits) + 0.0:.{digits}f}"
