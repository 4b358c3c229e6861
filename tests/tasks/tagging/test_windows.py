"""Words as tokens: exact rows of hand-made sentences, windows of long ones, and predictions back to words."""

import numpy as np
import pytest
from tokenizers import ByteLevelBPETokenizer
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from electra.tasks.tagging.windows import WindowCollator, Windows, make_windows, window_starts

CLS, SEP = 2, 3
"""Ids of the framed tokenizer, in which other ids are their own text."""


def test_a_word_is_labelled_at_its_first_token(framed_tokenizer: PreTrainedTokenizerBase) -> None:
    rows = make_windows([["11", "12 13 14", "15"], ["16"]], [[1, 2, 3], [4]], framed_tokenizer, 16)
    assert [row["input_ids"].tolist() for row in rows] == [[CLS, 11, 12, 13, 14, 15, SEP], [CLS, 16, SEP]]
    assert [row["positions"].tolist() for row in rows] == [[1, 2, 5], [1]]
    assert [row["labels"].tolist() for row in rows] == [[1, 2, 3], [4]] and rows.lengths.tolist() == [7, 3]
    batch = WindowCollator(0)([rows[0], rows[1]])
    assert {name: values.tolist() for name, values in batch.items()} == {
        "input_ids": [[CLS, 11, 12, 13, 14, 15, SEP], [CLS, 16, SEP, 0, 0, 0, 0]],
        "attention_mask": [[1] * 7, [1] * 3 + [0] * 4],
        "positions": [[1, 2, 5], [1, 0, 0]],
        "labels": [[1, 2, 3], [4, -100, -100]],
    }
    assert set(WindowCollator(0)([rows.without_labels()[0]])) == {"input_ids", "attention_mask", "positions"}


@pytest.mark.parametrize(
    ("length", "size", "starts"),
    [(8, 8, [0]), (9, 8, [0, 1]), (20, 8, [0, 4, 8, 12]), (18, 8, [0, 4, 8, 10]), (3, 1, [0, 1, 2])],
)
def test_windows_overlap_by_half_and_the_last_one_ends_with_the_sentence(
    length: int, size: int, starts: list[int]
) -> None:
    assert window_starts(length, size) == starts


def test_a_long_sentence_has_each_word_once_in_the_window_with_most_context(
    framed_tokenizer: PreTrainedTokenizerBase,
) -> None:
    sentence = [str(100 + i) for i in range(20)]
    rows = make_windows([["11"], sentence, ["12"]], [[0], list(range(20)), [0]], framed_tokenizer, 10)
    assert rows.lengths.tolist() == [3, 10, 10, 10, 10, 3]
    # The ends of the sentence are no cuts: the outer windows have six words each.
    expected = [[0], list(range(6)), [6, 7, 8, 9], [10, 11, 12, 13], list(range(14, 20)), [0]]
    assert [row["labels"].tolist() for row in rows] == expected
    for row in list(rows)[1:-1]:
        assert (row["input_ids"][row["positions"]] - 100).tolist() == row["labels"].tolist()
    assert rows[2]["positions"].tolist() == [3, 4, 5, 6]


def test_no_word_is_lost_whatever_the_lengths(framed_tokenizer: PreTrainedTokenizerBase) -> None:
    source = np.random.default_rng(0)
    for _ in range(30):
        sentences = [
            [" ".join(["17"] * source.integers(1, 30)) for _ in range(source.integers(1, 12))] for _ in range(3)
        ]
        labels = [source.integers(9, size=len(sentence)).tolist() for sentence in sentences]
        rows = make_windows(sentences, labels, framed_tokenizer, int(source.integers(4, 20)))
        assert rows.lengths.max() <= 20 and all(len(words) for words in rows.words)
        predicted = np.full((len(rows), 12), -1)
        for row, values in zip(rows, predicted, strict=True):
            values[: len(row["labels"])] = row["labels"]
        assert rows.predictions(predicted) == labels


def test_predictions_of_windows_return_in_the_order_of_the_sentences() -> None:
    words = [np.array([[1, 2], [1, 0]]), np.array([[1, 1]]), np.array([[0, 0], [0, 1]])]
    rows = Windows({}, np.array([1, 1, 1]), words)
    assert rows.predictions(np.array([[7, 8], [9, -100], [1, 2]])) == [[1, 2], [8, 9, 7]]


def test_a_word_without_a_token_is_unknown_and_keeps_its_label(wordpiece_tokenizer: PreTrainedTokenizerBase) -> None:
    row = make_windows([["the", "\u200b", "dog"]], [[1, 2, 3]], wordpiece_tokenizer, 32)[0]
    assert row["labels"].tolist() == [1, 2, 3]
    assert row["input_ids"][row["positions"][1]] == wordpiece_tokenizer.unk_token_id
    whole = make_windows([["the", "quick", "dog"]], None, wordpiece_tokenizer, 64)[0]
    assert whole["input_ids"].tolist() == wordpiece_tokenizer("the quick dog")["input_ids"]


def test_a_byte_level_tokenizer_reads_words_as_in_a_text() -> None:
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(["the dog and the dog and the fox"] * 9, vocab_size=290)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer, unk_token="<unk>", pad_token="<pad>")
    rows = make_windows([["the", "dog", "and"]], None, tokenizer, 64)
    assert rows[0]["input_ids"].tolist() == tokenizer("the dog and")["input_ids"]
