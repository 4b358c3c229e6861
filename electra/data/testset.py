"""A fixed corrupted test set: held-out text whose replacements were drawn once, as a file.

A discriminator's held-out metrics depend on its own generator: a weak one inserts words that nobody would write.
On the same corrupted text all discriminators with the same tokenizer can be compared, whatever they were trained with.
`python -m electra testset` makes the file, `run_pretraining.py --eval_corruption` reads it.

The file is safetensors:

    original_ids, corrupted_ids      int32 (N, L), padded
    token_type_ids, attention_mask   uint8 (N, L)
    frequencies_auc                  float64 (1,): the AUC of token frequencies, which know no context
    tokenizer (metadata)             the tokenizer's fingerprint

A token is replaced if it differs from the original, as in the paper: a sample that equals the original counts as
original.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save
from torch import Tensor
from torch.utils.data import Dataset, default_collate
from transformers import PreTrainedTokenizerBase

from electra.io.errors import UserError, first_line
from electra.io.files import expand, write_file
from electra.tokenizers.load import tokenizer_fingerprint

_DTYPES = {
    "original_ids": np.int32,
    "corrupted_ids": np.int32,
    "token_type_ids": np.uint8,
    "attention_mask": np.uint8,
}
_INPUTS = {"original_ids": "input_ids", "corrupted_ids": "corrupted_input_ids"}
"""Names of arrays in a batch, where they differ."""
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class CorruptedSegments(Dataset):
    """The rows of a file."""

    arrays: Arrays
    """The arrays of the file with one row for each segment, (N, L)."""
    frequencies_auc: float
    tokenizer: str
    """The fingerprint of the tokenizer."""
    fingerprint: str
    """A hash of the file's bytes, hexadecimal."""

    def __len__(self) -> int:
        return len(self.arrays["original_ids"])

    @property
    def length(self) -> int:
        """Return the tokens of a row, special tokens and padding included."""
        return self.arrays["original_ids"].shape[1]

    @property
    def replaced_rate(self) -> float:
        """Return the share of the tokens that were replaced."""
        is_replaced = self.arrays["original_ids"] != self.arrays["corrupted_ids"]
        return float(is_replaced.sum() / self.arrays["attention_mask"].sum())

    def __getitem__(self, row: int) -> Arrays:
        return {name: values[row] for name, values in self.arrays.items()}

    @staticmethod
    def collate(rows: Sequence[Arrays]) -> dict[str, Tensor]:
        """Return `input_ids` (the originals), `corrupted_input_ids`, `token_type_ids`, `attention_mask`, int64 (B, L).

        As in `SegmentCollator`, a batch without padding has no `attention_mask`.
        """
        columns = default_collate(list(rows))
        batch = {_INPUTS.get(name, name): column.long() for name, column in columns.items()}
        if batch["attention_mask"].all():
            del batch["attention_mask"]
        return batch


def write_corruption_set(
    path: Path,
    batches: Sequence[Mapping[str, Tensor]],
    frequencies_auc: float,
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    """Write batches of equal length, with the names of `CorruptedSegments.collate` and an `attention_mask`."""
    arrays: Arrays = {"frequencies_auc": np.array([frequencies_auc])}
    for name, dtype in _DTYPES.items():
        parts = [batch[_INPUTS.get(name, name)].numpy() for batch in batches]
        arrays[name] = np.concatenate(parts).astype(dtype)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(save(arrays, metadata={"tokenizer": tokenizer_fingerprint(tokenizer)}), path)


def read_corruption_set(path: str) -> CorruptedSegments:
    """Read a file.

    Raises:
        UserError: it is not there, or not a file of `write_corruption_set`.
    """
    file = expand(path)
    try:
        with safe_open(file, framework="numpy") as opened:
            arrays = {name: opened.get_tensor(name) for name in _DTYPES}
            (frequencies_auc,) = opened.get_tensor("frequencies_auc").tolist()
            tokenizer = opened.metadata()["tokenizer"]
        fingerprint = hashlib.blake2b(file.read_bytes(), digest_size=16).hexdigest()
    except (OSError, SafetensorError, LookupError) as error:
        problem = first_line(error)
        raise UserError(
            f"--eval_corruption {path} cannot be read ({problem}); make one with python -m electra testset"
        ) from error
    return CorruptedSegments(arrays, frequencies_auc, tokenizer, fingerprint)


def check_corruption_set(
    found: CorruptedSegments,
    path: str,
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
) -> None:
    """Refuse a set of another tokenizer, or with longer segments than those of the run."""
    if found.tokenizer != tokenizer_fingerprint(tokenizer):
        raise UserError(
            f"--eval_corruption {path} was made with another tokenizer than this run has ({len(tokenizer)} tokens); "
            "pass the tokenizer of its generator with --tokenizer_path"
        )
    if found.length > max_length:
        raise UserError(
            f"--eval_corruption {path} has segments of {found.length} tokens, more than --max_length {max_length}; "
            f"make one with --max_length {max_length}"
        )
