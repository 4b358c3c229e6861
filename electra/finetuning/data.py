"""The data of fine-tuning: rows of tokens, batches, and the sources of rows: files, data sets, rows of a program."""

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
    """The N texts, or pairs of texts, of one split, with their labels.

    Args:
        first: the texts, or the first texts of the pairs.
        second: the second texts of the pairs; None for single texts.
        labels: list of N class ids or of N targets of a regression, or an array (N, ...) of other labels; None if the
            labels are not public.
    """

    first: list[str]
    second: list[str] | None = None
    labels: Any = None

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True)
class ColumnRows:
    """The rows of one split: texts, windows of texts, or questions with their choices.

    Args:
        columns: values of all N rows, by name of the column; `labels` is one of them if the labels are known.
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
        """Return the rows without the columns `LABEL_FIELDS`."""
        shown = {name: values for name, values in self.columns.items() if name not in LABEL_FIELDS}
        return replace(self, columns=shown)

    def batches(self, size: int) -> list[list[int]]:
        """Return the numbers of the rows of each batch, at most `size`; rows of similar length share a batch."""
        order = np.argsort(self.lengths, kind="stable").tolist()
        return [order[start : start + size] for start in range(0, len(order), size)]


def tokenize(
    tokenizer: PreTrainedTokenizerBase,
    *texts: Sequence[str],
    **options: object,
) -> Columns:
    """Return what a tokenizer makes of texts, or of pairs of texts: name -> an array for each row.

    Arrays are int32, those of `token_type_ids` uint8. There is no attention mask.

    Args:
        texts: one sequence of texts, or two of equal length.
        options: further arguments of the tokenizer.
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
        rows with the columns `input_ids`, `token_type_ids` and, if examples have labels, `labels`: float32 if one of
            them is a float, else int64.
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
    """Return the number of tokens in each of N rows, int64 (N,)."""
    return np.array([len(row) for row in rows], np.int64)


def both_orders(examples: Examples) -> Examples:
    """Return N labelled pairs in both orders, 2 N rows, for tasks in which the order has no meaning.

    Source: google-research/electra, finetune/classification, double_unordered.
    """
    assert examples.second is not None
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
    """Return the first token of each of W windows on a text, and the one after its last, int64 (W, 2).

    Windows start `stride` tokens apart, or `size` if that is less, so that every token is in a window. The last window
    ends with the text. A text of `size` tokens or fewer has one window, which is empty if the text is.

    Args:
        num_tokens: tokens of the text.
        size: tokens of a window, at most.
        is_last_full: whether the last of several windows starts earlier, to be as long as the others.
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

    The context of a token is its distance from the nearer edge of the window, plus 1 % of the window's length. If two
    windows show equally much, the first is chosen.

    Args:
        windows: result of `cut_windows` for the text, int64 (W, 2).

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
    """Return rows of different lengths as one int64 tensor (B, longest), filled up on the right with `value`."""
    tensors = [torch.as_tensor(np.asarray(row, np.int64)) for row in rows]
    return pad_sequence(tensors, batch_first=True, padding_value=value)


@dataclass(frozen=True)
class PaddingCollator:
    """A collator that makes a batch of B rows.

    A column of sequences becomes a tensor, int64 (B, longest), padded with `pad_token_id` in `input_ids`, with
    `IGNORED` in `labels`, and otherwise with 0. A column of numbers becomes a tensor (B,) of their type.
    `attention_mask`, int64 (B, longest), is 1 at tokens.
    """

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
    """Return the paths that the options `train_file`, `validation_file` and `test_file` name, by split."""
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
"""Names of files that say at most which split of their data they are."""
TEXT_ENDINGS = (".txt", ".conll", ".conllu", ".conllup", ".iob", ".iob2", ".bio", ".bioes")
"""Endings of files of text or columns, which are no part of the name of a task."""


def task_name(options: Any, default_name: str, task_names: Collection[str] = ()) -> str:
    """Return the name of a task: --task_name, else that of the data set or of the first training file.

    A file that is named train, dev or the like, or that lies in a folder of one of the `task_names`, has the name of
    its folder. The result is usable as a file name, and not that of a hidden file.

    Args:
        options: a `FileTaskArguments`.
        default_name: name of a task whose rows are those of a program.
        task_names: names of official tasks.
    """
    file_name = ""
    if paths := files_by_split(options).get("train"):
        path = Path(os.path.abspath(expand(paths[0])))
        file_name = path.name
        while (suffix := Path(file_name).suffix.lower()) in (*TABLES, *COMPRESSIONS, *TEXT_ENDINGS):
            file_name = file_name[: -len(suffix)]
        if path.parent.name in task_names or NAMELESS.fullmatch(file_name):
            file_name = path.parent.name
    name = options.task_name or Path(options.dataset_name or file_name).name or default_name
    return regex.sub(r"^\.+|[^\w\p{M}.-]+", "_", name)


# ---- what a score depends on

TABLE_OPTIONS = ("delimiter", "quoting")
"""Options that say how a csv or tsv is written."""
RECORDED_AS_DATA = (
    *(
        "train_file",
        "validation_file",
        "test_file",
        "dataset_name",
        "dataset_config_name",
        "task_name",
        *TABLE_OPTIONS,
    ),
    *("no_label", "validation_fraction", "eval_seed"),
)
"""Options that are not recorded as they are: `data_settings` records in their place what identifies the rows."""


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
        options: a `HeldOutArguments` with the options of files or of a data set.
        rows: rows of a program by split, in place of the files or the data set that the options name; {} without.
    """
    settings: dict[str, Any] = {}
    if no_label := getattr(options, "no_label", []):
        settings["no_label"] = sorted(no_label)
    if options.dataset_name is None and "dev" not in {**files_by_split(options), **rows}:
        settings |= {"validation_fraction": options.validation_fraction, "eval_seed": options.eval_seed}
    if rows:
        return settings | {f"{SPLITS[split]}_data": row_fingerprint(named.table) for split, named in rows.items()}
    if options.dataset_name is None:
        table_options = {name: getattr(options, name, None) for name in TABLE_OPTIONS}
        settings |= {name: value for name, value in table_options.items() if value}
        return settings | file_settings(files_by_split(options))
    return settings | dataset_settings(options.dataset_name, getattr(options, "dataset_config_name", None))


