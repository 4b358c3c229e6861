"""Questions and their paragraphs -> windows of tokens that fit into the encoder, each with the answer it holds.

A paragraph is tokenized once, whatever the number of its questions, and cut into windows that overlap. Every token
remembers the characters it stands for, so that an answer is a piece of the paragraph as it was written.

Source: google-research/electra, finetune/qa/qa_tasks.py, featurize.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from electra.errors import UserError
from electra.finetuning.encoding import TOKENIZER_BATCH, EncodedExamples, PaddingCollator
from electra.squad.data import Question, Questions

SHORTEST_CONTEXT = 8
"""Tokens of the paragraph that a window must have room for beside the question."""
START, END, UNANSWERABLE = range(3)
"""Columns of the labels of a window."""


@dataclass(frozen=True)
class Windows(EncodedExamples):
    """Windows as token ids: question, then a piece of the paragraph; N of them, those of a question side by side.

    Positions are those of tokens in a window, 0 being [CLS].

    Args:
        labels: int64 (N, 3): positions of the answer's first and last token, and whether the window has no answer;
            0 0 1 then. None if the answers are not to be trained on.
        questions: index of the question of each window, int64 (N,), ascending.
        context: first position of the paragraph's piece, and the one behind it, int64 (N, 2).
        first_tokens: which token of the paragraph is the first of the piece, int64 (N,).
        most_context: first position, and the one behind it, of the tokens that no other window of the question shows
            with more context around them, int64 (N, 2).
    """

    questions: NDArray[np.int64]
    context: NDArray[np.int64]
    first_tokens: NDArray[np.int64]
    most_context: NDArray[np.int64]

    def __getitem__(self, row: int) -> dict[str, Any]:
        return {**super().__getitem__(row), "context": self.context[row]}


class EncodedQuestions(NamedTuple):
    """Windows, and the characters behind their tokens.

    Args:
        windows: of all questions that have any.
        offsets: for each paragraph, first character of each token and the one behind it, int64 (T, 2).
        left_out: questions without any window, since no token stands for their answer.
    """

    windows: Windows
    offsets: list[NDArray[np.int64]]
    left_out: int


@dataclass(frozen=True)
class WindowCollator:
    """Windows to a batch."""

    pad_token_id: int

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        """As `PaddingCollator`, with `context` (B, 2), and of windows with labels (B, 3) `start_positions` (B,)."""
        batch = PaddingCollator(self.pad_token_id)(rows)
        batch["context"] = torch.from_numpy(np.stack([row["context"] for row in rows]))
        if "labels" in batch:
            batch["start_positions"] = batch["labels"][:, START]
        return batch


class Frame(NamedTuple):
    """What a tokenizer puts around and between two texts, as ids and token types, and the types of the texts."""

    before: tuple[list[int], list[int]]
    between: tuple[list[int], list[int]]
    after: tuple[list[int], list[int]]
    question_type: int
    context_type: int

    @property
    def size(self) -> int:
        """Tokens."""
        return len(self.before[0]) + len(self.between[0]) + len(self.after[0])


def encode_questions(
    data: Questions,
    tokenizer: PreTrainedTokenizerBase,
    *,
    max_length: int,
    max_query_length: int,
    doc_stride: int,
    is_training: bool,
) -> EncodedQuestions:
    """Tokenize and cut into windows.

    Args:
        max_length: tokens of the longest window, special ones included.
        max_query_length: tokens of a question; longer ones are cut.
        doc_stride: tokens of the paragraph from the start of a window to the start of the next.
        is_training: make labels, and leave out questions with an answer that no token stands for.
    Raises:
        UserError: the tokenizer does not know which characters its tokens stand for, or questions leave no room.
    """
    frame = frame_of(tokenizer)
    contexts, offsets = _tokenize(data.paragraphs, tokenizer)
    asked, _ = _tokenize([question.text for question in data.questions], tokenizer)
    ids: list[NDArray[np.int32]] = []
    types: list[NDArray[np.uint8]] = []
    labels: list[tuple[int, int, int]] = []
    places: list[tuple[int, int, int, int]] = []
    most_context: list[NDArray[np.int64]] = []
    left_out = 0
    for index, (question, question_ids) in enumerate(zip(data.questions, asked, strict=True)):
        question_ids = question_ids[:max_query_length]
        room = max_length - len(question_ids) - frame.size
        if room < SHORTEST_CONTEXT:
            raise UserError(
                f"--max_length {max_length} leaves {max(0, room)} tokens for the paragraph beside a question of "
                f"{len(question_ids)}; set --max_length to {max_length + SHORTEST_CONTEXT - room} or more, or lower "
                f"--max_query_length"
            )
        context, answer = contexts[question.paragraph], None
        if is_training and question.start is not None:
            answer = answer_tokens(offsets[question.paragraph], question)
            if answer is None:
                left_out += 1
                continue
        cuts = cut_windows(len(context), room, doc_stride)
        head_ids = [*frame.before[0], *question_ids, *frame.between[0]]
        head_types = [*frame.before[1], *[frame.question_type] * len(question_ids), *frame.between[1]]
        for first, behind in cuts:
            ids.append(np.concatenate([head_ids, context[first:behind], frame.after[0]]).astype(np.int32))
            context_types = [frame.context_type] * (behind - first)
            types.append(np.array([*head_types, *context_types, *frame.after[1]], dtype=np.uint8))
            places.append((index, len(head_ids), len(head_ids) + behind - first, first))
            if answer is not None and first <= answer[0] and answer[1] < behind:
                labels.append((answer[0] - first + len(head_ids), answer[1] - first + len(head_ids), 0))
            else:
                labels.append((0, 0, 1))
        most_context.append(tokens_with_most_context(cuts) - cuts[:, :1] + len(head_ids))
    table = np.array(places, dtype=np.int64).reshape(-1, 4)
    windows = Windows(
        ids=np.concatenate(ids) if ids else np.empty(0, np.int32),
        type_ids=np.concatenate(types) if types else np.empty(0, np.uint8),
        ends=np.cumsum([len(row) for row in ids], dtype=np.int64),
        labels=np.array(labels, dtype=np.int64).reshape(-1, 3) if is_training else None,
        questions=table[:, 0],
        context=table[:, 1:3],
        first_tokens=table[:, 3],
        most_context=np.concatenate(most_context) if most_context else np.empty((0, 2), np.int64),
    )
    return EncodedQuestions(windows, offsets, left_out)


def cut_windows(tokens: int, room: int, stride: int) -> NDArray[np.int64]:
    """First token of each window and the one behind its last, int64 (W, 2); the last window reaches the end.

    Windows start `stride` tokens apart, or `room` if that is less, so that no token is left out. An empty text has
    one window without tokens.
    """
    step = min(stride, room)
    count = 1 + max(0, -(-(tokens - room) // step))
    firsts = step * np.arange(count, dtype=np.int64)
    return np.stack([firsts, np.minimum(firsts + room, tokens)], axis=1)


def tokens_with_most_context(cuts: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each window the first token, and the one behind, that no other shows with more context, int64 (W, 2).

    A window's context of a token is the number of tokens on the side where there are fewer, plus 1 % of the window's
    tokens; of equals the first. These tokens stand side by side: the further right a token, the more a later window
    gains on an earlier one.

    Source: google-research/electra, finetune/qa/qa_tasks.py, _check_is_max_context.
    """
    tokens = np.arange(cuts[-1, 1])
    left, right = tokens - cuts[:, :1], cuts[:, 1:] - 1 - tokens
    score = 100 * np.minimum(left, right) + (cuts[:, 1:] - cuts[:, :1])
    best = np.where((left >= 0) & (right >= 0), score, -1).argmax(axis=0)
    windows = np.arange(len(cuts))
    return np.stack([np.searchsorted(best, windows), np.searchsorted(best, windows, side="right")], axis=1)


