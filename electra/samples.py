"""Predictions of the networks on a few texts: samples.json, text for a terminal, coloured HTML. No torch.

A token that begins a word is stored with the space before it. Other pieces of a word are shown with a dot before them,
`un·want·ed`, because pieces that a generator puts side by side are rarely a word. In HTML the background is stronger
for tokens that the discriminator more likely takes for replaced.
"""

import html
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from electra.io.errors import UserError
from electra.io.files import write_json

SAMPLES_NAME = "samples.json"
NUMBER_FROM = 0.1
"""HTML shows the probability in percent above tokens with at least this one, and above replaced ones."""


@dataclass(frozen=True)
class Sample:
    """One text and the predictions for it, one value per token; None where no network predicts it."""

    original: list[str]
    masked: list[str] | None
    """Input of the generator, or of a masked language model without one."""
    shown: list[str]
    """Input of the main network: the generator's samples at the masked positions."""
    probabilities: list[float | None] | None
    """Probability of "replaced", in [0, 1]; None where a diverged network gives no number."""
    restored: list[str] | None
    """A masked language model's most likely tokens at the masked positions, the original elsewhere."""
    log_probabilities: list[float | None] | None = None
    """Log probability of each shown token given the others, by an Electric."""

    def __post_init__(self) -> None:
        columns = (self.masked, self.shown, self.probabilities, self.restored, self.log_probabilities)
        if any(column is not None and len(column) != len(self.original) for column in columns):
            raise ValueError("a sample has not one value per token")

    def lines(self) -> Iterator[tuple[str, list[str], list[float | None] | None]]:
        """The versions of the text in the order in which they arise: name, tokens, their probabilities if judged."""
        yield "text", self.original, None
        if self.masked is not None:
            yield "masked", self.masked, None
        if self.shown != self.original and self.shown != self.masked:
            yield "replaced", self.shown, self.probabilities
        elif self.probabilities is not None:
            yield "judged", self.shown, self.probabilities
        if self.restored is not None:
            yield "restored", self.restored, None


def write_samples(samples: Sequence[Sample], folder: Path, step: int | None = None) -> None:
    """Write samples.json into a run folder; `step`: of the networks."""
    write_json({"step": step, "samples": [asdict(sample) for sample in samples]}, folder / SAMPLES_NAME)


def read_samples(folder: Path) -> list[Sample]:
    """The samples of a run folder; none if it has no samples.json."""
    path = folder / SAMPLES_NAME
    try:
        return [Sample(**values) for values in json.loads(path.read_text(encoding="utf-8"))["samples"]]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(f"{path} holds no readable samples ({type(error).__name__}: {error}); remove it") from error


def to_terminal(sample: Sample) -> str:
    """The texts, and one line per token: the original, the probability that it was replaced or Electric's log p."""
    lines = [
        f"{name:10}{''.join(map(_mark, tokens)).strip()}" for name, tokens, _ in sample.lines() if name != "judged"
    ]
    values, title = sample.probabilities, "P(replaced)"
    if sample.log_probabilities is not None:
        values, title = sample.log_probabilities, "log p"
    if values is None:
        return "\n".join(lines)
    rows = [("token", "was", title)]
    for token, original, p in zip(sample.shown, sample.original, values, strict=True):
        rows.append((_mark(token).strip(), _mark(original).strip() if token != original else "", _decimals(p)))
    widths = [max(len(row[column]) for row in rows) + 2 for column in (0, 1)]
    lines += ["", *(f"{token:{widths[0]}}{was:{widths[1]}}{number}" for token, was, number in rows)]
    return "\n".join(lines)


def _mark(token: str) -> str:
    """A token with a dot before it if it begins no word."""
    return token if token[:1].isspace() else f"·{token}"


def _decimals(probability: float | None) -> str:
    return "undefined" if probability is None else f"{probability:.3f}"


def to_html(sample: Sample) -> str:
    """One element; its CSS classes are in electra/report/templates/style.css."""
    rows = []
    for name, tokens, probabilities in sample.lines():
        judged = probabilities or [None] * len(tokens)
        spans = [
            _span(token, original, p, probabilities is not None)
            for token, original, p in zip(tokens, sample.original, judged, strict=True)
        ]
        rows.append(f"<dt>{name}</dt><dd>{''.join(spans).strip()}</dd>")
    return '<dl class="sample">\n' + "\n".join(rows) + "\n</dl>"


def _span(token: str, original: str, p: float | None, is_judged: bool) -> str:
    space = " " if token[:1].isspace() else ""
    text = html.escape(_mark(token).lstrip())
    kind = ' class="changed"' if token != original else ""
    if not is_judged:
        return f"{space}<b{kind}>{text}</b>" if kind else space + text
    title = f"P(replaced) {_decimals(p)}" + (f", was {_mark(original).strip()}" if kind else "")
    number = f"<rt>{100 * p:.0f}</rt>" if p is not None and (p >= NUMBER_FROM or kind) else ""
    return (
        f'{space}<ruby{kind} style="background:rgb(214 69 27 / {0.75 * (p or 0.0):.3f})" title="{html.escape(title)}">'
        f"{text}{number}</ruby>"
    )
