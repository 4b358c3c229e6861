"""The objectives of sections 3.2 and 3.5: losses written out; what gets a gradient and what must not."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor
from transformers import ElectraForMaskedLM

from electra.model import ablations
from electra.model.configuration import ElectraPretrainingConfig
from electra.model.joint import ElectraForJointPretraining
from electra.objectives import OBJECTIVES
from tests.model.helpers import (
    ALWAYS_LIKELIEST,
    MASK,
    SHARED_EMBEDDINGS,
    VOCAB_SIZE,
    Make,
    MakeBatch,
    chosen_cells,
    gradients,
    loss_gradients,
    run,
    untie_networks,
)


def plain_masked_lm(model: ElectraForJointPretraining) -> ElectraForMaskedLM:
    """A model of transformers with the main network's weights and nothing in common."""
    plain = ElectraForMaskedLM(copy.deepcopy(model.config.discriminator)).eval()
    plain.load_state_dict(model.discriminator.state_dict())
    return plain


def log_probabilities(plain: ElectraForMaskedLM, batch: dict[str, Tensor], output: Any) -> Tensor:
    logits = plain(output.corrupted_input_ids, batch["attention_mask"], batch["token_type_ids"]).logits
    return logits.log_softmax(dim=2)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_losses_are_means_over_all_tokens_however_they_are_split_into_batches(
    make_model: Make, make_batch: MakeBatch, objective: str
) -> None:
    model = make_model(objective=objective, mlm_probability=0.3).eval()
    batch = make_batch(30, 12, 9, 25, 6, 11)
    batch["sample_noise"] = torch.rand(6, 30, generator=torch.Generator().manual_seed(1))
    whole = model(**batch)
    whole.loss.backward()
    expected = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    parts = [{name: values[rows] for name, values in batch.items()} for rows in ([0], [1, 2], [3, 4, 5])]
    counts = torch.stack([model.count_tokens(part["input_ids"], part["attention_mask"]) for part in parts])
    assert torch.equal(counts.sum(dim=0), model.count_tokens(batch["input_ids"], batch["attention_mask"]))
    assert counts.sum(dim=0).tolist() == [whole.mlm_mask.sum(), batch["attention_mask"].sum()]
    outputs = [model(**part, token_counts=counts.sum(dim=0) / 3) for part in parts]
    assert torch.equal(model(**parts[0], token_counts=counts[0] / 1).loss, model(**parts[0]).loss)  # the same bits
    sum(output.loss / 3 for output in outputs).backward()
    for name in ("loss", "generator_loss", "main_loss", "adversarial_loss", "baseline_loss"):
        if whole.get(name) is not None:
            torch.testing.assert_close(sum(output[name] for output in outputs) / 3, whole[name])
    for name, parameter in model.named_parameters():
        if name in expected:
            torch.testing.assert_close(parameter.grad, expected[name], rtol=1e-4, atol=1e-5)


def without_shared(grads: dict[str, Tensor], network: str) -> dict[str, Tensor]:
    """Gradients of a network but for its embeddings and the head tied to them."""
    return {
        name: grad
        for name, grad in grads.items()
        if name.startswith(network) and ".embeddings." not in name and not name.endswith("lm_head.weight")
    }


# ---- electra_15


def test_electra_15_is_electra_with_the_loss_of_the_chosen_positions(make_model: Make, make_batch: MakeBatch) -> None:
    batch = make_batch(30, 17, 4, 33)
    outputs = [
        run(make_model(mlm_probability=0.3, objective=name).eval(), batch) for name in ("electra", "electra_15")
    ]
    for name in ("generator_loss", "corrupted_input_ids", "main_nll", "discriminator_logits"):
        assert torch.equal(outputs[0][name], outputs[1][name])
    nll = [outputs[0].main_nll[row, position] for row, _, position in chosen_cells(outputs[0])]
    torch.testing.assert_close(outputs[1].main_loss, torch.stack(nll).mean())
    expected = outputs[1].generator_loss + 50 * outputs[1].main_loss
    torch.testing.assert_close(outputs[1].loss, expected)


