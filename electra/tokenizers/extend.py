"""Extend a tokenizer with the tokens that shorten a domain's text most; the old ids stay.

    WordPiece     whole words, ranked by the pieces that they save: count x (pieces - 1). A word that was unknown
                  counts as one piece for each character.
    BPE, Unigram  BPE is continued: pieces that often follow each other are merged, on top of the existing merges. A
                  Unigram piece gets the score of the pieces that it replaces, so that all other text is cut as before.

New tokens are entries of the vocabulary, not added tokens: casing, accents, word boundaries and continuations hold for
them as for the old ones. Their ids follow the largest old one, also where the model's rows were padded.
"""

import copy
import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator

from tokenizers import Tokenizer, models, trainers
from transformers import PreTrainedTokenizerBase

from electra.io.errors import UserError
from electra.options import VOCAB_SIZE
from electra.tokenizers.load import UNMATCHABLE_PREFIX, vocabulary_size
from electra.tokenizers.train import count_words, train_on_words

logger = logging.getLogger(__name__)

_FIRST_SYMBOL = 0x20000
"""Pieces become characters from here on, none of which is white space, for the trainer of BPE."""
_LONGEST_WORD = 100
"""Characters of the longest word of BERT's WordPiece; longer ones are unknown."""
_BETTER = 1e-3
"""Log probability by which a new Unigram piece is better than the pieces that it replaces."""


def extend_tokenizer(
    tokenizer: PreTrainedTokenizerBase, documents: Iterable[str], new_tokens: int, min_frequency: int
) -> PreTrainedTokenizerBase:
    """A copy of a tokenizer with up to `new_tokens` more tokens, learned from the documents.

    Raises:
        UserError: its algorithm cannot be continued, its ids would be too large, or the text has nothing to add.
    """
    backend = tokenizer.backend_tokenizer
    state, name = json.loads(backend.to_str()), tokenizer.name_or_path
    model, old, size = state["model"], tokenizer.get_vocab(), vocabulary_size(tokenizer)
    if model["type"] not in ("WordPiece", "BPE", "Unigram"):
        raise UserError(f"tokenizer {name} is of type {model['type']}; WordPiece, BPE and Unigram can be extended")
    if model["type"] == "BPE" and (model.get("continuing_subword_prefix") or model.get("end_of_word_suffix")):
        raise UserError(f"tokenizer {name}: BPE with marked word ends or continuations cannot be extended")
    if backend.pre_tokenizer is None:
        raise UserError(f"tokenizer {name} does not split text into words, so none can be counted; train a new one")
    if not VOCAB_SIZE.holds(size + new_tokens):
        raise UserError(f"--new_tokens {new_tokens}: no room beside {size} tokens; ids must be {VOCAB_SIZE.expected}")
    words = count_words(documents, backend.normalizer, backend.pre_tokenizer)
    words = {word: count for word, count in words.items() if count >= min_frequency}
    pieces = Tokenizer(backend.model)  # of a word that is normalized already
    if model["type"] == "WordPiece":
        prefix, unknown = model["continuing_subword_prefix"], tokenizer.unk_token_id
        words = {w: count for w, count in words.items() if len(w) <= _LONGEST_WORD and not w.startswith(prefix)}
        saved = {
            word: count * (len(word) if unknown in ids else len(ids) - 1)
            for word, count, ids, _ in _encode(pieces, words)
            if word not in old
        }
        ranked = sorted((word for word in saved if saved[word] > 0), key=lambda word: (-saved[word], word))
        new = {word: size + rank for rank, word in enumerate(ranked[:new_tokens])}
        model["vocab"] = {**old, **new}
    else:
        merges = _further_merges(pieces, words, new_tokens, min_frequency, tokenizer.unk_token_id)
        names = dict.fromkeys(a + b for a, b in merges if a + b not in old)
        new = {token: size + rank for rank, token in enumerate(names)}
        if model["type"] == "BPE":
            model["vocab"] = {**old, **new}
            model["merges"] = [*model["merges"], *map(list, merges)]
        else:
            scores = dict(model["vocab"])
            for a, b in merges:
                scores[a + b] = max(scores[a] + scores[b] + _BETTER, scores.get(a + b, -float("inf")))
            by_id = {index: token for token, index in old.items()}
            between = range(len(model["vocab"]), size)  # ids of added tokens; a model's ids have no gaps
            model["vocab"] += [[by_id.get(index, f"{UNMATCHABLE_PREFIX}{index}"), 0.0] for index in between]
            model["vocab"] += [[token, scores[token]] for token in new]
    if not new:
        raise UserError(
            f"the text gives tokenizer {name} no new token: no word of several pieces occurs {min_frequency} times; "
            "name more text, or use the tokenizer as it is"
        )
    if len(new) < new_tokens:
        logger.warning("the text gave %d new tokens, fewer than --new_tokens %d", len(new), new_tokens)
    longer = copy.deepcopy(tokenizer)
    longer._tokenizer = Tokenizer.from_str(json.dumps(state))
    if not (old | new).items() <= longer.get_vocab().items():
        raise UserError(f"tokenizer {name}: its ids would change; train a new tokenizer")
    logger.info("added %d tokens, such as %s", len(new), ", ".join(list(new)[:10]))
    return longer


def _encode(pieces: Tokenizer, words: dict[str, int]) -> Iterator[tuple[str, int, list[int], list[str]]]:
    """Each word with its count, and the ids and names of its pieces."""
    ordered = sorted(words)
    for first in range(0, len(ordered), 10_000):
        some = ordered[first : first + 10_000]
        for word, encoding in zip(some, pieces.encode_batch(some, add_special_tokens=False), strict=True):
            yield word, words[word], encoding.ids, encoding.tokens


def _further_merges(
    pieces: Tokenizer, words: dict[str, int], count: int, min_frequency: int, unknown: int | None
) -> list[tuple[str, str]]:
    """The next merges of BPE if the pieces of each word count as its characters."""
    symbols: dict[str, str] = {}
    rewritten: Counter[str] = Counter()
    for word, times, ids, tokens in _encode(pieces, words):
        if len(ids) > 1 and unknown not in ids and "".join(tokens) == word:  # no byte of an unknown character
            written = (symbols.setdefault(token, chr(_FIRST_SYMBOL + len(symbols))) for token in tokens)
            rewritten["".join(written)] += times
    if not rewritten:
        return []
    names = {symbol: token for token, symbol in symbols.items()}
    trainer = trainers.BpeTrainer(
        vocab_size=len(symbols) + count,
        min_frequency=min_frequency,
        initial_alphabet=sorted(names),
        show_progress=False,
    )
    trained = json.loads(train_on_words(models.BPE(), trainer, rewritten).to_str())["model"]["merges"]
    return [("".join(names[c] for c in a), "".join(names[c] for c in b)) for a, b in trained]
