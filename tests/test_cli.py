"""Command lines: precedence, the YAML file as flags, and one-line refusals that name what was got."""

import inspect
import os
import re
from dataclasses import fields
from pathlib import Path

import yaml
from pytest import raises

from electra.base.command_line import CommandLine, write_yaml
from electra.base.errors import options_meant
from electra.base.parser import Parser
from electra.core.errors import UserError
from electra.core.recipes import RECIPES
from electra.pretraining.configuration import GROUPS, NOT_USED
from electra.pretraining.options import parse_pretraining_arguments
from electra.tasks.glue.task import GLUE_GROUPS
from electra.tasks.squad.data import SquadArguments
from electra.tokenizers.options import TokenizerArguments
from tests.conftest import refused
from tests.helpers import parametrize


def parse(*argv, config=None):
    """The values of all options of pre-training; `config` is the file where the command line names none."""
    groups = CommandLine(GROUPS, "test", recipes=RECIPES).parse(list(argv), default_config=lambda flags: config).groups
    return {name: value for group in groups for name, value in vars(group).items()}


def write(path, text):
    """Write a file; return its path as text."""
    path.write_text(text)
    return str(path)


@parametrize(
    ("argv", "recipe"), [([], "small"), (["--model_size", "base"], "base"), (["--model-size=large"], "large")]
)
def test_a_recipe_sets_every_field_it_states(argv, recipe):
    assert RECIPES[recipe].items() <= parse(*argv).items()


def test_precedence_is_default_recipe_file_flag(tmp_path):
    lines = "model_size: base\nlearning_rate: 3e-4\nhidden_size: 384\nmax_steps: 7\nadam_epsilon: 1e-6\n"
    config = write(tmp_path / "a.yaml", lines)
    values = parse("--config", config, "--max_steps", "9")
    assert values["per_device_train_batch_size"] == RECIPES["base"]["per_device_train_batch_size"]  # recipe
    assert (values["learning_rate"], values["hidden_size"]) == (3e-4, 384)  # file over recipe
    assert values["max_steps"] == 9  # flag over file
    assert parse("--config", config, config=write(tmp_path / "b.yaml", "max_steps: 8\n"))["max_steps"] == 7
    argv = ["--model_size=large", "--config", config, "--num_hidden_layers", "2", "--max_steps", "7"]
    values = parse(*argv)  # recipe as a flag over file
    assert (values["hidden_size"], values["num_hidden_layers"]) == (RECIPES["large"]["hidden_size"], 2)
    assert values["max_steps"] == 7


@parametrize(
    ("flag", "sources", "split"),
    [
        (["--train_file", "mine.txt"], ([], ["mine.txt"]), "train"),
        (["--dataset-name", "builtin", "--train_file", "a"], (["builtin"], ["a"]), "train"),
        (["--dataset_split", "test"], (["wikipedia", "builtin"], ["theirs"]), "test"),
    ],
)
def test_data_on_the_command_line_replace_those_of_the_file(tmp_path, flag, sources, split):
    config = write(
        tmp_path / "a.yaml",
        "dataset_name: [wikipedia, builtin]\ndataset_config_name: [20231101.de, none]\ndataset_split: train[:1%]\n"
        "train_file: theirs\ndataset_sampling: [0.5, 0.1, 1.0]\ntext_column: body\nvalidation_file: held.txt\n",
    )
    values = parse(*flag, config=config)
    files = [Path(file).name for file in values["train_file"]]
    assert (values["dataset_name"], files, values["dataset_split"]) == (*sources, split)
    is_replaced = split == "train"
    assert values["dataset_config_name"] == ([] if is_replaced else ["20231101.de", "none"])
    assert values["dataset_sampling"] == ([] if is_replaced else [0.5, 0.1, 1.0])
    expected = [] if "--dataset-name" in flag else [str(Path("held.txt").resolve())]
    assert (values["text_column"], values["validation_file"]) == ("body", expected)


