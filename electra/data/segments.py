"""Dynamic segments: windows of `max_length` tokens that are cut from cached documents anew in every epoch.

A static data set has the same windows in every epoch, and the original's builder loses what it trims (17 to 57 % of
the tokens of long paragraphs at length 128). Here only token ids are stored. A window is a function of (seed, epoch,
index), so workers, processes and resuming change nothing. policies.py cuts the documents; this module decides which
cuts make up a run or an evaluation.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Dataset

from electra.data.rng import permute, random_bits

# Each use of the random numbers has a stream of its own.
_SHUFFLE, _MASK, _TRAINING_MASK = 100, 101, 102

TokenIds = NDArray[np.uint16] | NDArray[np.uint32]


class Segment(NamedTuple):
    """One row of a batch: token ids without special tokens, and the seed of its masks."""

    first: TokenIds
    second: TokenIds | None
    mask_seed: int = 0


class SegmentPolicy(Protocol):
    """How documents become segments."""

    def __len__(self) -> int:
        """Segments per epoch."""

    def cut(self, epoch: int, indices: NDArray[np.int64]) -> list[Segment]:
        """The segments `indices` of an epoch, each in [0, len(self))."""


class TrainingSegments(Dataset):
    """All segments of a run, with every epoch shuffled anew: position p is sample p of the run.

    Segments and masks are functions of seed and position. So every batch is full, also at the end of an epoch,
    processes take disjoint positions, and a resumed run starts at its position without reading what came before.
    """

    def __init__(self, policy: SegmentPolicy, *, num_samples: int, seed: int) -> None:
        self.policy, self.num_samples, self.seed = policy, num_samples, seed

    def __len__(self) -> int:
        return self.num_samples

    def __getitem__(self, position: int) -> Segment:
        if position >= self.num_samples:
            raise IndexError(f"position {position} of a run of {self.num_samples} samples")
        return self.__getitems__([position])[0]

    def __getitems__(self, positions: Sequence[int]) -> list[Segment]:
        epochs, indices = np.divmod(np.asarray(positions, dtype=np.int64), len(self.policy))
        segments: dict[int, Segment] = {}
        for epoch in np.unique(epochs).tolist():  # one or two: the positions of a batch are consecutive
            places = np.flatnonzero(epochs == epoch)
            shuffled = permute(indices[places], len(self.policy), self.seed, _SHUFFLE, epoch)
            segments.update(zip(places.tolist(), self.policy.cut(epoch, shuffled), strict=True))
        mask_seeds = random_bits(self.seed, _TRAINING_MASK, np.asarray(positions, dtype=np.int64)).tolist()
        return [segments[place]._replace(mask_seed=mask_seed) for place, mask_seed in enumerate(mask_seeds)]


class EvaluationSegments(Dataset):
    """Fixed segments with fixed masks: a seeded subset of epoch 0 of a policy, in order.

    A mask depends only on the segment, so every evaluation of every model with this tokenizer has the same masks,
    whatever the batch size or the number of processes.
    """

    def __init__(self, policy: SegmentPolicy, *, max_segments: int | None, seed: int) -> None:
        self.policy, self.seed = policy, seed
        count = len(policy) if max_segments is None else min(len(policy), max_segments)
        self.indices = np.sort(permute(np.arange(count), len(policy), seed, _SHUFFLE))

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, position: int) -> Segment:
        return self.__getitems__([position])[0]

    def __getitems__(self, positions: Sequence[int]) -> list[Segment]:
        indices = self.indices[np.asarray(positions, dtype=np.int64)]
        mask_seeds = random_bits(self.seed, _MASK, indices).tolist()
        cuts = self.policy.cut(0, indices)
        return [Segment(s.first, s.second, m) for s, m in zip(cuts, mask_seeds, strict=True)]
