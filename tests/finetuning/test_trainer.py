"""One fine-tuning run: what a step is, whatever it is split into; what a seed decides; which weights are kept."""

import numpy as np
import pytest
import torch
from pytest import approx
from torch import nn
from transformers.trainer_pt_utils import LengthGroupedSampler

from electra.core.schedules import product_schedule
from electra.finetuning.config import ClassificationArguments
from electra.finetuning.data import Examples, PaddingCollator, encode_examples
from electra.finetuning.heads import EncoderWithHead
from electra.finetuning.task import step_loss
from electra.finetuning.trainer import ShuffledLengthGroups, train_and_score, training_arguments
from tests.finetuning.encoders import tiny_electra
from tests.helpers import parametrize

pytestmark = pytest.mark.slow

OPTIONS = {
    "learning_rate": 1e-3, "layerwise_lr_decay": 0.8, "num_train_epochs": 1.0, "max_length": 16, "head_dropout": 0.0,
    "per_device_eval_batch_size": 16, "bf16": False, "use_cpu": True, "logging_steps": 1,
}  # fmt: skip


def make_options(**values):
    """Return `OPTIONS` with these values."""
    return ClassificationArguments(**{**OPTIONS, **values})


def make_encoder(dropout=0.0):
    """Return an encoder of two layers."""
    return tiny_electra(dropout=dropout, num_hidden_layers=2, intermediate_size=32, max_position_embeddings=16)


@pytest.fixture(scope="module")
def rows(framed_tokenizer):
    """84 rows of 3 to 12 tokens, class 1 where the first token is above 100: two and a half batches of 32."""
    random = np.random.default_rng(0)
    labels = random.integers(2, size=84).tolist()
    words = [
        [random.integers(100 * label + 10, 100 * label + 90), *range(300, 300 + random.integers(9))]
        for label in labels
    ]
    return encode_examples(Examples([" ".join(map(str, row)) for row in words], None, labels), framed_tokenizer, 16)


def run(rows, folder, *, seed=1, dropout=0.0, score=None, callbacks=(), **options):
    """Return the outcome of a run; it is scored by its accuracy on the rows that it trains on."""
    labels = np.asarray(rows.columns["labels"])
    num_labels = 1 if labels.dtype == np.float32 else 2
    return train_and_score(
        lambda: EncoderWithHead(make_encoder(dropout), "google", num_labels, dropout),
        make_options(**options),
        seed=seed, train=rows, dev={"dev": rows}, collator=PaddingCollator(0), folder=folder, name="run",
        score=score or (lambda logits: float((logits["dev"].argmax(1) == labels).mean())), callbacks=callbacks,
    )  # fmt: skip


def history(outcome, name):
    """Return the logged values of a name, in the order of their steps."""
    return [entry[name] for entry in outcome.trainer.state.log_history if name in entry]