def file_settings(files: Mapping[str, Sequence[str | Path]]) -> dict[str, str]:
    """Return the settings that identify the files of each split, such as `train_data` -> `fingerprint`."""
    return {f"{SPLITS[split]}_data": fingerprint(paths) for split, paths in files.items()}


def dataset_settings(name: str, config: str | None = None) -> dict[str, str]:
    """Return the settings that identify a data set of the Hub, or a folder that `datasets` opens."""
    if Path(name).is_dir():
        paths = sorted(Path(name).rglob("*"))
        name = fingerprint([path for path in paths if path.is_file()])
    words = " ".join(filter(None, (name, config)))
    return {"train_data": f"{words} {SPLITS['train']}", "validation_data": f"{words} {SPLITS['dev']}"}


def fingerprint(paths: Sequence[str | Path]) -> str:
    """Return a hash of the contents of files in order, 12 hexadecimal digits; the names of the files do not count.

    Raises:
        UserError: a file cannot be read.
    """
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
ROWS_ADVICE = "give rows, a list of dictionaries; a table of pandas or datasets; or the path of a file"
"""What a program may pass as rows, for messages."""


def as_table(rows: object, argument: str, text_column: str | None = None) -> Any:
    """Return the rows that a program passes: a table of `datasets` as it is, other rows as a list of dictionaries.

    Args:
        rows: dictionaries; a table of `datasets` or pandas; the path of a file. With `text_column` also one
            dictionary, or several texts.
        argument: name of the argument that has the rows, for messages.
        text_column: column that the texts become; None if rows are no texts.
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
        raise UserError(f"{argument} is {abridged(rows)}; {ROWS_ADVICE}")
    table = [{text_column: row} if text_column and isinstance(row, str) else row for row in rows]
    for number, row in enumerate(table):
        if not isinstance(row, Mapping) or not all(isinstance(column, str) for column in row):
            raise UserError(f"{argument} row {number} is {abridged(row)}; {ROWS_ADVICE}")
    return table


def placed_rows(rows: object, argument: str, text_column: str) -> Iterator[PlacedRow]:
    """Return place and columns of each row or text that a program passes; arguments as in `as_table`.

    A .txt file has a text in each line.

    Raises:
        UserError: `rows` has no form of `as_table`, or is one text, but not the path of a file.
    """
    if isinstance(rows, str | Path):
        if not os.path.isfile(expand(rows)):
            raise UserError(f"there is no file {abridged(str(rows))}; {argument} may be a list of texts, too")
        return read_rows(rows, reads_text=extension_of(rows) == TEXT_FORM)
    return table_rows(as_table(rows, argument, text_column), argument)


def load_tables(name: str, config: str | None, instead: str) -> "DatasetDict":
    """Return the tables of a data set by split: of the Hub, or in a folder that `datasets` has saved or can open.

    Args:
        name: Hub id or folder.
        config: configuration of the data set; None for its default.
        instead: advice for a user whose data set cannot be loaded, the end of the message.
    Raises:
        UserError: the data set cannot be loaded.
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
    """Yield place and columns of each row of a table of `datasets`, or of a list of dictionaries.

    Args:
        source: what has the rows, the beginning of each place.
        names_classes: whether the numbers of classes are replaced by their names, or by None where labels are hidden.
    """
    features = getattr(table, "features", None) or {}
    classes = classes_of(features) if names_classes else {}
    if features:
        table = table.with_format(None)
    for number, row in enumerate(table):
        place = f"{source} row {number}"
        yield place, name_classes({name: as_plain(value) for name, value in row.items()}, classes, place)


def as_plain(value: object) -> object:
    """Return a value with lists and numbers of Python in place of those of numpy and torch, also inside lists."""
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
    """Return split -> place and columns of each of its rows: of a program, of files, or of a data set.

    Args:
        options, rows: see `data_settings`.
        needs: the splits that a data set must have.
        names_classes: see `table_rows`.
    Raises:
        UserError: the data set cannot be loaded or lacks a split; while the rows are read, a source of a program or a
            file has none, or a file cannot be read.
    """
    if rows:
        return {
            split: _at_least_one(table_rows(named.table, named.argument, names_classes=names_classes), named.argument)
            for split, named in rows.items()
        }
    name = options.dataset_name
    table_options: Any = {option: getattr(options, option, None) for option in TABLE_OPTIONS}

    def read(path: str) -> Iterator[PlacedRow]:
        return _at_least_one(read_rows(path, **table_options, names_classes=names_classes, skips_empty=True), path)

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


def _at_least_one(rows: Iterator[PlacedRow], source: str) -> Iterator[PlacedRow]:
    """Yield the rows of a source; raise a UserError if there are none."""
    first = next(rows, None)
    if first is None:
        raise UserError(f"{source} has no rows; give a header and rows")
    yield first
    yield from rows


# ---- names of columns


def find_column(names: Sequence[str], row: Columns) -> str:
    """Return the column of a row that has one of the usual names, or one in another case, such as Text.

    Names that come first are preferred. Without such a column, return the first name.
    """
    if name_in_row := next((name for name in names if name in row), None):
        return name_in_row
    return next((column for name in names for column in row if column.lower() == name), names[0])
