"""Files are whole or not there; YAML is what it looks like."""

import json
import math
import os
from pathlib import Path
from unittest.mock import Mock

import yaml
from pytest import raises

from electra.io.files import (
    CONFIGS,
    absolute_if_there,
    config_path,
    may_be_hub_id,
    read_yaml,
    replace_folder,
    write_as_yaml,
    write_json,
)
from tests.helpers import parametrize, read_json


def test_json_is_replaced_in_one_go(tmp_path, monkeypatch):
    path = tmp_path / "metrics.json"
    write_json({"old": 1}, path)
    write_json({"auc": math.nan, "loss": 1.5, "row": [{"p": [0.5, math.nan]}, (math.inf,)]}, path)
    values = {"auc": None, "loss": 1.5, "row": [{"p": [0.5, None]}, [None]]}
    assert json.loads(path.read_text(), parse_constant=Mock(side_effect=AssertionError)) == values
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(28, "No space left on device")))
    with raises(OSError, match="No space"):
        write_json({"new": 1}, path)
    assert read_json(path) == values and len([*tmp_path.iterdir()]) == 1


def test_a_folder_is_deleted_when_the_new_one_is_in_its_place(tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "file").touch()
    with raises(FileNotFoundError):  # in the place of a kill between the renames
        replace_folder(tmp_path / "new", tmp_path / "old")
    assert (tmp_path / "old.previous" / "file").exists()
    (tmp_path / "new").mkdir()
    replace_folder(tmp_path / "new", tmp_path / "old")
    assert [path.name for path in tmp_path.iterdir()] == ["old"] and not any((tmp_path / "old").iterdir())


def test_paths_of_users_and_names_on_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "here").mkdir()
    assert absolute_if_there("~/here") == absolute_if_there("here") == str(tmp_path / "here")
    assert absolute_if_there("google/electra-small") == "google/electra-small"
    assert may_be_hub_id("google/electra-small") and may_be_hub_id("gpt2")
    assert not any(map(may_be_hub_id, ("./electra", "here/electra", "a/b/c", "tokenizer.json", "")))


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
def test_numbers_with_an_exponent_are_floats(text, value):
    found = read_yaml(text)
    assert found == value and type(found) is type(value)


@parametrize("load", [read_yaml, yaml.safe_load])
def test_what_is_written_is_read_back_by_either_version(load):
    texts = ["no", "on", "010", "1:30", "1e5", "1e-4", "0o17", "2024-01-01", "", "~", ".inf", "1_000", "a: b", "é"]
    values = {"texts": texts, "numbers": [0, -3, 0.5, 1e-4, 1e30, float("inf")], "others": [True, None, {}]}
    assert load(write_as_yaml(values)) == values
