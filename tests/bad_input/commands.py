"""Wrong commands: what differs from one that works, and the line they end with."""

import importlib
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from electra.errors import run_script
from tests.bad_input.world import FAST
from tests.pretraining.runs import flags
from tests.tasks.glue.files import flags as glue_flags

Change = Callable[[Path], Any]
PRETRAIN, GLUE, TOKENIZER = "run_pretraining", "run_glue", "train_tokenizer"


class Case(NamedTuple):
    """A wrong command.

    Args:
        script: one of the three.
        options: on top of a command that works; None takes one of its options away.
        named: words that the line must hold, such as the option or the file.
        change: of the world, before the command.
    """

    script: str
    options: dict[str, Any]
    named: str
    change: Change | None = None

    @property
    def name(self) -> str:
        options = " ".join(f"{name}={value}" for name, value in self.options.items())[:60]
        return f"{self.script.removeprefix('run_')} {options} {self.named}"

    def argv(self) -> list[str]:
        if self.script == PRETRAIN:
            options = {**FAST, "validation_fraction": 0.2, "tokenizer_path": "tok", **self.options}
            words = flags(Path(), **options)
        elif self.script == GLUE:
            words = glue_flags(Path(), **{"tasks": "cola", "num_seeds": 1, **self.options})
        else:
            options = {"train_file": "corpus.txt", "output_dir": "new", "vocab_size": 120, **self.options}
            words = [f"--{name}={value}" for name, value in options.items()]
        return [word for word in words if not word.endswith("=None")]


def refused(script: str, argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that a wrong command ends with, with exit code 2."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        run_script(lambda: importlib.import_module(script).main(argv))
    output = capsys.readouterr()
    lines = [line for line in re.split(r"[\r\n]+", output.err) if line.strip() and "B/s]" not in line]  # no bars
    assert stopped.value.code == 2, output
    assert "Traceback" not in output.out + output.err
    assert len(lines) == 1 and lines[0].startswith("error: "), output.err
    return lines[0]


def write(name: str, content: str | bytes) -> Change:
    return lambda world: (world / name).write_bytes(content.encode() if isinstance(content, str) else content)


def edit(name: str, old: str, new: str) -> Change:
    return lambda world: (world / name).write_text((world / name).read_text().replace(old, new))


def edit_json(name: str, **values: Any) -> Change:
    return lambda world: (world / name).write_text(json.dumps({**json.loads((world / name).read_text()), **values}))


def cut(name: str) -> Change:
    return lambda world: os.truncate(world / name, (world / name).stat().st_size // 2)


def flip(name: str) -> Change:
    """Flip a bit of the last byte."""

    def change(world: Path) -> None:
        content = (world / name).read_bytes()
        (world / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))

    return change


def remove(*names: str) -> Change:
    def change(world: Path) -> None:
        for path in (world / name for name in names):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return change
