"""`transformers.Trainer` for the joint model, extended through its hooks; the loop itself is untouched.

    compute_loss        adds up both losses and the tokens on the device
    log                 averages them over the logging window: one device sync per logging step
    prediction_step     one record per token, for exact metrics
    evaluation_loop     leaves the random state of training alone
    create_optimizer    Adam without bias correction, if asked
    create_scheduler    the original's product schedule, if asked
    _get_train_sampler  positions of the run in order: the data set itself shuffles (data/segments.py)

Checkpoints, resuming, mixed precision, accumulation and distribution are Trainer's own.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, Sampler
from transformers import EvalPrediction, Trainer
from transformers.trainer_utils import EvalLoopOutput

from electra.arguments import PretrainingArguments
from electra.errors import UserError
from electra.objectives import OBJECTIVES
from electra.optimization import AdamWNoBiasCorrection, product_scheduler
from electra.pretraining.metrics import evaluation_metrics, token_records


@contextmanager
def _naming_options(options: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, ImportError, ZeroDivisionError, RuntimeError) as error:
        raise UserError(f"{options} do not work: {error}") from error


class PositionSampler(Sampler[int]):
    """Positions start, start + 1, ... of a run's samples; see `TrainingSegments`."""

    def __init__(self, start: int, stop: int) -> None:
        self.start, self.stop = start, stop

    def __len__(self) -> int:
        return self.stop

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start, self.stop))


class ElectraTrainer(Trainer):
    """Trains an `ElectraForJointPretraining` on `TrainingSegments`.

    Args:
        flops_per_token: training FLOPs per token, for the log.
        segments_per_epoch: to log the epoch, passes over the corpus so far.
        kwargs: those of `transformers.Trainer`.
    """

    args: PretrainingArguments
    lr_scheduler: torch.optim.lr_scheduler.LRScheduler | None

    def __init__(self, *, flops_per_token: float, segments_per_epoch: int, **kwargs: Any) -> None:
        super().__init__(compute_metrics=self._metrics_of, **kwargs)
        self.flops_per_token = flops_per_token
        self.segments_per_epoch = segments_per_epoch
        self.last_records: np.ndarray | None = None
        """Token records of the last evaluation, (N, L, 12); see metrics.py."""
        # Of the logging window: sums on the device, micro-batches in them, tokens already taken from the device,
        # and when and at which step it began.
        self._sums: dict[str, Tensor] = {}
        self._batches = 0
        self._window_tokens = 0
        self._window_start: tuple[float, int] | None = None

    # ---- training

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Tensor | Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        if self._window_start is None:
            self._window_start = time.monotonic(), self.state.global_step
        output = model(**inputs)
        if model.training:
            tokens = inputs["attention_mask"].sum()
            if output.generator_loss is not None:
                self._add("generator_loss", output.generator_loss)
            self._add(OBJECTIVES[self.model.config.objective].loss_name, output.discriminator_loss)
            if output.is_replaced is not None:
                self._add("replaced_rate", output.is_replaced.sum() / tokens)
            self._add("tokens", tokens)
            self._batches += 1
        return (output.loss, output) if return_outputs else output.loss

    def _add(self, name: str, value: Tensor) -> None:
        self._sums[name] = self._sums[name] + value if name in self._sums else value

    def floating_point_ops(self, inputs: dict[str, Tensor | Any]) -> int:
        return int(self.flops_per_token * inputs["input_ids"].numel())

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        if not self.args.adam_bias_correction:
            optimizer_class, kwargs = self.get_optimizer_cls_and_kwargs(self.args, self.model)
            if optimizer_class is not torch.optim.AdamW:
                raise UserError(
                    f"--adam_bias_correction false is for AdamW, not for --optim {self.args.optim.value}; choose "
                    "adamw_torch_fused or adamw_torch"
                )
            self.optimizer_cls_and_kwargs = AdamWNoBiasCorrection, kwargs
        with _naming_options("--optim and its options"):
            return super().create_optimizer(model)

    def create_scheduler(
        self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None
    ) -> torch.optim.lr_scheduler.LRScheduler:
        if self.args.product_schedule and self.lr_scheduler is None:
            self.lr_scheduler = product_scheduler(
                optimizer or self.optimizer,
                warmup_steps=self.args.get_warmup_steps(num_training_steps),
                total_steps=num_training_steps,
            )
            self._created_lr_scheduler = True
        with _naming_options("--lr_scheduler_type and its options"):
            return super().create_scheduler(num_training_steps, optimizer)

    def _get_train_sampler(self, train_dataset: Dataset | None = None) -> Sampler[int]:
        dataset: Any = train_dataset if train_dataset is not None else self.train_dataset
        return PositionSampler(0, len(dataset))

    # ---- evaluation

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> EvalLoopOutput:
        # The noise of the corruption comes with the batches; what draws random numbers is the data loader.
        started = time.monotonic()
        with torch.random.fork_rng(devices=[]):
            result = super().evaluation_loop(*args, **kwargs)
        self._pause_since(started)
        return result

    def prediction_step(
        self,
        model: nn.Module,
        inputs: dict[str, Tensor | Any],
        prediction_loss_only: bool,
        ignore_keys: list[str] | None = None,
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        inputs = self._prepare_inputs(inputs)
        with torch.no_grad(), self.compute_loss_context_manager():
            output = model(**inputs)
        records = token_records(inputs["input_ids"], inputs["attention_mask"], output)
        return None, records, records[:, :1, 0]  # Trainer computes metrics only where there are labels

    def _metrics_of(self, prediction: EvalPrediction) -> dict[str, float]:
        self.last_records = np.asarray(prediction.predictions)
        config = self.model.config
        return evaluation_metrics(self.last_records, config.discriminator_weight, config.objective)

    # ---- logging

    def _save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        started = time.monotonic()
        self._take_tokens()  # so that the saved state counts them all
        super()._save_checkpoint(*args, **kwargs)
        self._pause_since(started)

    def _pause_since(self, started: float) -> None:
        """Time since `started` was not training: leave it out of tokens per second."""
        if self._window_start is not None:
            self._window_start = self._window_start[0] + time.monotonic() - started, self._window_start[1]

    def _take_tokens(self) -> None:
        tokens = self._sums.pop("tokens", None)
        if tokens is not None:
            count = int(self.accelerator.gather(tokens.reshape(1)).sum())
            self._window_tokens += count
            self.state.num_input_tokens_seen += count

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        samples = self.state.global_step * self.get_total_train_batch_size(self.args)
        self.state.epoch = samples / self.segments_per_epoch
        if "loss" in logs and self._batches:
            logs.update(self._window_averages())
        super().log(logs, start_time)

    def _window_averages(self) -> dict[str, float]:
        self._take_tokens()
        names = list(self._sums)
        sums = self.accelerator.gather(torch.stack([self._sums[name] for name in names]).unsqueeze(0))
        averages = dict(zip(names, (sums.mean(dim=0) / self._batches).tolist(), strict=True))
        averages["tokens_seen"] = self.state.num_input_tokens_seen
        now, step = time.monotonic(), self.state.global_step
        if self._window_start is not None:
            seconds, steps = now - self._window_start[0], step - self._window_start[1]
            averages["tokens_per_second"] = round(self._window_tokens / seconds)
            averages["eta_seconds"] = round((self.state.max_steps - step) * seconds / max(1, steps))
        self._sums, self._batches, self._window_tokens, self._window_start = {}, 0, 0, (now, step)
        return averages
