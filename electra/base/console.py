"""What a command says and records: log lines, times and sizes with units, host and versions, no secrets."""

import io
import itertools
import logging
import logging.handlers
import os
import platform
import re
import shlex
import subprocess
import sys
import time
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import TextIO, TypeVar

from tqdm import tqdm

import electra
from electra.base.streams import silence

logger = logging.getLogger(__name__)

LOG_NAME = "log.txt"
"""File in the folder of a run with all lines of its log."""
SECRET = re.compile(r"token$|password|secret|api_?key")
"""Names of options with secret values, such as `hub_token`."""
V = TypeVar("V")
"""Type of an item, or of the value of an option."""

# ---- text from outside: what can be written as UTF-8, and what a terminal may be sent

_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters other than tab and newline, marks that turn the direction of writing, halves of surrogate pairs.

Joiners (U+200C, U+200D) are not among them: Persian and emoji are written with them.
"""


def is_encodable(text: str) -> bool:
    """Return True if a text can be written as UTF-8; text of JSON and file names may hold half of a surrogate pair."""
    return re.search("[\ud800-\udfff]", text) is None


def printable(text: str) -> str:
    """Return a text with escapes such as `\\x1b` for all that would move the cursor or reorder a line."""
    return _UNSEEN.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def columns_of(text: str) -> int:
    """Return how many columns of a terminal a text takes: a mark on a letter takes none, a Chinese character two."""
    marks = sum(unicodedata.category(letter) in ("Mn", "Me", "Cf") for letter in text)
    return len(text) - marks + sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)


# ---- numbers with units


def counted(number: int, what: str) -> str:
    """Return a number with its noun, such as `1 layer` or `2 layers`.

    Args:
        what: the noun in the singular; the plural has an s.
    """
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def format_seconds(seconds: float) -> str:
    """Return a time in its two largest units: 83 -> '1 min 23 s', 7500 -> '2 h 05 min', 200000 -> '2 d 07 h'."""
    seconds = round(seconds)
    units = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    for (name, unit), (smaller_name, smaller) in itertools.pairwise(units):
        if seconds >= unit:
            remainder = seconds % unit // smaller
            return f"{seconds // unit} {name} {remainder:02d} {smaller_name}"
    return f"{seconds} s"


def format_bytes(count: float) -> str:
    """Return a number of bytes in kB, MB, GB or TB, powers of 1000: 2_500_000 -> '2.5 MB'."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if round(count / unit, 1) >= 1:
            return f"{count / unit:.1f} {name}"
    return f"{count / 1e3:.1f} kB"


# ---- log lines


class _Printable(logging.Formatter):
    """A log formatter that escapes characters which would steer a terminal, such as those in names of files."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


class _Lines(logging.StreamHandler[TextIO]):
    """A log handler whose lines stand above a progress bar; a line that cannot be written never stops the work.

    After the first failure, on a full disk or of a pipe whose reader has ended, it writes no more lines. One line on
    stderr tells of a full disk.

    Args:
        output: where the lines go; None for the present `sys.stdout`, which is another one in each cell of a notebook.
    """

    def __init__(self, output: TextIO | None = None) -> None:
        logging.Handler.__init__(self)
        self.output = output

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return self.output or sys.stdout

    def emit(self, record: logging.LogRecord) -> None:
        with tqdm.external_write_mode():
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        error = sys.exception()
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        silence(self.stream)
        if not isinstance(error, BrokenPipeError):
            with suppress(OSError):
                name = getattr(self.stream, "name", "the output")
                print(f"cannot write {name}: {error.strerror}; going on without it", file=sys.stderr)  # noqa: T201


def setup_logging(output: TextIO | None = None) -> None:
    """Set up logging of plain lines for a command; in a distributed run, all processes but the first log only errors.

    Progress bars of transformers, for reading and writing weights, are not shown.

    Args:
        output: where the lines go; None for stdout.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal without "±" shows an escape instead of failing
        sys.stdout.reconfigure(errors="backslashreplace")
    handler = _Lines(output)
    handler.setFormatter(_Printable("%(message)s"))
    package = logging.getLogger("electra")
    package.handlers = [handler]
    package.propagate = False
    package.setLevel(logging.INFO if os.environ.get("RANK", "0") == "0" else logging.ERROR)
    if "transformers" in sys.modules:  # commands without torch use this module too
        sys.modules["transformers"].utils.logging.disable_progress_bar()


