"""`transformers.Trainer` for the joint model. Its training loop, mixed precision and distribution are untouched.

setup.py puts it together.

Private methods and attributes of Trainer that are overridden or used, with the reason:

    _get_train_sampler             positions in order: position p is sample p of the run (data/segments.py)
    _get_dataloader                workers must ignore the signals that stop a run
    _clip_grad_norm,
    _get_grad_norm                 the only places between backward and the optimizer step: clip, and skip steps that
                                   are not finite (skipping.py). The norm is finite only if all gradients are
    _prepare_inputs                moves a batch to the device in `prediction_step`
    _tr_loss                       the sum of losses that Trainer logs: a skipped step is taken out of it
    _get_output_dir                Trainer writes into `unfinished/`; a complete checkpoint is renamed (checkpoint.py)
    _save_checkpoint               manifest and rename after Trainer has written
    _push_from_checkpoint          does nothing: the exported networks are uploaded, not the joint one
    _init_training_state           uses the logging, evaluation and save steps of the options, not the checkpoint's
    _load_from_checkpoint,
    _load_optimizer_and_scheduler,
    _load_rng_state                one line for a file that cannot be loaded; the options' learning rate is kept
    _created_lr_scheduler          tells Trainer to make a new schedule for each `train`
"""

import logging
import math
import shutil
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader, Sampler, SequentialSampler
from transformers import EvalPrediction, Trainer
from transformers.trainer import TRAINING_ARGS_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, EvalLoopOutput

from electra.io.checkpoints import (
    ORIGIN_NAME,
    UNFINISHED,
    commit,
    describe_latest_valid,
    translate_write_errors,
    write_manifest,
)
from electra.io.errors import UserError
from electra.io.files import write_json
from electra.model.pretrained import silent_transformers
from electra.objectives import weighted_mean
from electra.optimization import (
    AdamWNoBiasCorrection,
    MuonAdamW,
    check_schedule,
    create_schedule,
    muon_groups,
    translate_option_errors,
)
from electra.pretraining.callbacks.checkpoints import IgnoreSignals
from electra.pretraining.callbacks.phases import PhaseOptions, stage_lengths
from electra.pretraining.device import is_compiler_error, translate_failures
from electra.pretraining.metrics import LogWindow, evaluation_metrics, fixed_metrics, token_records
from electra.pretraining.options import CONFIG_NAME, PretrainingArguments
from electra.pretraining.plan import Plan
from electra.pretraining.resume import BEST_METRIC_OPTIONS, keeping_options, translate_loading_errors
from electra.pretraining.skipping import SkippedSteps, hand_to_optimizer, total_norm
from electra.report.runs import FIXED

logger = logging.getLogger(__name__)


