"""A full disk, a read-only one, one that is gone: one line, exit code 2, and the last checkpoint stays.

The disks are real: a small tmpfs, a read-only bind mount, a limit on the size of files. Mounts need root.
"""

import os
import re
import resource
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from electra.checkpoint import find_checkpoint_corruption
from electra.errors import UserError
from electra.pretraining.resources import DiskUse, missing_disk
from run_pretraining import main
from tests.bad_input.commands import PRETRAIN, TOKENIZER, refused
from tests.pretraining.runs import FAST, flags, write_corpus
from train_tokenizer import main as train_tokenizer

Mount = Callable[..., Path]


@pytest.fixture
def mount() -> Iterator[Mount]:
    """`mount(folder, size)`: a tmpfs of so many bytes on a folder; without a size the folder becomes read-only."""
    mounted: list[Path] = []

    def do(folder: Path, size: int | None = None) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        kinds = [["-t", "tmpfs", "-o", f"size={size}", "tmpfs"]] if size else [["--bind", str(folder)]]
        kinds += [] if size else [["-o", "remount,ro,bind"]]
        for kind in kinds:
            if subprocess.run(["mount", *kind, str(folder)], capture_output=True).returncode:
                pytest.skip("no right to mount anything here")
            if folder not in mounted:
                mounted.append(folder)
        return folder

    yield do
    for folder in mounted:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """No file can become larger, as if the disk ended there. What is said must not go to a file meanwhile: capsys."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


# ---- before the run


def test_what_is_missing_counts_what_is_there_and_the_checkpoint_on_its_way(tmp_path: Path, mount: Mount) -> None:
    disk = mount(tmp_path / "disk", 1_048_576)
    use = DiskUse(cache=10**12, checkpoint=100_000, checkpoints=8, networks=150_000)  # 9 at once: 1,050,000
    assert missing_disk(use, disk / "run" / "not" / "yet") is not None
    assert missing_disk(use._replace(networks=140_000), disk / "run") is None
    (disk / "run" / "checkpoint-2").mkdir(parents=True)
    assert missing_disk(use, disk / "run") is None  # seven are to come
    (disk / "filler").write_bytes(b"x" * 500_000)
    line = missing_disk(use, disk / "run")
    assert line is not None and re.search(r"run needs 950\.0 kB more.* has 5\d\d\.\d kB left; make room", line)


def test_a_run_that_cannot_fit_is_refused_before_it_begins_and_a_plan_says_so(
    folder: Path, mount: Mount, capsys: pytest.CaptureFixture[str]
) -> None:
    mount(folder / "output", 700_000)
    many = {**FAST, "max_steps": 40, "save_steps": 4}
    with pytest.raises(UserError, match=r"run needs 9\d\d\.\d kB more, .* has 70\d\.\d kB left; make room"):
        main(flags(folder, **many))
    assert not (folder / "output" / "run").exists()
    main(flags(folder, **many, plan=True))
    assert "kB left; make room" in capsys.readouterr().out
    main(flags(folder, **many, save_total_limit=1))
    assert [path.name for path in (folder / "output").glob("run*/checkpoint-*")] == ["checkpoint-40"]


def test_too_little_room_for_the_token_cache_is_said_before_and_the_failure_is_one_line(
    folder: Path, mount: Mount, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = folder / "tok"
    train_tokenizer([f"--train_file={folder}/corpus.txt", "--vocab_size=120", f"--output_dir={tokenizer}"])
    size = write_corpus(folder / "corpus.txt", documents=3000).stat().st_size
    assert 500_000 < size < 700_000
    mount(folder / "cache", 200_000)
    with pytest.raises(UserError, match=r"cannot write the token cache to .*cache: .*No space left"):
        main(flags(folder, **FAST, tokenizer_path=tokenizer))
    said = capsys.readouterr().out
    assert f"about {size / 2e3:.1f} kB" in said and "cache has 20" in said
    assert [path.suffix for path in (folder / "cache").iterdir()] == [".lock"]


# ---- in the run


def test_a_disk_that_fills_up_ends_the_run_with_the_last_checkpoint(
    folder: Path, mount: Mount, capsys: pytest.CaptureFixture[str]
) -> None:
    mount(folder / "output", 2_000_000)
    run, end = folder / "output" / "run", threading.Event()

    def fill() -> None:
        while not (run / "checkpoint-4").is_dir() and not end.wait(0.002):
            pass
        with suppress(OSError), open(folder / "output" / "filler", "wb", buffering=0) as file:
            while not end.is_set():
                file.write(b"x" * 4096)
        end.wait()

    thread = threading.Thread(target=fill)
    thread.start()
    line = refused(PRETRAIN, flags(folder, **FAST, max_steps=4000, logging_steps=4000, save_total_limit=2), capsys)
    end.set()
    thread.join()
    assert re.match(rf"error: cannot write {run}/unfinished/checkpoint-\d+(/[\w.]+)?: ", line), line
    left = [path for path in run.glob("checkpoint-*") if find_checkpoint_corruption(path) is None]
    assert f"the last good checkpoint is {run}/checkpoint-" in line and Path(line.rpartition(" ")[2]) in left
    assert not (run / "unfinished").exists()


@pytest.mark.parametrize(("what", "limit"), [("token cache", 4096), ("tokenizer", 1000)])
def test_a_cache_that_cannot_be_written_is_one_line(
    folder: Path, what: str, limit: int, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = None
    if what == "token cache":
        tokenizer = folder / "tok"
        train_tokenizer([f"--train_file={folder}/corpus.txt", "--vocab_size=120", f"--output_dir={tokenizer}"])
    with files_up_to(limit):
        line = refused(PRETRAIN, flags(folder, **FAST, tokenizer_path=tokenizer), capsys)
    assert line.startswith(f"error: cannot write the {what} to {folder}/cache")
    assert [path.name for path in (folder / "cache").iterdir() if path.suffix != ".lock"] == []
    assert not (folder / "output" / "run").exists()


def test_a_tokenizer_that_cannot_be_written_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = [f"--train_file={folder}/corpus.txt", "--vocab_size=120", f"--output_dir={folder}/tok"]
    with files_up_to(1000):
        line = refused(TOKENIZER, argv, capsys)
    assert line.startswith(f"error: cannot write the tokenizer to {folder}/tok: ") and "name another folder" in line
    assert [path.name for path in folder.iterdir() if path.suffix != ".lock"] == ["corpus.txt"]


@pytest.mark.parametrize("below", ["output", "cache"])
def test_a_read_only_folder_is_named(
    folder: Path, mount: Mount, below: str, capsys: pytest.CaptureFixture[str]
) -> None:
    mount(folder / below)
    line = refused(PRETRAIN, flags(folder, **FAST), capsys)
    if below == "output":
        assert f"cannot write to --output_dir {folder}/output: " in line
    else:
        assert f"cannot write the tokenizer to {folder}/cache: " in line
    assert "Read-only file system" in line and "name another" in line


def test_an_export_that_cannot_be_written_names_its_file_and_keeps_the_checkpoint(
    folder: Path, mount: Mount, capsys: pytest.CaptureFixture[str]
) -> None:
    main(flags(folder, **FAST))
    run = folder / "output" / "run"
    (run / "metrics.json").unlink()
    before = (run / "generator" / "model.safetensors").read_bytes()
    mount(run / "discriminator.unfinished", 8192)
    line = refused(PRETRAIN, flags(folder, **FAST, auto_resume=True), capsys)
    assert f"cannot write {run}/discriminator.unfinished/model.safetensors: " in line
    assert line.endswith(f"the last good checkpoint is {run}/checkpoint-12")
    assert find_checkpoint_corruption(run / "checkpoint-12") is None and not (run / "metrics.json").exists()
    assert (run / "generator" / "model.safetensors").read_bytes() == before
    assert not (run / "generator.unfinished").exists()


@pytest.mark.parametrize("is_back", [False, True])
def test_a_run_whose_folder_is_gone_ends_and_does_not_make_it_anew(
    folder: Path, is_back: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    run, end = folder / "output" / "run", threading.Event()

    def take_away() -> None:
        while not (run / "checkpoint-4").is_dir() and not end.wait(0.002):
            pass
        os.rename(run, folder / "gone")  # at one stroke, as a mount goes
        if is_back:
            run.mkdir()

    thread = threading.Thread(target=take_away)
    thread.start()
    line = refused(PRETRAIN, flags(folder, **FAST, max_steps=4000, logging_steps=4000), capsys)
    end.set()
    thread.join()
    assert re.search(rf"{run} is not the folder in which the run started: .* step \d+ is not saved", line)
    assert run.exists() == is_back and not (is_back and any(run.iterdir()))
    assert find_checkpoint_corruption(folder / "gone" / "checkpoint-4") is None