def test_electra_15_has_no_gradient_where_nothing_was_chosen(make_model: Make, make_batch: MakeBatch) -> None:
    model = make_model(mlm_probability=0.3, objective="electra_15").eval()
    logits: list[Tensor] = []

    def keep(module: torch.nn.Module, inputs: Any, output: Tensor) -> None:
        output.retain_grad()
        logits.append(output)

    model.discriminator.discriminator_predictions.register_forward_hook(keep)
    output = run(model, make_batch(30, 17, 4, 33))
    output.loss.backward()
    grad = logits[0].grad
    assert grad is not None
    is_chosen = torch.zeros_like(grad, dtype=torch.bool)
    for row, _, position in chosen_cells(output):
        is_chosen[row, position] = True
    assert (grad[~is_chosen] == 0).all() and (grad[is_chosen] != 0).all()
    error = torch.sigmoid(logits[0].detach()) - output.is_replaced.float()
    torch.testing.assert_close(grad[is_chosen], 50 * error[is_chosen] / is_chosen.sum())


# ---- mlm


def test_mlm_is_one_network_that_sees_mask_and_random_tokens(make_model: Make, make_batch: MakeBatch) -> None:
    shares = {"mlm_replacement_probability": 0.5, "mlm_random_probability": 0.25, "mlm_probability": 0.5}
    model = make_model(objective="mlm", **shares).eval()
    assert model.generator is None and model.config.generator is None and model.copy_gate is None
    assert type(model.discriminator) is ElectraForMaskedLM
    assert not any(name.startswith("generator") for name in model.state_dict())
    batch = make_batch(30, 17, 33, 33)
    output: Any = model(**batch)
    assert output.generator_loss is output.sampled_ids is output.is_replaced is None
    cells = chosen_cells(output)
    seen = [(int(output.corrupted_input_ids[r, p]), int(batch["input_ids"][r, p])) for r, _, p in cells]
    kinds = ["mask" if s == MASK else "kept" if s == original else "random" for s, original in seen]
    assert 10 < kinds.count("mask") < 35 and 4 < kinds.count("kept") < 22 and 4 < kinds.count("random") < 22
    assert [bool(output.is_kept_token[r, k]) for r, k, _ in cells] == [kind == "kept" for kind in kinds]
    is_chosen = torch.zeros_like(batch["input_ids"], dtype=torch.bool)
    for row, _, position in cells:
        is_chosen[row, position] = True
    assert torch.equal(output.corrupted_input_ids[~is_chosen], batch["input_ids"][~is_chosen])


@pytest.mark.parametrize("objective", ["mlm", "replace_mlm"])
def test_the_loss_and_its_gradient_are_those_of_a_plain_masked_lm_at_the_chosen_positions(
    make_model: Make, make_batch: MakeBatch, objective: str
) -> None:
    model = make_model(mlm_probability=0.3, objective=objective, discriminator_weight=3.0).eval()
    if model.generator is not None:
        untie_networks(model)  # also the generator's loss speaks to shared ones
        model.discriminator.tie_weights()
    batch = make_batch(30, 17, 4, 33)
    output = run(model, batch)
    output.loss.backward()
    plain = plain_masked_lm(model)
    scores = log_probabilities(plain, batch, output)
    cells = chosen_cells(output)
    nll = torch.stack([-scores[row, p, batch["input_ids"][row, p]] for row, _, p in cells])
    torch.testing.assert_close(output.main_loss, nll.mean())
    weight = 1.0 if model.generator is None else 3.0
    expected = weight * nll.mean() + (output.generator_loss if model.generator is not None else 0.0)
    torch.testing.assert_close(output.loss, expected)
    (weight * nll.mean()).backward()
    grads = gradients(model.discriminator)
    for name, grad in gradients(plain).items():
        torch.testing.assert_close(grads[name], grad, atol=1e-5, rtol=1e-4, msg=name)
    for row, _, p in cells:
        assert output.mlm_predictions[row, p] == scores[row, p].argmax()
        torch.testing.assert_close(output.main_nll[row, p], -scores[row, p, batch["input_ids"][row, p]].detach())


# ---- replace_mlm


@pytest.mark.parametrize("objective", ["replace_mlm", "all_tokens_mlm"])
def test_the_main_network_sees_samples_as_a_discriminator_would(
    make_model: Make, make_batch: MakeBatch, objective: str
) -> None:
    batch = make_batch(30, 17, 4, 33)
    electra, other = (make_model(objective=name, mlm_probability=0.3).eval() for name in ("electra", objective))
    assert electra.generator is not None and other.generator is not None
    other.generator.load_state_dict(electra.generator.state_dict())
    outputs = [run(electra, batch), run(other, batch)]
    for name in ("generator_loss", "generator_nll", "sampled_ids", "corrupted_input_ids", "is_replaced"):
        assert torch.equal(outputs[0][name], outputs[1][name])
    assert outputs[1].is_replaced.any()


