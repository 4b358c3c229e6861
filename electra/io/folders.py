"""Folders that are built once: complete or absent."""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

from electra.io.checkpoints import find_damage, translate_write_errors, write_manifest
from electra.io.files import lock_beside, replace_folder

logger = logging.getLogger(__name__)


def build_folder(target: Path, what: str, build: Callable[[Path], None]) -> None:
    """Make `target` once, whatever is killed and however many processes try: nobody sees an incomplete folder.

    `build` writes to a folder of another name. When it returns, the folder gets a manifest and is renamed. A folder
    that is damaged is built again.
    """
    if find_damage(target) is None:
        return  # without the lock, which a read-only folder would refuse
    with lock_beside(target, what):
        wrong = find_damage(target)
        if wrong is None:  # another process has built it meanwhile
            return
        if target.exists() and any(target.iterdir()):
            logger.warning("Building %s %s again: it %s", what, target, wrong)
        unfinished = Path(f"{target}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)  # of a build that was killed
        try:
            with translate_write_errors(target, lambda: f"name another folder for {what}"):
                unfinished.mkdir()
                build(unfinished)
                write_manifest(unfinished)
                replace_folder(unfinished, target)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