@parametrize("text", ["dataset_name", "train_file", "token_cache"])
def test_a_text_of_the_command_line_replaces_each_text_of_a_file(tmp_path, text):
    """And what the file says of its data sets."""
    lines = {"dataset_name": "a", "dataset_config_name": "b", "dataset_split": "c", "dataset_sampling": 0.5}
    write_yaml({**lines, "train_file": "d.txt", "token_cache": "e"}, tmp_path / "a.yaml", "test")
    parsed = CommandLine(GROUPS, "test").parse(["--config", str(tmp_path / "a.yaml"), f"--{text}", "mine"])
    assert parsed.given == {text}


def test_data_of_squad_on_the_command_line_replace_those_of_the_file(tmp_path):
    config = write(tmp_path / "a.yaml", "train_file: a\nvalidation_file: b")
    for flag, expected in (("--train_file=c", (None, ["c"], "b")), ("--dataset_name=squad", ("squad", [], None))):
        (squad,) = CommandLine([SquadArguments], "test").parse([flag], default_config=lambda flags: config).groups
        assert (squad.dataset_name, squad.train_file, squad.validation_file) == expected


@parametrize(
    ("line", "value"),
    [
        ("# nothing", None),
        ("learning_rate: 5e-4", 5e-4),
        ("seed: 010", 10),
        ("experiment_name: no", "no"),
        ("experiment_name: 1e5", "1e5"),
        ("experiment_name: -1", "-1"),
        ("dataset_name: [on, 1_0.50, 'null', b c]", ["on", "1_0.50", "null", "b c"]),
        ("dataset_sampling: 0.5", [0.5]),
        ("bf16: yes", True),
        ("strip_accents: false", False),
        ("generator_steps: ~", None),
        ("validation_file: []", []),
        ("lr_scheduler_kwargs: {a: 10, b: 1e-4, c: '1e-4'}", {"a": 10, "b": 1e-4, "c": "1e-4"}),
    ],
)
def test_values_of_a_file_are_read_as_they_are_written(tmp_path, line, value):
    name = line.splitlines()[-1].partition(":")[0]
    parsed = parse("--config", write(tmp_path / "a.yaml", line)).get(name)
    assert parsed == value and isinstance(parsed, type(value))


@parametrize(
    ("argv", "line", "name", "value"),
    [
        ("--max_steps 7", "", "max_steps", 7),
        ("--learning_rate 5e-4", "", "learning_rate", 5e-4),
        ("", "learning_rate: 5e-4", "learning_rate", 5e-4),  # text for YAML 1.1
        ("--max-steps=7", "", "max_steps", 7),
        ("--dataset_name a b", "", "dataset_name", ["a", "b"]),
        ("--dataset_name=['a','c']", "", "dataset_name", ["a", "c"]),  # as wandb's agent writes lists
        ("--dataset_sampling=[0.5,1]", "", "dataset_sampling", [0.5, 1.0]),
        ("--dataset_name=[1-3].txt]", "", "dataset_name", ["[1-3].txt]"]),  # no list, but a name
        ("", "dataset_name: [a, b c]", "dataset_name", ["a", "b c"]),
        ("--bf16", "", "bf16", True),
        ("--bf16 False", "bf16: true", "bf16", False),
        ("--bf16=True", "", "bf16", True),
        ("--no_lowercase", "", "lowercase", False),
        ("--no-lowercase", "", "lowercase", False),
        ("--lowercase false", "", "lowercase", False),
        ("--tie word", "", "tie", "word"),
        ("", "experiment_name: 1e5", "experiment_name", "1e5"),
        ("", "generator_steps: null", "generator_steps", None),
        ("--seed 1", "seed: 2", "seed", 1),  # the word over the file
        ("--logging_steps 100", "", "logging_steps", 100),  # given, also with its default
    ],
)
def test_words_and_lines_give_values_of_the_options_types(tmp_path, argv, line, name, value):
    parsed = CommandLine(GROUPS, "test").parse([*argv.split(), "--config", write(tmp_path / "a.yaml", line)])
    parsed_value = next(vars(group)[name] for group in parsed.groups if name in vars(group))
    assert parsed_value == value and isinstance(parsed_value, type(value))
    assert parsed.given == ({name} if value is not None else frozenset())


