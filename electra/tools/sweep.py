"""The command `electra sweep`: run a sweep file of wandb without an account.

    electra sweep configs/sweeps/mask_rate.yaml --glue configs/glue/demo.yaml
    electra sweep configs/sweeps/learning_rate.yaml --max_runs 8 -- --max_steps 1000

Flags behind a lone -- are for the program and override the file. Each point is a process with a run folder of its own.
Any number of these commands may work on one sweep, each on a GPU of its own; the same command again continues it.

study.log            optuna's study: who runs which point, and the results; a database in its place with --storage
POINT/               the run of a point
glue/POINT/          the evaluation of a point on GLUE, with --glue
logs/                what the processes of the points print
results.csv          a row for each finished point
report.md, .html     a row for each combination of values, all seeds in one row

An attempt to run a point is a trial of the study, and its worker gives signs of life there. The point of a worker that
is dead or silent is taken over: its trial fails, and a new one begins. No trial ends twice, so a worker that wakes up
too late learns that its point is lost, and ends itself. A run goes on from its own checkpoint, whoever starts it.
"""

import json
import logging
import math
import os
import platform
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from types import FrameType
from typing import Any, Literal, NamedTuple

import optuna
import pandas as pd
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock, JournalStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

from electra.base.console import counted, format_seconds, setup_logging, shown_command
from electra.base.errors import first_line
from electra.base.files import config_path, expand, holds_files, read_json, write_file
from electra.base.parser import Parser
from electra.core.errors import UserError
from electra.core.ranges import check
from electra.pretraining.metrics import PROBE_ROWS
from electra.report.blocks import (
    Blocks,
    Code,
    Fold,
    Heading,
    Report,
    Text,
    Verdict,
    table_of,
    without_folders,
    write_report,
)
from electra.report.evaluation import Reporting, percent
from electra.report.metrics import metric_title
from electra.report.page import about_run
from electra.report.runs import METRICS_NAME, RunMetrics
from electra.report.verdict import Rival, verdict
from electra.tasks.glue.task import GLUE
from electra.tools.sweep_file import (
    Commands,
    Sweep,
    SweepPoint,
    check_points,
    count_points,
    first_points,
    glue_words,
    next_point,
    read_metrics,
    read_sweep,
    settings_of,
)

logger = logging.getLogger("electra.sweep")

STUDY_NAME = "study.log"
"""File of a sweep with optuna's study, if no --storage is given."""
SIGN_OF_LIFE = 5.0
"""Seconds between two signs of life of a worker, and between two looks for points that are free."""
SILENT_AFTER = 60.0
"""Seconds without a sign of life after which another worker takes a point over."""
FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)
"""States of a trial whose point has finished; pruned means without a score."""
NOT_COMPARABLE = (
    "Held-out metrics are comparable between points with the same text, tokenizer, length and masks; those of the "
    "discriminator depend on its generator, too, whose samples it judges. To rank other points, add --glue, or use "
    "eval/fixed_discriminator_auc with --eval_corruption."
)
"""Remark where points may differ in what held-out metrics depend on."""
FREQUENCIES = "token frequencies"
"""Title of the column with the baseline of a held-out metric."""
ABOUT_FREQUENCIES = f"{FREQUENCIES}: a baseline that knows how frequent each token is, and no context."
"""Sentence below a table with this column."""


# ---- points: claimed, run and finished in optuna's study


class LockLostError(Exception):
    """The error of a command whose lock of the study another one has taken, because it was silent for too long."""


class StudyLock(JournalFileSymlinkLock):
    """The lock of a study's file."""

    def release(self) -> None:
        """Release the lock; raise a `LockLostError` if another command has taken it."""
        try:
            super().release()
        except RuntimeError as error:
            raise LockLostError(str(error)) from error


def open_journal(path: str) -> BaseStorage:
    """Return the storage of optuna in a file, which is made if there is none."""
    return JournalStorage(JournalFileBackend(path, lock_obj=StudyLock(path)))


