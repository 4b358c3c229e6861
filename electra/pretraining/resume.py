"""Resuming a run: which options must stay, which may change, and the record of both in each checkpoint.

The samples of a run are numbered, and a step takes the next `batch_size` of them. With another batch size or another
corpus a resumed run would see some text twice and some never, unnoticed; with other masks its metrics could not be
compared with earlier ones. So each option has a rule (`Resuming` in electra/options.py): its value is kept, or
recorded, or its effect is compared (documents, tokenizer, networks, batch size), or it changes nothing that is learned
or measured.
"""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.optim.lr_scheduler import LambdaLR, LRScheduler
from transformers import PreTrainedTokenizerBase, TrainerState

from electra.io.checkpoints import LOADING_ERRORS, ORIGIN_NAME
from electra.io.errors import UserError, first_line, is_out_of_memory
from electra.io.files import absolute, absolute_if_there, absolute_named
from electra.options import ALIASES
from electra.pretraining.configuration import RESUMING

if TYPE_CHECKING:
    from electra.model.joint import ElectraForJointPretraining

logger = logging.getLogger(__name__)

BEST_METRIC_OPTIONS = {
    "metric_for_best_model",
    "greater_is_better",
    "validation_file",
    "validation_fraction",
    "max_eval_segments",
    "held_out_text",
}
"""If one of them changes, the best metric so far cannot be compared with later ones."""
_HELD_OUT = {"validation_file", "validation_fraction", "eval_corruption"}
"""Options that name held-out text, whose content is compared."""
_PATHS = ("init_discriminator", "init_generator", "eval_corruption")
_BY_OBJECTIVE = (
    "mlm_replacement_probability",
    "mlm_random_probability",
    "discriminator_weight",
    "generator_steps",
    "init_from_generator",
)
"""Options whose values, where they are not given, are in the model's config.json."""
_SAME_AVERAGES = {"adamw_torch", "adamw_torch_fused"}
_STATEFUL_SCHEDULES = {"reduce_lr_on_plateau", "greedy"}
"""Their learning rate is not a function of the step, so it cannot change on resuming."""


@dataclass(frozen=True)
class Origin:
    """What a run is trained and evaluated on, and with which options: origin.json of a checkpoint.

    Attributes:
        corpus, training_text, held_out_text: fingerprints of documents; of the second, those not held out.
        first_held_out_text: fingerprint of what was evaluated on before the first step.
        batch_size: segments of an optimizer step, over all devices.
        options: resolved ones, by name, that are kept or recorded.
        changes: of earlier starts, each with step, option, before and now.
    """

    corpus: str
    documents: int
    training_text: str
    training_documents: int
    held_out_text: str
    first_held_out_text: str = ""
    batch_size: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    changes: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def read(cls, checkpoint: Path) -> "Origin":
        """The record of a checkpoint; earlier versions have other names, and no fingerprint after the first."""
        path = checkpoint / ORIGIN_NAME
        try:
            saved = json.loads(path.read_text())
            saved.setdefault("held_out_text", saved["first_held_out_text"])
            saved["options"] = {ALIASES.get(name, name): value for name, value in saved["options"].items()}
            return cls(**{f.name: saved[f.name] for f in fields(cls)})
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{path} does not describe a run; name an older checkpoint, or another run") from error

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def origin_of(
    options: Mapping[str, Any], model: "ElectraForJointPretraining", text: Origin, batch_size: int
) -> Origin:
    """The origin of this start, with resolved options. The model knows values that the objective sets."""
    config = model.config.to_dict()
    kept = {name: options[name] for name, rule in RESUMING.items() if rule in ("kept", "recorded")}
    kept |= {name: config[name] for name in _BY_OBJECTIVE}
    kept |= {name: kept[name] and absolute_if_there(kept[name]) for name in _PATHS}
    kept["validation_file"] = [*map(absolute_named, kept["validation_file"])]
    as_read = json.loads(json.dumps(kept, default=lambda value: value.value))
    return replace(text, first_held_out_text=text.held_out_text, batch_size=batch_size, options=as_read)


