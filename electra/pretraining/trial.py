"""A few steps of a run before it starts: their time says how long the run takes, and chooses steps and threads.

The networks that a trial has trained are thrown away: the run starts from fresh ones and its own random state.
"""

import logging
import math
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from accelerate.utils import broadcast_object_list
from transformers import TrainerCallback, TrainerState
from transformers.trainer_utils import IntervalStrategy, SaveStrategy, SchedulerType

from electra.data.segments import SegmentCollator, TrainingSegments
from electra.io.console import format_bytes, format_seconds
from electra.model.joint import ElectraForJointPretraining
from electra.pretraining.configuration import MOST, Configuration, ElectraTrainingArguments, seconds_of
from electra.pretraining.data import PretrainingData
from electra.pretraining.device import count_compilations, dtype_of
from electra.pretraining.plan import MOST_EPOCHS, Plan
from electra.pretraining.run_folder import Run
from electra.runtime.device import computing, has_amx, measure_matmul_flops, tune_networks
from electra.runtime.threads import choose_threads, most_threads, threads_of_user

logger = logging.getLogger(__name__)

TRIAL_STEPS = 10
"""Steps of a trial that are timed, after one for warm-up."""
TRIAL_SECONDS = 20.0
"""Seconds after which a trial of a single process ends, with the steps that it has."""
RECIPE_FLOPS = {"tiny": 5.5e14, "mini": 7.1e15, "small": 1.2e18, "base": 6.7e19, "large": 9.1e20}
"""Recipe -> FLOPs of all its steps by 6 N T and attention."""
MEASURED_UTILIZATION = {
    "float32": {"tiny": 0.42, "mini": 0.47, "small": 0.54, "base": 0.70},
    "bfloat16": {"small": 0.44, "base": 0.59},
    "bfloat16 with AMX": {"tiny": 0.09, "mini": 0.10, "small": 0.14, "base": 0.21},
}
"""Type of matrix products -> recipe -> share of the rate of a large matrix product that training reaches on CPUs.
Sources: docs/results.md for small and base, docs/log.md for the others."""
UNMEASURED_UTILIZATION = 0.25
"""Share of the rate of a large matrix product that training reaches where nothing was measured, as on GPUs: an
estimate."""
OVERHEAD = 0.05
"""Share of a --budget that checkpoints and the export take."""
EVALUATION_SHARE = 0.1
"""Share of a --budget for evaluations, unless the two before the first and after the last step take longer."""
TRIAL_BATCHES = 10
"""Batches of a trial's evaluation on a GPU, so that the start of the loader's processes counts little."""
LONG = 86_400.0
"""Seconds of a run on a CPU from which a line advises a smaller one: a day."""


class Trial(NamedTuple):
    """The measurements of a trial: the time of a step and, if it was measured, of an evaluation."""

    steps: int
    seconds_per_step: float
    seconds_per_evaluation: float = 0.0
    """Seconds of an evaluation of all held-out texts; 0 without one, or if it was not measured."""


