"""Panels hold the numbers of the logs, at the right x; a thinned curve keeps what stands out."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from electra.errors import UserError
from electra.report.curves import Curve, Panel, make_panels, metric_title, thin
from electra.report.runs import RunRecord, read_run
from tests.report.folders import evaluation_logs, finished_run, logs_until, training_logs, write_state


def curve_of(panels: list[Panel], name: str, kind: str, run: int = 0) -> Curve:
    panel = next(panel for panel in panels if panel.name == name)
    return next(curve for curve in panel.curves if curve.kind == kind and curve.run == run)


def record(logs: list[dict], **others: object) -> RunRecord:
    return RunRecord("run", Path("run"), logs, logs[-1]["step"], **others)  # type: ignore[arg-type]


def test_curves_are_the_columns_of_the_log_over_its_steps(tmp_path: Path) -> None:
    panels = make_panels([read_run(finished_run(tmp_path))])
    logs = logs_until(100)
    for name in ("loss", "generator_loss", "learning_rate", "tokens_per_second"):
        curve = curve_of(panels, name, "training")
        assert curve.x.tolist() == list(range(10, 101, 10))
        assert curve.y.tolist() == [line[name] for line in logs if name in line]
    for name in ("loss", "masked_accuracy", "discriminator_auc", "replaced_rate"):
        curve = curve_of(panels, name, "held-out")
        assert curve.x.tolist() == [0, 25, 50, 75, 100]
        assert curve.y.tolist() == [line[f"eval_{name}"] for line in logs if f"eval_{name}" in line]


def test_the_panels_of_the_original_come_first_and_in_order_and_others_behind(tmp_path: Path) -> None:
    logs = logs_until(100)
    logs[-1]["eval_discriminator_f1"] = 0.5
    panels = make_panels([record(logs)])
    assert [panel.title for panel in panels if panel.is_main] == [
        "total loss",
        "generator loss",
        "discriminator loss",
        "masked accuracy",
        "sampled accuracy",
        "discriminator accuracy",
        "discriminator AUC",
        "discriminator precision",
        "discriminator recall",
        "replaced rate",
        "learning rate",
        "tokens per second",
    ]
    assert [panel.title for panel in panels if not panel.is_main] == ["discriminator F1"]


def test_an_objective_has_the_panels_of_its_own_metrics_and_no_others() -> None:
    logs = [{"step": s, "loss": 5.0, "mlm_loss": 5.0, "learning_rate": 0.1} for s in (1, 2)]
    logs += [{"step": 2, "eval_loss": 4.0, "eval_mlm_loss": 4.0, "eval_mlm_accuracy": 0.5, "eval_runtime": 9.0}]
    assert [panel.title for panel in make_panels([record(logs)])] == [
        "total loss",
        "MLM loss",
        "MLM accuracy",
        "learning rate",
    ]


def test_baselines_are_level_from_the_first_to_the_last_step(tmp_path: Path) -> None:
    panels = make_panels([read_run(finished_run(tmp_path))])
    curve = curve_of(panels, "generator_loss", "frequencies")
    assert (curve.x.tolist(), curve.y.tolist()) == ([0, 100], [6.25, 6.25])
    kinds = {curve.kind for panel in panels if panel.name == "discriminator_recall" for curve in panel.curves}
    assert kinds == {"held-out"}  # frequencies have no recall


def test_tokens_are_those_of_the_log_and_in_between_they_are_interpolated() -> None:
    logs = sorted(training_logs([10, 20, 40]) + evaluation_logs([0, 15, 44]), key=lambda line: line["step"])
    logs[[line["step"] for line in logs].index(40)]["tokens_seen"] = 5280  # 200 tokens a step from 20 on
    panels = make_panels([record(logs)], "tokens")
    assert curve_of(panels, "loss", "training").x.tolist() == [640, 1280, 5280]
    expected = [0, 960, 5280 + 4 * 5280 / 40]  # behind the last line at the mean of the run
    assert curve_of(panels, "loss", "held-out").x.tolist() == pytest.approx(expected)


def test_flops_are_spread_evenly_over_the_steps() -> None:
    panels = make_panels([record(logs_until(50), total_flos=1e11)], "flops")
    assert curve_of(panels, "loss", "training").x.tolist() == pytest.approx([2e9 * step for step in range(10, 51, 10)])


@pytest.mark.parametrize("axis", ["tokens", "flops"])
def test_a_log_that_does_not_know_the_axis_is_refused(axis: str) -> None:
    logs = [{"step": 1, "loss": 1.0}, {"step": 2, "loss": 0.5}]
    with pytest.raises(UserError, match="FLOPs" if axis == "flops" else "tokens_seen"):
        make_panels([record(logs)], axis)  # type: ignore[arg-type]


def test_a_count_of_tokens_that_is_no_number_is_passed_over() -> None:
    logs = training_logs([10, 20, 30])
    logs[1]["tokens_seen"] = math.nan
    assert curve_of(make_panels([record(logs)], "tokens"), "loss", "training").x.tolist() == [640, 1280, 1920]


def test_values_that_are_no_numbers_are_counted_and_left_out(tmp_path: Path) -> None:
    logs = training_logs([1, 2, 3, 4], grad_norm=[1.0, math.nan, math.inf, 2.0])
    state = write_state(tmp_path, logs)
    assert "NaN" in json.dumps(logs)
    curve = curve_of(make_panels([read_run(state)]), "grad_norm", "training")
    assert (curve.x.tolist(), curve.y.tolist(), curve.not_finite) == ([1, 4], [1.0, 2.0], 2)


def test_thinning_keeps_the_ends_and_every_spike() -> None:
    random = np.random.default_rng(0)
    values = random.normal(size=100_000)
    spikes = random.choice(100_000, size=20, replace=False)
    values[spikes] += 50 * np.sign(random.normal(size=20))
    kept = thin(values, 100)
    assert len(kept) <= 400 and kept[0] == 0 and kept[-1] == 99_999
    assert (np.diff(kept) > 0).all()
    by_stretch = {int(spike) // 1000: [] for spike in spikes}
    for spike in spikes:
        by_stretch[int(spike) // 1000].append(values[spike])
    for stretch, high in by_stretch.items():  # the largest of each kind that fell into one stretch
        there = values[kept[(kept // 1000) == stretch]]
        assert max(high) <= 0 or there.max() == max(high)
        assert min(high) >= 0 or there.min() == min(high)


def test_what_is_short_is_not_thinned() -> None:
    assert thin(np.arange(40.0), 10).tolist() == list(range(40))
    assert len(thin(np.arange(41.0), 10)) < 41


def test_names_become_words() -> None:
    assert metric_title("discriminator_auc") == "discriminator AUC"
    assert metric_title("mlm_accuracy_kept_token") == "MLM accuracy kept token"
