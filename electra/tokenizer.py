"""Load a tokenizer, check that it can be used for pre-training, fingerprint it, encode a corpus with it.

A tokenizer here is a Hugging Face one with a Rust backend that encodes a pair as `[CLS] A [SEP] B [SEP]` with token
types 0 and 1. tokenizer_training.py trains new ones.
"""

import hashlib
import json
import logging
import unicodedata
from itertools import pairwise
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, processors
from transformers import AutoTokenizer, BertTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from electra.errors import UserError
from electra.files import expand, may_be_hub_id

logger = logging.getLogger(__name__)

# In the order of their ids, 0 to 4.
SPECIAL_TOKENS = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
# A bare `tokenizers` JSON does not say which token has which role. These are BERT's names and those of rc2020_electra;
# `unk_token` and `eos_token` may be missing.
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

# A noncharacter: the Unicode standard excludes it from exchanged text.
UNMATCHABLE_PREFIX = "\ufdd0"

# Every folder that `AutoTokenizer` can read has at least one of these files.
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
# Where a run folder may have its tokenizer, in order of preference.
TOKENIZER_SUBFOLDERS = ("tokenizer", "discriminator")


def load_tokenizer(tokenizer_path: str) -> PreTrainedTokenizerBase:
    """Load a tokenizer; only a Hub id needs the network, and no remote code is run.

    Args:
        tokenizer_path: a Hugging Face folder, a run folder, a `vocab.txt` (or a folder with only that), a single
            `tokenizers` JSON file with or without extension, or a Hub id.
    Returns:
        A tokenizer with a Rust backend. `check_tokenizer` says whether it can be used for pre-training.
    Raises:
        UserError: it is missing, damaged, not a tokenizer or without a Rust backend, or the Hub cannot be reached.
    """
    if not tokenizer_path:
        raise UserError("no tokenizer is named; give a folder, a tokenizers JSON file or a Hub id")
    path = expand(tokenizer_path)
    if path.is_dir():
        tokenizer = _load_folder(path)
    elif path.is_file():
        tokenizer = _load_vocab_file(path) if path.suffix == ".txt" else _load_tokenizers_json(path)
    elif not may_be_hub_id(tokenizer_path):
        raise UserError(f"tokenizer {tokenizer_path}: no such file or folder")
    else:
        tokenizer = _load_with_auto_tokenizer(tokenizer_path)
    _backend_of(tokenizer, tokenizer_path)
    return tokenizer


def _load_folder(folder: Path) -> PreTrainedTokenizerBase:
    candidates = [folder, *(folder / name for name in TOKENIZER_SUBFOLDERS)]
    found = next((f for f in candidates if any((f / name).is_file() for name in TOKENIZER_FILES)), None)
    if found is None:
        raise UserError(
            f"tokenizer {folder}: no tokenizer in this folder (expected tokenizer.json or vocab.txt there or in "
            f"{' or '.join(name + '/' for name in TOKENIZER_SUBFOLDERS)})"
        )
    if not any((found / name).is_file() for name in TOKENIZER_FILES if name != "tokenizer_config.json"):
        raise UserError(f"tokenizer {found}: the folder has no vocabulary, only tokenizer_config.json")
    if not (found / "tokenizer_config.json").is_file():
        # Without it `AutoTokenizer` knows neither the special tokens nor whether a vocab.txt is cased.
        if (found / "tokenizer.json").is_file():
            return _load_tokenizers_json(found / "tokenizer.json")
        if (found / "vocab.txt").is_file():
            return _load_vocab_file(found / "vocab.txt")
    tokenizer = _load_with_auto_tokenizer(str(found))
    if (found / "tokenizer.json").is_file():
        # BertTokenizer rebuilds its normalizer from tokenizer_config.json. A cased vocabulary with a lowercasing
        # normalizer turns every capitalized word into [UNK].
        trained = json.loads((found / "tokenizer.json").read_text(encoding="utf-8")).get("normalizer") or {}
        loaded = _state(_backend_of(tokenizer, str(found)))["normalizer"]
        if trained.get("type") == "BertNormalizer" and trained != loaded:
            logger.warning(
                "%s was trained with the normalizer %s, but its tokenizer_config.json makes it %s: correct "
                "do_lower_case and strip_accents there, or words become unknown",
                found,
                trained,
                loaded,
            )
    return tokenizer


