"""Dynamic segments: windows of `max_length` tokens that are cut from cached documents anew in every epoch.

A static data set has the same windows in every epoch, and the original's builder loses what it trims (17 to 57 % of
the tokens of long paragraphs at length 128). A window is a function of (seed, epoch, index), so workers, processes and
resuming change nothing. policies/ cuts the documents; here the cuts become a run or an evaluation, and batches.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerBase

from electra.core.errors import UserError
from electra.core.rng import Bits, Ints, TokenIds, permute, permute_locally, random_bits


class Stream(IntEnum):
    """A use of random numbers, the first counter of `random_bits` after the seed: each use draws other numbers.

    A new use gets a value that no other has. Values never change, because runs are resumed.
    """

    ROUNDING = 0
    OFFSET = 1
    WINDOW_SINGLE = 2
    SPLIT = 3
    START = 4
    PARTNER = 5
    ROTATION = 6
    MEMBER = 7
    MEMBER_SINGLE = 8
    MEMBER_SPLIT = 9
    SHUFFLE = 100
    EVALUATION_MASK = 101
    TRAINING_MASK = 102


_NUMBERS_PER_TOKEN = 3
"""Random numbers of a token: two for the masks, one for the generator's sample."""


class Segment(NamedTuple):
    """A text, or a pair of texts, as a network reads it alone: in a row of its own, or in a part of a `PackedRow`.

    Args:
        first: token ids of the text, or of the first text of the pair, without special tokens.
        second: token ids of the second text of a pair; None without one.
        mask_seed: seed of the random numbers that mask the tokens.
    """

    first: TokenIds
    second: TokenIds | None
    mask_seed: int = 0


class PackedRow(NamedTuple):
    """A row of a batch that several segments share; each has masks and positions of its own.

    Args:
        segments: the segments in their order; their own mask seeds do not count.
        mask_seed: seed from which the segments' mask seeds follow.
    """

    segments: list[Segment]
    mask_seed: int = 0

    def seeded(self) -> list[Segment]:
        """Return the segments with their mask seeds, which follow from that of the row."""
        seeds = random_bits(self.mask_seed, np.arange(len(self.segments)))
        return with_mask_seeds(self.segments, seeds)


SegmentRow = Segment | PackedRow
"""What a row of a batch is made of."""
R = TypeVar("R", Segment, PackedRow, SegmentRow)
"""Type of the rows that get seeds."""


def with_mask_seeds(rows: Sequence[R], seeds: Bits) -> list[R]:
    """Return N rows, each with its seed from `seeds`, (N,), in place of the one that it has."""
    return [row._replace(mask_seed=seed) for row, seed in zip(rows, seeds.tolist(), strict=True)]


def segment_length(segment: Segment) -> int:
    """Return how many tokens a segment has, with its 2 special tokens, or 3 if it is a pair."""
    if segment.second is None:
        return len(segment.first) + 2
    return len(segment.first) + len(segment.second) + 3


class SegmentPolicy(Protocol):
    """A policy that cuts documents into segments, or into rows of several segments."""

    options: Any
    """The run's `SegmentArguments`; in evaluations, which are equal for all runs, their defaults."""

    def __len__(self) -> int:
        """Return the number of rows of an epoch."""

    def cut(self, epoch: int, indices: Ints) -> Sequence[SegmentRow]:
        """Return the rows of an epoch that have these numbers, each in [0, len(self))."""


