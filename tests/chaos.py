"""Kill a tiny run at random moments, start it again each time, and compare it with a run that nobody disturbed.

    python -m tests.chaos                                      the kills shared out to every entry of MATRIX
    python -m tests.chaos --kills 2 --segment_policy google    to the entries with this policy

After each kill every checkpoint must be whole; in the end weights, optimizer and schedule must be equal bit for bit.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # where a file is started, not a module

from electra.io.checkpoints import checkpoints_of, find_damage
from electra.pretraining.command import main as pretrain
from tests.helpers import exit_codes, fork, wait_for
from tests.pretraining.runs import assert_same_state, flags, write_corpus

TWO_STAGE = {"objective": "two_stage", "generator_size": 1, "intermediate_size": 64}
MATRIX = (
    {"segment_policy": "windows"},
    {"segment_policy": "document"},
    {"segment_policy": "google"},
    {"segment_policy": "pairs"},
    {"segment_policy": "packed"},
    {"dataloader_num_workers": 2},
    {"gradient_accumulation_steps": 2},
    {"segment_policy": "google", "dataloader_num_workers": 2, "gradient_accumulation_steps": 2},
    {**TWO_STAGE},
    {**TWO_STAGE, "dataloader_num_workers": 1, "gradient_accumulation_steps": 2},
    {"objective": "adversarial"},
)
WHEN = {"cache": 2, "begin": 1, "save": 2, "step": 5}
"""When to kill, and how often: while tokenizer and cache are built, before the first step, in a save, after a step."""


def run_to_its_end(argv, log):
    assert exit_codes([fork(pretrain, argv, log=log)]) == [0], log.read_text()


def kill_at_random(argv, folder, source, when):
    """Start a run below `folder` and kill it at a moment of this kind; its cache is taken away first, if asked for."""
    if when == "cache":
        shutil.rmtree(folder / "cache", ignore_errors=True)
    log = folder / "log.txt"
    log.write_text("")
    process = fork(pretrain, argv, log=log)
    try:
        if when == "cache":
            wait_for(lambda: any((folder / "cache").glob("*.lock")), process)
            time.sleep(source.uniform(0, 0.3))
        elif when == "begin":
            wait_for(lambda: "run folder " in log.read_text(), process)
            time.sleep(source.uniform(0, 0.2))
        else:
            steps = source.randint(1, 4 if when == "save" else 10)
            wait_for(lambda: log.read_text().count(": loss ") >= steps, process)
            if when == "save":
                wait_for((folder / "output" / "killed" / "unfinished").is_dir, process)
            time.sleep(source.uniform(0, 0.01 if when == "save" else 0.04))
        assert process.is_alive(), "it had ended before it was killed"
    finally:
        process.kill()
        process.join()


def newest_step(run):
    """The step of the newest checkpoint, 0 if there is none.

    Raises:
        AssertionError: one of them is not whole.
    """
    checkpoints = checkpoints_of(run) if run.is_dir() else []
    for checkpoint in checkpoints:
        assert find_damage(checkpoint) is None, f"{checkpoint} {find_damage(checkpoint)}"
    return int(checkpoints[0].name.partition("-")[2]) if checkpoints else 0


def disturb(folder, kills, seed, **options):
    """Run twice below `folder`, undisturbed and killed `kills` times.

    Returns:
        of each kill its kind, see `WHEN`, and the step of the newest checkpoint after it; 0: there was none.
    Raises:
        AssertionError: a checkpoint is not whole, or the two runs do not end alike.
    """
    max_steps = 14 * (kills + 1)
    write_corpus(folder / "corpus.txt", documents=300)
    options = {
        "hidden_size": 16, "num_hidden_layers": 1, "save_steps": 2, "logging_steps": 1, "max_steps": max_steps,
        "save_total_limit": 2, "eval_steps": 10, **options,
    }  # fmt: skip
    source = random.Random(seed)
    argv, reached = flags(folder, experiment_name="killed", auto_resume=True, **options), []
    for when in source.choices(list(WHEN), list(WHEN.values()), k=kills):
        kill_at_random(argv, folder, source, when)
        reached.append((when, newest_step(folder / "output" / "killed")))
    run_to_its_end(argv, folder / "log.txt")
    run_to_its_end(flags(folder, experiment_name="whole", **options), folder / "log.txt")
    last = f"checkpoint-{max_steps}"
    assert_same_state(folder / "output" / "whole" / last, folder / "output" / "killed" / last)
    return reached


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--segment_policy", help="entries of MATRIX with this policy alone")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    total = Counter()
    entries = [entry for entry in MATRIX if args.segment_policy in (None, entry.get("segment_policy"))]
    for number, options in enumerate(entries):
        kills = args.kills // len(entries) + (number < args.kills % len(entries))
        if not kills:
            continue
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            reached = disturb(Path(folder), kills, args.seed + number, **options)
        total.update(when for when, _ in reached)
        words = " ".join(f"{name}={value}" for name, value in options.items())
        print(f"{words}: {reached} alike, {time.monotonic() - started:.0f} s", flush=True)
    print(f"killed {total.total()} times ({dict(total)}): all ended bit for bit alike")


if __name__ == "__main__":
    main()
