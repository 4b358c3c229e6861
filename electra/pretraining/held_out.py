"""On what a run is evaluated beside its training: held-out texts by name, a fixed corrupted test set."""

from collections.abc import Sequence

from electra.config import SegmentArguments
from electra.errors import UserError
from electra.files import split_name
from electra.objectives import OBJECTIVES
from electra.pretraining.metrics import fixed_names, rows_of


def held_out_texts(validation_file: Sequence[str]) -> dict[str, list[str]]:
    """Files of each held-out text of --validation_file by its name; those without a name are one text, the first."""
    texts: dict[str, list[str]] = {}
    for given in validation_file:
        name, path = split_name(given)
        texts.setdefault(name, []).append(path)
    ordered = {name: texts[name] for name in sorted(texts, key=lambda name: name != "")}
    metrics = {metric for objective in OBJECTIVES for metric, _ in rows_of(objective)} | {*fixed_names()}
    for name in ordered:
        if name and any(metric.startswith(f"{name}_") for metric in metrics):
            raise UserError(f"--validation_file {name}=...: {name}_ begins names of metrics; choose another name")
    return ordered


def evaluates(segments: SegmentArguments, eval_strategy: str) -> bool:
    """Whether text is held out and evaluated on."""
    return eval_strategy != "no" and (segments.validation_fraction > 0 or bool(segments.validation_file))


def check_eval_corruption(segments: SegmentArguments, objective: str, eval_strategy: str) -> None:
    """Refuse --eval_corruption in a run without a discriminator or without evaluations."""
    path, spec = segments.eval_corruption, OBJECTIVES[objective]
    if path is None:
        return
    if not spec.finds_replaced or spec.is_energy_based:
        raise UserError(
            f"--eval_corruption {path} does not work with --objective {objective}, which trains no network "
            "to find replaced tokens; leave it out"
        )
    if not evaluates(segments, eval_strategy):
        raise UserError(
            f"--eval_corruption {path} needs held-out text and --eval_strategy steps or epoch: both are evaluated"
        )
