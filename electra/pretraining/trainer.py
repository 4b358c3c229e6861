"""`transformers.Trainer` for the joint model. Its training loop, mixed precision and distribution are untouched.

Public hooks that are overridden:

    get_batch_samples      counts the tokens of a step, over which its losses are means
    training_step          remembers what a skipped step must restore
    compute_loss           sums up losses and tokens on the device
    log                    averages the sums over the logging window: one device sync per logging step
    evaluation_loop        leaves the random state of training unchanged
    prediction_step        one record per token, for exact metrics
    floating_point_ops     counted by flops.py
    create_optimizer       Adam without bias correction, on request
    create_scheduler       the original's product schedule, on request; one schedule per stage
    init_hf_repo           does nothing: hub.py uploads the exported networks at the end
    train                  one line if another process of a distributed run is lost

Private methods and attributes of Trainer that are overridden or used, with the reason:

    _get_train_sampler             positions in order: position p is sample p of the run (data/segments.py)
    _get_dataloader                workers must ignore the signals that stop a run
    _get_grad_norm                 the only place between backward and the optimizer step: skips steps that are not
                                   finite. One NaN in Adam's averages stays there; the norm is finite only if all
                                   gradients are. A skipped step counts: later steps get the same samples
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
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.utils import set_seed
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader, Dataset, Sampler, SequentialSampler
from tqdm.auto import tqdm
from transformers import EvalPrediction, PrinterCallback, ProgressCallback, Trainer, TrainerCallback
from transformers.trainer import TRAINING_ARGS_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, EvalLoopOutput

from electra.checkpoint import (
    ORIGIN_NAME,
    UNFINISHED,
    commit,
    describe_latest_valid,
    translate_write_errors,
    write_manifest,
)
from electra.console import without_secrets
from electra.cpu import tune_networks, tune_process
from electra.data.collator import SegmentCollator
from electra.data.segments import TrainingSegments
from electra.errors import UserError
from electra.files import write_json
from electra.model.joint import ElectraForJointPretraining
from electra.model.pretrained import silent_transformers
from electra.objectives import weighted_mean
from electra.optimization import AdamWNoBiasCorrection, check_schedule, create_schedule, translate_option_errors
from electra.pretraining.callbacks.cost import EnergyLog
from electra.pretraining.callbacks.health import DiscriminatorHealth, LossSpikes
from electra.pretraining.callbacks.phases import PhaseOptions, TrainingPhases, stage_lengths
from electra.pretraining.callbacks.progress import ReadableLog, ReadableProgress
from electra.pretraining.callbacks.retention import KeptCheckpoints
from electra.pretraining.callbacks.stopping import IgnoreSignals, StopRequests
from electra.pretraining.data import PretrainingData
from electra.pretraining.log_window import LogWindow
from electra.pretraining.metrics import evaluation_metrics, token_records
from electra.pretraining.options import CONFIG_NAME, Arguments, PretrainingArguments, gate_of
from electra.pretraining.plan import Plan
from electra.pretraining.resume import BEST_METRIC_OPTIONS, keeping_options, translate_loading_errors
from electra.tracking import RecordSettings, check_trackers

logger = logging.getLogger(__name__)

SKIPPED = "skipped_steps"
"""Name in the log: steps skipped so far in the whole run. Absent while there are none."""
_LOST = re.compile(
    r"connection (closed|reset|refused)|closed by peer|broken pipe|timed out|\bgloo\b|\bnccl\b|TCPStore", re.IGNORECASE
)
"""Messages of gloo, NCCL and the TCP store; gloo's errors have no class of their own."""


