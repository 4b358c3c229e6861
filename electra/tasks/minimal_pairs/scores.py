"""Scores sentences with a discriminator or a masked language model; a higher score is a better sentence.

A score is a sum over the tokens of a sentence. The tokens that the tokenizer puts around every text, [CLS] and [SEP],
are not counted. Let D_t be the discriminator's probability that token x_t was replaced, q_t the generator's
probability of x_t, and P the share of the tokens in whose place pre-training put a sample of a generator that did not
see them.

    electric       sum_t -E_t, the energies of an Electric, which are -log p_t (objectives.py, `noise_logits`)
    discriminator  sum_t log(1 - D_t)
    corrected      sum_t log p_t, with p_t from D_t and q_t where x_t is masked
    pll            sum_t log q_t where x_t and the rest of its word are masked

`corrected`. The discriminator's odds are relative to the generator: a rare word that the generator never samples looks
original. Let p be the probability of x_t in its context in real text. A token x_t that the discriminator sees is

    original with probability   (1 - P) p   no sample was put there;   +  P p q   the sample was the token itself
    replaced with probability   P (1 - p) q   another token stood there, and x_t was sampled

so the best discriminator has (1 - D) / D = p (1 - P + P q) / (P (1 - p) q), which is solved by

    log p / (1 - p) = log (1 - D) / D + log q + log P - log(1 - P + P q)

P is the share of chosen tokens times the share of these that the generator does not see. It copies the chosen tokens
that are kept, so they are as if they were not chosen. For `electra_15`, whose loss is at the chosen
positions only, all tokens of the loss are chosen. The derivation takes q as what the samples were drawn from:
temperature 1 and without --disallow_correct. Electric (Clark et al. 2020, arXiv:2012.08561) labels samples as replaced
even if they equal the original, which gives p = q (1 - D) / D * P / (1 - P); ELECTRA's labels need the other terms.

q must not depend on x_t, so `corrected` masks each token: as many passes of the small generator as the sentence has
tokens. `pll` masks the pieces of a word to the right of x_t, too: PLL-word-l2r of Kauf and Ivanova (2023,
arXiv:2305.10588), because a piece is easily guessed from the rest of its word.
"""

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
from electra.tasks.minimal_pairs.options import OF_DISCRIMINATOR

Values = NDArray[np.float64]

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
    """Tokenize the texts and group equal lengths."""
    encoded = tokenizer(list(texts), return_special_tokens_mask=True, verbose=False)
    first: dict[tuple[int, ...], int] = {}  # the text in which a sentence occurs first
    for text, ids in enumerate(encoded["input_ids"]):
        first.setdefault(tuple(ids), text)
    groups: list[Sentences] = []
    place: dict[tuple[int, ...], tuple[int, int]] = {}
    for number, (_, same_length) in enumerate(groupby(sorted(first, key=len), key=len)):
        group = list(same_length)
        for row, ids in enumerate(group):
            place[ids] = (number, row)
        texts_of_group = [first[ids] for ids in group]
        is_text = np.array([encoded["special_tokens_mask"][text] for text in texts_of_group]) == 0
        words = np.array([[-1 if w is None else w for w in encoded.word_ids(text)] for text in texts_of_group])
        groups.append(Sentences(np.array(group, dtype=np.int64), is_text, words))
    return Encoded(groups, np.array([place[tuple(ids)] for ids in encoded["input_ids"]], dtype=np.int64))


