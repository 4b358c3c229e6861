"""How long a run takes: its first steps are timed, without those that compile, evaluate or save."""

import logging
from dataclasses import replace
from types import SimpleNamespace

import torch
from transformers import TrainerControl, TrainerState

from electra.pretraining import timing
from electra.pretraining.timing import FirstSteps, Timing, announce_time
from tests.helpers import parametrize


def test_a_run_of_days_on_a_cpu_says_how_to_choose_less(plan, caplog):
    caplog.set_level(logging.INFO)
    training = SimpleNamespace(device=torch.device("cpu"), budget=None)
    for steps, step, is_long in ((86_399, 0, False), (86_401, 0, True), (86_401, 10, False), (99_999, 10, True)):
        caplog.clear()
        announce_time(Timing(10, 1.0), training, replace(plan, steps=steps), step)
        line, *more = caplog.messages
        assert line.startswith("time ") and ("1 d " in line) == is_long and ("left" in line) == (step > 0)
        assert (len(more) == 1 and "--max_steps" in more[0]) if is_long else more == []
    for other in ({"budget": "3d"}, {"device": torch.device("cuda")}):
        caplog.clear()
        announce_time(Timing(10, 1.0), SimpleNamespace(**{**vars(training), **other}), replace(plan, steps=10**6))
        assert len(caplog.messages) == 1


def test_the_speed_is_in_tokens_of_a_second(plan, caplog):
    caplog.set_level(logging.INFO)
    announce_time(Timing(10, 0.5), SimpleNamespace(device=torch.device("cpu"), budget=None), plan)
    assert plan.tokens_per_step == 160 and "320 tokens/s" in caplog.text


class Steps:
    """Steps of a run, which take so many seconds on a clock of their own.

    Args:
        seconds: of a step; one that is compiled takes 90.
        compiled: numbers of the steps that are compiled.
        events: (name of a callback, number of the step behind which it is called for 50 s).
    """

    def __init__(
        self, plan, monkeypatch, *, max_steps=86_500, seconds=1.0, compiled=(), events=(), device="cpu", **kind
    ):
        self.now = 100.0
        self.compilations = 1
        self.seconds, self.compiled, self.events, self.max_steps = seconds, compiled, events, max_steps
        monkeypatch.setattr(timing, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(timing, "count_compilations", lambda: self.compilations)
        self.args = SimpleNamespace(device=torch.device(device), budget=None, world_size=kind.pop("world_size", 1))
        self.clock = FirstSteps(replace(plan, steps=max_steps), **kind)

    def take(self, steps, first=0):
        """Take steps behind `first`; return the one after which training stops, or the last one."""
        self.clock.on_train_begin(self.args, TrainerState(global_step=first), TrainerControl())
        for step in range(first + 1, first + steps + 1):
            state = TrainerState(global_step=step, max_steps=self.max_steps)
            control = TrainerControl()
            self.now += 90.0 if step in self.compiled else self.seconds
            self.compilations += step in self.compiled
            self.clock.on_step_end(self.args, state, control)
            for event, place in self.events:
                if place == step:
                    self.now += 50.0
                    getattr(self.clock, event)(self.args, state, control)
            if control.should_training_stop:
                break
        return step


@parametrize(
    ("seconds", "steps", "events", "compiled", "measured"),
    [
        (1.0, 10, [], (), None),
        (1.0, 30, [], (), "10 steps of 1 s"),
        (1.0, 14, [("on_evaluate", 3)], (), "10 steps of 1 s"),
        (1.0, 14, [("on_save", 5)], (), None),
        (15.0, 3, [], (), "2 steps of 15 s"),
        (1.0, 20, [], (1, 4), "10 steps of 1 s"),
    ],
)
def test_a_run_tells_its_time_after_its_first_steps(
    plan, caplog, monkeypatch, seconds, steps, events, compiled, measured
):
    caplog.set_level(logging.INFO)
    Steps(plan, monkeypatch, seconds=seconds, events=events, compiled=compiled).take(steps)
    if measured is None:
        assert caplog.messages == []
        return
    line, advice = caplog.messages
    assert line.startswith("time ") and measured in line and "--max_steps" in advice


@parametrize("max_steps", [2, 11])
def test_a_run_that_ends_before_its_time_is_known_tells_none(plan, caplog, monkeypatch, max_steps):
    """Or with the step after which it is known: the first one and ten that are timed."""
    caplog.set_level(logging.INFO)
    Steps(plan, monkeypatch, max_steps=max_steps).take(max_steps)
    assert caplog.messages == []


def test_a_resumed_run_tells_the_time_that_is_left(plan, caplog, monkeypatch):
    caplog.set_level(logging.INFO)
    Steps(plan, monkeypatch, max_steps=1011).take(12, first=900)
    assert "10 steps of 1 s" in caplog.messages[0] and "1 min 40 s left" in caplog.messages[0]


def test_steps_on_a_device_are_waited_for(plan, monkeypatch):
    waits = []
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda: waits.append(1))
    Steps(plan, monkeypatch, device="cuda").take(30)
    assert len(waits) == 11  # before and behind the ten that are timed
    Steps(plan, monkeypatch, device="cpu").take(30)
    assert len(waits) == 11


@parametrize(
    ("compiled", "last_step", "measured"),  # (steps, seconds of one)
    [([1], 11, (10, 1.0)), ([1, 5], 15, (10, 1.0)), ([1, 5, 14], 21, (7, 1.0)), ([1, 21], 11, (10, 1.0))],
)
def test_steps_that_are_compiled_are_not_part_of_the_time(plan, monkeypatch, compiled, last_step, measured):
    steps = Steps(plan, monkeypatch, max_steps=21, compiled=compiled, is_trial=True)
    assert steps.take(21) == last_step and steps.clock.timing == measured


def test_the_only_step_of_a_run_is_timed(plan, monkeypatch):
    steps = Steps(plan, monkeypatch, max_steps=1, is_trial=True)
    steps.take(1)
    assert steps.clock.timing == (1, 1.0)


def test_a_slow_first_step_does_not_end_a_trial(plan, monkeypatch):
    steps = Steps(plan, monkeypatch, max_steps=11, compiled=[1], is_trial=True)
    assert steps.take(11) == 11 and steps.clock.timing == (10, 1.0)


def test_processes_of_a_trial_take_the_same_steps(plan, monkeypatch):
    steps = Steps(plan, monkeypatch, max_steps=21, compiled=[4], is_trial=True, world_size=2)
    assert steps.take(21) == 21 and steps.clock.timing == (17, 1.0)
