"""The data of fine-tuning: rows of tokens and batches, and where rows come from: files of the user, data sets."""

import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import regex
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerBase

from electra.base.errors import first_line
from electra.base.files import HELD_OUT_WORDS, check_file, expand
from electra.core.errors import UserError, abridged
from electra.data.lines import COMPRESSIONS, extension_of
from electra.data.rows import TABLES, Columns, PlacedRow, classes_of, name_classes, read_rows
from electra.tokenizers.load import state_kept

if TYPE_CHECKING:
    from datasets import DatasetDict

# ---- rows of token ids, windows on long texts, padded batches


Array = NDArray[Any]
"""An array of numpy, whose shape and type are said where it is used."""
TOKENIZER_BATCH = 2000
"""Texts of one call of the tokenizer, which bounds memory."""
Collator = Callable[[Sequence[Columns]], dict[str, Tensor]]
"""Function of a list of rows that returns a batch."""
Logits = dict[str, Array]
"""Logits by name of the split."""
IGNORED = -100
"""Label of padding, as in transformers."""
LABEL_FIELDS = ("labels", "start_positions")
"""Columns with labels, which evaluation must not show to the model."""


@dataclass(frozen=True)
class Examples:
    """The texts of one split with their labels, by column."""

    first: list[str]
    second: Any = None  # list of texts, for pairs
    labels: Any = None  # list of class ids, or of targets of a regression; None if not public

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True)
class ColumnRows:
    """The rows of one split: texts, windows of texts, or questions with their choices.

    Args:
        columns: values of all rows, by key; `labels` is one of the keys if the labels are known.
        lengths: number of tokens in each row, int64 (N,).
    """

    columns: Mapping[str, Sequence[Any] | Array]
    lengths: Array

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, row: int) -> Columns:
        return {name: values[row] for name, values in self.columns.items()}

    def __iter__(self) -> Iterator[Columns]:
        return (self[row] for row in range(len(self)))

    def take(self, numbers: Array) -> Self:
        """Return the rows with these numbers, int64 (M,), in this order."""
        columns = {
            name: values[numbers] if isinstance(values, np.ndarray) else [values[number] for number in numbers]
            for name, values in self.columns.items()
        }
        return replace(self, columns=columns, lengths=self.lengths[numbers])

    def without_labels(self) -> Self:
        shown = {name: values for name, values in self.columns.items() if name not in LABEL_FIELDS}
        return replace(self, columns=shown)

    def batches(self, size: int) -> list[list[int]]:
        """Return the numbers of the rows of each batch: rows of similar length share one, so that padding is short."""
        order = np.argsort(self.lengths, kind="stable").tolist()
        return [order[start : start + size] for start in range(0, len(order), size)]


def tokenize(
    tokenizer: PreTrainedTokenizerBase,
    *texts: Sequence[str],
    **options: object,
) -> Columns:
    """Return the columns that a tokenizer makes of texts, or of pairs of texts; int32, token types uint8.

    Args:
        texts: one sequence of texts, or two of equal length.
    """
    columns: Columns = {}
    for start in range(0, len(texts[0]), TOKENIZER_BATCH):
        batch = [list(column[start : start + TOKENIZER_BATCH]) for column in texts]
        # verbose: no warning about texts that are longer than the model, which are cut into windows
        with state_kept(tokenizer):
            encoded = tokenizer(*batch, return_attention_mask=False, verbose=False, **options)
        for name, rows in encoded.items():
            dtype = np.uint8 if name == "token_type_ids" else np.int32
            columns.setdefault(name, []).extend(np.asarray(row, dtype) for row in rows)
    return columns


def encode_examples(examples: Examples, tokenizer: PreTrainedTokenizerBase, max_length: int) -> ColumnRows:
    """Return examples as rows of at most `max_length` tokens; of a pair the longer text is truncated first.

    Returns:
        rows with the columns `input_ids`, `token_type_ids`, and `labels`: int64 class ids or float32 targets.
    """
    texts = [examples.first]
    if examples.second is not None:
        texts.append(examples.second)
    columns = tokenize(
        tokenizer,
        *texts,
        truncation="longest_first",
        max_length=max_length,
        return_token_type_ids=True,
    )
    if examples.labels is not None:
        is_regression = any(isinstance(label, float) for label in examples.labels)
        dtype = np.float32 if is_regression else np.int64
        columns["labels"] = np.asarray(examples.labels, dtype)
    return ColumnRows(columns, lengths_of(columns["input_ids"]))


def lengths_of(rows: Sequence[Sized]) -> Array:
    """Return the number of tokens in each of N rows, (N,)."""
    return np.array([len(row) for row in rows], np.int64)


