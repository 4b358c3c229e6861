"""Scores of sentences by a discriminator or a language model; the better sentence has the higher score.

A score is a sum over the tokens of a sentence. The tokens that the tokenizer puts around every text, [CLS] and [SEP],
are not counted. Let D_t be the discriminator's probability that token x_t was replaced, q_t the generator's
probability of x_t, and P the share of the tokens in whose place pre-training put a sample of a generator that did not
see them.

    electric       sum_t -E_t, the energies of an Electric, which are -log p_t (objectives.py, `noise_logits`)
    discriminator  sum_t log(1 - D_t)
    corrected      sum_t log p_t, with p_t from D_t and q_t where x_t is masked
    pll            sum_t log q_t where x_t and the later pieces of its word are masked
    causal         sum_t log p_t given the tokens before x_t, of a network trained so

`corrected`. The discriminator's odds are relative to the generator: a rare word that the generator never samples looks
original. Let p be the probability of x_t in its context in real text. A token x_t that the discriminator sees is

    original with probability   (1 - P) p   no sample was put there;   +  P p q   the sample was the token itself
    replaced with probability   P (1 - p) q   another token stood there, and x_t was sampled

so the best discriminator has (1 - D) / D = p (1 - P + P q) / (P (1 - p) q), which is solved by

    log p / (1 - p) = log (1 - D) / D + log q + log P - log(1 - P + P q)

P is the share of chosen tokens times the share of these that the generator does not see. It copies the chosen tokens
that are kept, so they are as if they were not chosen. For `electra_15`, whose loss is at the chosen positions only,
all tokens of the loss are chosen. q is what the samples were drawn from, at the run's --temperature; the derivation
does not hold with --disallow_correct. Electric (Clark et al. 2020, arXiv:2012.08561) labels samples as replaced even
if they equal the original, which gives p = q (1 - D) / D * P / (1 - P); ELECTRA's labels need the other terms.

q must not depend on x_t, so `corrected` masks each token: as many passes of the small generator as the sentence has
tokens. `pll` masks the pieces of a word to the right of x_t, too: PLL-word-l2r of Kauf and Ivanova (2023,
arXiv:2305.10588), because a piece is easily guessed from the rest of its word.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.special import log_expit
from torch import Tensor
from tqdm import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from electra.base.console import shows_bars
from electra.core.backbones import BACKBONES
from electra.core.errors import UserError
from electra.core.losses import generator_nll
from electra.core.networks import encode, lm_logits, replaced_logits
from electra.finetuning.data import Array, lengths_of


class SentenceBatch(NamedTuple):
    """A batch of the S different sentences that have the same length L, so that it needs no padding.

    Equal sentences share a row, because their scores must be equal to the last bit: a pair of equal sentences is a
    tie.

    Args:
        ids: token ids, int64 (S, L).
        is_text: mask of the tokens of the text, without those around it, bool (S, L).
        words: number of each token's word within its sentence, -1 around the text, int64 (S, L).
        texts: numbers of the texts that have this length, int64 (M,), among the N texts of all batches.
        rows: row of each of these M texts, int64 (M,).
    """

    ids: Array
    is_text: Array
    words: Array
    texts: Array
    rows: Array


def encode_sentences(texts: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> list[SentenceBatch]:
    """Tokenize N texts, and return them in batches of equal length, lengths ascending."""
    encoded = tokenizer(list(texts), return_special_tokens_mask=True, verbose=False)
    lengths = lengths_of(encoded["input_ids"])
    batches = []
    for length in np.unique(lengths):
        numbers = np.flatnonzero(lengths == length)
        ids = np.array([encoded["input_ids"][number] for number in numbers])
        different, first, rows = np.unique(ids, axis=0, return_index=True, return_inverse=True)
        marks = []
        words = []
        for number in numbers[first]:
            marks.append(encoded["special_tokens_mask"][number])
            words.append([-1 if word is None else word for word in encoded.word_ids(number)])
        is_text = np.array(marks) == 0
        batches.append(SentenceBatch(different, is_text, np.array(words), numbers, rows))
    return batches


def sentence_lengths(batches: Sequence[SentenceBatch]) -> Array:
    """Return the number of tokens of each of N texts, without special tokens around the text, int64 (N,)."""
    counts = np.zeros(sum(len(sentences.texts) for sentences in batches), dtype=np.int64)
    for sentences in batches:
        counts[sentences.texts] = sentences.is_text.sum(axis=1)[sentences.rows]
    return counts


def baseline_scores(batches: Sequence[SentenceBatch]) -> tuple[Array, Array]:
    """Return the scores of both `BASELINES` for each of N texts, float64 (N,) each; they need no network.

    Returns:
        minus the number of tokens, and the sum of the logarithms of the tokens' frequencies in all texts.
    """
    counts: Counter[int] = Counter()
    for sentences in batches:
        counts.update(sentences.ids[sentences.rows][sentences.is_text[sentences.rows]].tolist())
    total = counts.total()
    log_frequency = {token: np.log(count / total) for token, count in counts.items()}
    sums = np.zeros(sum(len(sentences.texts) for sentences in batches))
    for sentences in batches:
        terms = np.vectorize(lambda token: log_frequency.get(token, 0.0), otypes=[float])(sentences.ids)
        terms[~sentences.is_text] = 0.0
        sums[sentences.texts] = terms.sum(axis=1)[sentences.rows]
    return -sentence_lengths(batches).astype(float), sums


@dataclass
class Scorer:
    """A scorer of sentences: two networks, and the settings with which they are applied.

    Args:
        discriminator, generator: networks in evaluation mode on one device, None for one that no score needs; the
            generator is any masked or causal language model.
        mask_token_id: id of [MASK].
        batch_size: sentences of a forward pass.
        replaced_share: P of the module's docstring.
        temperature: temperature of the samples in pre-training.
        possible: names of the scores that these networks allow.
    """

    discriminator: PreTrainedModel | None
    generator: PreTrainedModel | None
    mask_token_id: int
    batch_size: int
    replaced_share: float = 0.1275
    temperature: float = 1.0
    possible: Sequence[str] = ()

    def scores(self, batches: Sequence[SentenceBatch], names: Sequence[str]) -> dict[str, Array]:
        """Return score -> its value for each of N texts, float64 (N,).

        Args:
            batches: result of `encode_sentences`.
            names: names of scores, of `PAIR_SCORES`.
        Raises:
            UserError: a score is not finite.
        """
        count = sum(len(sentences.texts) for sentences in batches)
        scores = {name: np.zeros(count) for name in names}
        for sentences in tqdm(batches, disable=not shows_bars(), unit=" lengths", leave=False):
            needs_logits = bool(set(names) - {"pll", "causal"})
            logits = self.replaced_logits(sentences) if needs_logits else np.zeros(sentences.ids.shape)
            for name, values in scores.items():
                terms = self.terms(name, sentences, logits)
                terms[~sentences.is_text] = 0.0
                sums = terms.sum(axis=1)
                values[sentences.texts] = sums[sentences.rows]
        for name, values in scores.items():
            if not np.isfinite(values).all():
                raise UserError(f"the score {name} is not finite: the network has diverged; name another checkpoint")
        return scores

    def terms(self, name: str, sentences: SentenceBatch, logits: Array) -> Array:
        """Return each token's summand in a score, float64 (S, L).

        Args:
            name: name of the score.
            logits: result of `replaced_logits`; not read for pll and causal.
        """
        if name == "pll":
            return self.log_q(sentences, masks_later_pieces=True)
        if name == "causal":
            return self.log_causal(sentences.ids)
        if name == "electric":
            return -logits
        if name == "discriminator":
            return log_expit(-logits)
        log_q = self.log_q(sentences, masks_later_pieces=False, temperature=self.temperature)
        return corrected(-logits, log_q, self.replaced_share)

    @torch.inference_mode()
    def replaced_logits(self, sentences: SentenceBatch) -> Array:
        """Return the discriminator's logits of "replaced", or Electric's energies, float64 (S, L)."""
        logits = []
        for hidden in self._hidden(self.discriminator, sentences.ids):
            batch_logits = replaced_logits(self.discriminator, hidden)
            logits.append(batch_logits.double().cpu().numpy())
        return np.concatenate(logits)

    @torch.inference_mode()
    def log_causal(self, ids: Array) -> Array:
        """Return the log probability of each token, given those before it, by a causal generator, float64 (S, L)."""
        generator: Any = self.generator
        id_batches = torch.as_tensor(ids).split(self.batch_size)
        values = []
        for hidden, batch in zip(self._hidden(generator, ids), id_batches, strict=True):
            logits = lm_logits(generator, hidden).flatten(0, 1)  # (B * L, V)
            nll = generator_nll(logits, batch.flatten().to(logits.device))
            values.append(-nll.view_as(batch).double().cpu().numpy())
        return np.concatenate(values)

    @torch.inference_mode()
    def log_q(
        self,
        sentences: SentenceBatch,
        *,
        masks_later_pieces: bool,
        temperature: float = 1.0,
    ) -> Array:
        """Return the generator's log probability of each token where it is masked, float64 (S, L); 0 around the text.

        Args:
            masks_later_pieces: whether the later pieces of the token's word are masked, too.
            temperature: what the generator's logits are divided by.
        """
        rows, columns = np.nonzero(sentences.is_text)
        position = np.arange(sentences.ids.shape[1])
        is_masked = position == columns[:, None]
        if masks_later_pieces:
            word = sentences.words[rows, columns]
            same_word = sentences.words[rows] == word[:, None]
            is_masked |= same_word & (position > columns[:, None])
        masked = np.where(is_masked, self.mask_token_id, sentences.ids[rows])
        # Sentences of a pair often differ in one word: with it masked they are the same input.
        inputs, first, input_of = np.unique(
            masked,
            axis=0,
            return_index=True,
            return_inverse=True,
        )
        order = np.argsort(input_of, kind="stable")
        targets = sentences.ids[rows, columns]
        start = 0
        values = np.zeros(sentences.ids.shape)
        generator: Any = self.generator
        for hidden in self._hidden(generator, inputs):
            end = start + len(hidden)
            column = torch.as_tensor(columns[first[start:end]])
            states = hidden[torch.arange(len(hidden)), column]  # (B, L, D) -> (B, D)
            if generator.config.model_type in BACKBONES:
                states = lm_logits(generator, states)
            log_p = (states.float() / temperature).log_softmax(1)
            first_token, after = np.searchsorted(input_of[order], (start, end))
            tokens = order[first_token:after]
            log_q = log_p.cpu().numpy()[input_of[tokens] - start, targets[tokens]]
            values[rows[tokens], columns[tokens]] = log_q
            start = end
        return values

    def _hidden(self, network: Any, inputs: Array) -> Iterator[Tensor]:
        """Yield the hidden states (B, L, D) of each batch, or logits (B, L, V) if the network is no backbone."""
        for batch in torch.as_tensor(inputs).split(self.batch_size):
            input_ids = batch.to(network.device)
            if network.config.model_type in BACKBONES:
                yield encode(network, input_ids, None, None)
            else:
                yield network(input_ids=input_ids).logits


def corrected(log_odds: Array, log_q: Array, share: float) -> Array:
    """Return log p of the module's docstring, from log (1 - D) / D, log q and P, in the shape of `log_odds`."""
    return log_expit(log_odds + log_q + np.log(share) - np.log1p(share * np.expm1(log_q)))
