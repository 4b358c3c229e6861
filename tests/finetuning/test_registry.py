"""The table of the kinds of tasks: each part of a registration is there and fits the others; all lists follow it."""

from dataclasses import dataclass, fields
from importlib import import_module

from docs.reference import options_page
from docs.schema import VERBS_WITH_CONFIG
from electra.base.command_line import CommandLine
from electra.core.options import option, rules_of
from electra.finetuning.commands import TaskCommand
from electra.finetuning.config import (
    Arguments,
    EncoderArguments,
    FileTaskArguments,
    FineTuningArguments,
    ProtocolArguments,
    scored_options,
)
from electra.finetuning.data import RECORDED_AS_DATA, NamedRows
from electra.finetuning.predict import verb_of
from electra.finetuning.registry import BY_KIND, TASKS, TRAINED, command_of, groups_of, reporting_of
from electra.report.command import report_of
from electra.report.evaluation import Reporting
from electra.tools.commands import VERBS
from electra.tools.downstream import TASKS_OF_USER
from electra.tools.sweep_file import PROGRAMS
from tests.helpers import ROOT, parametrize

WITHOUT_EVALUATION = {"detect"}
"""Packages of electra/tasks that are no kind of task: what they write has no kind and no report of several."""


def test_each_module_and_package_of_tasks_is_registered():
    folder = ROOT / "electra" / "tasks"
    kinds = {path.parent.name for path in folder.glob("*/task.py")} | {path.stem for path in folder.glob("[!_]*.py")}
    assert kinds - WITHOUT_EVALUATION == BY_KIND.keys() == {row.kind for row in TASKS.values()}


def test_each_command_of_a_task_module_is_registered():
    commands = {
        f"{module.__name__}.{name}"
        for verb in BY_KIND.values()
        for module in [import_module(TASKS[verb].module)]
        for name, value in vars(module).items()
        if isinstance(value, TaskCommand)
    }
    assert commands == {row.command for row in TASKS.values() if row.is_trained}


@parametrize("verb", TRAINED)
def test_the_parts_of_a_registration_fit_each_other(verb):
    row, command = TASKS[verb], command_of(verb)
    kind = command.kind
    assert (kind.name, kind.reporting) == (row.kind, reporting_of(row.kind))
    assert kind.reporting.verb in (f"-m electra {BY_KIND[row.kind]}", "run_glue.py")
    assert import_module(row.module).main == command.run
    assert bool(row.report) == (ROOT / "electra" / "tasks" / row.kind / "report.py").is_file()  # without torch
    for group, base in zip(groups_of(verb), (EncoderArguments, ProtocolArguments, FineTuningArguments), strict=True):
        assert issubclass(group, base)
    assert row.takes_rows == any(f.name == "train_file" for f in fields(groups_of(verb)[1]))


@parametrize("verb", TASKS)
def test_what_the_help_shows_are_options_of_the_verb(verb):
    row = TASKS[verb]
    options = {f.name for group in groups_of(verb) for f in fields(group)}
    assert {*row.basic.split(), *row.preset} <= options
    assert not row.is_trained or {"pretrain_path", "num_seeds", "save_model"} <= {*row.basic.split()}
    assert row.is_trained == (row.answers is not None)
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
    assert saved_as in row.architectures or any(row.architectures.values())  # which AutoModel opens
    for head in row.architectures:
        assert verb_of({"kind": row.kind}, head, {"label_kind": "single"}) == BY_KIND[row.kind]


def test_a_folder_without_a_kind_is_answered_by_its_architecture():
    """Those of earlier versions; only those of classify record the kind of the labels."""
    assert verb_of({}, "SequenceClassification", {"label_kind": "single"}) == "classify"
    assert verb_of({}, "SequenceClassification", {}) == "glue"
    assert verb_of({"kind": "of a program"}, "TokenClassification", {}) == "tag"
    assert verb_of({"kind": "classify"}, "TokenClassification", {}) == "tag"  # opened as another class
    assert [verb_of({}, head, {}) for head in ("MultipleChoice", "QuestionAnswering")] == ["choose", "squad"]
    assert verb_of({}, "FeatureTagging", {}) == "tag"  # by the features of a frozen encoder


