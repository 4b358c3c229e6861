"""Each wrong command ends with exit code 2 and one line, leaves nothing of a run behind, and touches no old run."""

import importlib
import re
from pathlib import Path

import pytest

from electra.errors import run_script
from tests.bad_input.cases import CASES, GLUE, PRETRAIN, TOKENIZER, Case
from tests.bad_input.world import FAST
from tests.glue.files import flags as glue_flags
from tests.pretraining.runs import flags


def command(case: Case) -> list[str]:
    """The words of a command that would work but for what the case gets wrong."""
    nowhere = Path()
    if case.script == PRETRAIN:
        options = {**FAST, "validation_fraction": 0.2, "tokenizer_path": "tok", **case.options}
        if "train_file" in options and options["train_file"] is None:
            del options["train_file"]
            words = [word for word in flags(nowhere, **options) if not word.startswith("--train_file")]
            return [*words, *case.words]
        return [*flags(nowhere, **options), *case.words]
    if case.script == GLUE:
        return [*glue_flags(nowhere, **{"tasks": "cola", "num_seeds": 1, **case.options}), *case.words]
    values = {"train_file": "corpus.txt", "output_dir": "new", "vocab_size": 120, **case.options}
    return [*(f"--{name}={value}" for name, value in values.items() if value is not None), *case.words]


def files_below(folder: Path) -> dict[Path, bytes]:
    """What is in a folder, without locks and without the cache, whose parts are whole or not there."""
    return {
        path: path.read_bytes() if path.is_file() else b""
        for path in folder.rglob("*")
        if "cache" not in path.relative_to(folder).parts and path.suffix != ".lock"
    }


def refused(script: str, argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The line that a command ends with."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        run_script(lambda: importlib.import_module(script).main(argv))
    said = capsys.readouterr()
    lines = [line for line in re.split(r"[\r\n]+", said.err) if line.strip() and "B/s]" not in line]  # no bars
    assert stopped.value.code == 2, said
    assert "Traceback" not in said.out + said.err
    assert len(lines) == 1 and lines[0].startswith("error: "), said.err
    return lines[0]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_wrong_is_one_line_that_names_it(case: Case, world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if case.change is not None:
        case.change(world)
    before = files_below(world)
    line = refused(case.script, command(case), capsys)
    assert re.search(case.says, line), line
    after = files_below(world)
    assert after == before, sorted({*after} ^ {*before})
    assert not list(world.rglob("*unfinished*"))


def test_the_table_has_eighty_rows_and_every_script() -> None:
    assert len(CASES) >= 80
    for script in (PRETRAIN, GLUE, TOKENIZER):
        assert sum(case.script == script for case in CASES) >= 20
