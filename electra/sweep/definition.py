"""A sweep file, checked: which script, which parameters, how points are chosen, what they are judged by. No torch.

The file is wandb's (`wandb sweep FILE` takes it, too). What its service offers and this does not is refused, rather
than left out: early termination, schedulers, several metrics.
"""

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from electra.errors import UserError
from electra.sweep.parameters import Parameter, read_parameter

ROOT = Path(__file__).parents[2]
PROGRAMS = ("run_pretraining.py", "run_glue.py")
METHODS = ("grid", "random", "bayes")
GOALS = ("minimize", "maximize")
_USED = ("program", "method", "metric", "parameters", "command", "run_cap")
_IGNORED = ("name", "description", "project", "entity", "apiVersion", "kind")
_REFUSED = ("early_terminate", "scheduler", "metrics", "controller", "job", "image_uri")
_BEFORE_PROGRAM = ("${env}", "${interpreter}")


YAML_ERRORS = (yaml.YAMLError, ValueError, ArithmeticError, RecursionError)
"""Of a text that is no YAML; ValueError: dates that do not exist, other encodings than UTF-8."""


class _Loader(yaml.SafeLoader):
    """Refuses a name that stands twice, of which YAML would keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"]
        twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
        if twice is not None:
            raise yaml.constructor.ConstructorError(problem=f"{twice} stands twice", problem_mark=node.start_mark)
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        return found


@dataclass(frozen=True)
class Sweep:
    """What a sweep file says.

    Args:
        path: the file.
        program: path of the script.
        method: of `METHODS`.
        metric: what points are judged by, by its name in wandb.
        goal: of `GOALS`.
        parameters: by the file's order.
        words: flags that stand in the file's command.
        run_cap: most points there may be, None for no limit.
        content: the part of the file that decides what points are and what they mean.
    """

    path: Path
    program: Path
    method: str
    metric: str
    goal: str
    parameters: tuple[Parameter, ...]
    words: tuple[str, ...]
    run_cap: int | None
    content: dict[str, Any]

    @property
    def swept(self) -> tuple[Parameter, ...]:
        """Parameters that differ from point to point."""
        return tuple(p for p in self.parameters if p.is_swept)

    @property
    def axes(self) -> tuple[Parameter, ...]:
        """What results are laid out by: `seed` gives a point its repetitions, unless nothing else is swept."""
        return tuple(p for p in self.swept if p.name != "seed") or self.swept


def read_sweep(path: Path) -> Sweep:
    """Read and check a sweep file; whether the script knows its parameters is asked in check.py.

    Raises:
        UserError: in one line, what is wrong with the file.
    """
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except OSError as error:
        raise UserError(f"cannot read the sweep file {path}: {error.strerror}") from error
    except YAML_ERRORS as error:
        raise UserError(f"{path} is not valid YAML: {error}") from error
    if not isinstance(content, dict):
        raise UserError(f"{path} must hold program, method, metric and parameters; got {type(content).__name__}")
    try:
        return _checked(path, content)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def _checked(path: Path, content: dict[str, Any]) -> Sweep:
    for key in content:
        if key in _REFUSED:
            raise UserError(f"{key} works with wandb's own service only; remove it, or use `wandb sweep {path}`")
        _one_of(key, (*_USED, *_IGNORED, *_REFUSED), "key")
    _one_of(content.get("method"), METHODS, "method")
    metric = content.get("metric")
    if not isinstance(metric, dict) or not isinstance(metric.get("name"), str):
        raise UserError(
            f"a {content['method']} search needs a metric, such as 'metric: {{name: eval/discriminator_auc, "
            f"goal: maximize}}'; got {metric!r}"
        )
    _one_of(metric.get("goal", "minimize"), GOALS, "goal of the metric")
    parameters = content.get("parameters")
    if not isinstance(parameters, dict) or not parameters:
        raise UserError(f"parameters must map options of the script to their values; got {parameters!r}")
    read = tuple(read_parameter(str(name), spec) for name, spec in parameters.items())
    if content["method"] == "grid":
        uncounted = [p.name for p in read if p.values is None]
        if uncounted:
            raise UserError(f"a grid needs values for every parameter; {uncounted[0]} has a continuous distribution")
    if not any(p.is_swept for p in read):
        raise UserError("every parameter has one value only; give one of them several")
    run_cap = content.get("run_cap")
    if run_cap is not None and (type(run_cap) is not int or run_cap < 1):
        raise UserError(f"run_cap must be a whole number above 0; got {run_cap!r}")
    return Sweep(
        path=path,
        program=_program(content.get("program")),
        method=content["method"],
        metric=metric["name"],
        goal=metric.get("goal", "minimize"),
        parameters=read,
        words=_words(content.get("command")),
        run_cap=run_cap,
        content={key: content[key] for key in _USED if key in content and key != "run_cap"},
    )


def _one_of(value: Any, known: tuple[str, ...], what: str) -> None:
    if value not in known:
        near = difflib.get_close_matches(str(value), known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"choose from {' '.join(known)}"
        raise UserError(f"unknown {what} {value}; {hint}" if value is not None else f"no {what}; {hint}")


def _program(program: Any) -> Path:
    """The script: as named from here, or else the one of this project."""
    if not isinstance(program, str) or Path(program).name not in PROGRAMS:
        raise UserError(f"program must be {' or '.join(PROGRAMS)}; got {program!r}")
    found = [path for path in (Path(program), ROOT / program) if path.is_file()]
    if not found:
        raise UserError(f"program {program} is not there; start from the folder it is in")
    return found[0].resolve()


def _words(command: Any) -> tuple[str, ...]:
    """Flags of a file's own `command`; wandb's macros stand for what is put together here anyway."""
    if command is None:
        return ()
    if not isinstance(command, list) or "${program}" not in command:
        raise UserError("command must be a list such as [${env}, ${interpreter}, ${program}, --bf16, ${args}]")
    start = command.index("${program}")
    words = [str(word) for word in command[start + 1 :] if word != "${args}"]
    strange = [w for w in (*command[:start], *words) if "${" in str(w) and w not in _BEFORE_PROGRAM]
    if strange:
        raise UserError(f"command: {strange[0]} works with `wandb agent` only; use ${{args}}")
    return tuple(words)
