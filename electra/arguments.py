"""Every knob of pre-training and tokenizers, once: its meaning, its unit, its default and where that comes from.

Names are the reference's where it has one, those of `TrainingArguments` elsewhere; docs/reference_flags.md translates.
Defaults are the paper's ELECTRA-Small (recipes.py). How values are read is in command_line.py.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Literal

import torch
from transformers import TrainingArguments

from electra.backbones import BACKBONES, UNIFORM
from electra.errors import UserError
from electra.machine import computes_bf16
from electra.objectives import OBJECTIVES
from electra.recipes import RECIPES
from electra.redaction import without_secrets

_SMALL: dict[str, Any] = RECIPES["small"]
GENERATOR_SIZES = ("generator_num_attention_heads", "generator_intermediate_size")
"""Sizes of the generator that are not relative to the discriminator's."""
MAX_VOCAB_SIZE = 2**24
"""Ids up to here are exact in float32, in which held-out records are gathered."""


def option(default: Any, help: str, choices: Iterable[str] | None = None) -> Any:
    """A field of a group of options: its default, what --help says, and the values it may have if they are few."""
    metadata = {"help": help, **({} if choices is None else {"choices": list(choices)})}
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def _from_recipe(name: str, help: str) -> Any:
    return option(_SMALL[name], help)


def check_finite(options: Any) -> None:
    """Refuse inf and nan, which pass comparisons and break a run much later."""
    for f in fields(options):
        value = getattr(options, f.name, None)
        if isinstance(value, float) and not math.isfinite(value):
            raise UserError(f"--{f.name} {value} is not possible: it must be a finite number")


def check(condition: bool, name: str, value: Any, expected: str) -> None:
    """Refuse the value of an option that is out of its range."""
    if not condition:
        raise UserError(f"--{name} {value} is not possible: it must be {expected}")


def is_json_object(value: Any) -> bool:
    """Whether a mapping, or the text of one."""
    try:
        return isinstance(json.loads(value) if isinstance(value, str) else value, dict)
    except ValueError:
        return False


@dataclass
class CorpusArguments:
    """The text to learn from."""

    dataset_name: list[str] = option(
        [],
        "Hugging Face Hub data sets by id or short name (openwebtext, wikipedia, bookcorpus, wikitext), folders "
        "saved by the datasets library, or 'builtin': the documentation that comes with Python.",
    )
    dataset_config_name: list[str] = option(
        [], "Configuration of each data set, or one for all; 'none' where there is none."
    )
    dataset_split: str = option("train", "Split of the data sets to read.")
    train_file: list[str] = option(
        [],
        "Text files, folders or globs: .txt .jsonl .parquet .csv, also compressed. Named after the data sets where "
        "each corpus has a number.",
    )
    dataset_sampling: list[float] = option(
        [], "Share of the documents of each corpus to use, in (0, 1]: a random subset. One for all, or one for each."
    )
    text_column: str = option("text", "Column of the text in jsonl, parquet, csv and data sets.")
    document_separator: Literal["blank_line", "line", "file"] = option(
        "blank_line", "What ends a document in plain text."
    )


@dataclass
class CacheArguments:
    """Where what is made of the text once is kept."""

    cache_dir: str = option("cache", "Folder for tokenized corpora and the tokenizers trained on the way.")
    overwrite_cache: bool = option(False, "Tokenize the corpus again although it is in the cache.")

    def __post_init__(self) -> None:
        check(self.cache_dir != "", "cache_dir", "''", "a folder")


@dataclass
class TokenizerArguments:
    """How text becomes tokens."""

    tokenizer_algorithm: Literal["wordpiece", "byte_bpe", "unigram"] = option(
        "wordpiece", "Algorithm of a newly trained tokenizer."
    )
    vocab_size: int = option(30522, "Tokens in a newly trained vocabulary, special ones included.")
    min_frequency: int = option(2, "Least number of occurrences of a pair that is merged into a token.")
    lowercase: bool = option(True, "Lower-case the text (--cased keeps it).")
    strip_accents: bool | None = option(None, "Remove accents: ü becomes u. Not set: if the text is lower-cased.")
    max_documents: int | None = option(
        None, "Train the tokenizer on that many documents, drawn at random without replacement. Not set: on all."
    )

    def __post_init__(self) -> None:
        check(6 <= self.vocab_size <= MAX_VOCAB_SIZE, "vocab_size", self.vocab_size, f"in [6, {MAX_VOCAB_SIZE}]")
        check(1 <= self.min_frequency < 2**31, "min_frequency", self.min_frequency, "at least 1")
        check(self.max_documents is None or self.max_documents > 0, "max_documents", self.max_documents, "positive")


