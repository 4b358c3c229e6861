"""Tokenizers: load one from wherever it is kept, check that it can be pre-trained with, encode a corpus with it.

A tokenizer here is a Hugging Face one with a Rust backend that frames text as `[CLS] A [SEP] B [SEP]` with token types
0 and 1. New ones are trained in tokenizer_training.py.
"""

import hashlib
import json
import logging
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, processors
from transformers import AutoTokenizer, BertTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from electra.errors import UserError
from electra.files import expand

logger = logging.getLogger(__name__)

# The order is the id, 0-4.
SPECIAL_TOKENS = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}

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
    path = expand(tokenizer_path)
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
    if not any((found / name).is_file() for name in TOKENIZER_FILES if name != "tokenizer_config.json"):
        raise UserError(f"tokenizer {found}: the folder holds no vocabulary, only tokenizer_config.json")
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
    return wrap_backend(backend, {role: token for role, token in convention.items() if token in vocab})


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


def wrap_backend(backend: Tokenizer, roles: dict[str, str]) -> PreTrainedTokenizerBase:
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
    if len(tokenizer) <= len(set(tokenizer.all_special_ids)):
        raise UserError(
            f"tokenizer {name} has no tokens but its {len(tokenizer)} special ones; it is damaged or empty"
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
    # The Rust side writes the vocabulary in the order of the ids: sorting it again would only cost time.
    state["roles"] = {role: getattr(tokenizer, f"{role}_id") for role in [*REQUIRED_ROLES, "unk_token"]}
    return hashlib.sha256(json.dumps(state).encode()).hexdigest()


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
