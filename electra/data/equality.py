"""When documents are equal: if they have the same tokens, apart from white space at their ends.

It does not matter whether the tokens come from text or from the files of datatrove, nor in which integer type they are
stored. Spaces, line ends and cases that the tokenizer does not see make no difference. Documents without any
token but white space are equal.
"""

import numpy as np
import xxhash
from transformers import PreTrainedTokenizerBase

from electra.core.rng import Bits, Ints, TokenIds
from electra.tokenizers.load import plain_backend, vocabulary_size

REPLACEMENT = "\ufffd"
"""The replacement character of Unicode, which decoding writes for a token with only some of a character's bytes."""


class DocumentHasher:
    """A hasher of documents as token ids: equal documents have equal hashes.

    Tokens of white space alone do not count at either end; WordPiece has no such tokens, byte-level tokenizers have
    many. A byte-level token may also have white space before a word, or be a part of a no-break space. A document with
    such a token at an end is decoded, and its text without white space at the ends is tokenized again.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.decoder = tokenizer.backend_tokenizer
        self.encoder = plain_backend(tokenizer)
        pieces = self._decode([[number] for number in range(vocabulary_size(tokenizer))])
        (word,) = self._decode([self.encoder.encode("a", add_special_tokens=False).ids])
        adds_space = word[:1].isspace()  # decoding adds a space before the first word
        self.is_blank = np.array([not piece.strip() for piece in pieces])
        firsts = [piece[:1] == REPLACEMENT or (piece[:1].isspace() and not adds_space) for piece in pieces]
        lasts = [piece[-1:] == REPLACEMENT or piece[-1:].isspace() for piece in pieces]
        self.may_begin_blank = np.array(firsts) & ~self.is_blank
        self.may_end_blank = np.array(lasts) & ~self.is_blank

    def _decode(self, rows: list[list[int]]) -> list[str]:
        texts: list[str] = self.decoder.decode_batch(rows, skip_special_tokens=False)
        return texts

    def hash_documents(self, ids: TokenIds, begins: Ints, ends: Ints) -> Bits:
        """Return the hash of each of D documents, uint64 (D,).

        Args:
            ids: token ids of all documents, any integer type (T,).
            begins, ends: indices in `ids` of the first token of each document, and of the one behind its last, (D,).
        """
        text_positions = np.flatnonzero(~self.is_blank[ids])
        first = np.searchsorted(text_positions, begins)
        behind = np.searchsorted(text_positions, ends)
        has_text = first < behind
        text_positions = np.append(text_positions, 0)  # `first` of documents without text may be behind the last
        starts = np.where(has_text, text_positions[first], 0)
        stops = np.where(has_text, text_positions[behind - 1] + 1, 0)
        content = np.ascontiguousarray(ids, dtype="<u4").view(np.uint8).data
        bounds = zip((4 * starts).tolist(), (4 * stops).tolist(), strict=True)
        digests = (xxhash.xxh3_64_intdigest(content[start:stop]) for start, stop in bounds)
        hashes = np.fromiter(digests, dtype=np.uint64, count=len(begins))

        documents = np.flatnonzero(has_text)
        may_be_blank = self.may_begin_blank[ids[starts[documents]]] | self.may_end_blank[ids[stops[documents] - 1]]
        to_decode = documents[may_be_blank]
        decoded = self._decode([ids[starts[document] : stops[document]].tolist() for document in to_decode])
        decoded_texts = zip(to_decode, decoded, strict=True)
        stripped_texts = {document: text.strip() for document, text in decoded_texts if text.strip() != text}
        encodings = self.encoder.encode_batch_fast(list(stripped_texts.values()), add_special_tokens=False)
        for document, encoding in zip(stripped_texts, encodings, strict=True):
            hashes[document] = xxhash.xxh3_64_intdigest(np.array(encoding.ids, dtype="<u4").data)
        return hashes
