"""One fine-tuning run: what a step is, whatever it is split into; what a seed decides; which weights are kept."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import ElectraConfig, ElectraModel, PreTrainedTokenizerBase
from transformers.trainer_pt_utils import LengthGroupedSampler

from electra.finetuning.config import ClassificationArguments
from electra.finetuning.encoding import EncodedExamples, Examples, PaddingCollator, encode
from electra.finetuning.heads import EncoderWithHead
from electra.finetuning.trainer import Outcome, example_losses, fine_tune
from electra.optimization import product_schedule

OPTIONS: dict[str, Any] = {
    "learning_rate": 1e-3,
    "layerwise_lr_decay": 0.8,
    "num_train_epochs": 1.0,
    "max_length": 16,
    "head_dropout": 0.0,
    "per_device_eval_batch_size": 16,
    "bf16": False,
    "use_cpu": True,
    "logging_steps": 1,
}


def make_options(**values: Any) -> ClassificationArguments:
    return ClassificationArguments(**{**OPTIONS, **values})


def make_encoder(dropout: float = 0.0) -> ElectraModel:
    return ElectraModel(
        ElectraConfig(
            vocab_size=6000,
            embedding_size=8,
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=16,
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
            initializer_range=0.2,
        )
    )


@pytest.fixture(scope="module")
def rows(framed_tokenizer: PreTrainedTokenizerBase) -> EncodedExamples:
    """84 rows of 3 to 12 tokens, class 1 where the first token is above 100: two and a half batches of 32."""
    random = np.random.default_rng(0)
    texts, labels = [], []
    for _ in range(84):
        label = int(random.integers(2))
        tokens = [
            int(random.integers(100 * label + 10, 100 * label + 90)),
            *random.integers(300, 310, random.integers(9)),
        ]
        texts.append(" ".join(map(str, tokens)))
        labels.append(label)
    return encode(Examples(texts, None, labels), framed_tokenizer, 16)


def run(rows: EncodedExamples, folder: Path, *, seed: int = 1, dropout: float = 0.0, **options: Any) -> Outcome:
    num_labels = 1 if rows.labels is not None and rows.labels.dtype == np.float32 else 2
    return fine_tune(
        lambda: EncoderWithHead(make_encoder(dropout), "google", num_labels, 0.0),
        make_options(**options),
        seed=seed,
        train=rows,
        dev={"dev": rows},
        score=lambda logits: float((logits["dev"].argmax(1) == rows.labels).mean()),
        collator=PaddingCollator(0),
        folder=folder,
        name="run",
    )


def history(outcome: Outcome, name: str) -> list[float]:
    return [entry[name] for entry in outcome.trainer.state.log_history if name in entry]


@pytest.mark.parametrize(("batch", "accumulation"), [(8, 4), (16, 2), (32, 1)])
def test_a_step_is_the_same_however_it_is_accumulated(
    rows: EncodedExamples, tmp_path: Path, batch: int, accumulation: int
) -> None:
    whole = run(rows, tmp_path / "a")
    parts = run(rows, tmp_path / "b", per_device_train_batch_size=batch, gradient_accumulation_steps=accumulation)
    # The last step of the epoch has 20 rows: 8 + 8 + 4 must weigh 20, not three times a batch.
    assert len(history(parts, "loss")) == len(history(whole, "loss")) == 3
    assert history(parts, "loss") == pytest.approx(history(whole, "loss"), rel=1e-4)
    assert history(parts, "grad_norm") == pytest.approx(history(whole, "grad_norm"), rel=1e-3)
    assert parts.logits["dev"] == pytest.approx(whole.logits["dev"], abs=1e-4)


def test_the_logged_loss_and_gradient_are_those_of_the_mean_over_the_step(
    rows: EncodedExamples, tmp_path: Path
) -> None:
    outcome = run(
        rows,
        tmp_path,
        per_device_train_batch_size=21,
        gradient_accumulation_steps=4,
        learning_rate=1e-9,
        warmup_steps=0,
    )
    model = outcome.trainer.model
    model.eval().zero_grad()
    batch = outcome.trainer.data_collator([rows[i] for i in range(len(rows))])
    labels = batch.pop("labels")
    loss = nn.functional.cross_entropy(model(**batch), labels)
    loss.backward()
    norm = torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None]).norm().item()
    assert history(outcome, "loss") == pytest.approx([loss.item()], rel=1e-4)
    assert history(outcome, "grad_norm") == pytest.approx([norm], rel=1e-3)


def test_the_same_seed_gives_the_same_logits_and_another_seed_others(rows: EncodedExamples, tmp_path: Path) -> None:
    first, again = (run(rows, tmp_path / str(i), dropout=0.1, head_dropout=0.1) for i in range(2))
    other = run(rows, tmp_path / "c", seed=2, dropout=0.1, head_dropout=0.1)
    assert np.array_equal(first.logits["dev"], again.logits["dev"])
    assert np.abs(first.logits["dev"] - other.logits["dev"]).max() > 0.01


def test_a_run_does_not_depend_on_what_was_drawn_before_it(rows: EncodedExamples, tmp_path: Path) -> None:
    first = run(rows, tmp_path / "a", dropout=0.1)
    torch.rand(1000)
    np.random.rand(5)
    assert np.array_equal(run(rows, tmp_path / "b", dropout=0.1).logits["dev"], first.logits["dev"])


def test_it_learns_and_predicts_rows_in_their_order(rows: EncodedExamples, tmp_path: Path) -> None:
    outcome = run(rows, tmp_path, num_train_epochs=30.0, learning_rate=5e-3, per_device_train_batch_size=8)
    assert (outcome.logits["dev"].argmax(1) == rows.labels).mean() > 0.9
    model = outcome.trainer.model.eval()
    for row in (0, 17, 83):  # predicted alone, without padding
        batch = outcome.trainer.data_collator([rows[row]])
        batch.pop("labels")
        with torch.no_grad():
            assert model(**batch)[0].numpy() == pytest.approx(outcome.logits["dev"][row], abs=1e-4)


def test_best_keeps_the_weights_of_the_best_epoch(rows: EncodedExamples, tmp_path: Path) -> None:
    def scores(select: str) -> tuple[Outcome, list[float]]:
        seen: list[float] = []

        def score(logits: dict[str, np.ndarray]) -> float:
            seen.append([0.2, 0.9, 0.9, 0.1][len(seen)])
            return seen[-1]

        options = make_options(num_train_epochs=4.0, select=select)
        outcome = fine_tune(
            lambda: EncoderWithHead(make_encoder(), "google", 2, 0.0), options, seed=1, train=rows,
            dev={"dev": rows}, score=score, collator=PaddingCollator(0), folder=tmp_path / select, name="run",
        )  # fmt: skip
        return outcome, seen

    best, seen = scores("best")
    assert seen == [0.2, 0.9, 0.9, 0.1]
    assert best.epoch == 2.0  # the first of two that are as good
    # What it predicted then is what its weights predict now, and not what those of the last step would.
    assert best.trainer.predict_logits(rows) == pytest.approx(best.logits["dev"], abs=1e-5)
    last, seen = scores("last")
    assert seen == [] and last.epoch == 4.0
    assert np.abs(last.logits["dev"] - best.logits["dev"]).max() > 1e-3


def test_evaluating_each_epoch_does_not_change_training(rows: EncodedExamples, tmp_path: Path) -> None:
    often = run(rows, tmp_path / "a", num_train_epochs=3.0, select="best", dropout=0.1)
    once = run(rows, tmp_path / "b", num_train_epochs=3.0, dropout=0.1)
    assert history(often, "loss") == history(once, "loss")


def test_learning_rates_follow_layers_schedule_and_warm_up(rows: EncodedExamples, tmp_path: Path) -> None:
    outcome = run(rows, tmp_path, product_schedule=True, warmup_steps=2, num_train_epochs=2.0, weight_decay=0.01)
    expected = [1e-3 * product_schedule(step, warmup_steps=2, total_steps=6) for step in range(6)]
    assert history(outcome, "learning_rate") == pytest.approx(expected)
    groups = outcome.trainer.optimizer.param_groups
    assert sorted({round(group["initial_lr"], 9) for group in groups}) == pytest.approx(
        [1e-3 * 0.8**3, 1e-3 * 0.8**2, 1e-3 * 0.8, 1e-3]
    )
    assert {group["weight_decay"] for group in groups} == {0.0, 0.01}


def test_regressions_are_trained_by_squared_error(framed_tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    losses = example_losses(torch.tensor([[0.5], [1.0]]), torch.tensor([0.0, 0.25]))
    assert losses.tolist() == pytest.approx([0.25, 0.5625])
    rows = encode(Examples([str(10 + i) for i in range(20)], None, [i / 20 for i in range(20)]), framed_tokenizer, 8)
    outcome = run(rows, tmp_path, num_train_epochs=60.0, learning_rate=1e-2)
    assert outcome.logits["dev"].shape == (20, 1)
    assert np.corrcoef(outcome.logits["dev"][:, 0], rows.labels)[0, 1] > 0.9


def test_rows_of_a_batch_are_of_like_length(rows: EncodedExamples, tmp_path: Path) -> None:
    trainer = run(rows, tmp_path, per_device_train_batch_size=4).trainer

    def padding(order: list[int]) -> float:
        lengths = rows.lengths[order].reshape(-1, 4)
        return float((lengths.max(1, keepdims=True) - lengths).sum() / lengths.sum())

    order = list(trainer._get_train_sampler())
    assert sorted(order) == list(range(84)) and order != sorted(order, key=lambda row: rows.lengths[row])
    assert padding(order) < padding(np.random.default_rng(0).permutation(84).tolist()) / 2


def test_batches_of_like_length_come_in_random_order(rows: EncodedExamples, tmp_path: Path) -> None:
    trainer = run(rows, tmp_path, per_device_train_batch_size=4).trainer
    order = [list(trainer._get_train_sampler()) for _ in range(2)]
    assert order[0] == order[1]  # a function of the seed
    sampler = trainer._get_train_sampler()
    epochs = [list(sampler), list(sampler)]
    assert epochs[0] != epochs[1] and sorted(epochs[1]) == list(range(84))
    means = rows.lengths[epochs[0]].reshape(-1, 4).mean(1)
    falling = (np.diff(means[:20]) < 0).mean()
    assert 0.2 < falling < 0.8  # 0.8 and more where batches go from long to short


def test_a_last_batch_that_is_not_full_stays_last(rows: EncodedExamples, tmp_path: Path) -> None:
    trainer = run(rows, tmp_path, per_device_train_batch_size=32).trainer
    order = list(trainer._get_train_sampler())
    generator = torch.Generator().manual_seed(trainer.args.seed)
    grouped = list(LengthGroupedSampler(32, lengths=rows.lengths.tolist(), generator=generator))
    assert order[64:] == grouped[64:]  # 20 rows; the same groups as transformers makes
    assert {frozenset(order[:32]), frozenset(order[32:64])} == {frozenset(grouped[:32]), frozenset(grouped[32:64])}
