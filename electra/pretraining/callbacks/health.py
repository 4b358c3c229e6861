"""Whether the pair learns, read from the log of its evaluations: warnings while it trains, a sentence at the end.

A small discriminator normally predicts the base rate for millions of tokens before it starts to learn. With too strong
a generator or too high a learning rate it never gets further. Its held-out AUC, and what came before, tell the two
apart.

An evaluation counts once the generator has settled: an untrained one samples random tokens, so the AUC is .84 at first
and falls to .55 while the generator learns token frequencies.
"""

import logging
import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from transformers import TrainerCallback, TrainerControl, TrainerState

logger = logging.getLogger(__name__)

State = Literal["not started", "learning", "collapsed", "no start within the budget"]

LEAD = 0.05
"""AUC above that of token frequencies by which a discriminator has started to learn. Frequencies give .53 to .56
against a settled generator (docs/results.md)."""
START_AUC = 0.55 + LEAD
FLAT_AUC = 0.515
"""Before a start: collapsed runs stay at .50 or .51, others, which use frequencies, at .52 or above."""
STAY_SHARE = 0.1
"""A collapse lasts for more than this share of the run so far; a spike of the loss does not."""
GENERATOR_MOVES = 0.5
"""Nats. Below this gain over random guesses a generator has not begun; below this gain while the steps double it has
settled. Its loss falls about evenly in the logarithm of the steps; the early fall takes 1 to 2 nats."""
START_BUDGET = 50_000_000
"""Tokens. The slowest healthy run, small_glue_cpu, started after 18 million."""
_LOWER = (
    "Try a lower --learning_rate (now {learning_rate:g}), a smaller --generator_size, a larger batch "
    "(--per_device_train_batch_size, --gradient_accumulation_steps), or a longer --warmup_steps (now {warmup_steps}). "
    "In a new run, the discriminator starts several times earlier with --initialization local (--discriminator_type "
    "electra or modernbert)."
)


class Evaluation(NamedTuple):
    """One held-out evaluation of the pair; losses in nats, `tokens_seen` as logged last before it."""

    step: int
    tokens_seen: int
    generator_loss: float
    discriminator_loss: float
    discriminator_auc: float
    discriminator_recall: float
    replaced_rate: float

    @property
    def base_rate_loss(self) -> float:
        """Entropy of the labels: the loss of the best discriminator that treats all tokens alike."""
        return -sum(p * math.log(p) for p in (self.replaced_rate, 1 - self.replaced_rate) if p > 0)


def evaluations_of(log_history: Iterable[Mapping[str, Any]]) -> list[Evaluation]:
    """The evaluations in a `TrainerState.log_history`, in order."""
    evaluations = []
    tokens_seen = 0
    for logs in log_history:
        tokens_seen = logs.get("tokens_seen", tokens_seen)
        if "eval_discriminator_auc" in logs:
            metrics = (logs[f"eval_{name}"] for name in Evaluation._fields[2:])
            evaluations.append(Evaluation(logs["step"], tokens_seen, *metrics))
    return evaluations


def assess(evaluations: Sequence[Evaluation], vocab_size: int, warmup_steps: int = 0) -> State:
    """The state of the discriminator after the last of the run's evaluations.

    An untrained generator's loss is about log `vocab_size`. No start is expected during the `warmup_steps`.
    """
    state: State = "not started"
    has_started = False
    flat_since: int | None = None
    for evaluation in _settled(evaluations, vocab_size):
        # After a start, half of it may be lost, or what frequencies give is left; before one, not even that is there.
        flat_auc = START_AUC - LEAD if has_started else FLAT_AUC
        if evaluation.discriminator_auc >= START_AUC:
            state = "learning"
            has_started = True
            flat_since = None
        elif evaluation.discriminator_auc <= flat_auc:
            flat_since = evaluation.step if flat_since is None else flat_since
            if evaluation.step - flat_since > STAY_SHARE * evaluation.step:
                state = "collapsed"
        else:
            flat_since = None
        is_late = evaluation.tokens_seen >= START_BUDGET and evaluation.step > 2 * warmup_steps
        if state == "not started" and is_late:
            state = "no start within the budget"
    return state


