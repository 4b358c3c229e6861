"""The options of a pre-training run: Trainer's with our own, parsed, and checked against each other.

What options of several groups must agree on is refused here, before anything is read or built.
"""

import json
import logging
import math
import os
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import huggingface_hub
import torch
from accelerate.utils import DistributedType
from torch.utils.checkpoint import checkpoint
from transformers import TrainingArguments

from electra.backbones import BACKBONES, UNIFORM
from electra.checkpoint import find_file_corruption
from electra.cli import CommandLine
from electra.config import (
    BELOW_ONE,
    GENERATOR_SIZES,
    NOT_NEGATIVE,
    NOT_ZERO_IN_FLOAT32,
    POSITIVE,
    SEED,
    STEPS,
    UP_TO_ONE,
    CacheArguments,
    CorpusArguments,
    ModelArguments,
    ObjectiveArguments,
    SegmentArguments,
    TokenizerArguments,
    TokenizerPathArguments,
    check,
    check_options,
    from_recipe,
    option,
)
from electra.environment import without_secrets
from electra.errors import UserError
from electra.files import CONFIGS
from electra.hardware import computes_bf16
from electra.objectives import OBJECTIVES, objective_of
from electra.pretraining.callbacks.phases import Gate
from electra.pretraining.results import rows_of

logger = logging.getLogger(__name__)

QUICKSTART = CONFIGS / "pretraining" / "quickstart.yaml"
CONFIG_NAME = "config.yaml"
NEWEST = ("true", "yes", "1", "last")
"""Values of --resume_from_checkpoint that mean the latest checkpoint of the run."""

_WITHOUT_EFFECT: dict[str, Any] = {
    "label_smoothing_factor": 0.0,
    "train_sampling_strategy": "random",
    "prediction_loss_only": False,
    "batch_eval_metrics": False,
    "eval_do_concat_batches": True,
    "ignore_data_skip": False,
    "neftune_noise_alpha": None,
    "use_liger_kernel": False,
    "liger_kernel_config": None,
    "enable_jit_checkpoint": False,
}
"""Options of Trainer that pre-training would ignore, and the only value that it accepts."""

_UNUSED = {
    *("remove_unused_columns", "include_num_input_tokens_seen", "length_column_name"),
    *("do_train", "do_eval", "do_predict"),
}
"""Other options of Trainer that have no effect; accepted because scripts for other models set them."""


