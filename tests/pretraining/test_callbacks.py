"""What a run says of its discriminator: on evaluations of real runs, and on variations of them."""

import logging
import math
import re

from pytest import approx
from transformers import TrainerControl, TrainerState, TrainingArguments

from electra.pretraining.callbacks import DiscriminatorHealth, base_rate_loss, describe_logs
from electra.report.metrics import LEADING_PANELS, PRETRAINING_METRICS
from tests.helpers import parametrize

NAMES = ("generator_loss", "discriminator_loss", "discriminator_auc", "discriminator_recall", "replaced_rate")
HEALTHY = {
    0: (7.857, 0.6683, 0.513, 0.286, 0.2499),
    1500: (5.393, 0.5214, 0.526, 0.004, 0.2210),
    9000: (5.307, 0.4982, 0.603, 0.026, 0.2112),
    18_000: (5.306, 0.4407, 0.753, 0.162, 0.2111),
}
"""small_glue_cpu.yaml: 2,048 tokens in the vocabulary, and in a step."""
BETTER_RANKED = (5.3, 0.5400, 0.650, 0.000, 0.2111)
"""A better AUC than that of frequencies, but a loss above that of the base rate, .5152."""

ABOVE_FEWER = (5.3, 0.4982, 0.590, 0.026, 0.2112)
"""A lower AUC than at step 9,000, which is far above that of frequencies only where this has fallen, too."""


def state_of(rows, tokens_per_step=2048):
    """The state of a run after these evaluations."""
    lines = []
    for step, values in rows.items():
        metrics = {f"eval_{name}": value for name, value in zip(NAMES, values, strict=True)}
        lines.append({**metrics, "eval_loss": 30.0, "step": step})
    return TrainerState(max_steps=33_000, log_history=lines, num_input_tokens_seen=max(rows) * tokens_per_step)


def arguments():
    """Trainer's arguments of a run whose warm-up has 1000 steps."""
    return TrainingArguments("output", warmup_steps=1000, report_to="none")


def until(step, *rows):
    """The healthy run up to a step, then other rows by step."""
    return {**{earlier: values for earlier, values in HEALTHY.items() if earlier <= step}, **dict(rows)}


def verdict(rows, frequencies_auc=0.55, **options):
    """What is said of the discriminator after these evaluations, beside the AUC of token frequencies."""
    return DiscriminatorHealth().verdict(arguments(), state_of(rows, **options), frequencies_auc)


@parametrize(
    ("rows", "frequencies_auc", "expected"),
    [
        (HEALTHY, 0.55, "has started to learn"),
        (until(1500), 0.55, "has not started to learn yet"),
        (until(9000), 0.56, "has not started to learn yet"),
        (until(9000, (12_000, ABOVE_FEWER)), 0.53, "has not started to learn yet"),
        (until(1500, (12_000, BETTER_RANKED)), 0.55, "has not started to learn yet"),
        (until(1500, (13_000, HEALTHY[1500])), 0.55, "does not learn"),
        (until(18_000, (24_000, HEALTHY[1500])), 0.55, "does not learn"),  # it has lost what it had learned
        (until(1500, (3000, (5.3, math.nan, math.nan, 0.0, 0.0))), 0.55, "has not started to learn yet"),
    ],
)
def test_the_verdict_follows_from_the_last_evaluation(rows, frequencies_auc, expected):
    assert f"the discriminator {expected}" in verdict(rows, frequencies_auc)


def test_a_line_of_the_log_has_each_loss_and_what_leads_the_page():
    """At [MASK] rather than at all chosen positions, where both are known."""
    numbers = {name: 100 + number for number, name in enumerate(PRETRAINING_METRICS)}
    losses = {name for name in numbers if "loss" in name}
    shown = losses | {*LEADING_PANELS, "generator_entropy"} - {"all_tokens_accuracy"}
    masked = {name.removesuffix("_mask_token") for name in numbers if name.endswith("_mask_token")}
    for prefix in ("eval_", "eval_new_", "test_"):
        logs = {f"{prefix}{name}": number for name, number in numbers.items()}
        known = {f"{prefix}loss": 1, "eval_loss": 1, "eval_new_tokens": 1} if "eval" in prefix else {"test_loss": 1}
        assert numbers_in(describe_logs({**logs, **known}, 5)) == {numbers[name] for name in shown - masked}
        chosen = {key: number for key, number in logs.items() if not key.endswith("_mask_token")}
        assert numbers_in(describe_logs({**chosen, **known}, 5)) == {
            numbers[name] for name in shown if not name.endswith("_mask_token")
        } - {numbers["masked_accuracy"]}


def numbers_in(line):
    """The numbers of a line that are metrics: 100 and more."""
    return {int(float(word)) for word in re.findall(r"[\d.]+", line) if float(word) >= 100}


def test_nothing_is_late_during_the_warm_up():
    assert "has not started to learn yet" in verdict(until(1500), tokens_per_step=100_000)


def test_the_loss_of_the_base_rate_is_the_entropy_of_the_labels():
    assert base_rate_loss(0.25) == approx(0.5623351)
    assert base_rate_loss(1.0) == 0


def test_a_warning_is_logged_once_with_the_numbers(caplog):
    callback = DiscriminatorHealth()
    rows = {}
    with caplog.at_level(logging.INFO):
        for step in (0, 12_000, 14_000, 16_000):
            rows[step] = HEALTHY[1500 if step else 0]
            callback.on_evaluate(arguments(), state_of(rows), TrainerControl())
    (record,) = caplog.records
    for fact in ("step 14000: the discriminator does not learn, after 28,672,000", "AUC 0.526", "0.5214", "0.5282"):
        assert fact in record.message
