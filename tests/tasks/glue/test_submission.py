"""The zip for gluebenchmark.com: every way in which it can differ from the official format is planted and named."""

import math
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from electra.errors import UserError, run_script
from electra.tasks.glue.metrics import combine, decide
from electra.tasks.glue.submission import (
    TEST_FILES,
    main,
    prediction_words,
    validate_submission,
    write_submission,
)
from electra.tasks.glue.tasks import DIAGNOSTICS, TASKS

OFFICIAL_ROWS = {
    "CoLA": 1063,
    "SST-2": 1821,
    "MRPC": 1725,
    "STS-B": 1379,
    "QQP": 390965,
    "MNLI-m": 9796,
    "MNLI-mm": 9847,
    "QNLI": 5463,
    "RTE": 3000,
    "WNLI": 146,
    "AX": 1104,
}
ANSWERS = {
    **dict.fromkeys(("CoLA", "SST-2", "MRPC", "QQP", "WNLI"), ("0", "1")),
    **dict.fromkeys(("MNLI-m", "MNLI-mm", "AX"), ("contradiction", "entailment", "neutral")),
    **dict.fromkeys(("QNLI", "RTE"), ("not_entailment", "entailment")),
    "STS-B": ("0.000", "5.000", "2.718"),
}
VALID = {
    title: [ANSWERS[title][i % len(ANSWERS[title])] for i in range(rows)] for title, rows in OFFICIAL_ROWS.items()
}


def files_of(predictions: Mapping[str, list[str]]) -> dict[str, str]:
    """Content of the TSV files, written apart from the code under test."""
    return {
        f"{title}.tsv": "index\tprediction\n" + "".join(f"{i}\t{word}\n" for i, word in enumerate(words))
        for title, words in predictions.items()
    }


FILES = files_of(VALID)


