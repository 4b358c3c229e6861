"""Run one of wandb's sweep files without an account: grid, random or Bayesian search.

    python -m electra.sweep configs/sweeps/mask_rate.yaml --glue configs/glue/demo.yaml
    python -m electra.sweep configs/sweeps/learning_rate.yaml --max_runs 8 --parallel 2 -- --max_steps 1000
    python -m electra.sweep configs/sweeps/generator_size.yaml --glue configs/glue/demo.yaml

Flags behind a lone -- are for the script and override the file. The same command again continues the sweep: finished
points are skipped, interrupted and failed ones resume from their checkpoints (remove the folder of a point to restart
it). No torch: points are processes of their own.
"""

import argparse
import logging
import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path

from electra.console import log_plainly
from electra.errors import Parser, UserError, run_script
from electra.files import expand, is_encodable, write_file
from electra.report.blocks import text_table
from electra.report.charts import scatter_file
from electra.sweep.check import check_task
from electra.sweep.definition import PROGRAMS, Sweep, read_sweep
from electra.sweep.folder import SweepFolder, open_folder
from electra.sweep.runner import Runner
from electra.sweep.search import import_optuna, number_of_points
from electra.sweep.stages import PRETRAINING, Task, check_flags, cores, devices
from electra.sweep.summary import (
    as_markdown,
    best_line,
    group_points,
    make_plots,
    make_table,
    not_comparable,
    shown_metrics,
)

logger = logging.getLogger("electra.sweep")

FAILED_EXIT_CODE = 1
"""If points failed."""


def parser() -> Parser:
    found = Parser(
        prog="python -m electra.sweep",
        description="Run one of wandb's sweep files on this machine, without an account.",
        epilog="Behind a lone --: flags for the script, which override the file.",
        allow_abbrev=False,
        hint="flags for the script go behind a lone --",
    )
    found.add_argument("file", type=Path, help="sweep file, such as those in configs/sweeps/")
    found.add_argument("--parallel", type=int, default=1, help="points at a time, which share the CPU cores (1)")
    found.add_argument(
        "--max_runs", type=int, help="maximum number of points; random and Bayesian searches need it or run_cap"
    )
    found.add_argument("--seed", type=int, default=42, help="seed of a random or Bayesian search (42)")
    found.add_argument("--output_dir", type=Path, default=Path("output"), help="folder of all sweeps (output)")
    found.add_argument("--experiment_name", help="name of the sweep's folder (sweep_ and the file's)")
    found.add_argument("--glue", metavar="CONFIG", help="fine-tune each discriminator with this file for run_glue.py")
    found.add_argument("--glue_flags", default="", help="flags for run_glue.py, quoted: '--num_seeds 3'")
    return found


def main(argv: list[str] | None = None) -> None:
    log_plainly()
    words = list(sys.argv[1:] if argv is None else argv)
    for word in words:
        if not is_encodable(word):  # sweep.yaml and the logs contain it
            raise UserError(f"{word!r} on the command line is not UTF-8; use another name")
    own, flags = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
    options = parser().parse_args(own)
    sweep = read_sweep(options.file)
    task = make_task(sweep, options, flags)
    total = number_of_points(sweep, options.max_runs)
    if sweep.method == "bayes":
        import_optuna()
    sweep = replace(sweep, differing=check_task(task))
    task = replace(task, sweep=sweep)
    settings = {"sweep": sweep.content, "flags": flags, "seed": options.seed, "glue": task.glue and list(task.glue)}
    folder = open_folder(expand(options.output_dir) / task.group, settings)
    available = devices(os.environ)
    runner = Runner(task, folder, total=total, parallel=options.parallel, seed=options.seed, devices=available)
    announce(task, folder, total, len(runner.left), options.parallel, available)
    runner.run_all()
    finish(sweep, folder)


