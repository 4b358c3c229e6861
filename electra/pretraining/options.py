"""The options of a pre-training run: Trainer's with our own, parsed, checked against each other, and resolved.

What options of several groups must agree on is refused here, before anything is read or built. `resolve` puts numbers
in place of epochs, shares and defaults once the data are known; nothing changes an option after that.
"""

import logging
import math
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import huggingface_hub
import torch
from accelerate.utils import DistributedType
from transformers import TrainingArguments
from transformers.trainer_utils import IntervalStrategy

from electra.backbones import BACKBONES, UNIFORM
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
from electra.io.console import without_secrets
from electra.io.errors import UserError
from electra.io.files import CONFIGS
from electra.objectives import OBJECTIVES, objective_of
from electra.pretraining.callbacks.phases import Gate
from electra.pretraining.device import choose_for_device, compiles_by_default, join_processes, tell_choices
from electra.pretraining.metrics import check_eval_corruption, evaluates, held_out_texts, rows_of
from electra.pretraining.resume import generator_steps_of, read_state

logger = logging.getLogger(__name__)

QUICKSTART = CONFIGS / "pretraining" / "quickstart.yaml"
CONFIG_NAME = "config.yaml"

_WITHOUT_EFFECT: dict[str, Any] = {
    "label_smoothing_factor": 0.0,
    "train_sampling_strategy": "random",
    "prediction_loss_only": False,
    "batch_eval_metrics": False,
    "eval_do_concat_batches": True,
    "ignore_data_skip": False,
    "include_num_input_tokens_seen": False,
    "neftune_noise_alpha": None,
    "use_liger_kernel": False,
    "liger_kernel_config": None,
    "enable_jit_checkpoint": False,
}
"""Options of Trainer that pre-training would ignore, and the only value that it accepts."""
_UNUSED = {"remove_unused_columns", "length_column_name", "do_train", "do_eval", "do_predict"}
"""Other options of Trainer that have no effect; accepted because scripts for other models set them."""


