"""Whole runs of every objective: what is logged, evaluated, exported, resumed, and handed on to fine-tuning."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from electra.errors import UserError
from electra.finetuning.encoder import load_encoder
from electra.model.joint import ElectraForJointPretraining
from electra.objectives import OBJECTIVES
from electra.pretraining.options import parse_arguments
from electra.pretraining.results import rows_of
from run_pretraining import main
from tests.pretraining.runs import assert_same_state, flags, history, make, write_corpus

OTHERS = [name for name in OBJECTIVES if name != "electra"]
SIZES: dict[str, dict[str, object]] = {"two_stage": {"generator_size": 1}}
"""Of objectives that ask for certain ones."""


@pytest.mark.parametrize("objective", OTHERS)
def test_a_run_ends_with_metrics_and_networks_that_can_be_fine_tuned(
    folder: Path, objective: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(flags(folder, objective=objective, **SIZES.get(objective, {})))
    run, has = folder / "output" / "run", OBJECTIVES[objective]
    assert (run / "generator").is_dir() == has.has_generator
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["plan"]["objective"] == objective
    assert list(metrics["held_out"]["trained"]) == [name for name, _ in rows_of(objective)]
    asked = {"generator_loss"} if has.has_generator else set()
    asked |= {"mlm_loss"} if not has.finds_replaced else set()
    assert asked <= set(metrics["held_out"]["frequencies"]) <= set(metrics["held_out"]["trained"])
    last = [logs for logs in history(run / "checkpoint-12") if "loss" in logs][-1]
    of_generator = ["adversarial_loss", "baseline_loss"] if has.is_adversarial else ["generator_loss"]
    expected = sum(last.get(name, 0.0) for name in of_generator if not has.has_stages)
    expected += has.discriminator_weight * last[has.loss_name]
    assert last["loss"] == pytest.approx(expected, rel=1e-4)
    assert ("replaced_rate" in last) == ("generator_loss" in last) == has.has_generator
    lines = capsys.readouterr().out
    assert rows_of(objective)[-1][1] in lines
    assert ("\ngenerator " in lines) == has.has_generator
    assert ("discriminator " in lines) == has.finds_replaced
    assert f"objective: {objective}" in (run / "config.yaml").read_text()

    # What run_glue.py starts from, from the run and from the checkpoint: the main network's encoder.
    trained = ElectraForJointPretraining.from_pretrained(run / "checkpoint-12").eval()
    for name in ("mlm_replacement_probability", "mlm_random_probability", "discriminator_weight"):
        assert getattr(trained.config, name) == getattr(has, name)
    inputs = {"input_ids": torch.randint(5, 100, (3, 9), generator=torch.Generator().manual_seed(0))}
    with torch.no_grad():
        hidden = trained.discriminator.electra(**inputs).last_hidden_state
        for source in (run, run / "checkpoint-12"):
            encoder = load_encoder(str(source)).model.eval()
            torch.testing.assert_close(encoder(**inputs).last_hidden_state, hidden, atol=1e-6, rtol=0)


@pytest.mark.parametrize("objective", ["mlm", "all_tokens_mlm"])
def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(folder: Path, objective: str) -> None:
    main(flags(folder, experiment_name="whole", objective=objective))
    whole, resumed = folder / "output" / "whole", folder / "output" / "resumed"
    resumed.mkdir()
    (whole / "checkpoint-4").rename(resumed / "checkpoint-4")
    (resumed / "config.yaml").write_bytes((whole / "config.yaml").read_bytes())  # it says which objective
    main(flags(folder, resume_from_checkpoint=resumed / "checkpoint-4", generator_size=None))
    assert_same_state(whole / "checkpoint-12", resumed / "checkpoint-12")
    metrics = [json.loads((run / "metrics.json").read_text())["held_out"] for run in (whole, resumed)]
    assert metrics[0]["trained"] == metrics[1]["trained"]
    with pytest.raises(UserError, match=f"--objective {objective}.* electra"):
        main(flags(folder, resume_from_checkpoint=resumed / "checkpoint-4", objective="electra"))


@pytest.mark.parametrize("objective", OTHERS)
def test_training_learns_and_no_part_of_the_model_is_left_out(folder: Path, objective: str) -> None:
    options = {"max_steps": 60, "learning_rate": 3e-3, "logging_steps": 20, "eval_strategy": "no"}
    trainer = make(folder, objective=objective, **options, **SIZES.get(objective, {}))
    before = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    trainer.train()
    losses = [logs["loss"] for logs in trainer.state.log_history if "loss" in logs]
    assert losses[-1] < losses[0]
    assert {name for name, p in trainer.model.named_parameters() if torch.equal(p, before[name])} == set()


@pytest.mark.parametrize("objective", OTHERS)
def test_held_out_metrics_do_not_depend_on_the_batch_size(folder: Path, objective: str) -> None:
    write_corpus(folder / "held_out.txt", documents=12, words=11, seed=5)  # rows of many lengths, hence padding
    results: list[dict[str, float]] = []
    for size in (1, 20):
        options = {"per_device_eval_batch_size": size, "validation_file": folder / "held_out.txt"}
        trainer = make(folder, objective=objective, **options, **SIZES.get(objective, {}))
        metrics: dict[str, Any] = trainer.evaluate()
        results.append({name: metrics[f"eval_{name}"] for name in ("loss", *(row for row, _ in rows_of(objective)))})
    assert results[1] == pytest.approx(results[0], abs=1e-5, nan_ok=True)
    assert not math.isnan(results[0]["loss"])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (0.85, 0.0, 50.0)),
        ({"objective": "electra_15"}, (0.85, 0.0, 50.0)),
        ({"objective": "mlm"}, (0.8, 0.1, 1.0)),
        ({"objective": "mlm", "mlm_replacement_probability": 1.0, "mlm_random_probability": 0}, (1.0, 0.0, 1.0)),
        ({"objective": "replace_mlm"}, (0.85, 0.0, 1.0)),
        ({"objective": "all_tokens_mlm", "discriminator_weight": 7}, (0.85, 0.0, 7.0)),
        ({"objective": "electra", "mlm_random_probability": 0.15}, (0.85, 0.15, 50.0)),
        ({"objective": "mlm", "model_size": "base"}, (0.8, 0.1, 1.0)),
    ],
    ids=str,
)
def test_what_is_not_set_is_the_objectives(
    folder: Path, options: dict[str, object], expected: tuple[float, float, float]
) -> None:
    args = parse_arguments(flags(folder, **options))
    assert args.objective.corruption_and_weight() == expected
    assert args.effective["objective"] == options.get("objective", "electra")
    # A run's own configuration under another objective: what was not set follows that one.
    assert ("mlm_replacement_probability" in args.effective) == ("mlm_replacement_probability" in options)
