"""Labels of words <-> entities: IOB1, IOB2, BIOES (and BILOU), recognised, read and written. No torch.

One rule reads them all, that of the CoNLL shared tasks' conlleval: an entity begins where a label says so (B, S),
where its type changes, and where nothing of it was before; it ends with E or S, or before the next begins. A label
that its scheme does not allow is so repaired, not lost.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from electra.errors import UserError

OUTSIDE = "O"
SCHEMES = ("iob1", "iob2", "bioes", "plain")
"""plain: every label is a class by itself, as parts of speech are."""
_LABEL = re.compile(r"([BIESLU])-(.+)")


class Entity(NamedTuple):
    """Words `start` to `end`, without `end`, of a sentence."""

    type: str
    start: int
    end: int


def split_label(label: str) -> tuple[str, str]:
    """`B-PER` -> B and PER; BILOU's L and U become E and S; of `O`, O and nothing.

    Raises:
        UserError: neither O nor a prefix with a type.
    """
    if label == OUTSIDE:
        return OUTSIDE, ""
    match = _LABEL.fullmatch(label)
    if match is None:
        raise UserError(f"the label '{label}' is neither O nor one of B- I- E- S- (L- U-) with a type")
    return {"L": "E", "U": "S"}.get(match[1], match[1]), match[2]


def entities(labels: Sequence[str]) -> list[Entity]:
    """The entities of a sentence, whatever the scheme of its labels."""
    found: list[Entity] = []
    before, type_before = OUTSIDE, ""
    for position, label in enumerate(labels):
        prefix, kind = split_label(label)
        if prefix != OUTSIDE:
            if prefix in "BS" or before in "OES" or kind != type_before:
                found.append(Entity(kind, position, position + 1))
            else:
                found[-1] = found[-1]._replace(end=position + 1)
        before, type_before = prefix, kind
    return found


def write_labels(found: Sequence[Entity], length: int, scheme: str) -> list[str]:
    """Labels of a sentence of `length` words in `scheme`: iob1, iob2 or bioes. Entities are in order."""
    labels = [OUTSIDE] * length
    end_before, type_before = 0, None
    for kind, start, end in found:
        prefixes = ["I"] * (end - start)
        if scheme == "bioes":
            prefixes[-1] = "E"
            prefixes[0] = "B" if end - start > 1 else "S"
        elif scheme == "iob2" or (end_before == start and type_before == kind):
            prefixes[0] = "B"
        labels[start:end] = [f"{prefix}-{kind}" for prefix in prefixes]
        end_before, type_before = end, kind
    return labels


def convert(labels: Sequence[str], scheme: str) -> list[str]:
    """The same entities in another scheme; plain labels stay as they are."""
    return list(labels) if scheme == "plain" else write_labels(entities(labels), len(labels), scheme)


def recognise(sentences: Sequence[Sequence[str]]) -> str:
    """The scheme that a file's labels are written in, one of `SCHEMES`.

    Without any E or S it is IOB1 if every B stands where IOB1 needs it and some entity begins with I, and IOB2
    otherwise.

    Raises:
        UserError: some labels have a prefix and others have not.
    """
    labels = {label for sentence in sentences for label in sentence}
    prefixed = {label for label in labels if _LABEL.fullmatch(label)}
    if not prefixed and labels - {OUTSIDE}:
        return "plain"
    odd = sorted(labels - prefixed - {OUTSIDE})
    if odd:
        raise UserError(
            f"the label '{odd[0]}' has no prefix such as B-, though '{min(prefixed)}' has; choose the column of the "
            f"labels with --label_column"
        )
    if {label[0] for label in prefixed} - {"B", "I"}:
        return "bioes"
    is_iob1 = [list(sentence) == convert(sentence, "iob1") for sentence in sentences]
    is_iob2 = [list(sentence) == convert(sentence, "iob2") for sentence in sentences]
    # A file of few entities may be both: what is counted are sentences that only one of the two explains.
    only_iob1 = sum(a and not b for a, b in zip(is_iob1, is_iob2, strict=True))
    only_iob2 = sum(b and not a for a, b in zip(is_iob1, is_iob2, strict=True))
    return "iob1" if only_iob1 > only_iob2 else "iob2"


def repaired(sentences: Sequence[Sequence[str]], scheme: str) -> int:
    """How many labels are not as the scheme has them."""
    return sum(
        old != new
        for sentence in sentences
        for old, new in zip(_without_bilou(sentence), convert(sentence, scheme), strict=True)
    )


def is_bilou(sentences: Sequence[Sequence[str]]) -> bool:
    """Whether the scheme `bioes` is written with L and U, as some files have it, in place of E and S."""
    return any(label[:2] in ("L-", "U-") for sentence in sentences for label in sentence)


def to_bilou(labels: Sequence[str]) -> list[str]:
    """BIOES with L for E and U for S."""
    return [re.sub(r"^E-", "L-", re.sub(r"^S-", "U-", label)) for label in labels]


def _without_bilou(sentence: Sequence[str]) -> list[str]:
    return [re.sub(r"^L-", "E-", re.sub(r"^U-", "S-", label)) for label in sentence]


def tag_set(sentences: Sequence[Sequence[str]], scheme: str) -> list[str]:
    """Every label that there may be in a scheme with the types of these sentences; O first."""
    if scheme == "plain":
        return sorted({label for sentence in sentences for label in sentence})
    types = sorted({entity.type for sentence in sentences for entity in entities(sentence)})
    prefixes = {"iob1": "BI", "iob2": "BI", "bioes": "BIES"}[scheme]
    return [OUTSIDE, *(f"{prefix}-{kind}" for kind in types for prefix in prefixes)]
