"""Asked to stop, a run stops well: it finishes the optimizer step, saves its full state, says how to go on, and exits.

    SIGTERM, SIGUSR1, SIGINT    exit code 128 + the signal's number: 143, 138, 130; a second SIGINT stops at once
    --max_hours                 exit code 85 (OUT_OF_TIME), which no shell and no signal uses

A scheduler can tell these from success (0) and from a mistake (2), and start the same command again.
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
    """Saves and ends training after the step in which a signal came, on all processes after the same step.

    Args:
        max_hours: to stop after, counted from `started`; None for no limit.
        started: `time.monotonic()` at the start of the command.
    """

    def __init__(self, max_hours: float | None = None, started: float | None = None) -> None:
        self.deadline = None if max_hours is None else (started or time.monotonic()) + max_hours * 3600
        self.exit_code = 0
        """What to exit with; 0 if training ended by itself."""
        self._asked = 0

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take the signals while the block runs; outside of the main thread Python has none to take."""
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
        if self.exit_code and state.is_world_process_zero:
            folder = shlex.quote(str(Path(args.output_dir)))
            reason = "--max_hours" if self.exit_code == OUT_OF_TIME else signal.Signals(self.exit_code - 128).name
            with tqdm.external_write_mode():
                if args.save_only_model:
                    logger.info(
                        "stopped by %s at step %d of %d, the weights are saved; without its optimizer, which "
                        "--save_only_model leaves out, the run cannot go on",
                        reason,
                        state.global_step,
                        state.max_steps,
                    )
                    return
                logger.info(
                    "stopped by %s at step %d of %d, all is saved; go on with: "
                    "python run_pretraining.py --resume_from_checkpoint %s",
                    reason,
                    state.global_step,
                    state.max_steps,
                    folder,
                )


def _highest(value: int, args: TrainingArguments) -> int:
    """The highest value of all processes: a signal may reach one of them only, or each at another step."""
    if args.world_size == 1:
        return value
    shared = torch.tensor([value], device=args.device)
    torch.distributed.all_reduce(shared, op=torch.distributed.ReduceOp.MAX)
    return int(shared.item())


class LeaveSignalsToParent:
    """Worker set-up of a data loader: what stops the run is the run's to handle, often sent to all its processes.

    Args:
        then: the set-up to go on with, if any.
    """

    def __init__(self, then: Callable[[int], None] | None = None) -> None:
        self.then = then

    def __call__(self, worker: int) -> None:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        if self.then is not None:
            self.then(worker)
