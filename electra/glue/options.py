"""The options of a GLUE evaluation as values: parsed, checked, and what differs from task to task."""

import json
import logging
import os
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from electra.command_line import CommandLine
from electra.errors import UserError
from electra.finetuning.protocol import options
from electra.finetuning.trainer import Hyperparameters
from electra.finetuning_arguments import ClassificationArguments, EncoderArguments, GlueArguments
from electra.glue.tasks import TASKS, task_by_name

logger = logging.getLogger(__name__)

CONFIGS = Path(__file__).parents[2] / "configs" / "glue"
DEMO = CONFIGS / "demo.yaml"
GROUPS = (EncoderArguments, GlueArguments, ClassificationArguments)
TASK_OPTIONS = {f.name for f in fields(Hyperparameters)} | {"double_unordered"}
"""Options that may differ by task: what a run is, not how it is computed."""


@dataclass(frozen=True)
class Arguments(options.Arguments[GlueArguments]):
    """All options of a GLUE evaluation."""

    @property
    def glue(self) -> GlueArguments:
        return self.options


def parse_arguments(argv: list[str] | None = None) -> Arguments:
    """The options; those of configs/glue/demo.yaml for `--tasks demo` without a configuration."""
    argv = list(sys.argv[1:] if argv is None else argv)
    command_line = CommandLine(GROUPS, "Fine-tune an encoder on GLUE and score it.")
    encoder, glue, tuning = command_line.parse(argv)
    if command_line.value_of("config", argv) is None and _task_names(glue.tasks, "--tasks") == ["demo"]:
        encoder, glue, tuning = command_line.parse(argv, str(DEMO))
    glue.tasks = _task_names(glue.tasks, "--tasks")
    glue.start_from_mnli = _task_names(glue.start_from_mnli, "--start_from_mnli") if glue.start_from_mnli else []
    not_after = [name for name in glue.start_from_mnli if name in ("mnli", "demo")]
    if not_after:
        raise UserError(f"--start_from_mnli {not_after[0]} is not possible: name tasks other than mnli and demo")
    idle = [name for name in glue.start_from_mnli if name not in glue.tasks]
    if idle:
        raise UserError(f"--start_from_mnli {idle[0]}: that task is not run; add it to --tasks")
    if glue.glue_dir is not None:
        if not glue.glue_dir:
            raise UserError("--glue_dir is empty; name a folder, or leave it out to load from the Hub")
        glue.glue_dir = os.path.expanduser(glue.glue_dir)
    overrides = _overrides(glue.task_overrides, command_line.flags)
    # Also without any, or else reading the file back would bring the default ones in.
    effective = {**command_line.effective, "task_overrides": overrides}
    return Arguments(encoder, glue, tuning, effective, overrides)


def _task_names(names: list[str], option: str) -> list[str]:
    """The tasks in the order of GLUE's tables, each once; they may be written in one word, with commas."""
    words = [word for name in names for word in name.split(",") if word]
    if not words:
        raise UserError(f"{option} names no task; choose from {' '.join(TASKS)}")
    chosen = {task_by_name(word).name for word in words}
    return [name for name in TASKS if name in chosen]


def _overrides(text: str, flags: set[str]) -> dict[str, dict[str, Any]]:
    """`--task_overrides`, checked as options are; what is a flag on the command line is above it.

    Raises:
        UserError: not a mapping from tasks to options, an unknown one, or a value that is not possible.
    """
    try:
        mapping = json.loads(text)
    except ValueError as error:
        raise UserError(f"--task_overrides {text} is not a mapping from tasks to options: {error}") from error
    if not isinstance(mapping, dict) or not all(isinstance(chosen, dict) for chosen in mapping.values()):
        raise UserError(f'--task_overrides {text} must be like {{"rte": {{"learning_rate": 2e-5}}}}')
    overrides: dict[str, dict[str, Any]] = {}
    for name, chosen in mapping.items():
        unknown = [option for option in chosen if option not in TASK_OPTIONS]
        if unknown:
            raise UserError(
                f"--task_overrides of {name}: {unknown[0]} is not an option that can differ by task; those are "
                f"{' '.join(sorted(TASK_OPTIONS))}"
            )
        chosen = {option: value for option, value in chosen.items() if value is not None}  # null: not set
        words = [f"--{option}={str(v).lower() if isinstance(v, bool) else v}" for option, v in chosen.items()]
        try:
            _, glue, tuning = CommandLine(GROUPS, "").parse(words)
        except UserError as error:
            raise UserError(f"--task_overrides of {name}: {error}") from error
        values = {**vars(glue), **vars(tuning)}
        kept = {option: values[option] for option in chosen if option not in flags}
        if kept:
            overrides[task_by_name(name).name] = kept
    return overrides
