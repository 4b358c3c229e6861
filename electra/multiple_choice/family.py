"""Multiple choice for the protocol: questions as pairs of texts, accuracy, files of predictions."""

import csv
import io
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from torch import Tensor
from transformers import PreTrainedModel

from electra.files import write_file
from electra.finetuning.fingerprint import data_settings
from electra.finetuning.protocol.family import Family, TaskRows
from electra.finetuning.run import Logits, Outcome
from electra.finetuning.trainer import Hyperparameters
from electra.multiple_choice.data import load_splits
from electra.multiple_choice.encoding import ChoiceCollator, encode_questions
from electra.multiple_choice.head import ChoiceScorer
from electra.multiple_choice.options import Arguments
from electra.multiple_choice.questions import Question
from electra.multiple_choice.report import REPORTING

logger = logging.getLogger(__name__)

COLLAPSED_SHARE = 0.99
"""From here on a model chooses the same place in (almost) every question."""


class MultipleChoice(Family):
    """One task of multiple choice.

    In its folder, beside what every evaluation has:

    predictions/TASK-SEED-SPLIT.csv      what this run says of each question
    predictions.csv                      that of the best run, of the test set or else of the development set
    """

    args: Arguments
    reporting = REPORTING

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.questions: dict[str, list[Question]] = {}

    def names(self) -> list[str]:
        return [self.args.task]

    def load(self, names: Sequence[str], settings: Mapping[str, Hyperparameters]) -> dict[str, TaskRows]:
        (name,) = names
        chosen = self.args.options
        files = {"train": chosen.train_file, "dev": chosen.validation_file, "test": chosen.test_file}
        self.questions = load_splits(files, chosen.dataset_name, chosen.dataset_config_name)
        rows = {
            split: encode_questions(found, self.encoder.tokenizer, settings[name].max_length)
            for split, found in self.questions.items()
        }
        for split, found in rows.items():
            logger.info(
                "%-14s %d questions with %d to %d choices; guessing is right in %.1f %%",
                split, len(found), found.counts.min(), found.counts.max(), 100 * np.mean(1 / found.counts),
            )  # fmt: skip
        dev = {split: rows[split] for split in rows if split != "train" and rows[split].labels is not None}
        examples = {split: len(rows[split]) for split in ("train", *dev)}
        test = {split: rows[split] for split in rows if rows[split].labels is None}
        return {name: TaskRows(rows["train"], {**dev}, examples, {**test})}

    def make_model(self, task: str, encoder: PreTrainedModel, settings: Hyperparameters) -> ChoiceScorer:
        return ChoiceScorer(encoder, settings.head, settings.head_dropout)

    def collator(self) -> Callable[[Any], dict[str, Tensor]]:
        return ChoiceCollator(self.encoder.tokenizer.pad_token_id)

    def more_settings(self, task: str) -> dict[str, Any]:
        return self.data_settings

    @cached_property
    def data_settings(self) -> dict[str, str]:
        chosen = self.args.options
        files = chosen.train_file, chosen.validation_file
        return data_settings(*files, chosen.dataset_name, chosen.dataset_config_name)

    # ---- scores

    def metrics(self, task: str, logits: Logits) -> dict[str, float]:
        return {
            "accuracy" if split == "dev" else f"{split}_accuracy": float(
                np.mean(self.decide(split, values) == self._references(split))
            )
            for split, values in logits.items()
        }

    def headline(self, task: str, metrics: Mapping[str, float | None]) -> float:
        value = metrics.get("accuracy")
        return value if value is not None and math.isfinite(value) else -math.inf

    def is_collapsed(self, task: str, logits: Logits) -> bool:
        """Whether (almost) every question is answered with the choice in one place, though the right ones are not."""
        decided = self.decide("dev", logits["dev"])
        most = np.bincount(decided).argmax()
        share, expected = np.mean(decided == most), np.mean(self._references("dev") == most)
        return bool(np.isnan(logits["dev"]).any() or share >= COLLAPSED_SHARE > expected)

    def decide(self, split: str, logits: NDArray[np.float32]) -> NDArray[np.int64]:
        """The choice of each question (N,), from logits (N, most choices of a question)."""
        return self._only_choices(split, logits).argmax(1)

    def _only_choices(self, split: str, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        counts = np.asarray([len(question.choices) for question in self.questions[split]])
        return np.where(np.arange(logits.shape[1]) < counts[:, None], logits, np.float32(-np.inf))

    def _references(self, split: str) -> NDArray[np.int64]:
        return np.asarray([question.answer for question in self.questions[split]], dtype=np.int64)

    # ---- predictions

    def keep(self, task: str, seed: int, outcome: Outcome) -> None:
        for split, logits in outcome.logits.items():
            write_file(self._predictions(split, logits).encode(), self._predictions_path(task, seed, split))

    def _predictions(self, split: str, logits: NDArray[np.float32]) -> str:
        """A line for each question: row, name of the choice, its text, the answer, probabilities of all choices."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["row", "prediction", "choice", "answer", "probabilities"])
        decided = self.decide(split, logits).tolist()
        shares = softmax(self._only_choices(split, logits).astype(np.float64), axis=1)
        for question, choice, row in zip(self.questions[split], decided, shares.tolist(), strict=True):
            answer = "" if question.answer is None else question.names[question.answer]
            shown = " ".join(f"{share:.4f}" for share in row[: len(question.choices)])
            writer.writerow([question.place, question.names[choice], question.choices[choice], answer, shown])
        return text.getvalue()

    def _predictions_path(self, task: str, seed: int, split: str) -> Path:
        return self.evaluation.folder / "predictions" / f"{task}-{seed}-{split}.csv"

    def is_kept(self, task: str, seed: int) -> bool:
        test = ["test"] if self.args.options.test_file else []
        return all(self._predictions_path(task, seed, split).is_file() for split in ("dev", *test))

    def finish(self, tasks: Sequence[str]) -> None:
        for task in tasks:
            paths = [self._predictions_path(task, self.best_first(task)[0], split) for split in ("test", "dev")]
            best = next(path for path in paths if path.is_file())
            target = self.evaluation.folder / "predictions.csv"
            write_file(best.read_bytes(), target)
            logger.info("predictions    %s (%s)", target, best.name)
