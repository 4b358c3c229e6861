"""The trainer's hooks: losses and their log, steps that are not finite, optimizer, schedule, evaluation."""

import functools
import inspect
import logging
import math
import re
import sys
import traceback
from collections import Counter
from pathlib import Path

import pytest
import torch
import transformers.trainer
from pytest import approx, raises
from torch.testing import assert_close
from transformers import TrainerCallback

import electra.finetuning.trainer
import electra.pretraining.trainer
from electra.base.checkpoints import find_damage
from electra.core.errors import UserError
from electra.core.objectives import OBJECTIVES
from electra.core.schedules import AdamWNoBiasCorrection
from electra.pretraining.log_window import LogWindow
from electra.pretraining.metrics import metric_rows
from tests.helpers import parametrize, read_json
from tests.pretraining.runs import FAST, assert_same_state, history, make, write_corpus

pytestmark = pytest.mark.slow


@parametrize("objective", ["electra", "all_tokens_mlm"])
def test_held_out_metrics_do_not_depend_on_the_batch_size(folder, objective):
    """Masks and samples belong to the segment, so the same questions are asked whatever it is batched with."""
    write_corpus(folder / "held_out.txt", documents=12, words=11, seed=5)  # rows of many lengths, hence padding
    results = []
    for size in (1, 20):
        options = {"per_device_eval_batch_size": size, "validation_file": folder / "held_out.txt", "bf16": False}
        metrics = make(folder, objective=objective, **options).evaluate()
        names = ("loss", "tokens", *(name for name, _ in metric_rows(OBJECTIVES[objective])))
        results.append({name: metrics[f"eval_{name}"] for name in names})
    assert results[1] == approx(results[0], abs=1e-5, nan_ok=True)
    assert not math.isnan(results[0]["loss"])


@pytest.mark.skipif(sys.platform != "linux", reason="other systems start workers afresh")
def test_workers_are_copies_of_the_run(folder):
    """Also where Python starts processes in another way by default, as since 3.14."""
    trainer = make(folder, **FAST | {"eval_strategy": "steps", "validation_fraction": 0.2}, dataloader_num_workers=1)
    for loader in (trainer.get_train_dataloader(), trainer.get_eval_dataloader()):
        inner = getattr(loader, "base_dataloader", loader)
        assert inner.multiprocessing_context.get_start_method() == "fork"


def test_logged_losses_are_averages_over_the_window(folder):
    make(folder, experiment_name="each", logging_steps=1, eval_steps=3, dataloader_num_workers=1).train()
    trainer = make(folder, experiment_name="four", logging_steps=4, eval_steps=12)
    trainer.train()
    newest = [folder / "output" / name / "checkpoint-12" for name in ("each", "four")]
    assert_same_state(*newest)
    of_steps, of_windows = ([logs for logs in history(checkpoint) if "loss" in logs] for checkpoint in newest)
    assert (len(of_steps), len(of_windows)) == (12, 3)
    for window, logs in enumerate(of_windows):
        steps = of_steps[4 * window : 4 * window + 4]
        for name in ("loss", "generator_loss", "discriminator_loss", "replaced_rate"):
            assert logs[name] == approx(sum(step[name] for step in steps) / 4, rel=1e-5)
        assert logs["loss"] == approx(logs["generator_loss"] + 50 * logs["discriminator_loss"], rel=1e-5)
        assert logs["tokens_seen"] == steps[-1]["tokens_seen"] == (window + 1) * 4 * 4 * 16
        assert logs["tokens_per_second"] > 0 and logs["eta_seconds"] >= 0
    assert of_windows[-1]["eta_seconds"] == 0
    assert of_windows[-1]["epoch"] == approx(12 * 4 / trainer.plan.segments_per_epoch)
    trainer = make(folder, **FAST, experiment_name="last", logging_steps=9, save_strategy="no")
    trainer.train()
    assert trainer.state.num_input_tokens_seen == 12 * 4 * 16  # also of the steps behind the last line


def test_biases_and_norms_do_not_decay(folder):
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
    assert {group["eps"] for group in optimizer.param_groups} == {1e-6}


@parametrize("is_original", [True, False])
def test_optimizer_and_schedule_are_the_original_s_if_asked_for(folder, is_original):
    options = {"adam_bias_correction": "false", "product_schedule": "true"} if is_original else {}
    trainer = make(folder, warmup_steps=4, max_steps=8, **options)
    trainer.create_optimizer_and_scheduler(8)
    assert type(trainer.optimizer) is (AdamWNoBiasCorrection if is_original else torch.optim.AdamW)
    scheduler = trainer.lr_scheduler
    linear = [0, 0.25, 0.5, 0.75, 1, 0.75, 0.5, 0.25, 0]
    product = [min(1, step / 4) * (1 - step / 8) for step in range(9)]
    expected = product if is_original else linear
    assert [scheduler.lr_lambdas[0](step) for step in range(9)] == approx(expected)


# ---- steps that are not finite, and what a step waits for

