"""Predictions of the networks on a few texts: samples.json, and what a terminal or a page shows of them. No torch.

A token that begins a word is stored with the space before it. Other pieces of a word are shown with a dot before them,
`un·want·ed`, because pieces that a generator puts side by side are rarely a word.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

from typing_extensions import TypedDict

from electra.base.files import read_json, write_json

SAMPLES_NAME = "samples.json"
"""File of a run with its samples."""
REPLACED = "P(replaced)"
"""`Sample.score` of a detector that gives probabilities."""
SIGMOID = "sigmoid"
"""`Sample.score` of a detector whose outputs are trained as no probabilities."""
SUSPECTED = 0.5
"""Probability above which a page marks a token as one that the discriminator takes for replaced."""


class Mark(NamedTuple):
    """A token as a page shows it.

    Args:
        text: the token, with the space before it if it begins a word.
        instead_of: the original, where the token is another one; "" elsewhere.
        is_suspected: whether a discriminator takes the token for replaced, or a language model has predicted it.
        note: the number that the network gives the token; "" without one.
    """

    text: str
    instead_of: str
    is_suspected: bool
    note: str


@dataclass(frozen=True)
class Sample:
    """A text and the predictions for it, with a value for each token; what no network computes is None.

    Args:
        original: the tokens of the text.
        masked: input of the generator, or, without one, of a masked language model.
        shown: input of the main network: the generator's samples at the chosen positions, the original elsewhere.
        probabilities: what the main network says of each token of `shown`, see `score`; None where a diverged network
            gave no number.
        restored: a masked language model's most likely tokens at the chosen positions, the original elsewhere.
        score: what `probabilities` are: `REPLACED`, in [0, 1]; `SIGMOID`, of an output that is trained as no
            probability; or "log p" of each token given the others, of an Electric.
    """

    original: list[str]
    masked: list[str] | None
    shown: list[str]
    probabilities: list[float | None] | None
    restored: list[str] | None
    score: str = REPLACED

    def __post_init__(self) -> None:
        versions = (self.masked, self.shown, self.probabilities, self.restored)
        if any(version is not None and len(version) != len(self.original) for version in versions):
            raise ValueError("a sample has versions of different lengths")

    def part(self, start: int, end: int) -> "Sample":
        """Return the sample of the tokens from number `start` to before number `end`."""
        versions = ("original", "masked", "shown", "probabilities", "restored")
        values = {name: getattr(self, name) for name in versions}
        return replace(self, **{name: value[start:end] for name, value in values.items() if value is not None})

    def lines(self) -> Iterator[tuple[str, list[str], list[float | None] | None]]:
        """Yield name, tokens and probabilities (or None) of each version of the text, in the order of their making."""
        yield "text", self.original, None
        if self.masked is not None:
            yield "masked", self.masked, None
        if self.shown not in (self.original, self.masked):
            yield "replaced", self.shown, self.probabilities
        elif self.probabilities is not None:
            yield "judged", self.shown, self.probabilities
        if self.restored is not None:
            yield "restored", self.restored, None

    def marks(self) -> Iterator[Mark]:
        """Yield a mark for each token of `restored`, or else of `shown`."""
        masked = self.masked or self.original
        for number, original in enumerate(self.original):
            token = (self.restored or self.shown)[number]
            p = self.probabilities[number] if self.probabilities else None
            note = ""
            is_suspected = self.restored is not None and masked[number] != original
            if self.probabilities:
                note = f"{self.score} undefined" if p is None else f"{self.score} {p:.3f}"
                is_suspected = self.score == REPLACED and p is not None and p > SUSPECTED
            yield Mark(token, original if token != original else "", is_suspected, note)


class Samples(TypedDict):
    """The content of samples.json: the samples, and the step of the networks; None if it is unknown."""

    step: int | None
    samples: list[Sample]


def write_samples(samples: Sequence[Sample], folder: Path, step: int) -> None:
    """Write samples.json into a run folder; `step` is the step of the networks that made the samples."""
    values = [asdict(sample) for sample in samples]
    write_json({"step": step, "samples": values}, folder / SAMPLES_NAME)


def read_samples(folder: Path) -> list[Sample]:
    """Return the samples of a run folder; [] if there is no samples.json."""
    path = folder / SAMPLES_NAME
    if not path.exists():
        return []
    return read_json(path, Samples)["samples"]


def marked(token: str) -> str:
    """Return a token, with a dot before it unless it begins a word; a combining mark stands on a dotted circle."""
    if token[:1].isspace():
        return token
    return f"·◌{token}" if unicodedata.category(token[:1] or " ").startswith("M") else f"·{token}"
