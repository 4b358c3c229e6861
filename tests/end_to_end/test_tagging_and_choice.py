"""run_tagging.py and run_swag.py as a user runs them: killed and taken up again, wrong files, exit codes."""

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerBase

from tests.finetuning.commands import start
from tests.glue.files import write_encoder
from tests.multiple_choice.files import flags as choice_flags
from tests.multiple_choice.files import write_questions
from tests.tagging.files import flags as tagging_flags
from tests.tagging.files import write_columns

KINDS = [
    ("run_tagging.py", lambda folder: write_columns(folder / "names"), tagging_flags, {}),
    ("run_tagging.py", lambda folder: write_columns(folder / "names"), tagging_flags,
     {"frozen_features": True, "feature_layers": "last", "feature_lstm_size": 16}),
    ("run_swag.py", lambda folder: write_questions(folder / "quiz"), choice_flags, {}),
]  # fmt: skip


@pytest.mark.parametrize(("script", "write", "flags", "options"), KINDS, ids=["tagging", "features", "choice"])
def test_killed_and_started_again_it_ends_in_the_same_files(
    tmp_path: Path,
    glue_tokenizer: PreTrainedTokenizerBase,
    script: str,
    write: Callable,
    flags: Callable,
    options: dict,
) -> None:
    write_encoder(tmp_path / "encoder", glue_tokenizer)
    write(tmp_path)
    options = {**options, "num_train_epochs": 15, "num_seeds": 3}
    undisturbed = start(script, flags(tmp_path, **options, experiment_name="undisturbed"), tmp_path)
    _, errors = undisturbed.communicate(timeout=300)
    assert undisturbed.returncode == 0, errors

    killed = start(script, flags(tmp_path, **options, experiment_name="killed"), tmp_path)
    results = tmp_path / "output" / "killed" / "results.jsonl"
    while not (results.is_file() and results.read_bytes()):
        assert killed.poll() is None, killed.communicate()
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    left = len(results.read_bytes().splitlines())
    assert left in (1, 2)

    again = start(script, flags(tmp_path, **options, experiment_name="killed"), tmp_path)
    out, errors = again.communicate(timeout=300)
    assert again.returncode == 0, errors
    assert f"{3 - left} runs, {left} more are done" in out
    names = {
        path.relative_to(tmp_path / "output" / "undisturbed")
        for path in (tmp_path / "output" / "undisturbed").rglob("*.*")
    }
    for name in names - {Path("config.yaml")}:
        one, other = (tmp_path / "output" / run / name for run in ("undisturbed", "killed"))
        if name.name == "results.jsonl" or "predictions" in str(name):
            assert one.read_bytes() == other.read_bytes(), name


@pytest.mark.parametrize(
    ("script", "write", "flags", "file", "line"),
    [
        ("run_tagging.py", lambda folder: write_columns(folder / "names"), tagging_flags, "names/dev.txt", "a b\n"),
        ("run_swag.py", lambda folder: write_questions(folder / "quiz"), choice_flags, "quiz/dev.csv", "a,b\n"),
    ],
)
def test_a_bad_file_is_one_line_and_exit_code_two(
    tmp_path: Path,
    glue_tokenizer: PreTrainedTokenizerBase,
    script: str,
    write: Callable,
    flags: Callable,
    file: str,
    line: str,
) -> None:
    write_encoder(tmp_path / "encoder", glue_tokenizer)
    write(tmp_path)
    with open(tmp_path / file, "a") as opened:
        opened.write(line)
    process = start(script, flags(tmp_path), tmp_path)
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 2 and errors.count("\n") == 1 and file in errors and "Traceback" not in out + errors
