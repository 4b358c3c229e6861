"""GLUE's report: what stands in its tables, on the terminal; the published rows."""

import re

import pytest

from electra.report.blocks import write_report
from electra.report.published import published_scores
from electra.tasks.glue.report import GLUE_REPORTING
from electra.tasks.glue.task import ECE_NAMES
from electra.tasks.glue.tasks import AVG_TASKS, KNOWN_TASKS
from tests.helpers import parametrize
from tests.tasks.glue.runs import all_tasks, result, run_folder

PUBLISHED_GLUE = published_scores("glue")
DEV = "Beside published results"
TEST = "Published results: test sets"


def section(markdown, title):
    """Return a page from a heading to the next of level two."""
    return markdown.split(f"\n## {title}\n")[1].split("\n## ")[0]


def table(markdown):
    """Return the rows of the first table of a text, by column."""
    lines = markdown[markdown.index("|") :].split("\n\n")[0].splitlines()
    header, _, *rows = ([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines)
    return [dict(zip(header, row, strict=True)) for row in rows]


def test_each_metric_of_a_task_has_a_title():
    names = {name for task in KNOWN_TASKS.values() for name in (task.headline, *task.metrics, *task.columns)}
    assert names | {"ece", *ECE_NAMES.values()} == GLUE_REPORTING.metrics.keys()


@pytest.fixture
def folders(tmp_path):
    """`first` has every task, and three seeds of CoLA of which two collapsed; `second`, from scratch, lacks QNLI."""
    collapsed = [result("cola", seed, {"mcc": 0.0, "accuracy": 0.69}, collapsed=True) for seed in (42, 43)]
    first = [*all_tasks(without=("cola",)), *collapsed, result("cola", 44, {"mcc": 0.3, "accuracy": 0.75})]
    second = all_tasks(without=("qnli", "wnli"), model="small", start="scratch")
    return [run_folder(tmp_path / "first", first), run_folder(tmp_path / "second", second)]


def write(folders):
    """Write the report of folders; return its Markdown and its page."""
    written = folders[0] / "report"
    write_report(GLUE_REPORTING.report(folders), written)
    return tuple((written / name).read_text(encoding="utf-8") for name in ("report.md", "report.html"))


def test_one_row_a_folder_and_details_by_seed(folders):
    markdown, _ = write(folders)
    first, second = table(section(markdown, "Development sets"))
    assert list(first.items()) == [
        ("Run", "first"), ("Seeds", "1 to 3"), ("CoLA MCC", "0.0 ± 17.3 (2 of 3 collapsed)"), ("SST-2 acc", "52.0"),
        ("MRPC acc", "53.0"), ("STS-B Spearman", "54.0"), ("QQP acc", "55.0"), ("MNLI acc m", "56.0"),
        ("MNLI acc mm", "60.0"), ("QNLI acc", "57.0"), ("RTE acc", "58.0"), ("WNLI acc", "59.0"),
        ("AVG", "48.4"),  # (0 + 52 + 53 + 54 + 55 + 58 + 57 + 58) / 8 = 48.375
        ("GLUE", "49.6"), ("Model", "output/small"), ("Start", "pretrained"), ("Params", "13.5 M"),
    ]  # fmt: skip
    assert (second["Run"], second["Model"], second["Start"], second["Seeds"]) == ("second", "small", "scratch", "1")
    verdicts = re.findall(r"^\*\*(.*)\*\*$", markdown, re.MULTILINE)
    assert verdicts == ["first: AVG 48.4 %. GLUE 49.6 %. 9 tasks.", "second: 7 tasks."]  # without baselines
    assert (second["CoLA MCC"], second["QNLI acc"], second["AVG"], second["GLUE"]) == ("51.0", "", "", "")
    headline, accuracy, *_ = table(markdown.split("### CoLA\n")[1])
    assert headline == {
        "Run": "first", "Metric": "MCC", "Median": "0.00", "Std": "17.32",
        "seed 42": "0.00 (collapsed)", "seed 43": "0.00 (collapsed)", "seed 44": "30.00",
    }  # fmt: skip
    assert (accuracy["Metric"], accuracy["Median"]) == ("acc", "69.00")


def test_the_words_of_the_tables_are_explained(folders):
    explained = write(folders)[0].split("What the scores mean")[1]
    for word in (
        "(MCC)", "(acc)", "mismatched (mm)", "AVG is", "GLUE is", "Median and std are", "± is", "has collapsed if",
        "ECE is", "is undefined where", "Above and below, in the first sentence", "Bag of words:",
        "One answer to all:",
    ):  # fmt: skip
        assert word in explained


def test_dev_and_test_are_never_in_one_table(folders):
    markdown, page = write(folders)
    dev, test = ({row["Model"]: row for row in table(section(markdown, title))} for title in (DEV, TEST))
    assert dev["ELECTRA-Small++"]["RTE acc"] == "66.7" and test["ELECTRA-Small++"]["RTE acc"] == "63.6"
    ours = dev["first (this report)"]
    assert (ours["CoLA MCC"], ours["MNLI acc"]) == ("0.0 (2 of 3 collapsed)", "58.0")
    assert dev["ELECTRA-Small++"]["Protocol"].endswith("MNLI matched")
    assert not any("this report" in model for model in test)
    assert "GPT" in test and dev["GPT"]["CoLA MCC"] == ""
    assert "78.79" in markdown.split("Published rows: sources and notes")[1]
    assert page.count("<table") == len(re.findall(r"^\| ---", markdown, flags=re.MULTILINE))


def test_nothing_published_stands_beside_the_demonstration(tmp_path):
    demo = [result("demo", 1, {"mcc": 0.123, "accuracy": 0.6})]
    alone, _ = write([run_folder(tmp_path / "alone", demo)])
    assert "ELECTRA-Small" not in alone and "AVG |" not in alone
    both, _ = write([run_folder(tmp_path / "run", [*all_tasks("cola"), *demo])])
    assert "12.3" in section(both, "Development sets") and "12.3" not in section(both, DEV)
    assert "demo is a toy task" in both.split("What the scores mean")[1]


def test_other_data_than_the_official_are_named(tmp_path):
    runs = [*all_tasks("cola"), result("rte", 1, {"accuracy": 0.5}, rows={"train": 100, "dev": 277})]
    markdown, _ = write([run_folder(tmp_path / "run", runs)])
    assert "RTE train (100 instead of 2,490 rows)" in markdown and "CoLA train" not in markdown


def test_every_published_row_has_a_source():
    assert [row.split for row in PUBLISHED_GLUE] == ["dev"] * 10 + ["test"] * 7
    for row in [row for kind in ("glue", "tagging", "multiple_choice", "squad") for row in published_scores(kind)]:
        assert row.source.startswith("https://") and row.table and row.protocol
        assert all(40 < score < 98 for scores in row.scores.values() for score in scores.values())
    assert all(set(row.scores) in (set(), set(AVG_TASKS)) for row in PUBLISHED_GLUE)


@parametrize("row", [row for row in PUBLISHED_GLUE if row.printed_average], ids=lambda row: row.name)
def test_a_row_has_the_average_that_its_source_prints(row):
    digits = 2 if row.printed_average != round(row.printed_average, 1) else 1
    agrees = abs(row.average - row.printed_average) <= 0.51 * 10**-digits
    assert agrees == (row.name != "ELECTRA-Small-OWT (rc2020_electra)")  # wrong in its source


def test_columns_are_not_shifted():
    """Cells that tell the columns apart: a wrong order would give another task these numbers."""
    scores = {
        (row.name, row.split): [score for task_scores in row.scores.values() for score in task_scores.values()]
        for row in PUBLISHED_GLUE
    }
    assert scores["ELECTRA-Small-OWT", "dev"] == [56.8, 88.3, 87.4, 86.8, 88.3, 78.9, 87.9, 68.5]
    assert scores["GPT", "test"][5:7] == [82.1, 88.1] and scores["ELECTRA-Small++", "test"][7] == 63.6
    assert AVG_TASKS == ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte")