def answer_tokens(offsets: NDArray[np.int64], question: Question) -> tuple[int, int] | None:
    """First and last token that have a character of the first answer; None if there are none."""
    if question.start is None:
        return None
    first = int(np.searchsorted(offsets[:, 1], question.start, side="right"))
    last = int(np.searchsorted(offsets[:, 0], question.start + len(question.answers[0]))) - 1
    return (first, last) if first <= last else None


def frame_of(tokenizer: PreTrainedTokenizerBase) -> Frame:
    """What the tokenizer puts around two texts, seen on two texts.

    Raises:
        UserError: the tokenizer is not one of the tokenizers library, which alone knows characters.
    """
    if not tokenizer.is_fast:
        raise UserError(
            f"{type(tokenizer).__name__} does not say which characters its tokens stand for; answers need a tokenizer "
            f"with a tokenizer.json"
        )
    encoded = tokenizer("a", "a", return_token_type_ids=True)
    ids, types, texts = encoded["input_ids"], encoded["token_type_ids"], encoded.sequence_ids(0)
    if 0 not in texts or 1 not in texts:
        raise UserError("the tokenizer makes no token of the letter a; name another with --tokenizer_path")
    edges = [texts.index(0), len(texts) - texts[::-1].index(0), texts.index(1), len(texts) - texts[::-1].index(1)]
    parts = [slice(None, edges[0]), slice(edges[1], edges[2]), slice(edges[3], None)]
    before, between, after = ((ids[part], types[part]) for part in parts)
    return Frame(before, between, after, types[edges[0]], types[edges[2]])


def _tokenize(
    texts: Sequence[str], tokenizer: PreTrainedTokenizerBase
) -> tuple[list[NDArray[np.int32]], list[NDArray[np.int64]]]:
    """Ids of each text without special tokens, and characters of each token (T, 2)."""
    ids: list[NDArray[np.int32]] = []
    offsets: list[NDArray[np.int64]] = []
    for start in range(0, len(texts), TOKENIZER_BATCH):
        encoded = tokenizer(
            list(texts[start : start + TOKENIZER_BATCH]),
            add_special_tokens=False,
            return_offsets_mapping=True,
            return_attention_mask=False,
            verbose=False,  # that a text is longer than the model is what windows are for
        )
        ids += [np.array(row, dtype=np.int32) for row in encoded["input_ids"]]
        offsets += [np.array(row, dtype=np.int64).reshape(-1, 2) for row in encoded["offset_mapping"]]
    return ids, offsets
