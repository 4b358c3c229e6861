"""Command lines: groups of options, filled from defaults, a recipe, an earlier run, a YAML file and words.

A `CommandLine` fills dataclasses of options from these layers, the later ones first in authority:

    the defaults
    a recipe (`model_size`)
    an earlier run, for options that are `inherited`
    a YAML file (`--config`)
    the words of the command line

A recipe that is named on the command line overrides the file. Words and file are each parsed once, by one parser, so
that `5e-4` is a number in both.

An option is given if a word of the command line or a line of the file says so, whatever the value. Where an option
would do nothing (`Need`), a word is refused; a line of a file, which may be for several runs, is left out and logged.
"""

import ast
import inspect
import json
import logging
import os
import sys
from argparse import Action, Namespace
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import Field, fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from transformers import HfArgumentParser
from transformers.hf_argparser import string_to_bool

from electra.io.console import hide_secrets
from electra.io.errors import REMOVED, UserError, check_words, hint_of_unknown
from electra.io.files import YAML_ERRORS, check_regular, config_path, read_as_written, write_as_yaml, write_file
from electra.options import Need, Range, Values, as_word, default_of, plain_value, rules_of, types_of

logger = logging.getLogger(__name__)

CONFIG_HELP = (
    "YAML file with any of the options below; flags override it. Relative paths in it begin in the current folder."
)
"""Help of --config."""
_NOT_GIVEN = object()
"""The default of every option in the parser, by which a given default is told from none."""


