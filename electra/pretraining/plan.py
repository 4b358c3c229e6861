"""The plan of a run, made and logged before the run starts: corpus, parameters, tokens, epochs, FLOPs."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from transformers import PreTrainedConfig

from electra.base.console import counted
from electra.base.errors import where_is
from electra.core.backbones import BACKBONES
from electra.core.configuration import ElectraPretrainingConfig, embedding_width, value_of
from electra.core.flops import (
    GOOGLE_MLM_POSITIONS_FRACTION,
    TransformerShape,
    google_training_flops,
    six_n_t_flops,
)
from electra.core.objectives import OBJECTIVES
from electra.core.schedules import stage_lengths
from electra.core.segments import PackedRow, TrainingSegments, segment_length
from electra.model.joint import ElectraForJointPretraining
from electra.pretraining.checkpoints import fraction_steps, word_steps
from electra.pretraining.configuration import Configuration, ElectraTrainingArguments
from electra.pretraining.data import PretrainingData

logger = logging.getLogger(__name__)

MOST_SOURCES = 20
"""Sources that get a line of their own, at most; a glob such as `books/*.txt` can name hundreds."""
SAMPLED_ROWS = 500
"""Rows of an epoch whose padding is counted, for a share that is right to about 2 %."""
FEW_TOKENS = 1000
"""Held-out tokens below which a warning says that metrics are uncertain; about 100 of them are replaced."""
MOST_EPOCHS = 40
"""Epochs above which more repetition teaches little: Muennighoff et al. (2023), arXiv:2305.16264."""
FEW_TRAINED_TOKENS = 500_000
"""Tokens without padding below which no discriminator started to learn: docs/studies/start.md."""
MUCH_PADDING = 0.5
"""Share of padding from which a warning names --segment_policy packed, which then has twice the text in a step."""

# ---- sizes


@dataclass(frozen=True)
class Plan:
    """A plan of a run: its sizes. Tokens of steps include padding, those of text do not; FLOPs are of all steps.

    `discriminator_*` describes the main network of any objective. Without a generator, the generator's numbers are 0
    and its shape is "".
    """

    objective: str
    sources: list[dict[str, Any]]
    """Name, documents and tokens of each source; for files also numbers `files` and, of plain text, `text_files`."""
    documents: int
    corpus_tokens: int
    held_out_documents: int
    held_out_tokens: int
    segments_per_epoch: int
    discriminator_parameters: int
    generator_parameters: int
    total_parameters: int
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
    checkpoint_steps: list[int]
    """Steps of --checkpoint_fractions and --checkpoint_words."""
    uniform_generator: bool
    generator_steps: int
    """Optimizer steps of the generator's stage; 0: there are no stages."""
    tie: str
    changes: list[str]
    """A line for each step at which the options of a resumed run changed."""
    padding: float = 0.0
    """Share of the tokens of a step that is padding, estimated from rows of the first epoch."""

    def facts(self) -> list[tuple[str, str]]:
        """Return the facts of a plan as pairs of name and sentence: what is trained, on what, for how long."""
        facts = [("corpus", _amount(self.documents, self.corpus_tokens))]
        for source in self.sources[:MOST_SOURCES]:
            facts.append(("source", f"{source['name']}: {_amount(source['documents'], source['tokens'])}"))
        share = self.held_out_tokens / self.corpus_tokens
        held_out = _amount(self.held_out_documents, self.held_out_tokens)
        main_network = OBJECTIVES[self.objective].main_network
        facts += [
            ("held out", f"{held_out}, equal to {share:.2%} of the corpus"),
            (main_network, f"{self.discriminator_parameters:,} parameters ({self.discriminator_shape})"),
        ]
        if self.generator_shape:
            generator = f"{self.generator_parameters:,} parameters ({self.generator_shape})"
            facts.append(("generator", f"{generator}; both together {self.total_parameters:,} (--tie {self.tie})"))
        facts += [
            (
                "training",
                f"{self.steps:,} steps of {self.batch_size} x {self.max_length} tokens: {self.total_tokens:,} tokens "
                f"({self.padding:.0%} padding), {self.epochs:.2f} epochs of {self.segments_per_epoch:,} segments",
            ),
            (
                "compute",
                f"{self.flops:.2e} FLOPs by 6NT and attention, {self.google_flops:.2e} by the original's count",
            ),
        ]
        if self.generator_steps:
            first, second = stage_lengths(self.steps, self.generator_steps)
            facts.append(("stages", f"{first:,} steps of the generator, then {second:,} of the discriminator"))
        return facts + [("resumed", line) for line in self.changes]


