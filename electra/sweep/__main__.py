"""Run a sweep file of wandb's without an account: grid, random and Bayesian searches, and the study behind them.

    python -m electra.sweep configs/sweeps/mask_rate.yaml
    python -m electra.sweep configs/sweeps/learning_rate.yaml --max_runs 8 --parallel 2 -- --max_steps 1000
    python -m electra.sweep configs/sweeps/generator_size.yaml --glue configs/glue/demo.yaml

What follows a lone -- is for the script, above what the file says. The same command again continues where it was
stopped: finished points are not repeated, a point that was at work goes on from its checkpoint, so does a failed one;
remove its folder to begin it anew. No torch: points are processes of their own.
"""

import argparse
import logging
import os
import shlex
import sys
from pathlib import Path

from electra.console import log_plainly
from electra.errors import Parser, UserError, run_script
from electra.files import expand, is_encodable, write_file
from electra.sweep.check import check_task
from electra.sweep.definition import PROGRAMS, Sweep, read_sweep
from electra.sweep.folder import SweepFolder, open_folder
from electra.sweep.picture import draw, make_panels
from electra.sweep.points import number_of_points
from electra.sweep.runner import Runner
from electra.sweep.stages import PRETRAINING, Task, check_swept, cores, devices, own_flags
from electra.sweep.summary import as_markdown, as_text, best_line, group_points, make_table, shown_metrics

logger = logging.getLogger("electra.sweep")

FAILED_EXIT_CODE = 1
"""Of a sweep with points that failed."""


def parser() -> Parser:
    found = Parser(
        prog="python -m electra.sweep",
        description="Run a sweep file of wandb's on this machine, without an account.",
        epilog="Behind a lone --: flags for the script, above what the file says.",
        allow_abbrev=False,
        hint="flags for the script itself go behind a lone --",
    )
    found.add_argument("file", type=Path, help="sweep file, such as those in configs/sweeps/")
    found.add_argument("--parallel", type=int, default=1, help="points at a time; they share the CPU cores (1)")
    found.add_argument("--max_runs", type=int, help="points at most; a random or Bayesian search needs it or run_cap")
    found.add_argument("--seed", type=int, default=42, help="seed of a random or Bayesian search (42)")
    found.add_argument("--output_dir", type=Path, default=Path("output"), help="folder of all sweeps (output)")
    found.add_argument("--experiment_name", help="name of the sweep's folder (sweep_ and the file's)")
    found.add_argument("--glue", metavar="CONFIG", help="fine-tune each discriminator with this file for run_glue.py")
    found.add_argument("--glue_flags", default="", help="flags for run_glue.py, in one word: '--num_seeds 3'")
    return found


def main(argv: list[str] | None = None) -> None:
    log_plainly()
    words = list(sys.argv[1:] if argv is None else argv)
    for word in words:
        if not is_encodable(word):  # it has to be kept with the sweep, and told
            raise UserError(f"{word!r} on the command line is no UTF-8; name it otherwise")
    own, flags = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
    options = parser().parse_args(own)
    sweep = read_sweep(options.file)
    task = make_task(sweep, options, flags)
    total = number_of_points(sweep, options.max_runs)
    check_task(task)
    settings = {"sweep": sweep.content, "flags": flags, "seed": options.seed, "glue": task.glue and list(task.glue)}
    folder = open_folder(expand(options.output_dir) / task.group, settings)
    available = devices(os.environ)
    runner = Runner(task, folder, total=total, parallel=options.parallel, seed=options.seed, devices=available)
    announce(task, folder, total, len(runner.left), options.parallel, available)
    runner.run_all()
    finish(sweep, folder)


