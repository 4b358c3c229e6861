"""What the policies share: special tokens of a row, and the streams of random numbers."""

from dataclasses import dataclass

from electra.data.rng import Ints
from electra.data.split import Documents
from electra.data.token_cache import TokenCache

TWO_SEGMENT_PROBABILITY = 0.9
"""Share of windows that are split into A and B, as in google-research/electra."""
SINGLE_SPECIALS = 2
"""[CLS] A [SEP]"""
PAIR_SPECIALS = 3
"""[CLS] A [SEP] B [SEP]"""

# Each use of the random numbers has a stream of its own.
ROUNDING, OFFSET, SINGLE, SPLIT, START, PARTNER, ROTATION, MEMBER, MEMBER_SINGLE, MEMBER_SPLIT = range(10)


@dataclass(eq=False)
class Policy:
    """How some documents of a cache become segments."""

    cache: TokenCache
    documents: Ints | Documents
    max_length: int
    seed: int

    def __post_init__(self) -> None:
        """Prepare what `cut` needs."""