def _amount(documents: int, tokens: int) -> str:
    return f"{documents:,} documents, {tokens:,} tokens"


def make_plan(
    training: ElectraTrainingArguments,
    model: ElectraForJointPretraining,
    data: PretrainingData,
    changes: Sequence[str] = (),
) -> Plan:
    """Return the plan of a run.

    Args:
        training: options with numbers of steps, a result of `fit_steps`.
        changes: lines about changed options, see `RunProvenance`.
    """
    config = model.config
    parameters = parameter_counts(model)
    cache = data.cache
    steps = training.max_steps
    batch_size = training.segments_per_step
    max_length = data.segments.max_length
    flops, google_flops = training_flops(config, max_length=max_length, batch_size=batch_size, steps=steps)
    return Plan(
        objective=config.objective,
        sources=data.sources,
        documents=len(cache),
        corpus_tokens=cache.num_tokens,
        held_out_documents=len(data.held_out_lengths),
        held_out_tokens=sum(map(int, data.held_out_lengths)),
        segments_per_epoch=len(data.policy),
        discriminator_parameters=parameters["discriminator"],
        generator_parameters=parameters["generator"],
        total_parameters=parameters["total"],
        discriminator_shape=describe_network(config.discriminator),
        generator_shape=describe_network(config.generator) if config.generator else "",
        steps=steps,
        batch_size=batch_size,
        max_length=max_length,
        tokens_per_step=batch_size * max_length,
        total_tokens=steps * batch_size * max_length,
        epochs=steps * batch_size / len(data.policy),
        flops=flops,
        google_flops=google_flops,
        checkpoint_steps=sorted(
            {
                *fraction_steps(training.checkpoint_fractions, steps),
                *word_steps(training.checkpoint_words, batch_size / len(data.policy), steps),
            }
        ),
        uniform_generator=config.uniform_generator,
        generator_steps=config.generator_steps,
        tie=config.tie,
        changes=list(changes),
        padding=padding_share(TrainingSegments(data.policy, len(data.policy), training.seed), max_length),
    )


def padding_share(samples: TrainingSegments, max_length: int) -> float:
    """Return the share of padding in rows of `max_length` tokens: up to `SAMPLED_ROWS`, spread over the samples."""
    positions = np.unique(np.linspace(0, len(samples) - 1, SAMPLED_ROWS).astype(np.int64))
    tokens = 0
    for row in samples.__getitems__(positions.tolist()):
        segments = row.segments if isinstance(row, PackedRow) else [row]
        tokens += sum(map(segment_length, segments))
    return 1 - tokens / (len(positions) * max_length)


def parameter_counts(model: ElectraForJointPretraining) -> dict[str, int]:
    """Return the number of parameters of each network, and of both together, where shared ones count once.

    Keys are discriminator, generator (0 without one) and total.
    """
    networks = {"discriminator": model.discriminator, "generator": model.generator, "total": model}
    return {name: 0 if network is None else network.num_parameters() for name, network in networks.items()}


# ---- what is logged before the first step


def announce_plan(args: Configuration, plan: Plan) -> None:
    """Log a plan, and warnings about options that look like mistakes."""
    for name, fact in (*plan.facts(), ("run folder", args.training.output_dir)):
        logger.info("%-14s %s", name, fact)
    _warn_of_steps(args, plan)
    if plan.padding >= MUCH_PADDING:
        logger.warning(
            f"{plan.padding:.0%} of what is computed is padding, because most documents are far shorter than "
            f"--max_length {plan.max_length}: --segment_policy packed lets several share a row"
        )
    if 0 < plan.held_out_tokens < FEW_TOKENS:
        logger.warning(
            f"{plan.held_out_tokens:,} held-out tokens are too few to tell how good the networks are: raise "
            "--validation_fraction, or give a --validation_file"
        )


