"""How documents are cut into segments (`--segment_policy`).

    windows    default: evenly spaced windows from a random offset, in proportion to the document's length
    document   rc2020_electra: one random window per document and epoch, no second segment
    google     google-research/electra: its static examples
    pairs      lmtuners: a random piece of one document, then one of another
    packed     windows, of which short documents share a row; attention stays within each of them

A window takes 1 to 2 microseconds plus the copy. In memory, `packed` keeps 8 bytes for each document, `google` about
0.3 bytes for each token.
"""

from collections.abc import Callable

from electra.core.errors import UserError
from electra.core.rng import Ints
from electra.core.segments import SegmentPolicy
from electra.data.held_out import Documents
from electra.data.options import SegmentArguments
from electra.data.policies.google import GooglePolicy
from electra.data.policies.packed import PackedPolicy
from electra.data.policies.pieces import DocumentPolicy, PairPolicy
from electra.data.policies.windows import DEFAULT_OPTIONS, PAIR_SPECIALS, WindowPolicy
from electra.data.token_cache import TokenCache

POLICIES: dict[str, Callable[..., SegmentPolicy]] = {
    "windows": WindowPolicy,
    "document": DocumentPolicy,
    "google": GooglePolicy,
    "pairs": PairPolicy,
    "packed": PackedPolicy,
}
"""Policies by the name that --segment_policy gives."""


def make_policy(
    name: str,
    cache: TokenCache,
    documents: Ints | Documents,
    *,
    max_length: int,
    seed: int,
    options: SegmentArguments = DEFAULT_OPTIONS,
) -> SegmentPolicy:
    """Return the policy `name` of `POLICIES` for documents of a cache; see `Policy` for the other arguments.

    Raises:
        UserError: the documents are shorter than one segment, all together.
    """
    tokens = cache.lengths[documents[:max_length]].sum()  # enough documents: each has a token at least
    if len(documents) == 0 or tokens < max_length - PAIR_SPECIALS:
        raise UserError(
            f"the corpus is shorter than one segment: {len(documents)} documents with {tokens} tokens, "
            f"max_length={max_length}; give more text or a smaller --max_length"
        )
    return POLICIES[name](cache, documents, max_length, seed, options)
