"""Options and command lines as they may be published: without secrets. No torch."""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

SECRET = re.compile(r"token$|password|secret|api_?key")
"""Names of options whose value is nobody else's business, such as `hub_token`."""


def without_secrets(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if not SECRET.search(str(name))}


def shown_command(script: str, argv: Sequence[str]) -> str:
    """A command line that can be pasted into a shell; in place of the values of secrets there is `...`."""
    words, is_secret = ["python", script], False
    for word in argv:
        name, equals, _ = word.partition("=")
        is_value, is_option = is_secret and not word.startswith("--"), word.startswith("--")
        is_secret = (is_option and bool(SECRET.search(name.replace("-", "_")))) or is_value
        words.append("..." if is_value else f"{name}=..." if is_secret and equals else word)
    return shlex.join(words)