@dataclass
class TokenizerPathArguments:
    """A tokenizer that exists."""

    tokenizer_path: str | None = option(
        None,
        "Tokenizer to use: a folder, a Hub id, or a JSON file of the tokenizers library. Not set: one is trained on "
        "the corpus and stored with the run.",
    )

    def __post_init__(self) -> None:
        check(self.tokenizer_path != "", "tokenizer_path", "''", "a folder, a file or a Hub id")


@dataclass
class ModelArguments:
    """Sizes of the two networks. A recipe sets all of them, and those of training; any flag overrides it."""

    model_size: Literal["small", "small++", "base", "large"] = option(
        "small", "Recipe of the paper's table 6: architecture, masking, length, batch, learning rate, steps."
    )
    discriminator_type: str = option("electra", "Architecture of the discriminator.", choices=BACKBONES)
    generator_type: str | None = option(
        None,
        "Architecture of the generator, or uniform: none, replacements are drawn evenly from the vocabulary and the "
        "large network is trained alone. Not set: the discriminator's.",
        choices=[*BACKBONES, UNIFORM],
    )
    embedding_size: int = _from_recipe(
        "embedding_size",
        "Width of the embeddings, where the architecture projects them (electra, albert, deberta-v2); else they are "
        "as wide as the network.",
    )
    hidden_size: int = _from_recipe("hidden_size", "Width of the discriminator.")
    num_hidden_layers: int = _from_recipe("num_hidden_layers", "Layers of the discriminator.")
    num_attention_heads: int = _from_recipe("num_attention_heads", "Attention heads of the discriminator.")
    intermediate_size: int = _from_recipe("intermediate_size", "Width of the discriminator's feed-forward layers.")
    max_position_embeddings: int = _from_recipe("max_position_embeddings", "Longest sequence of the networks, tokens.")
    hidden_dropout_prob: float = _from_recipe("hidden_dropout_prob", "Dropout of hidden states, in [0, 1).")
    attention_probs_dropout_prob: float = _from_recipe(
        "attention_probs_dropout_prob", "Dropout of attention weights, in [0, 1)."
    )
    initializer_range: float = option(
        0.02,
        "Standard deviation of fresh weights, > 0. Networks narrower than 256 learn sooner with more, such as 0.06.",
    )
    initialization: Literal["normal", "truncated_normal", "original"] = option(
        "normal",
        "Of fresh weights. normal: transformers'; truncated_normal: none beyond two standard deviations; original: "
        "that, and Glorot's of the projection of the embeddings and of the replaced-token output.",
    )
    generator_size: float = _from_recipe(
        "generator_size", "Width of the generator relative to the discriminator's, > 0; whole attention heads."
    )
    generator_layer_size: float = _from_recipe(
        "generator_layer_size", "Layers of the generator relative to the discriminator's, > 0."
    )
    generator_num_attention_heads: int | None = option(
        None, "Attention heads of the generator. Not set: as wide as the discriminator's."
    )
    generator_intermediate_size: int | None = option(
        None, "Width of the generator's feed-forward layers. Not set: 4 times its own."
    )
    tie: Literal["none", "word", "embeddings", "all", "gdes"] | None = option(
        None,
        "What the networks share. word: word embeddings; embeddings: also those of positions and types, and their "
        "LayerNorm; all: the whole encoder; gdes: words and positions, with a table of differences on top, as in "
        "DeBERTa-v3. Not set: embeddings; of two_stage none.",
    )
    tie_embedding_projection: bool = option(
        False, "Share the projection of the embeddings to the networks' width, too; they must have one width."
    )
    init_discriminator: str | None = option(
        None,
        "Start the discriminator from trained weights: a run of this program, a model folder or a Hub id. Its sizes "
        "and its tokenizer are taken over.",
    )
    init_generator: str | None = option(
        None,
        "The same for the generator. google/electra-small-generator is as large as its discriminator, not a quarter.",
    )

    def __post_init__(self) -> None:
        check_finite(self)
        for name in ("embedding_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"):
            check(getattr(self, name) > 0, name, getattr(self, name), "positive")
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            check(0 <= getattr(self, name) < 1, name, getattr(self, name), "in [0, 1)")
        check(0 < self.initializer_range <= 1, "initializer_range", self.initializer_range, "in (0, 1]")
        for name in ("init_discriminator", "init_generator"):
            check(getattr(self, name) != "", name, "''", "a folder or a Hub id")
        for name in ("generator_num_attention_heads", "generator_intermediate_size"):
            value = getattr(self, name)
            check(value is None or value > 0, name, value, "positive")
        for name in ("generator_size", "generator_layer_size"):
            check(0 < getattr(self, name) <= 100, name, getattr(self, name), "in (0, 100]")


