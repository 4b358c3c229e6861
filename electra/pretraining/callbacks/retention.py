"""Checkpoints at fractions of the run, which `save_total_limit` never deletes, and the limit for the others.

The paper's table of small models evaluates checkpoints at 6.25, 12.5, 25 and 50 % of the steps. Trainer's own limit
spares only the best checkpoint, and may keep a damaged one because it is the newest. Which steps are spared follows
from the options, so a resumed run spares the same ones, or those of its new length.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, sort_checkpoints

from electra.checkpoint import discard

logger = logging.getLogger(__name__)


def fraction_steps(fractions: Sequence[float], max_steps: int) -> list[int]:
    """The optimizer steps of fractions, in (0, 1], of a run of `max_steps`: rounded, at least 1, ascending, unique."""
    return sorted({max(1, round(fraction * max_steps)) for fraction in fractions})


class KeptCheckpoints(TrainerCallback):
    """Saves after certain steps, and deletes other checkpoints in place of Trainer, whose own limit must be None.

    Args:
        steps: optimizer steps after which to save; their checkpoints are never deleted.
        save_total_limit: how many of the other checkpoints are kept, the newest; all of them if None or 0. The best
            one is kept in addition where the best is loaded at the end.
    """

    def __init__(self, steps: Sequence[int], save_total_limit: int | None) -> None:
        super().__init__()
        self.steps = frozenset(steps)
        self.save_total_limit = save_total_limit

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if state.global_step in self.steps:
            control.should_save = True

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if not args.should_save or not self.save_total_limit:
            return
        spared = {f"{PREFIX_CHECKPOINT_DIR}-{step}" for step in (*self.steps, state.global_step)}
        if state.best_model_checkpoint is not None:
            spared.add(Path(state.best_model_checkpoint).name)
        # By time, like Trainer: a run resumed from an older checkpoint has later steps that are older.
        found = sort_checkpoints(str(args.output_dir), use_mtime=True)
        others = [folder for folder in map(Path, found) if folder.name not in spared]
        room = self.save_total_limit - (state.global_step not in self.steps)
        for folder in others[: max(0, len(others) - room)]:
            logger.debug("deleting %s: --save_total_limit %d", folder, self.save_total_limit)
            discard(folder)
