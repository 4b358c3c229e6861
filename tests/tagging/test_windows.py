"""Words and tokens: exact rows for sentences made by hand, windows of long ones, the way back."""

import numpy as np
import pytest
from tokenizers import ByteLevelBPETokenizer
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from electra.tagging.windows import (
    WindowCollator,
    Windows,
    WordTokenizer,
    make_windows,
    most_context,
    to_sentences,
    window_starts,
)


@pytest.fixture
def words(framed_tokenizer: PreTrainedTokenizerBase) -> WordTokenizer:
    """Ids are their own text; a "word" of several numbers has several tokens. [CLS] is 2, [SEP] is 3."""
    return WordTokenizer(framed_tokenizer)


def test_a_label_stands_at_the_first_token_of_its_word(words: WordTokenizer) -> None:
    cls, sep = words.tokenizer.cls_token_id, words.tokenizer.sep_token_id
    rows = make_windows([["11", "12 13 14", "15"], ["16"]], [[1, 2, 3], [4]], words, 16)
    assert rows.ids.tolist() == [cls, 11, 12, 13, 14, 15, sep, cls, 16, sep]
    assert rows.positions.tolist() == [1, 2, 5, 1] and rows.labels is not None
    assert rows.labels.tolist() == [1, 2, 3, 4] and rows.lengths.tolist() == [7, 3]
    assert rows[0]["positions"].tolist() == [1, 2, 5] and rows[1]["labels"].tolist() == [4]
    batch = WindowCollator(0)([rows[0], rows[1]])
    assert batch["input_ids"].tolist() == [[cls, 11, 12, 13, 14, 15, sep], [cls, 16, sep, 0, 0, 0, 0]]
    assert batch["attention_mask"].sum(1).tolist() == [7, 3]
    assert batch["positions"].tolist() == [[1, 2, 5], [1, 0, 0]]
    assert batch["labels"].tolist() == [[1, 2, 3], [4, -100, -100]]
    assert "labels" not in rows.without_labels()[0]


def test_windows_cover_a_sentence_and_overlap_by_half() -> None:
    assert window_starts(8, 8) == [0]
    assert window_starts(9, 8) == [0, 1]
    assert window_starts(20, 8) == [0, 4, 8, 12]
    assert window_starts(18, 8) == [0, 4, 8, 10]
    assert window_starts(3, 1) == [0, 1, 2]


def test_a_word_is_read_where_the_nearer_cut_is_farthest() -> None:
    starts = window_starts(20, 8)
    chosen = [most_context(position, starts, 8, 20) for position in range(20)]
    assert chosen == [0] * 6 + [1] * 4 + [2] * 4 + [3] * 6  # the ends of a sentence are no cuts
    assert most_context(3, [0], 8, 4) == 0


def test_a_long_sentence_has_each_word_once_and_in_its_window(words: WordTokenizer) -> None:
    sentence = [str(100 + i) for i in range(20)]
    rows = make_windows([["11"], sentence, ["12"]], [[0], list(range(20)), [0]], words, 10)
    assert rows.lengths.tolist() == [3, 10, 10, 10, 10, 3]
    assert np.diff(rows.word_ends, prepend=0).tolist() == [1, 6, 4, 4, 6, 1]
    for row in range(len(rows)):
        item = rows[row]
        if len(item["input_ids"]) == 10:
            assert (item["input_ids"][item["positions"]] - 100).tolist() == item["labels"].tolist()
    assert rows[2]["labels"].tolist() == [6, 7, 8, 9] and rows[2]["positions"].tolist() == [3, 4, 5, 6]


def test_no_word_is_lost_whatever_the_lengths(words: WordTokenizer) -> None:
    source = np.random.default_rng(0)
    for _ in range(50):
        sentences = [
            [" ".join(["17"] * source.integers(1, 30)) for _ in range(source.integers(1, 12))] for _ in range(3)
        ]
        labels = [source.integers(9, size=len(sentence)).tolist() for sentence in sentences]
        rows = make_windows(sentences, labels, words, int(source.integers(4, 20)))
        assert rows.lengths.max() <= 20 and (np.diff(rows.word_ends, prepend=0) > 0).all()
        said = np.full((len(rows), 12), -1)
        for row in range(len(rows)):
            own = rows[row]["labels"]
            said[row, : len(own)] = own
        assert to_sentences(said, rows) == labels


def test_predictions_of_windows_come_back_in_the_order_of_the_sentence() -> None:
    rows = Windows(
        np.zeros(0, np.int32), np.array([1, 2, 3]), np.zeros(5, np.int32), np.array([2, 3, 5]),
        np.array([1, 1, 1, 0, 0], np.int32), np.array([2, 0, 1, 0, 1], np.int32), None,
    )  # fmt: skip
    said = np.array([[7, 8], [9, -100], [1, 2]])
    assert to_sentences(said, rows) == [[1, 2], [8, 9, 7]]


def test_a_word_of_which_nothing_is_left_is_unknown_and_keeps_its_label(
    wordpiece_tokenizer: PreTrainedTokenizerBase,
) -> None:
    tokenizer = WordTokenizer(wordpiece_tokenizer)
    rows = make_windows([["the", "\u200b", "dog"]], [[1, 2, 3]], tokenizer, 32)
    assert rows[0]["labels"].tolist() == [1, 2, 3]
    assert rows[0]["input_ids"][rows[0]["positions"][1]] == wordpiece_tokenizer.unk_token_id
    whole = wordpiece_tokenizer("the quick dog")["input_ids"]
    assert make_windows([["the", "quick", "dog"]], None, tokenizer, 64).ids.tolist() == whole


def test_a_byte_level_vocabulary_sees_words_as_in_a_text() -> None:
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(["the dog and the dog and the fox"] * 9, vocab_size=290)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer, unk_token="<unk>", pad_token="<pad>")
    rows = make_windows([["the", "dog", "and"]], None, WordTokenizer(tokenizer), 64)
    assert rows.ids.tolist() == tokenizer("the dog and")["input_ids"]
