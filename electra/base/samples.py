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
"""What the probabilities of a detector are of, in the line of a sample."""
SIGMOID = "sigmoid"
"""What the numbers of a detector are whose objective's loss is not that of a probability."""

SUSPECTED = 0.5
"""Probability above which a page marks a token as one that the discriminator takes for replaced."""


class Mark(NamedTuple):
    """A token as a page shows it.

    Args:
        text: the token, with the space before it if it begins a word.
        instead_of: the original, where the token is another one; "" elsewhere.
        is_suspected: whether the discriminator takes the token for replaced, or a language model had to guess it.
        note: the number that the network gives the token; "" without one.
    """

    text: str
    instead_of: str
    is_suspected: bool
    note: str


@dataclass(frozen=True)
class Sample:
    """A text and the predictions for it, a value per token each; a prediction that no network makes is None."""

    original: list[str]
    masked: list[str] | None
    """Input of the generator, or of a masked language model without one."""
    shown: list[str]
    """Input of the main network: the generator's samples at the masked positions."""
    probabilities: list[float | None] | None
    """Probability of "replaced", in [0, 1], or the `score`; None where a diverged network gave no number."""
    restored: list[str] | None
    """A masked language model's most likely tokens at the masked positions, the original elsewhere."""
    score: str = REPLACED
    """What `probabilities` are: "P(replaced)"; the "sigmoid" of an output that is trained as no probability; or, for
    an Electric, "log p" of each shown token given the others."""

    def __post_init__(self) -> None:
        versions = (self.masked, self.shown, self.probabilities, self.restored)
        if any(version is not None and len(version) != len(self.original) for version in versions):
            raise ValueError("a sample has versions of different lengths")

    def part(self, start: int, end: int) -> "Sample":
        """Return the sample of some of the tokens, those from `start` to before `end`."""
        versions = ("original", "masked", "shown", "probabilities", "restored")
        values = {name: getattr(self, name) for name in versions}
        return replace(self, **{name: value[start:end] for name, value in values.items() if value is not None})

    def lines(self) -> Iterator[tuple[str, list[str], list[float | None] | None]]:
        """Yield name, tokens and probabilities (or None) of each version of the text, in the order of creation."""
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
        """Yield the tokens that the main network reads, or those that a language model has put at the masks."""
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
    """The content of samples.json: the samples, and the step of the networks, None if unknown."""

    step: int | None
    samples: list[Sample]


def write_samples(samples: Sequence[Sample], folder: Path, step: int | None = None) -> None:
    """Write samples.json into a run folder; `step` is that of the networks."""
    values = [asdict(sample) for sample in samples]
    write_json({"step": step, "samples": values}, folder / SAMPLES_NAME)


def read_samples(folder: Path) -> list[Sample]:
    """Return the samples of a run folder; [] if there is no samples.json."""
    path = folder / SAMPLES_NAME
    if not path.exists():
        return []
    return read_json(path, Samples)["samples"]


def marked(token: str) -> str:
    """Return a token, with a dot in front unless it begins a word; a mark, as of a vowel, stands on a circle."""
    if token[:1].isspace():
        return token
    return f"·◌{token}" if unicodedata.category(token[:1] or " ").startswith("M") else f"·{token}"
