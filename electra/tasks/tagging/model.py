"""Sentences of words -> windows of tokens -> a tag for each word, at its first token; and predictions back to words.

A sentence that is too long becomes several windows that overlap by half. Each word is labelled in one window only, the
one with most context around it. The head is that of google-research/electra, finetune/tagging/tagging_tasks.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from electra.finetuning.encoding import ColumnRows, cut_windows, windows_with_most_context
from electra.finetuning.heads import TaskModel, full_precision
from electra.model.networks import gather_hidden

Words = Sequence[Sequence[str]]
"""Those of each sentence."""


@dataclass(frozen=True)
class Windows(ColumnRows):
    """The windows of one split.

    Columns: `input_ids` with special tokens; `positions` of the first token of each word of this window; `labels` of
    these words, if known. `sentences` has the index of the sentence of each window, in ascending order.
    """

    sentences: list[int]

    def predictions(self, values: NDArray[Any]) -> list[list[Any]]:
        """Predictions (windows, most words in a window) as one list per sentence."""
        found: list[list[Any]] = [[] for _ in range(self.sentences[-1] + 1)]
        for row, sentence, positions in zip(values, self.sentences, self.columns["positions"], strict=True):
            found[sentence] += row[: len(positions)].tolist()
        return found


def make_windows(
    sentences: Words, labels: Sequence[Sequence[int]] | None, tokenizer: PreTrainedTokenizerBase, max_length: int
) -> Windows:
    """Tokenizes sentences into windows of at most `max_length` tokens; `labels` are classes of words, if known."""
    whole, bare = tokenizer("a")["input_ids"], tokenizer("a", add_special_tokens=False)["input_ids"]
    begin = next(i for i in range(len(whole)) if whole[i : i + len(bare)] == bare)
    before, behind = whole[:begin], whole[begin + len(bare) :]
    size = max_length - len(before) - len(behind)
    columns: dict[str, list[NDArray[Any]]] = {"input_ids": [], "positions": [], "labels": []}
    owners: list[int] = []
    for number, pieces in enumerate(_tokenize_words(sentences, tokenizer)):
        tokens = list(chain.from_iterable(pieces))
        first_tokens = np.cumsum([0, *map(len, pieces[:-1])])
        edges = cut_windows(len(tokens), size, max(1, size // 2), is_last_full=True)
        chosen = windows_with_most_context(edges)[first_tokens]
        for window, (start, end) in enumerate(edges.tolist()):
            own = np.flatnonzero(chosen == window)
            if len(own):  # a window inside a word of very many tokens has none
                columns["input_ids"].append(np.array([*before, *tokens[start:end], *behind], np.int32))
                columns["positions"].append(first_tokens[own] - start + len(before))
                owners.append(number)
                if labels is not None:
                    columns["labels"].append(np.array(labels[number], np.int64)[own])
    if labels is None:
        del columns["labels"]
    lengths = np.array([len(row) for row in columns["input_ids"]], dtype=np.int64)
    return Windows(columns, lengths, owners)


def _tokenize_words(sentences: Words, tokenizer: PreTrainedTokenizerBase) -> list[list[list[int]]]:
    """Sentence -> word -> token ids, at least one for each word. Each distinct word is tokenized once.

    A word after another one is tokenized with a space before it, which byte-level tokenizers need and others ignore. A
    word without any token, such as a zero-width space, becomes the unknown token.
    """
    spelled = [[word if i == 0 else f" {word}" for i, word in enumerate(words)] for words in sentences]
    texts = sorted(set(chain.from_iterable(spelled)))
    encoded = tokenizer(texts, add_special_tokens=False, return_attention_mask=False)["input_ids"]
    ids = {text: list(row) or [tokenizer.unk_token_id] for text, row in zip(texts, encoded, strict=True)}
    return [[ids[text] for text in words] for words in spelled]


class EncoderWithTagger(TaskModel):
    """An encoder, dropout, and a linear layer on the first token of each word."""

    def __init__(self, encoder: PreTrainedModel, num_labels: int, dropout: float) -> None:
        output = nn.Linear(encoder.config.hidden_size, num_labels)
        super().__init__(encoder, nn.Sequential(nn.Dropout(dropout), output))

    def forward(self, input_ids: Tensor, attention_mask: Tensor, positions: Tensor) -> Tensor:
        """Logits of W words, float32 (B, W, num_labels), with their first tokens at `positions`, int64 (B, W)."""
        hidden = self.hidden_states(input_ids, attention_mask)
        with full_precision(hidden):
            logits: Tensor = self.head(gather_hidden(hidden, positions).float())
        return logits
