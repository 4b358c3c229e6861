"""Options of corpora, tokenizers, networks and objectives: meaning, unit, default, and the values they may have.

The options of a training run are in pretraining/options.py. Names are the reference's where it has one;
docs/reference_flags.md translates. Defaults are the paper's ELECTRA-Small (recipes.py). cli.py fills the dataclasses.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Literal, NamedTuple

from electra.backbones import BACKBONES, UNIFORM
from electra.io.errors import UserError
from electra.objectives import OBJECTIVES
from electra.recipes import RECIPES

GENERATOR_SIZES = ("generator_num_attention_heads", "generator_intermediate_size")
"""Sizes of the generator that are not relative to the discriminator's."""


class Range(NamedTuple):
    """The values that an option may have; None and, in a list, each element on its own."""

    holds: Callable[[Any], bool]
    expected: str


POSITIVE = Range(lambda value: value > 0, "positive")
NOT_NEGATIVE = Range(lambda value: value >= 0, "0 or more")
BELOW_ONE = Range(lambda value: 0 <= value < 1, "in [0, 1)")
UP_TO_ONE = Range(lambda value: 0 < value <= 1, "in (0, 1]")
INSIDE = Range(lambda value: 0 < value < 1, "in (0, 1)")
SHARE = Range(lambda value: 0 <= value <= 1, "in [0, 1]")
AT_LEAST_8 = Range(lambda value: value >= 8, "at least 8")
STEPS = Range(lambda value: value > 0 or value == -1, "positive, or -1")
SEED = Range(lambda value: 0 <= value < 2**32, "in [0, 2^32)")
RATIO = Range(lambda value: 0 < value <= 100, "in (0, 100]")
NOT_EMPTY = Range(lambda value: value != "", "a name or a folder, or left out")
# Larger ids are not exact in float32, in which held-out records are gathered.
VOCAB_SIZE = Range(lambda value: 6 <= value <= 2**24, "in [6, 2^24]")
# Beyond these float32 makes it 0 or infinite.
TEMPERATURE = Range(lambda value: 1e-30 <= value <= 1e30, "in [1e-30, 1e30]")
NOT_ZERO_IN_FLOAT32 = Range(lambda value: value >= 1e-30, "at least 1e-30")


def option(default: Any, help: str, valid: Range | None = None, choices: Iterable[str] | None = None) -> Any:
    """A dataclass field with its help text; `check_options` refuses values that are not `valid`."""
    metadata = {"help": help, "valid": valid, **({} if choices is None else {"choices": list(choices)})}
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def from_recipe(name: str, help: str, valid: Range | None = None) -> Any:
    return option(RECIPES["small"][name], help, valid)


def check_options(options: Any) -> None:
    """Refuse values that are out of the range of their option, or not finite: those break a run much later."""
    for f in fields(options):
        value, valid = getattr(options, f.name, None), f.metadata.get("valid")
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, float):
                check(math.isfinite(one), f.name, one, "a finite number")
            if valid is not None and one is not None:
                check(valid.holds(one), f.name, one, valid.expected)


def check(condition: bool, name: str, value: Any, expected: str) -> None:
    """Refuse the value of an option unless the condition holds."""
    if not condition:
        raise UserError(f"--{name} {value if value != '' else repr(value)} is not possible: it must be {expected}")


@dataclass
class Options:
    """A group of options, checked when it is made."""

    def __post_init__(self) -> None:
        check_options(self)


@dataclass
class CorpusArguments(Options):
    """The text to train on."""

    dataset_name: list[str] = option(
        [],
        "Data sets of the Hugging Face Hub by id or short name (openwebtext, wikipedia, bookcorpus, wikitext), "
        "folders saved by the datasets library, or 'builtin': the documentation that comes with Python.",
    )
    dataset_config_name: list[str] = option([], "Configuration of each data set, or one for all; 'none' for none.")
    dataset_split: str = option("train", "Split of the data sets to read.")
    train_file: list[str] = option(
        [],
        "Text files, folders or globs: .txt .md .jsonl .csv .tsv .parquet, also compressed. In options with one value "
        "per corpus, files come after data sets.",
    )
    dataset_sampling: list[float] = option(
        [],
        "Share of the documents of each corpus to use, in (0, 1]: a random subset. One for all, or one per corpus.",
        UP_TO_ONE,
    )
    text_column: str = option("text", "Column of the text in jsonl, parquet, csv and data sets.")
    document_separator: Literal["blank_line", "line", "file"] = option(
        "blank_line", "What separates documents in plain text."
    )


