"""Unknown tokens: text for which a tokenizer has no tokens, so that no network can read this text.

Pre-training, fine-tuning, `predict`, `detect` and `pairs` count them and say so: tokenizer and text often come from
different hands.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from transformers import PreTrainedTokenizerBase

from electra.core.rng import TokenIds

logger = logging.getLogger(__name__)

WARN_UNKNOWN_RATE = 0.05
"""Share of unknown tokens above which a warning asks for another tokenizer."""
ENGLISH = "the of and to in is that for it as was with on by be this are from or which not have at but"
"""Common words of English, which a vocabulary of English text has as whole tokens."""
LEAST_ENGLISH = 0.06
"""Share of `ENGLISH` among the tokens of a text below which the text is taken for no English: those of tiny-en have
0.09 to 0.36 in texts of GLUE, CoNLL-2003, Zorro and Wikipedia, and at most 0.04 in eight other languages."""
FEWEST_TOKENS = 30
"""Tokens of a text whose language is judged."""


@dataclass
class UnknownTokens:
    """Counts of the tokens of rows; of the special tokens only the unknown token counts."""

    tokens: int = 0
    unknown: int = 0
    """Unknown tokens."""
    rows: int = 0
    unreadable: int = 0
    """Rows with unknown tokens and no others."""
    english: int | None = None
    """Tokens that are words of `ENGLISH`; None unless the tokenizer's configuration has "language": "en"."""

    @property
    def share(self) -> float:
        """Return the share of the tokens that are unknown; 0 without tokens."""
        return self.unknown / max(1, self.tokens)

    def add(self, rows: Sequence[Sequence[int] | TokenIds] | TokenIds, tokenizer: PreTrainedTokenizerBase) -> None:
        """Count the tokens of rows of ids, with or without special tokens."""
        if not len(rows):
            return
        unknown_id = -1 if tokenizer.unk_token_id is None else tokenizer.unk_token_id
        special = [number for number in tokenizer.all_special_ids if number != unknown_id]
        ids = np.concatenate([np.asarray(row, np.int64) for row in rows])
        ends = np.cumsum([len(row) for row in rows])
        unknown, tokens = (
            np.diff(np.append(0, np.cumsum(is_counted))[ends], prepend=0)
            for is_counted in (ids == unknown_id, ~np.isin(ids, special))
        )
        self.tokens += int(tokens.sum())
        self.unknown += int(unknown.sum())
        self.rows += len(rows)
        self.unreadable += int(((tokens > 0) & (tokens == unknown)).sum())
        if tokenizer.init_kwargs.get("language") == "en":
            words = tokenizer.convert_tokens_to_ids(ENGLISH.split())
            self.english = (self.english or 0) + int(np.isin(ids, words).sum())

    def warn(self, text_name: str) -> None:
        """Log a warning if more than `WARN_UNKNOWN_RATE` of the tokens are unknown, or too few are English words.

        Args:
            text_name: what the rows are, such as "the corpus", the beginning of the warning.
        """
        if self.share > WARN_UNKNOWN_RATE:
            unreadable = f" ({self.unreadable:,} of {self.rows:,} have no other)" if self.unreadable else ""
            logger.warning(
                f"{text_name}: {self.share:.1%} unknown tokens{unreadable}: was the tokenizer made for this language?"
            )
        if self.english is not None and self.tokens >= FEWEST_TOKENS and self.english < LEAST_ENGLISH * self.tokens:
            logger.warning(
                "%s: this seems to be no English, and the network reads nothing else; name another", text_name
            )
