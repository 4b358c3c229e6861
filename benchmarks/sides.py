"""A commit whose commands run at once: a process imports its libraries, and each command is a copy of that process."""

import gc
import multiprocessing
import os
import pickle
import runpy
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

from matplotlib.figure import Figure

ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "WANDB_MODE": "offline",
}
"""Variables of all commands: one thread, no network, no GPU."""
LAST_LINES = 6
"""Lines of a failed command's log that its error repeats."""


def words_of(options: Mapping[str, Any]) -> list[str]:
    """Return options as words of a command line: True is the option alone, None leaves it out."""
    words: list[str] = []
    for name, value in options.items():
        if value is not None:
            values = [] if value is True else value if isinstance(value, list) else [value]
            words += [f"--{name}", *map(str, values)]
    return words


class SideError(Exception):
    """The error of a command that ended otherwise than expected; the message has the last lines of its log."""


class Side:
    """A commit, the folder of what it writes, and the process whose copies are its commands.

    Attributes:
        name: before or after.
        checkout: folder of the commit's files.
        folder: the folder in which the commands run.
    """

    def __init__(self, name: str, checkout: Path, folder: Path) -> None:
        self.name = name
        self.checkout = checkout
        self.folder = folder
        self.log = folder / "log.txt"
        os.environ.update(ENVIRONMENT)  # before the process starts: what it imports first counts the threads
        context = multiprocessing.get_context("spawn")
        self.connection, process_end = context.Pipe()
        self.process = context.Process(target=_serve, args=(checkout, folder, process_end))
        self.process.start()
        process_end.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.send(None)
        self.process.join()

    def command(self, verb: str, *words: Any, expect: int = 0, **options: Any) -> str:
        """Run `electra VERB WORDS --OPTION VALUE ...` and return what it has printed.

        Raises:
            SideError: the exit code is another one than `expect`.
        """
        self._start(_run_command, [verb, *map(str, words), *words_of(options)])
        self._expect(f"electra {verb}", expect)
        return self._said()

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return what a function of benchmarks/ returns with this commit's `electra` and `tests`.

        Raises:
            SideError: the function raises an error.
        """
        result = self.folder / "result.pickle"
        self._start(_write_result, function, args, result)
        self._expect(function.__name__, 0)
        return pickle.loads(result.read_bytes())

    def kill(self, is_time: Callable[[], bool], verb: str, *words: Any, **options: Any) -> None:
        """Start `electra VERB WORDS --OPTION VALUE ...`, and kill it and its processes once `is_time()`.

        Raises:
            SideError: the command ended by itself before.
        """
        process = self._start(_run_command, [verb, *map(str, words), *words_of(options)])
        while not is_time() and not self.connection.poll():
            time.sleep(0.001)
        if not self.connection.poll():
            os.killpg(process, signal.SIGKILL)
        self._expect(f"electra {verb}, which was to be killed", -signal.SIGKILL)

    def _start(self, function: Callable[..., Any], *args: Any) -> int:
        """Start a copy of the process that calls the function, and return the number of its process group."""
        self.log.write_text("", encoding="utf-8")
        self.connection.send((function, args))
        group: int = self.connection.recv()
        return group

    def _expect(self, what: str, code: int) -> None:
        """Wait for the end of what was started; raise a `SideError` if the exit code is another one than `code`."""
        exit_code = self.connection.recv()
        if exit_code != code:
            lines = [line for line in self._said().splitlines() if line.strip()]
            raise SideError(
                "\n".join([f"{self.name}: {what} ended with {exit_code}, not {code}", *lines[-LAST_LINES:]])
            )

    def _said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")


def module_of(name: str, earlier_name: str) -> Any:
    """Return a module of the package, which an earlier commit may have under another name."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        return import_module(earlier_name)


def _serve(checkout: Path, folder: Path, connection: Connection) -> None:
    """Import the libraries of a commit, and call each function that is asked for in a copy of this process.

    Pictures have no content: to draw them would take half the time of a tiny run.
    """
    os.environ["PYTHONPATH"] = str(checkout)  # a sweep starts processes of its own
    os.chdir(folder)
    sys.path.insert(0, str(checkout))
    for verb in module_of("electra.tools.commands", "electra.commands").VERBS.values():
        import_module(verb.module)
    for library in ("datasets", "sklearn.linear_model", "wandb"):
        import_module(library)
    Figure.savefig = lambda self, file, **_: None  # type: ignore[method-assign]
    gc.freeze()  # a run collects garbage several times, each time all that was imported
    assert Path(str(import_module("electra").__file__)).is_relative_to(checkout)
    while True:
        request = connection.recv()
        if request is None:
            return
        process = multiprocessing.get_context("fork").Process(target=_become, args=(*request, connection))
        process.start()
        process.join()
        connection.send(process.exitcode)


def _become(function: Callable[..., Any], args: Sequence[Any], connection: Connection) -> None:
    """Call a function in this copy, which leads a group of processes and writes to log.txt."""
    os.setsid()
    with open("log.txt", "ab") as log:
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)
    sys.stdout, sys.stderr = (open(stream, "w", buffering=1, encoding="utf-8") for stream in (1, 2))  # noqa: SIM115
    connection.send(os.getpid())
    connection.close()
    function(*args)


def _run_command(words: Sequence[str]) -> None:
    sys.argv = ["electra", *words]
    runpy.run_module("electra", run_name="__main__", alter_sys=True)


def _write_result(function: Callable[..., Any], args: Sequence[Any], path: Path) -> None:
    path.write_bytes(pickle.dumps(function(*args)))
