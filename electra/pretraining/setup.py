"""From options and data to a trainer: resolved options, the plan, the trainer itself."""

import copy
import logging
import math
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import torch
from accelerate.utils import set_seed as set_process_seed
from transformers import PreTrainedTokenizerBase, PrinterCallback, ProgressCallback, TrainerCallback, TrainingArguments
from transformers.trainer_utils import IntervalStrategy

from electra.console import check_trackers
from electra.cpu import tune_networks, tune_process
from electra.data.collator import SegmentCollator
from electra.data.segments import TrainingSegments
from electra.environment import without_secrets
from electra.errors import UserError
from electra.model.joint import ElectraForJointPretraining
from electra.objectives import OBJECTIVES
from electra.pretraining.callbacks.cost import EnergyLog
from electra.pretraining.callbacks.health import DiscriminatorHealth, LossSpikes
from electra.pretraining.callbacks.phases import PhaseOptions, TrainingPhases, stage_lengths
from electra.pretraining.callbacks.progress import ReadableLog, ReadableProgress
from electra.pretraining.callbacks.retention import KeptCheckpoints, fraction_steps
from electra.pretraining.callbacks.stopping import StopRequests
from electra.pretraining.data import Segments
from electra.pretraining.options import Arguments, gate_of
from electra.pretraining.plan import Plan, document_warnings, make_plan
from electra.pretraining.resources import disk_use, estimate_lines, missing_disk, step_memory
from electra.pretraining.resume import check_resumed, check_steps, describe, generator_steps_of, origin_of
from electra.pretraining.run_folder import Run
from electra.pretraining.trainer import ElectraTrainer
from electra.tracking import RecordSettings

logger = logging.getLogger(__name__)


def resolve(args: Arguments, run: Run, data: Segments) -> Arguments:
    """The options with the run's folder, and with steps in place of epochs and defaults; they stay as they are."""
    training = copy.copy(args.training)
    training.output_dir = str(run.folder)
    training.run_name = training.run_name or run.folder.name
    batch_size = _batch_size(training)
    if training.max_steps == -1:
        training.max_steps = math.ceil(training.num_train_epochs * len(data.policy) / batch_size)
    for event in ("eval", "save", "logging"):  # Trainer sees the whole run as one epoch
        strategy = getattr(training, f"{event}_strategy")
        if strategy == IntervalStrategy.EPOCH:
            setattr(training, f"{event}_strategy", type(strategy)("steps"))
            setattr(training, f"{event}_steps", max(1, math.ceil(len(data.policy) / batch_size)))
    if run.checkpoint is not None:
        check_steps(Path(run.checkpoint), training.max_steps)
    objective = args.objective
    if OBJECTIVES[objective.objective].has_stages:
        steps = generator_steps_of(objective.generator_steps, training.max_steps, run.checkpoint)
        objective = replace(objective, generator_steps=steps)
    return args._replace(training=training, objective=objective)


def _batch_size(training: TrainingArguments) -> int:
    """Segments of an optimizer step, over all devices."""
    return int(training.train_batch_size * training.gradient_accumulation_steps * training.world_size)


def announce_plan(args: Arguments, run: Run, model: ElectraForJointPretraining, data: Segments) -> Plan:
    """Log what the run will take, and warn of options that look like mistakes.

    Args:
        args: see `resolve`.
        run: receives its `origin`, the record that its checkpoints keep.
    Raises:
        UserError: the run does not continue its checkpoint, or does not fit on the disk.
    """
    training, batch_size = args.training, _batch_size(args.training)
    run.origin = origin_of(args, model, data.cache.content_hashes, data.training_documents, data.held_out, batch_size)
    if run.checkpoint is not None:
        batch = f"{training.train_batch_size} x {training.gradient_accumulation_steps} x {training.world_size}"
        batch += ": batch, accumulation, devices"
        run.origin = check_resumed(Path(run.checkpoint), run.origin, model, batch)
    plan = make_plan(
        model,
        data.cache,
        held_out_lengths=data.held_out_lengths,
        segments_per_epoch=len(data.policy),
        steps=training.max_steps,
        batch_size=batch_size,
        max_length=args.segments.max_length,
        checkpoint_steps=fraction_steps(training.checkpoint_fractions, training.max_steps),
        changes=describe(run.origin["changes"]),
    )
    memory = step_memory(args, model)
    disk = disk_use(args, model, plan, memory)
    for line in [*plan.lines(), *estimate_lines(memory, disk, args)]:
        logger.info(line)
    logger.info("run folder     %s", run.folder)
    fraction = 0.0 if args.segments.validation_file else args.segments.validation_fraction
    for warning in document_warnings(plan, args.corpus.document_separator, fraction):
        logger.warning(warning)
    missing = missing_disk(disk, run.folder)
    if missing is not None and not training.plan:
        raise UserError(missing)
    if missing is not None:
        logger.warning(missing)
    saves_between = any(step < training.max_steps for step in plan.checkpoint_steps)
    if training.save_strategy == "steps" and training.save_steps > training.max_steps and not saves_between:
        logger.warning(
            "save_steps=%g is more than max_steps=%d: the only checkpoint will be that of the last step. Steps are "
            "optimizer steps here, not samples.",
            training.save_steps,
            training.max_steps,
        )
    if args.objective.discriminator_warmup_steps > training.max_steps:
        logger.warning(
            "discriminator_warmup_steps=%d is more than max_steps=%d: lambda never reaches %g.",
            args.objective.discriminator_warmup_steps,
            training.max_steps,
            model.config.discriminator_weight,
        )
    if args.objective.generator_gate and (training.eval_steps or 0) >= training.max_steps:
        logger.warning(
            "eval_steps=%g is not less than max_steps=%d: the generator's gate never acts.",
            training.eval_steps,
            training.max_steps,
        )
    for steps in stage_lengths(training.max_steps, model.config.generator_steps):
        warmup_steps = training.get_warmup_steps(steps)
        if warmup_steps >= steps:
            logger.warning(
                "warmup_steps=%d is not less than %s=%d: the learning rate never reaches %g. Set --warmup_steps, "
                "0.1 for a tenth of the steps.",
                warmup_steps,
                "the steps of a stage" if model.config.generator_steps else "max_steps",
                steps,
                training.learning_rate,
            )
            break
    return plan


