"""Summaries over seeds, all numbers computed by hand."""

import math

import pytest

from electra.errors import UserError
from electra.report.aggregate import Spread
from electra.tasks.glue.report import summarize_glue as summarize
from electra.tasks.glue.tasks import AVG_TASKS
from tests.tasks.glue.runs import all_tasks, mnli, result


def test_median_mean_best_and_deviation_of_three_seeds() -> None:
    spread = Spread({1: 0.50, 2: 0.56, 3: 0.62 + 0.03})
    assert spread.median == 0.56
    assert spread.mean == pytest.approx(0.57)
    assert spread.best == 0.65
    assert spread.std == pytest.approx(math.sqrt((0.07**2 + 0.01**2 + 0.08**2) / 2))
    assert spread.undefined == 0


def test_of_an_even_number_the_median_is_the_mean_of_the_middle_two() -> None:
    assert Spread({1: 0.1, 2: 0.9, 3: 0.4, 4: 0.5}).median == pytest.approx(0.45)


def test_one_seed_has_no_deviation() -> None:
    spread = Spread({42: 0.5})
    assert (spread.median, spread.mean, spread.best, spread.std) == (0.5, 0.5, 0.5, None)


def test_an_undefined_value_is_the_worst_and_leaves_no_mean() -> None:
    spread = Spread({1: None, 2: 0.4, 3: 0.6})
    assert (spread.median, spread.best, spread.undefined) == (0.4, 0.6, 1)
    assert spread.mean is None and spread.std is None


def test_a_median_that_falls_on_an_undefined_value_is_undefined() -> None:
    assert Spread({1: None, 2: None, 3: 0.6}).median is None
    assert Spread({1: None, 2: 0.6}).median is None
    assert Spread({1: None, 2: 0.2, 3: 0.4, 4: 0.6}).median == pytest.approx(0.3)
    nothing = Spread({1: None})
    assert (nothing.median, nothing.best) == (None, None)


def test_seeds_are_in_order_and_their_failures_counted() -> None:
    (run,) = summarize(
        [
            result("stsb", 44, {"pearson": 0.8, "spearman": 0.7}),
            result("stsb", 42, {"pearson": None, "spearman": None}, collapsed=True),
            result("stsb", 43, {"pearson": 0.6, "spearman": math.nan}),
        ],
        "run",
    )
    summary = run.tasks["stsb"]
    assert list(summary.headline.values.items()) == [(42, None), (43, None), (44, 0.7)]
    assert list(summary.metrics["pearson"].values.values()) == [None, 0.6, 0.8]
    assert (summary.collapsed, summary.headline.undefined, len(summary.results)) == (1, 2, 3)
    assert summary.headline.median is None


def test_a_metric_that_a_seed_lacks_is_undefined_for_it() -> None:
    (run,) = summarize([result("mrpc", 1, {"accuracy": 0.8, "f1": 0.9}), result("mrpc", 2, {"accuracy": 0.7})], "run")
    assert run.tasks["mrpc"].metrics["f1"].values == {1: 0.9, 2: None}


def test_the_headline_is_the_metric_that_the_task_names() -> None:
    (run,) = summarize(
        [result("stsb", 1, {"pearson": 0.9, "spearman": 0.8}), result("cola", 1, {"accuracy": 0.7, "mcc": 0.3})], "run"
    )
    assert run.tasks["stsb"].headline.median == 0.8
    assert run.tasks["cola"].headline.median == 0.3
    assert list(run.tasks) == ["cola", "stsb"]


def test_mnli_stands_as_each_runs_mean_of_both_sets() -> None:
    """The median of the means, 0.72; the mean of the medians would be 0.73."""
    values = {1: (0.70, 0.74), 2: (0.80, 0.60), 3: (0.72, 0.80)}
    runs = [result("mnli", seed, mnli(*both)) for seed, both in values.items()]
    (run,) = summarize(runs, "run")
    assert run.tasks["mnli"].headline.median == pytest.approx(0.72)