class CommandLine(HfArgumentParser):
    """An `HfArgumentParser` with `--config FILE`, `--cased` and one-line errors (`UserError`).

    Attributes:
        config: after `read`, the YAML file; None if there is none.
        names_config: after `read`, whether the command line names this file.
        flags: after `read`, the names of options that the command line itself gives; after `fill`, without those that
            only warn and do not apply.
        lines: after `fill`, the names of options that the file gives and that apply.
        left_out: after `fill`, for each option of the file that does not apply or was removed, by name, the reason.
        unused: after `fill`, the names of options that do nothing in this run, given or not.
        record: after `fill`, the options to be written for `--config`: given, different from their default, or
            `always_recorded`; without the unused ones. Paths are absolute.
    """

    def __init__(self, groups: Sequence[type], description: str, needs: Sequence[Need] = ()) -> None:
        usage = "%(prog)s [--option value ...]"
        super().__init__(list(groups), description=description, allow_abbrev=False, usage=usage)
        self.needs = needs
        self._with_recipes = next((f for f in self._fields() if rules_of(f).sets is not None), None)
        self.add_argument("--config", help=CONFIG_HELP)
        for f in self._fields():
            opposite = rules_of(f).opposite
            if opposite:
                is_off = {"dest": f.name, "const": False, "type": lambda word: not string_to_bool(word)}
                self.add_argument(f"--{opposite}", nargs="?", help=f"The opposite of --{f.name}.", **is_off)

    def _fields(self) -> list[Field[Any]]:
        """Return the options of all groups."""
        return [f for group in self.dataclass_types for f in fields(group) if f.init]

    def add_argument(self, *names: str, rules: Any = None, **kwargs: Any) -> Action:
        """Add an option to the parser, without its rules and its spelling with hyphens, which `read` translates."""
        if kwargs.get("type") is string_to_bool:  # also of `bool | None`
            kwargs |= {"nargs": "?", "const": True}
        return super().add_argument(*(name for name in names if "-" not in name[2:]), **kwargs)

    def lines_of_file(self) -> dict[str, tuple[Action, Range | None]]:
        """Return the options that a `--config` file may have, by name: the action and the range of values of each."""
        ranges = {f.name: rules_of(f).valid for f in self._fields()}
        actions = {option[2:]: action for option, action in self._option_string_actions.items()}
        return {
            name: (action, ranges.get(name))
            for name, action in actions.items()
            if name in ranges or action.nargs == "?"  # the opposite of a switch; not `--no_...`, which has no value
        }

    def format_help(self) -> str:
        """Return the help: the options by group, without those that only transformers declares."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, [], [])
        formatter.add_text(self.description)
        sections = [("Options", {"help", "config"})]
        for group in self.dataclass_types:
            ours = [base for base in group.__mro__ if not base.__module__.startswith("transformers.")]
            title = str(inspect.getdoc(group)).splitlines()[0]
            sections.append((title.rstrip("."), set().union(*map(inspect.get_annotations, ours))))
        for title, names in sections:
            formatter.start_section(title)
            for action in self._actions:
                if action.dest in names and not action.option_strings[0].startswith("--no_"):
                    formatter.add_argument(action)
            formatter.end_section()
        return formatter.format_help()

    def error(self, message: str) -> NoReturn:
        raise UserError(message)

    def parse(
        self,
        argv: Sequence[str] | Values | None = None,
        *,
        default_config: Callable[[Values], str | None] = lambda flags: None,
        inherited: Callable[[Values], Values] = lambda given: {},
        recipe: str | None = None,
    ) -> tuple[Any, ...]:
        """Return the groups of options, filled from a command line; see `read` and `fill`."""
        self.read(argv, default_config)
        groups = self.fill(inherited, recipe)
        self.log_left_out()
        return groups

    def read(
        self,
        argv: Sequence[str] | Values | None = None,
        default_config: Callable[[Values], str | None] = lambda flags: None,
    ) -> None:
        """Read a command line, by default `sys.argv`, and its YAML file.

        Args:
            argv: words; or options by name, as a program gives them, where None stands for an option not given.
            default_config: the file that is used without `--config`, from the flags.
        """
        words: list[str] = []
        if isinstance(argv, Mapping):
            self._flags = self._known(argv)
        else:
            words = _normalized(sys.argv[1:] if argv is None else argv)
            self._flags = self._read(words)
        self._spelled = [word.partition("=")[0] for word in words]
        named = self._flags.pop("config", None)
        self.config = named or default_config(self._flags)
        self.names_config = named is not None
        self._removed: list[str] = []
        self._lines = self._read_file(self.config, self._flags) if self.config else {}
        self.flags = frozenset(self._flags)

    def fill(
        self, inherited: Callable[[Values], Values] = lambda given: {}, recipe: str | None = None
    ) -> tuple[Any, ...]:
        """Return the groups of options from what was read, without the lines of the file that do not apply.

        An option of the command line that does not apply and only warns (`Need.only_warns`) is left out, too.

        Args:
            inherited: options given by flags and file -> the options of the run that this one starts from.
            recipe: name of the recipe to use if the user gives none (`Rules.sets`).
        Raises:
            UserError: an option of the command line does not apply.
        """
        is_named = self._with_recipes is not None and self._with_recipes.name in self._flags
        overriding = self._recipe(self._flags) if is_named else {}
        lines = {name: value for name, value in self._lines.items() if name not in overriding}
        self.left_out = {name: f"removed: {REMOVED[name]}" for name in self._removed}
        while True:
            given = {**lines, **self._flags}
            lower = {**self._recipe(given, recipe), **inherited(given)}
            values = {**{f.name: default_of(f) for f in self._fields()}, **lower, **given, **overriding, **self._flags}
            options = SimpleNamespace(**values)
            unmet = [need for need in self.needs if not need.needs(options)]
            need = next((need for need in unmet if need.option in lines and not need.is_strict), None)
            if need is not None:
                del lines[need.option]  # one at a time: without it, others may apply
                self.left_out[need.option] = need.reason(options)
                continue
            need = next((need for need in unmet if need.option in self._flags and need.only_warns), None)
            if need is None:
                break
            shown = self._shown(need.option, self._flags.pop(need.option))
            logger.warning("%s has no effect: %s", shown, need.reason(options))
        self.flags = frozenset(self._flags)
        for need in unmet:
            if need.option in self.flags or need.option in lines:
                reason = need.reason(options)
                advice = "" if ";" in reason else "; leave it out"
                shown = self._shown(need.option, values[need.option])
                raise UserError(f"{shown} does not work here: {reason}{advice}")
        self.lines = frozenset(lines)
        self.unused = frozenset(need.option for need in unmet)
        self.record: dict[str, Any] = {}
        return tuple(self._make(group, values) for group in self.dataclass_types)

    def _recipe(self, given: Values, unnamed: str | None = None) -> Values:
        """Return the options that a recipe sets: the given one, else `unnamed`, else the default one."""
        f = self._with_recipes
        recipes = rules_of(f).sets if f is not None else None
        if f is None or recipes is None:
            return {}
        name = given.get(f.name, unnamed or f.default)
        return {**recipes[name], f.name: name}

    def log_left_out(self) -> None:
        """Log one line that names all lines of the file that do not apply, and why."""
        names_by_reason: dict[str, list[str]] = {}
        for name, reason in self.left_out.items():
            names_by_reason.setdefault(reason, []).append(name)
        if names_by_reason:
            parts = [f"{', '.join(names)} ({reason})" for reason, names in names_by_reason.items()]
            logger.info("left out of %s: %s", self.config, "; ".join(parts))

    def _shown(self, name: str, value: Any) -> str:
        """Return an option and its value as they are written on a command line."""
        (rules,) = (rules_of(f) for f in self._fields() if f.name == name)
        for other in (rules.opposite, f"no_{name}"):
            if other and f"--{other}" in self._spelled:
                return f"--{other}"
        words = value if isinstance(value, list) else [value]
        return f"--{name} {' '.join(map(str, words))}"

    def _read(self, words: Sequence[str]) -> dict[str, Any]:
        """Return the options that the words give, each as a value of its type, without defaults."""
        check_words(words)
        blank = Namespace(**{action.dest: _NOT_GIVEN for action in self._actions})
        namespace, unknown = self.parse_known_args(words, blank)
        if unknown and unknown[0].startswith("-"):
            self._refuse(unknown[0])
        if unknown:
            _refuse_word(words, unknown[0])
        return {name: plain_value(value) for name, value in vars(namespace).items() if value is not _NOT_GIVEN}

    def _known(self, options: Values) -> dict[str, Any]:
        """Return the options that a program gives, each as a value of its type.

        Raises:
            UserError: an option is unknown, or has a value of another type.
        """
        own = {f.name: (f, types_of(group)[f.name]) for group in self.dataclass_types for f in fields(group)}
        known = {}
        for name, value in options.items():
            if f"--{name}" not in self._option_string_actions or name not in {*own, "config"}:
                self._refuse(name)
            if value is not None:
                known[name] = os.fspath(value) if name == "config" else as_word(*own[name], value)
        return known

    def _make(self, group: type, values: Values) -> Any:
        """Build a group of options from `values`, with absolute paths, and add what is recorded to `self.record`."""
        given = {}
        for f in filter(lambda f: f.init, fields(group)):
            rules = rules_of(f)
            value = values[f.name]
            if rules.absolute is not None and value:
                value = [*map(rules.absolute, value)] if isinstance(value, list) else rules.absolute(value)
            is_given = f.name in self.flags or f.name in self.lines
            is_recorded = rules.always_recorded or is_given or value != default_of(f)
            if is_recorded and value is not None and f.name not in self.unused:
                self.record[f.name] = value
            given[f.name] = value
        return group(**given)

    def _refuse(self, token: str, where: str = "") -> NoReturn:
        word = token.partition("=")[0]
        name = word.lstrip("-")
        known = [option[2:] for option in self._option_string_actions]
        dashes = "" if token == name else "--"  # a program gives names
        hint = hint_of_unknown(name, known, "--help of the command lists the options", dashes)
        raise UserError(f"unknown option {word}{where}; {hint}")

    def _read_file(self, path: str, flags: Values) -> dict[str, Any]:
        """Return the options that a YAML file gives, without those that flags replace (`Rules.replaced_by`).

        Options of the file that earlier versions had are added to `self._removed`.
        """
        file = config_path(path)
        if file.is_dir():
            raise UserError(f"--config {path} is a folder; name a YAML file, such as the config.yaml of a run")
        check_regular(file)
        try:
            content = read_as_written(file.read_text(encoding="utf-8"))
        except YAML_ERRORS as error:
            raise UserError(f"--config {path} is not valid YAML: {error}") from error
        if not isinstance(content, dict | None):
            raise UserError(f"--config {path} must hold 'option: value' lines, but holds a {type(content).__name__}")
        words: list[str] = []
        spellings: dict[str, str] = {}
        for name, value in (content or {}).items():
            if f"--{name}" not in self._option_string_actions and name in REMOVED:
                self._removed.append(name)
                continue
            if f"--{name}" not in self._option_string_actions or name in ("config", "help"):
                self._refuse(f"--{name}", where=f" in {path}")
            other = spellings.setdefault(self._option_string_actions[f"--{name}"].dest, name)
            if other != name:
                raise UserError(f"{path} has {other} and {name}, which are one option; leave one of the two out")
            words += _words(name, value)
        lines = self._read(words)
        replaced = {f.name for f in self._fields() if not flags.keys().isdisjoint(rules_of(f).replaced_by)}
        return {name: value for name, value in lines.items() if name not in replaced}


def _refuse_word(words: Sequence[str], stray: str) -> NoReturn:
    """Raise a UserError for a word that belongs to no option, such as a second value; a secret is not repeated."""
    place = len(words) - 1 - [*reversed(words)].index(stray)
    options = ["", *(word for word in words[:place] if word.startswith("--"))]
    is_secret = "..." in [shown for word, shown in zip(words, hide_secrets(words), strict=True) if word == stray]
    behind = f" behind {options[-1].partition('=')[0]}" if options[-1] else ""
    raise UserError(f"unexpected word {'...' if is_secret else stray}{behind}; quote a value that has spaces")


def _normalized(argv: Sequence[str]) -> list[str]:
    """Return the words of a command line with `--model_size` for `--model-size`, `--tasks rte` for `--tasks=['rte']`.

    wandb's agent writes lists in the latter form.
    """
    words: list[str] = []
    for token in argv:
        name, equals, text = token.partition("=")
        if name.startswith("--"):
            name = "--" + name[2:].replace("-", "_")
        if text.startswith("[") and text.endswith("]"):
            with suppress(ValueError, SyntaxError, RecursionError):  # a file name in brackets
                words += [name, *map(str, ast.literal_eval(text))]
                continue
        words.append(name + equals + text)
    return words


def _words(name: str, value: Any) -> list[str]:
    if value is None or value == []:
        return []
    if isinstance(value, dict):
        return [f"--{name}", json.dumps(value)]
    values = value if isinstance(value, list) else [value]
    texts = [str(one).lower() if isinstance(one, bool) else str(one) for one in values]
    return [f"--{name}={texts[0]}"] if len(texts) == 1 else [f"--{name}", *texts]


def as_flags(values: Values) -> list[str]:
    """Return options by name as words of a command line; None and empty lists are left out."""
    return [word for name, value in values.items() for word in _words(name, value)]


def write_yaml(values: Values, path: Path, comment: str) -> None:
    """Write options atomically to a YAML file that `--config` reads back."""
    write_file(f"# {comment}\n{write_as_yaml(dict(values))}".encode(), path)
