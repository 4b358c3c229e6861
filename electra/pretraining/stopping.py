"""When a run must stop: signals, --max_hours, and the workers of its data loaders.

    SIGTERM, SIGUSR1, SIGINT    exit code 128 + the signal's number: 143, 138, 130; a second SIGTERM or
                                SIGINT stops at once
    --max_hours                 exit code 85 (`OUT_OF_TIME`), which no shell and no signal uses

A run that is stopped finishes the optimizer step, saves its full state and exits. A scheduler can tell these codes
from success (0) and from a user's error (2), and start the same command again. In a program, the first Ctrl-C does the
same while `ElectraTrainer` trains, and becomes a KeyboardInterrupt after the step; other signals are the program's.
"""

import logging
import math
import multiprocessing
import multiprocessing.queues
import os
import shlex
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

logger = logging.getLogger(__name__)

SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGUSR1") if hasattr(signal, name))
"""Signals that end a run, as far as this system has them."""

ENDING = (signal.SIGTERM, signal.SIGINT)
"""Signals of which a second one ends the process at once."""
REPEAT = 1.0
"""Seconds after which a signal counts as a second one: `timeout`, and a scheduler with torchrun, send each signal
twice."""

OUT_OF_TIME = 85
"""Exit code after --max_hours."""


def say(line: str) -> None:
    """Write a line to stderr past Python's buffers; nothing happens if that fails."""
    with suppress(OSError):
        os.write(2, f"{line}\n".encode())


class StopRequests:
    """The signals that ask for the end of a run, noted while it trains; `StopsWhenAsked` obeys them."""

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
        earlier_handlers = {number: signal.signal(number, self._note) for number in SIGNALS}
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
            for number, handler in earlier_handlers.items():
                signal.signal(number, handler)
            writing.send(bytes(1))
            listener.join()
            reading.close()
            writing.close()

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """Note the first Ctrl-C while the block of a program runs; after the block, raise the KeyboardInterrupt.

        The second one is Python's own, in the middle of the block. Nothing is done where the command is listening,
        another training is under way, the program handles Ctrl-C itself, or this is not the main thread, the only one
        in which Python handles signals.
        """
        handler = signal.getsignal(signal.SIGINT)
        if getattr(handler, "__self__", None) is not self:
            self.exit_code = 0  # of an earlier training
        is_main = threading.current_thread() is threading.main_thread()
        if not is_main or handler is not signal.default_int_handler:
            yield
            return
        signal.signal(signal.SIGINT, self._note_first)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self.exit_code:
            raise KeyboardInterrupt

    def _note(self, number: int, frame: Any) -> None:
        self.exit_code = 128 + number

    def _note_first(self, number: int, frame: Any) -> None:
        self._note(number, frame)
        signal.signal(number, signal.default_int_handler)
        say("\nfinishing this step and saving it; a second Ctrl-C stops at once")

    def _listen(self, reading: socket.socket) -> None:
        """Log each signal whose number arrives, and end the process at the second one; return when a 0 arrives."""
        first: dict[int, float] = {}
        while number := reading.recv(1)[0]:
            if number not in SIGNALS:  # such as SIGCHLD, for which torch has a handler
                continue
            seconds = time.monotonic()
            if number not in first:
                first[number] = seconds
                name = signal.Signals(number).name
                say(f"\n{name}: finishing this step and saving it; the same signal again stops at once")
            elif number in ENDING and seconds - first[number] >= REPEAT:
                say("stopped")
                for process in multiprocessing.active_children():
                    process.kill()
                os._exit(128 + number)


def noted_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that are noted now: those of the command, Ctrl-C in a program that trains, or none."""
    owners = {number: getattr(signal.getsignal(number), "__self__", None) for number in SIGNALS}
    return tuple(number for number, owner in owners.items() if isinstance(owner, StopRequests))


class StopsWhenAsked(TrainerCallback):
    """A callback that saves and ends training after the step in which a signal arrives, the same on all processes.

    Args:
        requests: the signals that are noted.
    """

    def __init__(self, requests: StopRequests) -> None:
        self.requests = requests
        self.deadline = math.inf
        """Value of `time.monotonic()` from which on training ends."""
        self.exit_code = 0
        """Exit code of the command; 0 if training was not stopped."""
        self._group: Any = None

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: object, **kwargs: object) -> None:
        if args.world_size > 1:  # of hosts, which do not wait for their GPUs
            timeout = timedelta(seconds=args.ddp_timeout)
            self._group = torch.distributed.new_group(backend="gloo", timeout=timeout)

    def on_step_end(self, args: TrainingArguments, state: object, control: TrainerControl, **kwargs: object) -> None:
        self.exit_code = self.requests.exit_code or (OUT_OF_TIME if time.monotonic() >= self.deadline else 0)
        if args.world_size > 1:  # a signal may reach only one process, or each at another step
            code = torch.tensor(self.exit_code)
            torch.distributed.all_reduce(code, op=torch.distributed.ReduceOp.MAX, group=self._group)
            self.exit_code = self.requests.exit_code = int(code)
        if self.exit_code:
            control.should_save = control.should_training_stop = True

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: object, **kwargs: object) -> None:
        if self.exit_code:
            folder = shlex.quote(str(Path(args.output_dir)))
            what = "call train() again to go on"
            if signal.SIGTERM in noted_signals():
                what = f"resume with: python -m electra pretrain --resume_from_checkpoint {folder}"
            logger.info("stopped at step %d of %d; %s", state.global_step, state.max_steps, what)


# ---- the workers of data loaders


def adapt_loader(loader: DataLoader) -> DataLoader:
    """Return the loader with workers that leave signals to the run, and with the collator of a corrupted test set."""
    inner = getattr(loader, "base_dataloader", loader)  # accelerate wraps it
    # Trainer's function seeds random states, which no worker uses.
    inner.worker_init_fn = partial(set_up_worker, ignored=noted_signals())
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
