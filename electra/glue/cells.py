"""Which scores of GLUE are columns of a table. No torch."""

from collections.abc import Sequence

from electra.finetuning.protocol.aggregate import RunSummary
from electra.finetuning.protocol.cells import Column
from electra.glue.tasks import AVG_TASKS, GLUE_TASKS, TASKS

MNLI_HALVES = ("accuracy_matched", "accuracy_mismatched")
"""Metrics of MNLI's two development sets."""


def columns_of(runs: Sequence[RunSummary], *, demo: bool = False) -> list[Column]:
    """Of the tasks of `AVG`, MNLI twice, and of others that a run has; none if no run has a task of GLUE."""
    have = {task for run in runs for task in run.tasks}
    glue = [task for task in GLUE_TASKS if task in have or task in AVG_TASKS] if have & set(GLUE_TASKS) else []
    columns = []
    for name in [*glue, *(["demo"] if demo and "demo" in have else [])]:
        task = TASKS[name]
        if name == "mnli":
            columns += [Column("MNLI m", name, MNLI_HALVES[0]), Column("MNLI mm", name, MNLI_HALVES[1])]
        else:
            columns.append(Column(f"{task.title} {task.headline_title}".removesuffix(" acc"), name))
    return columns


def titles(tasks: Sequence[str]) -> str:
    return ", ".join(TASKS[name].title for name in tasks)
