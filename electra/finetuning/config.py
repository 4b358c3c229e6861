"""Options of fine-tuning: each option once, with its meaning, unit and default.

The defaults are those of table 7 of the ELECTRA paper, but for narrow encoders on texts of the user
(`NARROW_DEFAULTS`); configs/glue/ holds the settings of other sources. Where an option that depends on the encoder or
the task is not given, `resolve_hyperparameters` sets it: in `HyperParameters` each option has a value.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from electra.base.command_line import CommandLine
from electra.base.options import AT_LEAST_8, FOLDER_NAME, NOT_EMPTY, SEED, Options, Values
from electra.core.errors import UserError
from electra.core.options import option, rules_of
from electra.core.ranges import BELOW_ONE, INSIDE, NOT_NEGATIVE, POSITIVE, UP_TO_ONE, check
from electra.data.cells import DELIMITER_HELP, QUOTING_HELP, Quoting
from electra.finetuning.data import (
    DATASET_ARGUMENTS,
    RECORDED_AS_DATA,
    SPLITS,
    NamedRows,
    data_settings,
    files_by_split,
)
from electra.finetuning.registry import NARROW_COMMANDS
from electra.report.verdict import MOST_ADVISED_EPOCHS, SMALL_RATE
from electra.runtime.device import computes_bf16

if TYPE_CHECKING:  # its modules take seconds to import: help and errors of the options come before
    from electra.finetuning.heads import Encoder

HeadName = Literal["google", "hf", "hf_mean", "mean_pool", "bilstm"]
"""The heads of `EncoderWithHead` in electra/finetuning/heads.py."""
FeatureName = Literal["last", "second_to_last", "concat_4", "mix_4", "mix_all", "embeddings"]
"""Features that a tagger reads of a frozen encoder, see electra/finetuning/features.py."""
HEADS = (
    "hf: that of transformers for this architecture; hf_mean: the same on the mean of all tokens, for architectures "
    "whose class can do so, as ModernBERT's (tiny, mini, modern-small, the quickstart); --save_model keeps these two. "
    "google: first token, dropout, linear layer; mean_pool: rc2020_electra's two layers on the mean of all tokens; "
    "bilstm: a layer on the last states of a two-layer BiLSTM of 768, as in table 5 of BERT's paper."
)
"""The values of --head in words, for the help of several commands."""


@dataclass(frozen=True)
class EncoderArguments(Options):
    """The encoder to fine-tune."""

    pretrain_path: str | None = option(
        None,
        "Encoder to fine-tune: a run folder, a checkpoint-N (its discriminator is used), an exported folder, the "
        "Hub id of any encoder, such as google/electra-small-discriminator, or tiny-en, the small English network of "
        f"this package. Default in {NARROW_COMMANDS}: tiny-en.",
    )
    from_scratch: str | None = option(
        None,
        "Fine-tune randomly initialised weights instead, as a baseline. Takes its architecture from a folder, run "
        "or Hub id, or from the name of a recipe, as --model_size takes it (needs --tokenizer_path).",
    )
    tokenizer_path: str | None = option(None, "Tokenizer, if the model's folder has none.")


@dataclass(frozen=True)
class FineTuningArguments(Options):
    """Fine-tuning of an encoder. Options are named as in `transformers.TrainingArguments`, where it has them."""

    learning_rate: float | None = option(
        None,
        "Peak learning rate. Default by hidden size: 3e-4 (below 512), 1e-4 (below 1024), 5e-5; 1e-3 below 256 in "
        f"{NARROW_COMMANDS}.",
        UP_TO_ONE,
    )
    layerwise_lr_decay: float | None = option(
        None,
        "Learning rate of a layer divided by that of the layer above, in (0, 1]; 1 disables it. Default: 0.8, or 0.9 "
        f"for hidden sizes of 1024 and more; 1 below 256 in {NARROW_COMMANDS}.",
        UP_TO_ONE,
    )
    layerwise_lr_decay_mode: Literal["paper", "google", "rc2020"] = option(
        "paper",
        "Where the decay starts. paper: the top layer has the head's rate times the decay; google: one more step of "
        "decay, as in the original code; rc2020: one step less, with the embeddings as the first layer.",
    )
    num_train_epochs: float | None = option(
        None,
        "Passes over the training data. Default: 3; with encoders narrower than 256, as many as 250 steps take, from "
        f"3 to 40, in {NARROW_COMMANDS}.",
        POSITIVE,
    )
    per_device_train_batch_size: int = option(
        32, "Training examples per device and batch.", POSITIVE, always_recorded=True
    )
    per_device_eval_batch_size: int = option(
        128, "Evaluation examples per device and batch.", POSITIVE, changes_score=False
    )
    gradient_accumulation_steps: int = option(1, "Batches per optimizer step.", POSITIVE)
    max_length: int | None = option(
        None,
        "Tokens that are read at once. Of a longer text the beginning is read; of a pair the longer text is cut "
        "first; `electra tag` and --long_texts windows read all of it, in windows. Default: 128, in `electra tag` "
        "256, or the number of positions of the model if that is less.",
        AT_LEAST_8,
    )
    warmup_steps: float = option(
        0.1, "Steps of linear warm-up; a value below 1 is a fraction of all steps.", NOT_NEGATIVE, always_recorded=True
    )
    weight_decay: float = option(
        0.0, "Weight decay; not applied to biases and LayerNorms.", NOT_NEGATIVE, always_recorded=True
    )
    max_grad_norm: float = option(
        1.0, "Maximum gradient norm; 0 disables clipping.", NOT_NEGATIVE, always_recorded=True
    )
    adam_bias_correction: bool = option(True, "Use Adam's bias correction; the original code does not.")
    product_schedule: bool = option(
        False,
        "Decay from step 0 and multiply by the warm-up, as the original code does; else decay after the warm-up.",
    )
    left_to_right: bool = option(
        False,
        "Hide later tokens from each token of a network of --objective causal in fine-tuning, too, as BERT's paper "
        "does; the last token then stands in for [CLS]. Otherwise all tokens see each other.",
    )
    head: str | None = field(default="linear", init=False)  # of commands without --head; recorded with results
    head_dropout: float = option(0.1, "Dropout of the head, in [0, 1).", BELOW_ONE)
    select: Literal["last", "best"] = option(
        "last",
        "Weights to score: those after the last step, or those of the epoch with the best score on the development "
        "set. The latter overestimates the score.",
    )
    patience: int | None = option(
        None,
        "Epochs in a row that do not improve the score on the development set by more than .001, after which a run "
        "ends. Default: no early end.",
        POSITIVE,
    )
    bf16: bool | None = option(
        None,
        "Compute in bfloat16 with float32 weights and losses. Default: true if the GPU or CPU supports it.",
        changes_score=False,
    )
    fp16: bool = option(False, "Compute in float16 with loss scaling.", changes_score=False)
    use_cpu: bool = option(False, "Use the CPU even if there is an accelerator.", changes_score=False)
    threads: int | None = option(
        None,
        "Threads that compute on a CPU. Not set: OMP_NUM_THREADS, or one for each core.",
        POSITIVE,
        changes_score=False,
    )
    logging_steps: int = option(
        50, "Optimizer steps between two log entries for the trackers.", POSITIVE, changes_score=False
    )
    report_to: list[str] = option(
        ["none"],
        "Trackers: tensorboard, wandb, none ... Each task and seed is one tracked run.",
        changes_score=False,
    )
    disable_tqdm: bool = option(False, "Hide the progress bar.", changes_score=False)

    @property
    def precision(self) -> str:
        """Return bf16, fp16 or fp32."""
        if self.bf16:
            return "bf16"
        return "fp16" if self.fp16 else "fp32"


HYPERPARAMETERS = tuple(f.name for f in fields(FineTuningArguments) if rules_of(f).changes_score)
"""Options of fine-tuning that a score depends on, which are recorded with each result."""


@dataclass(frozen=True)
class ClassificationArguments(FineTuningArguments):
    """Fine-tuning of an encoder with a head that reads one vector per text."""

    head: HeadName | None = option(
        None,
        f"{HEADS} Default: hf; hf_mean where the default of --learning_rate is 1e-3, if the encoder's class has it.",
    )


@dataclass(frozen=True)
class ProtocolArguments(Options):
    """Seeds and output."""

    num_seeds: int = option(
        5, "Number of runs of each task, with the seeds --seed, --seed + 1 ...", POSITIVE, changes_score=False
    )
    seed: int = option(
        42,
        "First seed, for the initialisation of the head, dropout and the order of the data.",
        SEED,
        always_recorded=True,
        changes_score=False,
    )
    output_dir: str = option(
        "output", "Parent folder; this evaluation is written to output_dir/experiment_name.", changes_score=False
    )
    experiment_name: str | None = option(
        None,
        "Name of the evaluation and of its folder. Default: the kind of task and the name of the model. An existing "
        "evaluation is continued.",
        FOLDER_NAME,
        changes_score=False,
    )
    save_model: bool = option(
        False,
        "Save for each task the fine-tuned model of the seed with the best score on the development set, for "
        "transformers, in models/ of the folder.",
        changes_score=False,
    )
    plan: bool = option(False, "Print the runs; train and write nothing.", changes_score=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self.seed + self.num_seeds <= 2**32, "num_seeds", self.num_seeds, f"at most {2**32 - self.seed}")


@dataclass(frozen=True)
class HeldOutArguments(ProtocolArguments):
    """Rows that are held out, and output."""

    num_seeds: int = option(
        1,
        "Number of runs of each task, with the seeds --seed, --seed + 1 ... One for a first look; five give a spread.",
        POSITIVE,
        changes_score=False,
    )
    validation_fraction: float = option(
        0.1, "Share of the training data that becomes the development set, if there is none.", INSIDE
    )
    eval_seed: int = option(
        0, "Seed of the choice of rows for --validation_fraction and, in `electra classify`, --train_fractions.", SEED
    )


@dataclass(frozen=True)
class FileTaskArguments(HeldOutArguments):
    """Data of the user, and output."""

    dataset_name: str | None = option(
        None, "Data set on the Hub, or a folder, instead of files.", NOT_EMPTY, replaced_by=("train_file",)
    )
    dataset_config_name: str | None = option(
        None, "Configuration of the data set.", replaced_by=("dataset_name", "train_file")
    )
    task_name: str | None = option(
        None,
        "Name of the task; the report compares conll2003 and swag with published scores. Default: the name of the "
        "data set or of the first training file; of its folder, if the file is named train, dev or the like.",
    )
    delimiter: str | None = option(None, DELIMITER_HELP, NOT_EMPTY)
    quoting: Quoting | None = option(None, QUOTING_HELP)


@dataclass(frozen=True)
class LabelledFileArguments(FileTaskArguments):
    """Data of the user with a label in each row, and output."""

    no_label: list[str] = option(
        [],
        "Labels that mean that a row has none, such as -1 or -, besides empty ones. Such rows are left out of "
        "training, and predicted in a test set.",
        NOT_EMPTY,
    )


@dataclass(frozen=True)
class Arguments:
    """All options of one command."""

    encoder: EncoderArguments
    options: Any  # a `ProtocolArguments`: data, seeds and output of this kind of task
    tuning: FineTuningArguments  # before `resolve_hyperparameters`
    record: Values = field(default_factory=dict)  # to be written for --config: see `CommandLine`
    overrides: Mapping[str, Values] = field(default_factory=dict)  # options that differ by task, by its name
    rows: Mapping[str, NamedRows] = field(default_factory=dict)  # of a program, by split, in place of named data

    def __post_init__(self) -> None:
        if (self.encoder.pretrain_path is None) == (self.encoder.from_scratch is None):
            raise UserError("pass either --pretrain_path (an encoder, such as tiny-en) or --from_scratch (untrained)")

    @property
    def start(self) -> str:
        """Return `Result.start` of a run from the encoder that the options name: scratch or pretrained."""
        return "scratch" if self.encoder.from_scratch else "pretrained"

    def settings(self) -> Values:
        """Return the options of this kind of task on which scores depend, and what identifies the user's rows."""
        of_data = data_settings(self.options, self.rows) if isinstance(self.options, HeldOutArguments) else {}
        return {name: getattr(self.options, name) for name in scored_options(type(self.options))} | of_data


