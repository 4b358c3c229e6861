"""What tests of every folder use: files, and the scripts as a user starts them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

parametrize = pytest.mark.parametrize
ROOT = Path(__file__).parents[1]
ENVIRONMENT = {
    **os.environ,
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": str(ROOT),
    "WANDB_MODE": "offline",
}


def read_json(path):
    """The content of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def contents(folder):
    """Bytes of all files below a folder, by path."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def start(script, argv, cwd):
    """Start one of the scripts at the top."""
    return subprocess.Popen(
        [sys.executable, str(ROOT / script), *argv],
        cwd=cwd,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(script, argv, cwd, expect=0):
    """Standard output and standard error of a command that ends with this exit code."""
    process = start(script, argv, cwd)
    out, err = process.communicate(timeout=300)
    assert process.returncode == expect, out + err
    return out, err


def torchrun(program, argv, cwd):
    """Run a program on two processes."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    command = [*launcher, str(program), *map(str, argv)]
    return subprocess.run(command, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=300)
