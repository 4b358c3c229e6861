"""What only a GPU can tell, in one command: speed, memory, waits, correctness.

    electra cache --train_file corpus.txt --tokenizer_path bert-base-uncased      # before; it names a folder
    python -m benchmarks.bench_gpu --token_cache FOLDER --output gpu.json
    python -m benchmarks.bench_gpu --output rehearsal.json --rehearse             # tiny sizes, on a CPU too

The tokens of ELECTRA are BERT's 30,522; they are made before a GPU is rented. Each row is a process of its own with
a limit of seconds. Rows are in the order of their importance; a number is written as soon as it is there, also if its
row fails or is stopped later; the same command goes on with the rows that are missing or failed. A table comes last.
Times are of windows of steps; the device is waited for at their ends only, so that what runs side by side shows. The
first window, in which the step is compiled, does not count.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.benchmark import Timer
from torch.utils.data import Dataset
from transformers import TrainerCallback

from benchmarks.bench_pretraining import bare_loop, make_trainer_of, wait_for_device
from electra.data.segments import Segment, TrainingSegments, segment_length
from electra.io.console import environment
from electra.io.files import write_json
from electra.options import as_flags
from electra.pretraining.trainer import ElectraTrainer
from electra.runtime.device import device_name, measure_matmul_flops

TINY = {
    "model_size": "small",
    "vocab_size": 300,
    "embedding_size": 16,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "generator_size": 0.5,
    "max_documents": 200,
}
"""Of a rehearsal, in place of the networks of all recipes."""


VOCABULARY = 30_522
"""Of the recipes: the LM head, its softmax and the samples are a tenth of a step of Small."""


class Bench:
    """What all rows share: the device, sizes, and short runs.

    Args:
        work: folder for files.
        is_rehearsal: sizes are tiny, and the text is the builtin one unless there are tokens.
        token_cache: tokens that were made before.
        output: file for the numbers of the row.
    """

    def __init__(
        self, work: Path, is_rehearsal: bool, token_cache: Path | None = None, output: Path | None = None
    ) -> None:
        self.work = work
        self.output = output
        self.told: dict[str, Any] = {}
        self.is_rehearsal = is_rehearsal
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.steps = 4 if is_rehearsal else 50
        self.text: dict[str, Any] = {"dataset_name": "builtin"}
        if token_cache is not None:
            self.text = {"token_cache": str(token_cache)}

    def tell(self, **numbers: Any) -> None:
        """Keep numbers of the row, also if it does not end."""
        self.told |= numbers
        if self.output is not None:
            write_json(self.told, self.output)

    def seconds(self, statement: str, **names: Any) -> float:
        """Of a statement, the median of half a second."""
        timer = Timer(statement, globals=names, num_threads=torch.get_num_threads())
        return timer.blocked_autorange(min_run_time=0.05 if self.is_rehearsal else 0.5).median

    def trainer(
        self, size: str = "small", batch: int = 128, length: int = 128, is_full: bool = False, **options: Any
    ) -> ElectraTrainer:
        """Return the trainer of a run that only trains; with `is_full` no row has padding.

        Raises:
            SystemExit: the tokens are not those of a vocabulary of 30,522.
        """
        sizes: dict[str, Any] = {"model_size": size}
        if self.is_rehearsal:
            sizes, batch, length = TINY, 4, min(length, 32)
            if "token_cache" in self.text:
                del (sizes := {**TINY})["vocab_size"], sizes["max_documents"]
        given = {
            **sizes,
            **self.text,
            "cache_dir": str(self.work / "cache"),
            "output_dir": str(self.work / "output"),
            "per_device_train_batch_size": batch,
            "max_length": length,
            "max_steps": 3 * self.steps,
            "warmup_steps": 2,
            "logging_steps": self.steps,
            **options,
        }
        trainer = make_trainer_of(as_flags(given))
        vocabulary = trainer.model.config.discriminator.vocab_size
        if not self.is_rehearsal and vocabulary != VOCABULARY:
            raise SystemExit(f"error: --token_cache has a vocabulary of {vocabulary}, not BERT's of {VOCABULARY}")
        if is_full:
            trainer.train_dataset = FullRows(trainer.train_dataset, length)
        return trainer

    def speed(self, name: str = "", **options: Any) -> dict[str, Any]:
        """Tell and return tokens a second of `train()`, by the last two windows; utilization; peak memory; losses."""
        trainer = self.trainer(**options)
        windows = Windows(self)
        trainer.add_callback(windows)
        trainer.train()
        rates = [trainer.plan.tokens_per_step * self.steps / seconds for seconds in windows.seconds[1:]]
        flops = trainer.plan.flops / trainer.plan.total_tokens
        told: dict[str, Any] = {"tokens_per_second": rates, "flops_per_second": flops * max(rates)}
        told["seconds_of_first_window"] = windows.seconds[0]
        told["is_compiled"] = bool(trainer.args.torch_compile)
        if self.device.type == "cuda":
            told["peak_bytes"] = torch.cuda.max_memory_allocated()
        told["losses"] = [logs["loss"] for logs in trainer.state.log_history if "loss" in logs]
        self.tell(**({name: told} if name else told))
        return told


class FullRows(Dataset[Any]):
    """The samples of a run, with the documents of a row repeated until the row is full."""

    def __init__(self, samples: TrainingSegments, length: int) -> None:
        self.samples = samples
        self.length = length

    def __len__(self) -> int:
        return len(self.samples)

    def __getitems__(self, positions: Sequence[int]) -> list[Segment]:
        rows = []
        for row in self.samples.__getitems__(positions):
            assert isinstance(row, Segment)
            missing = self.length - segment_length(row)
            rows.append(row._replace(first=np.resize(row.first, len(row.first) + missing)))
        return rows


class Windows(TrainerCallback):
    """Seconds of each window of steps."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.seconds: list[float] = []
        self.started = 0.0

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
        self.started = time.perf_counter()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step % self.bench.steps == 0:
            wait_for_device()
            now = time.perf_counter()
            self.seconds.append(now - self.started)
            self.started = now


