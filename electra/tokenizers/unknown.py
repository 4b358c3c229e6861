"""Unknown tokens: text for which a tokenizer has no tokens, so that no network can read this text.

Pre-training, fine-tuning, `predict`, `detect` and `pairs` count them and say so: tokenizer and text often come from
different hands.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

logger = logging.getLogger(__name__)

WARN_UNKNOWN_RATE = 0.05
"""Share of unknown tokens above which a warning asks for another tokenizer."""


@dataclass
class UnknownTokens:
    """A count of tokens without special ones, of unknown tokens, of rows, and of rows with unknown tokens alone."""

    tokens: int = 0
    unknown: int = 0
    rows: int = 0
    unreadable: int = 0

    @property
    def share(self) -> float:
        return self.unknown / max(1, self.tokens)

    def add(self, rows: Sequence[Any] | NDArray[Any], tokenizer: PreTrainedTokenizerBase) -> None:
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

    def warn(self, where: str) -> None:
        """Log a warning if more than `WARN_UNKNOWN_RATE` of the tokens are unknown."""
        if self.share > WARN_UNKNOWN_RATE:
            unreadable = f" ({self.unreadable:,} of {self.rows:,} have no other)" if self.unreadable else ""
            logger.warning(
                f"{where}: {self.share:.1%} unknown tokens{unreadable}: was the tokenizer made for this language?"
            )
