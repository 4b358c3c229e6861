"""csv and jsonl files, or data sets of the Hub -> questions. No torch.

A row that is no question is left out of training and development sets and counted, because public copies have some: an
answer that names a fifth choice where there are four. A test set keeps every row, or is refused.
"""

import csv
import io
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from electra.errors import UserError
from electra.files import expand
from electra.finetuning.hub import SPLITS, load_hub_splits
from electra.multiple_choice.questions import (
    BadRow,
    Counting,
    Question,
    as_question,
    how_numbers_count,
    is_header,
    without_header,
)

logger = logging.getLogger(__name__)

MAX_BAD = 0.2
"""Share of rows that are no questions above which a file is not what it is taken for."""


def load_splits(
    files: Mapping[str, Sequence[str]], dataset_name: str | None, config: str | None
) -> dict[str, list[Question]]:
    """The splits train, dev and, if it is there, test.

    Args:
        files: paths by split, `.csv`, `.tsv` or `.jsonl`.
        dataset_name, config: of a data set on the Hub, or a folder that `datasets` opens, instead of files.

    Raises:
        UserError: data cannot be read, or is not what it is taken for; training or development rows without answers.
    """
    if dataset_name is None:
        tables = {split: [(path, _file_rows(path)) for path in paths] for split, paths in files.items() if paths}
    else:
        tables = {
            split: [(f"{dataset_name} {SPLITS[split]}", list(table))]
            for split, table in load_hub_splits(dataset_name, config).items()
        }
    counting = how_numbers_count(row for sources in tables.values() for _, rows in sources for row in rows)
    if counting.label == 1:
        logger.warning("no label is 0, and one is the number of its choices: labels are counted from 1")
    splits = {
        split: [question for source, rows in sources for question in questions(rows, source, split, counting)]
        for split, sources in tables.items()
    }
    for split, found in splits.items():
        if split != "test" and (row := next((q for q in found if q.answer is None), None)):
            raise UserError(f"{row.place} has no answer, which {split} needs; correct the file")
    return splits


def questions(rows: Sequence[Mapping[str, Any]], source: str, split: str, counting: Counting) -> list[Question]:
    """Rows as questions; those that are none are counted.

    Raises:
        UserError: there is no row, more than a fifth are none, or any of a test set.
    """
    if not rows:
        raise UserError(f"{source} has no rows; name a file of questions")
    found: list[Question] = []
    bad: list[str] = []
    for number, row in enumerate(rows, start=1):
        place = f"{source} row {number}"
        try:
            found.append(as_question(row, place, counting))
        except BadRow as error:
            bad.append(f"{place}: {error}")
    if bad and (split == "test" or len(bad) > MAX_BAD * len(rows)):
        raise UserError(f"{bad[0]} ({len(bad)} of {len(rows)} rows are no questions); correct the file")
    if bad:
        logger.warning("%s: %d of %d rows are left out, such as %s", source, len(bad), len(rows), bad[0])
    return found


def _file_rows(path: str) -> list[Mapping[str, Any]]:
    try:
        text = expand(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {error}") from error
    if Path(path).suffix.lower() in (".jsonl", ".json"):
        return list(_json_rows(text, path))
    delimiter = "\t" if Path(path).suffix.lower() == ".tsv" else ","
    try:
        lines = [
            cells for cells in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True) if cells
        ]
    except csv.Error as error:
        raise UserError(f"{path} is no csv file: {error}; correct it") from error
    if not lines:
        return []
    if not is_header(lines[0]):
        return [_checked(cells, len(lines[0]), f"{path} row {n}") for n, cells in enumerate(lines, start=1)]
    header = lines[0]
    names = [name.strip().lower() for name in header if name.strip()]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"{path} has two columns {twice}; leave one of them out")
    for number, cells in enumerate(lines[1:], start=1):
        if len(cells) != len(header):
            raise UserError(f"{path} row {number} has {len(cells)} columns and the header {len(header)}; correct it")
    return [dict(zip(header, cells, strict=True)) for cells in lines[1:]]


def _checked(cells: Sequence[str], width: int, place: str) -> dict[str, Any]:
    if len(cells) < 4 or len(cells) != width:
        raise UserError(
            f"{place} has {len(cells)} columns and the first row {width}; without a header these are a question, two "
            f"or more choices and the answer, in every row as many"
        )
    return without_header(cells)


def _json_rows(text: str, path: str) -> Iterator[Mapping[str, Any]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path} line {number} is no JSON: {error}; a line holds one question") from error
        if not isinstance(row, dict):
            raise UserError(f"{path} line {number} holds a {type(row).__name__}, expected an object; correct it")
        yield row
