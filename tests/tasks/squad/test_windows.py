"""Windows of hand-made questions token by token; answers across windows; the choice of the window for each token."""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizerBase

from electra.config import TokenizerArguments
from electra.errors import UserError
from electra.finetuning.rows import cut_windows, windows_with_most_context
from electra.tasks.squad.data import Question, Questions
from electra.tasks.squad.windows import WindowCollator, Windows, answer_tokens, encode_questions
from electra.tokenizer_training import train_tokenizer
from tests.conftest import TEXTS

CLS, SEP = 2, 3


def questions(*asked: tuple[str, str, str | None], start: int | None = None) -> Questions:
    """Questions (text, paragraph, first answer or None), each with a paragraph of its own."""
    found = []
    for i, (text, paragraph, answer) in enumerate(asked):
        place = None if answer is None else start if start is not None else paragraph.index(answer)
        found.append(Question(str(i), text, i, () if answer is None else (answer,), place))
    return Questions([paragraph for _, paragraph, _ in asked], found, is_version_2=True, source="test")


def encode(data: Questions, tokenizer: PreTrainedTokenizerBase, room: int = 20, **options: Any) -> Windows:
    """Windows with `room` tokens for the paragraph after a question of two tokens."""
    options = {"max_query_length": 64, "doc_stride": 128, "is_training": True, **options}
    return encode_questions(data, tokenizer, max_length=room + 5, **options)


def numbers(first: int, behind: int) -> str:
    return " ".join(map(str, range(first, behind)))


def ids(windows: Windows) -> list[list[int]]:
    return [window["input_ids"].tolist() for window in windows]


def test_a_window_is_what_the_tokenizer_makes_of_question_and_paragraph(
    framed_tokenizer: PreTrainedTokenizerBase, number_tokenizer: PreTrainedTokenizerBase
) -> None:
    encoded = encode(questions(("7 8", "10 11 12 13", "12 13")), framed_tokenizer)
    window = encoded[0]
    assert window["input_ids"].tolist() == [CLS, 7, 8, SEP, 10, 11, 12, 13, SEP]
    assert window["token_type_ids"].tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 1]
    assert window["input_ids"].tolist() == framed_tokenizer("7 8", "10 11 12 13")["input_ids"]
    assert window["labels"].tolist() == [6, 7, 0]
    assert window["context"].tolist() == [4, 8] and encoded.most_context.tolist() == [[4, 8]]
    assert encoded.offsets[0].tolist() == [[0, 2], [3, 5], [6, 8], [9, 11]]
    assert ids(encode(questions(("7", "10 11", "11")), number_tokenizer)) == [[7, 10, 11]]  # no special tokens


def test_a_long_paragraph_is_cut_into_windows_that_overlap(framed_tokenizer: PreTrainedTokenizerBase) -> None:
    encoded = encode(questions(("7 8", numbers(100, 120), "109 110")), framed_tokenizer, 10, doc_stride=6)
    frame = [CLS, 7, 8, SEP]
    assert ids(encoded) == [
        [*frame, *range(100, 110), SEP], [*frame, *range(106, 116), SEP], [*frame, *range(112, 120), SEP],
    ]  # fmt: skip
    # The first window holds only the first token of the answer, the last one nothing of it.
    assert [window["labels"].tolist() for window in encoded] == [[0, 0, 1], [7, 8, 0], [0, 0, 1]]
    assert encoded.first_tokens.tolist() == [0, 6, 12] and encoded.questions.tolist() == [0, 0, 0]
    assert encoded.context.tolist() == [[4, 14], [4, 14], [4, 12]] and encoded.lengths.tolist() == [15, 15, 13]
    assert encoded.most_context.tolist() == [[4, 12], [6, 12], [6, 12]]  # tokens 0-7, 8-13, 14-19


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
def test_a_window_has_the_answer_if_it_holds_all_of_it(
    framed_tokenizer: PreTrainedTokenizerBase, answer: str | None, labels: list[list[int]]
) -> None:
    encoded = encode(questions(("7 8", numbers(100, 120), answer)), framed_tokenizer, 10, doc_stride=64)
    assert [window["labels"].tolist() for window in encoded] == labels


def test_a_long_question_is_cut_and_must_leave_room(framed_tokenizer: PreTrainedTokenizerBase) -> None:
    data = questions((numbers(20, 60), numbers(100, 112), "111"), ("7", numbers(100, 112), None))
    encoded = encode(data, framed_tokenizer, 12, max_query_length=2)
    assert ids(encoded) == [[CLS, 20, 21, SEP, *range(100, 112), SEP], [CLS, 7, SEP, *range(100, 112), SEP]]
    data = questions((numbers(20, 40), "10 11", "10"))
    with pytest.raises(UserError, match=r"--max_length 25 .*--max_length to 31 .*--max_query_length"):
        encode(data, framed_tokenizer, 20)
    assert len(encode(data, framed_tokenizer, 26)) == 1


