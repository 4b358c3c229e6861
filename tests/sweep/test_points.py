"""Which points there are: a grid in order, random ones by seed and number, Bayesian ones near what was good."""

import math
import statistics
from pathlib import Path
from typing import Any

import pytest

from electra.sweep.parameters import read_parameter
from electra.sweep.points import FIRST_RANDOM, Observed, propose
from tests.sweep.standin import sweep_of

RANDOM: dict[str, Any] = {
    "learning_rate": {"distribution": "log_uniform_values", "min": 1e-4, "max": 1e-2},
    "warmup_steps": {"min": 10, "max": 12},
    "adam_bias_correction": {"values": [True, False]},
    "report_to": {"value": ["none"]},
}


def test_a_grid_is_the_product_in_the_order_of_the_file(tmp_path: Path) -> None:
    parameters = {"x": {"values": [3, 1]}, "list": {"value": [7]}, "y": {"values": ["a", "b", "c"]}}
    sweep = sweep_of(tmp_path, parameters=parameters)
    points = [propose(sweep, number, seed=1).values for number in range(1, 7)]
    assert points == [{"x": x, "list": [7], "y": y} for x in (3, 1) for y in "abc"]


def test_random_points_follow_from_seed_and_number_alone(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, method="random", parameters=RANDOM)
    forwards = [propose(sweep, number, seed=1) for number in range(1, 6)]
    assert forwards == [propose(sweep, number, seed=1) for number in range(5, 0, -1)][::-1]
    assert propose(sweep, 1, seed=2) != forwards[0]
    assert len({point.values["learning_rate"] for point in forwards}) == 5


def test_random_points_follow_their_distributions(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, method="random", parameters=RANDOM)
    points = [propose(sweep, number, seed=0).values for number in range(1, 601)]
    rates = [math.log10(point["learning_rate"]) for point in points]
    assert min(rates) >= -4 and max(rates) <= -2 and statistics.fmean(rates) == pytest.approx(-3, abs=0.1)
    for name, values in (("warmup_steps", (10, 11, 12)), ("adam_bias_correction", (True, False))):
        drawn = [point[name] for point in points]
        assert set(drawn) == set(values)
        for value in values:
            assert drawn.count(value) == pytest.approx(600 / len(values), abs=60)
    assert all(point["report_to"] == ["none"] for point in points)


@pytest.mark.parametrize(
    ("spec", "quantile", "expected"),
    [
        ({"min": 1, "max": 3}, 0.99, 3),
        ({"min": 1, "max": 3.0}, 0.25, 1.5),
        ({"values": ["a", "b"], "probabilities": [0.9, 0.1]}, 0.89, "a"),
        ({"values": ["a", "b"], "probabilities": [0.9, 0.1]}, 0.91, "b"),
        ({"distribution": "log_uniform", "min": -2, "max": 0}, 0.5, math.exp(-1)),  # exponents of e
        ({"distribution": "log_uniform_values", "min": 0.01, "max": 1}, 0.5, 0.1),
        ({"distribution": "normal", "mu": 5, "sigma": 2}, 0.8413447, 7),
        ({"distribution": "log_normal", "mu": 0, "sigma": 1}, 0.5, 1),
        ({"distribution": "q_uniform", "min": 0, "max": 1, "q": 0.25}, 0.6, 0.5),
        ({"distribution": "q_log_uniform_values", "min": 8, "max": 128, "q": 8}, 0.5, 32),
    ],
)
def test_a_quantile_has_the_value_that_wandb_s_distribution_gives_it(
    spec: dict[str, Any], quantile: float, expected: Any
) -> None:
    value = read_parameter("x", spec).at(quantile)
    assert value == (expected if isinstance(expected, str) else pytest.approx(expected, rel=1e-6))
    assert isinstance(value, int) == (spec.get("q") == 8 or (isinstance(expected, int) and "distribution" not in spec))


def test_whole_numbers_and_steps_are_values_of_a_grid(tmp_path: Path) -> None:
    parameters = {"x": {"min": 2, "max": 4}, "y": {"distribution": "q_uniform", "min": 0.1, "max": 0.3, "q": 0.1}}
    sweep = sweep_of(tmp_path, parameters=parameters)
    assert [parameter.values for parameter in sweep.parameters] == [(2, 3, 4), (0.1, 0.2, 0.3)]


@pytest.mark.parametrize(("goal", "best"), [("maximize", 0.7), ("minimize", 0.1)])
def test_a_bayesian_search_goes_where_results_are_good(tmp_path: Path, goal: str, best: float) -> None:
    """A score with its top at 0.7 and, of what was seen, its bottom at 0.1."""
    metric = {"name": "eval/discriminator_auc", "goal": goal}
    sweep = sweep_of(tmp_path, method="bayes", metric=metric, parameters={"x": {"min": 0.0, "max": 1.0}})
    places = (0.1, 0.3, 0.45, 0.6, 0.7, 0.8, 0.9)
    observed = [Observed((x,), -((x - 0.7) ** 2), True) for x in places]
    chosen = [propose(sweep, number, 1, observed).values["x"] for number in range(8, 14)]
    assert all(abs(x - best) < 0.15 for x in chosen)
    assert propose(sweep, 8, 1, observed) == propose(sweep, 8, 1, observed)
    few = observed[: FIRST_RANDOM - 1]
    assert propose(sweep, 8, 1, few).quantiles == propose(sweep, 8, 1, []).quantiles  # random until it knows enough


def test_undefined_results_count_as_the_worst_and_running_points_are_kept_away_from(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, method="bayes", parameters={"x": {"min": 0.0, "max": 1.0}})
    known = [(0.1, 0.4), (0.2, 0.5), (0.3, 0.4), (0.4, 0.3), (0.5, 0.2), (0.6, 0.1)]
    good_on_the_left = [Observed((x,), score, True) for x, score in known]
    undefined = [Observed((x,), None, True) for x in (0.7, 0.8, 0.9, 1.0)]
    assert propose(sweep, 11, 1, [*good_on_the_left, *undefined]).values["x"] == pytest.approx(0.2, abs=0.1)
    steep = [Observed((x,), -abs(x - 0.5), True) for x in (0.0, 0.2, 0.35, 0.65, 0.8, 1.0)]
    first = propose(sweep, 9, 1, steep)
    second = propose(sweep, 10, 1, [*steep, Observed(first.quantiles, None, False)])
    assert abs(first.values["x"] - 0.5) < 0.1
    assert abs(second.values["x"] - first.values["x"]) > 0.01
