"""Tagging of words: options, data as windows, a tag for each word, entity F1 and files of predictions.

A word's tag is predicted at its first token. A sentence that is too long becomes several windows that overlap by half.
Each word is labelled in one window only, the one with most context around it. The head is that of
google-research/electra, finetune/tagging/tagging_tasks.py.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import AutoModelForTokenClassification, PreTrainedModel, PreTrainedTokenizerBase

from electra.finetuning.config import Tuning
from electra.finetuning.encoding import IGNORED, ColumnRows, cut_windows, windows_with_most_context
from electra.finetuning.heads import TaskModel, TransformersHead
from electra.finetuning.task import FileTask, TaskRows
from electra.finetuning.trainer import Logits, step_loss
from electra.io.errors import UserError
from electra.model.networks import gather_hidden
from electra.tasks.tagging import schemes
from electra.tasks.tagging.columns import Sentences, load_splits, with_predictions
from electra.tasks.tagging.report import REPORTING

Words = Sequence[Sequence[str]]
"""Those of each sentence."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Windows(ColumnRows):
    """The windows of one split.

    Columns: `input_ids` with special tokens; `positions` of the first token of each word of this window; `labels` of
    these words, if known. `sentences` has the index of the sentence of each window, in ascending order.
    """

    sentences: list[int]

    def predictions(self, values: NDArray[Any]) -> list[list[Any]]:
        """Predictions (windows, most words in a window) as one list per sentence."""
        found: list[list[Any]] = [[] for _ in range(self.sentences[-1] + 1)]
        for row, sentence, positions in zip(values, self.sentences, self.columns["positions"], strict=True):
            found[sentence] += row[: len(positions)].tolist()
        return found