class Clock(TrainerCallback):
    """A callback that measures the seconds of a step, without the first one unless it is the only one.

    After a step in which something was compiled, such as the second graph, for batches with padding, the measurement
    begins anew. The host waits for the device at the beginning and the end of a measurement, and not in between.
    """

    def __init__(self) -> None:
        self.since = time.monotonic()
        """Time at the end of the step before those that are timed, in seconds."""
        self.first = 0
        self.compilations = count_compilations()
        self.steps = 1
        self.seconds_per_step = 0.0

    def on_step_end(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        step = state.global_step
        compilations = count_compilations()
        begins = step == 1 or compilations != self.compilations
        self.compilations = compilations
        # Several processes must stop after the same step.
        may_end = args.world_size == 1 and not begins
        is_late = may_end and time.monotonic() - self.since > TRIAL_SECONDS
        ends = step >= state.max_steps or is_late or (may_end and step - self.first >= TRIAL_STEPS)
        if not begins and not ends:
            return
        if args.device.type != "cpu":
            torch.accelerator.synchronize()
        now = time.monotonic()
        if ends or step == 1:  # the first step may be the only one
            self.steps = step - self.first
            self.seconds_per_step = (now - self.since) / self.steps
        if begins:
            self.since = now
            self.first = step
        control.should_training_stop = control.should_training_stop or ends


class FirstSteps(TrainerCallback):
    """A callback that logs after the first steps how long the run will take, where no trial has measured that."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.compilations = count_compilations()
        self.since: float | None = None
        """Time at the end of the step before those that are timed, in seconds."""
        self.first = 0
        self.is_done = False

    def on_step_end(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        if self.is_done:
            return
        if args.device.type != "cpu":
            torch.accelerator.synchronize()
        now = time.monotonic()
        compilations = count_compilations()
        if self.since is None or compilations != self.compilations:
            self.compilations = compilations
            self.since = now
            self.first = state.global_step
        steps = state.global_step - self.first
        is_enough = steps >= TRIAL_STEPS or (steps > 0 and now - self.since > TRIAL_SECONDS)
        self.is_done = is_enough or state.global_step >= state.max_steps
        if is_enough and state.global_step < state.max_steps:
            trial = Trial(steps, (now - self.since) / steps)
            announce_trial(trial, args, self.plan, state.global_step, what="first steps")

    def on_evaluate(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        self.since = None  # the time of an evaluation is no step's

    def on_save(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        self.since = None


def shows_time(training: ElectraTrainingArguments) -> bool:
    """Return True if a few steps are timed before a run even without --plan and --budget.

    Compiling a step takes longer than these steps, and several processes would have to wait for each other. In these
    cases, `FirstSteps` times steps of the run itself.
    """
    return training.world_size == 1 and not (training.torch_compile or training.fsdp or training.deepspeed)


def trial_arguments(args: Configuration, folder: str, steps: int) -> Configuration:
    """Return the options of a run of `steps` steps in another folder, without evaluations and checkpoints.

    One step is added for warm-up; for steps that are compiled again, the run has up to twice as many.
    """
    most = 2 * steps if args.training.torch_compile else steps
    training = args.training.with_values(
        max_steps=min(most + 1, args.training.max_steps),
        output_dir=folder,
        logging_strategy=IntervalStrategy.NO,
        eval_strategy=IntervalStrategy.NO,
        eval_on_start=False,
        save_strategy=SaveStrategy.NO,
        init_checkpoint=None,
        report_to=[],
        lr_scheduler_type=SchedulerType.CONSTANT_WITH_WARMUP,  # others may not fit so few steps
        disable_tqdm=not sys.stderr.isatty(),
    )
    # The longest steps are measured: a gate, which needs evaluations, is open, and stages change after the first step.
    objective = replace(args.objective, generator_gate=[], generator_steps=args.objective.generator_steps and 1)
    return replace(args, training=training, objective=objective)


def announce_trial(
    trial: Trial, training: ElectraTrainingArguments, plan: Plan, step: int = 0, what: str = "trial"
) -> None:
    """Log the speed that a trial has measured, and the time that the run will take.

    Args:
        step: number of steps that the run has taken already.
        what: first word of the line.
    """
    rate = plan.tokens_per_step / trial.seconds_per_step
    seconds = trial.seconds_per_step * (plan.steps - step)
    logger.info(
        f"{what:<14} {trial.steps} steps of {trial.seconds_per_step:.3g} s, {rate:,.0f} tokens/s with padding: "
        f"about {format_seconds(seconds)} without evaluations and checkpoints"
    )
    if seconds > LONG and training.device.type == "cpu" and not training.budget:
        less = "fewer --max_steps" if step else "--budget 2h, --model_size tiny, or fewer --max_steps"
        logger.warning("this is long for a CPU; for less, give %s", less)


def announce_elsewhere(plan: Plan, device_flops: float, utilization: float) -> None:
    """Log the time that the run would take on another device.

    Args:
        device_flops: peak rate of the device in FLOP/s.
        utilization: share of the peak rate that training reaches.
    """
    duration = format_seconds(plan.flops / (device_flops * utilization))
    logger.info(
        f"elsewhere      about {duration} at {utilization:.0%} of {device_flops:.3g} FLOP/s, by 6NT and attention; "
        "without evaluations and checkpoints"
    )


def announce_memory(training: ElectraTrainingArguments) -> None:
    """Log the peak memory of a trial."""
    if training.device.type == "cuda":
        logger.info("               peak memory %s", format_bytes(torch.cuda.max_memory_allocated()))
    elif sys.platform == "linux":
        import resource  # not on Windows; other systems count in other units

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        logger.info("               peak memory %s, of the whole process", format_bytes(peak))


# ---- a budget of time


def recipe_for(training: ElectraTrainingArguments) -> str:
    """Return the largest recipe whose steps fit into --budget at the rate of a large matrix product, or else tiny."""
    dtype = dtype_of(training)
    kind = str(dtype).removeprefix("torch.") if training.device.type == "cpu" else ""
    if kind == "bfloat16" and has_amx():
        kind = "bfloat16 with AMX"
    utilization = MEASURED_UTILIZATION.get(kind, {})
    flops = seconds_of(str(training.budget)) * measure_matmul_flops(training.device, dtype)
    fitting = ["tiny"]
    for name, needed in RECIPE_FLOPS.items():
        if needed <= flops * utilization.get(name, UNMEASURED_UTILIZATION):
            fitting.append(name)
    (recipe,) = broadcast_object_list(fitting[-1:])
    return str(recipe)


def fit_to_budget(asked: Configuration, trial: Trial, plan: Plan) -> Configuration:
    """Return the options with the numbers of steps, in all and between evaluations, that fit into --budget.

    The times are those of a trial. Text is repeated 40 times at most.
    """
    seconds = seconds_of(str(asked.training.budget))
    useful = MOST_EPOCHS * plan.segments_per_epoch // plan.batch_size
    affordable, evaluations = _affordable(asked, seconds, trial, plan)
    if useful < affordable:
        logger.warning("the text lasts for %d epochs, or %d steps, less than the time: add text", MOST_EPOCHS, useful)
    (steps, evaluations) = broadcast_object_list([max(1, min(affordable, useful)), evaluations])
    values = {"max_steps": steps}
    line = f"{format_seconds(seconds)}: --model_size {asked.model.model_size} --max_steps {steps}"
    if evaluations is not None:
        values["eval_steps"] = math.ceil(steps / max(1, evaluations - 1))
        line += f" --eval_steps {values['eval_steps']}"
    if trial.seconds_per_evaluation:
        line += f"; an evaluation takes {format_seconds(trial.seconds_per_evaluation)}"
    logger.info("budget         %s", line)
    return replace(
        asked,
        training=asked.training.with_values(**values),
        record={**asked.record, **values},
        unused=asked.unused - values.keys(),
        chosen=frozenset(values),
    )


def _affordable(asked: Configuration, seconds: float, trial: Trial, plan: Plan) -> tuple[int, int | None]:
    """Return the number of steps that fit into the time, and the number of evaluations, None for the usual number.

    There is an evaluation before the first step and after the last one. The others are thinned out if they would take
    more than a tenth of the time, but not if the user chose the steps between them, or if a gate needs them.
    """
    training = asked.training
    available = seconds * (1 - OVERHEAD)
    each = trial.seconds_per_evaluation
    most = available / trial.seconds_per_step
    if not each:
        return int(most), None
    interval = float(training.eval_steps or 0)
    is_given = asked.is_given("eval_steps")
    if training.eval_strategy == "epoch":
        interval = plan.segments_per_epoch / plan.batch_size
        is_given = True
    if is_given and interval >= 1:
        return int((available - 2 * each) / (trial.seconds_per_step + each / interval)), None
    usual = math.ceil(1 / interval) if is_given else max(MOST["eval_steps"], math.ceil(most / interval))
    count = usual + 1
    if not is_given and not asked.objective.generator_gate:
        count = min(count, max(2, int(EVALUATION_SHARE * seconds / each)))
    steps = int((available - count * each) / trial.seconds_per_step)
    return steps, None if count == usual + 1 else count


# ---- the number of threads


def set_threads(args: Configuration, run: Run, model: ElectraForJointPretraining, data: PretrainingData) -> int | None:
    """Let torch use the run's number of threads, and return this number; None on a GPU, unless it is given."""
    training = args.training
    recorded = run.options.get("threads")
    if training.device.type != "cpu":  # which computes little on the cores
        return training.threads or recorded
    given = training.threads if "threads" in args.flags else threads_of_user() or training.threads
    if given and recorded and given != recorded:
        logger.warning(
            f"threads        {given} instead of {recorded}: rounding differs, so the result is not bit-equal to that "
            "of an uninterrupted run"
        )
    number = given or recorded
    is_elsewhere = training.device_flops is not None  # only a plan for another device
    is_compound = training.torch_compile or training.fsdp or training.deepspeed  # its step cannot be taken by itself
    if number is None and not (run.checkpoint or is_elsewhere or is_compound):
        seconds = seconds_of(training.budget) if training.budget else None
        with computing(training.device):
            return choose_threads(make_step(args, model, data), steps=training.max_steps, seconds=seconds)
    number = number or most_threads()
    torch.set_num_threads(number)
    return number


def make_step(args: Configuration, model: ElectraForJointPretraining, data: PretrainingData) -> Callable[[], None]:
    """Return a function that does forward and backward pass of the first batch without changing weights."""
    training = args.training
    tokenizer = data.tokenizer
    collator = SegmentCollator(tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id)
    size = training.train_batch_size
    segments = TrainingSegments(data.policy, num_samples=size, seed=training.seed)
    batch: dict[str, Any] = collator(segments.__getitems__(list(range(size))))
    tune_networks(model)
    model.train()

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=bool(training.bf16)):
            loss = model(**batch).loss
        loss.backward()
        model.zero_grad(set_to_none=True)

    return step
