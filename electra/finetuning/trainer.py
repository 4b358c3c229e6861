"""One fine-tuning run on `transformers.Trainer`, extended through its hooks.

    compute_loss_func   mean over the examples of a step, however they are split into batches and devices
    create_optimizer    layer-wise learning rates; Adam without bias correction, if asked
    create_scheduler    the original's product schedule, if asked
    _get_train_sampler  batches of like length, in an order that follows from the seed
    prediction_step     logits alone

Nothing is saved by Trainer: a run takes minutes, and what is kept of it is written by whoever asked for it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import Dataset, Sampler
from transformers import PrinterCallback, ProgressCallback, Trainer, TrainingArguments
from transformers.trainer_pt_utils import LengthGroupedSampler

from electra.errors import UserError
from electra.finetuning.encoding import Rows
from electra.optimization import AdamWNoBiasCorrection, layer_decay_groups, product_scheduler

Loss = Callable[[Any, Tensor, Tensor | int | None], Tensor]
"""From a model's output, the labels and how many of them the step has: what the batch adds to the step's loss, ()."""


@dataclass(frozen=True)
class Hyperparameters:
    """What a run's score depends on, beside its seed, its data and its encoder. Options of the same names.

    `head` is the one of `electra.finetuning.heads`; empty for a task that has another one.
    """

    learning_rate: float
    layerwise_lr_decay: float
    layerwise_lr_decay_mode: str
    num_train_epochs: float
    per_device_train_batch_size: int
    gradient_accumulation_steps: int
    max_length: int
    warmup_steps: float
    weight_decay: float
    max_grad_norm: float
    adam_beta1: float
    adam_beta2: float
    adam_epsilon: float
    adam_bias_correction: bool
    product_schedule: bool
    head: str
    head_dropout: float
    select: str


@dataclass(frozen=True)
class Machine:
    """How a run is computed: changes its speed, not what it is. Options of the same names."""

    per_device_eval_batch_size: int
    bf16: bool
    fp16: bool
    use_cpu: bool
    dataloader_num_workers: int
    logging_steps: int
    report_to: tuple[str, ...]


def example_losses(logits: Tensor, labels: Tensor) -> Tensor:
    """Loss of each example, float32 (B,): squared error where labels are floats, cross-entropy otherwise.

    Args:
        logits: (B, C); C = 1 for a regression.
        labels: int64 or float (B,).
    """
    if labels.is_floating_point():
        return (logits.float().squeeze(1) - labels.float()).square()
    return nn.functional.cross_entropy(logits.float(), labels, reduction="none")


def step_loss(logits: Tensor, labels: Tensor, num_items_in_batch: Tensor | int | None = None) -> Tensor:
    """What a batch adds to the mean loss over all `num_items_in_batch` examples of its step, ()."""
    losses = example_losses(logits, labels)
    return losses.mean() if num_items_in_batch is None else losses.sum() / num_items_in_batch


def training_arguments(settings: Hyperparameters, machine: Machine, *, seed: int, folder: Path, name: str) -> Any:
    """The `TrainingArguments` of a run.

    Raises:
        UserError: this machine cannot do what is asked, such as fp16 without a GPU.
    """
    accelerated = torch.accelerator.is_available()
    try:
        args = TrainingArguments(
            output_dir=str(folder),
            run_name=name,
            seed=seed,
            num_train_epochs=settings.num_train_epochs,
            per_device_train_batch_size=settings.per_device_train_batch_size,
            gradient_accumulation_steps=settings.gradient_accumulation_steps,
            learning_rate=settings.learning_rate,
            warmup_steps=settings.warmup_steps,
            weight_decay=settings.weight_decay,
            max_grad_norm=settings.max_grad_norm,
            adam_beta1=settings.adam_beta1,
            adam_beta2=settings.adam_beta2,
            adam_epsilon=settings.adam_epsilon,
            per_device_eval_batch_size=machine.per_device_eval_batch_size,
            bf16=machine.bf16,
            fp16=machine.fp16,
            use_cpu=machine.use_cpu or not accelerated,
            dataloader_num_workers=machine.dataloader_num_workers,
            logging_steps=machine.logging_steps,
            logging_nan_inf_filter=False,
            report_to=list(machine.report_to),
            save_strategy="no",
            remove_unused_columns=False,
            label_names=["labels"],
            ddp_find_unused_parameters=False,
            disable_tqdm=True,
        )
    except (ValueError, TypeError, ImportError, OSError, RuntimeError) as error:
        raise UserError(f"these options do not work: {error}") from error
    args._n_gpu = min(args.n_gpu, 1)  # several GPUs are used by torchrun, not by copies in one process
    return args


class ShuffledLengthGroups(LengthGroupedSampler):
    """Rows in batches of like length, the batches in random order.

    transformers' own goes from long to short within each fifty batches, so that neighbouring steps see like rows. Its
    groups are kept, its order is not. A last batch that is not full stays last.
    """

    def __iter__(self) -> Iterator[int]:
        rows = list(super().__iter__())
        batches = [rows[first : first + self.batch_size] for first in range(0, len(rows), self.batch_size)]
        full = len(rows) // self.batch_size
        order = [*torch.randperm(full, generator=self.generator).tolist(), *range(full, len(batches))]
        return (row for batch in order for row in batches[batch])


class FineTuner(Trainer):
    """Fine-tunes a model that has an encoder in `encoder` and puts out a tensor (B, ...).

    Args:
        settings: its hyper-parameters.
        model, args, train_dataset: as of `transformers.Trainer`.
        collator: rows -> a batch: the arguments of the model, and `labels`.
        loss: of a step.
    """

    lr_scheduler: torch.optim.lr_scheduler.LRScheduler | None

    def __init__(
        self,
        settings: Hyperparameters,
        *,
        model: nn.Module,
        args: TrainingArguments,
        train_dataset: Rows,
        collator: Callable[[Any], dict[str, Tensor]],
        loss: Loss = step_loss,
    ) -> None:
        super().__init__(
            model=model,
            args=args,
            train_dataset=train_dataset,
            data_collator=collator,
            compute_loss_func=loss,
        )
        self.settings = settings
        for callback in (PrinterCallback, ProgressCallback):
            self.remove_callback(callback)

    # ---- training

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        settings = self.settings
        optimizer_class = torch.optim.AdamW if settings.adam_bias_correction else AdamWNoBiasCorrection
        self.optimizer = optimizer_class(
            layer_decay_groups(
                self.model,
                learning_rate=settings.learning_rate,
                weight_decay=settings.weight_decay,
                decay=settings.layerwise_lr_decay,
                mode=settings.layerwise_lr_decay_mode,
            ),
            lr=settings.learning_rate,
            betas=(settings.adam_beta1, settings.adam_beta2),
            eps=settings.adam_epsilon,
            fused=True,
        )
        return self.optimizer

    def create_scheduler(
        self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None
    ) -> torch.optim.lr_scheduler.LRScheduler:
        if self.settings.product_schedule and self.lr_scheduler is None:
            self.lr_scheduler = product_scheduler(
                optimizer or self.optimizer,
                warmup_steps=self.args.get_warmup_steps(num_training_steps),
                total_steps=num_training_steps,
            )
        return super().create_scheduler(num_training_steps, optimizer)

    def _get_train_sampler(self, train_dataset: Dataset[Any] | None = None) -> Sampler[int]:
        dataset: Any = train_dataset if train_dataset is not None else self.train_dataset
        # All batches of a step together, so that splitting a step changes none; the same order on every process.
        batch_size = (
            self.args.train_batch_size * self.args.gradient_accumulation_steps * self.accelerator.num_processes
        )
        generator = torch.Generator().manual_seed(self.args.seed)
        return ShuffledLengthGroups(batch_size, lengths=dataset.lengths.tolist(), generator=generator)

    # ---- evaluation

    def prediction_step(
        self,
        model: nn.Module,
        inputs: dict[str, Tensor | Any],
        prediction_loss_only: bool,
        ignore_keys: list[str] | None = None,
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        inputs = self._prepare_inputs(inputs)
        with torch.no_grad(), self.compute_loss_context_manager():
            logits = model(**{name: value for name, value in inputs.items() if name != "labels"})
        return None, logits.float(), None

    def predict_logits(self, examples: Rows) -> NDArray[np.float32]:
        """What the model puts out for every row in its order, float32 (N, ...).

        Rows are batched by length, so little is padding. Batches of other shapes than the largest are filled up with
        -100, as Trainer does it.
        """
        order = np.argsort(examples.lengths, kind="stable")
        unlabelled: Any = examples.without_labels()
        rows = torch.utils.data.Subset(unlabelled, order.tolist())
        # What draws random numbers here is the data loader: training must not notice how often it is evaluated.
        with torch.random.fork_rng(devices=[]):
            sorted_logits = self.predict(rows).predictions
        logits = np.empty_like(sorted_logits)
        logits[order] = sorted_logits
        return logits
