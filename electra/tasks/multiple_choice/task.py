"""Multiple choice, such as SWAG: options, data, accuracy and files of predictions."""

import csv
import io
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from torch import Tensor
from transformers import AutoModelForMultipleChoice, PreTrainedModel

from electra.cli import CommandLine
from electra.finetuning.config import (
    Arguments,
    ClassificationArguments,
    EncoderArguments,
    FineTuningArguments,
    MultipleChoiceArguments,
)
from electra.finetuning.heads import FIRST_TOKEN_HEADS
from electra.finetuning.runner import evaluate
from electra.finetuning.task import FileTask, TaskRows, check_data_options, is_one_answer
from electra.finetuning.trainer import Logits
from electra.tasks.multiple_choice.data import Question, load_splits
from electra.tasks.multiple_choice.model import ChoiceCollator, ChoiceScorer, encode_questions
from electra.tasks.multiple_choice.report import REPORTING

GROUPS = (EncoderArguments, MultipleChoiceArguments, ClassificationArguments)
SWAG = "allenai/swag", "regular"

logger = logging.getLogger(__name__)


def parse_arguments(argv: list[str] | None = None) -> Arguments[MultipleChoiceArguments]:
    """The options; without data, those of SWAG on the Hub."""
    command_line = CommandLine(GROUPS, "Fine-tune an encoder on multiple-choice questions and score it.")
    encoder, chosen, tuning = command_line.parse(argv)
    if not check_data_options(chosen) and chosen.dataset_name is None:
        chosen.dataset_name, regular = SWAG
        chosen.dataset_config_name = chosen.dataset_config_name or regular
    return Arguments(encoder, chosen, tuning, command_line.effective)


class MultipleChoice(FileTask):
    """A task of multiple choice. Files of predictions hold the choice for each question and all probabilities."""

    reporting = REPORTING
    script = "run_swag.py"
    auto_model = AutoModelForMultipleChoice
    pipeline = "multiple-choice"
    saved_heads = FIRST_TOKEN_HEADS
    kind, suffix = "multiple_choice", "csv"
    questions: dict[str, list[Question]]

    @classmethod
    def folder_prefix(cls, args: Any) -> str:
        return args.data_name or cls.kind

    def load(self, names: Sequence[str], settings: Mapping[str, FineTuningArguments]) -> dict[str, TaskRows]:
        (name,) = names
        chosen = self.args.options
        files = {"train": chosen.train_file, "dev": chosen.validation_file, "test": chosen.test_file}
        self.questions = load_splits(files, chosen.dataset_name, chosen.dataset_config_name)
        for split, questions in self.questions.items():
            counts = np.array([len(question.choices) for question in questions])
            logger.info(
                "%-14s %d questions with %d to %d choices; random accuracy %.1f %%",
                split, len(counts), counts.min(), counts.max(), 100 * np.mean(1 / counts),
            )  # fmt: skip
        rows = {
            split: encode_questions(questions, self.encoder.tokenizer, settings[name].max_length)
            for split, questions in self.questions.items()
        }
        dev = {split: found for split, found in rows.items() if split != "train" and "labels" in found.columns}
        test = {split: found for split, found in rows.items() if "labels" not in found.columns}
        return {name: TaskRows(rows["train"], {**dev}, {s: len(rows[s]) for s in ("train", *dev)}, {**test})}

    def make_model(self, task: str, encoder: PreTrainedModel, settings: FineTuningArguments) -> ChoiceScorer:
        return ChoiceScorer(encoder, settings.head, 1, settings.head_dropout)

    def collator(self) -> Callable[[Any], dict[str, Tensor]]:
        return ChoiceCollator(self.encoder.tokenizer.pad_token_id)

    def score(self, split: str, logits: NDArray[np.float32]) -> dict[str, float]:
        answers = [question.answer for question in self.questions[split]]
        return {"accuracy": float(np.mean(self._existing(split, logits).argmax(1) == answers))}

    def headlines(self, task: str) -> Sequence[str]:
        return ("accuracy",)

    def is_collapsed(self, task: str, logits: Logits) -> bool:
        """Whether (almost) all predictions are the choice at one position, and the correct choices are not."""
        predicted = self._existing("dev", logits["dev"]).argmax(1)
        most = np.bincount(predicted).argmax()
        expected = np.mean([question.answer == most for question in self.questions["dev"]])
        return bool(np.isnan(logits["dev"]).any()) or is_one_answer(float(np.mean(predicted == most)), float(expected))

    def _existing(self, split: str, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """Logits (N, most choices of a question), -infinity for choices that a question does not have."""
        counts = np.array([len(question.choices) for question in self.questions[split]])
        return np.where(np.arange(logits.shape[1]) < counts[:, None], logits, np.float32(-np.inf))

    def predictions_text(self, split: str, logits: NDArray[np.float32]) -> str:
        """A csv row per question: place, predicted name and choice, answer, probabilities of all choices."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["row", "prediction", "choice", "answer", "probabilities"])
        existing = self._existing(split, logits)
        shares = softmax(existing.astype(np.float64), axis=1)
        for question, choice, row in zip(self.questions[split], existing.argmax(1), shares, strict=True):
            answer = "" if question.answer is None else question.names[question.answer]
            shown = " ".join(f"{share:.4f}" for share in row[: len(question.choices)])
            writer.writerow([question.place, question.names[choice], question.choices[choice], answer, shown])
        return text.getvalue()


def main(argv: list[str] | None = None) -> None:
    evaluate(argv, parse_arguments, MultipleChoice)
