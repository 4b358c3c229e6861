"""Command lines: dataclasses filled from defaults, a recipe, a YAML file and flags, in this order of precedence.

A YAML file is read as if its lines were flags before the user's own, so that both are parsed, converted and checked
alike (`5e-4` is a number in both). A recipe (`model_size`) named in the file stands below the file's other lines, one
named on the command line above all of them. Unknown names fail with the nearest known one.
"""

import ast
import difflib
import json
import sys
from argparse import ArgumentTypeError
from collections.abc import Sequence
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import Any, NoReturn

import yaml
from transformers import HfArgumentParser
from transformers.hf_argparser import string_to_bool

from electra.errors import UserError
from electra.files import write_file
from electra.recipes import RECIPES

ALWAYS_WRITTEN = {*RECIPES["small"], "objective", "experiment_name", "seed", "data_seed"}
"""Options recorded with a run even if they hold the default, so that a later default does not change the record."""
RENAMED = {
    # of rc2020_electra
    "lr": "learning_rate",
    "discriminant_loss_factor": "discriminator_weight",
    "num_proc": "dataloader_num_workers",
    "pretrain_path": "resume_from_checkpoint",
    "training_set_size": "dataset_sampling",
    "training_set_random_seed": "data_seed",
    "valid_test_split_random_seed": "data_seed",
    "tensorboard_tracking_folder": "report_to",
    # of transformers 4 and its examples
    "evaluation_strategy": "eval_strategy",
    "warmup_ratio": "warmup_steps",
    "logging_dir": "report_to",
    "max_seq_length": "max_length",
    "tokenizer_name": "tokenizer_path",
    "dataset": "dataset_name",
    "no_cuda": "use_cpu",
}
"""Names that people bring along from elsewhere, and what to use here; docs/reference_flags.md has them all."""
TRUE_WORDS, FALSE_WORDS = ("true", "yes", "y", "t", "1"), ("false", "no", "n", "f", "0")


class CommandLine(HfArgumentParser):
    """`HfArgumentParser` that raises `UserError` in one line, takes `--config FILE` and `--cased`."""

    def __init__(self, dataclass_types: Sequence[type], description: str) -> None:
        super().__init__(list(dataclass_types), description=description, allow_abbrev=False)
        self.effective: dict[str, Any] = {}
        """After `parse`: every option that is a flag or differs from its default, and those of `ALWAYS_WRITTEN`."""
        self.flags: set[str] = set()
        """After `parse`: the options that are on the command line itself, not only in a file or a recipe."""
        self.add_argument("--config", help="YAML file with any of the options below; flags override it.")
        names = {action.dest for action in self._actions}
        if "lowercase" in names:
            self.add_argument(
                "--cased", dest="lowercase", nargs="?", const=False, type=_negated, help="Keep upper case."
            )
        for action in self._actions:
            if action.dest == "resume_from_checkpoint":
                action.nargs, action.const = "?", "true"
                action.help = "Continue the newest checkpoint of the run (no value), or the one of this folder."
            if action.dest == "predict_test":
                action.nargs, action.const = "?", "best"
            if action.type is string_to_bool and action.nargs is None:  # of `bool | None`
                action.nargs, action.const = "?", True

    def error(self, message: str) -> NoReturn:
        raise UserError(message)

    def parse(self, argv: Sequence[str] | None = None, default_config: str | None = None) -> tuple[Any, ...]:
        """The dataclasses, filled.

        Args:
            argv: the command line without the program's name; the process's own if not given.
            default_config: YAML file to use where `--config` is not given.
        Raises:
            UserError: unknown option, a value of the wrong type, an unreadable file.
        """
        argv = _from_python_notation(sys.argv[1:] if argv is None else argv)
        config = self.value_of("config", argv) or default_config
        tokens = self._file_tokens(config) if config else []
        size_in_file, size_in_flags = self.value_of("model_size", tokens), self.value_of("model_size", argv)
        tokens = [*_recipe_tokens(size_in_file), *tokens, *_recipe_tokens(size_in_flags), *argv]
        namespace, unknown = self.parse_known_args(tokens)
        if unknown:
            self._refuse(unknown[0])
        values = vars(namespace)
        self.flags = {
            self._option_string_actions[option].dest
            for option in (token.partition("=")[0] for token in argv)
            if option in self._option_string_actions
        }
        self.effective = {
            name: _plain(value)
            for name, value in values.items()
            if name != "config"
            and value is not None
            and (name in ALWAYS_WRITTEN or name in self.flags or value != self.get_default(name))
        }
        try:
            return tuple(
                cls(**{f.name: values[f.name] for f in fields(cls) if f.init and f.name in values})
                for cls in self.dataclass_types
            )
        except UserError as error:
            raise UserError(f"{error} (from {config} or the command line)" if config else str(error)) from error

    def option_names(self) -> list[str]:
        return [option[2:] for action in self._actions for option in action.option_strings if option[:2] == "--"]

    def value_of(self, name: str, argv: Sequence[str] | None = None) -> str | None:
        """The last value of `--name value` or `--name=value`, before anything else is parsed; "" if it has none."""
        argv = sys.argv[1:] if argv is None else argv
        value = None
        for position, token in enumerate(argv):
            following = [word for word in argv[position + 1 : position + 2] if not word.startswith("--")]
            option, equals, joined = token.partition("=")
            if not option.startswith("--") or option[2:].replace("-", "_") != name:  # --model-size is --model_size
                continue
            value = joined if equals else "".join(following)
        return value

    def _refuse(self, token: str, where: str = "") -> NoReturn:
        name = token.removeprefix("--").partition("=")[0]
        if not token.startswith("-"):
            raise UserError(f"'{token}' belongs to no option{where}; options start with --")
        near = [RENAMED[name]] if name in RENAMED else difflib.get_close_matches(name, self.option_names(), n=1)
        hint = f"; did you mean --{near[0]}?" if near else "; --help lists the options"
        raise UserError(f"unknown option --{name}{where}{hint}")

    def _file_tokens(self, path: str) -> list[str]:
        """A YAML file as the flags it stands for."""
        try:
            content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise UserError(f"cannot read --config {path}: {error.strerror}") from error
        # ValueError: dates that do not exist, numbers of thousands of digits, other encodings than UTF-8.
        except (yaml.YAMLError, ValueError, ArithmeticError, RecursionError) as error:
            raise UserError(f"--config {path} is not valid YAML: {error}") from error
        if content is None:
            return []
        if not isinstance(content, dict):
            raise UserError(f"--config {path} must hold 'option: value' lines, but holds a {type(content).__name__}")
        known = set(self.option_names())
        tokens: list[str] = []
        for key, value in content.items():
            if str(key) not in known or key in ("config", "help"):
                self._refuse(f"--{key}", where=f" in {path}")
            if value == [] and self.get_default(str(key)):
                raise UserError(f"{key} in {path} is empty; name at least one, or leave it out")
            try:
                tokens += _tokens(str(key), value)
            except (TypeError, ValueError, RecursionError) as error:  # binary, a thing within itself, a huge number
                raise UserError(f"{key} in {path} is no value for an option: {error}; write a plain one") from error
        return tokens


