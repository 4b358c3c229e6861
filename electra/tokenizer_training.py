"""Raw text to a Hugging Face tokenizer, in any language.

Three algorithms are trained, each with the Rust trainers of `tokenizers`, each with the same five special tokens at
the ids 0-4 and the same frame `[CLS] A [SEP] B [SEP]` with token types 0 and 1:

    wordpiece  BERT's and ELECTRA's own pipeline, for any language; an unlearned character makes its word [UNK]
    byte_bpe   GPT-2's byte-level BPE; nothing is ever unknown, and without lowercasing decoding is lossless
    unigram    SentencePiece's model; needs no spaces between words

The same documents give the same vocabulary. Two of the trainers do not do that by themselves, because they walk over
a hash map: WordPiece hands out the ids of its `##` characters, and with them the winner of every tie between two
merges, in another order each time (huggingface/tokenizers#1794), and Unigram sums its probabilities in another order.
So the words are counted first, by the parallel counter of `tokenizers`, the alphabet is fixed and sorted here, and
the counted words rather than the corpus are given to the trainer.

Cost: one pass over the documents, about 6 MB/s of English for WordPiece on two free cores; a fifth of that time goes
into giving the words to the trainer. Memory grows with the number of distinct words, not with the corpus. For Unigram
and text without spaces a "word" is a whole sentence: there `max_documents` is what bounds memory.
"""

import hashlib
import json
import logging
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import BertTokenizer, PreTrainedTokenizerBase

from electra.errors import UserError
from electra.tokenization import SPECIAL_TOKENS, wrap_backend

logger = logging.getLogger(__name__)

TOKENIZER_ALGORITHMS = ("wordpiece", "byte_bpe", "unigram")

UNK_ID = list(SPECIAL_TOKENS).index("unk_token")

# A learned alphabet holds the most frequent characters up to SentencePiece's default coverage, and in any case the
# 1000 most frequent ones (the limit of tokenizers' BertWordPieceTokenizer) if a quarter of the vocabulary holds them.
# That limit alone would leave Chinese and Japanese characters in daily use unknown; no limit at all would spend
# thousands of rows of the embedding on characters seen once.
CHARACTER_COVERAGE = 0.9995
COMMON_CHARACTERS = 1000

REPEATS_PER_CHUNK = 1000  # words
_LONG_WORD = re.compile(r"(\S{500})(?=\S)")


@dataclass(frozen=True)
class TokenizerOptions:
    """What `train_tokenizer` trains.

    Attributes:
        tokenizer_algorithm: `wordpiece`, `byte_bpe` or `unigram`.
        vocab_size: number of tokens wanted, the five special ones included.
        min_frequency: occurrences a pair of symbols needs to be merged. Unigram has no merges and does not look at it.
        lowercase: lowercase the text, in all three algorithms.
        strip_accents: drop combining marks (é -> e); None does so exactly if `lowercase`, as BERT does. Say False
            where marks tell words apart: German ü, Finnish ä and ö, Hindi vowels, Japanese が.
        max_documents: train on at most so many documents, a seeded uniform sample without replacement of all of
            them; the sample is held in memory. None: all documents, streamed.
        seed: of that sample.
    """

    tokenizer_algorithm: str = "wordpiece"
    vocab_size: int = 30522
    min_frequency: int = 2
    lowercase: bool = True
    strip_accents: bool | None = None
    max_documents: int | None = None
    seed: int = 42


@dataclass(frozen=True)
class TokenizerReport:
    """A training in numbers: what came out, what went in, seconds of wall time, and a `TokenizerMeasurement`."""

    vocab_size: int
    training_documents: int
    training_seconds: float
    held_out_documents: int
    unknown_token_rate: float
    bytes_per_token: float
    tokens: int


