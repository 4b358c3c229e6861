"""SQuAD for the protocol: its questions as windows of tokens, its heads, answers and their official scores."""

import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from electra.errors import UserError
from electra.files import write_file, write_json
from electra.finetuning.fingerprint import data_settings
from electra.finetuning.protocol.family import Family, TaskRows
from electra.finetuning.protocol.options import Arguments
from electra.finetuning.run import Logits, Outcome
from electra.finetuning.trainer import Hyperparameters
from electra.finetuning_arguments import SquadArguments
from electra.squad.data import Questions, load_dataset_questions, read_questions, with_found_answers
from electra.squad.decoding import COLLAPSED_SHARE, Candidates, Decoded, decode, says_the_same
from electra.squad.heads import SpanModel, step_loss
from electra.squad.metrics import evaluate_v1, evaluate_v2
from electra.squad.report import REPORTING, TASKS
from electra.squad.windows import EncodedQuestions, WindowCollator, encode_questions

logger = logging.getLogger(__name__)


class Squad(Family):
    """One version of SQuAD: which one the data says.

    In its folder, beside what every evaluation has, for each run:

    predictions/TASK-SEED/predictions.json          id of a question -> the best answer, as the official scripts read
    predictions/TASK-SEED/nbest_predictions.json    id -> the best answers with their scores
    predictions/TASK-SEED/null_odds.json            id -> what speaks for no answer; of version 2.0
    predictions/TASK-SEED/metrics.json              what the official script prints
    """

    args: Arguments[SquadArguments]
    default_max_length = 384
    reporting = REPORTING

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.dev: EncodedQuestions | None = None
        self.decoded: tuple[NDArray[np.float32], Decoded] | None = None

    # ---- data

    @cached_property
    def questions(self) -> dict[str, Questions]:
        """Of training and of the development set, as they are in the files."""
        options = self.args.options
        if options.dataset_name is not None:
            found = load_dataset_questions(options.dataset_name)
            return {"train": found["train"], "dev": found["validation"]}
        return {
            "train": read_questions(Path(options.train_file or "")),
            "dev": read_questions(Path(options.validation_file or "")),
        }

    @property
    def is_version_2(self) -> bool:
        return any(split.is_version_2 for split in self.questions.values())

    def names(self) -> list[str]:
        return ["squad_v2" if self.is_version_2 else "squad_v1"]

    def load(self, names: Sequence[str], settings: Mapping[str, Hyperparameters]) -> dict[str, TaskRows]:
        (name,) = names
        if self.is_version_2 and all(question.answers for question in self.questions["train"].questions):
            logger.warning("no question that is trained on is without an answer, but some of the development set are")
        train = self._encode(self._train_questions(), settings[name], is_training=True)
        self.dev = self._encode(self.questions["dev"], settings[name], is_training=False)
        if train.left_out:
            logger.warning("%d questions are left out: no token stands for their answer", train.left_out)
        if not len(train.windows):
            raise UserError(f"{self.questions['train'].source}: no token stands for any answer; name other data")
        for split, encoded in (("train", train), ("dev", self.dev)):
            asked = f"{len(self.questions[split]):,} questions"
            logger.info("%-14s %s, %s windows", split, asked, f"{len(encoded.windows):,}")
        examples = {split: len(questions) for split, questions in self.questions.items()}
        return {name: TaskRows(train.windows, {"dev": self.dev.windows}, examples)}

    def _train_questions(self) -> Questions:
        data = self.questions["train"]
        found = with_found_answers(data)
        if any(question.answers for question in data.questions) and not any(q.answers for q in found.questions):
            raise UserError(
                f"{data.source}: not one answer stands where it says; name the data that its places are of"
            )
        return found

    def _encode(self, data: Questions, settings: Hyperparameters, *, is_training: bool) -> EncodedQuestions:
        return encode_questions(
            data,
            self.encoder.tokenizer,
            max_length=settings.max_length,
            max_query_length=self.args.options.max_query_length,
            doc_stride=self.args.options.doc_stride,
            is_training=is_training,
        )

    # ---- training

    @property
    def candidates(self) -> int:
        """Starts, and ends of each, that are looked at."""
        options = self.args.options
        return options.beam_size if self.args.tuning.head == "joint" else options.n_best_size

    def make_model(self, task: str, encoder: PreTrainedModel, settings: Hyperparameters) -> SpanModel:
        return SpanModel(
            encoder,
            settings.head,
            is_version_2=self.is_version_2,
            beam_size=self.candidates,
            dropout=settings.head_dropout,
        )

    def loss(self, output: Any, labels: Tensor, num_items_in_batch: Tensor | int | None) -> Tensor:
        return step_loss(output, labels, num_items_in_batch)

    def collator(self) -> Callable[[Any], dict[str, Tensor]]:
        return WindowCollator(self.encoder.tokenizer.pad_token_id)

    def more_settings(self, task: str) -> dict[str, Any]:
        names = ("max_query_length", "doc_stride", "beam_size", "n_best_size", "max_answer_length")
        return {**{name: getattr(self.args.options, name) for name in names}, **self.data_settings}

    @cached_property
    def data_settings(self) -> dict[str, str]:
        options = self.args.options
        return data_settings([options.train_file or ""], [options.validation_file or ""], options.dataset_name)

    # ---- scores

    def decode(self, rows: NDArray[np.float32]) -> Decoded:
        """Answers to the development set, of what the model put out; the last ones are remembered."""
        if self.decoded is None or self.decoded[0] is not rows:
            assert self.dev is not None
            found = decode(
                self.questions["dev"],
                self.dev,
                Candidates.unpack(rows, self.candidates),
                n_best_size=self.args.options.n_best_size,
                max_answer_length=self.args.options.max_answer_length,
                has_classifier=self.args.tuning.head == "joint",
            )
            self.decoded = rows, found
        return self.decoded[1]

    def official_metrics(self, decoded: Decoded) -> dict[str, float]:
        """What the official script prints, in percent; of version 2.0 at the threshold that is best for F1."""
        references = self.questions["dev"].references
        if not self.is_version_2:
            return evaluate_v1(references, decoded.predictions)
        return evaluate_v2(references, decoded.predictions, decoded.null_odds, self.threshold(decoded))

    def threshold(self, decoded: Decoded) -> float:
        """Odds above it mean no answer: best for F1. Where answering nothing is best, it is below all of them.

        The official script calls that threshold 0, which answers the questions whose odds are below 0.
        """
        references = self.questions["dev"].references
        found = evaluate_v2(references, decoded.predictions, decoded.null_odds)
        without_answer = sum(not answers for answers in references.values())
        is_silence_best = found["best_f1"] <= 100 * without_answer / len(references)
        return -math.inf if is_silence_best else found["best_f1_thresh"]

    def metrics(self, task: str, logits: Logits) -> dict[str, float]:
        official = self.official_metrics(self.decode(logits["dev"]))
        if not self.is_version_2:
            return {name: value / 100 for name, value in official.items()}
        by_answer = [name for name in ("HasAns_exact", "HasAns_f1", "NoAns_exact") if name in official]
        return {
            "exact_match": official["best_exact"] / 100,
            "f1": official["best_f1"] / 100,
            **{name: official[name] / 100 for name in by_answer},
        }

    def headline(self, task: str, metrics: Mapping[str, float | None]) -> float:
        value = metrics.get(TASKS[task].headline)
        return value if value is not None and math.isfinite(value) else -math.inf

    def is_collapsed(self, task: str, logits: Logits) -> bool:
        """As `says_the_same`; or (almost) no question is answered, though more than that have an answer."""
        assert self.dev is not None
        if says_the_same(Candidates.unpack(logits["dev"], self.candidates), self.dev.windows):
            return True
        if not self.is_version_2:
            return False
        decoded = self.decode(logits["dev"])
        threshold = self.threshold(decoded)
        unanswered = np.mean([odds > threshold for odds in decoded.null_odds.values()])
        without_answer = np.mean([not answers for answers in self.questions["dev"].references.values()])
        return bool(unanswered >= COLLAPSED_SHARE > without_answer)

    def _kept_folder(self, task: str, seed: int) -> Path:
        return self.evaluation.predictions_path(task, seed).with_suffix("")

    def is_kept(self, task: str, seed: int) -> bool:
        names = ["predictions", "nbest_predictions", "metrics", *(["null_odds"] if self.is_version_2 else [])]
        return all((self._kept_folder(task, seed) / f"{name}.json").is_file() for name in names)

    def keep(self, task: str, seed: int, outcome: Outcome) -> None:
        decoded = self.decode(outcome.logits["dev"])
        folder = self._kept_folder(task, seed)
        folder.mkdir(exist_ok=True)
        _write(decoded.predictions, folder / "predictions.json")
        _write(decoded.nbest, folder / "nbest_predictions.json")
        if self.is_version_2:
            write_json(decoded.null_odds, folder / "null_odds.json")
        write_json(self.official_metrics(decoded), folder / "metrics.json")


def _write(values: dict[str, Any], path: Path) -> None:
    write_file((json.dumps(values, indent=2, ensure_ascii=False) + "\n").encode(errors="backslashreplace"), path)
