"""The options of a pre-training run: Trainer's with our own, and the configuration that all groups make together.

options.py makes it: from a command line, and once more when the data are known.
"""

import copy
import re
from argparse import SUPPRESS
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self

import torch
from transformers import TrainingArguments

from electra.base.checkpoints import checkpoint_named
from electra.base.errors import hint_of_unknown
from electra.base.files import absolute, expand
from electra.base.options import (
    FOLDER_NAME,
    NOT_EMPTY,
    SEED,
    STEPS,
    Need,
    check_options,
    default_of,
    from_recipe,
    never,
)
from electra.core.errors import UserError
from electra.core.objectives import Objective
from electra.core.options import Resuming, option, rules_of
from electra.core.ranges import BELOW_ONE, NOT_NEGATIVE, POSITIVE, UP_TO_ONE, Range
from electra.core.recipes import RECIPES
from electra.data.options import CacheArguments, CorpusArguments, SegmentArguments
from electra.model.options import ModelArguments, ObjectiveArguments, given_objective
from electra.pretraining.device import choose_for_device, compiles_by_default, join_processes, uses_cuda_graphs
from electra.tokenizers.options import OF_NEW_TOKENIZER, TokenizerArguments, TokenizerPathArguments

FEWEST = {"eval_steps": 20, "save_steps": 10, "logging_steps": 100}
"""Option -> the fewest evaluations, checkpoints or log lines of a run, unless the option is given."""
CONFIG_NAME = "config.yaml"
"""File in the folder of a run with its options."""
_KEPT = ("optim", "optim_args", "optim_target_modules", "lr_scheduler_type", "lr_scheduler_kwargs")
_RECORDED = (
    "fp16",
    "bf16_full_eval",
    "fp16_full_eval",
    "tf32",
    "logging_strategy",
    "eval_delay",
    "save_strategy",
    "dataloader_drop_last",
)
"""Options that only transformers declares and that a resumed run keeps or records; the others are free."""


