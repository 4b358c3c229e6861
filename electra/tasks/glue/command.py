"""The command `electra glue`, as a file run_glue.py: its options."""

import json
import sys
from dataclasses import replace
from typing import Any

from electra.finetuning.config import HYPERPARAMETERS, Arguments, EncoderArguments
from electra.io.console import setup_logging
from electra.io.errors import UserError
from electra.io.files import CONFIGS
from electra.options import CommandLine, Values, as_flags
from electra.tasks.glue.options import GlueArguments, GlueTuningArguments
from electra.tasks.glue.tasks import KNOWN_TASKS, task_by_name

DEMO = CONFIGS / "glue" / "demo.yaml"
TASK_OPTIONS = {*HYPERPARAMETERS, "double_unordered"}
"""Options that `--task_overrides` may set."""
GLUE_GROUPS = (EncoderArguments, GlueArguments, GlueTuningArguments)


def parse_glue_arguments(argv: list[str] | None) -> Arguments:
    """Parse and check the command line. `--tasks demo` without `--config` uses configs/glue/demo.yaml."""
    argv = list(sys.argv[1:] if argv is None else argv)
    command_line = CommandLine(GLUE_GROUPS, "Fine-tune an encoder on GLUE and score it.")
    encoder, glue, tuning = command_line.parse(argv, default_config=_default_config)
    glue = replace(
        glue,
        tasks=_task_names(glue.tasks),
        start_from_mnli=_task_names(glue.start_from_mnli),
    )
    if not set(glue.start_from_mnli) <= set(glue.tasks) - {"mnli"}:
        raise UserError(f"--start_from_mnli {' '.join(glue.start_from_mnli)}: name tasks of --tasks, without mnli")
    overrides = _overrides(glue.task_overrides, command_line.flags)
    # Also if empty: otherwise the default overrides would apply when this file is used as --config.
    record = {**command_line.record, "task_overrides": overrides}
    return Arguments(encoder, glue, tuning, record, overrides)


def _default_config(flags: Values) -> str | None:
    """Return the file of the demonstration, which needs no data."""
    is_demo = _task_names(flags.get("tasks", [])) == ["demo"]
    return str(DEMO) if is_demo else None


def _task_names(names: list[str]) -> list[str]:
    """Return task names in the order of GLUE's tables, without repetitions. A word may hold several, with commas."""
    words = ",".join(names).split(",")
    chosen = {task_by_name(word).name for word in words if word}
    return [name for name in KNOWN_TASKS if name in chosen]


def _overrides(text: str, flags: frozenset[str]) -> dict[str, dict[str, Any]]:
    """Parse `--task_overrides`, with the checks of the options. Flags of the command line take precedence."""
    try:
        mapping = {name: dict(chosen) for name, chosen in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f'--task_overrides {text} must look like {{"rte": {{"learning_rate": 2e-5}}}}') from error
    overrides = {}
    for name, chosen in mapping.items():
        if unknown := set(chosen) - TASK_OPTIONS:
            raise UserError(f"--task_overrides of {name}: {min(unknown)} cannot differ by task; remove it")
        _, glue, tuning = CommandLine(GLUE_GROUPS, "").parse(as_flags(chosen))
        values = {**vars(glue), **vars(tuning)}
        given = {option for option, value in chosen.items() if value is not None} - flags
        if given:
            overrides[task_by_name(name).name] = {option: values[option] for option in given}
    return overrides


def main(argv: list[str] | None = None) -> None:
    setup_logging()
    args = parse_glue_arguments(argv)
    from electra.finetuning.runner import evaluate  # takes seconds: help and errors of the options come before
    from electra.tasks.glue.submission import submit
    from electra.tasks.glue.task import open_tasks

    evaluation = evaluate(args, open_tasks(args), "glue")
    if evaluation is not None and args.options.predict_test != "none":
        submit(evaluation)
