"""Cuts questions with their paragraphs into windows of tokens, as google-research/electra, finetune/qa/qa_tasks.py.

A paragraph is tokenized once, however many questions it has: tokenizers' own overflow (`return_overflowing_tokens`)
would tokenize it again for each question.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from transformers import PreTrainedTokenizerBase

from electra.finetuning.encoding import Array, ColumnRows, cut_windows, lengths_of, tokenize, windows_with_most_context
from electra.io.errors import UserError
from electra.io.rows import Columns
from electra.tasks.squad.data import SquadQuestion, Questions

SHORTEST_CONTEXT = 8
"""A window must have room for this many tokens of the paragraph."""
START, END, UNANSWERABLE = range(3)
"""Columns of a window's labels."""
NO_ANSWER = (0, 0, 1)
"""Labels of a window that does not hold the whole answer."""
NOWHERE = (-1, -1)
"""First and last token of an answer that is in no window."""


@dataclass(frozen=True)
class QuestionWindows(ColumnRows):
    """N windows, each a question followed by a piece of its paragraph. Windows of one question are adjacent.

    Columns: `input_ids`, `token_type_ids`, `context`; for training also `labels`, int64 (3,): positions of the
    answer's first and last token, and 0; or 0 0 1 if the window does not hold the whole answer. Position 0 is [CLS].
    `start_positions` is the first of them. Ranges are the first index and the one after the last.
    """

    questions: Array  # index of each window's question (N,), ascending
    first_tokens: Array  # index in the paragraph of the piece's first token (N,)
    context: Array  # positions of the paragraph's piece (N, 2)
    most_context: Array  # of tokens that no other window of the question has with more context (N, 2)
    offsets: list[Array]  # for each paragraph, the characters of its T tokens (T, 2)


class Frame(NamedTuple):
    """How a tokenizer encodes a pair of texts: the special tokens before, between and behind them."""

    before: Array
    between: Array
    behind: Array
    types: list[Array]  # of the tokens before, the question, between, the paragraph, behind

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase) -> "Frame":
        pair = tokenizer("a", "a", return_token_type_ids=True)
        texts = pair.sequence_ids(0)  # None at special tokens
        first = texts.index(0)
        second = texts.index(1)
        ids = np.array(pair["input_ids"], np.int32)
        edges = [first, first + texts.count(0), second, second + texts.count(1)]
        before, _, between, _, behind = np.split(ids, edges)
        types = np.array(pair["token_type_ids"], np.uint8)
        return cls(before, between, behind, np.split(types, edges))

    def fill(self, question: Array, piece: Array) -> tuple[Array, Array]:
        """Return the ids and token types of a window."""
        parts = (self.before, question, self.between, piece, self.behind)
        before, of_question, between, of_piece, behind = self.types
        types = (before, of_question[:1].repeat(len(question)), between, of_piece[:1].repeat(len(piece)), behind)
        return np.concatenate(parts), np.concatenate(types)


def encode_questions(
    data: Questions,
    tokenizer: PreTrainedTokenizerBase,
    settings: Mapping[str, Any],
    *,
    is_training: bool = False,
) -> QuestionWindows:
    """Tokenize questions and paragraphs and cut them into windows.

    For training, windows have labels, and questions whose answer no token covers are left out. `settings` has
    `max_length`, `max_query_length` and `doc_stride`, in tokens.
    """
    max_length = settings["max_length"]
    frame = Frame.of(tokenizer)
    tokenized = tokenize(tokenizer, data.paragraphs, add_special_tokens=False, return_offsets_mapping=True)
    offsets = [row.reshape(-1, 2) for row in tokenized["offset_mapping"]]
    texts = [question.text for question in data.questions]
    asked = tokenize(tokenizer, texts, add_special_tokens=False)["input_ids"]
    ids: list[Array] = []
    type_ids: list[Array] = []
    table: list[tuple[int, ...]] = []  # a row per window, see `make_question_windows`
    for index, question in enumerate(data.questions):
        question_ids = asked[index][: settings["max_query_length"]]
        paragraph = tokenized["input_ids"][question.paragraph]
        start = len(frame.before) + len(question_ids) + len(frame.between)
        room = max_length - start - len(frame.behind)
        if room < SHORTEST_CONTEXT:
            raise UserError(f"--max_length {max_length} is too short for a question of {len(question_ids)} tokens")
        answer = answer_tokens(offsets[question.paragraph], question) if is_training else NOWHERE
        if answer is None:
            continue
        edges = cut_windows(len(paragraph), room, settings["doc_stride"])
        # A window's share of the tokens: each token belongs to the window that shows most context.
        owners = windows_with_most_context(edges)
        shares = np.searchsorted(owners, np.arange(len(edges) + 1)).tolist()
        for (begin, end), share in zip(edges.tolist(), pairwise(shares), strict=True):
            window_ids, window_types = frame.fill(question_ids, paragraph[begin:end])
            ids.append(window_ids)
            type_ids.append(window_types)
            table.append((index, start - begin, begin, end, *share, *answer))
    return make_question_windows({"input_ids": ids, "token_type_ids": type_ids}, table, offsets, is_training)


def make_question_windows(
    columns: Columns,
    table: list[tuple[int, ...]],
    offsets: list[Array],
    is_training: bool,
) -> QuestionWindows:
    """Turn places in paragraphs into places in windows.

    A row of `table` has the index of the question, how much greater a place is in the window than in the paragraph,
    and three ranges of places in the paragraph: the piece, the tokens with most context, and the answer, whose second
    place is its last token.
    """
    rows = np.array(table, np.int64).reshape(-1, 8)
    questions, shift, first_tokens = rows[:, :3].T
    places = rows[:, 2:] + shift[:, None]
    context, most_context, answers = np.split(places, 3, axis=1)
    columns["context"] = context
    if is_training:
        starts_inside = answers[:, 0] >= context[:, 0]
        ends_inside = answers[:, 1] < context[:, 1]
        has_answer = starts_inside & ends_inside
        spans = np.insert(answers, UNANSWERABLE, 0, axis=1)
        labels = np.where(has_answer[:, None], spans, NO_ANSWER)
        columns["labels"] = labels
        columns["start_positions"] = labels[:, START]
    lengths = lengths_of(columns["input_ids"])
    return QuestionWindows(columns, lengths, questions, first_tokens, context, most_context, offsets)


def answer_tokens(offsets: Array, question: SquadQuestion) -> tuple[int, int] | None:
    """Find the first and the last token that cover a character of the answer; None if no token does.

    Args:
        offsets: characters of the paragraph's tokens (T, 2).
    """
    if question.start is None:
        return NOWHERE
    firsts, ends = offsets.T
    first_token = int(np.searchsorted(ends, question.start, side="right"))
    last_token = int(np.searchsorted(firsts, question.start + len(question.answers[0]))) - 1
    return None if first_token > last_token else (first_token, last_token)
