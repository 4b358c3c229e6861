"""The data of a tagging task: options; sentences of words with labels, from files or a data set; windows of tokens."""

import logging
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import Any, Literal

import numpy as np
from transformers import PreTrainedTokenizerBase

from electra.finetuning.config import FeatureName, FileTaskArguments
from electra.finetuning.data import (
    Array,
    ColumnRows,
    cut_windows,
    files_by_split,
    lengths_of,
    rows_by_split,
    windows_with_most_context,
)
from electra.io.errors import UserError
from electra.io.files import expand
from electra.io.rows import JSON_LINES, Columns, PlacedRow, check_encodable, text_of
from electra.options import option
from electra.tasks.tagging.schemes import labels_of, read_entities, words_of

logger = logging.getLogger(__name__)


# ---- options


@dataclass(frozen=True)
class TaggingArguments(FileTaskArguments):
    """Words and labels, and output."""

    train_file: str | None = option(
        None,
        "File of columns: the word first, its label in --label_column; blank lines separate sentences. Or "
        ".conllu; or .jsonl or .parquet with tokens and tags, or with text and entities: [[start, end, label], ...].",
        replaced_by=("dataset_name",),
    )
    validation_file: str | None = option(None, "Development set in the same format.", replaced_by=("dataset_name",))
    test_file: str | None = option(None, "Test set in the same format; labels are optional.")
    label_column: str | None = option(
        None,
        "Column of the labels: in files of columns its number, from 0 or from the end; in rows its name. Default: the "
        "last column, of CoNLL-U the part of speech; in rows the only one whose name ends in tags or labels.",
    )
    scheme: Literal["auto", "iob2", "bioes"] = option(
        "auto", "Tagging scheme for training. auto: bioes if the data uses it, otherwise iob2."
    )
    features: FeatureName | None = option(
        None,
        "Freeze the encoder, and label words by a BiLSTM on its states (table 7 of BERT's paper): last, "
        "second_to_last (layer), concat_4 (the last four), mix_4, mix_all (weighted sums of the last four, of "
        "all), embeddings. Default: the encoder is fine-tuned.",
    )


# ---- files of columns

# A line of a file holds a word and its columns; a blank line ends a sentence; -DOCSTART- begins a document and is not
# a sentence. Lines of different widths are refused, because a lost column would shift all labels after it. In CoNLL-U
# (.conllu) the word is the second column, and comments, ranges of words and empty nodes are left out.


DOCUMENT = "-DOCSTART-"
CELLS = re.compile(r"[^ \t]+")  # not \S: U+00A0 and others occur within words


@dataclass(frozen=True)
class TaggedSentences:
    """The sentences of one split; `labels` as in the source, None if there are none."""

    words: list[list[str]]
    labels: list[list[str]] | None

    def __len__(self) -> int:
        return len(self.words)


