"""SQuAD: options, data as windows, span heads, answers and official scores."""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from transformers import AutoModelForQuestionAnswering, PreTrainedModel

from electra.finetuning.config import (
    Tuning,
)
from electra.finetuning.encoding import data_settings
from electra.finetuning.heads import TransformersHead
from electra.finetuning.task import TaskAdapter, TaskRows, is_one_answer
from electra.finetuning.trainer import Logits, Outcome
from electra.io.files import write_json
from electra.tasks.squad.data import Questions, check_answers, load_dataset_questions, read_questions
from electra.tasks.squad.heads import Candidates, Decoded, SpanModel, decode, has_one_start, span_loss
from electra.tasks.squad.metrics import evaluate_v1, evaluate_v2
from electra.tasks.squad.report import REPORTING, TASKS
from electra.tasks.squad.windows import Windows, encode_questions

WINDOW_OPTIONS = ("max_query_length", "doc_stride", "beam_size", "n_best_size", "max_answer_length")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class References:
    """The development set: questions as they are in the data, their windows, and how answers are chosen.

    Args:
        beam_size: number of starts, and of ends for each, that the model returns.
    """

    data: Questions
    windows: Windows
    is_version_2: bool
    is_joint: bool
    beam_size: int
    n_best_size: int
    max_answer_length: int

    def decode(self, rows: NDArray[np.float32]) -> Decoded:
        """The answers, from the output of the model."""
        candidates = Candidates.unpack(rows, self.beam_size)
        return decode(self.data, self.windows, candidates, self.n_best_size, self.max_answer_length, self.is_joint)

    def official_metrics(self, decoded: Decoded) -> dict[str, float]:
        """Output of the official script, in percent; for version 2.0 at the threshold with the best F1."""
        right = self.data.references
        if not self.is_version_2:
            return evaluate_v1(right, decoded.predictions)
        return evaluate_v2(right, decoded.predictions, decoded.null_odds, self.threshold(decoded))

    def threshold(self, decoded: Decoded) -> float:
        """The null odds with the best F1; -infinity if answering nothing is best.

        The official script then says 0, at which questions with lower odds would be answered.
        """
        right = self.data.references
        found = evaluate_v2(right, decoded.predictions, decoded.null_odds)
        silence = 100 * sum(not answers for answers in right.values()) / len(right)
        return -math.inf if found["best_f1"] <= silence else found["best_f1_thresh"]


