"""Every knob of fine-tuning, once: its meaning, its unit, its default and where that comes from.

Defaults are table 7 of the ELECTRA paper; configs/glue/ has the settings of its sources. What depends on the size of
the encoder, or on the task, is None here and settled when both are known (finetuning/protocol/settings.py).
"""

from dataclasses import dataclass, field
from typing import Literal

from electra.arguments import check, check_finite, option


@dataclass
class EncoderArguments:
    """What is fine-tuned."""

    pretrain_path: str | None = option(
        None,
        "What to fine-tune: a run folder, a checkpoint-N (its discriminator), an exported folder, or a Hub id of any "
        "encoder, such as google/electra-small-discriminator.",
    )
    from_scratch: str | None = option(
        None,
        "Fine-tune fresh weights instead, for comparison: of the architecture in this folder, run, config.json or Hub "
        "id, or of a recipe (small, small++, base, large; with --tokenizer_path).",
    )
    tokenizer_path: str | None = option(None, "Tokenizer, if it does not lie with the model.")


@dataclass
class FineTuningArguments:
    """How an encoder is fine-tuned. Names are those of `transformers.TrainingArguments` where it has them."""

    learning_rate: float | None = option(
        None, "Peak learning rate. Not set: by hidden size, 3e-4 (below 512), 1e-4 (below 1024), 5e-5."
    )
    layerwise_lr_decay: float | None = option(
        None,
        "Learning rate of a layer relative to the one above it, in (0, 1]; 1 for none. Not set: .8, or .9 for hidden "
        "sizes from 1024 on.",
    )
    layerwise_lr_decay_mode: Literal["paper", "google", "rc2020"] = option(
        "paper",
        "paper: the top layer has the head's rate times the decay; google: one step of decay more, as in the "
        "original's code; rc2020: one step fewer, the embeddings as the first layer.",
    )
    num_train_epochs: float = option(3.0, "Passes over the training data.")
    per_device_train_batch_size: int = option(32, "Examples per device and step.")
    per_device_eval_batch_size: int = option(128, "Examples per device in evaluation.")
    gradient_accumulation_steps: int = option(1, "Batches whose gradients are added up for a step.")
    max_length: int | None = option(
        None,
        "Longest input, tokens; pairs are cut longest first. Not set: 128, of tagging 256, or the model's "
        "positions if fewer.",
    )
    warmup_steps: float = option(0.1, "Steps of linear warm-up; below 1: a share of all.")
    weight_decay: float = option(0.0, "Weight decay; biases and LayerNorms have none.")
    max_grad_norm: float = option(1.0, "Gradients are scaled down to this norm; 0: never.")
    adam_beta1: float = option(0.9, "Adam's decay of the mean gradient.")
    adam_beta2: float = option(0.999, "Adam's decay of the mean squared gradient.")
    adam_epsilon: float = option(1e-6, "Adam's epsilon.")
    adam_bias_correction: bool = option(True, "Adam with bias correction; the original has none.")
    product_schedule: bool = option(False, "The original's schedule: warm-up times decay from step 0 on.")
    head: str = field(default="", init=False)
    head_dropout: float = option(0.1, "Dropout of the head, in [0, 1).")
    select: Literal["last", "best"] = option(
        "last",
        "Which weights are scored: those after the last step, or the best of all epochs on the development set, which "
        "flatters the score.",
    )
    bf16: bool | None = option(
        None, "Compute in bfloat16, weights and losses in float32. Not set: where the device has it, GPU or CPU."
    )
    fp16: bool = option(False, "Compute in float16, with loss scaling.")
    use_cpu: bool = option(False, "Leave accelerators alone.")
    dataloader_num_workers: int = option(0, "Processes that make batches.")
    logging_steps: int = option(50, "Optimizer steps between logged averages, for trackers.")
    report_to: list[str] = option(
        ["none"], "Where to log: tensorboard, wandb, none ... One tracked run per task and seed."
    )
    disable_tqdm: bool = option(False, "No progress bar.")

    def __post_init__(self) -> None:
        check_finite(self)
        if self.learning_rate is not None:
            check(0 < self.learning_rate <= 1, "learning_rate", self.learning_rate, "in (0, 1]")
        if self.layerwise_lr_decay is not None:
            check(0 < self.layerwise_lr_decay <= 1, "layerwise_lr_decay", self.layerwise_lr_decay, "in (0, 1]")
        if self.max_length is not None:
            check(self.max_length >= 8, "max_length", self.max_length, "at least 8")
        for name in ("num_train_epochs", "adam_epsilon"):
            check(getattr(self, name) > 0, name, getattr(self, name), "above 0")
        for name in (
            "per_device_train_batch_size",
            "per_device_eval_batch_size",
            "gradient_accumulation_steps",
            "logging_steps",
        ):
            check(getattr(self, name) > 0, name, getattr(self, name), "positive")
        for name in ("warmup_steps", "weight_decay", "max_grad_norm", "dataloader_num_workers"):
            check(getattr(self, name) >= 0, name, getattr(self, name), "0 or more")
        for name in ("adam_beta1", "adam_beta2", "head_dropout"):
            check(0 <= getattr(self, name) < 1, name, getattr(self, name), "in [0, 1)")
        check(not (self.bf16 and self.fp16), "fp16", self.fp16, "false where bf16 is asked for")


