"""Labels of words <-> entities in the schemes IOB1, IOB2, BIOES and BILOU.

All schemes are read by one rule, that of conlleval, the script of the CoNLL shared tasks: an entity begins at B and
S, where the type changes, and after O, E and S; it ends at E and S, or before the next one begins. A label that its
scheme does not allow is thereby repaired.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from electra.errors import UserError

OUTSIDE = "O"
SCHEMES = ("iob1", "iob2", "bioes", "plain")
"""plain: every label is a class of its own, such as a part of speech."""
_LABEL = re.compile(r"([BIESLU])-(.+)")
_BIOES = {"L": "E", "U": "S"}
_BILOU = {"E": "L", "S": "U"}


class Entity(NamedTuple):
    """The words from `start` to `end` (exclusive) of a sentence."""

    type: str
    start: int
    end: int


def entities(labels: Sequence[str]) -> list[Entity]:
    """The entities of a sentence, whatever the scheme.

    Raises:
        UserError: a label is neither O nor a prefix with a type.
    """
    found: list[Entity] = []
    previous, previous_type = OUTSIDE, ""
    for position, label in enumerate(labels):
        prefix, kind = OUTSIDE, ""
        if label != OUTSIDE:
            match = _LABEL.fullmatch(label)
            if match is None:
                raise UserError(f"the label '{label}' is neither O nor one of B- I- E- S- (L- U-) with a type")
            prefix, kind = _BIOES.get(match[1], match[1]), match[2]
            if prefix in "BS" or previous in "OES" or kind != previous_type:
                found.append(Entity(kind, position, position + 1))
            else:
                found[-1] = found[-1]._replace(end=position + 1)
        previous, previous_type = prefix, kind
    return found


def write_labels(found: Sequence[Entity], length: int, scheme: str) -> list[str]:
    """Labels of a sentence of `length` words in the scheme iob1, iob2 or bioes. Entities are in order."""
    labels = [OUTSIDE] * length
    previous_end, previous_type = 0, None
    for kind, start, end in found:
        prefixes = ["I"] * (end - start)
        if scheme == "bioes":
            prefixes[-1] = "E"
            prefixes[0] = "B" if end - start > 1 else "S"
        elif scheme == "iob2" or (previous_end == start and previous_type == kind):
            prefixes[0] = "B"
        labels[start:end] = [f"{prefix}-{kind}" for prefix in prefixes]
        previous_end, previous_type = end, kind
    return labels


def convert(labels: Sequence[str], scheme: str) -> list[str]:
    """The same entities in another scheme; plain labels are returned as they are."""
    return list(labels) if scheme == "plain" else write_labels(entities(labels), len(labels), scheme)


def detect_scheme(sentences: Sequence[Sequence[str]]) -> str:
    """The scheme of a file's labels, one of `SCHEMES`.

    Without any E or S it is IOB1 if more sentences are valid in IOB1 alone than in IOB2 alone, otherwise IOB2.

    Raises:
        UserError: some labels have a prefix and others do not.
    """
    labels = {label for sentence in sentences for label in sentence}
    prefixed = {label for label in labels if _LABEL.fullmatch(label)}
    others = sorted(labels - prefixed - {OUTSIDE})
    if not prefixed and others:
        return "plain"
    if others:
        raise UserError(
            f"the label '{others[0]}' has no prefix such as B-, but '{min(prefixed)}' has one; choose the column of "
            f"the labels with --label_column"
        )
    if {label[0] for label in prefixed} - {"B", "I"}:
        return "bioes"
    only_iob1 = only_iob2 = 0
    for sentence in sentences:
        is_iob1, is_iob2 = (list(sentence) == convert(sentence, scheme) for scheme in ("iob1", "iob2"))
        only_iob1 += is_iob1 and not is_iob2
        only_iob2 += is_iob2 and not is_iob1
    return "iob1" if only_iob1 > only_iob2 else "iob2"


def count_repaired(sentences: Sequence[Sequence[str]], scheme: str) -> int:
    """Number of labels that the scheme does not allow where they are."""
    return sum(
        old != new
        for sentence in sentences
        for old, new in zip(_replace_prefixes(sentence, _BIOES), convert(sentence, scheme), strict=True)
    )


def is_bilou(sentences: Sequence[Sequence[str]]) -> bool:
    """Whether labels use L and U instead of E and S."""
    return any(label[:2] in ("L-", "U-") for sentence in sentences for label in sentence)


def to_bilou(labels: Sequence[str]) -> list[str]:
    """BIOES labels with L for E and U for S."""
    return _replace_prefixes(labels, _BILOU)


def _replace_prefixes(labels: Sequence[str], prefixes: dict[str, str]) -> list[str]:
    return [prefixes.get(label[0], label[0]) + label[1:] if label[1:2] == "-" else label for label in labels]


def tag_set(sentences: Sequence[Sequence[str]], scheme: str) -> list[str]:
    """All labels that a scheme has for the entity types of these sentences; O first."""
    if scheme == "plain":
        return sorted({label for sentence in sentences for label in sentence})
    types = sorted({entity.type for sentence in sentences for entity in entities(sentence)})
    prefixes = {"iob1": "BI", "iob2": "BI", "bioes": "BIES"}[scheme]
    return [OUTSIDE, *(f"{prefix}-{kind}" for kind in types for prefix in prefixes)]
