"""Sentences of words -> windows of tokens, one label for each word at its first token, and predictions back to words.

A sentence that is too long becomes several windows which overlap by half. Every word has its label in one window only,
the one in which the nearer edge is farthest away, so that no word is lost and none counts twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerBase

IGNORED = -100
"""Label of what is no word, as in transformers."""


class WordTokenizer:
    """Words -> their token ids, each word once.

    A word behind another is tokenized with a space before it, which byte-level vocabularies need and others ignore. A
    word of which nothing is left, such as a zero-width space, becomes the unknown token.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        self.known: dict[str, list[int]] = {}
        whole, bare = tokenizer("a")["input_ids"], tokenizer("a", add_special_tokens=False)["input_ids"]
        start = next(i for i in range(len(whole)) if whole[i : i + len(bare)] == bare)
        self.before, self.behind = list(whole[:start]), list(whole[start + len(bare) :])
        """Special tokens around a text."""

    def __call__(self, sentences: Sequence[Sequence[str]]) -> list[list[list[int]]]:
        """Sentence -> word -> token ids, at least one for each word."""
        spelled = [[word if i == 0 else f" {word}" for i, word in enumerate(words)] for words in sentences]
        new = sorted({text for texts in spelled for text in texts} - set(self.known))
        if new:
            encoded = self.tokenizer(new, add_special_tokens=False, return_attention_mask=False)["input_ids"]
            unknown = self.tokenizer.unk_token_id
            self.known |= {text: list(ids) or [unknown] for text, ids in zip(new, encoded, strict=True)}
        return [[self.known[text] for text in texts] for texts in spelled]


@dataclass(frozen=True)
class Windows:
    """Rows of a split, see `Rows`; W words in all of them.

    Args:
        ids: token ids of all rows one after the other, with special tokens, int32 (T,).
        ends: where each row ends in them, int64 (N,).
        positions: where in its row the first token of each word is, int32 (W,).
        word_ends: where the words of each row end in `positions`, int64 (N,).
        sentences, words: which word each is, int32 (W,).
        labels: of each word, int64 (W,), or None.
    """

    ids: NDArray[np.int32]
    ends: NDArray[np.int64]
    positions: NDArray[np.int32]
    word_ends: NDArray[np.int64]
    sentences: NDArray[np.int32]
    words: NDArray[np.int32]
    labels: NDArray[np.int64] | None

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.ends, prepend=0)

    def __getitem__(self, row: int) -> dict[str, Any]:
        start, first = (ends[row - 1] if row > 0 else 0 for ends in (self.ends, self.word_ends))
        words = slice(first, self.word_ends[row])
        item = {"input_ids": self.ids[start : self.ends[row]], "positions": self.positions[words]}
        return item if self.labels is None else {**item, "labels": self.labels[words]}

    def without_labels(self) -> "Windows":
        return replace(self, labels=None)


def window_starts(length: int, size: int) -> list[int]:
    """Where windows of `size` tokens begin that cover `length` tokens; each overlaps the one before by half."""
    if length <= size:
        return [0]
    step = max(1, size // 2)
    return [*range(0, length - size, step), length - size]


def most_context(position: int, starts: Sequence[int], size: int, length: int) -> int:
    """The window in which a token has most context: where the nearer cut is farthest away. Ends are no cuts."""

    def context(start: int) -> float:
        if not start <= position < start + size:
            return -1
        left = position - start if start > 0 else float("inf")
        right = start + size - 1 - position if start + size < length else float("inf")
        return min(left, right)

    return max(range(len(starts)), key=lambda i: (context(starts[i]), -i))


def make_windows(
    sentences: Sequence[Sequence[str]],
    labels: Sequence[Sequence[int]] | None,
    tokenizer: WordTokenizer,
    max_length: int,
) -> Windows:
    """Rows of at most `max_length` tokens, sentence by sentence.

    Args:
        labels: a class for each word; None where they are not known.
    """
    size = max_length - len(tokenizer.before) - len(tokenizer.behind)
    ids: list[int] = []
    ends: list[int] = []
    word_ends: list[int] = []
    places: list[tuple[int, int, int]] = []
    for number, tokens_of_words in enumerate(tokenizer(sentences)):
        tokens = [token for word in tokens_of_words for token in word]
        firsts = np.cumsum([0, *map(len, tokens_of_words[:-1])]).tolist()
        starts = window_starts(len(tokens), size)
        chosen = [most_context(first, starts, size, len(tokens)) if len(starts) > 1 else 0 for first in firsts]
        for window, start in enumerate(starts):
            own = [
                (first - start + len(tokenizer.before), number, word)
                for word, first in enumerate(firsts)
                if chosen[word] == window
            ]
            if own:  # within a word of very many tokens there may be none
                ids += [*tokenizer.before, *tokens[start : start + size], *tokenizer.behind]
                places += own
                ends.append(len(ids))
                word_ends.append(len(places))
    columns = np.asarray(places, dtype=np.int32).reshape(-1, 3)
    flat = None
    if labels is not None:
        flat = np.asarray([labels[sentence][word] for _, sentence, word in places], dtype=np.int64)
    return Windows(
        np.asarray(ids, dtype=np.int32), np.asarray(ends, dtype=np.int64), columns[:, 0],
        np.asarray(word_ends, dtype=np.int64), columns[:, 1], columns[:, 2], flat,
    )  # fmt: skip


def to_sentences(values: NDArray[Any], windows: Windows) -> list[list[Any]]:
    """What was said of the words of each row, (N, most words in a row), sentence by sentence, in their order."""
    counts = np.diff(windows.word_ends, prepend=0)
    flat = values[np.arange(values.shape[1])[None, :] < counts[:, None]].tolist()
    found: dict[int, dict[int, Any]] = {}
    for value, sentence, word in zip(flat, windows.sentences.tolist(), windows.words.tolist(), strict=True):
        found.setdefault(sentence, {})[word] = value
    return [[found[sentence][word] for word in sorted(found[sentence])] for sentence in sorted(found)]


@dataclass(frozen=True)
class WindowCollator:
    """Rows to a batch, padded to the longest of them and to the most words."""

    pad_token_id: int

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        """int64 `input_ids`, `attention_mask` (B, L), `positions` (B, W); `labels` (B, W) if rows have them."""
        columns = {
            "input_ids": padded([row["input_ids"] for row in rows], self.pad_token_id),
            "attention_mask": padded([np.ones(len(row["input_ids"]), np.int64) for row in rows], 0),
            "positions": padded([row["positions"] for row in rows], 0),
        }
        if "labels" in rows[0]:
            columns["labels"] = padded([row["labels"] for row in rows], IGNORED)
        return columns


def padded(rows: Sequence[NDArray[Any]], filling: int) -> Tensor:
    """int64 (B, longest)."""
    batch = np.full((len(rows), max(map(len, rows))), filling, dtype=np.int64)
    for i, row in enumerate(rows):
        batch[i, : len(row)] = row
    return torch.from_numpy(batch)
