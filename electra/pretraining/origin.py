"""What a checkpoint was trained on, and whether a resumed run goes on with the same.

The samples of a run are numbered, and a step takes the next `batch_size` of them: with another batch, or with another
corpus behind the numbers, a resumed run would see some text twice and some never, and nobody would notice.
"""

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

from electra.data.documents import TokenCache
from electra.errors import UserError
from electra.pretraining.manifest import ORIGIN_NAME

logger = logging.getLogger(__name__)


def origin_of(cache: TokenCache, batch_size: int) -> dict[str, Any]:
    """The record that is kept in each checkpoint.

    Args:
        cache: of the training corpus; its documents count, not the files they came from.
        batch_size: segments of an optimizer step, of all devices and accumulated batches.
    """
    corpus = hashlib.blake2b(cache.content_hashes.tobytes(), digest_size=16).hexdigest()
    return {"corpus": corpus, "documents": len(cache), "batch_size": batch_size}


def check_same_origin(checkpoint: Path, origin: dict[str, Any], batch: str) -> None:
    """Refuse to resume on other documents or with another batch; older checkpoints say neither.

    Args:
        checkpoint: to resume.
        origin: of this run, see `origin_of`.
        batch: what its batch is made of, for the message.
    Raises:
        UserError: something differs; the message names it.
    """
    path = checkpoint / ORIGIN_NAME
    if not path.is_file():
        return
    saved = json.loads(path.read_text())
    if saved["batch_size"] != origin["batch_size"]:
        raise UserError(
            f"{checkpoint} was trained with {saved['batch_size']} segments a step, not {origin['batch_size']} "
            f"({batch}): the position in the corpus would be lost; make the product the same again"
        )
    if saved["corpus"] != origin["corpus"]:
        raise UserError(
            f"{checkpoint} was trained on another corpus, of {saved['documents']:,} documents, this one has "
            f"{origin['documents']:,}; name the same one, or start a new run with --init_discriminator and "
            "--init_generator"
        )


def describe_longer_run(checkpoint: Path, max_steps: int) -> str | None:
    """One line on what asking for another number of steps does to the learning rate; None if it is the same."""
    state = json.loads((checkpoint / "trainer_state.json").read_text())
    before, step = state.get("max_steps", max_steps), state["global_step"]
    if before == max_steps:
        return None
    return (
        f"max_steps was {before:,} and is {max_steps:,}: from step {step:,} on the learning rate is that of the new "
        "schedule, which it would not have had before; the result is not that of one uninterrupted run"
    )
