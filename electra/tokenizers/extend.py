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
from typing import Any

from tokenizers import Tokenizer, models, trainers
from transformers import PreTrainedTokenizerBase

from electra.core.errors import UserError
from electra.tokenizers.load import UNMATCHABLE_PREFIX, vocabulary_size
from electra.tokenizers.train import count_words, train_on_words

logger = logging.getLogger(__name__)

_FIRST_SYMBOL = 0x20000
"""First of the characters that stand for pieces in the trainer of BPE; none of them is white space."""
_WORDS_AT_ONCE = 10_000
"""Words of one call of the tokenizer, which bounds memory."""
LONGEST_TOKEN = 30
"""Characters of a new token, at most; a new token of WordPiece is a whole word."""
_BETTER = 1e-3
"""Log probability, in nats, by which a new Unigram piece is better than the pieces that it replaces."""


def extend_tokenizer(
    tokenizer: PreTrainedTokenizerBase,
    documents: Iterable[str],
    new_tokens: int,
    min_frequency: int,
) -> PreTrainedTokenizerBase:
    """Return a copy of a tokenizer with up to `new_tokens` more tokens, learned from the documents.

    A new token has at most `LONGEST_TOKEN` characters, and a letter or a digit, because lines of tables are no words.

    Args:
        min_frequency: how often a word, or a pair of pieces that becomes a token, occurs at least.
    Raises:
        UserError: the tokenizer's algorithm cannot be continued, its ids would change, or the text has nothing to add.
    """
    backend = tokenizer.backend_tokenizer
    name = tokenizer.name_or_path
    state = json.loads(backend.to_str())
    model = state["model"]
    old_ids = tokenizer.get_vocab()
    size = vocabulary_size(tokenizer)
    if model["type"] not in ("WordPiece", "BPE", "Unigram"):
        raise UserError(f"tokenizer {name} is of type {model['type']}; WordPiece, BPE and Unigram can be extended")

    counts = count_words(documents, backend.normalizer, backend.pre_tokenizer)
    words = {word: count for word, count in counts.items() if count >= min_frequency and _has_letters(backend, word)}
    merges: list[tuple[str, str]] = []
    if model["type"] == "WordPiece":
        names = _best_words(tokenizer, model["continuing_subword_prefix"], words)[:new_tokens]
    else:
        merges = _further_merges(tokenizer, words, new_tokens, min_frequency)
        joined_tokens = [first + second for first, second in merges]
        names = [token for token in dict.fromkeys(joined_tokens) if token not in old_ids]
    if not names:
        raise UserError(
            f"the text gives tokenizer {name} no new token: no word of several pieces occurs {min_frequency} times; "
            "name more text, or use the tokenizer as it is"
        )

    new_ids = {token: size + rank for rank, token in enumerate(names)}
    if model["type"] == "Unigram":
        _add_pieces(model, old_ids, size, names, merges)
    else:
        model["vocab"] = {**old_ids, **new_ids}
    if model["type"] == "BPE":
        model["merges"] = [*model["merges"], *map(list, merges)]
    extended = copy.deepcopy(tokenizer)
    extended._tokenizer = Tokenizer.from_str(json.dumps(state))
    if not (old_ids | new_ids).items() <= extended.get_vocab().items():
        raise UserError(f"tokenizer {name}: its ids would change; train a new tokenizer")
    logger.info("added %d tokens, such as %s", len(names), ", ".join(names[:10]))
    return extended


def _text_of(backend: Tokenizer, token: str) -> str:
    """Return the text that a token stands for; byte-level tokens are decoded from their letters."""
    is_byte_level = "ByteLevel" in str(backend.decoder)
    return backend.decoder.decode([token]) if is_byte_level else token


def _has_letters(backend: Tokenizer, token: str) -> bool:
    """Return True if a token has a letter, a digit or, in a byte-level tokenizer, a part of a character."""
    return any(character.isalnum() or character == "\ufffd" for character in _text_of(backend, token))


