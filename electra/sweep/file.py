"""A sweep file in wandb's format, checked before anything is trained; values, names and command lines of its points.

Format: docs.wandb.ai, "Sweep configuration options".
"""

import itertools
import json
import logging
import math
import re
import shlex
import sys
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Any

import regex

from electra.io.console import SECRET, hide_secrets
from electra.io.errors import UserError
from electra.io.files import YAML_ERRORS, is_encodable, read_plain

logger = logging.getLogger(__name__)


PROGRAMS = {"run_pretraining.py": "pretrain", "run_glue.py": "glue"}
"""Program that a sweep file names -> verb of the command."""
METHODS = ("grid", "random", "bayes")
"""Ways to choose the points of a sweep, by wandb's names."""
GOALS = ("minimize", "maximize")
"""Goals of a metric, by wandb's names."""
RANGES = ("int_uniform", "uniform", "log_uniform_values", "q_uniform")
"""wandb's distributions of numbers between `min` and `max`."""
ENTRIES = ("program", "method", "metric", "parameters", "command", "run_cap")
"""Entries of a sweep file that this command obeys."""
UNUSED = ("name", "description", "project", "entity")
"""Entries of a sweep file for wandb's server, which change nothing here."""
MOST_STEPS = 10**9
"""Values of a q_uniform, at most; optuna counts them in decimal numbers of 28 digits."""
MACRO = re.compile(r"\$\{(env|interpreter|program|args\w*)\}")
"""Macros in `command` that wandb's agent replaces, and in whose place this command puts its own words."""
STARTERS = ("/usr/bin/env", "python", "python3")
"""Words before the program in `command` that start an interpreter."""


@dataclass(frozen=True)
class Sweep:
    """The content of a sweep file.

    Attributes:
        program: script that runs for each point, one of `PROGRAMS`.
        parameters: option of the script -> its entry in the file, such as {"values": [1, 2]}.
        run_cap: largest number of points; None if the file has none.
        words_before, words_after: words of `command` for the script, before and after the parameters.
    """

    program: str
    method: str
    metric: str
    goal: str
    parameters: dict[str, dict[str, Any]]
    run_cap: int | None = None
    words_before: tuple[str, ...] = ()
    words_after: tuple[str, ...] = ()

    @property
    def verb(self) -> str:
        """Return the verb of the program's command: pretrain or glue."""
        return PROGRAMS[self.program]

    @property
    def swept(self) -> list[str]:
        """Return the names of the parameters that are swept, because they have no fixed value."""
        return [name for name, entry in self.parameters.items() if "value" not in entry]


def read_sweep(path: Path) -> Sweep:
    """Read a sweep file.

    Raises:
        UserError: the file cannot be read, or an entry is missing, wrong, or understood by wandb's own agent only.
    """
    try:
        content = read_plain(path.read_text(encoding="utf-8"))
    except YAML_ERRORS as error:
        raise UserError(f"{path} is not valid YAML: {error}") from error
    if not isinstance(content, dict) or not content:
        raise UserError(f"{path} is no sweep file; it needs program, method, metric and parameters")
    for name in content:
        if name not in (*ENTRIES, *UNUSED):
            raise UserError(f"{path}: {name} works with wandb's own agent only; remove it")
    program = PurePath(str(content.get("program"))).name
    if program not in PROGRAMS:
        raise UserError(f"{path}: program {program} must be {' or '.join(PROGRAMS)}")
    method = content.get("method")
    if method not in METHODS:
        raise UserError(f"{path}: method {method} must be {', '.join(METHODS)}")
    metric = content.get("metric")
    if not isinstance(metric, dict) or not isinstance(metric.get("name"), str):
        raise UserError(f"{path}: metric {metric} must be a mapping such as {{name: AVG, goal: maximize}}")
    goal = metric.get("goal", "minimize")
    if goal not in GOALS:
        raise UserError(f"{path}: goal {goal} of the metric must be {' or '.join(GOALS)}")
    for name in metric.keys() - {"name", "goal"}:
        logger.info("%s of the metric in %s is for wandb's agent and has no effect here", name, path)
    run_cap = content.get("run_cap")
    if run_cap is not None and (type(run_cap) is not int or run_cap < 1):
        raise UserError(f"{path}: run_cap {run_cap!r} must be a number of points, at least 1")
    parameters = content.get("parameters")
    if not isinstance(parameters, dict):
        raise UserError(
            f"{path}: parameters {parameters} must be a mapping from options to value, values or min and max"
        )
    for name, entry in parameters.items():
        wrong = why_wrong(name, entry, method)
        if wrong is not None:
            raise UserError(f"{path}: parameter {name} {wrong}")
    before, after = _script_words(content.get("command"), path)
    return Sweep(program, method, metric["name"], goal, parameters, run_cap, before, after)


