"""What options of a run must agree on, checked before anything is read or built.

`NEEDS` holds options that would silently do nothing, or train or measure something else than was asked. A rule of one
option alone, its range, is beside the option.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import huggingface_hub
from accelerate.utils import DistributedType

from electra.backbones import BACKBONES, UNIFORM
from electra.data.options import held_out_texts
from electra.io.errors import UserError
from electra.objectives import OBJECTIVES, Objective, objective_of
from electra.pretraining.configuration import Configuration


class Need(NamedTuple):
    """Options that need a condition, and why. A reason without advice means: leave the option out."""

    options: str
    holds: Callable[[Configuration], bool]
    reason: str


def _objective(c: Configuration) -> Objective:
    return OBJECTIVES[c.objective.objective]


def _is_uniform(c: Configuration) -> bool:
    return c.model.generator_type == UNIFORM


def _has_generator(c: Configuration) -> bool:
    return objective_of(c.objective.objective, _is_uniform(c)).has_generator


def _trains_generator_alone(c: Configuration) -> bool:
    objective = _objective(c)
    return objective.has_stages or objective.is_adversarial or objective.is_energy_based


def _backbones(c: Configuration) -> set[str]:
    """The architectures of both networks."""
    return {c.model.discriminator_type, c.model.generator_type or c.model.discriminator_type} - {UNIFORM}


def _projects_embeddings(c: Configuration) -> bool:
    return any(BACKBONES[backbone].projection for backbone in _backbones(c))


def _starts_from_generator(c: Configuration) -> bool:
    return _objective(c).has_stages and c.objective.init_from_generator


def _are_equal(c: Configuration) -> bool:
    """Whether the discriminator can start from the generator, as far as the options tell."""
    return c.model.generator_size == c.model.generator_layer_size == 1 and not c.model.init_discriminator


def _suits_muon(c: Configuration) -> bool:
    training = c.training
    is_plain_adam = training.adam_bias_correction and training.optim.value in ("adamw_torch_fused", "adamw_torch")
    return is_plain_adam and not training.fsdp and not training.deepspeed


def _shards_on_cpu(c: Configuration) -> bool:
    training = c.training
    kind = training.distributed_state.distributed_type
    is_alone = kind in (DistributedType.NO, DistributedType.MULTI_CPU)
    return bool(training.fsdp) and training.device.type == "cpu" and is_alone


def _never(c: Configuration) -> bool:
    return False


NEEDS = (
    Need(
        "token_cache",
        lambda c: not {"train_file", "dataset_name"} & c.flags,
        "the text of --train_file or --dataset_name would not be read",
    ),
    Need(
        "temperature disallow_correct discriminator_weight generator_gate tie init_generator generator_size "
        "generator_layer_size generator_num_attention_heads generator_intermediate_size",
        _has_generator,
        "{source} has no generator network",
    ),
    Need(
        "mlm_replacement_probability mlm_random_probability",
        lambda c: not _is_uniform(c),
        "--generator_type uniform has no generator network",
    ),
    Need(
        "generator_type",
        lambda c: _objective(c).has_generator,
        "--objective {objective} has no generator network",
    ),
    Need(
        "generator_type",
        lambda c: not _is_uniform(c) or not _trains_generator_alone(c),
        "--objective {objective} needs a generator network",
    ),
    Need(
        "discriminator_weight generator_gate",
        lambda c: not _objective(c).has_stages,
        "--objective {objective} trains one network at a time",
    ),
    Need(
        "generator_steps init_from_generator",
        lambda c: _objective(c).has_stages,
        "--objective {objective} has no stages",
    ),
    Need(
        "temperature disallow_correct",
        lambda c: not _objective(c).is_adversarial and not _objective(c).is_energy_based,
        "--objective {objective} needs unmodified samples of the generator",
    ),
    Need(
        "mlm_replacement_probability",
        lambda c: not _objective(c).is_energy_based or c.objective.corruption_and_weight()[0] == 1,
        "it must be 1 with electric, whose noise must not know the token",
    ),
    Need(
        "init_generator_layers",
        lambda c: bool(c.model.init_generator),
        "it needs --init_generator; --generator_layer_size is for a new generator",
    ),
    Need(
        "initialization",
        lambda c: not c.model.init_discriminator or c.model.initialization != "local",
        "--init_discriminator is trained already",
    ),
    Need(
        "embedding_size",
        lambda c: _projects_embeddings(c) or c.model.embedding_size == c.model.hidden_size,
        "embeddings are as wide as the network with {types}",
    ),
    Need(
        "tie",
        lambda c: c.model.tie != "gdes" or _objective(c).finds_replaced,
        "the main network of --objective {objective} predicts tokens; choose another",
    ),
    Need(
        "tie",
        lambda c: c.model.tie in (None, "none") or not _objective(c).has_stages,
        "the frozen generator of --objective {objective} must not change",
    ),
    Need(
        "objective",
        lambda c: not _starts_from_generator(c) or _are_equal(c),
        "it starts the discriminator from the generator; use --generator_size 1 (not {generator_size:g}) and "
        "--generator_layer_size 1 (not {generator_layer_size:g}) without --init_discriminator, or add "
        "--no_init_from_generator",
    ),
    Need(
        "eval_corruption",
        lambda c: _objective(c).finds_replaced and not _objective(c).is_energy_based,
        "--objective {objective} trains no network to find replaced tokens",
    ),
    Need(
        "eval_corruption generator_gate",
        lambda c: c.evaluates,
        "it needs held-out text and --eval_strategy steps or epoch",
    ),
    Need(
        "auto_resume",
        lambda c: c.training.resume_from_checkpoint is None,
        "--resume_from_checkpoint names the checkpoint already",
    ),
    Need(
        "checkpoint_fractions",
        lambda c: c.training.save_strategy != "best",
        "it does not work with --save_strategy best; choose steps or epoch",
    ),
    Need(
        "muon_learning_rate",
        _suits_muon,
        "it works only with --optim adamw_torch (not --optim {optimizer}) and its bias correction, without --fsdp and "
        "--deepspeed",
    ),
    Need(
        "fsdp",
        lambda c: not _shards_on_cpu(c),
        "it needs GPUs; without it, processes share the batch",
    ),
    Need(
        "torch_compile_mode",
        lambda c: c.training.torch_compile_mode != "reduce-overhead" or c.training.gradient_accumulation_steps == 1,
        "its graphs write to the same memory in every batch of --gradient_accumulation_steps",
    ),
    Need(
        "dataloader_persistent_workers",
        lambda c: bool(c.training.dataloader_num_workers),
        "it needs --dataloader_num_workers of at least 1",
    ),
    Need(
        "auto_find_batch_size",
        _never,
        "it would change the number of samples of a step; lower --per_device_train_batch_size and raise "
        "--gradient_accumulation_steps by the same factor",
    ),
    Need(
        "label_smoothing_factor train_sampling_strategy neftune_noise_alpha use_liger_kernel prediction_loss_only "
        "batch_eval_metrics eval_do_concat_batches ignore_data_skip enable_jit_checkpoint hub_revision hub_strategy",
        _never,
        "pre-training does not use it",
    ),
)


def check_together(c: Configuration) -> None:
    """Refuse options that do not go together."""
    _check_needs(c)
    _check_lengths(c)
    _check_metrics(c)
    training = c.training
    unknown = {*(training.gradient_checkpointing_kwargs or {})} - {"use_reentrant", "preserve_rng_state"}
    if unknown:
        raise UserError(
            f"--gradient_checkpointing_kwargs has no {min(unknown)}, only use_reentrant, preserve_rng_state"
        )
    if training.push_to_hub:
        try:
            huggingface_hub.HfApi(token=training.hub_token).whoami()
        except Exception as error:  # errors of the Hub's client and of its HTTP library
            hint = "check the network, HF_HUB_OFFLINE and the token (`hf auth login`, HF_TOKEN)"
            raise UserError(f"--push_to_hub does not work: {error}; {hint}") from error


def _check_needs(c: Configuration) -> None:
    values = c.values()
    words = {
        "source": "--generator_type uniform" if _is_uniform(c) else f"--objective {c.objective.objective}",
        "types": " and ".join(sorted(_backbones(c))),
        "optimizer": c.training.optim.value,
    }
    for need in NEEDS:
        if need.holds(c):
            continue
        for name in need.options.split():
            if c.is_given(name):
                reason = need.reason.format(**values, **words)
                advice = "" if ";" in reason else "; leave it out"
                raise UserError(f"--{name} {_shown(values[name])} does not work here: {reason}{advice}")


def _shown(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _check_lengths(c: Configuration) -> None:
    if c.segments.max_length > c.model.max_position_embeddings:
        raise UserError(
            f"--max_length {c.segments.max_length} is more than --max_position_embeddings "
            f"{c.model.max_position_embeddings}; lower the first or raise the second"
        )
    masked, random, _ = c.objective.corruption_and_weight()
    if masked + random > 1 + 1e-9:
        raise UserError(
            f"--mlm_replacement_probability {masked:g} and --mlm_random_probability {random:g} add up to more than 1; "
            "lower one of them"
        )


def _check_metrics(c: Configuration) -> None:
    """Refuse metrics that a run does not have. They are looked up only where one is named."""
    names = [name for name in held_out_texts(c.segments.validation_file) if name]
    gate = c.objective.generator_gate
    best = c.training.metric_for_best_model
    if not names and not gate and best is None:
        return
    from electra.pretraining.metrics import fixed_names, rows_of

    objective = c.objective.objective
    metrics = ["loss", *(name for name, _ in rows_of(objective_of(objective, _is_uniform(c))))]
    if best is not None and best.removeprefix("eval_") not in metrics:
        raise UserError(f"--metric_for_best_model {best}: metrics of --objective {objective} are {', '.join(metrics)}")
    if gate and not _is_gate(gate, metrics):
        raise UserError(
            f"--generator_gate {' '.join(gate)} is not possible: expected METRIC THRESHOLD, such as discriminator_auc "
            f"0.6; metrics of --objective {objective} are {', '.join(metrics)}"
        )
    everywhere = {metric for other in OBJECTIVES.values() for metric, _ in rows_of(other)} | {*fixed_names()}
    for name in names:
        if any(metric.startswith(f"{name}_") for metric in everywhere):
            raise UserError(f"--validation_file {name}=...: {name}_ is a prefix of other metrics; choose another name")


def _is_gate(words: list[str], metrics: list[str]) -> bool:
    if len(words) != 2 or words[0] not in metrics:
        return False
    try:
        return math.isfinite(float(words[1]))
    except ValueError:
        return False