def train_tokenizer(documents: Iterable[str], options: TokenizerOptions) -> PreTrainedTokenizerBase:
    """Train a tokenizer that encodes pairs as `[CLS] A [SEP] B [SEP]` and survives `save_pretrained`/`AutoTokenizer`.

    Args:
        documents: texts, read once and in order; an iterator will do.
        options: see `TokenizerOptions`.
    Returns:
        A `BertTokenizer` for wordpiece, a `PreTrainedTokenizerFast` for the others. Its vocabulary is a function of
        the options and the documents, and not of their order unless they are sampled. Fewer tokens than `vocab_size`
        are logged as a warning.
    Raises:
        UserError: an option is out of range, the documents hold no text, `vocab_size` does not hold their alphabet, or
            `min_frequency` leaves nothing to merge.
    """
    _check_options(options)
    documents = map(_break_long_words, documents)
    if options.max_documents is not None:
        documents = _sample_documents(documents, options.max_documents, options.seed)
    trainers_by_name = {"wordpiece": _train_wordpiece, "byte_bpe": _train_byte_bpe, "unigram": _train_unigram}
    tokenizer = trainers_by_name[options.tokenizer_algorithm](documents, options)
    if len(tokenizer) < options.vocab_size:
        logger.warning(
            "the documents gave %d tokens, fewer than vocab_size=%d; the model can be made that small, or train on "
            "more text or with a lower min_frequency",
            len(tokenizer),
            options.vocab_size,
        )
    return tokenizer


def is_held_out(document: str, seed: int, fraction: float = 0.05) -> bool:
    """Whether a document belongs to the held-out part: decided by its text alone, so that duplicates stay together.

    Args:
        document: the whole text.
        seed: another seed is another, independent split.
        fraction: expected share of the distinct documents that is held out, in [0, 1].
    """
    digest = hashlib.blake2b(
        document.encode("utf-8", errors="surrogatepass"), digest_size=8, salt=seed.to_bytes(16, "little", signed=True)
    ).digest()
    return int.from_bytes(digest, "little") < fraction * 2**64


def _break_long_words(document: str) -> str:
    """Spaces into what has none for hundreds of characters: the trainers take quadratic time on a word's length."""
    return _LONG_WORD.sub(r"\1 ", document)