@dataclass
class CacheArguments(Options):
    """Cache of tokenized text and trained tokenizers."""

    cache_dir: str = option("cache", "Folder of tokenized corpora and of the tokenizers trained for runs.", NOT_EMPTY)


@dataclass
class TokenizerArguments(Options):
    """A newly trained tokenizer."""

    tokenizer_algorithm: Literal["wordpiece", "byte_bpe", "unigram"] = option(
        "wordpiece", "Algorithm of a newly trained tokenizer."
    )
    vocab_size: int = option(30522, "Tokens in a newly trained vocabulary, including special tokens.", VOCAB_SIZE)
    min_frequency: int = option(2, "Minimum number of occurrences of a pair that is merged into a token.", POSITIVE)
    lowercase: bool = option(True, "Lower-case the text (--cased keeps the case).")
    strip_accents: bool | None = option(None, "Remove accents: ü becomes u. Not set: if the text is lower-cased.")
    max_documents: int | None = option(
        None, "Train the tokenizer on this many documents, drawn at random. Not set: on all.", POSITIVE
    )


@dataclass
class TokenizerPathArguments(Options):
    """An existing tokenizer."""

    tokenizer_path: str | None = option(
        None,
        "Tokenizer to use: a folder, a Hub id, or a JSON file of the tokenizers library. Not set: one is trained on "
        "the corpus and stored with the run.",
        NOT_EMPTY,
    )


