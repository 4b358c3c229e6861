"""Which network a step trains, and with what weight: stages, the generator's gate, the warm-up of lambda.

`phase_at` is a pure function of step, log history and options, which a checkpoint restores, so a resumed run trains
what an uninterrupted one would. `TrainingPhases` sets it at every step as attributes of the joint model.

A network that is not trained gets no gradient instead of a zero one, so the optimizer neither decays nor moves it.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from tqdm.auto import tqdm
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from electra.errors import UserError
from electra.model.joint import ElectraForJointPretraining
from electra.model.tying import difference, encoder_weights

logger = logging.getLogger(__name__)


class Phase(NamedTuple):
    """What one optimizer step trains."""

    train_generator: bool
    train_discriminator: bool
    discriminator_weight: float
    """Lambda of this step."""


class Gate(NamedTuple):
    """The generator is trained while a held-out metric is at least the threshold."""

    metric: str
    """Without `eval_`."""
    threshold: float


class PhaseOptions(NamedTuple):
    """What determines the phases of a run.

    Args:
        discriminator_weight: lambda.
        discriminator_warmup_steps: optimizer steps over which it rises; 0 for none.
        gate: of the generator, if it has one.
        generator_steps: optimizer steps of the generator's stage; 0 without stages.
        init_from_generator: the discriminator's stage starts from the generator's weights.
    """

    discriminator_weight: float
    discriminator_warmup_steps: int = 0
    gate: Gate | None = None
    generator_steps: int = 0
    init_from_generator: bool = True

    @property
    def leaves_out_networks(self) -> bool:
        """Whether some weights get no gradient in some steps."""
        return self.generator_steps > 0 or self.gate is not None


def phase_at(step: int, log_history: Sequence[Mapping[str, Any]], options: PhaseOptions) -> Phase:
    """What the step after `step` optimizer steps trains.

    Lambda rises from 1/N of its value in the first step to its full value in the Nth. A gate uses the last evaluation
    before the step, except that of the untrained pair at step 0. A metric that is nan is below every threshold.

    Args:
        step: optimizer steps taken, `TrainerState.global_step`.
        log_history: `TrainerState.log_history`, in its order.
        options: of the run.
    """
    if options.generator_steps:
        is_first = step < options.generator_steps
        return Phase(is_first, not is_first, options.discriminator_weight)
    rise = min(1.0, (step + 1) / options.discriminator_warmup_steps) if options.discriminator_warmup_steps else 1.0
    is_open = True
    if options.gate is not None:
        name = f"eval_{options.gate.metric}"
        values = (logs[name] for logs in reversed(log_history) if name in logs and logs["step"] > 0)
        is_open = bool(next(values, float("inf")) >= options.gate.threshold)
    return Phase(is_open, True, rise * options.discriminator_weight)


def stage_lengths(max_steps: int, generator_steps: int) -> list[int]:
    """Optimizer steps of each stage of a run, in order; `generator_steps` is 0 where there is only one."""
    return [generator_steps, max_steps - generator_steps] if generator_steps else [max_steps]


class TrainingPhases(TrainerCallback):
    """Sets the joint model's attributes before each step, and logs one line when a network starts or stops training.

    Args:
        model: the joint model itself, not a wrapper.
        options: of the run.
    """

    def __init__(self, model: ElectraForJointPretraining, options: PhaseOptions) -> None:
        self.model = model
        self.options = options

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._apply(state)

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        was_trained = self.model.train_generator
        self._apply(state)
        is_switch = self.options.generator_steps == state.global_step > 0
        if is_switch and self.options.init_from_generator:
            start_from_generator(self.model)
        if state.is_world_process_zero and (is_switch or was_trained != self.model.train_generator):
            with tqdm.external_write_mode():  # not at the end of the progress bar's line
                logger.info("step %d: %s", state.global_step, self._describe())

    def _apply(self, state: TrainerState) -> None:
        phase = phase_at(state.global_step, state.log_history, self.options)
        self.model.train_generator = phase.train_generator
        self.model.train_discriminator = phase.train_discriminator
        self.model.discriminator_weight = phase.discriminator_weight

    def _describe(self) -> str:
        if self.options.generator_steps:
            start = "the generator's weights" if self.options.init_from_generator else "its own initial weights"
            return f"the generator is frozen; the discriminator starts from {start} and is trained alone"
        assert self.options.gate is not None
        metric, threshold = self.options.gate
        if self.model.train_generator:
            return f"the generator is trained again: held-out {metric} is at least {threshold:g}"
        return f"the generator is not trained until held-out {metric} is at least {threshold:g}"


@torch.no_grad()
def start_from_generator(model: ElectraForJointPretraining) -> None:
    """Copy the generator's encoder, embeddings too, into the discriminator's.

    Raises:
        UserError: their weights differ in name or size.
    """
    check_same_encoders(model)
    assert model.generator is not None
    sources = encoder_weights(model.generator)
    for name, parameter in encoder_weights(model.discriminator).items():
        parameter.copy_(sources[name])


def check_same_encoders(model: ElectraForJointPretraining) -> None:
    """Refuse a discriminator that cannot start from the generator's weights."""
    assert model.generator is not None
    different = difference(model.generator, model.discriminator)
    if different is not None:
        raise UserError(
            f"the discriminator cannot start from the generator: {different}; choose equal sizes, or "
            "--no_init_from_generator"
        )
