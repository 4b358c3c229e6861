"""One fine-tuning run on `transformers.Trainer`: from a model and tokenized rows to logits.

Hooks of Trainer that are used:

    compute_loss_func   mean over the examples of a step, independent of its split into batches and devices
    compute_loss        0 for a batch without rows
    create_optimizer    layer-wise learning rates; Adam without bias correction
    create_scheduler    the product schedule of the original code
    _get_train_sampler  batches of similar length, in an order that follows from the seed; each row once per epoch

`_n_gpu` of its options is set: several GPUs are used with torchrun, not with nn.DataParallel. Trainer saves nothing: a
run takes minutes, and the runner writes its results.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain, repeat
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, Sampler
from transformers import (
    EarlyStoppingCallback,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
    set_seed,
)
from transformers.trainer_pt_utils import LengthGroupedSampler

from electra.core.errors import UserError
from electra.core.layer_decay import layer_decay_groups
from electra.core.schedules import AdamWNoBiasCorrection, product_scheduler
from electra.data.rows import Columns
from electra.finetuning.config import HyperParameters
from electra.finetuning.data import IGNORED, Array, Collator, ColumnRows, Logits
from electra.finetuning.heads import predict_logits
from electra.finetuning.task import Loss, step_loss
from electra.runtime.device import tune_for_cpu
from electra.runtime.tracking import guard_trackers

ADAM_EPSILON = 1e-6
"""Epsilon of Adam in all code bases that fine-tune ELECTRA."""
LEAST_GAIN = 0.001
"""Gain of the score that --patience takes for an improvement, at least, as in BabyLM's fine-tuning of 2026."""


def training_arguments(
    options: HyperParameters,
    *,
    seed: int,
    folder: Path,
    name: str,
) -> TrainingArguments:
    """Return the `TrainingArguments` of a run.

    Args:
        folder: folder in which trackers write.
        name: name of the run for trackers.
    Raises:
        UserError: Trainer refuses the options, such as --fp16 without a GPU.
    """
    names_of_trainer = {f.name for f in fields(TrainingArguments)}
    values = {name: value for name, value in vars(options).items() if name in names_of_trainer}
    values |= {
        "output_dir": str(folder),
        "run_name": name,
        "seed": seed,
        "use_cpu": options.use_cpu or not torch.accelerator.is_available(),
        "logging_nan_inf_filter": False,
        "save_strategy": "no",
        "remove_unused_columns": False,
        "ddp_find_unused_parameters": False,
        "disable_tqdm": True,  # the runner has one bar for all runs
    }
    if options.patience:
        values |= {"metric_for_best_model": "score", "greater_is_better": True}
    try:
        args = TrainingArguments(**values)
    except ValueError as error:
        raise UserError(f"these options do not work together: {error}") from error
    args._n_gpu = min(args.n_gpu, 1)  # several GPUs are used with torchrun, not with nn.DataParallel
    return args


class ShuffledLengthGroups(LengthGroupedSampler):
    """A sampler of rows in batches of similar length, the batches in random order.

    The sampler of transformers orders batches from long to short within each fifty batches, so that neighbouring steps
    see similar rows. Its batches are kept, their order is not. A last batch that is not full stays last.
    """

    def __iter__(self) -> Iterator[int]:
        rows = list(super().__iter__())
        size = self.batch_size
        num_full = len(rows) // size
        order = torch.randperm(num_full, generator=self.generator).tolist()
        shuffled = [rows[batch * size : (batch + 1) * size] for batch in order]
        return chain(*shuffled, rows[num_full * size :])


class FilledUp(Sampler[Any]):
    """A sampler that yields the row numbers of another sampler, and then `None` up to a multiple of `size`.

    So all processes get equally many batches. accelerate would fill up the batches with the first rows of the epoch,
    which would be trained on twice.
    """

    def __init__(self, sampler: ShuffledLengthGroups, size: int) -> None:
        self.sampler = sampler
        self.missing_rows = -len(sampler) % size

    def __len__(self) -> int:
        return len(self.sampler) + self.missing_rows

    def __iter__(self) -> Iterator[Any]:
        return chain(self.sampler, repeat(None, self.missing_rows))


class TrainingRows(Dataset[Any]):
    """A data set of the rows to train on, by their number; the number `None` gives no row."""

    def __init__(self, rows: ColumnRows, collator: Collator) -> None:
        self.rows = rows
        self.lengths = rows.lengths
        self.collator = collator

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int | None) -> Columns | None:
        return None if row is None else self.rows[row]

    def collate(self, rows: Sequence[Columns | None]) -> dict[str, Tensor]:
        """Return a batch of the rows that are not None; without any, a batch whose labels are all `IGNORED`.

        A process without rows computes such a batch because the other processes wait for its gradient.
        """
        present_rows = [row for row in rows if row is not None]
        if present_rows:
            return self.collator(present_rows)
        batch = self.collator([self.rows[0]])
        return {**batch, "labels": torch.full_like(batch["labels"], IGNORED)}