def scored_options(group: type) -> Values:
    """Return name -> default of the options in a group on which scores depend, without `RECORDED_AS_DATA`."""
    return {
        f.name: f.default if f.default_factory is MISSING else f.default_factory()
        for f in fields(group)
        if rules_of(f).changes_score and f.name not in RECORDED_AS_DATA
    }


def parse_data_options(
    groups: Sequence[type],
    description: str,
    argv: Sequence[str] | Values | None,
    rows: Mapping[str, NamedRows],
    preset: Mapping[str, object] = {},
    encoder: str | None = None,
    **default: str,
) -> Arguments:
    """Parse the options of a command that trains on files of the user, on a data set or on rows of a program.

    Args:
        groups: groups of options: the encoder, the data and output, the tuning.
        description: what the command does, the first sentence of its help.
        argv: words of a command line, None for those of `sys.argv`; or options by name, as a program passes them.
        rows: rows that a program passes, by split, in place of files and data sets.
        preset: option -> value in place of its default.
        encoder: encoder to fine-tune where the user names none; None if the user must name one.
        default: options that name the data set, where neither rows, files nor a data set are given.
    Raises:
        UserError: an option or its value is refused, there is no encoder or no training data, or two sources of data.
    """
    args = parse_options(groups, description, argv, preset, encoder)
    options = args.options
    files = files_by_split(options)
    if "test" in rows and not hasattr(options, "test_file"):
        raise UserError(f"this task reads no test set; leave {rows['test'].argument} out, or pass it as eval_dataset")
    sources = [*[f"--{SPLITS[split]}_file" for split in files][:1], *[named.argument for named in rows.values()][:1]]
    sources += ["--dataset_name"] if options.dataset_name is not None else []
    if len(sources) > 1:
        raise UserError(f"{sources[0]} and {sources[1]} both name the data; leave one of them out")
    if not sources:
        missing_values = {name: value for name, value in default.items() if getattr(options, name) is None}
        options = replace(options, **missing_values)
    if options.dataset_name is None and "train" not in {**files, **rows}:
        raise UserError(
            f"there is no train data; give --train_file (in Python {DATASET_ARGUMENTS['train']}), or --dataset_name"
        )
    return replace(args, options=options, rows=rows)