def make_windows(
    sentences: Words, labels: Sequence[Sequence[int]] | None, tokenizer: PreTrainedTokenizerBase, max_length: int
) -> Windows:
    """Tokenizes sentences into windows of at most `max_length` tokens; `labels` are classes of words, if known."""
    whole, bare = tokenizer("a")["input_ids"], tokenizer("a", add_special_tokens=False)["input_ids"]
    begin = next(i for i in range(len(whole)) if whole[i : i + len(bare)] == bare)
    before, behind = whole[:begin], whole[begin + len(bare) :]
    size = max_length - len(before) - len(behind)
    columns: dict[str, list[NDArray[Any]]] = {"input_ids": [], "positions": [], "labels": []}
    owners: list[int] = []
    for number, pieces in enumerate(_tokenize_words(sentences, tokenizer)):
        tokens = list(chain.from_iterable(pieces))
        first_tokens = np.cumsum([0, *map(len, pieces[:-1])])
        edges = cut_windows(len(tokens), size, max(1, size // 2), is_last_full=True)
        chosen = windows_with_most_context(edges)[first_tokens]
        for window, (start, end) in enumerate(edges.tolist()):
            own = np.flatnonzero(chosen == window)
            if len(own):  # a window inside a word of very many tokens has none
                columns["input_ids"].append(np.array([*before, *tokens[start:end], *behind], np.int32))
                columns["positions"].append(first_tokens[own] - start + len(before))
                owners.append(number)
                if labels is not None:
                    columns["labels"].append(np.array(labels[number], np.int64)[own])
    if labels is None:
        del columns["labels"]
    lengths = np.array([len(row) for row in columns["input_ids"]], dtype=np.int64)
    return Windows(columns, lengths, owners)


def _tokenize_words(sentences: Words, tokenizer: PreTrainedTokenizerBase) -> list[list[list[int]]]:
    """Sentence -> word -> token ids, at least one for each word. Each distinct word is tokenized once.

    A word after another one is tokenized with a space before it, which byte-level tokenizers need and others ignore. A
    word without any token, such as a zero-width space, becomes the unknown token.
    """
    spelled = [[word if i == 0 else f" {word}" for i, word in enumerate(words)] for words in sentences]
    texts = sorted(set(chain.from_iterable(spelled)))
    encoded = tokenizer(texts, add_special_tokens=False, return_attention_mask=False)["input_ids"]
    ids = {text: list(row) or [tokenizer.unk_token_id] for text, row in zip(texts, encoded, strict=True)}
    return [[ids[text] for text in words] for words in spelled]


class EncoderWithTagger(TaskModel):
    """An encoder, and transformers' head of this architecture on the first token of each word."""

    def __init__(self, encoder: PreTrainedModel, num_labels: int, dropout: float) -> None:
        head = TransformersHead(AutoModelForTokenClassification, encoder.config, dropout, num_labels)
        super().__init__(encoder, head)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, positions: Tensor) -> Tensor:
        """Logits of W words, float32 (B, W, num_labels), with their first tokens at `positions`, int64 (B, W)."""
        words = gather_hidden(self.hidden_states(input_ids, attention_mask), positions)
        logits: Tensor = self.head(words, torch.ones_like(positions)).logits
        return logits


@dataclass(frozen=True)
class References:
    """A split, its windows and the labels that a tagger has.

    Args:
        scheme: in which the source is written; `training_scheme`: in which `tags`, the classes, are.
        is_bilou: whether the source writes L and U where BIOES has E and S.
    """

    sentences: Sentences
    windows: Windows
    tags: Sequence[str]
    scheme: str
    training_scheme: str
    is_bilou: bool

    @property
    def labels(self) -> list[list[str]]:
        """The right labels in the scheme of training; none if they are unknown."""
        return [schemes.convert(labels, self.training_scheme) for labels in self.sentences.labels or []]

    def predicted(self, logits: NDArray[np.float32]) -> list[list[str]]:
        """Labels of all words in the scheme of training, repaired, from logits (windows, most words in one, tags)."""
        sentences = self.windows.predictions(logits.argmax(-1))
        named = [[self.tags[number] for number in sentence] for sentence in sentences]
        return [schemes.convert(labels, self.training_scheme) for labels in named]


class Tagging(FileTask):
    """A task of tagging. Files of predictions are the lines of the data with one more column."""

    kind, script, suffix = "tagging", "-m electra tag", "txt"
    reporting = REPORTING
    default_max_length = 256
    auto_model, pipeline, saved_heads = AutoModelForTokenClassification, "token-classification", ("linear",)

    @classmethod
    def folder_prefix(cls, args: Any) -> str:
        return "_".join(filter(None, (cls.kind, cls.data_name(args))))

    def load(self, names: Sequence[str], tunings: Mapping[str, Tuning]) -> dict[str, TaskRows]:
        (name,) = names
        chosen = self.args.options
        files = {split: path for split, (path,) in self.files.items()}
        data = load_splits(files, chosen.dataset_name, chosen.dataset_config_name, chosen.label_column)
        labelled = {split: sentences.labels for split, sentences in data.items() if sentences.labels is not None}
        scheme = schemes.detect_scheme(labelled["train"])
        training_scheme = choose_scheme(chosen.scheme, scheme)
        tags = schemes.tag_set(labelled["train"], training_scheme)
        for split in labelled:
            check_labels(data[split], tags, scheme)
        logger.info("labels         %s, %d of them: %s", scheme, len(tags), " ".join(tags))
        repaired = sum(schemes.count_repaired(labels, scheme) for labels in labelled.values())
        if repaired:
            logger.warning("%d labels are not valid in %s; they are read as conlleval does", repaired, scheme)
        written = {label[:2] for labels in labelled["train"] for label in labels}
        is_bilou = scheme == "bioes" and not written.isdisjoint(("L-", "U-"))
        numbers = {tag: number for number, tag in enumerate(tags)}
        rows = {}
        references = {}
        for split, sentences in data.items():
            classes = None
            if sentences.labels is not None:
                converted = [schemes.convert(labels, training_scheme) for labels in sentences.labels]
                classes = [[numbers[label] for label in labels] for labels in converted]
            windows = make_windows(sentences.words, classes, self.encoder.tokenizer, tunings[name].max_length)
            if len(windows) > len(sentences):
                logger.info("%s: %d sentences in %d windows", split, len(sentences), len(windows))
            rows[split] = windows
            references[split] = References(sentences, windows, tags, scheme, training_scheme, is_bilou)
        return {name: TaskRows.of_splits(rows, data, references, tags)}

    def make_model(self, encoder: PreTrainedModel, tuning: Tuning, data: TaskRows) -> nn.Module:
        return EncoderWithTagger(encoder, len(data.labels or ()), tuning.head_dropout)

    def loss(self, output: Tensor, labels: Tensor, num_items_in_batch: Tensor | int | None) -> Tensor:
        """Mean cross-entropy over the words of a step."""
        is_word = labels != IGNORED
        return step_loss(output[is_word], labels[is_word], num_items_in_batch)

    def more_settings(self, task: str) -> dict[str, Any]:
        chosen = self.args.options
        return {"scheme": chosen.scheme, "label_column": chosen.label_column, **super().more_settings(task)}

    def score(self, logits: NDArray[np.float32], references: References) -> dict[str, float]:
        return schemes.score(references.predicted(logits), references.labels, references.scheme)

    def headlines(self, task: str) -> Sequence[str]:
        return "f1", "accuracy"

    def is_collapsed(self, logits: Logits, references: Mapping[str, References]) -> bool:
        if np.isnan(logits["dev"]).any():
            return True
        return schemes.has_one_label(references["dev"].predicted(logits["dev"]), references["dev"].labels)

    def predictions_text(self, logits: NDArray[np.float32], references: References) -> str:
        """The notation is that of the training data."""
        predicted = [schemes.convert(labels, references.scheme) for labels in references.predicted(logits)]
        if references.is_bilou:
            predicted = [schemes.to_bilou(labels) for labels in predicted]
        return with_predictions(references.sentences, predicted)

    def note(self, task: str) -> str:
        return 'A word has the label of its first token: use the pipeline with `aggregation_strategy="first"`.'


def choose_scheme(asked: str, found: str) -> str:
    """The scheme to train in: the one that was asked for, or by default that of the data, with IOB2 for IOB1."""
    if asked == "auto":
        return "iob2" if found == "iob1" else found
    if found == "plain":
        raise UserError(f"--scheme {asked} needs labels with prefixes such as B-; leave it out for these")
    return asked


def check_labels(sentences: Sentences, tags: Sequence[str], scheme: str) -> None:
    """Refuses labels, or types of entities, that do not occur in the training data."""
    known = set(tags) if scheme == "plain" else {tag[2:] for tag in tags if tag != schemes.OUTSIDE}
    for place, labels in zip(sentences.places, sentences.labels or [], strict=True):
        for label in labels:
            kind = label if scheme == "plain" else label[2:] if schemes.LABEL.fullmatch(label) else None
            if kind not in known and label != schemes.OUTSIDE:
                raise UserError(
                    f"{place}, or after it: the label '{label}' is not in the training data, which has "
                    f"{' '.join(sorted(known)) or 'none'}; correct the file"
                )