def _settled(evaluations: Sequence[Evaluation], vocab_size: int) -> Iterator[Evaluation]:
    """Those with a generator whose early fall is over."""
    for evaluation, earlier in _with_half(evaluations):
        gain = earlier.generator_loss - evaluation.generator_loss
        if not _has_not_begun(evaluation, vocab_size) and gain <= GENERATOR_MOVES:
            yield evaluation


def _with_half(evaluations: Sequence[Evaluation]) -> Iterator[tuple[Evaluation, Evaluation]]:
    """Each evaluation with the last one at half as many steps or fewer, if there is one."""
    steps = [evaluation.step for evaluation in evaluations]
    for evaluation in evaluations:
        before = bisect_right(steps, evaluation.step / 2)
        if before:
            yield evaluation, evaluations[before - 1]


def _has_not_begun(evaluation: Evaluation, vocab_size: int) -> bool:
    return evaluation.generator_loss > math.log(vocab_size) - GENERATOR_MOVES


def diagnose(
    evaluations: Sequence[Evaluation], vocab_size: int, warmup_steps: int, frequencies_auc: float
) -> tuple[str, str]:
    """What the evaluations of a run say, and what to try; for the arguments see `assess` and `verdict`."""
    last = evaluations[-1]
    lowest = min(evaluation.generator_loss for evaluation in evaluations)
    if not last.generator_loss <= lowest + GENERATOR_MOVES:
        rise = f"its held-out loss rose from {lowest:.2f} to {last.generator_loss:.2f} nats"
        return f"the generator has collapsed: {rise}", "Start from an earlier checkpoint with a lower --learning_rate."
    if _has_not_begun(last, vocab_size):
        loss = (
            f"its held-out loss is {last.generator_loss:.2f} nats, that of random guesses {math.log(vocab_size):.2f}"
        )
        return f"the generator stands still: {loss}", "Try more --max_steps, or fewer --warmup_steps."
    state = assess(evaluations, vocab_size, warmup_steps)
    if state == "learning" or last.discriminator_auc >= frequencies_auc + LEAD:
        return "the discriminator has started to learn", ""
    if state == "collapsed":
        return "the discriminator has collapsed: its output is nearly the same for all tokens", _LOWER
    if state == "no start within the budget":
        return f"the discriminator has not started to learn in {last.tokens_seen:,} tokens", _LOWER
    if not any(_with_half(evaluations)):
        return "there are too few evaluations to say whether the discriminator learns", "Lower --eval_steps."
    return (
        "the discriminator has not started to learn yet",
        "This is normal for millions of tokens: raise --max_steps.",
    )


class DiscriminatorHealth(TrainerCallback):
    """Logs one line when an evaluation changes the state, as a warning unless learning has started."""

    def __init__(self, vocab_size: int) -> None:
        self.vocab_size = vocab_size

    def on_evaluate(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        evaluations = evaluations_of(state.log_history)  # Trainer has logged this one already
        if not evaluations:
            return
        warmup_steps = args.get_warmup_steps(state.max_steps)
        before = assess(evaluations[:-1], self.vocab_size, warmup_steps)
        now = assess(evaluations, self.vocab_size, warmup_steps)
        if now != before:
            level = logging.INFO if now == "learning" else logging.WARNING
            logger.log(level, self.verdict(args, state))

    def verdict(self, args: Any, state: TrainerState, frequencies_auc: float = math.nan) -> str:
        """One line: what the evaluations say, the numbers of the last one, and what to try.

        `frequencies_auc` is the AUC of token frequencies alone on the same masks, where it is known.
        """
        evaluations = evaluations_of(state.log_history)
        if not evaluations:
            return ""
        last = evaluations[-1]
        warmup_steps = args.get_warmup_steps(state.max_steps)
        what, advice = diagnose(evaluations, self.vocab_size, warmup_steps, frequencies_auc)
        advice = advice.format(learning_rate=args.learning_rate, warmup_steps=warmup_steps)
        baseline = "" if math.isnan(frequencies_auc) else f" (token frequencies alone: {frequencies_auc:.3f})"
        return (
            f"step {last.step}: {what}. Held-out AUC {last.discriminator_auc:.3f}{baseline}, recall "
            f"{last.discriminator_recall:.3f}, loss {last.discriminator_loss:.4f} (the base rate alone: "
            f"{last.base_rate_loss:.4f}). {advice}".rstrip()
        )