def parse_options(
    groups: Sequence[type],
    description: str,
    argv: Sequence[str] | Values | None,
    preset: Mapping[str, object] = {},
    encoder: str | None = None,
) -> Arguments:
    """Parse the options of three groups, without a check of the data; arguments as in `parse_data_options`."""
    parsed = CommandLine(groups, description, preset=preset).parse(argv)
    start, options, tuning = parsed.groups
    record = parsed.record
    if start.pretrain_path is None and start.from_scratch is None and encoder is not None:
        start = replace(start, pretrain_path=encoder)
        record = {"pretrain_path": encoder, **record}
    return Arguments(start, options, tuning, record)


class Defaults(NamedTuple):
    """Values of options that depend on the encoder, where the user gives none.

    Args:
        below: hidden size below which the values hold.
        steps: optimizer steps of a run, at least; the epochs are as many as they take, within `FITTED_EPOCHS`. None
            for `EPOCHS`.
        head: value of --head; `hf` takes its place where transformers' class cannot read the mean.
    """

    below: float
    learning_rate: float
    layerwise_lr_decay: float
    steps: int | None = None
    head: str = "hf"


PAPER_DEFAULTS = (
    Defaults(512, 3e-4, 0.8),
    Defaults(1024, 1e-4, 0.8),
    Defaults(math.inf, 5e-5, 0.9),
)
"""Values for small, base and large: table 7 of the paper."""
NARROW_DEFAULTS = Defaults(256, SMALL_RATE, 1.0, 250, "hf_mean")
"""Values for encoders narrower than ELECTRA-Small in the `NARROW_COMMANDS`: docs/studies/first_result.md."""
FITTED_EPOCHS = (3, MOST_ADVISED_EPOCHS)
"""Least and most epochs of a run whose epochs follow from its number of steps."""
EPOCHS = 3.0
"""Epochs of table 7 of the paper for most tasks."""


