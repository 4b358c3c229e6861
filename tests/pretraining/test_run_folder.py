"""Where runs go and what is resumed: nothing is overwritten, and what does not fit is named."""

import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from transformers import PreTrainedTokenizerBase

from electra.errors import UserError
from electra.model.modeling import ElectraForJointPretraining
from electra.pretraining.agreement import check_same_architecture, check_same_tokenizer, check_steps
from electra.pretraining.options import config_of_resumed_run, parse_arguments
from electra.pretraining.run_folder import (
    find_checkpoint,
    new_run_folder,
    open_run,
    save_options,
)
from tests.pretraining.runs import flags

MakePair = Callable[..., ElectraForJointPretraining]


def make_checkpoint(run: Path, step: int, *, without: str = "") -> Path:
    """The files by which a checkpoint is known to be whole."""
    checkpoint = run / f"checkpoint-{step}"
    checkpoint.mkdir(parents=True)
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
        torch.save({"a": torch.zeros(3)}, checkpoint / name)
    save_file({"a": torch.zeros(3)}, checkpoint / "model.safetensors")
    (checkpoint / "trainer_state.json").write_text(f'{{"global_step": {step}}}')
    if without:
        (checkpoint / without).unlink()
    return checkpoint


# ---- a new folder


def test_a_run_gets_a_folder_of_its_name_and_the_next_ones_a_number(tmp_path: Path) -> None:
    output = tmp_path / "not" / "there" / "yet"
    for expected in ("run", "run-2", "run-3"):
        folder = new_run_folder(str(output), "run")
        assert folder == output / expected and not folder.exists()
        folder.mkdir()
        (folder / "precious").touch()
    assert new_run_folder(str(output), "other") == output / "other"
    assert new_run_folder(str(output), "run-2") == output / "run-2-2"


def test_an_empty_folder_is_used_and_one_with_anything_in_it_is_not(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".hidden").touch()
    (tmp_path / "run-2").mkdir()
    assert new_run_folder(str(tmp_path), "run") == tmp_path / "run-2"


def test_a_file_of_the_runs_name_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("precious")
    assert new_run_folder(str(tmp_path), "run") == tmp_path / "run-2"
    assert (tmp_path / "run").read_text() == "precious"


@pytest.mark.parametrize("is_there_and_empty", [False, True])
def test_runs_that_start_together_get_a_folder_each(tmp_path: Path, is_there_and_empty: bool) -> None:
    if is_there_and_empty:
        (tmp_path / "run").mkdir()
    with ThreadPoolExecutor(8) as pool:
        folders = list(pool.map(lambda _: new_run_folder(str(tmp_path), "run"), range(8)))
    assert sorted(f.name for f in folders) == ["run", *(f"run-{n}" for n in range(2, 9))]


def test_a_run_that_ends_before_it_began_leaves_its_folder_free(tmp_path: Path) -> None:
    code = f"from electra.pretraining.run_folder import new_run_folder as f; f({str(tmp_path)!r}, 'run'); exit(2)"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2]).returncode == 2
    assert [path.name for path in tmp_path.iterdir()] == [".run.lock"]
    assert new_run_folder(str(tmp_path), "run") == tmp_path / "run"


@pytest.mark.parametrize("below", ["file", "file/below"])
def test_an_output_folder_that_cannot_be_written_is_the_users_error(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match=r"cannot write to --output_dir .*file.*; name another folder"):
        new_run_folder(str(tmp_path / below), "run")


@pytest.mark.parametrize("name", ["", "a/b", "/tmp/a", "..", ".", "a/"])
def test_a_name_that_is_no_folder_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="must be a plain folder name"):
        new_run_folder(str(tmp_path), name)
    assert list(tmp_path.iterdir()) == []


def test_a_name_too_long_for_the_file_system_is_the_users_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot write to"):
        new_run_folder(str(tmp_path), "a" * 300)


# ---- what is resumed


@pytest.mark.parametrize("word", ["true", "True", "last", "yes", "1"])
def test_the_newest_checkpoint_of_the_run_is_found_by_number(tmp_path: Path, word: str) -> None:
    for step in (900, 1000, 2):
        make_checkpoint(tmp_path / "run", step)
    (tmp_path / "run" / "checkpoint-bad").mkdir()
    assert find_checkpoint(word, str(tmp_path), "run") == tmp_path / "run" / "checkpoint-1000"


def test_a_checkpoint_and_a_run_can_be_named(tmp_path: Path) -> None:
    run = tmp_path / "elsewhere"
    older, newer = make_checkpoint(run, 4), make_checkpoint(run, 8)
    assert find_checkpoint(str(older), "output", "run") == older
    assert find_checkpoint(str(run), "output", "run") == newer


