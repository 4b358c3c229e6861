"""A sweep file in wandb's format, its points, their command lines, and the metrics of a finished point.

Format: docs.wandb.ai, "Sweep configuration options". optuna is imported only where it is used, because the JSON schema
of these files needs none.
"""

import itertools
import json
import logging
import math
import shlex
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, NotRequired

import regex
from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema, with_config
from typing_extensions import TypedDict

from electra.base.console import SECRET, hide_secrets, without_secrets
from electra.base.errors import hint_of_unknown, where_is
from electra.base.files import YAML_ERRORS, config_path, read_json, read_yaml
from electra.core.errors import UserError
from electra.core.ranges import check
from electra.finetuning.commands import TaskCommand
from electra.finetuning.config import Arguments
from electra.finetuning.registry import TASKS, TRAINED, command_of, reporting_of
from electra.finetuning.saved import check_can_save
from electra.pretraining.configuration import RESUMING
from electra.pretraining.options import parse_pretraining_arguments
from electra.report.evaluation import Reporting, examples_of, score_for_verdict
from electra.report.metrics import PRETRAINING_METRICS
from electra.report.results import RESULTS_NAME
from electra.report.runs import METRICS_NAME, RunMetrics
from electra.report.verdict import sampling_error
from electra.runtime.tracking import check_trackers
from electra.tasks.glue.task import read_splits
from electra.tasks.glue.tasks import KNOWN_TASKS

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

logger = logging.getLogger(__name__)

PROGRAMS = {
    "run_pretraining.py": "pretrain",
    "run_glue.py": "glue",
    **{f"electra {verb}": verb for verb in ("pretrain", *TRAINED)},
}
"""Program that a sweep file names -> verb of its command."""
NUMBER_PATTERN = r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$"
"""Regular expression of a number as text, because YAML 1.1 reads `5e-4`, which has no point, as text."""
BEFORE_LEARNING = 10
"""Points of a Bayesian search that are drawn at random before it learns: optuna's n_startup_trials."""
MOST_DRAWS = 10
"""Draws in a row that give no new point, after which a Bayesian search has ended."""
LONGEST_POINT_NAME = 140
"""Bytes of a point's name, at most: file systems allow 255, endings included."""


# ---- the file


class SweepMetric(TypedDict):
    """The entry `metric` of a sweep file: what the points are ranked by."""

    name: str
    goal: NotRequired[Literal["minimize", "maximize"]]


Bound = Annotated[
    int | float,
    Field(allow_inf_nan=False),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string", "pattern": NUMBER_PATTERN}]}),
]
"""A number of a parameter's range."""


@with_config(ConfigDict(extra="forbid", strict=True))
class Parameter(TypedDict, total=False):
    """The entry of a parameter: `value`; or `values`; or `min`, `max` and perhaps `q`, the step of q_uniform."""

    value: Any
    values: Annotated[list[Any], Field(min_length=1)]
    distribution: Literal["constant", "categorical", "int_uniform", "uniform", "log_uniform_values", "q_uniform"]
    min: Bound
    max: Bound
    q: Bound


class Sweep(BaseModel):
    """A sweep file.

    Args:
        parameters: option of the command -> its entry.
        command: words of wandb's agent; the words behind the program are passed on.
        run_cap: largest number of points.
        name, description, project, entity: texts for wandb's server, which have no effect here.
    """

    model_config = ConfigDict(strict=True, extra="forbid")

    program: str = Field(json_schema_extra={"enum": [*PROGRAMS]})
    method: Literal["grid", "random", "bayes"]
    metric: SweepMetric
    parameters: dict[str, Parameter]
    command: Sequence[str | int | float] = ()
    run_cap: int | None = Field(None, ge=1)
    name: str | None = None
    description: str | None = None
    project: str | None = None
    entity: str | None = None

    @property
    def verb(self) -> str:
        """Return the verb of the command that runs for each point."""
        return PROGRAMS[self.program]

    @property
    def goal(self) -> Literal["minimize", "maximize"]:
        """Return the direction in which the metric gets better; wandb's default is minimize."""
        return self.metric.get("goal", "minimize")

    @property
    def swept(self) -> list[str]:
        """Return the names of the parameters without a fixed value."""
        return [name for name, entry in self.parameters.items() if "value" not in entry]

    @property
    def axes(self) -> list[str]:
        """Return the names of the swept parameters, without the seed unless it is the only one."""
        return [name for name in self.swept if name != "seed"] or self.swept

    def words(self, flags: Sequence[str]) -> list[str]:
        """Return the words of `command` behind the program, with `flags` in place of its `${args}`, or at the end."""
        words = [str(word) for word in self.command]
        names = {"${program}", *PROGRAMS, *PROGRAMS.values()}
        start = next((index for index, word in enumerate(words) if PurePath(word).name in names), len(words))
        passed_on = words[start + 1 :]
        split = next((index for index, word in enumerate(passed_on) if word.startswith("${args")), len(passed_on))
        return [*passed_on[:split], *flags, *passed_on[split + 1 :]]


