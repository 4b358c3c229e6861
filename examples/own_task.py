"""A new kind of task in one file: texts with ratings, such as one to five stars, whose order counts.

Copy it to electra/tasks/KIND.py, change what differs, and add the row `RATE` to `TASKS` in
electra/finetuning/registry.py. CONTRIBUTING.md says what else a kind needs, tests/tasks/test_own_task.py what this one
does. From top to bottom: options, metrics and report, data, model, task, answers of a saved model, command. Every
public name has the name of the kind in it, but for `predictor` and `main`.

A rating from `low` to `low + C` is C decisions, whether it is above each of the C lower ratings: labels int64 (N, C),
logits float32 (N, C).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from transformers import AutoModelForSequenceClassification, PreTrainedModel, PreTrainedTokenizerBase

from electra.base.files import TINY_EN
from electra.base.options import Values
from electra.core.errors import UserError, abridged
from electra.core.options import option
from electra.data.rows import Columns, text_of
from electra.finetuning.commands import TaskCommand
from electra.finetuning.config import (
    Arguments,
    ClassificationArguments,
    EncoderArguments,
    HyperParameters,
    LabelledFileArguments,
    parse_data_options,
)
from electra.finetuning.data import Array, Examples, NamedRows, encode_examples, rows_by_split, task_name
from electra.finetuning.heads import EncoderWithHead
from electra.finetuning.held_out import plain_content, warn_of_repeated, with_development
from electra.finetuning.labelled.metrics import SEVERAL
from electra.finetuning.predict import AskedColumns, Forward, Predictor, Saved
from electra.finetuning.registry import RUN, Registration
from electra.finetuning.row_checks import is_unlabelled, plain_name, read_all, set_apart
from electra.finetuning.task import (
    Baselines,
    Split,
    Task,
    TaskData,
    TaskKind,
    by_split,
    classifier_example,
    has_one_answer,
    of_one_split,
    score_all,
)
from electra.finetuning.words import fit_words
from electra.report.evaluation import BAG_OF_WORDS, BAG_OF_WORDS_DEFINITION, CONSTANT, CUT_TEXTS, Reporting
from electra.report.results import Metric, by_name

# ---- options: those of files, --no_label, seeds and output are inherited


@dataclass(frozen=True)
class RateArguments(LabelledFileArguments):
    """Texts with ratings, and output."""

    train_file: list[str] = option([], "Tables with texts and ratings.", replaced_by=("dataset_name",))
    validation_file: list[str] = option(
        [], "Development set in the same format. Default: see --validation_fraction.", replaced_by=("dataset_name",)
    )
    test_file: list[str] = option([], "Test set; rows without a rating are predicted, but not scored.")
    text_column: str = option("text", "Column of the text.")
    rating_column: str = option("rating", "Column of the rating, a whole number.")


RATE_GROUPS = (EncoderArguments, RateArguments, ClassificationArguments)
"""Groups of options of `electra rate`.

`ClassificationArguments` has --head, which `EncoderWithHead` takes. A kind with one head has `FineTuningArguments`.
"""


def parse_rate_arguments(
    argv: Sequence[str] | Values | None, rows: Mapping[str, NamedRows] = {}, preset: Mapping[str, object] = {}
) -> Arguments:
    about = "Fine-tune an encoder on texts with ratings, and score it."
    return parse_data_options(RATE_GROUPS, about, argv, rows, preset, encoder=TINY_EN)


# ---- metrics and report; a kind that is a package has them in metrics.py and report.py, which import no torch

RATE_METRICS = by_name(
    Metric("accuracy", "accuracy", "Accuracy is the share of texts that get their rating."),
    Metric(
        "rating_error",
        "error of ratings",
        "Error of ratings is the mean distance between answer and rating, as a share of the distance between the "
        "lowest and the highest rating.",
        lower_is_better=True,
        error="none",
    ),
    test=True,
)
"""The metrics of `electra rate`."""
RATE_REPORTING = Reporting(
    "rate",
    "-m electra rate",
    "Results of ratings",
    {},
    RATE_METRICS,
    (
        "Metrics that begin with test are of the test set; no run is chosen by them.",
        f"{BAG_OF_WORDS_DEFINITION}.",
        "One answer to all: for each step, whether most texts are above it.",
    ),
    headlines=("rating_error",),
    unit="texts",
)
"""How evaluations of `electra rate` are reported. Each baseline is explained by its name; that of `CONSTANT` is "one
answer to all"."""