ObjectiveName = Literal["electra", "electra_15", "mlm", "replace_mlm", "all_tokens_mlm", "two_stage", "adversarial"]


@dataclass
class ObjectiveArguments:
    """Corruption and losses, sections 2, 3.2 and 3.5 of the paper."""

    objective: ObjectiveName = option(
        "electra",
        "electra: tell replaced tokens from originals, at all tokens; electra_15: at the chosen ones only; mlm: BERT, "
        "one network and no generator; replace_mlm: predict the originals behind the generator's samples; "
        "all_tokens_mlm: predict every token, with a copy gate; two_stage: train the generator alone, then the "
        "discriminator alone; adversarial: the generator is trained to fool the discriminator.",
    )
    mlm_probability: float = _from_recipe("mlm_probability", "Share of the tokens that is chosen, in (0, 1).")
    mlm_replacement_probability: float | None = option(
        None,
        "Share of the chosen tokens that becomes [MASK], in [0, 1]; the others stay, and are sampled all the same. "
        "Not set: 0.85, of mlm 0.8.",
    )
    mlm_random_probability: float | None = option(
        None, "Share of the chosen tokens that becomes a random token, in [0, 1]. Not set: 0, of mlm 0.1."
    )
    discriminator_weight: float | None = option(
        None,
        "Weight of the large network's loss beside the generator's, lambda in the paper, 0 or more. Not set: 50; of "
        "replace_mlm and all_tokens_mlm, whose two losses are of one size, 1.",
    )
    discriminator_warmup_steps: int = option(
        0,
        "Optimizer steps in which that weight rises linearly to its full value; 0: it has it from the first step on.",
    )
    generator_gate: list[str] = option(
        [],
        "METRIC THRESHOLD: the generator is trained only while METRIC of the last held-out evaluation, such as "
        "discriminator_auc, was at least THRESHOLD. Until the first one after step 0 it is.",
    )
    generator_steps: int | None = option(
        None, "Optimizer steps of the generator's stage of two_stage, above 0. Not set: half of them."
    )
    init_from_generator: bool = option(
        True, "The discriminator's stage of two_stage starts from the generator's weights; their sizes must be equal."
    )
    temperature: float = option(1.0, "Temperature of the generator's samples, > 0; divides the logits.")
    disallow_correct: bool = option(False, "The generator may not sample the original token.")

    def __post_init__(self) -> None:
        check_finite(self)
        check(0 < self.mlm_probability < 1, "mlm_probability", self.mlm_probability, "in (0, 1)")
        masked, random, weight = self.corruption_and_weight()
        check(0 <= masked <= 1, "mlm_replacement_probability", masked, "in [0, 1]")
        check(0 <= random <= 1, "mlm_random_probability", random, "in [0, 1]")
        if masked + random > 1 + 1e-9:
            raise UserError(
                f"--mlm_replacement_probability {masked:g} and --mlm_random_probability {random:g} are more than all "
                "of the chosen tokens; make their sum at most 1"
            )
        check(weight >= 0, "discriminator_weight", weight, "0 or more")
        check(self.temperature > 0, "temperature", self.temperature, "above 0")
        rise, alone = self.discriminator_warmup_steps, self.generator_steps
        check(rise >= 0, "discriminator_warmup_steps", rise, "0 or more")
        check(alone is None or alone > 0, "generator_steps", alone, "above 0")
        has = OBJECTIVES[self.objective]
        at_once = ("discriminator_weight", "discriminator_warmup_steps", "generator_gate")
        if not has.has_generator:
            self.refuse(("temperature", "disallow_correct", *at_once), "it has no generator")
        if has.has_stages:
            self.refuse(at_once, "it trains one network at a time")
        else:
            self.refuse(("generator_steps", "init_from_generator"), "it has no stages")
        if has.is_adversarial:
            self.refuse(("temperature", "disallow_correct"), "its generator learns from samples as they are")

    def refuse(self, names: Iterable[str], reason: str, whose: str = "") -> None:
        """Raise a UserError if one of these options is set; `whose` settings give it no meaning, the objective's."""
        for f in fields(self):
            default = f.default_factory() if f.default_factory is not MISSING else f.default
            if f.name in names and getattr(self, f.name) != default:
                raise UserError(
                    f"--{f.name} has no meaning for {whose or f'--objective {self.objective}'}: {reason}; leave it out"
                )

    def corruption_and_weight(self) -> tuple[float, float, float]:
        """mlm_replacement_probability, mlm_random_probability and discriminator_weight; the objective's if not set."""
        names = ("mlm_replacement_probability", "mlm_random_probability", "discriminator_weight")
        chosen = (getattr(self, name) for name in names)
        defaults = (getattr(OBJECTIVES[self.objective], name) for name in names)
        masked, random, weight = (d if c is None else c for c, d in zip(chosen, defaults, strict=True))
        return masked, random, weight


