"""Which points there are: a grid in order, random ones by seed and number, Bayesian ones near good results."""

import math
import statistics
from pathlib import Path
from typing import Any

import pytest

from electra.errors import UserError
from electra.sweep.definition import read_parameter
from electra.sweep.search import FIRST_RANDOM, Observed, number_of_points, propose
from tests.sweep.standin import sweep_of

RATE = {"distribution": "log_uniform_values", "min": 1e-4, "max": 1e-2}
RANDOM: dict[str, Any] = {
    "learning_rate": RATE,
    "warmup_steps": {"min": 10, "max": 12},
    "adam_bias_correction": {"values": [True, False]},
    "report_to": {"value": ["none"]},
}


def test_a_grid_is_the_product_in_the_order_of_the_file(tmp_path: Path) -> None:
    parameters = {"x": {"values": [3, 1]}, "list": {"value": [7]}, "y": {"values": ["a", "b", "c"]}}
    sweep = sweep_of(tmp_path, parameters=parameters)
    points = [propose(sweep, number, seed=1) for number in range(1, 7)]
    assert points == [{"x": x, "list": [7], "y": y} for x in (3, 1) for y in "abc"]


def test_every_limit_of_the_number_of_points_holds(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--max_runs"):
        number_of_points(sweep_of(tmp_path, method="random", parameters={"learning_rate": RATE}), None)
    assert number_of_points(sweep_of(tmp_path, method="random", parameters=RANDOM, run_cap=7), 9) == 7
    seeds = {"learning_rate": {"values": [1, 2, 3]}, "seed": {"values": [1, 2]}}
    assert number_of_points(sweep_of(tmp_path, parameters=seeds), None) == 6
    assert number_of_points(sweep_of(tmp_path, parameters=seeds, run_cap=50), 4) == 4


def test_random_points_follow_from_seed_and_number_and_have_their_distributions(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, method="random", parameters=RANDOM)
    points = [propose(sweep, number, seed=0) for number in range(1, 401)]
    assert propose(sweep, 7, seed=0) == points[6] != propose(sweep, 7, seed=1)
    rates = [math.log10(point["learning_rate"]) for point in points]
    assert min(rates) >= -4 and max(rates) <= -2 and statistics.fmean(rates) == pytest.approx(-3, abs=0.1)
    for name, values in (("warmup_steps", (10, 11, 12)), ("adam_bias_correction", (True, False))):
        drawn = [point[name] for point in points]
        assert set(drawn) == set(values)
        assert all(drawn.count(value) == pytest.approx(400 / len(values), abs=50) for value in values)
    assert all(point["report_to"] == ["none"] for point in points)


@pytest.mark.parametrize(
    ("spec", "quantile", "expected"),
    [
        ({"min": 1, "max": 3}, 0.99, 3),
        ({"min": 1, "max": 3.0}, 0.25, 1.5),
        ({"values": ["a", "b"]}, 0.49, "a"),
        ({"values": ["a", "b"]}, 0.51, "b"),
        ({"distribution": "log_uniform_values", "min": 0.01, "max": 1}, 0.5, 0.1),
        ({"distribution": "q_uniform", "min": 0, "max": 1, "q": 0.25}, 0.6, 0.5),
        ({"distribution": "q_uniform", "min": 8, "max": 128, "q": 8}, 0.5, 68 // 8 * 8),
    ],
)
def test_a_quantile_has_the_value_of_wandbs_distribution(spec: dict[str, Any], quantile: float, expected: Any) -> None:
    value = read_parameter("x", spec).at(quantile)
    assert value == (expected if isinstance(expected, str) else pytest.approx(expected, rel=1e-6))
    assert isinstance(value, type(expected))


def test_integers_and_steps_are_values_of_a_grid_and_types_are_kept_apart(tmp_path: Path) -> None:
    parameters = {
        "x": {"min": 2, "max": 4},
        "y": {"distribution": "q_uniform", "min": 0.1, "max": 0.3, "q": 0.1},
        "z": {"values": [0, False, "0"]},
    }
    values = [list(parameter.values or ()) for parameter in sweep_of(tmp_path, parameters=parameters).parameters]
    assert values == [[2, 3, 4], [0.1, 0.2, 0.3], [0, False, "0"]]


@pytest.mark.parametrize(("goal", "low", "high"), [("maximize", 0.0, 0.25), ("minimize", 0.75, 1.0)])
def test_a_bayesian_search_goes_where_results_are_good(tmp_path: Path, goal: str, low: float, high: float) -> None:
    """The score is -x."""
    metric = {"name": "eval/discriminator_auc", "goal": goal}
    parameters = {"x": {"min": 0.0, "max": 1.0}, "flag": {"values": [0, False]}, "n": {"min": 1, "max": 4}}
    sweep = sweep_of(tmp_path, method="bayes", metric=metric, parameters=parameters)
    observed = [Observed({"x": k / 24, "flag": False, "n": 2}, -k / 24, True) for k in range(24)]
    points = [propose(sweep, number, 1, observed) for number in range(25, 33)]
    assert all(low <= point["x"] <= high and point["n"] in (1, 2, 3, 4) for point in points)
    assert {type(point["flag"]) for point in points} <= {int, bool} and len({point["x"] for point in points}) == 8
    assert propose(sweep, 25, 1, observed) == points[0] != propose(sweep, 25, 2, observed)
    few = [*observed[: FIRST_RANDOM - 1], Observed({"x": 0.5, "flag": 0, "n": 1}, None, False)]
    assert propose(sweep, 8, 1, few) == propose(sweep, 8, 1, [])  # random until enough are finished


def test_undefined_results_count_as_the_worst_and_running_points_are_avoided(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, method="bayes", parameters={"x": {"min": 0.0, "max": 1.0}})
    observed = [Observed({"x": k / 40}, 0.5 - abs(k / 40 - 0.2) if k < 20 else None, True) for k in range(40)]
    assert all(0.1 < propose(sweep, number, 1, observed)["x"] < 0.3 for number in range(41, 47))
    observed += [Observed({"x": 0.2 + k / 200}, None, False) for k in range(-6, 7)]
    assert all(abs(propose(sweep, number, 1, observed)["x"] - 0.2) > 0.03 for number in range(41, 47))
