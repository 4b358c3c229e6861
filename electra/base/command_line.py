"""Command lines: groups of options, filled from defaults, a recipe, an earlier run, a YAML file and words.

A `CommandLine` fills dataclasses of options from these layers, of which a later one overrides those before it:

    the defaults
    a recipe (`model_size`)
    an earlier run
    a YAML file (`--config`)
    the words of the command line

A recipe that is named on the command line overrides the file. Words and file are each parsed once, by one parser, so
that `5e-4` is a number in both.

An option is given if a word of the command line or a line of the file has it, whatever its value. An option that has
no effect beside the others (`Need`) has the value of the first three layers; if it is given, a warning says so.
"""

import functools
import inspect
import logging
import sys
from argparse import ONE_OR_MORE, SUPPRESS, Action, Namespace
from argparse import HelpFormatter as ArgparseFormatter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from transformers import HfArgumentParser
from transformers.hf_argparser import string_to_bool

from electra.base.files import write_file, yaml_text
from electra.base.options import (
    Need,
    Values,
    check_known,
    default_of,
    never,
    plain_value,
    warn_without_effect,
)
from electra.base.parser import Parser, as_flags, normalized
from electra.core.options import rules_of

logger = logging.getLogger(__name__)

RECIPE = "model_size"
"""Option whose value is the name of a recipe."""
_NOT_GIVEN = object()
"""The default of every option in argparse, so that an option that is given with its default counts as given."""


class Parsed(NamedTuple):
    """What a command line says.

    Attributes:
        groups: the groups of options, as instances of their dataclasses.
        given: names of the options that the command line or its file gives.
        unused: names of the options that have no effect beside the others, given or not.
        record: the options to be written to a file of `--config`, by name: those that are given, differ from their
            default or are `always_recorded`, without the unused ones. Paths are absolute.
    """

    groups: tuple[Any, ...]
    given: frozenset[str]
    unused: frozenset[str]
    record: dict[str, Any]


class HelpFormatter(ArgparseFormatter):
    """A formatter of help with short names of values, and with a default only where an option has one.

    Args:
        by_recipe: names of the options whose default is that of the recipe.
    """

    def __init__(self, prog: str, *, by_recipe: Collection[str] = (), **kwargs: Any) -> None:
        super().__init__(prog, **kwargs)
        self.by_recipe = by_recipe

    def _get_help_string(self, action: Action) -> str:
        default = action.default
        if default in (None, "", [], False, SUPPRESS):
            return action.help or ""
        values = default if isinstance(default, list) else [default]
        text = " ".join("true" if value is True else str(value) for value in values).replace("%", "%%")
        source = f"that of --{RECIPE}; small: " if action.dest in self.by_recipe else ""
        return f"{action.help} (default: {source}{text})"

    def _get_default_metavar_for_optional(self, action: Action) -> str:
        option_type: Any = action.type
        names = {int: "N", float: "X", string_to_bool: "true|false"}
        return names.get(option_type) or action.dest.rpartition("_")[2].upper()

    def _format_args(self, action: Action, default_metavar: str) -> str:
        if action.nargs == ONE_OR_MORE:
            return f"{self._metavar_formatter(action, default_metavar)(1)[0]} ..."
        return super()._format_args(action, default_metavar)