@dataclass
class PretrainingArguments(TrainingArguments):
    """The run: steps, optimizer, evaluation, checkpoints.

    All fields of `transformers.TrainingArguments` are available, with defaults for pre-training. `*_steps` are
    optimizer steps, not samples as in rc2020_electra.
    """

    not_in_help: ClassVar = {*_WITHOUT_EFFECT, *_UNUSED}

    output_dir: str = option("output", "Folder of all runs; this one's is output_dir/experiment_name.")
    experiment_name: str = option(
        "electra", "Name of the run and its folder. An existing run is never overwritten: -2, -3 ... is appended."
    )
    resume_from_checkpoint: str | None = option(
        None, "Resume the latest checkpoint of the run (no value), or this checkpoint or run folder."
    )
    seed: int = option(42, "Seed of weights, order of the text, masks and samples.", SEED)
    data_seed: int = option(
        42, "Seed of the sampled subset, held-out documents and masks of the evaluation; equal in comparisons.", SEED
    )
    max_steps: int = from_recipe("max_steps", "Optimizer steps. -1: those of --num_train_epochs.", STEPS)
    num_train_epochs: float = option(3.0, "Passes over the corpus; only with --max_steps -1.", POSITIVE)
    per_device_train_batch_size: int = from_recipe(
        "per_device_train_batch_size", "Segments per device in a micro-batch.", POSITIVE
    )
    gradient_accumulation_steps: int = option(1, "Micro-batches per optimizer step.", POSITIVE)
    per_device_eval_batch_size: int = option(128, "Segments per device in evaluation.", POSITIVE)
    learning_rate: float = from_recipe("learning_rate", "Peak learning rate.", NOT_NEGATIVE)
    warmup_steps: float = from_recipe("warmup_steps", "Steps of warm-up; below 1: a share of all.", NOT_NEGATIVE)
    weight_decay: float = from_recipe("weight_decay", "Weight decay, except of biases and LayerNorms.", NOT_NEGATIVE)
    max_grad_norm: float = from_recipe("max_grad_norm", "Maximum norm of the gradient.", NOT_NEGATIVE)
    adam_beta1: float = from_recipe("adam_beta1", "Adam's decay of the mean gradient.", BELOW_ONE)
    adam_beta2: float = from_recipe("adam_beta2", "Adam's decay of the mean squared gradient.", BELOW_ONE)
    adam_epsilon: float = from_recipe("adam_epsilon", "Adam's epsilon.", NOT_ZERO_IN_FLOAT32)
    adam_bias_correction: bool = option(
        True, "Adam with bias correction; the original's optimizer has none (--adam_bias_correction false)."
    )
    product_schedule: bool = option(
        False, "The original's schedule: warm-up times decay from step 0, instead of warm-up and then decay."
    )
    eval_strategy: str = option("steps", "When to evaluate: no, steps, epoch.")
    eval_steps: float | None = option(5000, "Optimizer steps between evaluations.", POSITIVE)
    logging_steps: float = option(100, "Optimizer steps between logged averages.")
    save_steps: float = option(10_000, "Steps between checkpoints. The last step is always saved.", NOT_NEGATIVE)
    save_total_limit: int | None = option(3, "Number of checkpoints to keep, the latest.")
    plan: bool = option(
        False,
        "Do not train: print the plan of the run and its duration, estimated from ten trial steps. Only the tokenizer "
        "and the token cache are kept.",
    )
    auto_resume: bool = option(
        False, "Start the run of --experiment_name, or resume its latest valid checkpoint if it has one."
    )
    max_hours: float | None = option(
        None,
        "Save and stop this many hours after the start of the command, with exit code 85. Leave time for saving.",
        POSITIVE,
    )
    max_skipped_steps: int = option(
        10,
        "Stop after this many consecutive steps with an infinite or nan loss or gradient. Such steps are skipped; "
        "healthy runs skip one or two, fp16 fewer than ten until it finds its scale.",
        POSITIVE,
    )
    checkpoint_fractions: list[float] = option(
        [],
        "Fractions of the optimizer steps after which an additional checkpoint is saved that --save_total_limit never "
        "deletes. The paper's: 0.0625 0.125 0.25 0.5 1. They refer to the --max_steps of the current start.",
        UP_TO_ONE,
    )
    bf16: bool | None = option(None, "Mixed precision in bfloat16. Not set: if the GPU or CPU supports it.")
    logging_nan_inf_filter: bool = option(False, "Leave losses that are infinite or nan out of the log.")
    ddp_find_unused_parameters: bool | None = option(
        False, "Search for weights without gradient. Set automatically for two_stage and --generator_gate."
    )
    remove_unused_columns: bool = option(False, "Not used.")
    license: str | None = option(
        None, "Licence of the networks, for their model cards: an id of the Hub, such as apache-2.0. Not set: none."
    )
    language: list[str] = option([], "Languages of the text, for the model cards: codes such as en.")
    report_to: list[str] = option(["none"], "Trackers: tensorboard, wandb, none ... one or several.")

    def __post_init__(self) -> None:
        check_options(self)
        # Fields of TrainingArguments that have no declaration above.
        check(self.dataloader_num_workers >= 0, "dataloader_num_workers", self.dataloader_num_workers, "0 or more")
        for name in ("dataloader_prefetch_factor", "eval_accumulation_steps"):
            check(getattr(self, name) is None or getattr(self, name) > 0, name, getattr(self, name), "positive")
        for name in ("dataloader_persistent_workers", "dataloader_multiprocessing_context"):
            if getattr(self, name) and self.dataloader_num_workers == 0:
                raise UserError(f"--{name} needs --dataloader_num_workers above 0; set it, or leave --{name} out")
        for name, only in _WITHOUT_EFFECT.items():
            expected = "left out" if only is None else only
            check(getattr(self, name) == only, name, getattr(self, name), f"{expected}, pre-training does not use it")
        if self.checkpoint_fractions and self.save_strategy == "best":
            raise UserError(
                "--checkpoint_fractions does not work with --save_strategy best; choose steps, epoch or no"
            )
        if self.auto_resume and self.resume_from_checkpoint is not None:
            raise UserError(
                "--auto_resume finds the checkpoint itself; leave --resume_from_checkpoint out, or --auto_resume"
            )
        if self.include_num_input_tokens_seen not in ("no", False):
            raise UserError("--include_num_input_tokens_seen: tokens_seen is always logged; leave the option out")
        if "tpu_metrics_debug" in (self.debug or []):
            raise UserError("--debug tpu_metrics_debug is for TPUs, which are not supported; leave it out")
        for name in ("lr_scheduler_kwargs", "gradient_checkpointing_kwargs", "activation_checkpointing_kwargs"):
            check(_is_json_object(getattr(self, name)), name, getattr(self, name), "a JSON object")
        if not torch.accelerator.is_available():
            self.use_cpu = True  # otherwise transformers refuses bf16 on a CPU
        if self.bf16 is None:
            self.bf16 = not self.fp16 and computes_bf16(use_cpu=self.use_cpu)
        try:
            super().__post_init__()
        except (ValueError, TypeError, ImportError, OSError, OverflowError) as error:
            raise UserError(f"these options do not work: {error}") from error

    def __getstate__(self) -> dict[str, Any]:
        """Without tokens: Trainer pickles its arguments into what it pushes to the Hub."""
        return without_secrets(self.__dict__)


