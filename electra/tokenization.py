"""Raw text to a Hugging Face tokenizer, and the checks a tokenizer must pass before a corpus is encoded with it.

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
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, BertTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from electra.errors import UserError

logger = logging.getLogger(__name__)

TOKENIZER_ALGORITHMS = ("wordpiece", "byte_bpe", "unigram")

# The order is the id, 0-4.
SPECIAL_TOKENS = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
UNK_ID = list(SPECIAL_TOKENS).index("unk_token")

# How a bare `tokenizers` JSON is read, which does not say which token plays which role: by BERT's names, or by those
# that ELECTRA trainers built on ByteLevelBPETokenizer use. `unk_token` and `eos_token` may be missing.
SPECIAL_TOKEN_CONVENTIONS: tuple[dict[str, str], ...] = (
    SPECIAL_TOKENS,
    {
        "pad_token": "<PAD>",
        "mask_token": "<MASK>",
        "cls_token": "<BOS>",
        "eos_token": "<EOS>",
        "sep_token": "<SEP>",
        "unk_token": "<UNK>",
    },
)
REQUIRED_ROLES = ("cls_token", "sep_token", "pad_token", "mask_token")

# A learned alphabet holds the most frequent characters up to SentencePiece's default coverage, and in any case the
# 1000 most frequent ones (the limit of tokenizers' BertWordPieceTokenizer) if a quarter of the vocabulary holds them.
# That limit alone would leave Chinese and Japanese characters in daily use unknown; no limit at all would spend
# thousands of rows of the embedding on characters seen once.
CHARACTER_COVERAGE = 0.9995
COMMON_CHARACTERS = 1000

# A noncharacter: the Unicode standard keeps it out of interchanged text.
UNMATCHABLE_PREFIX = "\ufdd0"

# Files of which at least one lies in every folder `AutoTokenizer` can read.
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
    "vocab.json",
    "spiece.model",
    "sentencepiece.bpe.model",
    "spm.model",
    "tokenizer.model",
)
# Where a run folder keeps its tokenizer, in the order in which they are looked at.
TOKENIZER_SUBFOLDERS = ("tokenizer", "discriminator")

ENCODE_BATCH_SIZE = 256  # documents
REPEATS_PER_CHUNK = 1000  # words


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
class TokenizerMeasurement:
    """How a tokenizer does on documents it was not trained on, special tokens left out.

    Attributes:
        held_out_documents: number of documents measured.
        unknown_token_rate: share of the tokens that are the unknown token, in [0, 1].
        bytes_per_token: UTF-8 bytes of text for one token; higher is shorter sequences.
        tokens: number of tokens the documents became.
    """

    held_out_documents: int
    unknown_token_rate: float
    bytes_per_token: float
    tokens: int


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


# ---------------------------------------------------------------------------------------------------------- training


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
    return _wrap_backend(backend, SPECIAL_TOKENS)


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
    return _wrap_backend(backend, SPECIAL_TOKENS)


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


# ----------------------------------------------------------------------------------------------------------- loading


def load_tokenizer(tokenizer_path: str) -> PreTrainedTokenizerBase:
    """Load a tokenizer from wherever it is kept; nothing but a Hub id needs the network, and no remote code is run.

    Args:
        tokenizer_path: a Hugging Face folder, a run folder that holds one, a `vocab.txt` (or a folder with nothing
            else), a single `tokenizers` JSON file with or without extension, or a Hub id.
    Returns:
        A tokenizer with a Rust backend. `check_tokenizer` says whether it can be pre-trained with.
    Raises:
        UserError: nothing is there, it is not a tokenizer, it is damaged, the Hub cannot be reached, or the tokenizer
            has no Rust backend.
    """
    if not tokenizer_path:
        raise UserError("no tokenizer is named; give a folder, a tokenizers JSON file or a Hub id")
    path = Path(tokenizer_path).expanduser()
    if path.is_dir():
        tokenizer = _load_folder(path)
    elif path.is_file():
        tokenizer = _load_vocab_file(path) if path.suffix == ".txt" else _load_tokenizers_json(path)
    elif _looks_like_a_path(tokenizer_path):
        raise UserError(f"tokenizer {tokenizer_path}: no such file or folder")
    else:
        tokenizer = _load_with_auto_tokenizer(tokenizer_path)
    _backend(tokenizer, tokenizer_path)
    return tokenizer


def _looks_like_a_path(tokenizer_path: str) -> bool:
    """Whether this cannot be a Hub id, `name` or `owner/name`, so that the Hub need not be asked for it."""
    return (
        tokenizer_path.startswith(("/", ".", "~"))
        or tokenizer_path.endswith((".json", ".txt", "/"))
        or tokenizer_path.count("/") > 1
        or "\\" in tokenizer_path
    )


def _load_folder(folder: Path) -> PreTrainedTokenizerBase:
    candidates = [folder, *(folder / name for name in TOKENIZER_SUBFOLDERS)]
    found = next((f for f in candidates if any((f / name).is_file() for name in TOKENIZER_FILES)), None)
    if found is None:
        raise UserError(
            f"tokenizer {folder}: the folder holds no tokenizer (expected tokenizer.json or vocab.txt there or in "
            f"{' or '.join(name + '/' for name in TOKENIZER_SUBFOLDERS)})"
        )
    if not (found / "tokenizer_config.json").is_file():
        # Without it `AutoTokenizer` cannot know which tokens are special, nor whether a vocab.txt is cased.
        if (found / "tokenizer.json").is_file():
            return _load_tokenizers_json(found / "tokenizer.json")
        if (found / "vocab.txt").is_file():
            return _load_vocab_file(found / "vocab.txt")
    tokenizer = _load_with_auto_tokenizer(str(found))
    _warn_if_normalizer_changed(tokenizer, found / "tokenizer.json")
    return tokenizer


def _load_with_auto_tokenizer(name: str) -> PreTrainedTokenizerBase:
    try:
        return AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    # Damaged files, unknown classes, missing packages and an unreachable Hub end in as many exception types, and the
    # Rust side raises bare `Exception`.
    except Exception as error:
        raise UserError(
            f"tokenizer {name}: transformers cannot load it ({_first_line(error)}); expected a folder with a "
            f"tokenizer, a tokenizers JSON file, or a Hub id while the Hub can be reached"
        ) from error


def _warn_if_normalizer_changed(tokenizer: PreTrainedTokenizerBase, tokenizer_json: Path) -> None:
    """BertTokenizer rebuilds its normalizer from tokenizer_config.json: say so where that is not the trained one.

    A cased vocabulary behind a lowercasing normalizer turns every capital word into [UNK], silently.
    """
    if not tokenizer_json.is_file():
        return
    trained = json.loads(tokenizer_json.read_text(encoding="utf-8")).get("normalizer") or {}
    loaded = json.loads(_backend(tokenizer, str(tokenizer_json.parent)).to_str())["normalizer"]
    if trained.get("type") == "BertNormalizer" and trained != loaded:
        logger.warning(
            "%s was trained with the normalizer %s, but its tokenizer_config.json makes it %s: set do_lower_case and "
            "strip_accents there, or words become unknown",
            tokenizer_json.parent,
            trained,
            loaded,
        )


def _load_tokenizers_json(path: Path) -> PreTrainedTokenizerBase:
    """A single JSON file, as `tokenizers.Tokenizer.save` writes it: no roles, often no special-token template."""
    try:
        backend = Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises nothing more specific
        raise UserError(f"tokenizer {path}: not a tokenizers JSON file, or damaged ({_first_line(error)})") from error
    vocab = backend.get_vocab(with_added_tokens=True)
    convention = next((c for c in SPECIAL_TOKEN_CONVENTIONS if all(c[role] in vocab for role in REQUIRED_ROLES)), None)
    if convention is None:
        known = " or ".join(" ".join(names[role] for role in REQUIRED_ROLES) for names in SPECIAL_TOKEN_CONVENTIONS)
        raise UserError(f"tokenizer {path}: its vocabulary has no special tokens known here, expected {known}")
    return _wrap_backend(backend, {role: token for role, token in convention.items() if token in vocab})


def _load_vocab_file(path: Path) -> PreTrainedTokenizerBase:
    """A BERT `vocab.txt`, one token a line. It does not say whether it is cased; its tokens do."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"tokenizer {path}: not a UTF-8 vocabulary file ({error.reason})") from error
    # Not splitlines(): vocabularies of many languages have U+2028 as a token.
    tokens = text.removesuffix("\n").split("\n")
    vocab = {token.rstrip("\r"): index for index, token in enumerate(tokens)}
    missing = [token for token in SPECIAL_TOKENS.values() if token not in vocab]
    if missing:
        raise UserError(f"tokenizer {path}: not a BERT vocabulary, it has no line {' or '.join(missing)}")
    do_lower_case, strip_accents = _guess_normalization(vocab)
    logger.info("%s: its tokens say do_lower_case=%s, strip_accents=%s", path, do_lower_case, strip_accents)
    return BertTokenizer(vocab=vocab, do_lower_case=do_lower_case, strip_accents=strip_accents)


