"""Files are whole or not there; YAML is what it looks like."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import yaml
from pytest import raises

from electra.base.files import (
    CONFIGS,
    YAML_ERRORS,
    absolute,
    absolute_if_there,
    absolute_named,
    config_path,
    expand,
    holds_files,
    may_be_hub_id,
    open_new,
    read_as_written,
    read_yaml,
    replace_folder,
    run_options,
    write_json,
    yaml_text,
)
from electra.core.errors import UserError
from tests.conftest import refused
from tests.helpers import ENVIRONMENT, parametrize, read_json


def test_json_is_replaced_as_a_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "metrics.json"
    write_json({"old": 1}, path)
    with path.open() as reader:  # has the whole old file
        write_json({"auc": math.nan, "loss": 1.5, "row": [{"p": [0.5, math.nan]}, (math.inf,)]}, path)
        assert json.load(reader) == {"old": 1}
    values = {"auc": None, "loss": 1.5, "row": [{"p": [0.5, None]}, [None]]}
    assert json.loads(path.read_text(), parse_constant=Mock(side_effect=AssertionError)) == values
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(28, "No space left on device")))
    with raises(OSError, match="No space"):
        write_json({"new": 1}, path)
    assert read_json(path) == values and len([*tmp_path.iterdir()]) == 1


def write(path, text):
    """Write a text by `open_new`."""
    with open_new(path) as file:
        file.write(text)


def test_a_link_stays_and_its_target_is_written(tmp_path):
    (tmp_path / "target").write_text("old")
    for name, target in (("link", "target"), ("dangling", "missing")):
        (tmp_path / name).symlink_to(target)
        write(tmp_path / name, "new")
        assert (tmp_path / name).is_symlink() and (tmp_path / target).read_text() == "new"


def test_a_pipe_and_a_device_are_written_and_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    descriptor = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write(tmp_path / "pipe", "new")
    assert os.read(descriptor, 10) == b"new" and (tmp_path / "pipe").is_fifo()
    os.close(descriptor)
    write(Path("/dev/null"), "new")
    assert Path("/dev/null").is_char_device()


def test_killed_and_simultaneous_writers_leave_a_whole_file(tmp_path):
    path = tmp_path / "a[1].csv"
    path.write_text("old")
    code = "import os; from pathlib import Path; from electra.base.files import open_new\n"
    code += "with open_new(Path('a[1].csv')) as file: print('new', file=file, flush=True); os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=ENVIRONMENT)
    assert path.read_text() == "old" and holds_files(tmp_path)
    path.unlink()
    assert not holds_files(tmp_path)  # what is left is hidden
    with open_new(path) as first:
        write(path, "second")  # the first one is still being written
        first.write("first")
    assert path.read_text() == "first"
    write(tmp_path / ("ก" * 85), "a name of 255 bytes")


def test_options_are_those_of_a_run_and_of_no_other_folder(tmp_path):
    (tmp_path / "run" / "discriminator").mkdir(parents=True)
    (tmp_path / "model").mkdir()
    for folder in (tmp_path, tmp_path / "run"):
        (folder / "config.yaml").write_text("max_length: 64\n")
    assert run_options(str(tmp_path / "run")) == run_options(str(tmp_path / "run" / "discriminator"))
    assert run_options(str(tmp_path / "run"))["max_length"] == 64 and run_options(str(tmp_path / "model")) == {}
    of_numbers = ("max_length", "hidden_dropout_prob", "attention_probs_dropout_prob", "mlm_probability")
    of_numbers += ("mlm_replacement_probability", "mlm_random_probability", "temperature", "disallow_correct")
    for name, wrong in (*((name, "many") for name in of_numbers), ("objective", 5), ("tie", 5)):
        (tmp_path / "run" / "config.yaml").write_text(f"{name}: {wrong}\nhidden_size: many\n")
        assert name in refused(lambda: run_options(str(tmp_path / "run")))
    (tmp_path / "run" / "config.yaml").write_text("hidden_size: many\n")  # which nothing else reads
    assert run_options(str(tmp_path / "run")) == {"hidden_size": "many"}


@parametrize("text", ["a: 1\na: 2", "b: {a: 1, a: 2}", "a: 1\n<<: {b: 1}\n<<: {c: 1}", "[" * 5000])
def test_yaml_that_says_two_things_is_refused(text, tmp_path):
    for read in (read_yaml, read_as_written):
        with raises(YAML_ERRORS):
            read(text)
    (tmp_path / "discriminator").mkdir()
    (tmp_path / "config.yaml").write_text(text)
    assert "config.yaml" in refused_line(lambda: run_options(str(tmp_path)))


SHARED = """
a: &rates {values: [1e-4, 3e-4]}
b: *rates
c: {d: &first {<<: *rates, seed: 1}}
e: {<<: *first, seed: 2}
<<: {f: 1, a: 2}
"""


def test_yaml_may_name_values_and_repeat_and_merge_them():
    rates = {"values": [1e-4, 3e-4]}
    first = {**rates, "seed": 1}
    expected = {"a": rates, "b": rates, "c": {"d": first}, "e": {**rates, "seed": 2}, "f": 1}
    assert read_yaml(SHARED) == expected
    assert read_as_written(SHARED) == {**expected, "f": "1"}
    assert read_as_written("a: &size 256\nb: *size\nc: [*size]") == {"a": "256", "b": "256", "c": ["256"]}


def refused_line(make):
    """The message of the `UserError` that `make` raises; it may quote YAML of several lines."""
    with raises(UserError) as error:
        make()
    return str(error.value)


def test_a_folder_is_deleted_when_the_new_one_is_in_its_place(tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "file").touch()
    with raises(FileNotFoundError):  # in the place of a kill between the renames
        replace_folder(tmp_path / "new", tmp_path / "old")
    assert (tmp_path / "old.previous" / "file").exists()
    (tmp_path / "new").mkdir()
    replace_folder(tmp_path / "new", tmp_path / "old")
    assert [path.name for path in tmp_path.iterdir()] == ["old"] and not any((tmp_path / "old").iterdir())


def test_existing_paths_become_absolute_and_hub_ids_stay(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "here").mkdir()
    assert absolute_if_there("~/here") == absolute_if_there("here") == str(tmp_path / "here")
    assert absolute_if_there("google/electra-small") == "google/electra-small"
    assert may_be_hub_id("google/electra-small") and may_be_hub_id("gpt2")
    assert not any(map(may_be_hub_id, ("./electra", "here/electra", "a/b/c", "tokenizer.json", "")))


def test_variables_are_replaced_unless_the_path_exists(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WHERE", str(tmp_path / "there"))
    monkeypatch.delenv("NOWHERE", raising=False)
    for path in ("$WHERE/a.txt", "${WHERE}/a.txt"):
        assert expand(path) == tmp_path / "there" / "a.txt"
        assert absolute_named(f"new={path}") == f"new={tmp_path}/there/a.txt"
    assert expand("$NOWHERE/a.txt") == Path("$NOWHERE/a.txt")
    (tmp_path / "$WHERE").mkdir()
    assert absolute("$WHERE") == str(tmp_path / "$WHERE")
    assert expand("$WHERE/a.txt") == tmp_path / "there" / "a.txt"


def test_a_packaged_config_is_found_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert config_path("configs/glue/paper.yaml") == CONFIGS / "glue" / "paper.yaml"
    (tmp_path / "configs" / "glue").mkdir(parents=True)
    (tmp_path / "configs" / "glue" / "paper.yaml").touch()
    assert config_path("configs/glue/paper.yaml") == Path("configs/glue/paper.yaml")


@parametrize(
    ("text", "value"),
    [
        ("10", 10),
        ("1e-4", 0.0001),
        ("-1E+3", -1000.0),
        ("", None),
        ("'1e-4'", "1e-4"),
        ("e-4", "e-4"),
    ],
)
def test_scalars_of_yaml_are_read_with_their_types(text, value):
    scalar = read_yaml(text)
    assert scalar == value and type(scalar) is type(value)


@parametrize("load", [read_yaml, yaml.safe_load])
def test_written_yaml_is_read_back_by_yaml_1_1_and_1_2(load):
    texts = ["no", "on", "010", "1:30", "1e5", "1e-4", "0o17", "2024-01-01", "", "~", ".inf", "1_000", "a: b", "é"]
    values = {"texts": texts, "numbers": [0, -3, 0.5, 1e-4, 1e30, float("inf")], "others": [True, None, {}]}
    assert load(yaml_text(values)) == values
