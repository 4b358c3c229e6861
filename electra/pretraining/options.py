"""From a command line to the configuration of a pre-training run, and from there to steps once the data are known.

Parsing builds no network and opens no data, so that a wrong option is named at once. `PRETRAINING_NEEDS` holds
conditions of options that would silently do nothing, or train or measure something else than was asked; conditions of
one subject are beside its options. A rule of one option alone, its range, is beside the option.
"""

import logging
import math
import re
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from transformers.trainer_utils import IntervalStrategy
from typing_extensions import TypedDict

from electra.base.checkpoints import PROVENANCE_NAME, TAKE_NETWORKS, checkpoint_named
from electra.base.command_line import CommandLine
from electra.base.errors import where_is
from electra.base.files import CONFIGS, expand, read_json, run_options
from electra.base.options import Need, Values, never
from electra.core.errors import UserError
from electra.core.objectives import OBJECTIVES, unread_options
from electra.core.options import options_with
from electra.core.recipes import RECIPES
from electra.core.schedules import check_schedule, stage_lengths
from electra.data import options as data_options
from electra.data.options import TEXT_OPTIONS, held_out_texts
from electra.model import options as model_options
from electra.model.options import ObjectiveArguments, check_objective, given_objective
from electra.pretraining import configuration
from electra.pretraining.configuration import (
    CONFIG_NAME,
    FEWEST,
    GROUPS,
    NOT_USED,
    OF_OPTIMIZER,
    Configuration,
    ElectraTrainingArguments,
    seconds_of,
)
from electra.tokenizers import options as tokenizer_options

if TYPE_CHECKING:
    from electra.pretraining.run_folder import Run

logger = logging.getLogger(__name__)

QUICKSTART = CONFIGS / "pretraining" / "quickstart.yaml"
"""Options of `electra pretrain` where neither a corpus nor a configuration is named."""
SIZED = {"model_size", "hidden_size", "init_discriminator", "init_generator", "init_checkpoint"}
"""Options that say how large the networks are; beside one of them, --budget does not choose a recipe."""
OF_LENGTH = {"budget", "max_steps", "num_train_epochs", "auto_resume", "resume_from_checkpoint", "device_flops"}
"""Options that say how long a run is, or that a run goes on or computes elsewhere."""
DEFAULT_BUDGET = "1h"
"""The --budget of a run on a CPU without a size, a length and a file of options. ELECTRA-Small would take months."""
BUDGET_SIZES = {
    "cpu": {5: "tiny", 30: "mini", math.inf: "small"},
    "accelerator": {24: "small", math.inf: "base"},
}
"""Kind of device -> hours -> recipe for a --budget of less than these hours."""
MANY_SEGMENTS = 2**40
"""Segments of an epoch while the text is unread: more than any text has."""
WARM_UP_PARTS = 10
"""The default warm-up takes at most one of this many parts of the shortest stage."""

# ---- options that do not go together


def _evaluates(options: Any) -> bool:
    return options.eval_strategy != "no" and (options.validation_fraction > 0 or bool(options.validation_file))


PRETRAINING_NEEDS: list[Need] = [
    *model_options.MODEL_NEEDS,
    *data_options.DATA_NEEDS,
    *tokenizer_options.PATH_NEEDS,
    *tokenizer_options.TOKENIZER_NEEDS,
    *configuration.TRAINING_NEEDS,
    Need(
        ("eval_corruption",),
        lambda o: given_objective(o, None).finds_replaced and not given_objective(o, None).is_energy_based,
        "--objective {objective} trains no network to find replaced tokens",
    ),
    Need(
        ("eval_corruption", "generator_gate", "eval_pairs", "eval_classify"),
        _evaluates,
        "it is for held-out text and --eval_strategy steps or epoch",
    ),
]
"""Needs of all options of a run: those of each subject, and those between subjects."""

# ---- parsing


