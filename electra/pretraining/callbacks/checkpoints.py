"""When a run saves its state: at the end, when it is told to stop, at fractions of its steps; and what is deleted.

    SIGTERM, SIGUSR1, SIGINT    exit code 128 + the signal's number: 143, 138, 130; a second SIGINT stops at once
    --max_hours                 exit code 85 (OUT_OF_TIME), which no shell and no signal uses

A run that is stopped finishes the optimizer step, saves its full state and exits. A scheduler can tell these codes
from success (0) and from a user's error (2), and start the same command again.
"""

import logging
import math
import os
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from tqdm.auto import tqdm
from transformers import TrainerCallback, TrainerControl, TrainerState
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, SaveStrategy, sort_checkpoints

from electra.io.checkpoints import discard
from electra.runtime.gpu import HostCopy

logger = logging.getLogger(__name__)

OUT_OF_TIME = 85
SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGUSR1") if hasattr(signal, name))


class StopRequests(TrainerCallback):
    """Saves and ends training after the step in which a signal arrives, on all processes after the same step.

    `max_hours` are counted from `started`, the `time.monotonic()` at the start of the command; None for no limit.
    """

    def __init__(self, max_hours: float | None = None, started: float = 0.0) -> None:
        self.deadline = math.inf if max_hours is None else started + max_hours * 3600
        self.exit_code = 0
        """0 if training was not stopped."""
        self._asked = 0
        self._shared: HostCopy | None = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle the signals while the block runs; Python allows it in the main thread only."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._note) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _note(self, number: int, frame: Any) -> None:
        if number == signal.SIGINT and self._asked == 128 + signal.SIGINT:
            raise KeyboardInterrupt
        self._asked = 128 + number
        name = signal.Signals(number).name
        os.write(2, f"\n{name}: finishing this step and saving it; Ctrl-C twice stops at once\n".encode())

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self.exit_code = self._asked or (OUT_OF_TIME if time.monotonic() >= self.deadline else 0)
        if args.world_size > 1:  # a signal may reach only one process, or each at another step
            shared = torch.full((1,), self.exit_code, device=args.device)
            torch.distributed.all_reduce(shared, op=torch.distributed.ReduceOp.MAX)
            before, self._shared = self._shared, HostCopy(shared)
            known = before if shared.is_cuda else self._shared  # on a GPU this step is still under way
            self.exit_code = 0 if known is None else known.read()[0]
        if self.exit_code:
            control.should_save = control.should_training_stop = True
            if args.save_strategy == SaveStrategy.BEST:
                control.should_evaluate = False  # it alone would decide whether to save

    def on_train_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if not self.exit_code or not state.is_world_process_zero:
            return
        reason = "--max_hours" if self.exit_code == OUT_OF_TIME else signal.Signals(self.exit_code - 128).name
        folder = shlex.quote(str(Path(args.output_dir)))
        what = f"all is saved, resume with: python run_pretraining.py --resume_from_checkpoint {folder}"
        if args.save_only_model:
            what = "the weights are saved, but the run cannot be resumed without the optimizer (--save_only_model)"
        with tqdm.external_write_mode():
            logger.info("stopped by %s at step %d of %d; %s", reason, state.global_step, state.max_steps, what)


class IgnoreSignals:
    """Set-up of a data loader's worker: signals that stop the run, often sent to all processes, are for the run."""

    def __init__(self, then: Callable[[int], None] | None = None) -> None:
        self.then = then

    def __call__(self, worker: int) -> None:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        if self.then is not None:
            self.then(worker)


def fraction_steps(fractions: Sequence[float], max_steps: int) -> list[int]:
    """The optimizer steps of fractions, in (0, 1], of a run of `max_steps`: rounded, at least 1, ascending, unique."""
    return sorted({max(1, round(fraction * max_steps)) for fraction in fractions})


class KeptCheckpoints(TrainerCallback):
    """Saves after certain steps, and deletes other checkpoints in place of Trainer, which spares only the best.

    Args:
        steps: optimizer steps after which to save; their checkpoints are never deleted.
        save_total_limit: how many of the other checkpoints are kept, the newest; all of them if None or 0. The best
            one is kept in addition where the best is loaded at the end.
    """

    def __init__(self, steps: Sequence[int], save_total_limit: int | None) -> None:
        self.steps = frozenset(steps)
        self.save_total_limit = save_total_limit

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if state.global_step in self.steps:
            control.should_save = True

    def on_save(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if not args.should_save or not self.save_total_limit:
            return
        spared = {f"{PREFIX_CHECKPOINT_DIR}-{step}" for step in (*self.steps, state.global_step)}
        spared.add(Path(state.best_model_checkpoint or "").name)
        # By time, like Trainer: a run resumed from an older checkpoint has later steps that are older.
        found = sort_checkpoints(str(args.output_dir), use_mtime=True)
        others = [folder for folder in map(Path, found) if folder.name not in spared]
        room = self.save_total_limit - (state.global_step not in self.steps)
        for folder in others[: max(0, len(others) - room)]:
            discard(folder)