def read_sweep(path: Path) -> Sweep:
    """Read and check a sweep file, and log the words of its `command` that are passed on.

    Raises:
        UserError: the file is not YAML, or an entry is missing, wrong, or understood by wandb's own agent only.
    """
    try:
        content = read_yaml(path.read_text(encoding="utf-8"))
        program = PurePath(str(content["program"])).name
        sweep = Sweep.model_validate({**content, "program": program})
    except ValidationError as error:
        *_, problem = error.errors()
        where = ".".join(map(str, problem["loc"]))
        raise UserError(f"{path}: {where}: {problem['msg']}; see {where_is('docs/reports.md')}") from error
    except (*YAML_ERRORS, KeyError, TypeError) as error:
        raise UserError(
            f"{path} is no sweep file in YAML with program, method, metric and parameters: {error}"
        ) from error
    if program not in PROGRAMS:
        raise UserError(f"{path}: program {program} must be one of {', '.join(PROGRAMS)}")
    for name, entry in sweep.parameters.items():
        wrong = why_wrong(name, entry, sweep.method)
        if wrong is not None:
            raise UserError(f"{path}: parameter {name} {wrong}")
    words = sweep.words([])
    if foreign := [word for word in words if "${" in word]:
        raise UserError(f"{path}: {foreign[0]} in command works with wandb's own agent only; write the value itself")
    if sweep.command:
        shown_words = shlex.join(hide_secrets(words)) or "no word"
        logger.info("of command in %s, the sweep, which starts the program itself, passes on %s", path, shown_words)
    return sweep


def why_wrong(name: str, entry: Parameter, method: str) -> str | None:
    """Return what is wrong with a parameter, as words behind its name; None if nothing is."""
    keys = entry.keys() - {"distribution", "q"}
    if keys == {"value"}:
        return None
    if SECRET.search(name):
        return "is secret and can only have one value; folders are named after the others"
    if keys == {"values"}:
        return None
    if keys != {"min", "max"}:
        return "must have value, or values (a list), or min and max"
    if method == "grid":
        return "has a range, but a grid needs values"
    try:
        distribution_of(entry)
    except (ValueError, ArithmeticError) as error:
        return f"has no range of numbers: {error}"
    return None


def distribution_of(entry: Parameter) -> "BaseDistribution":
    """Return an entry as a distribution of optuna: over the positions in `values`, or over a range.

    Raises:
        ValueError, ArithmeticError: the range is empty, or does not suit its distribution.
    """
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if "values" in entry:  # optuna compares choices, and 1 equals true
        return CategoricalDistribution(range(len(entry["values"])))
    low, high = entry["min"], entry["max"]
    are_whole = isinstance(low, int) and isinstance(high, int)
    distribution = entry.get("distribution", "int_uniform" if are_whole else "uniform")
    if "q" in entry and distribution != "q_uniform":
        raise ValueError(f"{distribution} has no q; q_uniform has")
    if distribution == "int_uniform":
        if not are_whole:
            raise ValueError("int_uniform has whole numbers")
        return IntDistribution(int(low), int(high))
    step = entry.get("q", 1.0) if distribution == "q_uniform" else None
    return FloatDistribution(low, high, log=distribution == "log_uniform_values", step=step)


