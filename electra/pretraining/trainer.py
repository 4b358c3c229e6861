"""`transformers.Trainer` for the joint model. Its training loop, mixed precision and distribution are untouched.

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
from collections import Counter
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
from torch.utils.data import DataLoader, Sampler, SequentialSampler
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
from electra.data.segments import SegmentCollator, TrainingSegments
from electra.errors import UserError
from electra.files import write_json
from electra.model.joint import ElectraForJointPretraining
from electra.model.pretrained import silent_transformers
from electra.objectives import weighted_mean
from electra.optimization import AdamWNoBiasCorrection, check_schedule, create_schedule, translate_option_errors
from electra.pretraining.callbacks.checkpoints import IgnoreSignals, KeptCheckpoints, StopRequests
from electra.pretraining.callbacks.cost import EnergyLog
from electra.pretraining.callbacks.health import DiscriminatorHealth
from electra.pretraining.callbacks.phases import PhaseOptions, TrainingPhases, stage_lengths
from electra.pretraining.callbacks.progress import ProgressBar, ReadableLog
from electra.pretraining.data import PretrainingData
from electra.pretraining.metrics import LogWindow, evaluation_metrics, token_records
from electra.pretraining.options import CONFIG_NAME, Arguments, PretrainingArguments, gate_of
from electra.pretraining.plan import Plan
from electra.pretraining.resume import BEST_METRIC_OPTIONS, keeping_options, translate_loading_errors
from electra.tracking import RecordSettings

logger = logging.getLogger(__name__)

_LOST = re.compile(
    r"connection (closed|reset|refused)|closed by peer|broken pipe|timed out|\bgloo\b|\bnccl\b|TCPStore", re.IGNORECASE
)
"""Messages of gloo, NCCL and the TCP store; gloo's errors have no class of their own."""


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
        self._had_options, self._skipped_in_a_row = False, 0
        self._window = LogWindow()
        self._step_loss: Tensor | None = None  # sum over the micro-batches of this step so far
        self._before_step: tuple[Tensor, dict[str, Tensor], Counter[str]] | None = None
        self._last_norm: Any = None

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

    def _get_train_sampler(self, *args: Any) -> Sampler[int]:
        return SequentialSampler(self.train_dataset)

    def _get_dataloader(self, *args: Any, **kwargs: Any) -> DataLoader:
        loader = super()._get_dataloader(*args, **kwargs)
        inner = getattr(loader, "base_dataloader", loader)  # accelerate wraps it
        inner.worker_init_fn = IgnoreSignals(inner.worker_init_fn)
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
        counts = [self.model.count_tokens(batch["input_ids"], batch.get("attention_mask")) for batch in batches]
        total = self.accelerator.reduce(torch.stack(counts).sum(dim=0).to(device), reduction="sum")
        return batches, total.clamp(min=1) / parts

    # ---- one step

    def training_step(self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None) -> Tensor:
        if self._step_loss is None:  # the first micro-batch
            self._before_step = self._tr_loss.clone(), dict(self._window.sums), Counter(self._window.batches)
        loss: Tensor = super().training_step(model, inputs, num_items_in_batch)
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
            self._window.add({**parts, "tokens": tokens})
        return (output.loss, output) if return_outputs else output.loss

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None) -> Any:
        """The norm for the log. If it or the loss is not finite, the optimizer's step gets no gradients."""
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
        loss_sum, sums, batches = self._before_step
        self._tr_loss.copy_(loss_sum)
        self._window.skip_step(sums, batches)
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

    def evaluation_loop(self, dataloader: DataLoader, *args: Any, **kwargs: Any) -> EvalLoopOutput:
        # The batches bring the corruption's random numbers along; the data loader draws some of torch's.
        started, more = time.monotonic(), dict[str, float]()
        with torch.random.fork_rng(devices=[]):
            for name, segments in self.more_evaluations.items():
                loader, options = self.get_test_dataloader(segments), {**kwargs, "metric_key_prefix": f"eval_{name}"}
                more |= super().evaluation_loop(loader, *args, **options).metrics
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
            names = [name for name in window.sums if name != "tokens"]
            if names:  # none if all steps were skipped
                sums = self.accelerator.gather(torch.stack([window.sums[name] for name in names]).unsqueeze(0))
                means = zip(names, sums.mean(dim=0).tolist(), strict=True)
                logs.update({name: mean / window.batches[name] for name, mean in means})
                logs["loss"] *= window.steps / (window.steps - window.skipped)  # Trainer has divided by all of them
            else:
                del logs["loss"]
            if self.phases.discriminator_warmup_steps:
                logs["discriminator_weight"] = self.model.discriminator_weight
            if self.phases.gate is not None:
                logs["train_generator"] = float(self.model.train_generator)
            assert window.started is not None
            now = time.monotonic()
            seconds, steps = now - window.started, max(1, state.global_step - window.first_step)
            logs["tokens_seen"] = state.num_input_tokens_seen
            logs["tokens_per_second"] = round(window.tokens / seconds)
            logs["eta_seconds"] = round((state.max_steps - state.global_step) * seconds / steps)
            earlier = (line["skipped_steps"] for line in reversed(state.log_history) if "skipped_steps" in line)
            skipped = window.skipped + int(next(earlier, 0))
            if skipped:  # so far in the whole run
                logs["skipped_steps"] = skipped
            self._window = LogWindow(started=now, first_step=state.global_step)
        super().log(logs, start_time)

    def _read_tokens(self) -> None:
        """Count the tokens of all processes since the last call."""
        tokens = self._window.sums.pop("tokens", None)
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
        self._read_tokens()  # so that the saved state counts them all
        run, step, is_writer = self.run_folder, self.state.global_step, self.args.should_save
        target = run / f"{PREFIX_CHECKPOINT_DIR}-{step}"
        unfinished = run / UNFINISHED / target.name
        states = [value for entry in getattr(self.optimizer, "state", {}).values() for value in entry.values()]
        tensors = [t for t in (*self.model.parameters(), *states) if isinstance(t, Tensor) and t.is_floating_point()]
        if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors):
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


def make_trainer(
    args: Arguments,
    model: ElectraForJointPretraining,
    data: PretrainingData,
    plan: Plan,
    origin: dict[str, Any],
    stop: StopRequests | None = None,
) -> ElectraTrainer:
    """The trainer of a run with resolved options; `stop` may end it early."""
    training, config, tokenizer = args.training, model.config, data.tokenizer
    phases = PhaseOptions(
        discriminator_weight=config.discriminator_weight,
        discriminator_warmup_steps=args.objective.discriminator_warmup_steps,
        gate=gate_of(args),
        generator_steps=config.generator_steps,
        init_from_generator=args.objective.init_from_generator,
    )
    callbacks: list[TrainerCallback] = [TrainingPhases(model, phases), EnergyLog(), stop or StopRequests()]
    callbacks.append(RecordSettings({"options": without_secrets(args.effective), "plan": plan.as_dict()}))
    callbacks += [KeptCheckpoints(plan.checkpoint_steps, training.save_total_limit), ReadableLog()]
    callbacks += [] if training.disable_tqdm else [ProgressBar()]
    # The thresholds hold for ELECTRA's task and base rates; without a generator none can be too strong.
    if config.objective == "electra" and model.generator is not None:
        callbacks.append(DiscriminatorHealth(config.discriminator.vocab_size))
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
            plan=plan,
            phases=phases,
            origin=origin,
        )
        trainer.more_evaluations = data.more_evaluations
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
    return trainer
