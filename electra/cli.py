"""Command lines: option dataclasses filled from defaults, a recipe, a YAML file and flags, in this order.

Lines of the YAML file become flags before the user's own, so that both are converted and checked alike (`5e-4` is a
number in both). The file's other lines override a recipe (`model_size`) named in the file; a recipe named as a
flag overrides them all. Data named as flags replace the data of the file, whatever their kind.
"""

import ast
import difflib
import inspect
import json
import logging
import sys
from argparse import SUPPRESS, Action, ArgumentParser
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import Any, NoReturn

from transformers import HfArgumentParser
from transformers.hf_argparser import string_to_bool

from electra.io.errors import UserError
from electra.io.files import YAML_ERRORS, config_path, read_as_written, write_as_yaml, write_file
from electra.recipes import RECIPES

logger = logging.getLogger(__name__)

ALWAYS_WRITTEN = {*RECIPES["small"], "objective", "experiment_name", "seed", "data_seed"}
"""Options that a run records even at their default, so that a later change of the default does not matter."""
WITHOUT_VALUE = {"predict_test": "best", "save_model": "best"}
"""The value of an option that is given without one."""
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
"""Names of other code bases, and the option to suggest; docs/reference_flags.md has them all."""


class _HelpAll(Action):
    def __call__(self, parser: Any, *_: Any) -> None:
        parser._print_message(parser.format_help(everything=True), sys.stdout)
        parser.exit()


