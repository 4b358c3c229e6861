"""Resuming a run: which options must stay, which may change, and the record in each checkpoint that tells.

The samples of a run are numbered, and a step takes the next `batch_size` of them. With another batch size or another
corpus a resumed run would see some text twice and some never, unnoticed; with other masks its metrics could not be
compared with earlier ones. So every option of pre-training has a rule in `RULES`.
"""

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from enum import Enum
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from torch.optim.lr_scheduler import LambdaLR, LRScheduler
from transformers import PreTrainedTokenizerBase, TrainerState

from electra.checkpoint import ORIGIN_NAME
from electra.errors import UserError
from electra.files import absolute, absolute_if_there
from electra.model.joint import ElectraForJointPretraining
from electra.model.pretrained import load_tokenizer_beside_model
from electra.pretraining.options import GROUPS, Arguments
from electra.tokenizer import tokenizer_fingerprint

logger = logging.getLogger(__name__)


class Rule(Enum):
    """What resuming does with an option."""

    COMPARED = "its effect is compared: documents, tokenizer, networks, segments of a step"
    KEPT = "another value is refused: it would change the objective or the masks, or have no effect any more"
    NEW = "another value holds from here on; it is logged, and recorded with its step"
    FREE = "it changes nothing that is learned or measured"


_NAMES = {
    Rule.COMPARED: """
        dataset_name dataset_config_name dataset_split train_file dataset_sampling text_column document_separator
        tokenizer_path vocab_size discriminator_type generator_type embedding_size hidden_size num_hidden_layers
        num_attention_heads intermediate_size max_position_embeddings generator_size generator_layer_size
        generator_num_attention_heads generator_intermediate_size tie tie_embedding_projection
        per_device_train_batch_size gradient_accumulation_steps""",
    Rule.KEPT: """
        tokenizer_algorithm min_frequency lowercase strip_accents max_documents
        initializer_range initialization init_discriminator init_generator
        objective mlm_probability mlm_replacement_probability mlm_random_probability discriminator_weight
        generator_gate generator_steps init_from_generator temperature disallow_correct
        max_length segment_policy seed data_seed optim optim_args optim_target_modules adam_bias_correction""",
    Rule.NEW: """
        hidden_dropout_prob attention_probs_dropout_prob discriminator_warmup_steps
        validation_file validation_fraction max_eval_segments
        max_steps learning_rate lr_scheduler_type lr_scheduler_kwargs warmup_steps product_schedule weight_decay
        adam_beta1 adam_beta2 adam_epsilon max_grad_norm bf16 fp16 bf16_full_eval fp16_full_eval tf32
        logging_strategy logging_steps eval_strategy eval_steps eval_delay save_strategy save_steps
        checkpoint_fractions load_best_model_at_end metric_for_best_model greater_is_better dataloader_drop_last""",
    Rule.FREE: """
        cache_dir overwrite_cache model_size output_dir experiment_name run_name plan auto_resume
        resume_from_checkpoint max_hours max_skipped_steps num_train_epochs per_device_eval_batch_size
        eval_accumulation_steps eval_on_start eval_do_concat_batches eval_use_gather_object batch_eval_metrics
        prediction_loss_only include_for_metrics average_tokens_across_devices label_smoothing_factor
        activation_checkpointing activation_checkpointing_kwargs gradient_checkpointing gradient_checkpointing_kwargs
        torch_compile torch_compile_backend torch_compile_mode use_liger_kernel liger_kernel_config use_cache
        neftune_noise_alpha torch_empty_cache_steps auto_find_batch_size logging_first_step log_on_each_node
        logging_nan_inf_filter include_num_input_tokens_seen log_level log_level_replica disable_tqdm report_to project
        trackio_space_id trackio_bucket_id trackio_static_space_id save_only_model save_on_each_node save_total_limit
        enable_jit_checkpoint push_to_hub hub_token hub_private_repo hub_model_id hub_strategy hub_always_push
        hub_revision ignore_data_skip restore_callback_states_from_checkpoint full_determinism use_cpu
        accelerator_config parallelism_config dataloader_num_workers dataloader_pin_memory
        dataloader_persistent_workers dataloader_prefetch_factor dataloader_multiprocessing_context
        dataloader_in_order remove_unused_columns label_names train_sampling_strategy length_column_name
        ddp_find_unused_parameters ddp_bucket_cap_mb ddp_broadcast_buffers ddp_static_graph ddp_backend ddp_timeout
        fsdp fsdp_config deepspeed debug skip_memory_metrics do_train do_eval do_predict local_rank
        license language""",
}
RULES = {name: rule for rule, names in _NAMES.items() for name in names.split()}
"""Of all options of pre-training, those of transformers included."""

