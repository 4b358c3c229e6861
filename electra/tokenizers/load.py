"""Load a tokenizer, check that it can be used for pre-training, fingerprint it, make its copy that encodes a corpus.

A tokenizer here is one of transformers with a Rust backend that encodes a pair as `[CLS] A [SEP] B [SEP]` with token
types 0 and 1. train.py trains new ones.
"""

import codecs
import copy
import hashlib
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from tokenizers import Tokenizer, processors
from transformers import AutoTokenizer, BertTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from electra.base.errors import first_line, where_is
from electra.base.files import PATH_TYPES, may_be_hub_id, network_path
from electra.core.errors import UserError, check_kind

logger = logging.getLogger(__name__)

SPECIAL_TOKENS = {f"{name.lower()}_token": f"[{name}]" for name in ("PAD", "UNK", "CLS", "SEP", "MASK")}
"""Role of a special token -> its name, in the order of the ids of new tokenizers, 0 to 4."""
ROBERTA_TOKENS = {
    "pad_token": "<pad>",
    "unk_token": "<unk>",
    "cls_token": "<s>",
    "sep_token": "</s>",
    "mask_token": "<mask>",
}
"""Role of a special token -> its name in RoBERTa and in many JSON files of the tokenizers library."""
TOKEN_ROLES = ("cls_token", "sep_token", "pad_token", "mask_token", "unk_token")
"""Roles that a tokenizer needs for pre-training."""
UNMATCHABLE_PREFIX = "\ufdd0"  # a noncharacter: the Unicode standard excludes it from exchanged text
TOKENIZER_FILES = (
    "tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json",
    "spiece.model", "sentencepiece.bpe.model", "spm.model", "tokenizer.model",
)  # fmt: skip
"""Files of tokenizers, of which every folder that `AutoTokenizer` can read has at least one."""
TOKENIZER_SUBFOLDERS = ("tokenizer", "discriminator")
"""Folders in a run folder that may hold the tokenizer, by preference."""


TokenizerLike: TypeAlias = PreTrainedTokenizerBase | str | Path
"""A tokenizer, or the path or Hub id of one."""


@contextmanager
def state_kept(tokenizer: PreTrainedTokenizerBase) -> Iterator[None]:
    """Restore a tokenizer's truncation and padding after the block, which may call it with other values.

    transformers leaves the values of the last call in the backend, which saves them: a tokenizer.json would cut texts.
    """
    backend = tokenizer.backend_tokenizer
    truncation, padding = backend.truncation, backend.padding
    try:
        yield
    finally:
        backend.no_truncation()
        backend.no_padding()
        if truncation is not None:
            backend.enable_truncation(**truncation)
        if padding is not None:
            backend.enable_padding(**padding)


def load_tokenizer(tokenizer_path: str | Path) -> PreTrainedTokenizerBase:
    """Load a tokenizer with a Rust backend; only a Hub id needs the internet, and no remote code is run.

    Args:
        tokenizer_path: a Hugging Face folder, a run folder, a `vocab.txt` (or a folder with only that), a single
            `tokenizers` JSON file with or without extension, a Hub id, or `tiny-en`, the network of this package.
    Raises:
        UserError: there is no tokenizer, it is damaged or has no Rust backend, or the Hub cannot be reached.
    """
    check_kind(tokenizer_path, PATH_TYPES, "tokenizer_path", "the folder, the file or the Hub id of a tokenizer")
    tokenizer_path = str(tokenizer_path)
    path = network_path(tokenizer_path)
    try:
        if tokenizer_path and path.is_dir():
            tokenizer = _load_folder(path)
        elif path.is_file():
            tokenizer = _load_vocab_file(path) if path.suffix == ".txt" else _load_tokenizers_json(path)
        elif may_be_hub_id(tokenizer_path):
            tokenizer = AutoTokenizer.from_pretrained(tokenizer_path, trust_remote_code=False)
        else:
            raise UserError(f"tokenizer {tokenizer_path!r}: no such file or folder; name one, or a Hub id")
    except UserError:
        raise
    except Exception as error:  # of many types; the Rust side raises bare `Exception`
        raise UserError(
            f"tokenizer {tokenizer_path} cannot be loaded ({first_line(error)}); expected a folder with a tokenizer, "
            "a tokenizers JSON file, or a Hub id while the Hub can be reached"
        ) from error
    _state(tokenizer)  # refuses one without a Rust backend
    return with_unknown(with_template(tokenizer))