def open_database(url: str) -> BaseStorage:
    """Return the storage of optuna in a database; try again if another host makes the tables at the same moment."""
    with suppress(Exception):
        return optuna.storages.get_storage(url)
    time.sleep(1)
    return optuna.storages.get_storage(url)


class Worker:
    """A worker on the points of a sweep; other workers may share the sweep, on this host or another.

    Args:
        commands: maker of the command lines, with the sweep and its folder.
        points: name -> point that depends on no result.
        total: number of all points, with those that a Bayesian search draws later.
        url: database of the study; None for a file in the folder.
    """

    def __init__(self, commands: Commands, points: Mapping[str, SweepPoint], total: int, url: str | None) -> None:
        self.commands = commands
        self.sweep = commands.sweep
        self.folder = commands.folder
        self.points = points
        self.total = total
        self.glue = None if commands.glue is None else [*commands.glue]
        self.location = [platform.node(), str(self.folder.absolute())]
        self.failed: set[str] = set()
        """Names of the points that have failed in this command."""
        self.code = 0
        """Exit code after a signal; 0 without a signal."""
        self.process: subprocess.Popen[bytes] | None = None
        path = self.folder / STUDY_NAME
        try:
            self.storage = open_database(url) if url else open_journal(str(path))
            self.study = optuna.create_study(
                storage=self.storage, study_name=self.folder.name, direction=self.sweep.goal, load_if_exists=True
            )
        except Exception as error:  # of the database's driver, or of a damaged file
            raise UserError(f"{url or path} is no study of optuna: {first_line(error)}") from error
        self.study_id = self.storage.get_study_id_from_name(self.folder.name)

    @property
    def trials(self) -> list[FrozenTrial]:
        """Return all trials of the study, in the order of their start."""
        return self.study.get_trials(deepcopy=False)

    def record_settings(self, settings: Mapping[str, object]) -> None:
        """Record in the study the settings that all points share.

        Args:
            settings: see `settings_of`.
        Raises:
            UserError: the study has points that were run with other settings.
        """
        present_settings = json.loads(json.dumps(settings, default=str))
        before = self.study.user_attrs.get("settings", {})
        for name in sorted(present_settings | before) if self.trials else ():
            if before.get(name) != present_settings.get(name):
                there, here = (setting_in_words(settings.get(name)) for settings in (before, present_settings))
                raise UserError(
                    f"{self.folder} has points that were run with another {name}: it is {there} there, and {here} "
                    "here; restore it, or choose another --folder"
                )
        self.study.set_user_attr("settings", present_settings)

    def run_all(self) -> None:
        """Run every point that has not finished, one after the other; wait for the points of other commands.

        Raises:
            UserError: a point was taken over by another command.
        """
        was_waiting = False
        while not self.code:
            try:
                outcome = self.run_next()
            except (UpdateFinishedTrialError, LockLostError) as error:
                raise UserError(
                    f"a point was taken over by another command, because this one was silent for {SILENT_AFTER:g} s; "
                    "this one ends, the other goes on"
                ) from error
            if outcome == "finished":
                return
            if outcome == "waiting":
                if not was_waiting:
                    logger.info("waiting for points of other commands, %g s for those of a killed one", SILENT_AFTER)
                time.sleep(SIGN_OF_LIFE)
            was_waiting = outcome == "waiting"

    def run_next(self) -> Literal["has run", "waiting", "finished"]:
        """Run the first free point, if there is one, and return the state of this worker.

        Returns:
            "waiting" if other workers run all points that are left, "finished" if none is left.
        """
        is_left = False
        for point in self.open_points():
            is_left = True
            trial_id = self.claim(point)
            if trial_id is not None:
                self.run_point(point, trial_id)
                return "has run"
        return "waiting" if is_left else "finished"

    def open_points(self) -> Iterator[SweepPoint]:
        """Yield the points that have neither finished nor failed here, then one that a Bayesian search draws."""
        points = self.current_points()
        settled = self.finished().keys() | self.failed
        yield from (point for name, point in points.items() if name not in settled)
        if len(points) < self.total:
            learned = [trial for trial in self.trials if trial.state in (*FINISHED, TrialState.RUNNING)]
            point = next_point(self.sweep, learned, points)
            if point is not None:
                yield point

    def current_points(self) -> dict[str, SweepPoint]:
        """Return name -> point; of a Bayesian search, also the points that were drawn so far, in order."""
        points = dict(self.points)
        for trial in self.trials if self.sweep.method == "bayes" else ():
            about = trial.user_attrs
            drawn = {"params": trial.params, "distributions": trial.distributions}
            points.setdefault(about["point"], SweepPoint(about["point"], about["values"], drawn))
        return dict(islice(points.items(), self.total))

    def finished(self) -> dict[str, FrozenTrial]:
        """Return name of a point -> its finished trial with the same words of --glue."""
        finished = [trial for trial in self.trials if trial.state in FINISHED]
        return {
            trial.user_attrs["point"]: trial for trial in finished if self.glue in (None, trial.user_attrs["glue"])
        }

    def running(self, point: SweepPoint) -> list[FrozenTrial]:
        """Return the trials that run a point, the earliest first."""
        running = [trial for trial in self.trials if trial.state == TrialState.RUNNING]
        return [trial for trial in running if trial.user_attrs["point"] == point.name]

    def claim(self, point: SweepPoint) -> int | None:
        """Add a trial that runs a point, and return its id; None if another command has the point, or has run it."""
        for trial in self.running(point):
            if time.time() - trial.user_attrs["alive"] < SILENT_AFTER:
                return None
            self.take_over(trial)
        values = dict(point.values)
        about = {"point": point.name, "values": values, "glue": self.glue, "here": self.location, "alive": time.time()}
        new_trial = create_trial(state=TrialState.RUNNING, user_attrs=about, **point.drawn)
        trial_id = self.storage.create_new_trial(self.study_id, new_trial)
        first, *_ = self.running(point)
        if first._trial_id == trial_id and point.name not in self.finished():  # the first of two has it
            return trial_id
        self.storage.set_trial_state_values(trial_id, TrialState.FAIL)
        return None

    def take_over(self, trial: FrozenTrial) -> None:
        """End the trial of a command that is dead or silent, and its process, if that is on this host."""
        about = trial.user_attrs
        logger.info("%s: its worker is gone; it is taken over", about["point"])
        words = Path(f"/proc/{about.get('pid')}/cmdline")
        while about["here"] == self.location and words.is_file() and about["point"].encode() in words.read_bytes():
            with suppress(ProcessLookupError):
                os.kill(about["pid"], signal.SIGKILL)
            time.sleep(0.05)
        with suppress(UpdateFinishedTrialError):  # another command has taken it over
            self.storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)

    def note(self, trial_id: int, **about: object) -> None:
        """Write values, and the time as a sign of life, into a trial.

        Args:
            trial_id: id of the trial.
        Raises:
            UpdateFinishedTrialError: the point was taken over.
        """
        for name, value in {**about, "alive": time.time()}.items():
            self.storage.set_trial_user_attr(trial_id, name, value)

    def run_point(self, point: SweepPoint, trial_id: int) -> None:
        """Run the commands of a point, and record its metrics, or that it has failed.

        Args:
            trial_id: id of the trial that runs the point.
        Raises:
            UpdateFinishedTrialError: the point was taken over by another command.
        """
        try:
            for verb, words in self.commands.of(point).items():
                self.run_process(point, trial_id, verb, words)
            metrics = read_metrics(self.commands, point.name)
        except (UserError, OSError) as error:
            if not self.code:
                logger.info("%s failed: %s", point.name, error)
                self.failed.add(point.name)
            self.storage.set_trial_state_values(trial_id, TrialState.FAIL)
            return
        self.note(trial_id, metrics=metrics)
        score = metrics.get(self.sweep.metric["name"])
        state = TrialState.PRUNED if score is None else TrialState.COMPLETE
        self.storage.set_trial_state_values(trial_id, state, None if score is None else [score])
        times = [trial.duration.total_seconds() for trial in self.finished().values() if trial.duration]
        workers = 1 + sum(trial.state == TrialState.RUNNING for trial in self.trials)
        time_left = format_seconds(math.ceil((self.total - len(times)) / workers) * statistics.median(times))
        metric = ranking_metric(self.sweep, metrics)
        shown_score = f"{title_of(metric)} {show_value(metric, metrics.get(metric))}"
        logger.info("%d of %d, %s: %s, about %s left", len(times), self.total, point.name, shown_score, time_left)

    def run_process(self, point: SweepPoint, trial_id: int, verb: str, words: Sequence[str]) -> None:
        """Run a command of a point; raise a UserError if the command fails or is stopped."""
        log = self.folder / "logs" / f"{point.name}.{verb}.txt"
        self.note(trial_id)
        environ = {"WANDB_RUN_GROUP": self.folder.name, **os.environ}
        with open(log, "ab") as output:
            command = [sys.executable, "-m", "electra", *words]
            process = self.process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environ)
        if self.code:  # `stop` has not seen the process
            process.terminate()
        logger.info("%s: %s, log: %s", point.name, verb, log)
        try:
            self.note(trial_id, pid=process.pid)
            while process.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(SIGN_OF_LIFE)
                self.note(trial_id)
        except BaseException:  # the point is lost
            process.kill()
            raise
        if process.returncode != 0:
            *_, last = ["", *log.read_text(encoding="utf-8", errors="replace").strip().splitlines()]
            raise UserError(f"exit code {process.returncode}, {last.strip()[:300]}; see {log}")

    def stop(self, continue_with: str, number: int, _: FrameType | None) -> None:
        """Handle a signal: start no more points and let the process save a checkpoint; kill it at a second signal.

        Args:
            continue_with: command line that continues the sweep.
            number: number of the signal.
        """
        if self.process is not None:
            self.process.kill() if self.code else self.process.terminate()
        if not self.code:
            self.code = 128 + number
            name = signal.Signals(number).name
            os.write(2, f"\n{name}: a running point saves a checkpoint; continue with: {continue_with}\n".encode())


