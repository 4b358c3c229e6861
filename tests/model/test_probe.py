"""What the probe shows is what the joint model does: the same masks, samples and probabilities."""

import pytest
import torch

from electra.model.configuration import ElectraPretrainingConfig, discriminator_config, generator_config
from electra.model.joint import ElectraForJointPretraining
from electra.model.probe import probe, to_samples, token_texts
from tests.conftest import make_number_tokenizer


def pair(objective: str) -> ElectraForJointPretraining:
    torch.manual_seed(0)
    large = discriminator_config(
        vocab_size=90,
        pad_token_id=0,
        embedding_size=16,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=32,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
    )
    config = ElectraPretrainingConfig(
        generator_config(large, 0.5, 1.0)[0],
        large,
        objective=objective,
        mask_token_id=4,
        special_token_ids=[0, 1, 2, 3, 4],
        mlm_probability=0.4,
        mlm_random_probability=0.1,
    )
    model = ElectraForJointPretraining(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def batch() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    mask = (torch.arange(20) < torch.tensor([[20], [11]])).long()
    return {
        "input_ids": torch.randint(5, 90, (2, 20), generator=generator) * mask,
        "attention_mask": mask,
        "token_type_ids": torch.zeros(2, 20, dtype=torch.long),
        "mask_noise": torch.rand(2, 20, 2, generator=generator),
        "sample_noise": torch.rand(2, 20, generator=generator),
    }


@pytest.mark.parametrize("objective", ["electra", "electra_15", "replace_mlm", "mlm"])
def test_the_probe_does_what_the_joint_model_does(objective: str) -> None:
    model, inputs = pair(objective), batch()
    with torch.no_grad():
        expected = model(**inputs)
    probed = probe(model.generator, model.discriminator, inputs, model.config)
    assert probed.shown.tolist() == expected.corrupted_input_ids.tolist()
    assert (probed.shown != inputs["input_ids"]).any()
    if objective.startswith("electra"):
        torch.testing.assert_close(probed.probabilities, expected.discriminator_logits.sigmoid())
        assert probed.restored is None
    else:
        chosen = torch.zeros(2, 20, dtype=torch.bool).scatter(1, expected.mlm_positions, expected.mlm_mask)
        assert probed.restored is not None and probed.probabilities is None
        assert probed.restored[chosen].tolist() == expected.mlm_predictions[chosen].tolist()
        assert probed.restored[~chosen].tolist() == inputs["input_ids"][~chosen].tolist()


def test_a_discriminator_alone_judges_the_text_as_it_is() -> None:
    model, inputs = pair("electra"), batch()
    del inputs["mask_noise"], inputs["sample_noise"]
    probed = probe(None, model.discriminator.train(), inputs, model.config)
    with torch.no_grad():
        arguments = {k: inputs[k] for k in ("input_ids", "attention_mask", "token_type_ids")}
        logits = model.discriminator.eval()(**arguments).logits
    assert probed.masked is None and probed.shown is inputs["input_ids"]
    real = inputs["attention_mask"].bool()
    torch.testing.assert_close(probed.probabilities[real], logits.sigmoid()[real])  # type: ignore[index]


def test_samples_have_no_padding() -> None:
    model, inputs = pair("electra"), batch()
    tokenizer = make_number_tokenizer(90)
    probed = probe(model.generator, model.discriminator, inputs, model.config)
    samples = to_samples(probed, tokenizer)
    assert [len(sample.original) for sample in samples] == [20, 11]
    assert samples[1].original == [f" {i}" for i in inputs["input_ids"][1, :11].tolist()]
    assert probed.probabilities is not None
    assert samples[1].probabilities == pytest.approx(probed.probabilities[1, :11].tolist(), abs=1e-6)


def test_pieces_of_words_are_joined_as_they_were_written(wordpiece_tokenizer: object) -> None:
    ids = wordpiece_tokenizer("the unwonted discriminator")["input_ids"]  # type: ignore[operator]
    texts = token_texts(ids, wordpiece_tokenizer)  # type: ignore[arg-type]
    assert len(ids) > 6 and "".join(texts) == " [CLS] the unwonted discriminator [SEP]"


def test_an_id_that_is_no_token_is_shown_as_it_is() -> None:
    assert token_texts([7, 200, 4], make_number_tokenizer(90)) == [" 7", " [200]", " [MASK]"]