def test_verbs_schema_python_sweeps_and_pages_follow_the_table():
    assert TASKS.keys() <= VERBS.keys() & VERBS_WITH_CONFIG.keys()
    assert {f"electra {verb}" for verb in TRAINED} <= PROGRAMS.keys()
    assert {*TASKS_OF_USER} == {verb for verb in TRAINED if TASKS[verb].takes_rows}
    page = options_page()
    assert all(f"## electra {verb}\n" in page for verb in TASKS)


@parametrize("verb", [verb for verb in TASKS_OF_USER if not TASKS[verb].preset])
def test_the_page_of_data_shows_the_rows_of_each_verb(verb):
    """By the word for a row that reports use, too."""
    page = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    (line,) = (line for line in page.splitlines() if line.startswith(f"| [`{verb}`](#"))
    assert f"| {reporting_of(TASKS[verb].kind).unit} " in line


@parametrize("verb", TRAINED)
def test_each_option_of_a_kind_is_recorded_unless_no_score_depends_on_it(verb):
    _, group, _ = groups_of(verb)
    # Each task of GLUE has a record of its own.
    by_other_names = {"tasks", "glue_dir", "task_overrides", "start_from_mnli", "predict_test"}
    silent = {f.name for f in fields(group) if not rules_of(f).changes_score}
    assert silent - {f.name for f in fields(ProtocolArguments)} == (by_other_names if verb == "glue" else set())
    assert scored_options(group).keys() == {f.name for f in fields(group)} - silent - {*RECORDED_AS_DATA}


@dataclass(frozen=True)
class ArgumentsOfATask(FileTaskArguments):
    """Options of a kind of task that exists here alone."""

    train_file: list[str] = option([], "Files.")
    window: int = option(3, "Words that are read.")
    no_label: list[str] = option([], "Labels that mean none.")


def test_options_and_rows_are_settings_of_results():
    def settings(rows=None, **options):
        groups = EncoderArguments("a"), ArgumentsOfATask(**options), FineTuningArguments()
        return Arguments(*groups, rows=rows or {}).settings()

    assert settings(window=5) == {"window": 5, "validation_fraction": 0.1, "eval_seed": 0}
    rows = {split: NamedRows(split, [{"text": split}]) for split in ("train", "dev")}
    assert settings(rows, eval_seed=3).keys() == {"window", "train_data", "validation_data"}
    named = settings(dataset_name="d", no_label=["b", "a"], delimiter=";")
    assert named == {"window": 3, "no_label": ["a", "b"], "train_data": "d train", "validation_data": "d validation"}
    assert settings(delimiter=";")["delimiter"] == ";"
    assert scored_options(ArgumentsOfATask) == {"window": 3}


def test_a_preset_is_recorded_and_lies_below_files_and_flags(tmp_path):
    (tmp_path / "a.yaml").write_text("text_pair_column: c")
    argv = ["--pretrain_path=a", "--train_file=a.csv", f"--config={tmp_path / 'a.yaml'}", "--label_separator=;"]
    preset = {"text_column": "a", "text_pair_column": "b", "label_separator": "|"}
    args = command_of("classify").parse(argv, preset=preset)
    options = {name: getattr(args.options, name) for name in preset}
    assert options == {"text_column": "a", "text_pair_column": "c", "label_separator": ";"}
    assert options.items() <= args.record.items()  # the file of a run has them, for the verb without the preset
    assert command_of("classify").parse(argv).options.text_column is None


def test_verbs_of_one_kind_share_command_report_and_architectures():
    for row in TASKS.values():
        kind = TASKS[BY_KIND[row.kind]]
        assert (row.command, row.report, row.architectures) == (kind.command, kind.report, kind.architectures)
