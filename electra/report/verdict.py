"""Verdicts: sentences that compare a score with others, and say what to try if it is low. No torch.

All verdicts on scores are made here: those of fine-tuning, minimal pairs, `electra detect`, sweeps and generators.
A difference is clear if it is more than twice its standard error. There is no verdict without an error, from a
handful of examples, or on texts that the network cannot read.
"""

import math
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from electra.base.files import TINY_EN
from electra.report.blocks import Verdict
from electra.report.results import Metric, Result

CLEAR_ERRORS = 2.0
"""Difference in standard errors above which a score is called above or below another."""
FEWEST_EXAMPLES = 50
"""Examples of a development set below which there is no verdict: an accuracy has a standard error of up to 7 %."""
MOST_UNKNOWN = 1 / 3
"""Share of unknown tokens above which there is no verdict: a network cannot read such texts."""
FEW_STEPS = 500
"""Steps of fine-tuning below which a sentence says that more may help."""
MOST_ADVISED_EPOCHS = 40
"""Epochs that are advised, at most."""
SMALL_NETWORK = 10_000_000
"""Parameters below which a network is advised a higher learning rate, the same in all layers: it is smaller than the
networks for which the defaults were published."""
SMALL_RATE = 1e-3
"""Learning rate that is advised for small networks."""
MOST_CUT = 0.1
"""Share of cut texts above which verdicts and advice mention them."""
FIRST_TOKEN_HEADS = ("hf", "google")
"""Values of --head that read the first token alone."""
CAN_READ_MEAN = "can_read_mean"
"""Setting of a result: True if --head hf_mean accepts the encoder, else missing."""
NOT_STARTED = "auc_before_start"
"""Setting of a result: held-out AUC of an encoder that had not started to learn when its pre-training ended, else
missing."""
WORDS_ARE_BETTER = (
    "The bag of words is as good or better here and is trained in seconds: TF-IDF with a linear model, as in "
    "scikit-learn."
)
"""Sentences behind the advice on a network whose score is not above that of a bag of words."""


class Rival(NamedTuple):
    """A rival of a score: another score, with which the score is compared.

    Args:
        name: name in a sentence, such as `the bag of words`.
        error: standard error of the difference of both scores, in the unit of the score.
        note: words behind the comparison, with what else a reader must know about the rival; "" for nothing.
        is_of_words: whether the rival is a bag of words, which a user can take in place of a network.
        lower_is_better: whether less is better, in both scores.
    """

    name: str
    score: float
    error: float
    note: str = ""
    is_of_words: bool = False
    lower_is_better: bool = False


class Comparison(NamedTuple):
    """A score on one split, on which there is a verdict, and its rivals, the best first."""

    score: float
    rivals: Sequence[Rival]


def gain(score: float, rival: Rival) -> float:
    """Return by how much a score is better than that of a rival, in the unit of the score; negative if it is worse."""
    return rival.score - score if rival.lower_is_better else score - rival.score


def standing(score: float, rival: Rival) -> int:
    """Return 1 if a score is clearly better than a rival's, -1 if it is clearly worse, 0 if that is unclear."""
    difference = gain(score, rival)
    return 0 if abs(difference) <= CLEAR_ERRORS * rival.error else int(math.copysign(1, difference))


def verdict(
    subject: str,
    score: float,
    rivals: Sequence[Rival],
    show: Callable[[float], str],
    sample: str,
    why_none: str = "",
) -> Verdict:
    """Return a verdict: a sentence that compares a score with each rival, good if it is clearly better than all.

    Args:
        subject: beginning of the sentence: the score by name, with its value.
        show: function that returns a score, or a difference of scores, as text.
        sample: what the errors come from, such as `83 texts`.
        why_none: the reason why there is no verdict, such as `40 texts are too few`; "" if there is one.
    """
    if why_none:
        return Verdict(f"{subject}; no verdict: {why_none}.", None)
    if not rivals:
        return Verdict(f"{subject}.", None)
    comparisons = []
    for rival in rivals:
        difference = score - rival.score
        side = "above" if difference >= 0 else "below"
        of_rival = f"{rival.name} ({show(rival.score)}), by {show(abs(difference))}"
        error = f"{show(rival.error)} with {sample}"
        text = f"not clearly {side} {of_rival}, at most twice the error of {error}"
        if standing(score, rival):
            text = f"{side} {of_rival} (± {error})"
        comparisons.append(f"{text}{rival.note}")
    return Verdict(f"{subject}: {'; '.join(comparisons)}.", all(standing(score, rival) > 0 for rival in rivals))


def is_disappointing(score: float, rivals: Sequence[Rival]) -> bool:
    """Return True if a score is not clearly better than the worst rival, or not better than the best one.

    Usually the worst rival gives one answer to all rows, and the best is a bag of words. Without rivals, return False.
    """
    if not rivals:
        return False
    ordered = sorted(rivals, key=lambda rival: gain(score, rival))
    return standing(score, ordered[-1]) <= 0 or gain(score, ordered[0]) <= 0


