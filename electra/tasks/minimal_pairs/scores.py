"""Scores sentences with a discriminator or a masked language model; a higher score is a better sentence.

A score is a sum over the tokens of a sentence. The tokens that the tokenizer puts around every text, [CLS] and [SEP],
are not counted. Let D_t be the discriminator's probability that token x_t was replaced, q_t the generator's
probability of x_t, and P the share of the tokens that were chosen for replacement in pre-training.

    electric            sum_t -E_t, the energies of an Electric, which are -log p_t (objectives.py, `noise_logits`)
    discriminator       sum_t log(1 - D_t)
    corrected           sum_t log p_t, with p_t from D_t and q_t where x_t is masked
    corrected_one_pass  the same with q_t where the generator sees the whole sentence, x_t included
    pll                 sum_t log q_t where x_t and the rest of its word are masked
    pll_plain           sum_t log q_t where x_t alone is masked (Salazar et al. 2020, arXiv:1910.14659)

`corrected`. The discriminator's odds are relative to the generator: a rare word that the generator never samples looks
original. Let p be the probability of x_t in its context in real text. A token x_t that the discriminator sees is

    original with probability   (1 - P) p   it was not chosen;     +  P p q   it was chosen and sampled again
    replaced with probability   P (1 - p) q   another token stood there, and x_t was sampled

so the best discriminator has (1 - D) / D = p (1 - P + P q) / (P (1 - p) q), which is solved by

    log p / (1 - p) = log (1 - D) / D + log q + log P - log(1 - P + P q)

Electric (Clark et al. 2020, arXiv:2012.08561) labels samples as replaced even if they equal the original, which gives
p = q (1 - D) / D * P / (1 - P); ELECTRA's labels need the two further terms. P = 1 for `electra_15`, whose loss is at
the chosen positions only; then p = 1 - D. The derivation takes q as what the samples were drawn from: temperature 1
and without --disallow_correct.

q must not depend on x_t, so `corrected` masks each token: as many passes of the small generator as the sentence has
tokens. The one-pass variant shows the generator the token itself, as at the 15 % of its positions in pre-training that
are kept, where it learns to copy: log q is then close to 0 and corrects little.

`pll` masks the pieces of a word to the right of x_t, too: PLL-word-l2r of Kauf and Ivanova (2023, arXiv:2305.10588),
because a piece is easily guessed from the rest of its word, so that `pll_plain` prefers rare words of many pieces.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from electra.backbones import BACKBONES
from electra.io.errors import UserError
from electra.model.networks import encode, lm_logits, replaced_logits
from electra.objectives import generator_nll

Values = NDArray[np.float64]
Advance = Callable[[str, int], object]
"""Is told which of `NEEDS` was computed for how many tokens, which add up to `cost`."""

NEEDS = {
    "electric": ("replaced",),
    "discriminator": ("replaced",),
    "corrected": ("replaced", "masked"),
    "corrected_one_pass": ("replaced", "visible"),
    "pll": ("word",),
    "pll_plain": ("masked",),
}
"""What each score is made of: the discriminator's logits, or Electric's energies, and log q where the token is masked,
visible, or masked with the rest of its word."""
HEAD_POSITIONS = 1024
"""Positions to which the LM head is applied at once: 125 MB of logits over 30,522 tokens."""


class Sentences(NamedTuple):
    """Different sentences of the same length, so that no batch is padded; all (S, L).

    Args:
        ids: int64.
        is_text: False for the tokens around the text.
        words: number of each token's word within its sentence, -1 around the text.
    """

    ids: NDArray[np.int64]
    is_text: NDArray[np.bool_]
    words: NDArray[np.int64]


class Encoded(NamedTuple):
    """Texts as token ids; a sentence that occurs several times is encoded once.

    Args:
        groups: the different sentences by length, ascending.
        place: of each text: its group and its row there, int64 (N, 2).
    """

    groups: list[Sentences]
    place: NDArray[np.int64]


def encode_sentences(texts: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> Encoded:
    encoded = tokenizer(list(texts), return_special_tokens_mask=True, verbose=False)
    first: dict[tuple[int, ...], int] = {}  # the text in which a sentence occurs first
    for text, ids in enumerate(encoded["input_ids"]):
        first.setdefault(tuple(ids), text)
    groups: list[Sentences] = []
    place: dict[tuple[int, ...], tuple[int, int]] = {}
    for number, (_, same_length) in enumerate(groupby(sorted(first, key=len), key=len)):
        group = list(same_length)
        place |= {ids: (number, row) for row, ids in enumerate(group)}
        is_text = np.array([encoded["special_tokens_mask"][first[ids]] for ids in group]) == 0
        words = np.array([[-1 if w is None else w for w in encoded.word_ids(first[ids])] for ids in group])
        groups.append(Sentences(np.array(group, dtype=np.int64), is_text, words))
    return Encoded(groups, np.array([place[tuple(ids)] for ids in encoded["input_ids"]], dtype=np.int64))


class Scorer:
    """Both networks and how they are applied.

    Args:
        discriminator, generator: in evaluation mode, on the same device; the generator is any masked language model.
        batch_size: sentences per forward pass.
        chosen_share: P.
    """

    def __init__(
        self,
        discriminator: PreTrainedModel | None,
        generator: PreTrainedModel | None,
        mask_token_id: int,
        batch_size: int,
        chosen_share: float = 0.15,
    ) -> None:
        self.discriminator, self.generator = discriminator, generator
        self.mask_token_id, self.batch_size, self.chosen_share = mask_token_id, batch_size, chosen_share

    def scores(
        self, encoded: Encoded, names: Sequence[str], advance: Advance = lambda need, tokens: None
    ) -> dict[str, Values]:
        """The named scores of every text, (N,).

        Raises:
            UserError: a score is not finite.
        """
        needs = {need for name in names for need in NEEDS[name]}
        by_group: dict[str, list[Values]] = {name: [] for name in names}
        for sentences in encoded.groups:
            found = {need: self.values(need, sentences, advance) for need in sorted(needs)}
            for name in names:
                terms = self._terms(name, found)
                by_group[name].append(np.where(sentences.is_text, terms, 0.0).sum(axis=1))
        scores = {
            name: np.array([values[group][row] for group, row in encoded.place]) for name, values in by_group.items()
        }
        for name, values in scores.items():
            if not np.isfinite(values).all():
                raise UserError(f"the score {name} is not finite: the network has diverged; name another checkpoint")
        return scores

    def _terms(self, name: str, found: dict[str, Values]) -> Values:
        if name.startswith("pll"):
            return found[NEEDS[name][0]]
        odds = -found["replaced"]  # log (1 - D) / D
        if name == "electric":
            return odds
        if name != "discriminator":
            log_q, share = found[NEEDS[name][1]], self.chosen_share
            odds = odds + log_q + np.log(share) - np.log1p(share * np.expm1(log_q))
        with np.errstate(invalid="ignore"):
            return -np.logaddexp(0, -odds)

    @torch.inference_mode()
    def values(self, need: str, sentences: Sentences, advance: Advance = lambda need, tokens: None) -> Values:
        """The discriminator's logits or the generator's log q at each token, (S, L); 0 around the text."""
        values = np.zeros(sentences.ids.shape)
        if need == "replaced":
            for start, hidden in self._hidden(self.discriminator, sentences.ids):
                values[start : start + len(hidden)] = (
                    replaced_logits(self.discriminator, hidden).double().cpu().numpy()
                )
                advance(need, hidden.size(0) * hidden.size(1))
            return np.where(sentences.is_text, values, 0.0)
        rows, columns = np.nonzero(sentences.is_text)
        texts, text_of = sentences.ids, rows  # the generator's inputs, and which of them each token is predicted in
        if need != "visible":
            position = np.arange(sentences.ids.shape[1])
            is_masked = position == columns[:, None]
            if need == "word":
                same_word = sentences.words[rows] == sentences.words[rows, columns][:, None]
                is_masked |= same_word & (position > columns[:, None])
            # Sentences of a pair often differ in one word: with it masked they are the same input.
            masked = np.where(is_masked, self.mask_token_id, sentences.ids[rows])
            texts, text_of = np.unique(masked, axis=0, return_inverse=True)
        order = np.argsort(text_of, kind="stable")
        ends = np.searchsorted(text_of[order], np.arange(len(texts) + 1))
        targets = sentences.ids[rows, columns]
        log_q = np.zeros(len(rows))
        for start, hidden in self._hidden(self.generator, texts):
            tokens = order[ends[start] : ends[start + len(hidden)]]
            at = torch.as_tensor(text_of[tokens] - start), torch.as_tensor(columns[tokens])
            log_q[tokens] = -self._nll(hidden[at], torch.as_tensor(targets[tokens]))
            advance(need, (len(hidden) if need == "visible" else len(tokens)) * hidden.size(1))
        values[rows, columns] = log_q
        return values

    def _hidden(self, network: Any, texts: NDArray[np.int64]) -> Iterator[tuple[int, Tensor]]:
        """The first row of each batch, and hidden states (B, L, D), or the logits of a network that is no backbone."""
        for start in range(0, len(texts), self.batch_size):
            batch = torch.as_tensor(texts[start : start + self.batch_size]).to(network.device)
            known = network.config.model_type in BACKBONES
            yield start, encode(network, batch, None, None) if known else network(input_ids=batch).logits

    def _nll(self, hidden: Tensor, targets: Tensor) -> Values:
        generator: Any = self.generator
        known = generator.config.model_type in BACKBONES
        pieces = zip(hidden.split(HEAD_POSITIONS), targets.to(hidden.device).split(HEAD_POSITIONS), strict=True)
        nll = [generator_nll(lm_logits(generator, h) if known else h, ids).double() for h, ids in pieces]
        return torch.cat(nll).cpu().numpy()


def cost(need: str, sentences: Sentences) -> int:
    """Tokens of all forward passes, before equal inputs are joined."""
    passes = len(sentences.ids) if need in ("replaced", "visible") else int(sentences.is_text.sum())
    return passes * sentences.ids.shape[1]


def seconds_per_token(scorer: Scorer, need: str, encoded: Encoded) -> float:
    """Time of a forward pass by the tokens in it, measured on sentences of the most frequent length."""
    group = max(encoded.groups, key=lambda sentences: len(sentences.ids))
    count = scorer.batch_size if need in ("replaced", "visible") else max(1, scorer.batch_size // group.ids.shape[1])
    few = Sentences(group.ids[:count], group.is_text[:count], group.words[:count])
    times = []
    for _ in range(3):
        started = time.monotonic()
        scorer.values(need, few)
        times.append(time.monotonic() - started)
    return float(np.median(times[1:])) / cost(need, few)
