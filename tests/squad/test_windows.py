"""Windows of hand-made questions token by token; answers that are cut; the rule of most context by its definition."""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizerBase

from electra.errors import UserError
from electra.squad.data import Question, Questions
from electra.squad.windows import (
    EncodedQuestions,
    WindowCollator,
    answer_tokens,
    cut_windows,
    encode_questions,
    frame_of,
    tokens_with_most_context,
)
from electra.tokenizer_training import TokenizerOptions, train_tokenizer
from tests.conftest import TEXTS

CLS, SEP = 2, 3


def questions(*asked: tuple[str, str, str | None], start: int | None = None) -> Questions:
    """(question, paragraph, first answer or None) each with a paragraph of its own."""
    found = [
        Question(str(i), text, i, () if answer is None else (answer,), None if answer is None else (
            start if start is not None else paragraph.index(answer)))
        for i, (text, paragraph, answer) in enumerate(asked)
    ]  # fmt: skip
    return Questions([paragraph for _, paragraph, _ in asked], found, is_version_2=True, source="test")


def encode(
    data: Questions,
    tokenizer: PreTrainedTokenizerBase,
    room: int = 20,
    *,
    stride: int = 128,
    query: int = 64,
    **kw: Any,
) -> EncodedQuestions:
    """With `room` tokens for the paragraph beside a question of two."""
    kw = {"is_training": True, **kw}
    return encode_questions(data, tokenizer, max_length=room + 5, max_query_length=query, doc_stride=stride, **kw)


def numbers(first: int, behind: int) -> str:
    return " ".join(map(str, range(first, behind)))


def rows(encoded: EncodedQuestions) -> list[list[int]]:
    return [encoded.windows[i]["input_ids"].tolist() for i in range(len(encoded.windows))]


def test_a_window_is_question_and_paragraph_in_the_tokenizer_s_frame(
    framed_tokenizer: PreTrainedTokenizerBase,
) -> None:
    encoded = encode(questions(("7 8", "10 11 12 13", "12 13")), framed_tokenizer)
    (window,) = (encoded.windows[0],)
    assert window["input_ids"].tolist() == [CLS, 7, 8, SEP, 10, 11, 12, 13, SEP]
    assert window["token_type_ids"].tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 1]
    assert window["input_ids"].tolist() == framed_tokenizer("7 8", "10 11 12 13")["input_ids"]
    assert window["labels"].tolist() == [6, 7, 0]
    assert window["context"].tolist() == [4, 8] and encoded.windows.most_context.tolist() == [[4, 8]]
    assert encoded.offsets[0].tolist() == [[0, 2], [3, 5], [6, 8], [9, 11]]


def test_a_long_paragraph_is_cut_into_windows_that_overlap(framed_tokenizer: PreTrainedTokenizerBase) -> None:
    encoded = encode(questions(("7 8", numbers(100, 120), "109 110")), framed_tokenizer, 10, stride=6)
    frame = [CLS, 7, 8, SEP]
    assert rows(encoded) == [
        [*frame, *range(100, 110), SEP], [*frame, *range(106, 116), SEP], [*frame, *range(112, 120), SEP],
    ]  # fmt: skip
    # the answer's first token alone, the answer, and nothing of it
    assert encoded.windows.labels is not None
    assert encoded.windows.labels.tolist() == [[0, 0, 1], [7, 8, 0], [0, 0, 1]]
    assert encoded.windows.first_tokens.tolist() == [0, 6, 12] and encoded.windows.questions.tolist() == [0, 0, 0]
    assert encoded.windows.context.tolist() == [[4, 14], [4, 14], [4, 12]]
    assert encoded.windows.most_context.tolist() == [[4, 12], [6, 12], [6, 12]]  # tokens 0-7, 8-13, 14-19


@pytest.mark.parametrize(
    ("answer", "labels"),
    [
        ("100", [[4, 4, 0], [0, 0, 1]]),
        ("119", [[0, 0, 1], [13, 13, 0]]),
        (numbers(100, 110), [[4, 13, 0], [0, 0, 1]]),  # the whole window
        (numbers(100, 111), [[0, 0, 1], [0, 0, 1]]),  # longer than a window
        (numbers(110, 120), [[0, 0, 1], [4, 13, 0]]),
        ("109 110", [[0, 0, 1], [0, 0, 1]]),  # across the cut
        (None, [[0, 0, 1], [0, 0, 1]]),
    ],
)
def test_an_answer_is_that_of_the_windows_that_hold_all_of_it(
    framed_tokenizer: PreTrainedTokenizerBase, answer: str | None, labels: list[list[int]]
) -> None:
    encoded = encode(questions(("7 8", numbers(100, 120), answer)), framed_tokenizer, 10, stride=64)
    assert encoded.windows.labels is not None and encoded.windows.labels.tolist() == labels