def make_task(sweep: Sweep, options: argparse.Namespace, flags: list[str]) -> Task:
    """What the command line asks for.

    Raises:
        UserError: a number that is not possible, or a flag that the sweep itself has to set.
    """
    for name in ("parallel", "max_runs"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise UserError(f"--{name} {value} is not possible: it must be positive")
    if options.seed < 0:
        raise UserError(f"--seed {options.seed} is not possible: it must be 0 or more")
    name = options.experiment_name or f"sweep_{options.file.stem}"
    if name in ("", "..") or Path(name).name != name:
        raise UserError(f"--experiment_name '{name}' must be a plain folder name, without slashes")
    try:
        glue_flags = shlex.split(options.glue_flags)
    except ValueError as error:
        raise UserError(f"--glue_flags {options.glue_flags!r} are no flags: {error}; close the quote") from error
    if glue_flags and options.glue is None:
        raise UserError("--glue_flags are for fine-tuning; name its file, too: --glue configs/glue/paper.yaml")
    if options.glue is not None and sweep.program.name != PRETRAINING:
        raise UserError(f"--glue is for sweeps of {PRETRAINING}; {sweep.path} runs {sweep.program.name} itself")
    in_file = [*sweep.words, *(f"--{parameter.name}" for parameter in sweep.parameters)]
    own = own_flags([*in_file, *flags, *glue_flags])
    if own == "plan":
        raise UserError("--plan trains nothing, so that there is nothing to compare; leave it out of a sweep")
    if own is not None:
        raise UserError(f"--{own} of a point is set by the sweep; leave it out, and use the sweep's own --output_dir")
    check_swept(sweep, flags)
    glue = None if options.glue is None else ("--config", options.glue, *glue_flags)
    return Task(sweep, tuple(flags), glue, name)


def announce(task: Task, folder: SweepFolder, total: int, left: int, parallel: int, available: list[str]) -> None:
    """The plan, before the first point."""
    sweep = task.sweep
    swept = "  ".join(f"{p.name} ({len(p.values)} values)" if p.values else p.name for p in sweep.swept)
    logger.info("sweep          %s, %s search, to %s %s", sweep.path, sweep.method, sweep.goal, sweep.metric)
    logger.info("parameters     %s", swept)
    logger.info("points         %d, %d of them finished", total, total - left)
    logger.info("each           %s", f"{PROGRAMS[0]}, then {PROGRAMS[1]}" if task.glue else sweep.program.name)
    gpus = f", a GPU each of {len(available)}" if len(available) > 1 else ""
    logger.info("at a time      %d on %d CPU cores%s", parallel, cores(), gpus)
    logger.info("folder         %s\n", folder.path)


def finish(sweep: Sweep, folder: SweepFolder) -> None:
    """Table, page and picture; failed points by name.

    Raises:
        SystemExit: some points failed.
    """
    results = list(folder.results.values())
    failures = [folder.failures[number] for number in sorted(folder.failures)]
    if results:
        groups, metrics = group_points(sweep, results), shown_metrics(sweep, results)
        table, best = make_table(sweep, groups, metrics), best_line(sweep, groups)
        page = as_markdown(sweep, folder.path.name, table, best, failures, "results.svg")
        write_file(page.encode(), folder.path / "results.md")
        panels = make_panels(sweep, groups, metrics)
        columns = len(sweep.axes) if len(sweep.axes) > 1 else min(3, len(panels))
        picture = draw(panels, columns, folder.path.name)
        write_file(picture.encode(), folder.path / "results.svg")
        logger.info("\n%s\n\n%s", as_text(table), best)
        files = (str(folder.path / f"results.{kind}") for kind in ("md", "svg", "jsonl"))
        logger.info("\nresults        %s", "  ".join(files))
    for failure in failures:
        where = f"{failure.stage}, {failure.how}, {failure.log}"
        logger.info("\nfailed         %s in %s", failure.name, where)
        logger.info("%s", "\n".join(f"  {line}" for line in failure.last_lines))
    if failures:
        logger.info("\n%d of the points failed; the same command goes on with their checkpoints", len(failures))
        sys.exit(FAILED_EXIT_CODE)


if __name__ == "__main__":
    run_script(main)