@dataclass(frozen=True, kw_only=True)
class HyperParameters(FineTuningArguments):
    """Options of fine-tuning of which each has a value, for one task, encoder and machine."""

    learning_rate: float
    layerwise_lr_decay: float
    num_train_epochs: float
    max_length: int
    bf16: bool
    head: str


def _defaults_by_size(encoder: "Encoder", values: Values, texts: int | None, begun_settings: Values) -> Values:
    """Return the defaults that depend on the encoder, by name of the option.

    Args:
        values: values of the options, without those for which the user gives none.
        encoder, texts, begun_settings: see `resolve_hyperparameters`.
    """
    from electra.finetuning.heads import can_read_mean  # not at the top: it imports torch

    config = encoder.model.config

    def values_in(rows: Sequence[Defaults]) -> dict[str, object]:
        row = next(row for row in rows if config.hidden_size < row.below)
        epochs = EPOCHS
        if row.steps is not None and texts is not None:
            batch = values["per_device_train_batch_size"] * values["gradient_accumulation_steps"]
            least_epochs, most_epochs = FITTED_EPOCHS
            epochs = float(min(most_epochs, max(least_epochs, math.ceil(row.steps / math.ceil(texts / batch)))))
        reads_mean = can_read_mean(config) and not values["left_to_right"]
        return {
            "learning_rate": row.learning_rate,
            "layerwise_lr_decay": row.layerwise_lr_decay,
            "num_train_epochs": epochs,
            "head": row.head if reads_mean else "hf",
        }

    paper = values_in(PAPER_DEFAULTS)
    open_options = [name for name in paper if name not in values]
    has_paper_results = bool(begun_settings) and all(begun_settings.get(name) == paper[name] for name in open_options)
    return paper if texts is None or has_paper_results else values_in((NARROW_DEFAULTS, *PAPER_DEFAULTS))


