"""The sentence that says whether a score is above, level with or below what it is compared with. No torch.

All verdicts on scores are made here: those of fine-tuning, minimal pairs, `electra detect`, sweeps and generators.
A difference is clear from twice its standard error on. There is no verdict without an error, from a handful of
examples, or on texts that the network cannot read.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from electra.report.blocks import Verdict

CLEAR_ERRORS = 2.0
"""Margin in standard errors from which a score is called above or below another."""
FEWEST_EXAMPLES = 50
"""Examples of a development set below which there is no verdict: an accuracy has a standard error of up to 7 %."""
MOST_UNKNOWN = 1 / 3
"""Share of unknown tokens above which there is no verdict: a network cannot read such texts."""
CORRELATIONS = ("mcc", "pearson", "spearman")
"""Metrics in [-1, 1] whose standard error is that of a correlation."""


class Rival(NamedTuple):
    """What a score is compared with.

    Args:
        name: name in a sentence, such as `the bag of words`.
        error: standard error of the difference of both scores, in the unit of the score.
        note: words behind the comparison, with what else the reader must know about the rival.
    """

    name: str
    score: float
    error: float
    note: str = ""


def standing(score: float, rival: Rival) -> int:
    """Return 1 if a score is clearly above a rival's, -1 if it is clearly below, 0 if the difference is unclear."""
    difference = score - rival.score
    return 0 if abs(difference) <= CLEAR_ERRORS * rival.error else int(math.copysign(1, difference))


def verdict(
    what: str,
    score: float,
    rivals: Sequence[Rival],
    show: Callable[[float], str],
    sample: str,
    why_none: str = "",
) -> Verdict:
    """Return a sentence with a score and where it stands to each rival; it is good if the score is above all.

    Args:
        what: the beginning of the sentence: the score by name, with its value.
        show: function that returns a score, or the difference of two, as text.
        sample: what the errors come from, such as `83 texts`.
        why_none: the reason why there is no verdict, such as `40 texts are too few`; "" if there is one.
    """
    if why_none:
        return Verdict(f"{what}; no verdict: {why_none}.", None)
    if not rivals:
        return Verdict(f"{what}.", None)
    found = []
    for rival in rivals:
        difference = score - rival.score
        by = show(abs(difference))
        error = f"± {show(rival.error)} with {sample}"
        match standing(score, rival):
            case 1:
                text = f"above {rival.name} ({show(rival.score)}) by {by} ({error})"
            case -1:
                text = f"below {rival.name} ({show(rival.score)}) by {by} ({error})"
            case _:
                side = "above" if difference >= 0 else "below"
                text = f"level with {rival.name} ({show(rival.score)}), {by} {side} ({error})"
        found.append(f"{text}{rival.note}")
    return Verdict(f"{what}: {'; '.join(found)}.", all(standing(score, rival) > 0 for rival in rivals))


def too_few(examples: int, unit: str) -> str:
    """Return why a number of examples allows no verdict; "" if it allows one."""
    return f"{examples} {unit} are fewer than {FEWEST_EXAMPLES}" if examples < FEWEST_EXAMPLES else ""


def too_unknown(unknown: float) -> str:
    """Return why a share of unknown tokens allows no verdict; "" if it allows one."""
    return f"{unknown:.0%} of the tokens are unknown to the tokenizer" if unknown > MOST_UNKNOWN else ""


def sampling_error(metric: str, score: float, examples: int) -> float:
    """Return the standard error of a score that the number of examples gives, as a fraction."""
    if metric in CORRELATIONS:
        return (1 - min(abs(score), 1.0) ** 2) / math.sqrt(examples)
    share = (min(max(score, 0.0), 1.0) * examples + 1) / (examples + 2)  # no error of 0 where all is right
    return math.sqrt(share * (1 - share) / examples)
