"""What is recorded with a result: host, commit, versions, and options and commands without secrets."""

import platform
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[1]
_PACKAGES = ("torch", "transformers", "tokenizers", "datasets", "accelerate", "numpy")
SECRET = re.compile(r"token$|password|secret|api_?key")
"""Names of options with secret values, such as `hub_token`."""


def environment() -> dict[str, Any]:
    """`host`, `git_commit` (see `git_commit`) and `versions` of the libraries that decide on a result."""
    return {
        "host": platform.node(),
        "git_commit": git_commit(_ROOT),
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}},
    }


def git_commit(root: Path) -> str | None:
    """The commit of the checkout at `root`, with `-dirty` appended if files differ; None outside a checkout."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(root), *words]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=10, check=True, stdin=subprocess.DEVNULL
        )
        return done.stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")).resolve() != root.resolve():
            return None  # an installed copy inside another project's checkout
        is_dirty = git("status", "--porcelain", "--untracked-files=no") != ""
        return git("rev-parse", "HEAD") + "-dirty" * is_dirty
    except (OSError, subprocess.SubprocessError):
        return None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def without_secrets(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if not SECRET.search(str(name))}


def shown_command(script: str, argv: Sequence[str]) -> str:
    """A command line that can be pasted into a shell, with `...` in place of secret values."""
    words, is_secret = ["python", script], False
    for word in argv:
        name, equals, _ = word.partition("=")
        is_option = word.startswith("--")
        is_value = is_secret and not is_option
        is_secret = is_value or (is_option and bool(SECRET.search(name.replace("-", "_"))))
        words.append("..." if is_value else f"{name}=..." if is_secret and equals else word)
    return shlex.join(words)
