"""Ten steps before a run: --plan logs their time, --budget computes the run's number of steps from this time.

The networks that take the ten steps are thrown away: the run starts from fresh ones and its own random state.
"""

import gc
import logging
import math
import sys
import tempfile
import time
from dataclasses import replace

import torch
from accelerate.utils import broadcast_object_list
from transformers.trainer_utils import IntervalStrategy, SaveStrategy, SchedulerType

from electra.base.console import format_bytes, format_seconds
from electra.base.parser import as_flags
from electra.model.joint import ElectraForJointPretraining
from electra.pretraining.configuration import FEWEST, Configuration, seconds_of
from electra.pretraining.data import PretrainingData
from electra.pretraining.model import prepare_model
from electra.pretraining.plan import MOST_EPOCHS, Plan, make_plan
from electra.pretraining.run_folder import Run, provenance_of
from electra.pretraining.timing import TIMED_STEPS, FirstSteps, Timing, announce_time
from electra.pretraining.trainer import ElectraTrainer

logger = logging.getLogger(__name__)


def announce_cost(
    args: Configuration,
    model: ElectraForJointPretraining,
    data: PretrainingData,
    plan: Plan,
    timing: Timing | None = None,
) -> None:
    """Log how long a run will take and its peak memory, for --plan.

    With --device_flops, which is that of another device, the time is computed from the plan.

    Args:
        timing: the time of steps that --budget has measured; None to let the model take ten steps now.
    """
    training = args.training
    if training.device_flops is not None:
        duration = format_seconds(plan.flops / (training.device_flops * training.utilization))
        logger.info(
            f"elsewhere      about {duration} at {training.utilization:.0%} of {training.device_flops:.3g} FLOP/s, by "
            "6NT and attention; without evaluations and checkpoints"
        )
        return
    if timing is None:
        timing, _ = time_steps(args, model, data, plan)
    announce_time(timing, training, plan)
    if training.device.type == "cuda":
        logger.info("               peak memory %s", format_bytes(torch.cuda.max_memory_allocated()))
    elif sys.platform == "linux":
        import resource  # not on Windows; other systems count in other units

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        logger.info("               peak memory %s, of the whole process", format_bytes(peak))


def time_steps(
    args: Configuration, model: ElectraForJointPretraining, data: PretrainingData, plan: Plan
) -> tuple[Timing, float]:
    """Return the time of training steps that a model takes in a temporary folder, and the seconds of an evaluation.

    The longest steps are timed: a gate, which needs evaluations, is open, and stages change after the first step. The
    seconds are those of a few held-out segments, scaled up to all; 0 without --budget or without evaluations.
    """
    training = args.training
    clock = FirstSteps(plan, is_trial=True)
    held_out = [] if data.evaluation is None else [data.evaluation, *data.more_evaluations.values()]
    batches = 1 if training.device.type == "cpu" else 10  # so that the start of the loader's processes counts little
    few_segments = training.eval_batch_size * training.world_size * batches
    few_data = replace(data, more_evaluations={})
    if data.evaluation is not None:
        few_data = replace(few_data, evaluation=replace(data.evaluation, max_segments=few_segments))
    most_steps = 1 + TIMED_STEPS * (2 if training.torch_compile else 1)  # a second graph begins the ten steps anew
    seconds = 0.0
    logging.disable(logging.INFO)
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            short_training = training.with_values(
                max_steps=min(most_steps, training.max_steps),
                output_dir=f"{folder}/run",  # its lock lies beside it
                logging_strategy=IntervalStrategy.NO,
                eval_strategy=IntervalStrategy.NO,
                eval_on_start=False,
                save_strategy=SaveStrategy.NO,
                init_checkpoint=None,
                report_to=[],
                lr_scheduler_type=SchedulerType.CONSTANT_WITH_WARMUP,  # others may not fit so few steps
                disable_tqdm=not sys.stderr.isatty(),
            )
            generator_steps = args.objective.generator_steps and 1  # None and 0, without stages, stay
            objective = replace(args.objective, generator_gate=[], generator_steps=generator_steps)
            trainer = ElectraTrainer(
                model,
                short_training,
                few_data,
                callbacks=[clock],
                objective=objective,
                provenance=provenance_of({}, data.text_provenance, training.segments_per_step),
            )
            if training.device.type == "cuda":
                torch.cuda.reset_peak_memory_stats()
            trainer.train(resume_from_checkpoint=False)
            if training.budget and training.eval_strategy != "no" and held_out:
                trainer.evaluate()  # a GPU loads its kernels at their first use
                started = time.monotonic()
                trainer.evaluate()
                seconds = (time.monotonic() - started) * sum(map(len, held_out)) / len(few_data.evaluation or [])
    finally:
        logging.disable(logging.NOTSET)
    del trainer
    gc.collect()  # gradients and moments, before the run makes its own
    assert clock.timing is not None
    return clock.timing, seconds


# ---- a budget of time

OVERHEAD = 0.05
"""Share of a --budget that checkpoints and the export take."""
EVALUATION_SHARE = 0.1
"""Share of a --budget for evaluations, unless the two before the first and after the last step take longer."""


def fit_to_budget(args: Configuration, run: Run, data: PretrainingData) -> tuple[Configuration, Timing]:
    """Return the configuration with the numbers of steps that fit into --budget, and the time of the steps.

    The numbers are those of all steps, and of the steps between evaluations. Ten steps are timed, of networks that are
    thrown away.
    """
    resolved, model = prepare_model(args, run, data)
    plan = make_plan(resolved.training, model, data)
    timing, seconds_per_evaluation = time_steps(resolved, model, data, plan)
    return with_budget(args, plan, timing.seconds_per_step, seconds_per_evaluation), timing


def with_budget(
    args: Configuration, plan: Plan, seconds_per_step: float, seconds_per_evaluation: float
) -> Configuration:
    """Return the configuration with the numbers of steps that fit into --budget by these times, and log them.

    A tenth of the time is left for evaluations, at least for those before the first step and after the last one. The
    others are thinned out to fit, unless the user or a gate decides when they are. Text is repeated `MOST_EPOCHS`
    times at most.
    """
    seconds = seconds_of(str(args.training.budget))
    evaluations = max(2, int(EVALUATION_SHARE * seconds / seconds_per_evaluation)) if seconds_per_evaluation else 0
    are_evaluations_fixed = bool({"eval_steps", "eval_strategy"} & args.given or args.objective.generator_gate)
    if not are_evaluations_fixed:
        evaluations = min(evaluations, 1 + FEWEST["eval_steps"])
    affordable_steps = int((seconds * (1 - OVERHEAD) - evaluations * seconds_per_evaluation) / seconds_per_step)
    useful_steps = MOST_EPOCHS * plan.segments_per_epoch // plan.batch_size
    if useful_steps < affordable_steps:
        logger.warning(
            "the text lasts for %d epochs, or %d steps, less than the time: add text", MOST_EPOCHS, useful_steps
        )
    values = {"max_steps": max(1, min(affordable_steps, useful_steps))}
    if evaluations and not are_evaluations_fixed:
        values["eval_steps"] = math.ceil(values["max_steps"] / (evaluations - 1))
    (values,) = broadcast_object_list([values])
    size = {} if args.starts_from_trained else {"model_size": args.model.model_size}
    logger.info("budget         %s: %s", format_seconds(seconds), " ".join(as_flags({**size, **values})))
    return replace(
        args,
        training=args.training.with_values(**values, given=args.given | values.keys()),
        record={**args.record, **values},
        unused=args.unused - values.keys(),
    )
