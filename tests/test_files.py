"""Files are whole or not there."""

import json
import math
import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from electra.files import expand, replace_folder, write_json


def test_json_is_replaced_in_one_go_and_has_null_where_a_number_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "metrics.json"
    write_json({"old": 1}, path)
    values = {"held_out": {"trained": {"auc": math.nan, "loss": 1.5}}, "plan": {"steps": 3}, "names": ["a"]}
    write_json({**values, "row": [{"p": [0.5, math.nan]}, (math.inf,)]}, path)
    values["held_out"]["trained"]["auc"] = None  # type: ignore[index]
    values["row"] = [{"p": [0.5, None]}, [None]]  # type: ignore[assignment]

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    assert json.loads(path.read_text(), parse_constant=refuse) == values
    with pytest.raises(TypeError):
        write_json({"bad": object()}, path)
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(28, "No space left on device")))
    with pytest.raises(OSError, match=r"metrics\.json"):
        write_json({"new": 1}, path)
    assert json.loads(path.read_text()) == values
    assert [p.name for p in tmp_path.iterdir()] == ["metrics.json"]


def test_a_folder_is_deleted_only_when_the_new_one_is_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "file").touch()
    with pytest.raises(FileNotFoundError):  # in the place of a kill between the renames
        replace_folder(tmp_path / "new", tmp_path / "old")
    assert (tmp_path / "old.previous" / "file").exists()


def test_a_home_folder_that_is_not_there_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert expand("~/a") == tmp_path / "a"
    assert expand("~nosuchuser/a") == Path("~nosuchuser/a")