def test_what_cannot_be_resumed_is_the_users_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"there is no folder {tmp_path}/run"):
        find_checkpoint("true", str(tmp_path), "run")
    with pytest.raises(UserError, match=r"there is no folder .*nowhere"):
        find_checkpoint("nowhere", str(tmp_path), "run")
    (tmp_path / "run").mkdir()
    with pytest.raises(UserError, match="run holds no checkpoint-N"):
        find_checkpoint("true", str(tmp_path), "run")
    with pytest.raises(UserError, match="run holds no checkpoint-N"):
        find_checkpoint(str(tmp_path / "run"), "output", "other")


@pytest.mark.parametrize(
    "missing", ["trainer_state.json", "scheduler.pt", "optimizer.pt", "model.safetensors", "rng_state.pth"]
)
def test_a_checkpoint_without_a_manifest_must_have_all_files(
    tmp_path: Path, missing: str, caplog: pytest.LogCaptureFixture
) -> None:
    older = make_checkpoint(tmp_path / "run", 4)
    broken = make_checkpoint(tmp_path / "run", 8, without=missing)
    with pytest.raises(UserError, match=f"checkpoint-8 has no {missing}: it was not written to its end"):
        find_checkpoint(str(broken), str(tmp_path), "run")
    with caplog.at_level("WARNING", logger="electra"):
        assert find_checkpoint("true", str(tmp_path), "run") == older
    assert f"passing over {broken}: it has no {missing}" in caplog.text
    assert find_checkpoint(str(tmp_path / "run"), "output", "other") == older


@pytest.mark.parametrize("kept", [0.0, 0.5])
@pytest.mark.parametrize(
    "name", ["model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json"]
)
def test_with_no_whole_checkpoint_left_the_error_names_what_is_wrong(tmp_path: Path, name: str, kept: float) -> None:
    path = make_checkpoint(tmp_path / "run", 4) / name
    path.write_bytes(path.read_bytes()[: int(kept * path.stat().st_size)])
    with pytest.raises(UserError, match=f"no checkpoint of .* is whole: checkpoint-4 is damaged: {name}") as error:
        find_checkpoint("true", str(tmp_path), "run")
    assert "\n" not in str(error.value)


def test_a_run_is_not_resumed_for_fewer_steps_than_it_has(tmp_path: Path) -> None:
    checkpoint = make_checkpoint(tmp_path / "run", 12)
    check_steps(checkpoint, 12)
    with pytest.raises(UserError, match="is at step 12, beyond --max_steps 6"):
        check_steps(checkpoint, 6)


def test_another_tokenizer_than_the_checkpoints_is_refused(
    tmp_path: Path, wordpiece_tokenizer: PreTrainedTokenizerBase, number_tokenizer: PreTrainedTokenizerBase
) -> None:
    wordpiece_tokenizer.save_pretrained(tmp_path)
    check_same_tokenizer(wordpiece_tokenizer, tmp_path)
    with pytest.raises(UserError, match=rf"\(6000 tokens\) is not the one of .*\({len(wordpiece_tokenizer)} tokens\)"):
        check_same_tokenizer(number_tokenizer, tmp_path)


def test_another_architecture_than_the_checkpoints_is_refused_with_the_differences(
    tmp_path: Path, make_pair: MakePair
) -> None:
    make_pair().save_pretrained(tmp_path)
    check_same_architecture(make_pair(), tmp_path)
    check_same_architecture(make_pair(mlm_probability=0.3, discriminator_weight=1.0), tmp_path)  # no sizes
    with pytest.raises(UserError) as error:
        check_same_architecture(make_pair(hidden_size=64), tmp_path)
    message = str(error.value)
    assert str(tmp_path) in message
    assert "discriminator.hidden_size is 32 there and 64 here" in message
    assert "generator.hidden_size is 16 there and 32 here" in message
    assert "vocab_size" not in message


