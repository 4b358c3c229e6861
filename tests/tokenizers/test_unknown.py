"""Unknown tokens are counted without special tokens; users are warned of many, in all commands that read text."""

import copy

import numpy as np
from transformers import ElectraForSequenceClassification

from electra.finetuning.data import ColumnRows
from electra.finetuning.predict import predict
from electra.finetuning.row_checks import ids_of_rows
from electra.tokenizers.unknown import ENGLISH, UnknownTokens
from tests.finetuning.encoders import tiny_electra
from tests.helpers import parametrize


def test_unknown_tokens_are_counted_without_special_ones(wordpiece_tokenizer):
    cls, sep, unknown = (getattr(wordpiece_tokenizer, f"{name}_token_id") for name in ("cls", "sep", "unk"))
    fox = wordpiece_tokenizer("fox", add_special_tokens=False)["input_ids"]
    counts = UnknownTokens()
    counts.add([[], [cls, unknown, unknown, sep], [cls, *fox, unknown, sep], [cls, sep]], wordpiece_tokenizer)
    counts.add([], wordpiece_tokenizer)
    counts.add(np.array([[unknown, unknown]]), wordpiece_tokenizer)
    assert counts == UnknownTokens(tokens=5 + len(fox), unknown=5, rows=5, unreadable=2)
    assert counts.share == 5 / (5 + len(fox))


def test_a_tokenizer_without_an_unknown_token_knows_all():
    class Bytes:
        unk_token_id = None
        all_special_ids = (0,)
        init_kwargs = {}

    counts = UnknownTokens()
    counts.add([[0, 1, 2]], Bytes())
    assert counts == UnknownTokens(tokens=2, rows=1)


def test_the_share_is_0_without_tokens_and_1_if_all_are_unknown():
    assert UnknownTokens().share == 0
    assert UnknownTokens(tokens=1, unknown=1).share == 1


def test_more_unknown_tokens_than_five_in_a_hundred_are_warned_of(caplog):
    UnknownTokens(tokens=100, unknown=5, rows=40, unreadable=3).warn("new.csv")
    assert not caplog.messages
    UnknownTokens(tokens=100, unknown=6, rows=40, unreadable=3).warn("new.csv")
    assert all(fact in caplog.text for fact in ("new.csv", "6.0%", "3 of 40"))


@parametrize(("language", "words", "is_warned_of"), [("en", 6, False), ("en", 5, True), (None, 0, False)])
def test_other_text_for_an_english_network_is_warned_of(wordpiece_tokenizer, caplog, language, words, is_warned_of):
    """English has at least 6 of 100 tokens among a few frequent words, such as "the"."""
    tokenizer = copy.deepcopy(wordpiece_tokenizer)
    tokenizer.add_tokens(ENGLISH.split())
    tokenizer.init_kwargs["language"] = language
    the, fox = tokenizer.convert_tokens_to_ids(["the", "fox"])
    counts = UnknownTokens()
    counts.add([[the] * words + [fox] * (100 - words)], tokenizer)
    counts.warn("new.csv")
    assert ("new.csv" in caplog.text) == is_warned_of


def test_a_text_of_fewer_than_30_tokens_is_not_said_to_be_another_language(caplog):
    UnknownTokens(tokens=29, english=0).warn("new.csv")
    assert not caplog.messages
    UnknownTokens(tokens=30, english=0).warn("new.csv")
    assert "English" in caplog.text


def test_the_ids_of_choices_are_those_of_their_pairs():
    choices = [[{"input_ids": [1]}, {"input_ids": [2, 3]}], [{"input_ids": [4]}]]
    assert ids_of_rows(ColumnRows({"choices": choices}, np.array([2, 1]))) == [[1], [2, 3], [4]]


def test_rows_that_a_saved_model_cannot_read_are_warned_of(glue_tokenizer, caplog):
    model = ElectraForSequenceClassification(tiny_electra(vocab_size=200).config)
    assert len(predict(model, ["\u03b1\u03b2", "\u03b3"], glue_tokenizer)) == 2
    assert "100.0% unknown tokens (2 of 2" in caplog.text
