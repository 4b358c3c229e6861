"""Answers of a saved classifier to new texts: classes with probabilities, or numbers."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from scipy.special import expit, softmax

from electra.core.errors import UserError
from electra.data.rows import Columns
from electra.finetuning.data import Array
from electra.finetuning.heads import EncoderWithHead
from electra.finetuning.labelled.labels import PROBLEM_TYPES, Example, LabelSet
from electra.finetuning.labelled.metrics import SEVERAL, SINGLE
from electra.finetuning.labelled.scores import class_names_of, decide_classes, mean_by_text
from electra.finetuning.labelled.texts import TextColumns, encode_texts, read_example
from electra.finetuning.predict import AskedColumns, Forward, Predictor, Saved


def predictor_of_texts(
    saved: Saved,
    asked_columns: AskedColumns,
    parse: Callable[[Columns, str], Example] | None = None,
) -> Predictor:
    """Return the predictor of a saved classifier of texts or pairs.

    Args:
        asked_columns: columns of the texts; where they name none, those of the training.
        parse: function (columns, place) of a row -> example; None to read the columns that are named.
    Raises:
        UserError: the thresholds of the model cannot be used.
    """
    text = asked_columns.text_column or saved.settings.get("text_column")
    pair = asked_columns.text_pair_column or saved.settings.get("text_pair_column")
    config = saved.model.config
    classes = [config.id2label[number] for number in range(config.num_labels)]
    kinds = {problem: kind for kind, problem in PROBLEM_TYPES.items()}
    labels = LabelSet(kinds.get(config.problem_type, SINGLE), classes)
    thresholds = read_thresholds(saved, asked_columns.model) if labels.kind == SEVERAL else None
    return Predictor(
        # Its head is new; `forward_of` puts the saved one in its place.
        EncoderWithHead(saved.model.base_model, "hf", config.num_labels),
        parse or partial(read_example, TextColumns(text, pair)),
        partial(answer_texts, saved, labels, thresholds),
    )


def read_thresholds(saved: Saved, path: str) -> Array | None:
    """Return a saved model's thresholds (C,), None without any; raise a UserError if they are no C probabilities.

    Args:
        path: the model, for the message.
    """
    values = getattr(saved.model.config, "thresholds", None)
    if values is None:
        return None
    count = saved.model.config.num_labels
    is_list = isinstance(values, list) and len(values) == count
    if not is_list or not all(isinstance(value, int | float) and 0 <= value <= 1 for value in values):
        raise UserError(
            f"{path} has the thresholds {values!s:.80} in its config.json, not {count} numbers from 0 to 1; restore "
            "or remove them"
        )
    return np.array(values, np.float64)


def answer_texts(
    saved: Saved,
    labels: LabelSet,
    thresholds: Array | None,
    examples: Sequence[Example],
    forward: Forward,
) -> list[Columns]:
    """Return for each example the columns of its answer, which the kind of the labels decides.

    `SINGLE`: `prediction` is a class, `probability` a number. `SEVERAL`: `prediction` is a list of classes,
    `probability` a mapping of all classes to numbers. `NUMBER`: `prediction` is a number.

    Args:
        thresholds: probability (C,) above which each of several classes is answered; None for one half.
    """
    in_windows = saved.settings.get("long_texts") == "windows"
    rows, owners = encode_texts(examples, saved.tokenizer, saved.settings["max_length"], in_windows)
    logits = mean_by_text(forward(rows), owners)
    predictions = class_names_of(labels, decide_classes(labels, logits, thresholds))
    answers = []
    for prediction, row in zip(predictions, logits, strict=True):
        columns = {"prediction": prediction}
        if labels.kind == SINGLE:
            columns["probability"] = float(softmax(row).max())
        elif labels.kind == SEVERAL:
            columns["probability"] = dict(zip(labels.classes, expit(row).tolist(), strict=True))
        answers.append(columns)
    return answers