@pytest.mark.parametrize("objective", ["electra_15", "replace_mlm", "all_tokens_mlm"])
def test_samples_pass_no_gradient_to_the_generator_nor_its_loss_any_to_the_main_network(
    make_model: Make, make_batch: MakeBatch, objective: str
) -> None:
    model = make_model(objective=objective).eval()
    batch = make_batch(30, 17, 33)
    generator_only, both = loss_gradients(model, batch, 0.0), loss_gradients(model, batch, 50.0)
    for name, grad in without_shared(both, "generator.").items():
        assert torch.equal(grad, generator_only[name]), name
    large = {**without_shared(both, "discriminator."), **without_shared(both, "copy_gate.")}
    assert len(large) > 20
    for name, grad in large.items():
        assert not generator_only[name].any(), name
        assert "attention.self.key.bias" in name or grad.abs().max() > 1e-7, name
    table = "generator.electra.embeddings.word_embeddings.weight"
    assert not torch.equal(generator_only[table], both[table])


# ---- all_tokens_mlm


def written_out_copy_loss(
    model: ElectraForJointPretraining, batch: dict[str, Tensor], output: Any
) -> tuple[Tensor, Tensor]:
    """The paper's mixture over the vocabulary, (B, L, V), and the mean of -log p(original) over the real tokens."""
    assert model.copy_gate is not None
    inputs = batch["attention_mask"], batch["token_type_ids"]
    hidden = model.discriminator.electra(output.corrupted_input_ids, *inputs).last_hidden_state
    copy_probability = torch.sigmoid(model.copy_gate(hidden))
    by_softmax = model.discriminator(output.corrupted_input_ids, *inputs).logits.softmax(2)
    p = copy_probability * F.one_hot(output.corrupted_input_ids, VOCAB_SIZE) + (1 - copy_probability) * by_softmax
    nll = [-p[row, t, batch["input_ids"][row, t]].log() for row, t in batch["attention_mask"].nonzero().tolist()]
    return p, torch.stack(nll).mean()


@pytest.mark.parametrize("positions_at_once", [7, 2048])
@pytest.mark.parametrize("training", [False, True])
def test_all_tokens_are_copied_or_predicted_in_pieces_of_any_size(
    make_model: Make,
    make_batch: MakeBatch,
    monkeypatch: pytest.MonkeyPatch,
    positions_at_once: int,
    training: bool,
) -> None:
    monkeypatch.setattr(ablations, "HEAD_POSITIONS", positions_at_once)
    model = make_model(objective="all_tokens_mlm", mlm_probability=0.3, discriminator_weight=2.0).train(training)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if hasattr(module, "attention_dropout"):
            module.attention_dropout = 0.0
    for config in (model.config.generator, model.config.discriminator):
        config.attention_probs_dropout_prob = 0.0
    batch = make_batch(30, 17, 4, 33)
    output = run(model, batch)
    output.loss.backward()
    grads = gradients(model)
    p, expected = written_out_copy_loss(model, batch, output)
    torch.testing.assert_close(output.main_loss, expected)
    torch.testing.assert_close(output.loss, output.generator_loss + 2 * expected)
    if training:
        assert output.mlm_predictions is None
    else:
        assert torch.equal(output.mlm_predictions, p.argmax(2))
        assert (output.mlm_predictions != output.corrupted_input_ids).any()
    model.zero_grad()
    (2 * expected).backward()
    wanted = {**without_shared(gradients(model), "discriminator."), **without_shared(gradients(model), "copy_gate.")}
    assert wanted["copy_gate.weight"].any()
    for name, grad in wanted.items():
        torch.testing.assert_close(grads[name], grad, atol=1e-5, rtol=1e-4, msg=name)


def test_logits_of_all_positions_are_not_kept_for_the_backward_pass(
    make_model: Make, make_batch: MakeBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ablations, "HEAD_POSITIONS", 7)
    model = make_model(objective="all_tokens_mlm").train()
    kept: list[tuple[int, ...]] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tuple(tensor.shape))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = run(model, make_batch(33, 33))
    slots = output.mlm_positions.numel()
    assert (slots, VOCAB_SIZE) in kept and (7, VOCAB_SIZE) not in kept
    output.loss.backward()


def test_the_gate_is_positive_for_copying_and_its_logit_in_the_output_for_replaced(
    make_model: Make, make_batch: MakeBatch
) -> None:
    model = make_model(objective="all_tokens_mlm", mlm_probability=0.5).eval()
    batch = make_batch(30, 17, 33)
    assert model.copy_gate is not None
    with torch.no_grad():
        model.copy_gate.weight.zero_()
        model.copy_gate.bias.fill_(40.0)  # always copies
    output = run(model, batch)
    assert (output.discriminator_logits == -40).all()
    assert torch.equal(output.mlm_predictions, output.corrupted_input_ids)
    is_real = batch["attention_mask"].bool()
    assert (output.main_nll[is_real & ~output.is_replaced] < 1e-6).all()
    assert (output.main_nll[output.is_replaced] > 35).all()


