"""The report of kinds of tasks without averages: a column for each score, published rows beside ours."""

import json
from pathlib import Path

import pytest

from electra.errors import UserError
from electra.report.__main__ import main
from electra.report.charts import MAX_LABEL
from electra.report.evaluation import read_runs, terminal_table, write_report
from electra.report.results import Result, append_result
from electra.tasks.multiple_choice.report import PUBLISHED as CHOICE
from electra.tasks.multiple_choice.report import REPORTING as CHOICE_REPORTING
from electra.tasks.tagging.report import PUBLISHED, REPORTING


def folder(path: Path, task: str, *metrics: dict[str, float], rows: dict[str, int] | None = None) -> Path:
    path.mkdir()
    for seed, values in enumerate(metrics):
        result = Result(task, seed, {**values}, False, 3.0, "pretrained", "m", 1_000_000, rows or {}, {})
        append_result(path / "results.jsonl", result)
    return path


def test_medians_stand_beside_published_rows_of_the_same_task_only(tmp_path: Path) -> None:
    run = folder(
        tmp_path / "a", "conll2003", {"f1": 0.9, "accuracy": 0.98, "f1_PER": 0.7}, {"f1": 0.91, "accuracy": 0.99}
    )
    write_report(REPORTING, [run], run)
    markdown = (run / "report.md").read_text()
    assert "| a | m | pretrained | 1.0 M | 2 | 90.5 ± 0.7 | 98.5 ± 0.7 |" in markdown
    assert "| BERT-Large | CoNLL-2003 | 96.6 | 92.8 |" in markdown
    assert "f1\\_PER" in markdown and "CoNLL-2003 F1" in markdown
    values = json.loads((run / "report.json").read_text())
    assert values["runs"][0]["tasks"]["conll2003"]["headline"]["median"] == 90.5 and values["average_tasks"] == {}
    other = folder(tmp_path / "b", "mine", {"f1": 0.5})
    write_report(REPORTING, [other], other)
    assert "BERT" not in (other / "report.md").read_text()


def test_the_terminal_has_a_row_a_score(tmp_path: Path) -> None:
    run = folder(tmp_path / "a", "swag", {"accuracy": 0.5}, rows={"train": 10, "dev": 20006})
    lines = terminal_table(CHOICE_REPORTING, [run]).splitlines()
    assert [line.split("  ")[0] for line in lines] == ["percent, median ± std", "seeds", "SWAG accuracy"]
    assert read_runs(CHOICE_REPORTING, [run])[0].tasks["swag"].other_rows == {"train": [10]}


def test_published_rows_have_sources_and_labels_that_fit() -> None:
    for row in (*PUBLISHED, *CHOICE):
        assert len(row.label) <= MAX_LABEL and row.source.startswith("https://") and row.table
        assert all(40 < score < 98 for score in row.scores.values())


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no folder"):
        read_runs(REPORTING, [tmp_path / "no"])


@pytest.mark.parametrize(
    ("task", "metrics", "option", "title"),
    [
        ("squad_v1", {"exact_match": 0.5, "f1": 0.6}, None, "SQuAD results"),
        ("conll2003", {"f1": 0.5, "accuracy": 0.6}, None, "Tagging results"),
        ("swag", {"accuracy": 0.5}, None, "Multiple choice results"),
        ("rte", {"accuracy": 0.5}, None, "GLUE results"),
        ("pos", {"accuracy": 0.5}, "label_column: 1", "Tagging results"),
        ("rte", {"accuracy": 0.5}, "train_file: []", "Multiple choice results"),
        ("squad_v2", {"exact_match": 0.5, "f1": 0.6}, "doc_stride: 128", "SQuAD results"),
        ("cola", {"mcc": 0.5}, "glue_dir: null", "GLUE results"),
    ],
)
def test_the_command_recognizes_the_kind_of_an_evaluation(
    tmp_path: Path, task: str, metrics: dict[str, float], option: str | None, title: str
) -> None:
    run = folder(tmp_path / "a", task, metrics)
    if option:
        (run / "config.yaml").write_text(option)
    main([str(run), "--output", str(tmp_path / "out" / "here")])
    assert (tmp_path / "out" / "here" / "report.md").read_text().startswith(f"# {title}\n")
    assert {path.name for path in (tmp_path / "out" / "here").iterdir()} == {"report.md", "report.html", "report.json"}


def test_evaluations_of_two_kinds_and_runs_among_them_are_refused(tmp_path: Path) -> None:
    one, other = folder(tmp_path / "a", "swag", {"accuracy": 0.5}), folder(tmp_path / "b", "rte", {"accuracy": 0.5})
    (tmp_path / "c").mkdir()
    for words, named in (([one, other], "multiple_choice.*glue"), ([one, tmp_path / "c"], "c has no results.jsonl")):
        with pytest.raises(UserError, match=named):
            main([str(word) for word in words])
    with pytest.raises(UserError, match="--glue"):
        main([str(one), "--glue", str(other)])
