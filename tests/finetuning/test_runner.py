"""What an evaluation will take: steps and tokens of a run, and a table that says so."""

import pytest
from pytest import approx

from electra.finetuning.encoding import Examples, encode
from electra.finetuning.runner import PlannedTask, plan_lines
from electra.finetuning.task import TaskRows
from tests.finetuning.test_trainer import make_options


@pytest.fixture
def planned(framed_tokenizer):
    """70 rows of 6 tokens to train on, 10 of 4 to develop on; two seeds are left."""
    train = encode(Examples(["11 12 13 14"] * 70, None, [0, 1] * 35), framed_tokenizer, 16)
    dev = encode(Examples(["11 12"] * 10, None, [0, 1] * 5), framed_tokenizer, 16)
    return PlannedTask("cola", make_options(num_train_epochs=3.0), {}, TaskRows(train, {"dev": dev}, {}, {}), [42, 43])


def test_steps_and_tokens_of_a_run(planned):
    assert planned.steps == 9  # three epochs of 32, 32 and 6 rows
    assert planned.tokens == approx(3 * 420 + 40 / 3)  # predicting a token costs a third of training on it
    best = planned._replace(tuning=make_options(num_train_epochs=3.0, select="best"))
    assert best.tokens == approx(3 * 420 + 3 * 40 / 3)
    options = make_options(num_train_epochs=3.0, per_device_train_batch_size=8, gradient_accumulation_steps=4)
    assert planned._replace(tuning=options).steps == 9


def test_the_table_says_what_is_to_be_done(planned):
    header, line, total = plan_lines([planned], done=1)
    assert len(header.split()) == len(line.split())
    assert line.split() == ["cola", "70", "10", "9", "3", "1.0e-03", "0.8", "16", "2"]
    assert all(word in total for word in ("2 runs", "1 more"))