def setting_in_words(setting: object) -> str:
    """Return a setting of `settings_of` as words of a message."""
    if setting == "values":
        return "swept over several values"
    if isinstance(setting, dict) and setting.keys() & {"values", "min"}:
        return f"drawn from {setting}"
    return "not set" if setting is None else str(setting)


# ---- results


def ranking_metric(sweep: Sweep, metrics: Mapping[str, float | None]) -> str:
    """Return the metric that ranks points: that of the sweep; for fine-tuned points, one of their scores.

    Args:
        metrics: metrics of a point, or of all.
    """
    scores = [name for name in metrics if name in GLUE.reporting.averages or name.startswith("median/")]
    asked_metric = sweep.metric["name"]
    preferred = [name for name in (asked_metric, "AVG") if name in scores and not pd.isna(metrics[name])]
    return next(iter([*preferred, *scores, asked_metric]))


def title_of(metric: str) -> str:
    """Return the title of a metric: eval/fixed_discriminator_auc -> discriminator AUC (fixed test set)."""
    group, _, name = metric.rpartition("/")
    if task := GLUE.reporting.tasks.get(name):
        return f"{task.title} {GLUE.reporting.title_of(task.headline)}"
    title = metric_title(name.removeprefix("fixed_")) if group == "eval" else name
    return f"{title} (fixed test set)" if name.startswith("fixed_") else title


