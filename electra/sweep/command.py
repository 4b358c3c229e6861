"""The command `electra sweep`: run a sweep file of wandb on this machine, without an account.

    electra sweep configs/sweeps/mask_rate.yaml --glue configs/glue/demo.yaml
    electra sweep configs/sweeps/learning_rate.yaml --max_runs 8 --parallel 2 -- --max_steps 1000

Flags behind a lone -- are for the script and override the file. Each point is a process with a run folder of its own.
The same command again continues the sweep: finished points are kept, and the others resume from their checkpoints.
"""

import itertools
import json
import logging
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from electra.io.console import log_plainly, shown_command
from electra.io.errors import Parser, UserError
from electra.io.files import config_path, expand
from electra.options import check
from electra.sweep.file import read_sweep
from electra.sweep.folder import claim, read_points, settings_of
from electra.sweep.points import BEFORE_LEARNING, Commands, SweepValues, add_point, count_points, propose
from electra.sweep.report import report
from electra.sweep.runner import Runner, sweep_environment

logger = logging.getLogger("electra.sweep")

MOST_CHECKED = 100
"""So many points are checked before the first one is trained. A check takes a tenth of a second."""


def main(argv: list[str] | None = None) -> None:
    log_plainly()
    parser = Parser(
        prog="electra sweep",
        description="Run a wandb sweep file without an account. Flags after a lone -- override the file.",
    )
    parser.add_argument("file", help="sweep file, such as those in configs/sweeps/")
    parser.add_argument("--parallel", type=int, default=1, help="points at once, unless the method is bayes")
    parser.add_argument("--max_runs", type=int, help="maximum number of points; a random search needs it or run_cap")
    parser.add_argument("--folder", type=Path, help="folder of the sweep (default: output/sweep_ and the file's name)")
    parser.add_argument("--glue", metavar="CONFIG", help="fine-tune each discriminator with this file for run_glue.py")
    parser.add_argument("--glue_flags", help="flags for run_glue.py, quoted: '--num_seeds 3'")
    words = sys.argv[1:] if argv is None else argv
    end = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:end])
    check(options.parallel > 0, "parallel", options.parallel, "at least 1")
    check(options.max_runs is None or options.max_runs > 0, "max_runs", options.max_runs, "at least 1")
    file = config_path(options.file)
    sweep = read_sweep(file)
    folder = expand(options.folder or f"output/sweep_{file.stem}")
    glue = glue_words(options.glue, options.glue_flags)
    if glue is not None and sweep.verb == "glue":
        raise UserError(f"--glue fine-tunes networks that a sweep pre-trains; {file} is a sweep of {sweep.program}")
    commands = Commands(sweep, folder, words[end + 1 :], glue)
    commands.refuse_own_options()
    total = count_points(sweep, options.max_runs)
    if total is None:
        raise UserError(f"a {sweep.method} search has no end; add --max_runs N, or run_cap: N in {file}")

    points = first_points(commands, total)
    glue_options = check_points(commands, points, sweep_environment(0, options.parallel, folder.name))
    settings = settings_of(sweep, commands.flags, glue_options if glue is not None else None)
    lock = claim(folder, sweep, settings)
    read_points(folder, sweep)  # a damaged point is named before hours of training
    logger.info("%s search, points: %d, folder: %s", sweep.method, total, folder)
    runner = Runner(commands, options.parallel, shown_command("-m electra sweep", words))
    signal.signal(signal.SIGINT, runner.stop)
    signal.signal(signal.SIGTERM, runner.stop)
    failed = runner.run_all(total)
    finished = read_points(folder, sweep)
    if finished:
        report(sweep, folder, finished)
    lock.release()
    if failed:
        raise UserError(
            f"{failed} of {total} points failed, as said above; once the cause is gone, the same command goes on"
        )


def glue_words(config: str | None, flags: str | None) -> list[str] | None:
    """Return the words for run_glue.py; None without --glue."""
    if config is None:
        check(flags is None, "glue_flags", flags, "given with --glue CONFIG")
        return None
    check(config_path(config).is_file(), "glue", config, "a file")
    try:
        return ["--config", config, *shlex.split(flags or "")]
    except ValueError as error:
        raise UserError(f"--glue_flags cannot be split into words: {error}") from error


def first_points(commands: Commands, total: int) -> dict[str, SweepValues]:
    """Return the first points by name, of a search those that do not depend on any result."""
    most = BEFORE_LEARNING if commands.sweep.method == "bayes" else MOST_CHECKED
    points: dict[str, SweepValues] = {}
    for values in itertools.islice(propose(commands.sweep, total), most):
        add_point(points, commands.sweep, values)
    return points


def check_points(commands: Commands, points: Mapping[str, SweepValues], environ: Mapping[str, str]) -> dict[str, Any]:
    """Let the scripts parse the command lines of the points; return the options of GLUE on which scores depend.

    Raises:
        UserError: a point would fail.
    """
    lines = {}
    for name, values in points.items():
        lines[name] = {verb: command[4:] for verb, command in commands.of(name, values).items()}
    words = [sys.executable, "-m", "electra.sweep.checks"]
    done = subprocess.run(words, input=json.dumps(lines), capture_output=True, text=True, env=dict(environ))
    if done.returncode != 0:
        *_, last = ["", *done.stderr.strip().splitlines()]
        if not last.startswith("error: "):
            raise RuntimeError(f"the check of the points ended with exit code {done.returncode}\n{done.stderr}")
        raise UserError(last.removeprefix("error: "))
    options: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return options
