"""What a checkpoint was trained on, and whether a resumed run goes on with the same.

The samples of a run are numbered, and a step takes the next `batch_size` of them: with another batch, or with another
corpus behind the numbers, a resumed run would see some text twice and some never, and nobody would notice.
"""

import hashlib
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers import TrainerState

from electra.errors import UserError
from electra.pretraining.manifest import ORIGIN_NAME

logger = logging.getLogger(__name__)

FIRST_HELD_OUT = "first_held_out_text"
"""Name of what was evaluated on before the first step; None of a run that began before it was kept."""
_SAME_AVERAGES = {"adamw_torch", "adamw_torch_fused"}


def fingerprint_of(content_hashes: NDArray[np.uint64]) -> str:
    """Of documents in their order."""
    return hashlib.blake2b(content_hashes.tobytes(), digest_size=16).hexdigest()


def origin_of(
    content_hashes: NDArray[np.uint64],
    training_documents: NDArray[np.int64],
    held_out: str,
    batch_size: int,
    *,
    bf16: bool,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """The record that is kept in each checkpoint.

    Args:
        content_hashes: of the corpus; its documents count, not the files they came from.
        training_documents: those of them that are trained on.
        held_out: fingerprint of the documents that are evaluated on.
        batch_size: segments of an optimizer step, of all devices and accumulated batches.
        bf16: whether the run computes in it.
        options: what cannot change within a run, by name: what decides on the segments and their order, and whose
            averages the optimizer has.
    """
    return {
        "corpus": fingerprint_of(content_hashes),
        "documents": len(content_hashes),
        "training_text": fingerprint_of(content_hashes[training_documents]),
        "training_documents": len(training_documents),
        FIRST_HELD_OUT: held_out,
        "batch_size": batch_size,
        "bf16": bf16,
        "options": dict(options),
    }


def check_same_origin(checkpoint: Path, origin: dict[str, Any], batch: str) -> dict[str, Any]:
    """Refuse to resume on other documents or segments or with another batch or optimizer, warn of another precision.

    Older checkpoints say none of it, or not all.

    Args:
        checkpoint: to resume.
        origin: of this run, see `origin_of`.
        batch: what its batch is made of, for the message.
    Returns:
        the record to keep from here on: `origin`, with what the run was evaluated on before its first step.
    Raises:
        UserError: something differs; the message names it.
    """
    path = checkpoint / ORIGIN_NAME
    if not path.is_file():
        return {**origin, FIRST_HELD_OUT: None}
    try:
        saved = json.loads(path.read_text())
        corpus, documents = str(saved["corpus"]), int(saved["documents"])
        saved_batch_size = int(saved["batch_size"])
        options = dict(saved.get("options", {}))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is no record of a corpus; name an older checkpoint, or another run") from error
    if saved_batch_size != origin["batch_size"]:
        raise UserError(
            f"{checkpoint} was trained with {saved_batch_size} segments a step, not {origin['batch_size']} "
            f"({batch}): the position in the corpus would be lost; make the product the same again"
        )
    if corpus != origin["corpus"]:
        raise UserError(
            f"{checkpoint} was trained on another corpus, of {documents:,} documents, this one has "
            f"{origin['documents']:,}; name the same one, or start a new run with --init_discriminator and "
            "--init_generator"
        )
    for name, now in origin["options"].items():
        before = options.get(name)
        if before not in (None, now) and not {before, now} <= _SAME_AVERAGES:
            raise UserError(
                f"{checkpoint} was trained with --{name} {_as_given(before)}, not {_as_given(now)}; leave it as it "
                "was, or start a new run"
            )
    if saved.get("training_text") not in (None, origin["training_text"]):
        raise UserError(
            f"{checkpoint} was trained on {saved.get('training_documents')} of these documents, this run would be on "
            f"{origin['training_documents']}, others among them, held out before or now; leave --validation_fraction "
            "and --validation_file as they were, or start a new run"
        )
    if saved.get("bf16") not in (None, origin["bf16"]):
        logger.warning(
            "%s was trained with --bf16 %s, this run goes on with --bf16 %s: say which you want",
            checkpoint,
            str(saved["bf16"]).lower(),
            str(origin["bf16"]).lower(),
        )
    return {**origin, FIRST_HELD_OUT: saved.get(FIRST_HELD_OUT)}


def _as_given(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_state(checkpoint: Path) -> TrainerState:
    """Where a checkpoint is in its run.

    Raises:
        UserError: its trainer_state.json is none.
    """
    path = checkpoint / "trainer_state.json"
    try:
        state = TrainerState.load_from_json(str(path))
        if not isinstance(state.global_step, int) or not isinstance(state.max_steps, int):
            raise TypeError("steps that are no numbers")
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise UserError(f"{path} is no state of a run ({error}); name an older checkpoint, or another run") from error
    return state


def describe_longer_run(checkpoint: Path, max_steps: int) -> str | None:
    """One line on what asking for another number of steps does to the learning rate; None if it is the same."""
    state = read_state(checkpoint)
    before, step = state.max_steps, state.global_step
    if before in (0, max_steps):  # 0: it does not say
        return None
    return (
        f"max_steps was {before:,} and is {max_steps:,}: from step {step:,} on the learning rate is that of the new "
        "schedule, which it would not have had before; the result is not that of one uninterrupted run"
    )
