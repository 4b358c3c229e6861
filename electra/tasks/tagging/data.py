"""The data of a tagging task: options; sentences of words with labels, from files or a data set; windows of tokens."""

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal

import numpy as np
from transformers import PreTrainedTokenizerBase

from electra.finetuning.config import FeatureName, FileTaskArguments
from electra.finetuning.data import (
    Array,
    ColumnRows,
    alike,
    cut_windows,
    files_by_split,
    lengths_of,
    rows_by_split,
    windows_with_most_context,
)
from electra.io.errors import UserError
from electra.io.lines import form_of, open_lines
from electra.io.rows import DELIMITERS, NO_TEXT, TABLES, refusal
from electra.options import NOT_EMPTY, option
from electra.tasks.tagging.columns import WORD_NAMES, TaggedSentences, read_columns
from electra.tasks.tagging.rows import SENTENCE_COLUMN, TEXT_NAMES, read_sentences
from electra.tasks.tagging.schemes import are_bracketed, find_spelling, spelt, without_brackets

logger = logging.getLogger(__name__)


# ---- options


@dataclass(frozen=True)
class TaggingArguments(FileTaskArguments):
    """Words and labels, and output."""

    train_file: str | None = option(
        None,
        "File of columns: the word first, its label in --label_column; blank lines separate sentences. Or "
        ".conllu; or .jsonl, .csv or .parquet with tokens and tags, text and entities: [[start, end, label], ...], "
        "or sentence_id, word and tag.",
        replaced_by=("dataset_name",),
    )
    validation_file: str | None = option(None, "Development set in the same format.", replaced_by=("dataset_name",))
    test_file: str | None = option(None, "Test set in the same format; labels are optional.")
    label_column: str | None = option(
        None,
        "Column of the labels: in files of columns its number, from 0 or from the end; in rows its name. Default: the "
        "last column, of CoNLL-U the part of speech; in rows the only one whose name ends in tags or labels.",
        NOT_EMPTY,
    )
    word_column: str | None = option(
        None,
        "Column of the words in files with a word in each line. Default: the first one that does not count.",
        NOT_EMPTY,
    )
    scheme: Literal["auto", "iob2", "bioes", "io", "plain"] = option(
        "auto",
        "Tagging scheme for training. io: entities without B- and I-; plain: other labels, such as parts "
        "of speech. auto: bioes if the data uses it, iob2 if labels have prefixes, io if most are O, else plain.",
    )
    features: FeatureName | None = option(
        None,
        "Freeze the encoder, and label words by a BiLSTM on its states (table 7 of BERT's paper): last, "
        "second_to_last (layer), concat_4 (the last four), mix_4, mix_all (weighted sums of the last four, of "
        "all), embeddings. Default: the encoder is fine-tuned.",
    )


# ---- windows of tokens

# A word's label is predicted at its first token. A sentence that is too long becomes several windows that overlap by
# half. Each word is labelled in one window only, the one with most context around it.


Words = Sequence[Sequence[str]]
"""The words of each sentence."""


@dataclass(frozen=True)
class SentenceWindows(ColumnRows):
    """The windows of the sentences of one split.

    Columns are `input_ids`, with special tokens; `positions`, the places in `input_ids` of the first tokens of the
    words that the window labels; and, if known, `labels` of these words. `sentence_of_window` has ascending indices.
    """

    sentence_of_window: list[int]

    def predictions(self, values: Array) -> list[list[Any]]:
        """Return the predictions of each sentence in the order of its words.

        Args:
            values: predictions by window, (windows, most words in a window).
        """
        found: dict[int, list[Any]] = defaultdict(list)
        for row, sentence, positions in zip(values, self.sentence_of_window, self.columns["positions"], strict=True):
            found[sentence] += row[: len(positions)].tolist()
        return list(found.values())


def special_tokens(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
    """Return the ids that a tokenizer puts before a text, and those behind it."""
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
    """Return the windows of sentences, of at most `max_length` tokens; `labels` are the classes of words, if known."""
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
    """Return the ids of each word of each sentence, at least one a word; each distinct word is tokenized once.

    Words but the first are tokenized with a space before them, which byte-level tokenizers need and others ignore. A
    word without any token, such as a zero-width space, becomes the unknown token.
    """
    spelled = [[first, *(f" {word}" for word in others)] for first, *others in sentences]
    texts = sorted(set(chain.from_iterable(spelled)))
    encoded = tokenizer(texts, add_special_tokens=False, return_attention_mask=False)["input_ids"]
    unknown = [tokenizer.unk_token_id]
    ids = {text: row or unknown for text, row in zip(texts, encoded, strict=True)}
    return [[ids[text] for text in words] for words in spelled]


# ---- the splits of a task


def is_table(path: str) -> bool:
    """Return True if a file has rows with named columns: JSON, parquet, csv, or a tsv with such a header.

    Other files have a word in each line, for example a tsv with blank lines between its sentences.
    """
    form = form_of(path)
    if form not in TABLES or form not in DELIMITERS or form == ".csv":
        return form in TABLES
    lines = open_lines(path)
    names = {name.strip('"').lower() for name in next(lines, "").strip().split("\t")}
    is_named = len(names & {*WORD_NAMES, *TEXT_NAMES}) > 0 or any(map(SENTENCE_COLUMN.fullmatch, names))
    return is_named and all(line.strip() for line in lines)


def load_tagging_splits(options: Any) -> dict[str, TaggedSentences]:
    """Return the splits train, dev and, if there is one, test, of a data set or of files."""
    columns = options.label_column, options.word_column
    files = files_by_split(options)
    splits = {}
    for split, rows in rows_by_split(options).items():
        needs_labels = split != "test"
        paths = files.get(split)
        if paths is None or is_table(paths[0]):
            splits[split] = read_sentences(rows, *columns, needs_labels=needs_labels)
        elif form_of(paths[0]) in NO_TEXT:
            raise UserError(refusal(paths[0]))
        else:
            splits[split] = read_columns(paths[0], *columns, needs_labels=needs_labels)
    known = splits["train"].labels or [] if "train" in splits else []
    if are_bracketed(known):
        logger.info("labels         have brackets, such as (LOC*, and are read as B- and I-")
        splits = {
            split: replace(found, labels=None if found.labels is None else without_brackets(found.labels))
            for split, found in splits.items()
        }
        known = splits["train"].labels or []
    for names in alike(chain.from_iterable(known)):
        logger.warning(
            "               the labels %s differ in case or spelling alone; write one of them if they mean the same",
            ", ".join(names),
        )
    spelling = find_spelling(known)
    if spelling:
        first, usual = next(iter(spelling.items()))
        logger.info("labels         '%s' is read as '%s'", first, usual)
        splits = {
            split: replace(found, labels=None if found.labels is None else spelt(found.labels, spelling))
            for split, found in splits.items()
        }
    return splits