def peaks(bench: Bench) -> dict[str, Any]:
    """Rates of matrix products and of copies."""
    size = 2**20 if bench.is_rehearsal else 2**30
    block = torch.empty(size, dtype=torch.uint8, device=bench.device)
    copy = bench.seconds("a.copy_(b); wait()", a=torch.empty_like(block), b=block, wait=wait_for_device)
    return {
        "device": device_name(bench.device),
        "matmul_flops": measure_matmul_flops(bench.device, torch.bfloat16, 0.1 if bench.is_rehearsal else 3.0),
        "copy_bytes_per_second": 2 * size / copy,
    }


def waits(bench: Bench) -> dict[str, Any]:
    """Operations that wait for the device in twenty steps, by torch's own warnings."""
    trainer = bench.trainer(max_steps=20, logging_steps=100)
    if bench.device.type == "cuda":
        trainer.add_callback(WarnOfWaits())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer.train()
    found = [f"{w.filename}:{w.lineno}" for w in caught if "synchroniz" in str(w.message)]
    return {"waits": {where: found.count(where) for where in sorted(set(found))}}


class WarnOfWaits(TrainerCallback):
    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        torch.cuda.set_sync_debug_mode("warn" if 5 <= state.global_step < 18 else "default")


def small_default(bench: Bench) -> dict[str, Any]:
    """ELECTRA-Small at 128 x 128, full rows, as a run is by default: compiled on a GPU."""
    return bench.speed(is_full=True)


def small_eager(bench: Bench) -> dict[str, Any]:
    """The same eagerly."""
    return bench.speed(is_full=True, torch_compile=False)


def small_graphs(bench: Bench) -> dict[str, Any]:
    """The same as CUDA graphs."""
    has_graphs = bench.device.type == "cuda"
    return bench.speed(is_full=True, **({"torch_compile_mode": "reduce-overhead"} if has_graphs else {}))


def plain(bench: Bench) -> dict[str, Any]:
    """ELECTRA-Small at 128 x 128 in a bare loop, eagerly and compiled: the plain way to write it, and our model."""
    for is_compiled in (False, True) if bench.device.type == "cuda" else (False,):
        for way in ("plain", "ours"):
            trainer = bench.trainer(is_full=True, torch_compile=False)
            take = bare_loop(trainer, way == "plain", "bf16")
            if is_compiled:
                trainer.model.compile(dynamic=False)
            take(3)
            name = f"{way}{'_compiled' if is_compiled else ''}_tokens_per_second"
            bench.tell(**{name: trainer.plan.tokens_per_step / take(bench.steps)})
    return bench.told


BASE: dict[str, Any] = {"size": "base", "batch": 64, "length": 512}


def base_full(bench: Bench) -> dict[str, Any]:
    """ELECTRA-Base at 64 x 512 without padding: attention without a mask."""
    return bench.speed(**BASE, is_full=True)


