"""Whether the scripts take what a sweep would give them, asked of their own parsers before anything starts.

It runs in a process of its own: the parsers import torch, and look for accelerators, which the sweep itself leaves
alone.
"""

import difflib
import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from electra.errors import UserError
from electra.sweep.definition import Sweep
from electra.sweep.stages import PRETRAINING, Task, script_flags


def check_task(task: Task) -> None:
    """Refuse what the scripts would refuse.

    Raises:
        UserError: an unknown option with the nearest name, a value that is not possible, a metric that is not logged.
    """
    sweep = task.sweep
    commands = [script_flags(task, values) for values in probes(sweep)]
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            known = pool.submit(parse_all, sweep.program.name, commands).result()
            if task.glue is not None:
                pool.submit(parse_all, "run_glue.py", [["--pretrain_path", "point", *task.glue]]).result()
        except UserError as error:
            raise UserError(f"{sweep.path}: {error}") from error
    if sweep.metric not in known:
        alike = [name for name in known if name.partition("/")[0] == sweep.metric.partition("/")[0]] or known
        near = difflib.get_close_matches(sweep.metric, alike, n=1)
        hint = f"did you mean {near[0]}?" if near else f"choose from {' '.join(alike)}"
        if sweep.metric.startswith("eval/") and not any(name.startswith("eval/") for name in known):
            hint = "they evaluate nothing: leave out --eval_strategy no and --validation_fraction 0"
        raise UserError(f"{sweep.path}: its runs log no metric {sweep.metric}; {hint}")


def probes(sweep: Sweep) -> list[dict[str, object]]:
    """Points that name each value of each parameter at least once; of continuous ones the middle and both ends."""
    first = {p.name: p.probes[0] for p in sweep.parameters}
    return [first, *({**first, p.name: value} for p in sweep.parameters for value in p.probes[1:])]


def parse_all(program: str, commands: Sequence[Sequence[str]]) -> list[str]:
    """Parse command lines of a script as it does itself, and say which metrics such runs log, by wandb's names."""
    known: dict[str, None] = {}
    for argv in commands:
        known |= dict.fromkeys(_pretraining(argv) if program == PRETRAINING else _glue(argv))
    return list(known)


def _pretraining(argv: Sequence[str]) -> list[str]:
    from electra.pretraining.options import parse_arguments
    from electra.pretraining.results import rows_of, training_names

    args = parse_arguments(list(argv))
    training = [f"train/{name}" for name in training_names(args.objective.objective)]
    if args.training.eval_strategy == "no" or not (args.segments.validation_fraction or args.segments.validation_file):
        return training
    return [*(f"eval/{name}" for name, _ in rows_of(args.objective.objective)), *training]


def _glue(argv: Sequence[str]) -> list[str]:
    from electra.glue.options import parse_arguments
    from electra.glue.tasks import AVG_TASKS

    tasks = parse_arguments(list(argv)).glue.tasks
    return [*(f"median/{task}" for task in tasks), *(["AVG"] if set(AVG_TASKS) <= set(tasks) else [])]