class FineTuner(Trainer):
    """A Trainer for a model whose attribute `encoder` is an encoder and whose output is a tensor (B, ...)."""

    def __init__(self, options: HyperParameters, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.options = options
        self.remove_callback(PrinterCallback)

    # ---- training

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        """Make Adam with layer-wise learning rates, with or without bias correction."""
        options = self.options
        optimizer_class = torch.optim.AdamW if options.adam_bias_correction else AdamWNoBiasCorrection
        self.optimizer = optimizer_class(
            layer_decay_groups(
                self.model,
                learning_rate=options.learning_rate,
                weight_decay=options.weight_decay,
                with_weight_decay=self.get_decay_parameter_names(self.model),
                decay=options.layerwise_lr_decay,
                mode=options.layerwise_lr_decay_mode,
            ),
            lr=options.learning_rate,
            betas=(0.9, 0.999),
            eps=ADAM_EPSILON,
            fused=True,
        )
        return self.optimizer

    def create_scheduler(
        self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None
    ) -> torch.optim.lr_scheduler.LRScheduler:
        """Make the schedule of Trainer, or with --product_schedule that of the original code."""
        if self.options.product_schedule:
            self.lr_scheduler = product_scheduler(
                self.optimizer,
                warmup_steps=self.args.get_warmup_steps(num_training_steps),
                total_steps=num_training_steps,
            )
        return super().create_scheduler(num_training_steps, optimizer)

    def _get_train_sampler(self, train_dataset: Dataset[Any] | None = None) -> Sampler[Any]:
        dataset: Any = self.train_dataset
        # Groups are whole steps, so that the split of a step into batches changes nothing; equal on every process.
        args = self.args
        micro_batch = args.train_batch_size * self.accelerator.num_processes
        step = micro_batch * args.gradient_accumulation_steps
        generator = torch.Generator().manual_seed(args.seed)
        groups = ShuffledLengthGroups(step, lengths=dataset.lengths.tolist(), generator=generator)
        return FilledUp(groups, micro_batch)

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Tensor],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor:
        """Return the batch's part of the step's loss, (); 0 for a batch without rows."""
        has_rows = inputs["labels"].ne(IGNORED).any()
        loss = super().compute_loss(model, inputs, num_items_in_batch=num_items_in_batch)
        return loss * has_rows

    # ---- evaluation

    def predict_logits(self, rows: ColumnRows) -> Array:
        """Return the output of the model for each of N rows, in the order of the rows, float32 (N, ...)."""
        batch_size = self.options.per_device_eval_batch_size
        return predict_logits(self.model, rows, self.data_collator, batch_size, self.options.precision)


class Outcome(NamedTuple):
    """The outcome of a run."""

    logits: Logits  # of each scored split
    epoch: float  # passes over the training data after which the weights were scored
    trainer: FineTuner


@dataclass(eq=False)
class KeepBest(TrainerCallback):
    """A callback that evaluates after each epoch and keeps logits and weights of the best epoch in memory.

    Args:
        predict: function that returns the logits of the scored splits with the present weights.
        score: function of these logits that returns the score, more being better.
        patience: callback of transformers that ends the training after epochs without a better score; None to train
            all epochs.
    """

    predict: Callable[[], Logits]
    score: Callable[[Logits], float]
    patience: EarlyStoppingCallback | None = None
    best_score: float | None = None

    def on_epoch_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        model: Any = None,
        **kwargs: object,
    ) -> None:
        logits = self.predict()
        score = self.score(logits)
        if self.patience is not None:
            state.best_metric = self.best_score
            self.patience.on_evaluate(args, state, control, {f"eval_{args.metric_for_best_model}": score})
        if self.best_score is None or score > self.best_score:
            self.best_score = score
            self.logits = logits
            self.epoch = float(state.epoch or 0)
            self.weights = copy.deepcopy(model.state_dict())


def train_and_score(
    make_model: Callable[[], nn.Module],
    options: HyperParameters,
    *,
    seed: int,
    train: ColumnRows,
    dev: Mapping[str, ColumnRows],
    score: Callable[[Logits], float],
    collator: Collator,
    loss: Loss = step_loss,
    folder: Path,
    name: str,
    callbacks: Sequence[TrainerCallback] = (),
) -> Outcome:
    """Train a model, predict the scored splits, and return the outcome.

    Everything random follows from the seed: fresh weights of the encoder, the head, dropout, the order of the data.

    Args:
        make_model: function that returns the encoder with its head; called once, after seeding.
        train: rows to train on, with labels.
        dev: rows of each scored split.
        score: function of the logits of the scored splits that returns the value which --select best maximises.
        collator, loss: see `Task`.
        folder, name: see `training_arguments`.
    """
    args = training_arguments(options, seed=seed, folder=folder, name=name)
    set_seed(seed)
    model = make_model()
    tune_for_cpu(model)
    rows = TrainingRows(train, collator)
    trainer = FineTuner(
        options,
        model=model,
        args=args,
        train_dataset=rows,
        data_collator=rows.collate,
        compute_loss_func=loss,
        callbacks=[*callbacks],
    )
    guard_trackers(trainer.callback_handler.callbacks)

    def predict() -> Logits:
        return {split: trainer.predict_logits(rows_of_split) for split, rows_of_split in dev.items()}

    patience = EarlyStoppingCallback(options.patience, LEAST_GAIN) if options.patience else None
    best = KeepBest(predict, score, patience)
    if options.select == "best" or patience is not None:
        trainer.add_callback(best)
    trainer.train()
    if options.select == "last" or best.best_score is None:
        return Outcome(predict(), float(trainer.state.epoch or 0), trainer)
    model.load_state_dict(best.weights)
    return Outcome(best.logits, best.epoch, trainer)
