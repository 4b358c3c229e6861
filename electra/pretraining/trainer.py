"""`transformers.Trainer` for the joint model, extended through its hooks; the loop itself is untouched.

    compute_loss        adds up both losses and the tokens on the device
    log                 averages them over the logging window: one device sync per logging step
    prediction_step     one record per token, for exact metrics
    evaluation_loop     leaves the random state of training alone
    create_optimizer    Adam without bias correction, if asked
    create_scheduler    the original's product schedule, if asked; one schedule for each stage, if there are stages
    _get_train_sampler  positions of the run in order: the data set itself shuffles (data/segments.py)

Resuming, mixed precision, accumulation and distribution are Trainer's own; checkpoints are, too, but for when they
count as written (saving.py). Steps that are not finite are skipped (skipping.py).
"""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, Sampler
from transformers import EvalPrediction
from transformers.trainer_utils import EvalLoopOutput, SchedulerType

from electra.arguments import PretrainingArguments
from electra.errors import UserError
from electra.model.modeling import ElectraForJointPretraining
from electra.objectives import weighted_mean
from electra.optimization import AdamWNoBiasCorrection, check_schedule, join_schedules, product_scheduler
from electra.pretraining.metrics import evaluation_metrics, token_records
from electra.pretraining.phases import PhaseOptions, stage_lengths
from electra.pretraining.skipping import SkippingTrainer


@contextmanager
def _naming_options(options: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, ImportError, ArithmeticError, RuntimeError) as error:
        raise UserError(f"{options} do not work: {error}") from error


class PositionSampler(Sampler[int]):
    """Positions start, start + 1, ... of a run's samples; see `TrainingSegments`."""

    def __init__(self, start: int, stop: int) -> None:
        self.start, self.stop = start, stop

    def __len__(self) -> int:
        return self.stop

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start, self.stop))