# ---- parameters


def why_wrong(name: Any, entry: Any, method: str) -> str | None:
    """Return what is wrong with a parameter, without its values, which may be secret; None if nothing is."""
    if not isinstance(name, str):
        return "is no name of an option; put it in quotes"
    if not isinstance(entry, dict) or not entry.keys() & {"value", "values", "min", "max"}:
        return "needs value, values, or min and max"
    kind = entry.get("distribution")
    given = entry.keys() - {"distribution"}
    if given == {"value"} and kind in (None, "constant"):
        return None if _is_value(entry["value"]) else "has a value that is no option's: text, number, true, list"
    if SECRET.search(name):
        return "is secret and can only have one value; folders are named after the others"
    if given == {"values"} and kind in (None, "categorical"):
        values = entry["values"]
        if not isinstance(values, list) or not values:
            return "needs a list of values, such as [1, 2]"
        return None if _is_value(values) else "has a value that is no option's: text, number, true, list"
    needed = {"min", "max"}
    if kind == "q_uniform" and "q" in given:
        needed.add("q")
    if given != needed or kind not in (None, *RANGES):
        return (
            "must have value, or values, or min and max, with nothing beside them but a distribution of "
            f"{', '.join(RANGES)} and, for q_uniform, q"
        )
    if method == "grid":
        return "has a range, but a grid needs values"
    return _why_no_range(entry)


def _why_no_range(entry: Mapping[str, Any]) -> str | None:
    """Return what is wrong with `min`, `max` and `q` of a parameter, the end of a message; None if nothing is."""
    for bound in entry.keys() & {"min", "max", "q"}:
        if not _is_number(entry[bound]):
            return f"has {bound} {entry[bound]!r}, which must be a finite number"
    low = entry["min"]
    high = entry["max"]
    if low > high:
        return f"has min {low} above max {high}"
    if not math.isfinite(high - low):
        return f"has min {low} and max {high}, which are too far apart"
    kind = distribution_of(entry)
    if kind == "int_uniform" and not (type(low) is type(high) is int):
        return f"is int_uniform with min {low} and max {high}, which must be whole numbers"
    if kind == "log_uniform_values" and low <= 0:
        return f"has min {low}, which must be positive for log_uniform_values"
    if entry.get("q", 1) <= 0:
        return f"has q {entry['q']}, which must be positive"
    if (high - low) / entry.get("q", 1) > MOST_STEPS and kind == "q_uniform":
        return f"has q {entry.get('q', 1)}, which gives more than {MOST_STEPS:,} values"
    return None


def distribution_of(entry: Mapping[str, Any]) -> str:
    """Return the distribution of a range: as given, else of whole numbers if both ends are whole, else uniform."""
    are_whole = type(entry["min"]) is type(entry["max"]) is int
    kind: str = entry.get("distribution") or ("int_uniform" if are_whole else "uniform")
    return kind


def _is_number(value: Any) -> bool:
    """Return True for a number that is finite also as a float."""
    try:
        return type(value) in (int, float) and math.isfinite(float(value))
    except OverflowError:
        return False


