"""Command lines: precedence, the YAML file as flags, and one-line refusals that name what was got."""

from pathlib import Path

import pytest
import yaml

from electra.arguments import (
    CorpusArguments,
    ModelArguments,
    ObjectiveArguments,
    PretrainingArguments,
    SegmentArguments,
    TokenizerArguments,
)
from electra.command_line import CommandLine, write_yaml
from electra.errors import UserError, run_script
from electra.recipes import RECIPES

GROUPS = [
    CorpusArguments,
    TokenizerArguments,
    ModelArguments,
    ObjectiveArguments,
    SegmentArguments,
    PretrainingArguments,
]


def parse(*argv: str, config: str | None = None):
    groups = CommandLine(GROUPS, "test").parse(list(argv), default_config=config)
    return {name: value for group in groups for name, value in vars(group).items()}


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_without_options_everything_is_the_small_recipe() -> None:
    values = parse()
    assert {name: values[name] for name in RECIPES["small"]} == RECIPES["small"]


@pytest.mark.parametrize("option", ["--model_size", "--model-size"])
@pytest.mark.parametrize("model_size", list(RECIPES))
def test_a_recipe_sets_every_field_it_states(model_size: str, option: str) -> None:
    values = parse(option, model_size)
    assert {name: values[name] for name in RECIPES[model_size]} == RECIPES[model_size]


def test_precedence_is_default_recipe_file_flag(tmp_path: Path) -> None:
    config = write(tmp_path / "a.yaml", "model_size: base\nlearning_rate: 3e-4\nhidden_size: 384\nmax_steps: 7\n")
    values = parse("--config", config, "--max_steps", "9")
    assert values["per_device_train_batch_size"] == RECIPES["base"]["per_device_train_batch_size"]  # recipe
    assert (values["learning_rate"], values["hidden_size"]) == (3e-4, 384)  # file over recipe
    assert values["max_steps"] == 9  # flag over file


def test_a_recipe_named_as_a_flag_stands_above_the_file(tmp_path: Path) -> None:
    config = write(tmp_path / "a.yaml", "hidden_size: 384\nlogging_steps: 3\n")
    values = parse("--model_size=large", "--config", config, "--num_hidden_layers", "2")
    assert (values["hidden_size"], values["num_hidden_layers"]) == (RECIPES["large"]["hidden_size"], 2)
    assert values["logging_steps"] == 3


def test_the_file_is_converted_like_flags(tmp_path: Path) -> None:
    config = write(
        tmp_path / "a.yaml",
        "learning_rate: 5e-4\ncased: true\ntrain_file: [a.txt, b c.txt]\ndataset_sampling: 0.5\nbf16: 'true'\n"
        "strip_accents: false\nvalidation_file: []\ntokenizer_algorithm: unigram\nmax_documents: null\n"
        "adam_epsilon: 1e-8\nlr_scheduler_kwargs: {num_cycles: 2}\nexperiment_name: -1\n",
    )
    values = parse("--config", config)
    assert values["learning_rate"] == 0.0005 and values["adam_epsilon"] == 1e-8
    assert values["lowercase"] is False and values["strip_accents"] is False and values["bf16"] is True
    assert values["train_file"] == ["a.txt", "b c.txt"] and values["dataset_sampling"] == [0.5]
    assert values["max_documents"] is None and values["validation_file"] == []
    assert values["lr_scheduler_kwargs"] == {"num_cycles": 2}
    assert values["experiment_name"] == "-1"


def test_cased_is_the_opposite_of_lowercase() -> None:
    assert parse()["lowercase"] is True
    assert parse("--cased")["lowercase"] is False
    assert parse("--cased", "false")["lowercase"] is True
    assert parse("--lowercase", "false")["lowercase"] is False
    assert parse("--no_lowercase")["lowercase"] is False


def test_resume_from_checkpoint_takes_a_path_or_nothing() -> None:
    assert parse("--resume_from_checkpoint")["resume_from_checkpoint"] == "true"
    assert parse("--resume_from_checkpoint", "--max_steps", "3")["resume_from_checkpoint"] == "true"
    assert parse("--resume_from_checkpoint", "x/checkpoint-3")["resume_from_checkpoint"] == "x/checkpoint-3"