def _check_options(options: TokenizerOptions) -> None:
    if options.tokenizer_algorithm not in TOKENIZER_ALGORITHMS:
        raise UserError(
            f"tokenizer_algorithm={options.tokenizer_algorithm!r} is unknown; "
            f"choose {' or '.join(TOKENIZER_ALGORITHMS)}"
        )
    for name in ("vocab_size", "min_frequency", "max_documents"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise UserError(f"{name}={value} must be at least 1")


def _sample_documents(documents: Iterable[str], max_documents: int, seed: int) -> list[str]:
    """A uniform sample without replacement of a stream of unknown length, in the order of the stream (algorithm R)."""
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


def _train_wordpiece(documents: Iterable[str], options: TokenizerOptions) -> PreTrainedTokenizerBase:
    normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=True,
        strip_accents=options.strip_accents,
        lowercase=options.lowercase,
    )
    words = _count_words(documents, normalizer, pre_tokenizers.BertPreTokenizer())
    alphabet = _choose_alphabet(words, options.vocab_size)
    # A word with a character outside the alphabet will be [UNK] as a whole: nothing is to be learned from it.
    words = {word: count for word, count in words.items() if alphabet.issuperset(word)}
    continuations = {f"##{character}" for word in words for character in word[1:]}
    symbols = [*sorted(alphabet), *sorted(continuations)]
    _check_vocab_size(options, len(symbols))

    trainer = trainers.WordPieceTrainer(
        vocab_size=options.vocab_size,
        min_frequency=options.min_frequency,
        # Named in advance, the single-character symbols have fixed ids. They are "special" to this trainer only.
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


def _train_byte_bpe(documents: Iterable[str], options: TokenizerOptions) -> PreTrainedTokenizerBase:
    """Byte-level BPE needs no help to be deterministic: its alphabet is the 256 bytes, sorted and always there.

    `add_prefix_space` is False, as in GPT-2, RoBERTa and ByteLevelBPETokenizer: with True, decoding adds a space to
    the front of a text and encoding is no longer lossless.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    _check_vocab_size(options, len(alphabet))
    backend = Tokenizer(models.BPE())
    folding = _case_folding(options)
    if folding:
        # NFC last: what the decomposition took apart besides the accents (Hangul) is put together again.
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
        raise _no_text()
    if backend.get_vocab_size() == len(SPECIAL_TOKENS) + len(alphabet) < options.vocab_size:
        raise _nothing_to_merge(options)
    return wrap_backend(backend, SPECIAL_TOKENS)


def _train_unigram(documents: Iterable[str], options: TokenizerOptions) -> PreTrainedTokenizerBase:
    normalizer = normalizers.Sequence(
        [
            normalizers.Nmt(),
            *_case_folding(options),
            normalizers.NFKC(),
            # Metaspace knows the plain space only. NUL is the trainer's own separator between words.
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


def _case_folding(options: TokenizerOptions) -> list[normalizers.Normalizer]:
    """What BertNormalizer does about accents and capitals, for the algorithms that do not use it."""
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
    """Occurrences of every pre-token, counted in Rust on all cores while the documents stream by."""
    counter = Tokenizer(models.WordLevel())
    counter.normalizer = normalizer
    counter.pre_tokenizer = pre_tokenizer
    trainer = trainers.WordLevelTrainer(vocab_size=0, show_progress=False)
    counter.train_from_iterator(documents, trainer)
    # The trainer keeps its counts and shows them in its pickled state only.
    words: dict[str, int] = json.loads(trainer.__getstate__())["WordLevelTrainer"]["words"]
    if not words:
        raise _no_text()
    return words


def _choose_alphabet(words: dict[str, int], vocab_size: int) -> set[str]:
    """The characters that get a token of their own; see `CHARACTER_COVERAGE`."""
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
    """Replace each word by its parts inside the alphabet: Unigram makes a token of every character it is given."""
    parts: Counter[str] = Counter()
    for word, count in words.items():
        known = word if alphabet.issuperset(word) else "".join(c if c in alphabet else " " for c in word)
        for part in known.split(" "):
            if part:
                parts[part] += count
    return dict(parts)


def _train_on_words(model: models.Model, trainer: trainers.Trainer, words: dict[str, int]) -> Tokenizer:
    """Train on counted words, which hold no plain space, by showing each as often as it was counted."""
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.CharDelimiterSplit(" ")
    tokenizer.train_from_iterator(_repeated_words(words), trainer)
    return tokenizer


def _repeated_words(words: dict[str, int]) -> Iterator[str]:
    for word, count in words.items():
        for start in range(0, count, REPEATS_PER_CHUNK):
            yield " ".join([word] * min(REPEATS_PER_CHUNK, count - start))


# tokenizers gives a character that its model lost on the way the lowest score plus a multiple of this, in the order
# of a hash set (finalize in models/unigram/trainer.rs).
LOST_CHARACTER_STEP = 1e-4
SCORE_DECIMALS = 6


def _canonical_pieces(trained: Tokenizer) -> list[tuple[str, float]]:
    """The trained Unigram pieces, special ones first, without what differs between two trainings on the same words.

    Two things do: the last digits of every score, from the order of a sum, and which of the lost characters gets which
    of the scores set aside for them. Scores are rounded; those set aside are dealt out in the order of the characters.
    """
    special = list(SPECIAL_TOKENS.values())
    pieces = {piece: score for piece, score in json.loads(trained.to_str())["model"]["vocab"] if piece not in special}
    characters = sorted(piece for piece in pieces if len(piece) == 1)
    lowest = min(pieces.values())

    def is_set_aside(score: float) -> bool:
        steps = (score - lowest) / LOST_CHARACTER_STEP
        return steps < len(characters) and abs(steps - round(steps)) < 1e-3

    lost = [character for character in characters if is_set_aside(pieces[character])]
    pieces.update(zip(lost, sorted((pieces[character] for character in lost), reverse=True), strict=True))
    rounded = [(piece, round(score, SCORE_DECIMALS)) for piece, score in pieces.items()]
    rounded.sort(key=lambda item: (-item[1], item[0]))
    return [*((token, 0.0) for token in special), *rounded]


def _check_vocab_size(options: TokenizerOptions, alphabet_size: int) -> None:
    needed = alphabet_size + len(SPECIAL_TOKENS)
    if options.vocab_size < needed:
        raise UserError(
            f"vocab_size={options.vocab_size} does not hold the alphabet, {alphabet_size} single-character symbols, "
            f"and {len(SPECIAL_TOKENS)} special tokens; ask for at least {needed}, better several times that"
        )


def _nothing_to_merge(options: TokenizerOptions) -> UserError:
    return UserError(
        f"min_frequency={options.min_frequency} leaves nothing to merge: no two symbols stand side by side that often "
        f"in these documents; lower it or train on more text"
    )


def _no_text() -> UserError:
    return UserError("there is no text to train a tokenizer on: no documents, or empty ones only; check the corpus")
