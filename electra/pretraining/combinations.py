"""What options of several groups must agree on: refused before anything is read or built."""

import math
from collections.abc import Collection

from electra.arguments import (
    GENERATOR_SIZES,
    ModelArguments,
    ObjectiveArguments,
    PretrainingArguments,
    SegmentArguments,
)
from electra.backbones import BACKBONES, UNIFORM
from electra.errors import UserError
from electra.objectives import OBJECTIVES, objective_of
from electra.pretraining.phases import Gate
from electra.pretraining.results import rows_of


def check_uniform_generator(model: ModelArguments, objective: ObjectiveArguments) -> None:
    """Refuse a uniform generator where one is to be trained, and options that speak of a network there is not."""
    if model.generator_type != UNIFORM:
        return
    trains_it = ("two_stage", "adversarial")
    possible = [name for name, has in OBJECTIVES.items() if has.has_generator and name not in trains_it]
    if objective.objective not in possible:
        raise UserError(
            f"--generator_type uniform has no meaning for --objective {objective.objective}; it is for "
            f"{', '.join(possible)}: choose one of these, or leave it out"
        )
    names = (
        "discriminator_weight",
        "discriminator_warmup_steps",
        "generator_gate",
        "temperature",
        "disallow_correct",
        "mlm_replacement_probability",
        "mlm_random_probability",
    )
    objective.refuse(names, "there is no generator network", whose="--generator_type uniform")


def check_devices(training: PretrainingArguments) -> None:
    """Refuse what accelerate leaves out on CPUs without a word."""
    if training.fsdp and training.device.type == "cpu":
        raise UserError("--fsdp needs GPUs, and this run is on the CPU; leave it out: processes then share the batch")


def check_networks(model: ModelArguments, objective: ObjectiveArguments, flags: Collection[str]) -> None:
    """Refuse options of a network that there is not, and ways to share that cannot be.

    Args:
        model, objective: the options.
        flags: those on the command line itself: sizes of a recipe are no one's wish.
    """
    has = OBJECTIVES[objective.objective]
    where = "--generator_type uniform" if model.generator_type == UNIFORM else f"--objective {objective.objective}"
    if not objective_of(objective.objective, model.generator_type == UNIFORM).has_generator:
        asked = [name for name in ("tie", "tie_embedding_projection", "init_generator") if getattr(model, name)]
        asked += ["generator_type"] if model.generator_type not in (None, UNIFORM) else []
        asked += [name for name in ("generator_size", "generator_layer_size", *GENERATOR_SIZES) if name in flags]
        for name in asked:
            raise UserError(f"--{name} has no meaning for {where}: there is no generator network; leave it out")
    types = {model.discriminator_type, model.generator_type or model.discriminator_type} - {UNIFORM}
    projects = any(BACKBONES[name].projection for name in types)
    if "embedding_size" in flags and not projects and model.embedding_size != model.hidden_size:
        raise UserError(
            f"--embedding_size {model.embedding_size} has no meaning for {' and '.join(sorted(types))}: embeddings "
            "are as wide as the network there; leave it out"
        )
    if has.has_stages and model.tie not in (None, "none"):
        raise UserError(
            f"--tie {model.tie} does not work with --objective {objective.objective}: a frozen generator's weights "
            "must not move with the discriminator's; leave it out"
        )
    if has.has_stages and model.tie_embedding_projection:
        raise UserError(
            f"--tie_embedding_projection does not work with --objective {objective.objective}: a frozen generator's "
            "weights must not move with the discriminator's; leave it out"
        )
    if has.has_stages and objective.init_from_generator and model.init_discriminator:
        raise UserError(
            f"--init_discriminator {model.init_discriminator}: --objective {objective.objective} starts the "
            "discriminator from the generator; leave it out, or say --no_init_from_generator"
        )
    if model.tie == "gdes" and not has.finds_replaced:
        raise UserError(
            f"--tie gdes does not work with --objective {objective.objective}: its large network predicts tokens with "
            "the table that would be a difference; choose embeddings, word or none"
        )


def check_same_sizes(model: ModelArguments, objective: ObjectiveArguments) -> None:
    """Refuse a discriminator that cannot start from the generator's weights, where it is to."""
    if not OBJECTIVES[objective.objective].has_stages or not objective.init_from_generator:
        return
    expected: dict[str, float] = {"generator_size": 1.0, "generator_layer_size": 1.0}
    if model.generator_intermediate_size is None:
        expected["intermediate_size"] = 4 * model.hidden_size  # the generator's own are 4 times its width
    for name, value in expected.items():
        if getattr(model, name) != value:
            raise UserError(
                f"--objective {objective.objective} starts the discriminator from the generator's weights, so both "
                f"must be of one size, but --{name} is {getattr(model, name):g}; say --{name} {value:g}, or "
                "--no_init_from_generator"
            )


def gate_of(objective: ObjectiveArguments, segments: SegmentArguments, training: PretrainingArguments) -> Gate | None:
    """The generator's gate, if one is asked for, checked."""
    if not objective.generator_gate:
        return None
    given = f"--generator_gate {' '.join(objective.generator_gate)}"
    possible = ["loss", *(name for name, _ in rows_of(objective.objective))]
    metric, *thresholds = objective.generator_gate
    if len(thresholds) != 1:
        raise UserError(f"{given} is not possible: expected METRIC THRESHOLD, such as discriminator_auc 0.6")
    if metric not in possible:
        raise UserError(
            f"{given}: --objective {objective.objective} has no metric {metric}; it has {', '.join(possible)}"
        )
    try:
        threshold = float(thresholds[0])
    except ValueError:
        threshold = math.nan
    if not math.isfinite(threshold):
        raise UserError(f"{given}: {thresholds[0]} is no number; expected METRIC THRESHOLD, such as {metric} 0.6")
    nothing_held_out = segments.validation_fraction == 0 and not segments.validation_file
    if training.eval_strategy == "no" or nothing_held_out:
        raise UserError(
            f"{given} asks for a held-out metric, but --eval_strategy is no or no text is held out; evaluate, or "
            "leave the gate out"
        )
    return Gate(metric, threshold)
