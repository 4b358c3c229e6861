"""Sentences of words -> windows of tokens, and predictions of windows -> labels of words.

A word's label is predicted at its first token. A sentence that is too long becomes several windows that overlap by
half. Each word is labelled in one window only, the one with most context around it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from electra.finetuning.encoding import Array, ColumnRows, cut_windows, lengths_of, windows_with_most_context

Words = Sequence[Sequence[str]]
"""The words of each sentence."""


@dataclass(frozen=True)
class Windows(ColumnRows):
    """The windows of one split.

    Columns: `input_ids` with special tokens; `positions` of the first token of each word of this window; `labels` of
    these words, if known. `sentences` has the index of the sentence of each window, in ascending order.
    """

    sentences: list[int]

    def predictions(self, values: Array) -> list[list[Any]]:
        """Predictions (windows, most words in a window) as one list per sentence."""
        found: list[list[Any]] = [[] for _ in range(self.sentences[-1] + 1)]
        for row, sentence, positions in zip(values, self.sentences, self.columns["positions"], strict=True):
            found[sentence] += row[: len(positions)].tolist()
        return found


def make_windows(
    sentences: Words,
    labels: Sequence[Sequence[int]] | None,
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
) -> Windows:
    """Tokenizes sentences into windows of at most `max_length` tokens; `labels` are classes of words, if known."""
    before, behind = special_tokens(tokenizer)
    size = max_length - len(before) - len(behind)
    stride = max(1, size // 2)
    input_ids = []
    positions = []
    classes = []
    owners = []
    for number, words in enumerate(tokenize_words(sentences, tokenizer)):
        tokens = list(chain.from_iterable(words))
        first_tokens = np.cumsum([0, *map(len, words[:-1])])
        edges = cut_windows(len(tokens), size, stride, is_last_full=True)
        window_of_word = windows_with_most_context(edges)[first_tokens]
        for window, (start, end) in enumerate(edges.tolist()):
            own = np.flatnonzero(window_of_word == window)
            if len(own) == 0:  # a window inside a word of very many tokens
                continue
            ids = [*before, *tokens[start:end], *behind]
            input_ids.append(np.array(ids, np.int32))
            positions.append(first_tokens[own] - start + len(before))
            owners.append(number)
            if labels is not None:
                classes.append(np.array(labels[number], np.int64)[own])
    columns = {"input_ids": input_ids, "positions": positions}
    if labels is not None:
        columns["labels"] = classes
    return Windows(columns, lengths_of(input_ids), owners)


def special_tokens(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
    """The ids that the tokenizer puts before and behind a text."""
    encoded = tokenizer("a")
    ids = encoded["input_ids"]
    texts = encoded.sequence_ids(0)  # None at special tokens
    start = texts.index(0)
    return ids[:start], ids[start + texts.count(0) :]


def tokenize_words(sentences: Words, tokenizer: PreTrainedTokenizerBase) -> list[list[list[int]]]:
    """Sentence -> word -> token ids, at least one for each word. Each distinct word is tokenized once.

    A word after another one is tokenized with a space before it, which byte-level tokenizers need and others ignore. A
    word without any token, such as a zero-width space, becomes the unknown token.
    """
    spelled = [[first, *(f" {word}" for word in others)] for first, *others in sentences]
    texts = sorted(set(chain.from_iterable(spelled)))
    encoded = tokenizer(texts, add_special_tokens=False, return_attention_mask=False)["input_ids"]
    unknown = [tokenizer.unk_token_id]
    ids = {text: row or unknown for text, row in zip(texts, encoded, strict=True)}
    return [[ids[text] for text in words] for words in spelled]
