"""Published scores and costs, beside which reports put those of runs: the content of published.yaml. No torch."""

import statistics
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from typing_extensions import TypedDict

from electra.base.files import read_yaml

PUBLISHED_FILE = Path(__file__).with_name("published.yaml")
"""File with all published rows, by kind of task, and the costs."""


class PublishedCosts(TypedDict):
    """The published costs of pre-training as a table: the titles of columns, the cells of rows, and notes below."""

    columns: list[str]
    rows: list[list[str]]
    notes: list[str]


class PublishedScores(NamedTuple):
    """A row of a published table, in percent with one decimal, as the source prints it.

    Args:
        scores: task -> metric -> percent; empty if the source reports an average alone.
        protocol: how the scores were made, in words, such as `median of 5; MNLI mean`.
        source, table: URL of the source, and the table within the source.
        split: "dev", or "test" where the labels are not public.
        printed_average: mean of the tasks in percent, as the source prints it; needed without `scores`.
        notes: corrections and inconsistencies of the source.
    """

    name: str
    scores: Mapping[str, Mapping[str, float]]
    protocol: str
    source: str
    table: str
    split: str = "dev"
    printed_average: float | None = None
    notes: Sequence[str] = ()

    @property
    def average(self) -> float:
        """Return the mean of the row's scores; the printed one if the row has none."""
        values = [score for by_metric in self.scores.values() for score in by_metric.values()]
        return statistics.fmean(values) if values else self.printed_average or 0.0


@cache
def _published() -> Any:
    """Return the content of published.yaml, which is read once in a process."""
    return read_yaml(PUBLISHED_FILE.read_text(encoding="utf-8"))


def published_scores(kind: str) -> list[PublishedScores]:
    """Return the published rows of a kind of task in the order of the file; [] if there are none."""
    table = _published().get(kind, {"rows": []})
    published = []
    for row in table["rows"]:
        scores: dict[str, dict[str, float]] = {}
        for column, score in zip(table["columns"], row.get("scores", ()), strict=False):
            task, metric = column.split()
            if score is not None:
                scores.setdefault(task, {})[metric] = score
        published.append(PublishedScores(**{**row, "scores": scores}))
    return published


def published_costs() -> PublishedCosts:
    """Return the published costs of pre-training."""
    costs: PublishedCosts = _published()["costs"]
    return costs
