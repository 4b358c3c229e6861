"""SQuAD 1.1 or 2.0, whichever the data is: windows, span heads, answers, official scores.

predictions/TASK-SEED/ has the answers, the n best answers and the null odds by id of the question, and the output of
the official script.
"""

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from transformers import AutoModelForQuestionAnswering, PreTrainedModel, PreTrainedTokenizerBase

from electra.finetuning.config import Arguments, Tuning
from electra.finetuning.encoding import Array
from electra.finetuning.sources import data_settings
from electra.finetuning.task import Kind, Split, Task, TaskData, is_one_answer
from electra.finetuning.trainer import Logits
from electra.tasks.squad.answers import Decoded, decode, has_one_start
from electra.tasks.squad.data import Questions, check_answers, load_questions
from electra.tasks.squad.heads import Candidates, SpanModel, span_loss
from electra.tasks.squad.metrics import evaluate_v1, evaluate_v2
from electra.tasks.squad.report import REPORTING
from electra.tasks.squad.windows import Windows, encode_questions

SQUAD = Kind(
    "squad", "-m electra squad", REPORTING, AutoModelForQuestionAnswering, "question-answering", max_length=384
)
WINDOW_OPTIONS = ("max_query_length", "doc_stride", "beam_size", "n_best_size", "max_answer_length")

logger = logging.getLogger(__name__)


def open_task(args: Arguments) -> Task:
    options = args.options
    data = load_questions(options)
    is_version_2 = any(split.is_version_2 for split in data.values())
    settings = {name: getattr(options, name) for name in WINDOW_OPTIONS}
    return Task(
        kind=SQUAD,
        name="squad_v2" if is_version_2 else "squad_v1",
        headlines=("f1",),
        settings=settings | data_settings(options),
        load=partial(load, data, is_version_2, options),
        head=head,
        loss=span_loss,
        metrics=metrics,
        is_collapsed=is_collapsed,
        predictions=predictions,
        note="An answer that starts and ends at the first token means that there is none." if is_version_2 else "",
    )


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

    def decode(self, rows: Array) -> Decoded:
        """The answers, from the output of the model."""
        candidates = Candidates.unpack(rows, self.beam_size)
        return decode(
            self.data,
            self.windows,
            candidates,
            self.n_best_size,
            self.max_answer_length,
            has_classifier=self.is_joint,
        )

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


def load(
    data: Mapping[str, Questions],
    is_version_2: bool,
    options: Any,
    tokenizer: PreTrainedTokenizerBase,
    tuning: Tuning,
) -> TaskData:
    check_answers(data["train"])
    lengths = tuning.max_length, options.max_query_length, options.doc_stride
    is_joint = tuning.head == "joint"
    splits = {}
    for split, questions in data.items():
        windows = encode_questions(questions, tokenizer, *lengths, is_training=split == "train")
        logger.info("%-14s %d questions, %d windows", split, len(questions), len(windows))
        references = References(
            questions,
            windows,
            is_version_2,
            is_joint,
            beam_size=options.beam_size if is_joint else options.n_best_size,
            n_best_size=options.n_best_size,
            max_answer_length=options.max_answer_length,
        )
        splits[split] = Split(windows, references, len(questions))
    used = np.unique(splits["train"].references.windows.questions)
    left_out = len(data["train"]) - len(used)
    if left_out:
        logger.warning("%d questions are left out: no token covers their answer", left_out)
    return TaskData(splits)


def head(encoder: PreTrainedModel, tuning: Tuning, data: TaskData) -> SpanModel:
    dev = data.references["dev"]
    return SpanModel(encoder, tuning.head, dev.is_version_2, dev.beam_size, tuning.head_dropout)


def metrics(logits: Logits, references: Mapping[str, References]) -> dict[str, float]:
    """Exact match and F1; in version 2.0 at the threshold with the best F1, and by kind of question."""
    dev = references["dev"]
    official = dev.official_metrics(dev.decode(logits["dev"]))
    names = {"exact_match": "exact_match", "f1": "f1"}
    if dev.is_version_2:
        names = {"exact_match": "best_exact", "f1": "best_f1"}
        names |= {name: name for name in ("HasAns_exact", "HasAns_f1", "NoAns_exact") if name in official}
    return {name: official[theirs] / 100 for name, theirs in names.items()}


def is_collapsed(rows: Array, dev: References) -> bool:
    """Whether `has_one_start`, or (almost) no question is answered though more of them have an answer."""
    if has_one_start(Candidates.unpack(rows, dev.beam_size), dev.windows, dev.data):
        return True
    if not dev.is_version_2:
        return False
    decoded = dev.decode(rows)
    threshold = dev.threshold(decoded)
    unanswered = np.mean([odds > threshold for odds in decoded.null_odds.values()])
    unanswerable = np.mean([not question.answers for question in dev.data.questions])
    return is_one_answer(float(unanswered), float(unanswerable))


def predictions(
    split: str,
    rows: Array,
    dev: References,
) -> dict[str, dict[str, Any]]:
    decoded = dev.decode(rows)
    files: dict[str, dict[str, Any]] = {
        "/predictions.json": decoded.predictions,
        "/nbest_predictions.json": decoded.nbest,
        "/metrics.json": dev.official_metrics(decoded),
    }
    if dev.is_version_2:
        files["/null_odds.json"] = decoded.null_odds
    return files
