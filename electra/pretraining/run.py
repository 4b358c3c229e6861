"""A pre-training run from its options to the exported networks. All side effects are here, in their order."""

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace

from accelerate.utils import DynamoBackend, set_seed
from transformers import TrainerCallback

from electra.data.segments import SegmentCollator, TrainingSegments
from electra.io.console import RunLog, without_secrets
from electra.io.errors import UserError
from electra.io.hub import push_run
from electra.model.joint import ElectraForJointPretraining
from electra.pretraining.callbacks.checkpoints import SavesAt, StopRequests
from electra.pretraining.callbacks.health import DiscriminatorHealth
from electra.pretraining.callbacks.progress import ProgressBar, ReadableLog
from electra.pretraining.compilation import compile_model
from electra.pretraining.configuration import Configuration
from electra.pretraining.data import PretrainingData, load_data
from electra.pretraining.finish import finish_run
from electra.pretraining.model import build_model, with_given_parts
from electra.pretraining.options import resolve
from electra.pretraining.plan import Plan, announce_plan, make_plan
from electra.pretraining.run_folder import Origin, Run, check_resumed, open_run, origin_of, save_options
from electra.pretraining.threads import set_threads
from electra.pretraining.trainer import ElectraTrainer
from electra.pretraining.trial import Clock, announce_trial, fit_to_budget, trial_arguments
from electra.runtime.cpu import tune_networks, tune_process
from electra.runtime.gpu import tune_for_gpu
from electra.runtime.tracking import RecordSettings, check_trackers


def pretrain(args: Configuration, log: RunLog, started: float) -> None:
    """Pre-train as `args` ask; `started` is when the command began, in seconds."""
    check_trackers(args.training.report_to)
    run = open_run(args)
    if run.is_finished:
        return

    asked = args
    data = load_data(asked, run.checkpoint)
    args, model = prepare(asked, run, data)
    threads = set_threads(args, run, model, data)
    asked, args = (with_threads(one, threads) for one in (asked, args))
    if asked.training.budget:
        plan = make_plan(args, model, data)
        asked = fit_to_budget(asked, time_steps(args, model, data, plan), plan)
        args, model = prepare(asked, run, data)
    origin = check_resumed(run, origin_of(args, data.text))
    plan = make_plan(args, model, data, origin.changes)
    announce_plan(args, plan)
    if args.training.plan:
        announce_trial(time_steps(args, model, data, plan), args.training, plan)
        return

    if args.training.process_index == 0:
        save_options(args.record, run, data.tokenizer)
        log.write_to(run.folder)

    stop = StopRequests(args.training.max_hours, started)
    trainer = make_trainer(args, model, data, plan, origin, [*make_callbacks(args, model, plan), stop])
    set_seed(args.training.seed, device_specific=True)  # all have the same weights; each draws its own dropout
    with stop.listening():
        trainer.train(resume_from_checkpoint=run.checkpoint)
    if stop.exit_code:
        sys.exit(stop.exit_code)

    finish_run(trainer, args, data)
    if args.training.push_to_hub and trainer.is_world_process_zero():
        training = args.training
        name = training.hub_model_id or run.folder.name
        push_run(run.folder, name, token=training.hub_token, private=training.hub_private_repo)


def prepare(asked: Configuration, run: Run, data: PretrainingData) -> tuple[Configuration, ElectraForJointPretraining]:
    """Return the configuration with steps and sizes for this text, and the model."""
    args = resolve(asked, run, len(data.policy), has_held_out=data.evaluation is not None)
    model = build_model(args, data.tokenizer, run.checkpoint)
    return with_given_parts(args, model, data.tokenizer), model


def with_threads(args: Configuration, threads: int | None) -> Configuration:
    """Return the configuration with the number of threads that the run uses."""
    return replace(args, training=args.training.with_values(threads=threads))


def time_steps(args: Configuration, model: ElectraForJointPretraining, data: PretrainingData, plan: Plan) -> Clock:
    """Train the model for a few steps in a temporary folder, and measure their time."""
    clock = Clock()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        make_trainer(trial_arguments(args, folder), model, data, plan, None, [clock]).train()
    return clock


def make_callbacks(args: Configuration, model: ElectraForJointPretraining, plan: Plan) -> list[TrainerCallback]:
    """Make what watches and logs a run, and keeps its checkpoints."""
    training = args.training
    callbacks: list[TrainerCallback] = [
        RecordSettings({"options": without_secrets(args.record), "plan": asdict(plan)}),
        SavesAt(plan.checkpoint_steps),
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
    """Make the trainer of a run with resolved options; memory, modules and compilation suit the device."""
    training = args.training
    tokenizer = data.tokenizer
    tune_process(training.device)
    tune_networks(model)
    if training.device.type == "cuda":
        tune_for_gpu(model)
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
            objective=args.objective,
            origin=origin,
        )
    except (ValueError, ImportError) as error:
        raise UserError(f"Trainer cannot be set up with these options: {error}") from error
    if training.fsdp:  # accelerate compiles what it has sharded
        return trainer
    # accelerate would put the networks into another module.
    trainer.accelerator.state.dynamo_plugin.backend = DynamoBackend.NO
    if training.torch_compile:
        compile_model(trainer.model, training)
    return trainer
