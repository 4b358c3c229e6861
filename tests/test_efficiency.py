"""The efficiency table: both rules, costs per point, the row of a run, and published rows beside it."""

from pathlib import Path

import pytest

from electra.efficiency import HEADER, NOTES, PUBLISHED, main, system_of_run
from electra.io.errors import UserError
from electra.report.runs import read_run
from tests.report.folders import finished_run, logs_until, write_state
from tests.tasks.glue.runs import all_tasks, run_folder


def test_published_rows_follow_from_their_own_numbers() -> None:
    rows = {system.name: dict(zip(HEADER, system.cells(), strict=True)) for system in PUBLISHED}
    gpt, reference = rows["GPT"], rows["ELECTRA-Small, rc2020_electra"]
    assert (gpt["pfs-days, hardware"], gpt["pfs-days, FLOPs"]) == ("0.950", "0.459")
    assert (gpt["pfs-days per AVG"], gpt["pfs-days per GLUE"]) == ("1.220", "1.260")  # printed: 0.17, 0.18
    assert (reference["pfs-days, hardware"], reference["AVG"]) == ("0.044", "78.8")  # printed: 0.03, 79.2
    assert (reference["pfs-days per AVG"], reference["pfs-days per GLUE"]) == ("0.056", "0.057")
    assert rows["ELECTRA-Small, original"]["pfs-days per AVG"] == "0.026"
    assert rows["DistilBERT"]["AVG"] == rows["DistilBERT"]["pfs-days, FLOPs"] == ""


def test_the_row_of_a_run_is_its_cost_and_its_scores(tmp_path: Path) -> None:
    run = read_run(finished_run(tmp_path / "run"))
    system = system_of_run(run, run_folder(tmp_path / "glue", all_tasks()))
    assert (system.days, system.devices, system.hardware, system.peak_tflops) == (1.0, 2, "a computer", 0.5)
    assert system.avg == pytest.approx((51 + 52 + 53 + 54 + 55 + 58 + 57 + 58) / 8)
    # 2 devices x 0.5 TFLOP/s x 0.33 / 1000; 8.64e19 FLOPs
    assert system.cells()[1:6] == ["0.001 M", "1 d on 2 x a computer", "3.3e-04", "1.000", "54.8"]
    assert system.cells()[7] == "6.0e-04"
    named = system_of_run(run, hardware="v100")
    assert (named.hardware, named.avg, named.cells()[-1]) == ("V100", None, "")
    assert named.peak_tflops == pytest.approx(15.7)
    assert system_of_run(run, hardware="v100", peak_tflops=100.0).peak_tflops == 100


def test_the_command_writes_a_table_with_the_run_first(tmp_path: Path) -> None:
    run = finished_run(tmp_path / "run")
    glue = run_folder(tmp_path / "glue", all_tasks())
    main([str(run), "--glue", str(glue), "--peak_tflops", "1000", "--output", str(tmp_path / "table.md")])
    lines = (tmp_path / "table.md").read_text().replace("\\", "").splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    assert [row[0] for row in rows] == ["Model", "---", "run", *(system.name for system in PUBLISHED)]
    assert rows[2][3:6] == ["0.660", "1.000", "54.8"]
    assert [line for line in lines if line.startswith("- ")] == [f"- {note}" for note in NOTES]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["killed"], "does not say how long it trained"),
        (["run", "--glue", "run"], "has no results.jsonl"),
        (["run", "--glue", "run", "run"], "2 --glue for 1 runs"),
        (["run", "--peak_tflops", "0"], "--peak_tflops 0.0"),
    ],
)
def test_bad_requests_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argv: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    finished_run(tmp_path / "run")
    write_state(tmp_path / "killed" / "checkpoint-20", logs_until(20))
    with pytest.raises(UserError, match=message):
        main(argv)
