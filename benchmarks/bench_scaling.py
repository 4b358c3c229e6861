"""What a run costs as the work grows: batch, length, generator, corpus, processes. One thing changes at a time.

    python -m benchmarks.bench_scaling --train_file corpus.txt --tokenizer_path tokenizer

Each point is `run_pretraining.py` itself, a short run in a process of its own, started twice: the first run builds the
token cache, the second is measured. Start-up is all of its time before the first step and after the last; memory is
the peak of its largest process. A corpus of several copies has another number in front of each document, so that no
two are alike.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))  # where a file is started, not a module

from electra.options import as_flags
from electra.runtime.hardware import device_name

BASE = {"model_size": "small", "per_device_train_batch_size": 16, "max_length": 128, "generator_size": 0.25}
POINTS: dict[str, list[Any]] = {
    "per_device_train_batch_size": [4, 16, 64],
    "max_length": [64, 128, 256, 512],
    "generator_size": [0.125, 0.25, 0.5, 1.0],
    "copies": [1, 4, 24],
    "processes": [1, 2],
}


def grown(paths: list[str], copies: int, folder: Path) -> list[str]:
    """The corpus so many times, the number of the copy in front of each document."""
    if copies == 1:
        return paths
    target = folder / f"copies-{copies}.txt"
    if not target.exists():
        documents = [d for path in paths for d in Path(path).read_text().split("\n\n") if d.strip()]
        with target.open("w") as file:
            for copy in range(copies):
                file.writelines(f"{copy} {document}\n\n" for document in documents)
    return [str(target)]


def measure(values: dict[str, Any], options: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Of the second of two runs."""
    values = {**BASE, **values}
    processes, copies = values.pop("processes", 1), values.pop("copies", 1)
    files = grown(options.train_file, copies, folder)
    flags = {
        **values,
        "train_file": files,
        "tokenizer_path": options.tokenizer_path,
        "max_steps": options.steps,
        "logging_steps": max(1, options.steps // 2),
        "eval_strategy": "no",
        "save_strategy": "no",
        "validation_fraction": 0,
        "report_to": "none",
        "disable_tqdm": True,
        "cache_dir": folder / "cache",
        "output_dir": folder / "output",
    }
    command = [sys.executable]
    if processes > 1:
        flags["per_device_train_batch_size"] //= processes
        command += ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
    command += ["run_pretraining.py", *as_flags(flags)]
    for name in ("build", "measured"):
        started = time.monotonic()
        process = subprocess.Popen([*command, "--experiment_name", name], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - started
        if status:
            raise SystemExit(f"{' '.join(command)} failed")
    newest = max((folder / "output").glob("measured*"), key=lambda path: path.stat().st_mtime)
    told = json.loads((newest / "metrics.json").read_text())["compute"]
    return {
        "tokens_per_second": told["tokens_per_second"],
        "mfu": told["mfu"],
        "start_up_seconds": wall - told["training_seconds"],
        "peak_memory_bytes": usage.ru_maxrss * 1024,
        "corpus_bytes": sum(Path(path).stat().st_size for path in files),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train_file", nargs="+", required=True)
    parser.add_argument("--tokenizer_path", required=True)
    parser.add_argument("--points", nargs="+", choices=POINTS, default=list(POINTS))
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--output", type=Path, help="also write the numbers to this json file")
    options = parser.parse_args()
    found = []
    print("| changed | tokens/s | MFU | start-up and end | peak memory |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in options.points:
            for value in POINTS[name]:
                point = measure({name: value}, options, Path(folder))
                found.append({"changed": name, "value": value, **point})
                what = f"{name} {value}" + (f" ({point['corpus_bytes'] / 1e6:.0f} MB)" if name == "copies" else "")
                print(
                    f"| {what} | {point['tokens_per_second']:,.0f} | {100 * point['mfu']:.0f} % "
                    f"| {point['start_up_seconds']:.1f} s | {point['peak_memory_bytes'] / 1e9:.2f} GB |",
                    flush=True,
                )
    if options.output:
        hardware = device_name("cuda" if torch.cuda.is_available() else "cpu")
        told = {"command": sys.argv, "hardware": hardware, "torch": torch.__version__, "base": BASE, "results": found}
        options.output.write_text(json.dumps(told, indent=2) + "\n")


if __name__ == "__main__":
    main()
