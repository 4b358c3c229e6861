"""The table of the kinds of tasks: each part of a registration is there and fits the others; all lists follow it."""

from dataclasses import fields
from importlib import import_module
from pathlib import Path

from docs.reference import FINE_TUNING, options_page
from electra.base.command_line import CommandLine
from electra.finetuning.commands import TaskCommand
from electra.finetuning.config import EncoderArguments, FineTuningArguments, ProtocolArguments
from electra.finetuning.predict import verb_of
from electra.finetuning.registry import BY_KIND, TASKS, TRAINED, command_of, groups_of, part
from electra.report.command import report_of
from electra.report.evaluation import Reporting
from electra.tools.commands import VERBS
from electra.tools.downstream import TASKS_OF_USER
from electra.tools.schema import VERBS_WITH_CONFIG
from electra.tools.sweep_file import PROGRAMS
from tests.helpers import ROOT, parametrize

WITHOUT_EVALUATION = {"detect"}
"""Packages of electra/tasks that are no kind of task: what they write has no kind and no report of several."""
PAGES = {"docs/data.md": TASKS_OF_USER, "docs/use.md": TRAINED, "skills/electra/SKILL.md": TRAINED}
"""Page -> the verbs that it lists."""


def test_each_package_of_tasks_is_registered():
    packages = {path.parent.name for path in (ROOT / "electra" / "tasks").glob("*/task.py")}
    assert packages - WITHOUT_EVALUATION == BY_KIND.keys() == {row.kind for row in TASKS.values()}


def test_each_command_of_a_task_module_is_registered():
    found = {
        f"{module.__name__}.{name}"
        for kind in BY_KIND
        for module in [import_module(f"electra.tasks.{kind}.task")]
        for name, value in vars(module).items()
        if isinstance(value, TaskCommand)
    }
    assert found == {row.command for row in TASKS.values() if row.is_trained}


@parametrize("verb", TRAINED)
def test_the_parts_of_a_registration_fit_each_other(verb):
    row, command = TASKS[verb], command_of(verb)
    kind = command.kind
    assert (kind.name, kind.reporting) == (row.kind, part(row.report)) and kind.reporting.kind == row.kind
    assert kind.command == kind.reporting.verb and kind.command in (f"-m electra {BY_KIND[row.kind]}", "run_glue.py")
    assert import_module(row.module).main == command.run
    for group, base in zip(groups_of(verb), (EncoderArguments, ProtocolArguments, FineTuningArguments), strict=True):
        assert issubclass(group, base)
    assert row.takes_rows == any(f.name == "train_file" for f in fields(groups_of(verb)[1]))


@parametrize("verb", TASKS)
def test_what_the_help_shows_are_options_of_the_verb(verb):
    row = TASKS[verb]
    options = {f.name for group in groups_of(verb) for f in fields(group)}
    assert {*row.basic.split(), *row.preset} <= options
    assert not row.is_trained or {"pretrain_path", "num_seeds", "save_model"} <= {*row.basic.split()}
    shown = CommandLine(groups_of(verb), "", preset=row.preset)
    assert all(shown.get_default(name) == value for name, value in row.preset.items())


@parametrize("kind", BY_KIND)
def test_each_kind_has_a_report(kind):
    report = report_of(kind)
    assert callable(report) and (kind == "minimal_pairs" or isinstance(report.__self__, Reporting))


@parametrize("verb", TRAINED)
def test_a_saved_model_is_answered_by_the_command_of_its_recorded_kind(verb):
    row = TASKS[verb]
    saved_as = command_of(verb).kind.auto_model.__name__.removeprefix("AutoModelFor")
    assert saved_as in row.architectures
    for head in row.architectures:
        assert verb_of({"kind": row.kind}, head, {"label_kind": "single"}) == BY_KIND[row.kind]


def test_a_folder_without_a_kind_is_answered_by_its_architecture():
    """Those of earlier versions; only those of classify record the kind of the labels."""
    assert verb_of({}, "SequenceClassification", {"label_kind": "single"}) == "classify"
    assert verb_of({}, "SequenceClassification", {}) == "glue"
    assert verb_of({"kind": "of a program"}, "TokenClassification", {}) == "tag"
    assert verb_of({"kind": "classify"}, "TokenClassification", {}) == "tag"  # opened as another class
    assert [verb_of({}, head, {}) for head in ("MultipleChoice", "QuestionAnswering")] == ["choose", "squad"]


def test_verbs_schema_python_sweeps_and_pages_follow_the_table():
    assert TASKS.keys() <= VERBS.keys() & VERBS_WITH_CONFIG.keys()
    assert {f"electra {verb}" for verb in TRAINED} <= PROGRAMS.keys() and FINE_TUNING == TRAINED
    assert {"classify", "tag", "choose", "squad"} <= {*TASKS_OF_USER} <= {*TRAINED}
    page = options_page()
    assert all(f"## electra {verb}\n" in page for verb in TASKS)


@parametrize("page", PAGES)
def test_pages_that_people_write_list_each_verb(page):
    text = Path(ROOT / page).read_text(encoding="utf-8")
    missing = [verb for verb in PAGES[page] if not any(f"{mark}{verb}" in text for mark in ("`", "electra ", "| "))]
    assert missing == []


def test_a_preset_is_recorded_and_lies_below_files_and_flags(tmp_path):
    (tmp_path / "a.yaml").write_text("text_pair_column: c")
    argv = ["--pretrain_path=a", "--train_file=a.csv", f"--config={tmp_path / 'a.yaml'}", "--label_separator=;"]
    preset = {"text_column": "a", "text_pair_column": "b", "label_separator": "|"}
    args = command_of("classify").parse(argv, preset=preset)
    found = {name: getattr(args.options, name) for name in preset}
    assert found == {"text_column": "a", "text_pair_column": "c", "label_separator": ";"}
    assert found.items() <= args.record.items()  # the file of a run has them, for the verb without the preset
    assert command_of("classify").parse(argv).options.text_column is None


def test_a_preset_is_a_verb_of_a_kind_that_has_one():
    for row in TASKS.values():
        kind = TASKS[BY_KIND[row.kind]]
        assert (row.command, row.report, row.architectures) == (kind.command, kind.report, kind.architectures)
