"""Manifests and checkpoints: any damage is found, files are synced before a rename, a deletion leaves no half."""

import json
import os
import re
import stat
from pathlib import Path
from unittest.mock import Mock

import torch
from pytest import raises
from safetensors import SafetensorError
from safetensors.torch import save_file

from electra.base import checkpoints
from electra.base.checkpoints import (
    MANIFEST_NAME,
    UNFINISHED,
    checkpoints_of,
    commit,
    differs_from_manifest,
    discard,
    find_damage,
    latest_valid_checkpoint,
    translate_write_errors,
    write_manifest,
)
from electra.base.files import replace_folder
from electra.core.errors import UserError
from tests.helpers import files_up_to, parametrize

CONTENT = bytes(range(200))


def cut(path):
    """Remove the last byte of a file."""
    os.truncate(path, path.stat().st_size - 1)


def alter(path):
    """Change a bit of a file; its size stays."""
    content = path.read_bytes()
    path.write_bytes(content[:9] + bytes([content[9] ^ 1]) + content[10:])


def write_checkpoint(run, step, *names):
    """Write a whole checkpoint of a run, with files of these names; return its folder."""
    folder = run / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    for name in names or ("model.safetensors", "optimizer.pt", "below/file"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(CONTENT)
    (folder / "trainer_state.json").write_text(json.dumps({"global_step": step, "max_steps": 9, "log_history": []}))
    origin = {
        **{"training_text": "tokens:t", "training_documents": 4, "held_out_text": "h", "first_held_out_text": "h"},
        **{"batch_size": 4, "options": {}, "changes": []},
    }
    (folder / "origin.json").write_text(json.dumps(origin))
    write_manifest(folder)
    return folder


# ---- manifests


@parametrize("finish", [write_manifest, lambda folder: replace_folder(folder, folder.with_name("named"))])
@parametrize("mask", [0o022, 0o077])
def test_weights_can_be_read_by_those_who_may_read_the_other_files(tmp_path, mask, finish):
    network = tmp_path / "network"
    before = os.umask(mask)
    try:
        network.mkdir()
        (network / "config.json").write_text("{}")
        save_file({"a": torch.zeros(2)}, network / "model.safetensors")
        finish(network)
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("*/*")} == {0o666 & ~mask}


def test_a_file_that_may_not_be_read_is_not_called_damaged(tmp_path, monkeypatch):
    (tmp_path / "a.json").write_bytes(CONTENT)
    write_manifest(tmp_path)
    monkeypatch.setattr(checkpoints, "_checksum", Mock(side_effect=PermissionError(13, "Permission denied")))
    with raises(UserError, match=r"a\.json cannot be read: Permission denied"):
        find_damage(tmp_path)


@parametrize("harm", [cut, alter, Path.unlink, Path.touch])
@parametrize("name", ["a.json", "below/b.bin", "optimizer.pt", "README.md", "new.txt"])
def test_each_recorded_file_is_guarded_and_no_other(tmp_path, name, harm):
    (tmp_path / "below").mkdir()
    for recorded in ("a.json", "below/b.bin", "optimizer.pt", "README.md"):
        (tmp_path / recorded).write_bytes(CONTENT)
    write_manifest(tmp_path, "README.md")  # which may be edited
    (tmp_path / "new.txt").write_bytes(CONTENT)
    harm(tmp_path / name)
    damage = find_damage(tmp_path)
    if harm is Path.touch or name in ("README.md", "new.txt"):
        assert damage is None
    else:
        assert damage is not None and Path(name).name in damage
    assert (find_damage(tmp_path, "optimizer") is None) == (damage is None or name == "optimizer.pt")


@parametrize("harm", [cut, alter])
def test_an_edited_file_is_told_from_a_missing_one(tmp_path, harm):
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_bytes(CONTENT)
    assert not differs_from_manifest(tmp_path, "a.json")
    write_manifest(tmp_path)
    harm(tmp_path / "b.json")
    assert not differs_from_manifest(tmp_path, "a.json") and differs_from_manifest(tmp_path, "b.json")
    assert find_damage(tmp_path, "b.json") is None and "b.json" in find_damage(tmp_path)
    (tmp_path / "a.json").unlink()
    assert not differs_from_manifest(tmp_path, "a.json") and "a.json" in find_damage(tmp_path, "b.json")


@parametrize("content", ["", "{}"])
def test_an_unreadable_manifest_confirms_nothing(tmp_path, content):
    (tmp_path / "a.json").write_text("a")
    assert find_damage(tmp_path) == f"has no {MANIFEST_NAME}"
    (tmp_path / MANIFEST_NAME).write_text(content)
    assert MANIFEST_NAME in str(find_damage(tmp_path))