def seconds_of(budget: str) -> float:
    """Return the seconds of a time such as 90m, 2h or 1.5d; 0 for other text."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd])", budget.strip().lower())
    return float(match[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86_400}[match[2]] if match else 0.0


@dataclass
class ElectraTrainingArguments(TrainingArguments):
    """The run: steps, optimizer, evaluation, checkpoints.

        args = ElectraTrainingArguments.from_recipe("tiny", "output/mine", max_steps=2000)

    All fields of `transformers.TrainingArguments` are available, with defaults for pre-training: those of the paper's
    ELECTRA-Small. `*_steps` are optimizer steps, not samples as in rc2020_electra. `log_level="warning"` leaves
    the lines of the log out, and `disable_tqdm=True` the progress bar.

    Args:
        output_dir: the run's folder.
        options: max_steps or num_train_epochs, learning_rate, per_device_train_batch_size, logging_steps, eval_steps,
            save_steps, seed, report_to, use_cpu and all others that `electra pretrain --help` lists for training.
    """

    resuming: ClassVar[Resuming] = "free"
    of_phase: ClassVar[bool] = False

    output_dir: str = option("output", "Folder of all runs; this one's is output_dir/experiment_name.")
    experiment_name: str = option(
        "electra",
        "Name of the run and its folder; -2, -3 ... is appended if it exists.",
        FOLDER_NAME,
        always_recorded=True,
        of_command=True,
    )
    resume_from_checkpoint: str | None = option(
        None, "Resume this checkpoint, or the latest valid one of this run folder.", of_command=True
    )
    init_checkpoint: str | None = option(
        None,
        "Start a new run from a checkpoint, or the latest valid one of a run, with its networks, tokenizer and "
        "optimizer; text, length, schedule and steps are this run's own.",
        NOT_EMPTY,
        resuming="kept",
        absolute=checkpoint_named,
    )
    seed: int = option(
        42, "Seed of weights, order of the text, masks and samples.", SEED, resuming="kept", always_recorded=True
    )
    eval_seed: int = option(
        42,
        "Seed of the sampled subset, held-out documents and masks of the evaluation; equal in comparisons.",
        SEED,
        resuming="kept",
        always_recorded=True,
    )
    data_seed: int | None = field(default=None, init=False)
    max_steps: int = from_recipe(
        "max_steps", "Optimizer steps. -1: those of --num_train_epochs.", STEPS, resuming="recorded"
    )
    num_train_epochs: float = option(3.0, "Passes over the corpus; only with --max_steps -1.", POSITIVE)
    per_device_train_batch_size: int = from_recipe(
        "per_device_train_batch_size", "Segments per device in a micro-batch.", POSITIVE, of_phase=True
    )
    gradient_accumulation_steps: int = option(1, "Micro-batches per optimizer step.", POSITIVE, of_phase=True)
    per_device_eval_batch_size: int = option(128, "Segments per device in evaluation.", POSITIVE)
    learning_rate: float = from_recipe(
        "learning_rate", "Peak learning rate.", NOT_NEGATIVE, resuming="recorded", of_phase=True
    )
    warmup_steps: float = from_recipe(
        "warmup_steps",
        "Steps of warm-up; below 1: a share of all. Not given: at most a tenth of the run.",
        NOT_NEGATIVE,
        resuming="recorded",
    )
    weight_decay: float = from_recipe(
        "weight_decay",
        "Weight decay, except of biases and LayerNorms.",
        NOT_NEGATIVE,
        resuming="recorded",
        of_phase=True,
    )
    max_grad_norm: float = from_recipe(
        "max_grad_norm", "Maximum norm of the gradient.", NOT_NEGATIVE, resuming="recorded", of_phase=True
    )
    adam_beta1: float = from_recipe(
        "adam_beta1", "Adam's decay of the mean gradient.", BELOW_ONE, resuming="recorded", of_phase=True
    )
    adam_beta2: float = from_recipe(
        "adam_beta2", "Adam's decay of the mean squared gradient.", BELOW_ONE, resuming="recorded", of_phase=True
    )
    adam_epsilon: float = from_recipe("adam_epsilon", "Adam's epsilon.", POSITIVE, resuming="recorded", of_phase=True)
    adam_bias_correction: bool = option(
        True, "Use Adam's bias correction; the original code does not.", resuming="kept", of_phase=True
    )
    product_schedule: bool = option(
        False,
        "Decay from step 0 and multiply by the warm-up, as the original code does; else decay after the warm-up.",
        resuming="recorded",
    )
    decay_steps: float | None = option(
        None,
        "Steps of the decay at the end of the run with --lr_scheduler_type warmup_stable_decay; below 1: a share of "
        "all. Not set: a tenth, or what the warm-up leaves.",
        POSITIVE,
        resuming="recorded",
    )
    eval_strategy: str = option("steps", "When to evaluate: no, steps, epoch.", resuming="recorded")
    eval_steps: float | None = option(
        5000,
        "Optimizer steps between evaluations. Not given: at most a twentieth of the run.",
        POSITIVE,
        resuming="recorded",
    )
    eval_pairs: str | None = option(
        None,
        "Minimal pairs, as `electra pairs` reads them: at each evaluation, the accuracy of the main network on up to "
        "500 of them.",
        NOT_EMPTY,
        resuming="recorded",
        absolute=absolute,
        of_command=True,
    )
    eval_classify: str | None = option(
        None,
        "Texts with one label each, as `electra classify` reads them: at each evaluation, the accuracy of a linear "
        "probe on the hidden states of up to 2,400 of them.",
        NOT_EMPTY,
        resuming="recorded",
        absolute=absolute,
        of_command=True,
    )
    logging_steps: float = option(
        100,
        "Optimizer steps between logged averages. Not given: at most a hundredth of the run.",
        POSITIVE,
        resuming="recorded",
    )
    save_steps: float = option(
        10_000,
        "Steps between checkpoints. Not given: at most a tenth of the run. The last step is always saved.",
        NOT_NEGATIVE,
        resuming="recorded",
    )
    save_total_limit: int | None = option(
        3, "Number of checkpoints to keep: the latest ones; 0 for all.", NOT_NEGATIVE
    )
    plan: bool = option(
        False, "Print the plan of the run, measure time and memory in ten steps, and stop.", of_command=True
    )
    device_flops: float | None = option(
        None,
        "Peak FLOP/s of another device, such as 989e12: --plan says how long the run takes there, and runs no step "
        "here.",
        POSITIVE,
        of_command=True,
    )
    utilization: float = option(0.3, "Share of --device_flops that training reaches.", UP_TO_ONE, of_command=True)
    auto_resume: bool = option(
        False, "Start the run of --experiment_name, or resume its latest valid checkpoint.", of_command=True
    )
    max_hours: float | None = option(
        None,
        "Save and stop, with exit code 85, this many hours after the start. Leave time for saving.",
        POSITIVE,
        of_command=True,
    )
    checkpoint_fractions: list[float] = option(
        [],
        "Fractions of --max_steps after which a checkpoint is saved that --save_total_limit does not delete. The "
        "paper's: 0.0625 0.125 0.25 0.5 1.",
        UP_TO_ONE,
        resuming="recorded",
    )
    checkpoint_words: int | None = option(
        None,
        "Words of the training text, as `wc -w` counts them: checkpoints are kept, too, after each million words seen "
        "up to ten, and after each ten million up to a hundred, as BabyLM asks.",
        POSITIVE,
        resuming="recorded",
    )
    bf16: bool | None = option(
        None,
        "Mixed precision in bfloat16. Not set: true if the GPU or CPU supports it, else fp16 on a GPU.",
        resuming="recorded",
    )
    budget: str | None = option(
        None,
        "Time that training may take, such as 90m or 2h: sets size and steps that were not given, by ten steps. Not "
        "set: 1h on a CPU, for a text without a size and a length.",
        Range(lambda value: seconds_of(value) > 0, "a time such as 90m, 2h or 1.5d"),
        of_command=True,
    )
    torch_compile: bool | None = option(None, "Compile the training step. Not set: true on a GPU.")
    logging_nan_inf_filter: bool = option(False, "Leave losses that are infinite or nan out of the log.")
    ddp_find_unused_parameters: bool | None = option(
        False, "Search for weights without gradient. Set automatically for two_stage and --generator_gate."
    )
    dataloader_num_workers: int | None = option(
        None, "Processes that prepare batches. Not set: up to 4 on a GPU, else 0.", NOT_NEGATIVE
    )
    threads: int | None = option(
        None,
        "Threads that compute on a CPU. Not set: OMP_NUM_THREADS, or one for each core.",
        POSITIVE,
        resuming="recorded",
    )
    remove_unused_columns: bool = option(False, SUPPRESS)
    license: str | None = option(
        None, "Licence for the model cards: an id of the Hub, such as apache-2.0.", of_command=True
    )
    language: list[str] = option([], "Languages of the text, for the model cards: codes such as en.", of_command=True)
    report_to: list[str] = option(["none"], "Trackers: tensorboard, wandb, none ... one or several.")
    must_compile: bool = field(default=False, init=False)
    """Whether compilation was asked for, so that its failure is an error."""
    visible_gpus: int = field(default=0, init=False)
    """How many GPUs a process without torchrun could use; 1 with torchrun, 0 on a CPU."""

    given: ClassVar[frozenset[str]] = frozenset()
    """Names of the options that the user gives, of all groups and whatever their values; each object has its own set.

    The parser sets the names that are on the command line or in its file, the constructor the arguments of a program.
    """

    def __new__(cls, *args: Any, **options: Any) -> Self:
        instance = super().__new__(cls)
        names = [f.name for f in fields(cls) if f.init]
        given_names = {*names[: len(args)], *options}
        if len(given_names) < len(names):  # a parser passes all, and sets those that were typed
            instance.__dict__["given"] = frozenset(given_names)
        return instance

    def __post_init__(self) -> None:
        check_options(self)
        if self.gradient_accumulation_steps > 1 and uses_cuda_graphs(self):
            raise UserError(
                "CUDA graphs overwrite the gradients of earlier micro-batches; leave --torch_compile_mode and "
                f"--torch_compile_backend out, or --gradient_accumulation_steps {self.gradient_accumulation_steps}"
            )
        self.output_dir = str(expand(self.output_dir))
        if "num_train_epochs" in self.given and "max_steps" not in self.given:
            self.max_steps = -1
        if not torch.accelerator.is_available():
            self.use_cpu = True  # otherwise transformers refuses bf16 on a CPU
        choose_for_device(self)
        join_processes(self)
        try:
            super().__post_init__()
        except (ValueError, TypeError, ImportError, OSError, OverflowError) as error:
            raise UserError(f"these options do not work: {error}") from error
        self.visible_gpus = self.n_gpu
        self._n_gpu = min(self.n_gpu, 1)  # with more, Trainer would multiply the batch in `nn.DataParallel`
        self.must_compile = bool(self.torch_compile)
        if self.torch_compile is None:  # not earlier: transformers would switch TF32 on
            self.torch_compile = compiles_by_default(self)
        if self.device.type == "cuda":  # the step goes on while its batch is copied
            self.accelerator_config.non_blocking = self.dataloader_pin_memory

    @classmethod
    def from_recipe(cls, recipe: str, output_dir: str, **options: object) -> Self:
        """Return the arguments of a recipe: its steps, batch size, learning rate, warm-up, decay, clipping, Adam.

        Args:
            recipe: a name of `RECIPES`, that of the networks: `ElectraForJointPretraining.from_recipe`.
            output_dir: the run's folder.
            options: other arguments; they win over the recipe's. In a run that is shorter than the recipe's, the
                warm-up is at most a tenth of the run, unless `options` has warmup_steps.
        Raises:
            UserError: there is no such recipe, or an argument is not possible.
        """
        if recipe not in RECIPES:
            raise UserError(f"unknown recipe {recipe}; {hint_of_unknown(recipe, RECIPES, 'see RECIPES')}")
        names = {f.name for f in fields(cls)}
        values: dict[str, Any] = {name: value for name, value in RECIPES[recipe].items() if name in names}
        if "num_train_epochs" in options:
            del values["max_steps"]
        args = cls(output_dir, **{**values, **options})
        args.__dict__["given"] = frozenset({"output_dir", *options})
        return args

    def with_values(self, **values: object) -> Self:
        """Return a copy with other values. `dataclasses.replace` would run Trainer's checks again."""
        other = copy.copy(self)
        other.__dict__.update(values)
        return other

    @property
    def segments_per_step(self) -> int:
        """Return the number of segments of an optimizer step, over all devices and accumulated batches."""
        return self.train_batch_size * self.gradient_accumulation_steps * self.world_size


