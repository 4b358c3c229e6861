"""What a resumed run must agree with its checkpoint in, besides its text (origin.py): tokenizer, networks, stages."""

import json
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from electra.errors import UserError
from electra.model.modeling import ElectraForJointPretraining
from electra.model.pretrained import load_tokenizer_beside_model
from electra.pretraining.origin import read_state
from electra.tokenization import tokenizer_fingerprint


def check_same_tokenizer(tokenizer: PreTrainedTokenizerBase, checkpoint: Path) -> None:
    """Refuse to resume with another tokenizer than the checkpoint's."""
    saved = load_tokenizer_beside_model(str(checkpoint))
    if tokenizer_fingerprint(saved) != tokenizer_fingerprint(tokenizer):
        raise UserError(
            f"the tokenizer ({len(tokenizer)} tokens) is not the one of {checkpoint} ({len(saved)} tokens); "
            f"leave --tokenizer_path out to use the checkpoint's"
        )


def check_steps(checkpoint: Path, max_steps: int) -> None:
    """Refuse to resume for fewer steps than were taken."""
    step = read_state(checkpoint).global_step
    if step > max_steps:
        raise UserError(f"{checkpoint} is at step {step}, beyond --max_steps {max_steps}; ask for more steps")


def generator_steps_of(asked: int | None, max_steps: int, checkpoint: str | None) -> int:
    """Optimizer steps of the generator's stage: those asked for, else the resumed checkpoint's, else half of them.

    Raises:
        UserError: one of the two stages would have none.
    """
    resumed = _saved_config(Path(checkpoint)).get("generator_steps") if checkpoint is not None else None
    steps = asked or resumed or max_steps // 2
    if max_steps < 2:
        raise UserError(f"--max_steps {max_steps} is not enough for two stages, each of which needs one; ask for more")
    if not 0 < steps < max_steps:
        raise UserError(
            f"--generator_steps {steps} is not possible: it must be above 0 and below --max_steps {max_steps}; "
            "each stage needs some"
        )
    return int(steps)


def _saved_config(checkpoint: Path) -> dict[str, Any]:
    try:
        saved: dict[str, Any] = json.loads((checkpoint / "config.json").read_text())
    except (OSError, ValueError) as error:
        raise UserError(f"{checkpoint} holds no readable config.json; name another checkpoint") from error
    if not isinstance(saved, dict):
        raise UserError(f"{checkpoint} holds a config.json that is no mapping; name another checkpoint")
    return saved


def check_same_architecture(model: ElectraForJointPretraining, checkpoint: Path) -> None:
    """Refuse to resume for another objective or with networks of other sizes, naming the differences."""
    saved = _saved_config(checkpoint)
    if not isinstance(saved.get("discriminator"), dict):
        raise UserError(f"{checkpoint} holds a config.json of no pair of networks; name another checkpoint")
    objective = saved.get("objective", "electra")
    if objective != model.config.objective:
        raise UserError(
            f"{checkpoint} was trained with --objective {objective}, not {model.config.objective}; leave --objective "
            "out to go on with it, or start a new run"
        )
    was_uniform = bool(saved.get("uniform_generator"))
    if was_uniform != model.config.uniform_generator:
        raise UserError(
            f"{checkpoint} was trained {'with' if was_uniform else 'without'} --generator_type uniform; leave "
            "--generator_type out to go on with it, or start a new run"
        )
    generator_steps = saved.get("generator_steps", 0)
    if generator_steps != model.config.generator_steps:
        raise UserError(
            f"{checkpoint} was trained with --generator_steps {generator_steps}, not {model.config.generator_steps}; "
            "leave --generator_steps out to go on with it, or start a new run"
        )
    was_initialized = saved.get("init_from_generator", model.config.init_from_generator)  # older ones do not say
    if was_initialized != model.config.init_from_generator:
        raise UserError(
            f"{checkpoint} was trained with --init_from_generator {str(bool(was_initialized)).lower()}, not "
            f"{str(model.config.init_from_generator).lower()}; leave it as it was to go on, or start a new run"
        )
    old, new = _architecture(saved), _architecture(model.config.to_dict())
    differences = [
        f"{name} is {value} there and {new[name]} here" for name, value in old.items() if new.get(name, value) != value
    ]
    if differences:
        raise UserError(f"the model is not the one of {checkpoint}: {'; '.join(differences[:4])}")


def _architecture(config: dict[str, Any]) -> dict[str, Any]:
    """What decides on the weights of a joint model: types, what is shared, and sizes, which are its whole numbers."""
    found = {
        "tie": config.get("tie", "embeddings"),
        "tie_embedding_projection": config.get("tie_embedding_projection", False),
    }
    for network in ("discriminator", "generator"):
        for name, value in (config.get(network) or {}).items():
            is_size = isinstance(value, int) and not isinstance(value, bool) and not name.endswith("_token_id")
            if is_size or name == "model_type":
                found[f"{network}.{name}"] = value
    return found