def is_comparable(metric: str) -> bool:
    """Return True if a metric can compare networks with different generators: it does not depend on their samples."""
    group, _, name = metric.rpartition("/")
    return group != "eval" or name.startswith("fixed_") or name in dict(PROBE_ROWS)


def show_value(metric: str, value: float | None) -> str:
    """Return a value of a metric as text: losses with four digits, all others in percent."""
    if value is None or math.isnan(value):
        return "–"
    return f"{value:.4f}" if title_of(metric).endswith("(nats)") or metric.endswith("loss") else f"{percent(value)} %"


class SweepRow(NamedTuple):
    """A row of the table: points that differ in nothing but the seed.

    Args:
        values: swept option -> value that the points share, as text.
        points: names of the points.
        seeds: number of runs with these values: of points, or of their fine-tuning.
        score: median of the metric; nan if one of the points has no value, because a median of the others would be too
            good.
        std: standard deviation over the points, or over the fine-tuning runs of a single point; nan for a single run.
        error: error of a single run, by which rows are compared: the root of the sum of the squares of `std` and, for
            the score of a task, of the sampling error of the first point. A `std` of nan counts as 0.
        baseline: median of the same metric, on the same masks, for a baseline that knows only how frequent tokens are;
            nan if there is none.
    """

    values: dict[str, str]
    points: list[str]
    seeds: int
    score: float
    std: float
    error: float
    baseline: float = math.nan


