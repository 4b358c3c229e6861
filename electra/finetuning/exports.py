"""Rows of annotation tools in the form that tasks read: a text, its spans, its label."""

from collections.abc import Sequence
from typing import Any

from electra.io.errors import UserError
from electra.io.rows import TEXT_COLUMN, Columns


def read_export(row: Columns, place: str, label_column: str | None = None) -> Columns:
    """Return a task in Label Studio's JSON as a row with a text and its labels; return other rows as they are.

    Args:
        label_column: column of the labels, if one is given.
    Raises:
        UserError: the annotator has rejected or skipped the row, so that its labels are wrong, or several have
            annotated it.
    """
    check_accepted(row, place, label_column)
    data = row.get("data")
    annotations = row.get("annotations")
    if not isinstance(data, dict) or not isinstance(annotations, list):
        return row
    return _from_label_studio(data, [one for one in annotations if isinstance(one, dict)], place)


def check_accepted(row: Columns, place: str, label_column: str | None) -> None:
    """Refuse a row of Prodigy that its annotator has rejected or ignored; the answer may be the label itself."""
    is_labelled = not row.keys().isdisjoint(("_task_hash", "_input_hash", "label", "spans", "accept"))
    if label_column != "answer" and is_labelled and row.get("answer") in ("reject", "ignore"):
        raise UserError(
            f"{place} has the answer '{row['answer']}' of Prodigy; leave out all rows but the accepted ones"
        )


def _from_label_studio(data: Columns, annotations: Sequence[Columns], place: str) -> Columns:
    """Return the row of a task: its data, its spans as `entities`, and its choices by the name of their question.

    The answer to a single question is also `label`. Without an annotation, `entities` is None.
    """
    kept = [one for one in annotations if not one.get("was_cancelled")]
    if annotations and not kept:
        raise UserError(f"{place} was skipped by its annotator in Label Studio; leave it out")
    if len(kept) > 1:
        raise UserError(f"{place} has {len(kept)} annotations; export one for each text")
    texts = [value for value in data.values() if isinstance(value, str)]
    row = {**data, TEXT_COLUMN: data.get(TEXT_COLUMN, texts[0] if len(texts) == 1 else None), "entities": None}
    for annotation in kept:
        found = [one for one in annotation.get("result") or [] if isinstance(one, dict)]
        row["entities"] = [one for one in found if one.get("type", "labels") == "labels"]
        answers: Columns = {}
        for one in found:
            kind: Any = one.get("type")
            value = one.get("value")
            if kind in ("choices", "rating", "number") and isinstance(value, dict) and kind in value:
                answers[str(one.get("from_name"))] = value[kind]
        row.update(answers)
        if len(answers) == 1:
            (row["label"],) = answers.values()
    return row
