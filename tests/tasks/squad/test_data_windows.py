"""Windows of hand-made questions token by token; answers across windows; the choice of the window for each token."""

import random
from copy import deepcopy

import torch
from pytest import raises
from tokenizers.processors import TemplateProcessing

from electra.core.errors import UserError
from electra.finetuning.data import PaddingCollator, cut_windows, windows_with_most_context
from electra.tasks.squad.data import encode_questions
from electra.tasks.squad.questions import Questions, SquadQuestion
from electra.tokenizers.options import TokenizerArguments
from electra.tokenizers.train import train_on_documents
from tests.conftest import TEXTS

CLS = 2
SEP = 3
NUMBERS = " ".join(map(str, range(100, 120)))


def encode(tokenizer, *asked, room=20, **options):
    """Return windows of questions: text, paragraph, first answer or None.

    `room` is the number of tokens for the paragraph behind a question of two tokens.
    """
    questions = []
    for number, (text, paragraph, answer) in enumerate(asked):
        answers, start = ((answer,), paragraph.find(answer)) if answer else ((), None)
        questions.append(SquadQuestion(str(number), text, number, answers, 50 if start == -1 else start))
    data = Questions([paragraph for _, paragraph, _ in asked], questions, is_version_2=True, source="test")
    is_training = options.pop("is_training", True)
    settings = {"max_length": room + 5, "max_query_length": 64, "doc_stride": 128, **options}
    return encode_questions(data, tokenizer, settings, is_training=is_training)


def ids(windows):
    """Return the token ids of each window."""
    return [window["input_ids"].tolist() for window in windows]


def labels(windows):
    """Return start, end and whether there is no answer, of each window."""
    return [window["labels"].tolist() for window in windows]


def test_a_window_is_what_the_tokenizer_makes_of_both_texts(framed_tokenizer, number_tokenizer):
    encoded = encode(framed_tokenizer, ("7 8", "10 11 12 13", "12 13"))
    assert ids(encoded) == [framed_tokenizer("7 8", "10 11 12 13")["input_ids"]]
    assert encoded[0]["token_type_ids"].tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 1]
    assert encoded[0]["labels"].tolist() == [6, 7, 0]
    assert encoded[0]["context"].tolist() == [4, 8] and encoded.most_context.tolist() == [[4, 8]]
    assert encoded.offsets[0].tolist() == [[0, 2], [3, 5], [6, 8], [9, 11]]
    assert ids(encode(number_tokenizer, ("7", "10 11", "11"))) == [[7, 10, 11]]  # no special tokens


def test_special_tokens_keep_their_types(framed_tokenizer):
    tokenizer = deepcopy(framed_tokenizer)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        pair="$A:0 [SEP]:0 $B:1 [SEP]:1 [CLS]:2", special_tokens=[("[SEP]", SEP), ("[CLS]", CLS)]
    )
    window = encode(tokenizer, ("7 8", "10 11 12", "11"))[0]
    assert window["input_ids"].tolist() == [7, 8, SEP, 10, 11, 12, SEP, CLS]
    assert window["token_type_ids"].tolist() == [0, 0, 0, 1, 1, 1, 1, 2]


def test_a_long_paragraph_is_cut_into_windows_that_overlap(framed_tokenizer):
    encoded = encode(framed_tokenizer, ("7 8", NUMBERS, "109 110"), room=10, doc_stride=6)
    pieces = range(100, 110), range(106, 116), range(112, 120)
    assert ids(encoded) == [[CLS, 7, 8, SEP, *piece, SEP] for piece in pieces]
    # The first window holds only the first token of the answer, the last one nothing of it.
    assert labels(encoded) == [[0, 0, 1], [7, 8, 0], [0, 0, 1]]
    assert encoded.first_tokens.tolist() == [0, 6, 12] and encoded.questions.tolist() == [0, 0, 0]
    assert encoded.context.tolist() == [[4, 14], [4, 14], [4, 12]] and encoded.lengths.tolist() == [15, 15, 13]
    assert encoded.most_context.tolist() == [[4, 12], [6, 12], [6, 12]]  # tokens 0-7, 8-13, 14-19


def test_a_window_has_the_answer_if_it_holds_all_of_it(framed_tokenizer):
    whole_first = NUMBERS[:39]
    longer_than_a_window = NUMBERS[:43]
    whole_second = NUMBERS[40:]
    asked = [("7 8", NUMBERS, answer) for answer in (whole_first, longer_than_a_window, whole_second, None)]
    none = [0, 0, 1]
    expected = [[4, 13, 0], none, none, none, none, [4, 13, 0], none, none]
    assert labels(encode(framed_tokenizer, *asked, room=10, doc_stride=64)) == expected


