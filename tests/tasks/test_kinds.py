"""What each kind of tasks registers, on a run of tiny data: scores, titles, baselines, answers, the model's card."""

import io
import re
from collections import Counter
from contextlib import redirect_stdout
from dataclasses import fields
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest

from electra.finetuning.predict import predict
from electra.finetuning.registry import BY_KIND, TASKS, command_of, groups_of, reporting_of
from electra.report.evaluation import BAG_OF_WORDS, CUT_TEXTS, PLAIN_NAMES
from electra.report.published import published_scores
from electra.report.results import read_results
from tests.helpers import parametrize, read_json
from tests.tasks.classify.files import reviews_flags
from tests.tasks.glue.files import flags as glue_flags
from tests.tasks.multiple_choice.files import flags as choice_flags
from tests.tasks.squad.files import flags as squad_flags
from tests.tasks.tagging.files import flags as tagging_flags

KINDS = [verb for verb in BY_KIND.values() if TASKS[verb].is_trained]
TINY = {
    "glue": (partial(glue_flags, tasks=["cola"], head="hf", max_length=8), "river stone"),
    "classify": (partial(reviews_flags, max_length=8), "river stone"),
    "squad": (partial(squad_flags, max_length=32), {"context": "river stone", "question": "river"}),
    "tag": (partial(tagging_flags, max_length=8), {"tokens": ["river", "stone"]}),
    "choose": (partial(choice_flags, max_length=8), {"question": "river", "choices": ["stone", "river"]}),
}
"""Verb -> the command line of a run below a folder with the data of tests/tasks/conftest.py, of which some texts are
longer than is read at once; and a new row."""
WITHOUT_FILES_OF_PREDICTIONS = {"glue"}
WITH_NOTE = {"squad", "tag"}
"""Verbs whose models give answers that the card must explain."""
SHOWN_BY_NAME = {"precision", "recall"}
"""Metrics of tagging that are no columns of the overview."""


class Run(NamedTuple):
    """A finished run of a kind, with its result."""

    verb: str
    folder: object
    result: object


@pytest.fixture(scope="module", params=KINDS)
def finished(request, folder, tmp_path_factory):
    """The run of a kind, one seed, with a saved model."""
    verb = request.param
    output = tmp_path_factory.mktemp(verb)
    options = {"num_seeds": 1, "bf16": False, "use_cpu": True, "save_model": True, "output_dir": output}
    flags, _ = TINY[verb]
    command_of(verb).run(flags(folder, pretrain_path=folder / "encoder", **options))
    (result,) = read_results(output / "run" / "results.jsonl")
    return Run(verb, output / "run", result)


def test_each_kind_has_tiny_data():
    assert TINY.keys() == {*KINDS}


def test_scores_are_those_of_the_reports(finished):
    reporting = reporting_of(TASKS[finished.verb].kind)
    task = reporting.tasks.get(finished.result.task)
    headline = task.headline if task else reporting.headlines[0]
    names = {name for name in finished.result.metrics if not name.startswith("f1_")}  # of one type of entity
    assert headline in names <= reporting.metrics.keys() | SHOWN_BY_NAME
    report = (finished.folder / "report.md").read_text(encoding="utf-8")
    (overview,) = re.findall(r"^\| Run \| Seeds \|.*$", report, re.MULTILINE)
    titles = Counter(cell.strip() for cell in overview.split("|"))
    assert all(f"\n| {name.removeprefix('f1_')} |" in report for name in finished.result.metrics.keys() - names)
    columns = {name for name in names - SHOWN_BY_NAME if reporting.repeats.get(name) not in names}
    for name in [headline] if reporting.averages else columns:
        assert any(title.endswith(reporting.metrics[name].title) for title in titles)


def test_each_baseline_is_explained_and_is_scored_like_the_run(finished):
    (path,) = (finished.folder / "predictions").glob("*-baselines.json")
    explained = " ".join([*reporting_of(TASKS[finished.verb].kind).explanations]).lower()
    baselines = read_json(path)
    assert baselines
    for name, metrics in baselines.items():
        assert PLAIN_NAMES.get(name, name).lower() in explained
        assert metrics.keys() <= finished.result.metrics.keys()
    if BAG_OF_WORDS in baselines:  # which reads whole texts
        assert finished.result.settings[CUT_TEXTS] > 0


def test_answers_of_each_split_are_written(finished):
    names = {path.name for path in finished.folder.glob("predictions/*")}
    task = finished.result.task
    logits_and_baselines = {f"{task}-42.npz", f"{task}-42-baselines.json"}
    assert logits_and_baselines <= names
    assert (names == logits_and_baselines) == (finished.verb in WITHOUT_FILES_OF_PREDICTIONS)


def test_the_card_of_a_model_says_how_it_is_used(finished, monkeypatch):
    (model,) = (finished.folder / "models").iterdir()
    card = (model / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    said = io.StringIO()
    monkeypatch.chdir(model.parent)
    with redirect_stdout(said):
        exec(compile(code, "README.md", "exec"), {})
    assert said.getvalue().strip()
    with np.load(finished.folder / "predictions" / f"{finished.result.task}-42.npz") as logits:
        has_windows = len(logits["dev"]) > finished.result.rows["dev"]
    assert ("cut into windows of" in card) == has_windows != ("truncated to" in card)
    (note,) = re.findall(r"^Longer inputs are .* tokens\.(.*)", card, re.MULTILINE)
    assert bool(note.strip()) == (finished.verb in WITH_NOTE)


def test_a_saved_model_answers_a_new_row(finished):
    _, row = TINY[finished.verb]
    (answer,) = predict(finished.folder, [row])
    assert "prediction" in answer


@parametrize("verb", KINDS)
def test_the_help_names_the_longest_input(verb):
    """Options of several kinds name a default of their own beside that of all others."""
    (option,) = (f for group in groups_of(verb) for f in fields(group) if f.name == "max_length")
    about = option.metadata["help"]
    number = re.search(rf"`electra {verb}` (\d+)", about) or re.search(r"Default: (\d+)", about)
    assert command_of(verb).kind.max_length == int(number[1])


@parametrize("verb", KINDS)
def test_the_data_of_official_tasks_are_named_for_the_hub(verb):
    reporting = reporting_of(TASKS[verb].kind)
    assert {name for name, task in reporting.tasks.items() if task.rows} == reporting.datasets.keys()
    published = {name for row in published_scores(reporting.kind) for name in row.scores}
    assert published <= reporting.tasks.keys()
    if not reporting.averages:  # the overview has all metrics, as it has for data of a user
        assert all({*task.columns} == reporting.metrics.keys() for task in reporting.tasks.values())


def test_metrics_of_one_name_are_alike_and_errors_are_no_shares():
    metrics = [metric for verb in KINDS for metric in reporting_of(TASKS[verb].kind).metrics.values()]
    for metric in metrics:
        assert (metric.error == "none") == metric.lower_is_better
        base = metric.name.removeprefix("test_")
        assert {other.error for other in metrics if other.name.removeprefix("test_") == base} == {metric.error}
