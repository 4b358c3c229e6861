"""Check the command lines of a sweep before its first point is trained, in a process of its own.

Parsing the options of a run may take memory of the GPU, which a process keeps until it ends.

    standard input    JSON: name of a point -> verb -> words of its command line
    standard output   JSON: the options of GLUE on which scores depend
    exit code 2       one line on standard error says which point would fail, and why
"""

import json
import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from electra.finetuning.config import Arguments, FineTuningArguments
from electra.finetuning.export import check_can_save
from electra.io.console import without_secrets
from electra.io.errors import UserError, run_script
from electra.options import rules_of
from electra.pretraining.options import parse_pretraining_arguments as parse_pretraining
from electra.runtime.tracking import check_trackers
from electra.tasks.glue.command import parse_glue_arguments as parse_glue
from electra.tasks.glue.task import read_test_rows
from electra.tasks.glue.tasks import KNOWN_TASKS

Lines = Mapping[str, Mapping[str, Sequence[str]]]
"""Name of a point -> verb -> words of its command line."""


def main() -> None:
    logging.getLogger("electra").setLevel(logging.ERROR)
    options = check_all(json.load(sys.stdin))
    print(json.dumps(options, default=str))  # noqa: T201 - the answer to the process that started this one


def check_all(lines: Lines) -> dict[str, Any]:
    """Parse all command lines, and read the data of each GLUE task once; return the options of GLUE."""
    options: dict[str, Any] = {}
    read: dict[tuple[str, str | None], bool] = {}
    for name, commands in lines.items():
        for verb, words in commands.items():
            try:
                if verb == "pretrain":
                    check_trackers(parse_pretraining([*words]).training.report_to)
                else:
                    args = parse_glue([*words])
                    check_glue(args, read)
                    options = score_options(args)
            except (UserError, OSError) as error:
                raise UserError(f"{name} would fail: {error}") from error
    return options


def check_glue(args: Arguments, read: dict[tuple[str, str | None], bool]) -> None:
    """Refuse what an evaluation would refuse when its network is there; `read` has the tasks that were read before."""
    check_can_save(args)
    check_trackers(args.tuning.report_to)
    options = args.options
    names = [*options.tasks, *(["mnli"] if options.start_from_mnli else [])]
    for name in names:
        key = (name, options.glue_dir)
        if key not in read:
            read[key] = read_test_rows(KNOWN_TASKS[name], options.glue_dir, is_predicted=False) is not None
    missing = [name for name in names if not read[name, options.glue_dir]]
    if len(missing) == len(names) or (options.start_from_mnli and "mnli" in missing):
        raise UserError(f"--glue_dir {options.glue_dir} has no data of {' '.join(missing)}")


def score_options(args: Arguments) -> dict[str, Any]:
    """Return the options of an evaluation that are the same for all points and decide on its scores."""
    free = {"pretrain_path", "experiment_name", "output_dir", "plan", "save_model"}
    free |= {f.name for f in fields(FineTuningArguments) if not rules_of(f).changes_score}
    return {name: value for name, value in without_secrets(args.record).items() if name not in free}


if __name__ == "__main__":
    run_script(main)
