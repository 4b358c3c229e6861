"""Sweeps of a script that takes a moment, to test what a sweep does around its runs; and sweep files in short."""

import json
import sys
from pathlib import Path
from typing import Any

import yaml

from electra.sweep.definition import Sweep, number_of_points, read_sweep
from electra.sweep.folder import open_folder
from electra.sweep.runner import Runner, Task

SCRIPT = '''
"""Records its options, has a checkpoint at once, and a metric after a while: the learning rate itself."""
import json, os, pathlib, sys, time
options = dict(word[2:].split("=", 1) for word in sys.argv[1:] if "=" in word)
following = dict(zip(sys.argv[1:], sys.argv[2:]))
folder = pathlib.Path(following["--output_dir"]) / following["--experiment_name"]
record = {"name": folder.name, "pid": os.getpid(), "resumed": following.get("--resume_from_checkpoint")}
record |= {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "WANDB_RUN_GROUP")}
(folder / "checkpoint-1").mkdir(parents=True, exist_ok=True)
(folder / "trainer_state.json").write_text('{"log_history": [{"loss": 7}, {"loss": 5}]}')
(folder / "checkpoint-1" / "manifest.json").write_text('{"files": {}}')
with open(options["starts"], "a") as file:
    file.write(json.dumps(record) + "\\n")
time.sleep(float(options["seconds"]))
if options["learning_rate"] == options.get("fails_at"):
    print("\\n".join(f"line {number}" for number in range(30)))
    print("no such learning rate")
    sys.exit(1)
metrics = {"held_out": {"trained": {"discriminator_auc": float(options["learning_rate"])}}}
(folder / "metrics.json").write_text(json.dumps(metrics))
'''
RATES = {"learning_rate": {"values": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]}}


def sweep_file(folder: Path, **keys: Any) -> Path:
    """A sweep file; a key that is None is left out."""
    content: dict[str, Any] = {
        "program": "run_pretraining.py",
        "method": "grid",
        "metric": {"name": "eval/discriminator_auc", "goal": "maximize"},
        "parameters": RATES,
        **keys,
    }
    path = folder / "sweep.yaml"
    path.write_text(yaml.safe_dump({k: v for k, v in content.items() if v is not None}, sort_keys=False))
    return path


def sweep_of(folder: Path, **keys: Any) -> Sweep:
    return read_sweep(sweep_file(folder, **keys))


def standin_runner(
    folder: Path, parallel: int = 1, devices: tuple[str, ...] = (), keys: dict[str, Any] | None = None, **flags: Any
) -> Runner:
    """Of a sweep of the script above, below `folder`; `keys` are those of the sweep file, `flags` for the script."""
    (folder / "program").mkdir(exist_ok=True)
    program = folder / "program" / "run_pretraining.py"
    program.write_text(SCRIPT)
    sweep = sweep_of(folder, **{"program": str(program), **(keys or {})})
    flags = {"starts": folder / "starts.jsonl", "seconds": 0.05, **flags}
    task = Task(sweep, tuple(f"--{name}={value}" for name, value in flags.items()), None, "sweep")
    opened = open_folder(folder / "sweep", {"sweep": sweep.content, "glue": None})
    total = number_of_points(sweep, None)
    return Runner(task, opened, total=total, parallel=parallel, seed=42, devices=devices)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


if __name__ == "__main__":  # for the test that kills it
    standin_runner(Path(sys.argv[1]), parallel=2, seconds=0.6).run_all()