OPTIMIZERS = ("adamw_torch_fused", "adamw_torch")


def break_loss(trainer, *steps, value=math.nan):
    """Multiply the loss of these steps, counted from 1, by `value`."""

    def hook(module, inputs, output):
        if module.training and trainer.state.global_step + 1 in steps:
            output.loss = output.loss * value
        return output

    trainer.model.register_forward_hook(hook)


class Snapshots(TrainerCallback):
    """Weights and averages after each step."""

    def __init__(self, trainer):
        self.trainer = trainer
        self.after = {}
        trainer.add_callback(self)

    def on_step_end(self, args, state, control, **kwargs):
        averages = [average for entry in self.trainer.optimizer.state.values() for average in entry.values()]
        tensors = [*self.trainer.model.parameters(), *averages]
        self.after[state.global_step] = [tensor.detach().clone() for tensor in tensors]

    def changed(self, step):
        """True if a step has changed a weight or an average."""
        return not all(map(torch.equal, self.after[step], self.after[step - 1]))


@parametrize(("value", "accumulation", "optim"), [(math.nan, 1, "adamw_torch_fused"), (math.inf, 2, "adamw_torch")])
def test_a_step_that_is_not_finite_changes_nothing(folder, value, accumulation, optim):
    """The fused optimizer skips it on the device, the other one is kept from it."""
    trainer = make(folder, **FAST, gradient_accumulation_steps=accumulation, optim=optim)
    snapshots = Snapshots(trainer)
    break_loss(trainer, 3, 6, value=value)
    trainer.train()
    assert [step for step in range(2, 13) if not snapshots.changed(step)] == [3, 6]
    assert trainer.lr_scheduler.last_epoch == trainer.state.global_step == 12
    lines = [logs for logs in trainer.state.log_history if "loss" in logs]
    assert [logs["skipped_steps"] for logs in lines[:2]] == [1, 1] and "skipped_steps" not in lines[2]
    for logs in lines:
        assert logs["loss"] == approx(logs["generator_loss"] + 50 * logs["discriminator_loss"], rel=1e-5)
        assert math.isfinite(logs["loss"]) and math.isfinite(logs["grad_norm"])
    assert lines[-1]["tokens_seen"] == 12 * 4 * 16 * accumulation


def test_skipped_steps_are_no_part_of_the_means():
    window = LogWindow()
    for loss, is_bad in ((1.0, False), (math.nan, True), (3.0, False)):
        for _ in range(2):  # batches
            window.add({"loss": torch.tensor(loss)}, torch.tensor(5))
        window.end_step(torch.tensor(is_bad))
    assert window.read(lambda rows: rows) == ({"loss": 2.0}, 1)
    assert window.read_tokens(lambda rows: rows) == 30


def test_a_gradient_that_is_not_finite_is_skipped(folder):
    trainer = make(folder, **FAST, max_grad_norm=0, max_steps=6)
    snapshots = Snapshots(trainer)
    weight = next(trainer.model.parameters())
    weight.register_hook(lambda gradient: gradient * math.inf if trainer.state.global_step == 4 else gradient)
    trainer.train()
    assert snapshots.changed(4) and not snapshots.changed(5) and snapshots.changed(6)


def test_a_fused_optimizer_that_cannot_skip_is_not_asked_to(folder, monkeypatch):
    trainer = make(folder, **FAST, max_steps=1)
    trainer.train()
    assert trainer.guard.can_skip_on_device
    monkeypatch.setattr(type(trainer.accelerator), "device", torch.device("mps"))
    assert not trainer.guard.can_skip_on_device


@parametrize("max_grad_norm", [0.05, 1e6, 0])
def test_the_optimizer_clips_as_torch_does(folder, max_grad_norm):
    """The fused optimizer by its `grad_scale`, the plain one, which has no such thing, by torch's function."""
    options = {**FAST, "max_grad_norm": max_grad_norm, "max_steps": 4, "logging_steps": 1}
    trainers = [make(folder, **options, optim=optim) for optim in OPTIMIZERS]
    for trainer in trainers:
        torch.manual_seed(0)
        trainer.train()
    for fused, plain in zip(*(trainer.model.parameters() for trainer in trainers), strict=True):
        assert_close(fused, plain, rtol=1e-5, atol=1e-6)
    norms = [[logs["grad_norm"] for logs in trainer.state.log_history if "loss" in logs] for trainer in trainers]
    assert norms[0] == approx(norms[1], rel=1e-5)


def unscale_gradients(trainer, scaler):
    """Do what accelerate's method of this name does in fp16."""
    scaler.unscale_(trainer.guard.optimizer)