def _guess_normalization(vocab: Iterable[str]) -> tuple[bool, bool | None]:
    """(do_lower_case, strip_accents) under which the tokens can occur; one stray token in a thousand is forgiven."""
    tokens = [token for token in vocab if not token.startswith("[")]
    forgiven = len(tokens) // 1000
    if sum(token != token.lower() for token in tokens) > forgiven:
        return False, None
    decomposed = (unicodedata.normalize("NFD", token) for token in tokens)
    accented = sum(any(unicodedata.category(c) == "Mn" for c in token) for token in decomposed)
    return True, False if accented > forgiven else None


def _wrap_backend(backend: Tokenizer, roles: dict[str, str]) -> PreTrainedTokenizerBase:
    """Give a bare backend its roles and BERT's frame, so that it behaves like a BertTokenizer after saving, too."""
    cls_token, sep_token = roles["cls_token"], roles["sep_token"]
    backend.post_processor = processors.TemplateProcessing(
        single=f"{cls_token}:0 $A:0 {sep_token}:0",
        pair=f"{cls_token}:0 $A:0 {sep_token}:0 $B:1 {sep_token}:1",
        special_tokens=[(token, backend.token_to_id(token)) for token in (cls_token, sep_token)],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
        **roles,
    )


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


# ---------------------------------------------------------------------------------------------- checking and encoding