def make_trainer(
    args: Arguments,
    run: Run,
    model: ElectraForJointPretraining,
    tokenizer: PreTrainedTokenizerBase,
    data: Segments,
    plan: Plan,
    stop: StopRequests | None = None,
) -> ElectraTrainer:
    """The trainer of a run, with readable progress instead of Trainer's dictionaries; `stop` may end it early."""
    training = copy.copy(args.training)  # what Trainer gets, which is not what the user's options say
    if data.evaluation is None:
        training.eval_strategy = IntervalStrategy.NO
    training.eval_on_start = training.eval_strategy != IntervalStrategy.NO and run.checkpoint is None
    check_trackers(training.report_to)
    phases = PhaseOptions(
        discriminator_weight=model.config.discriminator_weight,
        discriminator_warmup_steps=args.objective.discriminator_warmup_steps,
        gate=gate_of(args.objective, args.segments, args.training),
        generator_steps=model.config.generator_steps,
        init_from_generator=args.objective.init_from_generator,
    )
    if phases.leaves_out_networks:
        training.ddp_find_unused_parameters = True
    callbacks: list[TrainerCallback] = [TrainingPhases(model, phases), EnergyLog(), stop or StopRequests()]
    callbacks.append(LossSpikes())
    callbacks.append(RecordSettings({"options": without_secrets(args.effective), "plan": plan.as_dict()}))
    callbacks.append(KeptCheckpoints(plan.checkpoint_steps, training.save_total_limit))
    training.save_total_limit = None  # the callback deletes checkpoints instead of Trainer
    tune_process(training.device)
    tune_networks(model)
    collator = SegmentCollator(tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id)
    try:
        trainer = ElectraTrainer(
            model=model,
            args=training,
            data_collator=collator,
            train_dataset=TrainingSegments(data.policy, num_samples=plan.steps * plan.batch_size, seed=training.seed),
            eval_dataset=data.evaluation,
            processing_class=tokenizer,
            callbacks=callbacks,
            flops_per_token=plan.flops / plan.total_tokens,
            segments_per_epoch=len(data.policy),
            phases=phases,
            origin=run.origin,
        )
        if training.torch_compile:  # Trainer compiles later; this refuses a wrong backend or mode now
            torch.compile(model, backend=training.torch_compile_backend, mode=training.torch_compile_mode)
        trainer.check_optimization(plan.steps)
    except (ValueError, TypeError, ImportError, OSError, OverflowError, RuntimeError) as error:
        with suppress(OSError):  # made by Trainer; kept unless it is empty
            run.folder.rmdir()
        if isinstance(error, UserError):
            raise
        raise UserError(f"Trainer cannot be set up with these options: {error}") from error
    # All processes have the same weights; from here on each draws its own dropout.
    set_process_seed(training.seed, device_specific=True)
    trainer.remove_callback(PrinterCallback if training.disable_tqdm else ProgressCallback)
    trainer.add_callback(ReadableLog if training.disable_tqdm else ReadableProgress)
    # The thresholds hold for ELECTRA's task and base rates; without a generator none can be too strong.
    if model.config.objective == "electra" and model.generator is not None:
        trainer.add_callback(DiscriminatorHealth(model.config.discriminator.vocab_size))
    return trainer