def test_a_long_question_is_cut_and_leaves_more_room_than_it_would_have(
    framed_tokenizer: PreTrainedTokenizerBase,
) -> None:
    data = questions((numbers(20, 60), numbers(100, 112), "111"), ("7", numbers(100, 112), None))
    encoded = encode(data, framed_tokenizer, 12, query=2)
    assert rows(encoded) == [[CLS, 20, 21, SEP, *range(100, 112), SEP], [CLS, 7, SEP, *range(100, 112), SEP]]


def test_evaluation_has_every_question_and_no_labels(framed_tokenizer: PreTrainedTokenizerBase) -> None:
    data = questions(("7", "10 11", "99"), ("7", "", None), start=50)
    encoded = encode(data, framed_tokenizer, is_training=False)
    assert encoded.windows.labels is None and "labels" not in encoded.windows[0]
    assert rows(encoded) == [[CLS, 7, SEP, 10, 11, SEP], [CLS, 7, SEP, SEP]]
    assert encoded.windows.context.tolist() == [[3, 5], [3, 3]] == encoded.windows.most_context.tolist()
    trained = encode(data, framed_tokenizer)
    assert trained.left_out == 1 and trained.windows.questions.tolist() == [1]


def test_a_batch_says_where_paragraphs_are_and_answers_start(framed_tokenizer: PreTrainedTokenizerBase) -> None:
    windows = encode(questions(("7 8", "10 11 12", "11"), ("7", "10", None)), framed_tokenizer).windows
    batch = WindowCollator(0)([windows[0], windows[1]])
    assert {name: values.tolist() for name, values in batch.items()} == {
        "input_ids": [[CLS, 7, 8, SEP, 10, 11, 12, SEP], [CLS, 7, SEP, 10, SEP, 0, 0, 0]],
        "token_type_ids": [[0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 1, 0, 0, 0]],
        "attention_mask": [[1] * 8, [1, 1, 1, 1, 1, 0, 0, 0]],
        "context": [[4, 7], [3, 4]],
        "labels": [[5, 5, 0], [0, 0, 1]],
        "start_positions": [5, 0],
    }
    assert all(values.dtype == torch.int64 for values in batch.values())


def spans(tokenizer: PreTrainedTokenizerBase, paragraph: str, answer: str) -> tuple[list[str], str]:
    """Tokens that stand for an answer, and the characters they stand for."""
    encoded = encode(questions(("x", paragraph, answer)), tokenizer, 200)
    assert encoded.windows.labels is not None
    start, end, _ = encoded.windows.labels[0]
    ids = encoded.windows[0]["input_ids"][start : end + 1].tolist()
    shift = encoded.windows.context[0, 0]
    return tokenizer.convert_ids_to_tokens(ids), paragraph[
        encoded.offsets[0][start - shift, 0] : encoded.offsets[0][end - shift, 1]
    ]


@pytest.mark.parametrize(
    ("paragraph", "answer", "covered"),
    [
        ("The Dog (and words) sells.", "words", "words"),  # brackets are tokens of their own
        ("The Dog (and words) sells.", "words)", "words)"),
        ("Thé wörds sells", "wörds", "wörds"),  # accents are stripped, characters are not
        ("Thé wörds sells", "Thé", "Thé"),
        ("say ﬁlled masks", "ﬁlled", "ﬁlled"),  # one character, two letters when normalised
        ("the words \u200bare real", "are", "are"),  # a character that no token stands for
        ("the  real\nshells  are", "real\nshells", "real\nshells"),
        ("the 東京 dog", "京", "京"),  # no space between characters that are tokens
    ],
)
def test_an_answer_s_tokens_stand_for_its_characters(
    wordpiece_tokenizer: PreTrainedTokenizerBase, paragraph: str, answer: str, covered: str
) -> None:
    assert spans(wordpiece_tokenizer, paragraph, answer)[1].strip("\u200b") == covered