@parametrize(
    ("argv", "named"),
    [
        ("--generater_size 0.5", "--generater_size --generator_size"),
        ("--gener 1", "--gener"),  # no abbreviations
        ("corpus.txt", "corpus.txt"),
        ("--resume_from_checkpoint", "--resume_from_checkpoint"),
        ("--learning_rate fast", "--learning_rate fast"),
        ("--model_size huge", "--model_size huge small++"),
        ("--max_steps many", "--max_steps many"),
        ("--tie words", "--tie words"),
        ("--learning_rate nan", "--learning_rate nan"),
        ("--data_seed 7", "--data_seed --eval_seed"),
        ("-max_steps 3", "-max_steps --"),
        ("--cased", "--cased --lowercase false"),
        # One option of each range.
        ("--mlm_probability 1", "--mlm_probability 1 (0, 1)"),
        ("--temperature 0", "--temperature 0"),
        ("--adam_beta2 1", "--adam_beta2 1 [0, 1)"),
        ("--max_length 7", "--max_length 7 8"),
        ("--max_steps 0", "--max_steps 0 -1"),
        ("--vocab_size 5", "--vocab_size 5 [6, 2^24]"),
        ("--seed 4294967296", "--seed 4294967296"),
        ("--cache_dir=", "--cache_dir"),
        ("--checkpoint_fractions 0.5 2", "--checkpoint_fractions 2"),
    ],
)
def test_a_bad_option_is_named(argv, named):
    with raises(UserError) as error:
        parse(*argv.split())
    assert all(word in str(error.value) for word in named.split()), error.value