@dataclass
class ClassificationArguments(FineTuningArguments):
    """How an encoder is fine-tuned where the head reads one vector for a text."""

    head: Literal["google", "hf", "mean_pool"] = option(
        "google",
        "google: first token, dropout, linear; hf: transformers' two layers on the first token; mean_pool: "
        "rc2020_electra's two layers on the mean of all tokens.",
    )


@dataclass
class ProtocolArguments:
    """Seeds, and where what comes of them is kept."""

    num_seeds: int = option(5, "Runs of each task, with the seeds seed, seed + 1 ...")
    seed: int = option(42, "First seed: of head initialisation, dropout and order of the data.")
    output_dir: str = option("output", "Folder of all runs; this one's is output_dir/experiment_name.")
    experiment_name: str | None = option(
        None,
        "Name of the evaluation and its folder. Not set: the kind of task and the model's. The same again "
        "continues it.",
    )

    def __post_init__(self) -> None:
        check(self.num_seeds > 0, "num_seeds", self.num_seeds, "positive")
        check(0 <= self.seed < 2**32 - self.num_seeds, "seed", self.seed, "in [0, 2^32)")


@dataclass
class GlueArguments(ProtocolArguments):
    """Tasks of GLUE, and what comes of them."""

    tasks: list[str] = option(
        ["cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli"],
        "Tasks of GLUE; or demo, which needs no data.",
    )
    glue_dir: str | None = option(
        None, "Folder of the official TSV folders (CoLA, SST-2 ...). Not set: nyu-mll/glue from the Hub."
    )
    task_overrides: str = option(
        '{"rte": {"num_train_epochs": 10}, "stsb": {"num_train_epochs": 10}}',
        'Options that differ by task, as a mapping in a --config file, or JSON: \'{"rte": {"learning_rate": 2e-5}}\'. '
        "A flag on the command line is above them.",
    )
    double_unordered: bool = option(
        True, "MRPC and STS-B are trained on each pair in both orders, twice as many rows, as in the original."
    )
    start_from_mnli: list[str] = option(
        [], "Tasks that start from the encoder fine-tuned on MNLI, such as: rte stsb mrpc. MNLI is run first."
    )
    mnli_run: Literal["best", "same_seed"] = option("best", "Which run of MNLI they start from.")
    predict_test: Literal["none", "best", "ensemble"] = option(
        "none",
        "Write submission.zip for gluebenchmark.com. best, also without a value: of the run of each task that scores "
        "best on its development set; ensemble: of all its runs together.",
    )


