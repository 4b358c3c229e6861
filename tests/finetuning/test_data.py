"""Examples to ids and batches: exact ids, truncation, padding."""

import numpy as np

from electra.finetuning.data import ColumnRows, Examples, PaddingCollator, both_orders, encode_examples


def test_single_texts_and_pairs_become_ids_with_their_types(framed_tokenizer):
    cls = framed_tokenizer.cls_token_id
    sep = framed_tokenizer.sep_token_id
    rows = encode_examples(Examples(["10 11", "12"], ["20", "21 22"], [1, 0]), framed_tokenizer, 16)
    assert rows[0]["input_ids"].tolist() == [cls, 10, 11, sep, 20, sep]
    assert rows[1]["input_ids"].tolist() == [cls, 12, sep, 21, 22, sep]
    assert rows[1]["token_type_ids"].tolist() == [0, 0, 0, 1, 1, 1]
    assert rows.lengths.tolist() == [6, 6]
    assert [rows[0]["labels"], rows[1]["labels"]] == [1, 0]
    single = encode_examples(Examples(["10 11", "12"]), framed_tokenizer, 16)
    assert single[1]["input_ids"].tolist() == [cls, 12, sep] and "labels" not in single[1]


def test_a_pair_is_cut_longest_first_and_always_the_same(framed_tokenizer):
    cls = framed_tokenizer.cls_token_id
    sep = framed_tokenizer.sep_token_id
    examples = Examples([" ".join(map(str, range(10, 30))), "10 11"], ["50 51", " ".join(map(str, range(50, 70)))])
    rows = encode_examples(examples, framed_tokenizer, 10)
    assert rows[0]["input_ids"].tolist() == [cls, 10, 11, 12, 13, 14, sep, 50, 51, sep]
    assert rows[1]["input_ids"].tolist() == [cls, 10, 11, sep, 50, 51, 52, 53, 54, sep]


def test_many_batches_of_texts_keep_their_order(framed_tokenizer):
    """4500 texts are three calls of the tokenizer, the second from text 2000 on; ids from 5 on are texts."""
    rows = encode_examples(Examples([str(5 + place % 5000) for place in range(4500)]), framed_tokenizer, 8)
    assert len(rows) == 4500
    assert [int(rows[place]["input_ids"][1]) for place in (0, 1999, 2000, 4499)] == [5, 2004, 2005, 4504]


def test_rows_are_padded_to_the_longest_of_their_batch(framed_tokenizer):
    rows = encode_examples(Examples(["10 11 12", "13"], ["20", "21"], [1, 0]), framed_tokenizer, 16)
    batch = PaddingCollator(pad_token_id=9)([rows[1], rows[0]])
    cls = framed_tokenizer.cls_token_id
    sep = framed_tokenizer.sep_token_id
    assert {name: values.tolist() for name, values in batch.items()} == {
        "input_ids": [[cls, 13, sep, 21, sep, 9, 9], [cls, 10, 11, 12, sep, 20, sep]],
        "token_type_ids": [[0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 0, 1, 1]],
        "attention_mask": [[1, 1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1, 1]],
        "labels": [0, 1],
    }
    targets = encode_examples(Examples(["10", "11"], None, [0.0, 0.25]), framed_tokenizer, 8)
    assert PaddingCollator(0)([targets[0], targets[1]])["labels"].tolist() == [0.0, 0.25]  # of a regression
    assert targets.columns["labels"].dtype == np.float32 and rows.columns["labels"].dtype == np.int64


def test_labels_and_places_of_answers_are_not_shown_to_a_model_that_is_evaluated():
    columns = {"input_ids": [[1]], "labels": [0], "start_positions": [2], "token_type_ids": [[0]]}
    rows = ColumnRows(columns, np.ones(1, np.int64))
    assert rows.without_labels().columns.keys() == {"input_ids", "token_type_ids"}


def test_both_orders_are_every_pair_twice_with_its_label():
    doubled = both_orders(Examples(["a", "b"], ["c", "d"], [1, 0]))
    assert doubled == Examples(["a", "b", "c", "d"], ["c", "d", "a", "b"], [1, 0, 1, 0])
