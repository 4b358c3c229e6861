"""Medians over seeds, what points are ranked by, and the picture: every dot where its value is."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from electra.sweep.folder import Failure, PointResult
from electra.sweep.runner import glue_metrics
from electra.sweep.summary import Summary
from electra.tasks.glue.tasks import AVG_TASKS
from tests.sweep.standin import sweep_of
from tests.tasks.glue.runs import all_tasks, run_folder
from tests.tasks.glue.runs import result as result_of

AUC = "eval/discriminator_auc"
SIZES: dict[str, Any] = {
    "generator_size": {"values": [0.25, 0.5, 1.0]},
    "seed": {"values": [1, 2, 3]},
    "max_steps": {"value": 5},
}


def result(number: int, metrics: dict[str, float | None], by_seed: Any = None, **values: Any) -> PointResult:
    return PointResult(number, f"{number:03d}", {"max_steps": 5, **values}, metrics, by_seed or {}, 1.0)


def study() -> list[PointResult]:
    """Of 0.25 three seeds, of 0.5 two, one of them undefined, of 1.0 one."""
    aucs = {(0.25, 1): 0.5, (0.25, 2): 0.9, (0.25, 3): 0.6, (0.5, 1): 0.7, (0.5, 2): None, (1.0, 1): 0.65}
    return [
        result(number, {AUC: auc, "median/cola": 0.1 * number}, generator_size=size, seed=seed)
        for number, ((size, seed), auc) in enumerate(aucs.items(), start=1)
    ]


def test_the_table_has_median_and_range_over_seeds_and_never_hides_an_undefined_one(tmp_path: Path) -> None:
    summary = Summary(sweep_of(tmp_path, parameters=SIZES), study()[::-1])
    header, rows = summary.table()
    assert header == ["generator_size", "points", AUC, "range", "median/cola", "range"]
    assert rows == [
        ["0.25", "3", "0.6000", "0.5000 to 0.9000", "0.2000", "0.1000 to 0.3000"],
        ["0.5", "2", "undefined", "", "0.4500", "0.4000 to 0.5000"],
        ["1", "1", "0.6500", "", "0.6000", ""],
    ]
    assert summary.best() == f"Best: generator_size 1, {AUC} 0.6500."


def test_the_best_of_a_random_search_stands_first_by_its_goal(tmp_path: Path) -> None:
    parameters = {"learning_rate": {"min": 0.0, "max": 1.0}}
    points = [result(n, {AUC: auc}, learning_rate=0.1 * n) for n, auc in enumerate((0.5, None, 0.9, 0.7), start=1)]
    for goal, expected in (("maximize", [3, 4, 1, 2]), ("minimize", [1, 4, 3, 2])):
        metric = {"name": AUC, "goal": goal}
        sweep = sweep_of(tmp_path, method="random", metric=metric, parameters=parameters)
        assert [group.points[0].number for group in Summary(sweep, points).groups] == expected


@pytest.mark.parametrize(("method", "expected"), [("grid", [1, 2, 3]), ("random", [2, 3, 1])])
def test_points_of_different_corruption_are_ranked_by_glue_or_not_at_all(
    tmp_path: Path, method: str, expected: list[int]
) -> None:
    parameters = {"temperature": {"values": [0.5, 1.0, 2.0]}, "max_steps": {"value": 5}}
    sweep = sweep_of(tmp_path, method=method, metric={"name": AUC, "goal": "minimize"}, parameters=parameters)
    sweep = replace(sweep, differing=("temperature",))
    aucs = [result(n, {AUC: 0.1 * n}, temperature=t) for n, t in enumerate((0.5, 1.0, 2.0), start=1)]
    summary = Summary(sweep, aucs)
    assert [group.points[0].number for group in summary.groups] == [1, 2, 3]
    assert summary.best().startswith("Not ranked: ") and "temperature" in summary.best()
    assert f"{AUC} (not comparable)" in summary.markdown("x", [], "results.svg").replace("\\", "")
    scores = [{"median/cola": cola, "median/rte": 0.5} for cola in (0.2, 0.4, 0.3)]
    summary = Summary(sweep, [p._replace(metrics=p.metrics | glue) for p, glue in zip(aucs, scores, strict=True)])
    assert [group.points[0].number for group in summary.groups] == expected
    assert summary.best().startswith("Best: temperature 1, mean of median/cola, median/rte 0.4500. ")
    joined = [plot.lines[-1].get_linestyle() == "-" for plot in summary.figure().axes]
    assert joined == [False, method == "grid", method == "grid"]


def test_a_point_of_several_fine_tunings_has_their_spread_and_an_average_only_of_all_tasks(tmp_path: Path) -> None:
    scores = [result_of("rte", seed, {"accuracy": value}) for seed, value in ((42, 0.5), (43, 0.9), (44, 0.6))]
    metrics, by_seed = glue_metrics(run_folder(tmp_path / "rte", scores))
    assert metrics == {"median/rte": 0.6} and by_seed == {"median/rte": {"42": 0.5, "43": 0.9, "44": 0.6}}
    metric = {"name": "median/rte", "goal": "maximize"}
    sweep = sweep_of(tmp_path, metric=metric, parameters={"learning_rate": {"values": [1e-4, 1e-3]}})
    summary = Summary(sweep, [result(1, metrics, by_seed, learning_rate=1e-4)])
    assert summary.table()[1][0] == ["0.0001", "1", "0.6000", "0.5000 to 0.9000"]
    metrics, _ = glue_metrics(run_folder(tmp_path / "all", all_tasks(*AVG_TASKS)))
    # 0.51 to 0.58; MNLI counts with its mean of both sets, 0.02 more
    assert metrics["AVG"] == pytest.approx(0.545 + 0.02 * ("mnli" in AVG_TASKS) / 8)


def test_the_page_has_the_table_and_failures_with_their_last_lines(tmp_path: Path) -> None:
    failure = Failure(9, "009-x", {}, "run_pretraining.py", 2, "logs/009.log", ["first", "error: no"])
    page = Summary(sweep_of(tmp_path, parameters=SIZES), study()).markdown("sweep_x", [failure], "results.svg")
    assert "| 0.25 | 3 | 0.6000 |" in page and "![eval/discriminator_auc](results.svg)" in page
    assert "## 009-x failed\n\nrun_pretraining.py, exit code 2, logs/009.log\n\n```\nfirst\nerror: no\n```" in page
    assert "`max_steps=5`" in page and f"to maximize `{AUC}`" in page


def dots(plot: Any) -> set[tuple[Any, float]]:
    drawn = [line for line in plot.lines if line.get_marker() == "o"]
    return {(x, y) for line in drawn for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)}


def test_every_dot_of_the_picture_stands_at_its_value(tmp_path: Path) -> None:
    plots = Summary(sweep_of(tmp_path, parameters=SIZES), study()).figure().axes
    assert [plot.get_title() for plot in plots] == [AUC, "median/cola"]
    expected = {(p.values["generator_size"], p.metrics[AUC]) for p in study() if p.metrics[AUC] is not None}
    assert dots(plots[0]) == expected
    assert list(plots[0].lines[-1].get_xdata()) == [0.25, 1.0]  # 0.5 has no median
    assert list(plots[0].lines[-1].get_ydata()) == [0.6, 0.65]


def test_two_parameters_have_a_panel_each_and_rates_are_logarithmic(tmp_path: Path) -> None:
    rate = {"distribution": "log_uniform_values", "min": 1e-4, "max": 1e-1}
    parameters = {"learning_rate": rate, "objective": {"values": ["mlm", "electra"]}}
    points = [
        result(1, {AUC: 0.4}, learning_rate=1e-3, objective="electra"),
        result(2, {AUC: 0.5}, learning_rate=1e-2, objective="mlm"),
    ]
    rates, names = Summary(sweep_of(tmp_path, method="random", parameters=parameters), points).figure().axes
    assert (rates.get_xlabel(), rates.get_xscale()) == ("learning_rate", "log")
    assert dots(rates) == {(1e-3, 0.4), (1e-2, 0.5)} and dots(names) == {("electra", 0.4), ("mlm", 0.5)}
