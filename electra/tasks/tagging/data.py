"""The splits of a tagging task: files of columns, files of rows, or a data set."""

from collections.abc import Mapping
from pathlib import Path

from electra.finetuning.sources import load_hub_splits, table_rows
from electra.io.errors import UserError
from electra.io.rows import JSON_LINES, read_rows
from electra.tasks.tagging.columns import Sentences, read_columns
from electra.tasks.tagging.rows import read_sentences

ROW_FILES = (*JSON_LINES, ".parquet")
"""Other files have columns."""


def load_splits(
    files: Mapping[str, str],
    dataset_name: str | None,
    config: str | None,
    label_column: str | None,
) -> dict[str, Sentences]:
    """The splits train, dev and, if there is one, test, of a data set (`load_hub_splits`) or of files by split."""
    splits = {}
    if dataset_name is not None:
        for split, table in load_hub_splits(dataset_name, config).items():
            rows = table_rows(table, f"{dataset_name} {split}")
            splits[split] = read_sentences(rows, label_column, needs_labels=split != "test")
        return splits
    for split, path in files.items():
        if Path(path).suffix.lower() in ROW_FILES:
            splits[split] = read_sentences(read_rows(path), label_column, needs_labels=split != "test")
        else:
            try:
                number = int(label_column or -1)
            except ValueError as error:
                raise UserError(f"--label_column {label_column} must be a number for files, counted from 0") from error
            splits[split] = read_columns(path, number, needs_labels=split != "test")
    return splits
