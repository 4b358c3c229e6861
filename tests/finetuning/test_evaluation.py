"""The folder of an evaluation: its name and locks, results that are kept, and which of them belong together."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from pytest import raises

from electra.core.errors import UserError
from electra.finetuning.evaluation import Evaluation, check_same_settings, model_name, open_evaluation
from electra.finetuning.runner import unfinished_seeds, write_run
from electra.finetuning.task import Task
from electra.report.results import Result, append_result, read_results
from electra.tasks.glue.task import GLUE
from electra.tasks.multiple_choice.task import parse_choice_arguments
from tests.helpers import parametrize


def open_one(folder, *argv):
    """Return the evaluation `glue` of the model runs/small, which this command opens."""
    args = parse_choice_arguments([f"--output_dir={folder}", "--pretrain_path=runs/small", *argv])
    return open_evaluation(args, None, [], "glue")


def evaluation_of(folder, *results):
    """Return an evaluation of RTE with these results, none of which its folder needs to hold."""
    unused = None
    task = Task(GLUE, "rte", ("mcc", "accuracy"), unused, unused, unused, unused)
    return Evaluation(SimpleNamespace(seeds=range(1, 6)), None, [task], folder, list(results))


def result(seed, score, task="rte", **settings):
    """Return a result with this accuracy."""
    return Result(task, seed, {"accuracy": score}, False, 3.0, "pretrained", "m", 1, {"train": 10, "dev": 4}, settings)


@parametrize(
    ("path", "name"),
    [
        ("output/small/discriminator", "small"), ("output/small/generator", "small"),
        ("small/checkpoint-12", "small-checkpoint-12"),
        ("google/electra-small-discriminator", "electra-small-discriminator"),
    ],
)  # fmt: skip
def test_an_evaluation_is_named_after_its_run_or_model(path, name):
    assert model_name(path) == name


def test_a_folder_holds_one_evaluation(tmp_path):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "metrics.json").touch()
    with raises(UserError, match="--experiment_name"):
        open_one(tmp_path, "--experiment_name=taken")
    (tmp_path / "glue_small").mkdir()
    (tmp_path / "glue_small" / ".environment.json.123").touch()  # left by a killed process
    assert open_one(tmp_path).results == []
    append_result(tmp_path / "glue_small" / "results.jsonl", result(1, 0.5))
    evaluation = open_one(tmp_path)
    assert (evaluation.folder, evaluation.results) == (tmp_path / "glue_small", [result(1, 0.5)])


def test_the_first_result_of_a_run_is_kept_with_its_predictions(tmp_path):
    evaluation = evaluation_of(tmp_path)
    for score in (0.5, 0.7):
        evaluation.add(result(1, score))
        evaluation.refresh()
    assert read_results(tmp_path / "results.jsonl") == evaluation.results == [result(1, 0.5)]
    evaluation.write_logits("rte", 1, {"dev": np.ones((2, 3), np.float32)})
    assert evaluation.read_logits("rte", 1)["dev"].tolist() == [[1, 1, 1]] * 2
    evaluation.args.options = SimpleNamespace(save_model=False)
    (task,) = evaluation.tasks
    assert unfinished_seeds(evaluation, task, [1, 2]) == [2]


def test_a_run_is_claimed_by_one_command(tmp_path):
    first = evaluation_of(tmp_path)
    second = evaluation_of(tmp_path)
    with (
        first.claim("rte", 1, 0) as first_has_seed_1,
        second.claim("rte", 1, 0) as second_has_seed_1,
        second.claim("rte", 2, 0) as second_has_seed_2,
    ):
        assert (first_has_seed_1, second_has_seed_1, second_has_seed_2) == (True, False, True)
    with second.claim("rte", 1, 0) as second_has_it_later:
        assert second_has_it_later


def test_runs_are_ranked_by_their_headline_and_then_their_seed(tmp_path):
    results = [result(1, 0.5), result(2, 0.9), result(3, None), result(4, 0.9), result(1, 1.0, "cola")]
    evaluation = evaluation_of(tmp_path, *results)
    assert evaluation.best_first(evaluation.tasks[0], result(5, 0.6), result(1, 1.0)) == [2, 4, 5, 1, 3]
    runs = [replace(run, metrics={"ece": run.metrics["accuracy"]}) for run in results[:4]]
    (task,) = evaluation.tasks
    least_first = task._replace(headlines=("ece",))
    assert evaluation_of(tmp_path, *runs).best_first(least_first) == [1, 2, 4, 3]


def test_a_run_is_ranked_beside_those_of_other_commands(tmp_path, monkeypatch):
    evaluation = evaluation_of(tmp_path)
    other = evaluation_of(tmp_path)
    other.add(result(2, 0.9))
    ranked = []
    monkeypatch.setattr(
        "electra.finetuning.runner.save_model",
        lambda evaluation, task, data, added_result, *_: ranked.append(evaluation.best_first(task, added_result)),
    )
    (task,) = evaluation.tasks
    write_run(evaluation, SimpleNamespace(task=task, data=None), result(1, 0.5), {}, model=None)
    assert ranked == [[2, 1]]


def test_results_of_other_settings_are_refused():
    recorded_settings = {"learning_rate": 1e-4, "head": "hf", "per_device_train_batch_size": 32, "processes": 1}
    check_same_settings(Path("run"), "rte", recorded_settings, dict(recorded_settings))
    different = ("head", {"head": "google"}), ("new", {"new": 1}), ("batch is 32 .* 128", {"processes": 4})
    for named, changes in different:
        with raises(UserError, match=named):
            check_same_settings(Path("run"), "rte", recorded_settings, recorded_settings | changes)
    same_batch = {**recorded_settings, "per_device_train_batch_size": 8, "processes": 4}
    check_same_settings(Path("run"), "rte", {**recorded_settings, "removed_option": 1}, same_batch)
