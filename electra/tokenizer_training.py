"""Train a tokenizer on raw text in any language.

Three algorithms, each with the Rust trainers of `tokenizers`, five special tokens with the ids 0-4 and the template
`[CLS] A [SEP] B [SEP]` with token types 0 and 1:

    wordpiece  the pipeline of BERT and ELECTRA; a character that was not learned makes its word [UNK]
    byte_bpe   GPT-2's byte-level BPE; nothing is ever unknown, and without lowercasing decoding is lossless
    unigram    SentencePiece's model; needs no spaces between words

The same documents give the same vocabulary. The trainers alone do not guarantee that, because they iterate over a hash
map: WordPiece gives its `##` characters ids in another order each time, which also decides ties between merges
(huggingface/tokenizers#1794; to be removed when it is merged), and Unigram sums its probabilities in another order. So
the words are counted first by the parallel counter of `tokenizers`, the alphabet is sorted here, and the trainer gets
the counted words instead of the corpus.

WordPiece takes one pass over the documents, about 6 MB/s of English on two cores. Memory grows with the number of
distinct words, not with the corpus. Without spaces, Unigram takes a sentence for a word: set `max_documents` there.
"""

import json
import logging
import random
import re
from collections import Counter
from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import BertTokenizer, PreTrainedTokenizerBase

from electra.config import TokenizerArguments
from electra.errors import UserError
from electra.tokenizer import SPECIAL_TOKENS, wrap_backend

logger = logging.getLogger(__name__)

UNK_ID = list(SPECIAL_TOKENS).index("unk_token")

# The alphabet has the most frequent characters up to SentencePiece's default coverage, and at least the 1000 most
# frequent ones (the limit of tokenizers' BertWordPieceTokenizer) if they fit into a quarter of the vocabulary. With
# that limit alone, common Chinese and Japanese characters would be unknown; without a limit, thousands of rows of the
# embedding would belong to characters seen once.
CHARACTER_COVERAGE = 0.9995
COMMON_CHARACTERS = 1000

REPEATS_PER_CHUNK = 1000  # words
LOST_CHARACTER_STEP = 1e-4
SCORE_DECIMALS = 6
NO_TEXT = "there is no text to train a tokenizer on: no documents, or only empty ones; check the corpus"
_LONG_WORD = re.compile(r"(\S{500})(?=\S)")


def train_tokenizer(documents: Iterable[str], options: TokenizerArguments, seed: int = 42) -> PreTrainedTokenizerBase:
    """Train a tokenizer that can be saved and loaded by `AutoTokenizer`.

    Args:
        documents: texts, read once and in order.
        options: what to train.
        seed: of the sample of `max_documents`.
    Returns:
        A `BertTokenizer` for wordpiece, a `PreTrainedTokenizerFast` for the others. Its vocabulary depends on the
        options and the documents, but not on their order unless they are sampled.
    Raises:
        UserError: the documents have no text, `vocab_size` is smaller than their alphabet, or `min_frequency` leaves
            nothing to merge.
    """
    documents = map(_break_long_words, documents)
    if options.max_documents is not None:
        documents = _sample_documents(documents, options.max_documents, seed)
    tokenizer = ALGORITHMS[options.tokenizer_algorithm](documents, options)
    if len(tokenizer) < options.vocab_size:
        logger.warning(
            "the documents gave %d tokens, fewer than vocab_size=%d; set --vocab_size to that, train on more text or "
            "lower --min_frequency",
            len(tokenizer),
            options.vocab_size,
        )
    return tokenizer


def _break_long_words(document: str) -> str:
    """Put a space after every 500 characters without one: the trainers take quadratic time in the length of a word."""
    return _LONG_WORD.sub(r"\1 ", document)


def _sample_documents(documents: Iterable[str], max_documents: int, seed: int) -> list[str]:
    """Draw a uniform sample without replacement from a stream of unknown length, in stream order (algorithm R)."""
    generator = random.Random(seed)
    reservoir: list[tuple[int, str]] = []
    for index, document in enumerate(documents):
        if index < max_documents:
            reservoir.append((index, document))
            continue
        place = int(generator.random() * (index + 1))
        if place < max_documents:
            reservoir[place] = (index, document)
    return [document for _, document in sorted(reservoir)]