def parse_pretraining_arguments(argv: list[str] | None) -> Configuration:
    """Return the configuration of a command line; the quickstart's if neither a corpus nor a file is named.

    Args:
        argv: words of the command line; None for those of the process.
    Raises:
        UserError: an option is unknown or not possible, or options do not go together.
    """
    command_line = CommandLine(GROUPS, "Pre-train an ELECTRA.", PRETRAINING_NEEDS, RECIPES)
    flags = command_line.read(argv)
    if {*TEXT_OPTIONS} & flags.keys() and not {*OF_LENGTH, *SIZED, "config"} & flags.keys() and _is_on_cpu(flags):
        logger.info("No size and no number of steps is given: as with --budget %s", DEFAULT_BUDGET)
        flags["budget"] = DEFAULT_BUDGET
    parsed = command_line.parse(flags, default_config=_default_config, inherited=_inherited, recipe=_recipe_of_budget)
    training = parsed.groups[-1].with_values(given=parsed.given)
    record = {**parsed.record, "bf16": training.bf16}  # a run that goes on elsewhere keeps its precision
    if training.fp16:
        record["fp16"] = True
    parts: tuple[Any, ...] = (*parsed.groups[:-1], training, record, parsed.unused)
    config = Configuration(*parts)
    _check_together(config)
    if training.visible_gpus > 1:
        logger.warning(
            "%(gpus)d GPUs are visible, only one is used; to use all: "
            "torchrun --nproc_per_node %(gpus)d run_pretraining.py ...",
            {"gpus": training.visible_gpus},
        )
    return config


def _is_on_cpu(flags: Values) -> bool:
    return bool(flags.get("use_cpu")) or not torch.accelerator.is_available()


def _recipe_of_budget(flags: Values) -> str | None:
    """Return the name of the recipe for --budget and device; None without --budget or if the user says the size."""
    if not flags.get("budget") or SIZED & flags.keys():
        return None
    return recipe_within(flags["budget"], "cpu" if _is_on_cpu(flags) else "accelerator")


def recipe_within(budget: str, device: str) -> str:
    """Return the recipe of a run that may take this time, such as 90m, on a device of `BUDGET_SIZES`."""
    sizes = BUDGET_SIZES[device]
    return next(size for hours, size in sizes.items() if seconds_of(budget) < 3600 * hours)


def _default_config(flags: Values) -> str | None:
    """Return the file of options if none is named: the resumed run's, or, without a corpus, the quickstart's."""
    resumed = flags.get("resume_from_checkpoint")
    if resumed:
        folder = expand(resumed).resolve()
        for path in (folder / CONFIG_NAME, folder.parent / CONFIG_NAME):
            if path.is_file():
                logger.info("options of %s", path)
                return str(path)
    if {*TEXT_OPTIONS} & {*flags}:
        return None
    if resumed:
        if not expand(resumed).is_dir():
            raise UserError(f"--resume_from_checkpoint {resumed}: no such folder; name a run or its checkpoint-N")
        raise UserError(f"there is no {CONFIG_NAME} beside {resumed}; name the run's options with --config")
    logger.info("No corpus given: using %s. Give your own with --train_file or --dataset_name.", QUICKSTART)
    return str(QUICKSTART)


def _inherited(flags: Values) -> Values:
    """Return the options that a new run takes over from the run whose networks it starts from; {} if there is none."""
    if flags.get("init_checkpoint"):
        options_before = _options_of_checkpoint(flags["init_checkpoint"])
        names = {*options_before} & OF_PHASE
        flags = {**options_before, **flags}  # so that the objective is that of the checkpoint, unless one is given
    else:
        network = flags.get("init_discriminator") or flags.get("init_generator")
        options_before = run_options(network) if network else {}
        names = {*options_before} & INHERITED
    objective = flags.get("objective", ObjectiveArguments.objective)
    if objective in OBJECTIVES:
        names -= unread_options(OBJECTIVES[objective])
    if objective != options_before.get("objective", ObjectiveArguments.objective):
        names -= {*options_with("of_same_objective", *GROUPS)}
    return {name: options_before[name] for name in names}


def _options_of_checkpoint(path: str) -> Values:
    """Return the options of a checkpoint's run: those that the checkpoint has recorded, and others of config.yaml.

    A run that was resumed with other options has these in config.yaml; an earlier checkpoint has its own.
    """
    origin = Path(checkpoint_named(path)) / PROVENANCE_NAME
    recorded = read_json(origin, RecordedOptions)["options"] if origin.is_file() else {}
    return {**run_options(path), **recorded}


