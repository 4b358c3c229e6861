"""The state of the discriminator on curves of real runs, on variations of them, and what a run says of it."""

import dataclasses
import json
import logging
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
from transformers import TrainerControl, TrainerState, TrainingArguments

from electra.pretraining.callbacks import health
from electra.pretraining.callbacks.health import DiscriminatorHealth, Evaluation, State, assess
from run_pretraining import main
from tests.pretraining import curves
from tests.pretraining.curves import Curve
from tests.pretraining.runs import flags, write_corpus


def states(curve: Curve) -> dict[int, State]:
    """The state after each evaluation, by step, where it changes."""
    evaluations, changes = curve.evaluations(), {}
    before: State = "not started"
    for end, last in enumerate(evaluations, start=1):
        now = assess(evaluations[:end], vocab_size=curve.vocab_size, warmup_steps=curve.warmup_steps)
        if now != before:
            changes[last.step] = now
        before = now
    return changes


def with_rows(curve: Curve, *rows: tuple[float, ...], until: float = math.inf) -> Curve:
    """The curve up to a step, then other rows."""
    return dataclasses.replace(curve, rows=(*(row for row in curve.rows if row[0] <= until), *rows))


@pytest.mark.parametrize(
    ("curve", "expected"),
    [
        (curves.QUICKSTART, {1750: "learning"}),
        (curves.QUICKSTART_FAST, {1750: "collapsed"}),
        (curves.QUICKSTART_OF_THE_DOCS, {2000: "learning"}),
        (curves.GLUE_CPU, {9000: "learning"}),
        (curves.GLUE_CPU_FAST, {7500: "collapsed"}),
        (curves.SMALL, {}),
        (curves.SMALL_FAST, {1250: "collapsed"}),
        (curves.TINY_CPU, {}),
        *((curve, {}) for curve in curves.SHORT),
    ],
)
def test_states_of_real_runs(curve: Curve, expected: dict[int, State]) -> None:
    assert states(curve) == expected


@pytest.mark.parametrize("every", [2, 4])
def test_a_healthy_run_is_never_warned_of_however_seldom_it_is_evaluated(every: int) -> None:
    for curve in (curves.QUICKSTART, curves.GLUE_CPU, curves.SMALL):
        thinned = dataclasses.replace(curve, rows=curve.rows[::every])
        assert set(states(thinned).values()) <= {"learning"}


def test_the_loss_of_the_base_rate_is_the_entropy_of_the_labels_in_nats() -> None:
    evaluation = Evaluation(1, 0, 5.0, 0.5, auc=0.5, recall=0.0, replaced_rate=0.25, tokens=100.0)
    assert evaluation.base_rate_loss == pytest.approx(0.5623351)
    assert evaluation.gain == pytest.approx(0.0623351)
    for rate in (0.0, 1.0):
        assert dataclasses.replace(evaluation, replaced_rate=rate).base_rate_loss == 0


FALLEN = (5.307, 0.5120, 0.545, 0.000, 0.2111)
"""Of glue_cpu, as before its start."""


def test_falling_back_after_a_start_is_a_collapse_once_it_stays() -> None:
    rows = [(step, *FALLEN) for step in (13500, 15000, 16500, 18000)]
    assert states(with_rows(curves.GLUE_CPU, *rows[:2], until=12000)) == {9000: "learning"}
    assert states(with_rows(curves.GLUE_CPU, *rows, until=12000)) == {9000: "learning", 16500: "collapsed"}


def test_the_same_numbers_before_a_start_are_no_collapse() -> None:
    rows = [(step, *FALLEN) for step in range(6000, 23000, 1500)]
    assert states(with_rows(curves.GLUE_CPU, *rows, until=4500)) == {}


def test_a_loss_at_the_base_rate_is_no_collapse_while_auc_is_that_of_frequencies() -> None:
    rows = [(step, 5.307, 0.5150, 0.525, 0.000, 0.2111) for step in range(6000, 23000, 1500)]
    assert states(with_rows(curves.GLUE_CPU, *rows, until=4500)) == {}


@pytest.mark.parametrize("value", [(5.307, 0.5120, 0.570, 0.0), (5.307, 0.5, 0.545, 0.0), (5.307, 0.5120, 0.545, 0.1)])
def test_a_collapse_takes_auc_loss_and_recall(value: tuple[float, ...]) -> None:
    rows = [(step, *value, 0.2111) for step in range(13500, 23000, 1500)]
    assert states(with_rows(curves.GLUE_CPU, *rows, until=12000)) == {9000: "learning"}


