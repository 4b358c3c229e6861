"""Whether the pair learns, read from the log of its evaluations: warnings while it trains, a sentence at the end.

A small discriminator normally predicts the base rate for millions of tokens before it starts to learn. With too strong
a generator or too high a learning rate it never gets further.
"""

import logging
import math
from dataclasses import dataclass
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState

logger = logging.getLogger(__name__)

LEAD = 0.05
"""AUC above that of token frequencies from which a discriminator has started to learn."""
FREQUENCIES_AUC = 0.55
"""What frequencies give against a trained generator: .53 to .56 (docs/results.md)."""
GENERATOR_MOVES = 0.5
"""Nats. Below this gain over random guesses a generator has not begun; a loss that rises by more has collapsed."""
START_BUDGET = 25_000_000
"""Tokens. The slowest healthy run, small_glue_cpu, started after 18 million."""
VERDICTS = {
    "generator collapsed": (
        "the generator has collapsed: its held-out loss rose to {generator_loss:.2f} nats",
        "Start from an earlier checkpoint with a lower --learning_rate.",
    ),
    "generator stands still": (
        "the generator stands still: its held-out loss is {generator_loss:.2f} nats, close to that of random guesses",
        "Try more steps ({more}), or fewer --warmup_steps.",
    ),
    "learning": ("the discriminator has started to learn", ""),
    "late": (
        "the discriminator does not learn, after {tokens:,} tokens",
        "Try a lower --learning_rate, a smaller --generator_size, a larger batch (--per_device_train_batch_size, "
        "--gradient_accumulation_steps), or a longer --warmup_steps. In a new run, the discriminator starts several "
        "times earlier with --initialization local (--discriminator_type electra or modernbert).",
    ),
    "not started": (
        "the discriminator has not started to learn yet",
        "This is normal for millions of tokens: {more}.",
    ),
}
"""State of the pair -> what it means, and what to try; {more}: how to get more steps."""


def base_rate_loss(replaced_rate: float) -> float:
    """Return the entropy of the labels in nats: the loss of the best discriminator that treats all tokens alike."""
    return -sum(p * math.log(p) for p in (replaced_rate, 1 - replaced_rate) if p > 0)


@dataclass(eq=False)
class DiscriminatorHealth(TrainerCallback):
    """Logs a warning when the generator collapses, and when the discriminator is late.

    Args:
        vocab_size: the loss of an untrained generator is about its logarithm.
        more: how the user gets more steps.
    """

    vocab_size: int
    more: str = "raise --max_steps"
    _last: str = ""

    def on_evaluate(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        before = self._last
        self._last = self.assess(args, state)
        if self._last != before and self._last in ("generator collapsed", "late"):
            logger.warning(self.verdict(args, state))

    def assess(self, args: Any, state: TrainerState, frequencies_auc: float = FREQUENCIES_AUC) -> str:
        """Return the state of the pair at the last evaluation, a key of `VERDICTS`.

        An untrained generator samples random tokens, of which frequencies detect more: give `frequencies_auc`, their
        AUC on the same masks, where it is known.
        """
        evaluations = [logs for logs in state.log_history if "eval_discriminator_auc" in logs]
        last = evaluations[-1]
        loss = last["eval_generator_loss"]
        # A resumed run may be evaluated on other text, of which losses cannot be compared.
        of_this_text = [logs for logs in evaluations if logs.get("eval_tokens") == last.get("eval_tokens")]
        losses = [logs["eval_generator_loss"] for logs in of_this_text]
        if not loss <= min(losses) + GENERATOR_MOVES:  # also nan
            return "generator collapsed"
        if loss > math.log(self.vocab_size) - GENERATOR_MOVES:
            return "generator stands still"
        is_better = last["eval_discriminator_loss"] < base_rate_loss(last["eval_replaced_rate"])
        if is_better and last["eval_discriminator_auc"] >= frequencies_auc + LEAD:
            return "learning"
        is_warm = last["step"] > 2 * args.get_warmup_steps(state.max_steps)
        return "late" if is_warm and state.num_input_tokens_seen >= START_BUDGET else "not started"

    def verdict(self, args: Any, state: TrainerState, frequencies_auc: float = FREQUENCIES_AUC) -> str:
        """Return one line: the state, the numbers of the last evaluation, and what to try."""
        last = next(logs for logs in reversed(state.log_history) if "eval_discriminator_auc" in logs)
        what, advice = VERDICTS[self.assess(args, state, frequencies_auc)]
        what = what.format(generator_loss=last["eval_generator_loss"], tokens=state.num_input_tokens_seen)
        advice = advice.format(more=self.more)
        base_rate = base_rate_loss(last["eval_replaced_rate"])
        return (
            f"step {last['step']}: {what}. Held-out AUC {last['eval_discriminator_auc']:.3f} (token frequencies: "
            f"{frequencies_auc:.3f}), recall {last['eval_discriminator_recall']:.3f}, loss "
            f"{last['eval_discriminator_loss']:.4f} (the base rate alone: {base_rate:.4f}). {advice}".rstrip()
        )
