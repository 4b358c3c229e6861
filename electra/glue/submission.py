"""Answers -> the zip that gluebenchmark.com takes, and a check of any such zip. No torch.

    python -m electra.glue.submission glue.zip

The server refuses a zip as a whole and limits how many one may send, so every difference from the official format is
named here first. The zip is a function of the answers alone, byte for byte.
"""

import io
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from electra.errors import Parser, UserError, run_script
from electra.files import write_file
from electra.glue.tasks import DIAGNOSTICS, REGRESSION_RANGE, TASKS, Task

HEADER = "index\tprediction"
WORD_TASKS = ("mnli", "qnli", "rte", "ax")
"""Their answers are names of classes, those of the other classifications ids."""
TEST_FILES = {
    title: (task, task.rows[split])
    for task in (*TASKS.values(), DIAGNOSTICS)
    for split, title in task.test_files.items()
}
"""File title -> its task and official number of rows, in the order of the zip."""
WNLI_ANSWER = "0"
"""The majority class of WNLI's training data (323 of 635), and 65.1 % of its test data."""


def prediction_words(task: Task, decisions: np.ndarray) -> list[str]:
    """Answers as the server wants them: ids, names of classes, or numbers with three decimals.

    Raises:
        UserError: a number is none.
    """
    if not np.isfinite(decisions).all():
        raise UserError(f"answers of {task.title} are no numbers (nan); the run diverged, choose another one")
    if task.is_regression:
        return [f"{value:.3f}" for value in decisions]
    words = _class_words(task)
    return [words[int(decision)] for decision in decisions]


def _class_words(task: Task) -> tuple[str, ...]:
    return task.labels if task.name in WORD_TASKS else tuple(map(str, range(len(task.labels))))


def write_submission(path: Path, predictions: Mapping[str, Sequence[str]]) -> list[str]:
    """Write the zip, also an incomplete one, and say what was filled and what is not yet as the server wants it.

    Args:
        predictions: file title ("CoLA") -> answers of `prediction_words`. Without WNLI all its answers become
            `WNLI_ANSWER`, which is what everybody without a WNLI system submits.

    Returns:
        Notes to show, a line each; none if predictions are complete and valid.

    Raises:
        UserError: there is no such file.
    """
    unknown = [title for title in predictions if title not in TEST_FILES]
    if unknown:
        raise UserError(f"GLUE has no test file '{unknown[0]}'; choose from {' '.join(TEST_FILES)}")
    notes = []
    if "WNLI" not in predictions:
        predictions = {**predictions, "WNLI": [WNLI_ANSWER] * TEST_FILES["WNLI"][1]}
        notes.append(f"WNLI.tsv: no answers given; all are '{WNLI_ANSWER}', the majority class of its training data")
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for title in (title for title in TEST_FILES if title in predictions):
            # Stored: what deflate writes depends on the version of zlib. The time is the earliest a zip can hold.
            entry = zipfile.ZipInfo(f"{title}.tsv", date_time=(1980, 1, 1, 0, 0, 0))
            entry.create_system, entry.external_attr = 3, 0o644 << 16  # a readable file, whatever system wrote it
            rows = (f"{index}\t{word}" for index, word in enumerate(predictions[title]))
            archive.writestr(entry, "\n".join([HEADER, *rows, ""]))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(content.getvalue(), path)
    return notes + validate_submission(path)


def validate_submission(path: Path) -> list[str]:
    r"""Every difference from the official format, a line for each kind of it in a file; empty if valid. \r\n is fine.

    Raises:
        OSError: there is no such file, or it cannot be read.
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
            hint = "; all files belong in the root of the zip" if "/" in name else ""
            yield f"{name} does not belong in a submission{hint}"
        elif names.count(name) > 1:
            yield f"{name} is there {names.count(name)} times"
    for name, (task, rows) in expected.items():
        if name not in names:
            yield f"{name} is missing; the server refuses the zip until it is there"
            continue
        try:
            text = archive.read(name).decode("utf-8")
        except Exception as error:  # damaged, encrypted, other compression, not UTF-8: each has its own type
            yield f"{name} cannot be read: {error}"
            continue
        for fault in _file_faults(task, rows, text):
            yield f"{name} {fault}"


def _file_faults(task: Task, expected_rows: int, text: str) -> Iterator[str]:
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    if lines[0] != HEADER:
        hint = "; pandas adds a column unless index=False" if lines[0] == f"\t{HEADER}" else ""
        yield f"line 1: the header is {lines[0][:40]!r}, expected {HEADER!r}{hint}"
    rows = lines if lines[0].startswith("0\t") else lines[1:]  # a file that lacks only the header lacks no row
    if len(rows) != expected_rows:
        yield f"has {len(rows)} rows, expected {expected_rows}"
    is_answer, answers = _answer_rule(task)
    faults: dict[str, list[str]] = {"columns": [], "index": [], "prediction": []}
    for i, row in enumerate(rows):
        line = f"line {i + 1 + len(lines) - len(rows)}:"
        cells = row.split("\t")
        if len(cells) != 2:
            faults["columns"].append(f"{line} {len(cells)} columns, expected 2")
            continue
        if cells[0] != str(i):
            faults["index"].append(f"{line} the index is {cells[0][:40]!r}, expected '{i}'")
        if not is_answer(cells[1]):
            faults["prediction"].append(f"{line} the prediction is {cells[1][:40]!r}, expected {answers}")
    for found in faults.values():
        if found:
            yield found[0] + (f" (and {len(found) - 1} more such lines)" if len(found) > 1 else "")


def _answer_rule(task: Task) -> tuple[Callable[[str], bool], str]:
    """What the server takes as an answer, as a test and in words."""
    if not task.is_regression:
        words = _class_words(task)
        return words.__contains__, " or ".join(words)
    low, high = REGRESSION_RANGE

    def is_number_in_range(word: str) -> bool:
        try:
            return low <= float(word) <= high  # false for nan
        except ValueError:
            return False

    return is_number_in_range, f"a number from {low:g} to {high:g}"


def main(argv: Sequence[str] | None = None) -> None:
    """Print what is wrong with a submission, or that nothing is."""
    parser = Parser("python -m electra.glue.submission", description="Check a submission to GLUE.")
    parser.add_argument("file", type=Path, help="the zip")
    file: Path = parser.parse_args(argv).file
    problems = validate_submission(file)
    for problem in problems:
        print(problem)  # noqa: T201 - the command's own output
    if problems:
        raise UserError(f"{file} is no valid submission (problems: {len(problems)}); correct them and check again")
    print(f"{file} is a valid submission")  # noqa: T201


if __name__ == "__main__":
    run_script(main)
