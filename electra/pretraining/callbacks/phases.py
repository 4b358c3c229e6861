"""Which networks a step trains: the stages of an objective, the generator's gate.

`phase_at` is a pure function of step, log history and options, which a checkpoint restores, so a resumed run trains
what an uninterrupted one would. `TrainingPhases` sets it at every step as attributes of the joint model.

A network that is not trained gets no gradient instead of a zero one, so the optimizer neither decays nor moves it.
"""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from transformers import TrainerCallback, TrainerControl, TrainerState

from electra.model.joint import ElectraForJointPretraining
from electra.model.options import ObjectiveArguments
from electra.model.tying import encoder_weights

logger = logging.getLogger(__name__)


class Phase(NamedTuple):
    """What one optimizer step trains; attributes of the joint model."""

    train_generator: bool
    train_discriminator: bool


def phase_at(step: int, log_history: Sequence[Mapping[str, Any]], options: ObjectiveArguments) -> Phase:
    """Return what the step after `step` optimizer steps trains; `options` are resolved.

    A gate uses the last evaluation before the step, except that of the untrained pair at step 0. A metric that is nan
    is below every threshold.
    """
    if options.generator_steps:
        is_first = step < options.generator_steps
        return Phase(is_first, not is_first)
    is_open = True
    if options.generator_gate:
        metric, threshold = options.generator_gate
        name = f"eval_{metric}"
        values = (logs[name] for logs in reversed(log_history) if name in logs and logs["step"] > 0)
        is_open = next(values, math.inf) >= float(threshold)
    return Phase(is_open, True)


def stage_lengths(max_steps: int, generator_steps: int | None) -> list[int]:
    """Return the steps of each stage of a run, in order; `generator_steps` is 0 or None where there is one stage."""
    return [generator_steps, max_steps - generator_steps] if generator_steps else [max_steps]


@dataclass(eq=False)
class TrainingPhases(TrainerCallback):
    """Sets attributes of the joint model before each step; logs one line when a network starts or stops training."""

    model: ElectraForJointPretraining  # itself, not a wrapper
    options: ObjectiveArguments

    def on_step_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        phase = phase_at(state.global_step, state.log_history, self.options)
        self.model.train_generator, self.model.train_discriminator = phase
        if self.options.generator_steps == state.global_step > 0:
            start = "its own initial weights"
            if self.options.init_from_generator:
                sources = encoder_weights(self.model.generator)
                for name, parameter in encoder_weights(self.model.discriminator).items():
                    parameter.data.copy_(sources[name])
                start = "the generator's weights"
            line = "step %d: the generator is frozen; the discriminator starts from %s and is trained alone"
            logger.info(line, state.global_step, start)