def _is_json_object(value: Any) -> bool:
    """Whether nothing, a mapping, or the text of one."""
    try:
        return value is None or isinstance(json.loads(value) if isinstance(value, str) else value, dict)
    except ValueError:
        return False


GROUPS = (
    CorpusArguments,
    CacheArguments,
    TokenizerPathArguments,
    TokenizerArguments,
    ModelArguments,
    ObjectiveArguments,
    SegmentArguments,
    PretrainingArguments,
)


class Arguments(NamedTuple):
    """All options of a pre-training run, in the order of `GROUPS`."""

    corpus: CorpusArguments
    cache: CacheArguments
    tokenizer_path: TokenizerPathArguments
    tokenizer: TokenizerArguments
    model: ModelArguments
    objective: ObjectiveArguments
    segments: SegmentArguments
    training: PretrainingArguments
    effective: dict[str, Any]
    """Options that were given or differ from their default, by name; written to config.yaml."""
    flags: frozenset[str] = frozenset()
    """Options given on the command line itself, not only in a file or a recipe."""


def parse_arguments(argv: list[str] | None = None) -> Arguments:
    """Parse and check the options; those of the quickstart if neither a corpus nor a configuration is named."""
    command_line = CommandLine(GROUPS, "Pre-train an ELECTRA.")
    given = {name: command_line.value_of(name, argv) for name in ("config", "dataset_name", "train_file")}
    resumed = command_line.value_of("resume_from_checkpoint", argv)
    default_config = None
    if resumed is not None:
        output_dir = command_line.value_of("output_dir", argv) or PretrainingArguments.output_dir
        experiment_name = command_line.value_of("experiment_name", argv)
        default_config = config_of_resumed_run(resumed or NEWEST[0], output_dir, experiment_name)
        wrong = find_file_corruption(Path(default_config)) if default_config and given["config"] is None else None
        if wrong is not None:
            raise UserError(
                f"cannot resume with the options of {Path(str(default_config)).parent}: {wrong}; name the right file "
                "with --config, this one if you edited it"
            )
    if default_config is None and all(value is None for value in given.values()):
        if resumed and resumed.lower() not in NEWEST:
            raise UserError(
                f"there is no {CONFIG_NAME} beside {resumed} with the options of its run; name them with --config, or "
                "the corpus with --train_file or --dataset_name"
            )
        default_config = str(QUICKSTART)
        if not {"-h", "--help", "--help_all", "--help-all"} & set(sys.argv[1:] if argv is None else argv):
            logger.info(
                "No corpus named: using %s, on the documentation that comes with Python. "
                "Name your own with --train_file FILES or --dataset_name NAMES.",
                os.path.relpath(QUICKSTART),
            )
    groups = command_line.parse(argv, default_config)
    args = Arguments._make((*groups, command_line.effective, frozenset(command_line.flags)))
    args.effective["bf16"] = args.training.bf16  # resolved for this device
    if args.segments.max_length > args.model.max_position_embeddings:
        raise UserError(
            f"--max_length {args.segments.max_length} is longer than the position table, --max_position_embeddings "
            f"{args.model.max_position_embeddings}; shorten the segments or enlarge the table"
        )
    check_networks(args.model, args.objective, args.flags)
    gate_of(args.objective, args.segments, args.training)
    check_training(args.training, args.model, args.objective)
    return args