def both_orders(examples: Examples) -> Examples:
    """Return each pair in both orders, twice the rows, for tasks in which the order has no meaning.

    Source: google-research/electra, finetune/classification, double_unordered.
    """
    first = examples.first + examples.second
    second = examples.second + examples.first
    return Examples(first, second, 2 * examples.labels)


def cut_windows(
    num_tokens: int,
    size: int,
    stride: int,
    *,
    is_last_full: bool = False,
) -> Array:
    """Return each window's first token and the one after its last, int64 (W, 2); an empty text has one empty window.

    Windows start `stride` tokens apart, or `size` if that is less, so that every token is in one. The last window ends
    with the text; with `is_last_full` it starts earlier to be as long as the others.
    """
    step = min(stride, size)
    last_start = max(0, num_tokens - size)  # behind the first window
    num_windows = 1 + math.ceil(last_start / step)
    firsts = step * np.arange(num_windows)
    if is_last_full:
        firsts = np.minimum(firsts, last_start)
    ends = np.minimum(firsts + size, num_tokens)
    return np.stack([firsts, ends], axis=1)


def windows_with_most_context(windows: Array) -> Array:
    """Return for each of T tokens of a text the number of the window that shows most context, int64 (T,), ascending.

    The context of a token is its distance from the nearer edge of the window, plus 1 % of the window's length. The
    first of equal windows is chosen. Windows are as `cut_windows` returns them.

    Source: google-research/electra, finetune/qa/qa_tasks.py, _check_is_max_context.
    """
    first = windows[:, :1]
    after = windows[:, 1:]
    tokens = np.arange(windows[-1, 1])
    left = tokens - first  # (W, T)
    right = after - 1 - tokens
    context = 100 * np.minimum(left, right) + (after - first)
    is_inside = (left >= 0) & (right >= 0)
    return np.where(is_inside, context, -1).argmax(axis=0)


def pad(rows: Sequence[Sequence[int] | Array], value: int) -> Tensor:
    """Return rows of different lengths as one int64 tensor (B, longest), padded on the right."""
    tensors = [torch.as_tensor(np.asarray(row, np.int64)) for row in rows]
    return pad_sequence(tensors, batch_first=True, padding_value=value)


@dataclass(frozen=True)
class PaddingCollator:
    """A collator that makes a batch of rows: columns and `attention_mask` int64 (B, longest), single numbers (B,)."""

    pad_token_id: int

    def __call__(self, rows: Sequence[Columns]) -> dict[str, Tensor]:
        masks = [np.ones(len(row["input_ids"])) for row in rows]
        batch = {"attention_mask": pad(masks, 0)}
        padding = {"input_ids": self.pad_token_id, "labels": IGNORED}
        for name, first in rows[0].items():
            values = [row[name] for row in rows]
            if np.ndim(first) == 0:
                batch[name] = torch.from_numpy(np.asarray(values))
            else:
                batch[name] = pad(values, padding.get(name, 0))
        return batch


# ---- files of the user


SPLITS = {"train": "train", "dev": "validation", "test": "test"}
"""Name of a split here -> its name on the Hub."""
DATASET_ARGUMENTS = {"train": "train_dataset", "dev": "eval_dataset", "test": "test_dataset"}
"""Name of a split -> the argument of `fine_tune` that has its data."""


def files_by_split(options: object) -> dict[str, list[str]]:
    """Return the files of each split that `train_file`, `validation_file` and `test_file` name."""
    files = {}
    for split, split_name in SPLITS.items():
        paths = getattr(options, f"{split_name}_file", None)
        if paths:
            files[split] = [paths] if isinstance(paths, str) else paths
    return files


NAMELESS = re.compile(
    rf"(train|training|trn|{'|'.join(sorted(HELD_OUT_WORDS))}|data|dataset|set|all|full|of|\d+|[\W_])+",
    re.IGNORECASE,
)
"""Names of files that say only which split of some data they are."""
TEXT_ENDINGS = (".txt", ".conll", ".conllu", ".conllup", ".iob", ".iob2", ".bio", ".bioes")
"""Endings of files of text or columns, which are no part of the name of a task."""


def task_name(options: Any, kind: str, task_names: Collection[str] = ()) -> str:
    """Return the name of a task: --task_name, else that of the data set, the first training file, or `kind`.

    A file that is named train, dev or the like, or that lies in a folder of one of the `task_names`, has the name of
    its folder. The result is usable as a file name, and not that of a hidden file.
    """
    file_name = ""
    if paths := files_by_split(options).get("train"):
        path = Path(os.path.abspath(expand(paths[0])))
        file_name = path.name
        while (suffix := Path(file_name).suffix.lower()) in (*TABLES, *COMPRESSIONS, *TEXT_ENDINGS) and suffix:
            file_name = file_name[: -len(suffix)]
        if path.parent.name in task_names or NAMELESS.fullmatch(file_name):
            file_name = path.parent.name
    name = options.task_name or Path(options.dataset_name or file_name).name or kind
    return regex.sub(r"^\.+|[^\w\p{M}.-]+", "_", name)