def check_tokenizer(tokenizer: PreTrainedTokenizerBase, name: str) -> None:
    """Make sure that a model can be pre-trained with this tokenizer, before an hour of encoding says otherwise.

    The roles cls, sep, pad, mask and unk need distinct ids below `len(tokenizer)`, and an encoded text must carry cls
    and sep, because fine-tuning relies on the frame that pre-training has shown. A byte-level tokenizer may lack unk.

    Args:
        tokenizer: any Hugging Face tokenizer.
        name: what to call it in a message: its path or Hub id.
    Raises:
        UserError: says what is missing.
    """
    backend = _backend(tokenizer, name)
    roles = [*REQUIRED_ROLES, "unk_token"]
    ids = {role: getattr(tokenizer, f"{role}_id") for role in roles if getattr(tokenizer, role) is not None}
    missing = [role for role in roles if role not in ids and (role != "unk_token" or not _covers_all_bytes(backend))]
    if missing:
        raise UserError(
            f"tokenizer {name} has no {' and no '.join(role.replace('_', ' ') for role in missing)}; train one with "
            f"train_tokenizer.py or choose one with BERT's special tokens, such as google/electra-small-discriminator"
        )
    if len(set(ids.values())) < len(ids):
        raise UserError(f"tokenizer {name} has one id for several special tokens ({_listed(ids)}), each needs its own")
    if any(token_id is None or not 0 <= token_id < len(tokenizer) for token_id in ids.values()):
        raise UserError(f"tokenizer {name} has a special token outside its {len(tokenizer)} ids ({_listed(ids)})")
    if not {ids["cls_token"], ids["sep_token"]} <= set(tokenizer("a")["input_ids"]):
        raise UserError(
            f"tokenizer {name} does not put {tokenizer.cls_token} and {tokenizer.sep_token} around a text, so that "
            f"fine-tuning would not see what pre-training showed; pass its tokenizer.json itself to have them added"
        )


