"""Sweep files are read or refused in one line, and their points follow from seed, number and results."""

import math
import statistics
from pathlib import Path
from typing import Any

import pytest

from electra.io.errors import UserError
from electra.sweep.definition import FIRST_RANDOM, Observed, number_of_points, propose, read_sweep
from tests.sweep.standin import sweep_file, sweep_of

RATE = {"distribution": "log_uniform_values", "min": 1e-4, "max": 1e-2}


def x(**spec: Any) -> dict[str, Any]:
    return {"parameters": {"x": spec}, "method": "random"}


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"method": "gird"}, "gird.*grid"),
        ({"metod": "grid"}, "metod.*method"),
        ({"metric": {"name": "AVG", "goal": "maximise"}}, "maximize"),
        ({"parameters": {"seed": {"values": []}}}, "seed.*values"),
        ({"parameters": {"seed": {"value": 3}}}, "one value"),
        ({"parameters": {"learning_rate": RATE}}, "grid.*learning_rate"),
        (x(min=5, max=1), "5.* 1"),
        (x(min="low", max=1), "min.*'low'"),
        (x(distribution="q_uniform", min=0, max=1, q=0), "q above 0"),
        (x(distribution="log_uniform_values", min=0, max=1), "min above 0"),
        (x(distribution="int_uniform", min=0, max=1.5), r"1\.5"),
        (x(distribution="log_normal", mu=0, sigma=1), "log_normal"),
        ({"early_terminate": {"type": "hyperband", "min_iter": 3}}, "early_terminate"),
        ({"program": "train.py"}, "run_pretraining.py.*train.py"),
        ({"command": ["${program}", "${args_json}"]}, r"\$\{args_json\}"),
        ({"run_cap": 0}, "run_cap"),
    ],
)
def test_a_wrong_entry_is_named_in_one_line(tmp_path: Path, keys: dict[str, Any], named: str) -> None:
    path = sweep_file(tmp_path, **keys)
    with pytest.raises(UserError, match=named) as raised:
        read_sweep(path)
    assert str(raised.value).startswith(f"{path}: ") and "\n" not in str(raised.value)


@pytest.mark.parametrize("text", ["a: [1", "- a", "parameters:\n  s: {value: 1}\n  s: {value: 2}"])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "file.yaml").write_text(text)
    with pytest.raises(UserError, match=r"file\.yaml"):
        read_sweep(tmp_path / "file.yaml")


def test_flags_of_a_command_are_kept_and_its_macros_are_not(tmp_path: Path) -> None:
    words = ["${env}", "${interpreter}", "${program}", "--bf16", "${args}", "--max_steps", 5]
    assert sweep_of(tmp_path, command=words).words == ("--bf16", "--max_steps", "5")


def test_a_grid_is_the_product_in_the_order_of_the_file(tmp_path: Path) -> None:
    parameters = {"x": {"values": [3, 1]}, "list": {"value": [7]}, "y": {"values": ["a", "b", "c"]}}
    sweep = sweep_of(tmp_path, parameters=parameters)
    points = [propose(sweep, number, seed=1) for number in range(1, 7)]
    assert points == [{"x": x, "list": [7], "y": y} for x in (3, 1) for y in "abc"]


def test_every_limit_of_the_number_of_points_holds(tmp_path: Path) -> None:
    random = {"method": "random", "parameters": {"learning_rate": RATE}}
    with pytest.raises(UserError, match="--max_runs"):
        number_of_points(sweep_of(tmp_path, **random), None)
    assert number_of_points(sweep_of(tmp_path, **random, run_cap=7), 9) == 7
    seeds = {"learning_rate": {"values": [1, 2, 3]}, "seed": {"values": [1, 2]}}
    assert number_of_points(sweep_of(tmp_path, parameters=seeds), None) == 6
    assert number_of_points(sweep_of(tmp_path, parameters=seeds, run_cap=50), 4) == 4


def test_random_points_follow_from_seed_and_number_and_have_their_distributions(tmp_path: Path) -> None:
    parameters = {
        "learning_rate": RATE,
        "weight_decay": {"min": 0.0, "max": 1.0},
        "warmup_steps": {"min": 10, "max": 12},
        "temperature": {"distribution": "q_uniform", "min": 0.1, "max": 0.3, "q": 0.1},
        "adam_bias_correction": {"values": [True, False]},
        "report_to": {"value": ["none"]},
    }
    sweep = sweep_of(tmp_path, method="random", parameters=parameters)
    points = [propose(sweep, number, seed=0) for number in range(1, 301)]
    assert propose(sweep, 7, seed=0) == points[6] != propose(sweep, 7, seed=1)
    rates = [math.log10(point["learning_rate"]) for point in points]
    assert min(rates) >= -4 and max(rates) <= -2 and statistics.fmean(rates) == pytest.approx(-3, abs=0.1)
    assert statistics.fmean(point["weight_decay"] for point in points) == pytest.approx(0.5, abs=0.06)
    values = {"warmup_steps": (10, 11, 12), "temperature": (0.1, 0.2, 0.3), "adam_bias_correction": (True, False)}
    for name, possible in values.items():
        drawn = [point[name] for point in points]
        assert set(drawn) == set(possible)
        assert all(drawn.count(value) == pytest.approx(300 / len(possible), abs=40) for value in possible)
    assert list(points[0]) == list(parameters) and points[0]["report_to"] == ["none"]


@pytest.mark.parametrize(("goal", "low", "high"), [("maximize", 0.0, 0.25), ("minimize", 0.75, 1.0)])
def test_a_bayesian_search_goes_where_results_are_good(tmp_path: Path, goal: str, low: float, high: float) -> None:
    """The score is -x."""
    metric = {"name": "eval/discriminator_auc", "goal": goal}
    parameters = {"x": {"min": 0.0, "max": 1.0}, "flag": {"values": [True, False]}, "n": {"min": 1, "max": 4}}
    sweep = sweep_of(tmp_path, method="bayes", metric=metric, parameters=parameters)
    observed = [Observed({"x": k / 24, "flag": False, "n": 2}, -k / 24, True) for k in range(24)]
    points = [propose(sweep, number, 1, observed) for number in range(25, 33)]
    assert all(low <= point["x"] <= high and point["n"] in (1, 2, 3, 4) for point in points)
    assert len({point["x"] for point in points}) == 8
    assert propose(sweep, 25, 1, observed) == points[0] != propose(sweep, 25, 2, observed)
    few = observed[: FIRST_RANDOM - 1]
    assert propose(sweep, 8, 1, few) == propose(sweep, 8, 1, [])  # random until there are enough


def test_undefined_results_count_as_the_worst_and_running_points_are_avoided(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, method="bayes", parameters={"x": {"min": 0.0, "max": 1.0}})
    observed = [Observed({"x": k / 40}, 0.5 - abs(k / 40 - 0.2) if k < 20 else None, True) for k in range(40)]
    assert all(0.1 < propose(sweep, number, 1, observed)["x"] < 0.3 for number in range(41, 47))
    observed += [Observed({"x": 0.2 + k / 200}, None, False) for k in range(-6, 7)]
    assert all(abs(propose(sweep, number, 1, observed)["x"] - 0.2) > 0.03 for number in range(41, 47))
