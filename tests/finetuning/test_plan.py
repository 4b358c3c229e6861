"""Steps of a planned run."""

from types import SimpleNamespace

from electra.finetuning.encoding import Examples, encode
from electra.finetuning.plan import PlannedTask
from electra.finetuning.task import Split, TaskData
from tests.finetuning.test_trainer import make_options


def test_steps_of_a_run(framed_tokenizer):
    train = encode(Examples(["11 12 13 14"] * 70, None, [0, 1] * 35), framed_tokenizer, 16)
    data = TaskData({"train": Split(train, None, 70)})
    for batches in ({}, {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 4}):
        options = make_options(num_train_epochs=3.0, **batches)
        planned = PlannedTask(SimpleNamespace(name="cola"), options, {}, data, [42, 43])
        assert planned.steps == 9  # three epochs of 32, 32 and 6 rows