def given_tokenizer(tokenizer: TokenizerLike) -> PreTrainedTokenizerBase:
    """Return a tokenizer as it is; load one that is given as a path or a Hub id."""
    if isinstance(tokenizer, PreTrainedTokenizerBase):
        return tokenizer
    check_kind(tokenizer, PATH_TYPES, "the tokenizer", "one of transformers, or its folder, file or Hub id")
    return load_tokenizer(tokenizer)


def with_unknown(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    """Give the model of a tokenizer the unk token if the model's own is not in the vocabulary; return the tokenizer.

    A CharBPETokenizer that was trained with [UNK] still names <unk>, and fails at the first unknown character.
    """
    model = tokenizer.backend_tokenizer.model
    unknown_token = getattr(model, "unk_token", None)
    if unknown_token is not None and tokenizer.unk_token is not None and model.token_to_id(unknown_token) is None:
        model.unk_token = tokenizer.unk_token
    return tokenizer


def with_template(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    """Return the tokenizer, or one of the same backend that puts cls and sep around a text if this one adds no token.

    EuroBERT's tokenizer has [MASK] and tokens for begin and end of a text, but neither cls nor sep: begin and end
    become cls and sep.
    """
    begin = tokenizer.bos_token
    end = tokenizer.eos_token
    lacks_roles = tokenizer.cls_token is None and tokenizer.sep_token is None and tokenizer.mask_token is not None
    takes_ends = lacks_roles and begin is not None and end is not None and begin != end
    if takes_ends:
        tokenizer.cls_token = begin
        tokenizer.sep_token = end
    roles = {role: getattr(tokenizer, role) for role in TOKEN_ROLES if getattr(tokenizer, role) is not None}
    if not {"cls_token", "sep_token"} <= roles.keys():
        return tokenizer
    backend = tokenizer.backend_tokenizer
    ids = tokenizer("a")["input_ids"]
    is_framed = ids[0] == tokenizer.cls_token_id and ids[-1] == tokenizer.sep_token_id if ids else False
    has_template = not takes_ends and backend.num_special_tokens_to_add(is_pair=False) > 0
    return tokenizer if is_framed or has_template else wrap_backend(backend, roles)


def _load_folder(folder: Path) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a folder, or else of the first of its `TOKENIZER_SUBFOLDERS` that has one."""
    for name in ("", *TOKENIZER_SUBFOLDERS):
        location = folder / name
        if any((location / file).is_file() for file in TOKENIZER_FILES):
            break
    else:
        where = " or ".join(f"{name}/" for name in TOKENIZER_SUBFOLDERS)
        raise UserError(f"tokenizer {folder}: expected tokenizer.json or vocab.txt in this folder, {where}")
    json_path = location / "tokenizer.json"
    vocab_path = location / "vocab.txt"
    if not (location / "tokenizer_config.json").is_file():
        # Without it `AutoTokenizer` knows neither the special tokens nor whether a vocab.txt is cased.
        if json_path.is_file():
            return _load_tokenizers_json(json_path)
        if vocab_path.is_file():
            return _load_vocab_file(vocab_path)
    path = json_path if json_path.is_file() else vocab_path
    if path.is_file() and path.read_bytes().startswith(codecs.BOM_UTF8):
        raise UserError(f"tokenizer {path} begins with a byte-order mark; save it as UTF-8 without one")
    return AutoTokenizer.from_pretrained(location, trust_remote_code=False)


def _load_tokenizers_json(path: Path) -> PreTrainedTokenizerBase:
    """Load a tokenizer from a file of `tokenizers.Tokenizer.save`, whose special tokens are recognized by their names.

    Such a file has no roles of tokens, and often no template.
    """
    backend = Tokenizer.from_str(path.read_text(encoding="utf-8-sig"))
    vocab = backend.get_vocab(with_added_tokens=True)
    for names in (SPECIAL_TOKENS, ROBERTA_TOKENS):
        roles = {role: token for role, token in names.items() if token in vocab}
        if {"cls_token", "sep_token"} <= roles.keys():
            return wrap_backend(backend, roles)
    raise UserError(
        f"tokenizer {path} has neither [CLS] and [SEP] nor <s> and </s>; save it with the names of its special "
        f"tokens, as {where_is('docs/tokenizer.md')} shows"
    )


def _load_vocab_file(path: Path) -> PreTrainedTokenizerBase:
    """Load the tokenizer of an uncased BERT from a `vocab.txt` with a token in each line."""
    # Not splitlines(): vocabularies of many languages have U+2028 as a token. Editors may write a byte-order mark.
    tokens = path.read_text(encoding="utf-8-sig").removesuffix("\n").split("\n")
    missing_tokens = [token for token in SPECIAL_TOKENS.values() if token not in tokens]
    if missing_tokens:
        raise UserError(f"tokenizer {path}: not a BERT vocabulary, it has no line {' or '.join(missing_tokens)}")
    logger.info(
        "%s: text is lower-cased and accents go, as in BERT's uncased models; a tokenizer_config.json beside the file "
        "says otherwise (do_lower_case, strip_accents)",
        path,
    )
    vocab = {token: index for index, token in enumerate(tokens)}
    return BertTokenizer(vocab=vocab, do_lower_case=True)


def wrap_backend(backend: Tokenizer, roles: dict[str, str]) -> PreTrainedTokenizerBase:
    """Return a tokenizer that gives a backend roles of tokens and BERT's template; the backend is changed.

    Args:
        roles: role -> token of the backend, such as cls_token -> [CLS]; with cls_token and sep_token.
    """
    cls_token = roles["cls_token"]
    sep_token = roles["sep_token"]
    template = processors.TemplateProcessing(
        single=f"{cls_token}:0 $A:0 {sep_token}:0",
        pair=f"{cls_token}:0 $A:0 {sep_token}:0 $B:1 {sep_token}:1",
        special_tokens=[(token, backend.token_to_id(token)) for token in (cls_token, sep_token)],
    )
    is_byte_level = isinstance(backend.post_processor, processors.ByteLevel)  # it trims offsets
    backend.post_processor = processors.Sequence([backend.post_processor, template]) if is_byte_level else template
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
        **roles,
    )


def check_tokenizer(tokenizer: PreTrainedTokenizerBase, name: str) -> None:
    """Refuse, before a corpus is encoded, a tokenizer with which no model can be pre-trained.

    The roles cls, sep, pad, mask and unk need distinct ids; only a tokenizer that knows all bytes may lack unk. An
    encoded text must have cls and sep, because fine-tuning gives networks the template of pre-training.

    Args:
        name: path or Hub id of the tokenizer, for the message.
    Raises:
        UserError: a role or the template is missing, or unknown characters cannot be read; the message says which.
    """
    state = _state(tokenizer)
    levels = str([state["pre_tokenizer"], state["normalizer"]])
    has_all_bytes = state["model"].get("byte_fallback") or "ByteLevel" in levels
    ids = {role: getattr(tokenizer, f"{role}_id") for role in TOKEN_ROLES if getattr(tokenizer, role) is not None}
    missing_roles = [role for role in TOKEN_ROLES if role not in ids and not (role == "unk_token" and has_all_bytes)]
    problem = None
    if missing_roles:
        problem = f"has no {' and no '.join(missing_roles)}"
    elif len(set(ids.values())) < len(ids):
        problem = f"needs a distinct id for each special token, but has {ids}"
    elif error_message := _error_at_unknown_character(tokenizer):
        problem = f"cannot read unknown characters ({error_message})"
    elif not {ids["cls_token"], ids["sep_token"]} <= set(tokenizer("a")["input_ids"]):
        problem = f"does not put {tokenizer.cls_token} and {tokenizer.sep_token} around a text, as fine-tuning does"
    if problem:
        raise UserError(
            f"tokenizer {name} {problem}; save it with the names of its special tokens, as "
            f"{where_is('docs/tokenizer.md')} shows, train one with `electra tokenizer`, or choose one "
            "like google/electra-small-discriminator"
        )


def _error_at_unknown_character(tokenizer: PreTrainedTokenizerBase) -> str:
    """Return the message of the error that a tokenizer raises at a character that no text has; "" without an error."""
    try:
        tokenizer("a \U0010fffd")
    except Exception as error:  # the Rust side raises nothing else
        return first_line(error)
    return ""


def vocabulary_size(tokenizer: PreTrainedTokenizerBase) -> int:
    """Return the number of rows that an embedding table needs: the largest id of the tokenizer, plus 1.

    The number exceeds `len(tokenizer)` if ids have gaps, such as that of a line that is repeated in a vocab.txt:
    a token has one id.
    """
    return max(tokenizer.get_vocab().values()) + 1


def plain_backend(tokenizer: PreTrainedTokenizerBase) -> Tokenizer:
    """Return a copy of the Rust tokenizer that encodes a corpus and takes special tokens in a text as plain text.

    The copy does not truncate, pad or add special tokens, and "[MASK]" in a text becomes the ids of its pieces. The
    option of the tokenizers library for this, `encode_special_tokens`, is not enough: pickling loses it, so worker
    processes do not have it, and Unigram and `ignore_merges` models still find the special token in their vocabulary.
    So the copy's special tokens get names that no text contains; ask the original tokenizer for their ids.
    """
    state = _state(tokenizer)
    special_tokens = {token["content"] for token in state["added_tokens"] if token["special"]}
    special_tokens.update(tokenizer.all_special_tokens)

    def rename(token: str) -> str:
        return UNMATCHABLE_PREFIX + token if token in special_tokens else token

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
        model["merges"] = [[a, b] for a, b in model["merges"] if special_tokens.isdisjoint((a, b, a + b))]
    for name in ("truncation", "padding", "post_processor"):
        state[name] = None
    return Tokenizer.from_str(json.dumps(state))


def tokenizer_fingerprint(tokenizer: PreTrainedTokenizerBase) -> str:
    """Return a hash, sha256 in hex digits, of all that decides the ids of a text; see `_identity`."""
    # The Rust side writes the vocabulary in the order of the ids, so the keys need no sorting.
    return hashlib.sha256(json.dumps(_identity(tokenizer)).encode()).hexdigest()


def is_tokenizer_of(tokenizer: PreTrainedTokenizerBase, trained: PreTrainedTokenizerBase) -> bool:
    """Return True if a tokenizer gives every text the ids that another gives.

    Tokens that were added to the first one afterwards do not count.

    Args:
        trained: the other one, with which a network or a cache was made, a result of `load_tokenizer`.
    """
    identity = _identity(with_unknown(with_template(copy.deepcopy(tokenizer))))
    trained_identity = _identity(trained)
    trained_ids = {token["id"] for token in trained_identity["added_tokens"]} | set(trained.get_vocab().values())
    identity["added_tokens"] = [token for token in identity["added_tokens"] if token["id"] in trained_ids]
    return identity == trained_identity


def _identity(tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    """Return all that decides the ids of a text: model, normalizer, template, roles, as values of JSON.

    Saving and loading do not change it. Truncation, padding and the decoder are left out.
    """
    state = _state(tokenizer)
    for name in ("truncation", "padding", "decoder"):
        state.pop(name, None)
    state["roles"] = {role: getattr(tokenizer, f"{role}_id") for role in TOKEN_ROLES}
    return state


def _state(tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    """Return the state of the Rust backend, as its JSON has it.

    Raises:
        UserError: the tokenizer has no Rust backend.
    """
    if not tokenizer.is_fast:
        raise UserError(
            f"tokenizer {tokenizer.name_or_path}: {type(tokenizer).__name__} has no Rust backend, which encoding a "
            "corpus needs; choose a fast tokenizer, one with a tokenizer.json"
        )
    return json.loads(tokenizer.backend_tokenizer.to_str())