def make_task(sweep: Sweep, options: argparse.Namespace, flags: list[str]) -> Task:
    """The task of the command line.

    Raises:
        UserError: an impossible number, or a flag that the sweep sets itself.
    """
    for name in ("parallel", "max_runs"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise UserError(f"--{name} {value} is not possible; it must be positive")
    if options.seed < 0:
        raise UserError(f"--seed {options.seed} is not possible; it must be 0 or more")
    name = options.experiment_name or f"sweep_{options.file.stem}"
    if name in ("", "..") or Path(name).name != name:
        raise UserError(f"--experiment_name '{name}' must be a folder name without slashes")
    try:
        glue_flags = shlex.split(options.glue_flags)
    except ValueError as error:
        raise UserError(
            f"--glue_flags {options.glue_flags!r} cannot be split into flags: {error}; close the quote"
        ) from error
    if glue_flags and options.glue is None:
        raise UserError("--glue_flags need --glue, such as --glue configs/glue/paper.yaml")
    if options.glue is not None and sweep.program.name != PRETRAINING:
        raise UserError(
            f"--glue is for sweeps of {PRETRAINING}, but {sweep.path} runs {sweep.program.name}; remove --glue"
        )
    glue = None if options.glue is None else ("--config", options.glue, *glue_flags)
    task = Task(sweep, tuple(flags), glue, name)
    check_flags(task)
    return task


def announce(task: Task, folder: SweepFolder, total: int, left: int, parallel: int, available: list[str]) -> None:
    """Log the plan."""
    sweep = task.sweep
    swept = "  ".join(f"{p.name} ({len(p.values)} values)" if p.values else p.name for p in sweep.swept)
    aim = "" if sweep.differing else f", to {sweep.goal} {sweep.metric}"
    logger.info("sweep          %s, %s search%s", sweep.path, sweep.method, aim)
    if sweep.differing:
        ranked = "ranked by GLUE" if task.glue else "not ranked, unless --glue FILE fine-tunes them"
        logger.info("ranking        %s: %s", ranked, not_comparable(sweep))
    logger.info("parameters     %s", swept)
    logger.info("points         %d, %d of them finished", total, total - left)
    logger.info("each           %s", f"{PROGRAMS[0]}, then {PROGRAMS[1]}" if task.glue else sweep.program.name)
    gpus = f", a GPU each of {len(available)}" if len(available) > 1 else ""
    logger.info("at a time      %d on %d CPU cores%s", parallel, cores(), gpus)
    logger.info("folder         %s\n", folder.path)


def finish(sweep: Sweep, folder: SweepFolder) -> None:
    """Write and log the results and the failures.

    Raises:
        SystemExit: points failed.
    """
    results = list(folder.results.values())
    failures = [folder.failures[number] for number in sorted(folder.failures)]
    if results:
        groups, metrics = group_points(sweep, results), shown_metrics(sweep, results)
        table, best = make_table(sweep, groups, metrics), best_line(sweep, groups)
        page = as_markdown(sweep, folder.path.name, table, best, failures, "results.svg")
        write_file(page.encode(), folder.path / "results.md")
        plots = make_plots(sweep, groups, metrics)
        columns = len(sweep.axes) if len(sweep.axes) > 1 else min(3, len(plots))
        write_file(scatter_file(folder.path.name, plots, columns).encode(), folder.path / "results.svg")
        logger.info("\n%s\n\n%s", text_table(table[0], table[1:]), best)
        files = (str(folder.path / f"results.{kind}") for kind in ("md", "svg", "jsonl"))
        logger.info("\nresults        %s", "  ".join(files))
    for failure in failures:
        where = f"{failure.stage}, {failure.how}, {failure.log}"
        logger.info("\nfailed         %s in %s", failure.name, where)
        logger.info("%s", "\n".join(f"  {line}" for line in failure.last_lines))
    if failures:
        logger.info("\n%d points failed; the same command resumes them from their checkpoints", len(failures))
        sys.exit(FAILED_EXIT_CODE)


if __name__ == "__main__":
    run_script(main)
