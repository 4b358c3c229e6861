"""The state of the discriminator on curves of real runs, on variations of them, and what a run says of it."""

import dataclasses
import logging
import math

from pytest import approx
from transformers import TrainerControl, TrainerState, TrainingArguments

from electra.pretraining.callbacks import health
from electra.pretraining.callbacks.health import DiscriminatorHealth, Evaluation, assess, evaluations_of
from tests.helpers import parametrize


@dataclasses.dataclass(frozen=True)
class Curve:
    """Rows: step, generator loss, discriminator loss, AUC, recall, replaced rate."""

    vocab_size: int
    tokens_per_step: int
    warmup_steps: int
    rows: tuple[tuple[float, ...], ...]

    def log_history(self):
        """As `TrainerState` keeps it: a training log and an evaluation at every step of the table."""
        lines = []
        names = ("generator_loss", "discriminator_loss", "discriminator_auc", "discriminator_recall", "replaced_rate")
        for step, *values in self.rows:
            if step:
                lines.append({"loss": 30.0, "tokens_seen": int(step) * self.tokens_per_step, "step": int(step)})
            metrics = {f"eval_{name}": value for name, value in zip(names, values, strict=True)}
            lines.append({**metrics, "eval_loss": 30.0, "step": int(step)})
        return lines

    def until(self, step, *rows):
        """The curve up to a step, then other rows."""
        return dataclasses.replace(self, rows=(*(row for row in self.rows if row[0] <= step), *rows))


HEALTHY = Curve(
    2048,
    2048,
    1000,
    (
        (0, 7.857, 0.6683, 0.513, 0.286, 0.2499),
        (1500, 5.393, 0.5214, 0.526, 0.004, 0.2210),
        (3000, 5.326, 0.5113, 0.522, 0.002, 0.2124),
        (4500, 5.319, 0.5101, 0.520, 0.002, 0.2114),
        (6000, 5.312, 0.5089, 0.544, 0.003, 0.2113),
        (7500, 5.310, 0.5043, 0.573, 0.008, 0.2112),
        (9000, 5.307, 0.4982, 0.603, 0.026, 0.2112),
        (10500, 5.307, 0.4941, 0.618, 0.025, 0.2111),
        (12000, 5.307, 0.4904, 0.632, 0.043, 0.2111),
        (18000, 5.306, 0.4407, 0.753, 0.162, 0.2111),
    ),
)
"""small_glue_cpu.yaml: slow to start."""
COLLAPSING = Curve(
    4096,
    2048,
    1000,
    (
        (0, 8.444, 0.6311, 0.467, 0.200, 0.1484),
        (1500, 5.790, 0.3864, 0.540, 0.000, 0.1312),
        (3000, 5.657, 0.3763, 0.525, 0.000, 0.1261),
        (4500, 5.633, 0.3754, 0.517, 0.000, 0.1255),
        (6000, 5.626, 0.3782, 0.503, 0.000, 0.1254),
        (7500, 5.603, 0.3772, 0.511, 0.000, 0.1254),
    ),
)
"""An earlier small_glue_cpu.yaml with three layers, 4,096 WordPieces, 15 % chosen and learning rate 1e-3."""
SHORT = Curve(
    30_522,
    1024,
    260,
    (
        (0, 10.347, 0.7014, 0.492, 0.450, 0.1484),
        (250, 9.449, 0.3129, 0.844, 0.300, 0.1484),
        (500, 8.022, 0.3587, 0.772, 0.200, 0.1480),
        (750, 7.433, 0.4058, 0.611, 0.000, 0.1465),
        (1000, 7.242, 0.4077, 0.573, 0.000, 0.1460),
        (1500, 7.084, 0.4058, 0.546, 0.000, 0.1443),
        (2000, 7.024, 0.4041, 0.548, 0.000, 0.1435),
        (2600, 7.002, 0.4035, 0.547, 0.000, 0.1430),
    ),
)
"""ELECTRA-Small on Wikipedia: ends before it starts; easy samples at first."""
FALLEN = (5.307, 0.5120, 0.545, 0.000, 0.2111)
"""Of the healthy run, as before its start."""
ALIVE = (5.306, 0.4854, 0.650, 0.045, 0.2111)
STARTED = {9000: "learning"}


def states(curve):
    """The state after each evaluation, by step, where it changes."""
    evaluations, changes = evaluations_of(curve.log_history()), {}
    before = "not started"
    for end, last in enumerate(evaluations, start=1):
        now = assess(evaluations[:end], curve.vocab_size, curve.warmup_steps)
        if now != before:
            changes[last.step] = now
        before = now
    return changes


def at(values, *steps):
    return [(step, *values) for step in steps]


LATER = range(13_500, 23_000, 1500)
CASES = {
    "healthy": (HEALTHY, STARTED),
    "evaluated seldom": (dataclasses.replace(HEALTHY, rows=HEALTHY.rows[::2]), STARTED),
    "collapses": (COLLAPSING, {7500: "collapsed"}),
    "too short": (SHORT, {}),
    "not for long": (HEALTHY.until(12000, *at(FALLEN, 13500)), STARTED),
    "falls back for good": (
        HEALTHY.until(12000, *at(FALLEN, 13500, 15000, 16500)),
        {**STARTED, 16500: "collapsed"},
    ),
    "evaluated again at one step": (HEALTHY.until(12000, *at(FALLEN, 13500, 13500, 13500)), STARTED),
    "the same before a start": (HEALTHY.until(4500, *at(FALLEN, *LATER)), {}),
    "auc of frequencies": (HEALTHY.until(4500, *at((5.307, 0.5150, 0.525, 0.0, 0.2111), *LATER)), {}),
    "auc is alive": (HEALTHY.until(12000, *at((5.307, 0.5120, 0.570, 0.0, 0.2111), *LATER)), STARTED),
    "two dips": (HEALTHY.until(12000, *at(FALLEN, 12500), *at(ALIVE, 13500), *at(FALLEN, 15000)), STARTED),
    "learns again": (
        COLLAPSING.until(7500, (9000, 5.6, 0.3600, 0.62, 0.05, 0.1254)),
        {7500: "collapsed", 9000: "learning"},
    ),
    "generator has not begun": (
        dataclasses.replace(SHORT, rows=tuple(at((10.2, 0.4200, 0.503, 0.0, 0.1484), *range(0, 300, 10)))),
        {},
    ),
    "generator still falls": (dataclasses.replace(SHORT, rows=SHORT.rows[3:]), {}),
    "undefined auc": (HEALTHY.until(12000, *at((5.307, math.nan, math.nan, 0.0, 0.2111), *LATER)), STARTED),
}


