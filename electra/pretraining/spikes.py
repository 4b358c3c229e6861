"""Logged losses -> a warning when one has jumped: bad text, too high a learning rate, or the beginning of the end.

A loss is compared with the median of its last few logged values, in units of the noise: how much it usually changes
from one line of the log to the next, which a slow fall or rise hardly adds to. A floor of a tenth keeps the calm of a
late run from making news of noise. All is read off the log, so a resumed run needs no memory. Each network's loss
counts by itself: their sum changes with lambda and with the stages of a run.
"""

import logging
import math
import statistics
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from tqdm.auto import tqdm
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from electra.objectives import OBJECTIVES

logger = logging.getLogger(__name__)

LOSSES = ("generator_loss", *sorted({objective.loss_name for objective in OBJECTIVES.values()}))
WINDOW = 20
"""Logged values that tell the noise; with fewer than half of them nothing is said."""
LAST = 5
"""Those of them whose median is the level."""
DEVIATIONS = 6.0
"""Standard deviations of the noise above the level, ..."""
LEAST_RISE = 0.1
"""... and at least this share of it: a spike."""


def is_spike(before: Sequence[float], loss: float) -> bool:
    """Whether a loss stands out above those logged before it, newest last.

    Args:
        before: any number, only the last `WINDOW` count; single spikes among them hardly matter.
    """
    recent = [value for value in before[-WINDOW:] if math.isfinite(value)]
    if len(recent) < WINDOW // 2:
        return False
    level = statistics.median(recent[-LAST:])
    changes = [abs(later - earlier) for earlier, later in pairwise(recent)]
    noise = 1.4826 * statistics.median(changes) / math.sqrt(2)  # a change is the difference of two values
    return loss > level + max(DEVIATIONS * noise, LEAST_RISE * abs(level))


class LossSpikes(TrainerCallback):
    """Warns once when a loss leaves its course; the next warning is for the next time it does."""

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
        for name in LOSSES:
            if name not in logs:
                continue
            before = [entry[name] for entry in state.log_history[:-1] if name in entry]  # the last one is `logs`
            if is_spike(before, logs[name]) and not (before and is_spike(before[:-1], before[-1])):
                with tqdm.external_write_mode():
                    logger.warning(
                        "step %d: %s is %.4f, up from %.4f: a spike. If it does not fall again, go on from a "
                        "checkpoint before it with a lower --learning_rate or --max_grad_norm (now %g and %g).",
                        state.global_step,
                        name,
                        logs[name],
                        before[-1],
                        args.learning_rate,
                        args.max_grad_norm,
                    )
