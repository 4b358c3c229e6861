"""The parser of all commands: words and the file of `--config`, with one-line errors (`UserError`).

An option that no command has is answered with the one that has its meaning, or else with the nearest one.
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
    """An `ArgumentParser` with `--config FILE`, which raises a `UserError` without secret values where argparse exits.

    Attributes:
        without_hint: names of options that exist and are never recommended.
    """

    without_hint: frozenset[str] = frozenset()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})
        self.add_argument("--config", help=CONFIG_HELP)

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see --help")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return the options of words, by default `sys.argv`, and of their file."""
        words = normalized(sys.argv[1:] if args is None else args)
        options = self.parse_words(words, namespace)
        return options if options.config is None else self.parse_words([*self.words_of_file(options.config), *words])

    def parse_words(self, words: Sequence[str], namespace: Namespace | None = None) -> Namespace:
        """Return the options that words give; refuse a word that belongs to no option."""
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
        """Return the options that a YAML file gives, without those that were removed, as words."""
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
        """Refuse a word that has the form of an option and belongs to none."""
        name = word.partition("=")[0]
        if name.startswith("--") and name not in self._option_string_actions:
            self._check_known([name[2:]])

    def _names(self) -> set[str]:
        """Return the names of the options that a file may have."""
        return {action.dest for action in self._actions if action.option_strings} - {"help", "config"}

    def _check_known(self, names: Sequence[str], where: str = "") -> None:
        nameless = [str(action.metavar or action.dest) for action in self._actions if not action.option_strings]
        check_known(names, self._names(), "--", where, self.without_hint, nameless)


def check_words(words: Iterable[str]) -> None:
    """Refuse words of a command line that are not UTF-8 or hold NUL, because no file of results can hold them."""
    for word in words:
        if not is_encodable(word) or "\0" in word:
            raise UserError(f"{word!r:.200} is not UTF-8; convert the text, or rename the file or folder")


def normalized(argv: Sequence[str]) -> list[str]:
    """Return the words of a command line with `--model_size` for `--model-size`, `--tasks rte` for `--tasks=['rte']`.

    wandb's agent writes lists in the latter form.
    """
    words: list[str] = []
    for token in argv:
        name, equals, text = token.partition("=")
        if name.startswith("--") and " " not in name:  # a word with spaces is a value, such as that of --glue_flags
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
    texts = [str(item).lower() if isinstance(item, bool) else str(item) for item in values]
    return [f"--{name}={texts[0]}"] if len(texts) == 1 else [f"--{name}", *texts]


def as_flags(values: Values) -> list[str]:
    """Return options by name as words of a command line; None and empty lists are left out."""
    return [word for name, value in values.items() for word in _words(name, value)]
