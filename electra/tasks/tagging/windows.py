"""Sentences of words -> windows of tokens, and predictions of windows -> labels of words.

A word's label is predicted at its first token. A sentence that is too long becomes several windows that overlap by
half. Each word is labelled in one window only, the one with most context around it.
"""

from collections import defaultdict
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