def sweep_rows(sweep: Sweep, frame: pd.DataFrame, metric: str) -> list[SweepRow]:
    """Return the rows of the report, the best one first.

    Args:
        frame: table with a line for each point: its name, values and metrics.
        metric: the metric that ranks the points.
    """
    rows = []
    axes = sweep.axes or ["point"]
    for values, points in frame.groupby([frame[name].map(str) for name in axes], sort=False):
        scores = points[metric].astype(float)
        std_of_first = points.iloc[0].get(metric.replace("median/", "std/")) if metric.startswith("median/") else None
        std = scores.std() if len(points) > 1 else math.nan if std_of_first is None else std_of_first
        sampling = (
            points.iloc[0].get(metric.replace("median/", "error/"), 0.0) if metric.startswith("median/") else 0.0
        )
        error = math.hypot(sampling, 0.0 if math.isnan(std) else std)
        run_counts = points.get(metric.replace("median/", "seeds/")) if metric.startswith("median/") else None
        seeds = len(points) if run_counts is None else int(run_counts.fillna(1).sum())
        row_values = dict(zip(axes, values, strict=True))
        baselines = points.get(metric.replace("eval/", "frequencies/")) if metric.startswith("eval/") else None
        baseline = math.nan if baselines is None else baselines.astype(float).median()
        row = SweepRow(row_values, [*points["point"]], seeds, scores.median(skipna=False), std, error, baseline)
        rows.append(row)
    # Another metric than that of the sweep is a score of fine-tuning (`ranking_metric`), of which more is better.
    sign = -1 if sweep.goal == "maximize" or metric != sweep.metric["name"] else 1
    return sorted(rows, key=lambda row: (math.isnan(row.score), sign * row.score))


def judge(sweep: Sweep, rows: Sequence[SweepRow], metric: str, why_none: str = "") -> Verdict:
    """Return the verdict on which row is the best, good if it is clearly better than the next one.

    Args:
        rows: the rows, the best one first.
        metric: the metric that ranks the points.
        why_none: why the development set allows no verdict; "" if it allows one.
    """
    rows = [row for row in rows if not math.isnan(row.score)]
    show = partial(show_value, metric)
    if not rows:
        return Verdict(f"No point has a score in {title_of(metric)}.", None)
    names = [", ".join(f"{name} {value}" for name, value in row.values.items()) for row in rows]
    if len(rows) == 1:
        return Verdict(f"{title_of(metric)} of {names[0]}: {show(rows[0].score)}.", None)
    if any(math.isnan(row.std) or (sweep.verb == "pretrain" and len(row.points) == 1) for row in rows[:2]):
        between = f"from {show(rows[-1].score)} to {show(rows[0].score)}"
        text = f"No winner, because one seed has no error: {title_of(metric)} is {between}; sweep the seed, too."
        return Verdict(text, None)
    rival = Rival(f"the next, {names[1]}", rows[1].score, math.hypot(rows[0].error, rows[1].error))
    subject = f"{title_of(metric)} of {names[0]}, the best of {len(rows)}: {show(rows[0].score)} ± {show(rows[0].std)}"
    return verdict(subject, rows[0].score, [rival], show, "these seeds", why_none)


