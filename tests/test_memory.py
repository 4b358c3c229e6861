"""The memory of a step, counted on fake tensors, against what torch allocates."""

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from electra.model.configuration import ElectraPretrainingConfig, discriminator_config, generator_config
from electra.model.joint import ElectraForJointPretraining
from electra.pretraining.resources import LiveBytes, TrainingMemory, training_memory


def build(objective: str, dropout: float) -> ElectraForJointPretraining:
    large = discriminator_config(
        vocab_size=4000,
        pad_token_id=0,
        embedding_size=64,
        hidden_size=128,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=512,
        max_position_embeddings=128,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    small, _ = generator_config(large, 0.5, 1.0)
    special = {"mask_token_id": 4, "special_token_ids": [0, 1, 2, 3, 4]}
    return ElectraForJointPretraining(ElectraPretrainingConfig(small, large, objective=objective, **special))


def make_batch(rows: int = 24) -> dict[str, torch.Tensor]:
    ids = torch.zeros(rows, 128, dtype=torch.long)
    return {"input_ids": ids + 7, "attention_mask": ids + 1, "token_type_ids": ids}


@pytest.mark.parametrize(
    ("objective", "dropout", "autocast"),
    [("electra", 0.1, None), ("electra", 0.0, torch.bfloat16), ("mlm", 0.0, None), ("all_tokens_mlm", 0.1, None)],
)
def test_the_estimate_is_what_torch_allocates(objective: str, dropout: float, autocast: torch.dtype | None) -> None:
    estimate = training_memory(lambda: build(objective, dropout), make_batch, autocast=autocast)
    model, batch = build(objective, dropout).train(), make_batch()
    weights = sum(p.numel() * 4 for p in model.parameters())
    assert (estimate.weights, estimate.gradients, estimate.optimizer) == (weights, weights, 2 * weights)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        with torch.autocast("cpu", autocast, enabled=autocast is not None):
            loss = model(**batch).loss
        loss.backward()
    now = peak = 0
    for event in record.profiler.kineto_results.events():  # type: ignore[union-attr]
        if event.name() == "[memory]":
            now += event.nbytes()
            peak = max(peak, now)
    assert estimate.activations + estimate.gradients == pytest.approx(peak, rel=0.1)


def test_activations_grow_with_the_batch_and_shrink_with_checkpointing() -> None:
    def checkpointed() -> ElectraForJointPretraining:
        model = build("electra", 0.1)
        model.gradient_checkpointing_enable()
        return model

    small = training_memory(lambda: build("electra", 0.1), lambda: make_batch(8))
    large = training_memory(lambda: build("electra", 0.1), lambda: make_batch(16))
    less = training_memory(checkpointed, lambda: make_batch(16))
    assert small.weights == large.weights == less.weights
    assert large.activations == pytest.approx(2 * small.activations, rel=0.1)
    assert less.activations < 0.7 * large.activations


def test_counting_draws_no_random_number_and_leaves_other_optimizers_their_states() -> None:
    before = torch.random.get_rng_state()
    memory = training_memory(lambda: build("mlm", 0.1), lambda: make_batch(2), optimizer_states=0.5)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert memory.optimizer == memory.weights // 2
    assert memory.total == memory.weights + memory.gradients + memory.optimizer + memory.activations
    assert TrainingMemory(1, 2, 3, 4).total == 10


def test_live_bytes_are_those_of_storages_alive_together() -> None:
    with LiveBytes() as live:
        a = torch.zeros(1000)
        view = a.view(10, 100)  # no storage of its own
        b = torch.zeros(500)
        assert live.now == 6000
        del b
        assert live.now == 4000 and live.peak == 6000
        del a
        assert live.now == 4000  # the view holds it
        del view
        assert live.now == 0
