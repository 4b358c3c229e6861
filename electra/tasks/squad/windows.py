"""Cuts questions with their paragraphs into windows of tokens that fit into the encoder.

A paragraph is tokenized once, however many questions it has: tokenizers' own overflow (`return_overflowing_tokens`)
would tokenize it again for each question.

Source: google-research/electra, finetune/qa/qa_tasks.py, featurize.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from electra.errors import UserError
from electra.finetuning.encoding import TOKENIZER_BATCH, PaddingCollator
from electra.finetuning.rows import ColumnRows, windows_with_most_context
from electra.tasks.squad.data import Question, Questions

SHORTEST_CONTEXT = 8
"""A window must have room for this many tokens of the paragraph."""
START, END, UNANSWERABLE = range(3)
"""Columns of a window's labels."""


@dataclass(frozen=True)
class Windows(ColumnRows):
    """N windows, each a question followed by a piece of its paragraph. Windows of one question are adjacent.

    Columns: `input_ids`, `token_type_ids`, `context`; for training also `labels`, int64 (3,): positions of the
    answer's first and last token, and 0; or 0 0 1 if the window does not hold the whole answer. Position 0 is [CLS].

    Args:
        questions: index of each window's question, int64 (N,), ascending.
        context: first position of the paragraph's piece, and the one after its last, int64 (N, 2).
        first_tokens: index in the paragraph of the piece's first token, int64 (N,).
        most_context: first position, and the one after the last, of the tokens that no other window of the question
            shows with more context, int64 (N, 2).
    """

    questions: NDArray[np.int64]
    context: NDArray[np.int64]
    first_tokens: NDArray[np.int64]
    most_context: NDArray[np.int64]


class EncodedQuestions(NamedTuple):
    """Windows, and the characters of their tokens.

    Args:
        offsets: of each paragraph: first character of each token and the one after its last, int64 (T, 2).
        left_out: number of questions without windows, because no token covers their answer.
    """

    windows: Windows
    offsets: list[NDArray[np.int64]]
    left_out: int


@dataclass(frozen=True)
class WindowCollator:
    """Pads windows to a batch."""

    pad_token_id: int

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        """As `PaddingCollator`, with `context` (B, 2) and, if there are labels (B, 3), `start_positions` (B,)."""
        batch = PaddingCollator(self.pad_token_id)(rows)
        batch["context"] = torch.from_numpy(np.stack([row["context"] for row in rows]))
        if "labels" in batch:
            batch["start_positions"] = batch["labels"][:, START]
        return batch


