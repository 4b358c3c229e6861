"""The folder of an evaluation: its name and lock, results that are kept, and which of them belong together."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
from filelock import FileLock
from pytest import raises

from electra.finetuning.evaluation import Evaluation, model_name, open_evaluation
from electra.finetuning.runner import check_same_settings
from electra.finetuning.task import TaskAdapter
from electra.io.errors import UserError
from electra.report.results import Result, append_result, read_results
from electra.tasks.multiple_choice.command import parse_arguments
from tests.helpers import parametrize


def open_one(folder, *argv):
    return open_evaluation(parse_arguments([f"--output_dir={folder}", "--pretrain_path=runs/small", *argv]), "glue")


def result(seed, score, task="rte", **settings):
    return Result(task, seed, {"accuracy": score}, False, 3.0, "pretrained", "m", 1, {"train": 10, "dev": 4}, settings)


@parametrize(
    ("path", "name"),
    [
        ("output/small/discriminator", "small"), ("small/checkpoint-12", "small-checkpoint-12"),
        ("google/electra-small-discriminator", "electra-small-discriminator"), ("a/config.json", "config"),
    ],
)  # fmt: skip
def test_an_evaluation_is_named_after_its_run_or_model(path, name):
    assert model_name(path) == name


def test_a_folder_is_locked_and_holds_one_evaluation(tmp_path):
    with FileLock(tmp_path / ".glue_small.lock"), raises(UserError, match="glue_small"):
        open_one(tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "metrics.json").touch()
    for name in ("taken", "a/b", ".."):
        with raises(UserError, match="--experiment_name"):
            open_one(tmp_path, f"--experiment_name={name}")
    (tmp_path / "glue_small").mkdir()
    (tmp_path / "glue_small" / ".environment.json.123").touch()  # left by a killed process
    assert open_one(tmp_path).results == []
    append_result(tmp_path / "glue_small" / "results.jsonl", result(1, 0.5))
    evaluation = open_one(tmp_path)
    assert (evaluation.folder, evaluation.results) == (tmp_path / "glue_small", [result(1, 0.5)])


def test_the_first_result_of_a_run_is_kept_with_its_predictions(tmp_path):
    evaluation = Evaluation(tmp_path, [])
    for score in (0.5, 0.7):
        evaluation.add(result(1, score))
    assert read_results(tmp_path / "results.jsonl") == evaluation.results == [result(1, 0.5)]
    evaluation.write_predictions("rte", 1, {"dev": np.ones((2, 3), np.float32)})
    assert evaluation.read_predictions("rte", 1)["dev"].tolist() == [[1, 1, 1]] * 2
    finished = [
        evaluation.is_finished("rte", seed, has_test=test) for seed, test in ((1, False), (1, True), (2, False))
    ]
    assert finished == [True, False, False]


def test_runs_are_ranked_by_their_headline_and_then_their_seed(tmp_path):
    results = [result(1, 0.5), result(2, 0.9), result(3, None), result(4, 0.9), result(9, 1.0), result(1, 1.0, "cola")]
    adapter = SimpleNamespace(
        args=SimpleNamespace(seeds=range(1, 6)), evaluation=Evaluation(tmp_path, results),
        headlines=lambda task: ("mcc", "accuracy"),
    )  # fmt: skip
    adapter.headline = lambda task, metrics: TaskAdapter.headline(adapter, task, metrics)
    assert TaskAdapter.best_first(adapter, "rte", result(5, 0.6), result(1, 1.0)) == [2, 4, 5, 1, 3]


def test_results_of_other_settings_are_told_apart():
    found = result(1, 0.5, learning_rate=1e-4, head="hf")
    check_same_settings(found, dict(found.settings), {"train": 10, "dev": 4}, Path("run"))
    check_same_settings(found, dict(found.settings), {}, Path("run"))  # the data is not read
    for settings, rows, named in (
        ({"head": "google"}, {"train": 10, "dev": 4}, "head"), ({}, {"train": 11, "dev": 4}, "rows of train"),
        ({"new": 1}, {}, "new"),
    ):  # fmt: skip
        with raises(UserError, match=named):
            check_same_settings(found, found.settings | settings, rows, Path("run"))
