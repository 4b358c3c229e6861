"""Checkpoints of a run: written completely or not at all, and read with the options that the user gives now."""

import shutil
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch.optim.lr_scheduler import LambdaLR, LRScheduler
from transformers import TrainerCallback, TrainerControl, TrainerState
from transformers.trainer import TRAINING_ARGS_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from electra.io.checkpoints import (
    ORIGIN_NAME,
    UNFINISHED,
    checkpoints_of,
    commit,
    describe_latest_valid,
    discard,
    translate_write_errors,
    write_manifest,
)
from electra.io.files import write_json
from electra.pretraining.run_folder import RunProvenance

KEPT_NAME = "kept"
"""An empty file in a checkpoint of --checkpoint_fractions; a run with more steps has other fractions, but keeps it."""


class AtomicCheckpoints(TrainerCallback):
    """Surrounds what Trainer does with checkpoints.

    Trainer writes into `unfinished/` of the run's folder. While training goes on, a thread syncs the files to the
    disk, writes their manifest and renames the folder; then it deletes older checkpoints. When Trainer has read a
    checkpoint, the options of the command replace those that it holds.

    Args:
        trainer: an `ElectraTrainer`.
        origin: see run_folder.py; written into each checkpoint.
    """

    def __init__(self, trainer: Any, origin: RunProvenance | None) -> None:
        self.trainer = trainer
        self.origin = origin
        self.run_folder = trainer.run_folder
        self._thread = ThreadPoolExecutor(1)
        self._completed: Future[None] | None = None

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        state.compute_steps(args, state.max_steps)  # those of the options, not of the checkpoint

    # ---- writing

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Let Trainer write the state of this step in the block: complete, or not at all."""
        trainer = self.trainer
        is_writer = trainer.args.should_save
        target = self.run_folder / f"{PREFIX_CHECKPOINT_DIR}-{trainer.state.global_step}"
        unfinished = self.run_folder / UNFINISHED / target.name
        self.wait()
        trainer.accelerator.wait_for_everyone()
        try:
            with self._translated_errors():
                yield
                if is_writer:
                    self._complete(unfinished)
        except BaseException:
            if is_writer:
                shutil.rmtree(unfinished.parent, ignore_errors=True)
            raise
        trainer.accelerator.wait_for_everyone()
        if is_writer:
            self._completed = self._thread.submit(self._commit, unfinished, target)

    def wait(self) -> None:
        """Wait until the last checkpoint is complete."""
        completed = self._completed
        self._completed = None
        if completed is not None:
            with self._translated_errors():
                completed.result()

    def _commit(self, unfinished: Path, target: Path) -> None:
        try:
            write_manifest(unfinished)
            commit(unfinished, target)
            prune(self.run_folder, self.trainer.args.save_total_limit)
        finally:
            shutil.rmtree(unfinished.parent, ignore_errors=True)

    def _translated_errors(self) -> AbstractContextManager[None]:
        return translate_write_errors(self.run_folder / UNFINISHED, lambda: describe_latest_valid(self.run_folder))

    def _complete(self, unfinished: Path) -> None:
        """Write what Trainer does not, and delete its pickled options, which hold the Hub's token."""
        trainer = self.trainer
        (unfinished / TRAINING_ARGS_NAME).unlink(missing_ok=True)
        if trainer.state.global_step in trainer.plan.checkpoint_steps:
            (unfinished / KEPT_NAME).touch()
        write_json(asdict(self.origin) if self.origin else {}, unfinished / ORIGIN_NAME)
        if not (unfinished / "config.json").is_file():  # Trainer wrote sharded weights and nothing else
            trainer.model.config.save_pretrained(unfinished)
            trainer.processing_class.save_pretrained(unfinished)


def prune(run: Path, limit: int | None) -> None:
    """Delete all checkpoints of a run but those that are kept and the newest `limit` of the others."""
    others = [checkpoint for checkpoint in checkpoints_of(run) if not (checkpoint / KEPT_NAME).is_file()]
    for checkpoint in others[limit:] if limit else []:
        discard(checkpoint)


@contextmanager
def keeping_options(optimizer: torch.optim.Optimizer, schedule: LRScheduler | None) -> Iterator[None]:
    """Restore the options' learning rate, decay and betas after the block has loaded a checkpoint's over them.

    Loading an optimizer replaces its parameter groups, loading a schedule its base rates.
    """
    # Truth values choose a kernel, to which the loaded state belongs.
    options = [
        {n: v for n, v in group.items() if n not in ("params", "lr") and v is not None and not isinstance(v, bool)}
        for group in optimizer.param_groups
    ]
    base_rates = list(getattr(schedule, "base_lrs", []))
    yield
    for group, given in zip(optimizer.param_groups, options, strict=True):
        group.update(given)
    if isinstance(schedule, LambdaLR):
        schedule.base_lrs = base_rates
        factors = zip(base_rates, schedule.lr_lambdas, strict=True)
        rates = [base * factor(schedule.last_epoch) for base, factor in factors]  # as torch does
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        schedule._last_lr = rates
