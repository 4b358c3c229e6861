"""examples/own_task.py: the template of a kind of task trains, is reported, and its saved model answers."""

import json

import numpy as np
import pytest

from electra.finetuning.predict import predict
from electra.finetuning.registry import BY_KIND, TASKS
from electra.report.results import read_results
from examples import own_task
from tests.conftest import refused
from tests.tasks.classify.files import flags, texts, write_table

ROW = own_task.RATE


@pytest.fixture
def command(monkeypatch):
    """The command of the template, whose kind is registered."""
    monkeypatch.setitem(TASKS, "rate", ROW)
    monkeypatch.setitem(BY_KIND, "rate", "rate")
    return own_task.RATE_COMMAND


def rating_flags(folder, rating="{}", **options):
    """Return the command line of a run below `folder`, whose stars/ is written: `Tiny.flags` of this kind."""
    (folder / "stars").mkdir(parents=True, exist_ok=True)
    for split, count in (("train", 96), ("dev", 24)):
        written, classes = texts(count, len(split), num_classes=4)  # the first word of a text names its class
        rows = [(text, rating.format(number + 2)) for text, number in zip(written, classes, strict=True)]
        write_table(folder / "stars" / f"{split}.csv", ["text", "rating"], rows)
    return flags(folder, "stars", "csv", **options)


def test_ratings_are_scored_by_their_distance():
    labels = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 1]])  # three steps above the lowest rating
    logits = np.array([[-1.0, -1, -1], [1, 1, 1], [1, 1, -1]])  # distances 0, 2 and 1
    assert own_task.score_ratings(logits, labels) == pytest.approx({"accuracy": 1 / 3, "rating_error": 3 / 9})


def test_the_template_trains_is_reported_and_answers(files, tmp_path, command):
    words = rating_flags(
        tmp_path, pretrain_path=files / "encoder", num_seeds=1, num_train_epochs=20, max_length=8,
        learning_rate=1e-2, bf16=False, use_cpu=True, save_model=True,
    )  # fmt: skip
    command.run(words)
    folder = tmp_path / "output" / "run"
    (result,) = read_results(folder / "results.jsonl")
    baselines = json.loads((folder / "predictions" / f"{result.task}-42-baselines.json").read_text())
    assert result.metrics["rating_error"] < baselines["majority or mean"]["rating_error"]
    assert result.paired_errors.keys() == baselines.keys()
    assert "error of ratings" in (folder / "report.md").read_text()
    answers = [answer["prediction"] for answer in predict(folder, texts(8, 0, num_classes=4)[0])]
    assert {*answers} <= {2, 3, 4, 5} and len({*answers}) > 1


def test_a_rating_that_is_no_whole_number_is_refused(files, tmp_path, command):
    words = rating_flags(tmp_path, "{} stars", pretrain_path=files / "encoder")
    assert "'2 stars'" in refused(lambda: command.run(words))