FIRST_HELD_OUT = "first_held_out_text"
"""Key of the text that was evaluated on before the first step; None for runs older than this key."""
BEST_METRIC_OPTIONS = {
    *("metric_for_best_model", "greater_is_better", "validation_file", "validation_fraction", "max_eval_segments")
}
"""If one of them changes, the best metric so far cannot be compared with later ones."""
_IN_MODEL_CONFIG = {
    name: name
    for name in (
        *("objective", "mlm_probability", "mlm_replacement_probability", "mlm_random_probability"),
        *("discriminator_weight", "disallow_correct", "generator_steps", "init_from_generator"),
    )
} | {"temperature": "sampling_temperature"}
"""Options that the model's config.json has, and their names there; the objective sets those that are not given."""
_SAME_AVERAGES = {"adamw_torch", "adamw_torch_fused"}
_STATEFUL_SCHEDULES = {"reduce_lr_on_plateau", "greedy"}
"""Their learning rate is not a function of the step, so it cannot change on resuming."""


def fingerprint_of(content_hashes: NDArray[np.uint64]) -> str:
    """Of documents in their order."""
    return hashlib.blake2b(content_hashes.tobytes(), digest_size=16).hexdigest()


def origin_of(
    args: Arguments,
    model: ElectraForJointPretraining,
    content_hashes: NDArray[np.uint64],
    training_documents: NDArray[np.int64],
    held_out: str,
    batch_size: int,
) -> dict[str, Any]:
    """The record of text, batch size and options that each checkpoint keeps.

    Args:
        args: the options, with `max_steps` and the steps between events resolved.
        model: for values that the objective sets.
        content_hashes: of the documents of the corpus, whichever files they come from.
        training_documents: indices of those that are trained on.
        held_out: fingerprint of the documents that are evaluated on.
        batch_size: segments of an optimizer step, over all devices and accumulated batches.
    """
    groups: tuple[Any, ...] = args[: len(GROUPS)]
    given = {f.name: getattr(group, f.name) for group in groups for f in fields(group)}
    options = {name: given[name] for name, rule in RULES.items() if rule in (Rule.KEPT, Rule.NEW) and name in given}
    for name in ("init_discriminator", "init_generator"):
        options[name] = options[name] and absolute_if_there(options[name])
    options["validation_file"] = [absolute(path) for path in options["validation_file"]]
    resolved = TrainerState()
    resolved.compute_steps(args.training, args.training.max_steps)
    options |= _steps_of(resolved) | {"max_steps": args.training.max_steps} | _options_in(model.config.to_dict())
    return {
        "corpus": fingerprint_of(content_hashes),
        "documents": len(content_hashes),
        "training_text": fingerprint_of(content_hashes[training_documents]),
        "training_documents": len(training_documents),
        FIRST_HELD_OUT: held_out,
        "batch_size": batch_size,
        "options": json.loads(json.dumps(options, default=lambda value: value.value)),  # as it will be read
        "changes": [],
    }