def base_padded(bench: Bench) -> dict[str, Any]:
    """The same with the documents as they are: attention with a mask where one is shorter than a row."""
    return bench.speed(**BASE)


def base_packed(bench: Bench) -> dict[str, Any]:
    """The same with documents that share rows: attention with a mask of segments."""
    return bench.speed(**BASE, segment_policy="packed")


def correctness(bench: Bench) -> dict[str, Any]:
    """Losses without dropout: fp32, bf16, compiled; steps that are not finite are skipped."""
    without = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "batch": 32}
    bench.speed("fp32", **without, bf16=False, torch_compile=False)
    bench.speed("bf16", **without, bf16=True, torch_compile=False)
    bench.speed("default", **without)
    trainer = bench.trainer(torch_compile=False)

    def spoil(module: torch.nn.Module, inputs: Any, output: Any) -> Any:
        output.loss = output.loss * (torch.nan if trainer.state.global_step in (2, 3) else 1.0)
        return output

    trainer.model.register_forward_hook(spoil)
    trainer.train()
    lines = trainer.state.log_history
    bench.tell(skipped=next(logs["skipped_steps"] for logs in lines if "skipped_steps" in logs))
    return bench.told


LIMIT = 150.0
"""Seconds of a row."""
ROWS = {
    row.__name__: row
    for row in (
        peaks,
        small_default,
        small_eager,
        base_full,
        correctness,
        plain,
        small_graphs,
        base_padded,
        base_packed,
        waits,
    )
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="json file, written after each row")
    parser.add_argument("--token_cache", type=Path, help="tokens of BERT's vocabulary, made by electra cache")
    parser.add_argument("--rehearse", action="store_true", help="tiny sizes: does every row run?")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds of a row")
    parser.add_argument("--row", choices=list(ROWS), help="this row alone, in this process; replaces the file")
    options = parser.parse_args()
    if not options.rehearse and options.token_cache is None:
        parser.error("--token_cache is needed: the builtin text has too few words for ELECTRA's vocabulary")
    if options.row:
        bench = Bench(Path("bench_gpu"), options.rehearse, options.token_cache, options.output)
        bench.tell(**ROWS[options.row](bench))
        return
    told: dict[str, Any] = json.loads(options.output.read_text()) if options.output.is_file() else {}
    told["environment"] = environment()
    for name in ROWS:
        if "error" in told.get(name, {"error": ""}):
            told[name] = run_row(name, options)
            write_json(told, options.output)
            print(name, told[name].get("error", ""), flush=True)
    print("\n".join(table(told)))


def run_row(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return a row's numbers; if the row failed or reached its limit, those before that, and `error`."""
    part = options.output.with_suffix(f".{name}.json")
    command = [sys.executable, "-m", "benchmarks.bench_gpu", f"--output={part}", f"--row={name}"]
    command += ["--rehearse"] if options.rehearse else []
    command += [f"--token_cache={options.token_cache}"] if options.token_cache else []
    error = ""
    with tempfile.TemporaryFile("w+") as log:
        # Loader and compiler processes end with the process group.
        process = subprocess.Popen(command, stdout=log, stderr=log, process_group=0)
        try:
            if process.wait(options.limit):
                log.seek(0)
                error = log.read()[-2000:]
        except subprocess.TimeoutExpired:
            error = f"stopped after {options.limit:g} seconds"
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    numbers: dict[str, Any] = json.loads(part.read_text()) if part.is_file() else {}
    part.unlink(missing_ok=True)
    return {**numbers, "error": error} if error else numbers


def table(told: Mapping[str, Any]) -> list[str]:
    """Return the lines of the table: rates and utilization of rows that train, the numbers of others."""
    peak = told.get("peaks", {}).get("matmul_flops")
    lines = ["row                  tokens/s   MFU   peak GB  first window"]
    for name in ROWS:
        row = told.get(name, {})
        if "tokens_per_second" in row:
            share = f"{100 * row['flops_per_second'] / peak:.0f} %" if peak else "-"
            rate, memory = max(row["tokens_per_second"]), row.get("peak_bytes", 0) / 1e9
            lines.append(f"{name:16} {rate:12,.0f} {share:>5} {memory:9.1f} {row['seconds_of_first_window']:10.0f} s")
        else:
            lines.append(f"{name}: {json.dumps(row)[:500]}")
    return lines


if __name__ == "__main__":
    main()