def _warn_of_steps(args: Configuration, plan: Plan) -> None:
    """Log a warning of too few tokens to learn from, of too many epochs, and of a warm-up that never ends."""
    training = args.training
    steps = plan.steps
    tokens = round(plan.total_tokens * (1 - plan.padding))
    if OBJECTIVES[plan.objective].finds_replaced and not args.starts_from_trained and tokens < FEW_TRAINED_TOKENS:
        logger.warning(
            f"{steps:,} steps are few: with {tokens:,} tokens a new discriminator hardly starts to learn, which took "
            f"0.5 to 2 million here ({where_is('docs/studies/start.md')}); raise --budget or --max_steps"
        )
    if plan.epochs > MOST_EPOCHS:
        logger.warning(
            f"{plan.epochs:,.0f} epochs: text that is repeated more than {MOST_EPOCHS} times teaches little; choose "
            f"--max_steps {max(1, int(steps * MOST_EPOCHS / plan.epochs))}, or more text"
        )
    shortest_stage = min(stage_lengths(steps, plan.generator_steps))
    if training.get_warmup_steps(shortest_stage) >= shortest_stage:
        logger.warning(
            f"--warmup_steps {training.warmup_steps:g} covers all {shortest_stage} steps: the learning rate never "
            f"reaches {training.learning_rate:g}. Set it to 0.1 for a tenth of the steps."
        )


# ---- FLOPs and shapes


def training_flops(
    config: ElectraPretrainingConfig, *, max_length: int, batch_size: int, steps: int
) -> tuple[float, float]:
    """Return the training FLOPs of all networks by two counts: 6 N T with attention, and that of the original code.

    A main network that predicts tokens has an LM head, at the chosen or at all positions. Of two stages, the first has
    no discriminator, and in the second the generator runs only forward. Recomputation, the copy gate and the baseline
    of the adversarial objective are not counted.
    """
    objective = config.objective_with_values()
    sizes: dict[str, Any] = {"max_length": max_length, "train_batch_size": batch_size}
    main_shape = _shape(config.discriminator)
    discriminator_steps = steps - config.generator_steps

    def total(count_flops: Callable[..., float], chosen_share: float, forward_share: float) -> float:
        """Return the FLOPs of all networks by one of the two counts.

        Args:
            count_flops: function of the shapes of a discriminator and of a masked language model; one of both is None.
            chosen_share: share of the positions that is chosen.
            forward_share: share of a training step's FLOPs that its forward pass has by this count.
        """
        flops = 0.0
        if config.generator is not None:
            generator_steps: float = steps
            if objective.has_stages:
                generator_steps = config.generator_steps + forward_share * discriminator_steps
            shape = _shape(config.generator)
            flops += count_flops(None, shape, **sizes, steps=generator_steps, mlm_positions_fraction=chosen_share)
        shapes = (main_shape, None) if objective.finds_replaced else (None, main_shape)
        predicted = 1.0 if objective.at_all_tokens or objective.is_causal else chosen_share
        return flops + count_flops(*shapes, **sizes, steps=discriminator_steps, mlm_positions_fraction=predicted)

    return (
        total(six_n_t_flops, config.mlm_probability, forward_share=1 / 3),
        total(google_training_flops, GOOGLE_MLM_POSITIONS_FRACTION, forward_share=1 / 2),
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
    """Return the sizes of a network in words, with its type unless it is ELECTRA."""
    type_of_network = "" if config.model_type == "electra" else f"{config.model_type}, "
    return (
        f"{type_of_network}{counted(config.num_hidden_layers, 'layer')} of {config.hidden_size}, "
        f"{counted(config.num_attention_heads, 'head')}, "
        f"feed-forward {value_of(config, 'intermediate_size')}"
    )
