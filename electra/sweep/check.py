"""Asks the scripts' own parsers, before anything starts, whether they accept the points of a sweep."""

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any

from electra.io.errors import UserError
from electra.report.runs import FIXED
from electra.sweep.definition import PRETRAINING, Sweep, check_one_of
from electra.sweep.runner import Task, script_flags

_OWN = ("output_dir", "experiment_name", "resume_from_checkpoint", "auto_resume", "plan")
_QUIET = ("report_to", "disable_tqdm")
_MASKS = ("objective", "mlm_probability", "mlm_replacement_probability", "mlm_random_probability")
_TRAINING = {
    *("segment_policy", "hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range", "initialization")
}
"""Options of the compared groups that change the training but not the task that the metric measures."""


def check_task(task: Task) -> tuple[str, ...]:
    """`check_flags`, then `check_points` in another process: parsers import torch, which the sweep does not need."""
    check_flags(task)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(check_points, task).result()


def check_flags(task: Task) -> None:
    """Refuse flags that the sweep sets itself, and swept options that another flag would override."""
    sweep, swept = task.sweep, {parameter.name for parameter in task.sweep.swept}
    given = _names([*sweep.words, *task.flags, *(task.glue or ())])
    for name in [*given, *(parameter.name for parameter in sweep.parameters)]:
        if name in _OWN or name in swept.intersection(_QUIET):
            raise UserError(f"--{name} does not work in a sweep, which sets the options of its points; remove it")
    for flag in _names(task.flags):
        if swept & {flag, "lowercase" if flag == "cased" else flag.removeprefix("no_")}:
            raise UserError(f"--{flag} is swept by {sweep.path}; remove it after -- or from the file")


def _names(words: Sequence[str]) -> list[str]:
    """The names of the flags among the words, with underscores."""
    return [w.partition("=")[0].replace("-", "_").removeprefix("__") for w in words if w.startswith("--")]


def check_points(task: Task) -> tuple[str, ...]:
    """Parse the flags of all points and check the metric; see `differing_options` for the result."""
    sweep = task.sweep
    commands = [script_flags(task, values) for values in probes(sweep)]
    try:
        known = parse_all(sweep.program.name, commands)
        if task.glue is not None:
            known += parse_all("run_glue.py", [["--pretrain_path", "point", *task.glue]])
        is_of_text = sweep.metric.startswith("eval/") or (sweep.metric.startswith("train/") and "loss" in sweep.metric)
        differing = differing_options(commands, sweep.metric) if is_of_text else ()
        check_one_of(sweep.metric, known, "metric of these runs")
    except UserError as error:
        raise UserError(f"{sweep.path}: {error}") from error
    if sweep.method == "bayes" and differing:
        raise UserError(
            f"{sweep.path}: {replace(sweep, differing=differing).not_comparable}; choose method random or grid, or a "
            "metric of --glue: AVG or median/TASK"
        )
    return differing


def probes(sweep: Sweep) -> list[dict[str, object]]:
    """Points with each of the parameters' probes at least once."""
    first = {p.name: p.probes[0] for p in sweep.parameters}
    return [first, *({**first, p.name: value} for p in sweep.parameters for value in p.probes[1:])]


def parse_all(program: str, commands: Sequence[Sequence[str]]) -> list[str]:
    """Parse command lines with the script's own parser; returns the names of the metrics that these runs log."""
    parse = _pretraining_metrics if program == PRETRAINING else _glue_metrics
    return list(dict.fromkeys(name for argv in commands for name in parse(list(argv))))


def _pretraining_metrics(argv: list[str]) -> list[str]:
    from electra.objectives import OBJECTIVES
    from electra.pretraining.metrics import fixed_names, rows_of, training_names
    from electra.pretraining.options import parse_arguments

    args = parse_arguments(argv)
    training = [f"train/{name}" for name in training_names(OBJECTIVES[args.objective.objective])]
    if not args.evaluates:
        return training
    fixed = fixed_names() if args.segments.eval_corruption else ()
    return [
        *(f"eval/{name}" for name in (*(name for name, _ in rows_of(OBJECTIVES[args.objective.objective])), *fixed)),
        *training,
    ]


def _glue_metrics(argv: list[str]) -> list[str]:
    from electra.tasks.glue.task import parse_arguments
    from electra.tasks.glue.tasks import AVG_TASKS

    tasks = parse_arguments(argv).options.tasks
    return [*(f"median/{task}" for task in tasks), *(["AVG"] if set(AVG_TASKS) <= set(tasks) else [])]


def differing_options(commands: Sequence[Sequence[str]], metric: str) -> tuple[str, ...]:
    """Options that differ between these command lines of run_pretraining.py and change what a metric measures.

    For every metric these are text, tokenizer, length and masks. A discriminator is evaluated on the samples of its
    own generator, so the options of networks and objective count, too; on a fixed corrupted test set, only its file
    counts. Options of the training do not.
    """
    from electra.backbones import UNIFORM
    from electra.objectives import objective_of
    from electra.pretraining.options import parse_arguments

    is_of_generator = metric.partition("/")[2].startswith(("generator_loss", "masked_accuracy"))
    points: list[dict[str, Any]] = []
    for argv in commands:
        args = parse_arguments(list(argv))
        if metric.startswith(f"eval/{FIXED}_"):
            points.append({"eval_corruption": args.segments.eval_corruption})
            continue
        objective, generator_type = args.objective.objective, args.model.generator_type
        asked = {name: getattr(args.objective, name) for name in _MASKS}
        asked |= {"generator_type": generator_type, "eval_seed": args.training.eval_seed}
        groups: list[Any] = [args.corpus, args.tokenizer_path, args.tokenizer, args.segments]
        if objective_of(objective, generator_type == UNIFORM).has_generator and not is_of_generator:
            groups += [args.model, args.objective]
        points.append(asked | {name: value for group in groups for name, value in vars(group).items()})
    names = dict.fromkeys(name for point in points for name in point if name not in _TRAINING)
    return tuple(name for name in names if any(point.get(name) != points[0].get(name) for point in points))
