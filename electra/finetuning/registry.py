"""The kinds of tasks as a table: all that is registered of a task, by the verb of its command.

The verbs of `electra`, the schema of their files, `fine_tune`, sweeps, reports, `electra predict`, the pages of
options and the lists of the tests are read from `TASKS`. Parts are named by their path and imported when they are
needed, so that `electra --help` and reports start without torch.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:  # see above
    from electra.report.evaluation import Reporting


class Registration(NamedTuple):
    """A row of `TASKS`: a verb, the kind of its tasks, and where the parts of the kind are.

    Args:
        kind: name of the module or package in electra/tasks, and of the kind in environment.json and in saved models.
        about: a line about the verb, for the help.
        example: arguments of a typical call.
        command: path of the `TaskCommand`; of a kind that trains nothing, of the groups of its options.
        report: path of the `Reporting`, or of a function of folders that returns a `Report`, in a module that imports
            no torch; "" for the `Reporting` of the command's kind, which costs `electra report` seconds.
        basic: names of the options that `--help` shows, separated by spaces, the most important first; "" for all.
        answers: what `electra predict` reads of a row, and what its `prediction` and its `probability` are, for
            docs/use.md; None for a kind that saves no models.
        architectures: end of the name of a class that the kind's models are saved as, behind "For" -> "" for a class
            of transformers, else the path of a function of the configuration that returns the class.
        is_trained: whether the command fine-tunes.
        takes_rows: whether a program may pass rows to fine-tune on; the data of other kinds are fixed.
        suits_narrow: whether narrow encoders have defaults of their own (`NARROW_DEFAULTS`), and tiny-en, which is
            narrow, is fine-tuned where no encoder is named; its tasks have `Task.texts`.
        preset: option -> value of another verb's options, which files and flags overrule. A verb with a preset has the
            kind and the parts of that verb, and no more.
    """

    kind: str
    about: str
    example: str
    command: str
    report: str = ""
    basic: str = ""
    answers: tuple[str, str, str] | None = None
    architectures: Mapping[str, str] = {}
    is_trained: bool = True
    takes_rows: bool = True
    suits_narrow: bool = False
    preset: Mapping[str, object] = {}

    @property
    def module(self) -> str:
        """Return the module whose `main` runs the verb."""
        return self.command.rpartition(".")[0]


FEATURE_TAGGING = "FeatureTagging"
"""End of the architecture of a saved tagger of words by the features of a frozen encoder."""
RUN = (
    "experiment_name num_seeds save_model learning_rate num_train_epochs per_device_train_batch_size max_length seed "
    "bf16 threads report_to plan"
)
"""Basic options that all commands of fine-tuning have."""

ANSWERS_OF_TEXTS = (
    "as in training, or `--text_column`, `--text_pair_column`",
    "the class; a list of classes; a number (STS-B: in [0, 1])",
    "of the class; of every class of a list; none of a number",
)
"""`Registration.answers` of models that read a text or a pair."""
TEXTS_WITH_LABELS = Registration(
    "classify",
    "fine-tune on your own texts with labels: classes, several at once, or numbers",
    "--pretrain_path output/small_owt --train_file reviews.csv --save_model",
    "electra.tasks.classify.task.CLASSIFY_COMMAND",
    "electra.tasks.classify.report.CLASSIFY_REPORTING",
    "pretrain_path train_file validation_file test_file dataset_name text_column text_pair_column "
    f"label_column {RUN} label_kind long_texts train_fractions",
    ANSWERS_OF_TEXTS,
    {"SequenceClassification": ""},
    suits_narrow=True,
)
"""The row of `electra classify`, of which verbs with a preset are made by `_replace`."""

TASKS = {
    "glue": Registration(
        "glue",
        "fine-tune on GLUE and similar tasks, with several seeds",
        "--pretrain_path output/quickstart --tasks demo",
        "electra.tasks.glue.task.GLUE_COMMAND",
        "electra.tasks.glue.report.GLUE_REPORTING",
        f"pretrain_path tasks glue_dir {RUN} predict_test",
        ANSWERS_OF_TEXTS,
        {"SequenceClassification": ""},
        takes_rows=False,
    ),
    "classify": TEXTS_WITH_LABELS,
    "squad": Registration(
        "squad",
        "fine-tune on questions about paragraphs, SQuAD 1.1 or 2.0",
        "--pretrain_path output/small_owt --dataset_name squad_v2",
        "electra.tasks.squad.task.SQUAD_COMMAND",
        "electra.tasks.squad.report.SQUAD_REPORTING",
        f"pretrain_path train_file validation_file dataset_name {RUN}",
        (
            "`question`, `context`",
            "the answer; empty if there is none",
            "of the answer; of an empty one, that there is none",
        ),
        {"QuestionAnswering": ""},
    ),
    "tag": Registration(
        "tagging",
        "fine-tune to label words, such as names (NER)",
        "--pretrain_path output/small_owt --train_file eng.train --validation_file eng.testa",
        "electra.tasks.tagging.task.TAGGING_COMMAND",
        "electra.tasks.tagging.report.TAGGING_REPORTING",
        f"pretrain_path train_file validation_file test_file dataset_name word_column label_column {RUN}",
        (
            "`text`, or `tokens`, or a file of columns (`.conll`, `.conllu`, `.tsv`)",
            "`[start, end, label]` of each span, in characters of the text, or in tokens",
            "of the least certain word of each span",
        ),
        {"TokenClassification": "", FEATURE_TAGGING: "electra.finetuning.features.tagger_class"},
        suits_narrow=True,
    ),
    "choose": Registration(
        "multiple_choice",
        "fine-tune on multiple choice, such as SWAG",
        "--pretrain_path output/small_owt --train_file train.csv --validation_file dev.csv",
        "electra.tasks.multiple_choice.task.CHOICE_COMMAND",
        "electra.tasks.multiple_choice.report.CHOICE_REPORTING",
        f"pretrain_path train_file validation_file test_file dataset_name {RUN}",
        ("as in training", "number of the choice; `choice` is its text", "of the choice"),
        {"MultipleChoice": ""},
    ),
    "pairs": Registration(
        "minimal_pairs",
        "test grammar on minimal pairs, such as BLiMP, without training",
        "--pretrain_path output/small_owt --data blimp/data",
        "electra.tasks.minimal_pairs.task.PAIRS_GROUPS",
        "electra.tasks.minimal_pairs.report.report_pairs",
        is_trained=False,
    ),
}
"""The kinds of tasks by the verb of their command, in the order of the help."""
TRAINED = tuple(verb for verb, row in TASKS.items() if row.is_trained)
"""Verbs that fine-tune."""
NARROW_COMMANDS = ", ".join(f"`electra {verb}`" for verb, row in TASKS.items() if row.suits_narrow and not row.preset)
"""The commands of the rows with `suits_narrow` in words, for the help of options whose defaults differ there."""
BY_KIND = {row.kind: verb for verb, row in reversed(TASKS.items()) if not row.preset}
"""Kind of tasks -> its verb, the one without a preset."""


def part(path: str) -> Any:
    """Import and return the object that a path in `TASKS` names: of `package.module.NAME` the NAME in the module."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def command_of(verb: str) -> Any:
    """Return the `TaskCommand` of a verb that fine-tunes."""
    return part(TASKS[verb].command)


def reporting_of(kind: str) -> "Reporting":
    """Return the `Reporting` of a kind whose command fine-tunes."""
    row = TASKS[BY_KIND[kind]]
    reporting: Reporting = part(row.report) if row.report else command_of(BY_KIND[kind]).kind.reporting
    return reporting


def groups_of(verb: str) -> tuple[type, ...]:
    """Return the groups of the options of a verb, dataclasses."""
    registered = part(TASKS[verb].command)
    groups: tuple[type, ...] = registered.groups if TASKS[verb].is_trained else registered
    return groups
