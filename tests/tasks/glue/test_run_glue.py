"""The command itself, in this process, on a tiny GLUE: what it writes, what it repeats, what it refuses."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedTokenizerBase, pipeline

import run_glue
from electra.errors import UserError
from electra.finetuning.encoder import load_encoder
from electra.report.results import read_results
from electra.tasks.glue.submission import validate_submission
from electra.tasks.glue.tasks import TASKS
from tests.tasks.glue.files import flags, write_encoder, write_glue

TASK_NAMES = [name for name in TASKS if name != "demo"]


@pytest.fixture
def folder(tmp_path: Path, glue_tokenizer: PreTrainedTokenizerBase) -> Path:
    write_encoder(tmp_path / "encoder", glue_tokenizer)
    return tmp_path


def lines(folder: Path, name: str = "run") -> list[str]:
    return (folder / "output" / name / "results.jsonl").read_text().splitlines()


def content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


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
    before = content(run)
    run_glue.main(flags(folder, tasks=TASK_NAMES, **options))
    assert content(run) == before


def test_a_plan_trains_nothing_and_says_what_is_left(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_glue(folder / "glue", "MNLI", "RTE")
    command = flags(folder, tasks=["rte"], start_from_mnli=["rte"])
    run_glue.main([*command, "--plan"])
    said = capsys.readouterr().out
    assert "4 runs" in said and str(folder / "output" / "run") in said
    assert not list((folder / "output").glob("[!.]*"))
    run_glue.main(command)
    before = content(folder)
    run_glue.main([*command, "--plan", "--num_seeds", "3"])
    assert "2 runs, 4 more" in capsys.readouterr().out
    assert content(folder) == before


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


def test_other_settings_another_encoder_and_other_data_are_not_mixed_in(
    folder: Path, glue_tokenizer: PreTrainedTokenizerBase
) -> None:
    write_glue(folder / "glue", "CoLA", "RTE", "MNLI")
    test = folder / "glue" / "RTE" / "test.tsv"
    test_rows = test.read_text()
    test.unlink()
    run_glue.main(flags(folder, tasks=["rte"], num_seeds=1))
    before = content(folder / "output" / "run")

    def refused(message: str, **options: object) -> None:
        with pytest.raises(UserError, match=message):
            run_glue.main(flags(folder, **{"tasks": ["rte"], "num_seeds": 1, **options}))
        assert content(folder / "output" / "run") == before  # config.yaml, too

    refused(r"learning_rate is 0\.0003 .* 0\.001", learning_rate=1e-3)
    refused("start is pretrained .* mnli", start_from_mnli=["rte"])
    refused("head is google .* hf", double_unordered=False, num_seeds=2, head="hf")
    for split, setting in (("train", "train_data"), ("dev", "validation_data")):
        path = folder / "glue" / "RTE" / f"{split}.tsv"
        rows = path.read_text()
        path.write_text(rows.replace("\tentailment", "\tnot_entailment"))
        refused(rf"{setting} is \w{{12}} .* \w{{12}}")
        path.write_text(rows)
    write_encoder(folder / "encoder", glue_tokenizer, seed=1)  # other weights under the same name
    refused("encoder is .*--experiment_name")
    refused("rte .*encoder", tasks=["cola"])

    write_encoder(folder / "encoder", glue_tokenizer)
    test.write_text(test_rows)  # test data may come later
    run_glue.main(flags(folder, tasks=["rte"], num_seeds=1, predict_test="best"))
    assert len(lines(folder)) == 1


def test_predictions_that_are_missing_or_cannot_be_used_are_made_again_or_left_out(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_glue(folder / "glue", "CoLA")
    run_glue.main(flags(folder, tasks=["cola"]))
    before = lines(folder)
    ensemble = flags(folder, tasks=["cola"], predict_test="ensemble")
    run_glue.main(ensemble)  # the logits of the test set are missing
    path = folder / "output" / "run" / "predictions" / "cola-43.npz"
    whole = path.read_bytes()
    assert "test" in np.load(path).files and lines(folder) == before
    path.write_bytes(whole[: len(whole) // 2])
    run_glue.main(ensemble)
    assert path.read_bytes() == whole and lines(folder) == before
    logits = dict(np.load(path))
    np.savez(path, **{**logits, "test": np.full_like(logits["test"], np.nan)})
    capsys.readouterr()
    run_glue.main(ensemble)
    assert "CoLA: 1 of 2 runs" in capsys.readouterr().out
    with zipfile.ZipFile(folder / "output" / "run" / "submission.zip") as archive:
        answers = archive.read("CoLA.tsv").decode().split()[3::2]
    first = np.load(folder / "output" / "run" / "predictions" / "cola-42.npz")["test"].argmax(1)
    assert answers == [str(answer) for answer in first]
    (folder / "glue" / "CoLA" / "test.tsv").unlink()  # without test files no run is repeated for a submission
    run_glue.main(ensemble)
    assert "all 2 runs are finished" in capsys.readouterr().out


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
    assert "QNLI is skipped" in said and "7 more tasks" in said
    assert [json.loads(line)["task"] for line in lines(folder)] == ["cola"]


def test_a_folder_of_something_else_is_left_alone(folder: Path) -> None:
    write_glue(folder / "glue", "CoLA")
    taken = folder / "output" / "run"
    taken.mkdir(parents=True)
    (taken / "metrics.json").write_text("{}")
    with pytest.raises(UserError, match="--experiment_name"):
        run_glue.main(flags(folder, tasks=["cola"]))
    assert [path.name for path in taken.iterdir()] == ["metrics.json"]


def test_saved_models_are_those_of_the_best_seeds_and_have_their_logits(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_glue(folder / "glue", "CoLA", "STS-B", "MRPC")
    options = {"tasks": ["cola", "stsb", "mrpc"], "bf16": False, "learning_rate": 1e-2}
    run_glue.main(flags(folder, **options))
    assert "--save_model" in capsys.readouterr().out
    run = folder / "output" / "run"
    results = read_results(run / "results.jsonl")
    lines_before = lines(folder)
    run_glue.main(flags(folder, **options, save_model="best"))  # what is to be kept is made again
    assert lines(folder) == lines_before
    shown = capsys.readouterr().out
    for name, headline in (("cola", "mcc"), ("stsb", "spearman"), ("mrpc", "accuracy")):
        best = min((r for r in results if r.task == name), key=lambda r: (-(r.metrics[headline] or -2), r.seed))
        model = run / "models" / name
        assert str(model) in shown and json.loads((model / "result.json").read_text())["seed"] == best.seed
        lines_of_dev = (folder / "glue" / TASKS[name].title / "dev.tsv").read_text().splitlines()
        rows = [line.split("\t") for line in lines_of_dev[name != "cola" :]]
        texts = [row[3:4] if name == "cola" else row[3:5] if name == "mrpc" else row[2:4] for row in rows]
        tokenizer = AutoTokenizer.from_pretrained(model)
        opened = AutoModelForSequenceClassification.from_pretrained(model).eval()
        inputs = tokenizer(*map(list, zip(*texts, strict=True)), padding=True, return_tensors="pt")
        expected = np.load(run / "predictions" / f"{name}-{best.seed}.npz")["dev"]
        assert opened(**inputs).logits.detach().numpy() == pytest.approx(expected, abs=1e-4)
        classify = pipeline("text-classification", model=str(model))
        said = classify({"text": texts[0][0], **({"text_pair": texts[0][1]} if name != "cola" else {})})
        if name == "stsb":
            assert opened.config.problem_type == "regression"
            assert said["label"] == "score" and said["score"] == pytest.approx(expected[0, 0], abs=1e-4)
        else:
            assert said["label"] == TASKS[name].labels[expected[0].argmax()]
        card = (model / "README.md").read_text()
        assert all(word in card for word in (str(folder / "encoder"), f"{100 * (best.metrics[headline] or 0):.1f}"))
        assert f"python run_glue.py --pretrain_path={folder / 'encoder'}" in card


def test_what_a_kill_has_lost_of_saved_models_is_made_again_and_nothing_else(folder: Path) -> None:
    write_glue(folder / "glue", "CoLA")
    options = {"tasks": ["cola"], "save_model": "all", "learning_rate": 1e-2}
    run_glue.main(flags(folder, **options))
    models = folder / "output" / "run" / "models"
    before = content(models)
    assert {path.parent.name for path in before} == {"cola-42", "cola-43"}
    untouched = (models / "cola-42" / "model.safetensors").stat().st_mtime_ns
    (models / "cola-43").rename(models / ".cola-43.unfinished")
    (models / ".cola-43.unfinished" / "model.safetensors").write_bytes(b"")
    run_glue.main(flags(folder, **options))
    assert content(models) == before
    assert (models / "cola-42" / "model.safetensors").stat().st_mtime_ns == untouched
    assert len(lines(folder)) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pretrain_path": "output/nowhere"}, "output/nowhere"),
        ({"pretrain_path": None}, "--pretrain_path.*--from_scratch"),
        ({"from_scratch": "small"}, "--pretrain_path.*--from_scratch"),
        ({"tasks": ["colla"]}, "'colla'.*cola"),
        ({"max_length": 64}, "--max_length 64 .* 32"),
        ({"glue_dir": "nowhere"}, "--glue_dir nowhere"),
        ({"start_from_mnli": ["rte"]}, "--start_from_mnli rte"),
        ({"start_from_mnli": ["cola"]}, "--start_from_mnli .*MNLI"),
        ({"start_from_mnli": ["mnli"]}, "--start_from_mnli mnli"),
        ({"task_overrides": '{"rte": {"num_seeds": 3}}'}, "--task_overrides .*num_seeds"),
        ({"task_overrides": '{"rte": {"learning_rate": "fast"}}'}, "rte: .*learning_rate"),
        ({"task_overrides": '{"rt": {"learning_rate": 1e-3}}'}, "'rt'"),
        ({"task_overrides": "rte"}, "--task_overrides rte"),
        ({"head": "mean_pool", "save_model": "best"}, "mean_pool.*google or hf"),  # transformers has no such head
    ],
)
def test_bad_input_is_refused_in_one_line_and_leaves_nothing(folder: Path, options: dict, message: str) -> None:
    write_glue(folder / "glue", "CoLA")
    with pytest.raises(UserError, match=message) as error:
        run_glue.main(flags(folder, **{"tasks": ["cola"], **options}))
    assert "\n" not in str(error.value)
    assert not list((folder / "output").glob("[!.]*"))
