"""When a run saves its state and how: complete checkpoints, signals, limits of time, what is kept."""

import logging
import math
import multiprocessing
import multiprocessing.queues
import os
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.optim.lr_scheduler import LambdaLR, LRScheduler
from torch.utils.data import DataLoader
from transformers import TrainerCallback, TrainerControl, TrainerState
from transformers.trainer import TRAINING_ARGS_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from electra.base.checkpoints import (
    PROVENANCE_NAME,
    RESUME,
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
    disk, writes their manifest and renames the folder; then it deletes older checkpoints. When Trainer has read a
    checkpoint, the options of the command replace the checkpoint's.

    Args:
        trainer: an `ElectraTrainer`.
        provenance: text and options of the run (run_folder.py), which are written into each checkpoint.
    """

    def __init__(self, trainer: Any, provenance: RunProvenance | None) -> None:
        self.trainer = trainer
        self.provenance = provenance
        self.run_folder = trainer.run_folder
        self._thread = ThreadPoolExecutor(1)
        self._completed: Future[None] | None = None

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        state.compute_steps(args, state.max_steps)  # those of the options, not of the checkpoint
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
        return translate_write_errors(self.run_folder / UNFINISHED, RESUME)

    def _complete(self, unfinished: Path) -> None:
        """Write the files that Trainer does not, and delete Trainer's pickled options, which hold the Hub's token."""
        trainer = self.trainer
        (unfinished / TRAINING_ARGS_NAME).unlink(missing_ok=True)
        (unfinished / CARD).write_text(WHERE_NETWORKS_ARE)
        step = trainer.state.global_step
        plan = trainer.plan
        if step in plan.checkpoint_steps:
            words = word_steps(trainer.args.checkpoint_words, plan.batch_size / plan.segments_per_epoch, plan.steps)
            (unfinished / KEPT_NAME).write_text(f"chck_{words[step]}M\n" if step in words else "")
        write_json(asdict(self.provenance) if self.provenance else {}, unfinished / PROVENANCE_NAME)
        if not (unfinished / "config.json").is_file():  # Trainer wrote sharded weights and nothing else
            trainer.model.config.save_pretrained(unfinished)
            trainer.processing_class.save_pretrained(unfinished)


def prune(run: Path, limit: int | None) -> None:
    """Delete the checkpoints of a run, except those with a file `KEPT_NAME` and the newest `limit` of the others."""
    deletable = [checkpoint for checkpoint in checkpoints_of(run) if not (checkpoint / KEPT_NAME).is_file()]
    for checkpoint in deletable[limit:] if limit else []:
        discard(checkpoint)


@contextmanager
def keeping_options(optimizer: torch.optim.Optimizer, schedule: LRScheduler | None) -> Iterator[None]:
    """Restore learning rate, decay and betas of the options after the block, which loads those of a checkpoint.

    Loading an optimizer's state replaces its parameter groups, and loading a schedule's state replaces its base rates.
    """
    # Truth values choose a kernel, to which the loaded state belongs.
    options = [
        {n: v for n, v in group.items() if n not in ("params", "lr") and v is not None and not isinstance(v, bool)}
        for group in optimizer.param_groups
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
    """A stand-in for a schedule that must not be read from a checkpoint."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Ignore the state of a checkpoint."""


# ---- when a run saves its state and stops, and which checkpoints are deleted

#     SIGTERM, SIGUSR1, SIGINT    exit code 128 + the signal's number: 143, 138, 130; a second SIGTERM or
#                                 SIGINT stops at once
#     --max_hours                 exit code 85 (OUT_OF_TIME of step.py), which no shell and no signal uses
#
# A run that is stopped finishes the optimizer step, saves its full state and exits. A scheduler can tell these codes
# from success (0) and from a user's error (2), and start the same command again.


SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGUSR1") if hasattr(signal, name))
"""Signals that end a run, as far as this system has them; see above."""

ENDING = (signal.SIGTERM, signal.SIGINT)
"""Signals of which a second one ends the process at once."""
REPEAT = 1.0
"""Seconds after which a signal counts as a second one: `timeout`, and a scheduler with torchrun, send each signal
twice."""


def say(line: str) -> None:
    """Write a line to stderr past Python's buffers; nothing happens if that fails."""
    with suppress(OSError):
        os.write(2, f"{line}\n".encode())


class StopRequests:
    """The signals that ask a command to end its run, noted while it trains; `StopsWhenAsked` (step.py) obeys them."""

    def __init__(self) -> None:
        self.exit_code = 0
        """128 + the number of the last signal; 0 if none has arrived."""

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Note the signals that arrive while the block of a command runs; if the block fails, kill its workers.

        Python calls a handler between two of its own operations, so never while a step waits in C. Therefore a thread
        reads the numbers of the signals that the system has delivered.
        """
        reading, writing = socket.socketpair()
        writing.setblocking(False)
        before = {number: signal.signal(number, self._note) for number in SIGNALS}
        wakeup = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
        listener = threading.Thread(target=self._listen, args=(reading,), daemon=True)
        listener.start()
        try:
            yield
        except BaseException:
            kill_workers()
            raise
        finally:
            signal.set_wakeup_fd(wakeup)
            for number, handler in before.items():
                signal.signal(number, handler)
            writing.send(bytes(1))
            listener.join()
            reading.close()
            writing.close()

    @staticmethod
    def are_noted() -> bool:
        """Return True if signals that end a run are noted now, which only the command does."""
        return isinstance(getattr(signal.getsignal(signal.SIGTERM), "__self__", None), StopRequests)

    def _note(self, number: int, frame: Any) -> None:
        self.exit_code = 128 + number

    def _listen(self, reading: socket.socket) -> None:
        """Log each signal whose number arrives, and end the process at the second one; return when a 0 arrives."""
        first: dict[int, float] = {}
        while number := reading.recv(1)[0]:
            if number not in SIGNALS:  # such as SIGCHLD, for which torch has a handler
                continue
            now = time.monotonic()
            if number not in first:
                first[number] = now
                name = signal.Signals(number).name
                say(f"\n{name}: finishing this step and saving it; the same signal again stops at once")
            elif number in ENDING and now - first[number] >= REPEAT:
                say("stopped")
                for process in multiprocessing.active_children():
                    process.kill()
                os._exit(128 + number)


def adapt_loader(loader: DataLoader) -> DataLoader:
    """Return the loader with workers that leave signals to the run, and with the collator of a corrupted test set."""
    inner = getattr(loader, "base_dataloader", loader)  # accelerate wraps it
    # Trainer's function seeds random states, which no worker uses.
    inner.worker_init_fn = partial(set_up_worker, ignored=SIGNALS if StopRequests.are_noted() else ())
    inner.collate_fn = getattr(inner.dataset, "collate", inner.collate_fn)
    if inner.num_workers and sys.platform == "linux":
        inner.multiprocessing_context = "fork"  # Python 3.14 would import torch again in each worker of each loader
    return loader


def set_up_worker(worker: int, ignored: Sequence[int]) -> None:
    """Set up a data loader's worker, which ends with the run, or when it cannot send a batch.

    multiprocessing's threads repeat without end what fails, for example for lack of file descriptors, or leave a batch
    out, for which the run would wait for ever.

    Args:
        ignored: signals that the run notes, which are often sent to all processes.
    """
    signal.set_wakeup_fd(-1)
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)
    sys.excepthook = lambda *error: os._exit(1)
    queue: Any = multiprocessing.queues.Queue
    queue._on_queue_feeder_error = staticmethod(lambda *error: os._exit(1))
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()


def _end_with(parent: int) -> None:
    """End this process soon after its parent."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def kill_workers() -> None:
    """Kill the workers of a command's data loaders, which ignore SIGTERM.

    An error keeps their loader alive, and multiprocessing would wait for them for ever when the command ends. In a
    program workers do not ignore SIGTERM, and other processes are not ours.
    """
    if hasattr(signal, "SIGCHLD"):
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # torch's handler would report the ends of workers as errors
    for process in multiprocessing.active_children():
        if process.daemon:
            process.kill()


def fraction_steps(fractions: Sequence[float], max_steps: int) -> list[int]:
    """Return the steps at which fractions, in (0, 1], of a run of `max_steps` are done: rounded, ascending, unique."""
    return sorted({max(1, round(fraction * max_steps)) for fraction in fractions})


def word_steps(words: int | None, epochs_per_step: float, max_steps: int) -> dict[int, int]:
    """Return step -> the largest of `WORD_MILESTONES`, in millions of words, that the run first reaches at this step.

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

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if state.global_step in self.steps:
            control.should_save = True
