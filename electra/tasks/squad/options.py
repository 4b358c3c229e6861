"""Options of SQuAD, and how it is fine-tuned."""

from dataclasses import dataclass
from typing import Literal

from electra.finetuning.config import FineTuningArguments, ProtocolArguments
from electra.options import AT_LEAST_8, BELOW_ONE, NOT_EMPTY, POSITIVE, option


@dataclass(frozen=True)
class SquadArguments(ProtocolArguments):
    """Questions, windows, answers and output."""

    dataset_name: str | None = option(
        None,
        "Hub id, or folder saved by datasets: squad, squad_v2, or a data set with the same columns. Default: squad.",
        NOT_EMPTY,
        replaced_by=("train_file",),
    )
    train_file: str | None = option(
        None,
        "Training set in SQuAD's JSON, version 1.1 or 2.0; needs --validation_file.",
        replaced_by=("dataset_name",),
    )
    validation_file: str | None = option(None, "Development set in SQuAD's JSON.", replaced_by=("dataset_name",))
    max_query_length: int = option(64, "Maximum length of a question in tokens; longer ones are truncated.", POSITIVE)
    doc_stride: int = option(128, "Tokens between the starts of two windows on a long paragraph.", POSITIVE)
    n_best_size: int = option(
        20,
        "Number of answers kept per question, and of starts and of ends (the beam size of the joint head).",
        POSITIVE,
    )
    max_answer_length: int = option(30, "Maximum length of an answer in tokens.", POSITIVE)


@dataclass(frozen=True)
class SpanArguments(FineTuningArguments):
    """How an encoder is fine-tuned to find answers in a text."""

    num_train_epochs: float = option(2.0, "Passes over the training data.", POSITIVE)
    per_device_eval_batch_size: int = option(32, "Evaluation windows per device and batch.", POSITIVE)
    max_length: int | None = option(
        None,
        "Maximum window length in tokens: the question and a part of the paragraph. Default: 384, or the number of "
        "positions of the model if that is less; the paper uses 512.",
        AT_LEAST_8,
    )
    head: Literal["hf", "joint"] = option(
        "hf",
        "hf: the head of transformers, one logit each for start and end, with [CLS] for no answer, as in BERT; joint: "
        "predicts the end given the start and classifies whether there is an answer, as in the paper.",
    )
    head_dropout: float = option(0.0, "Dropout before the head, in [0, 1); the original code has none.", BELOW_ONE)
