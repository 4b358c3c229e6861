"""From a command line to the configuration of a pre-training run, and from there to steps once the data are known.

Parsing imports neither networks nor data sets, so that a wrong option is named at once. `NEEDS` holds options that
would silently do nothing, or train or measure something else than was asked. A rule of one option alone, its range, is
beside the option.
"""

import logging
import math
import re
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from transformers.trainer_utils import IntervalStrategy

from electra.backbones import BACKBONES, UNIFORM
from electra.io.errors import UserError
from electra.io.files import CONFIGS, run_options
from electra.objectives import OBJECTIVES
from electra.options import CommandLine, Values, rules_of
from electra.pretraining.configuration import CONFIG_NAME, GROUPS, Configuration

if TYPE_CHECKING:
    from electra.pretraining.run_folder import Run

logger = logging.getLogger(__name__)

QUICKSTART = CONFIGS / "pretraining" / "quickstart.yaml"
MOST = {"eval_steps": 20, "save_steps": 10, "logging_steps": 100}
"""A run has at least so many evaluations, checkpoints and log lines, unless the steps between them are given."""
SIZED = {"model_size", "hidden_size", "init_discriminator", "init_generator"}
"""Options beside which --budget does not choose a recipe."""
WARM_UP = 10
"""A warm-up that is not given is at most this part of the run."""

# ---- parsing


def parse_arguments(argv: list[str] | None, recipe: str | None = None) -> Configuration:
    """Parse and check the options; those of the quickstart if neither a corpus nor a configuration is named.

    `recipe` is the size of a network if none is given.
    """
    command_line = CommandLine(GROUPS, "Pre-train an ELECTRA.")
    groups = command_line.parse(argv, default_config=_default_config, inherited=_inherited, recipe=recipe)
    training = groups[-1]
    if training.budget and recipe is None and not SIZED & (command_line.flags | command_line.lines):
        from electra.pretraining.trial import recipe_for  # imports networks and data sets

        return parse_arguments(argv, recipe_for(training))
    record = {**command_line.record, "bf16": training.bf16}  # a run that goes on elsewhere keeps its precision
    if training.fp16:
        record["fp16"] = True
    parts: tuple[Any, ...] = (*groups, record, command_line.flags, command_line.lines)
    config = Configuration(*parts)
    _check(config)
    if training.visible_gpus > 1:
        logger.warning(
            "%(gpus)d GPUs are visible, only one is used; to use all: "
            "torchrun --nproc_per_node %(gpus)d run_pretraining.py ...",
            {"gpus": training.visible_gpus},
        )
    return config


def _default_config(flags: Values) -> str | None:
    """The file of options where none is named: that of the resumed run, or the quickstart where no corpus is named."""
    resumed = flags.get("resume_from_checkpoint")
    if resumed:
        folder = Path(resumed).resolve()
        for path in (folder / CONFIG_NAME, folder.parent / CONFIG_NAME):
            if path.is_file():
                logger.info("options of %s", path)
                return str(path)
    if {"dataset_name", "train_file", "token_cache"} & {*flags}:
        return None
    if resumed:
        raise UserError(f"there is no {CONFIG_NAME} beside {resumed}; name the run's options with --config")
    logger.info("No corpus given: using %s. Give your own with --train_file or --dataset_name.", QUICKSTART)
    return str(QUICKSTART)


def _inherited(given: Values) -> Values:
    """Options of the run whose networks this one starts from; none if they are not of a run."""
    start = given.get("init_discriminator") or given.get("init_generator")
    before = run_options(start) if start else {}
    names = {*before} & INHERITED
    if given.get("objective") == "causal":
        names -= {*MASKING.split()}
    if given.get("objective", "electra") != before.get("objective", "electra"):
        names -= {"tie", "mlm_replacement_probability"}
    return {name: before[name] for name in names}


MASKING = "mlm_probability mlm_replacement_probability mlm_random_probability"
INHERITED = {f.name for group in GROUPS for f in fields(group) if rules_of(f).inherited}

# ---- options that do not go together


class Need(NamedTuple):
    """Options that need a condition, and why. A reason without advice means: leave the option out."""

    options: str
    holds: Callable[[Configuration], bool]
    reason: str


def _is_uniform(c: Configuration) -> bool:
    return c.model.generator_type == UNIFORM


def _fits_generator_type(c: Configuration) -> bool:
    trains_generator_alone = c.spec.has_stages or c.spec.is_adversarial or c.spec.is_energy_based
    is_possible = not (_is_uniform(c) and trains_generator_alone)
    return OBJECTIVES[c.objective.objective].has_generator and is_possible