@parametrize("optim", OPTIMIZERS)
def test_a_scaled_loss_changes_nothing_but_what_is_skipped(folder, caplog, monkeypatch, optim):
    """fp16 on a GPU: the device skips, the schedule goes on, and nobody is warned where the scale was too large."""
    caplog.set_level(logging.INFO, logger="electra")  # a program that has set up logging keeps it
    trainers = []
    for scaler in (None, torch.amp.GradScaler("cpu", init_scale=2.0**10)):
        trainer = make(folder, **FAST, max_steps=6, logging_steps=1, max_grad_norm=0.05, optim=optim)
        trainer.accelerator.scaler = scaler
        if scaler is not None:  # accelerate does it with --fp16 only
            unscale = functools.partial(unscale_gradients, trainer, scaler)
            monkeypatch.setattr(trainer.accelerator, "unscale_gradients", unscale)
        weight = next(trainer.model.parameters())
        weight.register_hook(
            lambda gradient, trainer=trainer: gradient * math.inf if trainer.state.global_step == 3 else gradient
        )
        torch.manual_seed(0)
        trainer.train()
        trainers.append(trainer)
    for plain, scaled in zip(*(trainer.model.parameters() for trainer in trainers), strict=True):
        assert_close(scaled, plain, rtol=1e-5, atol=1e-7)
    logged = [[line.get("grad_norm", 0) for line in trainer.state.log_history] for trainer in trainers]
    assert logged[1] == approx(logged[0], rel=1e-5)
    assert scaler.get_scale() == 2.0**9  # halved once
    assert trainer.lr_scheduler.last_epoch == 6
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert sum("were skipped" in message for message in warnings) == 1


@parametrize(
    ("is_scaled", "others"),
    [
        (False, {"objective": "electric", "segment_policy": "packed"}),
        (True, {"objective": "adversarial", "gradient_accumulation_steps": 2, "adam_bias_correction": False}),
        (False, {"generator_gate": ["loss", 0], "eval_strategy": "steps", "validation_fraction": 0.2}),
    ],
    ids=["packed", "scaled", "gate"],
)
def test_no_step_waits_for_the_device(folder, monkeypatch, is_scaled, others):
    """Between two lines of the log nothing is read from the device, and nothing is copied to it but the batches."""
    if "objective" in others:
        write_corpus(folder / "corpus.txt", documents=100, words=6)
    options = {**FAST, "max_steps": 12, "logging_steps": 6, "save_strategy": "no", **others}
    trainer = make(folder, **options, accelerator_config='{"non_blocking": true}')
    trainer.accelerator.scaler = torch.amp.GradScaler("cpu") if is_scaled else None
    transfers = Counter()

    def watch(owner, name, is_harmless=lambda *args, **kwargs: False):
        original = getattr(owner, name)

        def watched(*args, **kwargs):
            caller = sys._getframe(1)
            where = f"{Path(caller.f_code.co_filename).name}:{caller.f_lineno} {name}"
            # A line of the log waits; workers are elsewhere.
            stack = {frame.f_code.co_name for frame, _ in traceback.walk_stack(caller)}
            is_step = 6 < trainer.state.global_step + 1 <= 12 and not stack & {
                "log",
                "_maybe_log_save_evaluate",
                "fetch",
            }
            if is_step and "_get_total_norm" not in stack and not is_harmless(*args, **kwargs):
                transfers[where] += 1
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, watched)

    for name in ("item", "tolist", "__bool__", "__float__", "__int__", "__index__", "cpu", "numpy", "nonzero"):
        watch(torch.Tensor, name)
    for name in ("tensor", "as_tensor", "nonzero"):
        watch(torch, name)
    moved = set()

    def is_on_device(self, *args, non_blocking=False, **kwargs):
        to_other = "device" in kwargs or any(isinstance(arg, (torch.device, str)) for arg in args)
        if non_blocking:
            moved.add(self.data_ptr())
        return not to_other or self.data_ptr() in moved

    watch(torch.Tensor, "to", is_on_device)
    trainer.train()
    assert moved and transfers == {}


def test_too_many_skipped_steps_in_a_row_end_the_run_which_can_be_resumed(folder, monkeypatch):
    monkeypatch.setattr("electra.pretraining.step.MOST_IN_A_ROW", 4)
    trainer = make(folder, **FAST, logging_steps=2)
    break_loss(trainer, 2, 3, 4, 6, 7, 8, 9, 10, 11)
    with raises(UserError, match=r"step 10: the last 5 .*resume .*--learning_rate"):
        trainer.train()
    newest = folder / "output" / "run" / "checkpoint-8"
    assert find_damage(newest) is None
    lines = read_json(newest / "trainer_state.json")["log_history"]
    assert [logs["skipped_steps"] for logs in lines] == [1, 2, 1, 2]
    assert ["loss" in logs for logs in lines] == [True, False, True, False]


@parametrize("module", [electra.pretraining.trainer, electra.finetuning.trainer])
def test_every_private_name_of_trainer_is_documented(module):
    theirs = inspect.getsource(transformers.trainer)
    private_names = set(re.findall(r"(?:self\.|super\(\)\.|def )(_[a-z]\w*)", inspect.getsource(module)))
    used = {name for name in private_names if re.search(rf"(self\.|def ){name}\b", theirs)}
    assert used and all(re.search(rf"\b{name}\b", str(module.__doc__)) for name in used), sorted(used)
