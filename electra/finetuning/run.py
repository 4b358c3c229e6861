"""From an encoder and encoded examples to scored logits: one fine-tuning run."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import (
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
    set_seed,
)

from electra.finetuning.encoding import Rows
from electra.finetuning.trainer import FineTuner, Hyperparameters, Loss, Machine, step_loss, training_arguments
from electra.kernels import tune_networks, tune_process

Logits = dict[str, NDArray[np.float32]]


class Outcome(NamedTuple):
    """What a run leaves: the logits of each development split, after how many epochs, and the trained model."""

    logits: Logits
    epoch: float
    trainer: FineTuner


class KeepBest(TrainerCallback):
    """Evaluates after each epoch and keeps the weights of the best one, in memory."""

    def __init__(self, evaluate: Callable[[], tuple[float, Logits]]) -> None:
        super().__init__()
        self.evaluate = evaluate
        self.best: tuple[float, Logits, float, dict[str, Tensor]] | None = None

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **kwargs: Any
    ) -> None:
        score, logits = self.evaluate()
        if self.best is None or score > self.best[0]:
            weights = {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}
            self.best = score, logits, float(state.epoch or 0), weights


def fine_tune(
    make_model: Callable[[], nn.Module],
    settings: Hyperparameters,
    machine: Machine,
    *,
    seed: int,
    train: Rows,
    dev: Mapping[str, Rows],
    score: Callable[[Logits], float],
    collator: Callable[[Any], dict[str, Tensor]],
    loss: Loss = step_loss,
    folder: Path,
    name: str,
    callbacks: Sequence[TrainerCallback] = (),
) -> Outcome:
    """Train a model, an encoder with a fresh head, and predict the development splits.

    Everything random follows from the seed: the encoder's weights where they are fresh, the head's, dropout, the
    order of the data.

    Args:
        make_model: the encoder to start from with its head; called once, after seeding.
        train, dev: rows with labels; dev by name of split.
        score: what --select best maximises, from the logits of the development splits.
        collator, loss: as of `FineTuner`.
        folder, name: where trackers write, and what they call the run.
    """
    args = training_arguments(settings, machine, seed=seed, folder=folder, name=name)
    set_seed(seed)
    model = make_model()
    tune_process(args.device)
    tune_networks(model)
    trainer = FineTuner(settings, model=model, args=args, train_dataset=train, collator=collator, loss=loss)

    def predict() -> Logits:
        return {split: trainer.predict_logits(examples) for split, examples in dev.items()}

    def evaluate() -> tuple[float, Logits]:
        logits = predict()
        return score(logits), logits

    keep_best = KeepBest(evaluate) if settings.select == "best" else None
    for callback in [*callbacks, *([keep_best] if keep_best else [])]:
        trainer.add_callback(callback)
    trainer.train()
    if keep_best is None or keep_best.best is None:
        return Outcome(predict(), float(trainer.state.epoch or 0), trainer)
    _, logits, epoch, weights = keep_best.best
    model.load_state_dict(weights)
    return Outcome(logits, epoch, trainer)
