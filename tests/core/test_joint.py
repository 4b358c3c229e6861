"""The joint model: masks, randomness; saved and loaded. Losses are in test_joint_losses.py."""

import copy

import torch
from pytest import approx
from safetensors import safe_open
from transformers import ElectraForMaskedLM

from electra.core.configuration import ElectraPretrainingConfig
from electra.core.objectives import OBJECTIVES
from electra.model.joint import ElectraForJointPretraining
from tests.core.helpers import MASK, SHARED_EMBEDDINGS, chosen_cells, make_batch, make_model, objectives, run
from tests.helpers import parametrize


@parametrize("implementation", ["eager", "sdpa"])
def test_the_attention_implementation_reaches_both_networks(tmp_path, implementation):
    make_model().save_pretrained(tmp_path)
    model = ElectraForJointPretraining.from_pretrained(tmp_path, attn_implementation=implementation)
    for network in (model, model.generator, model.discriminator.electra):
        assert network.config._attn_implementation == implementation


# ---- masks and randomness


@parametrize("objective", ["electra", "mlm"])
def test_masked_positions_have_their_shares(objective):
    shares = {"mlm_replacement_probability": 0.5, "mlm_random_probability": 0.25, "mlm_probability": 0.5}
    model = make_model(objective=objective, **shares).eval()
    inputs = []
    masked_network = model.generator or model.discriminator
    masked_network.electra.register_forward_pre_hook(
        lambda module, args, kwargs: inputs.append(kwargs["input_ids"]), with_kwargs=True
    )
    batch = make_batch(30, 17, 33, 33)
    output = model(**batch)
    cells = chosen_cells(output)
    pairs = [(int(inputs[0][row, place]), int(batch["input_ids"][row, place])) for row, _, place in cells]
    kinds = ["mask" if token == MASK else "kept" if token == original else "random" for token, original in pairs]
    # With fixed noise: a half and two quarters, within four standard deviations.
    assert len(kinds) == 55
    assert kinds.count("mask") == approx(27.5, abs=15)
    assert kinds.count("kept") == approx(13.75, abs=13) and kinds.count("random") == approx(13.75, abs=13)
    assert [bool(output.is_mask_token[row, slot]) for row, slot, _ in cells] == [kind == "mask" for kind in kinds]
    is_chosen = torch.zeros_like(output.corrupted_input_ids, dtype=torch.bool)
    is_chosen.scatter_(1, output.mlm_positions, output.mlm_mask)
    for text in (inputs[0], output.corrupted_input_ids):
        assert torch.equal(text[~is_chosen], batch["input_ids"][~is_chosen])


def test_evaluation_repeats_itself_given_noise_and_seed():
    model = make_model(mlm_probability=0.3).eval()
    batch = make_batch(30, 17, 33)

    def output_of(seed, **changes):
        torch.manual_seed(seed)
        return model(**{**batch, **changes})

    first = output_of(0)
    again = output_of(0)
    other_seed = output_of(1)
    assert {name: value for name, value in first.items() if not torch.equal(value, again[name])} == {}
    assert torch.equal(first.generator_nll, other_seed.generator_nll)  # neither masks nor dropout follow the seed
    assert not torch.equal(first.sampled_ids, other_seed.sampled_ids)
    positions = [output_of(seed, mask_noise=None).mlm_positions for seed in (0, 0, 1)]
    assert torch.equal(positions[0], positions[1]) and not torch.equal(positions[0], positions[2])
    model.train()
    assert not torch.equal(output_of(0).generator_nll, output_of(1).generator_nll)


# ---- files


@parametrize("objective", ["electra", "mlm", "replace_mlm", "all_tokens_mlm"])
def test_the_lm_head_is_the_word_table_also_when_loaded(tmp_path, objective):
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
    assert set(model.state_dict()) - names == model._keys_to_ignore_on_save
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


@objectives
def test_a_checkpoint_knows_its_objective_and_has_its_networks(tmp_path, objective):
    model = make_model(objective=objective, mlm_replacement_probability=0.9, mlm_random_probability=0.05)
    model.save_pretrained(tmp_path)
    config = ElectraPretrainingConfig.from_pretrained(tmp_path)
    assert (config.objective, config.mlm_random_probability) == (objective, 0.05)
    assert (config.generator is None) == (model.generator is None) == (not OBJECTIVES[objective].has_generator)
    assert isinstance(model.discriminator, ElectraForMaskedLM) == (not OBJECTIVES[objective].finds_replaced)
    # What Trainer compares with the tokenizer's; it warns, and writes into the configuration, where they differ.
    assert config.get_text_config().pad_token_id == 0
    loaded = ElectraForJointPretraining.from_pretrained(tmp_path)
    for name, value in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], value), name
