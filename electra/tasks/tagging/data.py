"""The data of a tagging task: options; sentences of words with labels, from files or a data set; windows of tokens."""

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from typing import Any, Literal

import numpy as np
from transformers import PreTrainedTokenizerBase

from electra.base.options import NOT_EMPTY
from electra.core.options import option
from electra.data.lines import extension_of, open_lines
from electra.data.rows import TABLES, TEXT_COLUMN
from electra.finetuning.config import FeatureName, LabelledFileArguments
from electra.finetuning.data import (
    Array,
    ColumnRows,
    NamedRows,
    cut_windows,
    files_by_split,
    lengths_of,
    rows_by_split,
    windows_with_most_context,
)
from electra.finetuning.held_out import plain_content, warn_of_repeated, with_development
from electra.finetuning.row_checks import is_unlabelled, set_apart, warn_if_unused
from electra.tasks.tagging.columns import TaggedSentence, read_columns
from electra.tasks.tagging.rows import TOKENS_COLUMNS, read_sentences

logger = logging.getLogger(__name__)


# ---- options


@dataclass(frozen=True)
class TaggingArguments(LabelledFileArguments):
    """Words and labels, and output."""

    train_file: str | None = option(
        None,
        "File of columns: a word and its label in each line, blank lines between sentences. Or .conllu; or rows "
        "(.csv, .tsv, .jsonl, .parquet) with tokens and tags, or with text and spans: [[start, end, label], ...].",
        replaced_by=("dataset_name",),
    )
    validation_file: str | None = option(
        None, "Development set in the same format. Default: see --validation_fraction.", replaced_by=("dataset_name",)
    )
    test_file: str | None = option(
        None, "Test set in the same format; sentences without labels are predicted, but not scored."
    )
    label_column: str | None = option(
        None,
        "Column of the labels: in files of columns its number, from 0, or from -1 at the end; in rows its name. "
        "Default: the last of two columns or of CoNLL-2003's, of CoNLL-U the part of speech; in rows spans, or the "
        "only name that ends in tags or labels.",
        NOT_EMPTY,
    )
    word_column: str | None = option(
        None,
        "Number of the column of the words in files of columns, counted likewise. Default: 0, of CoNLL-U 1; files of "
        "more than two columns need both numbers, but for CoNLL-2003's.",
        NOT_EMPTY,
    )
    scheme: Literal["auto", "iob2", "bioes", "io", "plain"] = option(
        "auto",
        "Tagging scheme for training. io: entities without B- and I-; plain: other labels, such as parts "
        "of speech. auto: bioes if the data uses it, iob2 if labels have prefixes, plain without prefixes and O.",
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

    Columns are `input_ids`, with special tokens; `positions`, where in `input_ids` the first tokens of the words are
    that the window labels; and, if known, `labels` of these words.

    Args:
        sentence_of_window: number of the sentence of each window, ascending.
    """

    sentence_of_window: list[int]

    def predictions(self, values: Array) -> list[list[Any]]:
        """Return for each sentence the predictions of its words, in their order.

        Args:
            values: predictions of N windows, each for at most W words, (N, W).
        """
        predictions: dict[int, list[Any]] = defaultdict(list)
        for row, sentence, positions in zip(values, self.sentence_of_window, self.columns["positions"], strict=True):
            predictions[sentence] += row[: len(positions)].tolist()
        return list(predictions.values())


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
    """Return the windows of sentences.

    Args:
        labels: class of each word of each sentence; None if unknown.
        max_length: tokens of a window, at most, special ones included.
    """
    before, behind = special_tokens(tokenizer)
    size = max_length - len(before) - len(behind)
    columns: dict[str, list[Array]] = {"input_ids": [], "positions": [], "labels": []}
    sentence_of_window = []
    for number, words in enumerate(tokenize_words(sentences, tokenizer)):
        tokens = list(chain.from_iterable(words))
        first_tokens = np.cumsum([0, *map(len, words[:-1])])
        edges = cut_windows(len(tokens), size, max(1, size // 2), is_last_full=True)
        window_of_word = windows_with_most_context(edges)[first_tokens]
        for window, (start, end) in enumerate(edges.tolist()):
            labelled = np.flatnonzero(window_of_word == window)
            if len(labelled) == 0:  # a window inside a word of very many tokens
                continue
            columns["input_ids"].append(np.array([*before, *tokens[start:end], *behind], np.int32))
            columns["positions"].append(first_tokens[labelled] - start + len(before))
            sentence_of_window.append(number)
            if labels is not None:
                columns["labels"].append(np.array(labels[number], np.int64)[labelled])
    if labels is None:
        del columns["labels"]
    return SentenceWindows(columns, lengths_of(columns["input_ids"]), sentence_of_window)


def tokenize_words(sentences: Words, tokenizer: PreTrainedTokenizerBase) -> list[list[list[int]]]:
    """Return the ids of each word of each sentence, at least one a word; each distinct word is tokenized once.

    Words but the first are tokenized with a space before them, which byte-level tokenizers need and others ignore. A
    word without any token, such as a zero-width space, becomes the unknown token.
    """
    spelled = [[first, *(f" {word}" for word in following)] for first, *following in sentences]
    texts = sorted(set(chain.from_iterable(spelled)))
    encoded = tokenizer(texts, add_special_tokens=False, return_attention_mask=False)["input_ids"]
    unknown_ids = [tokenizer.unk_token_id]
    ids = {text: row or unknown_ids for text, row in zip(texts, encoded, strict=True)}
    return [[ids[text] for text in words] for words in spelled]


# ---- the splits of a task


def is_table(path: str) -> bool:
    """Return True if a file has rows with named columns: JSON, parquet, csv, or a tsv whose first line names them.

    Other files, and a tsv without the columns tokens or text, have a word in each line.
    """
    form = extension_of(path)
    if form not in (".tsv", ".tab"):
        return form in TABLES
    names = {name.strip(' "\r\n') for name in next(iter(open_lines(path)), "").split("\t")}
    return not names.isdisjoint((TEXT_COLUMN, *TOKENS_COLUMNS))


def plain_words(sentence: TaggedSentence) -> tuple[str, ...]:
    """Return the words of a sentence, as `plain_content` has them."""
    return plain_content(*sentence.words)


def with_every_label(parts: Mapping[str, list[TaggedSentence]]) -> dict[str, list[TaggedSentence]]:
    """Return the splits, after moving sentences from `dev` to `train` that have a label which `train` lacks."""
    trained_labels = set(chain.from_iterable(sentence.labels or [] for sentence in parts["train"]))
    has_new_label = [not trained_labels.issuperset(sentence.labels or []) for sentence in parts["dev"]]
    rare = [*compress(parts["dev"], has_new_label)]
    if rare:
        logger.info("%-14s %d sentences with the only ones of a label are trained on", "dev", len(rare))
    kept_sentences = [sentence for sentence, is_rare in zip(parts["dev"], has_new_label, strict=True) if not is_rare]
    return {**parts, "train": [*parts["train"], *rare], "dev": kept_sentences}


def load_tagging_splits(
    options: TaggingArguments, program_rows: Mapping[str, NamedRows] = {}
) -> dict[str, list[TaggedSentence]]:
    """Return the splits train, dev and, if there is one, test, of a data set, files or a program; see `set_apart`.

    All sentences of a split have labels, or none has. Without a development set, sentences of the training data are
    held out.

    Args:
        program_rows: see `data_settings`.
    Raises:
        UserError: the data has none of the forms.
    """
    files = files_by_split(options)
    no_label = options.no_label
    sentences: dict[str, list[TaggedSentence]] = {}
    is_rows = False
    for split, rows in rows_by_split(options, program_rows).items():
        needs_labels = split != "test"
        paths = files.get(split)
        if paths is None or is_table(paths[0]):
            sentences[split] = read_sentences(rows, options.label_column, no_label, needs_labels=needs_labels)
            is_rows = True
            continue
        columns = read_columns(paths[0], options.label_column, options.word_column, needs_labels=needs_labels)
        sentences[split] = [
            sentence._replace(labels=None) if is_unlabelled(sentence.labels, no_label) else sentence
            for sentence in columns
        ]
    if is_rows and options.word_column is not None:
        logger.warning("--word_column %s has no effect on rows, whose words are in tokens", options.word_column)
    warn_if_unused(no_label, any(sentence.labels is None for sentence in chain.from_iterable(sentences.values())))
    splits = set_apart(sentences, lambda sentence: sentence.labels or [], lambda sentence: sentence.place)
    parts = with_development(splits, options, plain_words, "sentences")
    if "dev" in parts and "dev" not in splits:
        parts = with_every_label(parts)
    warn_of_repeated(parts, plain_words, "sentences")
    return parts
