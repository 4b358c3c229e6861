"""Manifests and checkpoints: any damage is found, files are synced before a rename, a deletion leaves no half."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from electra import checkpoint
from electra.checkpoint import (
    MANIFEST_NAME,
    ORIGIN_NAME,
    UNFINISHED,
    checkpoints_of,
    commit,
    describe_latest_valid,
    discard,
    find_checkpoint_corruption,
    find_corruption,
    find_file_corruption,
    latest_valid_checkpoint,
    read_checked,
    recording,
    translate_write_errors,
    why_not_resumable,
    write_manifest,
)
from electra.errors import UserError

Harm = Callable[[Path], object]
FILES = ("model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json")


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def alter(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def write_checkpoint(run: Path, step: int, has_manifest: bool = True) -> Path:
    """The files of a checkpoint of a single process."""
    folder = run / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    save_file({"a": torch.zeros(3)}, folder / "model.safetensors")
    for name in FILES[1:4]:
        torch.save({"a": torch.zeros(3)}, folder / name)
    (folder / "trainer_state.json").write_text(json.dumps({"global_step": step}))
    if has_manifest:
        (folder / ORIGIN_NAME).write_text("{}")
        write_manifest(folder)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a manifest of a.json, optimizer.pt and a file in a subfolder; README.md may be edited."""
    (tmp_path / "below").mkdir()
    for name in ("a.json", "below/b.bin", "optimizer.pt", "README.md"):
        (tmp_path / name).write_bytes(bytes(range(200)))
    write_manifest(tmp_path, "README.md")
    return tmp_path


# ---- manifests


@pytest.mark.parametrize("harm", [truncate, empty, alter, Path.unlink, Path.touch])
@pytest.mark.parametrize("name", ["a.json", "below/b.bin", "optimizer.pt", "README.md", "new.txt"])
def test_each_recorded_file_is_guarded_and_no_other(folder: Path, name: str, harm: Harm) -> None:
    (folder / "new.txt").write_text("put there later")
    harm(folder / name)
    wrong = find_corruption(folder)
    if harm is Path.touch or name in ("README.md", "new.txt"):
        assert wrong is None
    else:
        assert wrong is not None and name in wrong
    assert (find_corruption(folder, "optimizer") is None) == (wrong is None or name == "optimizer.pt")


@pytest.mark.parametrize("content", ["", "[]", '{"files": [1]}', '{"files": {"a.json": {}}}', '{"files": 3'])
def test_an_unreadable_manifest_confirms_nothing(folder: Path, content: str) -> None:
    (folder / MANIFEST_NAME).write_text(content)
    assert MANIFEST_NAME in str(find_corruption(folder))
    assert MANIFEST_NAME in str(find_file_corruption(folder / "a.json"))
    with recording(folder, "a.json"):
        (folder / "a.json").write_text("new")
    assert find_corruption(folder) is None


def test_without_a_manifest_a_folder_is_incomplete_but_its_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("a")
    assert find_corruption(tmp_path) == f"has no {MANIFEST_NAME}" and read_checked(tmp_path / "a.json") == "a"


@pytest.mark.parametrize("zeroed", [(0, 1), (12_500, 37_500), (50_000, 50_001)])
def test_samples_of_a_large_file_find_zeroed_bytes(
    tmp_path: Path, zeroed: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "_PIECE_BYTES", 16)
    path = tmp_path / "data.arrow"
    whole = bytes(1 + i % 255 for i in range(50_001))
    path.write_bytes(whole)
    write_manifest(tmp_path)
    assert find_corruption(tmp_path) is None
    begin, end = zeroed
    path.write_bytes(whole[:begin] + bytes(end - begin) + whole[end:])
    assert "data.arrow" in str(find_corruption(tmp_path))


def test_files_of_a_growing_folder_are_checked_alone(tmp_path: Path) -> None:
    for name in ("config.yaml", "metrics.json"):
        with recording(tmp_path, name):
            (tmp_path / name).write_text(name)
    alter(tmp_path / "config.yaml")
    assert "config.yaml" in str(find_file_corruption(tmp_path / "config.yaml"))
    with pytest.raises(ValueError, match=r"config\.yaml"):
        read_checked(tmp_path / "config.yaml")
    assert read_checked(tmp_path / "metrics.json") == "metrics.json"
    (tmp_path / "metrics.json").unlink()
    assert find_file_corruption(tmp_path / "metrics.json") is None  # whoever reads it reports that


def test_a_file_whose_writing_was_killed_has_no_entry(tmp_path: Path) -> None:
    with recording(tmp_path, "config.yaml"):
        (tmp_path / "config.yaml").write_text("old")
    with pytest.raises(KeyboardInterrupt), recording(tmp_path, "config.yaml"):
        (tmp_path / "config.yaml").write_text("another")
        raise KeyboardInterrupt
    assert json.loads((tmp_path / MANIFEST_NAME).read_text()) == {"files": {}}
    assert read_checked(tmp_path / "config.yaml") == "another"


# ---- finding checkpoints


