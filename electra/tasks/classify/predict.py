"""Rows with texts -> their classes, with probabilities, or their numbers."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from scipy.special import expit, softmax

from electra.finetuning.heads import EncoderWithHead
from electra.finetuning.predict import Predictor, Saved
from electra.io.rows import Columns
from electra.tasks.classify.data import NUMBER, SEVERAL, SINGLE, Example, LabelSet, read_example
from electra.tasks.classify.encoding import encode_texts
from electra.tasks.classify.metrics import decide_classes, mean_by_text, class_names_of

KINDS = {
    "multi_label_classification": SEVERAL,
    "regression": NUMBER,
}
"""transformers' name of a problem -> kind of the labels; otherwise one of several classes."""
GLUE_PAIRS = (
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("#1 String", "#2 String"),
)
"""Columns of GLUE's pairs."""


def predictor(saved: Saved, given: Any) -> Predictor:
    """Make the predictor, which reads the columns `given`, by default those of training or of GLUE."""
    text = given.text_column or saved.settings.get("text_column")
    pair = given.text_pair_column or saved.settings.get("text_pair_column")
    is_glue = "label_kind" not in saved.settings and text is None
    config = saved.model.config
    classes = [config.id2label[number] for number in range(config.num_labels)]
    labels = LabelSet(KINDS.get(config.problem_type, SINGLE), classes)
    return Predictor(
        EncoderWithHead(saved.model.base_model, "hf", config.num_labels),
        partial(read_glue if is_glue else read_example, (text, pair, None)),
        partial(answer_texts, saved, labels),
    )


def read_glue(columns: Sequence[str | None], row: Columns, place: str) -> Example:
    """Read a pair if the row has one, else a single text: see `read_example`."""
    text, pair = next((names for names in GLUE_PAIRS if set(names) <= set(row)), (None, None))
    return read_example((text, pair, None), row, place)


def answer_texts(
    saved: Saved,
    labels: LabelSet,
    examples: Sequence[Example],
    forward: Any,
) -> list[Columns]:
    """Return the class and its probability; or all classes above one half, with all probabilities; or the number."""
    in_windows = saved.settings.get("long_texts") == "windows"
    rows, owners = encode_texts(examples, saved.tokenizer, saved.settings["max_length"], in_windows)
    logits = mean_by_text(forward(rows), owners)
    answers = []
    for name, row in zip(class_names_of(labels, decide_classes(labels, logits)), logits, strict=True):
        columns = {"prediction": name}
        if labels.kind == SINGLE:
            columns["probability"] = float(softmax(row).max())
        elif labels.kind == SEVERAL:
            columns["probability"] = dict(zip(labels.classes, expit(row).tolist(), strict=True))
        answers.append(columns)
    return answers
