"""Sentences of words -> windows of tokens with one label per word, at its first token; and predictions back to words.

A sentence that is too long becomes several windows that overlap by half. Each word is labelled in one window only, the
one with most context around it. Windows differ from tokenizers' own overflow: the last one is as long as the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from electra.finetuning.rows import IGNORED, ColumnRows, pad, windows_with_most_context


@dataclass(frozen=True)
class Windows(ColumnRows):
    """The windows of one split, W words in all of them.

    Columns: `input_ids` with special tokens; `positions` of the first token of each word of this window; `labels` of
    these words, if known.

    Args:
        words: for each window, the sentence and the index in it of each of its words, int64 (words, 2).
    """

    words: list[NDArray[np.int64]]

    def by_sentence(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        """Values of all words, (W, ...) window by window, as one array per sentence."""
        words = np.concatenate(self.words)
        order = np.lexsort((words[:, 1], words[:, 0]))
        return np.split(values[order], np.cumsum(np.bincount(words[:, 0]))[:-1])

    def predictions(self, values: NDArray[Any]) -> list[list[Any]]:
        """Predictions (windows, most words in a window) as one list per sentence."""
        flat = np.concatenate([row[: len(words)] for row, words in zip(values, self.words, strict=True)])
        return [found.tolist() for found in self.by_sentence(flat)]


def window_starts(length: int, size: int) -> list[int]:
    """First tokens of windows of `size` tokens that cover `length` tokens; each overlaps the one before by half."""
    if length <= size:
        return [0]
    return [*range(0, length - size, max(1, size // 2)), length - size]


def make_windows(
    sentences: Sequence[Sequence[str]],
    labels: Sequence[Sequence[int]] | None,
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
) -> Windows:
    """Tokenizes sentences into windows of at most `max_length` tokens.

    Args:
        labels: a class for each word; None if unknown.
    """
    whole, bare = tokenizer("a")["input_ids"], tokenizer("a", add_special_tokens=False)["input_ids"]
    begin = next(i for i in range(len(whole)) if whole[i : i + len(bare)] == bare)
    before, behind = whole[:begin], whole[begin + len(bare) :]
    size = max_length - len(before) - len(behind)
    columns: dict[str, list[NDArray[Any]]] = {"input_ids": [], "positions": [], "labels": []}
    words: list[NDArray[np.int64]] = []
    for number, pieces in enumerate(_tokenize_words(sentences, tokenizer)):
        tokens = list(chain.from_iterable(pieces))
        first_tokens = np.cumsum([0, *map(len, pieces[:-1])])
        starts = np.array(window_starts(len(tokens), size))
        edges = np.stack([starts, np.minimum(starts + size, len(tokens))], axis=1)
        chosen = windows_with_most_context(edges, text_ends_count=False)[first_tokens]
        for window, start in enumerate(starts.tolist()):
            own = np.flatnonzero(chosen == window)
            if len(own):  # a window inside a word of very many tokens has none
                columns["input_ids"].append(np.array([*before, *tokens[start : start + size], *behind], np.int32))
                columns["positions"].append(first_tokens[own] - start + len(before))
                words.append(np.stack([np.full(len(own), number), own], axis=1))
                if labels is not None:
                    columns["labels"].append(np.array(labels[number], np.int64)[own])
    if labels is None:
        del columns["labels"]
    lengths = np.array([len(row) for row in columns["input_ids"]], dtype=np.int64)
    return Windows(columns, lengths, words)


def _tokenize_words(sentences: Sequence[Sequence[str]], tokenizer: PreTrainedTokenizerBase) -> list[list[list[int]]]:
    """Sentence -> word -> token ids, at least one for each word. Each distinct word is tokenized once.

    A word after another one is tokenized with a space before it, which byte-level tokenizers need and others ignore. A
    word without any token, such as a zero-width space, becomes the unknown token.
    """
    spelled = [[word if i == 0 else f" {word}" for i, word in enumerate(words)] for words in sentences]
    texts = sorted(set(chain.from_iterable(spelled)))
    encoded = tokenizer(texts, add_special_tokens=False, return_attention_mask=False)["input_ids"]
    ids = {text: list(row) or [tokenizer.unk_token_id] for text, row in zip(texts, encoded, strict=True)}
    return [[ids[text] for text in words] for words in spelled]


@dataclass(frozen=True)
class WindowCollator:
    """Pads windows to a batch."""

    pad_token_id: int

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        """int64 `input_ids`, `attention_mask` (B, L), `positions` (B, W), and `labels` (B, W) if rows have them."""
        batch = {
            "input_ids": pad([row["input_ids"] for row in rows], self.pad_token_id),
            "attention_mask": pad([np.ones(len(row["input_ids"])) for row in rows], 0),
            "positions": pad([row["positions"] for row in rows], 0),
        }
        if "labels" in rows[0]:
            batch["labels"] = pad([row["labels"] for row in rows], IGNORED)
        return batch