@pytest.mark.parametrize("name", [*FILES, ORIGIN_NAME, MANIFEST_NAME])
def test_each_file_of_a_checkpoint_is_guarded(tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    before, newest = write_checkpoint(tmp_path, 900), write_checkpoint(tmp_path, 1000)
    (tmp_path / "checkpoint-bad").mkdir()
    assert checkpoints_of(tmp_path) == [newest, before]
    assert latest_valid_checkpoint(tmp_path) == newest
    content = (newest / name).read_bytes()
    for harm in (truncate, empty, alter, Path.unlink):
        if name == MANIFEST_NAME and harm in (truncate, alter):
            continue  # its last newline; another digit of a checksum is below
        harm(newest / name)
        caplog.clear()
        assert latest_valid_checkpoint(tmp_path) == before, harm
        assert "checkpoint-1000" in caplog.text and name in caplog.text
        assert describe_latest_valid(tmp_path).endswith(str(before))
        (newest / name).write_bytes(content)
    text = (newest / MANIFEST_NAME).read_text()
    (newest / MANIFEST_NAME).write_text(text.replace('"blake2b": "', '"blake2b": "0', 1))
    assert latest_valid_checkpoint(tmp_path) == before
    (newest / MANIFEST_NAME).unlink()
    (newest / ORIGIN_NAME).unlink(missing_ok=True)
    assert latest_valid_checkpoint(tmp_path) == newest  # as if from before there were manifests
    assert describe_latest_valid(tmp_path, until=999).endswith(str(before))


@pytest.mark.parametrize("name", FILES)
def test_a_checkpoint_without_a_manifest_must_have_all_files(tmp_path: Path, name: str) -> None:
    folder = write_checkpoint(tmp_path, 4, has_manifest=False)
    assert find_checkpoint_corruption(folder) is None and why_not_resumable(folder) is None
    content = (folder / name).read_bytes()
    for kept in (0.0, 0.5):
        (folder / name).write_bytes(content[: int(kept * len(content))])
        assert name in str(find_checkpoint_corruption(folder))
    (folder / name).unlink()
    assert name in str(find_checkpoint_corruption(folder))
    with pytest.raises(UserError, match=rf"checkpoint-4 .*{name}") as error:
        latest_valid_checkpoint(tmp_path)
    assert "\n" not in str(error.value)


def test_weights_alone_are_valid_but_not_resumable(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, 4)
    (folder / "optimizer.pt").unlink()
    assert find_checkpoint_corruption(folder, "optimizer") is None and "optimizer.pt" in str(why_not_resumable(folder))
    write_manifest(folder)
    assert find_checkpoint_corruption(folder) is None and "--save_only_model" in str(why_not_resumable(folder))
    with pytest.raises(UserError, match="--save_only_model"):
        latest_valid_checkpoint(tmp_path)


def test_a_run_without_checkpoints_says_so(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="checkpoint-N"):
        latest_valid_checkpoint(tmp_path)
    assert describe_latest_valid(tmp_path) == "no checkpoint was saved before"
    assert describe_latest_valid(tmp_path / "gone") == "no checkpoint is left"


# ---- writing and moving


def test_files_and_folders_are_synced_before_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    rename, fsync = os.rename, os.fsync

    def synced(descriptor: int) -> None:
        events.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        fsync(descriptor)

    def renamed(source: Path, target: Path) -> None:
        events.append(f"{Path(source).parent.name} -> {Path(target).name}")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "rename", renamed)
    run = tmp_path / "run"
    folder = write_checkpoint(run / UNFINISHED, 4)
    commit(folder, run / "checkpoint-4")
    at = events.index(f"{UNFINISHED} -> checkpoint-4")
    assert {*FILES, ORIGIN_NAME, "checkpoint-4"} <= set(events[:at])
    assert any(MANIFEST_NAME in event for event in events[:at]) and events[at + 1 :] == ["run"]
    assert find_checkpoint_corruption(run / "checkpoint-4") is None


def test_an_older_checkpoint_of_the_same_name_is_replaced(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 4)
    newer = write_checkpoint(tmp_path / UNFINISHED, 4)
    (newer / "new").touch()
    commit(newer, tmp_path / "checkpoint-4")
    assert (tmp_path / "checkpoint-4" / "new").exists()


def test_a_kill_while_a_checkpoint_is_deleted_leaves_no_half_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_checkpoint(tmp_path, 4)
    monkeypatch.setattr(checkpoint.shutil, "rmtree", lambda path, **kwargs: None)  # killed before it deletes
    discard(folder)
    assert not folder.exists() and find_checkpoint_corruption(tmp_path / UNFINISHED / "discarded-checkpoint-4") is None
    discard(folder)  # not there any more
    monkeypatch.undo()
    discard(write_checkpoint(tmp_path, 8))
    assert not (tmp_path / "checkpoint-8").exists()


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"),
        RuntimeError("PytorchStreamWriter failed writing file data/0: file write failed"),
    ],
    ids=["os", "torch"],
)
def test_a_failed_write_names_the_file_and_what_is_kept(tmp_path: Path, error: Exception) -> None:
    (tmp_path / "first").touch()
    os.utime(tmp_path / "first", (0, 0))
    (tmp_path / "optimizer.pt").touch()
    with (
        pytest.raises(UserError, match=r"optimizer\.pt.*: .*; kept"),
        translate_write_errors(tmp_path, lambda: "kept"),
    ):
        raise error
    with pytest.raises(RuntimeError, match="a bug"), translate_write_errors(tmp_path, lambda: "kept"):
        raise RuntimeError("a bug")
