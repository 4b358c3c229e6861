"""What tells a page from others: data, numbers, date and command, without the folders of this machine. No torch."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath

from electra.base.console import shown_command
from electra.base.files import read_json, read_options
from electra.report.blocks import Blocks, Code, Fold, Text, without_folders
from electra.report.results import ENVIRONMENT_NAME, Environment, read_evaluation
from electra.report.runs import names_of

DATA_OPTIONS = ("dataset_name", "train_file", "validation_file", "test_file")
"""Options of an evaluation that name its data."""
SPLIT_WORDS = {"train": "to train on", "dev": "for development", "test": "for the test"}
"""Split -> what its rows are for."""


def lines_about(folders: Sequence[Path], unit: str) -> list[Text]:
    """Return a line for each evaluation with its data, numbers of rows and seeds, model and date.

    Args:
        folders: folders of evaluations.
        unit: what the rows are, in the plural, such as `texts`.
    """
    lines = []
    for folder, name in names_of(folders).items():
        results = read_evaluation(folder)
        options = read_options(folder) or {}
        values = [options[key] for key in DATA_OPTIONS if options.get(key)]
        sources = [source for value in values for source in (value if isinstance(value, list) else [value])]
        (first, *_) = results
        rows = [
            f"{count:,} {unit} {SPLIT_WORDS[split]}" for split, count in first.rows.items() if split in SPLIT_WORDS
        ]
        seeds = len({result.seed for result in results})
        parts = [
            *dict.fromkeys(map(shown_name, sources)),
            *(rows if len({result.task for result in results}) == 1 else []),
            f"{seeds} seed{'s' * (seeds > 1)}",
            f"from {shown_name(first.model)}",
        ]
        lines.append(f"{name}: {', '.join([*parts, *date_of(folder)])}")
    return [Text(line) for line in lines]


def folded_commands(script: str, options: Sequence[Mapping[str, object]]) -> Blocks:
    """Return a fold with command lines, without secrets and the folders of this machine; [] if all have no options.

    Args:
        script: words behind `python`, such as `-m electra squad`.
        options: option -> value, for each command line; one without options is left out.
    """
    codes = []
    for values in filter(None, options):
        words = []
        for name, value in values.items():
            parts = value if isinstance(value, list) else [value]
            words += [f"--{name}", *(json.dumps(part) if isinstance(part, dict) else str(part) for part in parts)]
        codes.append(Code(without_folders(shown_command(script, words)), "bash"))
    return [Fold("Command" if len(codes) == 1 else "Commands", codes)] if codes else []


def date_of(folder: Path) -> list[str]:
    """Return the date of the last command of an evaluation, as a list; [] where environment.json has none."""
    path = folder / ENVIRONMENT_NAME
    date = read_json(path, Environment).get("date") if path.is_file() else None
    return [date] if date else []


def shown_name(path: str) -> str:
    """Return the name of a file or model for a page: the last part of an absolute path, others as they are."""
    return PurePath(path).name if PurePath(path).is_absolute() else path
