"""The policy `google`: the static examples of google-research/electra."""

import random
from array import array

import numpy as np
from tqdm.auto import tqdm

from electra.base.console import shows_bars
from electra.core.rng import Ints, TokenIds
from electra.core.segments import Segment
from electra.data.policies.windows import PAIR_SPECIALS, SINGLE_SPECIALS, TWO_SEGMENT_PROBABILITY, Policy

SHORT_TARGET_PROBABILITY = 0.05
SHORTEST_TARGET = 5
"""Share of examples with a shorter target length, and the shortest one in tokens; both as in the original."""
TokenSpan = tuple[int, int]
"""A piece of a document: its first token, and its number of tokens."""


class GooglePolicy(Policy):
    """A policy of the static examples of google-research/electra.

    Examples are made as by `ExampleBuilder` of build_pretraining_dataset.py: lines, the "sentences" of the original,
    are collected until a target length is reached or the document ends. Then they are distributed over segments A and
    B, which are trimmed; the rest is lost. Random decisions are made in the order of the original. All depends only on
    the lengths of lines, so examples are built once and kept as spans of the token cache.
    """

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._target = self.max_length
        # Each example has its document, and where its spans begin. Each span has its side, start and size.
        self._document = array("q")
        self._first_span = array("q", [0])
        self._is_second = array("b")
        self._start = array("q")
        self._size = array("q")
        bar = tqdm(self.documents[:].tolist(), desc="Building static examples", unit="doc", disable=not shows_bars())
        for document in bar:
            self._add_document(document)

    def __len__(self) -> int:
        return len(self._document)

    def cut(self, epoch: int, indices: Ints) -> list[Segment]:
        segments = []
        for index in indices.tolist():
            sides: tuple[list[TokenIds], list[TokenIds]] = ([], [])
            for span in range(self._first_span[index], self._first_span[index + 1]):
                tokens = self.cache.tokens(self._document[index], self._start[span], self._size[span])
                sides[self._is_second[span]].append(tokens)
            second = np.concatenate(sides[1]) if sides[1] else None
            segments.append(Segment(np.concatenate(sides[0]), second))
        return segments

    def _add_document(self, document: int) -> None:
        """Add the examples of a document."""
        lines: list[TokenSpan] = []
        start = 0
        collected = 0
        for length in self.cache.line_lengths(document).tolist():
            lines.append((start, length))
            start += length
            collected += length
            if collected >= self._target:
                self._add_example(document, lines)
                lines = []
                collected = 0
        if collected > 0:
            self._add_example(document, lines)

    def _add_example(self, document: int, lines: list[TokenSpan]) -> None:
        """Add the example of these lines, trimmed to `max_length`, and draw the target length of the next one."""
        room = self.max_length - SINGLE_SPECIALS
        for is_second, spans in enumerate(self._distribute(lines)):
            first_span = len(self._start)
            for start, length in spans:
                size = min(length, room)
                room -= size
                if len(self._start) > first_span and start == self._start[-1] + self._size[-1]:
                    self._size[-1] += size  # adjacent lines are one span
                elif size > 0:
                    self._is_second.append(is_second)
                    self._start.append(start)
                    self._size.append(size)
            room = max(0, room - (PAIR_SPECIALS - SINGLE_SPECIALS))
        self._document.append(document)
        self._first_span.append(len(self._start))
        is_short = self._random.random() < SHORT_TARGET_PROBABILITY
        self._target = self._random.randint(SHORTEST_TARGET, self.max_length) if is_short else self.max_length

    def _distribute(self, lines: list[TokenSpan]) -> tuple[list[TokenSpan], list[TokenSpan]]:
        """Divide the lines of an example between segments A and B, and return the lines of each."""
        draw = self._random.random
        is_single = draw() < 1 - TWO_SEGMENT_PROBABILITY
        first_target = np.inf if is_single else (self._target - PAIR_SPECIALS) // 2
        first: list[TokenSpan] = []
        second: list[TokenSpan] = []
        first_length = 0
        for line in lines:
            length = line[1]
            to_first = (
                first_length == 0
                or first_length + length < first_target
                or (not second and first_length < first_target and draw() < 0.5)
            )
            if to_first:
                first.append(line)
                first_length += length
            else:
                second.append(line)
        return first, second