def test_evaluation_has_every_question_and_no_labels(framed_tokenizer: PreTrainedTokenizerBase) -> None:
    data = questions(("7", "10 11", "99"), ("7", "", None), start=50)
    encoded = encode(data, framed_tokenizer, is_training=False)
    assert set(encoded[0]) == {"input_ids", "token_type_ids", "context"}
    assert ids(encoded) == [[CLS, 7, SEP, 10, 11, SEP], [CLS, 7, SEP, SEP]]
    assert encoded.context.tolist() == [[3, 5], [3, 3]] == encoded.most_context.tolist()
    trained = encode(data, framed_tokenizer)
    assert trained.questions.tolist() == [1]  # no token covers the first answer


def test_a_batch_has_the_places_of_paragraphs_and_true_starts(framed_tokenizer: PreTrainedTokenizerBase) -> None:
    windows = encode(questions(("7 8", "10 11 12", "11"), ("7", "10", None)), framed_tokenizer)
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
    assert set(WindowCollator(0)([windows.without_labels()[0]])).isdisjoint({"labels", "start_positions"})


def answer_span(tokenizer: PreTrainedTokenizerBase, paragraph: str, answer: str) -> str:
    """The characters that the tokens of an answer's labels stand for."""
    encoded = encode(questions(("x", paragraph, answer)), tokenizer, 200)
    start, end, _ = encoded[0]["labels"] - encoded.context[0, 0]
    return paragraph[encoded.offsets[0][start, 0] : encoded.offsets[0][end, 1]]


@pytest.mark.parametrize(
    ("paragraph", "answer"),
    [
        ("The Dog (and words) sells.", "words"),  # brackets are tokens
        ("Thé wörds sells", "wörds"),  # accents are stripped, characters are not
        ("say ﬁlled masks", "ﬁlled"),  # one character, two letters when normalized
        ("the words \u200bare real", "are"),  # a character without a token
        ("the 東京 dog", "京"),
    ],
)
def test_the_tokens_of_an_answer_stand_for_its_characters(
    wordpiece_tokenizer: PreTrainedTokenizerBase, paragraph: str, answer: str
) -> None:
    assert answer_span(wordpiece_tokenizer, paragraph, answer).strip("\u200b") == answer


@pytest.mark.parametrize("algorithm", ["byte_bpe", "unigram"])
def test_words_are_found_by_tokenizers_that_count_the_space_before_a_word(algorithm: str) -> None:
    tokenizer = train_tokenizer(TEXTS * 3, TokenizerArguments(tokenizer_algorithm=algorithm, vocab_size=300))
    answer = " ".join(TEXTS[0].split()[1:3])
    assert answer_span(tokenizer, TEXTS[0], answer).strip() == answer


def test_the_tokens_that_overlap_an_answer() -> None:
    offsets = np.array([[0, 3], [5, 8]])
    cases = {(3, 2): None, (8, 1): None, (2, 1): (0, 0), (4, 2): (1, 1), (0, 8): (0, 1)}
    for (start, length), expected in cases.items():
        assert answer_tokens(offsets, Question("a", "?", 0, ("x" * length,), start)) == expected


@pytest.mark.parametrize("stride", [1, 3, 7, 10])
@pytest.mark.parametrize("room", [1, 4, 7])
def test_windows_are_the_original_s(room: int, stride: int) -> None:
    """Against its loop: from the start of one window to the next, until one reaches the end."""
    for tokens in range(30):
        expected, start = [], 0
        while start < tokens:
            length = min(tokens - start, room)
            expected.append([start, start + length])
            if start + length == tokens:
                break
            start += min(length, stride)
        assert cut_windows(tokens, room, stride).tolist() == (expected or [[0, 0]])


def owner(windows: Sequence[Sequence[int]], token: int, text_ends_count: bool) -> int:
    """The window chosen by a loop: _check_is_max_context of google-research/electra if the ends of the text count."""
    scores = []
    for first, after in windows:
        left = token - first if text_ends_count or first > 0 else 10**9
        right = after - 1 - token if text_ends_count or after < windows[-1][1] else 10**9
        scores.append(min(left, right) + 0.01 * (after - first) if first <= token < after else -1)
    return scores.index(max(scores))


@pytest.mark.parametrize("text_ends_count", [True, False])
def test_every_token_has_the_window_with_most_context(text_ends_count: bool) -> None:
    source = random.Random(0)
    for _ in range(40):  # of lengths of which 1 % is more than a token, too
        tokens, room = source.randint(1, 700), source.randint(1, 400)
        windows = cut_windows(tokens, room, source.randint(1, room))
        expected = [owner(windows.tolist(), token, text_ends_count) for token in range(tokens)]
        assert windows_with_most_context(windows, text_ends_count=text_ends_count).tolist() == expected
