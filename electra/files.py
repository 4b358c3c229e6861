"""Putting what was written under a temporary name in its place, so that a kill at any moment loses neither."""

import os
import shutil
from pathlib import Path


def replace_folder(new: Path, target: Path) -> None:
    """Rename `new` to `target`; what was there is set aside first and deleted last.

    Killed in between, the new folder or the old one is still whole, under its name or with `.previous` behind it.
    """
    previous = target.with_name(f"{target.name}.previous")
    shutil.rmtree(previous, ignore_errors=True)
    if target.exists():
        os.rename(target, previous)
    os.rename(new, target)
    shutil.rmtree(previous, ignore_errors=True)