@dataclass
class SegmentArguments:
    """How documents become training and evaluation segments."""

    max_length: int = _from_recipe("max_length", "Longest segment, tokens, special ones included.")
    segment_policy: Literal["windows", "document", "google", "pairs"] = option(
        "windows",
        "windows: evenly spaced from a random offset, tokens about once an epoch on average; document: one random "
        "window per document and epoch (rc2020_electra); google: the original's static builder; pairs: a random piece "
        "each of two documents (lmtuners).",
    )
    validation_file: list[str] = option(
        [], "Files, folders or globs of held-out text, of the same format. Not set: a share of the corpus is held out."
    )
    validation_fraction: float = option(
        0.01, "Share of the documents held out when no validation_file is given, in [0, 1); 0 evaluates nothing."
    )
    max_eval_segments: int = option(2000, "Segments of an evaluation at most: a fixed random subset of the held-out.")

    def __post_init__(self) -> None:
        check_finite(self)
        check(self.max_length >= 8, "max_length", self.max_length, "at least 8")
        check(0 <= self.validation_fraction < 1, "validation_fraction", self.validation_fraction, "in [0, 1)")
        check(self.max_eval_segments > 0, "max_eval_segments", self.max_eval_segments, "positive")


_WITHOUT_EFFECT: dict[str, Any] = {
    "label_smoothing_factor": 0.0,
    "train_sampling_strategy": "random",
    "prediction_loss_only": False,
    "batch_eval_metrics": False,
    "eval_do_concat_batches": True,
    "ignore_data_skip": False,
    "neftune_noise_alpha": None,
    "use_liger_kernel": False,
    "liger_kernel_config": None,
}
"""Options of Trainer that this one does not follow, and the only value they may have: better refused than ignored."""