def _best_words(tokenizer: PreTrainedTokenizerBase, prefix: str, words: dict[str, int]) -> list[str]:
    """Return the words that are no token yet and have several pieces, those that save most pieces first.

    Args:
        prefix: mark of pieces that continue a word, ##.
        words: word -> its count.
    """
    old_ids = tokenizer.get_vocab()
    candidates = {
        word: count
        for word, count in words.items()
        if word not in old_ids and len(word) <= LONGEST_TOKEN and not word.startswith(prefix)
    }
    saved_pieces = {}
    for word, count, ids, _ in _encode_words(tokenizer.backend_tokenizer, candidates):
        pieces = len(word) if tokenizer.unk_token_id in ids else len(ids) - 1
        if pieces > 0:
            saved_pieces[word] = count * pieces
    return sorted(saved_pieces, key=lambda word: (-saved_pieces[word], word))


def _add_pieces(
    model: dict[str, Any],
    old_ids: dict[str, int],
    size: int,
    names: list[str],
    merges: list[tuple[str, str]],
) -> None:
    """Append pieces to a Unigram model, each with a score a little better than that of the two pieces it replaces.

    Args:
        model: state of the model, which is changed.
        old_ids: token -> id, also of added tokens, which the model itself does not have.
        size: id of the first new piece.
        names: the new pieces.
        merges: pairs of pieces that become one, in order; later pairs have pieces of earlier ones.
    """
    scores = dict(model["vocab"])
    for first, second in merges:
        score = scores[first] + scores[second] + _BETTER
        scores[first + second] = max(score, scores.get(first + second, -float("inf")))
    by_id = {index: token for token, index in old_ids.items()}
    for index in range(len(model["vocab"]), size):  # ids of added tokens; a model's ids have no gaps
        model["vocab"].append([by_id.get(index, f"{UNMATCHABLE_PREFIX}{index}"), 0.0])
    model["vocab"] += [[token, scores[token]] for token in names]


def _encode_words(backend: Tokenizer, words: dict[str, int]) -> Iterator[tuple[str, int, list[int], list[str]]]:
    """Yield each normalized word with its count, and the ids and names of its pieces."""
    pieces = Tokenizer(backend.model)
    ordered = sorted(words)
    for first in range(0, len(ordered), _WORDS_AT_ONCE):
        batch = ordered[first : first + _WORDS_AT_ONCE]
        for word, encoding in zip(batch, pieces.encode_batch(batch, add_special_tokens=False), strict=True):
            yield word, words[word], encoding.ids, encoding.tokens


def _further_merges(
    tokenizer: PreTrainedTokenizerBase,
    words: dict[str, int],
    count: int,
    min_frequency: int,
) -> list[tuple[str, str]]:
    """Return up to `count` further merges of BPE, in which the present pieces of each word are its characters.

    Args:
        words: normalized word -> its count.
    """
    backend = tokenizer.backend_tokenizer
    symbols: dict[str, str] = {}
    rewritten: Counter[str] = Counter()
    for word, word_count, ids, tokens in _encode_words(backend, words):
        is_known = tokenizer.unk_token_id not in ids and "".join(tokens) == word  # no byte of an unknown character
        if len(ids) > 1 and is_known:
            written_tokens = [symbols.setdefault(token, chr(_FIRST_SYMBOL + len(symbols))) for token in tokens]
            rewritten["".join(written_tokens)] += word_count
    if not rewritten:
        return []
    names = {symbol: token for token, symbol in symbols.items()}
    trainer = trainers.BpeTrainer(
        vocab_size=len(symbols) + count,
        min_frequency=min_frequency,
        initial_alphabet=sorted(names),
        show_progress=False,
    )
    trained = train_on_words(models.BPE(), trainer, rewritten)
    state = json.loads(trained.to_str())
    merges = []
    pieces = set(symbols)
    for pair in state["model"]["merges"]:
        first, second = ("".join(names[symbol] for symbol in side) for side in pair)
        is_short = len(_text_of(backend, first + second)) <= LONGEST_TOKEN
        if is_short and _has_letters(backend, first + second) and pieces.issuperset((first, second)):
            pieces.add(first + second)
            merges.append((first, second))
    return merges