@dataclass(eq=False)
class TrainingSegments(Dataset):
    """All rows of a run, with every epoch shuffled anew: position p is row p of the run.

    Rows and masks are functions of seed and position. So every batch is full, also at the end of an epoch, processes
    take disjoint positions, and a resumed run starts at its position without reading what came before.

    Args:
        policy: cuts the rows of an epoch.
        num_samples: number of rows of the whole run.
        seed: seed of order and masks.
    """

    policy: SegmentPolicy
    num_samples: int
    seed: int

    def __len__(self) -> int:
        return self.num_samples

    def __getitems__(self, positions: Sequence[int]) -> list[SegmentRow]:
        """Return the rows at positions of the run, each in [0, num_samples)."""
        numbers = np.asarray(positions, dtype=np.int64)
        size = len(self.policy)
        epochs = numbers // size
        rows: dict[int, SegmentRow] = {}
        for epoch in np.unique(epochs).tolist():  # one or two: the positions of a batch are consecutive
            in_epoch = np.flatnonzero(epochs == epoch)
            shuffled = permute_locally(numbers[in_epoch] % size, size, self.seed, Stream.SHUFFLE, epoch)
            rows.update(zip(in_epoch.tolist(), self.policy.cut(epoch, shuffled), strict=True))
        seeds = random_bits(self.seed, Stream.TRAINING_MASK, numbers)
        return with_mask_seeds([rows[index] for index in range(len(numbers))], seeds)


@dataclass(eq=False)
class EvaluationSegments(Dataset):
    """Fixed segments with fixed masks: a seeded subset of epoch 0 of a policy, in order.

    A mask depends only on the seed and the segment, so every evaluation of every model with this tokenizer has the
    same masks, whatever the batch size or the number of processes.

    Args:
        policy: cuts the segments.
        max_segments: largest number of segments; fewer if the policy has fewer.
        seed: seed of the subset and the masks.
    """

    policy: SegmentPolicy
    max_segments: int
    seed: int

    def __post_init__(self) -> None:
        size = len(self.policy)
        count = min(size, self.max_segments)
        chosen = permute(np.arange(count), size, self.seed, Stream.SHUFFLE)
        self.indices = np.sort(chosen)

    def __len__(self) -> int:
        return len(self.indices)

    def evenly_spaced(self, count: int) -> list[int]:
        """Return the positions of at most `count` segments at even distances in the text."""
        positions = np.linspace(0, len(self) - 1, count)
        return np.unique(positions.round().astype(int)).tolist()

    def __getitems__(self, positions: Sequence[int]) -> list[SegmentRow]:
        """Return the segments at positions of the subset, each in [0, len(self))."""
        indices = self.indices[np.asarray(positions, dtype=np.int64)]
        seeds = random_bits(self.seed, Stream.EVALUATION_MASK, indices)
        return with_mask_seeds(self.policy.cut(0, indices), seeds)


