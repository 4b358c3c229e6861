"""Reads minimal pairs: an acceptable sentence and one that differs from it minimally and is not.

A row has the text columns `sentence_good` and `sentence_bad`. BLiMP's rows also name their paradigm (`UID`) and their
phenomenon (`linguistics_term`). Without these names, the file is the paradigm and the paradigm the phenomenon.
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from electra.io.errors import UserError
from electra.io.files import expand, is_encodable, may_be_hub_id

BLIMP = "nyu-mll/blimp"
PHENOMENA = {"s-selection": "argument_structure"}
"""BLiMP's rows have 13 terms for the 12 phenomena of its paper, which counts s-selection as argument structure."""


class Pair(NamedTuple):
    """A minimal pair; `place` says where it is from, such as FILE:3."""

    good: str
    bad: str
    paradigm: str
    phenomenon: str
    place: str


def load_pairs(data: str, max_pairs: int | None = None) -> list[Pair]:
    """The pairs of a .jsonl file, of all .jsonl files in a folder, or of all configurations of a Hub data set.

    Args:
        max_pairs: of each paradigm, the first ones.
    Raises:
        UserError: the data cannot be found or read, or a row is not a pair.
    """
    path = expand(data)
    if path.is_dir():
        files = sorted(path.glob("*.jsonl"))
        if not files:
            raise UserError(f"the folder {data} has no .jsonl file; name the folder that holds BLiMP's .jsonl files")
    elif path.exists():
        files = [path]
    elif may_be_hub_id(data):
        files = []
    else:
        raise UserError(f"there is no file or folder {data}; name one with .jsonl files, or a Hub id such as {BLIMP}")
    found: list[Pair] = []
    counts: Counter[str] = Counter()
    for pair in (pair for file in files for pair in _read_file(file)) if files else _read_hub(data):
        counts[pair.paradigm] += 1
        if max_pairs is None or counts[pair.paradigm] <= max_pairs:
            found.append(pair)
    return found


def _read_file(path: Path) -> Iterator[Pair]:
    is_empty = True
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            place = f"{path}:{number}"
            try:
                row = json.loads(line.decode("utf-8-sig"))
            except (ValueError, RecursionError) as error:
                raise UserError(f"{place} is not a line of JSON in UTF-8 ({error}); correct it") from error
            yield _pair(row, place, path.stem)
            is_empty = False
    if is_empty:
        raise UserError(f"{path} is empty; name a file with a pair in each line")


def _read_hub(name: str) -> Iterator[Pair]:
    import datasets

    try:
        tables = {
            (config, split): table
            for config in datasets.get_dataset_config_names(name)
            for split, table in datasets.load_dataset(name, config).items()
        }
    except Exception as error:  # being offline, unknown or forbidden end in many exception types
        raise UserError(
            f"the data set {name} could not be loaded ({type(error).__name__}: {error}); name a file or folder of "
            "BLiMP's .jsonl files with --data"
        ) from error
    for (config, split), table in tables.items():
        for number, row in enumerate(table, start=1):
            yield _pair(row, f"{name} {config} {split}:{number}", config)


def _pair(row: Any, place: str, source: str) -> Pair:
    if not isinstance(row, dict):
        raise UserError(f"{place} is not a JSON object; give one with sentence_good and sentence_bad")
    texts = []
    for field in ("sentence_good", "sentence_bad"):
        text = row.get(field)
        if not isinstance(text, str) or not text.strip() or not is_encodable(text):
            wrong = f"{text!r:.60} is not a text" if field in row else f"has {', '.join(row) or 'no fields'}"
            raise UserError(f"{place} has no sentence in the field {field}: {wrong}; correct the file")
        texts.append(text)
    paradigm = str(row.get("UID") or source)
    phenomenon = str(row.get("linguistics_term") or row.get("phenomenon") or paradigm)
    return Pair(texts[0], texts[1], paradigm, PHENOMENA.get(phenomenon, phenomenon), place)