def test_mnli_with_one_set_has_no_headline_but_keeps_that_set() -> None:
    (run,) = summarize([result("mnli", 1, {"accuracy_matched": 0.8})], "run")
    assert run.tasks["mnli"].headline.median is None
    assert run.tasks["mnli"].metrics["accuracy_matched"].median == 0.8


def test_avg_is_of_eight_tasks_and_glue_of_nine() -> None:
    (run,) = summarize(all_tasks(), "run")
    assert run.averages["AVG"].value == pytest.approx((0.51 + 0.52 + 0.53 + 0.54 + 0.55 + 0.58 + 0.57 + 0.58) / 8)
    assert run.averages["GLUE"].value == pytest.approx(
        (0.51 + 0.52 + 0.53 + 0.54 + 0.55 + 0.58 + 0.57 + 0.58 + 0.59) / 9
    )
    assert run.averages["AVG"].missing == run.averages["GLUE"].missing == ()


@pytest.mark.parametrize("task", AVG_TASKS)
def test_without_one_task_there_is_no_average(task: str) -> None:
    (run,) = summarize(all_tasks(without=(task,)), "run")
    assert (run.averages["AVG"].value, run.averages["AVG"].missing) == (None, (task,))
    assert (run.averages["GLUE"].value, run.averages["GLUE"].missing) == (None, (task,))


def test_without_wnli_there_is_avg_but_no_glue() -> None:
    (run,) = summarize(all_tasks(without=("wnli",)), "run")
    assert run.averages["AVG"].value is not None
    assert (run.averages["GLUE"].value, run.averages["GLUE"].missing) == (None, ("wnli",))


def test_an_undefined_median_leaves_no_average_either() -> None:
    runs = [*all_tasks(without=("cola",)), result("cola", 42, {"mcc": None, "accuracy": 0.7})]
    (run,) = summarize(runs, "run")
    assert (run.averages["AVG"].value, run.averages["AVG"].missing) == (None, ("cola",))


def test_the_demonstration_is_in_no_average() -> None:
    (with_demo,) = summarize([*all_tasks(), result("demo", 42, {"mcc": 0.9, "accuracy": 0.9})], "run")
    (without,) = summarize(all_tasks(), "run")
    assert with_demo.averages == without.averages


def test_models_are_never_mixed() -> None:
    first, second = summarize(
        [
            result("rte", 1, {"accuracy": 0.5}, model="b"),
            result("rte", 1, {"accuracy": 0.9}, model="a", parameters=7),
            result("rte", 2, {"accuracy": 0.7}, model="b"),
        ],
        "run",
    )
    assert (first.name, second.name, second.parameters) == ("run: b", "run: a", 7)
    assert first.tasks["rte"].headline.values == {1: 0.5, 2: 0.7}
    assert second.tasks["rte"].headline.values == {1: 0.9}


def test_rows_that_are_not_official_are_told() -> None:
    official = {"train": 2490, "dev": 277}
    (run,) = summarize(
        [
            result("rte", 1, {"accuracy": 0.5}, rows=official),
            result("rte", 2, {"accuracy": 0.5}, rows=official | {"train": 100}),
            result("wnli", 1, {"accuracy": 0.5}, rows={"train": 635}),
        ],
        "run",
    )
    assert run.tasks["rte"].other_rows == {"train": [100]}
    assert run.tasks["wnli"].other_rows == {}


def test_two_results_of_one_seed_are_refused() -> None:
    with pytest.raises(UserError, match="run holds two results for rte with seed 7"):
        summarize([result("rte", 7, {"accuracy": 0.5}), result("rte", 7, {"accuracy": 0.6})], "run")


def test_an_unknown_task_is_refused() -> None:
    with pytest.raises(UserError, match="unknown task 'squad'"):
        summarize([result("squad", 7, {"f1": 0.5})], "run")
