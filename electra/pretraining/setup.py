"""From options and inputs to a trainer: the plan, the trainer itself."""

import logging
import math
from contextlib import suppress
from pathlib import Path

import torch
from accelerate.utils import set_seed as set_process_seed
from transformers import PreTrainedTokenizerBase, PrinterCallback, ProgressCallback, TrainerCallback
from transformers.trainer_utils import IntervalStrategy

from electra.console import check_trackers
from electra.data.collator import SegmentCollator
from electra.data.segments import TrainingSegments
from electra.errors import UserError
from electra.kernels import tune_networks, tune_process
from electra.model.modeling import ElectraForJointPretraining
from electra.objectives import OBJECTIVES
from electra.pretraining.agreement import check_same_architecture, check_steps, generator_steps_of
from electra.pretraining.checkpoints import KeptCheckpoints, fraction_steps
from electra.pretraining.combinations import gate_of
from electra.pretraining.estimate import disk_use, estimate_lines, missing_disk, step_memory
from electra.pretraining.health import DiscriminatorHealth
from electra.pretraining.inputs import Segments
from electra.pretraining.ledger import EnergyLog
from electra.pretraining.options import Arguments
from electra.pretraining.origin import check_same_origin, describe_longer_run, origin_of
from electra.pretraining.phases import PhaseOptions, TrainingPhases, stage_lengths
from electra.pretraining.plan import Plan, make_plan
from electra.pretraining.progress import ReadableLog, ReadableProgress
from electra.pretraining.run_folder import Run
from electra.pretraining.spikes import LossSpikes
from electra.pretraining.stopping import StopRequests
from electra.pretraining.trainer import ElectraTrainer
from electra.redaction import without_secrets
from electra.tracking import RecordSettings

logger = logging.getLogger(__name__)


def announce_plan(args: Arguments, run: Run, model: ElectraForJointPretraining, data: Segments) -> Plan:
    """Settle the number of steps, say what the run will take, and what in its options looks like a mistake."""
    training = args.training
    batch_size = training.train_batch_size * training.gradient_accumulation_steps * training.world_size
    steps_per_epoch = max(1, math.ceil(len(data.policy) / batch_size))
    if training.max_steps == -1:
        training.max_steps = math.ceil(training.num_train_epochs * len(data.policy) / batch_size)
    for event in ("eval", "save", "logging"):  # the data set is the whole run, so Trainer's own epoch is, too
        if getattr(training, f"{event}_strategy") == IntervalStrategy.EPOCH:
            setattr(training, f"{event}_strategy", type(getattr(training, f"{event}_strategy"))("steps"))
            setattr(training, f"{event}_steps", steps_per_epoch)
    if run.checkpoint is not None:
        check_steps(Path(run.checkpoint), training.max_steps)
    if OBJECTIVES[args.objective.objective].has_stages:
        asked = args.objective.generator_steps
        model.config.generator_steps = generator_steps_of(asked, training.max_steps, run.checkpoint)
    if run.checkpoint is not None:
        check_same_architecture(model, Path(run.checkpoint))
    plan = make_plan(
        model,
        data.cache,
        held_out_documents=data.held_out_documents,
        segments_per_epoch=len(data.policy),
        steps=training.max_steps,
        batch_size=batch_size,
        max_length=args.segments.max_length,
        checkpoint_steps=fraction_steps(training.checkpoint_fractions, training.max_steps),
    )
    memory = step_memory(args, model)
    disk = disk_use(args, model, plan, memory)
    for line in [*plan.lines(), *estimate_lines(memory, disk, args)]:
        logger.info(line)
    logger.info("run folder     %s", run.folder)
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
    """The trainer, with readable progress in place of Trainer's dictionaries; `stop` may end it early."""
    training = args.training
    if data.evaluation is None:
        training.eval_strategy = IntervalStrategy.NO
    training.eval_on_start = training.eval_strategy != IntervalStrategy.NO and run.checkpoint is None
    check_trackers(training.report_to)
    phases = PhaseOptions(
        discriminator_weight=model.config.discriminator_weight,
        discriminator_warmup_steps=args.objective.discriminator_warmup_steps,
        gate=gate_of(args.objective, args.segments, training),
        generator_steps=model.config.generator_steps,
        init_from_generator=args.objective.init_from_generator,
    )
    if phases.leaves_out_networks:
        training.ddp_find_unused_parameters = True
    callbacks: list[TrainerCallback] = [TrainingPhases(model, phases), EnergyLog(), stop or StopRequests()]
    callbacks.append(LossSpikes())
    callbacks.append(RecordSettings({"options": without_secrets(args.effective), "plan": plan.as_dict()}))
    callbacks.append(KeptCheckpoints(plan.checkpoint_steps, training.save_total_limit))
    training.save_total_limit = None  # the callback deletes in Trainer's place
    origin = origin_of(
        data.cache.content_hashes,
        data.training_documents,
        data.held_out,
        plan.batch_size,
        bf16=bool(training.bf16),
        options={
            "max_length": args.segments.max_length,
            "segment_policy": args.segments.segment_policy,
            "seed": training.seed,
            "data_seed": training.data_seed,
            "optim": training.optim.value,
            "adam_bias_correction": training.adam_bias_correction,
        },
    )
    if run.checkpoint is not None:
        batch = f"{training.train_batch_size} x {training.gradient_accumulation_steps} x {training.world_size}"
        origin = check_same_origin(Path(run.checkpoint), origin, f"{batch}: batch, accumulation, devices")
        longer = describe_longer_run(Path(run.checkpoint), plan.steps)
        if longer is not None:
            logger.warning(longer)
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
            origin=origin,
        )
        if training.torch_compile:
            torch.compile(model, backend=training.torch_compile_backend, mode=training.torch_compile_mode)
        trainer.check_optimization(plan.steps)
    except (ValueError, TypeError, ImportError, OSError, OverflowError, RuntimeError) as error:
        with suppress(OSError):  # Trainer has made it; with anything in it, it stays
            run.folder.rmdir()
        if isinstance(error, UserError):
            raise
        # An option that does not fit this machine or the others.
        raise UserError(f"Trainer cannot be set up with these options: {error}") from error
    # The weights are the same on every process; from here on each draws dropout of its own.
    set_process_seed(training.seed, device_specific=True)
    trainer.remove_callback(PrinterCallback if training.disable_tqdm else ProgressCallback)
    trainer.add_callback(ReadableLog if training.disable_tqdm else ReadableProgress)
    # Others are asked something else, or have other base rates; without a generator nothing can be too strong.
    if model.config.objective == "electra" and model.generator is not None:
        trainer.add_callback(DiscriminatorHealth(len(tokenizer)))
    return trainer
