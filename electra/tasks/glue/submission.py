"""The zip file for gluebenchmark.com, and a check of any such file. No torch.

    python -m electra.tasks.glue.submission glue.zip

The server rejects a zip as a whole and limits the number of uploads, so the check names every file that differs from
the official format. The same answers give the same bytes.
"""

import io
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from electra.errors import Parser, UserError, run_script
from electra.files import write_file
from electra.tasks.glue.tasks import DIAGNOSTICS, REGRESSION_RANGE, TASKS, Task

HEADER = "index\tprediction"
NAMED_TASKS = ("mnli", "qnli", "rte", "ax")
"""Tasks whose answers are class names; other classification tasks have class ids."""
TEST_FILES = {
    title: (task, task.rows[split])
    for task in (*TASKS.values(), DIAGNOSTICS)
    for split, title in task.test_files.items()
}
"""File title -> task and official number of rows, in the order of the zip."""
WNLI_ANSWER = "0"
"""Majority class of WNLI's training data (323 of 635); it is right on 65.1 % of the test data."""


def prediction_words(task: Task, answers: np.ndarray) -> list[str]:
    """Answers as the server expects them: class ids, class names, or numbers with three decimals.

    Args:
        answers: (N,) class ids, or scores of a regression.

    Raises:
        UserError: a score is not finite.
    """
    if not np.isfinite(answers).all():
        raise UserError(f"answers of {task.title} are not finite numbers; the run diverged, choose another one")
    if task.is_regression:
        return [f"{value:.3f}" for value in answers]
    words = _class_words(task)
    return [words[int(answer)] for answer in answers]


def _class_words(task: Task) -> tuple[str, ...]:
    return task.labels if task.name in NAMED_TASKS else tuple(map(str, range(len(task.labels))))


def write_submission(path: Path, predictions: Mapping[str, Sequence[str]]) -> list[str]:
    """Write the zip, even if it is incomplete.

    Args:
        predictions: file title ("CoLA") -> answers of `prediction_words`. Without WNLI all its answers become
            `WNLI_ANSWER`, as is usual for systems that were not trained on it.

    Returns:
        Notes to show, one line each: what was filled in, and what the server will reject.
    """
    notes = []
    if "WNLI" not in predictions:
        predictions = {**predictions, "WNLI": [WNLI_ANSWER] * TEST_FILES["WNLI"][1]}
        notes.append(f"WNLI.tsv: no answers given; all are '{WNLI_ANSWER}', the majority class of its training data")
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for title in (title for title in TEST_FILES if title in predictions):
            # Stored, because deflate's output depends on the version of zlib. 1980 is the earliest year of a zip.
            entry = zipfile.ZipInfo(f"{title}.tsv", date_time=(1980, 1, 1, 0, 0, 0))
            entry.create_system, entry.external_attr = 3, 0o644 << 16  # a readable file, whatever system wrote it
            rows = (f"{index}\t{word}" for index, word in enumerate(predictions[title]))
            archive.writestr(entry, "\n".join([HEADER, *rows, ""]))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(content.getvalue(), path)
    return notes + validate_submission(path)


def validate_submission(path: Path) -> list[str]:
    r"""Differences from the official format, one line each; empty if the file is valid. Lines may end with \r\n.

    Raises:
        OSError: the file is missing or cannot be read.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return list(_archive_faults(archive))
    except zipfile.BadZipFile as error:
        return [f"{path} is no zip file: {error}"]


def _archive_faults(archive: zipfile.ZipFile) -> Iterator[str]:
    expected = {f"{title}.tsv": TEST_FILES[title] for title in TEST_FILES}
    names = archive.namelist()
    for name in dict.fromkeys(names):
        if name not in expected:
            yield f"{name} does not belong in a submission; its files are {' '.join(expected)}, in no folder"
        elif names.count(name) > 1:
            yield f"{name} is there {names.count(name)} times"
    for name, (task, rows) in expected.items():
        if name not in names:
            yield f"{name} is missing; the server rejects the zip without it"
            continue
        try:
            text = archive.read(name).decode("utf-8")
        except Exception as error:  # damaged, encrypted, unknown compression, not UTF-8: each has its own type
            yield f"{name} cannot be read: {error}"
            continue
        for fault in _file_faults(task, rows, text):
            yield f"{name} {fault}"


def _file_faults(task: Task, expected_rows: int, text: str) -> Iterator[str]:
    header, *rows = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    if header != HEADER:
        yield f"line 1: the header is {header[:40]!r}, expected {HEADER!r}"
    if len(rows) != expected_rows:
        yield f"has {len(rows)} rows below the header, expected {expected_rows}"
    low, high = REGRESSION_RANGE
    words = () if task.is_regression else _class_words(task)
    wrong = [
        i
        for i, (index, _, answer) in enumerate(row.partition("\t") for row in rows)
        if index != str(i) or not (answer in words if words else _is_score(answer))
    ]
    if wrong:
        expected = " or ".join(words) or f"a number from {low:g} to {high:g}"
        yield (
            f"line {wrong[0] + 2}: {rows[wrong[0]][:40]!r}, expected the index {wrong[0]}, a tab, and {expected}"
            + (f" (and {len(wrong) - 1} more such lines)" if len(wrong) > 1 else "")
        )


def _is_score(text: str) -> bool:
    low, high = REGRESSION_RANGE
    try:
        return low <= float(text) <= high  # false for nan
    except ValueError:
        return False


def main(argv: Sequence[str] | None = None) -> None:
    parser = Parser("python -m electra.tasks.glue.submission", description="Check a submission to GLUE.")
    parser.add_argument("file", type=Path, help="the zip")
    file: Path = parser.parse_args(argv).file
    problems = validate_submission(file)
    for problem in problems:
        print(problem)  # noqa: T201 - the command's output
    if problems:
        raise UserError(f"{file} is not a valid submission (problems: {len(problems)}); correct them and check again")
    print(f"{file} is a valid submission")  # noqa: T201


if __name__ == "__main__":
    run_script(main)
