"""What may be published of options and command lines; units; the record of host and commit."""

import logging
import subprocess

import torch

from electra.io.console import (
    environment,
    format_bytes,
    format_seconds,
    git_commit,
    log_plainly,
    shown_command,
    without_secrets,
)
from tests.helpers import parametrize


def test_secrets_are_left_out_of_options():
    options = {"hub_token": "hf_1", "mask_token_id": 4, "wandb_api_key": "k", "tokenizer_path": "t"}
    assert without_secrets(options) == {"mask_token_id": 4, "tokenizer_path": "t"}


@parametrize("argv", [["--hub_token", "hf_1"], ["--hub_token=hf_1"], ["--wandb-api-key", "hf_1"]])
def test_secrets_are_left_out_of_commands(argv):
    shown = shown_command("run.py", ["--seed", "1", *argv, "--train_file", "a b.txt"])
    name, equals, _ = argv[0].partition("=")
    assert shown == f"python run.py --seed 1 {name}{equals or ' '}... --train_file 'a b.txt'"


def test_only_the_main_process_logs_more_than_errors(monkeypatch):
    for rank, level in (("1", logging.ERROR), ("0", logging.INFO)):
        monkeypatch.setenv("RANK", rank)
        log_plainly()
        assert logging.getLogger("electra").level == level


def test_times_and_sizes_have_units():
    assert [format_seconds(s) for s in (9.6, 83, 7500, 200_000)] == ["10 s", "1 min 23 s", "2 h 05 min", "2 d 07 h"]
    assert [format_bytes(b) for b in (500, 999_960, 3e9, 4e12)] == ["0.5 kB", "1.0 MB", "3.0 GB", "4.0 TB"]


def test_a_result_says_which_commit_it_is_of(tmp_path):
    def git(*words):
        command = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    assert git_commit(tmp_path) is None
    git("init", "-q")
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "-qm", "first")
    assert git_commit(tmp_path) == git("rev-parse", "HEAD")
    (tmp_path / "file").write_text("two")
    assert git_commit(tmp_path) == git("rev-parse", "HEAD") + "-dirty"
    assert environment()["versions"]["torch"] == torch.__version__