# ---- points


class SweepPoint(NamedTuple):
    """A point of a sweep.

    Args:
        name: name of its run folder, made of the swept options and their values.
        values: values of the swept options, by name.
        drawn: `params` and `distributions` of optuna's trial; {} in a grid.
    """

    name: str
    values: Mapping[str, Any]
    drawn: Mapping[str, Any] = {}


def count_points(sweep: Sweep, max_runs: int | None) -> int | None:
    """Return the number of points of a sweep, at most; None for a search without an end."""
    limits = [limit for limit in (sweep.run_cap, max_runs) if limit is not None]
    if sweep.method == "grid":
        limits.append(math.prod(len(sweep.parameters[name]["values"]) for name in sweep.swept))
    elif not sweep.swept:
        limits.append(1)
    return min(limits, default=None)


def first_points(sweep: Sweep, total: int) -> dict[str, SweepPoint]:
    """Return name -> point for the points that depend on no result, at most `total`.

    These are all points of a grid or of a random search, and those with which a Bayesian search begins.

    Raises:
        UserError: two points with different values have the same name.
    """
    if sweep.method == "grid":
        product = itertools.product(*(sweep.parameters[name]["values"] for name in sweep.swept))
        candidates = [
            _point_of(sweep, dict(zip(sweep.swept, values, strict=True)))
            for values in itertools.islice(product, total)
        ]
    else:
        import optuna

        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
        count = min(total, BEFORE_LEARNING) if sweep.method == "bayes" else total
        candidates = [_draw_point(sweep, study) for _ in range(count)]
    points: dict[str, SweepPoint] = {}
    for point in candidates:  # a point that is drawn twice runs once
        if points.setdefault(point.name, point).values != point.values:
            raise UserError(f"two points would be called {point.name}; write their values in another way")
    return points


def next_point(sweep: Sweep, trials: Sequence["FrozenTrial"], points: Mapping[str, SweepPoint]) -> SweepPoint | None:
    """Return the point that a Bayesian search draws next; None if it draws no new one.

    Args:
        trials: optuna's trials that the search learns from.
        points: name -> point that was drawn before.
    """
    import optuna

    sampler = optuna.samplers.TPESampler(seed=len(points) * MOST_DRAWS, constant_liar=True)
    study = optuna.create_study(direction=sweep.goal, sampler=sampler)
    study.add_trials(trials)
    draws = (_draw_point(sweep, study) for _ in range(MOST_DRAWS))
    return next((point for point in draws if point.name not in points), None)


def _draw_point(sweep: Sweep, study: "Study") -> SweepPoint:
    """Return a point that a study of optuna draws."""
    distributions = {name: distribution_of(sweep.parameters[name]) for name in sweep.swept}
    params = study.ask(distributions).params
    lists = {name: sweep.parameters[name].get("values") for name in sweep.swept}
    values = {name: entry[drawn] if (entry := lists[name]) else drawn for name, drawn in params.items()}
    return _point_of(sweep, values)._replace(drawn={"params": params, "distributions": distributions})


def _point_of(sweep: Sweep, values: Mapping[str, Any]) -> SweepPoint:
    """Return the point with these values, and its name."""
    swept = "_".join(f"{name}_{values[name]}" for name in sweep.swept)
    name = regex.sub(r"[^\w\p{M}.-]", "-", swept) or "point"
    if len(name.encode()) > LONGEST_POINT_NAME:
        short = name.encode()[:LONGEST_POINT_NAME].decode(errors="ignore")
        name = f"{short}-{sha256(swept.encode()).hexdigest()[:8]}"
    return SweepPoint(name, values)


# ---- command lines


