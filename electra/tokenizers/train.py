"""Train a tokenizer on raw text in any language.

Three algorithms, each with the Rust trainers of `tokenizers`, five special tokens with the ids 0-4 and the template
`[CLS] A [SEP] B [SEP]` with token types 0 and 1:

    wordpiece  the pipeline of BERT and ELECTRA; a character that was not learned makes its word [UNK]
    byte_bpe   GPT-2's byte-level BPE; nothing is ever unknown, and without lowercasing decoding is lossless
    unigram    SentencePiece's model; needs no spaces between words

For WordPiece and BPE, the same documents give the same vocabulary. The trainers alone do not guarantee that, because
they iterate over a hash map: WordPiece gives its `##` characters ids in another order each time, which also decides
ties between merges (huggingface/tokenizers#1794; to be removed when it is merged). So the words are counted first, the
alphabet is sorted here, and the trainer gets the counted words instead of the corpus. Unigram adds its probabilities
in another order each time: the last digits of its scores differ between two trainings, and rarely a piece.

WordPiece reads about 6 MB/s of English on two cores. Memory grows with the number of distinct words, not with the
corpus. Without spaces, Unigram takes a sentence for a word: set `max_documents` there.
"""

import itertools
import json
import logging
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerBase

from electra.base.console import format_seconds
from electra.core.errors import UserError
from electra.tokenizers.load import SPECIAL_TOKENS, wrap_backend
from electra.tokenizers.options import TokenizerArguments

logger = logging.getLogger(__name__)

_SPECIAL_NAMES = list(SPECIAL_TOKENS.values())
"""Names of the special tokens in the order of their ids."""
# The alphabet has the most frequent characters up to SentencePiece's default coverage, and at least the 1000 most
# frequent ones (the limit of tokenizers' BertWordPieceTokenizer) if they fit into a quarter of the vocabulary. With
# that limit alone, common Chinese and Japanese characters would be unknown; without a limit, thousands of rows of the
# embedding would belong to characters seen once.
CHARACTER_COVERAGE = 0.9995
COMMON_CHARACTERS = 1000
REPEATS_PER_TEXT = 1000
"""Repetitions of a word, at most, in one text for a trainer."""
MANY_CHARACTERS = 1_000_000
"""Characters of all different words together, above which Unigram takes long, and the log says so beforehand."""
SECONDS_PER_MANY = 30
"""Seconds that one core needs for `MANY_CHARACTERS`: 20 to 33 were measured. The trainer shows no progress."""
LONGEST_WORD = 1000
"""Characters of a word, without space or punctuation, that WordPiece cuts into pieces, at most; a longer word becomes
[UNK]. The time for a word grows with the square of its length: for this length, a tenth of a second."""
TURKIC = re.compile("\u0131|i\u0307")
"""The letter ı, and what lower-casing makes of İ. I, the capital of ı, becomes i, so lower-casing changes words."""
UNSPACED_LETTER = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
"""Letters of Thai, Lao, Burmese, Khmer. (In Chinese and Japanese, WordPiece takes most characters for words.)"""
MANY_TURKIC = 10
"""Tokens with letters of Turkish or Azerbaijani from which a text is taken for one of these languages."""
NOTHING_TO_TRAIN_ON = "there is no text to train a tokenizer on: no documents, or only empty ones; check the corpus"
"""Message for a corpus without text."""


def train_on_documents(
    documents: Iterable[str], options: TokenizerArguments, seed: int = 42
) -> PreTrainedTokenizerBase:
    """Train a tokenizer, and return it; when it is saved, `AutoTokenizer` can load it.

    The documents are read once, in order. Their order does not change the vocabulary, unless `max_documents` of them
    are drawn, by `seed`.

    Raises:
        UserError: the documents have no text, or `vocab_size` is smaller than their alphabet.
    """
    documents = prepare_documents(documents, options.max_documents, seed)
    tokenizer = ALGORITHMS[options.tokenizer_algorithm](documents, options)
    tokens = tokenizer.batch_decode([[token_id] for token_id in range(len(tokenizer))])
    if options.lowercase:
        _warn_of_lowercasing(tokens)
    if options.tokenizer_algorithm == "wordpiece" and _is_unspaced(tokens):
        logger.warning(
            "the text is in a script without spaces between words, of which WordPiece cuts clauses from their left "
            "end; consider --tokenizer_algorithm unigram"
        )
    return tokenizer


def _is_unspaced(tokens: Sequence[str]) -> bool:
    """Return True if half of the vocabulary is of a script without spaces between words."""
    return 2 * sum(UNSPACED_LETTER.search(token) is not None for token in tokens) > len(tokens)