def check_resumed(checkpoint: Path, origin: Origin, model: "ElectraForJointPretraining") -> Origin:
    """Refuse text, networks or options that would make it another run; log options that changed.

    `origin` is of this start. It is returned with the text that was evaluated on before the first step, and all
    changes so far.
    """
    saved = Origin.read(checkpoint)
    _check_architecture(checkpoint, model)  # first: it sets defaults of other options
    before = saved.options
    now = dict(origin.options)
    # A path that is gone since is still the same path.
    now |= {name: before[name] for name in _PATHS if now[name] and absolute(now[name]) == before.get(name)}
    different = [name for name in now if name in before and before[name] != now[name]]
    if {before.get("optim"), now["optim"]} <= _SAME_AVERAGES:
        different = [name for name in different if name != "optim"]
    if saved.held_out_text == origin.held_out_text:
        different = [name for name in different if name not in _HELD_OUT]
    kept = _kept_options(before, now)
    for name in different:
        if name in kept:
            was = f"{checkpoint} was trained with --{name} {_shown(before[name])}, not {_shown(now[name])}"
            raise UserError(f"{was}; leave it as it was, or start a new run")
    _check_text(checkpoint, saved, origin)
    step = read_state(checkpoint).global_step
    changes = [{"step": step, "option": name, "before": before[name], "now": now[name]} for name in different]
    if saved.held_out_text != origin.held_out_text and not _HELD_OUT & {*different}:
        texts = {"before": saved.held_out_text[:8], "now": origin.held_out_text[:8]}
        changes.append({"step": step, "option": "held_out_text", **texts})
    for line in describe(changes):
        schedule = "; the learning rate follows the new schedule" if "max_steps" in different else ""
        logger.warning("%s%s", line, schedule)
    return replace(
        origin,
        options=now,
        first_held_out_text=saved.first_held_out_text,
        changes=[*saved.changes, *changes],
    )


def _kept_options(before: Mapping[str, Any], now: Mapping[str, Any]) -> set[str]:
    """Names of options whose value must stay."""
    kept = {name for name, rule in RESUMING.items() if rule == "kept"}
    if {before.get("lr_scheduler_type"), now["lr_scheduler_type"]} & _STATEFUL_SCHEDULES:
        kept |= {"lr_scheduler_type", "lr_scheduler_kwargs", "learning_rate", "muon_learning_rate"}
    if None in (before.get("muon_learning_rate"), now["muon_learning_rate"]):  # Adam's averages are not Muon's
        kept.add("muon_learning_rate")
    return kept


def _check_architecture(checkpoint: Path, model: "ElectraForJointPretraining") -> None:
    old = _architecture(saved_config(checkpoint))
    new = _architecture(model.config.to_dict())
    different = [name for name in old if name in new and old[name] != new[name]]
    if different:
        words = "; ".join(f"{name} is {old[name]} there and {new[name]} here" for name in different[:4])
        raise UserError(f"the model differs from the one in {checkpoint}: {words}; keep its sizes, or start a new run")


def _check_text(checkpoint: Path, saved: Origin, origin: Origin) -> None:
    if saved.batch_size != origin.batch_size:
        raise UserError(
            f"{checkpoint} was trained with {saved.batch_size} segments per step, not {origin.batch_size}: its place "
            f"in the corpus would be lost; batch size x accumulation x processes must be {saved.batch_size}"
        )
    if saved.corpus != origin.corpus:
        raise UserError(
            f"{checkpoint} was trained on another corpus ({saved.documents:,} documents, not {origin.documents:,}); "
            "use it, or start a new run with --init_discriminator and --init_generator"
        )
    if saved.training_text != origin.training_text:
        raise UserError(
            f"{checkpoint} was trained on {saved.training_documents} of these documents, not on the "
            f"{origin.training_documents} now chosen; keep --validation_fraction and --validation_file as they were"
        )


