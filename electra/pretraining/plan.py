"""What a run will take, before it starts: corpus, parameters, tokens, epochs, FLOPs."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from transformers import PreTrainedConfig

from electra.backbones import BACKBONES
from electra.data.documents import TokenCache
from electra.flops import (
    GOOGLE_MLM_POSITIONS_FRACTION,
    TransformerShape,
    google_training_flops,
    pfs_days,
    six_n_t_flops,
)
from electra.model.configuration import ElectraPretrainingConfig, embedding_width, value_of
from electra.model.modeling import ElectraForJointPretraining, parameter_counts
from electra.objectives import OBJECTIVES, objective_of
from electra.pretraining.phases import stage_lengths


@dataclass(frozen=True)
class Plan:
    """Sizes of a run; tokens count padding, FLOPs are of all steps. "Discriminator" is the large network, whatever its
    objective; without a generator that one's numbers are 0 and its shape is empty."""

    objective: str
    documents: int
    corpus_tokens: int
    unknown_rate: float
    cache: str
    cache_bytes: int
    held_out_documents: int
    segments_per_epoch: int
    discriminator_parameters: int
    generator_parameters: int
    total_parameters: int
    discriminator_type: str
    generator_type: str
    discriminator_shape: str
    generator_shape: str
    steps: int
    batch_size: int
    max_length: int
    tokens_per_step: int
    total_tokens: int
    epochs: float
    flops: float
    google_flops: float
    google_sparse_flops: float
    """The original's count without the multiplication of one-hot vectors with the embedding table."""
    checkpoint_steps: list[int]
    """Of the checkpoints of partial training; not those of every so many steps."""
    uniform_generator: bool = False
    generator_steps: int = 0
    """Optimizer steps of the generator's stage; 0: there are no stages."""

    shared: str = "embeddings shared"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def large_network(self) -> str:
        """What it is, in a word."""
        return "discriminator" if OBJECTIVES[self.objective].finds_replaced else "masked LM"

    def lines(self) -> list[str]:
        networks = [
            f"{self.large_network:<15}{self.discriminator_parameters:,} parameters ({self.discriminator_shape})"
        ]
        if self.generator_shape:
            networks.append(
                f"generator      {self.generator_parameters:,} parameters ({self.generator_shape}); both together "
                f"{self.total_parameters:,}, {self.shared}"
            )
        elif self.uniform_generator:
            networks.append("generator      none: replacements are drawn evenly from the vocabulary")
        lines = [
            f"corpus         {self.documents:,} documents, {self.corpus_tokens:,} tokens, unknown "
            f"{self.unknown_rate:.3%}; {self.held_out_documents:,} documents held out",
            f"token cache    {self.cache} ({self.cache_bytes / 1e6:.1f} MB)",
            *networks,
            f"training       {self.steps:,} steps of {self.batch_size} x {self.max_length} = {self.tokens_per_step:,} "
            f"tokens: {self.total_tokens:,} tokens, {self.epochs:.2f} epochs of {self.segments_per_epoch:,} segments",
            f"compute        {self.flops:.2e} FLOPs by 6NT and attention ({pfs_days(self.flops):.2g} pfs-days), "
            f"{self.google_flops:.2e} by the original's count ({pfs_days(self.google_flops):.2g}), of which "
            f"{self.google_sparse_flops:.2e} without one-hot embeddings ({pfs_days(self.google_sparse_flops):.2g})",
        ]
        if self.generator_steps:
            first, second = stage_lengths(self.steps, self.generator_steps)
            lines.append(f"stages         {first:,} steps of the generator, then {second:,} of the discriminator")
        if self.checkpoint_steps:
            steps = ", ".join(f"{step:,}" for step in self.checkpoint_steps)
            lines.append(f"checkpoints    kept for good: steps {steps}")
        return lines


_SHARED = {
    "none": "nothing shared",
    "word": "word embeddings shared",
    "embeddings": "embeddings shared",
    "all": "encoder shared",
    "gdes": "embeddings shared without the discriminator's gradient",
}


def _describe_shared(model: ElectraForJointPretraining) -> str:
    tie = model.config.tie
    if tie == "embeddings" and not _shares_more_than_words(model):
        tie = "word"
    return _SHARED[tie] + (", and their projection" if model.config.tie_embedding_projection else "")


def _shares_more_than_words(model: ElectraForJointPretraining) -> bool:
    """Two architectures may have no other table of one shape."""
    shared = [name for name in model._tied_weights_keys if "embeddings" in name and "project" not in name]
    return len(shared) > 1