# ---- all of them


@pytest.mark.parametrize("objective", ["electra", "mlm", "replace_mlm", "all_tokens_mlm"])
def test_the_lm_head_is_the_word_table_also_of_a_saved_and_loaded_model(
    make_model: Make, make_batch: MakeBatch, tmp_path: Path, objective: str
) -> None:
    model = make_model(objective=objective).eval()
    model.save_pretrained(tmp_path)
    with safe_open(tmp_path / "model.safetensors", "pt") as file:
        names = set(file.keys())
    assert len(names) == len(list(model.parameters()))
    owner = "discriminator" if objective == "mlm" else "generator"
    assert f"{owner}.electra.embeddings.word_embeddings.weight" in names
    assert not any(name.endswith("lm_head.weight") for name in names)
    loaded, info = ElectraForJointPretraining.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info.values()), info
    # What Trainer calls missing when it resumes is what the model says was left out.
    missing = set(model.state_dict()) - names
    assert missing == model._keys_to_ignore_on_save
    fresh = ElectraForJointPretraining(model.config)
    fresh.load_state_dict(model.state_dict())
    for twin in (model, loaded, fresh, copy.deepcopy(model)):
        table = twin.discriminator.electra.embeddings.word_embeddings.weight
        if objective != "electra":
            assert twin.discriminator.generator_lm_head.weight is table
        if twin.generator is not None:
            assert twin.generator.generator_lm_head.weight is table
            for name in SHARED_EMBEDDINGS:
                shared = twin.generator.electra.embeddings.get_parameter(name)
                assert twin.discriminator.electra.embeddings.get_parameter(name) is shared
        assert torch.equal(run(twin.eval(), make_batch(20, 13)).loss, run(model, make_batch(20, 13)).loss)


@pytest.mark.parametrize("objective", list(OBJECTIVES))
def test_a_checkpoint_knows_its_objective(make_model: Make, tmp_path: Path, objective: str) -> None:
    make_model(objective=objective, mlm_random_probability=0.05).save_pretrained(tmp_path)
    config = ElectraPretrainingConfig.from_pretrained(tmp_path)
    assert (config.objective, config.mlm_random_probability) == (objective, 0.05)
    assert (config.generator is None) == (objective == "mlm")
    # What Trainer compares with the tokenizer's; it warns, and writes into the configuration, where they differ.
    assert config.get_text_config().pad_token_id == 0


@pytest.mark.parametrize("objective", list(OBJECTIVES))
def test_padding_changes_no_loss_and_a_batch_of_special_tokens_is_finite(
    make_model: Make, make_batch: MakeBatch, objective: str
) -> None:
    model = make_model(objective=objective, mlm_probability=0.3, sampling_temperature=ALWAYS_LIKELIEST)
    model = model.to(torch.float64).eval()
    batch = make_batch(30, 17, 4, 31)
    padded = {name: F.pad(values, (0, 5)) for name, values in batch.items() if name != "mask_noise"}
    padded["token_type_ids"][:, -5:] = 1
    padded["mask_noise"] = torch.cat([batch["mask_noise"], torch.zeros(4, 5, 2)], dim=1)  # chosen if it counted
    expected, output = model(**batch), model(**padded)
    for name in ("loss", "generator_loss", "main_loss"):
        torch.testing.assert_close(output.get(name), expected.get(name), atol=1e-6, rtol=1e-6)
    assert torch.equal(output.corrupted_input_ids, F.pad(expected.corrupted_input_ids, (0, 5)))
    output = model(torch.tensor([[2, 3], [2, 3]]))
    output.loss.backward()
    assert torch.isfinite(output.loss) and all(torch.isfinite(grad).all() for grad in gradients(model).values())


@pytest.mark.parametrize("objective", list(OBJECTIVES))
def test_losses_are_fp32_in_bf16_autocast(make_model: Make, make_batch: MakeBatch, objective: str) -> None:
    model = make_model(objective=objective).train()
    with torch.autocast("cpu", torch.bfloat16):
        output = run(model, make_batch(30, 17, 33))
    assert output.loss.dtype == output.main_loss.dtype == output.main_nll.dtype == torch.float32
    output.loss.backward()
    assert all(torch.isfinite(grad).all() for grad in gradients(model).values())
