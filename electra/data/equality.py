"""When documents are equal: if they have the same tokens, but for white space at both ends.

It does not matter whether the tokens come from text or from the files of another program, nor in which integer type
they are stored. Spaces, line ends and cases that the tokenizer does not see make no difference. Documents without any
token but white space are equal.
"""

import numpy as np
import xxhash
from transformers import PreTrainedTokenizerBase

from electra.data.rng import Bits, Flags, Ints, TokenIds
from electra.tokenizers.load import vocabulary_size


def blank_ids(tokenizer: PreTrainedTokenizerBase) -> Flags:
    """Return which token ids stand for nothing but white space, bool (V,): none of WordPiece, many byte-level ones."""
    ids = [[number] for number in range(vocabulary_size(tokenizer))]
    pieces = tokenizer.backend_tokenizer.decode_batch(ids, skip_special_tokens=False)
    return np.array([not piece.strip() for piece in pieces])


def hash_documents(ids: TokenIds, begins: Ints, ends: Ints, is_blank: Flags) -> Bits:
    """Return 64 bits for each document, uint64 (D,), which are equal for equal documents.

    Args:
        ids: of all documents, (T,), of any integer type.
        begins, ends: the first token of each document, and the one behind its last, (D,).
        is_blank: which ids of the vocabulary are white space, (V,).
    """
    is_text = ~is_blank[ids]
    texts = np.flatnonzero(is_text)
    first = np.searchsorted(texts, begins)
    behind = np.searchsorted(texts, ends)
    places = np.append(texts, 0)
    has_text = first < behind
    starts = np.where(has_text, places[first], 0)
    stops = np.where(has_text, places[behind - 1] + 1, 0)
    content = np.ascontiguousarray(ids, dtype="<u4").view(np.uint8).data
    bounds = zip((4 * starts).tolist(), (4 * stops).tolist(), strict=True)
    hashes = (xxhash.xxh3_64_intdigest(content[start:stop]) for start, stop in bounds)
    return np.fromiter(hashes, dtype=np.uint64, count=len(begins))
