"""When a run saves its state and how: complete checkpoints, and which of them are kept."""

import logging
import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch.optim.lr_scheduler import LambdaLR, LRScheduler
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer import TRAINING_ARGS_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from electra.base.checkpoints import (
    MAKE_ROOM,
    PROVENANCE_NAME,
    UNFINISHED,
    checkpoints_of,
    commit,
    discard,
    translate_write_errors,
    write_manifest,
)
from electra.base.files import CARD, write_json
from electra.pretraining.run_folder import RunProvenance

logger = logging.getLogger(__name__)


# ---- writing and reading checkpoints


KEPT_NAME = "kept"
"""File in a checkpoint of --checkpoint_fractions or --checkpoint_words, which a run with more steps keeps.

For --checkpoint_words it holds BabyLM's name of the checkpoint, such as chck_10M; else it is empty.
"""
WORD_MILESTONES = (*range(1, 11), *range(20, 101, 10))
"""Millions of words after which --checkpoint_words saves: the checkpoints that BabyLM asks for."""


WHERE_NETWORKS_ARE = """# A pre-training run of ELECTRA

The networks for use are in `discriminator/` and `generator/` of the run's folder, once the run has ended:

```python
from transformers import AutoModel

network = AutoModel.from_pretrained("RUN/discriminator")
```

A folder `checkpoint-N/` of the run has both networks in one, with the state of the training. `AutoModel` opens it
after `from electra import ElectraForJointPretraining`.
"""
"""The README.md of checkpoints and runs, in which `AutoModel` finds no model that transformers knows."""


class AtomicCheckpoints(TrainerCallback):
    """A callback that makes Trainer's checkpoints complete or absent.

    Trainer writes into `unfinished/` of the run's folder. While training goes on, a thread syncs the files to the
    disk, writes their manifest and renames the folder; then it deletes older checkpoints. A resumed run keeps its own
    options where Trainer has read others from a checkpoint.

    Args:
        trainer: an `ElectraTrainer`.
        provenance: text and options of the run, which are written into each checkpoint.
    """

    def __init__(self, trainer: Any, provenance: RunProvenance) -> None:
        self.trainer = trainer
        self.provenance = provenance
        self.run_folder = trainer.run_folder
        self._thread = ThreadPoolExecutor(1)
        self._completed: Future[None] | None = None

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: object, **kwargs: object) -> None:
        state.compute_steps(args, state.max_steps)  # log, evaluate and save as the options say, not the checkpoint
        if self.trainer.start is not None and state.global_step == 0:
            self.trainer.take_optimizer(self.trainer.start)

    # ---- writing

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Make the checkpoint that Trainer writes in the block complete, or remove it if the block fails."""
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
            write_manifest(unfinished, CARD)
            commit(unfinished, target)
            prune(self.run_folder, self.trainer.args.save_total_limit)
        finally:
            shutil.rmtree(unfinished.parent, ignore_errors=True)

    def _translated_errors(self) -> AbstractContextManager[None]:
        return translate_write_errors(self.run_folder / UNFINISHED, MAKE_ROOM)

    def _complete(self, unfinished: Path) -> None:
        """Write the files that Trainer does not write, and delete its pickled options, which have the Hub's token."""
        trainer = self.trainer
        (unfinished / TRAINING_ARGS_NAME).unlink(missing_ok=True)
        (unfinished / CARD).write_text(WHERE_NETWORKS_ARE)
        step = trainer.state.global_step
        plan = trainer.plan
        if step in plan.checkpoint_steps:
            words = word_steps(trainer.args.checkpoint_words, plan.batch_size / plan.segments_per_epoch, plan.steps)
            (unfinished / KEPT_NAME).write_text(f"chck_{words[step]}M\n" if step in words else "")
        write_json(asdict(self.provenance), unfinished / PROVENANCE_NAME)
        if not (unfinished / "config.json").is_file():  # Trainer wrote sharded weights and nothing else
            trainer.model.config.save_pretrained(unfinished)
            trainer.processing_class.save_pretrained(unfinished)


def prune(run: Path, limit: int | None) -> None:
    """Delete the checkpoints of a run, except those with a file `KEPT_NAME` and the newest `limit` of the others.

    With a limit of None or 0, none is deleted.
    """
    deletable = [checkpoint for checkpoint in checkpoints_of(run) if not (checkpoint / KEPT_NAME).is_file()]
    for checkpoint in deletable[limit:] if limit else []:
        discard(checkpoint)


@contextmanager
def keeping_options(optimizer: torch.optim.Optimizer, schedule: LRScheduler | None) -> Iterator[None]:
    """Restore learning rate, decay and betas of the options after the block, which loads those of a checkpoint.

    Loading an optimizer's state replaces its parameter groups, and loading a schedule's state replaces its base rates.

    Args:
        schedule: the schedule that the block loads; None if it loads none, so that the learning rate is the caller's.
    """

    def is_kept(name: str, value: object) -> bool:
        # Truth values choose a kernel, to which the loaded state belongs.
        return name not in ("params", "lr") and value is not None and not isinstance(value, bool)

    options = [
        {name: value for name, value in group.items() if is_kept(name, value)} for group in optimizer.param_groups
    ]
    base_rates = list(getattr(schedule, "base_lrs", []))
    yield
    for group, group_options in zip(optimizer.param_groups, options, strict=True):
        group.update(group_options)
    if isinstance(schedule, LambdaLR):
        schedule.base_lrs = base_rates
        factors = zip(base_rates, schedule.lr_lambdas, strict=True)
        rates = [base * factor(schedule.last_epoch) for base, factor in factors]  # as torch does
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        schedule._last_lr = rates


class NoSchedule:
    """A stand-in for a schedule, which Trainer would otherwise read from a checkpoint."""

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Ignore the state of a checkpoint."""


# ---- at which steps checkpoints are saved


def fraction_steps(fractions: Sequence[float], max_steps: int) -> list[int]:
    """Return the steps after which fractions, in (0, 1], of a run are done: rounded, ascending, each once."""
    return sorted({max(1, round(fraction * max_steps)) for fraction in fractions})


def word_steps(words: int | None, epochs_per_step: float, max_steps: int) -> dict[int, int]:
    """Return the steps at which a run first reaches one of `WORD_MILESTONES`: step -> milestone, in millions of words.

    Of several milestones that the run reaches at one step, the step has the largest.

    Args:
        words: number of words in an epoch; None for no steps.
        epochs_per_step: share of an epoch that a step sees.
    """
    if words is None:
        return {}
    millions_per_step = words * epochs_per_step / 1e6
    steps = {math.ceil(millions / millions_per_step - 1e-9): millions for millions in WORD_MILESTONES}
    return {step: millions for step, millions in steps.items() if step <= max_steps}


@dataclass(eq=False)
class SavesAt(TrainerCallback):
    """A callback that saves checkpoints after the optimizer steps in `steps`."""

    steps: Sequence[int]

    def on_step_end(self, args: object, state: TrainerState, control: TrainerControl, **kwargs: object) -> None:
        if state.global_step in self.steps:
            control.should_save = True