def why_no_verdict(reporting: Reporting, evaluations: Sequence[Path], metric: str) -> str:
    """Return why the evaluations of points allow no verdict by a metric; "" if they do, or if there are none.

    Args:
        evaluations: folders of the evaluations.
        metric: the metric that ranks the points: an average, or `median/TASK`.
    """
    names = reporting.averages.get(metric, [metric.removeprefix("median/")])
    summaries = [
        run.tasks[name] for run in reporting.read_summaries(evaluations) for name in names if name in run.tasks
    ]
    return next(filter(None, map(reporting.why_no_verdict, summaries)), "")


def lines_about_runs(folders: Sequence[Path]) -> list[Text]:
    """Return a line about each group of runs with the same text, length and date."""
    names_by_text: dict[str, list[str]] = {}
    for folder in folders:
        metrics = read_json(folder / METRICS_NAME, RunMetrics)
        about = about_run(metrics, metrics["plan"]["steps"])
        names_by_text.setdefault(about, []).append(folder.name)
    are_alike = len(names_by_text) == 1
    return [
        Text(f"{'each point' if are_alike else ', '.join(names)}: {about}") for about, names in names_by_text.items()
    ]


def write_sweep_report(commands: Commands, points: Mapping[str, Mapping[str, Any]], command: str) -> None:
    """Write results.csv, report.md and report.html into the folder of a sweep; log the table.

    The page has the rows, the best one first, and goes on with the common report of the fine-tuning of all points.

    Args:
        points: name of a finished point -> attributes of its trial, with `values` and `metrics`.
        command: the command line of the sweep.
    """
    folder = commands.folder
    frame = pd.DataFrame([{"point": name, **about["values"], **about["metrics"]} for name, about in points.items()])
    write_file(frame.to_csv(index=False).encode(), folder / "results.csv")
    metrics = {
        name: value for about in points.values() for name, value in about["metrics"].items() if value is not None
    }
    metric = ranking_metric(commands.sweep, metrics)
    rows = sweep_rows(commands.sweep, frame, metric)
    lines = []
    for row in rows:
        deviation = "" if math.isnan(row.std) else f" ± {show_value(metric, row.std)}"
        score = f"{show_value(metric, row.score)}{deviation}"
        baseline = "" if math.isnan(row.baseline) else show_value(metric, row.baseline)
        lines.append({**row.values, "seeds": str(row.seeds), title_of(metric): score, FREQUENCIES: baseline})
    table = table_of(lines)
    evaluations = commands.evaluations([*points])
    winner = judge(commands.sweep, rows, metric, why_no_verdict(commands.reporting, evaluations, metric))
    blocks: Blocks = [winner, table]
    if FREQUENCIES in table.header:
        blocks.append(Text(ABOUT_FREQUENCIES))
    if evaluations:
        best = commands.evaluations(rows[0].points)
        # What to try may be what a sweep of fine-tuning has tried.
        is_tuned = commands.sweep.verb != "pretrain"
        blocks[1:1] = commands.reporting.verdicts(best) if is_tuned else commands.reporting.sentences(best)
        page = commands.reporting.report(evaluations)
        blocks += [Heading("Each point"), *(block for block in page.blocks if not isinstance(block, Verdict))]
    elif not is_comparable(metric):
        blocks[:1] = [winner._replace(is_good=None), Verdict(NOT_COMPARABLE, None)]
    runs = [folder / name for name in points if commands.sweep.verb == "pretrain"]
    about = lines_about_runs([run for run in runs if (run / METRICS_NAME).is_file()])  # others are on another host
    blocks = [*about, *blocks, Fold("Command of the sweep", [Code(without_folders(command), "bash")])]
    write_report(Report(f"Sweep: {folder.name}", blocks, table), folder)
    logger.info("all points     %s", folder / "results.csv")


