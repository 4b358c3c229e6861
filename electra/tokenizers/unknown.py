"""Unknown tokens, which stand for text that a tokenizer has no tokens for, so that no network can read the text.

Pre-training, fine-tuning, `predict`, `detect` and `pairs` count unknown tokens and warn if there are many: a tokenizer
is often used on text of another language than it was made for.
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
"""Common words of English. A vocabulary that was trained on English text has a token for each."""
LEAST_ENGLISH = 0.06
"""Share of `ENGLISH` among the tokens of a text below which the text is taken for no English. With the tokenizer of
tiny-en, the share is 0.09 to 0.36 in texts of GLUE, CoNLL-2003, Zorro and Wikipedia, and at most 0.04 in eight other
languages."""
FEWEST_TOKENS = 30
"""Number of tokens, at least, of texts whose language is judged."""


@dataclass
class UnknownTokens:
    """Counts of tokens and unknown tokens in rows of token ids.

    Args:
        tokens: number of tokens, unknown ones included, without the other special tokens.
        unknown: number of unknown tokens.
        rows: number of rows.
        unreadable: number of rows with unknown tokens and no others.
        english: number of tokens in `ENGLISH`; None unless the tokenizer's configuration has "language": "en".
    """

    tokens: int = 0
    unknown: int = 0
    rows: int = 0
    unreadable: int = 0
    english: int | None = None

    @property
    def share(self) -> float:
        """Return the share of the tokens that are unknown; 0 without tokens."""
        return self.unknown / max(1, self.tokens)

    def add(self, rows: Sequence[Sequence[int] | TokenIds] | TokenIds, tokenizer: PreTrainedTokenizerBase) -> None:
        """Add the tokens of rows to the counts.

        Args:
            rows: token ids of each row, with or without special tokens.
        """
        if not len(rows):
            return
        unknown_id = -1 if tokenizer.unk_token_id is None else tokenizer.unk_token_id
        special_ids = [special_id for special_id in tokenizer.all_special_ids if special_id != unknown_id]
        ids = np.concatenate([np.asarray(row, np.int64) for row in rows])
        ends = np.cumsum([len(row) for row in rows])
        unknown_per_row, tokens_per_row = (
            np.diff(np.append(0, np.cumsum(is_counted))[ends], prepend=0)
            for is_counted in (ids == unknown_id, ~np.isin(ids, special_ids))
        )
        self.tokens += int(tokens_per_row.sum())
        self.unknown += int(unknown_per_row.sum())
        self.rows += len(rows)
        self.unreadable += int(((tokens_per_row > 0) & (tokens_per_row == unknown_per_row)).sum())
        if tokenizer.init_kwargs.get("language") == "en":
            words = tokenizer.convert_tokens_to_ids(ENGLISH.split())
            self.english = (self.english or 0) + int(np.isin(ids, words).sum())

    def warn(self, text_name: str) -> None:
        """Log a warning if more than `WARN_UNKNOWN_RATE` of the tokens are unknown, or too few are English words.

        Args:
            text_name: what the rows are, the beginning of the warning, such as "the corpus".
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
