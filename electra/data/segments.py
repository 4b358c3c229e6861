"""Dynamic segments: windows of `max_length` tokens, cut anew out of cached documents in every epoch.

A static data set fixes its windows for the whole of training, and the original's builder throws away what its
segments trim (17 to 57 % of the tokens of long paragraphs at length 128). Here nothing is stored but token ids:
which window is which follows from (seed, epoch, index) alone, so workers, processes and resuming change nothing.
How documents are cut is the policy's part (policies.py); which cuts make up a run or an evaluation is this file's.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Dataset

from electra.data.counter_rng import permute, random_bits

# One name per use of the random numbers, so that no two uses share a stream.
_SHUFFLE, _MASK, _TRAINING_MASK = 100, 101, 102

TokenIds = NDArray[np.uint16] | NDArray[np.uint32]


class Segment(NamedTuple):
    """What becomes one row: token ids without specials, and the seed of its masks."""

    first: TokenIds
    second: TokenIds | None
    mask_seed: int = 0


class SegmentPolicy(Protocol):
    """How documents become segments."""

    def __len__(self) -> int:
        """Segments per epoch."""

    def cut(self, epoch: int, indices: NDArray[np.int64]) -> list[Segment]:
        """The segments number `indices` (each in [0, len)) of an epoch."""


class TrainingSegments(Dataset):
    """All segments of a run, epoch after epoch, each epoch shuffled anew: position p is sample number p of the run.

    Because the position says it all, a batch is always full (no short batch ends an epoch), any number of processes
    take disjoint positions, and a resumed run starts at its position without reading what came before. So it is with
    the masks: they follow from seed and position.
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
        for epoch in np.unique(epochs).tolist():  # one or two of them: positions of a batch are consecutive
            places = np.flatnonzero(epochs == epoch)
            shuffled = permute(indices[places], len(self.policy), self.seed, _SHUFFLE, epoch)
            segments.update(zip(places.tolist(), self.policy.cut(epoch, shuffled), strict=True))
        mask_seeds = random_bits(self.seed, _TRAINING_MASK, np.asarray(positions, dtype=np.int64)).tolist()
        return [segments[place]._replace(mask_seed=mask_seed) for place, mask_seed in enumerate(mask_seeds)]


class EvaluationSegments(Dataset):
    """Fixed segments with fixed masks: a seeded subset of epoch 0 of a policy, in order.

    The masks follow from `mask_seed`, which depends on the segment alone, so that every evaluation of every model
    with this tokenizer asks the same questions, whatever the batch size or the number of processes.
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
