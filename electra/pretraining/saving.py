"""`transformers.Trainer` whose checkpoints are whole or not there (manifest.py). The writing itself is Trainer's."""

import logging
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import Trainer
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
)
from electra.pretraining.stopping import LeaveSignalsToParent

logger = logging.getLogger(__name__)


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
            write_json(self.origin, unfinished / ORIGIN_NAME)

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

    def last_whole(self, run: Path) -> str:
        """The newest whole checkpoint of a run, as the end of a sentence."""
        whole = next((path for path in checkpoints_of(run) if damage(path) is None), None)
        return f"the last good checkpoint is {whole}" if whole is not None else "no checkpoint was saved before"


def _tensors_of(optimizer: torch.optim.Optimizer | None) -> list[Tensor]:
    states = getattr(optimizer, "state", {}).values()
    return [value for state in states for value in state.values() if isinstance(value, Tensor)]