def check_resumed(
    checkpoint: Path, origin: dict[str, Any], model: ElectraForJointPretraining, batch: str
) -> dict[str, Any]:
    """Refuse to resume with text, networks or options that would make it another run; log options that changed.

    Args:
        checkpoint: to resume.
        origin: of this start, see `origin_of`.
        model: of this start.
        batch: the factors of its batch size, for the message.
    Returns:
        the record to keep from here on: `origin`, with the text that was evaluated on before the first step, and all
        changes so far, each with step, option, before and now.
    Raises:
        UserError: something differs that must not.
    """
    path = checkpoint / ORIGIN_NAME
    try:  # older checkpoints have fewer keys, the oldest no such file
        saved = json.loads(path.read_text()) if path.is_file() else {**origin, FIRST_HELD_OUT: None, "options": {}}
        documents, batch_size = int(saved["documents"]), int(saved["batch_size"])
        corpus, options, changes = saved["corpus"], dict(saved.get("options", {})), list(saved.get("changes", []))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} does not describe a corpus; name an older checkpoint, or another run") from error
    config, state = _saved_config(checkpoint), read_state(checkpoint)
    before = {**_steps_of(state), "max_steps": state.max_steps} if state.max_steps else {}  # 0: not known
    before |= {"bf16": saved["bf16"]} if "bf16" in saved else {}
    before |= _options_in(config) | options
    now = origin["options"]
    _check_same_networks(checkpoint, config, model.config.to_dict())  # first: they also set defaults of options
    different = _compare_options(checkpoint, before, now)
    if batch_size != origin["batch_size"]:
        raise UserError(
            f"{checkpoint} was trained with {batch_size} segments per step, not {origin['batch_size']} ({batch}): its "
            "position in the corpus would be lost; choose sizes with the same product"
        )
    if corpus != origin["corpus"]:
        raise UserError(
            f"{checkpoint} was trained on another corpus: it had {documents:,} documents, this one has "
            f"{origin['documents']:,}; name the same corpus, or start a new run with --init_discriminator and "
            "--init_generator"
        )
    if saved.get("training_text") not in (None, origin["training_text"]):
        raise UserError(
            f"{checkpoint} was trained on {saved.get('training_documents')} of these documents, this run would train "
            f"on {origin['training_documents']}, not all of them the same; leave --validation_fraction and "
            "--validation_file as they were, or start a new run"
        )
    step = state.global_step
    new = [{"step": step, "option": name, "before": before[name], "now": now[name]} for name in different]
    for line in describe(new):
        schedule = "; the learning rate follows the new schedule" if "max_steps" in different else ""
        logger.warning("%s%s", line, schedule)
    return {**origin, FIRST_HELD_OUT: saved.get(FIRST_HELD_OUT), "changes": changes + new}


