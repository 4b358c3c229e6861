"""What may be published of options and command lines; units; the record of host and commit."""

import logging
import os
import shutil
import subprocess
import sys
from unittest.mock import Mock

import pytest
import torch

from electra.base import console
from electra.base.console import (
    RunLog,
    columns_of,
    counted,
    environment,
    format_bytes,
    format_seconds,
    hide_secrets,
    log_by_default,
    setup_logging,
    shown_command,
    without_secrets,
)
from electra.base.errors import run_script
from electra.core.errors import UserError
from tests.helpers import ROOT, parametrize


def test_secrets_are_left_out_of_options():
    options = {"hub_token": "hf_1", "mask_token_id": 4, "wandb_api_key": "k", "tokenizer_path": "t"}
    assert without_secrets(options) == {"mask_token_id": 4, "tokenizer_path": "t"}


@parametrize("argv", [["--hub_token", "hf_1"], ["--hub_token=hf_1"], ["--wandb-api-key", "hf_1"]])
def test_secrets_are_left_out_of_commands(argv):
    command = shown_command("run.py", ["--seed", "1", *argv, "--train_file", "a b.txt"])
    name, equals, _ = argv[0].partition("=")
    assert command == f"python run.py --seed 1 {name}{equals or ' '}... --train_file 'a b.txt'"


def test_secret_variables_are_left_out_and_names_of_texts_are_not():
    words = ["env", "WANDB_API_KEY=k", "HF_TOKEN=hf_1", "PATH=a", "--validation_file", "secret=a.txt"]
    assert hide_secrets(words) == ["env", "WANDB_API_KEY=...", "HF_TOKEN=...", *words[3:]]


def test_only_the_main_process_logs_more_than_errors(monkeypatch):
    for rank, level in (("1", logging.ERROR), ("0", logging.INFO)):
        monkeypatch.setenv("RANK", rank)
        setup_logging()
        assert logging.getLogger("electra").level == level


def test_times_and_sizes_have_units():
    times = (9.6, 83, 7500, 200_000)
    assert [format_seconds(seconds) for seconds in times] == ["10 s", "1 min 23 s", "2 h 05 min", "2 d 07 h"]
    sizes = (500, 999_960, 3e9, 4e12)
    assert [format_bytes(size) for size in sizes] == ["0.5 kB", "1.0 MB", "3.0 GB", "4.0 TB"]


def test_marks_take_no_column_and_wide_letters_two():
    assert [columns_of(text) for text in ("", "abc", "é", "แอคคอร์ด", "好き", "İZMİR".lower())] == [0, 3, 1, 7, 4, 5]


def test_counted_things_are_plural_unless_there_is_one():
    assert [counted(number, "layer") for number in (0, 1, 1200)] == ["0 layers", "1 layer", "1,200 layers"]


def git(folder, *words):
    """Run git in a folder; return what it prints."""
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def commit_all(folder):
    """Make a folder a repository, with one commit of all its files."""
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")


def copy_package(folder):
    """What `environment` needs of the package, in a folder."""
    shutil.copytree(ROOT / "electra" / "base", folder / "electra" / "base", ignore=shutil.ignore_patterns("*.pyc"))
    shutil.copy(ROOT / "electra" / "__init__.py", folder / "electra")


def recorded_commit(package_of, **variables):
    """`git_commit` of `environment()`, with the package in this folder."""
    code = "from electra.base.console import environment; print(environment()['git_commit'])"
    variables = {**os.environ, "PYTHONPATH": str(package_of), **variables}
    command = [sys.executable, "-c", code]
    completed = subprocess.run(command, cwd=package_of, env=variables, capture_output=True, text=True)
    assert completed.returncode == 0, completed.stderr
    return completed.stdout.strip()


def test_a_result_says_which_commit_it_is_of(tmp_path):
    package = tmp_path / "package"
    other = tmp_path / "other"
    copy_package(package)
    assert recorded_commit(package) == "None"
    commit_all(package)
    other.mkdir()
    (other / "file").touch()
    commit_all(other)
    commit = git(package, "rev-parse", "HEAD")
    assert recorded_commit(package) == commit
    assert recorded_commit(package, GIT_DIR=str(other / ".git")) == commit  # as a hook of another repository has it
    (package / "electra" / "base" / "console.py").open("a").write("# changed\n")
    assert recorded_commit(package) == f"{commit}-dirty"


def test_a_result_says_which_torch_it_is_of():
    assert torch.__version__.startswith(environment()["versions"]["torch"])  # the build, +cu130, may be left out


def test_this_checkout_has_a_commit():
    if not (ROOT / ".git").exists():
        pytest.skip("it is no checkout")
    assert environment()["git_commit"].removesuffix("-dirty") == git(ROOT, "rev-parse", "HEAD")


def test_the_repository_around_an_installed_package_is_not_ours(tmp_path):
    copy_package(tmp_path / "venv" / "site-packages")
    commit_all(tmp_path)
    assert recorded_commit(tmp_path / "venv" / "site-packages") == "None"


@parametrize(
    ("text", "shown"),
    [("a\x1b[2Jb\x07c", "a\\x1b[2Jb\\x07c"), ("ab\u202ecd\u200f", "ab\\u202ecd\\u200f"), ("\udcff", "\\udcff")],
)
def test_characters_that_steer_a_terminal_are_shown_as_escapes(text, shown, capsys, tmp_path):
    setup_logging()
    logger = logging.getLogger("electra.test")
    log = RunLog()
    log.write_to(tmp_path)
    logger.info("label %s\n\tnext می\u200cخواهم", text)
    with pytest.raises(SystemExit):
        run_script(Mock(side_effect=UserError(f"label {text}")))
    output = capsys.readouterr()
    logging.getLogger("electra").removeHandler(log)
    assert output.out == f"label {shown}\n\tnext می\u200cخواهم\n" and output.err == f"error: label {shown}\n"
    assert f"label {shown}\n" in (tmp_path / "log.txt").read_text()


def test_a_program_sees_the_lines_unless_it_has_set_up_logging(capsys, monkeypatch):
    package = logging.getLogger("electra")
    monkeypatch.setattr(package, "handlers", [])
    monkeypatch.setattr(package, "propagate", True)
    monkeypatch.setattr(package, "level", logging.INFO)
    package.manager._clear_cache()
    log_by_default()  # pytest's handlers are at the root, as those of a program
    assert package.handlers == [] and package.propagate
    monkeypatch.setattr(package, "level", logging.WARNING)
    package.manager._clear_cache()
    log_by_default()  # a level of the package is the program's wish
    assert package.handlers == [] and package.level == logging.WARNING
    monkeypatch.setattr(package, "level", logging.NOTSET)
    package.manager._clear_cache()
    log_by_default()
    logging.getLogger("electra.test").info("a line")
    with capsys.disabled():
        log_by_default()
    assert capsys.readouterr().out == "a line\n" and len(package.handlers) == 1


def test_work_that_lasts_says_how_far_it_is(monkeypatch, caplog):
    caplog.set_level("INFO")
    assert [*console.with_progress_lines("abc", "reading: documents")] == [*"abc"] and not caplog.messages
    monkeypatch.setattr(console, "LINE_SECONDS", -1.0)
    assert [*console.with_progress_lines("abc", "reading: documents")] == [*"abc"]
    assert caplog.messages == [f"reading: documents: {count} so far" for count in (1, 2, 3)]
