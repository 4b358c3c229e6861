"""The joint model: masks, randomness; saved and loaded. Losses are in test_joint_losses.py."""

import copy

import torch
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
    seen = []
    first = model.generator or model.discriminator
    first.electra.register_forward_pre_hook(lambda *a: seen.append(a[2]["input_ids"]), with_kwargs=True)
    batch = make_batch(30, 17, 33, 33)
    output = model(**batch)
    cells = chosen_cells(output)
    pairs = [(int(seen[0][r, p]), int(batch["input_ids"][r, p])) for r, _, p in cells]
    kinds = ["mask" if shown == MASK else "kept" if shown == original else "random" for shown, original in pairs]
    assert 10 < kinds.count("mask") < 35 and 4 < kinds.count("kept") < 22 and 4 < kinds.count("random") < 22
    assert [bool(output.is_mask_token[r, k]) for r, k, _ in cells] == [kind == "mask" for kind in kinds]
    is_chosen = torch.zeros_like(output.corrupted_input_ids, dtype=torch.bool)
    is_chosen.scatter_(1, output.mlm_positions, output.mlm_mask)
    for shown in (seen[0], output.corrupted_input_ids):
        assert torch.equal(shown[~is_chosen], batch["input_ids"][~is_chosen])


def test_evaluation_repeats_itself_given_noise_and_seed():
    model = make_model(mlm_probability=0.3).eval()
    batch = make_batch(30, 17, 33)

    def outputs(seed, **changes):
        torch.manual_seed(seed)
        return model(**{**batch, **changes})

    first = outputs(0)
    again = outputs(0)
    other_seed = outputs(1)
    assert {name: value for name, value in first.items() if not torch.equal(value, again[name])} == {}
    assert torch.equal(first.generator_nll, other_seed.generator_nll)  # neither masks nor dropout follow the seed
    assert not torch.equal(first.sampled_ids, other_seed.sampled_ids)
    positions = [outputs(seed, mask_noise=None).mlm_positions for seed in (0, 0, 1)]
    assert torch.equal(positions[0], positions[1]) and not torch.equal(positions[0], positions[2])
    model.train()
    assert not torch.equal(outputs(0).generator_nll, outputs(1).generator_nll)


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