def _is_value(value: Any) -> bool:
    """Return True if a command line can give an option this value: text, number, boolean, null, list or mapping."""
    if isinstance(value, list):
        return all(_is_value(one) for one in value)
    if isinstance(value, dict):
        return all(isinstance(name, str) and _is_value(one) for name, one in value.items())
    if isinstance(value, str):
        return is_encodable(value) and "\0" not in value
    return value is None or isinstance(value, bool) or _is_number(value)


# ---- command


def _script_words(command: Any, path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words for the script in wandb's `command`: those before, and those after the parameters.

    The sweep starts the program itself, so words before the program have no effect, which is logged.
    """
    if command is None:
        return (), ()
    if not isinstance(command, list) or not all(isinstance(word, str | int | float) for word in command):
        raise UserError(f"{path}: command {command} must be a list of words, as wandb's agent reads it")
    words = [str(word) for word in command]
    programs = [place for place, word in enumerate(words) if word == "${program}" or PurePath(word).name in PROGRAMS]
    end = programs[0] if programs else len(words)
    behind = words[end + 1 :]
    places = [place for place, word in enumerate(behind) if word.startswith("${args")]
    split = places[0] if places else len(behind)
    before, after = ([word for word in part if not MACRO.fullmatch(word)] for part in (behind[:split], behind[split:]))
    for word in (*before, *after):
        if "${" in word:
            raise UserError(f"{path}: {word} in command works with wandb's own agent only; write the value itself")
    unused = [word for word in words[:end] if not MACRO.fullmatch(word) and word not in STARTERS]
    parts = [("passed to the script", [*before, *after]), ("ignored", unused)]
    said = "".join(f"; {what}: {shlex.join(hide_secrets(words))}" for what, words in parts if words)
    logger.info("command in %s is for wandb's agent; here the sweep starts the program itself%s", path, said)
    return tuple(before), tuple(after)


# ---- points


SweepValues = Mapping[str, Any]
"""Values of the parameters of a point, by name."""
BEFORE_LEARNING = 10
"""Points of a Bayesian search that are drawn at random before it learns: optuna's n_startup_trials."""
LONGEST_POINT_NAME = 140
"""Bytes of a point's name, at most: file systems allow 255, endings included."""


# ---- values of points


def count_points(sweep: Sweep, max_runs: int | None) -> int | None:
    """Return the number of points of a sweep; None for a search without an end."""
    limits = [limit for limit in (sweep.run_cap, max_runs) if limit is not None]
    if sweep.method == "grid":
        limits.append(math.prod(len(sweep.parameters[name]["values"]) for name in sweep.swept))
    elif not sweep.swept:
        limits.append(1)
    return min(limits, default=None)


def propose(sweep: Sweep, total: int) -> Generator[SweepValues, float | None]:
    """Yield the values of `total` points, the same ones whenever the sweep is started.

    A Bayesian search learns from the score of each point that is sent to the generator; None for no score.
    """
    if sweep.method == "grid":
        lists = [entry.get("values", [entry.get("value")]) for entry in sweep.parameters.values()]
        for combination in itertools.islice(itertools.product(*lists), total):
            yield dict(zip(sweep.parameters, combination, strict=True))
        return
    import optuna  # only searches need the package

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    samplers = {"random": optuna.samplers.RandomSampler, "bayes": optuna.samplers.TPESampler}
    goal: Any = sweep.goal
    study = optuna.create_study(direction=goal, sampler=samplers[sweep.method](seed=0))
    for _ in range(total):
        trial = study.ask()
        score = yield {name: draw_point(trial, name, entry) for name, entry in sweep.parameters.items()}
        if sweep.method == "bayes" and score is None:  # pruned trials count as worse than all others
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        elif sweep.method == "bayes":
            study.tell(trial, score)


def draw_point(trial: Any, name: str, entry: Mapping[str, Any]) -> Any:
    """Return the value of a parameter in one of optuna's trials."""
    if "value" in entry:
        return entry["value"]
    if "values" in entry:  # optuna compares choices, and 1 equals true
        return entry["values"][trial.suggest_categorical(name, range(len(entry["values"])))]
    low = entry["min"]
    high = entry["max"]
    kind = distribution_of(entry)
    if kind == "int_uniform":
        return trial.suggest_int(name, low, high)
    step = entry.get("q", 1.0) if kind == "q_uniform" else None
    return trial.suggest_float(name, low, high, log=kind == "log_uniform_values", step=step)


def point_name(sweep: Sweep, values: SweepValues) -> str:
    """Return the name of a point and of its run folder, made of the swept options and their values."""
    swept = "_".join(f"{name}_{values[name]}" for name in sweep.swept)
    name = regex.sub(r"[^\w\p{M}.-]", "-", swept) or "point"
    if len(name.encode()) <= LONGEST_POINT_NAME:
        return name
    return f"{name.encode()[:LONGEST_POINT_NAME].decode(errors='ignore')}-{sha256(swept.encode()).hexdigest()[:8]}"


def add_point(points: dict[str, SweepValues], sweep: Sweep, values: SweepValues) -> str:
    """Add the values of a point to `points` and return its name; raise a UserError if other values have this name."""
    name = point_name(sweep, values)
    if points.setdefault(name, values) != values:
        raise UserError(f"two points would be called {name}; write their values in another way")
    return name


# ---- command lines


def options_in(words: Sequence[str]) -> dict[str, str]:
    """Return each option that a command line names with its words as text; secrets are hidden."""
    found: dict[str, str] = {}
    name = ""
    for word in hide_secrets(words):
        if word.startswith("--"):
            option, _, value = word[2:].partition("=")
            name = option.replace("-", "_")
            found[name] = value
        else:
            found[name] = f"{found.get(name, '')} {word}".strip()
    return found


def flags_of_point(values: SweepValues) -> list[str]:
    """Return values as words of a command line, in the form of wandb's agent; an option with null is left out."""
    words = []
    for name, value in values.items():
        if value is not None:
            text = json.dumps(value) if isinstance(value, dict) else value
            words.append(f"--{name}={text}")
    return words


@dataclass(frozen=True)
class Commands:
    """A maker of the command lines of points.

    Attributes:
        flags: words for the script, which override the sweep file.
        glue: words for run_glue.py, which fine-tunes each discriminator; None for no fine-tuning.
    """

    sweep: Sweep
    folder: Path
    flags: Sequence[str] = ()
    glue: Sequence[str] | None = None

    def of(self, name: str, values: SweepValues) -> dict[str, list[str]]:
        """Return verb -> command line for the point `name`, in the order in which they run."""
        electra = [sys.executable, "-m", "electra"]
        words = [*self.sweep.words_before, *flags_of_point(values), *self.sweep.words_after]
        words += ["--report_to", "none", "--disable_tqdm", *self.flags]
        words += ["--experiment_name", name, "--output_dir", str(self.folder)]
        if self.sweep.verb == "glue":
            return {"glue": [*electra, "glue", *words]}
        commands = {"pretrain": [*electra, "pretrain", *words, "--auto_resume"]}
        if self.glue is not None:
            network = ["--pretrain_path", str(self.folder / name)]
            where = ["--output_dir", str(self.folder / "glue"), "--experiment_name", name]
            commands["glue"] = [*electra, "glue", *network, *self.glue, *where]
        return commands

    def refuse_own_options(self) -> None:
        """Raise a UserError if file or flags have options that the sweep itself sets for each point."""
        own = {"experiment_name", "output_dir", "plan"}
        if self.sweep.verb == "pretrain":
            own |= {"auto_resume", "resume_from_checkpoint"}
        script = options_in([*self.sweep.words_before, *self.sweep.words_after, *self.flags])
        for name in (*self.sweep.parameters, *script):
            if name in own:
                raise UserError(f"the sweep sets --{name} itself for each point; leave it out of file and flags")
        for name in options_in(self.glue or ()):
            if name in {"experiment_name", "output_dir", "plan", "pretrain_path", "from_scratch"}:
                raise UserError(f"the sweep sets --{name} itself for each point; leave it out of --glue_flags")
