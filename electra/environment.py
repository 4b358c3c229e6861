"""Where a result comes from: host, commit of this code, versions. No torch."""

import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[1]
_PACKAGES = ("torch", "transformers", "tokenizers", "datasets", "accelerate", "numpy")


def environment() -> dict[str, Any]:
    """host, git_commit (None outside a checkout; `-dirty` behind it if files were changed) and versions."""
    return {
        "host": platform.node(),
        "git_commit": git_commit(_ROOT),
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}},
    }


def git_commit(root: Path) -> str | None:
    """The commit of the checkout that `root` is the top of; None if it is not, or git is not there."""
    try:
        if Path(_git(root, "rev-parse", "--show-toplevel")).resolve() != root.resolve():
            return None  # an installed copy, somewhere in another project's checkout
        commit = _git(root, "rev-parse", "HEAD")
        is_dirty = _git(root, "status", "--porcelain", "--untracked-files=no") != ""
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{commit}-dirty" if is_dirty else commit


def _git(root: Path, *words: str) -> str:
    command = ["git", "-C", str(root), *words]
    result = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True, stdin=subprocess.DEVNULL)
    return result.stdout.strip()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