NOT_USED = (
    "load_best_model_at_end",
    "metric_for_best_model",
    "greater_is_better",
    "auto_find_batch_size",
    "batch_eval_metrics",
    "label_smoothing_factor",
    "train_sampling_strategy",
    "neftune_noise_alpha",
    "use_liger_kernel",
    "prediction_loss_only",
    "eval_do_concat_batches",
    "ignore_data_skip",
    "enable_jit_checkpoint",
    "hub_revision",
    "hub_strategy",
    "include_num_input_tokens_seen",
)
"""Options of Trainer that do nothing here."""
OF_OPTIMIZER = ("optim", "optim_args", "optim_target_modules", "adam_bias_correction")
"""Options that decide which values the optimizer's state has."""
TRAINING_NEEDS = [
    Need(("device_flops", "utilization"), lambda o: o.plan, "it is for --plan"),
    Need(("max_steps",), lambda o: o.budget is None, "--budget sets it"),
    Need(
        ("tokenizer_path", "init_discriminator", "init_generator", "init_generator_layers", "initialization"),
        lambda o: o.init_checkpoint is None,
        "networks and tokenizer are those of --init_checkpoint",
    ),
    Need(
        OF_NEW_TOKENIZER,
        lambda o: not (o.init_checkpoint or o.init_discriminator or o.init_generator or o.token_cache),
        "the tokenizer of the networks or of --token_cache stays as it is",
    ),
    Need(
        ("num_train_epochs",),
        lambda o: o.max_steps == -1,
        "the run ends after --max_steps {max_steps}, which is not -1",
    ),
    Need(("product_schedule",), lambda o: o.lr_scheduler_type == "linear", "it is for --lr_scheduler_type linear"),
    Need(
        ("decay_steps",),
        lambda o: (
            o.lr_scheduler_type == "warmup_stable_decay" and "num_decay_steps" not in (o.lr_scheduler_kwargs or "")
        ),
        "it is for --lr_scheduler_type warmup_stable_decay without num_decay_steps in --lr_scheduler_kwargs",
    ),
    Need(
        ("adam_bias_correction",),
        lambda o: o.optim in ("adamw_torch_fused", "adamw_torch"),
        "it is for --optim adamw_torch_fused or adamw_torch",
    ),
    Need(NOT_USED, never, "pre-training does not use it"),
]
"""Needs of options of the training among each other."""


