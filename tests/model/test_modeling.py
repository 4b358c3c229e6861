"""The joint model: what is shared stays shared; losses and gradients are those of a computation written out."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import ElectraForMaskedLM, ElectraForPreTraining

from electra.model.joint import ElectraForJointPretraining, ElectraPretrainingOutput, parameter_counts
from tests.model.helpers import (
    ALWAYS_LIKELIEST,
    MASK,
    SHARED_EMBEDDINGS,
    Make,
    MakeBatch,
    chosen_cells,
    gradients,
    loss_gradients,
    plain_networks,
    untie_networks,
)


def written_out_losses(
    networks: tuple[ElectraForMaskedLM, ElectraForPreTraining],
    batch: dict[str, Tensor],
    output: ElectraPretrainingOutput,
) -> tuple[Tensor, Tensor]:
    """Both losses token by token, over logits for all positions, given what was chosen and sampled."""
    generator, discriminator = networks
    input_ids, attention_mask = batch["input_ids"], batch["attention_mask"]
    inputs = {"attention_mask": attention_mask, "token_type_ids": batch["token_type_ids"]}
    masked_input_ids, corrupted_input_ids = input_ids.clone(), input_ids.clone()
    assert output.is_mask_token is not None and output.sampled_ids is not None
    for row, slot, position in chosen_cells(output):
        if output.is_mask_token[row, slot]:
            masked_input_ids[row, position] = MASK
        corrupted_input_ids[row, position] = output.sampled_ids[row, slot]
    log_probabilities = generator(masked_input_ids, **inputs).logits.log_softmax(dim=2)
    nll = [-log_probabilities[row, p, input_ids[row, p]] for row, _, p in chosen_cells(output)]
    replaced_logits = discriminator(corrupted_input_ids, **inputs).logits
    bce = [
        F.softplus(replaced_logits[row, t] * (-1 if corrupted_input_ids[row, t] != input_ids[row, t] else 1))
        for row, t in attention_mask.nonzero().tolist()
    ]
    return torch.stack(nll).mean(), torch.stack(bce).mean()


def test_parameters_count_what_is_shared_once(make_model: Make) -> None:
    model = make_model()
    pointers = {p.data_ptr(): p.numel() for p in model.parameters()}
    shared = 8 * (40 + 40 + 2 + 2)
    counts = parameter_counts(model)
    plain = [sum(p.numel() for p in network.parameters()) for network in plain_networks(model)]
    assert [counts["generator"], counts["discriminator"]] == plain
    assert counts["total"] == sum(pointers.values()) == sum(plain) - shared
    assert len(list(model.parameters())) == len(pointers)


def test_fresh_weights_are_initialized_as_transformers_does(make_model: Make) -> None:
    torch.manual_seed(0)
    model = ElectraForJointPretraining(make_model().config)
    for network in (model.generator, model.discriminator):
        for name, module in network.named_modules():
            if isinstance(module, nn.Linear):
                assert module.weight.std().item() == pytest.approx(0.02, rel=0.25), name
                assert module.bias is not None and not module.bias.any(), name
            elif isinstance(module, nn.LayerNorm):
                assert (module.weight == 1).all() and not module.bias.any(), name
    word_table = model.generator.electra.embeddings.word_embeddings.weight
    assert not word_table[0].any() and word_table[1:].std().item() == pytest.approx(0.02, rel=0.25)


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_the_attention_implementation_reaches_both_networks(
    make_model: Make, tmp_path: Path, implementation: str
) -> None:
    make_model().save_pretrained(tmp_path)
    model = ElectraForJointPretraining.from_pretrained(tmp_path, attn_implementation=implementation)
    for network in (model, model.generator, model.discriminator.electra):
        assert network.config._attn_implementation == implementation


# ---- the forward pass


@pytest.mark.parametrize("options", [{}, {"disallow_correct": True, "sampling_temperature": 0.5}])
def test_losses_are_those_of_a_computation_written_out(
    make_model: Make, make_batch: MakeBatch, options: dict[str, Any]
) -> None:
    model = make_model(mlm_probability=0.3, **options).eval()
    batch = make_batch(30, 17, 4, 33)
    torch.manual_seed(0)
    output = model(**batch)
    generator_loss, discriminator_loss = written_out_losses(plain_networks(model), batch, output)
    torch.testing.assert_close(output.generator_loss, generator_loss)
    torch.testing.assert_close(output.main_loss, discriminator_loss)
    torch.testing.assert_close(output.loss, generator_loss + 50 * discriminator_loss)
    assert output.loss.dtype == torch.float32 and output.loss.ndim == 0


def test_the_output_says_what_happened_at_every_token(make_model: Make, make_batch: MakeBatch) -> None:
    model = make_model(mlm_probability=0.5, mlm_replacement_probability=0.6).eval()
    batch = make_batch(30, 17, 4, 33)
    torch.manual_seed(0)
    output = model(**batch)
    generator, _ = plain_networks(model)
    cells = chosen_cells(output)
    assert [sum(row == r for row, _, _ in cells) for r in range(4)] == [15, 8, 1, 16]
    masked, kept = batch["input_ids"].clone(), 0
    for row, slot, position in cells:
        if output.is_mask_token[row, slot]:
            masked[row, position] = MASK
        else:
            kept += 1
    assert 0 < kept < len(cells)
    logits = generator(masked, batch["attention_mask"], batch["token_type_ids"]).logits
    changed = torch.zeros_like(masked, dtype=torch.bool)
    kept_and_replaced = 0
    for row, slot, position in cells:
        original, sampled = batch["input_ids"][row, position], output.sampled_ids[row, slot]
        assert original >= 5
        assert output.predicted_ids[row, slot] == logits[row, position].argmax()
        nll = F.cross_entropy(logits[row, position], original)
        torch.testing.assert_close(output.generator_nll[row, slot], nll)
        assert output.corrupted_input_ids[row, position] == sampled
        changed[row, position] = sampled != original
        kept_and_replaced += int(sampled != original and not output.is_mask_token[row, slot])
    assert kept_and_replaced > 0  # the generator samples where it saw the token, too
    assert torch.equal(output.is_replaced, changed)
    assert torch.equal(output.corrupted_input_ids[~changed], batch["input_ids"][~changed])
    for value in (output.generator_loss, output.main_loss, output.discriminator_logits):
        assert not value.requires_grad


def test_disallow_correct_replaces_every_chosen_token(make_model: Make, make_batch: MakeBatch) -> None:
    torch.manual_seed(0)
    model = make_model(disallow_correct=True, sampling_temperature=1e6, mlm_probability=0.5)
    output = model(**make_batch(*[33] * 40))  # 640 samples, of which one in 40 would be correct
    assert torch.equal(output.is_replaced.sum(dim=1), output.mlm_mask.sum(dim=1))
    assert output.predicted_ids is None  # in training nobody needs them


def test_gradients_are_those_of_a_computation_written_out_and_add_up_in_what_is_shared(
    make_model: Make, make_batch: MakeBatch
) -> None:
    weight = 3.0
    model = make_model(discriminator_weight=weight, mlm_probability=0.3).eval()  # without dropout
    batch = make_batch(30, 17, 4, 33)
    torch.manual_seed(0)
    output = model(**batch)
    output.loss.backward()
    generator, discriminator = plain_networks(model)
    generator_loss, discriminator_loss = written_out_losses((generator, discriminator), batch, output)
    (generator_loss + weight * discriminator_loss).backward()
    joint = gradients(model)
    expected = {f"generator.{name}": grad for name, grad in gradients(generator).items()}
    expected |= {f"discriminator.{name}": grad for name, grad in gradients(discriminator).items()}
    for name in SHARED_EMBEDDINGS:
        names = f"generator.electra.embeddings.{name}", f"discriminator.electra.embeddings.{name}"
        from_generator, from_discriminator = (expected[n].clone() for n in names)
        assert from_generator.abs().max() > 1e-4 and from_discriminator.abs().max() > 1e-4
        expected[names[0]] = expected[names[1]] = from_generator + from_discriminator
    expected["generator.generator_lm_head.weight"] = expected["generator.electra.embeddings.word_embeddings.weight"]
    assert joint.keys() == expected.keys()
    for name, grad in joint.items():
        torch.testing.assert_close(grad, expected[name], atol=1e-5, rtol=1e-4, msg=name)


def test_nothing_but_shared_embeddings_gets_a_gradient_of_the_others_loss(
    make_model: Make, make_batch: MakeBatch
) -> None:
    batch = make_batch(30, 17, 33)
    model = make_model().eval()
    untie_networks(model)
    generator_only, both = loss_gradients(model, batch, 0.0), loss_gradients(model, batch, 50.0)
    for name, grad in both.items():
        if name.startswith("generator."):
            assert torch.equal(grad, generator_only[name]), name
        else:
            assert not generator_only[name].any(), name
    key_bias = "attention.self.key.bias"  # softmax is blind to it: its gradient is rounding
    assert all(grad.abs().max() > 1e-6 for name, grad in both.items() if key_bias not in name)

    model = make_model().eval()
    generator_only, both = loss_gradients(model, batch, 0.0), loss_gradients(model, batch, 50.0)
    shared = {f"generator.electra.embeddings.{name}" for name in SHARED_EMBEDDINGS}
    shared |= {f"discriminator.electra.embeddings.{name}" for name in SHARED_EMBEDDINGS}
    shared.add("generator.generator_lm_head.weight")
    assert {n for n in both if n.startswith("generator.") and not torch.equal(both[n], generator_only[n])} == {
        name for name in shared if name.startswith("generator.")
    }
    assert {n for n in both if n.startswith("discriminator.") and generator_only[n].any()} == {
        name for name in shared if name.startswith("discriminator.")
    }


def test_a_row_is_corrupted_and_judged_alike_in_any_company(make_model: Make, make_batch: MakeBatch) -> None:
    model = make_model(sampling_temperature=ALWAYS_LIKELIEST, mlm_probability=0.3).to(torch.float64).eval()
    lengths = 30, 17, 4, 31
    batch = make_batch(*lengths)
    together = model(**batch)
    for row, length in enumerate(lengths):
        alone = model(**{name: values[row : row + 1, :length] for name, values in batch.items()})
        assert torch.equal(alone.corrupted_input_ids[0], together.corrupted_input_ids[row, :length])
        torch.testing.assert_close(alone.main_nll[0], together.main_nll[row, :length])


def test_no_attention_mask_means_all_ones(make_model: Make, make_batch: MakeBatch) -> None:
    model = make_model().eval()
    batch = make_batch(20, 20)
    losses = []
    for attention_mask in (batch["attention_mask"], batch["attention_mask"].bool(), None):
        torch.manual_seed(0)
        losses.append(model(**{**batch, "attention_mask": attention_mask}).loss)
    assert losses[0] == losses[1] == losses[2]


def test_token_types_are_seen_by_both_networks(make_model: Make, make_batch: MakeBatch) -> None:
    model = make_model(sampling_temperature=ALWAYS_LIKELIEST).eval()
    batch = make_batch(20, 20)
    with_types = model(**batch)
    without = model(**{**batch, "token_type_ids": None})
    zeros = model(**{**batch, "token_type_ids": torch.zeros_like(batch["token_type_ids"])})
    assert without.loss == zeros.loss
    assert with_types.generator_loss != without.generator_loss
    assert with_types.main_loss != without.main_loss


def test_evaluation_repeats_itself_given_noise_and_seed_and_has_no_dropout(
    make_model: Make, make_batch: MakeBatch
) -> None:
    model = make_model().eval()
    batch = make_batch(30, 17, 33)

    def outputs(seed: int) -> Any:
        torch.manual_seed(seed)
        return model(**batch)

    first, again, other_seed = outputs(0), outputs(0), outputs(1)
    assert {name: value for name, value in first.items() if not torch.equal(value, again[name])} == {}
    assert torch.equal(first.generator_nll, other_seed.generator_nll)  # neither masks nor dropout follow the seed
    assert not torch.equal(first.sampled_ids, other_seed.sampled_ids)
    model.train()
    assert not torch.equal(outputs(0).generator_nll, outputs(1).generator_nll)


def test_masks_without_given_noise_follow_the_random_state(make_model: Make, make_batch: MakeBatch) -> None:
    model = make_model(mlm_probability=0.3).eval()
    batch = make_batch(30, 17, 33)
    del batch["mask_noise"]

    def positions(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return model(**batch).mlm_positions

    assert torch.equal(positions(0), positions(0)) and not torch.equal(positions(0), positions(1))


def test_losses_are_fp32_in_bf16(make_model: Make, make_batch: MakeBatch) -> None:
    batch = make_batch(30, 17, 33)
    exact = make_model(sampling_temperature=ALWAYS_LIKELIEST).eval()
    rough = copy.deepcopy(exact).to(torch.bfloat16)
    output = rough(**batch)
    for name in ("loss", "generator_loss", "main_loss", "generator_nll", "main_nll"):
        assert output[name].dtype == torch.float32
    assert output.discriminator_logits.dtype == torch.bfloat16
    torch.testing.assert_close(output.generator_loss, exact(**batch).generator_loss, atol=0.05, rtol=0.05)
    output.loss.backward()
    assert all(torch.isfinite(grad).all() for grad in gradients(rough).values())