class RecordedOptions(TypedDict):
    """The options of the run in a checkpoint's origin.json, which has more (`RunProvenance` of run_folder.py)."""

    options: dict[str, Any]


INHERITED = {*options_with("inherited", *GROUPS)}
"""Options that a run takes over from the run whose trained networks it starts from, unless they are given."""
OF_PHASE = {*options_with("of_phase", *GROUPS), *OF_OPTIMIZER}
"""Options that a run takes over from the run of its --init_checkpoint, unless they are given. The recipe is not one of
them: sizes are those of the networks, and steps and warm-up are the new run's own."""


def _check_together(config: Configuration) -> None:
    """Refuse values of several options that do not go together."""
    if config.segments.max_length > config.model.max_position_embeddings:
        raise UserError(
            f"--max_length {config.segments.max_length} is more than --max_position_embeddings "
            f"{config.model.max_position_embeddings}; lower the first or raise the second"
        )
    check_objective(SimpleNamespace(**config.values()))
    names = held_out_texts(config.segments.validation_file).keys() - {""}
    if names:
        from electra.pretraining.metrics import check_text_names  # imports scikit-learn

        check_text_names(sorted(names))
    if config.objective.generator_gate:
        _check_gate(config)
    training = config.training
    resumed = training.resume_from_checkpoint
    if training.plan and resumed is not None:
        raise UserError(f"--plan is for a new run, not for --resume_from_checkpoint {resumed}; leave one of them out")
    if training.budget and (resumed is not None or training.auto_resume):
        raise UserError(
            f"--budget {training.budget} is for a new run; continue one with --resume_from_checkpoint RUN alone"
        )
    if training.budget and (training.decay_steps or 0) >= 1:
        raise UserError("--budget decides how many steps there are; give --decay_steps as a share, such as 0.1")
    if training.fsdp and (training.eval_pairs or training.eval_classify):
        raise UserError("with --fsdp no process has the whole network; leave --eval_pairs and --eval_classify out")
    if training.init_checkpoint and (config.spec.has_stages or training.deepspeed):
        raise UserError(
            f"--init_checkpoint has one optimizer for both networks, unlike two_stage and DeepSpeed; {TAKE_NETWORKS}"
        )


def _check_gate(config: Configuration) -> None:
    """Refuse a --generator_gate that is not the name of a metric of this objective and a number."""
    from electra.pretraining.metrics import metric_rows  # imports scikit-learn

    gate = config.objective.generator_gate
    if len(gate) != 2 or not re.fullmatch(r"-?(\d+\.?\d*|\.\d+)", gate[1]):
        raise UserError(
            f"--generator_gate {' '.join(gate)} is not possible: expected METRIC THRESHOLD, such as "
            "discriminator_auc 0.6"
        )
    metrics = ["loss", *(name for name, _ in metric_rows(config.spec))]
    if gate[0] not in metrics:
        raise UserError(
            f"--generator_gate {gate[0]}: metrics of --objective {config.objective.objective} are {', '.join(metrics)}"
        )


# ---- options of a program


OF_COMMAND = (*options_with("of_command", *GROUPS), "push_to_hub")
"""Options that only the command reads."""
PROGRAM_NEEDS = [
    Need(OF_COMMAND, never, f"`electra pretrain` reads it, a program does not: see {where_is('docs/python.md')}"),
    Need(NOT_USED, never, "pre-training does not use it"),
]
"""Needs of the options of a program."""


# ---- steps


def resolve_options(config: Configuration, run: "Run", segments_per_epoch: int, has_held_out: bool) -> Configuration:
    """Return the configuration with the run's folder, and with numbers of steps in place of epochs and shares.

    Args:
        run: the run, with the options and the step of its checkpoint.
        segments_per_epoch: segments that the text gives in an epoch.
        has_held_out: whether there is held-out text; without it, nothing is evaluated.
    Raises:
        UserError: see `fit_steps`.
    """
    training = config.training.with_values(
        output_dir=str(run.folder), run_name=config.training.run_name or run.folder.name
    )
    training, objective, fitted_steps = fit_steps(
        training,
        config.objective,
        segments_per_epoch,
        has_held_out=has_held_out,
        resumed=run.options,
        step=run.step if run.checkpoint is not None else None,
    )
    record = {**config.record, **fitted_steps, "output_dir": str(run.folder.resolve().parent)}
    return replace(config, training=training, objective=objective, record=record)


