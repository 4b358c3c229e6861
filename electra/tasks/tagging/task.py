"""Tagging of words, such as names: a label for each word, entity F1, files of predictions.

A word has the label of its first token, as in google-research/electra, finetune/tagging/tagging_tasks.py.
"""

import logging
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModelForTokenClassification, PreTrainedModel, PreTrainedTokenizerBase

from electra.finetuning.config import Arguments, Tuning
from electra.finetuning.encoding import IGNORED, Array
from electra.finetuning.heads import TaskModel, TransformersHead
from electra.finetuning.sources import data_settings, files_by_split
from electra.finetuning.task import Kind, Split, Task, TaskData, by_split, file_task
from electra.finetuning.trainer import step_loss
from electra.model.networks import gather_hidden
from electra.tasks.tagging import schemes
from electra.tasks.tagging.columns import Sentences, with_predictions
from electra.tasks.tagging.data import load_splits
from electra.tasks.tagging.report import REPORTING
from electra.tasks.tagging.rows import predicted_spans
from electra.tasks.tagging.schemes import Notation
from electra.tasks.tagging.windows import Windows, make_windows

TAGGING = Kind(
    "tagging", "-m electra tag", REPORTING, AutoModelForTokenClassification, "token-classification", ("linear",), 256
)

logger = logging.getLogger(__name__)


def open_task(args: Arguments) -> Task:
    options = args.options
    return file_task(
        TAGGING,
        options,
        headlines=("f1", "accuracy"),
        settings={"scheme": options.scheme, "label_column": options.label_column, **data_settings(options)},
        load=partial(load, options),
        head=head,
        loss=loss,
        metrics=by_split(score),
        is_collapsed=is_collapsed,
        predictions=predictions,
        note='A word has the label of its first token: use the pipeline with `aggregation_strategy="first"`.',
    )


@dataclass(frozen=True)
class References:
    """A split: its sentences, their windows, the notation of labels."""

    sentences: Sentences
    windows: Windows
    notation: Notation

    def predicted(self, logits: Array) -> list[list[str]]:
        """Labels of all words in the scheme of training, repaired, from logits (windows, most words in one, tags)."""
        numbers = self.windows.predictions(logits.argmax(-1))
        labels = [[self.notation.tags[number] for number in sentence] for sentence in numbers]
        return self.notation.for_training(labels)

    @property
    def labels(self) -> list[list[str]]:
        """The right labels in the scheme of training; none if they are unknown."""
        return self.notation.for_training(self.sentences.labels or [])


def load(options: Any, tokenizer: PreTrainedTokenizerBase, tuning: Tuning) -> TaskData:
    files = {split: path for split, (path,) in files_by_split(options).items()}
    data = load_splits(files, options.dataset_name, options.dataset_config_name, options.label_column)
    notation = Notation.of(data["train"].labels or [], options.scheme)
    logger.info("labels         %s, %d of them: %s", notation.scheme, len(notation.tags), " ".join(notation.tags))
    numbers = {tag: number for number, tag in enumerate(notation.tags)}
    splits = {}
    for split, sentences in data.items():
        classes = None
        if sentences.labels is not None:
            schemes.check_known(sentences.places, sentences.labels, notation.tags, notation.scheme)
            labels = notation.for_training(sentences.labels)
            classes = [[numbers[label] for label in sentence] for sentence in labels]
        windows = make_windows(sentences.words, classes, tokenizer, tuning.max_length)
        if len(windows) > len(sentences):
            logger.info("%s: %d sentences in %d windows", split, len(sentences), len(windows))
        references = References(sentences, windows, notation)
        splits[split] = Split(windows, references, len(sentences), is_labelled=classes is not None)
    return TaskData(splits, notation.tags)


class EncoderWithTagger(TaskModel):
    """An encoder, and transformers' head of this architecture on the first token of each word."""

    def __init__(self, encoder: PreTrainedModel, num_labels: int, dropout: float) -> None:
        super().__init__(
            encoder, TransformersHead(AutoModelForTokenClassification, encoder.config, dropout, num_labels)
        )

    def forward(self, input_ids: Tensor, attention_mask: Tensor, positions: Tensor) -> Tensor:
        """Logits of W words, float32 (B, W, num_labels), with their first tokens at `positions`, int64 (B, W)."""
        hidden = self.hidden_states(input_ids, attention_mask)
        words = gather_hidden(hidden, positions)
        logits: Tensor = self.head(words, torch.ones_like(positions)).logits
        return logits


def head(encoder: PreTrainedModel, tuning: Tuning, data: TaskData) -> EncoderWithTagger:
    return EncoderWithTagger(encoder, len(data.labels or ()), tuning.head_dropout)


def loss(
    output: Tensor,
    labels: Tensor,
    num_items_in_batch: Tensor | int | None = None,
) -> Tensor:
    """Mean cross-entropy over the words of a step."""
    is_word = labels != IGNORED
    return step_loss(output[is_word], labels[is_word], num_items_in_batch)


def score(logits: Array, references: References) -> dict[str, float]:
    return schemes.score(references.predicted(logits), references.labels, references.notation.scheme)


def is_collapsed(logits: Array, references: References) -> bool:
    if np.isnan(logits).any():
        return True
    return schemes.has_one_label(references.predicted(logits), references.labels)


def predictions(
    split: str,
    logits: Array,
    references: References,
) -> dict[str, str]:
    """The lines of the data with one more column, in the notation of the training data; or the texts with spans."""
    sentences = references.sentences
    labels = references.notation.as_written(references.predicted(logits))
    if sentences.texts is not None:
        return {f"-{split}.jsonl": predicted_spans(sentences.texts, labels)}
    return {f"-{split}.txt": with_predictions(sentences, labels)}
