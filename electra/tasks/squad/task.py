"""The command `electra squad`: questions on paragraphs as SQuAD 1.1 or 2.0, whichever the data is.

predictions/TASK-SEED/ has the answers, the n best answers and the null odds (the score that there is no answer)
by id of the question, as the official scripts read them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import expit
from transformers import AutoModelForQuestionAnswering, PreTrainedModel, PreTrainedTokenizerBase

from electra.base.files import RESULT_NAME
from electra.base.options import Values
from electra.core.errors import UserError
from electra.data.rows import Columns, text_of
from electra.finetuning.commands import TaskCommand
from electra.finetuning.config import Arguments, EncoderArguments, HyperParameters, parse_data_options
from electra.finetuning.data import Array, ColumnRows, NamedRows
from electra.finetuning.predict import AskedColumns, Predictor, Saved
from electra.finetuning.task import (
    COLLAPSED_SHARE,
    Baseline,
    Split,
    Task,
    TaskData,
    TaskKind,
    by_split,
    of_one_split,
)
from electra.tasks.squad.data import QuestionWindows, SpanArguments, SquadArguments, encode_questions, load_questions
from electra.tasks.squad.heads import Candidates, SpanModel, span_loss
from electra.tasks.squad.metrics import AnswerTexts, Decoded, decode, evaluate_v1, evaluate_v2
from electra.tasks.squad.questions import Questions, SquadQuestion
from electra.tasks.squad.report import SQUAD_REPORTING

# ---- the command


SQUAD_GROUPS = (EncoderArguments, SquadArguments, SpanArguments)
"""Groups of options of `electra squad`."""


def parse_squad_arguments(
    argv: Sequence[str] | Values | None, rows: Mapping[str, NamedRows] = {}, preset: Mapping[str, object] = {}
) -> Arguments:
    """Return the options of `electra squad`, checked; arguments and errors as in `parse_data_options`."""
    about = "Fine-tune an encoder on SQuAD and score it."
    return parse_data_options(SQUAD_GROUPS, about, argv, rows, preset, dataset_name="squad")


# ---- the task

SQUAD = TaskKind(
    SQUAD_REPORTING,
    AutoModelForQuestionAnswering,
    "question-answering",
    max_length=384,
    reads_windows=True,
)
"""The kind of the tasks of `electra squad`."""
UNANSWERED = "no answer"
"""Name in reports of the baseline that answers no question."""
SPAN_EXAMPLE = """inputs = tokenizer("Who wrote the letter?", "Ann wrote the letter.", return_tensors="pt")
output = model(**inputs)
start, end = output.start_logits.argmax(), output.end_logits.argmax()
print(tokenizer.decode(inputs["input_ids"][0, start : end + 1]))"""
"""Python code for the card of a saved model: transformers 5 has no pipeline for questions about a context."""


def open_squad_task(args: Arguments) -> Task:
    """Read the questions and return the task; all splits are of version 2.0 if a split is."""
    options = args.options
    data = load_questions(options, args.rows)
    is_version_2 = any(split.is_version_2 for split in data.values())
    data = {split: replace(questions, is_version_2=is_version_2) for split, questions in data.items()}
    return Task(
        kind=SQUAD,
        name="squad_v2" if is_version_2 else "squad_v1",
        headlines=("f1",),
        load=partial(load_squad_task, data, options),
        head=build_reader,
        loss=span_loss,
        metrics=by_split(score_squad),
        is_collapsed=is_reader_collapsed,
        predictions=of_one_split(squad_files),
        note="An answer that starts and ends at the first token means that there is none." if is_version_2 else "",
        example=SPAN_EXAMPLE,
    )


class SquadReferences(NamedTuple):
    """The references of a split.

    Args:
        windows: windows of the questions in `data`.
        settings: options by which answers are chosen; `n_best_size` is the number of starts, of ends for each start,
            and of answers that are kept.
    """

    data: Questions
    windows: QuestionWindows
    settings: Values

    def candidates(self, rows: Array) -> Candidates:
        """Return the candidates in the output of the model, float32 (N, ...)."""
        return Candidates.unpack(rows, self.settings["n_best_size"])

    def decode(self, rows: Array) -> Decoded:
        """Return the answers in the output of the model, float32 (N, ...)."""
        return decode(self.data, self.windows, self.candidates(rows), self.settings)


def load_squad_task(
    data: Mapping[str, Questions],
    options: SquadArguments,
    tokenizer: PreTrainedTokenizerBase,
    tuning: HyperParameters,
) -> TaskData:
    """Return the windows of all splits, and for version 2.0 what answering no question reaches: `Task.load`."""
    settings = {**vars(options), **vars(tuning)}
    splits = {}
    for split, questions in data.items():
        windows = encode_questions(questions, tokenizer, settings, is_training=split == "train")
        splits[split] = Split(windows, SquadReferences(questions, windows, settings), len(questions))
    baselines = unanswered(data["dev"])
    return TaskData(splits, baselines=(lambda seed: baselines) if baselines else None)


def unanswered(dev: Questions) -> dict[str, Baseline]:
    """Return what answering no question of version 2.0 reaches, which needs no network; {} of version 1.1."""
    if not dev.is_version_2:
        return {}
    names = dev.references
    return {UNANSWERED: Baseline(score_answers(dev, dict.fromkeys(names, ""), dict.fromkeys(names, 0.0)))}


def build_reader(encoder: PreTrainedModel, tuning: HyperParameters, data: TaskData) -> SpanModel:
    """Return the encoder with a new head that finds answers."""
    dev = data.references["dev"]
    beam_size = dev.settings["n_best_size"]
    return SpanModel(encoder, tuning.head, dev.data.is_version_2, beam_size, tuning.head_dropout)


def score_squad(rows: Array, dev: SquadReferences) -> dict[str, float]:
    """Return exact match and F1 from the output of the model, float32 (N, ...); see `score_answers`."""
    decoded = dev.decode(rows)
    return score_answers(dev.data, decoded.predictions, decoded.null_odds)


def score_answers(dev: Questions, answers: AnswerTexts, null_odds: Mapping[str, float]) -> dict[str, float]:
    """Return exact match and F1, in version 2.0 each at its best threshold.

    Args:
        answers, null_odds: answer, and score of there being none, by id of the question; version 1.1 does not read the
            second.
    """
    if dev.is_version_2:
        return evaluate_v2(dev.references, answers, null_odds)
    return evaluate_v1(dev.references, answers)


def is_reader_collapsed(rows: Array, dev: SquadReferences) -> bool:
    """Return True if (almost) all windows have their best start at one position, or a best score is not finite.

    Positions are counted in the window or in its piece of the paragraph. Position 0 does not count: many windows
    rightly say that they have no answer.
    """
    candidates = dev.candidates(rows)
    behind_cls = (candidates.starts > 0).argmax(1)
    starts = candidates.starts[np.arange(len(rows)), behind_cls]
    shares = []
    for positions in (starts, starts - dev.windows.context[:, 0]):
        _, counts = np.unique(positions, return_counts=True)
        shares.append(counts.max() / len(positions))
    is_finite = np.isfinite(candidates.start_scores[:, 0]).all()
    return bool(max(shares) >= COLLAPSED_SHARE or not is_finite)


def squad_files(split: str, rows: Array, dev: SquadReferences) -> dict[str, Values]:
    """Return name -> content of the files with the answers of a split, in the form of the official scripts."""
    decoded = dev.decode(rows)
    files: dict[str, Values] = {
        "/predictions.json": decoded.predictions,
        "/nbest_predictions.json": decoded.nbest,
    }
    if dev.data.is_version_2:
        files["/null_odds.json"] = decoded.null_odds
    return files


# ---- answers to new questions: a piece of the context, and its probability


NEEDED_SETTINGS = ("max_query_length", "doc_stride", "n_best_size", "max_answer_length")
"""Settings of training by which answers are chosen; a saved model cannot answer without them."""


def predictor(saved: Saved, asked_columns: AskedColumns) -> Predictor:
    """Return the predictor of a saved model.

    Raises:
        UserError: the record of the model lacks one of `NEEDED_SETTINGS`.
    """
    missing_settings = [name for name in NEEDED_SETTINGS if name not in saved.settings]
    if missing_settings:
        raise UserError(f"{asked_columns.model} has no {missing_settings[0]} in its {RESULT_NAME}; restore it")
    return Predictor(
        SpanModel(saved.model.base_model, head="hf", has_classifier=False, beam_size=saved.settings["n_best_size"]),
        parse_squad_row,
        partial(answer_squad_rows, saved),
    )


def parse_squad_row(row: Columns, place: str) -> tuple[str, str]:
    """Return question and context of a row; raise a UserError if one is missing."""
    return text_of(row, "question", place), text_of(row, "context", place)


def answer_squad_rows(
    saved: Saved, items: Sequence[tuple[str, str]], forward: Callable[[ColumnRows], Array]
) -> list[Columns]:
    """Return for each question and its context `prediction`, the best answer, and `probability`, among the n best.

    If the question has likely no answer, the prediction is "", with the probability of there being none.
    """
    may_be_none = saved.settings["task"] == "squad_v2"
    contexts = []
    questions = []
    for number, (text, context) in enumerate(items):
        contexts.append(context)
        questions.append(SquadQuestion(str(number), text, number, (), None))
    data = Questions(contexts, questions, may_be_none, "")
    windows = encode_questions(data, saved.tokenizer, saved.settings)
    decoded = SquadReferences(data, windows, saved.settings).decode(forward(windows))
    answers = []
    for question_id, odds in decoded.null_odds.items():
        best = decoded.nbest[question_id][0]
        row = {"prediction": best["text"], "probability": best["probability"]}
        if may_be_none and odds > 0:
            row = {"prediction": "", "probability": float(expit(odds))}
        answers.append(row)
    return answers


# ---- the command, of which the verb, `fine_tune` and `electra predict` are made


SQUAD_COMMAND = TaskCommand(
    SQUAD,
    SQUAD_GROUPS,
    parse_squad_arguments,
    lambda args: [open_squad_task(args)],
    lambda options: "squad",
    predictor,
)
"""The command of `electra squad`."""
main = SQUAD_COMMAND.run
