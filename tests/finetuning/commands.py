"""The scripts of fine-tuning as a user runs them, and the command line that their tiny runs share."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "WANDB_MODE": "offline"}


def file_flags(folder: Path, train: str, validation: str, **options: object) -> list[str]:
    """Of a run below `folder` on two files of it."""
    return tiny_flags(folder, **{"train_file": folder / train, "validation_file": folder / validation, **options})


def tiny_flags(folder: Path, **options: object) -> list[str]:
    """Of a run below `folder`: its encoder/, one epoch, two seeds."""
    values: dict[str, object] = {
        "pretrain_path": folder / "encoder",
        "output_dir": folder / "output",
        "experiment_name": "run",
        "num_seeds": 2,
        "num_train_epochs": 1,
        "per_device_train_batch_size": 8,
        "disable_tqdm": True,
        **options,
    }
    words: list[str] = []
    for name, value in values.items():
        if isinstance(value, list):
            words += [f"--{name}", *map(str, value)]
        elif value is not None:
            words.append(f"--{name}={value}")
    return words


def start(script: str, argv: list[str], cwd: Path) -> subprocess.Popen[str]:
    command = [sys.executable, str(ROOT / script), *argv]
    return subprocess.Popen(
        command, cwd=cwd, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run(script: str, argv: list[str], cwd: Path, expect: int = 0) -> tuple[str, str]:
    """Standard output and standard error of a command that ends with this exit code."""
    process = start(script, argv, cwd)
    out, err = process.communicate(timeout=300)
    assert process.returncode == expect, out + err
    return out, err