@dataclass
class ModelArguments(Options):
    """Networks. A recipe sets their sizes and the options of training that depend on them; flags override it."""

    model_size: Literal["small", "small++", "base", "large", "tiny", "mini", "modern-small"] = option(
        "small",
        "Recipe: architecture, masking, length, batch, learning rate, steps. small to large: the paper's table 6; "
        "tiny, mini: one hour, ten hours on two CPU cores; modern-small: small's FLOPs with ModernBERT's layers.",
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
    hidden_dropout_prob: float = from_recipe("hidden_dropout_prob", "Dropout of hidden states.", BELOW_ONE)
    attention_probs_dropout_prob: float = from_recipe(
        "attention_probs_dropout_prob", "Dropout of attention weights.", BELOW_ONE
    )
    initializer_range: float = option(
        0.02, "Standard deviation of initial weights; narrow networks learn faster with 0.06.", UP_TO_ONE
    )
    initialization: Literal["normal", "truncated_normal", "original", "local"] = option(
        "normal",
        "Initial weights. normal: as in transformers; truncated_normal: within two standard deviations; original: "
        "truncated_normal, with Glorot's for the projection of the embeddings and the replaced-token head; local: "
        "normal, but two heads of a new discriminator (electra, modernbert) look at the neighbouring tokens.",
    )
    generator_size: float = from_recipe(
        "generator_size", "Width of the generator relative to the discriminator's, rounded to whole heads.", RATIO
    )
    generator_layer_size: float = from_recipe(
        "generator_layer_size", "Number of layers of the generator relative to the discriminator's.", RATIO
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
    )
    init_discriminator: str | None = option(
        None, "Start from the discriminator of a run, model folder or Hub id, with its sizes and tokenizer.", NOT_EMPTY
    )
    init_generator: str | None = option(
        None,
        "Start from the generator of a run, model folder or Hub id, with its sizes and tokenizer. "
        "google/electra-small-generator is as wide as its discriminator, not a quarter as wide.",
        NOT_EMPTY,
    )
    init_generator_layers: int | None = option(
        None, "Start from only this many of the first layers of --init_generator. Not set: all.", POSITIVE
    )


ObjectiveName = Literal[
    "electra", "electra_15", "mlm", "replace_mlm", "all_tokens_mlm", "two_stage", "adversarial", "electric"
]  # fmt: skip


@dataclass
class ObjectiveArguments(Options):
    """Corruption and losses, sections 2, 3.2 and 3.5 of the paper."""

    objective: ObjectiveName = option(
        "electra",
        "electra: detect replaced tokens, at all positions; electra_15: only at the chosen positions; mlm: BERT, one "
        "network and no generator; replace_mlm: predict the original tokens from the generator's samples; "
        "all_tokens_mlm: predict every token, with a copy gate; two_stage: train the generator alone, then the "
        "discriminator alone; adversarial: train the generator to fool the discriminator; electric: energies by "
        "noise-contrastive estimation, for log probabilities in one pass.",
    )
    mlm_probability: float = from_recipe("mlm_probability", "Share of the tokens that are chosen for masking.", INSIDE)
    mlm_replacement_probability: float | None = option(
        None, "Share of the chosen tokens that become [MASK]. Not set: 0.85; 0.8 with mlm, 1 with electric.", SHARE
    )
    mlm_random_probability: float | None = option(
        None, "Share of the chosen tokens that become random tokens. Not set: 0; 0.1 with mlm.", SHARE
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
    temperature: float = option(1.0, "Temperature of the generator's samples: divides the logits.", TEMPERATURE)
    disallow_correct: bool = option(False, "The generator may not sample the original token.")

    def __post_init__(self) -> None:
        super().__post_init__()
        masked, random, _ = self.corruption_and_weight()
        if masked + random > 1 + 1e-9:
            raise UserError(
                f"--mlm_replacement_probability {masked:g} and --mlm_random_probability {random:g} add up to more "
                "than 1; lower one of them"
            )
        objective = OBJECTIVES[self.objective]
        both_at_once = ("discriminator_weight", "generator_gate")
        if not objective.has_generator:
            self.refuse(("temperature", "disallow_correct", *both_at_once), "it has no generator")
        if objective.has_stages:
            self.refuse(both_at_once, "it trains one network at a time")
        else:
            self.refuse(("generator_steps", "init_from_generator"), "it has no stages")
        if objective.is_adversarial:
            self.refuse(("temperature", "disallow_correct"), "its generator learns from unmodified samples")
        if objective.is_energy_based:
            self.refuse(("temperature", "disallow_correct"), "its noise is the generator's own distribution")
            check(masked == 1, "mlm_replacement_probability", masked, "1 with electric: noise must not know the token")

    def refuse(self, names: Iterable[str], reason: str, whose: str = "") -> None:
        """Refuse options that have no effect with `whose` setting, by default the objective."""
        for f in fields(self):
            default = f.default_factory() if f.default_factory is not MISSING else f.default
            if f.name in names and getattr(self, f.name) != default:
                raise UserError(
                    f"--{f.name} has no effect with {whose or f'--objective {self.objective}'}: {reason}; leave it out"
                )

    def corruption_and_weight(self) -> tuple[float, float, float]:
        """mlm_replacement_probability, mlm_random_probability, discriminator_weight; the objective's where not set."""

        def value(name: str) -> float:
            chosen = getattr(self, name)
            return getattr(OBJECTIVES[self.objective], name) if chosen is None else chosen

        return value("mlm_replacement_probability"), value("mlm_random_probability"), value("discriminator_weight")


@dataclass
class SegmentArguments(Options):
    """How documents become training and evaluation segments."""

    max_length: int = from_recipe("max_length", "Maximum tokens of a segment, including special tokens.", AT_LEAST_8)
    segment_policy: Literal["windows", "document", "google", "pairs", "packed"] = option(
        "windows",
        "windows: consecutive windows from a random offset, so that an epoch has each token about once; document: one "
        "random window per document and epoch (rc2020_electra); google: the original's static builder; pairs: random "
        "pieces of two documents (lmtuners); packed: windows, and short documents share rows, so that nearly no token "
        "is padding.",
    )
    validation_file: list[str] = option(
        [],
        "Files, folders or globs of held-out text, in the same format. Not set: a share of the corpus is held out. "
        "Several texts, each with its own metrics: name=path name=path; the first decides about checkpoints.",
    )
    validation_fraction: float = option(0.01, "Share of the documents to hold out; 0: no evaluation.", BELOW_ONE)
    max_eval_segments: int = option(2000, "Maximum segments per evaluation: a fixed random subset.", POSITIVE)
    eval_corruption: str | None = option(
        None,
        "File of electra.corruption_set: text with fixed replacements, on which discriminators of several generators "
        "can be compared. Its metrics are called fixed_*.",
        NOT_EMPTY,
    )


@dataclass
class TokenizerTrainingArguments(Options):
    """The output of a tokenizer training."""

    extend: str | None = option(
        None,
        "Tokenizer to extend with the tokens that shorten the text most, instead of training a new one: a folder, a "
        "Hub id, or a JSON file of the tokenizers library. Its ids stay as they are.",
        NOT_EMPTY,
    )
    new_tokens: int = option(2000, "Tokens to add with --extend.", POSITIVE)
    output_dir: str = option("tokenizer", "Folder to write the tokenizer to.")
    seed: int = option(42, "Seed of the sampled subset and of the documents held out to measure the tokenizer.", SEED)
