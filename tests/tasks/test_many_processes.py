"""Fine-tuning on two processes gives the results of one, for every kind of task: each row counts once per epoch."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

from electra.tasks.classify.task import main as classify
from electra.tasks.glue.task import main as glue
from electra.tasks.multiple_choice.task import main as choose
from electra.tasks.squad.task import main as squad
from electra.tasks.tagging.task import main as tag
from tests.helpers import exit_codes, fork_ranks, parametrize
from tests.tasks.classify.files import reviews_flags, topics_flags
from tests.tasks.glue.files import flags as glue_flags
from tests.tasks.multiple_choice.files import flags as choice_flags
from tests.tasks.squad.files import flags as squad_flags
from tests.tasks.tagging.files import flags as tagging_flags

pytestmark = pytest.mark.slow

SAME = {"num_seeds": 1, "learning_rate": 1e-2, "use_cpu": True, "bf16": False, "head_dropout": 0}


# Batches of one process, and micro-batches, such that the last step has no row for the second process, or less for it.
@parametrize(
    ("command", "flags", "options", "batch", "parts", "rows"),
    [
        (glue, glue_flags, {"tasks": ["cola"]}, 11, 1, 24),
        (glue, glue_flags, {"tasks": ["stsb"]}, 23, 1, 48),
        (classify, topics_flags, {}, 23, 1, 48),
        (classify, reviews_flags, {"class_weights": "balanced"}, 3, 3, 48),
        (tag, tagging_flags, {}, 25, 1, 102),
        (squad, squad_flags, {"head": "joint"}, 15, 1, 62),
        (squad, squad_flags, {"head": "hf"}, 2, 4, 62),
        (choose, choice_flags, {}, 26, 1, 80),
    ],
)
def test_two_processes_give_the_results_of_one(
    command, flags, options, batch, parts, rows, folder, tmp_path, monkeypatch
):
    # A bias that moves all logits alike has no gradient but rounding, of about 2e-8. Adam divides a gradient by its
    # size plus epsilon: with 1e-3, rounding moves this bias by less than 2e-7 a step, with 1e-6 by 2e-4.
    monkeypatch.setattr("electra.finetuning.trainer.ADAM_EPSILON", 1e-3)

    def argv(name, processes):
        sizes = {"per_device_train_batch_size": 2 // processes * batch, "gradient_accumulation_steps": parts}
        paths = {"pretrain_path": folder / "encoder", "output_dir": tmp_path, "experiment_name": name}
        return flags(folder, **{**SAME, **options, **sizes, **paths})

    ranks = fork_ranks(command, argv("two", 2), folder=tmp_path)
    assert exit_codes(ranks) == [0, 0], "".join(rank.log.read_text() for rank in ranks)
    command(argv("one", 1))
    (file_of_one,), (file_of_two,) = ([*(tmp_path / name / "predictions").glob("*.npz")] for name in ("one", "two"))
    logits_of_one = np.load(file_of_one)
    logits_of_two = np.load(file_of_two)
    for split in logits_of_one.files:
        assert_allclose(logits_of_two[split], logits_of_one[split], rtol=1e-5, atol=1e-5)
    planned = re.search(r" (\d+) rows, (\d+) steps", ranks[0].log.read_text())
    assert [*map(int, planned.groups())] == [rows, -(-rows // (2 * batch * parts))]
