"""The data of SQuAD: options; the questions of files or of a data set; windows of tokens."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from transformers import PreTrainedTokenizerBase

from electra.base.options import AT_LEAST_8, NOT_EMPTY, Values
from electra.core.errors import UserError
from electra.core.options import option
from electra.core.ranges import BELOW_ONE, POSITIVE
from electra.data.rows import Columns
from electra.finetuning.config import FineTuningArguments, HeldOutArguments
from electra.finetuning.data import (
    Array,
    ColumnRows,
    NamedRows,
    cut_windows,
    files_by_split,
    lengths_of,
    rows_by_split,
    tokenize,
    windows_with_most_context,
)
from electra.finetuning.held_out import plain_content, with_development
from electra.tasks.squad.questions import (
    Questions,
    SquadQuestion,
    check_answers,
    check_question_ids,
    parse_questions,
    warn_of_unfindable,
)

logger = logging.getLogger(__name__)

# ---- options


@dataclass(frozen=True)
class SquadArguments(HeldOutArguments):
    """Questions, windows, answers and output."""

    dataset_name: str | None = option(
        None,
        "Hub id, or folder saved by datasets: squad, squad_v2, or a data set with the same columns. Default: squad.",
        NOT_EMPTY,
        replaced_by=("train_file",),
    )
    train_file: list[str] = option(
        [],
        "Training set in SQuAD's JSON, version 1.1 or 2.0, or .jsonl, .parquet or .csv with the columns of a data "
        "set; several files are trained on together.",
        replaced_by=("dataset_name",),
    )
    validation_file: str | None = option(
        None,
        "Development set in one of these formats. Default: see --validation_fraction.",
        replaced_by=("dataset_name",),
    )
    max_query_length: int = option(64, "Maximum length of a question in tokens; longer ones are truncated.", POSITIVE)
    doc_stride: int = option(128, "Tokens between the starts of two windows on a long paragraph.", POSITIVE)
    n_best_size: int = option(
        20,
        "Number of answers kept per question, and of starts and of ends (the beam size of the joint head).",
        POSITIVE,
    )
    max_answer_length: int = option(30, "Maximum length of an answer in tokens.", POSITIVE)


@dataclass(frozen=True)
class SpanArguments(FineTuningArguments):
    """Fine-tuning of an encoder to find answers in a text."""

    num_train_epochs: float = option(2.0, "Passes over the training data.", POSITIVE)
    per_device_eval_batch_size: int = option(32, "Evaluation windows per device and batch.", POSITIVE)
    max_length: int | None = option(
        None,
        "Maximum window length in tokens: the question and a part of the paragraph. Default: 384, or the number of "
        "positions of the model if that is less; the paper uses 512.",
        AT_LEAST_8,
    )
    head: Literal["hf", "joint", "bilstm"] = option(
        "hf",
        "hf: the head of transformers, one logit each for start and end, with [CLS] for no answer, as in BERT; joint: "
        "predicts the end given the start and classifies whether there is an answer, as in the paper; "
        "bilstm: hf on a two-layer BiLSTM of 768, as in table 5 of BERT's paper.",
    )
    head_dropout: float = option(0.0, "Dropout before the head, in [0, 1); the original code has none.", BELOW_ONE)


FEW_ARTICLES = 10
"""Articles below which paragraphs are held out, not whole articles."""


def load_questions(options: SquadArguments, program_rows: Mapping[str, NamedRows] = {}) -> dict[str, Questions]:
    """Return the splits `train` and `dev` of files, or of rows of a data set or a program with SQuAD's columns.

    Without a development set, the questions on some articles, or paragraphs if articles are few, are held out.

    Args:
        program_rows: rows of a program by split, see `data_settings` in electra/finetuning/data.py.
    Raises:
        UserError: data cannot be read, a training answer is not at its position, or two questions of the development
            set have one id.
    """
    files = files_by_split(options)
    splits = {}
    for split, rows in rows_by_split(options, program_rows, names_classes=False).items():
        source = f"{options.dataset_name} ({split})"
        if split in program_rows:
            source = program_rows[split].argument
        elif options.dataset_name is None:
            source = " ".join(files[split])
        splits[split] = parse_questions(rows, source)
    check_answers(splits["train"])
    if "dev" in splits:
        warn_of_unfindable(splits["dev"])
    splits = with_held_out(splits, options)
    check_question_ids(splits["dev"])
    return splits


def with_held_out(splits: Mapping[str, Questions], options: SquadArguments) -> dict[str, Questions]:
    """Return the splits; if there is no `dev`, hold out training questions, so that no paragraph is in both splits."""
    if "dev" in splits:
        return dict(splits)
    data = splits["train"]
    contents = data.articles if len({*data.articles}) >= FEW_ARTICLES else data.paragraphs
    parts = with_development(
        {"train": data.questions}, options, lambda question: plain_content(contents[question.paragraph]), "questions"
    )
    return {split: data.with_questions(questions) for split, questions in parts.items()}


# ---- windows of tokens

# Windows are those of google-research/electra, finetune/qa/qa_tasks.py. A paragraph is tokenized once, however many
# questions it has: tokenizers' own overflow (`return_overflowing_tokens`) would tokenize it again for each question.

SHORTEST_CONTEXT = 8
"""Tokens of its paragraph for which a window must have room."""
ANSWER_START, ANSWER_END, UNANSWERABLE = range(3)
"""Columns of the labels of a window: first and last token of the answer, and whether there is none."""
NO_ANSWER = (0, 0, 1)
"""Labels of a window that does not hold the whole answer."""
NOWHERE = (-1, -1)
"""First and last token of the answer to a question without one; no window has them."""


@dataclass(frozen=True)
class QuestionWindows(ColumnRows):
    """N windows, each a question followed by a piece of its paragraph. Windows of one question are adjacent.

    Columns are `input_ids`, `token_type_ids` and `context`. For training there are also `labels`, int64 (3,), and
    their first value as `start_positions`: the positions of the answer's first and last token in the window, and 0; or
    0, 0, 1 if the window does not hold the whole answer. Position 0 is [CLS].

    Args:
        questions: number of the question of each window, int64 (N,), ascending.
        first_tokens: number, in the paragraph, of the first token of each piece, int64 (N,).
        context: positions of the piece in the window: the first, and the one after the last, int64 (N, 2).
        most_context: positions, as in `context`, of the tokens that this window shows with more context than the other
            windows of the question, int64 (N, 2).
        offsets: for each paragraph, the first character of each of its T tokens, and the one after its last, (T, 2).
    """

    questions: Array
    first_tokens: Array
    context: Array
    most_context: Array
    offsets: list[Array]


class Frame(NamedTuple):
    """The frame that a tokenizer puts around a pair of texts: special tokens before, between and behind the texts."""

    before: Array
    between: Array
    behind: Array
    types: list[Array]  # token types of: before, the question, between, the paragraph, behind

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase) -> "Frame":
        """Return the frame of a tokenizer, cut out of a pair of texts of one letter each."""
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
        """Return ids and token types of a window, from the ids of a question and of a piece of a paragraph."""
        parts = (self.before, question, self.between, piece, self.behind)
        before, of_question, between, of_piece, behind = self.types
        types = (before, of_question[:1].repeat(len(question)), between, of_piece[:1].repeat(len(piece)), behind)
        return np.concatenate(parts), np.concatenate(types)


def encode_questions(
    data: Questions,
    tokenizer: PreTrainedTokenizerBase,
    settings: Values,
    *,
    is_training: bool = False,
) -> QuestionWindows:
    """Return the windows of all questions, tokenized.

    Args:
        settings: `max_length`, `max_query_length` and `doc_stride`, in tokens.
        is_training: whether windows get labels, and questions whose answer no token covers are left out.
    Raises:
        UserError: `max_length` leaves no room for a paragraph beside a question.
    """
    max_length = settings["max_length"]
    frame = Frame.of(tokenizer)
    tokenized = tokenize(tokenizer, data.paragraphs, add_special_tokens=False, return_offsets_mapping=True)
    offsets = [row.reshape(-1, 2) for row in tokenized["offset_mapping"]]
    texts = [question.text for question in data.questions]
    ids_by_question = tokenize(tokenizer, texts, add_special_tokens=False)["input_ids"]
    ids: list[Array] = []
    type_ids: list[Array] = []
    numbers: list[int] = []
    first_tokens: list[int] = []
    context: list[tuple[int, int]] = []
    most_context: list[tuple[int, int]] = []
    labels: list[tuple[int, int, int]] = []
    for number, question in enumerate(data.questions):
        question_ids = ids_by_question[number][: settings["max_query_length"]]
        paragraph = tokenized["input_ids"][question.paragraph]
        start = len(frame.before) + len(question_ids) + len(frame.between)
        room = max_length - start - len(frame.behind)
        if room < SHORTEST_CONTEXT:
            raise UserError(f"--max_length {max_length} is too short for a question of {len(question_ids)} tokens")
        answer = answer_tokens(offsets[question.paragraph], question) if is_training else NOWHERE
        if answer is None:
            continue
        first, last = answer
        edges = cut_windows(len(paragraph), room, settings["doc_stride"])
        window_of_token = windows_with_most_context(edges)
        bounds = np.searchsorted(window_of_token, np.arange(len(edges) + 1)).tolist()
        for (begin, end), (low, high) in zip(edges.tolist(), pairwise(bounds), strict=True):
            window_ids, window_types = frame.fill(question_ids, paragraph[begin:end])
            ids.append(window_ids)
            type_ids.append(window_types)
            shift = start - begin  # from the number of a token in the paragraph to its position in the window
            numbers.append(number)
            first_tokens.append(begin)
            context.append((start, end + shift))
            most_context.append((low + shift, high + shift))
            labels.append((first + shift, last + shift, 0) if begin <= first and last < end else NO_ANSWER)
    pieces = np.array(context, np.int64).reshape(-1, 2)
    columns: Columns = {"input_ids": ids, "token_type_ids": type_ids, "context": pieces}
    if is_training:
        columns["labels"] = np.array(labels, np.int64).reshape(-1, 3)
        columns["start_positions"] = columns["labels"][:, ANSWER_START]
    return QuestionWindows(
        columns,
        lengths_of(ids),
        np.array(numbers, np.int64),
        np.array(first_tokens, np.int64),
        pieces,
        np.array(most_context, np.int64).reshape(-1, 2),
        offsets,
    )


def answer_tokens(offsets: Array, question: SquadQuestion) -> tuple[int, int] | None:
    """Return the numbers, in the paragraph, of the first and the last token that cover a character of the answer.

    For a question without an answer, return `NOWHERE`; for one whose answer no token covers, None.

    Args:
        offsets: range of characters of each token of the paragraph, int64 (T, 2).
    """
    if question.start is None:
        return NOWHERE
    firsts, ends = offsets.T
    first_token = int(np.searchsorted(ends, question.start, side="right"))
    last_token = int(np.searchsorted(firsts, question.start + len(question.answers[0]))) - 1
    return None if first_token > last_token else (first_token, last_token)
