"""`transformers.Trainer` for the joint model. Its training loop, mixed precision and distribution are untouched.

`StepGuard` clips and skips, `LogWindow` sums up the log, `AtomicCheckpoints` writes and reads checkpoints; here their
methods are called from Trainer's hooks. run.py makes the trainer of the command.

Private names of transformers, accelerate and torch that pre-training overrides or uses, with the reason:

    Trainer._clip_grad_norm      the only place between backward and the optimizer's step: `StepGuard`
    Trainer._get_output_dir      Trainer writes into `unfinished/`; a complete checkpoint is renamed
    Trainer._save_checkpoint     manifest and rename after Trainer has written
    Trainer._load_from_checkpoint, _load_optimizer_and_scheduler, _load_scaler, _load_rng_state
                                 what damaged files raise becomes one line
    Trainer._load_optimizer_and_scheduler
                                 the learning rate of the options replaces that of the checkpoint
    LRScheduler._last_lr         the learning rate of the options, until the schedule's next step (checkpoints.py)
    torch._foreach_copy_, torch.ops.aten._foreach_copy
                                 copy all tensors of a list in one operation (runtime/device.py)
"""

import logging
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.utils import DynamoBackend, set_seed
from torch import Tensor, nn
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader
from transformers import (
    EvalPrediction,
    PreTrainedTokenizerBase,
    PrinterCallback,
    Trainer,
    TrainerCallback,
)
from transformers.trainer import DEFAULT_PROGRESS_CALLBACK
from transformers.trainer_utils import EvalLoopOutput, TrainOutput

from electra.base.checkpoints import GO_BACK, TAKE_NETWORKS, UNFINISHED, translate_read_errors
from electra.base.console import log_by_default, show_from
from electra.core.errors import UserError
from electra.core.networks import ElectraPretrainingOutput
from electra.core.schedules import (
    AdamWNoBiasCorrection,
    create_schedule,
    stage_lengths,
    translate_option_errors,
)
from electra.core.segments import EvaluationSegments, TrainingSegments
from electra.data.options import SegmentArguments
from electra.data.token_cache import TokenCache
from electra.model.joint import ElectraForJointPretraining
from electra.model.options import ObjectiveArguments
from electra.model.pretrained import check_given_tokenizer, load_tokenizer_beside_model
from electra.pretraining.callbacks import Probe, default_callbacks
from electra.pretraining.checkpoints import (
    AtomicCheckpoints,
    NoSchedule,
    keeping_options,
)
from electra.pretraining.configuration import ElectraTrainingArguments
from electra.pretraining.data import PretrainingData, make_collator
from electra.pretraining.device import compile_model, make_once
from electra.pretraining.log_window import LogWindow, values_of_batch
from electra.pretraining.metrics import evaluation_metrics, metrics_of_corrupted, token_records
from electra.pretraining.model import changed_network_values, start_of_run
from electra.pretraining.plan import make_plan
from electra.pretraining.program import network_options_of, prepare_program
from electra.pretraining.run_folder import (
    RunProvenance,
    check_resumed,
    find_run,
    provenance_of,
    upload_networks,
)
from electra.pretraining.step import Phase, StepGuard, begin_second_stage, phase_at
from electra.pretraining.stopping import StopRequests, StopsWhenAsked, adapt_loader
from electra.pretraining.testset import CorruptedTestSet
from electra.report.runs import TEST
from electra.runtime.device import computing
from electra.runtime.tracking import KeepRunId, guard_trackers, resumed_in_wandb

logger = logging.getLogger(__name__)

OTHER_WEIGHTS = f"train the same weights of the networks as this run did; if they are the same, {GO_BACK}"
"""Advice at the end of messages, where the optimizer's state of the same run does not fit or is damaged."""


