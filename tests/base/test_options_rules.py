"""Rules of the options of all verbs, told by what an option is, not by its declaration."""

import ast
import re
from dataclasses import fields

from transformers import TrainingArguments

from docs.schema import VERBS_WITH_CONFIG
from electra.base.command_line import CommandLine
from electra.base.files import TINY_EN, read_yaml
from electra.core.options import rules_of
from electra.core.recipes import RECIPES
from electra.finetuning.registry import TASKS, TRAINED, command_of, groups_of
from electra.pretraining.configuration import GROUPS, ElectraTrainingArguments
from tests.conftest import refused
from tests.helpers import ROOT, parametrize

PATH = re.compile(
    r"(.*_)?(file|path)|cache_dir|token_cache|init_(checkpoint|discriminator|generator)|eval_(corruption|pairs|classify)"
)
"""Options with a name of this form and text as their value are files and folders that a run reads."""
NOT_EMPTY = {
    "pretrain": "cache_dir token_cache tokenizer_path init_checkpoint init_discriminator init_generator "
    "eval_corruption eval_pairs eval_classify",
    "tokenizer": "extend",
    "cache": "cache_dir tokenizer_path",
    "classify": "dataset_name delimiter no_label text_column text_pair_column label_column label_separator",
    "tag": "dataset_name delimiter no_label word_column label_column",
    "choose": "dataset_name delimiter no_label",
    "squad": "dataset_name",
    "pairs": "data generator dataset_config_name columns delimiter",
}
"""Verb -> names of options of data, columns, separators and networks, which are not empty."""
PARTS_OF_COMMAND = {"budget", "configuration", "finish", "options", "run", "run_folder", "timing"}
"""Modules of pre-training that a program does not come through, or that read options only to check them."""


@parametrize("verb", [verb for verb in TRAINED if TASKS[verb].takes_rows])
def test_data_that_are_named_replace_those_of_a_file(verb, tmp_path):
    """A data set replaces files, and files replace a data set; a test set may be scored with either."""
    command = command_of(verb)

    def read(content, *flags):
        (tmp_path / "a.yaml").write_text(f"pretrain_path: a\n{content}")
        options = command.parse([f"--config={tmp_path / 'a.yaml'}", *flags]).options
        names = ("train_file", "validation_file", "dataset_name", "dataset_config_name")
        return {name for name in names if getattr(options, name, None)}

    assert read("train_file: b\nvalidation_file: c", "--dataset_name=d") == {"dataset_name"}
    flags = ["--train_file=b", "--validation_file=c"]
    configured = "dataset_name: d\n"
    if any(option.name == "dataset_config_name" for option in fields(groups_of(verb)[1])):
        configured += "dataset_config_name: e\n"
    assert read(configured, *flags) == {"train_file", "validation_file"}
    assert read(configured, "--dataset_name=f") == {"dataset_name"}


@parametrize("verb", ["pretrain", "cache"])
@parametrize("named", ["dataset_name", "train_file", "token_cache"])
def test_a_text_that_is_named_replaces_those_of_a_file(verb, named, tmp_path):
    """What a data set is read with goes with it; held-out files stay beside files and caches."""
    of_texts = {"dataset_name": "a", "dataset_config_name": "b", "dataset_split": "c", "dataset_sampling": "0.5"}
    lines = {**of_texts, "train_file": "d", "token_cache": "e", "validation_file": "f", "text_column": "g"}
    line = CommandLine(VERBS_WITH_CONFIG[verb], "")
    lines = {name: value for name, value in lines.items() if name in line.options}
    (tmp_path / "a.yaml").write_text("".join(f"{name}: {value}\n" for name, value in lines.items()))
    given = line.parse([f"--config={tmp_path / 'a.yaml'}", f"--{named}=h"]).given
    kept = {"text_column"} | ({"validation_file"} if named != "dataset_name" else set())
    assert given == {named} | (kept & lines.keys())


@parametrize("verb", NOT_EMPTY)
def test_a_name_that_is_empty_is_a_forgotten_value(verb):
    """Such as a variable of a shell that is not set, of which no run may say that it was the default."""
    for name in NOT_EMPTY[verb].split():
        assert f"--{name} " in refused(
            lambda name=name: CommandLine(VERBS_WITH_CONFIG[verb], "").parse([f"--{name}="])
        )


def our_options(verb):
    """The fields of the options of a verb that are declared here, not by transformers."""
    options = [option for option, _ in CommandLine(VERBS_WITH_CONFIG[verb], "").options.values()]
    return [option for option in options if "rules" in option.metadata]


@parametrize("verb", VERBS_WITH_CONFIG)
def test_numbers_have_a_range(verb):
    numbers = {int, float, int | None, float | None, list[int], list[float]}
    assert all(rules_of(option).valid is not None for option in our_options(verb) if option.type in numbers)


@parametrize("verb", TRAINED)
def test_an_evaluation_records_the_hyperparameters_of_the_paper(verb):
    """Table 7 of the paper and the seed, also at their defaults: another default then changes no evaluation."""
    paper = {"per_device_train_batch_size": 32, "warmup_steps": 0.1, "weight_decay": 0.0, "max_grad_norm": 1.0}
    record = CommandLine(groups_of(verb), "", preset=TASKS[verb].preset).parse([]).record
    assert record == {**paper, "seed": 42, **TASKS[verb].preset}


def test_a_score_of_minimal_pairs_records_its_network_also_where_none_is_named():
    assert CommandLine(VERBS_WITH_CONFIG["pairs"], "").parse([]).record == {"pretrain_path": TINY_EN}


def test_a_run_records_what_its_recipe_sets_and_what_the_last_release_recorded():
    record = CommandLine(GROUPS, "").parse([]).record
    earlier = ROOT / "tests" / "fixtures" / "earlier_release" / "run" / "config.yaml"
    recorded = read_yaml(earlier.read_text(encoding="utf-8"))
    options = CommandLine(GROUPS, "").options
    at_default = {name for name in recorded if options[name][0].default == recorded[name]}
    assert RECIPES["small"].keys() | at_default <= record.keys() >= {"seed", "eval_seed", "experiment_name"}


@parametrize("verb", ["pretrain", "cache", "tokenizer"])
def test_what_a_run_reads_is_recorded_with_its_whole_path(verb):
    """So that the run goes on from any folder."""
    texts = {str, str | None, list[str]}
    options = our_options(verb)
    paths = {option.name for option in options if option.type in texts and PATH.fullmatch(option.name)}
    assert paths == {option.name for option in options if rules_of(option).absolute is not None}


def test_options_that_no_program_reads_are_those_of_the_command():
    names_read = set()
    for package in ("pretraining", "core", "data", "model"):
        for path in (ROOT / "electra" / package).rglob("*.py"):
            if package == "pretraining" and path.stem in PARTS_OF_COMMAND:
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Attribute) and ast.unparse(node.value).endswith(("args", "training")):
                    names_read.add(node.attr)
    of_transformers = {field.name for field in fields(TrainingArguments)} - {"resume_from_checkpoint"}
    declared = [field for field in fields(ElectraTrainingArguments) if "rules" in field.metadata]
    ours = {field.name: rules_of(field) for field in declared if field.name not in of_transformers}
    assert {name for name, rules in ours.items() if rules.of_command} == ours.keys() - names_read
