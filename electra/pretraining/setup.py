"""From resolved options, model and data to the trainer of a run: callbacks, faster kernels, compilation."""

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from accelerate.utils import DynamoBackend, set_seed
from transformers import PrinterCallback, ProgressCallback, TrainerCallback

from electra.data.segments import SegmentCollator, TrainingSegments
from electra.io.console import without_secrets
from electra.io.errors import UserError
from electra.model.joint import ElectraForJointPretraining
from electra.pretraining.callbacks.checkpoints import KeptCheckpoints, StopRequests
from electra.pretraining.callbacks.health import DiscriminatorHealth
from electra.pretraining.callbacks.phases import PhaseOptions, TrainingPhases
from electra.pretraining.callbacks.progress import ProgressBar, ReadableLog
from electra.pretraining.data import PretrainingData
from electra.pretraining.options import Arguments, gate_of
from electra.pretraining.plan import Plan
from electra.pretraining.trainer import ElectraTrainer
from electra.runtime.cpu import tune_networks, tune_process
from electra.runtime.gpu import tune_for_gpu
from electra.runtime.tracking import RecordSettings


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
        gate=gate_of(args),
        generator_steps=config.generator_steps,
        init_from_generator=args.objective.init_from_generator,
    )
    callbacks: list[TrainerCallback] = [TrainingPhases(model, phases), stop or StopRequests()]
    callbacks.append(RecordSettings({"options": without_secrets(args.effective), "plan": plan.as_dict()}))
    callbacks += [KeptCheckpoints(plan.checkpoint_steps, training.save_total_limit), ReadableLog()]
    # The thresholds hold for ELECTRA's task and base rates. A uniform generator cannot be too strong.
    if config.objective == "electra" and model.generator is not None:
        callbacks.append(DiscriminatorHealth(config.discriminator.vocab_size))
    has_fixed_shapes = training.torch_compile or training.device.type == "cuda"
    special = tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id
    tune_process(training.device)
    tune_networks(model)
    if training.device.type == "cuda":
        tune_for_gpu(model)
    try:
        trainer = ElectraTrainer(
            model=model,
            args=training,
            data_collator=SegmentCollator(*special, args.segments.max_length if has_fixed_shapes else None),
            train_dataset=TrainingSegments(data.policy, num_samples=plan.steps * plan.batch_size, seed=training.seed),
            eval_dataset=data.evaluation,
            processing_class=tokenizer,
            callbacks=callbacks,
            plan=plan,
            phases=phases,
            origin=origin,
        )
        trainer.more_evaluations = data.more_evaluations
        if not training.fsdp:  # compiled below; accelerate would put the networks into another module
            trainer.accelerator.state.dynamo_plugin.backend = DynamoBackend.NO
        if training.torch_compile and not training.fsdp:
            backend = training.torch_compile_backend or "inductor"
            model.compile(backend=backend, mode=training.torch_compile_mode, dynamic=False)
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
    if sys.stderr.isatty() and not training.disable_tqdm:
        trainer.add_callback(ProgressBar())
    return trainer
