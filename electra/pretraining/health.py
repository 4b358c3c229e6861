"""Held-out evaluations -> the state of the discriminator, and a warning when it has collapsed.

A small discriminator answers with the base rate for millions of tokens before it starts to learn, and that is normal.
One that was given too strong a generator or too high a learning rate ends at the base rate, too, and stays there. The
loss and the accuracy look the same in both; what tells them apart is the held-out loss against the entropy of the
labels, the AUC, and what came before. `assess` reads them off a run's history alone, so a resumed run needs no memory.

The first few hundred steps prove nothing. An untrained generator's samples are random tokens: AUC is .84 at first, and
falls to .55 while the generator learns what is frequent. That is neither a start nor a collapse, hence an evaluation
counts only once the generator has settled (`_settled`).
"""

import logging
import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tqdm.auto import tqdm
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

logger = logging.getLogger(__name__)

State = Literal["not started", "learning", "collapsed", "no start within the budget"]

START_GAIN = 0.01
"""Nats below the entropy of the labels. [CLS], [SEP] and token frequencies alone bring .006 or .007 (glue_cpu)."""
START_AUC = 0.60
"""Token frequencies alone bring .53 to .56 against a settled generator (docs/results.md)."""
FALLEN_AUC = 0.55
"""After a start: what token frequencies bring, or less. Clearly below START_AUC, so that noise ends no start."""
FLAT_GAIN = 0.002
"""Without a start: not even [CLS], [SEP] and frequencies. Collapsed ones stay within .001 of 0, others above .004."""
FLAT_AUC = 0.515
"""The same for AUC: collapsed ones come to .50 or .51, living ones stay at .520 or more. Long rows, with few special
tokens, leave less to gain: there the loss alone would not tell them apart."""
FLAT_RECALL = 0.02
"""Next to nothing is called replaced. Low before a start, too: necessary for a collapse, never sufficient."""
STAY_SHARE = 0.1
"""A collapse has lasted for more than this share of the run so far: a spike of the loss has not."""
NO_START_TOKENS = 50_000_000
"""The budget. The slowest healthy run measured, glue_cpu, started after 18 million tokens, ..."""
NO_START_STEPS = 20_000
"""... 9,000 steps. Steps count from the end of warm-up on. Both must be used up: a big batch is few steps, a small one
few tokens."""
SETTLED_FALL = 0.5
"""Nats by which a settled generator improves while the steps double. Over a doubling, because its loss falls about
evenly in the logarithm of the steps: how often a run evaluates makes no difference. The early fall takes 1 to 2."""
SETTLED_BELOW_UNIFORM = 1.0
"""Nats below log V that it has reached, else it has not begun, as in a long warm-up. Frequencies alone bring 1.5."""
MIN_REPLACED = 1_000
"""Replaced tokens in an evaluation worth judging: the standard error of an AUC near .5 is sqrt(1/12000) = .009."""


@dataclass(frozen=True)
class Evaluation:
    """What one held-out evaluation says of the pair; losses in nats, `tokens_seen` as last logged before it."""

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
        """Entropy of the labels: the loss of the best discriminator that tells no token from another."""
        return -sum(p * math.log(p) for p in (self.replaced_rate, 1 - self.replaced_rate) if p > 0)

    @property
    def gain(self) -> float:
        """Nats below the base rate's loss."""
        return self.base_rate_loss - self.discriminator_loss


def evaluations_of(log_history: Iterable[Mapping[str, Any]]) -> list[Evaluation]:
    """The evaluations in a `TrainerState.log_history`, in its order."""
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
    """The state of the discriminator after the last of a run's evaluations.

    Args:
        evaluations: all of the run so far, steps ascending.
        vocab_size: V; an untrained generator's loss is about log V.
        warmup_steps: of the learning rate; they do not count as time in which it should have started.
    """
    state: State = "not started"
    has_started = False
    flat_since: int | None = None
    for evaluation in _settled(evaluations, vocab_size):
        if evaluation.gain >= START_GAIN and evaluation.auc >= START_AUC:
            state, has_started, flat_since = "learning", True, None
        elif _is_flat(evaluation, has_started):
            flat_since = evaluation.step if flat_since is None else flat_since
            if evaluation.step - flat_since > STAY_SHARE * evaluation.step:
                state = "collapsed"
        else:
            flat_since = None
        if (
            state == "not started"
            and evaluation.tokens_seen >= NO_START_TOKENS
            and evaluation.step - warmup_steps >= NO_START_STEPS
        ):
            state = "no start within the budget"
    return state


def _is_flat(evaluation: Evaluation, has_started: bool) -> bool:
    """At the base rate: after a start, no better than frequencies; before one, worse than they are."""
    auc, gain = (FALLEN_AUC, START_GAIN) if has_started else (FLAT_AUC, FLAT_GAIN)
    return evaluation.auc <= auc and evaluation.gain < gain and evaluation.recall <= FLAT_RECALL


def _settled(evaluations: Sequence[Evaluation], vocab_size: int) -> Iterable[Evaluation]:
    """Those that tell something: enough tokens, and a generator whose early fall is over."""
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
    """Says one line when an evaluation changes the state: information for a start, a warning for what needs action.

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
            with tqdm.external_write_mode():  # a line of its own, not the rest of the progress bar's
                level = logging.INFO if now == "learning" else logging.WARNING
                logger.log(level, describe_change(now, evaluations[-1], args.learning_rate, warmup_steps))


def describe_change(state: State, last: Evaluation, learning_rate: float, warmup_steps: int) -> str:
    """One line: what the last evaluation has shown, by which numbers, and what to try."""
    numbers = (
        f"held-out AUC {last.auc:.3f}, recall {last.recall:.3f}, loss {last.discriminator_loss:.4f} where the base "
        f"rate alone gives {last.base_rate_loss:.4f}"
    )
    if state == "learning":
        return f"step {last.step}: the discriminator has started to learn: {numbers}"
    if state == "collapsed":
        what = "the discriminator has collapsed, it gives every token nearly the same answer"
    else:
        what = f"the discriminator has not started to learn in {last.tokens_seen:,} tokens"
    return (
        f"step {last.step}: {what}: {numbers}. Try a lower --learning_rate (now {learning_rate:g}), a smaller "
        "--generator_size, a larger batch (--per_device_train_batch_size, --gradient_accumulation_steps), or a "
        f"longer --warmup_steps (now {warmup_steps}). Learned positions start slowest: --discriminator_type "
        "deberta-v2, with relative ones, needs far fewer tokens."
    )