def encode_questions(
    data: Questions,
    tokenizer: PreTrainedTokenizerBase,
    *,
    max_length: int,
    max_query_length: int,
    doc_stride: int,
    is_training: bool,
) -> EncodedQuestions:
    """Tokenizes questions and paragraphs and cuts them into windows.

    Args:
        max_length: tokens in the longest window, including special tokens.
        max_query_length: tokens in a question; longer questions are cut.
        doc_stride: tokens of the paragraph from the start of one window to the start of the next.
        is_training: add labels, and leave out questions whose answer no token covers.
    Raises:
        UserError: the tokenizer has no offsets, or a question leaves no room for its paragraph.
    """
    if not tokenizer.is_fast:
        raise UserError(
            f"{type(tokenizer).__name__} does not map tokens to characters; answers need a tokenizer with a "
            f"tokenizer.json"
        )
    # Special tokens around and between two texts, as [(which text or None, [(..., id, type), ...]), ...].
    pair = tokenizer("a", "a", return_token_type_ids=True)
    pieces = zip(pair.sequence_ids(0), pair["input_ids"], pair["token_type_ids"], strict=True)
    frame = [(text, list(tokens)) for text, tokens in groupby(pieces, key=lambda piece: piece[0])]
    num_special = sum(len(tokens) for text, tokens in frame if text is None)

    paragraphs, offsets = _tokenize(data.paragraphs, tokenizer)
    asked, _ = _tokenize([question.text for question in data.questions], tokenizer)
    columns: dict[str, list[Any]] = {"input_ids": [], "token_type_ids": [], "context": [], "labels": []}
    places: list[tuple[int, int]] = []
    most_context: list[NDArray[np.int64]] = []
    left_out = 0
    for index, (question, question_ids) in enumerate(zip(data.questions, asked, strict=True)):
        question_ids, paragraph = question_ids[:max_query_length], paragraphs[question.paragraph]
        room = max_length - len(question_ids) - num_special
        if room < SHORTEST_CONTEXT:
            raise UserError(
                f"--max_length {max_length} leaves {max(0, room)} tokens for the paragraph after a question of "
                f"{len(question_ids)} tokens; set --max_length to {max_length + SHORTEST_CONTEXT - room} or more, or "
                f"lower --max_query_length"
            )
        answer = answer_tokens(offsets[question.paragraph], question) if is_training else None
        if is_training and question.start is not None and answer is None:
            left_out += 1
            continue
        cuts = cut_windows(len(paragraph), room, doc_stride)
        start = 0
        for first, after in cuts.tolist():
            ids: list[int] = []
            types: list[int] = []
            for text, tokens in frame:
                if text == 1:
                    start = len(ids)
                own = [question_ids, paragraph[first:after]][text] if text is not None else [t[1] for t in tokens]
                ids += own
                types += [t[2] for t in tokens] if text is None else [tokens[0][2]] * len(own)
            columns["input_ids"].append(np.array(ids, dtype=np.int32))
            columns["token_type_ids"].append(np.array(types, dtype=np.uint8))
            columns["context"].append((start, start + after - first))
            if answer is not None and first <= answer[0] and answer[1] < after:
                columns["labels"].append((answer[0] - first + start, answer[1] - first + start, 0))
            else:
                columns["labels"].append((0, 0, 1))
            places.append((index, first))
        owners, numbers = windows_with_most_context(cuts, text_ends_count=True), np.arange(len(cuts))
        own_tokens = [np.searchsorted(owners, numbers, side=side) for side in ("left", "right")]
        most_context.append(np.stack(own_tokens, axis=1) - cuts[:, :1] + start)
    if not is_training:
        del columns["labels"]
    tables: dict[str, NDArray[Any]] = {
        name: np.array(columns[name], np.int64) for name in ("context", "labels") if name in columns
    }
    questions, first_tokens = np.array(places, dtype=np.int64).reshape(-1, 2).T
    windows = Windows(
        columns={**columns, **tables},
        lengths=np.array([len(row) for row in columns["input_ids"]], dtype=np.int64),
        questions=questions,
        context=tables["context"].reshape(-1, 2),
        first_tokens=first_tokens,
        most_context=np.concatenate([np.empty((0, 2), np.int64), *most_context]),
    )
    return EncodedQuestions(windows, offsets, left_out)


def cut_windows(num_tokens: int, room: int, stride: int) -> NDArray[np.int64]:
    """First token of each window and the one after its last, int64 (W, 2). The last window reaches the end.

    Windows start `stride` tokens apart, or `room` if that is less, so that every token is in one. An empty text has
    one empty window.
    """
    step = min(stride, room)
    count = 1 + max(0, -(-(num_tokens - room) // step))
    firsts = step * np.arange(count, dtype=np.int64)
    return np.stack([firsts, np.minimum(firsts + room, num_tokens)], axis=1)


def answer_tokens(offsets: NDArray[np.int64], question: Question) -> tuple[int, int] | None:
    """First and last token that cover a character of the first answer, or None."""
    if question.start is None:
        return None
    first = int(np.searchsorted(offsets[:, 1], question.start, side="right"))
    last = int(np.searchsorted(offsets[:, 0], question.start + len(question.answers[0]))) - 1
    return (first, last) if first <= last else None


def _tokenize(
    texts: Sequence[str], tokenizer: PreTrainedTokenizerBase
) -> tuple[list[list[int]], list[NDArray[np.int64]]]:
    """Ids of each text without special tokens, and the characters of each token, int64 (T, 2)."""
    ids: list[list[int]] = []
    offsets: list[NDArray[np.int64]] = []
    for start in range(0, len(texts), TOKENIZER_BATCH):
        encoded = tokenizer(
            list(texts[start : start + TOKENIZER_BATCH]),
            add_special_tokens=False,
            return_offsets_mapping=True,
            return_attention_mask=False,
            verbose=False,  # no warning about texts that are longer than the model: they are cut into windows
        )
        ids += encoded["input_ids"]
        offsets += [np.array(row, dtype=np.int64).reshape(-1, 2) for row in encoded["offset_mapping"]]
    return ids, offsets
