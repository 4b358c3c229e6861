"""The published rows: cells against the sources' own averages, dev against test, and a source for each row."""

from collections import Counter

import pytest

from electra.report.charts import MAX_LABEL
from electra.tasks.glue.published import PUBLISHED, Published
from electra.tasks.glue.tasks import AVG_TASKS, TASKS

WRONG_IN_ITS_SOURCE = {("ELECTRA-Small-OWT (rc2020_electra)", "dev")}
WITH_TASKS = [row for row in PUBLISHED if row.scores]


def row_of(name: str, split: str) -> Published:
    (row,) = [row for row in PUBLISHED if (row.name, row.split) == (name, split)]
    return row


def test_every_row_is_there_once_and_says_where_it_is_from() -> None:
    assert Counter(row.split for row in PUBLISHED) == {"dev": 10, "test": 7}
    assert max(Counter((row.name, row.split) for row in PUBLISHED).values()) == 1
    assert all(row.source.startswith("https://") and row.table and row.protocol for row in PUBLISHED)
    assert [row.split for row in PUBLISHED] == sorted(row.split for row in PUBLISHED)


def test_scores_are_percent_of_known_tasks() -> None:
    for row in WITH_TASKS:
        assert set(row.scores) == set(AVG_TASKS) <= set(TASKS)
        assert all(40 < score < 96 for score in row.scores.values()), row


@pytest.mark.parametrize(
    "row", [row for row in WITH_TASKS if row.printed_average], ids=lambda row: f"{row.name}, {row.split}"
)
def test_a_row_has_the_average_that_its_source_prints(row: Published) -> None:
    digits = 2 if row.printed_average != round(row.printed_average or 0, 1) else 1
    assert row.average is not None and row.printed_average is not None
    agrees = abs(row.average - row.printed_average) <= 0.51 * 10**-digits
    assert agrees == ((row.name, row.split) not in WRONG_IN_ITS_SOURCE)


def test_the_average_of_rc2020_is_that_of_its_row_and_not_the_printed_one() -> None:
    row = row_of("ELECTRA-Small-OWT (rc2020_electra)", "dev")
    assert row.average == pytest.approx(78.7875)
    assert (row.printed_average, row.printed_glue) == (79.2, 76.7)
    assert 9 * 76.7 - sum(row.scores.values()) == pytest.approx(60.0)
    assert any("78.79" in note for note in row.notes) and any("60.0" in note for note in row.notes)


def test_a_row_without_tasks_has_the_printed_average_and_one_with_some_tasks_none() -> None:
    assert row_of("BERT-Small", "dev").average == 75.1
    some = Published("a", "a", "dev", {"cola": 50.0}, "single run", "", "https://a", "t", printed_average=60.0)
    assert some.average is None


def test_columns_are_not_shifted() -> None:
    """Cells that tell the columns apart: a wrong order would give another task these numbers."""
    assert row_of("ELECTRA-Small-OWT", "dev").scores == {
        "cola": 56.8,
        "sst2": 88.3,
        "mrpc": 87.4,
        "stsb": 86.8,
        "qqp": 88.3,
        "mnli": 78.9,
        "qnli": 87.9,
        "rte": 68.5,
    }
    rc2020 = row_of("ELECTRA-Small-OWT (rc2020_electra)", "dev").scores
    assert (rc2020["qqp"], rc2020["mnli"], rc2020["rte"]) == (86.1, 80.2, 61.5)
    gpt = row_of("GPT", "test").scores
    assert (gpt["mnli"], gpt["qnli"]) == (82.1, 88.1)


def test_the_test_row_of_small_plus_plus_is_not_its_dev_row() -> None:
    dev, test = row_of("ELECTRA-Small++", "dev").scores, row_of("ELECTRA-Small++", "test").scores
    assert not {task for task in AVG_TASKS if dev[task] == test[task]}
    assert test["rte"] == 63.6


def test_labels_fit_into_the_picture_and_are_told_apart() -> None:
    labels = [row.label for row in WITH_TASKS if row.split == "dev"]
    assert len(set(labels)) == len(labels) == 6
    assert all(len(label) <= MAX_LABEL for label in labels)