def describe(changes: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line for each step at which a run was resumed with other options."""
    lines: dict[int, list[str]] = {}
    for change in changes:
        words = f"{change['option']} {_shown(change['now'])} instead of {_shown(change['before'])}"
        lines.setdefault(change["step"], []).append(" ".join(words.split()))
    return [f"from step {step:,} on: {', '.join(words)}" for step, words in lines.items()]


def _compare_options(checkpoint: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The options with another value than a checkpoint's.

    Raises:
        UserError: one of them must not change.
    """
    different = [name for name in now if name in before and before[name] != now[name]]
    if {before.get("optim"), now.get("optim")} <= _SAME_AVERAGES:
        different = [name for name in different if name != "optim"]
    kept = {name for name, rule in RULES.items() if rule is Rule.KEPT}
    if {before.get("lr_scheduler_type"), now.get("lr_scheduler_type")} & _STATEFUL_SCHEDULES:
        kept |= {"lr_scheduler_type", "lr_scheduler_kwargs", "learning_rate"}
    refused = next((name for name in different if name in kept), None)
    if refused is not None:
        raise UserError(
            f"{checkpoint} was trained with --{refused} {_shown(before[refused])}, not {_shown(now[refused])}; leave "
            "it as it was, or start a new run"
        )
    return different


def _options_in(config: Mapping[str, Any]) -> dict[str, Any]:
    """The options that the configuration of a joint model holds; the oldest ones have no objective."""
    known = {"objective": "electra", **config}
    return {option: known[name] for option, name in _IN_MODEL_CONFIG.items() if name in known}


def _steps_of(state: TrainerState) -> dict[str, Any]:
    return {name: int(getattr(state, name)) for name in ("logging_steps", "eval_steps", "save_steps")}


def _shown(value: object) -> str:
    if value is None or value == []:
        return "none"
    if isinstance(value, list):
        return " ".join(map(str, value))
    return json.dumps(value) if isinstance(value, bool | dict) else str(value)


def _check_same_networks(checkpoint: Path, saved: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    if not isinstance(saved.get("discriminator"), dict):
        raise UserError(f"the config.json in {checkpoint} is not of a pair of networks; name another checkpoint")
    old, new = _architecture(saved), _architecture(now)
    differences = [
        f"{name} is {value} there and {new[name]} here" for name, value in old.items() if new.get(name, value) != value
    ]
    if differences:
        raise UserError(f"the model differs from the one in {checkpoint}: {'; '.join(differences[:4])}")


def _architecture(config: Mapping[str, Any]) -> dict[str, Any]:
    """What determines the weights of a joint model: model types, tying, and sizes, which are the integers."""
    found = {
        "--generator_type uniform": bool(config.get("uniform_generator")),
        "tie": config.get("tie", "embeddings"),
        "tie_embedding_projection": config.get("tie_embedding_projection", False),
    }
    for network in ("discriminator", "generator"):
        for name, value in (config.get(network) or {}).items():
            is_size = isinstance(value, int) and not isinstance(value, bool) and not name.endswith("_token_id")
            if is_size or name == "model_type":
                found[f"{network}.{name}"] = value
    return found


def _saved_config(checkpoint: Path) -> dict[str, Any]:
    try:
        saved = json.loads((checkpoint / "config.json").read_text())
        if not isinstance(saved, dict):
            raise ValueError("not a mapping")
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read config.json in {checkpoint}: {error}; name another checkpoint") from error
    return saved


def generator_steps_of(asked: int | None, max_steps: int, checkpoint: str | None) -> int:
    """Optimizer steps of the generator's stage: the given number, else the resumed checkpoint's, else half.

    Raises:
        UserError: one of the two stages would have none.
    """
    resumed = _saved_config(Path(checkpoint)).get("generator_steps") if checkpoint is not None else None
    steps = asked or resumed or max_steps // 2
    if max_steps < 2:
        raise UserError(f"--max_steps {max_steps} is not enough for two stages, which need at least one step each")
    if not 0 < steps < max_steps:
        raise UserError(
            f"--generator_steps {steps} is not possible: it must be above 0 and below --max_steps {max_steps}, so "
            "that both stages have steps"
        )
    return int(steps)


def tokenizer_of(checkpoint: Path, named: str | None) -> PreTrainedTokenizerBase:
    """The checkpoint's own tokenizer, even if the one at --tokenizer_path has been moved.

    Args:
        checkpoint: to resume.
        named: --tokenizer_path.
    Raises:
        UserError: another tokenizer is named.
    """
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


def check_steps(checkpoint: Path, max_steps: int) -> None:
    """Refuse to resume for fewer steps than were taken."""
    step = read_state(checkpoint).global_step
    if step > max_steps:
        raise UserError(f"{checkpoint} is at step {step}, beyond --max_steps {max_steps}; choose more steps")


def read_state(checkpoint: Path) -> TrainerState:
    """The trainer_state.json of a checkpoint.

    Raises:
        UserError: it cannot be read.
    """
    path = checkpoint / "trainer_state.json"
    try:
        state = TrainerState.load_from_json(str(path))
        if not isinstance(state.global_step, int) or not isinstance(state.max_steps, int):
            raise TypeError("its steps are not integers")
        _steps_of(state)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise UserError(f"cannot read {path}: {error}; name an older checkpoint, or another run") from error
    return state


@contextmanager
def translate_loading_errors(checkpoint: str | None, part: str) -> Iterator[None]:
    """One line for a file that Trainer cannot load. It loads with `weights_only`: a pickle that runs code fails."""
    try:
        yield
    except (UserError, torch.OutOfMemoryError):
        raise
    except (
        *(UnpicklingError, SafetensorError, OSError, EOFError),
        *(RuntimeError, ValueError, TypeError, LookupError, AttributeError),
    ) as error:
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise UserError(
            f"{checkpoint}: its {part} cannot be loaded ({reason}); it belongs to another run or was written by "
            "another program: name another checkpoint"
        ) from error


@contextmanager
def keeping_options(optimizer: torch.optim.Optimizer, schedule: LRScheduler | None) -> Iterator[None]:
    """Restore the options' learning rate, decay and betas after the block has loaded a checkpoint's over them.

    Loading an optimizer replaces its parameter groups, loading a schedule its base rates. Equal values stay as they
    were loaded, so that a run resumed with unchanged options continues bit for bit.
    """
    groups = [_numbers_of(group) for group in optimizer.param_groups]
    base_rates = list(getattr(schedule, "base_lrs", []))
    yield
    for group, options in zip(optimizer.param_groups, groups, strict=True):
        loaded = _numbers_of(group)
        group.update({name: value for name, value in options.items() if loaded.get(name, value) != value})
    if isinstance(schedule, LambdaLR):
        schedule.base_lrs = base_rates
        factors = [factor(schedule.last_epoch) for factor in schedule.lr_lambdas]
        rates = [base * factor for base, factor in zip(base_rates, factors, strict=True)]  # as torch does
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        schedule._last_lr = rates


def _numbers_of(group: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a parameter group, which are its numbers; truth values choose a kernel, and stay as loaded."""
    numbers = {name: tuple(value) if isinstance(value, list) else value for name, value in group.items()}
    return {
        name: value
        for name, value in numbers.items()
        if isinstance(value, int | float | tuple) and not isinstance(value, bool) and name not in ("params", "lr")
    }
