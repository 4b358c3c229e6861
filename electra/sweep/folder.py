"""The folder of a sweep: its settings and its finished points; and the check of the points before the first one runs.

settings.yaml        what the points depend on, without secrets
POINT.json           swept values and metrics of a finished point
POINT/               the run of a point
glue/POINT/          the evaluation of a point on GLUE, with --glue
logs/                what the processes of the points print
results.csv          a row per point
report.md, .html     a row per point, all seeds in one row; the metric over each parameter
"""

import hashlib
import json
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from filelock import BaseFileLock, FileLock, Timeout

from electra.data.corpus import content_hashes, find_files
from electra.finetuning.config import Arguments, FineTuningArguments
from electra.finetuning.saved import check_can_save
from electra.io.checkpoints import MANIFEST_NAME
from electra.io.console import SECRET, without_secrets
from electra.io.errors import UserError, run_script
from electra.io.files import (
    YAML_ERRORS,
    absolute,
    config_path,
    read_as_written,
    read_json,
    read_yaml,
    split_name,
    write_as_yaml,
    write_file,
)
from electra.options import rules_of
from electra.pretraining.configuration import Configuration
from electra.pretraining.options import parse_pretraining_arguments as parse_pretraining
from electra.report.results import RESULTS_NAME
from electra.runtime.tracking import check_trackers
from electra.sweep.file import Sweep, options_in
from electra.tasks.glue.data import task_data_settings
from electra.tasks.glue.task import parse_glue_arguments as parse_glue
from electra.tasks.glue.task import read_splits
from electra.tasks.glue.tasks import KNOWN_TASKS

SETTINGS_NAME = "settings.yaml"
"""File of a sweep with what its points depend on."""
Point = dict[str, Any]
"""A finished point: swept values and metrics by name."""


# ---- points