def test_one_of_several_gpus_is_used(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    assert training_arguments(make_options(use_cpu=False), seed=1, folder=tmp_path, name="run").n_gpu == 1


def test_a_step_is_the_mean_over_its_rows(rows, tmp_path):
    whole = run(rows, tmp_path / "a")
    parts = run(rows, tmp_path / "b", per_device_train_batch_size=8, gradient_accumulation_steps=4)
    # The last step of the epoch has 20 rows: 8 + 8 + 4 must weigh 20, not three times a batch.
    assert len(history(parts, "loss")) == len(history(whole, "loss")) == 3
    assert history(parts, "loss") == approx(history(whole, "loss"), rel=1e-4)
    assert history(parts, "grad_norm") == approx(history(whole, "grad_norm"), rel=1e-3)
    assert parts.logits["dev"] == approx(whole.logits["dev"], abs=1e-4)

    options = {"per_device_train_batch_size": 21, "gradient_accumulation_steps": 4, "warmup_steps": 0}
    outcome = run(rows, tmp_path / "c", learning_rate=1e-9, **options)
    model = outcome.trainer.model
    model.eval().zero_grad()
    batch = outcome.trainer.data_collator([rows[number] for number in range(len(rows))])
    labels = batch.pop("labels")
    loss = nn.functional.cross_entropy(model(**batch), labels)
    loss.backward()
    norms = [parameter.grad.norm() for parameter in model.parameters() if parameter.grad is not None]
    assert history(outcome, "loss") == approx([loss.item()], rel=1e-4)
    assert history(outcome, "grad_norm") == approx([torch.stack(norms).norm().item()], rel=1e-3)


def test_everything_random_follows_from_the_seed(rows, tmp_path):
    first = run(rows, tmp_path / "a", dropout=0.1)
    torch.rand(1000)
    np.random.rand(5)
    again, other = (run(rows, tmp_path / str(seed), seed=seed, dropout=0.1) for seed in (1, 2))
    assert np.array_equal(first.logits["dev"], again.logits["dev"])
    assert np.abs(first.logits["dev"] - other.logits["dev"]).max() > 0.01


def test_it_learns_and_predicts_rows_in_their_order(rows, tmp_path):
    outcome = run(rows, tmp_path, num_train_epochs=15.0, learning_rate=1e-2, per_device_train_batch_size=8)
    assert (outcome.logits["dev"].argmax(1) == rows.columns["labels"]).mean() > 0.9
    model = outcome.trainer.model.eval()
    for row in (0, 17, 83):  # predicted alone, without padding
        batch = outcome.trainer.data_collator([rows.without_labels()[row]])
        with torch.no_grad():
            assert model(**batch)[0].numpy() == approx(outcome.logits["dev"][row], abs=1e-4)


def test_best_keeps_the_weights_of_the_best_epoch(rows, tmp_path):
    scores = iter([0.2, 0.9, 0.9, 0.1])
    options = {"num_train_epochs": 4.0, "dropout": 0.1}
    best = run(rows, tmp_path / "best", select="best", score=lambda logits: next(scores), **options)
    assert next(scores, None) is None and best.epoch == 2.0  # the first of two that are as good
    # What it predicted then is what its weights predict now, and not what those of the last step would.
    assert best.trainer.predict_logits(rows) == approx(best.logits["dev"], abs=1e-5)
    last = run(rows, tmp_path / "last", **options)
    assert last.epoch == 4.0 and np.abs(last.logits["dev"] - best.logits["dev"]).max() > 1e-3
    assert history(best, "loss") == history(last, "loss")


@parametrize(
    ("select", "patience", "epoch_scores", "epochs", "scored"),
    [
        ("best", 2, [0.2, 0.9, 0.5, 0.9005, 0.95], 4, 4),  # a gain of .0005 is none, but these weights are the best
        ("last", 2, [0.2, 0.9, 0.5, 0.8, 0.95], 4, 4),
        ("best", 2, [0.2, 0.1, 0.3, 0.2, 0.4], 5, 5),  # a gain begins the count anew
        ("best", 1, [0.2, float("-inf")], 2, 1),
        ("best", None, [0.2, 0.1, 0.1, 0.1, 0.1], 5, 1),
    ],
)
def test_patience_ends_a_run_that_no_longer_gains(rows, tmp_path, select, patience, epoch_scores, epochs, scored):
    scores = iter(epoch_scores)
    options = {"select": select, "patience": patience, "num_train_epochs": 5.0, "per_device_train_batch_size": 42}
    outcome = run(rows, tmp_path, score=lambda logits: next(scores), **options)
    assert outcome.trainer.state.epoch == epochs and outcome.epoch == scored
    assert outcome.trainer.state.max_steps == 10  # the schedule of the learning rate is that of all epochs
    assert outcome.trainer.predict_logits(rows) == approx(outcome.logits["dev"], abs=1e-5)


@parametrize(("mode", "steps_to_top"), [("google", 2), ("paper", 1)])
def test_learning_rates_follow_layers_schedule_and_warm_up(rows, tmp_path, mode, steps_to_top):
    options = {"product_schedule": True, "warmup_steps": 2, "weight_decay": 0.01, "layerwise_lr_decay_mode": mode}
    outcome = run(rows, tmp_path, num_train_epochs=2.0, **options)
    expected = [1e-3 * product_schedule(step, warmup_steps=2, total_steps=6) for step in range(6)]
    assert history(outcome, "learning_rate") == approx(expected)
    groups = outcome.trainer.optimizer.param_groups
    assert sorted({round(group["initial_lr"], 9) for group in groups}) == approx(
        [*(1e-3 * 0.8 ** (steps_to_top + below) for below in (2, 1, 0)), 1e-3]
    )
    assert {group["weight_decay"] for group in groups} == {0.0, 0.01}


@parametrize("is_corrected", [True, False])
def test_options_of_adam_reach_the_optimizer(rows, tmp_path, is_corrected):
    trainer = run(rows, tmp_path, adam_bias_correction=is_corrected, max_grad_norm=0.5).trainer
    optimizer = trainer.optimizer.optimizer
    assert trainer.args.max_grad_norm == 0.5
    assert (type(optimizer) is torch.optim.AdamW) == is_corrected
    assert (optimizer.defaults["betas"], optimizer.defaults["eps"]) == ((0.9, 0.999), 1e-6)


def test_the_loss_of_a_batch_is_its_part_of_the_mean_over_a_step():
    scores, targets = torch.tensor([[0.5], [1.0]]), torch.tensor([0.0, 0.25])  # errors 0.25 and 0.5625
    assert step_loss(scores, targets).item() == approx(0.40625)
    assert step_loss(scores, targets, 8).item() == approx(0.8125 / 8)
    logits = torch.tensor([[0.0, 0.0], [0.0, 9.0]])
    classes = torch.tensor([0, 1])
    assert step_loss(logits, classes, 2).item() == approx(np.log(2) / 2, abs=1e-3)
    several = torch.tensor([[1, 0], [1, 1]])  # any number of classes: yes or no to each
    assert step_loss(logits, several, 4).item() == approx(3 * np.log(2) / 4, abs=1e-3)


def test_batches_are_of_like_length_and_come_in_random_order(rows, tmp_path):
    trainer = run(rows, tmp_path, per_device_train_batch_size=4).trainer

    def padding(order):
        lengths = rows.lengths[order].reshape(-1, 4)
        return float((lengths.max(1, keepdims=True) - lengths).sum() / lengths.sum())

    sampler = trainer._get_train_sampler()
    epochs = [list(sampler), list(sampler)]
    assert list(trainer._get_train_sampler()) == epochs[0]  # a function of the seed
    trainer.args.seed += 1
    assert list(trainer._get_train_sampler()) != epochs[0]
    assert epochs[0] != epochs[1] and sorted(epochs[0]) == sorted(epochs[1]) == list(range(84))
    assert padding(epochs[0]) < padding(np.random.default_rng(0).permutation(84).tolist()) / 2
    means = rows.lengths[epochs[0]].reshape(-1, 4).mean(1)
    assert 0.2 < (np.diff(means[:20]) < 0).mean() < 0.8  # 0.8 and more where batches go from long to short


def test_a_last_batch_that_is_not_full_stays_last(rows):
    def order(sampler):
        return list(sampler(32, lengths=rows.lengths.tolist(), generator=torch.Generator().manual_seed(1)))

    ours = order(ShuffledLengthGroups)
    grouped = order(LengthGroupedSampler)
    assert ours[64:] == grouped[64:]  # 20 rows; the same groups as transformers makes
    assert {frozenset(ours[:32]), frozenset(ours[32:64])} == {frozenset(grouped[:32]), frozenset(grouped[32:64])}
