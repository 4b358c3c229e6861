"""The command `electra choose`: multiple choice, such as SWAG, and answers to new questions.

The model reads a pair of texts for each choice; the softmax is over the choices of a question. The head is BERT's for
SWAG (section 4.4 of its paper). Questions with different numbers of choices share a batch: the choices of all
questions are rows of one tensor, and a table of indices says which belong to which question. Logits are float32 (N, K)
for N questions with at most K choices.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import torch
from scipy.special import softmax
from torch import Tensor
from transformers import AutoModelForMultipleChoice, PreTrainedModel, PreTrainedTokenizerBase

from electra.base.options import Values
from electra.data.rows import Columns
from electra.finetuning.commands import TaskCommand
from electra.finetuning.config import (
    Arguments,
    ClassificationArguments,
    EncoderArguments,
    HyperParameters,
    parse_data_options,
)
from electra.finetuning.data import (
    Array,
    ColumnRows,
    Examples,
    Logits,
    NamedRows,
    PaddingCollator,
    encode_examples,
    pad,
    task_name,
)
from electra.finetuning.heads import EncoderWithHead
from electra.finetuning.predict import AskedColumns, Predictor, Saved
from electra.finetuning.task import (
    Split,
    Task,
    TaskData,
    TaskKind,
    by_split,
    has_one_answer,
    of_one_split,
    score_all,
)
from electra.tasks.multiple_choice.data import (
    ChoiceQuestion,
    MultipleChoiceArguments,
    load_choice_splits,
    parse_question,
)
from electra.tasks.multiple_choice.metrics import choose_endings, score_choices, score_questions
from electra.tasks.multiple_choice.report import CHOICE_REPORTING, CHOICE_TASKS

# ---- the command


CHOICE_GROUPS = (EncoderArguments, MultipleChoiceArguments, ClassificationArguments)
"""Groups of options of `electra choose`."""


def parse_choice_arguments(
    argv: Sequence[str] | Values | None, rows: Mapping[str, NamedRows] = {}, preset: Mapping[str, object] = {}
) -> Arguments:
    """Return the options of `electra choose`, checked; arguments and errors as in `parse_data_options`."""
    about = "Fine-tune an encoder on multiple-choice questions and score it."
    return parse_data_options(
        CHOICE_GROUPS, about, argv, rows, preset, dataset_name="allenai/swag", dataset_config_name="regular"
    )


# ---- the task

MULTIPLE_CHOICE = TaskKind(CHOICE_REPORTING, AutoModelForMultipleChoice, "multiple-choice")
"""The kind of the tasks of `electra choose`."""
NO_CHOICE = -1e4
"""Logit of padding in a batch. Its probability is 0, and it is finite, so that logits can be saved and averaged."""
CHOICE_EXAMPLE = """inputs = tokenizer(["The sun"] * 2, ["rises.", "sings."], return_tensors="pt", padding=True)
logits = model(**{name: values.unsqueeze(0) for name, values in inputs.items()}).logits
print(logits.softmax(-1).tolist())"""
"""Python code for the card of a saved model: transformers has no pipeline for multiple choice."""


def open_choice_task(args: Arguments) -> Task:
    """Return the task of the command; its data are not read yet."""
    options = args.options
    return Task(
        kind=MULTIPLE_CHOICE,
        name=task_name(options, MULTIPLE_CHOICE.name, CHOICE_TASKS),
        headlines=CHOICE_REPORTING.headlines,
        load=partial(load_choice_task, options, args.rows),
        head=build_chooser,
        metrics=by_split(score_choices),
        is_collapsed=is_chooser_collapsed,
        row_scores=score_questions,
        collator=ChoiceCollator,
        predictions=of_one_split(choice_files),
        example=CHOICE_EXAMPLE,
    )


def load_choice_task(
    options: MultipleChoiceArguments,
    program_rows: Mapping[str, NamedRows],
    tokenizer: PreTrainedTokenizerBase,
    tuning: HyperParameters,
) -> TaskData:
    """Read and encode the questions of all splits: `Task.load`; errors as in `load_choice_splits`."""
    data = load_choice_splits(options, program_rows)
    splits = {}
    for split, questions in data.items():
        rows = encode_choices(questions, tokenizer, tuning.max_length)
        splits[split] = Split(rows, questions, len(questions), is_labelled="labels" in rows.columns)
    baselines = cache(lambda: score_all(by_split(score_choices), score_questions, choice_baselines(splits), splits))
    return TaskData(splits, baselines=lambda seed: baselines())


def choice_baselines(splits: Mapping[str, Split]) -> dict[str, Logits]:
    """Return baseline -> scored split -> logits (N, K).

    The one baseline answers all questions with the number that is right most often in the training data.
    """
    number, _ = Counter(question.answer for question in splits["train"].references).most_common(1)[0]
    answers = {}
    for name, split in splits.items():
        if split.is_labelled and name != "train":
            size = max(len(question.choices) for question in split.references)
            is_answer = np.arange(max(size, number + 1)) == number
            answers[name] = np.tile(is_answer, (len(split.references), 1)).astype(float)
    return {"most frequent place": answers}


def encode_choices(
    questions: Sequence[ChoiceQuestion],
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
) -> ColumnRows:
    """Return questions as rows; pairs longer than `max_length` tokens are truncated, the longer text first.

    Returns:
        rows with the columns `choices`, a list of tokenized pairs, and `labels`, int64, unless an answer is unknown.
        The length of a row is its number of choices times that of its longest pair.
    """
    firsts: list[str] = []
    seconds: list[str] = []
    for question in questions:
        firsts += [question.first] * len(question.seconds)
        seconds += question.seconds
    pairs = iter(encode_examples(Examples(firsts, seconds), tokenizer, max_length))
    choices = [[next(pairs) for _ in question.seconds] for question in questions]
    lengths = [len(row) * max(len(pair["input_ids"]) for pair in row) for row in choices]
    columns: Columns = {"choices": choices}
    answers = [question.answer for question in questions]
    if None not in answers:
        columns["labels"] = np.array(answers, np.int64)
    return ColumnRows(columns, np.array(lengths, np.int64))


@dataclass(frozen=True)
class ChoiceCollator:
    """A collator that makes a batch of questions with different numbers of choices."""

    pad_token_id: int

    def __call__(self, rows: Sequence[Columns]) -> dict[str, Tensor]:
        """Return a batch of B questions with R choices in all and at most K each.

        `input_ids`, `token_type_ids` and `attention_mask` are int64 (R, L). `choices`, int64 (B, K), has the rows of
        each question in these tensors, and -1 where a question has fewer than K choices. `labels` are (B,), if rows
        have them.
        """
        pairs: list[Columns] = []
        pair_indices = []  # of each question
        for row in rows:
            start = len(pairs)
            pairs += row["choices"]
            pair_indices.append(range(start, len(pairs)))
        batch = PaddingCollator(self.pad_token_id)(pairs)
        batch["choices"] = pad(pair_indices, -1)
        if "labels" in rows[0]:
            batch["labels"] = torch.tensor([int(row["labels"]) for row in rows])
        return batch


class ChoiceScorer(EncoderWithHead):
    """An encoder with a head of one output, the score of a choice."""

    def __init__(self, encoder: PreTrainedModel, head: str, dropout: float) -> None:
        super().__init__(encoder, head, 1, dropout, AutoModelForMultipleChoice)

    def forward(  # type: ignore[override]
        self, choices: Tensor, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> Tensor:
        """Return the logits of a batch of `ChoiceCollator`, float32 (B, K), with `NO_CHOICE` in place of padding."""
        scores = super().forward(input_ids, attention_mask, token_type_ids).flatten()
        return torch.where(choices >= 0, scores[choices.clamp(min=0)], NO_CHOICE)


def build_chooser(encoder: PreTrainedModel, tuning: HyperParameters, data: TaskData) -> ChoiceScorer:
    """Return the encoder with a new head."""
    return ChoiceScorer(encoder, tuning.head, tuning.head_dropout)


def is_chooser_collapsed(logits: Array, questions: Sequence[ChoiceQuestion]) -> bool:
    """Return True if a logit is nan, or (almost) all answers are the same number."""
    answers = [question.answer for question in questions]
    return bool(np.isnan(logits).any()) or has_one_answer(choose_endings(logits, questions), answers)


def choice_files(split: str, logits: Array, questions: Sequence[ChoiceQuestion]) -> dict[str, str]:
    """Return the file of predictions, by the end of its name: a csv row for each question."""
    import pandas as pd  # not at the top: `electra predict` needs none

    chosen_numbers = choose_endings(logits, questions)
    columns = {
        "place": [question.place for question in questions],
        "prediction": chosen_numbers,
        "choice": [question.choices[number] for question, number in zip(questions, chosen_numbers, strict=True)],
        "answer": pd.array([question.answer for question in questions], dtype="Int64"),
    }
    table = pd.DataFrame(columns)
    return {f"-{split}.csv": table.to_csv(index=False)}


# ---- answers to new questions: number, text and probability of the chosen one


def predictor(saved: Saved, asked_columns: AskedColumns) -> Predictor:
    """Return the predictor of a saved model, which answers rows in the form of training; labels are not read."""
    return Predictor(
        ChoiceScorer(saved.model.base_model, "hf", 0.0),
        lambda row, place: parse_question({name: row[name] for name in row if name != "label"}, place),
        partial(answer_choices, saved),
        ChoiceCollator,
    )


def answer_choices(
    saved: Saved, questions: Sequence[ChoiceQuestion], forward: Callable[[ColumnRows], Array]
) -> list[Columns]:
    """Return for each question `prediction`, the number of a choice, `choice`, its text, and its `probability`."""
    answers = []
    rows = encode_choices(questions, saved.tokenizer, saved.settings["max_length"])
    for question, logits in zip(questions, forward(rows), strict=True):
        probabilities = softmax(logits[: len(question.choices)].astype(float))
        best = int(probabilities.argmax())
        answers.append(
            {
                "prediction": best,
                "choice": question.choices[best],
                "probability": float(probabilities[best]),
            }
        )
    return answers


# ---- the command, of which the verb, `fine_tune` and `electra predict` are made


CHOICE_COMMAND = TaskCommand(
    MULTIPLE_CHOICE,
    CHOICE_GROUPS,
    parse_choice_arguments,
    lambda args: [open_choice_task(args)],
    lambda options: f"multiple_choice_{task_name(options, 'data', CHOICE_TASKS)}",
    predictor,
)
"""The command of `electra choose`."""
main = CHOICE_COMMAND.run