@dataclass
class PretrainingArguments(TrainingArguments):
    """`transformers.TrainingArguments` with the defaults of pre-training and a few options of its own.

    Its fields are all available. `*_steps` are optimizer steps, not samples as in rc2020_electra.
    """

    output_dir: str = option("output", "Folder of all runs; this one's is output_dir/experiment_name.")
    experiment_name: str = option(
        "electra", "Name of the run and its folder. A folder that is taken is never overwritten: -2, -3 ... is added."
    )
    data_seed: int = option(
        42,
        "Seed of what the data are: sampled subset, held-out documents, masks of the evaluation. Runs that "
        "are to be compared share it.",
    )
    max_steps: int = _from_recipe("max_steps", "Optimizer steps. -1: as many as --num_train_epochs take.")
    num_train_epochs: float = option(3.0, "Passes over the corpus; only with --max_steps -1.")
    per_device_train_batch_size: int = _from_recipe(
        "per_device_train_batch_size",
        "Segments per device and step. A step's batch is this times devices times gradient_accumulation_steps.",
    )
    per_device_eval_batch_size: int = option(128, "Segments per device in evaluation.")
    learning_rate: float = _from_recipe("learning_rate", "Peak learning rate.")
    warmup_steps: float = _from_recipe("warmup_steps", "Optimizer steps of linear warm-up; below 1: a share of all.")
    weight_decay: float = _from_recipe("weight_decay", "Weight decay; biases and LayerNorms have none.")
    max_grad_norm: float = _from_recipe("max_grad_norm", "Gradients are scaled down to this norm.")
    adam_beta1: float = _from_recipe("adam_beta1", "Adam's decay of the mean gradient.")
    adam_beta2: float = _from_recipe("adam_beta2", "Adam's decay of the mean squared gradient.")
    adam_epsilon: float = _from_recipe("adam_epsilon", "Adam's epsilon.")
    adam_bias_correction: bool = option(
        True, "Adam with bias correction. The original has none: --adam_bias_correction false is its optimizer."
    )
    product_schedule: bool = option(
        False, "The original's schedule, warm-up times decay from step 0 on, in place of warm-up and then decay."
    )
    eval_strategy: str = option("steps", "When to evaluate: no, steps, epoch.")
    eval_steps: float | None = option(5000, "Optimizer steps between evaluations.")
    logging_steps: float = option(100, "Optimizer steps between logged averages.")
    save_steps: float = option(10_000, "Optimizer steps between checkpoints. The last step is always saved.")
    save_total_limit: int | None = option(3, "Checkpoints kept, the newest.")
    plan: bool = option(
        False,
        "Train nothing: say what the run will take, with the time by a trial of ten steps, and leave no run folder. "
        "The tokenizer and the token cache stay.",
    )
    auto_resume: bool = option(
        False,
        "Start the run of --experiment_name, or continue its newest whole checkpoint if it has one, or say that it is "
        "finished: the same command, however often it is started.",
    )
    max_hours: float | None = option(
        None,
        "Save and stop after this many hours, counted from the start of the command; exit code 85. Leave time for "
        "the last step and the saving.",
    )
    max_skipped_steps: int = option(
        10,
        "Steps in a row that are skipped, for a loss or gradient that is infinite or not a number, at which the run "
        "stops. Weights that are still good get over it in one or two; fp16 finds its scale in fewer than ten.",
    )
    checkpoint_fractions: list[float] = option(
        [],
        "Fractions of the optimizer steps, in (0, 1], after which a checkpoint is saved as well, and never deleted by "
        "--save_total_limit: partial training. The paper's: 0.0625 0.125 0.25 0.5 1. Of a run resumed with "
        "another --max_steps they are other steps.",
    )
    bf16: bool | None = option(
        None, "Compute in bfloat16, weights and losses in float32. Not set: where the device has it, GPU or CPU."
    )
    logging_nan_inf_filter: bool = option(False, "Hide losses that are not numbers from the log.")
    ddp_find_unused_parameters: bool | None = option(
        False, "Search for weights without gradient. Set where there are some: two_stage, --generator_gate."
    )
    remove_unused_columns: bool = option(False, "Not used: batches hold what the model takes.")
    report_to: list[str] = option(["none"], "Where to log: tensorboard, wandb, none ... one or several.")

    def __post_init__(self) -> None:
        check_finite(self)
        for name in ("per_device_train_batch_size", "per_device_eval_batch_size", "gradient_accumulation_steps"):
            check(getattr(self, name) > 0, name, getattr(self, name), "positive")
        for name in ("seed", "data_seed"):
            check(0 <= getattr(self, name) < 2**32, name, getattr(self, name), "in [0, 2^32)")
        check(self.dataloader_num_workers >= 0, "dataloader_num_workers", self.dataloader_num_workers, "0 or more")
        prefetched = self.dataloader_prefetch_factor
        check(prefetched is None or prefetched > 0, "dataloader_prefetch_factor", prefetched, "positive")
        for name in ("dataloader_persistent_workers", "dataloader_multiprocessing_context"):
            if getattr(self, name) and self.dataloader_num_workers == 0:
                raise UserError(f"--{name} needs --dataloader_num_workers above 0; set it, or leave --{name} out")
        for name, default in _WITHOUT_EFFECT.items():
            expected = "left out" if default is None else default
            check(
                getattr(self, name) == default,
                name,
                getattr(self, name),
                f"{expected}, pre-training has no use for it",
            )
        check(self.max_steps > 0 or self.max_steps == -1, "max_steps", self.max_steps, "positive, or -1")
        check(self.num_train_epochs > 0, "num_train_epochs", self.num_train_epochs, "above 0")
        for name in ("learning_rate", "warmup_steps", "weight_decay", "max_grad_norm", "save_steps"):
            check(getattr(self, name) >= 0, name, getattr(self, name), "0 or more")
        check(self.adam_epsilon > 0, "adam_epsilon", self.adam_epsilon, "above 0")
        for name in ("adam_beta1", "adam_beta2"):
            check(0 <= getattr(self, name) < 1, name, getattr(self, name), "in [0, 1)")
        for fraction in self.checkpoint_fractions:
            check(0 < fraction <= 1, "checkpoint_fractions", fraction, "in (0, 1], a fraction of the optimizer steps")
        if self.checkpoint_fractions and self.save_strategy == "best":
            raise UserError(
                "--checkpoint_fractions does not work with --save_strategy best, which saves nothing but the best; "
                "choose steps, epoch or no"
            )
        if self.auto_resume and self.resume_from_checkpoint is not None:
            raise UserError(
                "--auto_resume finds the checkpoint itself; leave --resume_from_checkpoint out, or --auto_resume"
            )
        check(self.max_hours is None or self.max_hours > 0, "max_hours", self.max_hours, "above 0")
        check(self.max_skipped_steps > 0, "max_skipped_steps", self.max_skipped_steps, "at least 1")
        check(self.eval_steps is None or self.eval_steps > 0, "eval_steps", self.eval_steps, "above 0")
        accumulation = self.eval_accumulation_steps
        check(accumulation is None or accumulation > 0, "eval_accumulation_steps", accumulation, "positive")
        if self.include_num_input_tokens_seen not in ("no", False):
            raise UserError(
                "--include_num_input_tokens_seen is not needed: tokens_seen is always logged; leave it out"
            )
        if "tpu_metrics_debug" in (self.debug or []):
            raise UserError("--debug tpu_metrics_debug is for TPUs, which are not supported; leave it out")
        for name in ("lr_scheduler_kwargs", "gradient_checkpointing_kwargs", "activation_checkpointing_kwargs"):
            value = getattr(self, name)
            check(value is None or is_json_object(value), name, value, "a JSON object")
        if not torch.accelerator.is_available():
            self.use_cpu = True  # or transformers refuses bf16, which a CPU does well
        if self.bf16 is None:
            self.bf16 = not self.fp16 and computes_bf16(use_cpu=self.use_cpu)
        try:
            super().__post_init__()
        except (ValueError, TypeError, ImportError, OSError, OverflowError) as error:
            raise UserError(f"these options do not work: {error}") from error

    def __getstate__(self) -> dict[str, Any]:
        """Without tokens: Trainer pickles its options into what it pushes to the Hub."""
        return without_secrets(self.__dict__)


@dataclass
class TokenizerTrainingArguments:
    """Where a tokenizer goes."""

    output_dir: str = option("tokenizer", "Folder to write the tokenizer to.")
    seed: int = option(42, "Seed of the sampled subset and of the documents held out to measure the tokenizer.")

    def __post_init__(self) -> None:
        check(0 <= self.seed < 2**32, "seed", self.seed, "in [0, 2^32)")


def check_lengths(max_length: int, max_position_embeddings: int) -> None:
    """Refuse segments longer than the position table."""
    if max_length > max_position_embeddings:
        raise UserError(
            f"--max_length {max_length} is longer than the position table, --max_position_embeddings "
            f"{max_position_embeddings}; shorten the segments or enlarge the table"
        )