def log_by_default() -> None:
    """Set up logging as `setup_logging` does, unless the program has set up its own, or a level of this package."""
    package = logging.getLogger("electra")
    is_set_up = package.handlers or package.level != logging.NOTSET
    if not is_set_up and not (package.hasHandlers() and package.isEnabledFor(logging.INFO)):
        setup_logging()


def show_from(level: int) -> None:
    """Show only lines of the package of at least a level of `logging`; the log.txt of a run has all lines."""
    for handler in logging.getLogger("electra").handlers:
        if isinstance(handler, _Lines):
            handler.setLevel(level)


def shows_bars() -> bool:
    """Return True if progress bars can be seen: in a terminal and in a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return sys.stderr.isatty() or "IPKernelApp" in getattr(shell, "config", ())


LINE_SECONDS = 30.0
"""Seconds between two log lines about the progress of a work, where no progress bar can be seen."""


def with_progress_lines(items: Iterable[V], what: str) -> Iterator[V]:
    """Yield items; where no progress bar can be seen, log every `LINE_SECONDS` how many have been yielded.

    Args:
        what: the work, and what the items are, such as `tokenizing: documents`.
    """
    last_line = time.monotonic()
    for count, item in enumerate(items, start=1):
        yield item
        if time.monotonic() - last_line > LINE_SECONDS and not shows_bars():
            logger.info("%s: %d so far", what, count)
            last_line = time.monotonic()


class RunLog(logging.handlers.MemoryHandler):
    """A log handler that keeps a command's lines until its folder is known, then writes all lines to its log.txt."""

    def __init__(self) -> None:
        # With a capacity of 0 each line is written at once when there is a target; until then lines are kept.
        super().__init__(capacity=0, flushOnClose=False)
        logging.getLogger("electra").addHandler(self)

    def write_to(self, folder: Path) -> None:
        """Append the kept lines and all later ones to log.txt of a folder."""
        file = _Lines((folder / LOG_NAME).open("a", encoding="utf-8"))
        file.setFormatter(_Printable("%(asctime)s  %(message)s", datefmt="%Y-%m-%d %H:%M:%S"))
        self.setTarget(file)
        self.flush()


# ---- what results record


def environment() -> dict[str, object]:
    """Return `host`, `date`, `git_commit` of the package's checkout, and `versions` of Python and main libraries."""
    packages = ("torch", "transformers", "tokenizers", "datasets", "accelerate", "numpy")
    return {
        "host": platform.node(),
        "date": str(date.today()),
        "git_commit": git_commit(Path(electra.__file__).resolve().parent),
        "versions": {"python": platform.python_version(), **{name: metadata.version(name) for name in packages}},
    }


def git_commit(package: Path) -> str | None:
    """Return the commit of the checkout from which a package is imported, with `-dirty` if tracked files were changed.

    Return None if the folder of the package is not in the top folder of a checkout, as after installing a wheel.
    """
    root = package.parent
    if not (root / ".git").exists():
        return None
    # Variables such as GIT_DIR, which hooks have, name another repository. A container may run as another user.
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-c", "safe.directory=*", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        process = subprocess.run([*command, "--exclude=*"], env=environ, capture_output=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return process.stdout.decode().strip()


def without_secrets(options: Mapping[str, V]) -> dict[str, V]:
    """Return the options without those whose values are secrets."""
    return {name: value for name, value in options.items() if not SECRET.search(str(name))}


def hide_secrets(argv: Sequence[str]) -> list[str]:
    """Return the words of a command line, with `...` in place of secret values, also of `WANDB_API_KEY=...`."""
    words = []
    is_secret = False
    for word in argv:
        name, equals, _ = word.partition("=")
        if not word.startswith("--"):
            is_variable = bool(equals) and name.isupper() and bool(SECRET.search(name.lower()))
            shown_word = f"{name}=..." if is_variable else word
            words.append("..." if is_secret else shown_word)
            continue
        is_secret = bool(SECRET.search(name.replace("-", "_")))
        words.append(f"{name}=..." if is_secret and equals else word)
    return words


def shown_command(script: str, argv: Sequence[str]) -> str:
    """Return a command line that can be pasted into a shell, with `...` in place of secret values.

    `script` is what Python runs, such as `run_glue.py` or `-m electra squad`.
    """
    return shlex.join(["python", *script.split(), *hide_secrets(argv)])