@dataclass
class PretrainingArguments(TrainingArguments):
    """The run: steps, optimizer, evaluation, checkpoints.

    All fields of `transformers.TrainingArguments` are available, with defaults for pre-training. `*_steps` are
    optimizer steps, not samples as in rc2020_electra.
    """

    not_in_help: ClassVar = {*_WITHOUT_EFFECT, *_UNUSED}

    output_dir: str = option("output", "Folder of all runs; this one's is output_dir/experiment_name.")
    experiment_name: str = option("electra", "Name of the run and its folder; -2, -3 ... is appended if it exists.")
    resume_from_checkpoint: str | None = option(
        None, "Resume this checkpoint, or the latest valid one of this run folder."
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
    adam_bias_correction: bool = option(True, "Use Adam's bias correction; the original code does not.")
    muon_learning_rate: float | None = option(
        None,
        "Peak rate of Muon, which updates the layers' matrices; Adam updates the rest. Not set: only Adam.",
        POSITIVE,
    )
    product_schedule: bool = option(
        False,
        "Decay from step 0 and multiply by the warm-up, as the original code does; else decay after the warm-up.",
    )
    eval_strategy: str = option("steps", "When to evaluate: no, steps, epoch.")
    eval_steps: float | None = option(5000, "Optimizer steps between evaluations.", POSITIVE)
    logging_steps: float = option(100, "Optimizer steps between logged averages.")
    save_steps: float = option(10_000, "Steps between checkpoints. The last step is always saved.", NOT_NEGATIVE)
    save_total_limit: int | None = option(3, "Number of checkpoints to keep: the latest ones.")
    plan: bool = option(False, "Print the plan of the run, measure time and memory in ten steps, and stop.")
    auto_resume: bool = option(False, "Start the run of --experiment_name, or resume its latest valid checkpoint.")
    max_hours: float | None = option(
        None, "Save and stop, with exit code 85, this many hours after the start. Leave time for saving.", POSITIVE
    )
    checkpoint_fractions: list[float] = option(
        [],
        "Fractions of --max_steps after which a checkpoint is saved that --save_total_limit never deletes. The "
        "paper's: 0.0625 0.125 0.25 0.5 1.",
        UP_TO_ONE,
    )
    bf16: bool | None = option(
        None, "Mixed precision in bfloat16. Not set: true if the GPU or CPU supports it, else fp16 on a GPU."
    )
    torch_compile: bool | None = option(None, "Compile the training step. Not set: true on a GPU.")
    logging_nan_inf_filter: bool = option(False, "Leave losses that are infinite or nan out of the log.")
    ddp_broadcast_buffers: bool | None = option(
        False, "Copy buffers to all processes in each step; not needed, because all are constants."
    )
    ddp_find_unused_parameters: bool | None = option(
        False, "Search for weights without gradient. Set automatically for two_stage and --generator_gate."
    )
    dataloader_num_workers: int | None = option(
        None, "Processes that prepare batches. Not set: up to 4 on a GPU, else 0.", NOT_NEGATIVE
    )
    remove_unused_columns: bool = option(False, "Not used.")
    include_num_input_tokens_seen: str | bool = option(False, "Not used: the log always has tokens_seen.")
    license: str | None = option(None, "Licence for the model cards: an id of the Hub, such as apache-2.0.")
    language: list[str] = option([], "Languages of the text, for the model cards: codes such as en.")
    report_to: list[str] = option(["none"], "Trackers: tensorboard, wandb, none ... one or several.")

    def __post_init__(self) -> None:
        check_options(self)
        for name, only in _WITHOUT_EFFECT.items():
            expected = "left out" if only is None else only
            check(getattr(self, name) == only, name, getattr(self, name), f"{expected}, pre-training does not use it")
        if self.auto_find_batch_size:
            raise UserError(
                "--auto_find_batch_size does not work, because it would change the number of samples per step; lower "
                "--per_device_train_batch_size and raise --gradient_accumulation_steps by the same factor"
            )
        if self.checkpoint_fractions and self.save_strategy == "best":
            raise UserError("--checkpoint_fractions does not work with --save_strategy best; choose steps or epoch")
        if self.auto_resume and self.resume_from_checkpoint is not None:
            raise UserError("--auto_resume finds the checkpoint itself; leave --resume_from_checkpoint out")
        kwargs = self.lr_scheduler_kwargs
        is_object = not isinstance(kwargs, str) or (kwargs.startswith("{") and kwargs.endswith("}"))
        check(is_object, "lr_scheduler_kwargs", kwargs, "a JSON object")
        if not torch.accelerator.is_available():
            self.use_cpu = True  # otherwise transformers refuses bf16 on a CPU
        choose_for_device(self)
        join_processes(self)
        try:
            super().__post_init__()
        except (ValueError, TypeError, ImportError, OSError, OverflowError) as error:
            raise UserError(f"these options do not work: {error}") from error
        if self.torch_compile is None:  # not earlier: transformers would switch TF32 on
            self.torch_compile = compiles_by_default(self)
        if self.device.type == "cuda":  # the step goes on while its batch is copied
            self.accelerator_config.non_blocking = bool(self.dataloader_pin_memory)

    def __getstate__(self) -> dict[str, Any]:
        """Without tokens: Trainer pickles its arguments into what it pushes to the Hub."""
        return without_secrets(self.__dict__)

    def with_values(self, **values: Any) -> Self:
        """A copy with other values. `dataclasses.replace` would run Trainer's checks again, `copy` lose tokens."""
        other = object.__new__(type(self))
        other.__dict__.update({**vars(self), **values})
        return other

    @property
    def n_gpu(self) -> int:
        """One at most: with more, Trainer would multiply the batch by their number and use `nn.DataParallel`."""
        return min(1, self.visible_gpus)

    @property
    def visible_gpus(self) -> int:
        """GPUs that a process without torchrun could use; 1 with torchrun, 0 on a CPU."""
        return int(super().n_gpu)

    @property
    def segments_per_step(self) -> int:
        """Segments of an optimizer step, over all devices and accumulated batches."""
        return int(self.train_batch_size * self.gradient_accumulation_steps * self.world_size)


class Arguments(NamedTuple):
    """All options of a pre-training run: the groups of `GROUPS`, and what the command line says about them."""

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
    lines: frozenset[str] = frozenset()
    """Options given on the command line itself, and in the file of --config; both without those of a recipe."""

    def values(self) -> dict[str, Any]:
        """All options by name."""
        groups: tuple[Any, ...] = self[: len(GROUPS)]
        return {f.name: getattr(group, f.name) for group in groups for f in fields(group)}


GROUPS: tuple[type, ...] = tuple(Arguments.__annotations__.values())[:8]


def parse_arguments(argv: list[str] | None = None) -> Arguments:
    """Parse and check the options; those of the quickstart if neither a corpus nor a configuration is named."""
    command_line = CommandLine(GROUPS, "Pre-train an ELECTRA.")
    config = _default_config(command_line, argv)
    groups = command_line.parse(argv, config)
    args = Arguments._make((*groups, command_line.effective, command_line.flags, command_line.lines))
    if config == str(QUICKSTART):
        logger.info("No corpus given: using %s. Give your own with --train_file or --dataset_name.", config)
    tell_choices(args.training, set(args.effective))
    # Resolved for this device: a run that goes on elsewhere keeps its precision.
    args.effective["bf16"] = args.training.bf16
    if args.training.fp16:
        args.effective["fp16"] = True
    if args.segments.max_length > args.model.max_position_embeddings:
        raise UserError(
            f"--max_length {args.segments.max_length} is more than --max_position_embeddings "
            f"{args.model.max_position_embeddings}; lower the first or raise the second"
        )
    check_networks(args)
    held_out_texts(args.segments.validation_file)
    check_eval_corruption(args.segments, args.objective.objective, args.training.eval_strategy)
    gate_of(args)
    check_training(args)
    return args


def _default_config(command_line: CommandLine, argv: list[str] | None) -> str | None:
    """The file of options where none is named: that of the resumed run, or the quickstart where no corpus is named."""
    names = ("config", "resume_from_checkpoint", "dataset_name", "train_file")
    config, resumed, *corpus = (command_line.value_of(name, argv) for name in names)
    if config is not None:
        return None
    saved = config_of_resumed_run(resumed) if resumed else None
    if saved is not None:
        logger.info("options of %s", saved)
        return str(saved)
    if corpus != [None, None]:
        return None
    if resumed:
        raise UserError(f"there is no {CONFIG_NAME} beside {resumed}; name the run's options with --config")
    return str(QUICKSTART)


def config_of_resumed_run(resumed: str) -> Path | None:
    """The saved options of a run, which is named by its folder or by one of its checkpoints."""
    folder = Path(resumed).resolve()
    candidates = (folder / CONFIG_NAME, folder.parent / CONFIG_NAME) if folder.is_dir() else ()
    return next((path for path in candidates if path.is_file()), None)


def resolve(
    args: Arguments, folder: Path, checkpoint: str | None, segments_per_epoch: int, has_held_out: bool
) -> Arguments:
    """The options with the run's folder, and with steps in place of epochs, shares of steps and defaults.

    `checkpoint` is the one that is resumed. Without held-out text, nothing is evaluated.
    """
    training, objective, batch_size = args.training, args.objective, args.training.segments_per_step
    max_steps = training.max_steps
    if max_steps == -1:
        max_steps = math.ceil(training.num_train_epochs * segments_per_epoch / batch_size)
    if checkpoint is not None and (step := read_state(Path(checkpoint)).global_step) > max_steps:
        raise UserError(f"{checkpoint} is at step {step}, beyond --max_steps {max_steps}; raise it")
    values: dict[str, Any] = {
        "max_steps": max_steps,
        "output_dir": str(folder),
        "run_name": training.run_name or folder.name,
    }
    for event in ("eval", "save", "logging"):
        strategy, steps = getattr(training, f"{event}_strategy"), getattr(training, f"{event}_steps")
        if strategy == IntervalStrategy.EPOCH:  # Trainer sees the whole run as one epoch
            strategy, steps = type(strategy)("steps"), max(1, math.ceil(segments_per_epoch / batch_size))
        values[f"{event}_strategy"] = strategy
        values[f"{event}_steps"] = int(steps) if steps >= 1 else math.ceil(max_steps * steps)
    if not has_held_out:
        values["eval_strategy"] = IntervalStrategy.NO
    values["eval_on_start"] = values["eval_strategy"] != IntervalStrategy.NO and checkpoint is None
    has_stages = OBJECTIVES[objective.objective].has_stages
    if has_stages:
        steps = generator_steps_of(objective.generator_steps, max_steps, checkpoint)
        objective = replace(objective, generator_steps=steps)
    if has_stages or objective.generator_gate:  # some weights get no gradient in some steps
        values["ddp_find_unused_parameters"] = True
    return args._replace(training=training.with_values(**values), objective=objective)


def check_training(args: Arguments) -> None:
    """Refuse options of Trainer that would be ignored, or stop the run in the middle."""
    training, objective = args.training, args.objective.objective
    on_cpu = (DistributedType.NO, DistributedType.MULTI_CPU)
    if training.fsdp and training.device.type == "cpu" and training.distributed_state.distributed_type in on_cpu:
        raise UserError("--fsdp needs GPUs, and this run is on the CPU; leave it out: processes then share the batch")
    if training.muon_learning_rate is not None:
        wrong = {
            "fsdp": bool(training.fsdp),
            "deepspeed": bool(training.deepspeed),
            "adam_bias_correction false": not training.adam_bias_correction,
            f"optim {training.optim.value}": training.optim.value not in ("adamw_torch_fused", "adamw_torch"),
        }
        if given := [name for name, is_given in wrong.items() if is_given]:
            raise UserError(f"--muon_learning_rate does not work with --{given[0]}; leave one of them out")
    if training.metric_for_best_model is not None:
        metrics = ["loss", *(metric for metric, _ in rows_of(objective, args.model.generator_type == UNIFORM))]
        if training.metric_for_best_model.removeprefix("eval_") not in metrics:
            asked = f"--metric_for_best_model {training.metric_for_best_model}"
            raise UserError(f"{asked}: metrics of --objective {objective} are {', '.join(metrics)}")
    unknown = {*(training.gradient_checkpointing_kwargs or {})} - {"use_reentrant", "preserve_rng_state"}
    if unknown:
        raise UserError(
            f"--gradient_checkpointing_kwargs has no {min(unknown)}, only use_reentrant, preserve_rng_state"
        )
    if training.torch_compile_mode == "reduce-overhead" and training.gradient_accumulation_steps > 1:
        raise UserError(
            "--torch_compile_mode reduce-overhead does not work with --gradient_accumulation_steps: its graphs write "
            "to the same memory in every batch; leave the mode out"
        )
    if training.dataloader_persistent_workers and not training.dataloader_num_workers:
        raise UserError("--dataloader_persistent_workers needs --dataloader_num_workers of at least 1")
    if training.push_to_hub:
        try:
            huggingface_hub.HfApi(token=training.hub_token).whoami()
        except Exception as error:  # errors of the Hub's client and of its HTTP library
            hint = "check the network, HF_HUB_OFFLINE and the token (`hf auth login`, HF_TOKEN)"
            raise UserError(f"--push_to_hub does not work: {error}; {hint}") from error


def check_networks(args: Arguments) -> None:
    """Refuse options of a network that the run does not have, and ways to share weights that do not work.

    Sizes of a recipe do not count as given.
    """
    model, objective, flags = args.model, args.objective, args.flags
    spec, is_uniform = OBJECTIVES[objective.objective], model.generator_type == UNIFORM
    name = f"--objective {objective.objective}"
    if is_uniform:
        needs_network = {o for o, s in OBJECTIVES.items() if s.has_stages or s.is_adversarial or s.is_energy_based}
        no_network = [o for o, s in OBJECTIVES.items() if s.has_generator and o not in needs_network]
        if objective.objective not in no_network:
            raise UserError(f"--generator_type uniform does not work with {name}, only with {', '.join(no_network)}")
        no_effect = ["discriminator_weight", "generator_gate", "temperature"]
        no_effect += ["disallow_correct", "mlm_replacement_probability", "mlm_random_probability"]
        objective.refuse(no_effect, "there is no generator network", whose="--generator_type uniform")
    if not objective_of(objective.objective, is_uniform).has_generator:
        given = ["init_generator"] if model.init_generator else []
        given += ["tie"] if model.tie and (model.tie != "none" or "tie" in flags) else []  # none: of a recipe
        given += ["generator_type"] if model.generator_type not in (None, UNIFORM) else []
        given += [size for size in ("generator_size", "generator_layer_size", *GENERATOR_SIZES) if size in flags]
        if given:
            where = "--generator_type uniform" if is_uniform else name
            raise UserError(f"--{given[0]} has no effect with {where}: there is no generator network; leave it out")
    if model.init_generator_layers is not None and not model.init_generator:
        raise UserError(
            "--init_generator_layers needs --init_generator; --generator_layer_size is for a new generator"
        )
    if model.init_discriminator and model.initialization == "local" and "initialization" in flags:
        raise UserError("--initialization local has no effect on the trained --init_discriminator; leave it out")
    types = {model.discriminator_type, model.generator_type or model.discriminator_type} - {UNIFORM}
    projects = any(BACKBONES[backbone].projection for backbone in types)
    if "embedding_size" in flags and not projects and model.embedding_size != model.hidden_size:
        raise UserError(
            f"--embedding_size {model.embedding_size} has no effect with {' and '.join(sorted(types))}: embeddings "
            "are as wide as the network there; leave it out"
        )
    if model.tie == "gdes" and not spec.finds_replaced:
        raise UserError(f"--tie gdes does not work with {name}, whose main network predicts tokens; choose another")
    if not spec.has_stages:
        return
    if model.tie not in (None, "none"):
        raise UserError(
            f"--tie {model.tie} does not work with {name}: the frozen generator must not change; leave it out"
        )
    sizes = model.generator_size, model.generator_layer_size
    if objective.init_from_generator and (model.init_discriminator or sizes != (1, 1)):
        raise UserError(
            f"{name} starts the discriminator from the generator, which does not work with --generator_size "
            f"{sizes[0]:g} and --generator_layer_size {sizes[1]:g}; use --generator_size 1 and --generator_layer_size "
            "1 without --init_discriminator, or add --no_init_from_generator"
        )


def gate_of(args: Arguments) -> Gate | None:
    """Parse and check --generator_gate."""
    objective = args.objective
    if not objective.generator_gate:
        return None
    given = f"--generator_gate {' '.join(objective.generator_gate)}"
    metrics = ["loss", *(name for name, _ in rows_of(objective.objective))]
    try:
        metric, number = objective.generator_gate
        threshold = float(number)
    except ValueError:
        metric, threshold = "", math.nan
    if metric not in metrics or not math.isfinite(threshold):
        raise UserError(
            f"{given} is not possible: expected METRIC THRESHOLD, such as discriminator_auc 0.6; metrics of "
            f"--objective {objective.objective} are {', '.join(metrics)}"
        )
    if not evaluates(args.segments, args.training.eval_strategy):
        raise UserError(f"{given} needs held-out text and --eval_strategy steps or epoch; leave the gate out")
    return Gate(metric, threshold)
