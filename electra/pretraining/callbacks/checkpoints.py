"""When a run saves its state: at the end, when it is told to stop, at fractions of its steps; and what is deleted.

    SIGTERM, SIGUSR1, SIGINT    exit code 128 + the signal's number: 143, 138, 130; a second SIGINT stops at once
    --max_hours                 exit code 85 (OUT_OF_TIME), which no shell and no signal uses

A run that is stopped finishes the optimizer step, saves its full state and exits. A scheduler can tell these codes
from success (0) and from a user's error (2), and start the same command again.
"""

import logging
import math
import multiprocessing
import os
import shlex
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState

logger = logging.getLogger(__name__)

OUT_OF_TIME = 85
SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGUSR1") if hasattr(signal, name))


class StopRequests(TrainerCallback):
    """Saves and ends training after the step in which a signal arrives, on all processes after the same step.

    `max_hours` are counted from `started`, the `time.monotonic()` at the start of the command; None for no limit.
    """

    def __init__(self, max_hours: float | None = None, started: float = 0.0) -> None:
        self.deadline = started + 3600 * (max_hours or math.inf)
        self.exit_code = 0
        """0 if training was not stopped."""
        self._asked = 0
        self._group: Any = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle the signals while the block runs."""
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

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if args.world_size > 1:  # of hosts, which do not wait for their GPUs
            timeout = timedelta(seconds=args.ddp_timeout)
            self._group = torch.distributed.new_group(backend="gloo", timeout=timeout)

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self.exit_code = self._asked or (OUT_OF_TIME if time.monotonic() >= self.deadline else 0)
        if args.world_size > 1:  # a signal may reach only one process, or each at another step
            code = torch.tensor(self.exit_code)
            torch.distributed.all_reduce(code, op=torch.distributed.ReduceOp.MAX, group=self._group)
            self.exit_code = int(code)
        if self.exit_code:
            control.should_save = control.should_training_stop = True

    def on_train_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self.exit_code:
            folder = shlex.quote(str(Path(args.output_dir)))
            what = f"resume with: python run_pretraining.py --resume_from_checkpoint {folder}"
            logger.info("stopped at step %d of %d; %s", state.global_step, state.max_steps, what)


def ignore_signals(worker: int) -> None:
    """Set up a data loader's worker: signals that stop the run, often sent to all processes, are for the run."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def kill_workers() -> None:
    """End a data loader's workers that are left when the program ends: they ignore the SIGTERM that would end them.

    An error of a worker keeps its loader alive, and multiprocessing would wait for the other workers for ever.
    """
    if hasattr(signal, "SIGCHLD"):
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # torch's handler would report the ends of workers as errors
    for process in multiprocessing.active_children():
        if process.daemon:
            process.kill()


def fraction_steps(fractions: Sequence[float], max_steps: int) -> list[int]:
    """Return the steps of fractions, in (0, 1], of a run of `max_steps`: rounded, at least 1, ascending, unique."""
    return sorted({max(1, round(fraction * max_steps)) for fraction in fractions})


@dataclass(eq=False)
class SavesAt(TrainerCallback):
    """Saves after certain optimizer steps."""

    steps: Sequence[int]

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if state.global_step in self.steps:
            control.should_save = True
