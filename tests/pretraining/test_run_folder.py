"""Where runs go and what is resumed: nothing is overwritten, and what does not fit is refused."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerBase

from electra.checkpoint import recording
from electra.errors import UserError
from electra.pretraining.options import config_of_resumed_run, parse_arguments
from electra.pretraining.resume import check_steps
from electra.pretraining.run_folder import find_checkpoint, new_run_folder, open_run, save_options, start_or_continue
from tests.pretraining.runs import flags
from tests.test_checkpoint import write_checkpoint

# ---- a new folder


def test_a_run_gets_a_folder_of_its_name_and_the_next_ones_a_number(tmp_path: Path) -> None:
    output = tmp_path / "not" / "there" / "yet"
    for expected in ("run", "run-2", "run-3"):
        folder = new_run_folder(str(output), "run")
        assert folder == output / expected and not folder.exists()
        folder.mkdir()
        (folder / ".hidden").touch()
    assert new_run_folder(str(output), "other") == output / "other"
    assert new_run_folder(str(output), "run-2") == output / "run-2-2"


def test_an_empty_folder_is_used_and_a_file_of_the_runs_name_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("precious")
    (tmp_path / "run-2").mkdir()
    assert new_run_folder(str(tmp_path), "run") == tmp_path / "run-2"
    assert (tmp_path / "run").read_text() == "precious"


@pytest.mark.parametrize("is_there_and_empty", [False, True])
def test_runs_that_start_together_get_a_folder_each(tmp_path: Path, is_there_and_empty: bool) -> None:
    if is_there_and_empty:
        (tmp_path / "run").mkdir()
    with ThreadPoolExecutor(8) as pool:
        folders = list(pool.map(lambda _: new_run_folder(str(tmp_path), "run"), range(8)))
    assert sorted(f.name for f in folders) == ["run", *(f"run-{n}" for n in range(2, 9))]


def test_a_process_that_ends_leaves_its_folder_free(tmp_path: Path) -> None:
    code = f"from electra.pretraining.run_folder import new_run_folder as f; f({str(tmp_path)!r}, 'run'); exit(2)"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2]).returncode == 2
    assert [path.name for path in tmp_path.iterdir()] == [".run.lock"]
    assert new_run_folder(str(tmp_path), "run") == tmp_path / "run"


@pytest.mark.parametrize(("below", "name"), [("file", "run"), ("file/below", "run"), ("folder", "a" * 300)])
def test_a_folder_that_cannot_be_written_is_the_users_error(tmp_path: Path, below: str, name: str) -> None:
    (tmp_path / "file").write_text("in the way")
    for start in (new_run_folder, lambda output, name: start_or_continue(output, name, 12)):
        with pytest.raises(UserError, match="--output_dir"):
            start(str(tmp_path / below), name)


@pytest.mark.parametrize("name", ["", "a/b", "/tmp/a", "..", ".", "a/"])
def test_a_name_that_is_not_a_folder_name_is_refused(tmp_path: Path, name: str) -> None:
    for start in (new_run_folder, lambda output, name: start_or_continue(output, name, 12)):
        with pytest.raises(UserError, match="--experiment_name"):
            start(str(tmp_path), name)
    assert list(tmp_path.iterdir()) == []


# ---- what is resumed


@pytest.mark.parametrize("content", ["seed: 7\n", "seed: 4"])
def test_damaged_or_edited_options_of_a_run_are_not_used_unless_they_are_named(tmp_path: Path, content: str) -> None:
    config = tmp_path / "config.yaml"
    with recording(tmp_path, config.name):
        config.write_text("seed: 42\n")
    resume = f"--resume_from_checkpoint={tmp_path}"
    assert parse_arguments([resume]).training.seed == 42
    config.write_text(content)
    with pytest.raises(UserError, match=rf"{tmp_path}: config\.yaml .*--config"):
        parse_arguments([resume])
    assert parse_arguments([resume, f"--config={config}"]).training.seed == int(content[6:])


def test_a_checkpoint_a_run_and_a_word_can_be_named(tmp_path: Path) -> None:
    run = tmp_path / "run"
    older, newer = write_checkpoint(run, 4), write_checkpoint(run, 8)
    assert find_checkpoint(str(older), "output", "other") == older
    assert find_checkpoint(str(run), "output", "other") == newer
    for word in ("true", "True", "last", "yes", "1"):
        assert find_checkpoint(word, str(tmp_path), "run") == newer
    (newer / "optimizer.pt").unlink()
    assert find_checkpoint("true", str(tmp_path), "run") == older
    with pytest.raises(UserError, match=r"checkpoint-8 .*optimizer\.pt"):
        find_checkpoint(str(newer), "", "")


def test_what_cannot_be_resumed_is_the_users_error(tmp_path: Path) -> None:
    for name, expected in (("true", f"{tmp_path}/run"), ("nowhere", "nowhere")):
        with pytest.raises(UserError, match=rf"no folder .*{expected}"):
            find_checkpoint(name, str(tmp_path), "run")
    with pytest.raises(UserError, match="nothing to resume"):
        open_run(parse_arguments(flags(tmp_path, resume_from_checkpoint="true")))
    assert not (tmp_path / "output").exists()
    with pytest.raises(UserError, match="--resume_from_checkpoint"):
        parse_arguments(flags(tmp_path, auto_resume=True, resume_from_checkpoint="somewhere"))


def test_a_run_is_not_resumed_for_fewer_steps_than_it_has(tmp_path: Path) -> None:
    checkpoint = write_checkpoint(tmp_path / "run", 12)
    check_steps(checkpoint, 12)
    with pytest.raises(UserError, match=r"12, .*--max_steps 6"):
        check_steps(checkpoint, 6)


def test_the_options_of_a_resumed_run_are_found_from_checkpoint_run_and_name(tmp_path: Path) -> None:
    run = tmp_path / "output" / "run"
    checkpoint = write_checkpoint(run, 4)
    names = [str(checkpoint), f"{checkpoint}/", str(run), "true"]
    where = str(tmp_path / "output"), "run"
    assert [config_of_resumed_run(name, *where) for name in names] == [None] * 4
    (run / "config.yaml").write_text("seed: 1")
    assert [config_of_resumed_run(name, *where) for name in names] == [str(run / "config.yaml")] * 4
    for name in ("false", str(tmp_path / "nowhere"), str(run / "config.yaml")):
        assert config_of_resumed_run(name, *where) is None
    assert config_of_resumed_run("true", str(tmp_path / "output"), "other") is None
    assert config_of_resumed_run("true", str(tmp_path / "output"), None) is None
    assert config_of_resumed_run(str(run), str(tmp_path / "output"), None) == str(run / "config.yaml")


@pytest.mark.parametrize(
    "resume", [["--resume_from_checkpoint"], ["--resume_from_checkpoint=true"], ["--resume_from_checkpoint", "last"]]
)
def test_resuming_by_name_alone_takes_the_options_of_that_run(tmp_path: Path, resume: list[str]) -> None:
    args = parse_arguments(flags(tmp_path, learning_rate=3e-3, seed=7))
    checkpoint = write_checkpoint(tmp_path / "output" / "run", 4)
    where = [f"--output_dir={tmp_path / 'output'}", "--experiment_name=run"]
    lines = (flag.removeprefix("--").replace("=", ": ", 1) for flag in flags(tmp_path))
    (checkpoint.parent / "config.yaml").write_text("\n".join(lines))
    resumed = parse_arguments([*resume, *where, "--learning_rate=3e-3", "--seed=7"])
    assert resumed.corpus == args.corpus and resumed.model == args.model and resumed.segments == args.segments
    assert (resumed.training.learning_rate, resumed.training.seed) == (3e-3, 7)
    assert open_run(resumed).checkpoint == str(checkpoint)


def test_a_run_without_a_checkpoint_starts_again_in_its_folder(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "unfinished" / "checkpoint-4").mkdir(parents=True)
    (run / "config.yaml").write_text("seed: 1")
    opened = start_or_continue(str(tmp_path), "run", 12)
    assert (opened.folder, opened.checkpoint, opened.is_finished) == (run, None, False)
    assert not (run / "unfinished").exists()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "precious").touch()
    with pytest.raises(UserError, match=r"config\.yaml"):
        start_or_continue(str(tmp_path), "other", 12)


# ---- opening, and what is written


def test_a_run_writes_below_its_folder_and_its_options_can_be_read_back(
    tmp_path: Path, wordpiece_tokenizer: PreTrainedTokenizerBase
) -> None:
    args = parse_arguments(flags(tmp_path, learning_rate=3e-3, dataset_sampling=0.5, cased="true"))
    (tmp_path / "output" / "run").mkdir(parents=True)
    (tmp_path / "output" / "run" / "taken").touch()
    run = open_run(args)
    assert run.folder == tmp_path / "output" / "run-2" and run.checkpoint is None
    assert run.folder == tmp_path / "output" / "run-2"
    save_options(args, run, wordpiece_tokenizer)
    assert {path.name for path in run.folder.iterdir()} == {"config.yaml", "manifest.json", "tokenizer"}
    assert (run.folder / "tokenizer" / "tokenizer.json").is_file()
    again = parse_arguments(["--config", str(run.folder / "config.yaml")])
    for group in ("corpus", "tokenizer", "model", "objective", "segments"):
        assert getattr(again, group) == getattr(args, group)
    assert (again.training.learning_rate, again.training.max_steps) == (3e-3, 12)
    assert again.training.output_dir == str(tmp_path / "output") and again.training.experiment_name == "run"


@pytest.mark.parametrize("word", ["false", "no", "0"])
def test_resuming_can_be_switched_off(tmp_path: Path, word: str) -> None:
    write_checkpoint(tmp_path / "output" / "run", 4)
    run = open_run(parse_arguments(flags(tmp_path, resume_from_checkpoint=word)))
    assert run.folder.name == "run-2" and run.checkpoint is None


@pytest.mark.parametrize("has_ended", [False, True])
@pytest.mark.parametrize("max_steps", [4, 12])
def test_results_of_an_earlier_end_are_moved_if_there_are_steps_left(
    tmp_path: Path, wordpiece_tokenizer: PreTrainedTokenizerBase, max_steps: int, has_ended: bool
) -> None:
    run = write_checkpoint(tmp_path / "output" / "run", 4).parent
    written = {"report.html", "training_curves.png"}
    if has_ended:
        written |= {"metrics.json", "samples.json", "trainer_state.json", "discriminator"}
        (run / "discriminator").mkdir()
    for name in written - {"discriminator"}:
        (run / name).write_text('{"global_step": 4}')
    args = parse_arguments(flags(tmp_path, resume_from_checkpoint="true", max_steps=max_steps))
    opened = open_run(args)
    assert (opened.folder, opened.checkpoint) == (run, str(run / "checkpoint-4"))
    save_options(args, opened, wordpiece_tokenizer)
    assert "resume_from_checkpoint" not in (run / "config.yaml").read_text()
    left = {path.name for path in run.iterdir()} - {"superseded"}
    are_moved = has_ended and max_steps > 4
    assert left == {"checkpoint-4", "config.yaml", "manifest.json"} | (set() if are_moved else written)
    assert {path.name for path in run.glob("superseded/step-4/*")} == (written if are_moved else set())
