"""Kill a tiny run at random moments, start it again each time, and compare it with a run that nobody disturbed.

    python -m tests.chaos --kills 20 --segment_policy google --workers 2 --accumulation 2

After each kill every checkpoint must be whole; in the end weights, optimizer and schedule must be equal bit for bit.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from electra.pretraining.manifest import checkpoints_of, damage
from tests.pretraining.runs import flags, write_corpus
from tests.pretraining.test_trainer import assert_same_state

ROOT = Path(__file__).parents[1]


def start(argv: list[str]) -> subprocess.Popen[str]:
    """The real command, its lines to be read."""
    return subprocess.Popen(
        [sys.executable, str(ROOT / "run_pretraining.py"), *argv],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run_to_its_end(argv: list[str]) -> None:
    process = start(argv)
    said, _ = process.communicate()
    assert process.returncode == 0, said


def kill_at_random(argv: list[str], source: random.Random) -> None:
    """Kill the run some steps after it has begun to train, up to 40 ms after a step: often while it saves."""
    process = start(argv)
    assert process.stdout is not None
    steps, said = source.randint(1, 10), []
    for line in process.stdout:
        said.append(line)
        steps -= ": loss " in line
        if steps == 0:
            break
    time.sleep(source.uniform(0, 0.04))
    assert process.poll() is None, "".join(said)
    process.kill()
    process.communicate()


def disturb(folder: Path, kills: int, seed: int, **options: Any) -> list[int]:
    """Run twice below `folder`, undisturbed and killed `kills` times.

    Returns:
        the step of the newest checkpoint after each kill; 0: there was none.
    Raises:
        AssertionError: a checkpoint is not whole, or the two runs do not end alike.
    """
    max_steps = 12 * (kills + 1)
    write_corpus(folder / "corpus.txt")
    options = {
        "hidden_size": 16, "num_hidden_layers": 1, "save_steps": 2, "logging_steps": 1, "max_steps": max_steps,
        "save_total_limit": 2, "eval_steps": 5, **options,
    }  # fmt: skip
    source = random.Random(seed)
    run_to_its_end(flags(folder, experiment_name="whole", **options))
    argv, reached = flags(folder, experiment_name="killed", auto_resume=True, **options), []
    for _ in range(kills):
        kill_at_random(argv, source)
        checkpoints = checkpoints_of(folder / "output" / "killed")
        for checkpoint in checkpoints:
            assert damage(checkpoint) is None, f"{checkpoint} {damage(checkpoint)}"
        reached.append(int(checkpoints[0].name.partition("-")[2]) if checkpoints else 0)
    run_to_its_end(argv)
    last = f"checkpoint-{max_steps}"
    assert_same_state(folder / "output" / "whole" / last, folder / "output" / "killed" / last)
    return reached


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--segment_policy", default="windows", choices=["windows", "document", "google", "pairs"])
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--accumulation", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        reached = disturb(
            Path(folder),
            args.kills,
            args.seed,
            segment_policy=args.segment_policy,
            dataloader_num_workers=args.workers,
            gradient_accumulation_steps=args.accumulation,
        )
    print(f"killed {args.kills} times, with its newest checkpoint at steps {reached}: it ended bit for bit alike")


if __name__ == "__main__":
    main()
