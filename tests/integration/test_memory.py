"""Memory does not depend on how much text there is, and does not grow with the steps."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from pytest import approx

from electra.options import as_flags

pytestmark = pytest.mark.slow


ROOT = Path(__file__).parents[2]
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
from electra.pretraining.command import main
from electra.pretraining import run

class Watch(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step in (%d, state.max_steps - 1):
            found = dict(line.split(":") for line in open("/proc/self/status"))
            print("MEMORY", *(int(found[name].split()[0]) * 1024 for name in ("VmRSS", "RssAnon")), flush=True)

class Trainer(run.ElectraTrainer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.add_callback(Watch)

run.ElectraTrainer = Trainer
main(sys.argv[1:])
"""


def write_text(path, megabytes):
    """Seeded documents of nonsense words, no two alike."""
    source = random.Random(0)
    number = 0
    with open(path, "w") as file:
        while file.tell() < megabytes * 1e6:
            file.write(f"{number} " + " ".join(source.choices(WORDS, k=100)) + "\n\n")
            number += 1


def measure(folder, megabytes, steps):
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


def test_memory_depends_neither_on_the_text_nor_on_the_steps(tmp_path):
    for name in ("little", "much"):
        (tmp_path / name).mkdir()
    (resident, early), (_, late) = measure(tmp_path / "little", 3, steps=400)
    (with_much, _), _ = measure(tmp_path / "much", 9, steps=202)
    assert late - early < 2  # MB
    assert with_much == approx(resident, rel=0.1)