def steps_above(logits: Array) -> Array:
    """Return for logits (N, C) how many of the C lower ratings the answer is above, int64 (N,)."""
    return (logits > 0).sum(1)


def rating_errors(logits: Array, labels: Array) -> Array:
    """Return each text's error of its rating, (N,), whose mean is the headline metric: `Task.row_scores`."""
    return np.abs(steps_above(logits) - labels.sum(1)) / labels.shape[1]


def score_ratings(logits: Array, labels: Array) -> dict[str, float]:
    """Return the values of `RATE_METRICS` by name, for logits (N, C) and labels (N, C)."""
    errors = rating_errors(logits, labels)
    return {"accuracy": float(np.mean(errors == 0)), "rating_error": float(np.mean(errors))}


# ---- data


class RatedText(NamedTuple):
    """A text with its rating, None if it has none; `place` is its source and line, for messages."""

    text: str
    rating: int | None
    place: str


def read_rated(options: RateArguments, program_rows: Mapping[str, NamedRows] = {}) -> dict[str, list[RatedText]]:
    """Return the splits train, dev and, if there is one, test, of files, a data set or a program; see `set_apart`.

    Raises:
        UserError: a row cannot be read, or all texts have the same rating.
    """

    def read(placed: tuple[str, Columns]) -> RatedText:
        place, row = placed
        text = text_of(row, options.text_column, place, "--text_column")
        written = row.get(options.rating_column)
        if is_unlabelled(written, options.no_label):
            return RatedText(text, None, place)
        if not plain_name(written).isdecimal():
            raise UserError(f"{place} has the rating {abridged(written)}; give a whole number, or see --no_label")
        return RatedText(text, int(plain_name(written)), place)

    def content_of(item: RatedText) -> tuple[str, ...]:
        return plain_content(item.text)  # rows of equal content, such as one query, are held out together

    splits = {split: read_all(rows, read) for split, rows in rows_by_split(options, program_rows, ["train"]).items()}
    # Without a label, rows of a test set are predicted only, others left out; a single label for all is refused.
    apart = set_apart(splits, lambda item: [] if item.rating is None else [item.rating], lambda item: item.place)
    parts = with_development(apart, options, content_of, "texts", lambda item: item.rating)
    warn_of_repeated(parts, content_of, "texts")
    return parts


def load_ratings(
    texts: Mapping[str, Sequence[RatedText]], tokenizer: PreTrainedTokenizerBase, tuning: HyperParameters
) -> TaskData:
    """Return rows of tokens with the labels above, and baselines: one answer to all, and a bag of words."""
    ratings = [item.rating for item in texts["train"] if item.rating is not None]
    low, steps = min(ratings), max(ratings) - min(ratings)
    splits = {}
    for split, items in texts.items():
        labels = None
        if items[0].rating is not None:
            above = np.array([(item.rating or 0) - low for item in items])
            labels = (above[:, None] > np.arange(steps)).astype(np.int64)
        rows = encode_examples(Examples([item.text for item in items], None, labels), tokenizer, tuning.max_length)
        splits[split] = Split(rows, labels, len(items), is_labelled=labels is not None)
    cut_share = float(np.mean(splits["dev"].rows.lengths >= tuning.max_length))

    def baselines(seed: int) -> Baselines:
        data = TaskData(splits)
        labels = splits["train"].references
        constant = labels.mean(0) - 0.5
        answers = {CONSTANT: {split: np.tile(constant, (part.examples, 1)) for split, part in data.scored.items()}}
        score = fit_words([item.text for item in texts["train"]], labels, SEVERAL, steps)
        if score is not None:
            answers[BAG_OF_WORDS] = {split: score([item.text for item in texts[split]]) for split in data.scored}
        return score_all(by_split(score_ratings), rating_errors, answers, splits)

    return TaskData(
        splits,
        labels=[f"above {rating}" for rating in range(low, low + steps)],
        problem_type="multi_label_classification",
        saved={"lowest_rating": low},
        baselines=baselines,
        measured={CUT_TEXTS: round(cut_share, 4)},
    )


