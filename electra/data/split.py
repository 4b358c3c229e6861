"""Which documents of a corpus are trained on, and which are held out."""

import numpy as np

from electra.data.rng import Bits, Ints, random_bits
from electra.io.errors import UserError


def split_documents(content_hashes: Bits, held_out_fraction: float, seed: int) -> tuple[Ints, Ints]:
    """Indices of the training and of the held-out documents, int64, both sorted; equal documents stay together.

    Args:
        content_hashes: hash of each document's text, uint64 (D,).
        held_out_fraction: share of the distinct documents to hold out, in [0, 1); at least one document unless 0.
    Raises:
        UserError: a document is to be held out, but all are equal.
    """
    everything = np.arange(len(content_hashes))
    if held_out_fraction == 0:
        return everything, everything[:0]
    rank = random_bits(seed, content_hashes)
    # np.unique looks each value up in a hash table, which takes 20 times as long for ten million documents.
    ordered = np.sort(rank)
    is_first = np.append(True, ordered[1:] != ordered[:-1])
    distinct = int(is_first.sum())
    if distinct < 2:
        raise UserError(
            "the corpus has only one distinct document, so none can be held out for evaluation; choose another "
            "--document_separator (line), give a --validation_file, or set --validation_fraction 0"
        )
    wanted = min(distinct - 1, max(1, round(held_out_fraction * distinct)))
    last_held_out = ordered[is_first][wanted - 1]
    is_held_out = rank <= last_held_out
    return everything[~is_held_out], everything[is_held_out]