@parametrize(("curve", "expected"), CASES.values(), ids=CASES)
def test_states(curve, expected):
    assert states(curve) == expected


def test_the_loss_of_the_base_rate_is_the_entropy_of_the_labels():
    evaluation = Evaluation(1, 0, 5.0, 0.5, 0.5, 0.0, replaced_rate=0.25)
    assert evaluation.base_rate_loss == approx(0.5623351)
    assert evaluation._replace(replaced_rate=1.0).base_rate_loss == 0


@parametrize(
    ("batch_tokens", "warmup_steps", "expected"),
    [
        (2_048, 1_000, 25_000),  # 50 million tokens are 24,414 steps
        (8_192, 10_000, 21_000),  # 50 million tokens are 6,104 steps, within the warm-up
        (1_024, 1_000, None),
    ],
)
def test_no_start_is_said_when_tokens_and_steps_are_used_up(batch_tokens, warmup_steps, expected):
    waiting = tuple((step, 5.31, 0.5100, 0.525, 0.001, 0.2111) for step in range(1000, 40_001, 1000))
    curve = Curve(2048, batch_tokens, warmup_steps, (HEALTHY.rows[0], *waiting))
    assert states(curve) == ({} if expected is None else {expected: "no start within the budget"})
    late = curve.until(40_000, (41_000, 5.31, 0.4982, 0.603, 0.026, 0.2111))
    assert states(late)[41_000] == "learning"


def replay(curve, monkeypatch, first_step=0):
    """What a new callback logs of the evaluations after `first_step`, as Trainer calls it."""
    said = []
    monkeypatch.setattr(health.logger, "log", lambda level, line: said.append((level, line)))
    args = TrainingArguments("output", learning_rate=1e-3, warmup_steps=curve.warmup_steps, report_to="none")
    callback, lines = DiscriminatorHealth(curve.vocab_size), curve.log_history()
    for end, logs in enumerate(lines, start=1):
        if "eval_loss" in logs and logs["step"] > first_step:
            state = TrainerState(max_steps=33_000, log_history=lines[:end])
            callback.on_evaluate(args, state, TrainerControl())
    return said


def test_a_change_of_state_is_one_line_also_after_resuming(monkeypatch):
    curve = HEALTHY.until(12000, *at(FALLEN, 13500, 15000, 16500, 18000))
    said = replay(curve, monkeypatch)
    assert [(level, line.split(":")[0]) for level, line in said] == [
        (logging.INFO, "step 9000"),
        (logging.WARNING, "step 16500"),
    ]
    for fact in ("AUC 0.545", "recall 0.000", "0.5120", "--learning_rate (now 0.001)", "--warmup_steps (now 1000)"):
        assert fact in said[1][1]
    assert (
        replay(curve, monkeypatch, first_step=9000) == said[1:] and replay(curve, monkeypatch, first_step=16500) == []
    )


WORSE = (7.1, 0.4, 0.8, 0.3, 0.24)
BEGUN = at((7.0, 0.4058, 0.546, 0.0, 0.1443), 1000)
ENDS = {
    "learning": (HEALTHY, math.nan, "has started to learn"),
    "not yet": (SHORT, 0.54, "has not started to learn yet"),
    "collapsed discriminator": (COLLAPSING, 0.54, "the discriminator has collapsed"),
    "few evaluations, good": (
        dataclasses.replace(SHORT, rows=(*SHORT.rows[:1], *at(ALIVE, 500))),
        0.54,
        "has started",
    ),
    "few evaluations, bad": (dataclasses.replace(SHORT, rows=tuple(BEGUN)), 0.54, "too few evaluations"),
    "generator stands still": (SHORT.until(0), 0.86, "the generator stands still"),
    "generator collapsed": (
        HEALTHY.until(9000, *at((7.1, 0.4, 0.8, 0.3, 0.24), 10500)),
        0.54,
        "rose from 5.31 to 7.10",
    ),
    "generator diverged": (HEALTHY.until(9000, *at((math.nan,) * 5, 10500)), 0.54, "the generator has collapsed"),
}


@parametrize(("curve", "frequencies_auc", "words"), ENDS.values(), ids=ENDS)
def test_the_end_of_a_run_says_the_state_in_words(tmp_path, curve, frequencies_auc, words):
    args = TrainingArguments(str(tmp_path), warmup_steps=curve.warmup_steps, report_to="none")
    state = TrainerState(max_steps=33_000, log_history=curve.log_history())
    verdict = DiscriminatorHealth(curve.vocab_size).verdict(args, state, frequencies_auc)
    assert words in verdict and f"Held-out AUC {curve.rows[-1][3]:.3f}" in verdict
    assert ("frequencies" in verdict) == (not math.isnan(frequencies_auc))
