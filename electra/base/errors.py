"""Errors of the user: one line on stderr and exit code 2, no traceback; hints for unknown names of options."""

import atexit
import difflib
import gc
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import yaml

from electra.base.console import printable
from electra.base.streams import flush_outputs
from electra.core.errors import UserError

OPTIONAL = {"datatrove", "optuna", "python-calamine", "tensorboard", "wandb"}
"""Packages that only some commands need; each has an extra of this package."""


def where_is(name: str) -> str:
    """Return the path of a page of docs/ or a program of examples/: where a wheel has put it, else as in a clone."""
    # The folder of all that was installed is one of those around the package; it need not be sys.prefix.
    places = (folder / "share" / "doc" / "electra" / name for folder in Path(__file__).parents)
    return str(next((path for path in places if path.is_file()), name))


REMOVED: dict[str, str] = {
    "shard": "one host tokenizes with all its cores, several with "
    f"{where_is('examples/tokenize_datatrove.py')} ({where_is('docs/clusters.md')})",
    "false_alarm_rate": "choose --threshold by the spans in the scores.jsonl of right text",
    "parallel": "start the same `electra sweep` several times, each on a GPU of its own "
    f"({where_is('docs/reports.md')})",
    "merge": "`electra cache` without it completes the cache, also of shards that are there",
    "schema": "the schema of files of options is configs/electra.schema.json, which their first line names",
}
"""Option or verb of an earlier version -> what a user does instead, such as "set --max_steps".

A command line that has the option is refused with these words. A file of --config, which may be the config.yaml of an
earlier run, is read without it, and one line of the log says so.
"""
_MEANINGS_FILE = Path(__file__).with_name("meanings.yaml")
"""File with the options of other programs, by the options here with the same meaning."""

_NO_MEMORY = re.compile("out of memory|not enough memory|(can't|cannot) allocate memory", re.IGNORECASE)
"""Messages of torch's allocator for CPUs, of oneDNN and of CUDA, which have no class of their own."""


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or the error's type if the message is empty."""
    lines = str(error).strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__


@cache
def options_meant() -> dict[str, list[str]]:
    """Return the options of other programs by name, each with the options here that have its meaning."""
    content = yaml.safe_load(_MEANINGS_FILE.read_text(encoding="utf-8"))
    return {name: options.split(", ") for options, names in content.items() for name in names}


def hint_of_unknown(name: str, names: Collection[str], otherwise: str, prefix: str = "") -> str:
    """Return the end of a message about an unknown name: what to do in place of a removed one, else what may be meant.

    That is the name of the same meaning (`options_meant`), else the most similar name, else up to three names that
    contain the unknown one.

    Args:
        name: the unknown name.
        names: all known names.
        otherwise: the end if no known name may be meant.
        prefix: what is written before each known name, such as "--".
    """
    if name in REMOVED:
        return f"it was removed: {REMOVED[name]}"
    equal_names = [option for option in options_meant().get(name, ()) if option.partition(" ")[0] in names]
    if equal_names:
        return f"did you mean {prefix}{equal_names[0]}?"
    ordered_names = sorted(names)
    similar_names = difflib.get_close_matches(name, ordered_names, n=1) or [
        candidate for candidate in ordered_names if f"_{name}_" in f"_{candidate}_"
    ]
    suggestions = " or ".join(prefix + similar_name for similar_name in similar_names[:3])
    return f"did you mean {suggestions}?" if suggestions else otherwise


def is_out_of_memory(error: Exception) -> bool:
    """Return True if an error says that the host or the device has no memory left."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and bool(_NO_MEMORY.search(str(error))))


def message_of(error: Exception) -> str:
    """Return the message of an error, without the traceback that a worker of a data loader puts before it."""
    return str(error).rpartition(f"{UserError.__module__}.{UserError.__name__}: ")[2]


def run_script(main: Callable[[], None]) -> NoReturn:
    """Run `main` as a command, and end the process: an error of the user is one line on stderr and exit code 2.

    Such errors are `UserError`, `OSError`, a lack of memory and of an optional package. Ctrl-C gives exit code 130, a
    reader of the output that has ended 141. `ELECTRA_DEBUG=1` shows the traceback, too.
    """
    # Python searches a million objects of the libraries for cycles before it ends, for more than a second; what is
    # frozen is not searched. What is registered first is called last: after all that still has to write.
    atexit.register(gc.freeze)
    code: Any = 2  # the user's error, unless it is set to something else
    message = ""
    try:
        try:
            main()
            code = 0
        except Exception:
            if os.environ.get("ELECTRA_DEBUG") == "1":
                traceback.print_exc()
            raise
    except SystemExit as stop:  # all processes raise it at the same point
        code = stop.code
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second Ctrl-C ends the process without a traceback
        code = 130  # 128 + SIGINT, the convention of shells
        message = "stopped"
    except BrokenPipeError:  # the reader of the output, such as `head`, has ended
        code = 141  # 128 + SIGPIPE
    except (MemoryError, RuntimeError, ImportError) as error:
        if is_out_of_memory(error):
            batch = "--per_device_train_batch_size, with more --gradient_accumulation_steps"
            advice = f"use smaller batches ({batch}) or networks"
            message = f"error: not enough memory; {advice}"
        elif isinstance(error, ModuleNotFoundError) and error.name in OPTIONAL:
            message = f"error: this needs {error.name}, which is not installed; run: pip install {error.name}"
        else:
            raise
    except (UserError, OSError) as error:  # OSError: a full disk, a folder that became unreadable
        if isinstance(error, OSError) and error.filename is None and error.errno is None:
            raise
        message = f"error: {' '.join(message_of(error).split())}"
    if message:
        with suppress(OSError):  # stderr may be on a full disk, too
            print(printable(message), file=sys.stderr)  # noqa: T201 - the command's own output
    flush_outputs()
    _exit(code, waits=not message)


def _exit(code: Any, waits: bool) -> NoReturn:
    """End the program with an exit code; a process of a distributed run ends without Python's cleanup.

    During that cleanup, threads of gloo may still run and abort the process (torch 2.13: one exit in four on a busy
    machine). torchrun would report a failure and stop the other processes.

    Args:
        waits: whether a process of a distributed run waits until all processes of the run have come here.
    """
    distributed = getattr(sys.modules.get("torch"), "distributed", None)  # not every command imports torch
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        sys.exit(code)
    if waits:
        with suppress(RuntimeError):  # another process failed and has reported it
            distributed.barrier()
    atexit._run_exitfuncs()  # what wandb and others still have to write
    flush_outputs()
    os._exit(code or 0)