def test_a_long_question_is_cut_and_must_leave_room(framed_tokenizer):
    encoded = encode(framed_tokenizer, (NUMBERS, "10 11", "11"), ("7", "10 11", None), max_query_length=2)
    assert ids(encoded) == [[CLS, 100, 101, SEP, 10, 11, SEP], [CLS, 7, SEP, 10, 11, SEP]]
    with raises(UserError, match=r"--max_length 25 .* 20 tokens"):
        encode(framed_tokenizer, (NUMBERS, "10 11", "10"))
    assert len(encode(framed_tokenizer, (NUMBERS, "10 11", "10"), room=26)) == 1


def test_evaluation_has_every_question_and_no_labels(framed_tokenizer):
    asked = ("7", "10 11", "99"), ("7", "", None)
    encoded = encode(framed_tokenizer, *asked, is_training=False)
    assert set(encoded[0]) == {"input_ids", "token_type_ids", "context"}
    assert ids(encoded) == [[CLS, 7, SEP, 10, 11, SEP], [CLS, 7, SEP, SEP]]
    assert encoded.context.tolist() == [[3, 5], [3, 3]] == encoded.most_context.tolist()
    assert encode(framed_tokenizer, *asked).questions.tolist() == [1]  # no token covers the first answer
    spaces = encode(framed_tokenizer, ("7", "10  11", "  "), ("7", "10  11", "0  1"), ("7", "10  11", "0 "))
    assert spaces.questions.tolist() == [1, 2] and labels(spaces) == [[3, 4, 0], [3, 3, 0]]


def test_a_batch_has_the_places_of_paragraphs_and_true_starts(framed_tokenizer):
    windows = encode(framed_tokenizer, ("7 8", "10 11 12", "11 12"), ("7", "10", None))
    batch = PaddingCollator(0)([windows[0], windows[1]])
    assert {name: values.tolist() for name, values in batch.items()} == {
        "input_ids": [[CLS, 7, 8, SEP, 10, 11, 12, SEP], [CLS, 7, SEP, 10, SEP, 0, 0, 0]],
        "token_type_ids": [[0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 1, 0, 0, 0]],
        "attention_mask": [[1] * 8, [1, 1, 1, 1, 1, 0, 0, 0]],
        "context": [[4, 7], [3, 4]],
        "labels": [[5, 6, 0], [0, 0, 1]],
        "start_positions": [5, 0],
    }
    assert all(values.dtype == torch.int64 for values in batch.values())
    assert set(windows.without_labels()[0]) == {"input_ids", "token_type_ids", "context"}


def answer_span(tokenizer, paragraph, answer):
    """Return the characters that the tokens of an answer's labels stand for."""
    encoded = encode(tokenizer, ("x", paragraph, answer), room=200)
    start, end, _ = encoded[0]["labels"] - encoded.context[0, 0]
    return paragraph[encoded.offsets[0][start, 0] : encoded.offsets[0][end, 1]]


def test_the_tokens_of_an_answer_stand_for_its_characters(wordpiece_tokenizer):
    for paragraph, answer in (
        ("Thé (wörds and) sells", "wörds"),  # accents are stripped, characters are not; brackets are tokens
        ("say ﬁlled masks", "ﬁlled"),  # one character, two letters when normalized
        ("the words \u200bare real", "are"),  # a character without a token
        ("the 東京 dog", "京"),
    ):
        assert answer_span(wordpiece_tokenizer, paragraph, answer).strip("\u200b") == answer


def test_words_are_found_behind_the_space_before_them():
    tokenizer = train_on_documents(TEXTS * 3, TokenizerArguments(tokenizer_algorithm="byte_bpe", vocab_size=300))
    answer = " ".join(TEXTS[0].split()[1:3])
    assert answer_span(tokenizer, TEXTS[0], answer).strip() == answer


def test_every_token_has_the_window_with_most_context():
    """Against the loop of google-research/electra, _check_is_max_context."""
    source = random.Random(0)
    for _ in range(20):  # of lengths of which 1 % is more than a token, too
        tokens = source.randint(1, 700)
        room = source.randint(1, 400)
        windows = cut_windows(tokens, room, source.randint(1, room))
        expected = []
        for token in range(tokens):
            scores = []
            for first, after in windows.tolist():
                context = min(token - first, after - 1 - token)
                scores.append(context + 0.01 * (after - first) if context >= 0 else -1)
            expected.append(scores.index(max(scores)))
        assert windows_with_most_context(windows).tolist() == expected