@dataclass
class TaggingArguments(ProtocolArguments):
    """Words and labels, what features they are given, and what comes of them."""

    train_file: str | None = option(
        None, "File of columns: a word first, its label in --label_column; blank lines end sentences."
    )
    validation_file: str | None = option(None, "The same, of the development set.")
    test_file: str | None = option(None, "The same, of the test set; it may have no labels.")
    dataset_name: str | None = option(
        None, "Instead of files: a data set on the Hub, or a folder, with columns of tokens and of tags."
    )
    dataset_config_name: str | None = option(None, "Configuration of the data set.")
    label_column: str | None = option(
        None,
        "Column of the labels: in files its number from 0, or from the end; in data sets its name. Not set: the "
        "last one; in data sets the only one that ends in tags or labels.",
    )
    task_name: str | None = option(
        None,
        "What to call the task; conll2003 has published rows in the report. Not set: the data set's name, or "
        "that of the folder of the training file.",
    )
    scheme: Literal["auto", "iob2", "bioes"] = option(
        "auto", "How entities are written as labels while training. auto: bioes where the data is, else iob2."
    )
    frozen_features: bool = option(
        False, "Do not train the encoder: compute its hidden states once, and train a head on them."
    )
    feature_layers: Literal["last", "second_to_last", "sum_last_4", "concat_last_4", "sum_all", "weighted_sum"] = (
        option("concat_last_4", "Layers that the features are made of; weighted_sum: of all, with learned weights.")
    )
    feature_head: Literal["bilstm", "linear"] = option("bilstm", "What is trained on frozen features.")
    feature_lstm_size: int = option(768, "Width of the BiLSTM's two layers, in each direction.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self.feature_lstm_size > 0, "feature_lstm_size", self.feature_lstm_size, "positive")


@dataclass
class MultipleChoiceArguments(ProtocolArguments):
    """Questions with choices."""

    train_file: list[str] = option(
        [],
        "Files of questions, .csv, .tsv or .jsonl: of SWAG's kind, with choices in columns, in a list, or within the "
        "question as (A) ... (B) ...",
    )
    validation_file: list[str] = option([], "The same, of the development set.")
    test_file: list[str] = option([], "The same, of the test set; it may have no answers.")
    dataset_name: str | None = option(
        None, "Instead of files: a data set on the Hub, or a folder. Neither: allenai/swag from the Hub."
    )
    dataset_config_name: str | None = option(None, "Configuration of the data set; SWAG's is regular.")
    task_name: str | None = option(
        None,
        "What to call the task; swag has published rows in the report. Not set: the data set's name, or that of "
        "the folder of the first training file.",
    )


@dataclass
class SpanArguments(FineTuningArguments):
    """How an encoder is fine-tuned to find answers in a text."""

    num_train_epochs: float = option(2.0, "Passes over the training data.")
    per_device_eval_batch_size: int = option(32, "Windows per device in evaluation.")
    max_length: int | None = option(
        None,
        "Longest window, tokens: the question and a piece of the paragraph. Not set: 384, or the model's positions if "
        "fewer; the paper's is 512.",
    )
    head: Literal["joint", "independent"] = option(
        "joint",
        "joint: the end given the start, and a classifier for questions without an answer, as in the original; "
        "independent: a logit each, [CLS] for no answer, as in BERT.",
    )
    head_dropout: float = option(0.0, "Dropout in front of the head, in [0, 1); the original has none.")


@dataclass
class SquadArguments(ProtocolArguments):
    """Questions, how they are cut into windows, and how answers are chosen."""

    dataset_name: str | None = option(
        None, "Hub id, or folder saved by datasets: squad, squad_v2, or another with their columns. Not set: squad."
    )
    train_file: str | None = option(None, "SQuAD's json to train on, of version 1.1 or 2.0; with --validation_file.")
    validation_file: str | None = option(None, "SQuAD's json of the development set.")
    max_query_length: int = option(64, "Longest question, tokens; longer ones are cut.")
    doc_stride: int = option(128, "Tokens from the start of a window on a long paragraph to the start of the next.")
    beam_size: int = option(20, "Starts, and ends of each, that are looked at; of the joint head.")
    n_best_size: int = option(20, "Answers kept of a question; of the independent head also starts and ends.")
    max_answer_length: int = option(30, "Longest answer, tokens.")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("max_query_length", "doc_stride", "beam_size", "n_best_size", "max_answer_length"):
            check(getattr(self, name) > 0, name, getattr(self, name), "positive")