def test_a_dip_is_no_collapse_however_often_it_is_evaluated() -> None:
    dip = [(step, *FALLEN) for step in range(12100, 12900, 100)]
    back = [(step, 5.306, 0.4854, 0.650, 0.045, 0.2111) for step in range(12900, 15000, 100)]
    assert states(with_rows(curves.GLUE_CPU, *dip, *back, until=12000)) == {9000: "learning"}


@pytest.mark.parametrize("between", [(5.306, 0.4854, 0.650, 0.045, 0.2111), (5.306, 0.5080, 0.570, 0.010, 0.2111)])
def test_two_dips_do_not_add_up(between: tuple[float, ...]) -> None:
    rows = [(12500, *FALLEN), (13500, *between), (15000, *FALLEN)]
    assert states(with_rows(curves.GLUE_CPU, *rows, until=12000)) == {9000: "learning"}


def test_evaluating_again_at_the_same_step_makes_no_collapse() -> None:
    rows = [(13500, *FALLEN), (13500, *FALLEN), (13500, *FALLEN)]
    assert states(with_rows(curves.GLUE_CPU, *rows, until=12000)) == {9000: "learning"}


def test_a_collapsed_discriminator_that_learns_again_is_learning() -> None:
    rows = [(9000, 5.6, 0.3600, 0.62, 0.05, 0.1254)]
    assert states(with_rows(curves.GLUE_CPU_FAST, *rows)) == {7500: "collapsed", 9000: "learning"}


def test_before_the_generator_has_learned_anything_there_is_no_collapse() -> None:
    """A long warm-up: the discriminator has found the base rate, the generator is where it began."""
    rows = tuple((step, 10.34 - step / 1e3, 0.4200, 0.503, 0.0, 0.1484) for step in range(0, 300, 10))
    assert states(dataclasses.replace(curves.SMALL, rows=rows)) == {}


def test_a_run_whose_first_evaluation_is_late_is_judged_at_twice_as_many_steps() -> None:
    """Nothing says how fast its generator was learning: AUC .611 at step 750 is no start."""
    assert states(dataclasses.replace(curves.SMALL, rows=curves.SMALL.rows[3:])) == {}
    assert states(dataclasses.replace(curves.GLUE_CPU, rows=curves.GLUE_CPU.rows[6:])) == {18000: "learning"}


def test_too_few_replaced_tokens_decide_nothing() -> None:
    for curve in (curves.GLUE_CPU, curves.GLUE_CPU_FAST):
        assert states(dataclasses.replace(curve, eval_tokens=4_000)) == {}


def test_an_undefined_auc_decides_nothing() -> None:
    rows = [(step, 5.307, math.nan, math.nan, 0.0, 0.2111) for step in (13500, 15000)]
    assert states(with_rows(curves.GLUE_CPU, *rows, until=12000)) == {9000: "learning"}


@pytest.mark.parametrize(
    ("batch_tokens", "warmup_steps", "expected"),
    [
        (2_048, 1_000, 25_000),  # 50 million tokens are 24,414 steps
        (8_192, 1_000, 21_000),  # 50 million tokens are 6,104 steps, but 20,000 after warm-up are due
        (8_192, 10_000, 30_000),
        (1_024, 1_000, None),
    ],
)
def test_never_leaving_the_base_rate_is_said_when_tokens_and_steps_are_used_up(
    batch_tokens: int, warmup_steps: int, expected: int | None
) -> None:
    waiting = tuple((step, 5.31, 0.5100, 0.525, 0.001, 0.2111) for step in range(1000, 40_001, 1000))
    curve = Curve(2048, batch_tokens, warmup_steps, (curves.GLUE_CPU.rows[0], *waiting))
    assert states(curve) == ({} if expected is None else {expected: "no start within the budget"})
    late = with_rows(curve, (41_000, 5.31, 0.4982, 0.603, 0.026, 0.2111))
    assert states(late)[41_000] == "learning"


