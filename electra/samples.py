"""Predictions of the networks on a few texts: samples.json, coloured text for a terminal, coloured HTML. No torch.

A token that begins a word is stored with the space before it. Other pieces of a word are shown with a dot before them,
`un·want·ed`, because pieces that a generator puts side by side are rarely a word. The background colour is stronger
for tokens that the discriminator more likely takes for replaced, in HTML continuously, on a terminal in five steps.
"""

import html
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from electra.checkpoint import read_checked
from electra.errors import UserError
from electra.files import write_json

SAMPLES_NAME = "samples.json"
NUMBER_FROM = 0.1
"""HTML shows the probability in percent above tokens with at least this one, and above replaced ones."""
_STEPS = (
    (0.8, "\033[30;48;5;203m"),
    (0.6, "\033[30;48;5;215m"),
    (0.4, "\033[30;48;5;222m"),
    (0.2, "\033[30;48;5;230m"),
)
_PIECE = "·"
"""Before a token that continues a word."""
_BOLD, _END = "\033[1m", "\033[0m"


@dataclass(frozen=True)
class Sample:
    """One text and the predictions for it, one value per token; None where no network predicts it.

    Args:
        original: the text.
        masked: input of the generator, or of a masked language model without one.
        shown: input of the main network: the generator's samples at the masked positions.
        probabilities: of "replaced", in [0, 1]; None where a diverged network gives no number.
        restored: a masked language model's most likely tokens at the masked positions, the original elsewhere.
    """

    original: list[str]
    masked: list[str] | None
    shown: list[str]
    probabilities: list[float | None] | None
    restored: list[str] | None

    def lines(self) -> Iterator[tuple[str, list[str]]]:
        """The versions of the text with their names, in the order in which they arise."""
        yield "text", self.original
        if self.masked is not None:
            yield "masked", self.masked
        if self.shown != self.original and self.shown != self.masked:
            yield "replaced", self.shown
        if self.restored is not None:
            yield "restored", self.restored


def write_samples(samples: Sequence[Sample], folder: Path, step: int | None = None) -> None:
    """Write samples.json into a run folder; `step`: of the networks."""
    write_json({"step": step, "samples": [asdict(sample) for sample in samples]}, folder / SAMPLES_NAME)


def read_samples(folder: Path) -> list[Sample]:
    """The samples of a run folder; none if it has no samples.json.

    Raises:
        UserError: the file is damaged, or of another version.
    """
    path = folder / SAMPLES_NAME
    try:
        values = json.loads(read_checked(path))["samples"]
        return [_checked(sample) for sample in values]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(f"{path} holds no readable samples ({type(error).__name__}: {error}); remove it") from error


def _checked(values: dict[str, Any]) -> Sample:
    sample = Sample(**{field.name: values[field.name] for field in fields(Sample)})
    for field in fields(Sample):
        column = getattr(sample, field.name)
        kind = int | float | None if field.name == "probabilities" else str
        if column is None and field.name not in ("original", "shown"):
            continue
        if not isinstance(column, list) or not all(isinstance(value, kind) for value in column):
            raise TypeError(field.name)
        if len(column) != len(sample.original):
            raise ValueError(f"{field.name} has {len(column)} of {len(sample.original)} tokens")
    return sample


def to_terminal(sample: Sample, *, colours: bool) -> str:
    """The texts, and one line per token with the original and the probability that it was replaced."""
    width = max(len(name) for name, _ in sample.lines()) + 2
    lines = []
    for name, tokens in sample.lines():
        is_judged = sample.probabilities is not None and tokens is sample.shown
        lines.append(name.ljust(width) + _join(sample, tokens, colours, is_judged).strip())
    if sample.probabilities is not None:
        if sample.shown == sample.original and colours:
            lines.append("judged".ljust(width) + _join(sample, sample.shown, colours, True).strip())
        column = max(len(_mark(token).strip()) for token in sample.shown) + 2
        before = [o for token, o in zip(sample.shown, sample.original, strict=True) if token != o]
        was = max([len(_mark(token).strip()) for token in before] + [3]) + 2
        has_replaced = sample.shown != sample.original
        lines += ["", "token".ljust(column) + ("was".ljust(was) if has_replaced else "") + "P(replaced)"]
        for token, original, p in zip(sample.shown, sample.original, sample.probabilities, strict=True):
            stood = ("" if token == original else _mark(original).strip()).ljust(was) if has_replaced else ""
            text = _mark(token).strip().ljust(column)
            lines.append((_paint(text, p) if colours else text) + stood + _decimals(p))
    return "\n".join(lines)


def _join(sample: Sample, tokens: Sequence[str], colours: bool, is_judged: bool) -> str:
    if not colours:
        return "".join(map(_mark, tokens))
    parts = []
    for position, token in enumerate(tokens):
        text = _mark(token).lstrip()
        space = token[: len(token) - len(token.lstrip())]
        if token != sample.original[position]:
            text = f"{_BOLD}{text}{_END}"
        if is_judged and sample.probabilities is not None:
            text = _paint(text, sample.probabilities[position])
        parts.append(space + text)
    return "".join(parts)


def _mark(token: str) -> str:
    """A token with a dot before it if it begins no word."""
    return token if token[:1].isspace() else _PIECE + token


def _decimals(probability: float | None) -> str:
    return "undefined" if probability is None else f"{probability:.3f}"


def _paint(text: str, probability: float | None) -> str:
    for least, code in _STEPS:
        if probability is not None and probability >= least:
            return f"{code}{text}{_END}"
    return text


def to_html(sample: Sample) -> str:
    """One element; its CSS classes are in electra/report/templates/style.css."""
    rows = []
    for name, tokens in sample.lines():
        is_judged = sample.probabilities is not None and tokens is sample.shown
        rows.append((name, _spans(sample, tokens, is_judged)))
    if sample.probabilities is not None and sample.shown == sample.original:
        rows.append(("judged", _spans(sample, sample.shown, True)))
    lines = "\n".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in rows)
    return f'<dl class="sample">\n{lines}\n</dl>'


def _spans(sample: Sample, tokens: Sequence[str], is_judged: bool) -> str:
    return "".join(_span(sample, position, token, is_judged) for position, token in enumerate(tokens)).strip()


def _span(sample: Sample, position: int, token: str, is_judged: bool) -> str:
    text = _mark(token).lstrip()
    space = " " if token[:1].isspace() else ""
    original = sample.original[position]
    kind = ' class="changed"' if token != original else ""
    if not is_judged or sample.probabilities is None:
        return f"{space}<b{kind}>{html.escape(text)}</b>" if kind else space + html.escape(text)
    p = sample.probabilities[position]
    title = f"P(replaced) {_decimals(p)}" + (f", was {_mark(original).strip()}" if kind else "")
    number = f"<rt>{100 * p:.0f}</rt>" if p is not None and (p >= NUMBER_FROM or kind) else ""
    return (
        f'{space}<ruby{kind} style="background:rgb(214 69 27 / {0.75 * (p or 0.0):.3f})" title="{html.escape(title)}">'
        f"{html.escape(text)}{number}</ruby>"
    )
