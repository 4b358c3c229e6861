"""What each kind of tasks registers, on a run of tiny data: scores, titles, baselines, answers, the model's card."""

import io
import re
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from electra.base.files import TINY_EN
from electra.finetuning.predict import predict
from electra.finetuning.registry import BY_KIND, TASKS, command_of, groups_of, reporting_of
from electra.finetuning.task import Task
from electra.report.evaluation import BAG_OF_WORDS, CUT_TEXTS, PLAIN_NAMES
from electra.report.published import published_scores
from electra.report.results import Result, read_results
from tests.conftest import refused
from tests.helpers import parametrize, read_json
from tests.tasks.classify.files import reviews_flags
from tests.tasks.glue.files import flags as glue_flags
from tests.tasks.multiple_choice.files import flags as choice_flags
from tests.tasks.squad.files import flags as squad_flags
from tests.tasks.tagging.files import flags as tagging_flags

KINDS = [verb for verb in BY_KIND.values() if TASKS[verb].is_trained]


class Tiny(NamedTuple):
    """What the tests need of a kind that its registration does not say.

    Args:
        flags: a folder with the data of tests/tasks/conftest.py, and options -> the command line of a run.
        row: a new row for its saved model.
        note: words of the sentence in the model's card that explains its answers; "" for no such sentence.
    """

    flags: Callable[..., list[str]]
    row: object
    note: str = ""


TINY = {
    "glue": Tiny(partial(glue_flags, tasks=["cola"], head="hf", max_length=8), "river stone"),
    "classify": Tiny(partial(reviews_flags, max_length=8), "river stone"),
    "squad": Tiny(
        partial(squad_flags, max_length=32), {"context": "river stone", "question": "river"}, "at the first token"
    ),
    "tag": Tiny(partial(tagging_flags, max_length=8), {"tokens": ["river", "stone"]}, "the label of its first token"),
    "choose": Tiny(partial(choice_flags, max_length=8), {"question": "river", "choices": ["stone", "river"]}),
}
"""Each kind by its verb. Some texts of a run are longer than is read at once."""
SHOWN_BY_NAME = {"precision", "recall", "test_precision", "test_recall"}
"""Metrics of tagging that are no columns of the overview."""


class Run(NamedTuple):
    """A finished run of a kind, with its task and its result."""

    verb: str
    folder: Path
    task: Task
    result: Result


@pytest.fixture(scope="module", params=KINDS)
def finished(request, folder, tmp_path_factory):
    """The run of a kind, one seed, with a saved model; its development set is its test set, too, if it reads one."""
    verb = request.param
    output = tmp_path_factory.mktemp(verb)
    options = {"num_seeds": 1, "bf16": False, "use_cpu": True, "save_model": True, "output_dir": output}
    words = TINY[verb].flags(folder, pretrain_path=folder / "encoder", **options)
    command = command_of(verb)
    if any(f.name == "test_file" for f in fields(command.groups[1])):
        words += [word.replace("--validation_", "--test_") for word in words if word.startswith("--validation_file")]
    command.run(words)
    (task,) = command.open(command.parse(words))
    (result,) = read_results(output / "run" / "results.jsonl")
    return Run(verb, output / "run", task, result)


def test_each_kind_has_tiny_data():
    assert TINY.keys() == {*KINDS}


def test_scores_are_those_of_the_reports(finished):
    reporting = reporting_of(TASKS[finished.verb].kind)
    task = reporting.tasks.get(finished.result.task)
    headline = task.headline if task else reporting.headlines[0]
    of_type = ("f1_", "test_f1_")  # of one type of entity
    names = {name for name in finished.result.metrics if not name.startswith(of_type)}
    assert headline in names <= reporting.metrics.keys() | SHOWN_BY_NAME
    report = (finished.folder / "report.md").read_text(encoding="utf-8")
    (overview,) = re.findall(r"^\| Run \| Seeds \|.*$", report, re.MULTILINE)
    titles = Counter(cell.strip() for cell in overview.split("|"))
    assert all(
        f"\n| {name.removeprefix('test_f1_').removeprefix('f1_')} |" in report
        for name in finished.result.metrics.keys() - names
    )
    columns = {name for name in names - SHOWN_BY_NAME if reporting.repeats.get(name) not in names}
    for name in [headline] if reporting.averages else columns:
        title = reporting.metrics[name].title
        assert titles[title] + (titles[f"{task.title} {title}"] if task else 0) == 1
    is_tested = any(name.startswith("test_") for name in names)
    assert is_tested == any("Metrics that begin with test" in text for text in reporting.explanations)
    assert is_tested or not any(name.startswith("test_") for name in reporting.metrics)
    assert all(any(f"{name} is " in text for text in reporting.explanations) for name in reporting.averages)