def _load_with_auto_tokenizer(name: str) -> PreTrainedTokenizerBase:
    try:
        return AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    # Damaged files, unknown classes, missing packages and an unreachable Hub raise as many exception types, and the
    # Rust side raises bare `Exception`.
    except Exception as error:
        is_here = expand(name).exists()
        problem = "transformers cannot load it" if is_here else "no such file or folder, and not found on the Hub"
        raise UserError(
            f"tokenizer {name}: {problem} ({_first_line(error)}); expected a folder with a tokenizer, a tokenizers "
            "JSON file, or a Hub id while the Hub can be reached"
        ) from error


def _load_tokenizers_json(path: Path) -> PreTrainedTokenizerBase:
    """Load a JSON file of `tokenizers.Tokenizer.save`, which has no roles and often no special-token template."""
    try:
        backend = Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises nothing more specific
        raise UserError(f"tokenizer {path}: not a tokenizers JSON file, or damaged ({_first_line(error)})") from error
    vocab = backend.get_vocab(with_added_tokens=True)
    convention = next((c for c in SPECIAL_TOKEN_CONVENTIONS if all(c[role] in vocab for role in REQUIRED_ROLES)), None)
    if convention is None:
        known = " or ".join(" ".join(names[role] for role in REQUIRED_ROLES) for names in SPECIAL_TOKEN_CONVENTIONS)
        raise UserError(f"tokenizer {path}: the special tokens in its vocabulary are unknown here, expected {known}")
    return wrap_backend(backend, {role: token for role, token in convention.items() if token in vocab})


def _load_vocab_file(path: Path) -> PreTrainedTokenizerBase:
    """Load a BERT `vocab.txt`, one token per line. It does not say whether it is cased; its tokens do."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"tokenizer {path}: not a UTF-8 vocabulary file ({error.reason})") from error
    # Not splitlines(): vocabularies of many languages have U+2028 as a token.
    lines = text.removesuffix("\n").split("\n")
    vocab = {token.rstrip("\r"): index for index, token in enumerate(lines)}
    missing = [token for token in SPECIAL_TOKENS.values() if token not in vocab]
    if missing:
        raise UserError(f"tokenizer {path}: not a BERT vocabulary, it has no line {' or '.join(missing)}")
    tokens = [token for token in vocab if not token.startswith("[")]
    accepted = len(tokens) // 1000  # a few stray tokens do not make a vocabulary cased or accented
    is_cased = sum(token != token.lower() for token in tokens) > accepted
    decomposed = (unicodedata.normalize("NFD", token) for token in tokens)
    is_accented = sum(any(unicodedata.category(c) == "Mn" for c in token) for token in decomposed) > accepted
    strip_accents = False if is_accented and not is_cased else None
    logger.info("%s: do_lower_case=%s, strip_accents=%s, judging by its tokens", path, not is_cased, strip_accents)
    return BertTokenizer(vocab=vocab, do_lower_case=not is_cased, strip_accents=strip_accents)


def wrap_backend(backend: Tokenizer, roles: dict[str, str]) -> PreTrainedTokenizerBase:
    """Give a bare backend its roles and BERT's template, so that it behaves like a BertTokenizer, also when saved."""
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


