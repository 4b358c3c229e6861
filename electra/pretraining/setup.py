"""From options and inputs to a trainer: the model, the plan, the trainer itself."""

import logging
import math
from pathlib import Path

from accelerate.utils import set_seed as set_process_seed
from transformers import PreTrainedTokenizerBase, PrinterCallback, ProgressCallback, TrainerCallback, set_seed
from transformers.trainer_utils import IntervalStrategy

from electra.console import check_trackers
from electra.data.collator import SegmentCollator
from electra.data.segments import TrainingSegments
from electra.errors import UserError
from electra.model.configuration import ElectraPretrainingConfig, discriminator_config, generator_config
from electra.model.modeling import ElectraForJointPretraining
from electra.objectives import OBJECTIVES
from electra.pretraining.checkpoints import FractionCheckpoints, fraction_steps
from electra.pretraining.estimate import estimate_lines
from electra.pretraining.health import DiscriminatorHealth
from electra.pretraining.inputs import Segments
from electra.pretraining.ledger import EnergyLog
from electra.pretraining.options import Arguments
from electra.pretraining.plan import Plan, make_plan
from electra.pretraining.progress import ReadableLog, ReadableProgress
from electra.pretraining.run_folder import Run, check_same_architecture, check_steps
from electra.pretraining.trainer import ElectraTrainer

logger = logging.getLogger(__name__)


def build_model(args: Arguments, tokenizer: PreTrainedTokenizerBase) -> ElectraForJointPretraining:
    """The joint model with fresh weights."""
    sizes, objective = args.model, args.objective
    masked, random, weight = objective.corruption_and_weight()
    discriminator = discriminator_config(
        vocab_size=len(tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        embedding_size=sizes.embedding_size,
        hidden_size=sizes.hidden_size,
        num_hidden_layers=sizes.num_hidden_layers,
        num_attention_heads=sizes.num_attention_heads,
        intermediate_size=sizes.intermediate_size,
        max_position_embeddings=sizes.max_position_embeddings,
        hidden_dropout_prob=sizes.hidden_dropout_prob,
        attention_probs_dropout_prob=sizes.attention_probs_dropout_prob,
        initializer_range=sizes.initializer_range,
    )
    generator, notes = generator_config(discriminator, sizes.generator_size, sizes.generator_layer_size)
    for note in notes if OBJECTIVES[objective.objective].has_generator else []:
        logger.info(note)
    set_seed(args.training.seed)
    return ElectraForJointPretraining(
        ElectraPretrainingConfig(
            generator,
            discriminator,
            objective=objective.objective,
            mask_token_id=tokenizer.mask_token_id,
            special_token_ids=sorted(tokenizer.all_special_ids),
            mlm_probability=objective.mlm_probability,
            mlm_replacement_probability=masked,
            mlm_random_probability=random,
            discriminator_weight=weight,
            sampling_temperature=objective.temperature,
            disallow_correct=objective.disallow_correct,
        )
    )


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
    for line in [*plan.lines(), *estimate_lines(args, model, plan)]:
        logger.info(line)
    logger.info("run folder     %s", run.folder)
    saves_between = any(step < training.max_steps for step in plan.checkpoint_steps)
    if training.save_strategy == "steps" and training.save_steps > training.max_steps and not saves_between:
        logger.warning(
            "save_steps=%g is more than max_steps=%d: the only checkpoint will be that of the last step. Steps are "
            "optimizer steps here, not samples.",
            training.save_steps,
            training.max_steps,
        )
    warmup_steps = training.get_warmup_steps(training.max_steps)
    if warmup_steps >= training.max_steps:
        logger.warning(
            "warmup_steps=%d is not less than max_steps=%d: the learning rate never reaches %g. Set --warmup_steps, "
            "0.1 for a tenth of the steps.",
            warmup_steps,
            training.max_steps,
            training.learning_rate,
        )
    return plan


def make_trainer(
    args: Arguments,
    run: Run,
    model: ElectraForJointPretraining,
    tokenizer: PreTrainedTokenizerBase,
    data: Segments,
    plan: Plan,
) -> ElectraTrainer:
    """The trainer, with readable progress in place of Trainer's dictionaries."""
    training = args.training
    if data.evaluation is None:
        training.eval_strategy = IntervalStrategy.NO
    training.eval_on_start = training.eval_strategy != IntervalStrategy.NO and run.checkpoint is None
    check_trackers(training.report_to)
    callbacks: list[TrainerCallback] = [EnergyLog()]
    if plan.checkpoint_steps:
        callbacks.append(FractionCheckpoints(plan.checkpoint_steps, training.save_total_limit))
        training.save_total_limit = None  # the callback deletes in Trainer's place
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
        )
    except (
        ValueError,
        ImportError,
        OSError,
        RuntimeError,
    ) as error:  # an option that does not fit this machine or the others
        raise UserError(f"Trainer cannot be set up with these options: {error}") from error
    # The weights are the same on every process; from here on each draws masks and samples of its own.
    set_process_seed(training.seed, device_specific=True)
    trainer.remove_callback(PrinterCallback if training.disable_tqdm else ProgressCallback)
    trainer.add_callback(ReadableLog if training.disable_tqdm else ReadableProgress)
    if model.config.objective == "electra":  # the others are asked something else, and have other base rates
        trainer.add_callback(DiscriminatorHealth(len(tokenizer)))
    return trainer