def _warn_of_lowercasing(tokens: Sequence[str]) -> None:
    """Log a warning if the vocabulary is of a language in which lower-casing by Unicode confuses letters."""
    texts = [token.strip(" #") for token in tokens]
    if sum(len(token) > 1 and TURKIC.search(token) is not None for token in texts) >= MANY_TURKIC:
        logger.warning("lower-casing is wrong for Turkish and Azerbaijani (I becomes i, not ı); see --no_lowercase")


def prepare_documents(documents: Iterable[str], max_documents: int | None, seed: int) -> Iterable[str]:
    """Return the documents to train on: all of them, or a sample of `max_documents`, drawn by `seed`.

    A space is put after each 500 characters without white space, because the time of a trainer grows with the square
    of the length of a word. A sample is held in memory; all documents are a stream.
    """
    split_documents = (re.sub(r"(\S{500})(?=\S)", r"\1 ", document) for document in documents)
    return split_documents if max_documents is None else _sample_documents(split_documents, max_documents, seed)


def _sample_documents(documents: Iterable[str], max_documents: int, seed: int) -> list[str]:
    """Return `max_documents` documents of a stream, drawn without replacement (algorithm R), in the stream's order."""
    generator = random.Random(seed)
    reservoir = []
    for index, document in enumerate(documents):
        if index < max_documents:
            reservoir.append((index, document))
        elif (slot := int(generator.random() * (index + 1))) < max_documents:
            reservoir[slot] = (index, document)
    return [document for _, document in sorted(reservoir)]


def _train_wordpiece(documents: Iterable[str], options: TokenizerArguments) -> PreTrainedTokenizerBase:
    """Train the tokenizer of BERT and ELECTRA."""
    normalizer = normalizers.BertNormalizer(strip_accents=options.strip_accents, lowercase=options.lowercase)
    words = count_words(documents, normalizer, pre_tokenizers.BertPreTokenizer())
    alphabet = _choose_alphabet(words, options.vocab_size)
    # A word with a character outside the alphabet becomes [UNK] as a whole: nothing can be learned from it.
    words = {word: count for word, count in words.items() if alphabet.issuperset(word)}
    continuations = {f"##{character}" for word in words for character in word[1:]}
    symbols = [*sorted(alphabet), *sorted(continuations)]
    _check_vocab_size(options, len(symbols))

    # The single-character symbols get fixed ids, because they are named here as "special" to this trainer.
    trainer = trainers.WordPieceTrainer(
        vocab_size=options.vocab_size,
        min_frequency=options.min_frequency,
        special_tokens=_SPECIAL_NAMES + symbols,
        show_progress=False,
    )
    vocab = train_on_words(models.WordPiece(unk_token="[UNK]"), trainer, words).get_vocab()
    by_id = sorted(vocab.items(), key=lambda item: item[1])
    # Not a BertTokenizer: that class makes [UNK] of every word of more than 100 characters, and so of many clauses in
    # Thai, Lao, Khmer and Burmese, which have no spaces; it forgets another limit when it is loaded.
    model = models.WordPiece(vocab=dict(by_id), unk_token="[UNK]", max_input_chars_per_word=LONGEST_WORD)
    backend = Tokenizer(model)
    backend.normalizer = normalizer
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##")
    return wrap_backend(backend, SPECIAL_TOKENS)


def _train_byte_bpe(documents: Iterable[str], options: TokenizerArguments) -> PreTrainedTokenizerBase:
    """Train GPT-2's tokenizer, with the special tokens and the template of this package."""
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
        special_tokens=_SPECIAL_NAMES,
        initial_alphabet=alphabet,
        show_progress=False,
    )
    backend.train_from_iterator(documents, trainer)
    if trainer.get_word_count() == 0:
        raise UserError(NOTHING_TO_TRAIN_ON)
    return wrap_backend(backend, SPECIAL_TOKENS)


