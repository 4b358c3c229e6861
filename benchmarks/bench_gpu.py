"""What only a GPU can tell, in ten minutes and one command: speed, memory, waits, correctness.

    python -m benchmarks.bench_gpu --output gpu.json
    python -m benchmarks.bench_gpu --output rehearsal.json --rehearse     # tiny sizes, on a CPU too

Each row is a process of its own, and is written when it is done; the same command goes on with the rows that are
missing or failed. Text and tokenizer come from the documentation of Python: no network. Times are of windows of steps;
the device is waited for at their ends only, so that what runs side by side shows.
"""

import argparse
import json
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from torch.utils.benchmark import Timer
from transformers import TrainerCallback

from benchmarks.bench_pretraining import bare_loop, make_trainer_of, wait_for_device
from electra.io.console import environment
from electra.io.files import write_json
from electra.options import as_flags
from electra.pretraining.trainer import ElectraTrainer
from electra.runtime.hardware import device_name, measure_matmul_flops

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


class Bench:
    """What all rows share: the device, sizes, and short runs."""

    def __init__(self, work: Path, is_rehearsal: bool) -> None:
        self.work = work
        self.is_rehearsal = is_rehearsal
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.steps = 4 if is_rehearsal else 50
        self.text: dict[str, Any] = {"dataset_name": "builtin"}

    def seconds(self, statement: str, **names: Any) -> float:
        """Of a statement, the median of half a second."""
        timer = Timer(statement, globals=names, num_threads=torch.get_num_threads())
        return timer.blocked_autorange(min_run_time=0.05 if self.is_rehearsal else 0.5).median

    def trainer(self, size: str = "small", batch: int = 128, length: int = 128, **options: Any) -> ElectraTrainer:
        """Of a run that only trains."""
        sizes: dict[str, Any] = {"model_size": size, "vocab_size": 30522}
        if self.is_rehearsal:
            sizes, batch, length = TINY, 4, min(length, 32)
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
        return make_trainer_of(as_flags(given))

    def speed(self, **options: Any) -> dict[str, Any]:
        """Tokens a second of `train()`, by the last two windows; utilization; peak memory."""
        trainer = self.trainer(**options)
        windows = Windows(self)
        trainer.add_callback(windows)
        trainer.train()
        rates = [trainer.plan.tokens_per_step * self.steps / seconds for seconds in windows.seconds[1:]]
        flops = trainer.plan.flops / trainer.plan.total_tokens
        told: dict[str, Any] = {"tokens_per_second": rates, "flops_per_second": flops * max(rates)}
        if self.device.type == "cuda":
            told["peak_bytes"] = torch.cuda.max_memory_allocated()
        told["losses"] = [logs["loss"] for logs in trainer.state.log_history if "loss" in logs]
        return told


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


def ladder(bench: Bench) -> dict[str, Any]:
    """ELECTRA-Small at 128 x 128: eagerly, with workers, compiled."""
    ways: dict[str, dict[str, Any]] = {
        "eager, no workers": {"torch_compile": False, "dataloader_num_workers": 0},
        "eager": {"torch_compile": False},
        "default": {},
    }
    if bench.device.type == "cuda":
        ways["reduce-overhead"] = {"torch_compile_mode": "reduce-overhead"}
    return {way: bench.speed(**options) for way, options in ways.items()}


def plain(bench: Bench) -> dict[str, Any]:
    """ELECTRA-Small at 128 x 128 in a bare loop: the plain way to write it, and our model."""
    told = {}
    for way in ("plain", "ours"):
        trainer = bench.trainer(torch_compile=False)
        take = bare_loop(trainer, way == "plain", "bf16")
        take(3)
        told[f"{way}_tokens_per_second"] = trainer.plan.tokens_per_step / take(bench.steps)
    return told


def base(bench: Bench) -> dict[str, Any]:
    """ELECTRA-Base at 64 x 512: all rows full, and padded; utilization and memory."""
    rows = {"size": "base", "batch": 64, "length": 512}
    return {"full": bench.speed(**rows), "padded": bench.speed(**rows, segment_policy="document")}


def correctness(bench: Bench) -> dict[str, Any]:
    """Losses without dropout: fp32, bf16, compiled; steps that are not finite are skipped."""
    without = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "batch": 32}
    told = {
        "fp32": bench.speed(**without, bf16=False, torch_compile=False)["losses"],
        "bf16": bench.speed(**without, bf16=True, torch_compile=False)["losses"],
        "default": bench.speed(**without)["losses"],
    }
    trainer = bench.trainer(torch_compile=False)

    def spoil(module: torch.nn.Module, inputs: Any, output: Any) -> Any:
        output.loss = output.loss * (torch.nan if trainer.state.global_step in (2, 3) else 1.0)
        return output

    trainer.model.register_forward_hook(spoil)
    trainer.train()
    told["skipped"] = next(logs["skipped_steps"] for logs in trainer.state.log_history if "skipped_steps" in logs)
    return told


ROWS = {row.__name__: row for row in (peaks, waits, ladder, plain, base, correctness)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="json file, written after each row")
    parser.add_argument("--rehearse", action="store_true", help="tiny sizes: does every row run?")
    parser.add_argument("--row", choices=list(ROWS), help="this row alone, in this process; replaces the file")
    options = parser.parse_args()
    if options.row:
        write_json(ROWS[options.row](Bench(Path("bench_gpu"), options.rehearse)), options.output)
        return
    told: dict[str, Any] = json.loads(options.output.read_text()) if options.output.is_file() else {}
    told["environment"] = environment()
    for name in ROWS:
        if "error" in told.get(name, {"error": ""}):
            told[name] = run_row(name, options)
            write_json(told, options.output)
        print(name)


def run_row(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """A row's numbers, or the end of what it wrote before it failed."""
    part = options.output.with_suffix(f".{name}.json")
    command = [sys.executable, "-m", "benchmarks.bench_gpu", f"--output={part}", f"--row={name}"]
    command += ["--rehearse"] if options.rehearse else []
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return {"error": (done.stderr or done.stdout)[-2000:]}
    numbers: dict[str, Any] = json.loads(part.read_text())
    part.unlink()
    return numbers


if __name__ == "__main__":
    main()
