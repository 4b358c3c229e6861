"""What an evaluation will take: steps of a run, and a table that says so."""

from types import SimpleNamespace

import pytest

from electra.finetuning.encoding import Examples, encode
from electra.finetuning.plan import PlannedTask, plan_lines
from electra.finetuning.task import Split, TaskData
from tests.finetuning.test_trainer import make_options


@pytest.fixture
def planned(framed_tokenizer):
    """70 rows of 6 tokens to train on, 10 of 4 to develop on; two seeds are left."""
    train = encode(Examples(["11 12 13 14"] * 70, None, [0, 1] * 35), framed_tokenizer, 16)
    dev = encode(Examples(["11 12"] * 10, None, [0, 1] * 5), framed_tokenizer, 16)
    data = TaskData({"train": Split(train, None, 70), "dev": Split(dev, None, 10)})
    return PlannedTask(SimpleNamespace(name="cola"), make_options(num_train_epochs=3.0), {}, data, [42, 43], [])


def test_steps_of_a_run(planned):
    assert planned.steps == 9  # three epochs of 32, 32 and 6 rows
    options = make_options(num_train_epochs=3.0, per_device_train_batch_size=8, gradient_accumulation_steps=4)
    assert planned._replace(tuning=options).steps == 9


def test_the_table_says_what_is_to_be_done(planned):
    header, line = plan_lines([planned])
    assert len(header.split()) == len(line.split())
    assert line.split() == ["cola", "70", "10", "9", "3", "1.0e-03", "0.8", "16", "2"]