class Squad(TaskAdapter):
    """SQuAD 1.1 or 2.0, whichever the data is. The predictions of a run are in predictions/TASK-SEED/, see `keep`."""

    kind, script = "squad", "-m electra squad"
    reporting = REPORTING
    default_max_length = 384
    auto_model, pipeline, saved_heads = AutoModelForQuestionAnswering, "question-answering", ("independent",)

    @cached_property
    def questions(self) -> dict[str, Questions]:
        """Questions of train and dev as they are in the data."""
        options = self.args.options
        if options.dataset_name is not None:
            return load_dataset_questions(options.dataset_name)
        files = {"train": options.train_file, "dev": options.validation_file}
        return {split: read_questions(path or "") for split, path in files.items()}

    @property
    def is_version_2(self) -> bool:
        return any(split.is_version_2 for split in self.questions.values())

    def names(self) -> list[str]:
        return ["squad_v2" if self.is_version_2 else "squad_v1"]

    def load(self, names: Sequence[str], tunings: Mapping[str, Tuning]) -> dict[str, TaskRows]:
        (name,) = names
        if self.is_version_2 and all(question.answers for question in self.questions["train"].questions):
            logger.warning("all training questions have an answer, but some of the development set have none")
        data = self.questions
        check_answers(data["train"])
        chosen, tokenizer = self.args.options, self.encoder.tokenizer
        lengths = tunings[name].max_length, chosen.max_query_length, chosen.doc_stride
        windows = {s: encode_questions(data[s], tokenizer, *lengths, is_training=s == "train") for s in data}
        left_out = len(data["train"]) - len(np.unique(windows["train"].questions))
        if left_out:
            logger.warning("%d questions are left out: no token covers their answer", left_out)
        for split in data:
            logger.info("%-14s %d questions, %d windows", split, len(self.questions[split]), len(windows[split]))
        examples = {split: len(questions) for split, questions in self.questions.items()}
        references = References(
            self.questions["dev"],
            windows["dev"],
            self.is_version_2,
            is_joint=tunings[name].head == "joint",
            beam_size=chosen.beam_size if tunings[name].head == "joint" else chosen.n_best_size,
            n_best_size=chosen.n_best_size,
            max_answer_length=chosen.max_answer_length,
        )
        return {name: TaskRows(windows["train"], {"dev": windows["dev"]}, examples, {"dev": references})}

    def more_settings(self, task: str) -> dict[str, Any]:
        options = self.args.options
        data = data_settings([options.train_file or ""], [options.validation_file or ""], options.dataset_name)
        return {**{name: getattr(options, name) for name in WINDOW_OPTIONS}, **data}

    def make_model(self, encoder: PreTrainedModel, tuning: Tuning, data: TaskRows) -> SpanModel:
        references = data.references["dev"]
        return SpanModel(encoder, tuning.head, references.is_version_2, references.beam_size, tuning.head_dropout)

    def loss(self, output: Any, labels: Tensor, num_items_in_batch: Tensor | int | None) -> Tensor:
        return span_loss(output, labels, num_items_in_batch)

    def transformers_head(self, model: Any) -> TransformersHead:
        head: TransformersHead = model.head.transformers
        return head

    def note(self, task: str) -> str:
        return "An answer that starts and ends at the first token means that there is none." * self.is_version_2

    def metrics(self, logits: Logits, references: Mapping[str, References]) -> dict[str, float]:
        """Exact match and F1; in version 2.0 at the threshold with the best F1, and by kind of question."""
        dev = references["dev"]
        official = dev.official_metrics(dev.decode(logits["dev"]))
        names = {"exact_match": "exact_match", "f1": "f1"}
        if dev.is_version_2:
            names = {"exact_match": "best_exact", "f1": "best_f1"}
            names |= {name: name for name in ("HasAns_exact", "HasAns_f1", "NoAns_exact") if name in official}
        return {name: official[theirs] / 100 for name, theirs in names.items()}

    def headlines(self, task: str) -> Sequence[str]:
        return (TASKS[task].headline,)

    def is_collapsed(self, logits: Logits, references: Mapping[str, References]) -> bool:
        """Whether `has_one_start`, or (almost) no question is answered though more of them have an answer."""
        dev = references["dev"]
        rows = logits["dev"]
        if has_one_start(Candidates.unpack(rows, dev.beam_size), dev.windows, dev.data):
            return True
        if not dev.is_version_2:
            return False
        decoded = dev.decode(rows)
        unanswered = np.mean(np.array(list(decoded.null_odds.values())) > dev.threshold(decoded))
        unanswerable = np.mean([not question.answers for question in dev.data.questions])
        return is_one_answer(float(unanswered), float(unanswerable))

    def _predictions_folder(self, task: str, seed: int) -> Path:
        return self.evaluation.predictions_path(task, seed).with_suffix("")

    def is_kept(self, task: str, seed: int) -> bool:
        names = ["predictions", "nbest_predictions", "metrics"] + ["null_odds"] * self.is_version_2
        return all((self._predictions_folder(task, seed) / f"{name}.json").is_file() for name in names)

    def keep(self, task: str, seed: int, outcome: Outcome, references: Mapping[str, References]) -> None:
        """Write answers, n best answers and null odds by id of the question, and the official script's output."""
        dev = references["dev"]
        decoded = dev.decode(outcome.logits["dev"])
        folder = self._predictions_folder(task, seed)
        folder.mkdir(exist_ok=True)
        write_json(decoded.predictions, folder / "predictions.json")
        write_json(decoded.nbest, folder / "nbest_predictions.json")
        if self.is_version_2:
            write_json(decoded.null_odds, folder / "null_odds.json")
        write_json(dev.official_metrics(decoded), folder / "metrics.json")