def given_hyperparameters(args: Arguments, task: str) -> Values:
    """Return the hyper-parameters of a task that have a value without an encoder: the user's, or a fixed default."""
    values = {f.name: getattr(args.tuning, f.name) for f in fields(args.tuning)}  # also the head of a tagger
    overrides = args.overrides.get(task, {})
    values |= {name: value for name, value in overrides.items() if name in HYPERPARAMETERS}
    return {name: value for name, value in values.items() if value is not None}


def resolve_hyperparameters(
    args: Arguments,
    task: str,
    encoder: "Encoder",
    *,
    default_max_length: int = 128,
    texts: int | None = None,
    begun_settings: Values = MappingProxyType({}),
) -> HyperParameters:
    """Return the hyper-parameters of one task on this encoder and machine.

    Args:
        task: name of the task, by which `Arguments.overrides` has options.
        default_max_length: maximum input length in tokens where the user gives none and the encoder reads as much.
        texts: training texts per process, of a task with `NARROW_DEFAULTS`; None for the defaults of the paper.
        begun_settings: settings of an earlier result of this evaluation. If the defaults of the paper made it, they
            stay.
    Raises:
        UserError: --max_length is more than the encoder or its tokenizer takes.
    """
    user_values = given_hyperparameters(args, task)
    defaults = {
        **_defaults_by_size(encoder, user_values, texts, begun_settings),
        "max_length": min(default_max_length, encoder.max_length),
        "bf16": not args.tuning.fp16 and computes_bf16(use_cpu=args.tuning.use_cpu),
    }
    tuning = HyperParameters(**{**defaults, **user_values})
    if tuning.max_length > encoder.max_length:
        from electra.finetuning.heads import longest_input  # not at the top: it imports torch

        is_shorter = encoder.max_length < longest_input(encoder.model)
        limit = "tokens that the tokenizer takes, its model_max_length, beside" if is_shorter else "positions of"
        raise UserError(
            f"--max_length {tuning.max_length} exceeds the {encoder.max_length} {limit} {encoder.name}; "
            f"leave it out or lower it"
        )
    return tuning