# ---- the callback


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.said: list[tuple[int, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append((record.levelno, record.getMessage()))


def replay(curve: Curve, folder: Path, first_step: int = 0, main_process: bool = True) -> list[tuple[int, str]]:
    """What a new callback says of the evaluations after `first_step`, as Trainer calls it."""
    args = TrainingArguments(str(folder), learning_rate=1e-3, warmup_steps=curve.warmup_steps, report_to="none")
    callback, lines, history = DiscriminatorHealth(curve.vocab_size), Lines(), curve.log_history()
    health.logger.addHandler(lines)
    level = health.logger.level
    health.logger.setLevel(logging.INFO)
    try:
        for end, logs in enumerate(history, start=1):
            if "eval_loss" in logs and logs["step"] > first_step:
                state = TrainerState(max_steps=33_000, log_history=history[:end], is_world_process_zero=main_process)
                callback.on_evaluate(args, state, TrainerControl(), metrics=logs)
    finally:
        health.logger.removeHandler(lines)
        health.logger.setLevel(level)
    return lines.said


def test_a_start_is_information_in_one_line(tmp_path: Path) -> None:
    assert replay(curves.GLUE_CPU, tmp_path) == [
        (
            logging.INFO,
            "step 9000: the discriminator has started to learn: held-out AUC 0.603, recall 0.026, loss 0.4982 where "
            "the base rate alone gives 0.5155",
        )
    ]


def test_a_collapse_is_one_warning_that_says_what_to_try(tmp_path: Path) -> None:
    longer = with_rows(curves.GLUE_CPU_FAST, *((step, *curves.GLUE_CPU_FAST.rows[-1][1:]) for step in (9000, 10500)))
    ((level, line),) = replay(longer, tmp_path)
    assert level == logging.WARNING
    assert line.startswith("step 7500: the discriminator has collapsed") and "AUC 0.511" in line and "\n" not in line
    advised = ("--learning_rate (now 0.001)", "--generator_size", "batch", "--warmup_steps (now 1000)", "deberta-v2")
    for advice in advised:
        assert advice in line


def test_a_resumed_run_says_what_the_uninterrupted_one_says_from_there_on(tmp_path: Path) -> None:
    rows = [(step, *FALLEN) for step in (13500, 15000, 16500, 18000)]
    curve = with_rows(curves.GLUE_CPU, *rows, until=12000)
    said = replay(curve, tmp_path)
    assert [line.split(":")[0] for _, line in said] == ["step 9000", "step 16500"]
    assert replay(curve, tmp_path, first_step=7500) == said
    assert replay(curve, tmp_path, first_step=9000) == replay(curve, tmp_path, first_step=13500) == said[1:]
    assert replay(curve, tmp_path, first_step=16500) == []


def test_other_processes_are_silent(tmp_path: Path) -> None:
    assert replay(curves.GLUE_CPU_FAST, tmp_path, main_process=False) == []


@pytest.mark.parametrize(
    ("curve", "words"),
    [
        (curves.QUICKSTART, "has started to learn"),
        (curves.SMALL, "has not started to learn yet"),
        (curves.GLUE_CPU_FAST, "has collapsed"),
        (dataclasses.replace(curves.SMALL, rows=curves.SMALL.rows[:1]), "too early to say"),
    ],
)
def test_the_end_of_a_run_says_the_state_in_words(curve: Curve, words: str, tmp_path: Path) -> None:
    args = TrainingArguments(str(tmp_path), warmup_steps=curve.warmup_steps, report_to="none")
    state = TrainerState(max_steps=33_000, log_history=curve.log_history())
    assert words in DiscriminatorHealth(curve.vocab_size).verdict(args, state)
    assert DiscriminatorHealth(curve.vocab_size).verdict(args, TrainerState(max_steps=33_000)) == ""


# ---- whole runs


def alarms(text: str) -> list[str]:
    return [line for line in text.splitlines() if "the discriminator has" in line]


def test_a_whole_run_too_short_to_judge_says_nothing_alarming(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_corpus(tmp_path / "corpus.txt")
    main(flags(tmp_path, eval_steps=1))
    said = capsys.readouterr().out
    assert said.count(": held-out  loss") == 13
    assert alarms(said) == []
    assert said.splitlines()[-1].startswith("step 12: too early to say whether the discriminator learns")


def test_a_whole_run_beyond_the_budget_is_warned_of_once_and_not_again_when_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    budget: dict[str, Any] = {"NO_START_TOKENS": 4 * 4 * 16, "NO_START_STEPS": 4, "MIN_REPLACED": 1}
    for name, value in {**budget, "SETTLED_BELOW_UNIFORM": -math.inf, "START_GAIN": math.inf}.items():
        monkeypatch.setattr(health, name, value)
    write_corpus(tmp_path / "corpus.txt")
    main(flags(tmp_path))  # warm-up 2, evaluations at 0, 6 and 12, the tokens of step 4 logged
    line, last = alarms(capsys.readouterr().out)
    assert line.startswith("step 6: the discriminator has not started to learn in 256 tokens: held-out AUC 0.")
    assert last.startswith("step 12: the discriminator has not started to learn in ")
    run = tmp_path / "output" / "run"
    shutil.rmtree(run / "checkpoint-12")
    main(flags(tmp_path, resume_from_checkpoint=run / "checkpoint-8"))
    said = capsys.readouterr().out
    assert "step 12: held-out" in said and len(alarms(said)) == 1
    history = json.loads((run / "checkpoint-12" / "trainer_state.json").read_text())["log_history"]
    assert [evaluation.step for evaluation in health.evaluations_of(history)] == [0, 6, 12]