# ---- what a score depends on

TABLE_FORM = ("delimiter", "quoting")
"""Options that say how a csv or tsv is written."""
RECORDED_AS_DATA = (
    *("train_file", "validation_file", "test_file", "dataset_name", "dataset_config_name", "task_name", *TABLE_FORM),
    *("no_label", "validation_fraction", "eval_seed"),
)
"""Options in place of which `data_settings` records the rows that they name."""


class NamedRows(NamedTuple):
    """The rows of one split that a program passes.

    Args:
        argument: name of the argument that has them, for messages.
        table: a list of dictionaries, or a table of `datasets`.
    """

    argument: str
    table: Any


def data_settings(options: Any, rows: Mapping[str, NamedRows]) -> dict[str, object]:
    """Return the settings that identify the rows of each split in results, in place of `RECORDED_AS_DATA`.

    Args:
        rows: rows of a program by split, in place of the files or the data set that the options name; see
            `Arguments`.
    """
    settings: dict[str, Any] = {}
    if no_label := getattr(options, "no_label", []):
        settings["no_label"] = sorted(no_label)
    if options.dataset_name is None and "dev" not in {**files_by_split(options), **rows}:
        settings |= {"validation_fraction": options.validation_fraction, "eval_seed": options.eval_seed}
    if rows:
        return settings | {f"{SPLITS[split]}_data": row_fingerprint(part.table) for split, part in rows.items()}
    if options.dataset_name is None:
        forms = {name: getattr(options, name, None) for name in TABLE_FORM}
        settings |= {name: form for name, form in forms.items() if form}
        return settings | file_settings(files_by_split(options))
    return settings | dataset_settings(options.dataset_name, getattr(options, "dataset_config_name", None))


def file_settings(files: Mapping[str, Sequence[str | Path]]) -> dict[str, str]:
    return {f"{SPLITS[split]}_data": fingerprint(paths) for split, paths in files.items()}


def dataset_settings(name: str, config: str | None = None) -> dict[str, str]:
    """Return the settings that identify a data set of the Hub, or a folder that `datasets` opens."""
    if Path(name).is_dir():
        paths = sorted(Path(name).rglob("*"))
        name = fingerprint([path for path in paths if path.is_file()])
    words = " ".join(filter(None, (name, config)))
    return {"train_data": f"{words} {SPLITS['train']}", "validation_data": f"{words} {SPLITS['dev']}"}


