"""Scores are those of a slow loop over single sentences, of hand-set networks, and of the best discriminator."""

from itertools import product

import numpy as np
import torch
from pytest import approx, raises
from transformers import AutoModelForMaskedLM

from electra.core.errors import UserError
from electra.tasks.minimal_pairs.data import PAIR_SCORES
from electra.tasks.minimal_pairs.scores import Scorer, corrected, encode_sentences
from tests.finetuning.encoders import tiny_configs
from tests.helpers import parametrize
from tests.tasks.minimal_pairs.networks import PAIRS, random_pair

TEXTS = [*(row[field] for row in PAIRS for field in ("sentence_good", "sentence_bad")), "seashore foxdog sea"]


def slow_log_q(network, ids, words, position, masked_part, mask):
    """Return the log-probability of one token where it is masked, alone or with the later tokens of its word."""
    shown = torch.tensor([ids])
    for other, word in enumerate(words):
        if other == position or (masked_part == "word" and word == words[position] and other > position):
            shown[0, other] = mask
    with torch.no_grad():
        return network(input_ids=shown).logits[0, position].double().log_softmax(0)[ids[position]].item()


def slow_scores(discriminator, generator, text, tokenizer, share):
    """Return all scores of a sentence from networks that read one sentence at a time."""
    encoded = tokenizer(text)
    ids = encoded["input_ids"]
    words = encoded.word_ids()
    scores = dict.fromkeys(PAIR_SCORES, 0.0)
    with torch.no_grad():
        replaced = discriminator(input_ids=torch.tensor([ids])).logits[0].double().sigmoid()
        log_p = generator(input_ids=torch.tensor([ids])).logits[0].double().log_softmax(1)
    for position in range(1, len(ids) - 1):  # without [CLS] and [SEP]
        replaced_probability = replaced[position].item()
        scores["electric"] += np.log((1 - replaced_probability) / replaced_probability)  # minus the logit
        scores["discriminator"] += np.log(1 - replaced_probability)
        sampled = np.exp(slow_log_q(generator, ids, words, position, "masked", tokenizer.mask_token_id))
        odds = (1 - replaced_probability) / replaced_probability * share * sampled / (1 - share + share * sampled)
        scores["corrected"] += np.log(odds / (1 + odds))
        scores["pll"] += slow_log_q(generator, ids, words, position, "word", tokenizer.mask_token_id)
        scores["causal"] += log_p[position, ids[position]].item()
    return scores


@parametrize("batch_size", [1, 2, 256])
def test_every_score_is_that_of_a_loop_whatever_the_batch(wordpiece_tokenizer, batch_size):
    discriminator, generator = random_pair(wordpiece_tokenizer)
    groups = encode_sentences(TEXTS, wordpiece_tokenizer)
    assert len({len(group.ids[0]) for group in groups}) == len(groups) > 1
    assert sum(len(group.ids) for group in groups) == len(set(map(str.lower, TEXTS)))
    scorer = Scorer(discriminator, generator, wordpiece_tokenizer.mask_token_id, batch_size, 0.25)
    scores = scorer.scores(groups, PAIR_SCORES)
    for row, text in enumerate(TEXTS):
        expected = slow_scores(discriminator, generator, text, wordpiece_tokenizer, 0.25)
        assert {name: values[row] for name, values in scores.items()} == approx(expected, abs=1e-5)


def test_hand_set_networks_give_hand_computed_scores(wordpiece_tokenizer):
    discriminator, generator = random_pair(wordpiece_tokenizer)
    dog, fox = wordpiece_tokenizer.convert_tokens_to_ids(["dog", "f"])
    with torch.no_grad():
        generator.generator_lm_head.weight.zero_()
        generator.generator_lm_head.bias.fill_(-1e4)
        generator.generator_lm_head.bias[dog], generator.generator_lm_head.bias[fox] = np.log(0.9), np.log(0.1)
        discriminator.discriminator_predictions.dense_prediction.weight.zero_()
        discriminator.discriminator_predictions.dense_prediction.bias.fill_(np.log(1 / 3))  # D = 0.25
    scorer = Scorer(discriminator, generator, wordpiece_tokenizer.mask_token_id, 4, 0.5)
    scores = scorer.scores(encode_sentences(["dog dog", "dog f", "f dog"], wordpiece_tokenizer), PAIR_SCORES)
    assert scores["discriminator"] == approx(2 * np.log([0.75] * 3))
    assert scores["pll"] == approx([np.log(0.81), np.log(0.09), np.log(0.09)])
    odds = np.array([3 * 0.5 * probability / (0.5 + 0.5 * probability) for probability in (0.9, 0.1)])
    by_token = np.log(odds / (1 + odds))
    assert scores["corrected"] == approx([2 * by_token[0], by_token.sum(), by_token.sum()])
    scorer.temperature = 0.5  # samples of .81 / .82 and .01 / .82; the language model's own score stays
    sampled = scorer.scores(encode_sentences(["dog", "f"], wordpiece_tokenizer), ["corrected", "pll"])
    odds = np.array([3 * 0.5 * probability / (0.5 + 0.5 * probability) for probability in (0.81 / 0.82, 0.01 / 0.82)])
    assert sampled["corrected"] == approx(np.log(odds / (1 + odds)))
    assert sampled["pll"] == approx(np.log([0.9, 0.1]))


def test_the_correction_recovers_the_data(wordpiece_tokenizer):
    data = np.array([0.6, 0.3, 0.1])
    sampled = np.array([0.2, 0.1, 0.7])
    share = 0.15
    original = (1 - share) * data
    replaced = np.zeros(3)
    for real, sample in product(range(3), range(3)):
        seen = share * data[real] * sampled[sample]
        if real == sample:
            original[sample] += seen
        else:
            replaced[sample] += seen
    assert np.exp(corrected(np.log(original / replaced), np.log(sampled), share)) == approx(data)
    odds = np.log(data / (1 - data))  # of a discriminator that was trained at the replaced positions only
    assert np.exp(corrected(odds, np.log(sampled), 1.0)) == approx(data)


@parametrize("model_type", ["distilbert", "modernbert", "roberta", "deberta-v2"])
def test_masked_language_models_of_other_types_have_the_score_of_a_loop(wordpiece_tokenizer, model_type):
    torch.manual_seed(1)
    network = AutoModelForMaskedLM.from_config(tiny_configs(len(wordpiece_tokenizer))[model_type]).eval()
    scorer = Scorer(None, network, wordpiece_tokenizer.mask_token_id, 3)
    scores = scorer.scores(encode_sentences(TEXTS, wordpiece_tokenizer), ["pll"])["pll"]
    for row, text in enumerate(TEXTS):
        encoded = wordpiece_tokenizer(text)
        ids = encoded["input_ids"]
        words = encoded.word_ids()
        mask = wordpiece_tokenizer.mask_token_id
        expected = sum(slow_log_q(network, ids, words, at, "word", mask) for at in range(1, len(ids) - 1))
        assert scores[row] == approx(expected, abs=1e-5)


def test_a_diverged_network_is_refused(wordpiece_tokenizer):
    discriminator, _ = random_pair(wordpiece_tokenizer)
    torch.nn.init.constant_(discriminator.discriminator_predictions.dense.bias, float("nan"))
    with raises(UserError, match="diverged"):
        Scorer(discriminator, None, 4, 8).scores(encode_sentences(TEXTS, wordpiece_tokenizer), ["discriminator"])