def pack(path: Path, files: Mapping[str, str | bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def test_a_valid_submission_is_valid_in_whatever_way_it_was_packed(tmp_path: Path) -> None:
    assert validate_submission(pack(tmp_path / "a.zip", dict(reversed(FILES.items())))) == []
    windows = {name: content.replace("\n", "\r\n") for name, content in FILES.items()}
    assert validate_submission(pack(tmp_path / "b.zip", windows)) == []
    unfinished_lines = {name: content.removesuffix("\n") for name, content in FILES.items()}
    assert validate_submission(pack(tmp_path / "c.zip", unfinished_lines)) == []


def test_what_is_written_is_the_official_format(tmp_path: Path) -> None:
    path = tmp_path / "new" / "glue.zip"
    assert write_submission(path, VALID) == []
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == [f"{title}.tsv" for title in OFFICIAL_ROWS]
        assert {name: archive.read(name).decode() for name in archive.namelist()} == FILES
    assert [file.name for file in path.parent.iterdir()] == ["glue.zip"]


def test_the_same_answers_are_the_same_bytes_whenever_and_in_whatever_order(tmp_path: Path) -> None:
    first, second = tmp_path / "first.zip", tmp_path / "second.zip"
    write_submission(first, VALID)
    second.write_bytes(b"an older submission")
    write_submission(second, dict(reversed(VALID.items())))
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as archive:
        for entry in archive.infolist():
            assert entry.date_time == (1980, 1, 1, 0, 0, 0)
            assert entry.compress_type == zipfile.ZIP_STORED
            assert entry.external_attr >> 16 == 0o644


def test_wnli_is_filled_with_its_majority_class_and_missing_files_are_named(tmp_path: Path) -> None:
    notes = write_submission(tmp_path / "glue.zip", {k: v for k, v in VALID.items() if k not in ("WNLI", "RTE", "AX")})
    assert [note.split()[0] for note in notes] == ["WNLI.tsv:", "RTE.tsv", "AX.tsv"] and "'0'" in notes[0]
    with zipfile.ZipFile(tmp_path / "glue.zip") as archive:
        assert archive.read("WNLI.tsv").decode() == files_of({"WNLI": ["0"] * 146})["WNLI.tsv"]


def test_answers_of_the_wrong_number_are_noted_when_they_are_written(tmp_path: Path) -> None:
    (note,) = write_submission(tmp_path / "glue.zip", {**VALID, "RTE": VALID["RTE"][:-1]})
    assert all(word in note for word in ("RTE.tsv", "2999", "3000"))


def with_line(name: str, number: int, line: str | None) -> dict[str, str]:
    """The valid file with one line, counted from 1, replaced or removed."""
    lines = FILES[name].splitlines()
    lines[number - 1 : number] = [] if line is None else [line]
    return {name: "\n".join(lines) + "\n"}


PANDAS = "".join(f"{i - 1 if i else ''}\t{line}\n" for i, line in enumerate(FILES["CoLA.tsv"].splitlines()))
"""What DataFrame.to_csv(sep="\t") writes: a column of its own before ours."""

FAULTS: dict[str, tuple[Mapping[str, str | bytes], list[list[str]]]] = {
    "pandas' column": ({"CoLA.tsv": PANDAS}, [["line 1", r"'\tindex\tprediction'"], ["line 2", "1062 more"]]),
    "other header": (with_line("RTE.tsv", 1, "id\tlabel"), [["line 1", r"'id\tlabel'", r"'index\tprediction'"]]),
    "one row less": (with_line("AX.tsv", 1105, None), [["1103", "1104"]]),
    "one row more": ({"AX.tsv": FILES["AX.tsv"] + "1104\tneutral\n"}, [["1105", "1104"]]),
    "a row removed": (with_line("WNLI.tsv", 3, None), [["145", "146"], ["line 3", r"'2\t", "index 1", "143 more"]]),
    "index from one": (
        {"WNLI.tsv": "index\tprediction\n" + "".join(f"{i}\t0\n" for i in range(1, 147))},
        [["line 2", "index 0", "145 more"]],
    ),
    "an index as a float": (with_line("WNLI.tsv", 9, "7.0\t0"), [["line 9", "index 7"]]),
    "three columns": (with_line("WNLI.tsv", 9, "7\t0\t0"), [["line 9"]]),
    "label of another task": (with_line("QNLI.tsv", 5, "3\tneutral"), [["line 5", "entailment or not_entailment"]]),
    "id instead of a name": (
        with_line("MNLI-mm.tsv", 9848, "9846\t0"),
        [["line 9848", r"'9846\t0'", "entailment or neutral or contradiction"]],
    ),
    "name instead of an id": (with_line("MRPC.tsv", 2, "0\tequivalent"), [["line 2", "0 or 1"]]),
    "an unknown class": (with_line("QQP.tsv", 2, "0\t2"), [["line 2", "0 or 1"]]),
    "a float": (with_line("WNLI.tsv", 2, "0\t1.0"), [["line 2", "0 or 1"]]),
    **{
        f"the number {word}": (with_line("STS-B.tsv", 2, f"0\t{word}"), [["line 2", f"'0\\t{word}'", "0 to 5"]])
        for word in ("nan", "5.001", "-0.001", "inf", "high", "")
    },
    "an empty file": ({"AX.tsv": ""}, [["line 1", "''"], [" 0 rows", "1104"]]),
    "UTF-16": ({"AX.tsv": FILES["AX.tsv"].encode("utf-16")}, [["utf-8"]]),
    "a foreign file": ({"readme.txt": "best system"}, [["readme.txt"]]),
    "a copy in a folder": ({"glue/CoLA.tsv": FILES["CoLA.tsv"]}, [["glue/CoLA.tsv"]]),
}


@pytest.mark.parametrize(("changes", "expected"), FAULTS.values(), ids=FAULTS)
def test_a_difference_from_the_format_is_named_and_no_other(
    tmp_path: Path, changes: Mapping[str, str | bytes], expected: list[list[str]]
) -> None:
    found = validate_submission(pack(tmp_path / "glue.zip", changes))  # alone: QQP takes half a second
    problems = [problem for problem in found if problem.split()[0] in changes]
    assert len(problems) == len(expected)
    assert all(word in problem for problem, words in zip(problems, expected, strict=True) for word in words)
    missing = [problem.split()[0] for problem in found if problem not in problems]
    assert missing == [name for name in FILES if name not in changes]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_several_differences_are_all_named(tmp_path: Path) -> None:
    files = {**FILES, **with_line("RTE.tsv", 4, "9\tno"), "x.tsv": ""}
    del files["STS-B.tsv"]
    path = pack(tmp_path / "glue.zip", files)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("AX.tsv", FILES["AX.tsv"])
    problems = validate_submission(path)
    assert [problem.split()[0] for problem in problems] == ["AX.tsv", "x.tsv", "STS-B.tsv", "RTE.tsv"]
    assert "2 times" in problems[0] and "line 4" in problems[3]


def test_a_damaged_file_is_named_and_the_others_are_still_checked(tmp_path: Path) -> None:
    path = tmp_path / "glue.zip"
    write_submission(path, {**VALID, "AX": ["no"] * 1104})
    content = path.read_bytes()
    path.write_bytes(content.replace(b"index\tprediction\n0\t0\n1\t1\n", b"index\tprediction\n0\t0\n1\t0\n", 1))
    problems = validate_submission(path)
    assert [problem.split()[0] for problem in problems] == ["CoLA.tsv", "AX.tsv"] and "CRC-32" in problems[0]


@pytest.mark.parametrize("content", [b"", b"index\tprediction\n", b"PK\x03\x04 cut short"])
def test_what_is_no_zip_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "glue.zip"
    path.write_bytes(content)
    (problem,) = validate_submission(path)
    assert str(path) in problem


def test_every_answer_is_written_as_the_server_wants_it() -> None:
    decisions = np.array([0, 1, 0])
    for name in ("cola", "sst2", "mrpc", "qqp", "wnli"):
        assert prediction_words(TASKS[name], decisions) == ["0", "1", "0"]
    for name in ("qnli", "rte"):
        assert prediction_words(TASKS[name], decisions) == ["entailment", "not_entailment", "entailment"]
    for task in (TASKS["mnli"], DIAGNOSTICS):
        assert prediction_words(task, np.array([2, 0, 1])) == ["contradiction", "entailment", "neutral"]
    assert prediction_words(TASKS["stsb"], np.array([0.0, 1.23456, 4.9999])) == ["0.000", "1.235", "5.000"]


def test_logits_of_every_task_become_valid_answers(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    predictions = {}
    for title, (task, rows) in TEST_FILES.items():
        runs = [random.normal(size=(rows, len(task.labels) or 1)).astype(np.float32) for _ in range(2)]
        predictions[title] = prediction_words(task, combine(runs, task))
    assert write_submission(tmp_path / "glue.zip", predictions) == []


def test_answers_that_are_no_numbers_are_not_written() -> None:
    with pytest.raises(UserError, match="STS-B"):
        prediction_words(TASKS["stsb"], np.array([1.0, math.nan]))


def test_an_ensemble_averages_probabilities_and_not_logits_or_votes() -> None:
    # Probabilities of class 1: .999, .4, .4. Votes say 0; the mean of probabilities, .6, says 1.
    logits = [np.array([[0.0, math.log(p / (1 - p))]]) for p in (0.999, 0.4, 0.4)]
    assert combine(logits, TASKS["rte"]).tolist() == [1]
    # .0001, .6, .7, .8: the mean of logits is negative, that of probabilities .525
    logits = [np.array([[0.0, math.log(p / (1 - p))]]) for p in (0.0001, 0.6, 0.7, 0.8)]
    assert np.mean(logits, axis=0)[0, 1] < 0
    assert combine(logits, TASKS["rte"]).tolist() == [1]
    # a constant added to both logits of a run changes nothing, however large
    assert combine([logits[0] + 1000, *logits[1:]], TASKS["rte"]).tolist() == [1]


def test_an_ensemble_of_a_regression_averages_values_before_they_are_clipped() -> None:
    combined = combine([np.array([[0.2], [1.5]]), np.array([[0.4], [0.1]])], TASKS["stsb"])
    assert combined.tolist() == pytest.approx([1.5, 4.0])  # clipped first, the second were 2.75


@pytest.mark.parametrize("name", ["cola", "mnli", "stsb"])
def test_an_ensemble_of_one_decides_as_it_does_alone(name: str) -> None:
    task = TASKS[name]
    logits = np.random.default_rng(0).normal(size=(500, len(task.labels) or 1)).astype(np.float32)
    logits[0] = [0, 1e-20, 0][: logits.shape[1]]  # equal after a softmax
    decided = decide(logits, task)
    if task.is_regression:
        assert decided.min() < 0 and decided.max() > 5
        decided = np.clip(decided, 0, 5)  # the server wants numbers on the scale
    assert np.array_equal(combine([logits], task), decided)


def test_runs_with_other_rows_are_no_ensemble() -> None:
    with pytest.raises(UserError, match=r"CoLA.*\(2, 2\), \(3, 2\)"):
        combine([np.zeros((3, 2)), np.zeros((2, 2))], TASKS["cola"])


def run_main(path: Path) -> int | str | None:
    with pytest.raises(SystemExit) as stopped:
        run_script(lambda: main([str(path)]))
    return stopped.value.code


def test_the_command_prints_one_line_for_a_valid_submission(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = pack(tmp_path / "glue.zip", FILES)
    assert run_main(path) == 0
    out, err = capsys.readouterr()
    assert out.startswith(str(path)) and out.count("\n") == 1 and not err


def test_the_command_prints_every_problem_and_exits_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {k: v for k, v in FILES.items() if k not in ("AX.tsv", "RTE.tsv")}
    assert run_main(pack(tmp_path / "glue.zip", files)) == 2
    out, err = capsys.readouterr()
    assert [line.split()[0] for line in out.splitlines()] == ["RTE.tsv", "AX.tsv"]
    assert err.startswith("error: ") and err.count("\n") == 1
    assert run_main(tmp_path / "none.zip") == 2
    out, err = capsys.readouterr()
    assert not out and err.startswith("error: ") and "none.zip" in err and err.count("\n") == 1