@parametrize(
    ("text", "named"),
    [
        ("generater_size: 0.5\n", "--generater_size a.yaml --generator_size"),
        ("- max_steps\n", "a.yaml list"),
        ("seed: [1\n", "a.yaml YAML"),
        ("seed: 1\nmax_length: 64\nseed: 2\n", "a.yaml seed twice line 3"),
        ("? [seed, max_length]\n: 1\n", "a.yaml not valid YAML line 1"),
        ("cased: true\n", "a.yaml --cased lowercase false"),
        ("seed:\t1\n\tmax_steps: 2\n", "a.yaml line 1"),
        ("seed: " + 9_999 * "[", "a.yaml YAML"),
        ("max_length: 1:30\n", "max_length 1:30"),
        ("mlm_probability: 2\n", "--mlm_probability 2"),
        ("config: other.yaml\n", "--config a.yaml"),
        ("experiment_name: !!python/object/apply:os.system ['touch ran']\n", "a.yaml python/object"),
    ],
)
def test_a_bad_file_is_refused_naming_the_file_or_the_option(tmp_path, text, named, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with raises(UserError) as error:
        parse("--config", write(tmp_path / "a.yaml", text))
    assert all(word in str(error.value) for word in named.split()), error.value
    assert not (tmp_path / "ran").exists()


def test_a_folder_is_no_file_of_options(tmp_path):
    assert "config.yaml" in refused(lambda: parse("--config", str(tmp_path)))


def test_a_pipe_is_no_file_of_options(tmp_path):
    os.mkfifo(tmp_path / "a.yaml")
    assert "a.yaml is a pipe" in refused(lambda: parse("--config", str(tmp_path / "a.yaml")))


def test_effective_values_fed_back_give_the_same_options(tmp_path):
    argv = ["--model_size", "base", "--no_lowercase", "--train_file", "a b.txt", "c.txt", "--bf16"]
    argv += ["--max_steps", "11"]
    argv += ["--lr_scheduler_kwargs", '{"num_cycles": 2}', "--strip_accents", "false", "--adam_epsilon", "1e-7"]
    argv += ["--report_to", "tensorboard", "wandb", "--warmup_steps", "0.1", "--debug", "underflow_overflow"]
    parsed = CommandLine(GROUPS, "test", recipes=RECIPES).parse(argv)
    write_yaml(parsed.record, tmp_path / "config.yaml", "test")
    again = CommandLine(GROUPS, "test", recipes=RECIPES).parse(["--config", str(tmp_path / "config.yaml")])
    for before, after in zip(parsed.groups, again.groups, strict=True):
        # What transformers makes of the options, in values that are never equal.
        derived = ("logging_dir", "_n_gpu", "accelerator_config", "distributed_state", "deepspeed_plugin")
        options = {name: value for name, value in vars(before).items() if name not in derived}
        assert {name: vars(after)[name] for name in options} == options
    written = yaml.safe_load((tmp_path / "config.yaml").read_text())
    assert set(RECIPES["small"]) <= set(written)
    assert not {"use_cpu", "config", "eval_on_start"} & set(written)  # nothing of this machine or this file


def test_the_help_has_our_options_and_no_other(capsys):
    with raises(SystemExit) as stop:
        CommandLine(GROUPS, "test").parse(["--help"])
    assert not stop.value.code
    names = re.findall(r"^  (?:-h, )?--(\w+)", capsys.readouterr().out, re.MULTILINE)
    classes = [cls for group in GROUPS for cls in group.__mro__ if cls.__module__.startswith("electra.")]
    declared = {name for cls in classes for name in inspect.get_annotations(cls)}
    hidden = {"remove_unused_columns", "data_seed", "must_compile", "visible_gpus", "given", "resuming", "of_phase"}
    assert sorted(names) == sorted((declared | {"help", "config"}) - hidden)
    assert parse("--torch_empty_cache_steps", "3")["torch_empty_cache_steps"] == 3  # those of transformers are taken


@parametrize(
    ("groups", "word", "meant"),
    [
        (GROUPS, "--lr", "--learning_rate"),
        (GROUPS, "--batch_size", "--per_device_train_batch_size"),
        (GROUPS, "--model_name_or_path", "--init_discriminator"),
        (GLUE_GROUPS, "--model_name_or_path", "--pretrain_path"),
        (GLUE_GROUPS, "--task_name", "--tasks"),
        (GLUE_GROUPS, "--max-seq-length", "--max_length"),
        (GROUPS, "--evaluation_strategy", "--eval_strategy"),
        (GROUPS, "--cased", "--lowercase false"),
        (GROUPS, "--discriminant_loss_factor", "--discriminator_weight"),
        (GROUPS, "--uniform_generator", "--generator_type uniform"),
        (GLUE_GROUPS, "--layerwise_lr_decay_power", "--layerwise_lr_decay"),
    ],
)
def test_an_option_of_another_program_is_answered_with_that_of_its_meaning(groups, word, meant):
    message = refused(lambda: CommandLine(groups, "test").parse([word, "1"]))
    assert f"did you mean {meant}?" in message


def test_hints_are_options_of_a_command_and_have_an_effect():
    groups = [*GROUPS, *GLUE_GROUPS, SquadArguments, TokenizerArguments]
    names = {option.name for group in groups for option in fields(group)} - {*NOT_USED}
    assert {option.partition(" ")[0] for options in options_meant().values() for option in options} <= names
    message = refused(lambda: parse_pretraining_arguments(["--label_smoothing_facto", "1"]))
    assert "--help" in message and "factor" not in message


def test_a_command_without_groups_reads_a_file_and_hints(tmp_path):
    parser = Parser(prog="test")
    parser.add_argument("folder")
    parser.add_argument("--learning_rate", type=float)
    parser.add_argument("--is_quiet", action="store_true")
    config = write(tmp_path / "a.yaml", "learning_rate: 5e-4")
    assert parser.parse_args(["here", "--config", config]).learning_rate == 5e-4
    assert parser.parse_args(["here", "--config", config, "--learning-rate=1"]).learning_rate == 1.0
    assert "--learning_rate" in refused(lambda: parser.parse_args(["here", "--lr=1"]))
    assert "a.yaml" in refused(lambda: parser.parse_args(["here", "--config", write(tmp_path / "a.yaml", "lr: 1")]))
    assert "folder" in refused(lambda: parser.parse_args([]))
    assert "--learning_rate" in refused(lambda: parser.parse_args(["--lr=1"]))  # not that the folder is missing
    assert parser.parse_args(["--", "--lr"]).folder == "--lr"
    assert "secret" not in refused(lambda: parser.parse_args(["here", "--hub_token=secret"]))
