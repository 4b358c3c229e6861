"""Panels hold the numbers of the logs, at the right x."""

from pathlib import Path

from pytest import approx, raises

from electra.core.errors import UserError
from electra.report.metrics import PRETRAINING_METRICS, make_panels, metric_title
from electra.report.runs import RunRecord
from tests.report.folders import HELD_OUT, evaluation_logs, logs_until, training_logs


def curve_of(panels, name, kind):
    """Return the first curve of this kind in a panel."""
    return next(curve for curve in panels[name] if curve.kind == kind)


def record(logs, **others):
    """Return what a report reads of a run with this log."""
    return RunRecord("run", Path("run"), logs, logs[-1]["step"], **others)


def test_curves_are_the_columns_of_the_log():
    logs = logs_until(100)
    panels = make_panels([record(logs, metrics={"held_out": HELD_OUT})])
    for key in ("loss", "learning_rate", "tokens_per_second", "eval_loss", "eval_discriminator_auc"):
        kind = "held-out" if key.startswith("eval_") else "training"
        curve = curve_of(panels, key.removeprefix("eval_"), kind)
        expected = [(line["step"], line[key]) for line in logs if key in line]
        assert list(zip(curve.x, curve.y, strict=True)) == expected
    curve = curve_of(panels, "masked_accuracy_mask_token", "frequencies")
    assert (curve.x, curve.y) == ([0, 100], [0.05, 0.05])
    # Token frequencies answer nothing, so they have no curve of recall.
    assert [curve.kind for curve in panels["discriminator_recall"]] == ["held-out"]


def test_panels_come_in_one_order_and_f1_is_not_drawn():
    logs = logs_until(100)
    logs[-1]["eval_discriminator_f1"] = 0.5
    losses = "total loss, generator loss (nats), discriminator loss"
    accuracies = "generator accuracy at [MASK], generator accuracy of its samples"
    detection = "discriminator accuracy, discriminator AUC, discriminator precision, discriminator recall"
    expected = f"{losses}, {accuracies}, {detection}, replaced tokens, learning rate, tokens per second"
    assert ", ".join(map(metric_title, make_panels([record(logs)]))) == expected


def test_metrics_without_a_panel_are_beside_another_that_has_one():
    """Those of chosen positions beside those at [MASK], and others of the discriminator beside its AUC."""
    line = {"step": 5, **{f"eval_{name}": 0.5 for name in (*PRETRAINING_METRICS, "loss")}}
    without = {"generator_loss_mask_token", "masked_accuracy", "generator_entropy", "mlm_loss_mask_token"}
    without |= {"discriminator_f1", "discriminator_mcc"}
    assert make_panels([record([line])]).keys() == {*PRETRAINING_METRICS, "loss"} - without


def test_several_runs_are_drawn_over_tokens():
    logs = training_logs([10, 20, 30, 40]) + evaluation_logs([15, 44])
    panels = make_panels([record(logs), record(logs)])
    assert curve_of(panels, "loss", "training").x == [64 * step for step in (10, 20, 30, 40)]
    assert curve_of(panels, "loss", "held-out").x == [64 * 15, 64 * 44]
    with raises(UserError, match="no line of training"):
        make_panels([record(logs), record(evaluation_logs([0]))])


def test_tokens_of_a_step_are_the_mean_of_the_run():
    """Here 2000 in 40 steps, so 50, whatever single lines say."""
    logs = training_logs([10, 20, 40], tokens_seen=[100, 500, 2000])
    assert curve_of(make_panels([record(logs), record(logs)]), "loss", "training").x == [500, 1000, 2000]


def test_other_held_out_texts_share_the_panel():
    line = {
        "step": 5,
        "eval_loss": 3.0,
        "eval_new_loss": 4.0,
        "eval_new_discriminator_auc": 0.7,
        "eval_new_runtime": 1,
    }
    panels = make_panels([record([line])])
    assert list(panels) == ["loss", "discriminator_auc"]
    assert curve_of(panels, "discriminator_auc", "held-out: new").y == [0.7]
    assert [curve_of(panels, "loss", kind).y for kind in ("held-out", "held-out: new")] == [[3.0], [4.0]]


def test_the_panels_of_other_code_bases_have_their_names_and_values():
    logs = logs_until(100)
    for line in logs:
        if "eval_loss" in line:
            line |= {
                "eval_masked_accuracy_mask_token": 0.4,
                "eval_discriminator_f1": 0.5,
                "eval_discriminator_mcc": 0.5,
            }
    for names, expected in (
        ("google", "masked_lm_accuracy masked_lm_loss sampled_masked_lm_accuracy disc_loss disc_auc disc_accuracy "
         "disc_precision disc_recall"),
        ("rc2020", "loss generator_loss mlm_ACCURACY sampled_mlm_ACCURACY discriminant_token_loss "
         "is_fake_token_ACCURACY is_fake_token_PRECISION is_fake_token_RECALL is_fake_token_F1 is_fake_token_MCC "
         "is_fake_token_AUC learning_rate"),
    ):  # fmt: skip
        panels = make_panels([record(logs, metrics={"held_out": HELD_OUT})], names)
        assert [metric_title(name, names) for name in panels] == expected.split()
        ours = make_panels([record(logs, metrics={"held_out": HELD_OUT})])
        assert panels["discriminator_auc"] == ours["discriminator_auc"]
    # There, the generator is right at the 15 % of positions that are kept.
    assert curve_of(panels, "masked_accuracy_mask_token", "held-out").y == [approx(0.15 + 0.85 * 0.4)] * 5
    always_masked = record(logs, options={"mlm_replacement_probability": 1.0})
    panels = make_panels([always_masked], "rc2020")
    assert curve_of(panels, "masked_accuracy_mask_token", "held-out").y == [approx(0.4)] * 5
