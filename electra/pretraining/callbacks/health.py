"""Warnings when the discriminator collapses, or when a training loss jumps. Both are read from the log alone.

A small discriminator can predict the base rate for millions of tokens before it starts to learn, which is normal. With
too strong a generator or too high a learning rate it also ends at the base rate, and stays there. Loss and accuracy
look the same in both cases; the held-out loss against the entropy of the labels, the AUC, and what came before tell
them apart.

The first few hundred steps prove nothing: an untrained generator's samples are random tokens, so the AUC is .84 at
first and falls to .55 while the generator learns token frequencies. So an evaluation counts only once the generator
has settled.
"""

import logging
import math
import statistics
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from tqdm.auto import tqdm
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from electra.objectives import OBJECTIVES

logger = logging.getLogger(__name__)

State = Literal["not started", "learning", "collapsed", "no start within the budget"]

START_GAIN = 0.01
"""Nats below the entropy of the labels. [CLS], [SEP] and token frequencies alone give .006 or .007 (glue_cpu)."""
START_AUC = 0.60
"""Token frequencies alone give .53 to .56 against a settled generator (docs/results.md)."""
FALLEN_AUC = 0.55
"""After a start: what token frequencies give, or less. Clearly below START_AUC, so noise does not end a start."""
FLAT_GAIN = 0.002
"""Without a start: less than [CLS], [SEP] and frequencies. Collapsed runs stay within .001 of 0, others above .004."""
FLAT_AUC = 0.515
"""The same for AUC: collapsed runs reach .50 or .51, others at least .520. With long rows, which have few special
tokens, the loss alone would not tell them apart."""
FLAT_RECALL = 0.02
"""Almost nothing is predicted as replaced. Also true before a start: necessary for a collapse, not sufficient."""
STAY_SHARE = 0.1
"""A collapse lasts for more than this share of the run so far; a spike of the loss does not."""
NO_START_TOKENS, NO_START_STEPS = 50_000_000, 20_000
"""The budget for a start, both of them, after warm-up: a large batch means few steps, a small one few tokens. The
slowest healthy run, glue_cpu, started after 18 million tokens and 9,000 steps."""
SETTLED_FALL = 0.5
"""Most nats by which a settled generator improves while the steps double. Its loss falls about evenly in the logarithm
of the steps, so the interval between evaluations does not matter. The early fall takes 1 to 2 nats."""
SETTLED_BELOW_UNIFORM = 1.0
"""Least nats below log V, else it has not begun, as in a long warm-up. Frequencies alone give 1.5."""
MIN_REPLACED = 1_000
"""Replaced tokens of an evaluation that counts: the standard error of an AUC near .5 is sqrt(1/12000) = .009."""

LOSSES = ("generator_loss", *sorted({objective.loss_name for objective in OBJECTIVES.values()}))
"""Each is watched for itself: their sum changes with lambda and between stages."""
WINDOW = 20
"""Logged values that give the noise; nothing is reported with fewer than half of them."""
LEVEL = 5
"""Last values whose median is the level."""
DEVIATIONS, LEAST_RISE = 6.0, 0.1
"""A spike rises above the level by this many standard deviations of the noise, and by this share of the level."""


@dataclass(frozen=True)
class Evaluation:
    """One held-out evaluation of the pair; losses in nats, `tokens_seen` as logged last before it."""

    step: int
    tokens_seen: int
    generator_loss: float
    discriminator_loss: float
    auc: float
    recall: float
    replaced_rate: float
    tokens: float

    @property
    def base_rate_loss(self) -> float:
        """Entropy of the labels: the loss of the best discriminator that treats all tokens alike."""
        return -sum(p * math.log(p) for p in (self.replaced_rate, 1 - self.replaced_rate) if p > 0)

    @property
    def gain(self) -> float:
        """Nats below the base rate's loss."""
        return self.base_rate_loss - self.discriminator_loss


def evaluations_of(log_history: Iterable[Mapping[str, Any]]) -> list[Evaluation]:
    """The evaluations in a `TrainerState.log_history`, in order."""
    evaluations, tokens_seen = [], 0
    for logs in log_history:
        tokens_seen = logs.get("tokens_seen", tokens_seen)
        if "eval_discriminator_auc" in logs:
            evaluations.append(
                Evaluation(
                    step=logs["step"],
                    tokens_seen=tokens_seen,
                    generator_loss=logs["eval_generator_loss"],
                    discriminator_loss=logs["eval_discriminator_loss"],
                    auc=logs["eval_discriminator_auc"],
                    recall=logs["eval_discriminator_recall"],
                    replaced_rate=logs["eval_replaced_rate"],
                    tokens=logs["eval_tokens"],
                )
            )
    return evaluations


def assess(evaluations: Sequence[Evaluation], *, vocab_size: int, warmup_steps: int = 0) -> State:
    """The state of the discriminator after the last evaluation.

    Args:
        evaluations: all of the run so far, steps ascending.
        vocab_size: V; an untrained generator's loss is about log V.
        warmup_steps: of the learning rate; a start is not expected within them.
    """
    state: State = "not started"
    has_started = False
    flat_since: int | None = None
    for evaluation in _settled(evaluations, vocab_size):
        # Flat: after a start no better than frequencies, before one worse than they are.
        flat_auc, flat_gain = (FALLEN_AUC, START_GAIN) if has_started else (FLAT_AUC, FLAT_GAIN)
        if evaluation.gain >= START_GAIN and evaluation.auc >= START_AUC:
            state, has_started, flat_since = "learning", True, None
        elif evaluation.auc <= flat_auc and evaluation.gain < flat_gain and evaluation.recall <= FLAT_RECALL:
            flat_since = evaluation.step if flat_since is None else flat_since
            if evaluation.step - flat_since > STAY_SHARE * evaluation.step:
                state = "collapsed"
        else:
            flat_since = None
        is_late = evaluation.tokens_seen >= NO_START_TOKENS and evaluation.step - warmup_steps >= NO_START_STEPS
        if state == "not started" and is_late:
            state = "no start within the budget"
    return state


