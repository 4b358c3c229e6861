"""Write the help of each verb of `electra` to a file, from the declarations of its options.

    python -m docs.help_files

`electra VERB --help` prints electra/help/VERB.txt, without the seconds that importing torch and transformers takes.
"""

import argparse
import os
import shutil
import sys
from contextlib import redirect_stdout, suppress
from importlib import import_module
from io import StringIO
from pathlib import Path
from unittest.mock import patch

from transformers import TrainingArguments

from docs.schema import VERBS_WITH_CONFIG
from electra.base.command_line import CommandLine
from electra.core.recipes import RECIPES
from electra.tools.commands import VERBS

FOLDER = Path(__file__).parents[1] / "electra" / "help"
"""Folder of the files, in the package."""
COLUMNS = "80"
"""Characters of a line, at most."""


def help_of(verb: str) -> str:
    """Return the help of a verb: an example, and its basic options, or all options of a verb with few."""
    name = f"electra {verb}"
    with patch.dict(os.environ, COLUMNS=COLUMNS), patch.object(sys, "argv", [name, "--help"]):
        lines = _basic_help(verb) if VERBS[verb].basic else _help_of_parser(verb)
    return f"example: python -m {name} {VERBS[verb].example}\n\n{lines}"


def _basic_help(verb: str) -> str:
    """Return the basic options of a verb, and how to see all."""
    groups = VERBS_WITH_CONFIG[verb]
    is_training = any(issubclass(group, TrainingArguments) for group in groups)
    about = VERBS[verb].about
    command_line = CommandLine(
        groups,
        f"{about[0].upper()}{about[1:]}.",
        recipes=RECIPES if is_training else {},
        preset=VERBS[verb].preset,
    )
    basic = command_line.format_basic_help(VERBS[verb].basic.split())
    lines = [basic, f"electra {verb} --help all lists every option."]
    if is_training:
        lines.append("All fields of transformers.TrainingArguments are options, too.")
    return "\n".join([*lines, ""])


def _help_of_parser(verb: str) -> str:
    """Return what a verb prints with `--help`, which is in `sys.argv`."""
    text = StringIO()
    with redirect_stdout(text), suppress(SystemExit):
        import_module(VERBS[verb].module).main()
    return text.getvalue()


def main() -> None:
    """Write the files anew, without those of verbs that are gone."""
    argparse.ArgumentParser(description="Write electra/help/VERB.txt of each verb.").parse_args()
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    for verb in VERBS:
        (FOLDER / f"{verb}.txt").write_text(help_of(verb), encoding="utf-8")


if __name__ == "__main__":
    main()
