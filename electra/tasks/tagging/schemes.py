"""Labels of words: the schemes that are read, IOB1, IOB2, BIOES, BILOU and IO, those that are trained, and scores.

All schemes are read by the rule of conlleval, the script of the CoNLL shared tasks: an entity begins at B and S, where
the type changes, and after O, E and S; it ends at E and S, or before the next one begins. This repairs labels that
their scheme does not allow.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import regex

from electra.core.errors import UserError
from electra.data.lines import UNSPACED

OUTSIDE = "O"
"""Label of a word that belongs to no entity."""
LABEL = re.compile(r"([BIESLU])-(.+)")
"""A label with a prefix, in the usual spelling: prefix, type."""
PREFIXES = {"iob2": "BI", "bioes": "BIES"}
"""Scheme -> its prefixes. In the scheme io, labels are O or types without a prefix, and equal ones side by side are
one entity. In the scheme plain, every label is a class of its own, such as a part of speech."""
TagSequence = Sequence[Sequence[str]]
"""The labels of the words of each sentence."""


def convert(labels: Sequence[str], scheme: str) -> list[str]:
    """Return the labels of a sentence, converted to a scheme; in the scheme plain they stay as they are."""
    if scheme == "plain":
        return list(labels)
    converted = [OUTSIDE] * len(labels)
    for entity_type, first, last in entities_of(with_prefixes(labels) if scheme == "io" else labels):
        words = slice(first, last + 1)
        if scheme == "io":
            converted[words] = [entity_type] * (last + 1 - first)
            continue
        prefixes = ["B", *"I" * (last - first)]
        if scheme == "bioes":
            prefixes[-1] = "E"
            prefixes[0] = "B" if last > first else "S"
        converted[words] = [f"{prefix}-{entity_type}" for prefix in prefixes]
    return converted


def with_prefixes(labels: Sequence[str]) -> list[str]:
    """Return labels of the scheme io in IOB1, and labels of other schemes as they are."""
    return [label if label == OUTSIDE or LABEL.fullmatch(label) else f"I-{label}" for label in labels]


def entities_of(labels: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return type, number of the first and number of the last word of each entity in a sentence.

    Args:
        labels: O, or a type with a prefix, of each word.
    """
    entities = []
    open_type = ""  # of the entity that has begun and not ended
    first = 0
    for number, label in enumerate(labels):
        prefix = label[0]
        if open_type and (prefix in "BSUO" or label[2:] != open_type):
            entities.append((open_type, first, number - 1))
            open_type = ""
        if label != OUTSIDE and not open_type:
            open_type = label[2:]
            first = number
        if open_type and prefix in "ELSU":
            entities.append((open_type, first, number))
            open_type = ""
    if open_type:
        entities.append((open_type, first, len(labels) - 1))
    return entities


def choose_scheme(sentences: TagSequence, asked_scheme: str) -> str:
    """Return the scheme to train in.

    It is `asked_scheme`, unless that is "auto": then the scheme of the prefixes, where IOB2 stands for IOB1, too, or
    plain if no label has a prefix or is O.

    Raises:
        UserError: some labels have no prefix, but others have one, or the scheme asked for needs prefixes; or there is
            O beside labels without a prefix, which may be entities or classes.
    """
    counts = Counter(chain.from_iterable(sentences))
    labels = counts.keys() - {OUTSIDE}
    prefixes = {label[0] for label in labels if LABEL.fullmatch(label)}
    unprefixed = sorted(label for label in labels if not LABEL.fullmatch(label))
    if asked_scheme in ("plain", "io"):
        return asked_scheme
    if unprefixed and (prefixes or asked_scheme != "auto"):
        raise UserError(f"the label '{unprefixed[0]}' has no prefix such as B-; see --label_column and --scheme")
    if unprefixed and OUTSIDE in counts:
        raise UserError(
            f"the label '{unprefixed[0]}' has no prefix such as B-; give --scheme io if such labels are entities, "
            "--scheme plain if O is a class like others"
        )
    if unprefixed:
        return "plain"
    if asked_scheme != "auto":
        return asked_scheme
    return "bioes" if prefixes - {"B", "I"} else "iob2"


def tag_set(sentences: TagSequence, scheme: str) -> list[str]:
    """Return the labels of a scheme for the types of entities in sentences, O first; of plain labels, all in order."""
    labels = set(chain.from_iterable(sentences))
    if scheme == "plain":
        return sorted(labels)
    if scheme == "io":
        labels = set(chain.from_iterable(convert(sentence, "io") for sentence in sentences))
        return [OUTSIDE, *sorted(labels - {OUTSIDE})]
    types = sorted({label[2:] for label in labels - {OUTSIDE}})
    return [OUTSIDE, *(f"{prefix}-{entity_type}" for entity_type in types for prefix in PREFIXES[scheme])]


# ---- texts with spans of characters

# A row has a `text` and its `spans`, each [start, end, label]: the first character and the one after the last.
# Words are runs of letters with their marks and digits, and single marks of punctuation and symbols, with what changes
# their look; in scripts without spaces, such as Chinese, Japanese and Thai, single characters. They do not depend on
# the spans, which an unlabelled text does not have.


UNSPACED_WORD = regex.compile(rf"[{UNSPACED}]")
"""A character of a script without spaces, which is a word of its own."""
_EMOJI = (
    r"\p{Regional_Indicator}{2}|"
    r"\p{S}(?:[\p{M}\p{Emoji_Modifier}\u200d\U000E0020-\U000E007F]|(?<=\u200d)\p{S})*"
)
"""A symbol with variation selectors, skin tones and tags, and with those that a joiner connects; the two characters of
a flag."""
WORD = regex.compile(
    rf"[{UNSPACED}]\p{{M}}*|(?:(?![{UNSPACED}])[\w\p{{M}}\p{{No}}\u200c\u200d])+|{_EMOJI}|[^\w\s]\p{{M}}*"
)
"""A word, with vowel signs of Indic scripts and Thai and joiners of Persian, which `re` counts to no word."""

Bounds = tuple[int, int]
"""Range of a word: its first character, and the one after its last."""


class LabelledSpan(NamedTuple):
    """A span of a text: its first character, the one after its last, and its label."""

    start: int
    end: int
    label: str


def words_of(text: str) -> list[Bounds]:
    """Return the range of each word of a text, in characters."""
    return [match.span() for match in WORD.finditer(text)]


def labels_of(words: Sequence[Bounds], spans: Iterable[LabelledSpan], place: str) -> list[str]:
    """Return a label in IOB2 for each word: that of the span that has the word or a part of it, else O.

    Raises:
        UserError: a span holds no word, or shares a word with another span.
    """
    labels = [OUTSIDE] * len(words)
    for span in spans:
        inside = [number for number, (start, end) in enumerate(words) if start < span.end and span.start < end]
        if not inside or any(labels[number] != OUTSIDE for number in inside):
            raise UserError(f"{place}: the span {[*span]} holds no word, or one of another span; leave it out")
        for number in inside:
            labels[number] = f"I-{span.label}"
        labels[inside[0]] = f"B-{span.label}"
    return labels