def _projects_embeddings(c: Configuration) -> bool:
    backbones = {c.model.discriminator_type, c.model.generator_type or c.model.discriminator_type} - {UNIFORM}
    return any(BACKBONES[backbone].projection for backbone in backbones)


def _starts_from_generator(c: Configuration) -> bool:
    return c.spec.has_stages and c.objective.init_from_generator


def _starts_untrained(c: Configuration) -> bool:
    shares_trained = c.model.init_generator and c.model.tie != "none"
    return not (c.model.init_discriminator or shares_trained or _starts_from_generator(c))


NEEDS = (
    Need(
        "token_cache",
        lambda c: not {"train_file", "dataset_name", "dataset_sampling"} & c.flags,
        "--train_file, --dataset_name and --dataset_sampling would not be used",
    ),
    Need(
        "temperature disallow_correct discriminator_weight generator_gate tie init_generator generator_size "
        "generator_layer_size generator_num_attention_heads generator_intermediate_size",
        lambda c: c.spec.has_generator,
        "it needs a generator network, which --objective {objective} with --generator_type {generator_type} has not",
    ),
    Need(
        "mlm_replacement_probability mlm_random_probability",
        lambda c: not _is_uniform(c),
        "--generator_type uniform has no generator network",
    ),
    Need(
        MASKING,
        lambda c: not c.spec.is_causal,
        "--objective {objective} masks nothing",
    ),
    Need(
        "generator_type",
        _fits_generator_type,
        "it does not fit --objective {objective}",
    ),
    Need(
        "discriminator_weight generator_gate",
        lambda c: not c.spec.has_stages,
        "--objective {objective} trains one network at a time",
    ),
    Need(
        "generator_steps init_from_generator",
        lambda c: c.spec.has_stages,
        "--objective {objective} has no stages",
    ),
    Need(
        "temperature disallow_correct",
        lambda c: not c.spec.is_adversarial and not c.spec.is_energy_based,
        "--objective {objective} needs unmodified samples of the generator",
    ),
    Need(
        "mlm_replacement_probability",
        lambda c: not c.spec.is_energy_based or c.spec.mlm_replacement_probability == 1,
        "it must be 1 with electric, whose noise must not know the token",
    ),
    Need(
        "init_generator_layers",
        lambda c: bool(c.model.init_generator),
        "it needs --init_generator; --generator_layer_size is for a new generator",
    ),
    Need(
        "initialization",
        lambda c: c.model.initialization != "local" or _starts_untrained(c),
        "weights of the discriminator are from --init_discriminator, or shared with --init_generator, or from the "
        "generator, without --no_init_from_generator",
    ),
    Need(
        "embedding_size",
        lambda c: _projects_embeddings(c) or c.model.embedding_size == c.model.hidden_size,
        "embeddings of --discriminator_type {discriminator_type} are as wide as the network",
    ),
    Need(
        "tie",
        lambda c: c.model.tie != "gdes" or c.spec.finds_replaced,
        "the main network of --objective {objective} predicts tokens; choose another",
    ),
    Need(
        "tie",
        lambda c: c.model.tie in (None, "none") or not c.spec.has_stages,
        "the frozen generator of --objective {objective} must not change",
    ),
    Need(
        "eval_corruption",
        lambda c: c.spec.finds_replaced and not c.spec.is_energy_based,
        "--objective {objective} trains no network to find replaced tokens",
    ),
    Need(
        "eval_corruption generator_gate",
        lambda c: c.evaluates,
        "it needs held-out text and --eval_strategy steps or epoch",
    ),
    Need("plan", lambda c: c.training.resume_from_checkpoint is None, "it is for a new run"),
    Need(
        "init_discriminator",
        lambda c: not _starts_from_generator(c),
        "--objective two_stage starts the discriminator from the generator; add --no_init_from_generator",
    ),
    Need(
        "budget",
        lambda c: c.training.resume_from_checkpoint is None and not c.training.auto_resume,
        "it is for a new run",
    ),
    Need("max_steps", lambda c: c.training.budget is None, "--budget sets it"),
    Need(
        "num_train_epochs",
        lambda c: c.training.max_steps == -1 or "num_train_epochs" not in c.flags,
        "the run ends after --max_steps {max_steps}; add --max_steps -1",
    ),
    Need(
        "product_schedule",
        lambda c: c.training.lr_scheduler_type == "linear",
        "its decay is linear; leave --lr_scheduler_type out",
    ),
    Need(
        "adam_bias_correction",
        lambda c: c.training.optim.value in ("adamw_torch_fused", "adamw_torch"),
        "it needs --optim adamw_torch_fused or adamw_torch",
    ),
    Need(
        "load_best_model_at_end metric_for_best_model greater_is_better auto_find_batch_size batch_eval_metrics "
        "label_smoothing_factor train_sampling_strategy neftune_noise_alpha use_liger_kernel prediction_loss_only "
        "eval_do_concat_batches ignore_data_skip enable_jit_checkpoint hub_revision hub_strategy "
        "include_num_input_tokens_seen",
        lambda c: False,
        "pre-training does not use it",
    ),
)


