"""How many processor seconds commands take beside their work: for a help, until the first rows, at the end.

    python -m benchmarks.bench_start CHECKOUT [CHECKOUT ...] --model output/classify_reviews --file few.csv

Each checkout runs each command in a process of its own, in turns, every other round in the opposite order.
Medians of the processor seconds of a process, which a busy machine changes less than the time that passes.

    help      `electra pretrain --help`
    predict   `electra predict MODEL FILE` until its last line, which says how many rows are answered
    end       from this line to the end of the process
"""

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

from electra.report.blocks import table_of, to_markdown

TICKS = os.sysconf("SC_CLK_TCK")
"""Units of /proc/PID/stat in a second."""


def processor_seconds(pid: int) -> float:
    """Return the processor seconds of a running process, by Linux's /proc/PID/stat."""
    numbers = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(numbers[11]) + int(numbers[12])) / TICKS


def measure(checkout: Path, words: list[str], last: str = "") -> tuple[float, float]:
    """Return the processor seconds of a command of a checkout until a line with `last`, and from there to its end.

    The first number is 0 without `last`.

    Raises:
        SystemExit: the command fails.
    """
    environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "electra", *words]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, cwd=checkout, env=environment, **pipes)  # type: ignore[call-overload]
    until = 0.0
    line = ""
    for line in process.stderr:
        if last and last in line:
            until = processor_seconds(process.pid)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}: {line}")
    return until, usage.ru_utime + usage.ru_stime - until


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", nargs="+", type=Path, metavar="CHECKOUT")
    parser.add_argument("--model", required=True, type=Path, help="a fine-tuned model that was saved")
    parser.add_argument("--file", required=True, type=Path, help="rows for the model")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    checkouts = [checkout.resolve() for checkout in options.checkouts]
    predict = ["predict", str(options.model.resolve()), str(options.file.resolve())]
    seconds: dict[Path, list[tuple[float, float, float]]] = {checkout: [] for checkout in checkouts}
    for number in range(options.rounds):
        for checkout in checkouts[:: -1 if number % 2 else 1]:
            _, for_help = measure(checkout, ["pretrain", "--help"])
            seconds[checkout].append((for_help, *measure(checkout, predict, "rows are answered")))
    rows = []
    for checkout, rounds in seconds.items():
        medians = map(statistics.median, zip(*rounds, strict=True))
        row = {name: f"{value:.2f} s" for name, value in zip(("help", "predict", "end"), medians, strict=True)}
        rows.append({"checkout": str(checkout), **row})
    print(to_markdown([table_of(rows)]))


if __name__ == "__main__":
    main()
