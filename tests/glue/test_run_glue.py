"""The command itself, in this process, on a tiny GLUE: what it writes, what it repeats, what it refuses."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from transformers import PreTrainedTokenizerBase

import run_glue
from electra.errors import UserError
from electra.finetuning.encoder import load_encoder
from electra.finetuning.results import read_results
from electra.glue.submission import validate_submission
from electra.glue.tasks import TASKS
from tests.glue.files import flags, write_encoder, write_glue

TASK_NAMES = [name for name in TASKS if name != "demo"]


@pytest.fixture
def folder(tmp_path: Path, glue_tokenizer: PreTrainedTokenizerBase) -> Path:
    write_encoder(tmp_path / "encoder", glue_tokenizer)
    return tmp_path


def lines(folder: Path, name: str = "run") -> list[str]:
    return (folder / "output" / name / "results.jsonl").read_text().splitlines()


def test_a_whole_evaluation(folder: Path) -> None:
    write_glue(folder / "glue")
    options = {"start_from_mnli": ["rte", "stsb"], "predict_test": "ensemble"}
    run_glue.main(flags(folder, tasks=TASK_NAMES, **options))
    run = folder / "output" / "run"
    results = read_results(run / "results.jsonl")
    assert [(r.task, r.seed) for r in results[:2]] == [("mnli", 42), ("mnli", 43)]  # others start from it
    assert {(r.task, r.seed) for r in results} == {(t, s) for t in TASK_NAMES for s in (42, 43)}
    found = {r.task: r for r in results if r.seed == 42}
    assert set(found["mnli"].metrics) == {"accuracy_matched", "accuracy_mismatched", "accuracy"}
    assert set(found["stsb"].metrics) == {"pearson", "spearman"} and set(found["qqp"].metrics) == {"accuracy", "f1"}
    assert found["mrpc"].rows == {"train": 24, "dev": 12}
    assert found["mrpc"].settings["double_unordered"] and not found["rte"].settings["double_unordered"]
    best = max((r for r in results if r.task == "mnli"), key=lambda r: (r.metrics["accuracy"], -r.seed)).seed
    assert {r.start for r in results if r.task in ("rte", "stsb")} == {f"mnli-{best}"}
    assert {r.start for r in results if r.task not in ("rte", "stsb")} == {"pretrained"}
    report = json.loads((run / "report.json").read_text())
    assert report and (run / "report.html").is_file() and (run / "report.md").is_file()
    problems = validate_submission(run / "submission.zip")
    assert problems and all("rows" in problem for problem in problems)  # six rows each, but every file is there

    logits = dict(np.load(run / "predictions" / "mnli-42.npz"))
    assert {name: values.shape for name, values in logits.items()} == {
        "dev": (12, 3), "dev_mismatched": (12, 3), "test": (6, 3), "test_mismatched": (6, 3), "ax": (6, 3),
    }  # fmt: skip

    # The same command again repeats nothing and writes the same.
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    run_glue.main(flags(folder, tasks=TASK_NAMES, **options))
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_mnli_is_run_when_a_task_starts_from_it_and_its_encoder_is_what_they_get(folder: Path) -> None:
    write_glue(folder / "glue", "MNLI", "RTE")
    run_glue.main(flags(folder, tasks=["rte"], start_from_mnli=["rte"], mnli_run="same_seed", learning_rate=1e-2))
    results = read_results(folder / "output" / "run" / "results.jsonl")
    assert [(r.task, r.seed, r.start) for r in results] == [
        ("mnli", 42, "pretrained"), ("mnli", 43, "pretrained"), ("rte", 42, "mnli-42"), ("rte", 43, "mnli-43"),
    ]  # fmt: skip
    trained = load_encoder(str(folder / "output" / "run" / "encoders" / "mnli-42")).model
    original = load_encoder(str(folder / "encoder")).model
    moved = [name for name, value in trained.state_dict().items() if not value.equal(original.state_dict()[name])]
    assert "encoder.layer.0.attention.self.query.weight" in moved
    run_glue.main(flags(folder, tasks=["rte"], experiment_name="plain", learning_rate=1e-2))
    plain = np.load(folder / "output" / "plain" / "predictions" / "rte-42.npz")["dev"]
    started = np.load(folder / "output" / "run" / "predictions" / "rte-42.npz")["dev"]
    assert np.abs(plain - started).max() > 1e-3


def test_more_seeds_and_tasks_are_added_to_what_is_there(folder: Path) -> None:
    write_glue(folder / "glue", "CoLA", "RTE")
    run_glue.main(flags(folder, tasks=["cola"], num_seeds=1))
    first = lines(folder)
    run_glue.main(flags(folder, tasks=["cola", "rte"], num_seeds=2))
    assert lines(folder)[: len(first)] == first
    assert [(r.task, r.seed) for r in read_results(folder / "output" / "run" / "results.jsonl")] == [
        ("cola", 42), ("cola", 43), ("rte", 42), ("rte", 43),
    ]  # fmt: skip
    run_glue.main(flags(folder, tasks=["cola", "rte"], num_seeds=2, experiment_name="at_once"))
    assert sorted(lines(folder, "at_once")) == sorted(lines(folder))


def test_what_was_lost_but_the_line_is_made_again_without_a_second_line(folder: Path) -> None:
    write_glue(folder / "glue", "CoLA")
    run_glue.main(flags(folder, tasks=["cola"]))
    before = lines(folder)
    run_glue.main(flags(folder, tasks=["cola"], predict_test="best"))  # the logits of the test set were not there
    assert lines(folder) == before
    assert "test" in np.load(folder / "output" / "run" / "predictions" / "cola-43.npz").files


def test_other_settings_are_not_mixed_in(folder: Path, glue_tokenizer: PreTrainedTokenizerBase) -> None:
    write_glue(folder / "glue", "CoLA")
    run_glue.main(flags(folder, tasks=["cola"], num_seeds=1))
    before = lines(folder)
    with pytest.raises(UserError, match=r"other settings: learning_rate is 0\.0003 there and 0\.001 here"):
        run_glue.main(flags(folder, tasks=["cola"], learning_rate=1e-3))
    write_encoder(folder / "encoder", glue_tokenizer, seed=1)  # other weights under the same name
    with pytest.raises(UserError, match=r"encoder is .* there and .* here; choose another --experiment_name"):
        run_glue.main(flags(folder, tasks=["cola"]))
    assert lines(folder) == before


def test_finished_runs_too_are_held_against_the_command(folder: Path, glue_tokenizer: PreTrainedTokenizerBase) -> None:
    write_glue(folder / "glue", "CoLA", "RTE", "MNLI")
    run_glue.main(flags(folder, tasks=["rte"], num_seeds=1))
    before = {path: path.read_bytes() for path in (folder / "output" / "run").rglob("*") if path.is_file()}
    for options, message in (
        ({"learning_rate": 1e-3}, "learning_rate is 0.0003 there and 0.001 here"),
        ({"start_from_mnli": ["rte"]}, "start is pretrained there and mnli, best here"),
        ({"double_unordered": False, "num_seeds": 2, "head": "hf"}, "head is google there and hf here"),
    ):
        with pytest.raises(UserError, match=message):
            run_glue.main(flags(folder, tasks=["rte"], **{"num_seeds": 1, **options}))
    write_encoder(folder / "encoder", glue_tokenizer, seed=1)
    with pytest.raises(UserError, match="holds rte of another encoder"):
        run_glue.main(flags(folder, tasks=["cola"], num_seeds=1))
    after = {path: path.read_bytes() for path in (folder / "output" / "run").rglob("*") if path.is_file()}
    assert after == before  # config.yaml, too


@pytest.mark.parametrize("split", ["train", "dev"])
def test_other_data_in_the_same_folder_is_not_mixed_in_and_test_files_may_come_later(folder: Path, split: str) -> None:
    write_glue(folder / "glue", "RTE")
    test = folder / "glue" / "RTE" / "test.tsv"
    later = test.read_text()
    test.unlink()
    run_glue.main(flags(folder, tasks="rte"))
    test.write_text(later)
    run_glue.main(flags(folder, tasks="rte", predict_test="best"))
    path = folder / "glue" / "RTE" / f"{split}.tsv"
    path.write_text(path.read_text().replace("\tentailment", "\tnot_entailment"))
    name = {"train": "train_data", "dev": "validation_data"}[split]
    with pytest.raises(UserError, match=rf"rte with other settings: {name} is \w{{12}} there and \w{{12}} here"):
        run_glue.main(flags(folder, tasks="rte"))


def test_a_task_that_starts_from_mnli_needs_it(folder: Path) -> None:
    write_glue(folder / "glue", "CoLA", "RTE")
    with pytest.raises(UserError, match="--start_from_mnli needs MNLI"):
        run_glue.main(flags(folder, tasks=["cola", "rte"], start_from_mnli=["rte"]))
    assert not (folder / "output" / "run").exists()


def test_without_test_files_a_submission_repeats_no_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_glue(folder / "glue", "CoLA", "RTE")
    (folder / "glue" / "RTE" / "test.tsv").unlink()
    run_glue.main(flags(folder, tasks=["cola", "rte"], predict_test="best"))
    capsys.readouterr()
    run_glue.main(flags(folder, tasks=["cola", "rte"], predict_test="best"))
    assert "all 4 runs are finished" in capsys.readouterr().out


def test_predictions_that_cannot_be_used_are_made_again_or_left_out(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_glue(folder / "glue", "CoLA")
    run_glue.main(flags(folder, tasks=["cola"], predict_test="ensemble"))
    path = folder / "output" / "run" / "predictions" / "cola-43.npz"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    run_glue.main(flags(folder, tasks=["cola"], predict_test="ensemble"))
    assert path.read_bytes() == whole and len(lines(folder)) == 2
    logits = dict(np.load(path))
    np.savez(path, **{**logits, "test": np.full_like(logits["test"], np.nan)})
    capsys.readouterr()
    run_glue.main(flags(folder, tasks=["cola"], predict_test="ensemble"))
    assert "CoLA: 1 of 2 runs have no usable predictions" in capsys.readouterr().out
    with zipfile.ZipFile(folder / "output" / "run" / "submission.zip") as archive:
        answers = archive.read("CoLA.tsv").decode().split()[3::2]
    first = np.load(folder / "output" / "run" / "predictions" / "cola-42.npz")["test"].argmax(1)
    assert answers == [str(answer) for answer in first]


def test_from_scratch_every_seed_draws_the_whole_network(folder: Path) -> None:
    write_glue(folder / "glue", "SST-2")
    options = {"pretrain_path": None, "from_scratch": folder / "encoder", "experiment_name": None}
    run_glue.main(flags(folder, tasks=["sst2"], learning_rate=1e-9, **options))
    run = folder / "output" / "glue_encoder_scratch"
    results = read_results(run / "results.jsonl")
    assert [r.start for r in results] == ["scratch", "scratch"]
    first, second = (np.load(run / "predictions" / f"sst2-{seed}.npz")["dev"] for seed in (42, 43))
    assert np.abs(first - second).max() > 1e-3
    run_glue.main(flags(folder, tasks=["sst2"], learning_rate=1e-9, **options))
    assert len(read_results(run / "results.jsonl")) == 2


def test_an_absent_task_is_named_and_skipped_and_the_average_stays_empty(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_glue(folder / "glue", "CoLA")
    run_glue.main(flags(folder, tasks=["cola", "qnli"], num_seeds=1))
    said = capsys.readouterr().out
    assert "QNLI is skipped" in said and "AVG                        needs 7 more tasks" in said
    assert [json.loads(line)["task"] for line in lines(folder)] == ["cola"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pretrain_path": "output/nowhere"}, "no folder"),
        ({"pretrain_path": None}, "either --pretrain_path.*or --from_scratch.*got neither"),
        ({"from_scratch": "small"}, "got both"),
        ({"tasks": ["colla"]}, "unknown task 'colla'; choose from cola"),
        ({"tasks": ["cola"], "max_length": 64}, "--max_length 64 is more than the 32 positions"),
        ({"tasks": ["cola"], "glue_dir": "nowhere"}, "nowhere"),
        ({"tasks": ["cola"], "start_from_mnli": ["rte"]}, "--start_from_mnli rte: that task is not run"),
        ({"tasks": ["cola"], "task_overrides": '{"rte": {"num_seeds": 3}}'}, "num_seeds is not an option that can"),
        ({"tasks": ["cola"], "task_overrides": '{"rte": {"learning_rate": "fast"}}'}, "of rte: .*learning_rate"),
        ({"tasks": ["cola"], "task_overrides": '{"rt": {"learning_rate": 1e-3}}'}, "unknown task 'rt'"),
        ({"tasks": ["cola"], "task_overrides": "rte"}, "not a mapping"),
        ({"tasks": ["cola"], "report_to": "nowhere"}, "--report_to nowhere does not work"),
        ({"tasks": ["cola"], "experiment_name": "a/b"}, "must be a plain folder name"),
        ({"tasks": ["cola"], "num_seeds": 0}, "--num_seeds 0 is not possible"),
        ({"tasks": ["cola"], "layerwise_lr_decay": 1.2}, "--layerwise_lr_decay 1.2 is not possible"),
        ({"tasks": ["cola"], "learning_rate": "nan"}, "must be a finite number"),
    ],
)
def test_bad_input_is_refused_in_one_line_and_leaves_nothing(folder: Path, options: dict, message: str) -> None:
    write_glue(folder / "glue", "CoLA")
    with pytest.raises(UserError, match=message) as error:
        run_glue.main(flags(folder, **options))
    assert "\n" not in str(error.value)
    assert not list((folder / "output").glob("[!.]*"))


def test_a_folder_of_something_else_is_left_alone(folder: Path) -> None:
    write_glue(folder / "glue", "CoLA")
    taken = folder / "output" / "run"
    taken.mkdir(parents=True)
    (taken / "metrics.json").write_text("{}")
    with pytest.raises(UserError, match="taken by something else"):
        run_glue.main(flags(folder, tasks=["cola"]))
    assert [path.name for path in taken.iterdir()] == ["metrics.json"]