def _check(c: Configuration) -> None:
    """Refuse options that do not go together."""
    values = c.values()
    for need in NEEDS:
        wrong = [name for name in need.options.split() if c.is_given(name)]
        if wrong and not need.holds(c):
            reason = need.reason.format(**values)
            advice = "" if ";" in reason else "; leave it out"
            raise UserError(f"--{wrong[0]} {values[wrong[0]]} does not work here: {reason}{advice}")
    if c.segments.max_length > c.model.max_position_embeddings:
        raise UserError(
            f"--max_length {c.segments.max_length} is more than --max_position_embeddings "
            f"{c.model.max_position_embeddings}; lower the first or raise the second"
        )
    masked = c.spec.mlm_replacement_probability
    random = c.spec.mlm_random_probability
    if masked + random > 1 + 1e-9:
        raise UserError(
            f"--mlm_replacement_probability {masked:g} and --mlm_random_probability {random:g} add up to more than 1; "
            "lower one of them"
        )
    if c.objective.generator_gate:
        _check_gate(c, c.objective.generator_gate)


def _check_gate(c: Configuration, gate: list[str]) -> None:
    """Refuse a --generator_gate on a metric that the run does not have."""
    from electra.pretraining.metrics import rows_of  # imports scikit-learn

    rows = rows_of(c.spec)
    metrics = ["loss", *(name for name, _ in rows)]
    if len(gate) != 2 or gate[0] not in metrics or not re.fullmatch(r"-?(\d+\.?\d*|\.\d+)", gate[1]):
        raise UserError(
            f"--generator_gate {' '.join(gate)} is not possible: expected METRIC THRESHOLD, such as discriminator_auc "
            f"0.6; metrics of --objective {c.objective.objective} are {', '.join(metrics)}"
        )


# ---- steps


def resolve(asked: Configuration, run: "Run", segments_per_epoch: int, has_held_out: bool) -> Configuration:
    """The configuration with the run's folder, and with steps in place of epochs, shares of steps and defaults.

    Args:
        has_held_out: whether there is held-out text; without it, nothing is evaluated.
    """
    training = asked.training
    objective = asked.objective
    steps_per_epoch = segments_per_epoch / training.segments_per_step
    max_steps = training.max_steps
    if max_steps == -1:
        max_steps = math.ceil(training.num_train_epochs * steps_per_epoch)
    if run.step > max_steps:
        raise UserError(f"{run.checkpoint} is at step {run.step}, beyond --max_steps {max_steps}; raise it")

    shortest_stage = max_steps
    if asked.spec.has_stages:
        first = objective.generator_steps or run.options.get("generator_steps") or max_steps // 2
        if not 0 < first < max_steps:
            raise UserError(
                f"--generator_steps {first} with --max_steps {max_steps} is not possible: each stage needs a step"
            )
        objective = replace(objective, generator_steps=first)
        shortest_stage = min(first, max_steps - first)

    fitting = _fitting_steps(asked, run, max_steps, shortest_stage)
    values: dict[str, Any] = {
        **fitting,
        "max_steps": max_steps,
        "output_dir": str(run.folder),
        "run_name": training.run_name or run.folder.name,
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
    values["eval_on_start"] = values["eval_strategy"] != IntervalStrategy.NO and run.checkpoint is None
    if asked.spec.has_stages or objective.generator_gate:  # some weights get no gradient in some steps
        values["ddp_find_unused_parameters"] = True
    record = {**asked.record, **fitting, "output_dir": str(run.folder.resolve().parent)}
    return replace(asked, training=training.with_values(**values), objective=objective, record=record)


def _fitting_steps(asked: Configuration, run: "Run", max_steps: int, shortest_stage: int) -> dict[str, int]:
    """Steps that were not given, at most a part of the run: of the warm-up, and between events.

    A resumed run keeps its own.
    """
    training = asked.training
    given = asked.flags | asked.lines
    chosen = {"warmup_steps": min(int(training.warmup_steps), math.ceil(shortest_stage / WARM_UP))}
    for name, parts in MOST.items():
        chosen[name] = min(int(getattr(training, name)), math.ceil(max_steps / parts))
    return {name: run.options.get(name, steps) for name, steps in chosen.items() if name not in given}
