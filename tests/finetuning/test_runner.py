"""Steps of a planned run, and the lines that tell of them."""

import json
import re
from types import SimpleNamespace

import pytest
from accelerate import PartialState

from electra.finetuning import runner as module
from electra.finetuning.data import Examples, encode_examples
from electra.finetuning.runner import PlannedTask, Progress, auc_before_start
from electra.finetuning.task import Split, TaskData
from electra.report.runs import HAS_LEARNED
from electra.report.verdict import NOT_STARTED
from tests.finetuning.test_trainer import make_options, run
from tests.helpers import exit_codes, fork_ranks, parametrize

CASES = [
    ({"num_train_epochs": 3.0}, 9),  # steps of an epoch: 32, 32 and 6 rows
    ({"num_train_epochs": 3.0, "per_device_train_batch_size": 8, "gradient_accumulation_steps": 4}, 9),
    ({"num_train_epochs": 0.1}, 1),
    ({"num_train_epochs": 1.5}, 5),
]
"""Options of a run on `rows`, and its steps."""


@pytest.fixture(scope="module")
def rows(framed_tokenizer):
    """70 rows with two classes."""
    return encode_examples(Examples(["11 12 13 14"] * 70, None, [0, 1] * 35), framed_tokenizer, 16)


def planned_steps(rows, options):
    """Return the steps of each run of a plan with two seeds."""
    data = TaskData({"train": Split(rows, None, len(rows))})
    return PlannedTask(SimpleNamespace(name="cola"), make_options(**options), {}, data, [42, 43]).steps


def train(rows, options, folder):
    """Print the steps that are planned, and those that a run makes."""
    PartialState(cpu=True)
    print("planned", planned_steps(rows, options))
    print("made", run(rows, folder, **options).trainer.state.global_step)


@parametrize(("options", "steps"), CASES)
def test_a_run_makes_the_steps_that_are_planned(rows, options, steps, tmp_path):
    assert planned_steps(rows, options) == steps
    assert run(rows, tmp_path, **options).trainer.state.global_step == steps


@pytest.mark.slow
@parametrize(("batch", "steps"), [(16, 8), (32, 5), (64, 3)])  # 70 rows in 3, 2 and 1 steps of an epoch
def test_a_run_on_two_processes_makes_the_steps_that_are_planned(rows, batch, steps, tmp_path):
    options = {"num_train_epochs": 2.5, "per_device_train_batch_size": batch}
    ranks = fork_ranks(train, rows, options, tmp_path, folder=tmp_path)
    assert exit_codes(ranks) == [0, 0]
    for rank in ranks:
        assert re.findall(r"(planned|made) (\d+)", rank.log.read_text()) == [
            ("planned", f"{steps}"),
            ("made", f"{steps}"),
        ]


def test_a_run_says_how_long_it_takes_and_where_it_is(rows, tmp_path, caplog, monkeypatch):
    caplog.set_level("INFO")
    monkeypatch.setattr(module, "LINE_SECONDS", -1.0)
    progress = Progress(24, is_shown=True)
    for seed in (42, 43):
        progress.begin(SimpleNamespace(task=SimpleNamespace(name="cola")), seed)
        run(rows, tmp_path, callbacks=[progress], num_train_epochs=4.0)  # 12 steps
    # No line at the first step of a run; the tenth of the first run says how long each takes.
    lines = [line.split(":")[0] for line in caplog.messages if line.startswith("cola")]
    assert lines == [*["cola seed 42"] * 8, "cola", *["cola seed 42"] * 2, *["cola seed 43"] * 11]


def test_a_network_that_has_not_started_to_learn_is_known_by_its_run(tmp_path):
    held_out = {"trained": {"discriminator_auc": 0.55214}}
    for name, verdict, expected in (
        ("late", "the discriminator has not started to learn yet", {NOT_STARTED: 0.5521}),
        ("ready", f"the discriminator {HAS_LEARNED}", {}),
        ("foreign", None, {}),
    ):
        run_folder = tmp_path / name
        (run_folder / "discriminator").mkdir(parents=True)
        (run_folder / "metrics.json").write_text(json.dumps({"held_out": held_out, "verdict": verdict}))
        assert auc_before_start(str(run_folder)) == auc_before_start(str(run_folder / "discriminator")) == expected
        (run_folder / "generator").mkdir()
        assert auc_before_start(str(run_folder / "generator")) == {}
    (run_folder / "metrics.json").unlink()
    for network in (str(run_folder), "google/electra-small-discriminator", None):
        assert auc_before_start(network) == {}
