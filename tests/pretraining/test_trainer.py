"""The trainer's hooks: losses and their log, optimizer and schedule, evaluation that disturbs nothing."""

import math
from pathlib import Path

import pytest
import torch

from electra.optimization import AdamWNoBiasCorrection
from electra.pretraining.results import ROWS
from run_pretraining import main
from tests.pretraining.runs import assert_same_state, flags, history, make, write_corpus


def test_evaluation_is_the_same_each_time_and_leaves_the_random_state_alone(folder: Path) -> None:
    trainer = make(folder)
    state = torch.get_rng_state()
    first, second = trainer.evaluate(), trainer.evaluate()
    timing = ("eval_runtime", "eval_samples_per_second", "eval_steps_per_second", "eval_model_preparation_time")
    assert {k: v for k, v in first.items() if k not in timing} == {k: v for k, v in second.items() if k not in timing}
    assert torch.equal(torch.get_rng_state(), state)


def test_held_out_metrics_do_not_depend_on_the_batch_size(folder: Path) -> None:
    """Masks and samples belong to the segment, so the same questions are asked whatever it is batched with."""
    write_corpus(folder / "held_out.txt", documents=12, words=11, seed=5)  # rows of many lengths, hence padding
    results = []
    for batch_size in (1, 7, 20):
        trainer = make(folder, per_device_eval_batch_size=batch_size, validation_file=folder / "held_out.txt")
        metrics = trainer.evaluate()
        results.append({name: metrics[f"eval_{name}"] for name in ("tokens", *(row for row, _ in ROWS))})
    assert results[1] == pytest.approx(results[0], abs=1e-5, nan_ok=True)
    assert results[2] == pytest.approx(results[0], abs=1e-5, nan_ok=True)


def test_logged_losses_are_averages_over_the_window_and_evaluating_changes_no_weight(folder: Path) -> None:
    main(flags(folder, experiment_name="each", logging_steps=1, eval_steps=1, dataloader_num_workers=1))
    main(flags(folder, experiment_name="four", logging_steps=4, eval_steps=12))
    newest = [folder / "output" / name / "checkpoint-12" for name in ("each", "four")]
    assert_same_state(*newest)
    each, four = ([logs for logs in history(checkpoint) if "loss" in logs] for checkpoint in newest)
    for window, logs in enumerate(four):
        steps = each[4 * window : 4 * window + 4]
        for name in ("loss", "generator_loss", "discriminator_loss", "replaced_rate"):
            assert logs[name] == pytest.approx(sum(s[name] for s in steps) / 4, rel=1e-5)
        assert logs["loss"] == pytest.approx(logs["generator_loss"] + 50 * logs["discriminator_loss"], rel=1e-5)
        assert logs["tokens_seen"] == steps[-1]["tokens_seen"] == (window + 1) * 4 * 4 * 16
        assert logs["tokens_per_second"] > 0 and logs["eta_seconds"] >= 0
    assert four[-1]["eta_seconds"] == 0 and four[-1]["epoch"] == each[-1]["epoch"] > 0


@pytest.mark.parametrize("words", [6, 40], ids=["padded", "full"])
def test_accumulation_changes_neither_loss_nor_gradient(tmp_path: Path, words: int) -> None:
    """Without care Trainer would multiply both by the number of accumulation steps, and weigh short rows more."""
    folder, logs = tmp_path, {}
    write_corpus(folder / "corpus.txt", documents=60, words=words)
    for name, size, accumulation in (("one", 8, 1), ("four", 2, 4)):
        trainer = make(
            folder,
            experiment_name=name,
            per_device_train_batch_size=size,
            gradient_accumulation_steps=accumulation,
            max_steps=1,
            logging_steps=1,
            eval_strategy="no",
            hidden_dropout_prob=0,
            attention_probs_dropout_prob=0,
        )
        trainer.train_dataset = torch.utils.data.Subset(trainer.eval_dataset, range(8))  # it brings its masks along
        trainer.args.eval_on_start = False
        assert ("attention_mask" in trainer.data_collator(trainer.eval_dataset.__getitems__(range(8)))) == (words == 6)
        torch.manual_seed(0)
        trainer.train()
        logs[name] = next(entry for entry in trainer.state.log_history if "loss" in entry)
    for metric in ("loss", "generator_loss", "discriminator_loss", "replaced_rate"):
        assert logs["four"][metric] == pytest.approx(logs["one"][metric], rel=1e-5)
    assert logs["four"]["grad_norm"] == pytest.approx(logs["one"]["grad_norm"], rel=1e-4)


def test_biases_and_layer_norms_do_not_decay_and_shared_weights_are_optimized_once(folder: Path) -> None:
    trainer = make(folder, weight_decay=0.01)
    optimizer = trainer.create_optimizer()
    name_of = {parameter: name for name, parameter in trainer.model.named_parameters()}
    decayed, undecayed = ({name_of[p] for p in group["params"]} for group in optimizer.param_groups)
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.01, 0.0]
    assert decayed | undecayed == set(name_of.values())
    assert undecayed == {name for name in name_of.values() if "LayerNorm" in name or name.endswith("bias")}
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    table = trainer.model.generator.generator_lm_head.weight
    assert sum(parameter is table for parameter in parameters) == 1
    assert {g["eps"] for g in optimizer.param_groups} == {1e-6}


def test_the_original_optimizer_and_schedule_are_used_when_asked_for(folder: Path) -> None:
    trainer = make(folder, adam_bias_correction="false", product_schedule="true", warmup_steps=4, max_steps=8)
    trainer.create_optimizer_and_scheduler(8)
    assert type(trainer.optimizer) is AdamWNoBiasCorrection
    factors = [trainer.lr_scheduler.lr_lambdas[0](step) for step in range(9)]
    assert factors == pytest.approx([min(1, s / 4) * (1 - s / 8) for s in range(9)])
    plain = make(folder, warmup_steps=4, max_steps=8, experiment_name="plain")
    plain.create_optimizer_and_scheduler(8)
    assert type(plain.optimizer) is torch.optim.AdamW
    factors = [plain.lr_scheduler.lr_lambdas[0](step) for step in range(9)]
    assert factors == pytest.approx([min(s / 4, (8 - s) / 4) for s in range(9)])


def test_steps_follow_from_epochs_and_epoch_strategies_become_steps(folder: Path) -> None:
    trainer = make(folder, max_steps=-1, num_train_epochs=2, save_strategy="epoch", eval_strategy="epoch")
    segments = trainer.segments_per_epoch
    assert trainer.args.max_steps == math.ceil(2 * segments / 4)
    assert trainer.args.save_steps == trainer.args.eval_steps == math.ceil(segments / 4)
    assert trainer.args.save_strategy == trainer.args.eval_strategy == "steps"


def test_training_learns_and_no_part_of_the_model_is_left_out(folder: Path) -> None:
    trainer = make(folder, max_steps=60, learning_rate=3e-3, logging_steps=20, eval_strategy="no")
    before = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    trainer.train()
    losses = [logs["loss"] for logs in trainer.state.log_history if "loss" in logs]
    assert losses[-1] < losses[0]
    unchanged = {name for name, p in trainer.model.named_parameters() if torch.equal(p, before[name])}
    assert unchanged == set()
