"""Groups of options, which are checked when they are made, and conditions without which options have no effect.

electra/core/options.py declares an option; command_line.py fills the groups.
"""

import functools
import logging
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple, get_origin, get_type_hints

import numpy as np

from electra.base.errors import hint_of_unknown
from electra.base.typed import check_type
from electra.core.errors import UserError
from electra.core.options import Resuming, option, rules_of
from electra.core.ranges import Range, check
from electra.core.recipes import RECIPES

logger = logging.getLogger(__name__)

Values = Mapping[str, Any]
"""Options by name."""

# ---- ranges

AT_LEAST_8 = Range(lambda value: value >= 8, "at least 8", {"minimum": 8})
STEPS = Range(lambda value: value > 0 or value == -1, "positive, or -1", {"minimum": -1, "not": {"const": 0}})
SEED = Range(lambda value: 0 <= value < 2**32, "in [0, 2^32)", {"minimum": 0, "exclusiveMaximum": 2**32})
"""Ranges of lengths in tokens, of steps (-1 for none), and of seeds that numpy takes."""
_NOT_NEW_FOLDER = re.compile(r"checkpoint-.*|discriminator|generator|\.\.|")
"""Names of folders in a run, and names that stand for no new folder."""
FOLDER_NAME = Range(
    lambda name: Path(name).name == name and not _NOT_NEW_FOLDER.fullmatch(name) and len(os.fsencode(name)) <= 200,
    "a plain folder name, without slashes, of at most 200 bytes, and not that of a part of a run",
)
"""The range of a name for a new folder; file systems allow 255 bytes, with endings."""
NOT_EMPTY = Range(lambda value: value != "", "a name or a folder, or left out")
"""The range of a name or path: "" is a forgotten value."""
VOCAB_SIZE = Range(lambda value: 6 <= value <= 2**24, "in [6, 2^24]", {"minimum": 6, "maximum": 2**24})
"""The range of the size of a vocabulary: five special tokens and another one; ids that are exact in float32, in which
held-out records are gathered."""

# ---- options


def from_recipe(name: str, help: str, valid: Range | None = None, **rules: Any) -> Any:
    """Return the field of an option that every recipe sets; its default is that of the paper's ELECTRA-Small."""
    return option(RECIPES["small"][name], help, valid, always_recorded=True, **rules)


def default_of(option: Field[object]) -> object:
    """Return the default of an option, given its dataclass field."""
    return option.default if option.default_factory is MISSING else option.default_factory()


def check_seed(seed: object) -> None:
    """Raise a UserError if a value that a program gives as a seed is no whole number in [0, 2^32)."""
    is_whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
    check(is_whole and SEED.holds(seed), "seed", repr(seed), f"a whole number {SEED.expected}")


SEE_HELP = "--help lists the options"
"""End of a message about an unknown option that is similar to none."""


def check_known(
    options: Iterable[str],
    known_names: Collection[str],
    prefix: str = "",
    where: str = "",
    without_hint: frozenset[str] = frozenset(),
    nameless: Sequence[str] = (),
) -> None:
    """Raise a UserError if an option is not known; the message has its name, and that of the option that may be meant.

    Args:
        options: names of the options.
        known_names: names of all options that there are.
        prefix: what is written before each name, such as "--".
        where: words behind the option that name its file, such as " in run.yaml"; "" on a command line.
        without_hint: known names that are never recommended.
        nameless: words for the values that a command takes without the name of an option, such as FILE.
    """
    listed = f"give {' and '.join(nameless)} without a name; {SEE_HELP}" if nameless else SEE_HELP
    for name in options:
        if name not in known_names:
            otherwise = listed if prefix else f"the options are {', '.join(sorted(known_names))}"
            hint = hint_of_unknown(name, {*known_names} - without_hint, otherwise, prefix)
            raise UserError(f"unknown option {prefix}{name}{where}; {hint}")


def check_options(options: Any) -> None:
    """Refuse values of a group that are of another type than the option, out of its range, or not finite.

    Such values would break a run much later. A program may give a path in place of text, and one text in place of a
    list: the group then gets text or a list.

    Args:
        options: instance of a group; only options that `option` declares are checked.
    Raises:
        UserError: a value is refused.
    """
    group: Any = type(options)
    option_types = types_of(group)
    for f in fields(options):
        given_value = getattr(options, f.name, None)
        value = as_type(f, option_types[f.name], given_value)
        if value is not given_value:
            object.__setattr__(options, f.name, value)  # also of a frozen group
        valid = rules_of(f).valid
        for item in value if isinstance(value, list) else [value]:
            if valid and item is not None:
                check(valid.holds(item), f.name, item, valid.expected)


@dataclass(frozen=True)
class Options:
    """A group of options, checked when it is made and never changed afterwards.

    The first line of a group's docstring is its title in `--help`. Its `resuming` and `of_phase` are the rules of its
    options that have none of their own.
    """

    resuming: ClassVar[Resuming] = "free"
    of_phase: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_options(self)


@functools.cache
def types_of(group: object) -> dict[str, object]:
    """Return the types of the options of a group, by name."""
    return get_type_hints(group)


def as_type(f: Field[object], option_type: object, value: object) -> object:
    """Return the value of an option as a value of its type; as it is if only transformers declares the option.

    Args:
        f: dataclass field of the option.
        option_type: type of the option.
        value: value that a program or a command line gives.
    Raises:
        UserError: the value is of another type, or is not one of the option's choices.
    """
    if "rules" not in f.metadata:
        return value
    value = plain_value(value)
    if get_origin(option_type) is list and isinstance(value, str | tuple):
        value = [value] if isinstance(value, str) else [*value]
    try:
        value = check_type(value, option_type)
    except ValueError as error:
        raise UserError(f"--{f.name} {value!r:.80} is not possible: {error}") from error
    choices = f.metadata.get("choices", ())
    if choices and value is not None:
        for item in value if isinstance(value, list) else [value]:
            check(item in choices, f.name, item, f"one of {', '.join(choices)}")
    return value


def plain_value(value: object) -> object:
    """Return a value, or a list of values, as text or numbers where it was an enum, a path or a number of numpy."""
    if isinstance(value, list | tuple):
        return type(value)(map(plain_value, value))
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, np.generic):
        return value.item()
    return value.value if isinstance(value, Enum) else value


# ---- options that need others


def never(options: object) -> bool:
    """Return False: the condition of options of transformers that nothing here reads."""
    return False


class Need(NamedTuple):
    """A condition without which options have no effect.

    Attributes:
        names: the names of the options.
        holds: function that returns True if the condition holds; its argument has all options as attributes.
        reason: why the options have no effect without the condition; `{name}` stands for the value of an option.
    """

    names: Sequence[str]
    holds: Callable[[Any], bool]
    reason: str


def warn_without_effect(needs: Iterable[Need], values: Values, given_names: Collection[str]) -> frozenset[str]:
    """Warn of the user's options that have no effect beside the others, and return the names of all that have none.

    Args:
        values: all options by name.
        given_names: names of the options of which the warning tells the user.
    """
    options = SimpleNamespace(**values)
    unmet = [need for need in needs if not need.holds(options)]
    for need in unmet:
        unused_names = [name for name in need.names if name in given_names]
        if unused_names:
            logger.warning("no effect: --%s (%s)", ", --".join(unused_names), need.reason.format(**values))
    return frozenset(name for need in unmet for name in need.names)
