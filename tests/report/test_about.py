"""What tells an evaluation from others in its report."""

import re

from electra.report.about import lines_about
from tests.tasks.glue.runs import result, run_folder


def test_a_line_has_each_source_without_its_folders_and_the_rows_of_each_split(tmp_path):
    rows = {"train": 1000, "dev": 20, "test": 30}
    folder = run_folder(tmp_path / "run", [result("rte", 42, {"accuracy": 0.5}, rows=rows)])
    sources = "dataset_name: some/data\ntrain_file: [/mine/a.csv, b.csv]\nvalidation_file: c.csv\ntest_file: d.csv\n"
    (folder / "config.yaml").write_text(sources)
    (line,) = lines_about([folder], "texts")
    assert "run: some/data, a.csv, b.csv, c.csv, d.csv, " in line.text
    assert re.findall(r"([\d,]+) texts", line.text) == ["1,000", "20", "30"]