def config_of_resumed_run(resume_from_checkpoint: str, output_dir: str, experiment_name: str | None) -> str | None:
    """The saved options of the run that is resumed, if the command names the run and they exist."""
    if experiment_name is None and resume_from_checkpoint.lower() in NEWEST:
        return None  # the options, perhaps the quickstart's, decide which run is meant
    folder = resumed_folder(resume_from_checkpoint, output_dir, experiment_name or "").resolve()
    for candidate in (folder / CONFIG_NAME, folder.parent / CONFIG_NAME):
        if folder.is_dir() and candidate.is_file():
            return str(candidate)
    return None


def resumed_folder(resume_from_checkpoint: str, output_dir: str, experiment_name: str) -> Path:
    """The checkpoint or run folder that --resume_from_checkpoint means, whether or not it exists."""
    is_newest = resume_from_checkpoint.lower() in NEWEST
    return Path(output_dir) / experiment_name if is_newest else Path(resume_from_checkpoint)


def check_training(training: PretrainingArguments, model: ModelArguments, objective: ObjectiveArguments) -> None:
    """Refuse options of Trainer that would be ignored, or stop the run in the middle."""
    is_cpu = training.device.type == "cpu" and training.distributed_state.distributed_type in (
        DistributedType.NO,
        DistributedType.MULTI_CPU,
    )
    if training.fsdp and is_cpu:  # accelerate would ignore it
        raise UserError("--fsdp needs GPUs, and this run is on the CPU; leave it out: processes then share the batch")
    if training.metric_for_best_model is not None:
        metrics = ["loss", *(metric for metric, _ in rows_of(objective.objective, model.generator_type == UNIFORM))]
        if training.metric_for_best_model.removeprefix("eval_") not in metrics:
            raise UserError(
                f"--metric_for_best_model {training.metric_for_best_model}: --objective {objective.objective} has no "
                f"such metric; it has {', '.join(metrics)}"
            )
    kwargs = training.gradient_checkpointing_kwargs
    if kwargs:
        try:  # only a trial tells which keywords and values torch accepts
            output: torch.Tensor = checkpoint(torch.square, torch.ones(1, requires_grad=True), **kwargs)
            output.sum().backward()
        except (ValueError, TypeError, RuntimeError, AttributeError, LookupError) as error:
            raise UserError(
                f"--gradient_checkpointing_kwargs {kwargs} does not work: {error}; torch accepts use_reentrant, "
                "preserve_rng_state, determinism_check, debug and early_stop"
            ) from error
    if training.push_to_hub:
        if huggingface_hub.constants.HF_HUB_OFFLINE:
            raise UserError("--push_to_hub needs the Hub, and HF_HUB_OFFLINE forbids it; unset it, or push later")
        token = training.hub_token or huggingface_hub.get_token()
        if token is None:
            raise UserError("--push_to_hub found no token on this machine; run `hf auth login`, or set HF_TOKEN")
        try:
            huggingface_hub.HfApi(token=token).whoami()
        except Exception as error:  # errors of the Hub's client and of its HTTP library
            raise UserError(f"--push_to_hub does not work: {error}; check the network and the token") from error