def _train_wordpiece(documents: Iterable[str], options: TokenizerArguments) -> PreTrainedTokenizerBase:
    normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=True,
        strip_accents=options.strip_accents,
        lowercase=options.lowercase,
    )
    words = _count_words(documents, normalizer, pre_tokenizers.BertPreTokenizer())
    alphabet = _choose_alphabet(words, options.vocab_size)
    # A word with a character outside the alphabet becomes [UNK] as a whole: nothing can be learned from it.
    words = {word: count for word, count in words.items() if alphabet.issuperset(word)}
    continuations = {f"##{character}" for word in words for character in word[1:]}
    symbols = [*sorted(alphabet), *sorted(continuations)]
    _check_vocab_size(options, len(symbols))

    trainer = trainers.WordPieceTrainer(
        vocab_size=options.vocab_size,
        min_frequency=options.min_frequency,
        # The single-character symbols get fixed ids, because they are named here as "special" to this trainer.
        special_tokens=[*SPECIAL_TOKENS.values(), *symbols],
        show_progress=False,
    )
    vocab = _train_on_words(models.WordPiece(unk_token=SPECIAL_TOKENS["unk_token"]), trainer, words).get_vocab()
    unmerged = len(SPECIAL_TOKENS) + len(symbols)
    if continuations and len(vocab) == unmerged < options.vocab_size:
        raise _nothing_to_merge(options)
    return BertTokenizer(
        vocab=dict(sorted(vocab.items(), key=lambda item: item[1])),
        do_lower_case=options.lowercase,
        strip_accents=options.strip_accents,
    )


def _train_byte_bpe(documents: Iterable[str], options: TokenizerArguments) -> PreTrainedTokenizerBase:
    # The alphabet is the 256 bytes, so this trainer is deterministic. `add_prefix_space` is False, as in GPT-2 and
    # RoBERTa: with True, decoding adds a space before the text and is not lossless.
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    _check_vocab_size(options, len(alphabet))
    backend = Tokenizer(models.BPE())
    folding = _case_folding(options)
    if folding:
        # NFC composes again what NFD decomposed besides accents, such as Hangul.
        backend.normalizer = normalizers.Sequence([*folding, normalizers.NFC()])
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=options.vocab_size,
        min_frequency=options.min_frequency,
        special_tokens=list(SPECIAL_TOKENS.values()),
        initial_alphabet=alphabet,
        show_progress=False,
    )
    backend.train_from_iterator(documents, trainer)
    if trainer.get_word_count() == 0:
        raise UserError(NO_TEXT)
    if backend.get_vocab_size() == len(SPECIAL_TOKENS) + len(alphabet) < options.vocab_size:
        raise _nothing_to_merge(options)
    return wrap_backend(backend, SPECIAL_TOKENS)


def _train_unigram(documents: Iterable[str], options: TokenizerArguments) -> PreTrainedTokenizerBase:
    normalizer = normalizers.Sequence(
        [
            normalizers.Nmt(),
            *_case_folding(options),
            normalizers.NFKC(),
            # Metaspace only knows the plain space. NUL is the trainer's own separator between words.
            normalizers.Replace(Regex(r"[\s\x00]+"), " "),
            normalizers.Strip(),
        ]
    )
    pre_tokenizer = pre_tokenizers.Metaspace()
    words = _count_words(documents, normalizer, pre_tokenizer)
    alphabet = _choose_alphabet(words, options.vocab_size)
    _check_vocab_size(options, len(alphabet))
    trainer = trainers.UnigramTrainer(
        vocab_size=options.vocab_size,
        special_tokens=list(SPECIAL_TOKENS.values()),
        unk_token=SPECIAL_TOKENS["unk_token"],
        show_progress=False,
    )
    trained = _train_on_words(models.Unigram(), trainer, _cut_at_unknown_characters(words, alphabet))
    backend = Tokenizer(models.Unigram(_canonical_pieces(trained), unk_id=UNK_ID))
    backend.normalizer = normalizer
    backend.pre_tokenizer = pre_tokenizer
    backend.decoder = decoders.Metaspace()
    return wrap_backend(backend, SPECIAL_TOKENS)


def _case_folding(options: TokenizerArguments) -> list[normalizers.Normalizer]:
    """What BertNormalizer does with accents and capitals, for the algorithms that do not use it."""
    strips_accents = options.lowercase if options.strip_accents is None else options.strip_accents
    folding: list[normalizers.Normalizer] = []
    if strips_accents:
        folding += [normalizers.NFD(), normalizers.StripAccents()]
    if options.lowercase:
        folding.append(normalizers.Lowercase())
    return folding