def read_columns(
    path: str,
    label_column: int | None = None,
    *,
    needs_labels: bool = True,
) -> TaggedSentences:
    """Read a file whose columns are separated by spaces or tabs.

    `label_column` counts from 0; negative numbers count from the end; None is the last, of CoNLL-U the part of speech.
    Without `needs_labels` a file that does not have this column has no labels.
    """
    try:
        text = expand(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 ({error}); convert the file") from error
    is_conllu = path.lower().endswith(".conllu")
    word_column = int(is_conllu)
    if label_column is None:
        label_column = 3 if is_conllu else -1
    lines = []
    for line in text.split("\n"):
        line = line.rstrip("\r")
        cells = CELLS.findall(line)
        if is_conllu and cells:
            cells = line.split("\t")
            if not cells[0].isdecimal():  # a comment, a range of words, an empty node
                continue
        lines.append([] if cells[:1] == [DOCUMENT] else cells)
    width = len(next(filter(None, lines), []))
    if width == 0:
        raise UserError(f"{path} has no sentences; name a file of words and labels")
    has_labels = label_column != word_column and abs(label_column) < width
    if needs_labels and not has_labels:
        raise UserError(f"{path} has {width} columns; --label_column {label_column} must name one after the word")
    for number, cells in enumerate(lines, start=1):
        if cells and len(cells) != width:
            raise UserError(
                f"{path} line {number} has {len(cells)} columns, but earlier lines have {width}; correct it"
            )
    sentences = [list(group) for has_words, group in groupby(lines, key=bool) if has_words]
    words = [[cells[word_column] for cells in sentence] for sentence in sentences]
    labels = None
    if has_labels:
        labels = [[cells[label_column] for cells in sentence] for sentence in sentences]
    return TaggedSentences(words, labels)


def as_columns(words: Sequence[Sequence[str]], *labels: Sequence[Sequence[str]]) -> str:
    """Write a line for each word with its labels, and a blank line behind each sentence."""
    lines = []
    for columns in zip(words, *labels, strict=True):
        for cells in zip(*columns, strict=True):
            # White space inside a word would begin another column, and a blank word would end the sentence.
            written = [re.sub(r"[ \t\r\n]+", "_", cell.strip()) or "_" for cell in cells]
            lines.append(" ".join(written))
        lines.append("")
    return "\n".join(lines) + "\n"


# ---- windows of tokens

# A word's label is predicted at its first token. A sentence that is too long becomes several windows that overlap by
# half. Each word is labelled in one window only, the one with most context around it.


Words = Sequence[Sequence[str]]
"""The words of each sentence."""


@dataclass(frozen=True)
class SentenceWindows(ColumnRows):
    """The windows of one split.

    Columns: `input_ids` with special tokens; `positions` in `input_ids` of the first tokens of the words that this
    window labels; `labels` of these words, if known. `sentence_of_window` has indices, in ascending order.
    """

    sentence_of_window: list[int]

    def predictions(self, values: Array) -> list[list[Any]]:
        """Return predictions (windows, most words in a window) as one list per sentence, in the text's order."""
        found: dict[int, list[Any]] = defaultdict(list)
        for row, sentence, positions in zip(values, self.sentence_of_window, self.columns["positions"], strict=True):
            found[sentence] += row[: len(positions)].tolist()
        return list(found.values())


def special_tokens(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
    """Return the ids that the tokenizer puts before and behind a text."""
    encoded = tokenizer("a")
    ids = encoded["input_ids"]
    sequence_ids = encoded.sequence_ids(0)  # None at special tokens
    start = sequence_ids.index(0)
    return ids[:start], ids[start + sequence_ids.count(0) :]


def make_sentence_windows(
    sentences: Words,
    labels: Sequence[Sequence[int]] | None,
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
) -> SentenceWindows:
    """Cut sentences into windows of at most `max_length` tokens; `labels` are classes of words, if known."""
    before, behind = special_tokens(tokenizer)
    size = max_length - len(before) - len(behind)
    stride = max(1, size // 2)
    input_ids = []
    positions = []
    classes = []
    sentence_of_window = []
    for number, words in enumerate(tokenize_words(sentences, tokenizer)):
        tokens = list(chain.from_iterable(words))
        first_tokens = np.cumsum([0, *map(len, words[:-1])])
        edges = cut_windows(len(tokens), size, stride, is_last_full=True)
        window_of_word = windows_with_most_context(edges)[first_tokens]
        for window, (start, end) in enumerate(edges.tolist()):
            labelled = np.flatnonzero(window_of_word == window)
            if len(labelled) == 0:  # a window inside a word of very many tokens
                continue
            ids = [*before, *tokens[start:end], *behind]
            input_ids.append(np.array(ids, np.int32))
            positions.append(first_tokens[labelled] - start + len(before))
            sentence_of_window.append(number)
            if labels is not None:
                classes.append(np.array(labels[number], np.int64)[labelled])
    columns = {"input_ids": input_ids, "positions": positions}
    if labels is not None:
        columns["labels"] = classes
    return SentenceWindows(columns, lengths_of(input_ids), sentence_of_window)


def tokenize_words(sentences: Words, tokenizer: PreTrainedTokenizerBase) -> list[list[list[int]]]:
    """Tokenize sentence -> word -> ids, at least one for each word. Each distinct word is tokenized once.

    A word after another one is tokenized with a space before it, which byte-level tokenizers need and others ignore. A
    word without any token, such as a zero-width space, becomes the unknown token.
    """
    spelled = [[first, *(f" {word}" for word in others)] for first, *others in sentences]
    texts = sorted(set(chain.from_iterable(spelled)))
    encoded = tokenizer(texts, add_special_tokens=False, return_attention_mask=False)["input_ids"]
    unknown = [tokenizer.unk_token_id]
    ids = {text: row or unknown for text, row in zip(texts, encoded, strict=True)}
    return [[ids[text] for text in words] for words in spelled]


# ---- rows of data sets and of files

#     tokens or words   with a column of labels, such as tags
#     text              with entities: spans of characters with a label, see schemes.py


def read_sentences(
    rows: Iterable[PlacedRow],
    label_column: str | None,
    *,
    needs_labels: bool = True,
) -> TaggedSentences:
    """Read rows of words and labels, or of texts and spans.

    Without `needs_labels` there are no labels if one is missing, null or -1.
    """
    words: list[list[str]] = []
    labels: list[list[str] | None] = []
    widened = 0
    for place, row in rows:
        tokens = tokens_of(row, place)
        if tokens is None:
            found, tags, is_widened = read_text(row, place)
            widened += is_widened
        else:
            found = tokens
            tags = read_labels(row, label_column, place)
        if not found or found == [DOCUMENT]:
            continue
        if tags is None and needs_labels:
            raise UserError(f"{place} has no labels of its words; its columns are {', '.join(row)}")
        if tags is not None and len(tags) != len(found):
            raise UserError(f"{place} has {len(found)} words and {len(tags)} labels; correct the data")
        words.append(found)
        labels.append(tags)
    if not words:
        raise UserError("there are no sentences; name data with words")
    if widened:
        logger.warning("%d texts have spans that begin or end inside a word; the whole word has their label", widened)
    known = [tags for tags in labels if tags is not None]
    return TaggedSentences(words, known if len(known) == len(words) else None)


def tokens_of(row: Columns, place: str) -> list[str] | None:
    """Return the words of a row; None if the row has a text instead."""
    tokens = row.get("tokens", row.get("words"))
    if tokens is None:
        return None
    if not isinstance(tokens, list):
        raise UserError(f"{place} has {tokens!r:.60} for its words; give a list of words, or a text")
    check_encodable(tokens, place)
    return list(map(str, tokens))


def read_labels(
    row: Columns,
    label_column: str | None,
    place: str,
) -> list[str] | None:
    """Read the labels by name, by default from the only column that ends in tags or labels; None if hidden."""
    columns = [label_column] if label_column else [name for name in row if re.search(r"(tags|labels)$", name)]
    if len(columns) > 1:
        raise UserError(f"{place} has the columns {', '.join(row)}; choose the labels with --label_column")
    tags = row.get(columns[0]) if columns else None
    if tags is None:
        return None
    if not isinstance(tags, list):
        raise UserError(
            f"{place} has {tags!r:.60} in the column '{columns[0]}'; give a list with a label for each word"
        )
    if any(tag in (None, -1) for tag in tags):
        return None
    if not all(isinstance(tag, str) for tag in tags):
        raise UserError(f"{place} has labels without a name, {tags!r:.60}; choose other data")
    check_encodable(tags, place)
    return list(tags)


def read_text(row: Columns, place: str) -> tuple[list[str], list[str] | None, bool]:
    """Return the words of a text, labels in IOB2 if the row has entities, and whether one begins or ends in a word."""
    text = text_of(row, "text", place)
    is_labelled = row.get("entities") is not None
    spans = read_entities(row, place) if is_labelled else []
    bounds = words_of(text)
    labels = labels_of(bounds, spans, place)
    edges = {edge for span in spans for edge in (span.start, span.end)}
    is_widened = any(start < edge < end for start, end in bounds for edge in edges)
    return [text[start:end] for start, end in bounds], labels if is_labelled else None, is_widened


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
