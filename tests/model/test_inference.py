"""What `corrupt_and_detect` shows is what the joint model does: the same masks, samples and probabilities."""

import torch
from pytest import approx
from torch.testing import assert_close

from electra.model.inference import corrupt_and_detect, inspect_texts, to_samples, token_texts
from electra.model.pretrained import Networks
from electra.tokenizers.options import TokenizerArguments
from electra.tokenizers.train import train_on_documents
from electra.tools.inspect import to_terminal
from tests.conftest import make_number_tokenizer
from tests.core.helpers import VOCAB_SIZE, joint_model, make_batch, make_model, tiny_network_config
from tests.helpers import parametrize


def model_and_batch(objective="electra"):
    """A joint model without dropout, and a batch of two rows with fixed noise, the second of which ends in padding."""
    shares = {} if objective == "electric" else {"mlm_random_probability": 0.1}
    model = make_model(objective=objective, mlm_probability=0.4, **shares).eval()
    return model, {**make_batch(20, 11), "sample_noise": torch.rand(2, 20, generator=torch.Generator().manual_seed(1))}


@torch.no_grad()
@parametrize("objective", ["electra", "electra_15", "replace_mlm", "mlm"])
def test_texts_are_masked_and_judged_as_by_the_joint_model(objective):
    model, inputs = model_and_batch(objective)
    expected = model(**inputs)
    model.train()  # as in a run; `corrupt_and_detect` computes without dropout nevertheless
    detected = corrupt_and_detect(model.generator, model.discriminator, inputs, model.config)
    assert detected.shown.tolist() == expected.corrupted_input_ids.tolist()
    assert (detected.shown != inputs["input_ids"]).any()
    if objective.startswith("electra"):
        assert_close(detected.probabilities, expected.discriminator_logits.sigmoid())
        assert detected.restored is None
    else:
        chosen = torch.zeros(2, 20, dtype=torch.bool).scatter(1, expected.mlm_positions, expected.mlm_mask)
        assert detected.restored is not None and detected.probabilities is None
        assert torch.equal(detected.restored, expected.mlm_predictions.where(chosen, inputs["input_ids"]))


@torch.no_grad()
def test_an_electric_gives_log_probabilities():
    model, inputs = model_and_batch("electric")
    del inputs["mask_noise"], inputs["sample_noise"]
    detected = corrupt_and_detect(None, model.discriminator, inputs, model.config)
    real = inputs["attention_mask"].bool()
    energies = model.discriminator(**inputs).logits
    assert_close(detected.probabilities[real], -energies[real])
    sample = to_samples(detected, make_number_tokenizer(VOCAB_SIZE))[1]
    assert sample.probabilities == approx((-energies[1, :11]).tolist(), abs=2e-6)
    assert "log p" in to_terminal(sample) and "P(replaced)" not in to_terminal(sample)


def test_samples_have_no_padding():
    model, inputs = model_and_batch()
    detected = corrupt_and_detect(model.generator, model.discriminator, inputs, model.config)
    samples = to_samples(detected, make_number_tokenizer(VOCAB_SIZE))
    assert [len(sample.original) for sample in samples] == [20, 11]
    names = {2: "[CLS]", 3: "[SEP]"}
    assert samples[1].original == [f" {names.get(token, token)}" for token in inputs["input_ids"][1, :11].tolist()]
    assert samples[1].probabilities == approx(detected.probabilities[1, :11].tolist(), abs=1e-6)


def test_texts_are_cut_to_the_shorter_network(wordpiece_tokenizer):
    size = len(wordpiece_tokenizer)
    long, short = (
        joint_model(tiny_network_config(vocab_size=size, max_position_embeddings=positions)) for positions in (24, 12)
    )
    for generator, discriminator in ((short.generator, long.discriminator), (long.generator, short.discriminator)):
        networks = Networks(generator, discriminator, wordpiece_tokenizer, None, "no source")
        (sample,) = inspect_texts(networks, ["the discriminator " * 20])
        assert len(sample.original) == 12


def test_pieces_of_words_are_joined_as_they_were_written(wordpiece_tokenizer):
    ids = wordpiece_tokenizer("the unwonted discriminator")["input_ids"]
    texts = token_texts(ids, wordpiece_tokenizer)
    assert len(ids) > 6 and "".join(texts) == " [CLS] the unwonted discriminator [SEP]"
    assert token_texts([7, 200, 4], make_number_tokenizer(90)) == [" 7", " [200]", " [MASK]"]


def test_a_token_has_one_text_in_all_versions_of_a_row():
    """Of `▁the dog` and `[MASK] dog`, the second has no token that begins a word by its mark."""
    options = TokenizerArguments(tokenizer_algorithm="unigram", vocab_size=60)
    tokenizer = train_on_documents(["the dog sees the cat and the dogs see cats"] * 20, options)
    ids = tokenizer("the dogs", add_special_tokens=False)["input_ids"]
    begins_word = {token: tokenizer.convert_ids_to_tokens(token).startswith("▁") for token in ids}
    start = next(token for token in ids if begins_word[token])
    piece = next(token for token in ids if not begins_word[token])
    texts = [token_texts([first, piece], tokenizer)[1] for first in (start, tokenizer.mask_token_id)]
    assert texts[0] == texts[1] == texts[0].strip()
