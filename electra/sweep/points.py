"""The points of a sweep: their values, their names, and the command lines that train and evaluate them."""

import itertools
import json
import math
import re
import sys
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from electra.io.console import hide_secrets
from electra.io.errors import UserError
from electra.sweep.file import Sweep, distribution_of

SweepValues = Mapping[str, Any]
"""A value for each parameter of the sweep, by name."""
BEFORE_LEARNING = 10
"""A Bayesian search draws its first points at random: optuna's n_startup_trials."""
LONGEST_NAME = 140
"""Bytes of a point's name. File systems allow 255, endings included."""


# ---- values


def count_points(sweep: Sweep, max_runs: int | None) -> int | None:
    """Return the number of points; None for a search without an end."""
    limits = [limit for limit in (sweep.run_cap, max_runs) if limit is not None]
    if sweep.method == "grid":
        limits.append(math.prod(len(sweep.parameters[name]["values"]) for name in sweep.swept))
    elif not sweep.swept:
        limits.append(1)
    return min(limits, default=None)


def propose(sweep: Sweep, total: int) -> Generator[SweepValues, float | None]:
    """Yield the values of `total` points, the same ones whenever the sweep is started.

    A Bayesian search learns from the score that is sent back for each point; None for a point without a score.
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


def name_of(sweep: Sweep, values: SweepValues) -> str:
    """Return the name of a point, which its run folder has: the swept options and their values."""
    swept = "_".join(f"{name}_{values[name]}" for name in sweep.swept)
    name = re.sub(r"[^\w.-]", "-", swept) or "point"
    if len(name.encode()) <= LONGEST_NAME:
        return name
    return f"{name.encode()[:LONGEST_NAME].decode(errors='ignore')}-{sha256(swept.encode()).hexdigest()[:8]}"


def add_point(points: dict[str, SweepValues], sweep: Sweep, values: SweepValues) -> str:
    """Add the values of a point under its name, which is returned; UserError if the name stands for other values."""
    name = name_of(sweep, values)
    if points.setdefault(name, values) != values:
        raise UserError(f"two points would be called {name}; write their values in another way")
    return name


# ---- command lines


def options_in(words: Sequence[str]) -> dict[str, str]:
    """Return the options that a command line names, with their words; secrets are hidden."""
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
    """Return values as words of a command line, written as wandb's agent writes them; null leaves an option out."""
    words = []
    for name, value in values.items():
        if value is not None:
            text = json.dumps(value) if isinstance(value, dict) else value
            words.append(f"--{name}={text}")
    return words


@dataclass(frozen=True)
class Commands:
    """Makes the command lines of each point.

    Attributes:
        flags: for the script; they override the sweep file.
        glue: options of run_glue.py, which then fine-tunes each discriminator; None to leave that out.
    """

    sweep: Sweep
    folder: Path
    flags: Sequence[str] = ()
    glue: Sequence[str] | None = None

    def of(self, name: str, values: SweepValues) -> dict[str, list[str]]:
        """Return the command lines of a point by verb, in the order in which they run."""
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
        """Refuse options that the sweep sets itself for each point."""
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
