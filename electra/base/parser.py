"""The parser of all commands: words and the file of `--config`, with one-line errors (`UserError`).

The error of an unknown option names the option that has its meaning, or else the most similar one.
"""

import ast
import json
import logging
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Any, NoReturn

from electra.base.console import hide_secrets, is_encodable
from electra.base.errors import REMOVED
from electra.base.files import YAML_ERRORS, check_file, config_path, read_as_written
from electra.base.options import Values, check_known
from electra.core.errors import UserError

logger = logging.getLogger(__name__)

CONFIG_HELP = "YAML file with any of the options; flags override it. Relative paths in it begin in the current folder."
"""Help of --config."""


class Parser(ArgumentParser):
    """An `ArgumentParser` with `--config FILE` that raises a `UserError`, without secret values, where argparse exits.

    Attributes:
        without_hint: names of options that errors never recommend.
    """

    without_hint: frozenset[str] = frozenset()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})
        self.add_argument("--config", help=CONFIG_HELP)

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see --help")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return the options of words, by default those of `sys.argv`, and of the file that they name."""
        words = normalized(sys.argv[1:] if args is None else args)
        options = self.parse_words(words, namespace)
        return options if options.config is None else self.parse_words([*self.words_of_file(options.config), *words])

    def parse_words(self, words: Sequence[str], namespace: Namespace | None = None) -> Namespace:
        """Return the options of words; raise a UserError if a word belongs to no option."""
        check_words(words)
        for word in takewhile(lambda word: word != "--", words):
            if " " not in word:  # with a space it may be a value, such as that of --glue_flags
                self._check_option(word)  # before argparse asks for options that are required
        options, unknown_words = self.parse_known_args(words, namespace)
        for word in unknown_words:
            self._check_option(word)
            shown_word = word if word in hide_secrets(words) else "..."
            raise UserError(f"unexpected word {shown_word}; options begin with --, and a value with spaces is quoted")
        return options

    def words_of_file(self, path: str) -> list[str]:
        """Return the options in a YAML file, without those that were removed, as words of a command line.

        Raises:
            UserError: the file cannot be read, or has an unknown option.
        """
        file = config_path(os.fspath(path))
        if file.is_dir():
            raise UserError(f"--config {path} is a folder; name a YAML file, such as the config.yaml of a run")
        check_file(file)
        try:
            content = read_as_written(file.read_text(encoding="utf-8"))
        except YAML_ERRORS as error:
            raise UserError(f"--config {path} is not valid YAML: {error}") from error
        if not isinstance(content, dict | None):
            raise UserError(f"--config {path} must hold 'option: value' lines, but holds a {type(content).__name__}")
        lines = content or {}
        for name in lines.keys() & REMOVED.keys() - self._names():
            logger.info("%s in %s was removed: %s", name, path, REMOVED[name])
            del lines[name]
        self._check_known([*lines], f" in {path}")
        return as_flags(lines)

    def _check_option(self, word: str) -> None:
        """Raise a UserError if a word has the form of an option that there is not."""
        name = word.partition("=")[0]
        if name.startswith("--") and name not in self._option_string_actions:
            self._check_known([name[2:]])

    def _names(self) -> set[str]:
        """Return the names of the options that a file of `--config` may have."""
        return {action.dest for action in self._actions if action.option_strings} - {"help", "config"}

    def _check_known(self, names: Sequence[str], where: str = "") -> None:
        """Raise a UserError if a name is that of no option; see `check_known`."""
        nameless = [str(action.metavar or action.dest) for action in self._actions if not action.option_strings]
        check_known(names, self._names(), "--", where, self.without_hint, nameless)


def check_words(words: Iterable[str]) -> None:
    """Raise a UserError if a word of a command line is not UTF-8 or has a NUL, which no file of results can hold."""
    for word in words:
        if not is_encodable(word) or "\0" in word:
            raise UserError(f"{word!r:.200} is not UTF-8; convert the text, or rename the file or folder")


def normalized(argv: Sequence[str]) -> list[str]:
    """Return the words of a command line in one spelling.

    `--model-size` becomes `--model_size`, and `--tasks=['rte']`, as wandb's agent writes a list, `--tasks rte`.
    """
    words: list[str] = []
    for word in argv:
        name, equals, text = word.partition("=")
        if name.startswith("--") and " " not in name:  # a word with spaces is a value, such as that of --glue_flags
            name = "--" + name[2:].replace("-", "_")
        if text.startswith("[") and text.endswith("]"):
            with suppress(ValueError, SyntaxError, RecursionError):  # a file name in brackets
                words += [name, *map(str, ast.literal_eval(text))]
                continue
        words.append(name + equals + text)
    return words


def _words(name: str, value: Any) -> list[str]:
    """Return an option as words of a command line; no words for None and an empty list."""
    if value is None or value == []:
        return []
    if isinstance(value, dict):
        return [f"--{name}", json.dumps(value)]
    values = value if isinstance(value, list) else [value]
    texts = [str(item).lower() if isinstance(item, bool) else str(item) for item in values]
    return [f"--{name}={texts[0]}"] if len(texts) == 1 else [f"--{name}", *texts]


def as_flags(values: Values) -> list[str]:
    """Return options by name as words of a command line; None and empty lists are left out."""
    return [word for name, value in values.items() for word in _words(name, value)]
