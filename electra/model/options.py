"""Options of the networks, and of the objective that they are trained with."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from electra.backbones import BACKBONES, UNIFORM
from electra.io.files import absolute_if_there
from electra.objectives import OBJECTIVES
from electra.options import (
    BELOW_ONE,
    INSIDE,
    NOT_EMPTY,
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    UP_TO_ONE,
    Options,
    Resuming,
    from_recipe,
    option,
)
from electra.recipes import RECIPES


@dataclass(frozen=True)
class ModelArguments(Options):
    """Networks. A recipe sets their sizes and the options of training that depend on them; flags override it."""

    resuming: ClassVar[Resuming] = "kept"

    model_size: str = option(
        "small",
        "Recipe: architecture, masking, length, batch, learning rate, steps. small to large: the paper's table 6; "
        "tiny, mini: one hour, ten hours on two CPU cores; modern-small: small's FLOPs with ModernBERT's layers.",
        choices=RECIPES,
        resuming="free",
    )
    discriminator_type: str = option("electra", "Architecture of the discriminator.", choices=BACKBONES)
    generator_type: str | None = option(
        None,
        "Architecture of the generator. uniform: no generator network, replacements are drawn uniformly from the "
        "vocabulary. Not set: the discriminator's.",
        choices=[*BACKBONES, UNIFORM],
    )
    embedding_size: int = from_recipe(
        "embedding_size", "Width of the embeddings, if projected (electra, albert, deberta-v2).", POSITIVE
    )
    hidden_size: int = from_recipe("hidden_size", "Width of the discriminator.", POSITIVE)
    num_hidden_layers: int = from_recipe("num_hidden_layers", "Number of layers of the discriminator.", POSITIVE)
    num_attention_heads: int = from_recipe("num_attention_heads", "Attention heads of the discriminator.", POSITIVE)
    intermediate_size: int = from_recipe("intermediate_size", "Feed-forward width of the discriminator.", POSITIVE)
    max_position_embeddings: int = from_recipe("max_position_embeddings", "Maximum length of the networks in tokens.")
    hidden_dropout_prob: float = from_recipe(
        "hidden_dropout_prob", "Dropout of hidden states.", BELOW_ONE, resuming="recorded", inherited=True
    )
    attention_probs_dropout_prob: float = from_recipe(
        "attention_probs_dropout_prob",
        "Dropout of attention weights.",
        BELOW_ONE,
        resuming="recorded",
        inherited=True,
    )
    initializer_range: float = option(
        0.02,
        "Standard deviation of initial weights; narrow networks learn faster with 0.06.",
        UP_TO_ONE,
    )
    initialization: Literal["normal", "truncated_normal", "original", "local"] = option(
        "normal",
        "Initial weights. normal: as in transformers; truncated_normal: within two standard deviations; original: "
        "truncated_normal, with Glorot's for the projection of the embeddings and the replaced-token head; local: "
        "normal, but two heads of a new discriminator (electra, modernbert) look at the neighbouring tokens.",
    )
    generator_size: float = from_recipe(
        "generator_size", "Width of the generator relative to the discriminator's, rounded to whole heads.", POSITIVE
    )
    generator_layer_size: float = from_recipe(
        "generator_layer_size", "Number of layers of the generator relative to the discriminator's.", POSITIVE
    )
    generator_num_attention_heads: int | None = option(
        None, "Attention heads of the generator. Not set: heads as wide as the discriminator's.", POSITIVE
    )
    generator_intermediate_size: int | None = option(
        None,
        "Feed-forward width of the generator. Not set: 4 x its width; with --generator_size 1 the discriminator's.",
        POSITIVE,
    )
    tie: Literal["none", "word", "embeddings", "all", "gdes"] | None = option(
        None,
        "Weights that the networks share. word: word embeddings; embeddings: also position and type embeddings and "
        "their LayerNorm; all: the whole encoder; gdes: word and position embeddings, with a table of differences on "
        "top, as in DeBERTa-v3. Not set: embeddings; none with two_stage.",
        inherited=True,
    )
    init_discriminator: str | None = option(
        None,
        "Start from the discriminator of a run, model folder or Hub id, with its sizes and tokenizer.",
        NOT_EMPTY,
        absolute=absolute_if_there,
    )
    init_generator: str | None = option(
        None,
        "Start from the generator of a run, model folder or Hub id, with its sizes and tokenizer. "
        "google/electra-small-generator is as wide as its discriminator, not a quarter as wide.",
        NOT_EMPTY,
        absolute=absolute_if_there,
    )
    init_generator_layers: int | None = option(
        None,
        "Start from only this many of the first layers of --init_generator. Not set: all.",
        POSITIVE,
    )


@dataclass(frozen=True)
class ObjectiveArguments(Options):
    """Corruption and losses, sections 2, 3.2 and 3.5 of the paper."""

    resuming: ClassVar[Resuming] = "kept"

    objective: str = option(
        "electra",
        "electra: detect replaced tokens, at all positions; electra_15: only at the chosen positions; mlm: BERT, one "
        "network and no generator; replace_mlm: predict the original tokens from the generator's samples; "
        "all_tokens_mlm: predict every token, with a copy gate; two_stage: train the generator alone, then the "
        "discriminator alone; adversarial: train the generator to fool the discriminator; electric: energies by "
        "noise-contrastive estimation, for log probabilities in one pass; causal: predict each token from those "
        "before it, one network without [MASK].",
        choices=OBJECTIVES,
        always_recorded=True,
    )
    mlm_probability: float = from_recipe(
        "mlm_probability", "Share of the tokens that are chosen for masking.", INSIDE, inherited=True
    )
    mlm_replacement_probability: float | None = option(
        None,
        "Share of the chosen tokens that become [MASK]. Not set: 0.85; 0.8 with mlm, 1 with electric.",
        SHARE,
        inherited=True,
    )
    mlm_random_probability: float | None = option(
        None, "Share of the chosen tokens that become random tokens. Not set: 0; 0.1 with mlm.", SHARE, inherited=True
    )
    discriminator_weight: float | None = option(
        None,
        "Weight of the discriminator's loss relative to the generator's, lambda in the paper. Not set: 50; 1 with "
        "two_stage, replace_mlm and all_tokens_mlm.",
        NOT_NEGATIVE,
    )
    generator_gate: list[str] = option(
        [],
        "METRIC THRESHOLD: train the generator only while METRIC of the last held-out evaluation, such as "
        "discriminator_auc, is at least THRESHOLD. It is trained until the first evaluation after step 0.",
    )
    generator_steps: int | None = option(
        None, "Steps of the first of two_stage's stages. Not set: half of all.", POSITIVE
    )
    init_from_generator: bool = option(True, "Start the second stage of two_stage from the equally large generator.")
    temperature: float = option(1.0, "Temperature of the generator's samples: divides the logits.", POSITIVE)
    disallow_correct: bool = option(False, "The generator may not sample the original token.")