def _train_unigram(documents: Iterable[str], options: TokenizerArguments) -> PreTrainedTokenizerBase:
    """Train SentencePiece's tokenizer, with the special tokens and the template of this package."""
    # Metaspace only knows the plain space. NUL is the trainer's own separator between words.
    spaces = normalizers.Replace(Regex(r"[\s\x00]+"), " ")
    folding = _case_folding(options)
    normalizer = normalizers.Sequence([normalizers.Nmt(), *folding, normalizers.NFKC(), spaces, normalizers.Strip()])
    words = count_words(documents, normalizer, pre_tokenizers.Metaspace())
    alphabet = _choose_alphabet(words, options.vocab_size)
    _check_vocab_size(options, len(alphabet))

    # Unigram makes a token of every character it gets, so words are cut where one is outside the alphabet.
    parts: Counter[str] = Counter()
    for word, count in words.items():
        spaced_word = "".join(character if character in alphabet else " " for character in word)
        for part in spaced_word.split():
            parts[part] += count

    trainer = trainers.UnigramTrainer(
        vocab_size=options.vocab_size,
        special_tokens=_SPECIAL_NAMES,
        unk_token="[UNK]",
        show_progress=False,
    )
    characters = sum(map(len, parts))
    if characters > MANY_CHARACTERS:
        logger.info(
            "unigram: %s different words (without spaces, a clause is a word) take about %s of a core, without a line "
            "meanwhile; --max_documents trains on fewer",
            f"{len(parts):,}", format_seconds(SECONDS_PER_MANY * characters / MANY_CHARACTERS),
        )  # fmt: skip
    backend = train_on_words(models.Unigram(), trainer, parts)
    backend.normalizer = normalizer
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    return wrap_backend(backend, SPECIAL_TOKENS)


def _case_folding(options: TokenizerArguments) -> list[normalizers.Normalizer]:
    """Return normalizers that treat accents and capitals as BertNormalizer does, for BPE and Unigram."""
    folding: list[normalizers.Normalizer] = []
    if options.strip_accents:
        folding += [normalizers.NFD(), normalizers.StripAccents()]
    if options.lowercase:
        folding.append(normalizers.Lowercase())
    return folding


def count_words(
    documents: Iterable[str],
    normalizer: normalizers.Normalizer,
    pre_tokenizer: pre_tokenizers.PreTokenizer,
) -> dict[str, int]:
    """Count how often each word occurs in the documents, in Rust and on all cores, while the documents are streamed.

    Words are the pieces into which the pre-tokenizer cuts a normalized document.

    Raises:
        UserError: the documents have no text.
    """
    counter = Tokenizer(models.WordLevel())
    counter.normalizer = normalizer
    counter.pre_tokenizer = pre_tokenizer
    trainer = trainers.WordLevelTrainer(vocab_size=0, show_progress=False)
    counter.train_from_iterator(documents, trainer)
    # The counts of the trainer are only in its pickled state.
    words: dict[str, int] = json.loads(trainer.__getstate__())["WordLevelTrainer"]["words"]
    if not words:
        raise UserError(NOTHING_TO_TRAIN_ON)
    return words


def _choose_alphabet(words: dict[str, int], vocab_size: int) -> set[str]:
    """Return the characters that get a token each, at least one; see `CHARACTER_COVERAGE`.

    Args:
        words: word -> its count.
    """
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            counts[character] += count
    ranked = sorted(counts, key=lambda character: (-counts[character], character))
    needed_count = CHARACTER_COVERAGE * counts.total()
    running_counts = itertools.accumulate(counts[character] for character in ranked)
    needed_characters = 1 + sum(count < needed_count for count in running_counts)
    return set(ranked[: max(needed_characters, min(COMMON_CHARACTERS, vocab_size // 4))])


def train_on_words(
    model: models.Model,
    trainer: trainers.Trainer,
    words: dict[str, int],
) -> Tokenizer:
    """Return a tokenizer trained on words without plain spaces, each repeated as often as it was counted."""
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.CharDelimiterSplit(" ")

    def texts() -> Iterator[str]:
        for word, count in words.items():
            for start in range(0, count, REPEATS_PER_TEXT):
                repeats = min(REPEATS_PER_TEXT, count - start)
                yield " ".join([word] * repeats)

    tokenizer.train_from_iterator(texts(), trainer)
    return tokenizer


def _check_vocab_size(options: TokenizerArguments, alphabet_size: int) -> None:
    """Raise a UserError if the vocabulary has no room for the alphabet and the special tokens."""
    needed_size = alphabet_size + len(_SPECIAL_NAMES)
    if options.vocab_size < needed_size:
        raise UserError(
            f"vocab_size={options.vocab_size} is too small for the alphabet, {alphabet_size} single-character "
            f"symbols, and {len(_SPECIAL_NAMES)} special tokens; choose at least {needed_size}, better several "
            "times that"
        )


ALGORITHMS = {"wordpiece": _train_wordpiece, "byte_bpe": _train_byte_bpe, "unigram": _train_unigram}
"""Value of --tokenizer_algorithm -> function that trains a tokenizer on documents."""
