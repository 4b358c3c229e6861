"""Runs that are stopped, damaged, resumed and extended: they end like an uninterrupted one, bit for bit."""

import os
import shutil
from pathlib import Path

import pytest
import torch
import yaml
from pytest import approx, raises

from electra.base.checkpoints import find_damage, write_manifest
from electra.core.backbones import BACKBONES
from electra.core.errors import UserError
from electra.pretraining.run import main
from electra.report.metrics import make_panels
from electra.report.page import write_run_report
from electra.report.runs import read_run
from tests.conftest import refused, refused_command
from tests.helpers import contents, files_up_to, parametrize, read_json, run
from tests.pretraining.runs import FAST, assert_same_state, flags, history, write_corpus

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder with a corpus and output/run, a finished run with checkpoints 4, 8 and 12."""
    folder = tmp_path_factory.mktemp("finished")
    write_corpus(folder / "corpus.txt")
    main(flags(folder, **FAST))
    return folder


@pytest.fixture
def folder(tmp_path):
    """A folder for a new run, with a corpus."""
    write_corpus(tmp_path / "corpus.txt")
    return tmp_path


class Copy:
    """A copy of the finished run, and the command line that resumes it."""

    def __init__(self, finished, folder):
        self.finished = finished
        self.folder = folder
        self.run = folder / "output" / "run"
        shutil.copytree(finished / "output" / "run", self.run)

    def flags(self, **options):
        """Return the command line that resumes the copy, with these options."""
        shared = {"train_file": self.finished / "corpus.txt", "cache_dir": self.finished / "cache"}
        start = {} if "resume_from_checkpoint" in options else {"auto_resume": True}
        return flags(self.folder, **{**FAST, **shared, **start, **options})

    def resume(self, **options):
        """Resume the copy in this process."""
        main(self.flags(**options))

    def steps(self):
        """Return the steps of its checkpoints."""
        return {int(path.name.removeprefix("checkpoint-")) for path in self.run.glob("checkpoint-*")}

    def assert_equals_the_finished(self):
        """Check that the copy ended as the finished run, bit for bit."""
        assert_same_state(self.run / "checkpoint-12", self.finished / "output" / "run" / "checkpoint-12")


@pytest.fixture
def copy(finished, tmp_path):
    """A copy of the finished run, which a test may change."""
    return Copy(finished, tmp_path)


@parametrize(
    "options",
    [
        {"dataloader_num_workers": 2, "gradient_accumulation_steps": 2, "segment_policy": "packed"},
        {"adam_bias_correction": "false", "product_schedule": "true", "segment_policy": "google"},
        {"bf16": "true", "segment_policy": "pairs", "logging_steps": 3},
    ],
    ids=str,
)
def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(folder, options):
    if options["segment_policy"] == "packed":  # documents of which two share a row
        write_corpus(folder / "corpus.txt", documents=150, words=3)
    main(flags(folder, experiment_name="whole", **options))
    whole = folder / "output" / "whole"
    resumed = folder / "output" / "resumed"
    resumed.mkdir()
    (whole / "checkpoint-8").rename(resumed / "checkpoint-8")  # past the first epoch of some of these
    main(flags(folder, experiment_name="resumed", resume_from_checkpoint=resumed / "checkpoint-8", **options))
    assert_same_state(whole / "checkpoint-12", resumed / "checkpoint-12")
    metrics = [read_json(run / "metrics.json")["held_out"] for run in (whole, resumed)]
    assert metrics[0] == metrics[1]
    logs = [[line for line in history(run / "checkpoint-12") if "loss" in line] for run in (whole, resumed)]
    for line, resumed_line in zip(*logs, strict=True):
        names = line.keys() - {"tokens_per_second", "eta_seconds"}
        if line["step"] == 9:  # its window began before the stop
            names = {"tokens_seen", "epoch", "learning_rate", "grad_norm"}
        assert {name: line[name] for name in names} == {name: resumed_line[name] for name in names}


def test_the_same_command_starts_resumes_finds_the_end_and_extends(copy, capsys):
    shutil.rmtree(copy.run)
    with raises(SystemExit) as stopped:
        copy.resume(max_hours=1e-9)
    assert stopped.value.code == 85
    assert copy.steps() == {1}
    copy.resume()
    copy.assert_equals_the_finished()
    written = {path: path.stat().st_mtime_ns for path in copy.run.rglob("*")}
    copy.resume()
    assert {path: path.stat().st_mtime_ns for path in copy.run.rglob("*")} == written
    copy.resume(max_steps=14, per_device_train_batch_size=2, gradient_accumulation_steps=2)  # the same batch
    assert "max_steps 14 instead of 12" in capsys.readouterr().out
    assert find_damage(copy.run / "checkpoint-14") is None
    assert [line["step"] for line in history(copy.run / "checkpoint-14") if "loss" in line] == [4, 8, 12]
    assert [path.name for path in copy.run.parent.iterdir() if path.name.startswith("run")] == ["run"]


def test_a_run_resumed_over_a_damaged_checkpoint_ends_alike(copy):
    os.truncate(copy.run / "checkpoint-12" / "model.safetensors", 0)
    (copy.run / "unfinished" / "checkpoint-9").mkdir(parents=True)
    copy.resume(resume_from_checkpoint=copy.run, save_total_limit=1)
    assert copy.steps() == {12}
    assert not (copy.run / "unfinished").exists()
    copy.assert_equals_the_finished()


def test_a_finished_run_needs_no_checkpoint_unless_extended(copy):
    before = (copy.run / "discriminator" / "model.safetensors").stat().st_mtime_ns
    for name in ("checkpoint-4", "checkpoint-8", "checkpoint-12"):
        shutil.rmtree(copy.run / name)
    copy.resume()
    assert copy.steps() == set()
    with raises(UserError, match="--experiment_name"):
        copy.resume(max_steps=14)
    assert (copy.run / "discriminator" / "model.safetensors").stat().st_mtime_ns == before


def test_a_run_without_its_network_is_exported_again(copy):
    network = copy.run / "discriminator"
    size = (network / "model.safetensors").stat().st_size
    shutil.rmtree(network)
    with files_up_to(size - 1), raises(UserError, match=r"cannot write .*--resume_from_checkpoint"):
        copy.resume()
    assert not (copy.run / "unfinished").exists()
    assert not network.exists()
    copy.resume()
    assert (network / "model.safetensors").is_file()


def test_a_run_that_was_killed_at_its_end_gets_its_report_and_is_uploaded(copy, monkeypatch):
    pushed = []
    monkeypatch.setattr(
        "electra.pretraining.run_folder.push_run", lambda *arguments, **others: pushed.append(arguments)
    )
    before = contents(copy.run)
    for name in ("report.html", "training_curves.png"):
        (copy.run / name).unlink()
        copy.resume(push_to_hub=True, hub_model_id="me/mine")
        assert (copy.run / name).is_file()
    assert contents(copy.run).keys() == before.keys()
    assert pushed == [(copy.run, "me/mine")] * 2
    copy.resume()
    assert len(pushed) == 2


def test_a_killed_run_has_a_report_of_what_it_had_saved(copy, monkeypatch):
    monkeypatch.setattr("electra.report.page.make_panels", make_panels)  # as without `short_end`
    for path in copy.run.iterdir():  # a kill after step 8 leaves options, tokenizer and checkpoints
        if path.is_file() and path.name != "config.yaml":
            path.unlink()
    for name in ("checkpoint-12", "discriminator", "generator"):
        shutil.rmtree(copy.run / name)
    assert read_run(copy.run).step == 8
    page = write_run_report([copy.run])[0].read_text()
    assert "step 8 of 12" in page
    assert "total loss" in page


def test_a_second_process_leaves_a_run_alone_that_is_at_work(finished, copying):
    argv = flags(finished, **FAST, max_steps=14, auto_resume=True)
    before = contents(finished)
    # This process holds the run until it ends.
    _, err = run("run_pretraining.py", argv, finished, expect=2, python=copying)
    assert err.splitlines()[-1].startswith(f"error: {finished}/output/run is locked")
    assert contents(finished) == before


def test_another_corpus_or_held_out_text_is_refused(copy):
    write_corpus(copy.folder / "other.txt", documents=31)
    with raises(UserError, match=r"\b30\b.*\b31\b"):  # documents
        copy.resume(max_steps=14, train_file=copy.folder / "other.txt")
    with raises(UserError, match=r"\b30\b.*\b27\b.*--validation_fraction"):  # without the tenth
        copy.resume(max_steps=14, validation_fraction=0.1)


def test_an_evaluation_file_that_came_later_has_no_untrained_column(folder):
    files = [write_corpus(folder / f"{seed}.txt", documents=6, seed=seed) for seed in (1, 2)]
    options = {**FAST, "eval_strategy": "steps", "max_eval_segments": 4}
    columns = []
    for steps, file in ((1, files[0]), (2, files[1]), (3, files[0])):
        main(flags(folder, **options, validation_file=file, max_steps=steps, auto_resume=True))
        columns.append(set(read_json(folder / "output" / "run" / "metrics.json")["held_out"]))
    assert ["untrained" in names for names in columns] == [True, False, True]


def test_new_options_hold_from_the_resumed_step_on(copy):
    new = {"learning_rate": 1e-5, "weight_decay": 0.5, "adam_beta2": 0.9, "adam_epsilon": 1e-3, "max_steps": 8}
    new |= {"save_steps": 1, "logging_steps": 3, "hidden_dropout_prob": 0.2}
    for step in (8, 12):
        shutil.rmtree(copy.run / f"checkpoint-{step}")
    copy.resume(**new, resume_from_checkpoint=copy.run / "checkpoint-4")
    assert copy.steps() == {4, 5, 6, 7, 8}
    (line,) = [line for line in history(copy.run / "checkpoint-8") if "loss" in line and line["step"] > 4]
    assert line["step"] == 6
    assert line["learning_rate"] == approx(1e-5 * 3 / 6, rel=1e-6)  # five of eight steps are done, two are warm-up
    for state in torch.load(copy.run / "checkpoint-8" / "optimizer.pt", weights_only=True)["param_groups"]:
        assert state["weight_decay"] in (0.5, 0.0)
        assert (state["betas"], state["eps"]) == ((0.9, 0.9), 1e-3)
    text = (copy.run / "config.yaml").read_text()
    assert new.items() <= yaml.safe_load(text).items()
    (words,) = read_json(copy.run / "metrics.json")["plan"]["changes"]
    assert words.startswith("from step 4 on: ")
    assert all(f"{name} {new[name]} instead of" in words for name in new)
    assert words in (copy.run / "discriminator" / "README.md").read_text()


def test_edited_options_of_a_run_hold_and_are_recorded(copy):
    config = copy.run / "config.yaml"
    config.write_text(config.read_text().replace("learning_rate: 0.001", "learning_rate: 0.0005"))
    main([f"--resume_from_checkpoint={copy.run}", "--max_steps=13"])
    assert yaml.safe_load(config.read_text())["learning_rate"] == 0.0005
    (words,) = read_json(copy.run / "metrics.json")["plan"]["changes"]
    assert "learning_rate 0.0005 instead of 0.001" in words
    assert read_json(copy.run / "checkpoint-13" / "origin.json")["changes"] == [words]


def test_a_run_is_resumed_after_it_was_moved(finished, tmp_path, monkeypatch):
    here = tmp_path / "here"
    there = tmp_path / "there"
    here.mkdir()
    there.mkdir()
    monkeypatch.chdir(here)
    write_corpus(Path("corpus.txt"))
    shutil.copytree(finished / "output" / "run" / "tokenizer", "tokenizer")
    relative = {"train_file": "corpus.txt", "cache_dir": "cache", "output_dir": "output"}
    main(flags(Path("."), **FAST, **relative, max_steps=2, tokenizer_path="tokenizer", save_steps=2))
    caches = sorted(path.name for path in Path("cache").iterdir())
    shutil.rmtree("tokenizer")
    shutil.move("output/run", there / "moved")
    monkeypatch.chdir(there)
    main(["--resume_from_checkpoint", "moved", "--max_steps=4"])
    assert (there / "moved" / "checkpoint-4").is_dir()
    assert {path.name for path in there.iterdir()} <= {"moved", ".moved.lock"}
    assert sorted(path.name for path in (here / "cache").iterdir()) == caches
    options = yaml.safe_load((there / "moved" / "config.yaml").read_text())
    assert (options["output_dir"], options["cache_dir"]) == (str(there), str(here / "cache"))


@parametrize("elsewhere", ["output_dir", "cache_dir"])
def test_a_run_writes_nothing_into_the_folder_of_its_texts(folder, tmp_path_factory, monkeypatch, elsewhere):
    monkeypatch.chdir(folder)
    other_folder = tmp_path_factory.mktemp("other")
    options = {
        **FAST,
        "train_file": ".",
        "output_dir": None,
        "cache_dir": None,
        elsewhere: other_folder,
        "max_steps": 2,
    }
    (inside,) = {"output_dir", "cache_dir"} - {elsewhere}
    assert f"--{inside}" in refused(lambda: main(flags(folder, **options)))
    assert {path.name for path in (*other_folder.rglob("*"), *folder.glob("output/**/*")) if path.is_file()} <= {
        ".run.lock"
    }
    main(flags(folder, **options | {"train_file": "./*.txt"}))


def test_a_text_that_was_moved_is_named_anew(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(("train.txt", "held_out.txt")):
        (tmp_path / "texts").mkdir(exist_ok=True)
        write_corpus(tmp_path / "texts" / name, seed=number)
    texts = {"train_file": "texts/train.txt", "validation_file": "new=texts/held_out.txt"}
    main(flags(Path("."), **{**FAST, **texts, "eval_strategy": "steps"}, max_steps=2, save_steps=2))
    run = tmp_path / "output" / "run"
    shutil.move("texts", "moved")
    argv = ["--resume_from_checkpoint=output/run", "--max_steps=4"]
    for name, path in texts.items():
        with raises(UserError, match=rf"{name} .*{tmp_path}/texts/"):
            main(argv)
        argv.append(f"--{name}={path.replace('texts', 'moved')}")
    main(argv)
    assert read_json(run / "metrics.json")["plan"]["changes"] == ["from step 2 on: max_steps 4 instead of 2"]
    assert read_json(run / "metrics.json")["held_out"].keys() >= {"untrained", "trained"}


def test_a_run_with_a_finished_tokenizer_is_resumed_by_its_name_alone(finished, tmp_path):
    (tmp_path / "mine.yaml").write_text("tokenizer_algorithm: byte_bpe\nlowercase: false\nmax_documents: 5\n")
    shared = {"config": tmp_path / "mine.yaml", "train_file": finished / "corpus.txt", "max_steps": 2, "save_steps": 2}
    tokenizer = {"tokenizer_path": finished / "output" / "run" / "tokenizer"}
    network = {"init_discriminator": finished / "output" / "run", "embedding_size": None, "hidden_size": None}
    for name, start in (("given", tokenizer), ("continued", {**network, "num_attention_heads": None})):
        main(flags(tmp_path, **{**FAST, **shared, **start}, experiment_name=name))
        run = tmp_path / "output" / name
        main([f"--resume_from_checkpoint={run}", "--max_steps=4"])
        assert (run / "checkpoint-4").is_dir()
        options = yaml.safe_load((run / "config.yaml").read_text())
        assert not {"tokenizer_algorithm", "lowercase", "max_documents"} & {*options}


@parametrize("file", ["model.safetensors", "optimizer.pt"])
def test_a_failed_write_keeps_the_last_checkpoint(copy, file):
    size = (copy.run / "checkpoint-12" / file).stat().st_size - 1
    with files_up_to(size), raises(UserError) as error:
        copy.resume(max_steps=13)
    message = str(error.value)
    parts = (f"{copy.run}/unfinished", "File too large", "--resume_from_checkpoint")
    assert all(part in message for part in parts), message
    assert copy.steps() == {4, 8, 12}
    assert find_damage(copy.run / "checkpoint-12") is None
    assert not (copy.run / "unfinished").exists()


# ---- files of a checkpoint that are whole, but hold something else


FORGED = {
    "a list": ("optimizer.pt", lambda state: [5]),
    "a schedule's list": ("scheduler.pt", lambda state: [5]),
    "a schedule's step": ("scheduler.pt", lambda state: {**state, "last_epoch": "x"}),
    "no random state": ("rng_state.pth", lambda state: {}),
    "a random state's text": ("rng_state.pth", lambda state: dict.fromkeys(state, "x")),
}
"""A file of a checkpoint and what it is made to hold, for each case."""


def forge(checkpoint, name, change):
    """Change a file of a checkpoint and write the manifest anew, as whoever forges one would."""
    path = checkpoint / name
    torch.save(change(torch.load(path, weights_only=False)), path)
    write_manifest(checkpoint)


@parametrize("case", FORGED)
def test_a_state_that_does_not_fit_is_refused_in_one_line(copy, case, capsys):
    name, change = FORGED[case]
    forge(copy.run / "checkpoint-12", name, change)
    before = contents(copy.run / "checkpoint-12")
    line = refused_command(main, copy.flags(max_steps=14), capsys)
    assert "checkpoint-12" in line
    assert copy.steps() == {4, 8, 12}
    assert contents(copy.run / "checkpoint-12") == before


# ---- other networks


@parametrize("model_type", [name for name in ("gte", "ultrabert", "nomic_bert") if name in BACKBONES])
def test_networks_whose_weights_have_other_names_on_the_hub_resume_bit_for_bit(model_type, folder):
    options = {**FAST, "discriminator_type": model_type, "tie": "word", "generator_size": 1.0, "save_steps": 2}
    main(flags(folder, **options, max_steps=4))
    run = folder / "output" / "run"
    copy = folder / "output" / "copy"
    shutil.copytree(run / "checkpoint-2", copy / "checkpoint-2")
    shutil.copy(run / "config.yaml", copy)
    main([f"--resume_from_checkpoint={copy}"])
    assert_same_state(run / "checkpoint-4", copy / "checkpoint-4")