def test_several_trackers_can_be_named() -> None:
    assert parse("--report_to", "tensorboard", "wandb")["report_to"] == ["tensorboard", "wandb"]
    assert parse()["report_to"] == []


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--generater_size", "0.5"], "unknown option --generater_size; did you mean --generator_size?"),
        (["--mask"], "unknown option --mask"),
        (["--lr", "1"], "unknown option --lr; did you mean --learning_rate?"),
        (["--gener", "1"], "unknown option --gener"),  # no abbreviations
        (["corpus.txt"], "'corpus.txt' belongs to no option"),
        (["--max_steps"], "--max_steps"),
        (["--max_steps", "many"], "invalid int value: 'many'"),
        (["--learning_rate", "fast"], "invalid float value: 'fast'"),
        (["--segment_policy", "best"], "invalid choice: 'best'"),
        (["--model_size", "huge"], "invalid choice: 'huge'"),
        (["--mlm_probability", "1.5"], "--mlm_probability 1.5 is not possible: it must be in \\(0, 1\\)"),
        (["--mlm_probability", "0"], "must be in \\(0, 1\\)"),
        (["--mlm_replacement_probability", "-0.1"], "must be in \\[0, 1\\]"),
        (["--temperature", "0"], "above 0"),
        (["--generator_size", "0"], "in \\(0, 100\\]"),
        (["--generator_size", "inf"], "finite"),
        (["--learning_rate", "nan"], "finite"),
        (["--adam_beta2", "1"], "in \\[0, 1\\)"),
        (["--save_steps", "inf"], "finite"),
        (["--include_num_input_tokens_seen", "true"], "tokens_seen is always logged"),
        (["--hidden_dropout_prob", "1"], "in \\[0, 1\\)"),
        (["--validation_fraction", "1"], "in \\[0, 1\\)"),
        (["--max_length", "4"], "at least 8"),
        (["--max_steps", "0"], "positive, or -1"),
        (["--per_device_train_batch_size", "0"], "positive"),
        (["--vocab_size", "3"], "in \\[6, 16777216\\]"),
        (["--optim", "magic"], "invalid choice"),
        (["--lr_scheduler_kwargs", "{oops"], "lr_scheduler_kwargs|property name|JSON"),
        (["--config", "no/such.yaml"], "cannot read --config no/such.yaml"),
    ],
)
def test_bad_options_are_refused_in_one_line(argv: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse(*argv)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("generater_size: 0.5\n", "unknown option --generater_size in .*a.yaml; did you mean --generator_size"),
        ("max_steps: many\n", "invalid int value: 'many'"),
        ("bf16: perhaps\n", "perhaps"),
        ("- max_steps\n", "'option: value' lines, but holds a list"),
        ("max_steps: [1\n", "not valid YAML"),
        ("mlm_probability: 2\n", "mlm_probability 2.0 is not possible.*a.yaml"),
        ("config: other.yaml\n", "unknown option --config"),
        ("model: {hidden_size: 3}\n", "unknown option --model"),
    ],
)
def test_a_bad_file_is_refused_naming_the_file_or_the_option(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse("--config", write(tmp_path / "a.yaml", text))


def test_an_empty_file_changes_nothing(tmp_path: Path) -> None:
    assert parse("--config", write(tmp_path / "a.yaml", "# nothing\n"))["max_steps"] == RECIPES["small"]["max_steps"]


def test_effective_values_fed_back_give_the_same_options(tmp_path: Path) -> None:
    argv = ["--model_size", "base", "--cased", "--train_file", "a b.txt", "c.txt", "--bf16", "--max_steps", "11"]
    argv += ["--lr_scheduler_kwargs", '{"num_cycles": 2}', "--strip_accents", "false", "--adam_epsilon", "1e-7"]
    argv += ["--report_to", "tensorboard", "--warmup_steps", "0.1"]
    command_line = CommandLine(GROUPS, "test")
    groups = command_line.parse(argv)
    write_yaml(command_line.effective, tmp_path / "config.yaml", "test")
    again = CommandLine(GROUPS, "test").parse(["--config", str(tmp_path / "config.yaml")])
    for before, after in zip(groups, again, strict=True):
        ignored = ("logging_dir", "_n_gpu", "accelerator_config", "distributed_state", "deepspeed_plugin")
        kept = {name: value for name, value in vars(before).items() if name not in ignored}
        assert {name: vars(after)[name] for name in kept} == kept
    written = yaml.safe_load((tmp_path / "config.yaml").read_text())
    assert set(RECIPES["small"]) <= set(written)
    assert not {"use_cpu", "config", "eval_on_start"} & set(written)  # nothing of this machine or this file


def test_a_user_error_ends_the_command_with_one_line_and_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise UserError("first\n  second")

    with pytest.raises(SystemExit) as stop:
        run_script(fail)
    assert stop.value.code == 2
    assert capsys.readouterr().err == "error: first second\n"


def test_a_list_that_is_empty_in_a_file_is_refused_where_one_is_needed(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"report_to in .* is empty; name at least one"):
        parse("--config", write(tmp_path / "a.yaml", "report_to: []\n"))
    assert parse("--config", write(tmp_path / "b.yaml", "train_file: []\n"))["train_file"] == []


def test_arguments_in_python_notation_are_read_as_what_they_mean() -> None:
    values = parse("--dataset_sampling=[0.5, 1]", "--train_file=['a b.txt', 'c.txt']", "--max_documents=None")
    assert values["dataset_sampling"] == [0.5, 1.0] and values["train_file"] == ["a b.txt", "c.txt"]
    assert values["max_documents"] is None
    assert parse("--train_file=[old] notes.txt")["train_file"] == ["[old] notes.txt"]
    assert parse("--train_file=[1-3].txt]")["train_file"] == ["[1-3].txt]"]  # no list, but a name


def test_flags_are_recorded_even_if_they_say_the_default() -> None:
    command_line = CommandLine(GROUPS, "test")
    command_line.parse(["--logging-steps=100", "--cased", "false"])
    assert command_line.flags == {"logging_steps", "lowercase"}
    assert command_line.effective["logging_steps"] == 100


def test_what_an_option_has_as_an_enum_is_written_by_its_value(tmp_path: Path) -> None:
    command_line = CommandLine([PretrainingArguments], "test")
    command_line.parse(["--debug", "underflow_overflow"])
    write_yaml(command_line.effective, tmp_path / "config.yaml", "test")
    (again,) = CommandLine([PretrainingArguments], "test").parse(["--config", str(tmp_path / "config.yaml")])
    assert [option.value for option in again.debug] == ["underflow_overflow"]
