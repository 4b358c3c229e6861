"""Run an evaluation: fine-tune and score every (task, seed) that is not finished, then report."""

import copy
import logging
import math
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from accelerate import PartialState
from tqdm import tqdm
from transformers import PreTrainedModel, TrainerCallback, set_seed

from electra.finetuning.config import HYPERPARAMETERS, Arguments, Tuning, resolve
from electra.finetuning.encoder import Encoder, encoder_fingerprint, fresh_encoder, load_encoder
from electra.finetuning.evaluation import Evaluation, is_sweep, open_evaluation
from electra.finetuning.export import check_can_save, describe_models, is_saved, save_model
from electra.finetuning.task import TaskAdapter, TaskRows
from electra.finetuning.trainer import fine_tune
from electra.io.console import format_seconds
from electra.io.errors import UserError
from electra.model.pretrained import STEP_KEY
from electra.report.blocks import text_table, write_report
from electra.report.evaluation import Reporting
from electra.report.results import Result
from electra.runtime.tracking import RecordSettings, check_trackers, track_results

logger = logging.getLogger(__name__)

EVALUATION_SHARE = 1 / 3
"""Cost of predicting a token relative to training on it."""


def evaluate(args: Arguments[Any], adapter_class: type[TaskAdapter]) -> None:
    """The command of a kind of task."""
    check_can_save(args, adapter_class.saved_heads)
    encoder = open_encoder(args)
    evaluation = open_evaluation(args, adapter_class.folder_prefix(args))
    try:
        adapter = adapter_class(args, encoder, evaluation)
        planned, tasks = plan_runs(adapter)
        if args.options.plan:
            return
        run_all(adapter, planned)
        if PartialState().is_main_process:
            finish(adapter, tasks)
    finally:
        if evaluation.lock is not None:
            evaluation.lock.release()


def open_encoder(args: Arguments[Any]) -> Encoder:
    """The encoder to fine-tune, trained or of a configuration alone."""
    check_trackers(args.tuning.report_to)
    path, tokenizer_path = args.encoder.pretrain_path, args.encoder.tokenizer_path
    if path is not None:
        return load_encoder(path, tokenizer_path)
    set_seed(args.options.seed)
    return fresh_encoder(args.encoder.from_scratch or "", tokenizer_path)


# ---- plan


