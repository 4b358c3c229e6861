"""Panels hold the numbers of the logs, at the right x; a thinned curve keeps what stands out."""

import math
from pathlib import Path

from pytest import approx, raises

from electra.io.errors import UserError
from electra.report.curves import make_panels
from electra.report.runs import RunRecord
from tests.helpers import parametrize
from tests.report.folders import HELD_OUT, evaluation_logs, logs_until, training_logs

GENERATOR_ACCURACIES = "generator accuracy, generator accuracy of its samples"


def curve_of(panels, name, kind):
    panel = next(panel for panel in panels if panel.name == name)
    return next(curve for curve in panel.curves if curve.kind == kind)


def record(logs, **others):
    return RunRecord("run", Path("run"), logs, logs[-1]["step"], **others)


def test_curves_are_the_columns_of_the_log():
    logs = logs_until(100)
    panels = make_panels([record(logs, metrics={"held_out": HELD_OUT})])
    for key in ("loss", "learning_rate", "tokens_per_second", "eval_loss", "eval_discriminator_auc"):
        kind = "held-out" if key.startswith("eval_") else "training"
        curve = curve_of(panels, key.removeprefix("eval_"), kind)
        expected = [(line["step"], line[key]) for line in logs if key in line]
        assert list(zip(curve.x.tolist(), curve.y.tolist(), strict=True)) == expected
    curve = curve_of(panels, "generator_loss", "frequencies")
    assert (curve.x.tolist(), curve.y.tolist()) == ([0, 100], [6.25, 6.25])
    recall = next(panel for panel in panels if panel.name == "discriminator_recall")
    assert [curve.kind for curve in recall.curves] == ["held-out"]  # frequencies have no recall


def test_the_panels_of_the_original_come_first():
    logs = logs_until(100)
    logs[-1]["eval_discriminator_f1"] = 0.5
    panels = make_panels([record(logs)])
    losses, accuracies = "total loss, generator loss (nats), discriminator loss (nats)", GENERATOR_ACCURACIES
    detection = "discriminator accuracy, discriminator AUC, discriminator precision, discriminator recall"
    expected = f"{losses}, {accuracies}, {detection}, replaced tokens, learning rate, tokens per second"
    assert ", ".join(panel.title for panel in panels if panel.is_main) == expected
    assert [panel.title for panel in panels if not panel.is_main] == ["discriminator F1"]


def test_tokens_between_lines_of_the_log_are_interpolated():
    logs = sorted(training_logs([10, 20, 30, 40]) + evaluation_logs([0, 15, 44]), key=lambda line: line["step"])
    by_step = {line["step"]: line for line in logs}
    by_step[30]["tokens_seen"] = math.nan  # passed over
    by_step[40]["tokens_seen"] = 5280  # 200 tokens a step from 20 on
    panels = make_panels([record(logs)], "tokens")
    assert curve_of(panels, "loss", "training").x.tolist() == [640, 1280, 3280, 5280]
    expected = [0, 960, 5280 + 4 * 5280 / 40]  # behind the last line at the mean of the run
    assert curve_of(panels, "loss", "held-out").x.tolist() == approx(expected)


@parametrize(("axis", "message"), [("tokens", "tokens_seen"), ("flops", "FLOPs")])
def test_a_log_that_does_not_know_the_axis_is_refused(axis, message):
    with raises(UserError, match=message):
        make_panels([record([{"step": 1, "loss": 1.0}])], axis)


def test_values_that_are_not_finite_are_left_out():
    logs = training_logs([1, 2, 3, 4], grad_norm=[1.0, math.nan, math.inf, 2.0])
    curve = curve_of(make_panels([record(logs, total_flos=8e9)], "flops"), "grad_norm", "training")
    assert (curve.x.tolist(), curve.y.tolist(), curve.not_finite) == ([2e9, 8e9], [1.0, 2.0], 2)