class ElectraTrainer(Trainer):
    """Trains an `ElectraForJointPretraining` on `TrainingSegments`.

    Args:
        flops_per_token: training FLOPs per token, for the log.
        segments_per_epoch: for the epoch in the log: passes over the corpus so far.
        phases: which network is trained when; the callback `TrainingPhases` applies it.
        origin: what the run is trained on and how, written into each checkpoint; see resume.py.
        kwargs: those of `transformers.Trainer`. `KeptCheckpoints` applies `save_total_limit`, because Trainer only
            sees the checkpoint that is being written in `unfinished/`.
    """

    args: PretrainingArguments
    model: Any
    lr_scheduler: LRScheduler | None

    def __init__(
        self,
        *,
        flops_per_token: float,
        segments_per_epoch: int,
        phases: PhaseOptions,
        origin: dict[str, Any],
        **kwargs: Any,
    ) -> None:
        super().__init__(compute_metrics=self._compute_metrics, **kwargs)
        self.phases = phases
        self.origin = origin
        self.flops_per_token = flops_per_token
        self.segments_per_epoch = segments_per_epoch
        self.last_records: np.ndarray | None = None
        """Token records of the last evaluation, (N, L, 13); see metrics.py."""
        self._had_options = False
        self._window = LogWindow()
        self._step_loss: Tensor | None = None  # sum over the micro-batches of this step so far
        self._before_step: tuple[Tensor, Any] | None = None
        self._last_norm: Any = None
        self._skipped_in_a_row = 0

    @property
    def run_folder(self) -> Path:
        return Path(str(self.args.output_dir))

    def train(self, *args: Any, **kwargs: Any) -> Any:
        self._had_options = (self.run_folder / CONFIG_NAME).is_file()
        try:
            return super().train(*args, **kwargs)
        except RuntimeError as error:
            is_lost = isinstance(error, torch.distributed.DistError) or _LOST.search(str(error))
            if self.args.world_size == 1 or not is_lost:
                raise
            # Without the line of gloo's source, and its advice.
            reason = re.sub(r"^\[\S+\] |\. .*", "", str(error).strip().splitlines()[0])
            raise UserError(
                f"another of the {self.args.world_size} processes has ended or cannot be reached, after step "
                f"{self.state.global_step} ({reason}); {describe_latest_valid(self.run_folder)}; start the same "
                "command again on all hosts, with --auto_resume or --resume_from_checkpoint"
            ) from error

    # ---- data

    def _get_train_sampler(self, train_dataset: Dataset | None = None) -> Sampler[int]:
        dataset: Any = train_dataset if train_dataset is not None else self.train_dataset
        return SequentialSampler(dataset)

    def _get_dataloader(self, *args: Any, **kwargs: Any) -> DataLoader:
        loader = super()._get_dataloader(*args, **kwargs)
        inner = getattr(loader, "base_dataloader", loader)  # accelerate wraps it
        inner.worker_init_fn = IgnoreSignals(inner.worker_init_fn)
        return loader

    def get_batch_samples(
        self, epoch_iterator: Iterator[dict[str, Tensor]], num_batches: int, device: torch.device
    ) -> tuple[list[dict[str, Tensor]], Tensor | None]:
        """The batches of a step and, if there are several on all processes, their mean number of tokens.

        Trainer averages the losses of batches, which differ in their number of tokens where rows are padded.
        """
        batches, _ = super().get_batch_samples(epoch_iterator, num_batches, device)
        parts = len(batches) * self.accelerator.num_processes
        if parts <= 1:
            return batches, None
        counts = [self.model.count_tokens(batch["input_ids"], batch.get("attention_mask")) for batch in batches]
        total = self.accelerator.reduce(torch.stack(counts).sum(dim=0).to(device), reduction="sum")
        return batches, total.clamp(min=1) / parts

    # ---- one step

    def training_step(
        self, model: nn.Module, inputs: dict[str, Tensor | Any], num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        if self._step_loss is None:  # the first micro-batch
            self._before_step = self._tr_loss.clone(), self._window.copy_sums()
        loss: Tensor = super().training_step(model, inputs, num_items_in_batch)
        self._step_loss = loss if self._step_loss is None else self._step_loss + loss
        return loss

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Tensor | Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        if self._window.started is None:
            self._window.started, self._window.first_step = time.monotonic(), self.state.global_step
        output = model(**inputs, token_counts=num_items_in_batch)
        if model.training:
            token_counts: Any = num_items_in_batch
            num_chosen, num_real = (None, None) if token_counts is None else token_counts
            tokens = inputs.get("attention_mask", torch.ones_like(inputs["input_ids"])).sum()
            parts = {name: output.get(name) for name in ("generator_loss", "adversarial_loss", "baseline_loss")}
            parts[self.model.objective.loss_name] = output.main_loss
            if output.generator_entropy is not None:
                parts["generator_entropy"] = weighted_mean(output.generator_entropy, output.mlm_mask, num_chosen)
            if output.is_replaced is not None:
                parts["replaced_rate"] = output.is_replaced.sum() / (tokens if num_real is None else num_real)
            self._window.add({**parts, "tokens": tokens})
        return (output.loss, output) if return_outputs else output.loss

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None) -> Any:
        """The norm for the log. If it or the loss is not finite, the gradients are dropped before the optimizer step.

        Raises:
            UserError: too many steps in a row were not finite.
        """
        norm = super()._get_grad_norm(model, grad_norm)
        norm = norm.full_tensor() if isinstance(norm, DTensor) else norm  # FSDP: each process has its part
        assert self._step_loss is not None and self._before_step is not None
        is_bad = (~torch.isfinite(self._step_loss + norm)).float().reshape(1)
        if self.accelerator.num_processes > 1:
            is_bad = self.accelerator.reduce(is_bad, reduction="sum")  # all processes skip the same steps
        loss, self._step_loss = self._step_loss, None
        self._window.steps += 1
        if not is_bad.item():
            self._skipped_in_a_row, self._last_norm = 0, norm
            return norm
        model.zero_grad()
        loss_sum, window_sums = self._before_step
        self._tr_loss.copy_(loss_sum)
        self._window.skip_step(window_sums)
        self._skipped_in_a_row += 1
        step = self.state.global_step + 1
        what = f"loss {float(loss):g}, gradient norm {float(norm):g}"
        if self._skipped_in_a_row >= self.args.max_skipped_steps:
            raise UserError(
                f"step {step}: {what}: the last {self._skipped_in_a_row} steps were not finite and were skipped; "
                f"{describe_latest_valid(self.run_folder, until=step - self._skipped_in_a_row)}; resume from it with "
                "a lower --learning_rate or a smaller --max_grad_norm"
            )
        if self.is_world_process_zero():
            with tqdm.external_write_mode():
                logger.warning("step %d is skipped: %s", step, what)
        return self._last_norm

    def floating_point_ops(self, inputs: dict[str, Tensor | Any]) -> int:
        return int(self.flops_per_token * inputs["input_ids"].numel())

    # ---- optimizer and schedule

    def check_optimization(self, steps: int) -> None:
        """Create the optimizer and a schedule of `steps` before the run, so that wrong options fail early.

        Raises:
            UserError: one of their options does not work.
        """
        if not (self.is_fsdp_enabled or self.is_deepspeed_enabled):  # these wrap the model first
            self.create_optimizer()
        trial = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=self.args.learning_rate)
        schedule = self.create_scheduler(steps, trial)
        with translate_option_errors("--lr_scheduler_type and its options"):
            check_schedule(schedule, steps)
        self.lr_scheduler, self._created_lr_scheduler = None, False

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        if not self.args.adam_bias_correction:
            optimizer_class, kwargs = self.get_optimizer_cls_and_kwargs(self.args, self.model)
            if optimizer_class is not torch.optim.AdamW:
                raise UserError(
                    f"--adam_bias_correction false needs AdamW, but --optim is {self.args.optim.value}; choose "
                    "adamw_torch_fused or adamw_torch"
                )
            self.optimizer_cls_and_kwargs = AdamWNoBiasCorrection, kwargs
        with translate_option_errors("--optim and its options"):
            return super().create_optimizer(model)

    def create_scheduler(self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None) -> LRScheduler:
        if self.lr_scheduler is None:
            lengths = stage_lengths(num_training_steps, self.phases.generator_steps)
            self.lr_scheduler = create_schedule(self.args, optimizer or self.optimizer, lengths)
            self._created_lr_scheduler = True
        return self.lr_scheduler

    # ---- evaluation

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> EvalLoopOutput:
        # The batches bring the corruption's random numbers along; the data loader draws some of torch's.
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

    def _compute_metrics(self, prediction: EvalPrediction) -> dict[str, float]:
        self.last_records = np.asarray(prediction.predictions)
        config = self.model.config
        return evaluation_metrics(
            self.last_records, config.discriminator_weight, config.objective, config.uniform_generator
        )

    # ---- logging

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        samples = self.state.global_step * self.get_total_train_batch_size(self.args)
        self.state.epoch = samples / self.segments_per_epoch
        if "loss" in logs:
            steps, skipped = self._window.steps, self._window.skipped
            logs.update(self._close_window())
            if skipped == steps:
                del logs["loss"]
            else:
                logs["loss"] *= steps / (steps - skipped)  # Trainer has divided by all of them
            earlier = (int(entry[SKIPPED]) for entry in reversed(self.state.log_history) if SKIPPED in entry)
            skipped += next(earlier, 0)
            if skipped:
                logs[SKIPPED] = skipped
        super().log(logs, start_time)

    def _close_window(self) -> dict[str, float]:
        """The averages of the logging window, which begins anew."""
        self._read_tokens()
        window, now, step = self._window, time.monotonic(), self.state.global_step
        averages = window.averages(self.accelerator)
        if self.phases.discriminator_warmup_steps:
            averages["discriminator_weight"] = self.model.discriminator_weight
        if self.phases.gate is not None:
            averages["train_generator"] = float(self.model.train_generator)
        averages["tokens_seen"] = self.state.num_input_tokens_seen
        assert window.started is not None
        seconds, steps = now - window.started, max(1, step - window.first_step)
        averages["tokens_per_second"] = round(window.tokens / seconds)
        averages["eta_seconds"] = round((self.state.max_steps - step) * seconds / steps)
        self._window = LogWindow(started=now, first_step=step)
        return averages

    def _read_tokens(self) -> None:
        self.state.num_input_tokens_seen += self._window.read_tokens(self.accelerator)

    def _pause_since(self, started: float) -> None:
        """Leave the time since `started`, which was not training, out of tokens per second."""
        if self._window.started is not None:
            self._window.started += time.monotonic() - started

    # ---- checkpoints

    def _get_output_dir(self, trial: Any) -> str:
        return str(self.run_folder / UNFINISHED)

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        """Save the full state of this step: complete, or not at all.

        Raises:
            UserError: a file could not be written, or weights are not finite.
        """
        started = time.monotonic()
        self._read_tokens()  # so that the saved state counts them all
        run, step, is_writer = self.run_folder, self.state.global_step, self.args.should_save
        target = run / f"{PREFIX_CHECKPOINT_DIR}-{step}"
        unfinished = run / UNFINISHED / target.name
        if not self._is_finite():
            raise UserError(
                f"the weights or the optimizer's averages are not finite at step {step}, so it is not saved; "
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
                    if not (
                        unfinished / "config.json"
                    ).is_file():  # Trainer writes nothing else beside sharded weights
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

    def _is_finite(self) -> bool:
        states = getattr(self.optimizer, "state", {}).values()
        tensors = [*self.model.parameters(), *(value for state in states for value in state.values())]
        verdicts = [torch.isfinite(t).all() for t in tensors if isinstance(t, Tensor) and t.is_floating_point()]
        return all(bool(verdict) for verdict in verdicts)

    def _correct_best_checkpoint(self, *being_saved: Path) -> None:
        """Point to the best checkpoint in the run's folder as it is now; Trainer looked in `unfinished/`."""
        best = self.run_folder / f"{PREFIX_CHECKPOINT_DIR}-{self.state.best_global_step}"
        if self.state.best_global_step and (best.is_dir() or best in being_saved):
            self.state.best_model_checkpoint = str(best)

    def init_hf_repo(self, token: str | None = None) -> None:
        """Nothing: a finished run uploads its exported networks (electra/hub.py), never the joint network."""

    def _push_from_checkpoint(self, checkpoint_folder: str) -> None:
        """Nothing, as `init_hf_repo`."""

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


def make_trainer(
    args: Arguments,
    model: ElectraForJointPretraining,
    data: PretrainingData,
    plan: Plan,
    origin: dict[str, Any],
    stop: StopRequests | None = None,
) -> ElectraTrainer:
    """The trainer of a run, with readable progress instead of Trainer's dictionaries.

    Args:
        args: resolved.
        origin: see `ElectraTrainer`.
        stop: may end the run early.
    """
    training, config, tokenizer = args.training, model.config, data.tokenizer
    check_trackers(training.report_to)
    phases = PhaseOptions(
        discriminator_weight=config.discriminator_weight,
        discriminator_warmup_steps=args.objective.discriminator_warmup_steps,
        gate=gate_of(args),
        generator_steps=config.generator_steps,
        init_from_generator=args.objective.init_from_generator,
    )
    callbacks: list[TrainerCallback] = [TrainingPhases(model, phases), EnergyLog(), stop or StopRequests()]
    callbacks.append(LossSpikes())
    callbacks.append(RecordSettings({"options": without_secrets(args.effective), "plan": plan.as_dict()}))
    callbacks.append(KeptCheckpoints(plan.checkpoint_steps, training.save_total_limit))
    tune_process(training.device)
    tune_networks(model)
    try:
        trainer = ElectraTrainer(
            model=model,
            args=training,
            data_collator=SegmentCollator(tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id),
            train_dataset=TrainingSegments(data.policy, num_samples=plan.steps * plan.batch_size, seed=training.seed),
            eval_dataset=data.evaluation,
            processing_class=tokenizer,
            callbacks=callbacks,
            flops_per_token=plan.flops / plan.total_tokens,
            segments_per_epoch=len(data.policy),
            phases=phases,
            origin=origin,
        )
        if training.torch_compile:  # Trainer compiles later; this refuses a wrong backend or mode now
            torch.compile(model, backend=training.torch_compile_backend, mode=training.torch_compile_mode)
        trainer.check_optimization(plan.steps)
    except (ValueError, TypeError, ImportError, OSError, OverflowError, RuntimeError) as error:
        with suppress(OSError):  # made by Trainer; kept unless it is empty
            Path(str(training.output_dir)).rmdir()
        if isinstance(error, UserError):
            raise
        raise UserError(f"Trainer cannot be set up with these options: {error}") from error
    # All processes have the same weights; from here on each draws its own dropout.
    set_seed(training.seed, device_specific=True)
    trainer.remove_callback(PrinterCallback if training.disable_tqdm else ProgressCallback)
    trainer.add_callback(ReadableLog if training.disable_tqdm else ReadableProgress)
    # The thresholds hold for ELECTRA's task and base rates; without a generator none can be too strong.
    if config.objective == "electra" and model.generator is not None:
        trainer.add_callback(DiscriminatorHealth(config.discriminator.vocab_size))
    return trainer