def _from_python_notation(argv: Sequence[str]) -> list[str]:
    """`--tasks=['rte', 'cola']`, `--max_length=None`, `--task_overrides={'rte': ...}` as the flags they mean.

    So does the agent of a wandb sweep write lists, missing values and mappings.
    """
    words: list[str] = []
    for token in argv:
        name, equals, text = token.partition("=")
        if name.startswith("--") and equals and (text == "None" or text[:1] + text[-1:] in ("[]", "{}")):
            try:
                words += _tokens(name[2:], ast.literal_eval(text))
                continue
            except (ValueError, SyntaxError):  # a file's name in brackets, JSON
                pass
        words.append(token)
    return words


def _negated(word: str) -> bool:
    if word.lower() in TRUE_WORDS:
        return False
    if word.lower() in FALSE_WORDS:
        return True
    raise ArgumentTypeError(f"expected true or false, got {word}")


def _tokens(name: str, value: Any) -> list[str]:
    if value is None:
        return []
    if isinstance(value, dict):
        return [f"--{name}", json.dumps(value)]
    values = value if isinstance(value, list) else [value]
    if not values:
        return []
    words = [str(v).lower() if isinstance(v, bool) else str(v) for v in values]
    return [f"--{name}={words[0]}"] if len(words) == 1 else [f"--{name}", *words]


def _plain(value: Any) -> Any:
    """With the values of enums in their place, as a file has them; also in lists."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value.value if isinstance(value, Enum) else value


def _recipe_tokens(model_size: str | None) -> list[str]:
    """The recipe's fields as flags; an unknown name is left to the parser, which knows the choices."""
    recipe = RECIPES.get(model_size or "", {})
    return [token for name, value in recipe.items() for token in _tokens(name, value)]


def write_yaml(values: dict[str, Any], path: Path, comment: str) -> None:
    """Write options to a YAML file that `--config` reads back; the old file or the new one, never half of it."""
    text = f"# {comment}\n{yaml.safe_dump(values, sort_keys=False, allow_unicode=True)}"
    write_file(text.encode(), path)
