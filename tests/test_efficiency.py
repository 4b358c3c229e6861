"""The efficiency table: both rules, costs per point, a run's row, and no cell of a source that does not follow."""

import json
from pathlib import Path

import pytest

from electra.efficiency import HEADER, PUBLISHED, main, system_of_run
from electra.errors import UserError
from electra.hardware import hardware_pfs_days
from electra.report.runs import RunRecord, read_run
from tests.report.folders import finished_run, logs_until, write_state
from tests.tasks.glue.runs import all_tasks, run_folder


@pytest.mark.parametrize(
    ("devices", "days", "peak", "expected"),
    [(8, 30, 12.0, 0.950), (8, 3.75, 15.7, 0.155), (1, 4, 15.7, 0.021), (1, 3.75, 35.6, 0.044)],
)
def test_the_rule_of_the_hardware_gives_the_published_pfs_days(
    devices: int, days: float, peak: float, expected: float
) -> None:
    assert round(hardware_pfs_days(devices, days, peak), 3) == expected


def test_published_rows_follow_from_their_own_numbers() -> None:
    rows = {system.name: dict(zip(HEADER, system.cells(), strict=True)) for system in PUBLISHED}
    gpt, reference = rows["GPT"], rows["ELECTRA-Small, rc2020_electra"]
    assert (gpt["pfs-days, hardware"], gpt["pfs-days, FLOPs"]) == ("0.950", "0.459")
    assert (gpt["pfs-days per AVG"], gpt["pfs-days per GLUE"]) == ("1.220", "1.260")  # printed: 0.17, 0.18
    assert (reference["pfs-days, hardware"], reference["AVG"]) == ("0.044", "78.8")  # printed: 0.03, 79.2
    assert (reference["pfs-days per AVG"], reference["pfs-days per GLUE"]) == ("0.056", "0.057")
    assert rows["ELECTRA-Small, original"]["pfs-days per AVG"] == "0.026"
    assert rows["DistilBERT"]["AVG"] == rows["DistilBERT"]["pfs-days, FLOPs"] == ""
    notes = " ".join(note for system in PUBLISHED for note in system.notes)
    assert all(printed in notes for printed in ("0.17", "0.18", "0.03", "79.2", "0.05"))


def test_the_row_of_a_run_is_its_ledger_and_its_scores(tmp_path: Path) -> None:
    run = read_run(finished_run(tmp_path / "run"))
    system = system_of_run(run, run_folder(tmp_path / "glue", all_tasks()))
    assert (system.days, system.devices, system.hardware, system.peak_tflops) == (1.0, 2, "a computer", 0.5)
    assert system.by_flops == pytest.approx(1.0)
    assert system.by_hardware == pytest.approx(2 * 0.5 * 0.33 / 1000)
    assert system.avg == pytest.approx((51 + 52 + 53 + 54 + 55 + 58 + 57 + 58) / 8)
    assert system.per_point(system.avg) == pytest.approx(0.00033 / (system.avg / 100))
    named = system_of_run(run, hardware="v100")
    assert (named.hardware, named.by_hardware) == ("V100", pytest.approx(2 * 15.7 * 0.33 / 1000))
    assert named.avg is None and named.cells()[-1] == ""
    assert system_of_run(run, hardware="v100", peak_tflops=100.0).by_hardware == pytest.approx(0.066)


def test_what_another_version_says_otherwise_is_left_empty_or_refused(tmp_path: Path) -> None:
    def run_with(**compute: object) -> RunRecord:
        folder = finished_run(tmp_path / "run")
        values = json.loads((folder / "metrics.json").read_text())
        values["compute"] |= compute
        values["plan"]["discriminator_parameters"] = {"embeddings": 3}
        (folder / "metrics.json").write_text(json.dumps(values))
        return read_run(folder)

    system = system_of_run(run_with(google_flops="many", devices=None))
    assert (system.parameters, system.by_flops, system.devices) == (None, None, 1)
    with pytest.raises(UserError, match="how long it trained"):
        system_of_run(run_with(training_seconds=float("nan")))
    with pytest.raises(UserError, match="the peak of its hardware"):
        system_of_run(run_with(training_seconds=1.0, peak_flops_per_second=[1]))


def test_the_command_writes_a_table_with_the_run_first(tmp_path: Path) -> None:
    run = finished_run(tmp_path / "run")
    main([str(run), "--glue", str(run_folder(tmp_path / "glue", all_tasks()))])
    lines = (run / "efficiency.md").read_text().replace("\\", "").splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    assert [row[0] for row in rows] == ["Model", "---", "run", *(system.name for system in PUBLISHED)]
    assert rows[2][1:6] == ["0.001 M", "1 d on 2 x a computer", "3.3e-04", "1.000", "54.8"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["killed"], "does not say how long it trained"),
        (["run", "--glue", "run"], "has no results.jsonl"),
        (["run", "--glue", "run", "run"], "2 --glue for 1 runs"),
        (["run", "--peak_tflops", "0"], "--peak_tflops 0.0 is not possible"),
        (["run", "--peak_tflops", "inf"], "--peak_tflops inf is not possible"),
        (["run", "--output", "run/config.yaml/x"], "cannot write"),
        (["run", "--output", ""], "--output . must name a file"),
        (["run", "--output", "/"], "--output / must name a file"),
        (["run", "--output", "run"], "--output run must name a file"),
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