class ElectraTrainer(Trainer):
    """Trains an `ElectraForJointPretraining` on `TrainingSegments`.

    `origin`, see resume.py, is written into each checkpoint. `KeptCheckpoints` applies `save_total_limit`, because
    Trainer only sees the checkpoint that is being written in `unfinished/`.
    """

    args: PretrainingArguments
    model: Any
    train_dataset: Any
    lr_scheduler: LRScheduler | None
    more_evaluations: dict[str, Any] = {}  # held-out texts that are evaluated beside `eval_dataset`, by name

    def __init__(self, *, plan: Plan, phases: PhaseOptions, origin: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(compute_metrics=self._compute_metrics, **kwargs)
        self.plan, self.phases, self.origin = plan, phases, origin
        self.last_records: np.ndarray | None = None  # of the last evaluation, (N, L, 13); see metrics.py
        self.run_folder = Path(str(self.args.output_dir))
        self._had_options = self._is_fixed = False
        self._window = LogWindow()
        self._to_log: tuple[dict[str, Tensor | None], Tensor]  # losses and number of tokens of this batch
        self._step_loss: Tensor | None = None  # sum over the micro-batches of this step so far
        self._loss_before = torch.zeros(())  # Trainer's sum of losses before this step
        self._skipped = SkippedSteps(
            self.is_world_process_zero(),
            lambda until: describe_latest_valid(self.run_folder, until=until),
            has_scaler=self.accelerator.scaler is not None,
        )
        self.add_callback(self._skipped)

    def train(self, *args: Any, **kwargs: Any) -> Any:
        self._had_options = (self.run_folder / CONFIG_NAME).is_file()
        with translate_failures(self.args, self.run_folder, lambda: self.state.global_step):
            return super().train(*args, **kwargs)

    # ---- data

    def _get_train_sampler(self, *args: Any) -> Sampler[int]:
        return SequentialSampler(self.train_dataset)

    def _get_dataloader(self, *args: Any, **kwargs: Any) -> DataLoader:
        loader = super()._get_dataloader(*args, **kwargs)
        inner = getattr(loader, "base_dataloader", loader)  # accelerate wraps it
        inner.worker_init_fn = IgnoreSignals(inner.worker_init_fn)
        inner.collate_fn = getattr(inner.dataset, "collate", inner.collate_fn)  # a corrupted text has its own
        return loader

    def get_batch_samples(
        self, epoch_iterator: Iterator[dict[str, Tensor]], num_batches: int, device: torch.device
    ) -> tuple[list[dict[str, Tensor]], Tensor | None]:
        """The batches of a step and, if there are several on all processes, their mean number of tokens."""
        # Trainer averages the losses of batches, which differ in their number of tokens where rows are padded.
        batches, _ = super().get_batch_samples(epoch_iterator, num_batches, device)
        parts = len(batches) * self.accelerator.num_processes
        if parts <= 1:
            return batches, None
        counts = [self.model.count_tokens(**batch) for batch in batches]
        total = self.accelerator.reduce(torch.stack(counts).sum(dim=0), reduction="sum")
        return batches, total.clamp(min=1) / parts

    # ---- one step

    def training_step(self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None) -> Tensor:
        if self._step_loss is None:  # the first micro-batch
            self._loss_before = self._tr_loss.clone()
        try:
            loss: Tensor = super().training_step(model, inputs, num_items_in_batch)
        except RuntimeError as error:
            if self.model._compiled_call_impl is None or not is_compiler_error(error):
                raise
            self.model._compiled_call_impl = None
            reason = " ".join(str(error).split("\n")[:2])
            logger.warning("the training step cannot be compiled and runs eagerly (--torch_compile false): %s", reason)
            loss = super().training_step(model, inputs, num_items_in_batch)
        self._window.add(*self._to_log)  # once, also where the backward pass could not be compiled
        self._step_loss = loss if self._step_loss is None else self._step_loss + loss
        return loss

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        if self._window.started is None:
            self._window.started, self._window.first_step = time.monotonic(), self.state.global_step
        output = model(**inputs, token_counts=num_items_in_batch)
        if model.training:
            num_chosen, num_real = (None, None) if num_items_in_batch is None else num_items_in_batch
            tokens = inputs.get("attention_mask", torch.ones_like(inputs["input_ids"])).sum()
            parts = {name: output.get(name) for name in ("generator_loss", "adversarial_loss", "baseline_loss")}
            parts[self.model.objective.loss_name] = output.main_loss
            if output.generator_entropy is not None:
                parts["generator_entropy"] = weighted_mean(output.generator_entropy, output.mlm_mask, num_chosen)
            if output.is_replaced is not None:
                parts["replaced_rate"] = output.is_replaced.sum() / (tokens if num_real is None else num_real)
            self._to_log = parts, tokens
        return (output.loss, output) if return_outputs else output.loss

    @property
    def _optimizer_can_skip(self) -> bool:
        # On Apple's GPUs, torch's fused optimizers ignore both tensors (pull request 186360 of pytorch).
        is_possible = not (self.is_fsdp_enabled or self.is_deepspeed_enabled) and self.args.device.type != "mps"
        return is_possible and getattr(self._bare_optimizer, "_step_supports_amp_scaling", False)

    @property
    def _bare_optimizer(self) -> Any:
        return getattr(self.optimizer, "optimizer", self.optimizer)  # accelerate wraps it

    def _clip_grad_norm(self, model: nn.Module) -> Any:
        return None if self._optimizer_can_skip else super()._clip_grad_norm(model)

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None) -> Any:
        """The norm for the log. If it or the loss is not finite, the optimizer's step changes nothing."""
        if self._optimizer_can_skip:
            if self.accelerator.scaler is not None:  # which then clips no more, but skips by itself
                self.accelerator.scaler.unscale_(self._bare_optimizer)
            norm = total_norm(parameter.grad for parameter in model.parameters() if parameter.grad is not None)
        else:
            norm = super()._get_grad_norm(model, grad_norm)
            norm = norm.full_tensor() if isinstance(norm, DTensor) else norm  # FSDP: each process has its part
            # DeepSpeed has a number on the host, or none.
            norm = torch.as_tensor(0.0 if norm is None else norm, device=self.args.device)
        assert self._step_loss is not None
        loss, self._step_loss = self._step_loss, None
        is_bad = ~torch.isfinite(loss + norm)
        if self.accelerator.num_processes > 1:  # all processes skip the same steps
            is_bad = self.accelerator.reduce(is_bad.float().reshape(1), reduction="sum")[0] > 0
        if self._optimizer_can_skip:
            hand_to_optimizer(self._bare_optimizer, norm, self.args.max_grad_norm, is_bad)
        elif is_bad:
            model.zero_grad()
        self._tr_loss.copy_(torch.where(is_bad, self._loss_before, self._tr_loss))
        self._window.end_step(is_bad)
        return self._skipped.note(self.state.global_step + 1, is_bad, loss, norm)

    def floating_point_ops(self, inputs: dict[str, Tensor | Any]) -> int:
        return int(self.plan.flops / self.plan.total_tokens * inputs["input_ids"].numel())

    # ---- optimizer and schedule

    def check_optimization(self, steps: int) -> None:
        """Create the optimizer and a schedule of `steps` before the run, so that wrong options fail early."""
        if not (self.is_fsdp_enabled or self.is_deepspeed_enabled):  # these wrap the model first
            self.create_optimizer()
        trial = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=self.args.learning_rate)
        with translate_option_errors("--lr_scheduler_type and its options"):
            check_schedule(self.create_scheduler(steps, trial), steps)
        self.lr_scheduler, self._created_lr_scheduler = None, False

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        optimizer_class, kwargs = self.get_optimizer_cls_and_kwargs(self.args, self.model)
        ours: Any = torch.optim.AdamW if self.args.adam_bias_correction else AdamWNoBiasCorrection
        rate = self.args.muon_learning_rate
        if rate is not None:
            ours, kwargs["matmul_dtype"] = MuonAdamW, torch.bfloat16 if self.args.bf16 else torch.float32
            kwargs["params"] = muon_groups(self.model, weight_decay=self.args.weight_decay, muon_learning_rate=rate)
        if optimizer_class is torch.optim.AdamW:
            self.optimizer_cls_and_kwargs = ours, kwargs
        elif not self.args.adam_bias_correction:
            raise UserError(
                f"--adam_bias_correction false needs AdamW, but --optim is {self.args.optim.value}; choose "
                "adamw_torch_fused or adamw_torch"
            )
        with translate_option_errors("--optim and its options"):
            return super().create_optimizer(model)

    def create_scheduler(self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None) -> LRScheduler:
        if self.lr_scheduler is None:
            lengths = stage_lengths(num_training_steps, self.phases.generator_steps)
            self.lr_scheduler = create_schedule(self.args, optimizer or self.optimizer, lengths)
            self._created_lr_scheduler = True
        return self.lr_scheduler

    # ---- evaluation

    def evaluation_loop(self, dataloader: DataLoader, *args: Any, **kwargs: Any) -> EvalLoopOutput:
        # The batches bring the corruption's random numbers along; the data loader draws some of torch's.
        started, more = time.monotonic(), dict[str, float]()
        # The last batch is shorter, and an evaluation records more: it would be compiled again.
        eagerly = torch.compiler.set_stance("force_eager") if self.args.torch_compile else nullcontext()
        with torch.random.fork_rng(devices=[]), eagerly:
            for name, segments in self.more_evaluations.items():
                loader, options = self.get_test_dataloader(segments), {**kwargs, "metric_key_prefix": f"eval_{name}"}
                self._is_fixed = name == FIXED
                more |= super().evaluation_loop(loader, *args, **options).metrics
            self._is_fixed = False
            result = super().evaluation_loop(dataloader, *args, **kwargs)
        self._pause_since(started)
        return result._replace(metrics=result.metrics | more)

    def prediction_step(
        self, model: nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> tuple[None, Tensor, Tensor]:
        inputs = self._prepare_inputs(inputs)
        with torch.no_grad(), self.compute_loss_context_manager():
            output = model(**inputs)
        records = token_records(inputs["input_ids"], inputs.get("attention_mask"), output)
        return None, records, records[:, :1, 0]  # Trainer computes metrics only where there are labels

    def _compute_metrics(self, prediction: EvalPrediction) -> dict[str, float]:
        if self._is_fixed:
            return fixed_metrics(np.asarray(prediction.predictions))
        config, self.last_records = self.model.config, np.asarray(prediction.predictions)
        weight = config.discriminator_weight
        return evaluation_metrics(self.last_records, weight, config.objective, config.uniform_generator)

    # ---- logging

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add the averages of the logging window, which begins anew, to its losses: one device sync."""
        state, window = self.state, self._window
        state.epoch = state.global_step * self.get_total_train_batch_size(self.args) / self.plan.segments_per_epoch
        if "loss" in logs:
            self._read_tokens()
            means, skipped = window.read(self.accelerator.gather)
            steps = max(1, state.global_step - window.first_step)
            if means:  # none if all steps were skipped
                logs.update(means)
                logs["loss"] *= steps / (steps - skipped)  # Trainer has divided by all of them
            else:
                del logs["loss"]
            if not math.isfinite(logs["grad_norm"]):  # no step yet that was not skipped
                del logs["grad_norm"]
            if self.phases.gate is not None:
                logs["train_generator"] = float(self.model.train_generator)
            assert window.started is not None
            now = time.monotonic()
            seconds = now - window.started
            logs["tokens_seen"] = state.num_input_tokens_seen
            logs["tokens_per_second"] = round(window.tokens / seconds)
            logs["eta_seconds"] = round((state.max_steps - state.global_step) * seconds / steps)
            earlier = (line["skipped_steps"] for line in reversed(state.log_history) if "skipped_steps" in line)
            skipped += int(next(earlier, 0))
            if skipped:  # so far in the whole run
                logs["skipped_steps"] = skipped
            self._window = LogWindow(started=now, first_step=state.global_step)
        super().log(logs, start_time)

    def _read_tokens(self) -> None:
        """Count the tokens of all processes since the last call."""
        tokens, self._window.unread_tokens = self._window.unread_tokens, None
        count = 0 if tokens is None else int(self.accelerator.gather(tokens.reshape(1)).sum())
        self._window.tokens += count
        self.state.num_input_tokens_seen += count

    def _pause_since(self, started: float) -> None:
        """Leave the time since `started`, which was not training, out of tokens per second."""
        if self._window.started is not None:
            self._window.started += time.monotonic() - started

    # ---- checkpoints

    def _get_output_dir(self, trial: Any) -> str:
        return str(self.run_folder / UNFINISHED)

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        """Save the full state of this step: complete, or not at all."""
        started = time.monotonic()
        self._skipped.tell(all_of_them=True)
        self._read_tokens()  # so that the saved state counts them all
        run, step, is_writer = self.run_folder, self.state.global_step, self.args.should_save
        target = run / f"{PREFIX_CHECKPOINT_DIR}-{step}"
        unfinished = run / UNFINISHED / target.name
        states = [value for entry in getattr(self.optimizer, "state", {}).values() for value in entry.values()]
        tensors = [t for t in (*self.model.parameters(), *states) if isinstance(t, Tensor) and t.is_floating_point()]
        # torch keeps the step counts of optimizers that are not fused on the host.
        checks = [torch.isfinite(tensor).all().to(self.args.device) for tensor in tensors]
        # FSDP: each process has its part.
        checks = [check.full_tensor() if isinstance(check, DTensor) else check for check in checks]
        if not torch.stack(checks).all():
            raise UserError(
                f"the weights or the optimizer's moments are not finite at step {step}, so it is not saved; "
                f"{describe_latest_valid(run)}; resume from it with a lower --learning_rate"
            )
        if is_writer and self._had_options and not (run / CONFIG_NAME).is_file():  # Trainer would make it anew
            raise UserError(
                f"{run} is not the folder in which the run started: it was deleted, or its disk is gone; step {step} "
                f"is not saved; {describe_latest_valid(run)}"
            )
        if is_writer:
            shutil.rmtree(unfinished, ignore_errors=True)
        self.accelerator.wait_for_everyone()
        try:
            with translate_write_errors(unfinished, lambda: describe_latest_valid(run)):
                super()._save_checkpoint(model, trial)
                self._correct_best_checkpoint(target)
                if is_writer:
                    self.state.save_to_json(str(unfinished / "trainer_state.json"))
                    # Pickled options with the Hub's token; nothing reads them, and config.yaml has them as text.
                    (unfinished / TRAINING_ARGS_NAME).unlink(missing_ok=True)
                    write_json(self.origin, unfinished / ORIGIN_NAME)
                    if not (unfinished / "config.json").is_file():  # Trainer wrote sharded weights and nothing else
                        self.model.config.save_pretrained(unfinished)
                        self.processing_class.save_pretrained(unfinished)
                self.accelerator.wait_for_everyone()
                if is_writer:
                    write_manifest(unfinished)
                    commit(unfinished, target)
        finally:
            if is_writer:
                shutil.rmtree(run / UNFINISHED, ignore_errors=True)
        self.accelerator.wait_for_everyone()
        self._pause_since(started)

    def _correct_best_checkpoint(self, *being_saved: Path) -> None:
        """Point to the best checkpoint in the run's folder as it is now; Trainer looked in `unfinished/`."""
        best = self.run_folder / f"{PREFIX_CHECKPOINT_DIR}-{self.state.best_global_step}"
        if self.state.best_global_step and (best.is_dir() or best in being_saved):
            self.state.best_model_checkpoint = str(best)

    def init_hf_repo(self, token: str | None = None) -> None:
        """Nothing: a finished run uploads its exported networks, never the joint one."""

    def _push_from_checkpoint(self, checkpoint_folder: str) -> None:
        """Nothing, likewise."""

    def _init_training_state(self, max_steps: int, *args: Any, **kwargs: Any) -> Any:
        with silent_transformers():  # it warns of steps that differ, which this method corrects
            trained = super()._init_training_state(max_steps, *args, **kwargs)
        state = self.state
        state.compute_steps(self.args, max_steps)
        changes = self.origin.get("changes", [])
        if BEST_METRIC_OPTIONS & {change["option"] for change in changes if change["step"] == state.global_step}:
            state.best_metric = state.best_global_step = state.best_model_checkpoint = None
        self._correct_best_checkpoint()
        return trained

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        with translate_loading_errors(resume_from_checkpoint, "weights"):
            super()._load_from_checkpoint(resume_from_checkpoint, model)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is None or self.is_deepspeed_enabled:  # it has loaded them itself
            super()._load_optimizer_and_scheduler(checkpoint)
            return
        with (
            translate_loading_errors(checkpoint, "optimizer or schedule"),
            keeping_options(self.optimizer, self.lr_scheduler),
        ):
            super()._load_optimizer_and_scheduler(checkpoint)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        with translate_loading_errors(checkpoint, "random state"):
            super()._load_rng_state(checkpoint)
