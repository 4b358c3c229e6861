"""results.jsonl: lines are whole or not there, and killing the writer loses no more than the line it was at."""

import math
from pathlib import Path

import pytest

from electra.errors import UserError
from electra.report.results import Result, append_result, read_results


def result(seed: int, **others: object) -> Result:
    values = Result("rte", seed, {"accuracy": 0.5}, False, 3.0, "pretrained", "m", 7, {"train": 2}, {"head": "hf"})
    return values._replace(**others)  # type: ignore[arg-type]


def test_results_are_read_back_in_order(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    assert read_results(path) == []
    for seed in (3, 1, 2):
        append_result(path, result(seed))
    assert read_results(path) == [result(3), result(1), result(2)]
    assert path.read_text().count("\n") == 3


def test_undefined_metrics_are_null(tmp_path: Path) -> None:
    append_result(tmp_path / "r", result(1, metrics={"pearson": math.nan, "spearman": None}))
    assert '"pearson": null' in (tmp_path / "r").read_text()
    assert read_results(tmp_path / "r")[0].metrics == {"pearson": None, "spearman": None}


@pytest.mark.parametrize("cut", [1, 20, 100])
def test_a_line_that_was_cut_short_is_left_out_and_written_over(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "results.jsonl"
    append_result(path, result(1))
    whole = path.read_bytes()
    append_result(path, result(2))
    expected = path.read_bytes()
    path.write_bytes(expected[: len(whole) + cut])
    assert read_results(path) == [result(1)]
    append_result(path, result(2))
    assert path.read_bytes() == expected


def test_a_line_that_is_no_result_is_named(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    append_result(path, result(1))
    path.write_text(path.read_text() + '{"task": "rte"}\n')
    with pytest.raises(UserError, match=r"line 2 is not a result"):
        read_results(path)
    path.write_text(path.read_text().splitlines()[0].replace("0.5", '"a"') + "\n")
    with pytest.raises(UserError, match=r"line 1 is not a result .accuracy is 'a'"):
        read_results(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="cannot read"):
        read_results(path)
