"""Warnings when the discriminator collapses, or does not start to learn; read from the log alone.

A small discriminator normally predicts the base rate for millions of tokens before it starts to learn. With too strong
a generator or too high a learning rate it never gets further. The held-out loss against the entropy of the labels, the
AUC, and what came before tell the two apart.

An evaluation counts once the generator has settled: an untrained one samples random tokens, so the AUC is .84 at first
and falls to .55 while the generator learns token frequencies.
"""

import logging
import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from tqdm.auto import tqdm
from transformers import TrainerCallback, TrainerControl, TrainerState

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
"""Maximum number of nats by which a settled generator improves while the steps double. Its loss falls about evenly in
the logarithm of the steps, so the interval between evaluations does not matter. The early fall takes 1 to 2 nats."""
SETTLED_BELOW_UNIFORM = 1.0
"""Nats below log V; nearer to it, the fall has not begun, as in a long warm-up. Frequencies alone give 1.5."""
MIN_REPLACED = 1_000
"""Replaced tokens of an evaluation that counts: the standard error of an AUC near .5 is sqrt(1/12000) = .009."""


class Evaluation(NamedTuple):
    """One held-out evaluation of the pair; losses in nats, `tokens_seen` as logged last before it."""

    step: int
    tokens_seen: int
    generator_loss: float
    discriminator_loss: float
    discriminator_auc: float
    discriminator_recall: float
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
        # Flat: after a start no better than frequencies, before one worse than they are.
        flat_auc, flat_gain = (FALLEN_AUC, START_GAIN) if has_started else (FLAT_AUC, FLAT_GAIN)
        if evaluation.gain >= START_GAIN and evaluation.discriminator_auc >= START_AUC:
            state, has_started, flat_since = "learning", True, None
        elif (
            evaluation.discriminator_auc <= flat_auc
            and evaluation.gain < flat_gain
            and evaluation.discriminator_recall <= FLAT_RECALL
        ):
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
    """Logs one line when an evaluation changes the state, as a warning unless learning has started."""

    def __init__(self, vocab_size: int) -> None:
        self.vocab_size = vocab_size

    def on_evaluate(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        evaluations = evaluations_of(state.log_history)  # Trainer has logged this one already
        if not evaluations or not state.is_world_process_zero:
            return
        warmup_steps = args.get_warmup_steps(state.max_steps)
        before, now = (assess(e, self.vocab_size, warmup_steps) for e in (evaluations[:-1], evaluations))
        if now != before:
            with tqdm.external_write_mode():  # not at the end of the progress bar's line
                level = logging.INFO if now == "learning" else logging.WARNING
                logger.log(level, self.verdict(args, state))

    def verdict(self, args: Any, state: TrainerState) -> str:
        """One line: the state after the last evaluation, the numbers it follows from, and what to try."""
        evaluations = evaluations_of(state.log_history)
        if not evaluations:
            return ""
        last, warmup_steps = evaluations[-1], args.get_warmup_steps(state.max_steps)
        if not list(_settled(evaluations, self.vocab_size)):
            return (
                f"step {last.step}: too early to say whether the discriminator learns: the generator has not settled, "
                "or there are too few evaluations"
            )
        advice = (
            f". Try a lower --learning_rate (now {args.learning_rate:g}), a smaller --generator_size, a larger batch "
            "(--per_device_train_batch_size, --gradient_accumulation_steps), or a longer --warmup_steps (now "
            f"{warmup_steps}). In a new run, the discriminator starts several times earlier with --initialization "
            "local (--discriminator_type electra or modernbert)."
        )
        patience = ". This is normal for millions of tokens: continue with more --max_steps"
        what, advice = {
            "learning": ("has started to learn", ""),
            "not started": ("has not started to learn yet", patience),
            "collapsed": ("has collapsed: its output is nearly the same for all tokens", advice),
            "no start within the budget": (f"has not started to learn in {last.tokens_seen:,} tokens", advice),
        }[assess(evaluations, self.vocab_size, warmup_steps)]
        return (
            f"step {last.step}: the discriminator {what}: held-out AUC {last.discriminator_auc:.3f}, recall "
            f"{last.discriminator_recall:.3f}, loss {last.discriminator_loss:.4f} (from the base rate alone: "
            f"{last.base_rate_loss:.4f}){advice}"
        )