@dataclass(frozen=True)
class OptionGroups:
    """The options of a pre-training run, by subject."""

    corpus: CorpusArguments
    cache: CacheArguments
    tokenizer_path: TokenizerPathArguments
    tokenizer: TokenizerArguments
    model: ModelArguments
    objective: ObjectiveArguments
    segments: SegmentArguments
    training: ElectraTrainingArguments

    def values(self) -> dict[str, object]:
        """Return all options by name."""
        groups = [getattr(self, group.name) for group in fields(OptionGroups)]
        return {f.name: getattr(group, f.name) for group in groups for f in fields(group)}


@dataclass(frozen=True)
class Configuration(OptionGroups):
    """All options of a pre-training run, made by `parse_pretraining_arguments` and `resolve_options`; frozen."""

    record: Mapping[str, Any]
    """The options to be written to config.yaml, by name: given, not the default, or always recorded."""
    unused: frozenset[str]
    """Options that have no effect in this run, given or not. Neither config.yaml nor origin.json has them."""

    def used_values(self) -> dict[str, object]:
        """Return the options that do something in this run, by name."""
        return {name: value for name, value in self.values().items() if name not in self.unused}

    @property
    def given(self) -> frozenset[str]:
        """Return the names of the options that the command line or its file gives, or --budget sets."""
        return self.training.given

    @property
    def starts_from_trained(self) -> bool:
        """Return True if the networks have trained weights before the first step of the run."""
        return any((self.model.init_discriminator, self.model.init_generator, self.training.init_checkpoint))

    @property
    def spec(self) -> Objective:
        """Return the objective of the run, with the shares and the weight that the user gives."""
        return given_objective(self.objective, self.model.generator_type)


GROUPS: tuple[Any, ...] = tuple(group.type for group in fields(OptionGroups))
"""Groups of the options of `electra pretrain`, in the order of `OptionGroups`."""
RESUMING: dict[str, Resuming] = {
    **{f.name: rules_of(f).resuming or group.resuming for group in GROUPS for f in fields(group)},
    **dict.fromkeys(_KEPT, "kept"),
    **dict.fromkeys(_RECORDED, "recorded"),
}
"""Option -> what resuming a run with another value does."""
DEFAULTS: dict[str, Any] = {f.name: default_of(f) for group in GROUPS for f in fields(group)}
"""Option -> its default, which a run has that was started before the option existed."""
