"""Cuts questions with their paragraphs into windows of tokens, as google-research/electra, finetune/qa/qa_tasks.py.

A paragraph is tokenized once, however many questions it has: tokenizers' own overflow (`return_overflowing_tokens`)
would tokenize it again for each question.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from electra.finetuning.encoding import (
    ColumnRows,
    cut_windows,
    tokenize,
    windows_with_most_context,
)
from electra.io.errors import UserError
from electra.tasks.squad.data import Questions

SHORTEST_CONTEXT = 8
"""A window must have room for this many tokens of the paragraph."""
START, END, UNANSWERABLE = range(3)
"""Columns of a window's labels."""


@dataclass(frozen=True)
class Windows(ColumnRows):
    """N windows, each a question followed by a piece of its paragraph. Windows of one question are adjacent.

    Columns: `input_ids`, `token_type_ids`, `context`; for training also `labels`, int64 (3,): positions of the
    answer's first and last token, and 0; or 0 0 1 if the window does not hold the whole answer. Position 0 is [CLS].
    `start_positions` is the first of them. Ranges are the first index and the one after the last.
    """

    questions: NDArray[np.int64]  # index of each window's question (N,), ascending
    first_tokens: NDArray[np.int64]  # index in the paragraph of the piece's first token (N,)
    context: NDArray[np.int64]  # positions of the paragraph's piece (N, 2)
    most_context: NDArray[np.int64]  # of tokens that no other window of the question has with more context (N, 2)
    offsets: list[NDArray[np.int32]]  # for each paragraph, the characters of its T tokens (T, 2)


def encode_questions(
    data: Questions,
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    max_query_length: int,
    doc_stride: int,
    is_training: bool,
) -> Windows:
    """Tokenizes questions and paragraphs and cuts them into windows. Lengths and strides are in tokens.

    For training, windows have labels, and questions whose answer no token covers are left out.
    """
    pair = tokenizer("a", "a", return_token_type_ids=True)
    texts = pair.sequence_ids(0)  # None at special tokens
    first, second = (slice(texts.index(text), texts.index(text) + texts.count(text)) for text in (0, 1))
    pair_ids, pair_types = np.array(pair["input_ids"]), np.array(pair["token_type_ids"])

    def replace_texts(row: NDArray[Any], question: Any, piece: Any) -> NDArray[Any]:
        special = row[: first.start], row[first.stop : second.start], row[second.stop :]
        return np.concatenate([special[0], question, special[1], piece, special[2]])

    tokenized = tokenize(tokenizer, data.paragraphs, add_special_tokens=False, return_offsets_mapping=True)
    paragraphs, offsets = tokenized["input_ids"], [row.reshape(-1, 2) for row in tokenized["offset_mapping"]]
    texts_asked = [question.text for question in data.questions]
    asked = tokenize(tokenizer, texts_asked, add_special_tokens=False)["input_ids"]
    ids: list[NDArray[np.int32]] = []
    type_ids: list[NDArray[np.uint8]] = []
    numbers: list[tuple[int, ...]] = []  # columns of a table
    for index, question in enumerate(data.questions):
        question_ids, paragraph = asked[index][:max_query_length], paragraphs[question.paragraph]
        room = max_length - len(question_ids) - texts.count(None)
        if room < SHORTEST_CONTEXT:
            raise UserError(
                f"--max_length {max_length} is too short for a question of {len(question_ids)} tokens; set it to "
                f"{max_length + SHORTEST_CONTEXT - room} or more, or lower --max_query_length"
            )
        answer = None
        if is_training and question.start is not None:
            answer = answer_tokens(offsets[question.paragraph], question.start, len(question.answers[0]))
            if answer is None:
                continue
        start = len(question_ids) + texts[: second.start].count(None)
        edges = cut_windows(len(paragraph), room, doc_stride)
        owners = windows_with_most_context(edges)
        own = np.searchsorted(owners, np.arange(len(edges) + 1)).tolist()
        for number, (begin, end) in enumerate(edges.tolist()):
            types = np.full(len(question_ids), pair_types[first.start]), np.full(end - begin, pair_types[second.start])
            ids.append(replace_texts(pair_ids, question_ids, paragraph[begin:end]).astype(np.int32))
            type_ids.append(replace_texts(pair_types, *types).astype(np.uint8))
            shift = start - begin  # index of a token in the paragraph -> its position
            has_answer = answer is not None and begin <= answer[0] and answer[1] < end
            label = (answer[0] + shift, answer[1] + shift, 0) if answer and has_answer else (0, 0, 1)
            numbers.append((index, begin, start, end + shift, own[number] + shift, own[number + 1] + shift, *label))
    questions, first_tokens, context, most_context, labels = np.split(
        np.array(numbers, dtype=np.int64).reshape(-1, 9), [1, 2, 4, 6], axis=1
    )
    columns: dict[str, Any] = {"input_ids": ids, "token_type_ids": type_ids, "context": context}
    lengths = np.array([len(row) for row in ids], dtype=np.int64)
    columns |= {"labels": labels, "start_positions": labels[:, START]} if is_training else {}
    return Windows(columns, lengths, questions[:, 0], first_tokens[:, 0], context, most_context, offsets)


def answer_tokens(offsets: NDArray[np.int32], start: int, length: int) -> tuple[int, int] | None:
    """The first and the last token that cover a character of an answer; None if no token does.

    Args:
        offsets: characters of the paragraph's tokens (T, 2).
        start, length: the answer's characters.
    """
    firsts, ends = offsets.T
    first_token = int(np.searchsorted(ends, start, side="right"))
    last_token = int(np.searchsorted(firsts, start + length)) - 1
    return None if first_token > last_token else (first_token, last_token)
