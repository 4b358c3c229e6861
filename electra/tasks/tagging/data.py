"""The splits of a tagging task: files of columns, files of rows, or a data set."""

from pathlib import Path
from typing import Any

from electra.finetuning.sources import files_by_split, rows_by_split
from electra.io.errors import UserError
from electra.io.rows import JSON_LINES
from electra.tasks.tagging.columns import TaggedSentences, read_columns
from electra.tasks.tagging.rows import read_sentences

ROW_FILES = (*JSON_LINES, ".parquet")
"""Other files have columns."""


def load_tagging_splits(options: Any) -> dict[str, TaggedSentences]:
    """Load the splits train, dev and, if there is one, test, of a data set or of files."""
    column = options.label_column
    files = files_by_split(options)
    splits = {}
    for split, rows in rows_by_split(options).items():
        needs_labels = split != "test"
        paths = files.get(split)
        if paths is None or Path(paths[0]).suffix.lower() in ROW_FILES:
            splits[split] = read_sentences(rows, column, needs_labels=needs_labels)
            continue
        try:
            number = int(column) if column else None
        except ValueError as error:
            raise UserError(f"--label_column {column} must be a number for files, counted from 0") from error
        splits[split] = read_columns(paths[0], number, needs_labels=needs_labels)
    return splits