def test_no_two_columns_are_always_equal(finished):
    """An official task names its columns; of data of a user, metrics that repeat another one are left out.

    A tiny run may have all or nothing right, of which many metrics make the same number.
    """
    reporting = reporting_of(TASKS[finished.verb].kind)
    if finished.result.task in reporting.tasks:
        return
    scores = finished.result.metrics
    names = {name for name in scores if name in reporting.metrics and reporting.repeats.get(name) not in scores}
    for part in (True, False):
        columns = [scores[name] for name in names if name.startswith("test_") == part and 0 < scores[name] < 1]
        assert len({*columns}) == len(columns)


def test_a_kind_that_writes_details_of_answers_describes_them_in_its_report(finished):
    has_details = any(finished.folder.glob("predictions/*-details.json"))
    assert not has_details or reporting_of(TASKS[finished.verb].kind).details is not None


def test_narrow_encoders_have_the_defaults_that_the_help_names(finished):
    verb = finished.verb
    assert TASKS[verb].suits_narrow == (finished.task.texts is not None)
    words = [word for word in TINY[verb].flags(finished.folder) if not word.startswith("--pretrain_path")]
    if TASKS[verb].suits_narrow:
        assert command_of(verb).parse(words).encoder.pretrain_path == TINY_EN
    else:
        assert "--pretrain_path" in refused(lambda: command_of(verb).parse(words))


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


def test_differences_to_baselines_have_the_error_of_the_same_rows(finished):
    """Not where the headline is a correlation (CoLA) or the best score over thresholds (SQuAD)."""
    (path,) = (finished.folder / "predictions").glob("*-baselines.json")
    recorded = {} if finished.verb in ("glue", "squad") else read_json(path)
    splits = {"dev", "test"} & finished.result.rows.keys()
    errors = finished.result.paired_errors
    assert {name: errors[name].keys() for name in errors} == dict.fromkeys(recorded, splits)


def test_logits_and_baselines_are_written_and_answers_to_data_of_the_user(finished):
    names = {path.name for path in finished.folder.glob("predictions/*")}
    task = finished.result.task
    logits_and_baselines = {f"{task}-42.npz", f"{task}-42-baselines.json"}
    assert logits_and_baselines <= names
    assert (names > logits_and_baselines) == TASKS[finished.verb].takes_rows


def test_the_card_of_a_model_says_how_it_is_used(finished, monkeypatch):
    (model,) = (finished.folder / "models").iterdir()
    card = (model / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    output = io.StringIO()
    monkeypatch.chdir(model.parent)
    with redirect_stdout(output):
        exec(compile(code, "README.md", "exec"), {})
    assert output.getvalue().strip()
    with np.load(finished.folder / "predictions" / f"{finished.result.task}-42.npz") as logits:
        has_windows = len(logits["dev"]) > finished.result.rows["dev"]
    assert ("cut into windows of" in card) == has_windows != ("truncated to" in card)
    assert "median of" not in card  # of a single seed
    (note,) = re.findall(r"^Longer inputs are .* tokens\.(.*)", card, re.MULTILINE)
    assert TINY[finished.verb].note in note and bool(note.strip()) == bool(TINY[finished.verb].note)


def test_a_saved_model_answers_a_new_row(finished):
    (answer,) = predict(finished.folder, [TINY[finished.verb].row])
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
