"""A checkpoint is whole or it is not there: damage of any kind is found, and the one before is taken."""

import os
import shutil
from pathlib import Path

import pytest

from electra.errors import UserError
from electra.pretraining.manifest import MANIFEST_NAME, damage
from electra.pretraining.run_folder import find_checkpoint
from run_pretraining import main
from tests.pretraining.runs import FAST, flags, write_corpus
from tests.pretraining.test_trainer import assert_same_state


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    write_corpus(folder / "corpus.txt")
    main(flags(folder, **FAST))
    return folder


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def alter(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_each_file_of_a_checkpoint_is_guarded(finished: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished / "output" / "run", run)
    newest, before = run / "checkpoint-12", run / "checkpoint-8"
    names = {path.name for path in newest.iterdir()}
    assert {"model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json"} < names
    assert {MANIFEST_NAME, "origin.json", "config.json", "tokenizer.json"} < names
    assert find_checkpoint("true", str(tmp_path), "run") == newest
    for name in sorted(names):
        content = (newest / name).read_bytes()
        for harm in (truncate, empty, alter, Path.unlink):
            if name == MANIFEST_NAME and harm in (truncate, alter):
                continue  # its last newline; a digit of a checksum below
            harm(newest / name)
            assert find_checkpoint("true", str(tmp_path), "run") == before, (name, harm)
            with pytest.raises(UserError, match=f"checkpoint-12 .*{name}"):
                find_checkpoint(str(newest), "", "")
            (newest / name).write_bytes(content)
    text = (newest / MANIFEST_NAME).read_text()
    (newest / MANIFEST_NAME).write_text(text.replace('"blake2b": "', '"blake2b": "0', 1))
    assert find_checkpoint("true", str(tmp_path), "run") == before


def test_with_no_whole_checkpoint_left_there_is_one_line(finished: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished / "output" / "run", run)
    for checkpoint in run.glob("checkpoint-*"):
        empty(checkpoint / "optimizer.pt")
    with pytest.raises(
        UserError, match=r"no checkpoint of .*run is whole: checkpoint-12 is damaged: optimizer\.pt has 0"
    ):
        find_checkpoint("true", str(tmp_path), "run")


def test_a_run_resumed_over_a_damaged_checkpoint_ends_as_if_nothing_had_happened(
    finished: Path, tmp_path: Path
) -> None:
    output = tmp_path / "output"
    shutil.copytree(finished / "output" / "run", output / "run")
    empty(output / "run" / "checkpoint-12" / "model.safetensors")
    left_behind = output / "run" / "unfinished" / "checkpoint-9"
    left_behind.mkdir(parents=True)
    options = {"train_file": finished / "corpus.txt", "cache_dir": finished / "cache", "save_total_limit": 1}
    main(flags(tmp_path, **FAST, **options, resume_from_checkpoint="true"))
    assert [path.name for path in (output / "run").glob("checkpoint-*")] == ["checkpoint-12"]
    assert damage(output / "run" / "checkpoint-12") is None and not (output / "run" / "unfinished").exists()
    assert_same_state(output / "run" / "checkpoint-12", finished / "output" / "run" / "checkpoint-12")


def test_the_limit_spares_the_checkpoint_just_written_and_not_a_damaged_one_of_a_later_step(
    finished: Path, tmp_path: Path
) -> None:
    output = tmp_path / "output"
    shutil.copytree(finished / "output" / "run", output / "run")
    for step in (12, 8):
        empty(output / "run" / f"checkpoint-{step}" / "scheduler.pt")
    options = {"train_file": finished / "corpus.txt", "cache_dir": finished / "cache", "save_total_limit": 1}
    main(flags(tmp_path, **FAST, **options, resume_from_checkpoint="true", max_steps=6))
    whole = [path.name for path in (output / "run").glob("checkpoint-*") if damage(path) is None]
    assert whole == ["checkpoint-6"]


def test_the_best_checkpoint_is_recorded_under_its_final_name(finished: Path, tmp_path: Path) -> None:
    options = {"train_file": finished / "corpus.txt", "cache_dir": finished / "cache"}
    best = {"load_best_model_at_end": True, "metric_for_best_model": "eval_loss", "learning_rate": 0.0}
    main(
        flags(
            tmp_path,
            **{**FAST, "eval_strategy": "steps", "validation_fraction": 0.2},
            **options,
            **best,
            eval_steps=4,
            save_total_limit=1,
        )
    )
    run = tmp_path / "output" / "run"
    assert {path.name for path in run.glob("checkpoint-*")} == {"checkpoint-4", "checkpoint-12"}
    for checkpoint in run.glob("checkpoint-*"):
        assert f'"best_model_checkpoint": "{run / "checkpoint-4"}"' in (checkpoint / "trainer_state.json").read_text()
