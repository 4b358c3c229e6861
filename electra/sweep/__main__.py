"""Run one of wandb's sweep files without an account: grid, random or Bayesian search.

    python -m electra sweep configs/sweeps/mask_rate.yaml --glue configs/glue/demo.yaml
    python -m electra sweep configs/sweeps/learning_rate.yaml --max_runs 8 --parallel 2 -- --max_steps 1000
    python -m electra sweep configs/sweeps/generator_size.yaml --glue configs/glue/demo.yaml

Flags behind a lone -- are for the script and override the file. The same command again continues the sweep: finished
points are skipped, interrupted and failed ones resume from their checkpoints (remove the folder of a point to restart
it). No torch: points are processes of their own.
"""

import argparse
import io
import logging
import os
import shlex
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

from electra.io.console import log_plainly
from electra.io.errors import Parser, UserError
from electra.io.files import expand, write_file
from electra.report.blocks import text_table
from electra.sweep.check import check_task
from electra.sweep.definition import PRETRAINING, Sweep, number_of_points, read_sweep
from electra.sweep.folder import SweepFolder, open_folder
from electra.sweep.runner import Runner, Task, cores, devices
from electra.sweep.summary import Summary

logger = logging.getLogger("electra.sweep")


def parser() -> Parser:
    found = Parser(
        prog="electra sweep",
        description="Run one of wandb's sweep files on this machine, without an account.",
        epilog="After a lone --: flags for the script, which override the file.",
        allow_abbrev=False,
    )
    found.add_argument("file", type=Path, help="sweep file, such as those in configs/sweeps/")
    found.add_argument(
        "--parallel", type=int, default=1, help="points at the same time; they share the CPU cores (default: 1)"
    )
    found.add_argument(
        "--max_runs", type=int, help="maximum number of points; random and Bayesian searches need it or run_cap"
    )
    found.add_argument("--seed", type=int, default=42, help="seed of a random or Bayesian search (default: 42)")
    found.add_argument(
        "--output_dir", type=Path, default=Path("output"), help="parent folder of sweeps (default: output)"
    )
    found.add_argument("--experiment_name", help="name of the folder (default: sweep_ and the name of the file)")
    found.add_argument("--glue", metavar="CONFIG", help="fine-tune each discriminator with this file for run_glue.py")
    found.add_argument(
        "--glue_flags", type=shlex.split, default=[], help="flags for run_glue.py, quoted: '--num_seeds 3'"
    )
    return found


def main(argv: list[str] | None = None) -> None:
    log_plainly()
    words = list(sys.argv[1:] if argv is None else argv)
    end = words.index("--") if "--" in words else len(words)
    options, flags = parser().parse_args(words[:end]), words[end + 1 :]
    sweep = read_sweep(options.file)
    task = make_task(sweep, options, flags)
    total = number_of_points(sweep, options.max_runs)
    sweep = replace(sweep, differing=check_task(task))
    task = replace(task, sweep=sweep)
    settings = {"sweep": sweep.content, "flags": flags, "seed": options.seed, "glue": task.glue and list(task.glue)}
    folder = open_folder(expand(options.output_dir) / task.group, settings)
    gpus = devices(os.environ)
    runner = Runner(task, folder, total=total, parallel=options.parallel, seed=options.seed, devices=gpus)

    aim = f", to {sweep.goal} {sweep.metric}"
    if sweep.differing:
        aim = f", {'ranked by GLUE' if task.glue else 'not ranked'}, as {sweep.not_comparable}"
    logger.info("sweep          %s, %s search%s", sweep.path, sweep.method, aim)
    logger.info("points         %d, %d of them finished", total, total - len(runner.left))
    shared = f", each on one of {len(gpus)} GPUs" if len(gpus) > 1 else ""
    logger.info("at a time      %d on %d CPU cores%s", options.parallel, cores(), shared)
    logger.info("folder         %s\n", folder.path)
    try:
        runner.run_all()
        finish(sweep, folder)
    finally:
        folder.lock.release()


def make_task(sweep: Sweep, options: argparse.Namespace, flags: list[str]) -> Task:
    for name, least in (("parallel", 1), ("max_runs", 1), ("seed", 0)):
        value = getattr(options, name)
        if value is not None and value < least:
            raise UserError(f"--{name} {value} is not possible; it must be {least} or more")
    if options.glue_flags and options.glue is None:
        raise UserError("--glue_flags need --glue, such as --glue configs/glue/paper.yaml")
    if options.glue is not None and sweep.program.name != PRETRAINING:
        raise UserError(f"--glue is for sweeps of {PRETRAINING}; {sweep.path} runs {sweep.program.name}; remove it")
    glue = None if options.glue is None else ("--config", options.glue, *options.glue_flags)
    return Task(sweep, tuple(flags), glue, options.experiment_name or f"sweep_{options.file.stem}")


def finish(sweep: Sweep, folder: SweepFolder) -> None:
    """Write and log the results and the failures.

    Raises:
        SystemExit: points failed.
    """
    failures = [failure for _, failure in sorted(folder.failures.items())]
    if folder.results:
        summary = Summary(sweep, list(folder.results.values()))
        write_file(summary.markdown(folder.path.name, failures, "results.svg").encode(), folder.path / "results.md")
        picture = io.BytesIO()
        try:
            summary.figure().savefig(picture, format="svg", metadata={"Date": None})
            write_file(picture.getvalue(), folder.path / "results.svg")
        except ModuleNotFoundError:
            logger.warning("results.svg needs matplotlib; run: pip install matplotlib")
        logger.info("\n%s\n\n%s", text_table(*summary.table()), summary.best())
        logger.info("\nresults        %s", folder.path / "results.md")
    for failure in failures:
        logger.info("\nfailed         %s in %s, %s, %s", failure.name, failure.stage, failure.how, failure.log)
        logger.info("%s", textwrap.indent("\n".join(failure.last_lines), "  "))
    if failures:
        logger.info("\n%d points failed; the same command resumes them from their checkpoints", len(failures))
        sys.exit(1)
