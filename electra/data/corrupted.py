"""A fixed corrupted test set: held-out text whose replacements were drawn once, as a file.

A discriminator's held-out metrics depend on its own generator: a weak one inserts words that nobody would write.
On the same corrupted text all discriminators with the same tokenizer can be compared, whatever they were trained with.
`python -m electra.corruption_set` makes the file, `run_pretraining.py --eval_corruption` reads it.

The file is safetensors: `original_ids` and `corrupted_ids`, int32 (N, L), padded; `token_type_ids`, `attention_mask`
and `is_replaced`, uint8 (N, L). A token is replaced if it differs from the original, as in the paper: a sample that
equals the original counts as original. Its metadata are one JSON object, because safetensors writes several keys in no
fixed order; the same content is the same bytes.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save
from torch import Tensor
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerBase

from electra.io.errors import UserError, first_line
from electra.io.files import expand, write_file
from electra.tokenizers.load import tokenizer_fingerprint

_KEY = "corruption_set"
_DTYPES = {
    "original_ids": np.int32,
    "corrupted_ids": np.int32,
    "token_type_ids": np.uint8,
    "attention_mask": np.uint8,
    "is_replaced": np.uint8,
}
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class CorruptedSegments(Dataset):
    """The rows of a file. `checksum`, hexadecimal, is of arrays and metadata together."""

    arrays: Arrays
    about: dict[str, Any]
    """`tokenizer`: its fingerprint; `vocabulary`: its number of tokens; `frequencies_auc`: of token frequencies; how
    it was made."""
    checksum: str

    def __len__(self) -> int:
        return len(self.arrays["original_ids"])

    @property
    def length(self) -> int:
        """Tokens of a row, with special tokens and padding."""
        return int(self.arrays["original_ids"].shape[1])

    def __getitem__(self, row: int) -> Arrays:
        return {name: values[row] for name, values in self.arrays.items()}

    @staticmethod
    def collate(rows: Sequence[Arrays]) -> dict[str, Tensor]:
        """`input_ids` (the originals), `corrupted_input_ids`, `token_type_ids`, int64 (B, L), and `attention_mask`."""
        found = {name: torch.from_numpy(np.stack([row[name] for row in rows]).astype(np.int64)) for name in rows[0]}
        batch = {"input_ids": found["original_ids"], "corrupted_input_ids": found["corrupted_ids"]}
        batch["token_type_ids"] = found["token_type_ids"]
        if not found["attention_mask"].all():  # as in `SegmentCollator`
            batch["attention_mask"] = found["attention_mask"]
        return batch


def write_corruption_set(path: Path, batches: Sequence[Mapping[str, Tensor]], about: Mapping[str, Any]) -> None:
    """Write batches of equal length, with the names of `CorruptedSegments.collate` and an `attention_mask`."""
    names = {"original_ids": "input_ids", "corrupted_ids": "corrupted_input_ids"}
    found = {
        name: np.concatenate([batch[names.get(name, name)].numpy() for batch in batches]).astype(dtype)
        for name, dtype in _DTYPES.items()
        if name != "is_replaced"
    }
    found["is_replaced"] = (found["original_ids"] != found["corrupted_ids"]).astype(np.uint8)
    content = {"about": dict(about), "checksum": _checksum(found, about)}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(save(found, metadata={_KEY: json.dumps(content)}), path)


def read_corruption_set(path: str) -> CorruptedSegments:
    """Read and check a file.

    Raises:
        UserError: it is not there, or not as it was written.
    """
    try:
        with safe_open(expand(path), framework="numpy") as file:
            content = json.loads((file.metadata() or {})[_KEY])
            found = CorruptedSegments(
                {name: file.get_tensor(name) for name in _DTYPES}, content["about"], content["checksum"]
            )
        if found.checksum != _checksum(found.arrays, found.about):
            raise ValueError("it is not what was written")
    except (OSError, SafetensorError, LookupError, TypeError, ValueError) as error:
        problem = "there is no such file" if isinstance(error, FileNotFoundError) else first_line(error)
        raise UserError(
            f"--eval_corruption {path} cannot be read ({problem}); make one with python -m electra.corruption_set"
        ) from error
    return found


def check_corruption_set(
    found: CorruptedSegments, path: str, tokenizer: PreTrainedTokenizerBase, max_length: int
) -> None:
    """Refuse a set of another tokenizer, or with segments longer than those of the run."""
    if found.about["tokenizer"] != tokenizer_fingerprint(tokenizer):
        raise UserError(
            f"--eval_corruption {path} was made with a tokenizer of {found.about['vocabulary']} tokens, not with this "
            f"run's ({len(tokenizer)} tokens); pass the tokenizer of its generator with --tokenizer_path"
        )
    if found.length > max_length:
        raise UserError(
            f"--eval_corruption {path} has segments of {found.length} tokens, more than --max_length {max_length}; "
            f"make one with --max_length {max_length}"
        )


def _checksum(arrays: Mapping[str, NDArray[Any]], about: Mapping[str, Any]) -> str:
    checksum = hashlib.blake2b(json.dumps(dict(about)).encode(), digest_size=16)
    for name in _DTYPES:
        checksum.update(f"{name} {arrays[name].shape} {arrays[name].dtype}".encode())
        checksum.update(np.ascontiguousarray(arrays[name]).tobytes())
    return checksum.hexdigest()
