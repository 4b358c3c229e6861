"""The data of SQuAD: options; questions on paragraphs, from SQuAD's JSON, rows or a data set; windows of tokens.

Version 2.0 is recognised by questions without an answer or with `is_impossible`.
"""

import logging
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from transformers import PreTrainedTokenizerBase

from electra.finetuning.config import FineTuningArguments, ProtocolArguments
from electra.finetuning.data import (
    Array,
    ColumnRows,
    cut_windows,
    files_by_split,
    lengths_of,
    rows_by_split,
    tokenize,
    windows_with_most_context,
)
from electra.io.console import is_encodable
from electra.io.errors import UserError
from electra.io.rows import Columns, PlacedRow, parse_value, read_rows
from electra.options import AT_LEAST_8, BELOW_ONE, NOT_EMPTY, POSITIVE, option
from electra.tasks.squad.faults import Faults

logger = logging.getLogger(__name__)

# ---- options


@dataclass(frozen=True)
class SquadArguments(ProtocolArguments):
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
        "set; several files are trained on together. Needs --validation_file.",
        replaced_by=("dataset_name",),
    )
    validation_file: str | None = option(
        None, "Development set in one of these formats.", replaced_by=("dataset_name",)
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


class SquadQuestion(NamedTuple):
    id: str
    text: str
    paragraph: int  # its index
    answers: tuple[str, ...]  # texts of all correct answers, in the file's order; empty if the question has none
    start: int | None  # first character of the first answer in the paragraph; None without an answer


@dataclass(frozen=True)
class Questions:
    """The questions of one split."""

    paragraphs: list[str]
    questions: list[SquadQuestion]
    is_version_2: bool
    source: str  # file or data set, for messages

    def __len__(self) -> int:
        return len(self.questions)

    @cached_property
    def references(self) -> dict[str, tuple[str, ...]]:
        """Return id of each question -> its correct answers."""
        return {question.id: question.answers for question in self.questions}


def read_questions(path: str | Path) -> Questions:
    """Return the questions of a file: SQuAD's JSON, version 1.1 or 2.0, or a table with a question in each row."""
    return parse_questions(read_rows(path, names_classes=False), str(path))


def load_questions(options: Any) -> dict[str, Questions]:
    """Return the splits `train` and `dev` of files, or of a data set with SQuAD's columns.

    Raises:
        UserError: a file cannot be read, or an answer of a training file is not at its position.
    """
    if options.dataset_name is None:
        files = {split: [*map(read_questions, paths)] for split, paths in files_by_split(options).items()}
        for part in files["train"]:
            check_answers(part)
            logger.info("training file  %s: %d questions, %d paragraphs", part.source, len(part), len(part.paragraphs))
        for part in files["dev"]:
            warn_of_unfindable(part)
        return {split: join(parts) for split, parts in files.items()}
    rows = rows_by_split(options, names_classes=False)
    loaded = {split: parse_questions(rows[split], f"{options.dataset_name} ({split})") for split in ("train", "dev")}
    check_answers(loaded["train"])
    warn_of_unfindable(loaded["dev"])
    return loaded


def join(parts: Sequence[Questions]) -> Questions:
    """Return the questions of several files as one split; ids may be the same in several files.

    The split is one of version 2.0 if one of its files is.
    """
    if len(parts) == 1:
        return parts[0]
    paragraphs: list[str] = []
    questions: list[SquadQuestion] = []
    for part in parts:
        first = len(paragraphs)
        questions += [question._replace(paragraph=first + question.paragraph) for question in part.questions]
        paragraphs += part.paragraphs
    is_version_2 = any(part.is_version_2 for part in parts)
    return Questions(paragraphs, questions, is_version_2, " ".join(part.source for part in parts))


FEW_UNANSWERED = 0.05
"""Share of questions without an answer, below which they may be a mistake in data of version 1.1."""
FORM = (
    'a question needs id, question, context and answers, such as {"text": ["Rome"], "answer_start": [3]}, in '
    "SQuAD's JSON or in a row"
)
"""The form of a question in words, for messages."""


def parse_questions(rows: Iterable[PlacedRow], source: str) -> Questions:
    """Return the questions of articles with 'paragraphs', of paragraphs with 'qas', or of rows of one question each.

    Raises:
        UserError: questions have faults; the message names those of the whole source.
    """
    paragraphs: dict[str, int] = {}
    questions: dict[str, SquadQuestion] = {}
    faults = Faults()
    doubts = Faults()
    are_marked = False  # by is_impossible
    total = 0
    for place, values in chain.from_iterable(_questions_in(row, place, faults) for place, row in rows):
        total += 1
        asked = f"question {values['id']!s:.60}" if _is_name(values.get("id")) else place
        answers = _answers(values)
        found = _faults_of(values, answers)
        for what in found:
            faults.add(what, asked)
        name = str(values.get("id"))
        if _truth(values.get("is_impossible")) and values.get("answers"):
            doubts.add("are impossible, but have answers, which are not read", asked)
        if not found and not values["question"].strip():
            doubts.add("have an empty question", asked)
        if not found and name in questions:
            faults.add("have the id of another", f"two questions have the id {name!s:.60}")
        if found or answers is None or name in questions:
            continue
        are_marked |= "is_impossible" in values
        context = values["context"]
        questions[name] = SquadQuestion(
            id=name,
            text=values["question"],
            paragraph=paragraphs.setdefault(context, len(paragraphs)),
            answers=tuple(text for text, _ in answers),
            start=answers[0][1] if answers else None,
        )
    faults.check(source, total, FORM)
    if not questions:
        raise UserError(f"{source} has no questions; name other data")
    doubts.warn(source, total)
    unanswered = [question.id for question in questions.values() if not question.answers]
    if not are_marked and 0 < len(unanswered) < FEW_UNANSWERED * total:
        logger.warning(
            "%s: %d of %d questions have no answer (first: question %s), so this is version 2.0; without them, 1.1",
            source, len(unanswered), total, unanswered[0],
        )  # fmt: skip
    is_version_2 = are_marked or len(unanswered) > 0
    return Questions(list(paragraphs), list(questions.values()), is_version_2, source)


def _questions_in(row: Any, place: str, faults: Faults) -> Iterator[tuple[str, Columns]]:
    """Yield the place and the columns of each question in an article, a paragraph or a row; add others to `faults`.

    The columns of a question in a paragraph have the paragraph's context.
    """
    if not isinstance(row, dict):
        faults.add("are no objects", place)
    elif "Data" in row:
        raise UserError(
            f"{place.rpartition(':')[0]} is in TriviaQA's format; convert it to SQuAD's: python -m "
            "electra.tasks.squad.trivia_qa --help"
        )
    elif "paragraphs" in row or "qas" in row:
        below = row["paragraphs"] if "paragraphs" in row else row["qas"]
        if not isinstance(below, list):
            faults.add("have no list of 'paragraphs' or 'qas'", place)
            return
        inherited = {} if "paragraphs" in row else {"context": row.get("context")}
        for one in below:
            yield from _questions_in({**inherited, **one} if isinstance(one, dict) else one, place, faults)
    elif "question" in row:
        yield place, row
    else:
        faults.add("have no 'paragraphs', 'qas' or 'question'", place)


def _is_name(value: Any) -> bool:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return is_number or (isinstance(value, str) and bool(value) and is_encodable(value))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and is_encodable(value)


def _faults_of(values: Columns, answers: Any) -> list[str]:
    """Return the faults of a question, as the ends of sentences."""
    faults = [f"have no text as their {name}" for name in ("question", "context") if not _is_text(values.get(name))]
    if not _is_name(values.get("id")):
        faults.append("have no id")
    if _truth(values.get("is_impossible")) is None:
        faults.append("have another is_impossible than true or false")
    if answers is None:
        faults.append("have no list of answers, each a text with a whole number as its answer_start")
    return faults


def _truth(value: Any) -> bool | None:
    """Return a truth value that may be text or a number; False if it is missing, None for other values."""
    written = {"": False, "none": False, "0": False, "false": False, "1": True, "true": True}
    return written.get(str(value).lower())


def _answers(values: Columns) -> list[tuple[str, int]] | None:
    """Return text and position of each answer, [] for an impossible question; None if answers have another form."""
    if _truth(values.get("is_impossible")):
        return []
    answers = parse_value(values.get("answers"))
    if isinstance(answers, dict):  # data sets have lists of texts and of places
        texts, starts = answers.get("text"), answers.get("answer_start")
        if isinstance(texts, str) and not isinstance(starts, list):
            texts, starts = [texts], [starts]
        if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
            return None
        answers = [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)]
    if not isinstance(answers, list) or not all(isinstance(answer, dict) for answer in answers):
        return None
    found = []
    for answer in answers:
        text, start = answer.get("text"), answer.get("answer_start")
        if isinstance(start, str) and start.strip().isdecimal():
            start = int(start)
        if not _is_text(text) or isinstance(start, bool) or not isinstance(start, int | float) or start % 1:
            return None
        found.append((str(text), int(start)))
    return found