def plain_backend(tokenizer: PreTrainedTokenizerBase) -> Tokenizer:
    """A private copy of the Rust tokenizer for encoding a corpus: ids of the text alone, whatever the text says.

    It neither truncates, pads nor adds special tokens, and text that spells "[MASK]" gets the ids of those characters.
    tokenizers' own switch for that, `encode_special_tokens`, is lost in pickling, hence in every worker process, and
    does not keep a Unigram or `ignore_merges` model from finding the special token in its vocabulary. So the special
    tokens are renamed in the copy, to something that no text holds: ask the original, not the copy, for their ids.
    """
    state = _backend_state(tokenizer, "to be copied")
    special = {token["content"] for token in state["added_tokens"] if token["special"]}
    special.update(tokenizer.all_special_tokens)

    def rename(token: str) -> str:
        return UNMATCHABLE_PREFIX + token if token in special else token

    for token in state["added_tokens"]:
        token["content"] = rename(token["content"])
    model = state["model"]
    if isinstance(model["vocab"], dict):
        model["vocab"] = {rename(token): index for token, index in model["vocab"].items()}
    else:  # Unigram: pairs of piece and score
        model["vocab"] = [[rename(piece), score] for piece, score in model["vocab"]]
    if model.get("unk_token") is not None:
        model["unk_token"] = rename(model["unk_token"])
    if "merges" in model:
        model["merges"] = [merge for merge in model["merges"] if special.isdisjoint(_merge_tokens(merge))]
    return Tokenizer.from_str(json.dumps({**state, "truncation": None, "padding": None, "post_processor": None}))


def tokenizer_fingerprint(tokenizer: PreTrainedTokenizerBase) -> str:
    """The hex sha256 of all that decides which ids a text becomes: model, normalizer, template, special-token roles.

    Equal after saving and loading; truncation, padding and the decoder, which change no id, do not count.
    """
    state = _backend_state(tokenizer, "to be fingerprinted")
    for name in ("truncation", "padding", "decoder"):
        state.pop(name, None)
    state["roles"] = {role: getattr(tokenizer, f"{role}_id") for role in [*REQUIRED_ROLES, "unk_token"]}
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def measure_tokenizer(tokenizer: PreTrainedTokenizerBase, documents: Sequence[str]) -> TokenizerMeasurement:
    """Unknown-token rate and bytes per token on `documents`, which should not be those it was trained on.

    Many unknown tokens say that case, accents or the alphabet do not fit the text.

    Raises:
        UserError: the documents hold no text.
    """
    backend = plain_backend(tokenizer)
    tokens = unknown_tokens = text_bytes = 0
    for start in range(0, len(documents), ENCODE_BATCH_SIZE):
        batch = list(documents[start : start + ENCODE_BATCH_SIZE])
        text_bytes += sum(len(document.encode()) for document in batch)
        for encoding in backend.encode_batch_fast(batch, add_special_tokens=False):
            tokens += len(encoding.ids)
            unknown_tokens += encoding.ids.count(tokenizer.unk_token_id)
    if tokens == 0:
        raise UserError("there is no held-out text to measure the tokenizer on; hold out more documents")
    return TokenizerMeasurement(
        held_out_documents=len(documents),
        unknown_token_rate=unknown_tokens / tokens,
        bytes_per_token=text_bytes / tokens,
        tokens=tokens,
    )


def _backend(tokenizer: PreTrainedTokenizerBase, name: str) -> Tokenizer:
    if not tokenizer.is_fast:
        raise UserError(
            f"tokenizer {name}: {type(tokenizer).__name__} has no Rust backend, which encoding a corpus needs; "
            f"choose a fast tokenizer, one with a tokenizer.json"
        )
    return tokenizer.backend_tokenizer


def _backend_state(tokenizer: PreTrainedTokenizerBase, name: str) -> dict[str, Any]:
    state: dict[str, Any] = json.loads(_backend(tokenizer, name).to_str())
    return state


def _covers_all_bytes(backend: Tokenizer) -> bool:
    state = json.loads(backend.to_str())
    return '"ByteLevel"' in json.dumps([state["pre_tokenizer"], state["normalizer"]]) or bool(
        state["model"].get("byte_fallback")
    )


def _merge_tokens(merge: str | list[str]) -> list[str]:
    """The two tokens of a BPE merge and what they become."""
    left, right = merge.split(" ") if isinstance(merge, str) else merge
    return [left, right, left + right]


def _listed(ids: dict[str, int]) -> str:
    return ", ".join(f"{role} {token_id}" for role, token_id in ids.items())
