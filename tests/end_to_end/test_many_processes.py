"""The same run on one process, on two, and with accumulation: the same text, the same masks, the same weights.

Real commands, two processes by torchrun and gloo. Without dropout, whose random numbers are each process's own.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.pretraining.runs import flags, write_corpus

ROOT = Path(__file__).parents[2]
STEPS = 8


def run(folder: Path, name: str, processes: int, batch: int, accumulation: int) -> Path:
    argv = flags(
        folder,
        experiment_name=name,
        per_device_train_batch_size=batch,
        gradient_accumulation_steps=accumulation,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        bf16=False,
        max_steps=STEPS,
        logging_steps=1,
        save_steps=STEPS,
    )
    command = [sys.executable]
    if processes > 1:
        command += ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
    done = subprocess.run(
        [*command, str(ROOT / "run_pretraining.py"), *argv],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "output" / name


def log_of(run_folder: Path) -> list[dict[str, float]]:
    state = json.loads((run_folder / f"checkpoint-{STEPS}" / "trainer_state.json").read_text())
    return [entry for entry in state["log_history"] if "loss" in entry]


def test_processes_and_accumulation_change_nothing_but_rounding(tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus.txt")
    one = run(tmp_path, "one", processes=1, batch=8, accumulation=1)
    wanted, weights = log_of(one), load_file(one / f"checkpoint-{STEPS}" / "model.safetensors")
    assert len(wanted) == STEPS
    for other in (run(tmp_path, "two", 2, 4, 1), run(tmp_path, "four", 1, 2, 4)):
        for step, (mine, theirs) in enumerate(zip(log_of(other), wanted, strict=True)):
            for name in ("loss", "generator_loss", "discriminator_loss", "grad_norm", "replaced_rate", "tokens_seen"):
                assert mine[name] == pytest.approx(theirs[name], rel=1e-4), (other.name, step, name)
        for name, tensor in load_file(other / f"checkpoint-{STEPS}" / "model.safetensors").items():
            # Adam divides by the gradient's size, so rounding moves weights whose gradient is nearly 0.
            torch.testing.assert_close(tensor, weights[name], rtol=0, atol=1e-4)
