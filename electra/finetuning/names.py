"""Names of classes: those that people write in two ways and mean as one."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable


def alike(names: Iterable[str]) -> list[list[str]]:
    """Return groups of names that differ only in case, white space, `-`, `_` or the Unicode form of their characters.

    Such names are usually one class that was typed in several ways: `Sports` and `sports`.
    """
    groups: dict[str, set[str]] = defaultdict(set)
    for name in set(names):
        groups[same_when_typed(name)].add(name)
    return [sorted(group) for key, group in sorted(groups.items()) if len(group) > 1]


def same_when_typed(name: str) -> str:
    """Return a text that is the same for names that differ as `alike` says."""
    text = unicodedata.normalize("NFKC", name).casefold()
    return re.sub(r"(?<=\w)[\s_-]+(?=\w)", " ", text).strip()
