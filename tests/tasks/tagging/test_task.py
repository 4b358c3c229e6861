"""The adapter of tagging without training: schemes, windows, the loss of a step.

Words as tokens: exact rows of hand-made sentences, windows of long ones, the head, predictions back to words.
"""

import numpy as np
import torch
from tokenizers import ByteLevelBPETokenizer
from torch.nn.functional import cross_entropy
from torch.testing import assert_close
from transformers import PreTrainedTokenizerFast

from electra.finetuning.config import resolve
from electra.finetuning.encoding import PaddingCollator, cut_windows
from electra.finetuning.evaluation import open_evaluation
from electra.finetuning.runner import open_encoder
from electra.tasks.tagging.command import parse_arguments
from electra.tasks.tagging.task import EncoderWithTagger, Tagging, make_windows
from tests.finetuning.test_heads import make_encoder
from tests.tasks.tagging.files import flags

CLS, SEP = 2, 3
"""Ids of the framed tokenizer, in which other ids are their own text."""


def test_options_reach_labels_and_windows(files, tmp_path):
    for scheme, prefixes in (("auto", "BI"), ("bioes", "BIES")):
        options = {"scheme": scheme, "max_length": 8, "experiment_name": scheme, "output_dir": tmp_path}
        args = parse_arguments(flags(files, **options))
        task = Tagging(args, open_encoder(args), open_evaluation(args, "x"))
        rows = task.load(["names"], {"names": resolve(args, "names", task.encoder)})["names"]
        assert rows.labels == ["O", *(f"{prefix}-{kind}" for kind in ("LOC", "PER") for prefix in prefixes)]
        assert rows.train.lengths.max() == 8 and rows.examples == {"train": 100, "dev": 12} and not rows.test
        tags = list(rows.labels or ())
        used = {tags[label] for row in rows.train for label in row["labels"]}
        assert used == {tag for tag in tags if scheme == "auto" or tag[0] != "I"}  # names have at most two words
    logits, labels = torch.randn(2, 3, 5), torch.tensor([[1, 2, -100], [0, -100, -100]])
    mean = cross_entropy(torch.stack([logits[0, 0], logits[0, 1], logits[1, 0]]), torch.tensor([1, 2, 0]))
    assert_close(task.loss(logits, labels, None), mean)
    assert_close(task.loss(logits, labels, 6), mean / 2)


def test_a_word_is_labelled_at_its_first_token(framed_tokenizer):
    rows = make_windows([["11", "12 13 14", "15"], ["16"]], [[1, 2, 3], [4]], framed_tokenizer, 16)
    assert rows.lengths.tolist() == [7, 3]
    batch = PaddingCollator(9)([rows[0], rows[1]])
    assert {name: values.tolist() for name, values in batch.items()} == {
        "input_ids": [[CLS, 11, 12, 13, 14, 15, SEP], [CLS, 16, SEP, 9, 9, 9, 9]],
        "attention_mask": [[1] * 7, [1] * 3 + [0] * 4],
        "positions": [[1, 2, 5], [1, 0, 0]],
        "labels": [[1, 2, 3], [4, -100, -100]],
    }
    assert set(PaddingCollator(0)([rows.without_labels()[0]])) == {"input_ids", "attention_mask", "positions"}


def test_the_last_full_window_ends_with_the_text():
    cases = {(8, 8): [0], (9, 8): [0, 1], (20, 8): [0, 4, 8, 12], (18, 8): [0, 4, 8, 10], (3, 1): [0, 1, 2]}
    for (length, size), starts in cases.items():
        windows = cut_windows(length, size, max(1, size // 2), is_last_full=True)
        assert windows.tolist() == [[start, start + size] for start in starts]


def test_a_long_sentence_has_each_word_where_it_has_most_context(framed_tokenizer):
    sentence = [str(100 + i) for i in range(18)]  # windows begin at 0, 4, 8 and, to be as long as the others, 10
    rows = make_windows([["11"], sentence, ["12"]], [[0], list(range(18)), [0]], framed_tokenizer, 10)
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
        rows = make_windows(sentences, labels, framed_tokenizer, int(source.integers(4, 20)))
        assert rows.lengths.max() <= 20 and all(len(row["labels"]) for row in rows)
        predicted = np.full((len(rows), 12), -1)
        for row, values in zip(rows, predicted, strict=True):
            values[: len(row["labels"])] = row["labels"]
        assert rows.predictions(predicted) == labels


def test_a_word_without_a_token_is_unknown_and_keeps_its_label(wordpiece_tokenizer):
    row = make_windows([["the", "\u200b", "dog"]], [[1, 2, 3]], wordpiece_tokenizer, 32)[0]
    assert row["labels"].tolist() == [1, 2, 3]
    assert row["input_ids"][row["positions"][1]] == wordpiece_tokenizer.unk_token_id


def test_a_byte_level_tokenizer_reads_words_as_in_a_text():
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(["the dog and the dog and the fox"] * 9, vocab_size=290)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer, unk_token="<unk>", pad_token="<pad>")
    rows = make_windows([["the", "dog", "and"]], None, tokenizer, 64)
    assert rows[0]["input_ids"].tolist() == tokenizer("the dog and")["input_ids"]


def test_the_head_reads_the_words_first_tokens_in_float32():
    tagger = EncoderWithTagger(make_encoder(), 3, 0.25).eval()
    assert {layer.p for layer in tagger.head.modules() if isinstance(layer, torch.nn.Dropout)} == {0.25}
    ids, positions = torch.tensor([[2, 11, 12, 13, 3], [2, 14, 3, 0, 0]]), torch.tensor([[1, 3], [1, 0]])
    mask = (ids > 0).long()
    with torch.autocast("cpu", torch.bfloat16):
        logits = tagger(ids, mask, positions)
        hidden = tagger.encoder(input_ids=ids, attention_mask=mask)[0].float()
    layer = tagger.head.model.classifier
    assert_close(logits[0], layer(hidden[0, [1, 3]]), rtol=1e-6, atol=1e-6)
    assert_close(logits[1, 0], layer(hidden[1, 1]), rtol=1e-6, atol=1e-6)
