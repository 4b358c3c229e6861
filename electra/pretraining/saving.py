"""`transformers.Trainer` whose checkpoints are whole or not there (manifest.py). The writing itself is Trainer's."""

import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import Trainer
from transformers.trainer import TRAINING_ARGS_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from electra.errors import UserError
from electra.files import write_json
from electra.pretraining.manifest import (
    ORIGIN_NAME,
    UNFINISHED,
    checkpoints_of,
    damage,
    naming_failed_writes,
    put_in_place,
    seal,
    step_of,
)
from electra.pretraining.optimizer_options import OptimizerOptions
from electra.pretraining.options import CONFIG_NAME
from electra.pretraining.origin import read_state
from electra.pretraining.processes import naming_lost_processes
from electra.pretraining.stopping import LeaveSignalsToParent

logger = logging.getLogger(__name__)

_WRONG_CONTENT = (RuntimeError, ValueError, TypeError, LookupError, AttributeError, EOFError)
"""What reading a file of something else ends in."""


class WholeCheckpointTrainer(Trainer):
    """Saves into `unfinished/checkpoint-N`, then renames; refuses to save what is not finite.

    Args:
        origin: what the run is trained on, written into each checkpoint; see origin.py.
        kwargs: those of `transformers.Trainer`. `save_total_limit` must be None: `KeptCheckpoints` deletes.
    """

    def __init__(self, *, origin: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.origin = origin
        self._is_saving = False
        self._had_options = False

    @property
    def run_folder(self) -> Path:
        return Path(str(self.args.output_dir))

    def _get_output_dir(self, trial: Any) -> str:
        """Trainer's folder for checkpoints: while it saves, the one for what is unfinished."""
        return str(self.run_folder / UNFINISHED if self._is_saving else self.run_folder)

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        """Save the full state of this step.

        Raises:
            UserError: a file could not be written, or weights are not finite.
        """
        run = self.run_folder
        target = run / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
        unfinished = run / UNFINISHED / target.name
        if not self._is_finite():
            raise UserError(
                f"the weights or the optimizer's averages are not finite at step {self.state.global_step}, nothing is "
                f"saved; {self.last_whole(run)}; go on from it with a lower --learning_rate"
            )
        if self.args.should_save:
            self._check_folder(run)
            shutil.rmtree(unfinished, ignore_errors=True)
        self.accelerator.wait_for_everyone()
        try:
            with naming_failed_writes(unfinished, lambda: self.last_whole(run)):
                self._write(model, trial, run, unfinished)
                self.accelerator.wait_for_everyone()
                if self.args.should_save:
                    seal(unfinished)
                    put_in_place(unfinished, target)
        except UserError:
            shutil.rmtree(run / UNFINISHED, ignore_errors=True)  # room for what else is to be written
            raise
        if self.args.should_save:
            shutil.rmtree(run / UNFINISHED, ignore_errors=True)
        self.accelerator.wait_for_everyone()
        if self.args.push_to_hub:
            self._push_from_checkpoint(str(target))

    def train(self, *args: Any, **kwargs: Any) -> Any:
        self._had_options = (self.run_folder / CONFIG_NAME).is_file()
        step, last_whole = lambda: self.state.global_step, lambda: self.last_whole(self.run_folder)
        with naming_lost_processes(self.args.world_size, step, last_whole):
            return super().train(*args, **kwargs)

    def _check_folder(self, run: Path) -> None:
        """Refuse to save where the run's folder was deleted or its mount has gone: it would be made anew."""
        if self._had_options and not (run / CONFIG_NAME).is_file():
            raise UserError(
                f"{run} is not the folder in which the run began: it was deleted, or its disk is gone; step "
                f"{self.state.global_step} is not saved; {self.last_whole(run)}"
            )

    def _write(self, model: nn.Module, trial: Any, run: Path, unfinished: Path) -> None:
        self._is_saving = True
        try:
            super()._save_checkpoint(model, trial)
        finally:
            self._is_saving = False
        best = run / f"{PREFIX_CHECKPOINT_DIR}-{self.state.best_global_step}"
        if self.state.best_global_step and (best.exists() or best.name == unfinished.name):
            self.state.best_model_checkpoint = str(best)  # Trainer looked for it among the unfinished
        if self.args.should_save:
            self.state.save_to_json(str(unfinished / "trainer_state.json"))
            # The options, pickled, a token of the Hub among them: nothing reads it, and config.yaml has them in words.
            (unfinished / TRAINING_ARGS_NAME).unlink(missing_ok=True)
            write_json(self.origin, unfinished / ORIGIN_NAME)
            if not (unfinished / "config.json").is_file():  # where weights are sharded, Trainer writes nothing else
                self.model.config.save_pretrained(unfinished)
                self.processing_class.save_pretrained(unfinished)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        with _naming_unreadable(resume_from_checkpoint, "weights"):
            super()._load_from_checkpoint(resume_from_checkpoint, model)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is None or self.is_deepspeed_enabled:  # which loads them itself, before
            super()._load_optimizer_and_scheduler(checkpoint)
            return
        options = OptimizerOptions(self.optimizer, self.lr_scheduler)
        with _naming_unreadable(checkpoint, "optimizer or schedule"):
            super()._load_optimizer_and_scheduler(checkpoint)
            changes = options.put_back(self.optimizer, self.lr_scheduler)
        if changes and self.is_world_process_zero():
            step = read_state(Path(checkpoint)).global_step
            logger.warning("%s from step %d on", ", ".join(changes), step)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        with _naming_unreadable(checkpoint, "random state"):
            super()._load_rng_state(checkpoint)

    def _get_dataloader(self, *args: Any, **kwargs: Any) -> DataLoader:
        loader = super()._get_dataloader(*args, **kwargs)
        inner = getattr(loader, "base_dataloader", loader)  # accelerate wraps it
        inner.worker_init_fn = LeaveSignalsToParent(inner.worker_init_fn)
        return loader

    def _push_from_checkpoint(self, checkpoint_folder: str) -> None:
        if not self._is_saving:  # else it is renamed while it is sent
            super()._push_from_checkpoint(checkpoint_folder)

    def _is_finite(self) -> bool:
        tensors = [*self.model.parameters(), *_tensors_of(self.optimizer)]
        verdicts = [torch.isfinite(t).all() for t in tensors if t.is_floating_point()]
        return all(bool(verdict) for verdict in verdicts)

    def last_whole(self, run: Path, until: int | None = None) -> str:
        """The newest whole checkpoint of a run, of those up to a step if one is given, as the end of a sentence."""
        if not run.is_dir():
            return "no checkpoint is left"
        older = (path for path in checkpoints_of(run) if until is None or step_of(path) <= until)
        whole = next((path for path in older if damage(path) is None), None)
        return f"the last good checkpoint is {whole}" if whole is not None else "no checkpoint was saved before"


@contextmanager
def _naming_unreadable(checkpoint: str | None, what: str) -> Iterator[None]:
    """Trainer reads with `weights_only`: a pickle that would run code is an error, here of one line, and runs none."""
    try:
        yield
    except (UserError, torch.OutOfMemoryError):
        raise
    except (UnpicklingError, SafetensorError, OSError, *_WRONG_CONTENT) as error:
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise UserError(
            f"{checkpoint}: its {what} cannot be loaded ({reason}); it is not of this run, or not of this program: "
            "name another checkpoint"
        ) from error


def _tensors_of(optimizer: torch.optim.Optimizer | None) -> list[Tensor]:
    states = getattr(optimizer, "state", {}).values()
    return [value for state in states for value in state.values() if isinstance(value, Tensor)]
