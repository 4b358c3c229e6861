"""Whole runs of every objective: what is logged, evaluated, exported, resumed, and handed on to fine-tuning."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from electra.finetuning.encoder import load_encoder
from electra.model.joint import ElectraForJointPretraining
from electra.objectives import OBJECTIVES
from electra.pretraining.results import rows_of, training_names
from run_pretraining import main
from tests.pretraining.runs import assert_same_state, flags, history, write_corpus


@pytest.fixture(scope="module")
def run_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The run folder of an objective, trained once."""
    folder = tmp_path_factory.mktemp("objectives")
    write_corpus(folder / "corpus.txt")

    def run(objective: str) -> Path:
        run = folder / "output" / objective
        if not run.exists():
            sizes = {"generator_size": 1} if objective == "two_stage" else {}
            main(flags(folder, objective=objective, experiment_name=objective, **sizes))
        return run

    return run


@pytest.mark.parametrize("objective", [name for name in OBJECTIVES if name != "electra"])
def test_a_run_ends_with_metrics_and_networks_that_can_be_fine_tuned(
    run_of: Callable[[str], Path], objective: str
) -> None:
    run, spec = run_of(objective), OBJECTIVES[objective]
    assert (run / "generator").is_dir() == spec.has_generator
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["plan"]["objective"] == objective
    held_out = metrics["held_out"]
    assert list(held_out["trained"]) == [name for name, _ in rows_of(objective)]
    asked = {"generator_loss"} if spec.has_generator else set()
    asked |= {"mlm_loss"} if not spec.finds_replaced else set()
    assert asked <= set(held_out["frequencies"]) <= set(held_out["trained"])

    lines = history(run / "checkpoint-12")
    logged = {name for logs in lines if "eval_loss" not in logs for name in logs}
    assert logged - {"step", "epoch"} <= set(training_names(objective))
    last = [logs for logs in lines if "loss" in logs][-1]
    of_generator = ["adversarial_loss", "baseline_loss"] if spec.is_adversarial else ["generator_loss"]
    expected = sum(last.get(name, 0.0) for name in of_generator if not spec.has_stages)
    expected += spec.discriminator_weight * last[spec.loss_name]
    assert last["loss"] == pytest.approx(expected, rel=1e-4)
    assert ("replaced_rate" in last) == ("generator_loss" in last) == spec.has_generator

    before, after = (load_file(run / f"checkpoint-{step}" / "model.safetensors") for step in (4, 12))
    assert not [name for name in before if torch.equal(before[name], after[name])]  # no weight is left out
    trained = ElectraForJointPretraining.from_pretrained(run / "checkpoint-12").eval()
    for name in ("mlm_replacement_probability", "mlm_random_probability", "discriminator_weight"):
        assert getattr(trained.config, name) == getattr(spec, name)
    encoder = trained.discriminator.electra.state_dict()
    for source in (run, run / "checkpoint-12"):
        loaded = load_encoder(str(source)).model.state_dict()
        assert all(torch.equal(value, encoder[name]) for name, value in loaded.items())


def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(run_of: Callable[[str], Path]) -> None:
    whole = run_of("all_tokens_mlm")
    resumed = whole.with_name("resumed")
    shutil.copytree(whole / "checkpoint-4", resumed / "checkpoint-4")
    shutil.copy(whole / "config.yaml", resumed)  # it names the objective
    main([f"--resume_from_checkpoint={resumed / 'checkpoint-4'}"])
    assert_same_state(whole / "checkpoint-12", resumed / "checkpoint-12")
    metrics = [json.loads((run / "metrics.json").read_text())["held_out"] for run in (whole, resumed)]
    assert metrics[0]["trained"] == metrics[1]["trained"]