class CommandLine(HfArgumentParser):
    """An `HfArgumentParser` with `--config FILE`, `--cased` and one-line errors (`UserError`)."""

    def __init__(self, dataclass_types: Sequence[type], description: str) -> None:
        usage = "%(prog)s [--option value ...]"
        super().__init__(list(dataclass_types), description=description, allow_abbrev=False, usage=usage)
        self.effective: dict[str, Any] = {}
        """After `parse`: options given as flags or different from their default, and those of `ALWAYS_WRITTEN`."""
        self.source = ""
        """Where options came from, for errors."""
        self.flags: frozenset[str] = frozenset()
        """After `parse`: options given on the command line itself, not only in a file or a recipe."""
        self.lines: frozenset[str] = frozenset()
        """After `parse`: options given in the file."""
        for action in self._actions:
            if action.dest in WITHOUT_VALUE:
                action.nargs, action.const = "?", WITHOUT_VALUE[action.dest]
            elif action.type is string_to_bool and action.nargs is None:  # of `bool | None`
                action.nargs, action.const = "?", True
        self.add_argument("--config", help="YAML file with any of the options below; flags override it.")
        if any(_of_transformers(cls) for cls in dataclass_types):
            what = "Also list the options of transformers.TrainingArguments, which are accepted too."
            self.add_argument("--help_all", nargs=0, action=_HelpAll, default=SUPPRESS, help=what)
        if "--lowercase" in self._option_string_actions:
            is_lowercase = {"dest": "lowercase", "const": False, "type": lambda word: not string_to_bool(word)}
            self.add_argument("--cased", nargs="?", help="Keep upper case.", **is_lowercase)

    def add_argument(self, *names: str, valid: Any = None, **kwargs: Any) -> Action:
        """argparse's, without spellings with hyphens, which `parse` translates, and without a field's range."""
        return super().add_argument(*(name for name in names if "-" not in name[2:]), **kwargs)

    def format_help(self, everything: bool = False) -> str:
        """The options by group; with `everything`, those that only transformers declares follow."""
        groups = [("Options", {"help", "help_all", "config"})]
        for cls in self.dataclass_types:
            shown = {f.name for f in fields(cls)} - getattr(cls, "not_in_help", set())
            theirs = _of_transformers(cls) & shown
            groups.append((str(inspect.getdoc(cls)).splitlines()[0].rstrip("."), shown - theirs))
            if everything and theirs:
                groups.append(("transformers.TrainingArguments", theirs))
        actions = [action for action in self._actions if not action.option_strings[0].startswith("--no_")]
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, actions, [])
        formatter.add_text(self.description)
        for title, names in groups:
            formatter.start_section(title)
            formatter.add_arguments(action for action in actions if action.dest in names)
            formatter.end_section()
        return formatter.format_help()

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}{self.source}")

    def parse(self, argv: Sequence[str] | None = None, default_config: str | None = None) -> tuple[Any, ...]:
        """Fill the dataclasses from a command line, by default `sys.argv`, and a YAML file used without `--config`."""
        argv = _normalized(sys.argv[1:] if argv is None else argv)
        config = self.value_of("config", argv)
        config = default_config if config is None else config
        self.source = f" (from {config} or the command line)" if config else ""
        tokens = [] if config is None else self._file_tokens(config, self._replaced(argv))
        # An unknown recipe is left to the parser, which knows the choices.
        file_recipe, flag_recipe = (RECIPES.get(self.value_of("model_size", t) or "", {}) for t in (tokens, argv))
        file_recipe = {} if flag_recipe else file_recipe  # recipes differ in their fields
        recipe = as_flags(flag_recipe)
        namespace, unknown = self.parse_known_args([*as_flags(file_recipe), *tokens, *recipe, *argv])
        lost = {_name(word) for word in recipe} - {_name(word) for word in argv}
        of_file = vars(self.parse_known_args(tokens)[0]) if recipe else {}
        lost = {name for name in lost if of_file[name[2:]] != getattr(namespace, name[2:])}
        if overridden := [word for word in tokens if _name(word) in lost]:
            hint = "repeat them as flags to keep them"
            logger.warning("--model_size overrides %s of %s; %s", " ".join(overridden), config, hint)
        if unknown:
            self._refuse(unknown[0])
        values = vars(namespace)
        del values["config"]
        options = self._option_string_actions
        self.flags, self.lines = (
            frozenset(options[name].dest for name in map(_name, words) if name in options) for words in (argv, tokens)
        )
        recorded = ALWAYS_WRITTEN | self.flags
        self.effective = {
            name: _plain(value)
            for name, value in values.items()
            if value is not None and (name in recorded or value != self.get_default(name))
        }
        try:
            return tuple(
                cls(**{f.name: values[f.name] for f in fields(cls) if f.init}) for cls in self.dataclass_types
            )
        except UserError as error:
            raise UserError(f"{error}{self.source}") from error

    def value_of(self, name: str, argv: Sequence[str] | None = None) -> str | None:
        """The last `--name value` or `--name=value` of a command line that is not parsed yet; "" without a value."""
        parser = ArgumentParser(add_help=False, allow_abbrev=False)
        parser.add_argument(f"--{name}", f"--{name.replace('_', '-')}", dest="value", nargs="?", const="")
        return parser.parse_known_args(argv)[0].value

    def _refuse(self, token: str, where: str = "") -> NoReturn:
        name = token.lstrip("-").partition("=")[0]
        if not token.startswith("-"):
            raise UserError(f"'{token}' does not belong to an option{where}; options start with --")
        known = [option[2:] for option in self._option_string_actions]
        near = [RENAMED[name]] if name in RENAMED else difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean --{near[0]}?" if near else "; --help lists the options"
        raise UserError(f"unknown option {token.partition('=')[0]}{where}{hint}")

    def _replaced(self, argv: Sequence[str]) -> set[str]:
        """Options of the file that flags replace: files give way to data sets and data sets to files."""
        groups = ({f.name for f in fields(cls)} for cls in self.dataclass_types)
        names = set().union(*(group for group in groups if group >= {"dataset_name", "train_file"}))
        if self.value_of("dataset_name", argv) is not None:
            return {name for name in names if name.startswith("dataset_") or name.endswith("_file")}
        if self.value_of("train_file", argv) is not None:
            return {name for name in names if name.startswith("dataset_")}
        return set()

    def _file_tokens(self, path: str, replaced: set[str]) -> list[str]:
        """The lines of a YAML file as flags, without the options that flags replace."""
        try:
            content = read_as_written(config_path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise UserError(f"cannot read --config {path}: {error.strerror}") from error
        except YAML_ERRORS as error:
            raise UserError(f"--config {path} is not valid YAML: {error}") from error
        if not isinstance(content, dict | None):
            raise UserError(f"--config {path} must hold 'option: value' lines, but holds a {type(content).__name__}")
        tokens: list[str] = []
        for key, value in (content or {}).items():
            if f"--{key}" not in self._option_string_actions or key in ("config", "help", "help_all"):
                self._refuse(f"--{key}", where=f" in {path}")
            if key in replaced:
                logger.info("%s: %s in %s is ignored, because the command line gives other data", key, value, path)
            elif value == [] and self.get_default(key):
                raise UserError(f"{key} in {path} is an empty list; give at least one value, or leave it out")
            else:
                tokens += _tokens(key, value)
        return tokens


def _of_transformers(cls: type) -> set[str]:
    """Fields of an options class that only transformers declares."""
    ours = [base for base in cls.__mro__ if not base.__module__.startswith("transformers.")]
    return {f.name for f in fields(cls)}.difference(*map(inspect.get_annotations, ours))


def _normalized(argv: Sequence[str]) -> list[str]:
    """Translate `--model-size`, and what wandb's sweep agent writes: `--tasks=['rte', 'cola']`, `--seed=None`."""
    words: list[str] = []
    for token in argv:
        if not token.startswith("--"):
            words.append(token)
            continue
        name, equals, text = token[2:].partition("=")
        name = name.replace("-", "_")
        if text == "None" or text[:1] + text[-1:] in ("[]", "{}"):
            with suppress(ValueError, SyntaxError):  # a file name in brackets, JSON
                words += _tokens(name, ast.literal_eval(text))
                continue
        words.append(f"--{name}{equals}{text}")
    return words


def _name(word: str) -> str:
    return word.partition("=")[0]


def _tokens(name: str, value: Any) -> list[str]:
    if value is None or value == []:
        return []
    if isinstance(value, dict):
        return [f"--{name}", json.dumps(value)]
    values = value if isinstance(value, list) else [value]
    words = [str(v).lower() if isinstance(v, bool) else str(v) for v in values]
    return [f"--{name}={words[0]}"] if len(words) == 1 else [f"--{name}", *words]


def _plain(value: Any) -> Any:
    """The value with enums replaced by their values, also in lists."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value.value if isinstance(value, Enum) else value


def as_flags(values: dict[str, Any]) -> list[str]:
    """Options by name as words of a command line; None and empty lists are left out."""
    return [word for name, value in values.items() for word in _tokens(name, value)]


def write_yaml(values: dict[str, Any], path: Path, comment: str) -> None:
    """Write options atomically to a YAML file that `--config` reads back."""
    write_file(f"# {comment}\n{write_as_yaml(values)}".encode(), path)