def advice(comparisons: Sequence[Comparison], result: Result, cut: float) -> str:
    """Return sentences on what to try if a score disappoints, and on a better bag of words; "" for good scores.

    Networks that start from random weights are baselines themselves, and get no advice.

    Args:
        comparisons: comparisons on the development set, and on the test set if it is scored.
        result: one of the runs with these scores.
        cut: share of the texts, in [0, 1], of which the network reads only the beginning.
    """
    if result.start == "scratch" or not any(
        is_disappointing(comparison.score, comparison.rivals) for comparison in comparisons
    ):
        return ""
    is_behind = any(
        rival.is_of_words and gain(comparison.score, rival) <= 0
        for comparison in comparisons
        for rival in comparison.rivals
    )
    parts = [things_to_try(result, cut), WORDS_ARE_BETTER if is_behind else ""]
    return " ".join(filter(None, parts))


def things_to_try(result: Result, cut: float) -> str:
    """Return a sentence that says what to try after a low score; "" if nothing can be advised.

    Args:
        result: the run, whose settings and numbers decide what may help.
        cut: share of the texts, in [0, 1], of which the network reads only the beginning.
    """
    settings = result.settings
    if on_encoder := advice_on_encoder(result):
        return on_encoder
    if "num_train_epochs" not in settings or settings.get("features"):  # the encoder was not fine-tuned
        return ""
    parts = []
    rows = result.rows.get("train", 0)
    in_windows = settings.get("long_texts") == "windows"
    batch = math.prod(
        settings.get(name, 1) for name in ("per_device_train_batch_size", "gradient_accumulation_steps", "processes")
    )
    epochs = settings["num_train_epochs"]
    steps = math.ceil(math.ceil(rows / batch) * epochs)
    wanted = min(MOST_ADVISED_EPOCHS, math.ceil(FEW_STEPS / math.ceil(rows / batch))) if rows else 0
    are_few = steps < FEW_STEPS and wanted > epochs and not in_windows  # in windows, a run has more steps
    options = [f"--num_train_epochs {wanted}"] if are_few else []
    if result.parameters < SMALL_NETWORK:
        if settings.get("learning_rate", SMALL_RATE) < SMALL_RATE:
            options.append("--learning_rate 1e-3")
        if settings.get("layerwise_lr_decay", 1.0) < 1:
            options.append("--layerwise_lr_decay 1")
        if settings.get("head") in FIRST_TOKEN_HEADS and settings.get(CAN_READ_MEAN):
            options.append("--head hf_mean")
    if options:
        why = f"more than {steps} steps may help" if are_few else "this network is small"
        parts.append(f"{why}: try {' '.join(options)}, with another --experiment_name")
    if cut > MOST_CUT and "long_texts" in settings and not in_windows:
        length = settings["max_length"]
        parts.append(f"{100 * cut:.0f} % of the texts are cut at {length} tokens: try --long_texts windows")
    if result.model == TINY_EN:
        parts.append(f"as {TINY_EN} has read English only, name another encoder for texts of another language")
    elif not result.collapsed:
        parts.append("pre-training for longer, or on more text, may help")
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def advice_on_encoder(result: Result) -> str:
    """Return the advice to pre-train for longer, if the encoder of a result had not started to learn; else ""."""
    auc = result.settings.get(NOT_STARTED)
    if auc is None:
        return ""
    return (
        f"The encoder had not started to learn when its pre-training ended (AUC {auc:.3f}): pre-train it for longer "
        "(--resume_from_checkpoint RUN, with a larger --max_steps) before you try anything else."
    )


def too_few(examples: int, unit: str) -> str:
    """Return why a number of examples allows no verdict; "" if it allows one.

    Args:
        unit: what the examples are, in the plural.
    """
    return f"{examples} {unit} are fewer than {FEWEST_EXAMPLES}" if examples < FEWEST_EXAMPLES else ""


def for_a_verdict(unit: str) -> str:
    """Return a sentence that says what to do if a development set is too small for a verdict.

    Args:
        unit: see `too_few`.
    """
    return (
        f"For a verdict, label more {unit}, or hold out {FEWEST_EXAMPLES} or more of them (--validation_fraction, "
        "--validation_file)."
    )


def too_unknown(unknown: float) -> str:
    """Return why a share of unknown tokens, in [0, 1], allows no verdict; "" if it allows one."""
    return f"{unknown:.0%} of the tokens are unknown to the tokenizer" if unknown > MOST_UNKNOWN else ""


def paired_error(differences: Collection[float]) -> float:
    """Return the standard error of the mean difference between two scores of the same rows.

    It is computed with two more rows, of differences 1 and -1, so that it is not 0 where no row differs. For rows that
    are right or wrong, this is the adjusted Wald interval of Bonett and Price (2012).

    Args:
        differences: for each row, its value in the one score minus that in the other, see `Task.row_scores`.
    """
    values = [*differences, 1.0, -1.0]
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values)) / len(values)


def sampling_error(metric: Metric, score: float, examples: int) -> float:
    """Return the standard error of a score that the number of examples gives; 0 for a metric without a rule.

    Args:
        metric: metric of the score, whose `error` names the rule.
        score: the score, as a fraction or a correlation.
        examples: number of the examples that are scored.
    """
    if metric.error == "none":
        return 0.0
    if metric.error == "correlation":
        return (1 - min(abs(score), 1.0) ** 2) / math.sqrt(examples)
    share = (min(max(score, 0.0), 1.0) * examples + 1) / (examples + 2)  # no error of 0 where all is right
    return math.sqrt(share * (1 - share) / examples)
