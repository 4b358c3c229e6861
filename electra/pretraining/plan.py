"""The plan of a run, made before it starts: corpus, parameters, tokens, epochs, FLOPs."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from transformers import PreTrainedConfig

from electra.backbones import BACKBONES
from electra.data.segments import PackedRow, SegmentPolicy, segment_length
from electra.flops import (
    GOOGLE_MLM_POSITIONS_FRACTION,
    TransformerShape,
    google_training_flops,
    pfs_days,
    six_n_t_flops,
)
from electra.model.configuration import ElectraPretrainingConfig, embedding_width, value_of
from electra.model.joint import ElectraForJointPretraining, parameter_counts
from electra.model.networks import can_share_rows
from electra.objectives import OBJECTIVES, objective_of
from electra.pretraining.callbacks.checkpoints import fraction_steps
from electra.pretraining.callbacks.phases import stage_lengths
from electra.pretraining.configuration import Configuration
from electra.pretraining.data import PretrainingData
from electra.pretraining.resume import describe
from electra.recipes import RECIPES

logger = logging.getLogger(__name__)

MOST_SOURCES = 20
"""Sources with a line of their own; a glob such as `books/*.txt` can name hundreds."""
SHORT_DOCUMENT = 256
"""Mean length in tokens below which documents look like paragraphs, as they do if they fill no segment."""
SAMPLED_ROWS = 256
"""Rows whose padding is counted."""
MOST_PADDING = 0.2
"""Share of padding above which packed rows are proposed."""
MOST_EPOCHS = 40
"""Epochs above which more repetition teaches little: Muennighoff et al. (2023), arXiv:2305.16264."""
FEWEST_HELD_OUT = 10
"""Held-out documents below which metrics describe these rather than the corpus."""


@dataclass(frozen=True)
class Plan:
    """Sizes of a run. Tokens include padding; FLOPs are of all steps.

    `discriminator_*` describes the main network, whatever its objective. Without a generator, its numbers are 0 and
    its shape is empty.
    """

    objective: str
    sources: list[dict[str, Any]]
    """Name, files, text_files, documents and tokens of each; text_files are plain text, also inside archives."""
    documents: int
    corpus_tokens: int
    unknown_rate: float
    cache: str
    cache_bytes: int
    held_out_documents: int
    held_out_tokens: int
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
    checkpoint_steps: list[int]
    """Steps of --checkpoint_fractions."""
    uniform_generator: bool = False
    generator_steps: int = 0
    """Optimizer steps of the generator's stage; 0: there are no stages."""

    shared: str = "embeddings shared"
    padding: float = 0.0
    """Share of the positions that are padding, by some segments of an epoch."""
    changes: list[str] = field(default_factory=list)
    """A line for each step at which the options of a resumed run changed."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def main_network(self) -> str:
        """Its name in logs and reports."""
        return "discriminator" if OBJECTIVES[self.objective].finds_replaced else "masked LM"

    def source_lines(self) -> list[str]:
        """A line for each of the first sources, and one for all others."""
        lines = [f"{source['name']}: {_amount([source])}" for source in self.sources[:MOST_SOURCES]]
        others = self.sources[MOST_SOURCES:]
        return [*lines, f"and {len(others):,} more: {_amount(others)}"] if others else lines

    def lines(self) -> list[str]:
        lines = [
            f"corpus         {_amount(self.sources)}, unknown {self.unknown_rate:.3%}",
            *(f"source         {line}" for line in self.source_lines()),
            f"held out       {self.held_out_documents:,} documents, {self.held_out_tokens:,} tokens, equal to "
            f"{self.held_out_tokens / self.corpus_tokens:.2%} of the corpus",
            f"token cache    {self.cache} ({self.cache_bytes / 1e6:.1f} MB)",
            f"{self.main_network:<15}{self.discriminator_parameters:,} parameters ({self.discriminator_shape})",
        ]
        if self.generator_shape:
            lines.append(
                f"generator      {self.generator_parameters:,} parameters ({self.generator_shape}); both together "
                f"{self.total_parameters:,}, {self.shared}"
            )
        lines += [
            f"training       {self.steps:,} steps of {self.batch_size} x {self.max_length} = {self.tokens_per_step:,} "
            f"tokens: {self.total_tokens:,} tokens with padding, about {self.total_tokens * (1 - self.padding):,.0f} "
            f"without, {self.epochs:.2f} epochs of {self.segments_per_epoch:,} segments",
            f"compute        {self.flops:.2e} FLOPs by 6NT and attention ({pfs_days(self.flops):.2g} pfs-days), "
            f"{self.google_flops:.2e} by the original's count ({pfs_days(self.google_flops):.2g})",
        ]
        if self.generator_steps:
            first, second = stage_lengths(self.steps, self.generator_steps)
            lines.append(f"stages         {first:,} steps of the generator, then {second:,} of the discriminator")
        if self.checkpoint_steps:
            steps = ", ".join(f"{step:,}" for step in self.checkpoint_steps)
            lines.append(f"checkpoints    kept for good: steps {steps}")
        return lines


def _amount(sources: Sequence[dict[str, Any]]) -> str:
    files, documents, tokens = (sum(source[name] for source in sources) for name in ("files", "documents", "tokens"))
    return (f"{files:,} files, " if files else "") + f"{documents:,} documents, {tokens:,} tokens"


_SHARED = {
    "none": "nothing shared",
    "word": "word embeddings shared",
    "embeddings": "embeddings shared",
    "all": "encoder shared",
    "gdes": "embeddings shared without the discriminator's gradient",
}


def make_plan(
    args: Configuration,
    model: ElectraForJointPretraining,
    data: PretrainingData,
    changes: Sequence[Mapping[str, Any]] = (),
) -> Plan:
    """The plan of a run with resolved options; `changes` are those of options since it began, see resume.py."""
    config, parameters, cache = model.config, parameter_counts(model), data.cache
    steps, batch_size, max_length = args.training.max_steps, args.training.segments_per_step, args.segments.max_length
    flops = training_flops(config, max_length=max_length, batch_size=batch_size, steps=steps)
    shared = [name for name in model._tied_weights_keys if "embeddings" in name and "project" not in name]
    # Different architectures may share no other table of the same shape.
    tie = "word" if config.tie == "embeddings" and len(shared) == 1 else config.tie
    return Plan(
        objective=config.objective,
        sources=[
            {"name": s["name"], "files": s.get("files", 0), "text_files": s.get("text_files", 0)}
            | {"documents": s["documents"], "tokens": s["tokens"]}
            for s in cache.description["sources"]
        ],
        documents=len(cache),
        corpus_tokens=cache.num_tokens,
        unknown_rate=float(cache.description["unknown_rate"]),
        cache=str(cache.path),
        cache_bytes=int(cache.description["bytes"]),
        held_out_documents=len(data.held_out_lengths),
        held_out_tokens=int(sum(data.held_out_lengths)),
        segments_per_epoch=len(data.policy),
        discriminator_parameters=parameters["discriminator"],
        generator_parameters=parameters["generator"],
        total_parameters=parameters["total"],
        discriminator_type=config.discriminator.model_type,
        generator_type=config.generator.model_type if config.generator else "",
        discriminator_shape=describe_network(config.discriminator),
        generator_shape=describe_network(config.generator) if config.generator else "",
        steps=steps,
        batch_size=batch_size,
        max_length=max_length,
        tokens_per_step=batch_size * max_length,
        total_tokens=steps * batch_size * max_length,
        epochs=steps * batch_size / len(data.policy),
        flops=flops[0],
        google_flops=flops[1],
        checkpoint_steps=fraction_steps(args.training.checkpoint_fractions, steps),
        shared=_SHARED[tie],
        uniform_generator=config.uniform_generator,
        generator_steps=config.generator_steps,
        padding=padding_share(data.policy, max_length),
        changes=describe(changes),
    )


def padding_share(policy: SegmentPolicy, max_length: int) -> float:
    """The share of padding in rows of `max_length` tokens, measured on rows spread evenly over the first epoch."""
    count = min(len(policy), SAMPLED_ROWS)
    rows = policy.cut(0, np.linspace(0, len(policy) - 1, count).astype(np.int64))
    tokens = 0
    for row in rows:
        for segment in row.segments if isinstance(row, PackedRow) else [row]:
            tokens += segment_length(segment)
    return 1 - tokens / (count * max_length)


def announce_plan(
    args: Configuration, model: ElectraForJointPretraining, data: PretrainingData, changes: Sequence[Mapping[str, Any]]
) -> Plan:
    """Make the plan of a run and log it, with warnings of options that look like mistakes."""
    training, steps, plan = args.training, args.training.max_steps, make_plan(args, model, data, changes)
    for line in (*plan.lines(), f"run folder     {training.output_dir}"):
        logger.info(line)
    fraction = 0.0 if args.segments.validation_file else args.segments.validation_fraction
    warnings = document_warnings(plan, args.corpus.document_separator, fraction)
    can_pack = all(can_share_rows(c) for c in (model.config.discriminator, model.config.generator) if c is not None)
    if plan.padding > MOST_PADDING and args.segments.segment_policy == "windows" and can_pack:
        warnings.append(
            f"{plan.padding:.0%} of the positions are padding; with --segment_policy packed, documents share rows"
        )
    if plan.epochs > MOST_EPOCHS:
        problem = f"{plan.epochs:,.0f} epochs: text that is repeated more than {MOST_EPOCHS} times teaches little"
        advice = (
            f"For {plan.corpus_tokens:,} tokens, choose {size_for(plan.corpus_tokens)}, or more text; --budget 2h "
            "sets size and steps by the time that training may take"
        )
        if args.model.init_discriminator or args.model.init_generator:  # they have a size
            fewer = max(1, int(steps * MOST_EPOCHS / plan.epochs))
            advice = f"For {plan.corpus_tokens:,} tokens, choose --max_steps {fewer}, or more text"
        warnings.append(f"{problem}. {advice}")
    for warning in warnings:
        logger.warning(warning)
    saves_between = any(step < steps for step in plan.checkpoint_steps)
    if training.save_strategy == "steps" and training.save_steps > steps and not saves_between:
        logger.warning(
            f"save_steps={training.save_steps} is more than max_steps={steps}: only the last step will be saved. "
            "Steps are optimizer steps here, not samples."
        )
    shortest = min(stage_lengths(steps, plan.generator_steps))
    if training.get_warmup_steps(shortest) >= shortest:
        logger.warning(
            f"--warmup_steps {training.warmup_steps:g} covers all {shortest} steps: the learning rate never reaches "
            f"{training.learning_rate:g}. Set it to 0.1 for a tenth of the steps."
        )
    return plan


def size_for(corpus_tokens: int) -> str:
    """Options of the largest recipe that repeats a corpus 40 times at most; for less text, fewer steps of tiny."""
    most = MOST_EPOCHS * corpus_tokens
    for name in ("large", "base", "small", "mini"):
        if int(RECIPES[name]["max_steps"]) * tokens_of_step(name) <= most:
            return f"--model_size {name}"
    steps = min(int(RECIPES["tiny"]["max_steps"]), max(1, most // tokens_of_step("tiny")))
    return f"--model_size tiny --max_steps {steps}"


def tokens_of_step(recipe: str) -> int:
    """Tokens of an optimizer step of a recipe on one device, with padding."""
    return int(RECIPES[recipe]["per_device_train_batch_size"]) * int(RECIPES[recipe]["max_length"])


def document_warnings(plan: Plan, document_separator: str, validation_fraction: float) -> list[str]:
    """Warnings of documents that look like paragraphs, and of an unrepresentative held-out set.

    `validation_fraction` is 0 if no document of the corpus is held out.
    """
    warnings = []
    texts = [source for source in plan.sources if source["text_files"]]
    names = ("text_files", "documents", "tokens")
    files, documents, tokens = (sum(source[name] for source in texts) for name in names)
    is_short = tokens < documents * max(SHORT_DOCUMENT, plan.max_length)
    if document_separator == "blank_line" and documents > files > 1 and is_short:
        warnings.append(
            f"{files:,} text files became {documents:,} documents of {tokens / documents:.0f} tokens on average: "
            "every blank line ends a document, and parts of one file are both trained on and held out. If a file is "
            "one document, use --document_separator file."
        )
    share = plan.held_out_tokens / plan.corpus_tokens
    is_usual = validation_fraction / 2 <= share <= 2 * validation_fraction
    if validation_fraction and (plan.held_out_documents < FEWEST_HELD_OUT or not is_usual):
        warnings.append(
            f"{plan.held_out_documents} documents with {share:.2%} of the tokens are held out, few or unusual ones: "
            f"raise --validation_fraction {validation_fraction:g}, try another --eval_seed, or name a "
            "--validation_file."
        )
    return warnings


def training_flops(
    config: ElectraPretrainingConfig, *, max_length: int, batch_size: int, steps: int
) -> tuple[float, float]:
    """6 N T with attention, and the original's count, each summed over the networks.

    A main network that predicts tokens has an LM head, at the chosen or at all positions. With two stages, the first
    has no discriminator, and in the second the generator runs only forward. Not counted: recomputation, and single
    rows, the copy gate and the baseline of the adversarial objective.
    """
    objective = objective_of(config.objective, config.uniform_generator)
    sizes: dict[str, Any] = {"max_length": max_length, "train_batch_size": batch_size}
    large = _shape(config.discriminator)
    discriminator_steps = steps - config.generator_steps

    def total(rule: Callable[..., float], share: float, forward: float) -> float:
        """`share` of the positions is chosen; the forward pass is the share `forward` of a step's FLOPs."""
        flops = 0.0
        if config.generator is not None:
            trained = config.generator_steps + forward * discriminator_steps if objective.has_stages else steps
            flops += rule(None, _shape(config.generator), **sizes, steps=trained, mlm_positions_fraction=share)
        if objective.finds_replaced:
            return flops + rule(large, None, **sizes, steps=discriminator_steps, mlm_positions_fraction=share)
        share = 1.0 if objective.at_all_tokens else share
        return flops + rule(None, large, **sizes, steps=discriminator_steps, mlm_positions_fraction=share)

    return (
        total(six_n_t_flops, config.mlm_probability, forward=1 / 3),
        total(google_training_flops, GOOGLE_MLM_POSITIONS_FRACTION, forward=1 / 2),
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
    """Its sizes, and its type if it is not ELECTRA."""
    kind = "" if config.model_type == "electra" else f"{config.model_type}, "
    return (
        f"{kind}{config.num_hidden_layers} layers of {config.hidden_size}, {config.num_attention_heads} heads, "
        f"feed-forward {value_of(config, 'intermediate_size')}"
    )