def test_an_answer_inside_a_word_is_the_pieces_that_touch_it(wordpiece_tokenizer: PreTrainedTokenizerBase) -> None:
    pieces = wordpiece_tokenizer.tokenize("zshells")
    assert len(pieces) > 2
    tokens, covered = spans(wordpiece_tokenizer, "dog zshells dog", "hel")
    offsets = [(0, 0)]
    for piece in pieces:
        offsets.append((offsets[-1][1], offsets[-1][1] + len(piece.removeprefix("##"))))
    touched = [p for p, (a, b) in zip(pieces, offsets[1:], strict=True) if a < 5 and b > 2]
    assert tokens == touched and "hel" in covered


@pytest.mark.parametrize("algorithm", ["wordpiece", "byte_bpe", "unigram"])
def test_every_word_is_found_by_its_own_characters_whatever_the_tokenizer(algorithm: str) -> None:
    """Some tokenizers count the space before a word to it; an answer has none at its ends."""
    tokenizer = train_tokenizer(TEXTS * 3, TokenizerOptions(tokenizer_algorithm=algorithm, vocab_size=300))
    for paragraph in TEXTS:
        words = paragraph.rstrip(".").replace(";", "").replace(",", "").split()
        for first in range(0, len(words) - 1, 3):
            answer = " ".join(words[first : first + 2])
            if answer in paragraph:
                assert spans(tokenizer, paragraph, answer)[1].strip() == answer


def test_an_answer_without_a_token_is_none() -> None:
    offsets = np.array([[0, 3], [5, 8]])
    at = lambda start, text: answer_tokens(offsets, Question("a", "?", 0, (text,), start))  # noqa: E731
    assert at(3, "  ") is None and at(8, "x") is None and at(9, "xyz") is None
    assert at(2, "x") == (0, 0) and at(4, "xx") == (1, 1) and at(0, "x" * 8) == (0, 1) and at(3, "xxx") == (1, 1)


def test_windows_are_the_original_s() -> None:
    """Against its loop: from the start of one window to the next, until one reaches the end."""
    for tokens in range(40):
        for room in (1, 4, 7):
            for stride in (1, 3, 7, 10):
                expected, start = [], 0
                while start < tokens:
                    length = min(tokens - start, room)
                    expected.append([start, start + length])
                    if start + length == tokens:
                        break
                    start += min(length, stride)
                assert cut_windows(tokens, room, stride).tolist() == (expected or [[0, 0]])


def owner(cuts: Sequence[Sequence[int]], token: int) -> int:
    """Which window shows a token with most context, as google-research/electra's _check_is_max_context decides."""
    scores = [
        min(token - first, behind - 1 - token) + 0.01 * (behind - first) if first <= token < behind else -1
        for first, behind in cuts
    ]
    return scores.index(max(scores))


def test_every_token_has_the_window_with_most_context_around_it() -> None:
    source = random.Random(0)
    for _ in range(100):  # of lengths whose hundredth is more than a token, too
        tokens, room = source.randint(1, 700), source.randint(1, 400)
        cuts = cut_windows(tokens, room, source.randint(1, room))
        found = tokens_with_most_context(cuts).tolist()
        owners = [owner(cuts.tolist(), token) for token in range(tokens)]
        assert [[t for t in range(tokens) if owners[t] == w] for w in range(len(cuts))] == [
            list(range(first, behind)) for first, behind in found
        ]


def test_the_example_of_the_rule() -> None:
    """The man went to the | to the store and bought | and bought a gallon of: `bought` is the third's."""
    cuts = cut_windows(11, 5, 3)
    assert cuts.tolist() == [[0, 5], [3, 8], [6, 11]]
    assert tokens_with_most_context(cuts).tolist() == [[0, 4], [4, 7], [7, 11]]


def test_a_question_that_leaves_no_room_is_refused(framed_tokenizer: PreTrainedTokenizerBase) -> None:
    data = questions((numbers(20, 40), "10 11", "10"))
    with pytest.raises(
        UserError, match=r"--max_length 25 leaves 2 tokens .* question of 20; set --max_length to 31 or"
    ):
        encode(data, framed_tokenizer)
    assert len(encode(data, framed_tokenizer, 26).windows) == 1


def test_a_tokenizer_without_a_separator_pair_frames_as_it_does_itself(
    number_tokenizer: PreTrainedTokenizerBase,
) -> None:
    frame = frame_of(number_tokenizer)
    assert frame.size == 0 and encode(questions(("7", "10 11", "11")), number_tokenizer).windows[0][
        "input_ids"
    ].tolist() == [7, 10, 11]