def point_path(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"


def read_point(path: Path, sweep: Sweep) -> Point:
    """Return the point of a file POINT.json; raise a UserError if the file is damaged, or of another sweep."""
    point = read_json(path)
    is_point = isinstance(point, dict) and point.keys() >= {*sweep.swept}
    metrics = {name: value for name, value in point.items() if name not in sweep.swept} if is_point else {"": ""}
    for name, value in metrics.items():
        if isinstance(value, bool) or not isinstance(value, int | float | None):
            raise UserError(
                f"{path} is no point of this sweep: {name or 'a parameter'} is not as a finished point has it; remove "
                "the file, and the point's run is read again"
            )
    return point


def read_points(folder: Path, sweep: Sweep) -> list[Point]:
    """Return all finished points in a folder, in the order of their names."""
    return [read_point(path, sweep) for path in sorted(folder.glob("*.json"))]


def has_glue(point: Mapping[str, Any]) -> bool:
    """Return True if a point has scores of GLUE."""
    return any(name.startswith("median/") for name in point)


# ---- settings


def settings_of(
    sweep: Sweep, flags: Sequence[str], glue: Mapping[str, Any] | None, data: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Any]:
    """Return the settings on which the points of a sweep depend, without secrets.

    Args:
        glue: the options of GLUE on which scores depend; None without --glue.
        data: hash of each input by its path, see `Checked`.
    """
    parameters = {name: "..." if SECRET.search(name) else entry for name, entry in sweep.parameters.items()}
    before = options_in(sweep.words_before)
    after = options_in(sweep.words_after)
    given = options_in(flags)
    entry = sweep.parameters.get("config", {})
    named = [
        *entry.get("values", [entry.get("value")]),
        before.get("config"),
        after.get("config"),
        given.get("config"),
    ]
    return {
        "program": sweep.program,
        "method": sweep.method,
        "metric": {"name": sweep.metric, "goal": sweep.goal},
        "parameters": parameters,
        "command": {"before": before, "after": after},
        "flags": given,
        "configs": {name: _options_of(name) for name in named if isinstance(name, str)},
        "glue": glue,
        "data": dict(data),
    }


def _options_of(config: str) -> dict[str, Any]:
    """Return the options of a --config file, which can be read: the check of the points has read it before."""
    return without_secrets(read_as_written(config_path(config).read_text(encoding="utf-8")) or {})


def claim(folder: Path, sweep: Sweep, settings: Mapping[str, Any]) -> BaseFileLock:
    """Make the folder of a sweep or go on in it, write the settings, and return the folder's lock.

    Settings may change as long as nothing depends on them: those of GLUE until there is a result of GLUE, those of
    points until a point has a run, the metric unless a Bayesian search has learned from it. A grid may get more
    values.

    Raises:
        UserError: the folder has other files, is in use, or has results of other settings.
    """
    path = folder / SETTINGS_NAME
    others = [entry for entry in _visible(folder) if entry.name != "logs"]
    if others and not path.is_file():
        raise UserError(f"{folder} holds other files, or has lost its {SETTINGS_NAME}; choose another --folder")
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise UserError(
            f"{folder} is used by another process; wait for it, stop it, or choose another --folder"
        ) from None
    if path.is_file():
        _check_settings(folder, sweep, _read_settings(path), settings)
    write_file(write_as_yaml(dict(settings)).encode(), path)
    (folder / "logs").mkdir(exist_ok=True)
    return lock


def _visible(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if not path.name.startswith(".")] if folder.is_dir() else []


def _read_settings(path: Path) -> dict[str, Any]:
    try:
        return dict(read_yaml(path.read_text(encoding="utf-8")))
    except (TypeError, *YAML_ERRORS) as error:
        raise UserError(f"{path} cannot be read: {error}; restore the file, or choose another --folder") from error


def _check_settings(folder: Path, sweep: Sweep, then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise a UserError if a setting differs from one on which results in the folder depend."""
    points = read_points(folder, sweep) if then.get("parameters") == now["parameters"] else []
    bound: set[str] = set()
    if any(path.suffix == ".json" or (path.is_dir() and path.name != "logs") for path in _visible(folder)):
        bound = now.keys() - {"metric", "glue", "data"}
        _check_data(folder, then.get("data") or {}, now["data"])
    evaluations = (folder / "glue").glob(f"*/{RESULTS_NAME}")
    if any(map(has_glue, points)) or any(os.path.getsize(results) for results in evaluations):
        bound.add("glue")
    metric = then.get("metric")
    if sweep.method == "bayes" and isinstance(metric, dict) and any(metric.get("name") in point for point in points):
        bound.add("metric")
    now = read_yaml(write_as_yaml(dict(now)))  # as it is read back
    if sweep.method == "grid":
        then = _extended(then, now)
    for name in (name for name in now if name in bound):
        for option, old, new in _differences(then.get(name), now[name], name):
            raise UserError(
                f"{folder} has results of a sweep with other settings: {option} is {_shown(old)} there and "
                f"{_shown(new)} here; restore the setting, or choose another --folder"
            )


def _check_data(folder: Path, then: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Raise a UserError if an input of the points has another content now; points may have come or gone.

    A name that means another file in another working directory is another input, too.
    """
    others = [name for name, content in then.items() if now.get(name, content) != content]
    if then and then.keys().isdisjoint(now):
        others += [name for name, content in now.items() if content not in then.values()]
    if others:
        raise UserError(
            f"{folder} has results of other data: {others[0]} is not what it was; restore the file, or choose another "
            "--folder"
        )


def _extended(then: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return the old settings of a grid with the new values of each parameter that has all old values and more.

    A point is named after its values, so the points that are there stay points of the grid.
    """
    parameters = then.get("parameters")
    configs = then.get("configs")
    if not isinstance(parameters, dict) or not isinstance(configs, dict):
        return dict(then)
    found = dict(parameters)
    for name, entry in parameters.items():
        lists = [of.get("values") if isinstance(of, dict) else None for of in (entry, now["parameters"].get(name))]
        old, new = ([*map(json.dumps, values)] if isinstance(values, list) else [] for values in lists)
        if old and {*old} <= {*new}:
            found[name] = {**entry, "values": lists[1]}
    return {**then, "parameters": found, "configs": {**now["configs"], **configs}}


def _differences(then: Any, now: Any, name: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield name, old and new value of each setting that differs; entries of mappings are settings of their own."""
    if isinstance(then, dict) and isinstance(now, dict):
        for key in dict.fromkeys([*now, *then]):
            yield from _differences(then.get(key), now.get(key), f"{name}.{key}")
    elif then != now:
        yield name, then, now


def _shown(value: Any) -> str:
    text = "not set" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# ---- checking the command lines of all points, in a process of its own

# Parsing the options of a run may take memory of the GPU, which a process keeps until it ends.
#
#     standard input    JSON: name of a point -> verb -> words of its command line
#     standard output   JSON: a `Checked` as a list
#     exit code 2       one line on standard error says which point would fail, and why


Lines = Mapping[str, Mapping[str, Sequence[str]]]
"""Name of a point -> verb -> words of its command line."""


def main() -> None:
    logging.getLogger("electra").setLevel(logging.ERROR)
    print(json.dumps(check_all(json.load(sys.stdin)), default=str))  # noqa: T201 - the answer to the parent


class Checked(NamedTuple):
    """The result of checking all points.

    Args:
        glue: options of GLUE on which scores depend; {} without GLUE.
        data: hash of the content of each input that is a file or folder here, by its absolute path.
    """

    glue: dict[str, Any]
    data: dict[str, str]


def check_all(lines: Lines) -> Checked:
    """Check all command lines, and read the data of each GLUE task and each text once."""
    options: dict[str, Any] = {}
    data: dict[str, str] = {}
    read: dict[tuple[str, str | None], bool] = {}
    for name, commands in lines.items():
        for verb, words in commands.items():
            try:
                if verb == "pretrain":
                    config = parse_pretraining([*words])
                    check_trackers(config.training.report_to)
                    _add_texts(config, data)
                else:
                    args = parse_glue([*words])
                    check_glue(args, read)
                    _add_inputs(args, data, is_trained_here="pretrain" in commands)
                    options = score_options(args)
            except (UserError, OSError) as error:
                where = " in --glue and --glue_flags" if verb == "glue" and "pretrain" in commands else ""
                raise UserError(f"{name} would fail{where}: {error}") from error
    return Checked(options, data)


def _add_texts(config: Configuration, data: dict[str, str]) -> None:
    """Add the hash of each text of a run to `data`, unless the text is missing, which ends the point."""
    held_out = [split_name(given)[1] for given in config.segments.validation_file]
    for entry in (*config.corpus.train_file, *held_out, config.segments.eval_corruption):
        if entry and entry not in data:
            with suppress(UserError):
                data[entry] = _hash_of(find_files(entry)[0])


def _add_inputs(args: Arguments, data: dict[str, str], *, is_trained_here: bool) -> None:
    """Add the hash of the data of each task of an evaluation to `data`, and of a network that no point has trained."""
    folder = args.options.glue_dir
    for name in args.options.tasks if folder else ():
        key = f"{absolute(folder)} {name}"
        if key not in data:
            data[key] = " ".join(task_data_settings(KNOWN_TASKS[name], folder).values())
    network = args.encoder.pretrain_path
    if network and not is_trained_here:
        run = Path(absolute(network))
        manifests = [path for path in (run / "discriminator" / MANIFEST_NAME, run / MANIFEST_NAME) if path.is_file()]
        if manifests:
            data[str(run)] = _hash_of(manifests[:1])


def _hash_of(files: Sequence[str | Path]) -> str:
    hashes = "".join(content_hashes(files).values())
    return hashlib.sha256(hashes.encode()).hexdigest()[:12]


def check_glue(args: Arguments, read: dict[tuple[str, str | None], bool]) -> None:
    """Refuse options that an evaluation would refuse; `read` has the tasks whose data were read before."""
    check_can_save(args)
    check_trackers(args.tuning.report_to)
    options = args.options
    names = [*options.tasks, *(["mnli"] if options.start_from_mnli else [])]
    for name in names:
        key = (name, options.glue_dir)
        if key not in read:
            read[key] = read_splits(KNOWN_TASKS[name], options.glue_dir, is_predicted=False) is not None
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