class CommandLine(Parser, HfArgumentParser):
    """A `Parser` that fills dataclasses of options, each field from the last layer that has it.

    Args:
        groups: dataclasses of the options.
        needs: conditions without which options have no effect.
        recipes: name of a recipe -> the values that the recipe sets; {} if there is no option `model_size`.
        preset: option -> value in place of its default, which is recorded as if it was given.
    """

    def __init__(
        self,
        groups: Sequence[type],
        description: str,
        needs: Sequence[Need] = (),
        recipes: Mapping[str, Values] = MappingProxyType({}),
        preset: Values = MappingProxyType({}),
    ) -> None:
        usage = "%(prog)s [--option value ...]"
        by_recipe = frozenset().union(*recipes.values())
        formatter = functools.partial(HelpFormatter, by_recipe=by_recipe)
        super().__init__(list(groups), description=description, usage=usage, formatter_class=formatter)
        self.needs = needs
        self.recipes = recipes
        self.preset = preset
        self.set_defaults(**preset)
        self.options = {f.name: (f, group) for group in self.dataclass_types for f in fields(group) if f.init}
        self.without_hint = frozenset(name for need in needs if need.holds is never for name in need.names)

    def add_argument(self, *names: str, rules: object = None, **kwargs: Any) -> Action:
        """Add an option to the parser, without the rules and the spelling with hyphens that HfArgumentParser adds."""
        if kwargs.get("type") is string_to_bool:  # also of `bool | None`
            kwargs |= {"nargs": "?", "const": True}
        return super().add_argument(*(name for name in names if "-" not in name[2:]), **kwargs)

    def format_help(self) -> str:
        """Return the help of all options by group, without those that only transformers declares."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, [], [])
        formatter.add_text(self.description)
        sections = [("Options", {"help", "config"})]
        for group in self.dataclass_types:
            our_classes = [base for base in group.__mro__ if not base.__module__.startswith("transformers.")]
            title = str(inspect.getdoc(group)).splitlines()[0]
            sections.append((title.rstrip("."), set().union(*map(inspect.get_annotations, our_classes))))
        for title, names in sections:
            formatter.start_section(title)
            formatter.add_arguments(action for action in self._shown_actions() if action.dest in names)
            formatter.end_section()
        return formatter.format_help()

    def format_basic_help(self, names: Sequence[str]) -> str:
        """Return the help of some options, in the order of their names."""
        shown_actions = {action.dest: action for action in self._shown_actions()}
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, [], [])
        formatter.add_text(self.description)
        formatter.start_section("Basic options")
        formatter.add_arguments(shown_actions[name] for name in names)
        formatter.end_section()
        return formatter.format_help()

    def _shown_actions(self) -> list[Action]:
        """Return the options that a help may show: each once, without its negation."""
        return [action for action in self._actions if not action.option_strings[0].startswith("--no_")]

    def parse(
        self,
        argv: Sequence[str] | Values | None = None,
        *,
        default_config: Callable[[Values], str | None] = lambda flags: None,
        inherited: Callable[[Values], Values] = lambda options: {},
        recipe: Callable[[Values], str | None] = lambda options: None,
    ) -> Parsed:
        """Return the options of a command line, by default `sys.argv`, and of its YAML file.

        Args:
            argv: words; or options by name, as a program gives them, where None stands for an option not given.
            default_config: function of the options on the command line that returns the file to use without --config.
            inherited: function of the given options that returns those of the run that this one starts from.
            recipe: function of the given options that returns the name of the recipe if the user gives none; None for
                the default.
        Raises:
            UserError: an option is unknown, or its value is refused.
        """
        flags = self.read(argv)
        named_config = flags.pop("config", None)
        config = named_config or default_config(flags)
        lines = self.read(self.words_of_file(config)) if config else {}
        recipe_of_flags = self.recipes.get(flags.get(RECIPE, ""), {})
        for name in [*lines]:
            if name in recipe_of_flags or flags.keys() & {*rules_of(self.options[name][0]).replaced_by}:
                del lines[name]
        given_options = {**lines, **flags}
        lower_layers = {**{name: default_of(f) for name, (f, _) in self.options.items()}, **self.preset}
        if self.recipes:
            recipe_name = given_options.get(RECIPE) or recipe(given_options) or lower_layers[RECIPE]
            lower_layers |= {**self.recipes[recipe_name], RECIPE: recipe_name}
        lower_layers |= inherited(given_options)
        values = {**lower_layers, **given_options}
        # A file that the user does not name, such as that of a run that goes on, needs no warning.
        unused = warn_without_effect(self.needs, values, given_options if named_config else flags)
        values |= {name: lower_layers[name] for name in unused}
        for name, (f, _) in self.options.items():
            absolute, value = rules_of(f).absolute, values[name]
            if absolute is not None and value:
                values[name] = [*map(absolute, value)] if isinstance(value, list) else absolute(value)
        record = {
            name: values[name]
            for name, (f, _) in self.options.items()
            if values[name] is not None and name not in unused
            if name in given_options or rules_of(f).always_recorded or values[name] != default_of(f)
        }
        groups = tuple(
            group(**{f.name: values[f.name] for f in fields(group) if f.init}) for group in self.dataclass_types
        )
        return Parsed(groups, frozenset(given_options), unused, record)

    def read(self, argv: Sequence[str] | Values | None) -> dict[str, Any]:
        """Return the given options of a command line without its file, by name, each as a value of its type.

        Args:
            argv: see `parse`.
        """
        if isinstance(argv, Mapping):
            check_known(argv, {*self.options, "config"}, without_hint=self.without_hint)
            argv = as_flags({name: plain_value(value) for name, value in argv.items()})
        blank = Namespace(**{action.dest: _NOT_GIVEN for action in self._actions})
        options = vars(self.parse_words(normalized(sys.argv[1:] if argv is None else argv), blank))
        return {name: plain_value(value) for name, value in options.items() if value is not _NOT_GIVEN}


def write_yaml(values: Values, path: Path, comment: str) -> None:
    """Write options atomically to a YAML file that `--config` reads back, with a comment in the first line."""
    write_file(f"# {comment}\n{yaml_text(dict(values))}".encode(), path)
