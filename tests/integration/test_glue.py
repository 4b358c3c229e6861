"""run_glue.py as a user runs it: from pre-training to a score, and on two processes."""

import numpy as np
import pytest
from pytest import approx

from electra.finetuning.heads import load_encoder
from electra.pretraining.run import main as pretrain
from electra.report.results import read_results
from electra.tasks.glue.task import main as glue
from tests.helpers import exit_codes, fork, fork_ranks, wait_for
from tests.pretraining.runs import FAST, write_corpus
from tests.pretraining.runs import flags as pretraining_flags
from tests.tasks.glue.files import flags, write_encoder, write_glue

pytestmark = pytest.mark.slow


def test_a_run_is_pretrained_and_then_scored(tmp_path, monkeypatch):
    write_corpus(tmp_path / "corpus.txt")
    pretrain(pretraining_flags(tmp_path, **FAST, max_steps=4))
    write_glue(tmp_path / "glue", "CoLA")
    options = {"pretrain_path": "output/run", "experiment_name": "glue", "tasks": ["cola"], "num_seeds": 1}
    monkeypatch.chdir(tmp_path)
    glue(flags(tmp_path, **options))
    (result,) = read_results(tmp_path / "output" / "glue" / "results.jsonl")
    encoder = load_encoder(str(tmp_path / "output" / "run" / "discriminator")).model
    assert encoder.num_parameters() == result.parameters  # so it is the discriminator, not the generator


def test_two_processes_give_the_results_of_one(tmp_path, glue_tokenizer):
    write_encoder(tmp_path / "encoder", glue_tokenizer, dropout=0.0)
    write_glue(tmp_path / "glue", "MNLI")
    options = {"tasks": ["mnli"], "num_seeds": 1, "use_cpu": True, "head_dropout": 0, "learning_rate": 1e-2}
    options["bf16"] = False  # rounding in bf16 exceeds the tolerance below
    argv = flags(tmp_path, experiment_name="two", **{**options, "per_device_train_batch_size": 4})
    ranks = fork_ranks(glue, argv, folder=tmp_path)
    assert exit_codes(ranks) == [0, 0], ranks[0].log.read_text()
    assert [rank.log.read_text().count("mnli seed 42:") for rank in ranks] == [1, 0]
    assert [
        result.settings["processes"] for result in read_results(tmp_path / "output" / "two" / "results.jsonl")
    ] == [2]
    glue(flags(tmp_path, experiment_name="one", **{**options, "per_device_train_batch_size": 8}))
    expected, logits = (np.load(tmp_path / "output" / name / "predictions" / "mnli-42.npz") for name in ("one", "two"))
    assert {"dev", "dev_mismatched"} <= {*expected.files}
    for split in expected.files:
        assert logits[split] == approx(expected[split], abs=1e-4)


def test_commands_share_a_folder_and_one_may_be_killed(tmp_path, glue_tokenizer):
    write_encoder(tmp_path / "encoder", glue_tokenizer)
    write_glue(tmp_path / "glue", "CoLA", "RTE")
    options = {
        "tasks": ["cola", "rte"],
        "num_seeds": 3,
        "use_cpu": True,
        "bf16": False,
        "save_model": True,
        "head": "hf",
    }
    argv = flags(tmp_path, experiment_name="shared", **options)
    folder = tmp_path / "output" / "shared"
    killed, *others = (fork(glue, argv, log=tmp_path / f"{number}.log") for number in range(3))
    wait_for(lambda: any(folder.glob("predictions/*.npz")), killed, *others)
    killed.kill()
    assert exit_codes(others) == [0, 0]
    glue(argv)  # makes what the killed command had begun, if no other did
    glue(flags(tmp_path, experiment_name="single", **options))
    shared, single = (read_results(tmp_path / "output" / name / "results.jsonl") for name in ("shared", "single"))
    assert sorted(shared, key=lambda result: (result.task, result.seed)) == single
    for name in ("report.md", "models/cola/model.safetensors", "models/rte/model.safetensors"):
        ours = (folder / name).read_bytes().replace(b"shared", b"single")
        assert ours == (tmp_path / "output" / "single" / name).read_bytes()