class Scorer:
    """Both networks and how they are applied.

    Args:
        discriminator, generator: in evaluation mode, on the same device; the generator is any masked language model.
        batch_size: sentences per forward pass.
        replaced_share: P.
    """

    def __init__(
        self,
        discriminator: PreTrainedModel | None,
        generator: PreTrainedModel | None,
        mask_token_id: int,
        batch_size: int,
        replaced_share: float = 0.1275,
    ) -> None:
        self.discriminator = discriminator
        self.generator = generator
        self.mask_token_id = mask_token_id
        self.batch_size = batch_size
        self.replaced_share = replaced_share

    def scores(
        self, encoded: Encoded, names: Sequence[str], progress: Callable[[int], object] = lambda sentences: None
    ) -> dict[str, Values]:
        """The named scores of every text, (N,). `progress` gets the number of sentences that were scored.

        Raises:
            UserError: a score is not finite.
        """
        by_group: dict[str, list[Values]] = {name: [] for name in names}
        for sentences in encoded.groups:
            logits = None
            if set(names) & set(OF_DISCRIMINATOR):
                logits = self.replaced_logits(sentences)
            for name in names:
                terms = self.terms(name, sentences, logits)
                by_group[name].append(np.where(sentences.is_text, terms, 0.0).sum(axis=1))
            progress(len(sentences.ids))
        scores = {}
        for name, groups in by_group.items():
            scores[name] = np.array([groups[group][row] for group, row in encoded.place])
            if not np.isfinite(scores[name]).all():
                raise UserError(f"the score {name} is not finite: the network has diverged; name another checkpoint")
        return scores

    def terms(self, name: str, sentences: Sentences, logits: Values | None) -> Values:
        """What each token adds to a score, (S, L), from the discriminator's logits of "replaced"."""
        if name == "pll":
            return self.log_q(sentences, masks_rest_of_word=True)
        assert logits is not None
        if name == "electric":
            return -logits
        if name == "discriminator":
            return log_sigmoid(-logits)
        return corrected(-logits, self.log_q(sentences, masks_rest_of_word=False), self.replaced_share)

    @torch.inference_mode()
    def replaced_logits(self, sentences: Sentences) -> Values:
        """The discriminator's logits, or Electric's energies, (S, L)."""
        values = np.zeros(sentences.ids.shape)
        for start, hidden in self._hidden(self.discriminator, sentences.ids):
            logits = replaced_logits(self.discriminator, hidden)
            values[start : start + len(hidden)] = logits.double().cpu().numpy()
        return values

    @torch.inference_mode()
    def log_q(self, sentences: Sentences, *, masks_rest_of_word: bool) -> Values:
        """The generator's log probability of each token where it is masked, (S, L); 0 around the text."""
        rows, columns = np.nonzero(sentences.is_text)
        position = np.arange(sentences.ids.shape[1])
        is_masked = position == columns[:, None]
        if masks_rest_of_word:
            same_word = sentences.words[rows] == sentences.words[rows, columns][:, None]
            is_masked |= same_word & (position > columns[:, None])
        masked = np.where(is_masked, self.mask_token_id, sentences.ids[rows])
        # Sentences of a pair often differ in one word: with it masked they are the same input.
        texts, text_of = np.unique(masked, axis=0, return_inverse=True)
        order = np.argsort(text_of, kind="stable")
        ends = np.searchsorted(text_of[order], np.arange(len(texts) + 1))
        targets = sentences.ids[rows, columns]
        log_q = np.zeros(len(rows))
        for start, hidden in self._hidden(self.generator, texts):
            tokens = order[ends[start] : ends[start + len(hidden)]]
            row = torch.as_tensor(text_of[tokens] - start)
            column = torch.as_tensor(columns[tokens])
            log_q[tokens] = -self._nll(hidden[row, column], torch.as_tensor(targets[tokens]))
        values = np.zeros(sentences.ids.shape)
        values[rows, columns] = log_q
        return values

    def _hidden(self, network: Any, texts: NDArray[np.int64]) -> Iterator[tuple[int, Tensor]]:
        """The first row of each batch, and hidden states (B, L, D), or the logits of a network that is no backbone."""
        is_known = network.config.model_type in BACKBONES
        for start in range(0, len(texts), self.batch_size):
            batch = torch.as_tensor(texts[start : start + self.batch_size]).to(network.device)
            yield start, encode(network, batch, None, None) if is_known else network(input_ids=batch).logits

    def _nll(self, hidden: Tensor, targets: Tensor) -> Values:
        generator: Any = self.generator
        is_known = generator.config.model_type in BACKBONES
        found = []
        pieces = zip(hidden.split(HEAD_POSITIONS), targets.to(hidden.device).split(HEAD_POSITIONS), strict=True)
        for states, ids in pieces:
            logits = lm_logits(generator, states) if is_known else states
            found.append(generator_nll(logits, ids).double())
        return torch.cat(found).cpu().numpy()


def corrected(log_odds: Values, log_q: Values, share: float) -> Values:
    """The log probability p of the module's docstring, from log (1 - D) / D, log q and P."""
    return log_sigmoid(log_odds + log_q + np.log(share) - np.log1p(share * np.expm1(log_q)))


def log_sigmoid(log_odds: Values) -> Values:
    """The logarithm of the probability with these odds."""
    with np.errstate(invalid="ignore"):  # infinite logits are reported by `scores`
        return -np.logaddexp(0, -log_odds)
