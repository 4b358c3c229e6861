"""Tagging of words: options, data as windows or frozen features, entity F1 and files of predictions."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from accelerate import PartialState
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import AutoModelForTokenClassification, PreTrainedModel

from electra.cli import CommandLine
from electra.errors import UserError
from electra.finetuning.config import Arguments, EncoderArguments, FineTuningArguments, TaggingArguments
from electra.finetuning.file_task import FileTask, check_data_options
from electra.finetuning.rows import IGNORED, ColumnRows
from electra.finetuning.runner import evaluate
from electra.finetuning.task import TaskRows
from electra.finetuning.trainer import Logits, step_loss
from electra.tasks.tagging.columns import Sentences, load_splits, with_predictions
from electra.tasks.tagging.heads import EncoderWithTagger, FeatureTagger, collate_features, compute_features
from electra.tasks.tagging.metrics import is_collapsed, score
from electra.tasks.tagging.report import REPORTING
from electra.tasks.tagging.schemes import convert, count_repaired, detect_scheme, entities, is_bilou, tag_set, to_bilou
from electra.tasks.tagging.windows import WindowCollator, Windows, make_windows

GROUPS = (EncoderArguments, TaggingArguments, FineTuningArguments)

logger = logging.getLogger(__name__)


def parse_arguments(argv: list[str] | None = None) -> Arguments[TaggingArguments]:
    """The options.

    Raises:
        UserError: unknown or impossible options, no data, or options of features without --frozen_features.
    """
    command_line = CommandLine(GROUPS, "Fine-tune an encoder to label words, such as names and chunks, and score it.")
    encoder, tagging, tuning = command_line.parse(argv)
    if not check_data_options(tagging) and tagging.dataset_name is None:
        raise UserError("--train_file is missing; give --train_file and --validation_file, or --dataset_name")
    for name in ("feature_layers", "feature_head", "feature_lstm_size"):
        if name in command_line.flags and not tagging.frozen_features:
            raise UserError(f"--{name} has no effect without --frozen_features; add it, or leave --{name} out")
    features = tagging.feature_layers, tagging.feature_head
    if tagging.save_model != "none" and tagging.frozen_features and features != ("last", "linear"):
        raise UserError(
            f"--save_model: no model of transformers has the head {features[1]} on the layers {features[0]}; add "
            f"--feature_layers last --feature_head linear, or leave --frozen_features out"
        )
    return Arguments(encoder, tagging, tuning, command_line.effective)


class Tagging(FileTask):
    """A task of tagging. Files of predictions are the lines of the data with one more column."""

    default_max_length = 256
    reporting = REPORTING
    script = "run_tagging.py"
    auto_model = AutoModelForTokenClassification
    pipeline = "token-classification"
    saved_heads: Mapping[str, int] = {"linear": 1}
    kind, suffix = "tagging", "txt"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.sentences: dict[str, Sentences] = {}
        self.windows: dict[str, Windows] = {}
        self.scheme, self.training_scheme = "", ""
        self.tags: list[str] = []
        self.feature_shape: tuple[int, ...] = ()

    @classmethod
    def folder_prefix(cls, args: Any) -> str:
        return f"{cls.kind}_{args.data_name}" if args.data_name else cls.kind

    # ---- data

    def load(self, names: Sequence[str], settings: Mapping[str, FineTuningArguments]) -> dict[str, TaskRows]:
        (name,) = names
        chosen = self.args.options
        files = {"train": chosen.train_file, "dev": chosen.validation_file, "test": chosen.test_file}
        self.sentences = load_splits(files, chosen.dataset_name, chosen.dataset_config_name, chosen.label_column)
        labelled = {split: s.labels for split, s in self.sentences.items() if s.labels is not None}
        self.scheme = detect_scheme(labelled["train"])
        self.training_scheme = training_scheme(self.scheme, chosen.scheme)
        self.tags = tag_set(labelled["train"], self.training_scheme)
        for split in labelled:
            check_labels(self.sentences[split], self.scheme, labelled["train"])
        logger.info("labels         %s, %d of them: %s", self.scheme, len(self.tags), " ".join(self.tags))
        wrong = sum(count_repaired(labels, self.scheme) for labels in labelled.values() if self.scheme != "plain")
        if wrong:
            logger.warning("%d labels are not valid in %s and are read as by conlleval", wrong, self.scheme)
        rows = {split: self._rows(split, settings[name].max_length) for split in self.sentences}
        dev = {split: rows[split] for split in labelled if split != "train"}
        examples = {split: len(self.sentences[split]) for split in ("train", *dev)}
        return {name: TaskRows(rows["train"], {**dev}, examples, {s: rows[s] for s in rows if s not in labelled})}

    def _rows(self, split: str, max_length: int) -> ColumnRows:
        sentences = self.sentences[split]
        numbers = {tag: number for number, tag in enumerate(self.tags)}
        labels = None
        if sentences.labels is not None:
            labels = [[numbers[label] for label in convert(s, self.training_scheme)] for s in sentences.labels]
        windows = make_windows(sentences.words, labels, self.encoder.tokenizer, max_length)
        self.windows[split] = windows
        if len(windows) > len(sentences):
            logger.info("%s: %d sentences in %d windows", split, len(sentences), len(windows))
        if not self.args.options.frozen_features:
            return windows
        model: Any = self.encoder.model
        model.to(PartialState().device)
        collator = WindowCollator(self.encoder.tokenizer.pad_token_id)
        batch_size = self.args.tuning.per_device_eval_batch_size
        features = compute_features(model, windows, self.args.options.feature_layers, collator, batch_size)
        model.to("cpu")
        self.feature_shape = features.columns["features"][0].shape[1:]
        return features

    # ---- training

    def make_model(self, task: str, encoder: PreTrainedModel, settings: FineTuningArguments) -> nn.Module:
        chosen = self.args.options
        if not chosen.frozen_features:
            return EncoderWithTagger(encoder, len(self.tags), settings.head_dropout)
        *layers, width = self.feature_shape
        return FeatureTagger(
            width,
            layers[0] if layers else None,
            chosen.feature_head,
            len(self.tags),
            settings.head_dropout,
            chosen.feature_lstm_size,
        )

    def loss(self, output: Tensor, labels: Tensor, num_items_in_batch: Tensor | int | None) -> Tensor:
        """Mean cross-entropy over the words of a step."""
        is_word = labels != IGNORED
        return step_loss(output[is_word], labels[is_word], num_items_in_batch)

    def collator(self) -> Callable[[Any], dict[str, Tensor]]:
        if self.args.options.frozen_features:
            return collate_features
        return WindowCollator(self.encoder.tokenizer.pad_token_id)

    def fixed_options(self) -> dict[str, Any]:
        if not self.args.options.frozen_features:
            return {"head": "linear"}
        return {"head": self.args.options.feature_head, "layerwise_lr_decay": 1.0}  # frozen layers have no rate

    def more_settings(self, task: str) -> dict[str, Any]:
        chosen = self.args.options
        more: dict[str, Any] = {"scheme": chosen.scheme, "label_column": chosen.label_column, **self.data_settings}
        if chosen.frozen_features:
            more |= {"feature_layers": chosen.feature_layers, "feature_lstm_size": chosen.feature_lstm_size}
            if self.args.encoder.from_scratch:  # all seeds share the features of one random encoder
                more["encoder_seed"] = chosen.seed
        return more

    # ---- scores

    def score(self, split: str, logits: NDArray[np.float32]) -> dict[str, float]:
        return score(self._predicted(split, logits), self._references(split), self.scheme)

    def headlines(self, task: str) -> Sequence[str]:
        return "f1", "accuracy"

    def is_collapsed(self, task: str, logits: Logits) -> bool:
        values = logits["dev"]
        return bool(np.isnan(values).any()) or is_collapsed(self._predicted("dev", values), self._references("dev"))

    def _references(self, split: str) -> list[list[str]]:
        return [convert(sentence, self.training_scheme) for sentence in self.sentences[split].labels or []]

    def _predicted(self, split: str, logits: NDArray[np.float32]) -> list[list[str]]:
        """Labels of all words in the scheme of training, repaired, from logits (rows, most words in a row, tags)."""
        numbers = logits.argmax(-1)
        if self.args.options.frozen_features:  # rows are sentences
            words = self.sentences[split].words
            sentences = [row[: len(own)].tolist() for row, own in zip(numbers, words, strict=True)]
        else:
            sentences = self.windows[split].predictions(numbers)
        return [convert([self.tags[number] for number in sentence], self.training_scheme) for sentence in sentences]

    def predictions_text(self, split: str, logits: NDArray[np.float32]) -> str:
        """The notation is that of the training data."""
        predicted = [convert(sentence, self.scheme) for sentence in self._predicted(split, logits)]
        if self.scheme == "bioes" and is_bilou(self.sentences["train"].labels or []):
            predicted = [to_bilou(sentence) for sentence in predicted]
        return with_predictions(self.sentences[split], predicted)

    # ---- saved models

    def labels(self, task: str) -> Sequence[str]:
        return self.tags

    def note(self, task: str) -> str:
        return 'A word has the label of its first token: use the pipeline with `aggregation_strategy="first"`.'


def training_scheme(found: str, chosen: str) -> str:
    """The scheme to train in, for data in the scheme `found` and --scheme `chosen`."""
    if found == "plain":
        if chosen != "auto":
            raise UserError(f"--scheme {chosen} needs labels with prefixes such as B-; leave it out for these labels")
        return "plain"
    return chosen if chosen != "auto" else "bioes" if found == "bioes" else "iob2"


def check_labels(sentences: Sentences, scheme: str, training: Sequence[Sequence[str]]) -> None:
    """Refuses labels, or types of entities, that do not occur in the training data.

    Raises:
        UserError: names the file and its line.
    """

    def kinds(labels: Sequence[str]) -> list[str]:
        return list(labels) if scheme == "plain" else [label.partition("-")[2] for label in labels]

    known = {kind for labels in training for kind in kinds(labels)}
    for number, labels in enumerate(sentences.labels or []):
        if scheme != "plain":
            try:
                entities(labels)
            except UserError as error:
                raise UserError(f"{sentences.place(number, 0)}: {error}") from error
        for word, kind in enumerate(kinds(labels)):
            if kind not in known and labels[word] != "O":
                raise UserError(
                    f"{sentences.place(number, word)}: the label '{labels[word]}' is not in the training data, which "
                    f"has {' '.join(sorted(known - {''}))}; correct the file"
                )


def main(argv: list[str] | None = None) -> None:
    evaluate(argv, parse_arguments, Tagging)