def test_another_objective_than_the_checkpoints_is_refused_by_name(tmp_path: Path, make_pair: MakePair) -> None:
    make_pair(objective="mlm").save_pretrained(tmp_path)
    check_same_architecture(make_pair(objective="mlm"), tmp_path)
    with pytest.raises(UserError, match="was trained with --objective mlm, not electra_15; leave --objective out"):
        check_same_architecture(make_pair(objective="electra_15"), tmp_path)
    make_pair().save_pretrained(tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    assert values.pop("objective") == "electra"
    (tmp_path / "config.json").write_text(json.dumps(values))  # of a run before there were others
    check_same_architecture(make_pair(), tmp_path)
    with pytest.raises(UserError, match="was trained with --objective electra, not replace_mlm"):
        check_same_architecture(make_pair(objective="replace_mlm"), tmp_path)


def test_sizes_that_transformers_has_as_defaults_are_compared_too(tmp_path: Path, make_pair: MakePair) -> None:
    make_pair(hidden_size=256).save_pretrained(tmp_path)  # 256 is ElectraConfig's own default
    with pytest.raises(UserError, match=r"discriminator\.hidden_size is 256 there and 32 here"):
        check_same_architecture(make_pair(), tmp_path)


@pytest.mark.parametrize("content", [None, "{not json"])
def test_a_checkpoint_without_a_readable_configuration_is_refused(
    tmp_path: Path, make_pair: MakePair, content: str | None
) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(UserError, match=r"holds no readable config\.json"):
        check_same_architecture(make_pair(), tmp_path)


def test_the_options_of_a_resumed_run_are_found_from_checkpoint_run_and_name(tmp_path: Path) -> None:
    run = tmp_path / "output" / "run"
    checkpoint = make_checkpoint(run, 4)
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
    run = tmp_path / "output" / "run"
    checkpoint = make_checkpoint(run, 4)
    where = [f"--output_dir={tmp_path / 'output'}", "--experiment_name=run"]
    (run / "config.yaml").write_text("\n".join(f.removeprefix("--").replace("=", ": ", 1) for f in flags(tmp_path)))
    resumed = parse_arguments([*resume, *where, "--learning_rate=3e-3", "--seed=7"])
    assert resumed.corpus == args.corpus and resumed.model == args.model and resumed.segments == args.segments
    assert (resumed.training.learning_rate, resumed.training.seed) == (3e-3, 7)
    assert open_run(resumed).checkpoint == str(checkpoint)


# ---- opening, and what is written


def test_a_run_writes_below_its_folder_and_its_options_can_be_read_back(
    tmp_path: Path, wordpiece_tokenizer: PreTrainedTokenizerBase
) -> None:
    args = parse_arguments(flags(tmp_path, learning_rate=3e-3, dataset_sampling=0.5, cased="true"))
    (tmp_path / "output" / "run").mkdir(parents=True)
    (tmp_path / "output" / "run" / "taken").touch()
    run = open_run(args)
    assert run.folder == tmp_path / "output" / "run-2" and run.checkpoint is None
    assert args.training.output_dir == str(run.folder) and args.training.run_name == "run-2"
    save_options(args, run, wordpiece_tokenizer)
    assert {path.name for path in run.folder.iterdir()} == {"config.yaml", "tokenizer"}
    assert (run.folder / "tokenizer" / "tokenizer.json").is_file()
    again = parse_arguments(["--config", str(run.folder / "config.yaml")])
    for group in ("corpus", "tokenizer", "model", "objective", "segments"):
        assert getattr(again, group) == getattr(args, group)
    assert (again.training.learning_rate, again.training.max_steps) == (3e-3, 12)
    assert again.training.output_dir == str(tmp_path / "output") and again.training.experiment_name == "run"


def test_a_resumed_run_continues_in_its_folder_and_keeps_its_tokenizer(
    tmp_path: Path, wordpiece_tokenizer: PreTrainedTokenizerBase
) -> None:
    checkpoint = make_checkpoint(tmp_path / "output" / "run", 4)
    args = parse_arguments(flags(tmp_path, resume_from_checkpoint="true"))
    run = open_run(args)
    assert (run.folder, run.checkpoint) == (checkpoint.parent, str(checkpoint))
    assert args.training.output_dir == str(checkpoint.parent)
    save_options(args, run, wordpiece_tokenizer)
    assert {path.name for path in run.folder.iterdir()} == {"checkpoint-4", "config.yaml"}
    assert "resume_from_checkpoint" not in (run.folder / "config.yaml").read_text()


@pytest.mark.parametrize("word", ["false", "no", "0"])
def test_resuming_can_be_switched_off(tmp_path: Path, word: str) -> None:
    make_checkpoint(tmp_path / "output" / "run", 4)
    run = open_run(parse_arguments(flags(tmp_path, resume_from_checkpoint=word)))
    assert run.folder.name == "run-2" and run.checkpoint is None


def test_opening_a_run_that_cannot_be_resumed_makes_no_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nothing to resume"):
        open_run(parse_arguments(flags(tmp_path, resume_from_checkpoint="true")))
    assert not (tmp_path / "output").exists()
