"""Words as tokens: exact rows of hand-made sentences, windows of long ones, predictions back to words."""

import numpy as np
from tokenizers import ByteLevelBPETokenizer
from transformers import PreTrainedTokenizerFast

from electra.finetuning.data import PaddingCollator
from electra.tasks.tagging.data import make_sentence_windows

CLS = 2
SEP = 3
"""Ids of the framed tokenizer, in which other ids are their own text."""


def test_a_word_is_labelled_at_its_first_token(framed_tokenizer):
    rows = make_sentence_windows([["11", "12 13 14", "15"], ["16"]], [[1, 2, 3], [4]], framed_tokenizer, 16)
    assert rows.lengths.tolist() == [7, 3]
    batch = PaddingCollator(9)([rows[0], rows[1]])
    assert {name: values.tolist() for name, values in batch.items()} == {
        "input_ids": [[CLS, 11, 12, 13, 14, 15, SEP], [CLS, 16, SEP, 9, 9, 9, 9]],
        "attention_mask": [[1] * 7, [1] * 3 + [0] * 4],
        "positions": [[1, 2, 5], [1, 0, 0]],
        "labels": [[1, 2, 3], [4, -100, -100]],
    }
    assert set(PaddingCollator(0)([rows.without_labels()[0]])) == {"input_ids", "attention_mask", "positions"}


def test_a_long_sentence_has_each_word_where_it_has_most_context(framed_tokenizer):
    # Windows begin at 0, 4, 8 and, to be as long as the others, 10.
    sentence = [str(100 + number) for number in range(18)]
    rows = make_sentence_windows([["11"], sentence, ["12"]], [[0], list(range(18)), [0]], framed_tokenizer, 10)
    assert rows.lengths.tolist() == [3, 10, 10, 10, 10, 3]
    expected = [[0], list(range(6)), [6, 7, 8, 9], [10, 11, 12], list(range(13, 18)), [0]]
    assert [row["labels"].tolist() for row in rows] == expected
    for row in list(rows)[1:-1]:
        assert (row["input_ids"][row["positions"]] - 100).tolist() == row["labels"].tolist()


def test_no_word_is_lost_and_predictions_return_in_their_order(framed_tokenizer):
    source = np.random.default_rng(0)
    for _ in range(20):
        sentences = [[" ".join(["17"] * source.integers(1, 30)) for _ in range(source.integers(1, 12))]] * 3
        labels = [source.integers(9, size=len(sentence)).tolist() for sentence in sentences]
        max_length = int(source.integers(4, 20))
        rows = make_sentence_windows(sentences, labels, framed_tokenizer, max_length)
        assert rows.lengths.max() <= max_length and all(len(row["labels"]) for row in rows)
        predicted = np.full((len(rows), 12), -1)
        for row, values in zip(rows, predicted, strict=True):
            values[: len(row["labels"])] = row["labels"]
        assert rows.predictions(predicted) == labels


def test_a_word_without_a_token_is_unknown_and_keeps_its_label(wordpiece_tokenizer):
    row = make_sentence_windows([["the", "\u200b", "dog"]], [[1, 2, 3]], wordpiece_tokenizer, 32)[0]
    assert row["labels"].tolist() == [1, 2, 3]
    assert row["input_ids"][row["positions"][1]] == wordpiece_tokenizer.unk_token_id


def test_a_byte_level_tokenizer_reads_words_as_in_a_text():
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(["the dog and the dog and the fox"] * 9, vocab_size=290)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer, unk_token="<unk>", pad_token="<pad>")
    rows = make_sentence_windows([["the", "dog", "and"]], None, tokenizer, 64)
    assert rows[0]["input_ids"].tolist() == tokenizer("the dog and")["input_ids"]
