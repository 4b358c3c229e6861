"""What a run needs before its first step: kernels for the device, callbacks, the trainer, compilation, the seed.

run.py calls these functions in this order.
"""

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from accelerate.utils import DynamoBackend, set_seed
from transformers import TrainerCallback

from electra.data.segments import SegmentCollator, TrainingSegments
from electra.io.console import without_secrets
from electra.io.errors import UserError
from electra.model.joint import ElectraForJointPretraining
from electra.pretraining.callbacks.checkpoints import KeptCheckpoints
from electra.pretraining.callbacks.health import DiscriminatorHealth
from electra.pretraining.callbacks.phases import PhaseOptions
from electra.pretraining.callbacks.progress import ProgressBar, ReadableLog
from electra.pretraining.configuration import Configuration, PretrainingArguments
from electra.pretraining.data import PretrainingData
from electra.pretraining.plan import Plan
from electra.pretraining.resume import Origin
from electra.pretraining.trainer import ElectraTrainer
from electra.runtime.cpu import tune_networks, tune_process
from electra.runtime.gpu import tune_for_gpu
from electra.runtime.tracking import RecordSettings


def tune_for_device(model: ElectraForJointPretraining, training: PretrainingArguments) -> None:
    """Set up memory and matrix products of this process, and replace modules of the networks by faster ones."""
    tune_process(training.device)
    tune_networks(model)
    if training.device.type == "cuda":
        tune_for_gpu(model)


def make_callbacks(
    args: Configuration, record: Mapping[str, Any], model: ElectraForJointPretraining, plan: Plan
) -> list[TrainerCallback]:
    """What watches and logs a run, and keeps its checkpoints."""
    training = args.training
    settings = {"options": without_secrets(record), "plan": plan.as_dict()}
    callbacks: list[TrainerCallback] = [
        RecordSettings(settings),
        KeptCheckpoints(plan.checkpoint_steps, training.save_total_limit),
        ReadableLog(),
    ]
    # The thresholds hold for ELECTRA's task and base rates. A uniform generator cannot be too strong.
    if model.config.objective == "electra" and model.generator is not None:
        callbacks.append(DiscriminatorHealth(model.config.discriminator.vocab_size))
    if sys.stderr.isatty() and not training.disable_tqdm:
        callbacks.append(ProgressBar())
    return callbacks


def make_trainer(
    args: Configuration,
    model: ElectraForJointPretraining,
    data: PretrainingData,
    plan: Plan,
    origin: Origin | None,
    callbacks: Sequence[TrainerCallback],
) -> ElectraTrainer:
    """The trainer of a run with resolved options.

    Raises:
        UserError: Trainer, the optimizer or the schedule does not accept the options; no folder is left behind then.
    """
    training = args.training
    tokenizer = data.tokenizer
    phases = PhaseOptions(
        gate=args.gate,
        generator_steps=model.config.generator_steps,
        init_from_generator=args.objective.init_from_generator,
    )
    has_fixed_shapes = training.torch_compile or training.device.type == "cuda"
    collator = SegmentCollator(
        tokenizer.cls_token_id,
        tokenizer.sep_token_id,
        tokenizer.pad_token_id,
        args.segments.max_length if has_fixed_shapes else None,
    )
    try:
        trainer = ElectraTrainer(
            model=model,
            args=training,
            data_collator=collator,
            train_dataset=TrainingSegments(data.policy, num_samples=plan.steps * plan.batch_size, seed=training.seed),
            eval_dataset=data.evaluation,
            more_evaluations=data.more_evaluations,
            processing_class=tokenizer,
            callbacks=callbacks,
            plan=plan,
            phases=phases,
            origin=origin,
        )
        trainer.check_optimization(plan.steps)
    except (UserError, ValueError, ImportError, OSError) as error:
        with suppress(OSError):  # made by Trainer; kept unless it is empty
            Path(str(training.output_dir)).rmdir()
        if isinstance(error, UserError):
            raise
        raise UserError(f"Trainer cannot be set up with these options: {error}") from error
    return trainer


def compile_step(trainer: ElectraTrainer) -> None:
    """Compile the forward pass of the joint model, and with it the backward pass, if the options ask for it."""
    training = trainer.args
    if training.fsdp:  # accelerate compiles what it has sharded
        return
    # accelerate would put the networks into another module.
    trainer.accelerator.state.dynamo_plugin.backend = DynamoBackend.NO
    if training.torch_compile:
        backend = training.torch_compile_backend or "inductor"
        trainer.model.compile(backend=backend, mode=training.torch_compile_mode, dynamic=False)


def seed_dropout(training: PretrainingArguments) -> None:
    """Seed this process: all have the same weights by now, and each draws its own dropout."""
    set_seed(training.seed, device_specific=True)
