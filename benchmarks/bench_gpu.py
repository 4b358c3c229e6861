"""What only a GPU can tell, in one command that ends by itself: speed, memory, waits, correctness, learning.

    electra cache --train_file corpus.txt --tokenizer_path bert-base-uncased      # before; it names a folder
    python -m benchmarks.bench_gpu --token_cache FOLDER --output gpu.jsonl
    python -m benchmarks.bench_gpu --rehearse --output rehearsal.jsonl            # tiny sizes, on a CPU too

The tokens of ELECTRA are BERT's 30,522; they are made before a GPU is rented. Each row of ROWS is a process of its
own, see gpu_rows.py. Compiling takes longer than measuring, so the rows of a wave import, build and compile side by
side, and wait; beside them run the rows that are not timed. Then one row after the other measures while nothing else
runs. Each has a limit of seconds, and all together have --seconds. A row's line is written as soon as the row ends,
with what is known and `error` if it failed or was late; the same command again goes on with those. A table in Markdown
comes last.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from electra.base.console import environment
from electra.base.files import read_json
from electra.report.blocks import table_of, to_markdown


class Row(NamedTuple):
    """A row, as the session has to know it.

    Args:
        seconds: limit of the row in seconds, from its turn on.
        gigabytes: memory of the GPU that the row takes while it prepares.
        wave: wave with which the row prepares, 0 or 1.
        is_timed: whether the row measures time: it then waits for its turn, in which nothing else runs. Other rows do
            not wait.
    """

    name: str
    seconds: float
    gigabytes: float = 2
    wave: int = 0
    is_timed: bool = True


ROWS = (
    Row("peaks", 40),
    Row("small_default", 40, 5),
    Row("small_eager", 40, 5),
    Row("base_full", 50, 20),
    Row("correct", 150, 4, is_timed=False),
    Row("resumed", 120, 5, is_timed=False),
    Row("learn", 180, 6, wave=1, is_timed=False),
    Row("plain", 40, 10),
    Row("small_graphs", 40, 7),
    Row("base_padded", 50, 20),
    Row("finetune", 100, 3, wave=1),
    Row("base_packed", 50, 22, wave=1),
    Row("attention", 60, 4, wave=1),
    Row("resumed_deterministic", 120, 5, is_timed=False),
    Row("tests", 120, 2, is_timed=False),
    Row("small_1024", 40, 30, wave=1),
    Row("base_eager", 50, 22, wave=1),
    Row("plain_compiled", 40, 10, wave=1),
)
"""All rows, the most important first."""
SECONDS = 510.0
"""Limit of all rows together, in seconds."""
SHARES = (0.42, 0.8)
"""Wave -> share of the time after which its rows that are ready have their turns, even if others still prepare."""
GPU_GIGABYTES = 72.0
"""Gigabytes of the GPU that all running rows may take."""
WAITING_GIGABYTES = 3.0
"""Gigabytes of the GPU that a row takes while it waits for its turn."""
REHEARSAL_SLOWNESS = 20.0
"""Factor of the limits of rows in a rehearsal: CPUs are slow, and often busy."""


class Session:
    """The processes of rows, with their turns and the file of their numbers.

    Args:
        rows: the rows to run, in the order of their importance.
        command: the words of the process of a row, by the row's name and the folder where it writes.
        output: file of JSON lines, to which a line is added for each row.
        seconds: limit of all rows together, in seconds.
        slowness: factor of the limits of rows.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        command: Callable[[str, Path], list[str]],
        output: Path,
        seconds: float,
        slowness: float = 1.0,
    ) -> None:
        self.rows = rows
        self.command = command
        self.output = output
        self.seconds = seconds
        self.slowness = slowness
        self.began = time.monotonic()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.started_at: dict[str, float] = {}
        self.done: set[str] = set()
        self.tried_again: set[str] = set()

    def run(self) -> None:
        """Run all rows, or as many as the time allows; nothing of them is left running."""
        with tempfile.TemporaryDirectory(prefix="bench_gpu", ignore_cleanup_errors=True) as folder:
            self.folder = Path(folder)
            try:
                waves = sorted({row.wave for row in self.rows})
                for wave in waves:
                    rows = [row for row in self.rows if row.wave <= wave and row.name not in self.done]
                    self.prepare(rows, SHARES[wave] * self.seconds)
                    self.give_turns(rows, is_last=wave == waves[-1])
                for row in self.rows:
                    if row.name not in self.done:
                        self.end(row, "there was no time left")
            finally:
                for row in self.rows:
                    self.stop(row)

    # ---- the state of a row

    def now(self) -> float:
        """Return the seconds since the session began."""
        return time.monotonic() - self.began

    def runs(self, row: Row) -> bool:
        """Return True if the process of a row is alive."""
        return row.name in self.processes and self.processes[row.name].poll() is None

    def prepares(self, row: Row) -> bool:
        """Return True if a timed row is at work before its turn, or another row is at work."""
        return self.runs(row) and not (row.is_timed and (self.folder / f"{row.name}.ready").exists())

    def has_room(self, row: Row) -> bool:
        """Return True if the GPU has memory, and the host a core, for one more row."""
        running = [active for active in self.rows if self.runs(active)]
        held = sum(active.gigabytes if self.prepares(active) else WAITING_GIGABYTES for active in running)
        busy = sum(map(self.prepares, running))
        return not running or (held + row.gigabytes <= GPU_GIGABYTES and busy < (os.cpu_count() or 1))

    # ---- what happens to a row

    def start(self, row: Row) -> None:
        """Start the process of a row, with its turn if the row is not timed."""
        for ending in ("ready", "go"):
            (self.folder / f"{row.name}.{ending}").unlink(missing_ok=True)
        if not row.is_timed:
            (self.folder / f"{row.name}.go").touch()
        with (self.folder / f"{row.name}.log").open("wb") as log:
            # Loader and compiler processes end with the process group.
            words = self.command(row.name, self.folder)
            self.processes[row.name] = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0
            )
        self.started_at[row.name] = time.monotonic()

    def stop(self, row: Row) -> None:
        """Kill the processes of a row, if it was started."""
        if row.name in self.processes:
            with suppress(ProcessLookupError):
                os.killpg(self.processes[row.name].pid, signal.SIGKILL)
            self.processes[row.name].wait()

    def end(self, row: Row, error: str = "") -> None:
        """Stop a row, and write its line: its numbers, and `error` if it is stopped for a reason or has failed.

        Args:
            error: reason for which the row is stopped; "" if it has ended by itself.
        """
        was_running = self.runs(row)
        self.stop(row)
        self.done.add(row.name)
        file = self.folder / f"{row.name}.json"
        numbers: dict[str, Any] = {"row": row.name, **(read_json(file) if file.is_file() else {})}
        if error or row.name not in self.processes:
            numbers["error"] = error
        elif not was_running and self.processes[row.name].returncode:
            numbers["error"] = self.log_of(row)[-2000:] or f"exit code {self.processes[row.name].returncode}"
        peaks = self.folder / "peaks.json"
        if row.name != "peaks" and peaks.is_file():
            numbers["peak_flops"] = read_json(peaks).get("matmul_flops")  # another call may have another GPU
        with self.output.open("a", encoding="utf-8") as lines:
            lines.write(f"{json.dumps(numbers)}\n")
        shown = {name: value for name, value in numbers.items() if not isinstance(value, dict | list)}
        print(f"{self.now():5.0f} s  {json.dumps(shown)[:400]}", flush=True)

    def log_of(self, row: Row) -> str:
        """Return what the process of a row has printed."""
        return (self.folder / f"{row.name}.log").read_text(errors="replace").strip()

    # ---- all rows

    def prepare(self, rows: Sequence[Row], until: float) -> None:
        """Start rows, and wait until each timed one is ready and the others have ended.

        Args:
            until: second of the session at which the waiting ends, and rows that are not timed are stopped.
        """
        while self.now() < until:
            for row in rows:
                if row.name not in self.processes and self.has_room(row):
                    self.start(row)
            for row in rows:
                if not row.is_timed and row.name in self.processes and row.name not in self.done:
                    is_late = time.monotonic() - self.started_at[row.name] > row.seconds * self.slowness
                    if is_late or not self.runs(row):
                        self.end(row, f"stopped after {row.seconds:g} s" if is_late else "")
            if all(row.name in self.processes and not self.prepares(row) for row in rows):
                return
            time.sleep(0.02)
        for row in rows:
            if not row.is_timed and self.runs(row):
                self.end(row, "stopped, because timed rows had to begin")

    def give_turns(self, rows: Sequence[Row], *, is_last: bool) -> None:
        """Let one row after the other measure, the most important first of those that are ready or have failed.

        Rows that are not ready are left to the next wave; in the last one they are waited for.
        """
        left = [row for row in rows if row.is_timed]
        while left and self.now() < self.seconds:
            ready = [row for row in left if row.name in self.processes and not self.prepares(row)]
            if ready:
                left.remove(ready[0])
                self.give_turn(ready[0])
            elif not is_last:
                return
            else:
                for row in left:
                    if row.name not in self.processes and self.has_room(row):
                        self.start(row)
                time.sleep(0.02)

    def give_turn(self, row: Row) -> None:
        """Let a row measure. A row that had too little memory beside others is first prepared once more."""
        if not self.runs(row) and "out of memory" in self.log_of(row) and row.name not in self.tried_again:
            self.tried_again.add(row.name)
            self.start(row)
            self.wait(lambda: not self.prepares(row), 120)
        (self.folder / f"{row.name}.go").touch()
        has_ended = self.wait(lambda: not self.runs(row), row.seconds)
        self.end(row, "" if has_ended else f"stopped after {row.seconds:g} s")

    def wait(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until a condition holds, for some seconds at most, and return whether it holds then."""
        until = min(self.now() + seconds * self.slowness, self.seconds)
        while self.now() < until and not condition():
            time.sleep(0.02)
        return condition()


def read_rows(output: Path) -> dict[str, dict[str, Any]]:
    """Return the numbers of each row in a file, by name; of several lines of a row the last one counts."""
    lines = output.read_text(encoding="utf-8").splitlines() if output.is_file() else []
    rows = map(json.loads, lines)
    return {row["row"]: row for row in rows}


def table(numbers_by_row: Mapping[str, Mapping[str, Any]]) -> str:
    """Return Markdown: a table of the rows that train, and one with the numbers of the others.

    Args:
        numbers_by_row: see `read_rows`.
    """
    speeds = []
    other_rows = []
    for name, row in numbers_by_row.items():
        # The first of the windows may have steps that were compiled again.
        seconds = min(row["seconds_per_step"][-2:]) if row.get("seconds_per_step") else None
        if seconds is not None:
            flops = row["flops_per_step"] / seconds
            cells = {"row": name, "tokens/s": f"{row['tokens_per_step'] / seconds:,.0f}"}
            cells |= {"ms a step": f"{1000 * seconds:.2f}", "TFLOP/s": f"{flops / 1e12:.1f}"}
            peak = row.get("peak_flops")
            cells["MFU"] = f"{100 * flops / peak:.0f} %" if peak else ""
            cells["peak GB"] = f"{row['peak_bytes'] / 1e9:.1f}" if "peak_bytes" in row else ""
            cells["kernels a step"] = str(row.get("kernels_per_step", ""))
            cells["busy ms"] = f"{row['busy_ms_per_step']:.2f}" if "busy_ms_per_step" in row else ""
            cells["waits a step"] = f"{row['waits_per_step']:g}" if "waits_per_step" in row else ""
            cells["prepared after"] = f"{row['seconds_to_prepare']:.0f} s"
            cells["error"] = " ".join(str(row.get("error", "")).split())[-200:]
            speeds.append(cells)
        else:
            shown = {key: value for key, value in row.items() if key not in ("row", "error")}
            numbers = ", ".join(f"{key}: {short(value)}" for key, value in shown.items())
            error = " ".join(str(row.get("error", "")).split())[-300:]
            other_rows.append({"row": name, "numbers": numbers[:900], "error": error})
    return to_markdown([table_of(rows) for rows in (speeds, other_rows) if rows])


def short(value: Any) -> str:
    """Return a value of a row as text: numbers with four digits, also those of a list or by name."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return "; ".join(f"{name} {short(inner)}" for name, inner in value.items())
    return " ".join(map(short, value)) if isinstance(value, list) else str(value)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="file of JSON lines, one for each row")
    parser.add_argument("--token_cache", type=Path, help="tokens of BERT's vocabulary, made by electra cache")
    parser.add_argument("--glue_dir", help="folder with GLUE's QNLI, to fine-tune on; without it, the demonstration")
    parser.add_argument("--seconds", type=float, help=f"after which all ends, {SECONDS:g}; of a rehearsal one hour")
    parser.add_argument(
        "--rows", nargs="+", choices=[row.name for row in ROWS], help="these alone, and again; with peaks"
    )
    parser.add_argument("--rehearse", action="store_true", help="tiny sizes: does every row run?")
    options = parser.parse_args(argv)
    if not options.rehearse and options.token_cache is None:
        parser.error("--token_cache is needed: the builtin text has too few words for ELECTRA's vocabulary")
    done = read_rows(options.output)
    chosen = options.rows or [row.name for row in ROWS if "error" in done.get(row.name, {"error": ""})]
    with options.output.open("a", encoding="utf-8") as lines:
        lines.write(f"{json.dumps({'row': 'environment', **environment()})}\n")
    # Sixteen cores, or so, are shared by as many rows.
    os.environ.setdefault("OMP_NUM_THREADS", "4" if not options.rehearse else "1")
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "4")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the rows are stopped, too

    def command(row: str, folder: Path) -> list[str]:
        words = [sys.executable, "-m", "benchmarks.gpu_rows", row, str(folder)]
        words += ["--rehearse"] if options.rehearse else []
        words += [f"--token_cache={options.token_cache}"] if options.token_cache else []
        return words + ([f"--glue_dir={options.glue_dir}"] if options.glue_dir else [])

    seconds = options.seconds or (3600.0 if options.rehearse else SECONDS)
    rows = [row for row in ROWS if row.name in chosen or (chosen and row.name == "peaks")]
    Session(rows, command, options.output, seconds, REHEARSAL_SLOWNESS if options.rehearse else 1.0).run()
    print(table(read_rows(options.output)))
    if any("error" in line for line in read_rows(options.output).values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