@parametrize("zeroed", [(0, 1), (12_500, 37_500), (50_000, 50_001)])
def test_samples_of_a_large_file_find_zeroed_bytes(tmp_path, zeroed, monkeypatch):
    """At both ends and in the middle half; 64 pieces of 16 bytes are read of 50,001."""
    monkeypatch.setattr(checkpoints, "_PIECE_BYTES", 16)
    path, (begin, end) = tmp_path / "data.arrow", zeroed
    whole = bytes(1 + i % 255 for i in range(50_001))
    path.write_bytes(whole)
    write_manifest(tmp_path)
    assert find_damage(tmp_path) is None
    path.write_bytes(whole[:begin] + bytes(end - begin) + whole[end:])
    assert "data.arrow" in str(find_damage(tmp_path))


# ---- finding checkpoints


def test_the_latest_valid_checkpoint_is_found(tmp_path, caplog):
    with raises(UserError, match="no checkpoint"):
        latest_valid_checkpoint(tmp_path)
    before = write_checkpoint(tmp_path, 900)
    newest = write_checkpoint(tmp_path, 1000)
    (tmp_path / "checkpoint-bad").mkdir()
    assert checkpoints_of(tmp_path) == [newest, before]
    assert latest_valid_checkpoint(tmp_path) == newest
    (newest / MANIFEST_NAME).unlink()
    assert latest_valid_checkpoint(tmp_path) == before
    assert "checkpoint-1000" in caplog.text and MANIFEST_NAME in caplog.text
    alter(before / "optimizer.pt")
    with raises(UserError, match="no checkpoint"):
        latest_valid_checkpoint(tmp_path)
    assert "optimizer" in caplog.text


def test_weights_alone_are_valid_but_not_resumable(tmp_path, caplog):
    folder = write_checkpoint(tmp_path, 4, "model.safetensors")
    assert find_damage(folder) is None
    with raises(UserError):
        latest_valid_checkpoint(tmp_path)
    assert "--save_only_model" in caplog.text
    write_checkpoint(tmp_path, 3, "global_step3/shard.pt")  # as DeepSpeed writes it
    assert latest_valid_checkpoint(tmp_path) == tmp_path / "checkpoint-3"


# ---- writing and moving


def test_files_and_folders_are_synced_before_the_rename(tmp_path, monkeypatch):
    events = []
    rename = os.rename
    fsync = os.fsync

    def synced(descriptor):
        events.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        fsync(descriptor)

    def renamed(source, target):
        events.append(f"{Path(source).parent.name} -> {Path(target).name}")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "rename", renamed)
    run = tmp_path / "run"
    commit(write_checkpoint(run / UNFINISHED, 4), run / "checkpoint-4")
    place = events.index(f"{UNFINISHED} -> checkpoint-4")
    assert {"model.safetensors", "optimizer.pt", "file", "below", "checkpoint-4"} <= set(events[:place])
    assert any(MANIFEST_NAME in event for event in events[:place]) and events[place + 1 :] == ["run"]
    assert find_damage(run / "checkpoint-4") is None


def test_a_checkpoint_of_the_same_name_is_replaced(tmp_path):
    for name in ("first", "second"):
        commit(write_checkpoint(tmp_path / UNFINISHED, 4, name), tmp_path / "checkpoint-4")
        assert (tmp_path / "checkpoint-4" / name).exists()
    assert not (tmp_path / "checkpoint-4" / "first").exists()


def test_a_kill_during_a_deletion_leaves_no_half_checkpoint(tmp_path, monkeypatch):
    folder = write_checkpoint(tmp_path, 4)
    with monkeypatch.context() as killed:
        killed.setattr(checkpoints.shutil, "rmtree", lambda path, **kwargs: None)  # before it deletes
        discard(folder)
    assert not folder.exists() and find_damage(tmp_path / UNFINISHED / "discarded-checkpoint-4") is None
    discard(folder)  # not there any more
    assert not any(tmp_path.iterdir())


def test_a_failed_write_is_refused_in_the_words_of_the_system(tmp_path):
    full = OSError(28, "No space left on device", str(tmp_path / "optimizer.pt"))
    of_weights = SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")
    for error, named in ((full, "optimizer.pt"), (of_weights, "No space left on device")):
        with raises(UserError) as raised, translate_write_errors(tmp_path, "kept"):
            raise error
        assert named in str(raised.value) and str(tmp_path) in str(raised.value)
        assert str(raised.value).endswith("; kept")


@parametrize("folder", ["", "not/made"])
def test_an_error_without_a_class_is_that_of_a_write_where_nothing_can_be_written(folder, tmp_path):
    for error in (RuntimeError("[enforce fail at inline_container.cc:672]"), Exception("of tokenizers")):
        with files_up_to(1000), raises(UserError) as raised, translate_write_errors(tmp_path / folder, "kept"):
            raise error
        assert "File too large" in str(raised.value) and str(raised.value).endswith("; kept")
        with raises(type(error), match=re.escape(str(error))), translate_write_errors(tmp_path / folder, "kept"):
            raise error
    with raises(UserError, match="wrong"), files_up_to(1000), translate_write_errors(tmp_path, "kept"):
        raise UserError("wrong")
