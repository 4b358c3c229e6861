"""Checkpoints of a run: written completely or not at all, and read with the options that the user gives now."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from transformers import TrainerCallback, TrainerControl, TrainerState
from transformers.trainer import TRAINING_ARGS_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from electra.io.checkpoints import (
    ORIGIN_NAME,
    UNFINISHED,
    commit,
    describe_latest_valid,
    translate_write_errors,
    write_manifest,
)
from electra.io.errors import UserError
from electra.io.files import write_json
from electra.model.pretrained import silent_transformers
from electra.pretraining.options import CONFIG_NAME
from electra.pretraining.resume import BEST_METRIC_OPTIONS, Origin, translate_loading_errors


class AtomicCheckpoints(TrainerCallback):
    """Surrounds what Trainer does with checkpoints.

    Trainer writes into `unfinished/` of the run's folder; there a checkpoint gets its manifest, and is renamed when it
    is complete. When Trainer has read one, the options of the command replace those that it holds.

    Args:
        trainer: an `ElectraTrainer`.
        origin: see resume.py; written into each checkpoint.
    """

    def __init__(self, trainer: Any, origin: Origin | None) -> None:
        self.trainer = trainer
        self.origin = origin
        self.run_folder = Path(str(trainer.args.output_dir))
        self._had_options = False
        self._is_loading = False
        self._until_begun = ExitStack()

    # ---- reading

    @contextmanager
    def loading(self, checkpoint: str | None) -> Iterator[None]:
        """Until the first step, turn an error into one line about the checkpoint, if there is one."""
        self._had_options = (self.run_folder / CONFIG_NAME).is_file()
        self._is_loading = checkpoint is not None
        # Trainer warns of steps that differ from the options, which `on_train_begin` corrects.
        self._until_begun.enter_context(silent_transformers())
        try:
            with self._until_begun:
                yield
        except Exception as error:
            if not self._is_loading:
                raise
            with translate_loading_errors(checkpoint, "state"):
                raise error

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self._until_begun.close()
        state.compute_steps(args, state.max_steps)
        changes = self.origin.changes if self.origin else []
        changed = {change["option"] for change in changes if change["step"] == state.global_step}
        if BEST_METRIC_OPTIONS & changed:
            state.best_metric = state.best_global_step = state.best_model_checkpoint = None
        self._correct_best_checkpoint(state)

    def on_step_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self._is_loading = False  # the random state was read last

    def _correct_best_checkpoint(self, state: TrainerState, *being_saved: Path) -> None:
        """Point to the best checkpoint in the run's folder as it is now; Trainer looked in `unfinished/`."""
        best = self.run_folder / f"{PREFIX_CHECKPOINT_DIR}-{state.best_global_step}"
        if state.best_global_step and (best.is_dir() or best in being_saved):
            state.best_model_checkpoint = str(best)

    # ---- writing

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Let Trainer write the state of this step in the block: complete, or not at all."""
        trainer, run = self.trainer, self.run_folder
        state, is_writer = trainer.state, trainer.args.should_save
        target = run / f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}"
        unfinished = run / UNFINISHED / target.name
        self._refuse_what_is_not_finite(state.global_step)
        if is_writer:
            self._refuse_another_folder(state.global_step)
            shutil.rmtree(unfinished, ignore_errors=True)
        trainer.accelerator.wait_for_everyone()
        try:
            with translate_write_errors(unfinished, lambda: describe_latest_valid(run)):
                yield
                self._correct_best_checkpoint(state, target)
                if is_writer:
                    self._complete(unfinished)
                trainer.accelerator.wait_for_everyone()
                if is_writer:
                    write_manifest(unfinished)
                    commit(unfinished, target)
        finally:
            if is_writer:
                shutil.rmtree(run / UNFINISHED, ignore_errors=True)
        trainer.accelerator.wait_for_everyone()

    def _complete(self, unfinished: Path) -> None:
        """Write what Trainer does not, and delete its pickled options, which hold the Hub's token."""
        trainer = self.trainer
        trainer.state.save_to_json(str(unfinished / "trainer_state.json"))
        (unfinished / TRAINING_ARGS_NAME).unlink(missing_ok=True)
        write_json(self.origin.as_dict() if self.origin else {}, unfinished / ORIGIN_NAME)
        if not (unfinished / "config.json").is_file():  # Trainer wrote sharded weights and nothing else
            trainer.model.config.save_pretrained(unfinished)
            trainer.processing_class.save_pretrained(unfinished)

    def _refuse_what_is_not_finite(self, step: int) -> None:
        entries = getattr(self.trainer.optimizer, "state", {}).values()
        moments = [value for entry in entries for value in entry.values() if isinstance(value, Tensor)]
        checks = []
        for tensor in (*self.trainer.model.parameters(), *moments):
            if tensor.is_floating_point():
                # torch keeps the step counts of optimizers that are not fused on the host.
                check = torch.isfinite(tensor).all().to(self.trainer.args.device)
                checks.append(check.full_tensor() if isinstance(check, DTensor) else check)  # FSDP
        if not torch.stack(checks).all():
            raise UserError(
                f"the weights or the optimizer's moments are not finite at step {step}, so it is not saved; "
                f"{describe_latest_valid(self.run_folder)}; resume from it with a lower --learning_rate"
            )

    def _refuse_another_folder(self, step: int) -> None:
        if self._had_options and not (self.run_folder / CONFIG_NAME).is_file():  # Trainer would make it anew
            raise UserError(
                f"{self.run_folder} is not the folder in which the run started: it was deleted, or its disk is gone; "
                f"step {step} is not saved; {describe_latest_valid(self.run_folder)}"
            )