# ---- model and task; the loss is `step_loss`, which takes labels of this form


def build_rater(encoder: PreTrainedModel, tuning: HyperParameters, data: TaskData) -> EncoderWithHead:
    return EncoderWithHead(encoder, tuning.head, len(data.labels), tuning.head_dropout)


def is_rater_collapsed(logits: Array, labels: Array) -> bool:
    return bool(np.isnan(logits).any()) or has_one_answer(steps_above(logits), labels.sum(1))


def rating_files(texts: Mapping[str, Sequence[RatedText]], split: str, logits: Array, labels: Any) -> dict[str, str]:
    """Return a file by the end of its name: a line per text with its place and how many steps it is answered above."""
    lines = [f"{item.place}\t{steps}" for item, steps in zip(texts[split], steps_above(logits), strict=True)]
    return {f"-{split}.tsv": "\n".join(["place\tsteps", *lines, ""])}


RATING = TaskKind(RATE_REPORTING, AutoModelForSequenceClassification, "text-classification")
"""The kind of the tasks of `electra rate`."""


def open_rating(args: Arguments) -> Task:
    """Return the task; read the data first, whose size decides the defaults of narrow encoders."""
    texts = read_rated(args.options, args.rows)
    return Task(
        kind=RATING,
        name=task_name(args.options, RATING.name),
        headlines=RATE_REPORTING.headlines,
        load=partial(load_ratings, texts),
        head=build_rater,
        metrics=by_split(score_ratings),
        is_collapsed=is_rater_collapsed,
        row_scores=rating_errors,
        predictions=of_one_split(partial(rating_files, texts)),
        texts=len(texts["train"]),
        example=classifier_example(is_pair=False, has_several_classes=True),
    )


# ---- answers of a saved model to new texts


def predictor(saved: Saved, asked_columns: AskedColumns) -> Predictor:
    """Return what answers new texts; `asked_columns` has text_column and text_pair_column, or None as in training."""
    column = asked_columns.text_column or saved.settings.get("text_column", "text")
    return Predictor(
        EncoderWithHead(saved.model.base_model, "hf", saved.model.config.num_labels),
        lambda row, place: text_of(row, column, place, "--text_column"),
        partial(answer_ratings, saved),
    )


def answer_ratings(saved: Saved, texts: Sequence[str], forward: Forward) -> list[Columns]:
    """Return for each text its rating as `prediction`."""
    rows = encode_examples(Examples(list(texts)), saved.tokenizer, saved.settings["max_length"])
    low = saved.model.config.lowest_rating
    return [{"prediction": low + int(steps)} for steps in steps_above(forward(rows))]


# ---- the command and its row

RATE_COMMAND = TaskCommand(
    RATING,
    RATE_GROUPS,
    parse_rate_arguments,
    lambda args: [open_rating(args)],
    lambda options: f"rate_{task_name(options, 'data')}",
    predictor,
)
"""The command of `electra rate`."""
main = RATE_COMMAND.run

RATE = Registration(
    "rate",
    "fine-tune on texts with ratings, such as stars",
    "--pretrain_path output/small_owt --train_file stars.csv",
    f"{__name__}.RATE_COMMAND",
    basic=f"pretrain_path train_file validation_file test_file text_column rating_column {RUN}",
    answers=("the text", "the rating", "none"),
    architectures={"SequenceClassification": ""},
    suits_narrow=True,
)
"""The row of `electra rate` in `TASKS`; there, `__name__` is electra.tasks.rate."""
