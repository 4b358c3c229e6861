"""The best of several seeds is the highest score, or the lowest error."""

from electra.report.blocks import to_markdown
from electra.tasks.classify.report import REPORTING
from tests.tasks.glue.runs import result


def test_the_best_seed_has_the_lowest_error():
    first = result("marks", 0, {"spearman": 0.6, "rmse": 0.2})
    second = result("marks", 1, {"spearman": 0.8, "rmse": 0.1})
    text = to_markdown(REPORTING.blocks(REPORTING.summarize([first, second], "run")))
    rows = [[cell.strip() for cell in line.split("|")] for line in text.splitlines()]
    header = next(row for row in rows if "Best" in row)
    best = {row[2]: row[header.index("Best")] for row in rows if len(row) == len(header) and row[1] == "run"}
    assert (best["Spearman"], best["RMSE"]) == ("80.00", "10.00")