class ElectraTrainer(Trainer):
    """A Trainer for `ElectraForJointPretraining`, with dynamic segments, complete checkpoints and a log of losses.

        corpus = tokenize_corpus("corpus/*.txt", tokenizer)
        model = ElectraForJointPretraining.from_recipe("small", tokenizer)
        args = ElectraTrainingArguments("output/mine", max_steps=100_000)
        trainer = ElectraTrainer(model=model, args=args, train_dataset=corpus, processing_class=tokenizer)
        trainer.train()

    Call the same again to continue after an interruption; `finish_run(trainer)` exports the networks. Ctrl-C finishes
    the step and saves a checkpoint before it is raised; a second one stops at once.

    Args:
        model: joint model with new or trained networks, whose modules are changed to suit the device.
        args: options of the training. Epochs and shares become numbers of steps; numbers that are not given are made
            to fit the length of the run.
        train_dataset: a token cache, or the data of a run, as another trainer has them in `data`.
        eval_dataset: held-out texts: a token cache, or several by name, the first of which decides about checkpoints.
            Without one, `segments.validation_fraction` of the corpus is held out.
        processing_class: the tokenizer of the token caches; an object, a path or a Hub id.
        segments: options of the segments: length, policy, share of held-out documents; held-out files are given as
            `eval_dataset`. By default those of the paper's ELECTRA-Small, 128 tokens or as many as the networks read.
        callbacks: callbacks that watch the run in place of the default ones, which log lines, warn and save; to keep
            these and add one of your own, call `trainer.add_callback`.
        objective: options that say which networks are trained when; by default those of `model.config`.
        provenance: text and options of a run that the command has prepared and whose folder it has locked; a program
            leaves it out.
        probes: functions that measure the model at each evaluation.

    With `args.init_checkpoint` a new run starts from the weights and the optimizer's state of that checkpoint; `model`
    must have the same networks, as `ElectraForJointPretraining.from_pretrained(checkpoint)` has.

    Raises:
        UserError: model, tokenizer, text and options do not fit.
    """

    args: ElectraTrainingArguments
    model: Any
    train_dataset: Any
    lr_scheduler: Any

    def __init__(
        self,
        model: ElectraForJointPretraining,
        args: ElectraTrainingArguments,
        train_dataset: TokenCache | PretrainingData,
        eval_dataset: TokenCache | Mapping[str, TokenCache] | None = None,
        processing_class: PreTrainedTokenizerBase | str | Path | None = None,
        *,
        segments: SegmentArguments | None = None,
        callbacks: Sequence[TrainerCallback] | None = None,
        objective: ObjectiveArguments | None = None,
        provenance: RunProvenance | None = None,
        probes: Sequence[Probe] = (),
    ) -> None:
        log_by_default()
        if provenance is None:  # the command has prepared its own run
            args, train_dataset, objective = prepare_program(
                model, args, train_dataset, eval_dataset, processing_class, segments, objective
            )
        assert objective is not None
        if args.log_level != "passive":
            show_from(args.get_process_log_level())
        data: Any = train_dataset
        plan = make_plan(args, model, data, provenance.changes if provenance else ())
        args = args.with_values(
            train_sampling_strategy="sequential",  # position p is sample p of the run (core/segments.py)
            max_grad_norm=args.max_grad_norm or math.inf,  # Trainer asks for the norm only where it clips
            push_to_hub=False,  # a finished run uploads its exported networks, never the joint one
        )
        collator = make_collator(data, has_fixed_shapes=args.torch_compile or args.device.type == "cuda")
        try:
            super().__init__(
                model=model,
                args=args,
                data_collator=collator,
                train_dataset=TrainingSegments(data.policy, plan.steps * plan.batch_size, args.seed),
                eval_dataset=data.evaluation,
                processing_class=data.tokenizer,
                compute_metrics=self._held_out_metrics,
            )
        except UserError:
            raise
        except (ValueError, ImportError) as error:
            raise UserError(f"Trainer cannot be set up with these options: {error}") from error
        self.remove_callback(PrinterCallback if args.disable_tqdm else DEFAULT_PROGRESS_CALLBACK)
        self.data = data
        self.plan = plan
        self.objective_options = objective
        self.run_folder = Path(args.output_dir)
        self.start = start_of_run(args)
        self.is_opened = provenance is not None  # the command has locked the folder, and compared text and options
        self.last_records: Any = None  # of the last evaluation, (N, L, 12); see metrics.py
        self.window = LogWindow()
        self.phase = Phase(True, True)
        self.checkpoints = AtomicCheckpoints(self, provenance or self._provenance())
        is_sharded = self.is_fsdp_enabled or self.is_deepspeed_enabled
        self.guard = StepGuard(self.accelerator, args.max_grad_norm, is_sharded)
        self.stop = StopsWhenAsked(StopRequests())
        if callbacks is None:
            callbacks = [*default_callbacks(model, args, plan), self.stop]
        for callback in (*callbacks, self.checkpoints, self.guard):
            self.add_callback(callback)
        if args.report_to:
            self.add_callback(KeepRunId(self.run_folder))
            guard_trackers(self.callback_handler.callbacks)
        self.probes = probes
        self._values_of_batch: Any = None
        self._begun_step = -1
        # With FSDP, accelerate compiles what it has sharded. Elsewhere it would wrap the networks in another module.
        if not args.fsdp:
            self.accelerator.state.dynamo_plugin.backend = DynamoBackend.NO
            if args.torch_compile:
                compile_model(self.model, args)

    def _provenance(self) -> RunProvenance:
        """Return the provenance of a run that a program starts or resumes now."""
        values = {**vars(self.data.segments), **network_options_of(self.model.config), **vars(self.args)}
        return provenance_of(values, self.data.text_provenance, self.args.segments_per_step)

    def train(self, resume_from_checkpoint: str | Path | bool | None = None, **kwargs: object) -> TrainOutput:
        """Train to the end of the run, and return Trainer's output.

        Args:
            resume_from_checkpoint: the latest checkpoint of the run in `args.output_dir`; None for that one, if there
                is one; True for the same, which must be there; False for a new run.
        Raises:
            UserError: the run in the folder was trained on other text, or with other options that must be kept; there
                is no such checkpoint; or a new run would overwrite the checkpoints of the folder.
        """
        if resume_from_checkpoint in (None, True) or not self.is_opened:
            run = make_once(lambda: find_run(self.run_folder, resume_from_checkpoint), per_host=False)
            resume_from_checkpoint = run.checkpoint or False
            if run.checkpoint is not None:
                logger.info("resuming %s", run.checkpoint)
                trained_tokenizer = load_tokenizer_beside_model(run.checkpoint)
                check_given_tokenizer(self.processing_class, trained_tokenizer, run.checkpoint)
            provenance = self.checkpoints.provenance if self.is_opened else self._provenance()
            networks = changed_network_values(run.checkpoint, self.model.config)
            self.checkpoints.provenance = check_resumed(run, provenance, networks)
        is_stopped = self.stop in self.callback_handler.callbacks
        interrupting = self.stop.requests.interrupting() if is_stopped else nullcontext()
        set_seed(self.args.seed, device_specific=True)  # weights are the same on all; each draws its own dropout
        try:
            is_tracked = bool(resume_from_checkpoint and self.args.report_to)
            resumed = resumed_in_wandb(self.args.report_to, self.run_folder) if is_tracked else nullcontext()
            with interrupting, resumed, computing(self.args.device, self.args.threads):
                return super().train(resume_from_checkpoint=resume_from_checkpoint or None, **kwargs)
        except RuntimeError:  # of gloo, too, which has no class for a connection that is lost
            if self.args.world_size > 1:
                advice = "start the same command again on all hosts, with --auto_resume"
                logger.error("this process has failed; if that is because another one was lost, %s", advice)
            raise
        finally:
            self.checkpoints.wait()

    # ---- data

    def get_train_dataloader(self) -> DataLoader:
        return adapt_loader(super().get_train_dataloader())

    def get_eval_dataloader(self, eval_dataset: EvaluationSegments | CorruptedTestSet | None = None) -> DataLoader:
        # Trainer's own method may keep the workers of a loader for the next evaluation; this one never does.
        loader = self.get_test_dataloader(self.eval_dataset if eval_dataset is None else eval_dataset)
        return adapt_loader(loader)

    def get_batch_samples(
        self, epoch_iterator: Iterator[dict[str, Tensor]], num_batches: int, device: torch.device
    ) -> tuple[list[dict[str, Tensor]], Tensor | None]:
        """Return the batches of a step, and the mean of `count_tokens` over all of them, on all processes.

        The mean is None for a single batch on one process.
        """
        # Trainer averages the losses of batches, which differ in their number of tokens where rows are padded.
        batches, _ = super().get_batch_samples(epoch_iterator, num_batches, device)
        batches_of_step = len(batches) * self.accelerator.num_processes
        if batches_of_step <= 1:
            return batches, None
        counts = [self.model.count_tokens(**batch) for batch in batches]
        total = self.accelerator.reduce(torch.stack(counts).sum(dim=0), reduction="sum")
        return batches, total.clamp(min=1) / batches_of_step

    # ---- one step

    def training_step(self, model: nn.Module, inputs: dict[str, Tensor], num_items_in_batch: object = None) -> Tensor:
        """Compute the gradients of a batch, and return its loss, float (); 0 in place of one that is not finite."""
        self._begin_step()
        self._values_of_batch = None
        loss = super().training_step(model, inputs, num_items_in_batch)
        assert self._values_of_batch is not None
        self.window.add(*self._values_of_batch)
        return torch.where(torch.isfinite(loss), loss, 0.0)  # Trainer would keep a nan in its sum for ever

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Tensor], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Tensor | tuple[Tensor, ElectraPretrainingOutput]:
        output = model(**inputs, token_counts=num_items_in_batch, **self.phase._asdict())
        self._values_of_batch = values_of_batch(output, inputs, self.model.objective, num_items_in_batch)
        return (output.loss, output) if return_outputs else output.loss

    def _begin_step(self) -> None:
        """Choose, at the first batch of a step, which networks the step trains, and begin the second stage if due."""
        step = self.state.global_step
        self.window.start(step)
        if step == self._begun_step:
            return
        self._begun_step = step
        options = self.objective_options
        self.phase = phase_at(step, self.state.log_history, options.generator_steps, options.generator_gate)
        if options.generator_steps == step > 0:
            begin_second_stage(self.model, step, from_generator=options.init_from_generator)

    def _clip_grad_norm(self, model: nn.Module) -> Tensor:
        is_bad, norm = self.guard.check(model, self.window.step_loss)
        self.window.end_step(is_bad)
        return norm

    def floating_point_ops(self, inputs: dict[str, Tensor]) -> int:
        """Return the FLOPs of a batch for both networks, by the plan's count; Trainer adds them up to `total_flos`."""
        return int(self.plan.flops / self.plan.total_tokens * inputs["input_ids"].numel())

    # ---- optimizer and schedule

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        optimizer_class, kwargs = self.get_optimizer_cls_and_kwargs(self.args, self.model)
        if optimizer_class is torch.optim.AdamW and not self.args.adam_bias_correction:
            self.optimizer_cls_and_kwargs = (AdamWNoBiasCorrection, kwargs)
        with translate_option_errors("--optim and its options"):
            return super().create_optimizer(model)

    def take_optimizer(self, checkpoint: Path) -> None:
        """Load the optimizer's state from a checkpoint of another run; this run's rate, decay and betas stay."""
        schedule = self.lr_scheduler
        self.lr_scheduler = NoSchedule()
        rates = [group["lr"] for group in self.optimizer.param_groups]
        try:
            with (
                keeping_options(self.optimizer, None),
                translate_read_errors(str(checkpoint), "the optimizer", TAKE_NETWORKS),
            ):
                super()._load_optimizer_and_scheduler(str(checkpoint))
        finally:
            self.lr_scheduler = schedule
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate

    def create_scheduler(self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None) -> LRScheduler:
        if self.lr_scheduler is None:
            lengths = stage_lengths(num_training_steps, self.objective_options.generator_steps)
            self.lr_scheduler = create_schedule(self.args, optimizer or self.optimizer, lengths)
        return self.lr_scheduler

    # ---- evaluation

    def evaluation_loop(self, dataloader: DataLoader, *args: object, **kwargs: object) -> EvalLoopOutput:
        started = time.monotonic()
        more_metrics: dict[str, float] = {}
        is_test = kwargs.get("metric_key_prefix") == TEST
        # The last batch is shorter, and an evaluation records more: compiled code would be compiled again.
        eagerly = torch.compiler.set_stance("force_eager") if self.args.torch_compile else nullcontext()
        # The batches bring the corruption's random numbers along; the data loader draws some of torch's.
        with torch.random.fork_rng(devices=[]), eagerly, computing(self.args.device, self.args.threads):
            # The main text comes last: `last_records` are those of its tokens.
            more_texts = {} if is_test else self.data.more_evaluations
            for name, segments in more_texts.items():
                is_corrupted = isinstance(segments, CorruptedTestSet)
                self.compute_metrics = self._corrupted_metrics if is_corrupted else self._held_out_metrics
                options = {**kwargs, "metric_key_prefix": f"eval_{name}"}
                more_metrics |= super().evaluation_loop(self.get_eval_dataloader(segments), *args, **options).metrics
            self.compute_metrics = self._held_out_metrics
            result = super().evaluation_loop(dataloader, *args, **kwargs)
            for probe in self.probes:
                more_metrics |= {f"eval_{name}": value for name, value in probe(self.model).items()}
        self.window.pause_since(started)
        return result._replace(metrics=result.metrics | more_metrics)

    def prediction_step(
        self, model: nn.Module, inputs: dict[str, Tensor], *args: object, **kwargs: object
    ) -> tuple[None, Tensor, Tensor]:
        with torch.no_grad(), self.compute_loss_context_manager():
            output = model(**inputs)
        records = token_records(inputs["input_ids"], inputs.get("attention_mask"), output)
        return None, records, records[:, :1, 0]  # Trainer computes metrics only where there are labels

    def evaluate_test_set(self) -> dict[str, float]:
        """Log and return the metrics of the test set, `test_*`; {} without a test set."""
        if self.data.test is None:
            return {}
        held_out_records = self.last_records
        metrics = self.evaluate(self.data.test, metric_key_prefix=TEST)
        self.last_records = held_out_records
        return {name: value for name, value in metrics.items() if name.startswith(f"{TEST}_")}

    def _held_out_metrics(self, prediction: EvalPrediction) -> dict[str, float]:
        """Return the metrics of held-out text that this run's generator corrupts; keep the token records."""
        self.last_records = np.asarray(prediction.predictions)
        return evaluation_metrics(self.last_records, self.model.config.discriminator_weight, self.model.objective)

    def _corrupted_metrics(self, prediction: EvalPrediction) -> dict[str, float]:
        """Return the metrics of the corrupted test set, whose text another generator has corrupted."""
        return metrics_of_corrupted(np.asarray(prediction.predictions), self.model.objective)

    # ---- logging

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log values; to a line of training add the mean losses of the window, and begin a new window.

        This waits for the device, once.
        """
        state = self.state
        state.epoch = state.global_step * self.get_total_train_batch_size(self.args) / self.plan.segments_per_epoch
        self._read_tokens()
        if "loss" in logs:
            self._log_window(logs)
        super().log(logs, start_time)

    def _log_window(self, logs: dict[str, float]) -> None:
        """Put the means, tokens, rate and remaining time of the window into `logs`, and begin a new window."""
        state = self.state
        window = self.window
        means, skipped_steps = window.read(self.accelerator.gather)
        self.guard.log_skipped(state.global_step, skipped_steps)
        del logs["loss"]
        logs.update(means)  # none if all steps were skipped
        if not math.isfinite(logs["grad_norm"]):  # no step yet that was not skipped
            del logs["grad_norm"]
        if self.objective_options.generator_gate:
            logs["train_generator"] = float(self.phase.train_generator)
        started: Any = window.started
        now_seconds = time.monotonic()
        seconds = now_seconds - started
        steps = max(1, state.global_step - window.first_step)
        logs["tokens_seen"] = state.num_input_tokens_seen
        logs["tokens_per_second"] = round(window.tokens / seconds)
        logs["eta_seconds"] = round((state.max_steps - state.global_step) * seconds / steps)
        if skipped_steps:
            logs["skipped_steps"] = skipped_steps
        self.window = LogWindow(started=now_seconds, first_step=state.global_step)

    def _read_tokens(self) -> None:
        self.state.num_input_tokens_seen += self.window.read_tokens(self.accelerator.gather)

    # ---- checkpoints

    def _get_output_dir(self, trial: Any) -> str:
        return str(self.run_folder / UNFINISHED)

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        started = time.monotonic()
        self._read_tokens()  # so that the saved state counts them all
        with self.checkpoints.writing():
            super()._save_checkpoint(model, trial)
        self.window.pause_since(started)

    def push_to_hub(self, *, token: str | None = None, private: bool | None = None) -> None:
        """Upload the networks that `finish_run` has exported, as --push_to_hub does; see `upload_networks`."""
        if self.is_world_process_zero():
            upload_networks(self.args, self.run_folder, self.plan.steps, token=token, private=private)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        with translate_read_errors(resume_from_checkpoint, "the weights"):
            super()._load_from_checkpoint(resume_from_checkpoint, model)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        # DeepSpeed has loaded both by itself.
        if checkpoint is None or self.is_deepspeed_enabled:
            super()._load_optimizer_and_scheduler(checkpoint)
            return
        reading = translate_read_errors(checkpoint, "the optimizer", OTHER_WEIGHTS)
        with reading, keeping_options(self.optimizer, self.lr_scheduler):
            super()._load_optimizer_and_scheduler(checkpoint)

    def _load_scaler(self, checkpoint: str | None) -> None:
        with translate_read_errors(checkpoint, "the loss scale"):
            super()._load_scaler(checkpoint)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        with translate_read_errors(checkpoint, "the random state"):
            super()._load_rng_state(checkpoint)
