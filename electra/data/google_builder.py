"""The static examples of google-research/electra, build_pretraining_dataset.py (`ExampleBuilder`), for comparison.

Lines (its "sentences") are collected until a target length is reached or the document ends. Then they are distributed
over segments A and B, which are trimmed; the rest is lost. The decisions are the original's, in its order. They depend
only on line lengths, so examples are built once, at the start of a run, and stored as spans of the token cache, about
0.3 bytes per token.
"""

import random
from array import array

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from electra.data.segments import Segment
from electra.data.token_cache import TokenCache

SINGLE_SEGMENT_PROBABILITY = 0.1
SHORT_TARGET_PROBABILITY = 0.05
SHORTEST_TARGET = 5
NO_SECOND_SEGMENT = 100_000
"""A target length of A that no document reaches, so that everything goes to A."""

Span = tuple[int, int]
"""(first token within the document, number of tokens)"""


class GooglePolicy:
    """All examples of the given documents as spans of a token cache, the same in every epoch."""

    def __init__(self, cache: TokenCache, documents: NDArray[np.int64], *, max_length: int, seed: int) -> None:
        self.cache = cache
        self.max_length = max_length
        self._random = random.Random(seed)
        self._document, self._first_span = array("q"), array("q", [0])
        self._is_second, self._start, self._size = array("b"), array("q"), array("q")
        self._target = max_length
        for document in tqdm(documents.tolist(), desc="Building static examples", unit="doc", mininterval=0.5):
            self._add_document(document)

    def __len__(self) -> int:
        return len(self._document)

    def cut(self, epoch: int, indices: NDArray[np.int64]) -> list[Segment]:
        segments = []
        for index in indices.tolist():
            sides: tuple[list[NDArray], list[NDArray]] = ([], [])
            for span in range(self._first_span[index], self._first_span[index + 1]):
                tokens = self.cache.tokens(self._document[index], self._start[span], self._size[span])
                sides[self._is_second[span]].append(tokens)
            segments.append(Segment(np.concatenate(sides[0]), np.concatenate(sides[1]) if sides[1] else None))
        return segments

    def _add_document(self, document: int) -> None:
        lines: list[Span] = []
        start = current_length = 0
        for length in self.cache.line_lengths(document).tolist():
            lines.append((start, length))
            start += length
            current_length += length
            if current_length >= self._target:
                self._emit(document, lines)
                lines, current_length = [], 0
        if current_length > 0:
            self._emit(document, lines)

    def _emit(self, document: int, lines: list[Span]) -> None:
        draw = self._random.random
        is_single = draw() < SINGLE_SEGMENT_PROBABILITY
        first_target = NO_SECOND_SEGMENT if is_single else (self._target - 3) // 2
        sides: tuple[list[Span], list[Span]] = ([], [])
        first_length = 0
        for start, length in lines:
            to_first = (
                first_length == 0
                or first_length + length < first_target
                or (not sides[1] and first_length < first_target and draw() < 0.5)
            )
            sides[0 if to_first else 1].append((start, length))
            first_length += length if to_first else 0
        first = _trim(sides[0], self.max_length - 2)
        second = _trim(sides[1], max(0, self.max_length - sum(size for _, size in first) - 3))
        for is_second, spans in enumerate((first, second)):
            for start, size in spans:
                self._is_second.append(is_second)
                self._start.append(start)
                self._size.append(size)
        self._document.append(document)
        self._first_span.append(len(self._start))
        if draw() < SHORT_TARGET_PROBABILITY:
            self._target = self._random.randint(SHORTEST_TARGET, self.max_length)
        else:
            self._target = self.max_length


def _trim(spans: list[Span], room: int) -> list[Span]:
    """The first `room` tokens of the spans, with adjacent spans joined."""
    kept: list[Span] = []
    for start, size in spans:
        size = min(size, room)
        if size <= 0:
            continue
        room -= size
        if kept and kept[-1][0] + kept[-1][1] == start:
            kept[-1] = (kept[-1][0], kept[-1][1] + size)
        else:
            kept.append((start, size))
    return kept
