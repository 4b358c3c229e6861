"""Stopping a run on request: it finishes the optimizer step, saves its full state and exits.

    SIGTERM, SIGUSR1, SIGINT    exit code 128 + the signal's number: 143, 138, 130; a second SIGINT stops at once
    --max_hours                 exit code 85 (OUT_OF_TIME), which no shell and no signal uses

A scheduler can tell these from success (0) and from a user's error (2), and start the same command again.
"""

import logging
import os
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from tqdm.auto import tqdm
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import SaveStrategy

logger = logging.getLogger(__name__)

OUT_OF_TIME = 85
SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGUSR1") if hasattr(signal, name))


class StopRequests(TrainerCallback):
    """Saves and ends training after the step in which a signal arrives, on all processes after the same step.

    Args:
        max_hours: to stop after, counted from `started`; None for no limit.
        started: `time.monotonic()` at the start of the command.
    """

    def __init__(self, max_hours: float | None = None, started: float | None = None) -> None:
        self.deadline = None if max_hours is None else (started or time.monotonic()) + max_hours * 3600
        self.exit_code = 0
        """0 if training was not stopped."""
        self._asked = 0

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

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        is_late = self.deadline is not None and time.monotonic() >= self.deadline
        self.exit_code = _highest(self._asked or (OUT_OF_TIME if is_late else 0), args)
        if self.exit_code:
            control.should_save = control.should_training_stop = True
            if args.save_strategy == SaveStrategy.BEST:
                control.should_evaluate = False  # it alone would decide whether to save

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if not self.exit_code or not state.is_world_process_zero:
            return
        reason = "--max_hours" if self.exit_code == OUT_OF_TIME else signal.Signals(self.exit_code - 128).name
        line = f"stopped by {reason} at step {state.global_step} of {state.max_steps}"
        if args.save_only_model:
            line += "; the weights are saved, but the run cannot be resumed without the optimizer (--save_only_model)"
        else:
            folder = shlex.quote(str(Path(args.output_dir)))
            line += f"; all is saved, resume with: python run_pretraining.py --resume_from_checkpoint {folder}"
        with tqdm.external_write_mode():
            logger.info(line)


def _highest(value: int, args: TrainingArguments) -> int:
    """The highest value of all processes: a signal may reach only one of them, or each at another step."""
    if args.world_size == 1:
        return value
    shared = torch.tensor([value], device=args.device)
    torch.distributed.all_reduce(shared, op=torch.distributed.ReduceOp.MAX)
    return int(shared.item())


class IgnoreSignals:
    """Set-up of a data loader's worker: signals that stop the run, often sent to all processes, are for the run.

    Args:
        then: another set-up to call afterwards.
    """

    def __init__(self, then: Callable[[int], None] | None = None) -> None:
        self.then = then

    def __call__(self, worker: int) -> None:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        if self.then is not None:
            self.then(worker)
