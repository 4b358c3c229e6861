"""Scores for the Hub: what is written is read back by the Hub's own classes."""

import yaml
from huggingface_hub import ModelCardData, parse_eval_result_entries
from huggingface_hub.repocard_data import model_index_to_eval_results
from pytest import approx

from electra.report.eval_results import EVAL_RESULTS, HubData, hub_scores, model_index, write_eval_results
from electra.report.results import Result, ScoredTask, TaskSummary
from electra.tasks.glue.report import GLUE_REPORTING
from electra.tasks.glue.tasks import KNOWN_TASKS
from electra.tasks.tagging.report import TAGGING_REPORTING


def summary_of(task, rows, *metrics):
    """Return the summary of one task with a seed, from 42 on, for each dictionary of metrics."""
    results = [
        Result(task.name, seed, of_seed, False, 3.0, "pretrained", "m", 1, rows, {})
        for seed, of_seed in enumerate(metrics, start=42)
    ]
    return TaskSummary(task, tuple(results), {})


def entries(folder):
    """Return what the Hub reads of each file of scores in a folder, by name."""
    return {
        path.name: parse_eval_result_entries(yaml.safe_load(path.read_text()))
        for path in sorted((folder / EVAL_RESULTS).iterdir())
    }


MNLI = {"accuracy_matched": 0.5, "accuracy_mismatched": 0.6, "accuracy": 0.55}


def test_an_official_task_names_its_data_set_split_and_seeds(tmp_path):
    rows = {"train": 392702, "dev": 9815, "dev_mismatched": 9832}
    summary = summary_of(KNOWN_TASKS["mnli"], rows, MNLI, {**MNLI, "accuracy_matched": 0.52}, MNLI)
    scores = hub_scores(GLUE_REPORTING, summary)
    write_eval_results(scores, tmp_path)
    files = entries(tmp_path)
    assert set(files) == {"mnli-validation_matched.yaml", "mnli-validation_mismatched.yaml"}
    (entry,) = files["mnli-validation_matched.yaml"]
    assert (entry.dataset_id, entry.task_id, entry.value) == ("nyu-mll/glue", "mnli", 0.5)
    assert (
        "42 43 44" in entry.notes and "validation_matched" in entry.notes and "std 0.0115" in entry.notes
    )  # of 0.5, 0.52, 0.5


def test_the_card_of_a_model_has_the_scores_of_its_seed_that_are_defined():
    summary = summary_of(
        KNOWN_TASKS["mrpc"], {"dev": 408}, {"accuracy": 0.7, "f1": 0.8}, {"accuracy": 0.72, "f1": None}
    )
    scores = hub_scores(GLUE_REPORTING, summary, seed=42)
    data = ModelCardData(model_name="m", eval_results=model_index(scores, "text-classification"))
    name, results = model_index_to_eval_results(yaml.safe_load(data.to_yaml())["model-index"])
    assert name == "m" and len(results) == 2
    accuracy, f1 = results
    assert (accuracy.dataset_type, accuracy.dataset_config, accuracy.dataset_split) == (
        "nyu-mll/glue", "mrpc", "validation",
    )  # fmt: skip
    assert (accuracy.metric_type, accuracy.metric_value, f1.metric_value) == ("accuracy", 0.7, 0.8)
    assert "seed 42, the best" in scores[0].notes
    assert len(hub_scores(GLUE_REPORTING, summary, seed=43)) == 1  # an undefined score is none


def test_a_part_of_the_rows_is_not_the_official_data_set(tmp_path):
    summary = summary_of(KNOWN_TASKS["mrpc"], {"dev": 100}, {"accuracy": 0.7, "f1": 0.8})
    scores = hub_scores(GLUE_REPORTING, summary)
    write_eval_results(scores, tmp_path)
    assert not (tmp_path / EVAL_RESULTS).exists()
    (result, _) = model_index(scores, "text-classification")
    assert (result.dataset_type, result.dataset_name) == ("mrpc", "MRPC")


def test_files_of_the_user_are_in_the_card_and_named_data_sets_in_both(tmp_path):
    task = ScoredTask("news", "news", "f1", columns=TAGGING_REPORTING.metrics)
    summary = summary_of(task, {"dev": 12}, {"f1": 0.5, "accuracy": 0.9, "test_f1": 0.4})
    write_eval_results(hub_scores(TAGGING_REPORTING, summary), tmp_path)
    assert not (tmp_path / EVAL_RESULTS).exists()
    scores = hub_scores(TAGGING_REPORTING, summary, HubData("some/news", "en"))
    write_eval_results(scores, tmp_path)
    files = entries(tmp_path)
    assert {name: (entry.dataset_id, entry.task_id, entry.value) for name, (entry,) in files.items()} == {
        "news-validation.yaml": ("some/news", "en", approx(0.5)),
        "news-test.yaml": ("some/news", "en", approx(0.4)),
    }
