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
    """What a row needs."""

    name: str
    seconds: float
    """The limit, once the row has its turn."""
    gigabytes: float = 2
    """Of the GPU, while the row prepares."""
    wave: int = 0
    is_timed: bool = True
    """Nothing else runs while the row has its turn; the others begin at once."""


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
"""In the order of their importance."""
SECONDS = 510.0
"""Of all rows."""
SHARES = (0.42, 0.8)
"""At this part of the time the rows of a wave that are ready have their turns, even if others still prepare."""
MEMORY = 72.0
"""Gigabytes of the GPU for all rows at once."""
WAITING = 3.0
"""Gigabytes of a row that waits for its turn."""
OF_REHEARSAL = 20.0
"""Limits of a rehearsal are so many times as long: CPUs are slow, and often busy."""


class Session:
    """Starts rows, gives them their turns, and writes what they tell.

    Args:
        rows: the rows to run, in the order of their importance.
        command: the words of the process of a row, by the row's name and the folder where it writes.
        output: the file, to which a line is added for each row.
        seconds: when all of it ends.
        slowness: by which the limits of the rows are multiplied.
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
        self.since: dict[str, float] = {}
        self.is_done: set[str] = set()
        self.was_tried_again: set[str] = set()

    def run(self) -> None:
        """Run all rows, or as many as the time allows; nothing of them is left running."""
        with tempfile.TemporaryDirectory(prefix="bench_gpu", ignore_cleanup_errors=True) as folder:
            self.folder = Path(folder)
            try:
                waves = sorted({row.wave for row in self.rows})
                for wave in waves:
                    rows = [row for row in self.rows if row.wave <= wave and row.name not in self.is_done]
                    self.prepare(rows, SHARES[wave] * self.seconds)
                    self.give_turns(rows, is_last=wave == waves[-1])
                for row in self.rows:
                    if row.name not in self.is_done:
                        self.end(row, "there was no time left")
            finally:
                for row in self.rows:
                    self.stop(row)

    # ---- the state of a row

    def now(self) -> float:
        return time.monotonic() - self.began

    def has(self, row: Row, ending: str) -> bool:
        return (self.folder / f"{row.name}.{ending}").exists()

    def runs(self, row: Row) -> bool:
        return row.name in self.processes and self.processes[row.name].poll() is None

    def prepares(self, row: Row) -> bool:
        """Return True if a row is at work before its turn, or is not timed and at work."""
        return self.runs(row) and not (row.is_timed and self.has(row, "ready"))

    def has_room(self, row: Row) -> bool:
        """Return True if the GPU has memory, and the host a core, for one more row."""
        running = [active for active in self.rows if self.runs(active)]
        held = sum(active.gigabytes if self.prepares(active) else WAITING for active in running)
        busy = sum(map(self.prepares, running))
        return not running or (held + row.gigabytes <= MEMORY and busy < (os.cpu_count() or 1))

    # ---- what happens to a row

    def start(self, row: Row) -> None:
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
        self.since[row.name] = time.monotonic()

    def stop(self, row: Row) -> None:
        if row.name in self.processes:
            with suppress(ProcessLookupError):
                os.killpg(self.processes[row.name].pid, signal.SIGKILL)
            self.processes[row.name].wait()

    def end(self, row: Row, error: str = "") -> None:
        """Stop a row, and write its line."""
        was_running = self.runs(row)
        self.stop(row)
        self.is_done.add(row.name)
        file = self.folder / f"{row.name}.json"
        told: dict[str, Any] = {"row": row.name, **(read_json(file) if file.is_file() else {})}
        if error or row.name not in self.processes:
            told["error"] = error
        elif not was_running and self.processes[row.name].returncode:
            told["error"] = self.log_of(row)[-2000:] or f"exit code {self.processes[row.name].returncode}"
        peaks = self.folder / "peaks.json"
        if row.name != "peaks" and peaks.is_file():
            told["peak_flops"] = read_json(peaks).get("matmul_flops")  # another call may have another GPU
        with self.output.open("a", encoding="utf-8") as lines:
            lines.write(f"{json.dumps(told)}\n")
        shown = {name: value for name, value in told.items() if not isinstance(value, dict | list)}
        print(f"{self.now():5.0f} s  {json.dumps(shown)[:400]}", flush=True)

    def log_of(self, row: Row) -> str:
        return (self.folder / f"{row.name}.log").read_text(errors="replace").strip()

    # ---- all rows

    def prepare(self, rows: Sequence[Row], until: float) -> None:
        """Start rows, and wait until each of them is ready, or has ended if it is not timed."""
        while self.now() < until:
            for row in rows:
                if row.name not in self.processes and self.has_room(row):
                    self.start(row)
            for row in rows:
                if not row.is_timed and row.name in self.processes and row.name not in self.is_done:
                    is_late = time.monotonic() - self.since[row.name] > row.seconds * self.slowness
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
        """Let a row measure; one that had no memory beside the others is tried again."""
        if not self.runs(row) and "out of memory" in self.log_of(row) and row.name not in self.was_tried_again:
            self.was_tried_again.add(row.name)
            self.start(row)
            self.wait(lambda: not self.prepares(row), 120)
        (self.folder / f"{row.name}.go").touch()
        has_ended = self.wait(lambda: not self.runs(row), row.seconds)
        self.end(row, "" if has_ended else f"stopped after {row.seconds:g} s")

    def wait(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until a condition holds, and return True if it does after all."""
        until = min(self.now() + seconds * self.slowness, self.seconds)
        while self.now() < until and not condition():
            time.sleep(0.02)
        return condition()


def read_rows(output: Path) -> dict[str, dict[str, Any]]:
    """Return what the file knows of each row; of several lines of a row the last one counts."""
    lines = output.read_text(encoding="utf-8").splitlines() if output.is_file() else []
    told = [json.loads(line) for line in lines]
    return {line["row"]: line for line in told}


def table(told: Mapping[str, Mapping[str, Any]]) -> str:
    """Return Markdown: a table of the rows that train, and one with the numbers of the others."""
    speeds = []
    other_rows = []
    for name, row in told.items():
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
    """Return a number, or numbers by name, with four digits."""
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
    told = read_rows(options.output)
    chosen = options.rows or [row.name for row in ROWS if "error" in told.get(row.name, {"error": ""})]
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
    Session(rows, command, options.output, seconds, OF_REHEARSAL if options.rehearse else 1.0).run()
    print(table(read_rows(options.output)))
    if any("error" in line for line in read_rows(options.output).values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