def _settled(evaluations: Sequence[Evaluation], vocab_size: int) -> Iterable[Evaluation]:
    """Those with enough replaced tokens and a generator whose early fall is over."""
    steps = [evaluation.step for evaluation in evaluations]
    for evaluation in evaluations:
        earlier = bisect_right(steps, evaluation.step / 2) - 1  # the last one at half as many steps or fewer
        if (
            earlier >= 0
            and evaluation.replaced_rate * evaluation.tokens >= MIN_REPLACED
            and evaluation.generator_loss <= math.log(vocab_size) - SETTLED_BELOW_UNIFORM
            and evaluations[earlier].generator_loss - evaluation.generator_loss <= SETTLED_FALL
        ):
            yield evaluation


class DiscriminatorHealth(TrainerCallback):
    """Logs one line when an evaluation changes the state, as a warning unless learning has started.

    Args:
        vocab_size: of both networks.
    """

    def __init__(self, vocab_size: int) -> None:
        self.vocab_size = vocab_size

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        evaluations = evaluations_of(state.log_history)  # Trainer has logged this one already
        if not evaluations or not state.is_world_process_zero:
            return
        warmup_steps = args.get_warmup_steps(state.max_steps)
        before, now = (
            assess(some, vocab_size=self.vocab_size, warmup_steps=warmup_steps)
            for some in (evaluations[:-1], evaluations)
        )
        if now != before:
            with tqdm.external_write_mode():  # not at the end of the progress bar's line
                level = logging.INFO if now == "learning" else logging.WARNING
                logger.log(level, describe(now, evaluations[-1], args.learning_rate, warmup_steps))

    def verdict(self, args: TrainingArguments, state: TrainerState) -> str:
        """The state after the last evaluation, in words; empty if there was none."""
        evaluations = evaluations_of(state.log_history)
        if not evaluations:
            return ""
        if not list(_settled(evaluations, self.vocab_size)):
            return (
                f"step {evaluations[-1].step}: too early to say whether the discriminator learns: the generator has "
                "not settled, or there are too few evaluations"
            )
        warmup_steps = args.get_warmup_steps(state.max_steps)
        now = assess(evaluations, vocab_size=self.vocab_size, warmup_steps=warmup_steps)
        return describe(now, evaluations[-1], args.learning_rate, warmup_steps)


def describe(state: State, last: Evaluation, learning_rate: float, warmup_steps: int) -> str:
    """One line: the state, the numbers it follows from, and what to try."""
    numbers = (
        f"held-out AUC {last.auc:.3f}, recall {last.recall:.3f}, loss {last.discriminator_loss:.4f} where the base "
        f"rate alone gives {last.base_rate_loss:.4f}"
    )
    if state == "learning":
        return f"step {last.step}: the discriminator has started to learn: {numbers}"
    if state == "not started":
        return (
            f"step {last.step}: the discriminator has not started to learn yet: {numbers}. This is normal for "
            "millions of tokens: continue with more --max_steps"
        )
    if state == "collapsed":
        what = "the discriminator has collapsed: its output is nearly the same for all tokens"
    else:
        what = f"the discriminator has not started to learn in {last.tokens_seen:,} tokens"
    return (
        f"step {last.step}: {what}: {numbers}. Try a lower --learning_rate (now {learning_rate:g}), a smaller "
        "--generator_size, a larger batch (--per_device_train_batch_size, --gradient_accumulation_steps), or a "
        f"longer --warmup_steps (now {warmup_steps}). Learned positions start slowest: --discriminator_type "
        "deberta-v2, with relative ones, needs far fewer tokens."
    )


def is_spike(before: Sequence[float], loss: float) -> bool:
    """Whether a loss stands out above those logged before it.

    It is compared with the median of the last few, in units of the noise: the median change from one logged value to
    the next, which a slow trend hardly affects.

    Args:
        before: newest last; only the last `WINDOW` count, and single spikes among them hardly matter.
    """
    recent = [value for value in before[-WINDOW:] if math.isfinite(value)]
    if len(recent) < WINDOW // 2:
        return False
    level = statistics.median(recent[-LEVEL:])
    changes = [abs(later - earlier) for earlier, later in pairwise(recent)]
    noise = 1.4826 * statistics.median(changes) / math.sqrt(2)  # a change is the difference of two values
    return loss > level + max(DEVIATIONS * noise, LEAST_RISE * abs(level))


class LossSpikes(TrainerCallback):
    """Warns once when a loss jumps, and again the next time it does."""

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if not state.is_world_process_zero or not logs:
            return
        for name in (name for name in LOSSES if name in logs):
            before = [entry[name] for entry in state.log_history[:-1] if name in entry]  # the last one is `logs`
            if is_spike(before, logs[name]) and not is_spike(before[:-1], before[-1]):
                with tqdm.external_write_mode():
                    logger.warning(
                        "step %d: %s is %.4f, up from %.4f: a spike. If it does not fall again, resume from an "
                        "earlier checkpoint with a lower --learning_rate or --max_grad_norm (now %g and %g).",
                        state.global_step,
                        name,
                        logs[name],
                        before[-1],
                        args.learning_rate,
                        args.max_grad_norm,
                    )
