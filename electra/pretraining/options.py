"""From a command line to the configuration of a pre-training run, and from there to steps once the data are known.

Parsing imports neither networks nor data sets, so that a wrong option is named at once.
"""

import logging
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from transformers.trainer_utils import IntervalStrategy

from electra.io.errors import UserError
from electra.io.files import CONFIGS, expand, read_options
from electra.objectives import OBJECTIVES
from electra.options import CommandLine, Values
from electra.pretraining.checks import check_together
from electra.pretraining.configuration import GROUPS, Configuration
from electra.pretraining.device import tell_choices
from electra.pretraining.resume import generator_steps_of, read_state, saved_options

logger = logging.getLogger(__name__)

QUICKSTART = CONFIGS / "pretraining" / "quickstart.yaml"
CONFIG_NAME = "config.yaml"

EVALUATIONS, CHECKPOINTS, LOG_LINES, WARM_UPS = 20, 10, 100, 10
"""A run has at least so many of each, unless the options of its steps are given; a warm-up is at most a tenth."""


def parse_arguments(argv: list[str] | None = None) -> Configuration:
    """Parse and check the options; those of the quickstart if neither a corpus nor a configuration is named."""
    command_line = CommandLine(GROUPS, "Pre-train an ELECTRA.")
    groups = command_line.parse(argv, default_config=_default_config, earlier_run=_earlier_run)
    training = groups[-1]
    record = {**command_line.record, "bf16": training.bf16}  # a run that goes on elsewhere keeps its precision
    if training.fp16:
        record["fp16"] = True
    parts: tuple[Any, ...] = (*groups, record, command_line.flags, command_line.lines)
    config = Configuration(*parts)
    tell_choices(training, {*config.flags, *config.lines})
    check_together(config)
    return config


def _default_config(flags: Values) -> str | None:
    """The file of options where none is named: that of the resumed run, or the quickstart where no corpus is named."""
    resumed = flags.get("resume_from_checkpoint")
    saved = config_of_resumed_run(resumed) if resumed else None
    if saved is not None:
        logger.info("options of %s", saved)
        return str(saved)
    if {"dataset_name", "train_file", "token_cache"} & {*flags}:
        return None
    if resumed:
        raise UserError(f"there is no {CONFIG_NAME} beside {resumed}; name the run's options with --config")
    logger.info("No corpus given: using %s. Give your own with --train_file or --dataset_name.", QUICKSTART)
    return str(QUICKSTART)


def config_of_resumed_run(resumed: str) -> Path | None:
    """The saved options of a run, which is named by its folder or by one of its checkpoints."""
    folder = Path(resumed).resolve()
    candidates = (folder / CONFIG_NAME, folder.parent / CONFIG_NAME) if folder.is_dir() else ()
    return next((path for path in candidates if path.is_file()), None)


def _earlier_run(given: Values) -> Values:
    """The options of the run whose networks this one starts from; none if they are not of a run."""
    for name in ("init_discriminator", "init_generator"):
        folder = expand(given.get(name) or "")
        if given.get(name) and folder.is_dir():
            return read_options(folder) or read_options(folder.parent) or {}
    return {}


def resolve(
    asked: Configuration, folder: Path, checkpoint: str | None, segments_per_epoch: int, has_held_out: bool
) -> Configuration:
    """The configuration with the run's folder, and with steps in place of epochs, shares of steps and defaults.

    Args:
        checkpoint: the one that is resumed.
        has_held_out: whether there is held-out text; without it, nothing is evaluated.
    """
    training = asked.training
    objective = asked.objective
    steps_per_epoch = segments_per_epoch / training.segments_per_step
    max_steps = training.max_steps
    if max_steps == -1:
        max_steps = math.ceil(training.num_train_epochs * steps_per_epoch)
    if checkpoint is not None and (step := read_state(Path(checkpoint)).global_step) > max_steps:
        raise UserError(f"{checkpoint} is at step {step}, beyond --max_steps {max_steps}; raise it")
    shortest_stage = max_steps
    has_stages = OBJECTIVES[objective.objective].has_stages
    if has_stages:
        generator_steps = generator_steps_of(objective.generator_steps, max_steps, checkpoint)
        objective = replace(objective, generator_steps=generator_steps)
        shortest_stage = min(generator_steps, max_steps - generator_steps)
    fitting = _fitting_steps(asked, max_steps, shortest_stage)
    if checkpoint is not None:
        before = saved_options(Path(checkpoint))
        fitting = {name: before.get(name, steps) for name, steps in fitting.items()}
    values: dict[str, Any] = {
        **fitting,
        "max_steps": max_steps,
        "output_dir": str(folder),
        "run_name": training.run_name or folder.name,
    }
    for event in ("eval", "save", "logging"):
        strategy = getattr(training, f"{event}_strategy")
        steps = fitting.get(f"{event}_steps", getattr(training, f"{event}_steps"))
        if strategy == IntervalStrategy.EPOCH:  # Trainer sees the whole run as one epoch
            strategy = type(strategy)("steps")
            steps = max(1, math.ceil(steps_per_epoch))
        values[f"{event}_strategy"] = strategy
        values[f"{event}_steps"] = int(steps) if steps >= 1 else math.ceil(max_steps * steps)
    if not has_held_out:
        values["eval_strategy"] = IntervalStrategy.NO
    values["eval_on_start"] = values["eval_strategy"] != IntervalStrategy.NO and checkpoint is None
    if has_stages or objective.generator_gate:  # some weights get no gradient in some steps
        values["ddp_find_unused_parameters"] = True
    return replace(
        asked, training=training.with_values(**values), objective=objective, record={**asked.record, **fitting}
    )


def _fitting_steps(asked: Configuration, max_steps: int, shortest_stage: int) -> dict[str, int]:
    """Steps of warm-up and between events, in place of defaults that are too long for the run."""
    training = asked.training
    given = asked.flags | asked.lines

    def fitting(name: str, steps: int, parts: int) -> int:
        return min(int(getattr(training, name)), math.ceil(steps / parts))

    chosen = {
        "warmup_steps": fitting("warmup_steps", shortest_stage, WARM_UPS),
        "eval_steps": fitting("eval_steps", max_steps, EVALUATIONS),
        "save_steps": fitting("save_steps", max_steps, CHECKPOINTS),
        "logging_steps": fitting("logging_steps", max_steps, LOG_LINES),
    }
    between = int(training.eval_steps or 0) if "eval_steps" in given else chosen["eval_steps"]
    if 1 <= between <= chosen["save_steps"]:  # Trainer keeps the best checkpoint only where it has been evaluated
        chosen["save_steps"] -= chosen["save_steps"] % between
    return {name: steps for name, steps in chosen.items() if name not in given}
