"""What `ElectraTrainer` prepares when a user's Python code makes it, in place of `electra pretrain`.

These are checks, the data of token caches, numbers of steps, and a model that fits them. The command does this in
run.py, with what its options say.
"""

from collections.abc import Mapping
from pathlib import Path
from types import NoneType
from typing import NamedTuple

import torch
from transformers import PreTrainedTokenizerBase

from electra.base.options import warn_without_effect
from electra.core.configuration import ElectraPretrainingConfig, longest_text
from electra.core.errors import UserError, check_kind
from electra.core.objectives import KEYS, OF_STAGES
from electra.data.options import SegmentArguments
from electra.data.token_cache import TokenCache
from electra.model.joint import ElectraForJointPretraining
from electra.model.options import ObjectiveArguments
from electra.model.pretrained import tokenizer_of
from electra.pretraining.configuration import ElectraTrainingArguments
from electra.pretraining.data import PretrainingData, data_of_run
from electra.pretraining.model import check_hides_tokens, take_start, tune_model
from electra.pretraining.options import PROGRAM_NEEDS, fit_steps
from electra.pretraining.run_folder import latest_run
from electra.tokenizers.load import vocabulary_size


class PreparedRun(NamedTuple):
    """The options of a run with numbers of steps, its data, and which networks it trains when."""

    args: ElectraTrainingArguments
    data: PretrainingData
    objective: ObjectiveArguments


def prepare_program(
    model: ElectraForJointPretraining,
    args: ElectraTrainingArguments,
    train: TokenCache | PretrainingData,
    held_out: TokenCache | Mapping[str, TokenCache] | None,
    tokenizer: PreTrainedTokenizerBase | str | Path | None,
    segments: SegmentArguments | None,
    objective: ObjectiveArguments | None,
) -> PreparedRun:
    """Return what a run started by a Python program needs; `ElectraTrainer` describes the arguments.

    The model gets the weights of `args.init_checkpoint`, the steps of its stages, and modules that suit the device.
    Options that only the command reads are named in a warning.

    Raises:
        UserError: a weight is not in float32; model, tokenizer, segments and text do not fit; or options do not go
            together.
    """
    check_kind(model, ElectraForJointPretraining, "model", "an ElectraForJointPretraining, such as from_recipe makes")
    check_kind(args, ElectraTrainingArguments, "args", "ElectraTrainingArguments")
    check_kind(segments, (SegmentArguments, NoneType), "segments", "SegmentArguments")
    check_float32(model)
    warn_without_effect(PROGRAM_NEEDS, vars(args), args.given)
    segments = segments or SegmentArguments(max_length=min(SegmentArguments.max_length, positions_of(model.config)))
    data = data_of_run(train, held_out, tokenizer, segments, args)
    if data is not train:
        check_fits(model, data.tokenizer, segments)
        # An exported tokenizer says how much text its network takes.
        data.tokenizer.model_max_length = longest_text(model.config.discriminator)
    run = latest_run(Path(args.output_dir))
    args, objective, _ = fit_steps(
        args,
        objective or objective_arguments(model.config),
        len(data.policy),
        has_held_out=data.evaluation is not None,
        resumed=run.options,
        step=run.step if run.checkpoint is not None else None,
    )
    model.set_generator_steps(objective.generator_steps or 0)
    take_start(model, args, data.segments.max_length, data.tokenizer)
    tune_model(model, data, args.device)
    return PreparedRun(args, data, objective)


def check_float32(model: ElectraForJointPretraining) -> None:
    """Refuse a model with a weight in another type than float32."""
    other_dtype = next((value.dtype for value in model.parameters() if value.dtype != torch.float32), None)
    if other_dtype is not None:
        raise UserError(
            f"the model has weights of {other_dtype}; give model.float(): args.bf16 computes in mixed precision"
        )


def positions_of(config: ElectraPretrainingConfig) -> int:
    """Return how many tokens, special tokens included, both networks of a joint model accept."""
    return min(longest_text(network) for network in (config.discriminator, config.generator) if network is not None)


def check_fits(
    model: ElectraForJointPretraining, tokenizer: PreTrainedTokenizerBase, segments: SegmentArguments
) -> None:
    """Refuse a tokenizer that is not that of the joint model, and segments that its networks cannot read."""
    config = model.config
    longest = positions_of(config)
    if segments.max_length > longest:
        raise UserError(
            f"segments.max_length {segments.max_length} is more than the {longest} positions of the networks; lower "
            "it, or build the model with max_position_embeddings"
        )
    check_hides_tokens(config, segments)
    tokenizer_of(model, tokenizer)  # refuses another one than that of the checkpoint from which the model was loaded
    size = vocabulary_size(tokenizer)
    other_ids = {*tokenizer.all_special_ids} - {*config.special_token_ids}
    if other_ids:
        raise UserError(
            f"special_token_ids of the model lacks {sorted(other_ids)}, special tokens of processing_class, which "
            "would be replaced; build the model with the same tokenizer"
        )
    if size > config.discriminator.vocab_size or config.mask_token_id != tokenizer.mask_token_id:
        raise UserError(
            f"processing_class has {size} tokens and [MASK] {tokenizer.mask_token_id}, the model "
            f"{config.discriminator.vocab_size} and {config.mask_token_id}; build the model with the same tokenizer"
        )


# ---- the options with which a joint model was made


def objective_arguments(config: ElectraPretrainingConfig) -> ObjectiveArguments:
    """Return the options that say which networks are trained when, as a joint model's configuration has them.

    `generator_gate` is no part of the configuration.
    """
    return ObjectiveArguments(
        objective=config.objective,
        generator_steps=config.generator_steps or None,
        init_from_generator=config.init_from_generator,
    )


def network_options_of(config: ElectraPretrainingConfig) -> dict[str, object]:
    """Return the options with which a joint model was made, by name, as far as a resumed run must keep them."""
    values = {name: getattr(config, key) for name, key in KEYS.items() if name not in OF_STAGES}
    return {**values, "objective": config.objective, "tie": config.tie}