def check_steps(config: Configuration, run: "Run") -> None:
    """Refuse steps and a schedule that do not go together, before any text is read."""
    resolve_options(config, run, MANY_SEGMENTS, has_held_out=False)


class FittedSteps(NamedTuple):
    """Options with numbers of steps in place of epochs and shares."""

    training: ElectraTrainingArguments
    objective: ObjectiveArguments
    fitted_steps: dict[str, int]
    """The defaults that were made to fit the length of the run, by name."""


def fit_steps(
    training: ElectraTrainingArguments,
    objective: ObjectiveArguments,
    segments_per_epoch: int,
    *,
    has_held_out: bool,
    resumed: Values = MappingProxyType({}),
    step: int | None = None,
) -> FittedSteps:
    """Return options with numbers of steps in place of epochs, shares and defaults.

    Defaults of warm-up, evaluation, saving and logging are shortened to a part of the run; a resumed run keeps those
    that it began with.

    Args:
        segments_per_epoch: segments that the text gives in an epoch.
        has_held_out: whether there is held-out text; without it, nothing is evaluated.
        resumed, step: options and step of the checkpoint from which the run continues; {} and None for a new run.
    Raises:
        UserError: the numbers of steps do not go together, such as a checkpoint beyond the last step.
    """
    steps_per_epoch = segments_per_epoch / training.segments_per_step
    max_steps = training.max_steps
    if max_steps == -1:
        max_steps = math.ceil(training.num_train_epochs * steps_per_epoch)
    if step is not None and step > max_steps:
        raise UserError(f"the checkpoint is at step {step}, beyond --max_steps {max_steps}; raise it")

    shortest_stage = max_steps
    has_stages = OBJECTIVES[objective.objective].has_stages
    if has_stages:
        first = objective.generator_steps or resumed.get("generator_steps") or max_steps // 2
        if not 0 < first < max_steps:
            raise UserError(
                f"--generator_steps {first} with --max_steps {max_steps} is not possible: each stage needs a step"
            )
        objective = replace(objective, generator_steps=first)
        shortest_stage = min(first, max_steps - first)

    default_steps = {"warmup_steps": min(int(training.warmup_steps), math.ceil(shortest_stage / WARM_UP_PARTS))}
    for name, parts in FEWEST.items():
        default_steps[name] = min(int(getattr(training, name)), math.ceil(max_steps / parts))
    fitted_steps = {
        name: resumed.get(name, steps) for name, steps in default_steps.items() if name not in training.given
    }
    values: dict[str, Any] = {**fitted_steps, "max_steps": max_steps}
    for event in ("eval", "save", "logging"):
        strategy = getattr(training, f"{event}_strategy")
        steps = fitted_steps.get(f"{event}_steps", getattr(training, f"{event}_steps"))
        if strategy == IntervalStrategy.EPOCH:  # Trainer sees the whole run as one epoch
            strategy = type(strategy)("steps")
            steps = max(1, math.ceil(steps_per_epoch))
        values[f"{event}_strategy"] = strategy
        values[f"{event}_steps"] = int(steps) if steps >= 1 else math.ceil(max_steps * steps)
    if not has_held_out:
        values["eval_strategy"] = IntervalStrategy.NO
    values["eval_on_start"] = values["eval_strategy"] != IntervalStrategy.NO and step is None
    if has_stages or objective.generator_gate:  # some weights get no gradient in some steps
        values["ddp_find_unused_parameters"] = True
    training = training.with_values(**values)
    lengths = stage_lengths(max_steps, objective.generator_steps if has_stages else None)
    check_schedule(training, lengths, is_resumed=step is not None)
    return FittedSteps(training, objective, fitted_steps)