def check_answers(data: Questions) -> None:
    """Refuse training data in which an answer is empty or not at its given position."""
    faults = Faults()
    for question in data.questions:
        if question.start is None:
            continue
        answer = question.answers[0]
        paragraph = data.paragraphs[question.paragraph]
        where = f"the answer '{answer:.50}' to question {question.id} at position {question.start}"
        if not answer.strip():
            faults.add("have an empty answer, instead of an empty list of answers", where)
        elif question.start < 0 or not paragraph.startswith(answer, question.start):
            place = nearest_place(answer, paragraph, question.start)
            if place is not None:
                faults.add("have an answer at another position", f"{where} is at {place}")
            elif unicodedata.normalize("NFKC", answer) in unicodedata.normalize("NFKC", paragraph):
                faults.add("have an answer in another Unicode form than its paragraph", where)
            else:
                faults.add("have an answer that is not in its paragraph", where)
    faults.check(data.source, len(data), "correct the file; answer_start counts characters from 0")


def nearest_place(answer: str, paragraph: str, start: int) -> int | None:
    """Return the position of the occurrence of an answer that is nearest to `start`; None without an occurrence."""
    places = [match.start() for match in re.finditer(f"(?={re.escape(answer)})", paragraph)]
    return min(places, key=lambda place: abs(place - start), default=None)