class Commands(NamedTuple):
    """A maker of the command lines of points.

    Args:
        folder: folder of the sweep.
        flags: words for the command of each point, which override the sweep file.
        glue: words behind `electra glue`, which fine-tunes each discriminator; None for no fine-tuning.
    """

    sweep: Sweep
    folder: Path
    flags: Sequence[str] = ()
    glue: Sequence[str] | None = None

    def of(self, point: SweepPoint) -> dict[str, list[str]]:
        """Return verb -> words behind `electra`, for each command of a point, in the order in which they run."""
        sweep = self.sweep
        flags = []
        for name, entry in sweep.parameters.items():
            value = entry["value"] if "value" in entry else point.values[name]
            if value is not None:
                flags.append(f"--{name}={json.dumps(value) if isinstance(value, dict) else value}")
        if self.is_untracked:
            others = [tracker for tracker in self.trackers if tracker != "wandb"]
            flags.append(f"--report_to={others or 'none'}")
        run = ["--experiment_name", point.name, "--output_dir", str(self.folder)]
        words = [sweep.verb, *sweep.words(flags), "--disable_tqdm", *self.flags, *run]
        commands = {sweep.verb: words}
        if sweep.verb == "pretrain":
            words.append("--auto_resume")
        if self.glue is not None:
            network = ["--pretrain_path", str(self.folder / point.name)]
            run = ["--experiment_name", point.name, "--output_dir", str(self.folder / "glue")]
            commands["glue"] = ["glue", *network, "--disable_tqdm", *self.glue, *run]
        return commands

    def evaluations(self, points: Sequence[str]) -> list[Path]:
        """Return the folders of the evaluations of points that have results; `points` are names."""
        folder = self.folder / "glue" if self.sweep.verb == "pretrain" else self.folder
        return [folder / name for name in points if (folder / name / RESULTS_NAME).is_file()]

    @property
    def reporting(self) -> Reporting:
        """Return the description of the reports on the evaluations of points."""
        verb = self.sweep.verb if self.sweep.verb in TRAINED else "glue"
        return reporting_of(TASKS[verb].kind)

    @property
    def trackers(self) -> list[Any]:
        """Return the trackers to which all points report, as the file says."""
        value: Any = self.sweep.parameters.get("report_to", {}).get("value", [])
        return value if isinstance(value, list) else [value]

    @property
    def is_untracked(self) -> bool:
        """Return True if wandb in the file's report_to is left out, because it is for wandb's agent.

        With --report_to behind a lone --, nothing is left out.
        """
        return "wandb" in self.trackers and "report_to" not in names_in(self.flags)

    def refuse_own_options(self) -> None:
        """Raise a UserError if file or flags have options that the sweep itself sets for each point."""
        reserved = {"experiment_name", "output_dir", "plan", "auto_resume", "resume_from_checkpoint"}
        script = names_in([*self.sweep.words([]), *self.flags])
        reserved_for_glue = names_in(self.glue or ()) & {*reserved, "pretrain_path", "from_scratch"}
        for name in sorted(reserved & {*self.sweep.parameters, *script} | reserved_for_glue):
            raise UserError(f"the sweep sets --{name} itself for each point; leave it out of file and flags")


def names_in(words: Sequence[str]) -> set[str]:
    """Return the names of the options in the words of a command line, with underscores."""
    return {word[2:].partition("=")[0].replace("-", "_") for word in words if word.startswith("--")}


def glue_words(config: str | None, flags: str | None) -> list[str] | None:
    """Return the words behind `electra glue` that the values of --glue and --glue_flags give; None without --glue.

    Raises:
        UserError: there are flags without --glue, `config` is no file, or the flags cannot be split into words.
    """
    if config is None:
        check(flags is None, "glue_flags", flags, "given with --glue CONFIG")
        return None
    check(config_path(config).is_file(), "glue", config, "a file")
    try:
        return ["--config", config, *shlex.split(flags or "")]
    except ValueError as error:
        raise UserError(f"--glue_flags cannot be split into words: {error}") from error


# ---- checks before the first point