def check_tokenizer(tokenizer: PreTrainedTokenizerBase, name: str) -> None:
    """Check that a model can be pre-trained with this tokenizer, before an hour of encoding.

    The roles cls, sep, pad, mask and unk need distinct ids; only a byte-level tokenizer may lack unk. An encoded text
    must have cls and sep, because fine-tuning relies on the template that pre-training has shown.

    Args:
        tokenizer: any Hugging Face tokenizer.
        name: its path or Hub id, for messages.
    Raises:
        UserError: says what is missing.
    """
    state = _state(_backend_of(tokenizer, name))
    covers_all_bytes = state["model"].get("byte_fallback") or '"ByteLevel"' in json.dumps(
        [state["pre_tokenizer"], state["normalizer"]]
    )
    roles = [*REQUIRED_ROLES, "unk_token"]
    ids = {role: getattr(tokenizer, f"{role}_id") for role in roles if getattr(tokenizer, role) is not None}
    missing = [role for role in roles if role not in ids and not (role == "unk_token" and covers_all_bytes)]
    if missing:
        raise UserError(
            f"tokenizer {name} has no {' and no '.join(role.replace('_', ' ') for role in missing)}; train one with "
            f"train_tokenizer.py or choose one with BERT's special tokens, such as google/electra-small-discriminator"
        )
    if len(tokenizer) <= len(set(tokenizer.all_special_ids)):
        raise UserError(f"tokenizer {name} has only its {len(tokenizer)} special tokens; it is damaged or empty")
    if None in ids.values() or len(set(ids.values())) < len(ids):
        listed = ", ".join(f"{role} {token_id}" for role, token_id in ids.items())
        raise UserError(f"tokenizer {name} needs a distinct id for each special token, but has {listed}")
    if not {ids["cls_token"], ids["sep_token"]} <= set(tokenizer("a")["input_ids"]):
        raise UserError(
            f"tokenizer {name} does not put {tokenizer.cls_token} and {tokenizer.sep_token} around a text, so "
            f"fine-tuning would differ from pre-training; name its tokenizer.json itself to have them added"
        )


def vocabulary_size(tokenizer: PreTrainedTokenizerBase) -> int:
    """The rows of an embedding table: the largest id + 1, more than `len(tokenizer)` where ids have gaps.

    A line that is repeated in a vocab.txt leaves a gap, because a token has one id.
    """
    return max(tokenizer.get_vocab().values()) + 1


def vocabulary_gaps(tokenizer: PreTrainedTokenizerBase) -> list[list[int]]:
    """[start, stop] of each range of ids below `vocabulary_size` that have no token, in ascending order."""
    ids = sorted(set(tokenizer.get_vocab().values()))
    return [[last + 1, following] for last, following in pairwise([-1, *ids]) if following > last + 1]


def plain_backend(tokenizer: PreTrainedTokenizerBase) -> Tokenizer:
    """A copy of the Rust tokenizer for encoding a corpus: only the ids of the text, whatever the text is.

    It does not truncate, pad or add special tokens, and "[MASK]" in the text becomes the ids of its characters.
    tokenizers' option for that, `encode_special_tokens`, is lost in pickling, hence in every worker process, and
    Unigram and `ignore_merges` models still find the special token in their vocabulary. So the copy's special tokens
    are renamed to something that no text contains; ask the original for their ids.
    """
    state = _state(_backend_of(tokenizer, "to be copied"))
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
        pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
        model["merges"] = [[a, b] for a, b in pairs if special.isdisjoint((a, b, a + b))]
    return Tokenizer.from_str(json.dumps({**state, "truncation": None, "padding": None, "post_processor": None}))


def tokenizer_fingerprint(tokenizer: PreTrainedTokenizerBase) -> str:
    """Hash everything that decides which ids a text becomes: model, normalizer, template, roles (hex sha256).

    The same after saving and loading; truncation, padding and the decoder change no id and do not count.
    """
    state = _state(_backend_of(tokenizer, "to be fingerprinted"))
    for name in ("truncation", "padding", "decoder"):
        state.pop(name, None)
    # The Rust side writes the vocabulary in the order of the ids, so the keys need no sorting.
    state["roles"] = {role: getattr(tokenizer, f"{role}_id") for role in [*REQUIRED_ROLES, "unk_token"]}
    return hashlib.sha256(json.dumps(state).encode()).hexdigest()


def _backend_of(tokenizer: PreTrainedTokenizerBase, name: str) -> Tokenizer:
    if not tokenizer.is_fast:
        raise UserError(
            f"tokenizer {name}: {type(tokenizer).__name__} has no Rust backend, which encoding a corpus needs; "
            f"choose a fast tokenizer, one with a tokenizer.json"
        )
    return tokenizer.backend_tokenizer


def _state(backend: Tokenizer) -> dict[str, Any]:
    state: dict[str, Any] = json.loads(backend.to_str())
    return state


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
