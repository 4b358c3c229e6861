"""Frozen features against the states of the encoder, and both kinds of heads."""

import numpy as np
import pytest
import torch
from transformers import ElectraConfig, ElectraModel, PreTrainedTokenizerBase

from electra.errors import UserError
from electra.tasks.tagging.heads import (
    FEATURE_LAYERS,
    EncoderWithTagger,
    FeatureTagger,
    LayerMix,
    collate_features,
    combine_layers,
    compute_features,
)
from electra.tasks.tagging.windows import WindowCollator, make_windows

SENTENCES = [["11", "12 13", "14"], ["15"], [str(100 + i) for i in range(20)]]


def make_encoder(layers: int = 4) -> ElectraModel:
    torch.manual_seed(0)
    return ElectraModel(
        ElectraConfig(
            vocab_size=6000, embedding_size=8, hidden_size=16, num_hidden_layers=layers, num_attention_heads=2,
            intermediate_size=32, max_position_embeddings=16, initializer_range=0.2,
        )
    )  # fmt: skip


def test_layers_are_combined_as_they_are_called() -> None:
    layers = [torch.full((2,), float(10**i)) for i in range(6)]  # the embeddings are 1, the layers 10 to 100000
    expected = {
        "last": [100000] * 2, "second_to_last": [10000] * 2, "sum_last_4": [111100] * 2,
        "concat_last_4": [100, 100, 1000, 1000, 10000, 10000, 100000, 100000], "sum_all": [111110] * 2,
        "weighted_sum": [[10**i] * 2 for i in range(6)],
    }  # fmt: skip
    assert {which: combine_layers(layers, which).tolist() for which in FEATURE_LAYERS} == expected
    with pytest.raises(UserError, match=r"sum_last_4.* 4 .* 3"):
        combine_layers(layers[:4], "sum_last_4")


@pytest.mark.parametrize("which", ["last", "concat_last_4", "weighted_sum"])
def test_features_are_the_encoders_states_and_it_stays_as_it_is(
    framed_tokenizer: PreTrainedTokenizerBase, which: str
) -> None:
    encoder = make_encoder().train()
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    windows = make_windows(SENTENCES, [[1, 2, 3], [4], list(range(20))], framed_tokenizer, 12)
    features = compute_features(encoder, windows, which, WindowCollator(0), 2)
    assert features.lengths.tolist() == [3, 1, 20] and encoder.training
    assert [row["labels"].tolist() for row in features] == [[1, 2, 3], [4], list(range(20))]
    assert features[0]["features"].dtype == np.float16
    assert all(value.equal(before[name]) for name, value in encoder.state_dict().items())
    assert all(parameter.grad is None for parameter in encoder.parameters())

    ids = torch.tensor([framed_tokenizer("11 12 13 14")["input_ids"]])
    with torch.no_grad():
        states = encoder.eval()(input_ids=ids, output_hidden_states=True).hidden_states
    alone = combine_layers([state[0, [1, 2, 4]] for state in states], which).numpy()
    assert features[0]["features"] == pytest.approx(alone, abs=5e-3)
    batch = collate_features([features[1], features[0]])
    assert batch["lengths"].tolist() == [1, 3] and batch["labels"].tolist() == [[4, -100, -100], [1, 2, 3]]
    assert batch["features"][1].numpy() == pytest.approx(alone, abs=5e-3) and not batch["features"][0, 1:].any()


def test_the_words_of_a_long_sentence_have_the_states_of_their_windows(
    framed_tokenizer: PreTrainedTokenizerBase,
) -> None:
    encoder, long = make_encoder().eval(), SENTENCES[2]
    windows = make_windows([long], None, framed_tokenizer, 10)
    features = compute_features(encoder, windows, "last", WindowCollator(0), 3)
    for word, start in ((7, 4), (19, 12)):
        ids = torch.tensor([framed_tokenizer(" ".join(long[start : start + 8]))["input_ids"]])
        with torch.no_grad():
            states = encoder(input_ids=ids)[0][0]
        assert features[0]["features"][word] == pytest.approx(states[1 + word - start].numpy(), abs=5e-3)


def test_a_mix_of_layers_starts_as_their_mean_and_is_learned() -> None:
    mix = LayerMix(3)
    layers = torch.randn(2, 4, 3, 5)
    assert torch.allclose(mix(layers), layers.mean(2), atol=1e-6)
    with torch.no_grad():
        mix.weights.copy_(torch.tensor([0.0, 50.0, 0.0]))
        mix.factor.fill_(2.0)
    assert torch.allclose(mix(layers), 2 * layers[:, :, 1], atol=1e-5)
    mix(layers).sum().backward()
    assert mix.weights.grad is not None and mix.factor.grad is not None


def test_the_bilstm_reads_both_ways_and_no_padding() -> None:
    torch.manual_seed(0)
    tagger = FeatureTagger(6, None, "bilstm", 3, 0.0, 5)
    features = torch.randn(1, 3, 6)
    alone = tagger(features, torch.tensor([3]))
    padded = torch.cat([features, torch.full((1, 4, 6), 9.0)], dim=1)
    both = tagger(torch.cat([padded, torch.randn(1, 7, 6)]), torch.tensor([3, 7]))
    assert both.shape == (2, 7, 3) and torch.allclose(both[:1, :3], alone, atol=1e-6)
    later = features.clone()
    later[0, 2] += 1
    assert not torch.allclose(tagger(later, torch.tensor([3]))[0, 0], alone[0, 0])  # the first word knows the last


def test_a_linear_tagger_on_features_is_one_layer() -> None:
    tagger = FeatureTagger(4, None, "linear", 3, 0.0, 5)
    assert sum(p.numel() for p in tagger.parameters()) == 4 * 3 + 3
    features = torch.randn(2, 6, 4)
    torch.testing.assert_close(tagger(features, torch.tensor([6, 2])), tagger.head(features))


def test_heads_compute_in_float32_under_autocast() -> None:
    tagger = EncoderWithTagger(make_encoder(), 3, 0.0).eval()
    ids, positions = torch.tensor([[2, 11, 12, 13, 3]]), torch.tensor([[1, 3]])
    features, lengths = torch.randn(1, 4, 5), torch.tensor([4])
    on_features = FeatureTagger(5, None, "bilstm", 3, 0.0, 6).eval()
    with torch.autocast("cpu", torch.bfloat16):
        logits, of_features = tagger(ids, ids > 0, positions), on_features(features, lengths)
        hidden = tagger.encoder(input_ids=ids, attention_mask=ids > 0)[0].float()
    torch.testing.assert_close(logits[0], tagger.head(hidden[0, [1, 3]]), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(of_features, on_features(features, lengths), rtol=1e-6, atol=1e-6)


def test_the_fine_tuned_head_reads_the_words_first_tokens() -> None:
    tagger = EncoderWithTagger(make_encoder(), 3, 0.0).eval()
    ids = torch.tensor([[2, 11, 12, 13, 3], [2, 14, 3, 0, 0]])
    mask = (ids > 0).long()
    logits = tagger(ids, mask, torch.tensor([[1, 3], [1, 0]]))
    hidden = tagger.encoder(input_ids=ids, attention_mask=mask)[0]
    layer = tagger.head[1]
    assert torch.allclose(logits[0], layer(hidden[0, [1, 3]]), atol=1e-6)
    assert torch.allclose(logits[1, 0], layer(hidden[1, 1]), atol=1e-6)
    logits[0, 0].sum().backward()
    assert np.isfinite(float(tagger.encoder.encoder.layer[0].attention.self.query.weight.grad.abs().sum()))
