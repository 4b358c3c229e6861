"""Text that comes from files and command lines: what can be written as UTF-8, and what a terminal may be sent."""

import re

_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters other than tab and newline, marks that turn the direction of writing, halves of surrogates.

Joiners (U+200C, U+200D) are letters of Persian and of emoji, and not among them.
"""


def is_encodable(text: str) -> bool:
    """Return True if a text can be written as UTF-8: JSON and file names may hold half of a surrogate pair."""
    return re.search("[\ud800-\udfff]", text) is None


def printable(text: str) -> str:
    """Return a text with escapes such as `\\x1b` for all that would move the cursor or reorder a line."""
    return _UNSEEN.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)