def check_networks(model: ModelArguments, objective: ObjectiveArguments, flags: Collection[str]) -> None:
    """Refuse options of a network that the run does not have, and ways to share weights that do not work.

    Args:
        model, objective: the options.
        flags: options on the command line itself; sizes of a recipe do not count as given.
    """
    spec, is_uniform = OBJECTIVES[objective.objective], model.generator_type == UNIFORM
    name = f"--objective {objective.objective}"
    if is_uniform:
        possible = [
            other for other, s in OBJECTIVES.items() if s.has_generator and not s.has_stages and not s.is_adversarial
        ]
        if objective.objective not in possible:
            raise UserError(f"--generator_type uniform does not work with {name}; it does with {', '.join(possible)}")
        no_effect = ["discriminator_weight", "discriminator_warmup_steps", "generator_gate", "temperature"]
        no_effect += ["disallow_correct", "mlm_replacement_probability", "mlm_random_probability"]
        objective.refuse(no_effect, "there is no generator network", whose="--generator_type uniform")
    if not objective_of(objective.objective, is_uniform).has_generator:
        given = [option for option in ("tie", "tie_embedding_projection", "init_generator") if getattr(model, option)]
        given += ["generator_type"] if model.generator_type not in (None, UNIFORM) else []
        given += [size for size in ("generator_size", "generator_layer_size", *GENERATOR_SIZES) if size in flags]
        if given:
            where = "--generator_type uniform" if is_uniform else name
            raise UserError(f"--{given[0]} has no effect with {where}: there is no generator network; leave it out")
    types = {model.discriminator_type, model.generator_type or model.discriminator_type} - {UNIFORM}
    projects = any(BACKBONES[backbone].projection for backbone in types)
    if "embedding_size" in flags and not projects and model.embedding_size != model.hidden_size:
        raise UserError(
            f"--embedding_size {model.embedding_size} has no effect with {' and '.join(sorted(types))}: embeddings "
            "are as wide as the network there; leave it out"
        )
    if model.tie == "gdes" and not spec.finds_replaced:
        raise UserError(
            f"--tie gdes does not work with {name}: its main network predicts tokens with the table that would be a "
            "difference; choose embeddings, word or none"
        )
    if not spec.has_stages:
        return
    shared = "tie" if model.tie not in (None, "none") else "tie_embedding_projection"
    if getattr(model, shared) not in (None, "none", False):
        raise UserError(
            f"--{shared} {getattr(model, shared)} does not work with {name}: the weights of the frozen generator must "
            "not change; leave it out"
        )
    if objective.init_from_generator and model.init_discriminator:
        raise UserError(
            f"--init_discriminator {model.init_discriminator}: {name} starts the discriminator from the generator; "
            "leave it out, or add --no_init_from_generator"
        )
    for size in ("generator_size", "generator_layer_size"):
        if objective.init_from_generator and getattr(model, size) != 1:
            raise UserError(
                f"{name} starts the discriminator from the generator's weights, so both must have the same size, but "
                f"--{size} is {getattr(model, size):g}; use --{size} 1, or --no_init_from_generator"
            )


def gate_of(objective: ObjectiveArguments, segments: SegmentArguments, training: PretrainingArguments) -> Gate | None:
    """Parse and check --generator_gate."""
    if not objective.generator_gate:
        return None
    given = f"--generator_gate {' '.join(objective.generator_gate)}"
    metrics = ["loss", *(name for name, _ in rows_of(objective.objective))]
    metric, *thresholds = objective.generator_gate
    try:
        (threshold,) = map(float, thresholds)
    except ValueError:
        threshold = math.nan
    if not math.isfinite(threshold):
        raise UserError(f"{given} is not possible: expected METRIC THRESHOLD, such as discriminator_auc 0.6")
    if metric not in metrics:
        raise UserError(f"{given}: --objective {objective.objective} has no such metric; it has {', '.join(metrics)}")
    if training.eval_strategy == "no" or (segments.validation_fraction == 0 and not segments.validation_file):
        raise UserError(
            f"{given} needs held-out metrics, but --eval_strategy is no or no text is held out; leave the gate out"
        )
    return Gate(metric, threshold)
