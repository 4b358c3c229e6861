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
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import AutoModelForTokenClassification, PreTrainedModel, PreTrainedTokenizerBase

from electra.finetuning.config import Arguments, EncoderArguments, FineTuningArguments, TaggingArguments, Tuning
from electra.finetuning.encoder import TaskModel, full_precision
from electra.finetuning.encoding import IGNORED, ColumnRows, cut_windows, windows_with_most_context
from electra.finetuning.runner import evaluate
from electra.finetuning.task import FileTask, TaskRows, parse_data_options
from electra.finetuning.trainer import Logits, step_loss
from electra.io.errors import UserError
from electra.model.networks import gather_hidden
from electra.tasks.tagging import schemes
from electra.tasks.tagging.columns import Sentences, load_splits, with_predictions
from electra.tasks.tagging.report import REPORTING

GROUPS = (EncoderArguments, TaggingArguments, FineTuningArguments)
Words = Sequence[Sequence[str]]
"""Those of each sentence."""

logger = logging.getLogger(__name__)


def parse_arguments(argv: list[str] | None = None) -> Arguments[TaggingArguments]:
    about = "Fine-tune an encoder to label words, such as names and chunks, and score it."
    return parse_data_options(GROUPS, about, argv)


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
    """An encoder, dropout, and a linear layer on the first token of each word."""

    def __init__(self, encoder: PreTrainedModel, num_labels: int, dropout: float) -> None:
        output = nn.Linear(encoder.config.hidden_size, num_labels)
        super().__init__(encoder, nn.Sequential(nn.Dropout(dropout), output))

    def forward(self, input_ids: Tensor, attention_mask: Tensor, positions: Tensor) -> Tensor:
        """Logits of W words, float32 (B, W, num_labels), with their first tokens at `positions`, int64 (B, W)."""
        hidden = self.hidden_states(input_ids, attention_mask)
        with full_precision(hidden):
            logits: Tensor = self.head(gather_hidden(hidden, positions).float())
        return logits


class Tagging(FileTask):
    """A task of tagging. Files of predictions are the lines of the data with one more column."""

    kind, script, suffix = "tagging", "run_tagging.py", "txt"
    reporting = REPORTING
    default_max_length = 256
    auto_model, pipeline, saved_heads = AutoModelForTokenClassification, "token-classification", {"linear": 1}

    @classmethod
    def folder_prefix(cls, args: Any) -> str:
        return "_".join(filter(None, (cls.kind, cls.data_name(args))))

    def load(self, names: Sequence[str], settings: Mapping[str, Tuning]) -> dict[str, TaskRows]:
        (name,) = names
        chosen = self.args.options
        files = {split: path for split, (path,) in self.files.items()}
        self.sentences = load_splits(files, chosen.dataset_name, chosen.dataset_config_name, chosen.label_column)
        labelled = {split: s.labels for split, s in self.sentences.items() if s.labels is not None}
        self.scheme = schemes.detect_scheme(labelled["train"])
        if self.scheme == "plain" and chosen.scheme != "auto":
            raise UserError(f"--scheme {chosen.scheme} needs labels with prefixes such as B-; leave it out for these")
        automatic = "iob2" if self.scheme == "iob1" else self.scheme
        self.training_scheme = automatic if chosen.scheme == "auto" else chosen.scheme
        self.tags = schemes.tag_set(labelled["train"], self.training_scheme)
        for split in labelled:
            check_labels(self.sentences[split], self.tags, self.scheme)
        logger.info("labels         %s, %d of them: %s", self.scheme, len(self.tags), " ".join(self.tags))
        repaired = sum(schemes.count_repaired(labels, self.scheme) for labels in labelled.values())
        if repaired:
            logger.warning("%d labels are not valid in %s; they are read as conlleval does", repaired, self.scheme)
        numbers = {tag: number for number, tag in enumerate(self.tags)}
        self.windows: dict[str, Windows] = {}
        for split, sentences in self.sentences.items():
            labels = None
            if split in labelled:
                labels = [[numbers[label] for label in sentence] for sentence in self._references(split)]
            windows = make_windows(sentences.words, labels, self.encoder.tokenizer, settings[name].max_length)
            if len(windows) > len(sentences):
                logger.info("%s: %d sentences in %d windows", split, len(sentences), len(windows))
            self.windows[split] = windows
        return {name: TaskRows.of_splits(self.windows, self.sentences)}

    def make_model(self, task: str, encoder: PreTrainedModel, settings: Tuning) -> nn.Module:
        return EncoderWithTagger(encoder, len(self.tags), settings.head_dropout)

    def loss(self, output: Tensor, labels: Tensor, num_items_in_batch: Tensor | int | None) -> Tensor:
        """Mean cross-entropy over the words of a step."""
        is_word = labels != IGNORED
        return step_loss(output[is_word], labels[is_word], num_items_in_batch)

    def more_settings(self, task: str) -> dict[str, Any]:
        chosen = self.args.options
        return {"scheme": chosen.scheme, "label_column": chosen.label_column, **super().more_settings(task)}

    def score(self, split: str, logits: NDArray[np.float32]) -> dict[str, float]:
        return schemes.score(self._predicted(split, logits), self._references(split), self.scheme)

    def headlines(self, task: str) -> Sequence[str]:
        return "f1", "accuracy"

    def is_collapsed(self, task: str, logits: Logits) -> bool:
        values, references = logits["dev"], self._references("dev")
        return bool(np.isnan(values).any()) or schemes.has_one_label(self._predicted("dev", values), references)

    def _references(self, split: str) -> list[list[str]]:
        return [schemes.convert(sentence, self.training_scheme) for sentence in self.sentences[split].labels or []]

    def _predicted(self, split: str, logits: NDArray[np.float32]) -> list[list[str]]:
        """Labels of all words in the scheme of training, repaired, from logits (windows, most words in one, tags)."""
        sentences = self.windows[split].predictions(logits.argmax(-1))
        return [
            schemes.convert([self.tags[number] for number in sentence], self.training_scheme) for sentence in sentences
        ]

    def predictions_text(self, split: str, logits: NDArray[np.float32]) -> str:
        """The notation is that of the training data."""
        predicted = [schemes.convert(sentence, self.scheme) for sentence in self._predicted(split, logits)]
        training = self.sentences["train"].labels or []
        if self.scheme == "bioes" and any(label[:2] in ("L-", "U-") for sentence in training for label in sentence):
            predicted = [schemes.to_bilou(sentence) for sentence in predicted]
        return with_predictions(self.sentences[split], predicted)

    def labels(self, task: str) -> Sequence[str]:
        return self.tags

    def note(self, task: str) -> str:
        return 'A word has the label of its first token: use the pipeline with `aggregation_strategy="first"`.'


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


def main(argv: list[str] | None = None) -> None:
    evaluate(argv, parse_arguments, Tagging)
