"""Resident memory of pre-training over a little and over much text, and how it grows with the steps.

    python -m benchmarks.bench_memory --megabytes 100 300 --steps 2000

Each run is a process of its own, of the real command with a tiny pair. What is mapped from the token cache counts as
resident, and is the system's to take back; `anonymous` is without it.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # where a file is started, not a module

from electra.options import as_flags

ROOT = Path(__file__).parents[1]
FROM_STEP = 200
"""By then allocators and caches have what they need."""
WORDS = [first + second for first in ("ba", "de", "fi", "go", "lu", "ma") for second in ("k", "ler", "n", "ste", "t")]
OPTIONS = {
    "vocab_size": 120, "max_documents": 500, "embedding_size": 16, "hidden_size": 16, "num_hidden_layers": 1,
    "num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 32, "generator_size": 0.5,
    "max_length": 16, "per_device_train_batch_size": 4, "logging_steps": 50, "eval_strategy": "no",
    "save_strategy": "no", "disable_tqdm": True, "use_cpu": True,
}  # fmt: skip
WATCHED = """
import sys
from transformers import TrainerCallback
from electra.pretraining.run import main
from electra.pretraining import setup

class Watch(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step in (%d, state.max_steps - 1):
            found = dict(line.split(":") for line in open("/proc/self/status"))
            print("MEMORY", *(int(found[name].split()[0]) * 1024 for name in ("VmRSS", "RssAnon")), flush=True)

class Trainer(setup.ElectraTrainer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.add_callback(Watch)

setup.ElectraTrainer = Trainer
main(sys.argv[1:])
"""


def write_text(path: Path, megabytes: float) -> None:
    """Seeded documents of nonsense words, no two alike."""
    source, number = random.Random(0), 0
    with open(path, "w") as file:
        while file.tell() < megabytes * 1e6:
            file.write(f"{number} " + " ".join(source.choices(WORDS, k=100)) + "\n\n")
            number += 1


def measure(folder: Path, megabytes: float, steps: int) -> list[tuple[float, float]]:
    """Resident and anonymous memory, MB, at `FROM_STEP` and before the last of the steps of a run over that text."""
    write_text(folder / "corpus.txt", megabytes)
    paths = {"train_file": folder / "corpus.txt", "output_dir": folder / "output", "cache_dir": folder / "cache"}
    result = subprocess.run(
        [sys.executable, "-c", WATCHED % FROM_STEP, *as_flags({**OPTIONS, **paths, "max_steps": steps})],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    if result.returncode:
        raise RuntimeError(result.stderr)
    lines = [line.split()[1:] for line in result.stdout.splitlines() if line.startswith("MEMORY")]
    return [(int(resident) / 1e6, int(anonymous) / 1e6) for resident, anonymous in lines]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, nargs="+", default=[100, 300], help="Of text.")
    parser.add_argument("--steps", type=int, default=2000)
    args = parser.parse_args()
    print("| text, MB | step | resident, MB | anonymous, MB |\n|---|---|---|---|")
    for megabytes in args.megabytes:
        with tempfile.TemporaryDirectory() as folder:
            measured = measure(Path(folder), megabytes, args.steps)
        for step, (resident, anonymous) in zip((FROM_STEP, args.steps - 1), measured, strict=True):
            print(f"| {megabytes:g} | {step} | {resident:.1f} | {anonymous:.1f} |", flush=True)


if __name__ == "__main__":
    main()
