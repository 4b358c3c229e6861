"""Questions with different numbers of choices in one batch: exact ids, logits, losses, nothing wasted."""

import pytest
import torch

from electra.finetuning.task import step_loss
from electra.tasks.multiple_choice.data import ChoiceQuestion
from electra.tasks.multiple_choice.task import NO_CHOICE, ChoiceCollator, ChoiceScorer, encode_choices
from tests.finetuning.encoders import tiny_electra


def question(first, choices, answer):
    """Return a question with a text and its choices."""
    return ChoiceQuestion("f line 1", first, choices, choices, answer)


@pytest.fixture
def rows(framed_tokenizer):
    """Questions of two and of three choices."""
    return encode_choices(
        [question("11", ["12", "13 14 15"], 1), question("16", ["17", "18", "19"], 2)], framed_tokenizer, 16
    )


@pytest.fixture
def model():
    """A scorer of choices with random weights."""
    torch.manual_seed(0)
    return ChoiceScorer(tiny_electra(), "google", 0.0).eval()


def test_each_choice_is_a_pair_and_only_tokens_are_padded(rows, framed_tokenizer):
    cls = framed_tokenizer.cls_token_id
    sep = framed_tokenizer.sep_token_id
    assert [len(row["choices"]) for row in rows] == [2, 3] and rows.lengths.tolist() == [2 * 7, 3 * 5]
    batch = ChoiceCollator(0)([rows[1], rows[0]])
    assert batch["choices"].tolist() == [[0, 1, 2], [3, 4, -1]] and batch["labels"].tolist() == [2, 1]
    assert batch["input_ids"].tolist() == [
        [cls, 16, sep, 17, sep, 0, 0], [cls, 16, sep, 18, sep, 0, 0], [cls, 16, sep, 19, sep, 0, 0],
        [cls, 11, sep, 12, sep, 0, 0], [cls, 11, sep, 13, 14, 15, sep],
    ]  # fmt: skip
    assert batch["token_type_ids"][4].tolist() == [0, 0, 0, 1, 1, 1, 1]
    unknown = encode_choices([question("11", ["12", "13"], None)], framed_tokenizer, 16)
    assert set(unknown[0]) == set(rows.without_labels()[0]) == {"choices"}


def test_a_question_has_the_same_logits_alone_and_beside_others(rows, model):
    unlabelled = rows.without_labels()
    collator = ChoiceCollator(0)
    logits = model(**collator([unlabelled[0], unlabelled[1]]))
    assert logits.shape == (2, 3) and logits[0, 2] == NO_CHOICE
    for row, count in ((0, 2), (1, 3)):
        assert torch.allclose(model(**collator([unlabelled[row]]))[0], logits[row, :count], atol=1e-5)


def test_the_loss_is_that_of_a_softmax_over_the_choices(rows, model):
    batch = ChoiceCollator(0)([rows[0], rows[1]])
    labels = batch.pop("labels")
    logits = model(**batch)
    expected = -(logits[0, :2].log_softmax(0)[1] + logits[1].log_softmax(0)[2]) / 2
    assert torch.allclose(step_loss(logits, labels), expected, atol=1e-6)
    step_loss(logits, labels).backward()
    gradient = model.encoder.encoder.layer[0].attention.self.query.weight.grad
    assert gradient is not None and bool(torch.isfinite(gradient).all()) and float(gradient.abs().sum()) > 0