def fingerprint(paths: Sequence[str | Path]) -> str:
    """Return a hash of the contents of files in order, 12 hexadecimal digits; names do not count."""
    digest = hashlib.sha256()
    for path in paths:
        check_file(path)
        with open(expand(path), "rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:12]


def row_fingerprint(rows: Iterable[Columns]) -> str:
    """Return a hash of rows in order, 12 hexadecimal digits."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(row, sort_keys=True, default=str).encode())
    return digest.hexdigest()[:12]


# ---- data sets, and rows of a program

TEXT_FORM = ".txt"
"""Ending of files with a text in each line."""
ROWS_FORM = "give rows, a list of dictionaries; a table of pandas or datasets; or the path of a file"
"""What a program may pass as rows, for messages."""


def as_table(rows: object, argument: str, text_column: str | None = None) -> Any:
    """Return rows that a program passes as a table of `datasets`, if they are one, else as a list of dictionaries.

    Args:
        rows: dictionaries; a table of `datasets` or pandas; the path of a file. With `text_column` also one row, or
            several texts, which become rows of this column.
        argument: name of the argument that has the rows, for messages.
    Raises:
        UserError: `rows` is none of these.
    """
    if isinstance(rows, str | Path):
        return [row for _, row in read_rows(rows)]
    if text_column and isinstance(rows, Mapping):
        rows = [rows]
    if isinstance(getattr(rows, "features", None), Mapping):  # of `datasets`: a column has a type there
        return rows
    if hasattr(rows, "to_dict") and hasattr(rows, "columns"):  # of pandas
        rows = rows.to_dict("records")
    if isinstance(rows, bytes | Mapping) or not isinstance(rows, Iterable):
        raise UserError(f"{argument} is {abridged(rows)}; {ROWS_FORM}")
    table = [{text_column: row} if text_column and isinstance(row, str) else row for row in rows]
    for number, row in enumerate(table):
        if not isinstance(row, Mapping) or not all(isinstance(column, str) for column in row):
            raise UserError(f"{argument} row {number} is {abridged(row)}; {ROWS_FORM}")
    return table


def placed_rows(rows: object, argument: str, text_column: str) -> Iterator[PlacedRow]:
    """Return place and columns of each row or text that a program passes; see `as_table`.

    Raises:
        UserError: `rows` is no table, or a text that is not the path of a file.
    """
    if isinstance(rows, str | Path):
        if not os.path.isfile(expand(rows)):
            raise UserError(f"there is no file {abridged(str(rows))}; {argument} may be a list of texts, too")
        return read_rows(rows, reads_text=extension_of(rows) == TEXT_FORM)
    return table_rows(as_table(rows, argument, text_column), argument)


def load_tables(name: str, config: str | None, instead: str) -> "DatasetDict":
    """Return the tables of a data set by split: one of the Hub, or a folder that `datasets` saved or opens.

    Args:
        instead: options to use where the data set cannot be loaded, for the message.
    """
    import datasets

    try:
        if (Path(name) / "dataset_dict.json").is_file():
            return datasets.load_from_disk(name)
        tables = datasets.load_dataset(name, config)
        infos = [getattr(table, "info", None) for table in tables.values()]
        if any(info is not None and info.builder_name == "csv" for info in infos):  # NA is text, as in files
            tables = datasets.load_dataset(name, config, keep_default_na=False)
        return tables
    except Exception as error:  # OSError, ValueError, and what the versions of the Hub's clients raise offline
        full_name = " ".join(filter(None, (name, config)))
        raise UserError(f"the data set {full_name} could not be loaded ({first_line(error)}); {instead}") from error


def table_rows(
    table: Any,
    source: str,
    *,
    names_classes: bool = True,
) -> Iterator[PlacedRow]:
    """Yield place and columns of each row of a table of `datasets`, or of a list of rows.

    With `names_classes`, the numbers of classes are replaced by their names, or by None where labels are hidden.
    """
    features = getattr(table, "features", None) or {}
    classes = classes_of(features) if names_classes else {}
    if features:
        table = table.with_format(None)
    for number, row in enumerate(table):
        place = f"{source} row {number}"
        yield place, name_classes({name: as_plain(value) for name, value in row.items()}, classes, place)


def as_plain(value: object) -> object:
    """Return an array or a number of numpy or torch, or a list that holds some, as lists and numbers of Python."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return [as_plain(part) for part in value] if isinstance(value, list) else value


# ---- files, a data set, or rows of a program


def rows_by_split(
    options: Any,
    rows: Mapping[str, NamedRows] = {},
    needs: Sequence[str] = ("train", "dev"),
    *,
    names_classes: bool = True,
) -> dict[str, Iterator[PlacedRow]]:
    """Return for each split an iterator of place and columns of its rows: of a program, files, or a data set.

    Args:
        rows: see `data_settings`.
        needs: the splits that a data set must have.
        names_classes: see `table_rows`.
    """
    if rows:
        return {
            split: _at_least_one(table_rows(part.table, part.argument, names_classes=names_classes), part.argument)
            for split, part in rows.items()
        }
    name = options.dataset_name
    form: Any = {option: getattr(options, option, None) for option in TABLE_FORM}

    def read(path: str) -> Iterator[PlacedRow]:
        return _at_least_one(read_rows(path, **form, names_classes=names_classes, skips_empty=True), path)

    if name is None:
        files = files_by_split(options)
        return {split: chain.from_iterable(map(read, paths)) for split, paths in files.items()}
    config = getattr(options, "dataset_config_name", None)
    tables = load_tables(name, config, "name files with --train_file and --validation_file")
    missing_splits = [SPLITS[split] for split in needs if SPLITS[split] not in tables]
    if missing_splits:
        raise UserError(f"the data set {name} has no split {missing_splits[0]}; its splits are {' '.join(tables)}")
    return {
        split: table_rows(tables[split_name], f"{name} {split_name}", names_classes=names_classes)
        for split, split_name in SPLITS.items()
        if split_name in tables
    }


def _at_least_one(rows: Iterator[PlacedRow], name: str) -> Iterator[PlacedRow]:
    """Yield rows; raise a UserError with the name of what has them if there are none."""
    first = next(rows, None)
    if first is None:
        raise UserError(f"{name} has no rows; give a header and rows")
    yield first
    yield from rows


# ---- names of columns and of classes


def first_of(names: Sequence[str], row: Columns) -> str:
    """Return the first of some names that is a column of the row, in any case, such as Text; else the first name."""
    if name_in_row := next((name for name in names if name in row), None):
        return name_in_row
    return next((column for name in names for column in row if column.lower() == name), names[0])