def describe(changes: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line for each step at which a run was resumed with other options."""
    lines: dict[int, list[str]] = {}
    for change in changes:
        words = f"{change['option']} {_shown(change['now'])} instead of {_shown(change['before'])}"
        lines.setdefault(change["step"], []).append(" ".join(words.split()))
    return [f"from step {step:,} on: {', '.join(words)}" for step, words in lines.items()]


def _shown(value: object) -> str:
    if value is None or value == []:
        return "none"
    if isinstance(value, list):
        return " ".join(map(str, value))
    return json.dumps(value) if isinstance(value, bool | dict) else str(value)


def _architecture(config: Mapping[str, Any]) -> dict[str, Any]:
    """What determines the weights of a joint model: model types, tying, and sizes, which are the integers."""
    defaults = {"uniform_generator": False, "tie": "embeddings"}
    found = {name: config.get(name, default) for name, default in defaults.items()}
    for network in ("discriminator", "generator"):
        for name, value in (config.get(network) or {}).items():
            if name == "model_type" or (type(value) is int and not name.endswith("_token_id")):
                found[f"{network}.{name}"] = value
    return found


def saved_config(checkpoint: Path | str) -> dict[str, Any]:
    """The joint model's configuration of a checkpoint."""
    try:
        saved = json.loads((Path(checkpoint) / "config.json").read_text())
        if not isinstance(saved, dict) or not isinstance(saved.get("discriminator"), dict):
            raise ValueError("it does not describe a pair of networks")
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read config.json in {checkpoint}: {error}; name another checkpoint") from error
    return saved


def saved_options(checkpoint: Path) -> Mapping[str, Any]:
    """The options of a checkpoint by name; none if it has no readable record, which `check_resumed` refuses."""
    try:
        return Origin.read(checkpoint).options
    except UserError:
        return {}


def generator_steps_of(asked: int | None, max_steps: int, checkpoint: str | None) -> int:
    """Optimizer steps of the generator's stage: the given number, else the resumed checkpoint's, else half."""
    resumed = saved_config(checkpoint).get("generator_steps") if checkpoint is not None else None
    steps = asked or resumed or max_steps // 2
    if not 0 < steps < max_steps:
        raise UserError(
            f"--generator_steps {steps} with --max_steps {max_steps} is not possible: each stage needs a step"
        )
    return int(steps)


def tokenizer_of(checkpoint: Path, named: str | None) -> PreTrainedTokenizerBase:
    """The checkpoint's own tokenizer, even if the one of --tokenizer_path, `named`, has been moved."""
    from electra.model.pretrained import load_tokenizer_beside_model  # takes seconds, and parsing needs this module
    from electra.tokenizers.load import tokenizer_fingerprint

    own = load_tokenizer_beside_model(str(checkpoint))
    try:
        other = own if named is None else load_tokenizer_beside_model(named)
    except UserError as error:
        logger.warning("%s; using the tokenizer in %s", error, checkpoint)
        return own
    if tokenizer_fingerprint(own) != tokenizer_fingerprint(other):
        raise UserError(
            f"the tokenizer {named} ({len(other)} tokens) is not the one of {checkpoint} ({len(own)} tokens); "
            "omit --tokenizer_path to use the checkpoint's"
        )
    return own


def read_state(checkpoint: Path) -> TrainerState:
    path = checkpoint / "trainer_state.json"
    try:
        state = TrainerState.load_from_json(str(path))
        if not isinstance(state.global_step, int):
            raise TypeError("its step is not an integer")
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise UserError(f"cannot read {path}: {error}; name an older checkpoint, or another run") from error
    return state


@contextmanager
def translate_loading_errors(checkpoint: str | None, part: str) -> Iterator[None]:
    """One line for a file that Trainer cannot load. It loads with `weights_only`: a pickle that runs code fails."""
    try:
        yield
    except LOADING_ERRORS as error:
        if isinstance(error, UserError) or is_out_of_memory(error):
            raise
        reason = first_line(error)
        raise UserError(
            f"{checkpoint}: its {part} cannot be loaded ({reason}); it belongs to another run or was written by "
            "another program: name another checkpoint"
        ) from error


@contextmanager
def keeping_options(optimizer: torch.optim.Optimizer, schedule: LRScheduler | None) -> Iterator[None]:
    """Restore the options' learning rate, decay and betas after the block has loaded a checkpoint's over them.

    Loading an optimizer replaces its parameter groups, loading a schedule its base rates.
    """
    # Truth values choose a kernel, to which the loaded state belongs.
    options = [
        {n: v for n, v in group.items() if n not in ("params", "lr") and v is not None and not isinstance(v, bool)}
        for group in optimizer.param_groups
    ]
    base_rates = list(getattr(schedule, "base_lrs", []))
    yield
    for group, given in zip(optimizer.param_groups, options, strict=True):
        group.update(given)
    if isinstance(schedule, LambdaLR):
        schedule.base_lrs = base_rates
        factors = [factor(schedule.last_epoch) for factor in schedule.lr_lambdas]
        rates = [base * factor for base, factor in zip(base_rates, factors, strict=True)]  # as torch does
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        schedule._last_lr = rates