def warn_of_unfindable(data: Questions) -> None:
    """Log a warning if questions of a development set have answers none of which is in their paragraph."""
    faults = Faults()
    for question in data.questions:
        paragraph = data.paragraphs[question.paragraph].casefold()
        written = [answer.strip().casefold() for answer in question.answers]
        if written and not any(answer and answer in paragraph for answer in written):
            where = f"'{question.answers[0]:.50}' to question {question.id}"
            faults.add("have no answer that is in their paragraph, so that none can be right", where)
    faults.warn(data.source, len(data))


# ---- windows of tokens

# Windows are those of google-research/electra, finetune/qa/qa_tasks.py. A paragraph is tokenized once, however many
# questions it has: tokenizers' own overflow (`return_overflowing_tokens`) would tokenize it again for each question.


SHORTEST_CONTEXT = 8
"""Tokens of the paragraph for which a window must have room, at least."""
ANSWER_START, ANSWER_END, UNANSWERABLE = range(3)
"""Columns of the labels of a window: first and last token of the answer, and whether there is none."""
NO_ANSWER = (0, 0, 1)
"""Labels of a window that does not hold the whole answer."""
NOWHERE = (-1, -1)
"""First and last token of an answer that is in no window."""


@dataclass(frozen=True)
class QuestionWindows(ColumnRows):
    """N windows, each a question followed by a piece of its paragraph. Windows of one question are adjacent.

    Columns are `input_ids`, `token_type_ids` and `context`, the range of the piece. For training there are also
    `labels`, int64 (3,): positions of the answer's first and last token, and 0; or 0 0 1 if the window does not hold
    the whole answer. Position 0 is [CLS]. `start_positions` is the first of the labels. A range is a first index and
    the one after the last.
    """

    questions: Array  # index of each window's question (N,), ascending
    first_tokens: Array  # index in the paragraph of the piece's first token (N,)
    context: Array  # positions of the paragraph's piece (N, 2)
    most_context: Array  # range of tokens that no other window of the question has with more context (N, 2)
    offsets: list[Array]  # for each paragraph, the characters of its T tokens (T, 2)


class Frame(NamedTuple):
    """The frame that a tokenizer puts around a pair of texts: special tokens before, between and behind the texts."""

    before: Array
    between: Array
    behind: Array
    types: list[Array]  # token types of: before, the question, between, the paragraph, behind

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
        """Return ids and token types of a window: the frame with a question's and a paragraph piece's ids."""
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
    """Return the windows of all questions, tokenized.

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
    """Return the windows of a table, with the places of the paragraph turned into places in the window.

    A row of `table` has the index of the question, the difference between a place in the window and in the paragraph,
    and three ranges of places in the paragraph: the piece, the tokens with most context, and the answer, the second
    place of which is its last token.
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
        columns["start_positions"] = labels[:, ANSWER_START]
    lengths = lengths_of(columns["input_ids"])
    return QuestionWindows(columns, lengths, questions, first_tokens, context, most_context, offsets)


def answer_tokens(offsets: Array, question: SquadQuestion) -> tuple[int, int] | None:
    """Return the first and the last token that cover a character of the answer; None if no token does.

    Args:
        offsets: range of characters of each token of the paragraph, int64 (T, 2).
    """
    if question.start is None:
        return NOWHERE
    firsts, ends = offsets.T
    first_token = int(np.searchsorted(ends, question.start, side="right"))
    last_token = int(np.searchsorted(firsts, question.start + len(question.answers[0]))) - 1
    return None if first_token > last_token else (first_token, last_token)