@dataclass(frozen=True)
class SegmentCollator:
    """A collator of rows to a batch, padded to the longest row, or to `length`, so that all batches have one shape.

    The pair [11, 12], [13] and the single segment [14] give, with [CLS]=1, [SEP]=2, [PAD]=0:

        input_ids       [[1, 11, 12, 2, 13, 2], [1, 14, 2, 0, 0, 0]]
        token_type_ids  [[0,  0,  0, 0,  1, 1], [0,  0, 0, 0, 0, 0]]
        attention_mask  [[1,  1,  1, 1,  1, 1], [1,  1, 1, 0, 0, 0]]

    and uniform random numbers in [0, 1), which depend only on the segment's `mask_seed` and the place in the segment:
    `mask_noise`, float32 (B, L, 2), chooses and masks positions; `sample_noise`, float32 (B, L), draws the generator's
    samples. A batch without padding has no `attention_mask`, so that nobody has to look at the device for it.

    If segments share a row, `segment_lengths`, int64 (B, S), counts the tokens of each, with special tokens, in their
    order; 0 where a row has fewer than S. The random numbers of a segment are those that it has in a row of its own.

    Args:
        length: L of all batches, in tokens; None for that of the longest row of each batch.
        most_segments: the largest number of segments of any row of the run, which S is with `length`; 0 if no rows
            are shared.
        vocab_size: number of ids, from 0, to accept; None for any. Files of tokens may have changed since their cache
            was made.
    """

    cls_token_id: int
    sep_token_id: int
    pad_token_id: int
    length: int | None = None
    most_segments: int = 0
    vocab_size: int | None = None

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, **options: Any) -> Self:
        """Return a collator with the special tokens of a tokenizer; `options` are the other fields."""
        return cls(tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id, **options)

    def __call__(self, rows: Sequence[SegmentRow]) -> dict[str, Tensor]:
        """Return the batch: the tensors that the class describes, by name.

        Raises:
            UserError: an id is not in the vocabulary.
        """
        rows_of_segments = [row.seeded() if isinstance(row, PackedRow) else [row] for row in rows]
        lengths = [[*map(segment_length, segments)] for segments in rows_of_segments]
        sizes = np.array([*map(sum, lengths)])
        shape = (len(rows), self.length or int(sizes.max()))
        input_ids = np.full(shape, self.pad_token_id, dtype=np.int64)
        token_type_ids = np.zeros(shape, dtype=np.int64)
        seeds = np.zeros(shape, dtype=np.uint64)
        starts = np.zeros(shape, dtype=np.int64)
        for row, segments in enumerate(rows_of_segments):
            start = 0
            for segment in segments:
                seeds[row, start:] = segment.mask_seed
                starts[row, start:] = start
                end = start + 1 + len(segment.first)
                input_ids[row, start] = self.cls_token_id
                input_ids[row, start + 1 : end] = segment.first
                input_ids[row, end] = self.sep_token_id
                if segment.second is not None:
                    start = end + 1
                    end = start + len(segment.second)
                    input_ids[row, start:end] = segment.second
                    input_ids[row, end] = self.sep_token_id
                    token_type_ids[row, start : end + 1] = 1
                start = end + 1

        if self.vocab_size is not None:
            check_ids(input_ids, self.vocab_size)
        columns = np.arange(shape[1])
        noise = _noise(seeds, columns - starts)
        batch: dict[str, NDArray[Any]] = {
            "input_ids": input_ids,
            "token_type_ids": token_type_ids,
            "mask_noise": noise[..., :2],
            "sample_noise": noise[..., 2],
        }
        is_real = columns < sizes[:, None]
        if not is_real.all():
            batch["attention_mask"] = is_real.astype(np.int64)
        most_segments = max(map(len, lengths))
        if most_segments > 1:
            most_segments = max(most_segments, self.most_segments if self.length else 0)
            padded = [row + [0] * (most_segments - len(row)) for row in lengths]
            batch["segment_lengths"] = np.array(padded)
        return {name: torch.from_numpy(values) for name, values in batch.items()}


def _noise(seeds: Bits, places: Ints) -> NDArray[np.float32]:
    """Return random numbers in [0, 1) for every token, float32 (B, L, 3), by its segment's seed and its place there.

    Args:
        seeds: mask seed of the segment to which each token belongs, (B, L).
        places: place of each token in its segment, (B, L); padding belongs to the segment before it.
    """
    bits = random_bits(0, seeds[..., None], places[..., None], np.arange(_NUMBERS_PER_TOKEN))
    # 24 bits are exact in float32; rounding more bits could give 1.0.
    return (bits >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)


# ---- ids for which embeddings have no row


def first_id_outside(ids: TokenIds, vocab_size: int) -> int | None:
    """Return the first of some ids, of any shape, that is not in [0, vocab_size); None if all are."""
    if ids.size == 0 or 0 <= ids.min() <= ids.max() < vocab_size:
        return None
    return int(ids[(ids < 0) | (ids >= vocab_size)][0])


def check_ids(ids: TokenIds, vocab_size: int) -> None:
    """Raise a UserError if an id of a cache, of any shape, is not in [0, vocab_size)."""
    wrong_id = first_id_outside(ids, vocab_size)
    if wrong_id is not None:
        raise UserError(
            f"the token cache has the id {wrong_id}, but the tokenizer has only the ids 0 to {vocab_size - 1}; a file "
            "of tokens was changed or damaged after the cache was made: copy it, or build the cache, again"
        )