class PlannedTask(NamedTuple):
    """A task with runs to do."""

    name: str
    tuning: Tuning  # resolved
    settings: dict[str, Any]  # everything a score depends on, as recorded with each result
    data: TaskRows
    seeds: list[int]  # that are not finished

    @property
    def steps(self) -> int:
        """Approximate number of optimizer steps of a run on one device."""
        batch = self.tuning.per_device_train_batch_size * self.tuning.gradient_accumulation_steps
        return max(1, round(-(-len(self.data.train) // batch) * self.tuning.num_train_epochs))

    @property
    def tokens(self) -> float:
        """Tokens of a run: those trained on, and those evaluated, weighted by their cost."""
        evaluated = sum(int(rows.lengths.sum()) for rows in self.data.dev.values())
        epochs = self.tuning.num_train_epochs
        evaluations = epochs if self.tuning.select == "best" else 1
        return epochs * int(self.data.train.lengths.sum()) + EVALUATION_SHARE * evaluations * evaluated


def plan_lines(planned: Sequence[PlannedTask], done: int) -> list[str]:
    """A table of the runs to do; `done` runs are finished."""
    width = max(5, *(len(p.name) for p in planned))
    lines = [f"{'task':{width}}    train     dev  steps  epochs       rate  decay  length  seeds"]
    for p in planned:
        tuning = p.tuning
        dev = sum(len(rows) for rows in p.data.dev.values())
        lines.append(
            f"{p.name:{width}} {len(p.data.train):8,} {dev:7,} {p.steps:6,} {tuning.num_train_epochs:7g} "
            f"{tuning.learning_rate:10.1e} {tuning.layerwise_lr_decay:6g} {tuning.max_length:7} {len(p.seeds):6}"
        )
    runs = sum(len(p.seeds) for p in planned)
    lines.append(f"{runs} runs, {done} more are done")
    return lines


def plan_runs(adapter: TaskAdapter) -> tuple[list[PlannedTask], list[str]]:
    """Read and tokenize the tasks with unfinished runs, create the folder, and log the plan.

    Returns:
        What is to be run, and the names of all tasks whose data is there, finished or not.
    """
    args, evaluation = adapter.args, adapter.evaluation
    names = adapter.names()
    fingerprint = encoder_fingerprint(adapter.encoder, is_fresh=args.encoder.from_scratch is not None)
    length = adapter.default_max_length
    tunings = {name: resolve(args, name, adapter.encoder, default_max_length=length) for name in names}
    settings = {
        name: {
            **{option: getattr(chosen, option) for option in HYPERPARAMETERS},
            **adapter.more_settings(name),
            "precision": chosen.precision,
            "processes": PartialState().num_processes,
            "encoder": fingerprint,
            "start": adapter.start_title(name),
        }
        for name, chosen in tunings.items()
    }
    for found in evaluation.results:
        expected = settings.get(found.task, {**found.settings, "encoder": fingerprint})
        check_same_settings(found, expected, {}, evaluation.folder)

    def unfinished_seeds(name: str, has_test: bool) -> list[int]:
        return [
            seed
            for seed in args.seeds
            if not evaluation.is_finished(name, seed, has_test=has_test)
            or not adapter.is_kept(name, seed)
            or not is_saved(adapter, name, seed)
        ]

    unfinished = [name for name in names if unfinished_seeds(name, adapter.wants_test)]
    data = adapter.load(unfinished, tunings) if unfinished else {}
    planned = []
    for name, rows in data.items():
        for found in evaluation.results:
            if found.task == name:
                check_same_settings(found, settings[name], rows.examples, evaluation.folder)
        if seeds := unfinished_seeds(name, bool(rows.test)):
            planned.append(PlannedTask(name, tunings[name], settings[name], rows, seeds))
    available = [name for name in names if name in data or name not in unfinished]
    if PartialState().is_main_process and not args.options.plan:
        evaluation.begin(args, adapter.kind)
    _log_plan(adapter, planned, done=len(available) * len(args.seeds) - sum(len(p.seeds) for p in planned))
    return planned, available


def check_same_settings(found: Result, settings: dict[str, Any], rows: dict[str, int], folder: Path) -> None:
    """Refuse a folder whose results have other settings or, unless `rows` is empty, other numbers of examples."""
    now = settings | {f"rows of {split}": n for split, n in rows.items()}
    then = found.settings | {f"rows of {split}": n for split, n in found.rows.items() if rows}
    differences = [
        f"{name} is {then.get(name)} there and {now.get(name)} here"
        for name in then | now
        if then.get(name) != now.get(name)
    ]
    if differences:
        raise UserError(
            f"{folder} holds results of {found.task} with other settings: {'; '.join(differences[:4])}; choose "
            f"another --experiment_name"
        )


def _log_plan(adapter: TaskAdapter, planned: Sequence[PlannedTask], done: int) -> None:
    model, folder = adapter.encoder.model, adapter.evaluation.folder
    step = getattr(model.config, STEP_KEY, None) if adapter.args.encoder.pretrain_path else None
    about = f"{type(model).__name__}, {model.num_parameters():,} parameters"
    about += "" if step is None else f", step {step:,} of pre-training"
    logger.info("model          %s: %s", adapter.encoder.name, about)
    logger.info("folder         %s", folder)
    if not planned:
        logger.info("all %d runs are finished", done)
        return
    for line in plan_lines(planned, done):
        logger.info(line)


# ---- runs


class Progress(TrainerCallback):
    """One bar over all runs. It advances by tokens, so that its remaining time holds across tasks."""

    def __init__(self, total: float, *, is_shown: bool) -> None:
        form = "{desc} {percentage:3.0f}% |{bar}| {elapsed}<{remaining}"
        self.bar = tqdm(total=total, disable=None if is_shown else True, bar_format=form, leave=False)
        self.tokens = self.start = 0.0

    def begin(self, title: str, tokens: float) -> None:
        self.tokens, self.start = tokens, self.bar.n
        self.bar.set_description_str(title)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.bar.update(self.start + self.tokens * state.global_step / max(1, state.max_steps) - self.bar.n)


def run_all(adapter: TaskAdapter, planned: Sequence[PlannedTask]) -> None:
    """Run what is planned, in order. Each result is written as soon as its run ends."""
    is_shown = PartialState().is_main_process and not adapter.args.tuning.disable_tqdm
    progress = Progress(sum(p.tokens * len(p.seeds) for p in planned), is_shown=is_shown)
    runs = [(p, seed) for p in planned for seed in p.seeds]
    try:
        for number, (p, seed) in enumerate(runs, start=1):
            progress.begin(f"{p.name} seed {seed} ({number} of {len(runs)})", p.tokens)
            started = time.monotonic()
            result = run_one(adapter, p, seed, progress)
            scores = [
                f"{name} {'undefined' if value is None else format(100 * value, '.1f')}"
                for name, value in result.metrics.items()
            ] + ["collapsed: one answer to all"] * result.collapsed
            took = format_seconds(time.monotonic() - started)
            line = f"{p.name} seed {seed}: {', '.join(scores)}  ({took}, {number} of {len(runs)})"
            (logger.info if progress.bar.disable else progress.bar.write)(line)
    finally:
        progress.bar.close()


def run_one(adapter: TaskAdapter, p: PlannedTask, seed: int, progress: Progress) -> Result:
    """Fine-tune, score and write one run."""
    encoder, evaluation = adapter.encoder, adapter.evaluation
    folder = evaluation.folder
    references = p.data.references
    start, start_path = adapter.start(p.name, seed)

    def new_encoder() -> PreTrainedModel:
        options = adapter.args.encoder
        if start_path is not None:
            return load_encoder(start_path).model
        if options.from_scratch:
            return fresh_encoder(options.from_scratch, options.tokenizer_path).model
        return copy.deepcopy(encoder.model)

    about = {**p.settings, "task": p.name, "run_seed": seed, "started_from": start, "model": encoder.name}
    with tracked_run(p.tuning.report_to, folder.name):
        outcome = fine_tune(
            lambda: adapter.make_model(new_encoder(), p.tuning, p.data),
            p.tuning,
            seed=seed,
            train=p.data.train,
            dev=p.data.dev,
            score=lambda logits: adapter.headline(p.name, adapter.metrics(logits, references)),
            collator=adapter.collator(),
            loss=adapter.loss,
            folder=folder / "logs" / f"{p.name}-{seed}",
            name=f"{folder.name}-{p.name}-{seed}",
            # In a sweep the settings are the agent's.
            callbacks=[progress, *([] if is_sweep() else [RecordSettings(about)])],
        )
        metrics = adapter.metrics(outcome.logits, references)
        prefix = f"{p.name}/" if is_sweep() else "eval_"
        outcome.trainer.log({f"{prefix}{name}": value for name, value in metrics.items()})
    result = Result(
        task=p.name,
        seed=seed,
        metrics={name: value if math.isfinite(value) else None for name, value in metrics.items()},
        collapsed=adapter.is_collapsed(outcome.logits, references),
        epoch=round(outcome.epoch, 6),
        start=start,
        model=next((found.model for found in evaluation.results), encoder.name),
        parameters=encoder.model.num_parameters(),
        rows=p.data.examples,
        settings=p.settings,
    )
    for split, rows in p.data.test.items():
        outcome.logits[split] = outcome.trainer.predict_logits(rows)
    if PartialState().is_main_process:
        evaluation.write_predictions(p.name, seed, outcome.logits)
        adapter.keep(p.name, seed, outcome, references)
        save_model(adapter, result, outcome.trainer.model, p.data.labels)
        evaluation.add(result)  # last: the line in results.jsonl says that the run is finished
    else:
        evaluation.results.append(result)
    PartialState().wait_for_everyone()
    return result


@contextmanager
def tracked_run(report_to: Sequence[str], group: str) -> Iterator[None]:
    """What follows is one run of a group in wandb; in a sweep, a part of the trial's run."""
    if "wandb" not in report_to:
        yield
        return
    import wandb

    os.environ.setdefault("WANDB_RUN_GROUP", group)
    if not is_sweep():  # with one id, all runs would be one
        os.environ.pop("WANDB_RUN_ID", None)
    try:
        yield
    finally:
        if PartialState().is_main_process and wandb.run is not None and not is_sweep():
            wandb.finish()


# ---- after the runs


def finish(adapter: TaskAdapter, tasks: Sequence[str]) -> None:
    """Print the table of results, write the reports and what the adapter adds, and send them to the trackers."""
    evaluation = adapter.evaluation
    report = adapter.reporting.report([evaluation.folder])
    reports = write_report(report, evaluation.folder)
    table = text_table(report.table.header, report.table.rows)
    logger.info("\n%s\n\nreports        %s", table, "  ".join(map(str, reports)))
    adapter.finish(tasks)
    describe_models(adapter, tasks)
    try:
        track(evaluation, adapter.reporting, adapter.args.tuning.report_to, reports)
    except Exception as error:  # all files are written by now: an unreachable tracker must not fail the command
        logger.warning("the results could not be sent to --report_to: %s", error)


def track(evaluation: Evaluation, reporting: Reporting, report_to: Sequence[str], reports: Sequence[Path]) -> None:
    """Send medians, averages, tables and the report to the trackers, as a run of its own or the sweep's trial.

    Scalars are fractions: `median/TASK`, and averages whose tasks are complete. A sweep may optimise any of them.
    """
    summaries = reporting.summarize(evaluation.results, evaluation.folder.name)
    scalars: dict[str, float | None] = {}
    spreads: list[list[Any]] = []
    runs: list[list[Any]] = []
    for s in summaries:
        scalars |= {name: average.value for name, average in s.averages.items()}
        for name, task in s.tasks.items():
            scalars[f"median/{name}"] = task.headline.median
            for metric, spread in task.metrics.items():
                numbers = [spread.median, spread.mean, spread.std, spread.best, len(spread.values), task.collapsed]
                spreads.append([s.name, name, metric, *numbers])
            for r in task.results:
                runs += [[s.name, name, r.seed, metric, v, r.epoch, r.collapsed] for metric, v in r.metrics.items()]
    tables = {
        "results": (["model", "task", "metric", "median", "mean", "std", "best", "seeds", "collapsed"], spreads),
        "runs": (["model", "task", "seed", "metric", "value", "epoch", "collapsed"], runs),
    }
    run = None
    if "wandb" in report_to:
        import wandb

        group = os.environ.get("WANDB_RUN_GROUP", evaluation.folder.name)
        name, project = f"{evaluation.folder.name}-report", os.environ.get("WANDB_PROJECT", "huggingface")
        run = wandb.run or wandb.init(project=project, group=group, name=name, job_type="report")
    defined = {name: value for name, value in scalars.items() if value is not None}
    folder = evaluation.folder / "logs" / "report"
    track_results(report_to, defined, tables, reports, folder=folder, step=len(evaluation.results))
    if run is not None:
        run.finish()
