"""Tagging for the protocol: sentences as windows or as frozen features, entity F1, files of predictions."""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from accelerate import PartialState
from torch import Tensor, nn
from transformers import PreTrainedModel

from electra.errors import UserError
from electra.files import write_file
from electra.finetuning.encoding import Rows
from electra.finetuning.fingerprint import data_settings
from electra.finetuning.protocol.family import Family, TaskRows
from electra.finetuning.run import Logits, Outcome
from electra.finetuning.trainer import Hyperparameters, step_loss
from electra.tagging.columns import Sentences, load_splits, with_predictions
from electra.tagging.features import FeatureCollator, Features, compute_features
from electra.tagging.heads import EncoderWithTagger, FeatureTagger
from electra.tagging.metrics import is_collapsed, score
from electra.tagging.options import Arguments
from electra.tagging.report import REPORTING
from electra.tagging.schemes import convert, entities, is_bilou, recognise, repaired, tag_set, to_bilou
from electra.tagging.windows import WindowCollator, Windows, WordTokenizer, make_windows, to_sentences

logger = logging.getLogger(__name__)


class Tagging(Family):
    """One task of labelling words.

    In its folder, beside what every evaluation has:

    predictions/TASK-SEED-SPLIT.txt      the lines of the data, with a column of what this run says
    predictions.txt                      that of the best run, of the test set or else of the development set
    """

    args: Arguments
    default_max_length = 256
    reporting = REPORTING

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.sentences: dict[str, Sentences] = {}
        self.windows: dict[str, Windows] = {}
        self.scheme, self.training_scheme = "", ""
        self.tags: list[str] = []
        self.feature_shape: tuple[int, ...] = ()

    # ---- data

    def names(self) -> list[str]:
        return [self.args.task]

    def load(self, names: Sequence[str], settings: Mapping[str, Hyperparameters]) -> dict[str, TaskRows]:
        (name,) = names
        chosen = self.args.options
        files = {"train": chosen.train_file, "dev": chosen.validation_file, "test": chosen.test_file}
        self.sentences = load_splits(files, chosen.dataset_name, chosen.dataset_config_name, chosen.label_column)
        labelled = {split: s.labels for split, s in self.sentences.items() if s.labels is not None}
        self.scheme = recognise(labelled["train"])
        self.training_scheme = training_scheme(self.scheme, chosen.scheme)
        self.tags = tag_set(labelled["train"], self.training_scheme)
        for split in labelled:
            refuse_unknown(self.sentences[split], self.scheme, labelled["train"])
        wrong = sum(repaired(labels, self.scheme) for labels in labelled.values()) if self.scheme != "plain" else 0
        logger.info("labels         %s, %d of them: %s", self.scheme, len(self.tags), " ".join(self.tags))
        if wrong:
            logger.warning("%d labels are not as %s has them; they are read as conlleval does", wrong, self.scheme)
        rows = {split: self._rows(split, settings[name].max_length) for split in self.sentences}
        dev = {split: rows[split] for split in rows if split != "train" and split in labelled}
        examples = {split: len(self.sentences[split]) for split in ("train", *dev)}
        test = {split: rows[split] for split in rows if split not in labelled}
        return {name: TaskRows(rows["train"], dev, examples, test)}

    def _rows(self, split: str, max_length: int) -> Rows:
        sentences, tokenizer = self.sentences[split], self.encoder.tokenizer
        numbers = {tag: number for number, tag in enumerate(self.tags)}
        labels = None
        if sentences.labels is not None:
            labels = [[numbers[label] for label in convert(s, self.training_scheme)] for s in sentences.labels]
        windows = make_windows(sentences.words, labels, WordTokenizer(tokenizer), max_length)
        self.windows[split] = windows
        if len(windows) > len(sentences):
            logger.info("%s: %d sentences in %d windows", split, len(sentences), len(windows))
        return self._features(windows) if self.args.options.frozen_features else windows

    def _features(self, windows: Windows) -> Features:
        model: Any = self.encoder.model
        model.to(PartialState().device)
        collator = WindowCollator(self.encoder.tokenizer.pad_token_id)
        batch_size = self.args.tuning.per_device_eval_batch_size
        features = compute_features(model, windows, self.args.options.feature_layers, collator, batch_size)
        model.to("cpu")
        self.feature_shape = features.values.shape[1:]
        return features

    # ---- training

    def make_model(self, task: str, encoder: PreTrainedModel, settings: Hyperparameters) -> nn.Module:
        if not self.args.options.frozen_features:
            return EncoderWithTagger(encoder, len(self.tags), settings.head_dropout)
        *layers, width = self.feature_shape
        return FeatureTagger(
            width,
            layers[0] if layers else None,
            self.args.options.feature_head,
            len(self.tags),
            settings.head_dropout,
            self.args.options.feature_lstm_size,
        )

    def loss(self, output: Tensor, labels: Tensor, num_items_in_batch: Tensor | int | None) -> Tensor:
        """Mean cross-entropy over the words of a step."""
        is_word = labels != -100
        return step_loss(output[is_word], labels[is_word], num_items_in_batch)

    def collator(self) -> Callable[[Any], dict[str, Tensor]]:
        if self.args.options.frozen_features:
            return FeatureCollator()
        return WindowCollator(self.encoder.tokenizer.pad_token_id)

    def adjust(self, task: str, settings: Hyperparameters) -> Hyperparameters:
        """Frozen layers have no learning rate that could decay."""
        if not self.args.options.frozen_features:
            return replace(settings, head="linear")
        return replace(settings, head=self.args.options.feature_head, layerwise_lr_decay=1.0)

    def more_settings(self, task: str) -> dict[str, Any]:
        chosen = self.args.options
        more: dict[str, Any] = {
            "scheme": chosen.scheme,
            "label_column": chosen.label_column,
            **self.data_settings,
        }
        if chosen.frozen_features:
            more |= {"feature_layers": chosen.feature_layers, "feature_lstm_size": chosen.feature_lstm_size}
            if self.args.encoder.from_scratch:  # all seeds share its features
                more["encoder_seed"] = chosen.seed
        return more

    @cached_property
    def data_settings(self) -> dict[str, str]:
        chosen = self.args.options
        files = [chosen.train_file or ""], [chosen.validation_file or ""]
        return data_settings(*files, chosen.dataset_name, chosen.dataset_config_name)

    # ---- scores

    def metrics(self, task: str, logits: Logits) -> dict[str, float]:
        found: dict[str, float] = {}
        for split, values in logits.items():
            prefix = "" if split == "dev" else f"{split}_"
            scores = score(self.predicted(split, values), self._references(split), self.scheme)
            found |= {f"{prefix}{name}": value for name, value in scores.items()}
        return found

    def headline(self, task: str, metrics: Mapping[str, float | None]) -> float:
        value = metrics.get("f1", metrics.get("accuracy"))
        return value if value is not None and math.isfinite(value) else -math.inf

    def is_collapsed(self, task: str, logits: Logits) -> bool:
        values = logits["dev"]
        return bool(np.isnan(values).any()) or is_collapsed(self.predicted("dev", values), self._references("dev"))

    def _references(self, split: str) -> list[list[str]]:
        return [convert(sentence, self.training_scheme) for sentence in self.sentences[split].labels or []]

    def predicted(self, split: str, logits: np.ndarray) -> list[list[str]]:
        """Labels of every word in the order of the data, in the scheme of training, as entities that are possible.

        Args:
            logits: (rows, most words in a row, tags).
        """
        numbers = logits.argmax(-1)
        if self.args.options.frozen_features:  # rows are sentences
            said = [row[: len(words)] for row, words in zip(numbers, self.sentences[split].words, strict=True)]
        else:
            said = to_sentences(numbers, self.windows[split])
        return [convert([self.tags[number] for number in sentence], self.training_scheme) for sentence in said]

    # ---- predictions

    def keep(self, task: str, seed: int, outcome: Outcome) -> None:
        for split, values in outcome.logits.items():
            predicted = [convert(sentence, self.scheme) for sentence in self.predicted(split, values)]
            if self.scheme == "bioes" and is_bilou(self.sentences["train"].labels or []):
                predicted = [to_bilou(sentence) for sentence in predicted]
            text = with_predictions(self.sentences[split], predicted)
            write_file(text.encode(), self._predictions_path(task, seed, split))

    def _predictions_path(self, task: str, seed: int, split: str) -> Any:
        return self.evaluation.folder / "predictions" / f"{task}-{seed}-{split}.txt"

    def is_kept(self, task: str, seed: int) -> bool:
        test = [] if self.args.options.test_file is None else ["test"]
        return all(self._predictions_path(task, seed, split).is_file() for split in ("dev", *test))

    def finish(self, tasks: Sequence[str]) -> None:
        for task in tasks:
            paths = [self._predictions_path(task, self.best_first(task)[0], split) for split in ("test", "dev")]
            best = next(path for path in paths if path.is_file())
            target = self.evaluation.folder / "predictions.txt"
            write_file(best.read_bytes(), target)
            logger.info("predictions    %s (%s)", target, best.name)


def training_scheme(found: str, chosen: str) -> str:
    """The scheme to train in, for data in the scheme `found` and the option `chosen`."""
    if found == "plain":
        if chosen != "auto":
            raise UserError(
                f"--scheme {chosen} is of entities, and the labels have no prefixes such as B-; leave it out"
            )
        return "plain"
    return chosen if chosen != "auto" else "bioes" if found == "bioes" else "iob2"


def refuse_unknown(sentences: Sentences, scheme: str, training: Sequence[Sequence[str]]) -> None:
    """Refuse a label, or a type of entity, that training data does not have.

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
