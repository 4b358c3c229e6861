"""Options: each is declared once, with all that is known about it, as a field of a dataclass.

`option(...)` makes the field: default, help, range, what another value means for a run that is resumed, and which
objectives read it. electra/base/options.py checks groups of options; electra/base/command_line.py fills them.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import Field, field, fields
from typing import Any, Literal, NamedTuple

from electra.core.ranges import Range

Resuming = Literal["kept", "recorded", "compared", "free"]
"""What another value means for a run that is resumed.

    kept      refused: the objective or the masks would change, or the option would have no effect any more
    recorded  holds from here on; it is logged, and recorded with its step
    compared  may differ if documents, tokenizer, networks and segments of a step stay the same
    free      changes nothing that is learned or measured
"""


class Condition(NamedTuple):
    """A condition on the objective, without which an option has no effect.

    All conditions are declared in objectives.py.

    Attributes:
        holds: function that returns True if an `Objective`, with the values of the user, fulfils the condition.
        reason: why the option has no effect otherwise, a clause; `{objective}` stands for the name of the objective.
    """

    holds: Callable[[Any], bool]
    reason: str


class Rules(NamedTuple):
    """The rules of an option: all that is known about the option, beside default and help.

    Lists of options are made of these rules: `options_with` returns the names of the options for which a rule, one of
    those from `of_corruption` on, holds.
    """

    valid: Range | None = None
    """Range of the values; None for any value."""
    resuming: Resuming | None = None
    """Effect of another value in a resumed run; None for `Options.resuming` of the group."""
    always_recorded: bool = False
    """Whether the option is recorded even at its default, so that a later change of the default does not matter."""
    changes_score: bool = True
    """Whether a score of fine-tuning depends on the option."""
    absolute: Callable[[str], str] | None = None
    """Function that makes the path in a value absolute, so that a run goes on from any folder; None for no path."""
    replaced_by: Sequence[str] = ()
    """Names of other options: if one of them is on the command line, a line of a file with this option is ignored."""
    needs: Sequence[Condition] = ()
    """Conditions of the objective; if one of them does not hold, the option has no effect."""
    of_corruption: bool = False
    """Whether the option says how text is corrupted: commands that read a finished run corrupt text with its value."""
    of_run: bool = False
    """Whether only a run has the option, and networks that a program makes from a recipe do not."""
    inherited: bool = False
    """Whether a run that starts from trained networks has the value of their run, unless it is given."""
    of_same_objective: bool = False
    """Whether the value is inherited only by a run with the same objective."""
    of_phase: bool | None = None
    """Whether a run from --init_checkpoint has the value of the checkpoint's run, unless it is given; None for the
    group's `of_phase`."""
    of_command: bool = False
    """Whether only a command reads the option, and a program does not."""


def option(
    default: object,
    help: str,
    valid: Range | None = None,
    choices: Iterable[str] = (),
    without_value: object = None,
    **rules: Any,
) -> Any:
    """Return the dataclass field of an option: its default, help and rules.

    Args:
        valid: range of its values; None for any.
        choices: values that it may have; () for any.
        without_value: value where the command line has the option's name alone; None if a value must follow.
        rules: fields of `Rules`.
    """
    metadata: dict[str, Any] = {"help": help, "rules": Rules(valid, **rules)}
    if without_value is not None:
        metadata |= {"nargs": "?", "const": without_value}
    if choices:
        metadata["choices"] = list(choices)
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def rules_of(option: Field[object]) -> Rules:
    """Return the rules of an option, given its dataclass field; the default rules for a field without rules."""
    return option.metadata.get("rules", Rules())


def options_with(rule: str, *groups: Any) -> tuple[str, ...]:
    """Return the names of the options of these groups for which a rule holds, in order.

    Args:
        rule: name of a field of `Rules` whose values are True and False. Where an option's value is None, the class
            attribute of this name counts, which its group has.
        groups: dataclasses whose fields are made by `option`.
    """
    names = []
    for group in groups:
        for f in fields(group):
            holds = getattr(rules_of(f), rule)
            if getattr(group, rule) if holds is None else holds:
                names.append(f.name)
    return tuple(names)