def make_plan(
    model: ElectraForJointPretraining,
    cache: TokenCache,
    *,
    held_out_documents: int,
    segments_per_epoch: int,
    steps: int,
    batch_size: int,
    max_length: int,
    checkpoint_steps: Sequence[int] = (),
) -> Plan:
    """Collect the sizes of a run. `batch_size` is that of an optimizer step, over all devices."""
    parameters = parameter_counts(model)
    flops, google_flops, google_sparse_flops = training_flops(
        model.config, max_length=max_length, batch_size=batch_size, steps=steps
    )
    return Plan(
        objective=model.config.objective,
        documents=len(cache),
        corpus_tokens=cache.num_tokens,
        unknown_rate=float(cache.description["unknown_rate"]),
        cache=str(cache.path),
        cache_bytes=int(cache.description["bytes"]),
        held_out_documents=held_out_documents,
        segments_per_epoch=segments_per_epoch,
        discriminator_parameters=parameters["discriminator"],
        generator_parameters=parameters["generator"],
        total_parameters=parameters["total"],
        discriminator_type=model.config.discriminator.model_type,
        generator_type=model.config.generator.model_type if model.config.generator else "",
        discriminator_shape=describe_network(model.config.discriminator),
        generator_shape=describe_network(model.config.generator) if model.config.generator else "",
        steps=steps,
        batch_size=batch_size,
        max_length=max_length,
        tokens_per_step=batch_size * max_length,
        total_tokens=steps * batch_size * max_length,
        epochs=steps * batch_size / segments_per_epoch,
        flops=flops,
        google_flops=google_flops,
        google_sparse_flops=google_sparse_flops,
        checkpoint_steps=list(checkpoint_steps),
        shared=_describe_shared(model),
        uniform_generator=model.config.uniform_generator,
        generator_steps=model.config.generator_steps,
    )


def training_flops(
    config: ElectraPretrainingConfig, *, max_length: int, batch_size: int, steps: int
) -> tuple[float, float, float]:
    """6 N T with attention, the original's count, and that one with embeddings looked up: sums over the networks that
    the objective has.

    A large network that predicts tokens has an LM head, at the chosen or at all positions; what a piece of it computes
    twice to save memory counts once. The copy gate, one row beside its tens of thousands, is left out, and so is the
    baseline. Of two stages, the first has no discriminator, and in the second the generator runs forward only.
    """
    objective = objective_of(config.objective, config.uniform_generator)
    sizes: dict[str, Any] = {"max_length": max_length, "train_batch_size": batch_size}
    large = _shape(config.discriminator)
    discriminator_steps = steps - config.generator_steps

    def total(rule: Callable[..., float], share: float, forward: float) -> float:
        """`share`: of the positions that are chosen, `forward`: of a step's work, both as the rule counts them."""
        flops = 0.0
        if config.generator is not None:
            trained = config.generator_steps + forward * discriminator_steps if objective.has_stages else steps
            flops += rule(None, _shape(config.generator), **sizes, steps=trained, mlm_positions_fraction=share)
        if objective.finds_replaced:
            return flops + rule(large, None, **sizes, steps=discriminator_steps, mlm_positions_fraction=share)
        share = 1.0 if objective.at_all_tokens else share
        return flops + rule(None, large, **sizes, steps=discriminator_steps, mlm_positions_fraction=share)

    sparse = partial(google_training_flops, sparse_embedding_lookup=True)
    return (
        total(six_n_t_flops, config.mlm_probability, forward=1 / 3),
        total(google_training_flops, GOOGLE_MLM_POSITIONS_FRACTION, forward=1 / 2),
        total(sparse, GOOGLE_MLM_POSITIONS_FRACTION, forward=1 / 2),
    )


def _shape(config: PreTrainedConfig) -> TransformerShape:
    return TransformerShape(
        hidden_size=config.hidden_size,
        # a gated layer has a third matrix
        intermediate_size=value_of(config, "intermediate_size") * BACKBONES[config.model_type].ffn_matrices // 2,
        num_layers=config.num_hidden_layers,
        num_heads=config.num_attention_heads,
        embedding_size=embedding_width(config),
        vocab_size=config.vocab_size,
    )


def describe_network(config: PreTrainedConfig) -> str:
    """Its type, if it is not ELECTRA, and its sizes."""
    kind = "" if config.model_type == "electra" else f"{config.model_type}, "
    return (
        f"{kind}{_count(config.num_hidden_layers, 'layer')} of {config.hidden_size}, "
        f"{_count(config.num_attention_heads, 'head')}, "
        f"feed-forward {value_of(config, 'intermediate_size')}"
    )


def _count(number: int, name: str) -> str:
    return f"{number} {name}" if number == 1 else f"{number} {name}s"