# ---- the command


def check_in_child(commands: Commands, points: Sequence[SweepPoint]) -> dict[str, object]:
    """Call `check_points` in a process of its own, which gives its GPU back; return or raise what it does."""
    fork = get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)

    def send_answer() -> None:
        try:
            sender.send(check_points(commands, points))
        except Exception as error:
            sender.send(error)

    process = fork.Process(target=send_answer)
    process.start()
    sender.close()
    answer = receiver.recv()
    process.join()
    if isinstance(answer, Exception):
        raise answer
    return dict(answer)


def main(argv: list[str] | None = None) -> None:
    setup_logging()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    parser = Parser(
        prog="electra sweep",
        description="Run a wandb sweep file without an account. Flags after a lone -- override the file.",
    )
    parser.add_argument("file", help="sweep file, such as those in configs/sweeps/")
    parser.add_argument("--max_runs", type=int, help="maximum number of points; a search needs it or run_cap")
    parser.add_argument("--folder", type=Path, help="folder of the sweep (default: output/sweep_ and the file's name)")
    parser.add_argument("--storage", metavar="URL", help="database of optuna, with which several hosts share a sweep")
    parser.add_argument("--glue", metavar="CONFIG", help="fine-tune each discriminator with this file for run_glue.py")
    parser.add_argument("--glue_flags", help="flags for run_glue.py, quoted: '--num_seeds 3'")
    words = sys.argv[1:] if argv is None else argv
    end = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:end])
    check(options.max_runs is None or options.max_runs > 0, "max_runs", options.max_runs, "at least 1")
    file = config_path(options.file)
    sweep = read_sweep(file)
    glue = glue_words(options.glue, options.glue_flags)
    check(glue is None or sweep.verb == "pretrain", "glue", options.glue, "of a sweep that pre-trains")
    commands = Commands(sweep, expand(options.folder or f"output/sweep_{file.stem}"), words[end + 1 :], glue)
    commands.refuse_own_options()
    total = count_points(sweep, options.max_runs)
    if total is None:
        raise UserError(f"a {sweep.method} search has no end; add --max_runs N, or run_cap: N in {file}")
    points = first_points(sweep, total)
    total = total if sweep.method == "bayes" else len(points)
    shared = check_in_child(commands, [*points.values()])
    if options.storage is None and holds_files(commands.folder) and not (commands.folder / STUDY_NAME).is_file():
        raise UserError(
            f"{commands.folder} holds other files, or a sweep of an earlier version, which cannot go on here; choose "
            "another --folder"
        )
    commands.folder.mkdir(parents=True, exist_ok=True)
    worker = Worker(commands, points, total, options.storage)
    (commands.folder / "logs").mkdir(exist_ok=True)
    worker.record_settings(settings_of(sweep, shared))
    if "goal" not in sweep.metric:
        logger.info("metric has no goal: the lowest %s counts as the best, as in wandb", sweep.metric["name"])
    if commands.is_untracked:
        trackers = " ".join(map(str, commands.trackers))
        logger.info("wandb in report_to of %s is for wandb's agent; here, it needs: -- --report_to %s", file, trackers)
    if glue is None and not is_comparable(sweep.metric["name"]):
        logger.info(NOT_COMPARABLE)
    counts = (counted(total, "point"), len(worker.finished()))
    logger.info("%s search of %s, %d finished, folder: %s", sweep.method, *counts, commands.folder)
    command = shown_command("-m electra sweep", words)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, partial(worker.stop, command))
    worker.run_all()
    if worker.code:
        sys.exit(worker.code)
    finished_trials = worker.finished()
    if finished_trials:
        names = [name for name in worker.current_points() if name in finished_trials]
        write_sweep_report(commands, {name: finished_trials[name].user_attrs for name in names}, command)
    if failed := worker.failed - finished_trials.keys():
        raise UserError(
            f"{len(failed)} of {total} points failed, as said above; once the cause is gone, the same command goes on"
        )