def check_points(commands: Commands, points: Sequence[SweepPoint]) -> dict[str, object]:
    """Parse the command lines of all points, and return the options of the first one, without secrets.

    Messages of this process are switched off, so call it in a process of its own.

    Raises:
        UserError: a point would fail, or none would have the metric of the sweep.
    """
    logging.getLogger("electra").setLevel(logging.ERROR)
    records: dict[str, dict[str, Any]] = {}
    metrics: set[str] = set()
    for point in points:
        for verb, words in commands.of(point).items():
            try:
                args: Any = (parse_pretraining_arguments if verb == "pretrain" else command_of(verb).parse)(words[1:])
                check_trackers(args.training.report_to if verb == "pretrain" else args.tuning.report_to)
                if verb == "pretrain":
                    kinds = ["eval/", "eval/fixed_"] if args.segments.eval_corruption else ["eval/"]
                    metrics |= {f"{kind}{name}" for name in ("loss", *PRETRAINING_METRICS) for kind in kinds}
                elif verb not in records:
                    check_can_save(args)
                    metrics |= scores_of(verb, args)
            except (UserError, OSError) as error:
                where = " in --glue and --glue_flags" if verb != commands.sweep.verb else ""
                raise UserError(f"{point.name} would fail{where}: {error}") from error
            records.setdefault(verb, args.record)
    metric = commands.sweep.metric["name"]
    if metric not in metrics:
        hint = hint_of_unknown(metric, metrics, f"its metrics are {', '.join(sorted(metrics))}")
        raise UserError(f"the sweep has no metric {metric}; {hint}")
    return without_secrets(records[commands.sweep.verb])


def scores_of(verb: str, args: Arguments) -> set[str]:
    """Return the names of the scores that an evaluation will have: averages, and `median/TASK`.

    Raises:
        UserError: its data cannot be read.
    """
    command: TaskCommand = command_of(verb)
    names = {task.name for task in command.open(args)}
    if verb == "glue":
        data = [read_splits(KNOWN_TASKS[name], args.options.glue_dir, is_predicted=False) for name in names]
        check(any(data), "glue_dir", args.options.glue_dir, f"a folder with data of {' '.join(names)}")
    averages = {name for name, tasks in command.kind.reporting.averages.items() if {*tasks} <= names}
    return averages | {f"median/{name}" for name in names}


def settings_of(sweep: Sweep, options: Mapping[str, object]) -> dict[str, object]:
    """Return the settings with which a sweep may go on; of a grid, other values of the same parameters are allowed.

    Args:
        options: options of a point.
    """
    excluded = {"experiment_name", "output_dir", "auto_resume", *sweep.swept}
    shared = {name: value for name, value in options.items() if RESUMING.get(name) != "free" and name not in excluded}
    swept = {name: "values" if sweep.method == "grid" else sweep.parameters[name] for name in sweep.swept}
    learned = {"metric": [sweep.metric["name"], sweep.goal]} if sweep.method == "bayes" else {}
    return {**shared, **swept, **learned, "program": sweep.verb, "method": sweep.method}


# ---- metrics of a finished point


def read_metrics(commands: Commands, name: str) -> dict[str, float | None]:
    """Return the metrics of a finished point by name, losses in nats, all others as fractions.

    Names of metrics:
        eval/NAME, eval/fixed_NAME: held-out metrics, and those on a corrupted test set.
        frequencies/NAME, frequencies/fixed_NAME: the same of token frequencies.
        median/TASK, std/TASK, seeds/TASK: median, standard deviation and number of a task's fine-tuning runs.
        error/TASK: standard error that the size of the task's development set gives.
        AVG and others: averages over tasks.
    """
    metrics: dict[str, float | None] = {}
    if commands.sweep.verb == "pretrain":
        held_out = read_json(commands.folder / name / METRICS_NAME, RunMetrics)["held_out"]
        for group, column in (("eval", "trained"), ("frequencies", "frequencies")):
            for prefix, title in ((f"{group}/", column), (f"{group}/fixed_", f"fixed: {column}")):
                metrics |= {prefix + metric: value for metric, value in held_out.get(title, {}).items()}
    for path in commands.evaluations([name]):
        (run,) = commands.reporting.read_summaries([path])
        metrics |= run.scalars
        for task, summary in run.tasks.items():
            headline = summary.metric(summary.task.headline)
            error = sampling_error(headline, score_for_verdict(summary), examples_of(summary))
            seeds = len(summary.results)
            metrics |= {f"std/{task}": summary.headline.std, f"seeds/{task}": seeds, f"error/{task}": error}
    return metrics