def _count_words(
    documents: Iterable[str], normalizer: normalizers.Normalizer, pre_tokenizer: pre_tokenizers.PreTokenizer
) -> dict[str, int]:
    """Count every pre-token, in Rust on all cores, while the documents are streamed."""
    counter = Tokenizer(models.WordLevel())
    counter.normalizer = normalizer
    counter.pre_tokenizer = pre_tokenizer
    trainer = trainers.WordLevelTrainer(vocab_size=0, show_progress=False)
    counter.train_from_iterator(documents, trainer)
    # The counts of the trainer are only in its pickled state.
    words: dict[str, int] = json.loads(trainer.__getstate__())["WordLevelTrainer"]["words"]
    if not words:
        raise UserError(NO_TEXT)
    return words


def _choose_alphabet(words: dict[str, int], vocab_size: int) -> set[str]:
    """Choose the characters that get a token of their own; see `CHARACTER_COVERAGE`."""
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            counts[character] += count
    ranked = sorted(counts, key=lambda character: (-counts[character], character))
    to_cover = CHARACTER_COVERAGE * counts.total()
    kept = 0
    while to_cover > 0:
        to_cover -= counts[ranked[kept]]
        kept += 1
    return set(ranked[: max(kept, min(COMMON_CHARACTERS, vocab_size // 4))])


def _cut_at_unknown_characters(words: dict[str, int], alphabet: set[str]) -> dict[str, int]:
    """Replace each word by its parts inside the alphabet: Unigram makes a token of every character it gets."""
    parts: Counter[str] = Counter()
    for word, count in words.items():
        known = word if alphabet.issuperset(word) else "".join(c if c in alphabet else " " for c in word)
        for part in known.split(" "):
            if part:
                parts[part] += count
    return dict(parts)


def _train_on_words(model: models.Model, trainer: trainers.Trainer, words: dict[str, int]) -> Tokenizer:
    """Train on counted words, which have no plain space, by repeating each as often as it was counted."""
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.CharDelimiterSplit(" ")
    texts = (
        " ".join([word] * min(REPEATS_PER_CHUNK, count - start))
        for word, count in words.items()
        for start in range(0, count, REPEATS_PER_CHUNK)
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _canonical_pieces(trained: Tokenizer) -> list[tuple[str, float]]:
    """The trained Unigram pieces, special ones first, without the differences between two trainings on the same words.

    The order of a sum changes the last digits of every score, so scores are rounded. Characters that the model lost
    get the lowest score plus multiples of `LOST_CHARACTER_STEP` in the order of a hash set (`finalize` in tokenizers'
    models/unigram/trainer.rs), so these scores are given out again in the order of the characters.
    """
    special = list(SPECIAL_TOKENS.values())
    pieces = {piece: score for piece, score in json.loads(trained.to_str())["model"]["vocab"] if piece not in special}
    characters = sorted(piece for piece in pieces if len(piece) == 1)
    lowest = min(pieces.values())
    steps = {character: (pieces[character] - lowest) / LOST_CHARACTER_STEP for character in characters}
    lost = [c for c in characters if steps[c] < len(characters) and abs(steps[c] - round(steps[c])) < 1e-3]
    pieces.update(zip(lost, sorted((pieces[character] for character in lost), reverse=True), strict=True))
    rounded = [(piece, round(score, SCORE_DECIMALS)) for piece, score in pieces.items()]
    return [*((token, 0.0) for token in special), *sorted(rounded, key=lambda item: (-item[1], item[0]))]


def _check_vocab_size(options: TokenizerArguments, alphabet_size: int) -> None:
    needed = alphabet_size + len(SPECIAL_TOKENS)
    if options.vocab_size < needed:
        raise UserError(
            f"vocab_size={options.vocab_size} is too small for the alphabet, {alphabet_size} single-character "
            f"symbols, and {len(SPECIAL_TOKENS)} special tokens; choose at least {needed}, better several times that"
        )


def _nothing_to_merge(options: TokenizerArguments) -> UserError:
    return UserError(
        f"min_frequency={options.min_frequency} leaves nothing to merge: no two symbols are neighbours that often in "
        f"these documents; lower it or train on more text"
    )


ALGORITHMS = {"wordpiece": _train_wordpiece, "byte_bpe": _train_byte_bpe, "unigram": _train_unigram}
