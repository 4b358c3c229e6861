"""Medians over seeds, and the picture of them: every dot where its value is."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from electra.report.charts import log_ticks, scatter_file
from electra.sweep.folder import Failure, PointResult
from electra.sweep.runner import glue_metrics
from electra.sweep.summary import as_markdown, best_line, group_points, make_plots, make_table, shown_metrics
from electra.tasks.glue.tasks import AVG_TASKS
from tests.sweep.standin import sweep_of
from tests.tasks.glue.runs import all_tasks, run_folder
from tests.tasks.glue.runs import result as result_of

SVG = "{http://www.w3.org/2000/svg}"
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
    sweep = sweep_of(tmp_path, parameters=SIZES)
    groups = group_points(sweep, study()[::-1])
    metrics = shown_metrics(sweep, study())
    assert metrics == [AUC, "median/cola"]
    assert make_table(sweep, groups, metrics) == [
        ["generator_size", "points", AUC, "range", "median/cola", "range"],
        ["0.25", "3", "0.6000", "0.5000 to 0.9000", "0.2000", "0.1000 to 0.3000"],
        ["0.5", "2", "undefined", "", "0.4500", "0.4000 to 0.5000"],
        ["1", "1", "0.6500", "", "0.6000", ""],
    ]
    assert best_line(sweep, groups) == f"Best: generator_size 1, {AUC} 0.6500."


def test_the_best_of_a_random_search_stands_first_by_its_goal(tmp_path: Path) -> None:
    parameters = {"learning_rate": {"min": 0.0, "max": 1.0}}
    points = [result(n, {AUC: auc}, learning_rate=0.1 * n) for n, auc in enumerate((0.5, None, 0.9, 0.7), start=1)]
    for goal, expected in (("maximize", [3, 4, 1, 2]), ("minimize", [1, 4, 3, 2])):
        metric = {"name": AUC, "goal": goal}
        sweep = sweep_of(tmp_path, method="random", metric=metric, parameters=parameters)
        assert [group.points[0].number for group in group_points(sweep, points)] == expected


def test_points_that_the_metric_asks_something_else_are_ranked_by_glue_or_not_at_all(tmp_path: Path) -> None:
    parameters = {"temperature": {"values": [0.5, 1.0, 2.0]}, "max_steps": {"value": 5}}
    found = {}
    for method in ("grid", "random"):
        sweep = replace(sweep_of(tmp_path, method=method, parameters=parameters), differing=("temperature",))
        aucs = [result(n, {AUC: 0.1 * n}, temperature=t) for n, t in enumerate((0.5, 1.0, 2.0), start=1)]
        groups = group_points(sweep, aucs)
        assert [group.points[0].number for group in groups] == [1, 2, 3]
        assert best_line(sweep, groups).startswith("Not ranked: ") and "temperature" in best_line(sweep, groups)
        page = as_markdown(sweep, "x", make_table(sweep, groups, [AUC]), best_line(sweep, groups), [], "results.svg")
        assert f"{AUC} (not comparable)" in page.replace("\\", "") and "to maximize" not in page
        (panel,) = make_plots(sweep, groups, [AUC])
        assert panel.title == f"{AUC} (not comparable)" and not panel.is_joined

        scores = [{"median/cola": cola, "median/rte": 0.5} for cola in (0.2, 0.4, 0.3)]
        scored = [replace(point, metrics=point.metrics | glue) for point, glue in zip(aucs, scores, strict=True)]
        groups = group_points(sweep, scored)
        found[method] = [group.points[0].number for group in groups]
        assert best_line(sweep, groups).startswith("Best: temperature 1, mean of median/cola, median/rte 0.4500. ")
        assert [panel.is_joined for panel in make_plots(sweep, groups, [AUC, "median/cola"])] == [
            False,
            method == "grid",
        ]
    assert found == {"grid": [1, 2, 3], "random": [2, 3, 1]}


def test_a_point_of_several_fine_tunings_has_their_spread(tmp_path: Path) -> None:
    metric = {"name": "median/cola", "goal": "maximize"}
    sweep = sweep_of(tmp_path, metric=metric, parameters={"learning_rate": {"values": [1e-4, 1e-3]}})
    seeds = {"median/cola": {"42": 0.2, "43": 0.5, "44": 0.3}}
    groups = group_points(sweep, [result(1, {"median/cola": 0.3}, seeds, learning_rate=1e-4)])
    assert make_table(sweep, groups, ["median/cola"])[1] == ["0.0001", "1", "0.3000", "0.2000 to 0.5000"]


def test_an_evaluation_has_medians_an_average_only_of_all_tasks_and_the_values_behind_them(tmp_path: Path) -> None:
    scores = [result_of("rte", seed, {"accuracy": value}) for seed, value in ((42, 0.5), (43, 0.9), (44, 0.6))]
    metrics, by_seed = glue_metrics(run_folder(tmp_path / "rte", scores))
    assert metrics == {"median/rte": 0.6}
    assert by_seed == {"median/rte": {"42": 0.5, "43": 0.9, "44": 0.6}}
    metrics, _ = glue_metrics(run_folder(tmp_path / "all", all_tasks(*AVG_TASKS)))
    # 0.51 to 0.58; MNLI counts with its mean of both sets, 0.02 more
    assert metrics["AVG"] == pytest.approx(0.545 + 0.02 * ("mnli" in AVG_TASKS) / 8)


def test_the_page_has_failures_with_their_last_lines(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, parameters=SIZES)
    failure = Failure(9, "009-x", {}, "run_pretraining.py", 2, "logs/009.log", ["first", "error: no"])
    page = as_markdown(sweep, "sweep_x", [["a", "b"], ["1", "2"]], "Best: 1.", [failure], "results.svg")
    assert "| a | b |\n| --- | ---: |\n| 1 | 2 |\n" in page and "![eval/discriminator_auc](results.svg)" in page
    assert "## 009-x failed\n\nrun_pretraining.py, exit code 2, logs/009.log\n\n```\nfirst\nerror: no\n```" in page
    assert "`max_steps=5`" in page


def axis(panel: ElementTree.Element, anchor: str, coordinate: str) -> tuple[float, float]:
    """Slope and offset of an axis, from its first and last tick."""
    labels = [t for t in panel.findall(f"{SVG}text") if t.get("text-anchor") == anchor]
    labels = [t for t in labels if re.fullmatch(r"[\d.e-]+", t.text or "")]
    (a, b) = ((float(t.get(coordinate, 0)), float(t.text or 0)) for t in (labels[0], labels[-1]))
    slope = (b[1] - a[1]) / (b[0] - a[0])
    return slope, a[1] - slope * a[0]


def test_every_dot_of_the_picture_stands_at_its_value(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, parameters=SIZES)
    groups = group_points(sweep, study())
    root = ElementTree.fromstring(scatter_file("a < b", make_plots(sweep, groups, [AUC, "median/cola"]), 1))
    panels = root.findall(f"{SVG}g")
    assert len(panels) == 2 and root.findtext(f"{SVG}title") == "a < b"
    x, y = axis(panels[0], "middle", "x"), axis(panels[0], "end", "y")
    y = y[0], y[1] + 4 * y[0]  # labels stand 4 below their lines
    circles = panels[0].findall(f"{SVG}circle")
    places = [(x[0] * float(c.get("cx", 0)) + x[1], y[0] * float(c.get("cy", 0)) + y[1]) for c in circles]
    expected = [(p.values["generator_size"], p.metrics[AUC]) for p in study() if p.metrics[AUC] is not None]
    assert len(places) == len(expected) == 5
    for place, value in zip(places, expected, strict=True):
        assert place == pytest.approx(value, abs=0.003)
    line = panels[0].find(f"{SVG}polyline")
    assert line is not None and len(line.get("points", "").split()) == 2  # 0.25 and 1.0; 0.5 has no median
    assert "generator_size 0.25: 0.9000" in [c.findtext(f"{SVG}title") for c in circles]


def test_values_that_differ_by_rounding_alone_are_drawn(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, parameters={"x": {"values": [1.0, 1.0 + 3e-16]}})
    points = [result(n, {AUC: 0.1 + n * 1e-16}, x=1.0 + n * 1e-16) for n in (1, 2, 3)]
    text = scatter_file("x", make_plots(sweep, group_points(sweep, points), [AUC]), 1)
    heights = {float(y) for y in re.findall(r'cy="([^"]*)"', text)}
    assert len(heights) == 1 and all(0 < y < 250 for y in heights)


def test_two_parameters_have_a_panel_each_names_stand_side_by_side_and_rates_are_logarithmic(tmp_path: Path) -> None:
    parameters = {
        "learning_rate": {"distribution": "log_uniform_values", "min": 1e-4, "max": 1e-1},
        "objective": {"values": ["mlm", "electra"]},
    }
    sweep = sweep_of(tmp_path, method="random", parameters=parameters)
    points = [
        result(1, {AUC: 0.5}, learning_rate=1e-3, objective="electra"),
        result(2, {AUC: 0.4}, learning_rate=1e-2, objective="mlm"),
    ]
    panels = make_plots(sweep, group_points(sweep, points), [AUC])
    assert [(panel.x_label, panel.is_joined, panel.medians) for panel in panels] == [
        ("learning_rate", False, []),
        ("objective", False, []),
    ]
    assert [dot[:2] for dot in panels[0].dots] == [(-3, 0.5), (-2, 0.4)]
    assert [dot[:2] for dot in panels[1].dots] == [(1, 0.5), (0, 0.4)]
    assert panels[1].x_ticks == [(0.0, "mlm"), (1.0, "electra")]


def test_ticks_of_logarithms_are_round_and_enclose_the_values() -> None:
    labels = [label for _, label in log_ticks(1.3e-4, 0.004)]
    assert labels == ["0.0001", "0.0002", "0.0005", "0.001", "0.002", "0.005"]
    assert [label for _, label in log_ticks(1.5, 90)] == ["1", "10", "100"]