class ElectraTrainer(SkippingTrainer):
    """Trains an `ElectraForJointPretraining` on `TrainingSegments`.

    Args:
        flops_per_token: training FLOPs per token, for the log.
        segments_per_epoch: to log the epoch, passes over the corpus so far.
        phases: what decides which network is trained when, as the callback `TrainingPhases` applies it.
        kwargs: those of `SkippingTrainer`.
    """

    args: PretrainingArguments
    model: Any
    lr_scheduler: torch.optim.lr_scheduler.LRScheduler | None

    def __init__(
        self, *, flops_per_token: float, segments_per_epoch: int, phases: PhaseOptions, **kwargs: Any
    ) -> None:
        super().__init__(compute_metrics=self._metrics_of, **kwargs)
        self.phases = phases
        self.flops_per_token = flops_per_token
        self.segments_per_epoch = segments_per_epoch
        self.last_records: np.ndarray | None = None
        """Token records of the last evaluation, (N, L, 13); see metrics.py."""
        # Of the logging window: sums on the device, micro-batches in each, tokens already taken from the device,
        # and when and at which step it began.
        self._sums: dict[str, Tensor] = {}
        self._batches: Counter[str] = Counter()
        self._before: tuple[dict[str, Tensor], Counter[str]] = {}, Counter()  # both, before this step
        self._window_tokens = 0
        self._window_start: tuple[float, int] | None = None

    # ---- training

    def begin_step(self) -> None:
        self._before = dict(self._sums), Counter(self._batches)

    def forget_step(self) -> None:
        tokens = self._sums["tokens"]  # seen all the same
        sums, self._batches = self._before
        self._sums = {**sums, "tokens": tokens}

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
            tokens = inputs.get("attention_mask", torch.ones_like(inputs["input_ids"])).sum()
            parts = {name: output.get(name) for name in ("generator_loss", "adversarial_loss", "baseline_loss")}
            parts[self.model.objective.loss_name] = output.discriminator_loss
            if output.generator_entropy is not None:
                parts["generator_entropy"] = weighted_mean(output.generator_entropy, output.is_chosen)
            if output.is_replaced is not None:
                parts["replaced_rate"] = output.is_replaced.sum() / tokens
            for name, value in {**parts, "tokens": tokens}.items():
                if value is not None:
                    self._sums[name] = self._sums[name] + value if name in self._sums else value
                    self._batches[name] += 1
        return (output.loss, output) if return_outputs else output.loss

    def floating_point_ops(self, inputs: dict[str, Tensor | Any]) -> int:
        return int(self.flops_per_token * inputs["input_ids"].numel())

    def check_optimization(self, steps: int) -> None:
        """Make the optimizer and a schedule of so many steps: what is wrong with their options is said before the run.

        Raises:
            UserError: an option of theirs does not work.
        """
        if not (self.is_fsdp_enabled or self.is_deepspeed_enabled):  # which wrap the model first
            self.create_optimizer()
        trial = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=self.args.learning_rate)
        schedule = self.create_scheduler(steps, trial)
        with _naming_options("--lr_scheduler_type and its options"):
            check_schedule(schedule, steps)
        self.lr_scheduler, self._created_lr_scheduler = None, False

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
        if self.phases.generator_steps and self.lr_scheduler is None:
            self.lr_scheduler = self._joined_schedule(num_training_steps, optimizer)
            self._created_lr_scheduler = True
            return self.lr_scheduler
        return self._schedule_of_one_stage(num_training_steps, optimizer)

    def _joined_schedule(
        self, num_training_steps: int, optimizer: torch.optim.Optimizer | None
    ) -> torch.optim.lr_scheduler.LambdaLR:
        schedules = []
        for steps in stage_lengths(num_training_steps, self.phases.generator_steps):
            schedule = self._schedule_of_one_stage(steps, optimizer)
            if not isinstance(schedule, torch.optim.lr_scheduler.LambdaLR):
                name = SchedulerType(self.args.lr_scheduler_type).value
                raise UserError(
                    f"--lr_scheduler_type {name} cannot be started again for "
                    f"the second stage of --objective {self.model.config.objective}; choose linear, cosine or another "
                    "that is a function of the step"
                )
            schedules.append(schedule)
            self.lr_scheduler = None
        return join_schedules(optimizer or self.optimizer, schedules, first_steps=self.phases.generator_steps)

    def _schedule_of_one_stage(
        self, num_training_steps: int, optimizer: torch.optim.Optimizer | None
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
        records = token_records(inputs["input_ids"], inputs.get("attention_mask"), output)
        return None, records, records[:, :1, 0]  # Trainer computes metrics only where there are labels

    def _metrics_of(self, prediction: EvalPrediction) -> dict[str, float]:
        self.last_records = np.asarray(prediction.predictions)
        config = self.model.config
        return evaluation_metrics(
            self.last_records, config.discriminator_weight, config.objective, config.uniform_generator
        )

    # ---- after training

    def whole_model(self) -> ElectraForJointPretraining:
        """The model with all of its weights, from then on the trainer's own; to be called on every process.

        FSDP leaves each process a part of each weight: there, only what the first process gets is whole.
        """
        model: ElectraForJointPretraining = self.model
        if self.is_fsdp_enabled:
            weights = self.accelerator.get_state_dict(self.model_wrapped)
            if self.is_world_process_zero():
                model = ElectraForJointPretraining(model.config)
                model.load_state_dict(weights)
                self.model = model
        return model

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
        if "loss" in logs and self._sums:
            logs.update(self._window_averages())
        super().log(logs, start_time)

    def _window_averages(self) -> dict[str, float]:
        self._take_tokens()
        names = list(self._sums)
        averages = {}
        if names:  # else all steps of the window were skipped
            sums = self.accelerator.gather(torch.stack([self._sums[name] for name in names]).unsqueeze(0))
            means = zip(names, sums.mean(dim=0).tolist(), strict=True)
            averages = {name: mean / self._batches[name] for name, mean in means}
        if self.phases.discriminator_warmup_steps:
            averages["discriminator_weight"] = self.model.discriminator_weight
        if self.phases.gate is not None:
            averages["train_generator"] = float(self.model.train_generator)
        averages["tokens_seen"] = self.state.num_input_tokens_seen
        now, step = time.monotonic(), self.state.global_step
        if self._window_start is not None:
            seconds, steps = now - self._window_start[0], step - self._window_start[1]
            averages["tokens_per_second"] = round(self._window_tokens / seconds)
            averages["eta_seconds"] = round((self.state.max_steps - step) * seconds / max(1, steps))
        self._sums, self._batches, self._window_tokens, self._window_start = {}, Counter(), 0, (now, step)
        return averages
