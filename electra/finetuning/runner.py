"""Run an evaluation: fine-tune and score every (task, seed) that is not finished, then report.

Several commands may do so at once on one folder, on one machine or on many that share it.
"""

import copy
import logging
import math
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from accelerate import PartialState
from tqdm import tqdm
from transformers import (
    PreTrainedModel,
    PreTrainedTokenizerBase,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
    set_seed,
)

from electra.base.checkpoints import translate_write_errors
from electra.base.console import LINE_SECONDS, counted, format_seconds, printable, shows_bars
from electra.base.files import read_json, replace_folder, run_of, write_file, write_json
from electra.core.errors import UserError
from electra.finetuning.config import (
    HYPERPARAMETERS,
    NARROW_DEFAULTS,
    Arguments,
    HyperParameters,
    given_hyperparameters,
    resolve_hyperparameters,
    scored_options,
)
from electra.finetuning.data import Logits
from electra.finetuning.evaluation import Evaluation, check_same_settings, is_sweep, on_main, open_evaluation
from electra.finetuning.heads import (
    Encoder,
    TaskModel,
    can_read_mean,
    encoder_fingerprint,
    fine_tuned_left_to_right,
    fresh_encoder,
    load_encoder,
)
from electra.finetuning.row_checks import ids_of_rows
from electra.finetuning.saved import check_can_save, describe_model, is_saved, save_model, write_scores
from electra.finetuning.task import Task, TaskData, paired_errors, score_rows
from electra.finetuning.trainer import train_and_score
from electra.model.transfer import POSITIONS_KEY
from electra.report.blocks import write_report
from electra.report.evaluation import UNKNOWN_SHARE, percent
from electra.report.results import BASELINES_ENDING, ENVIRONMENT_NAME, RESULTS_NAME, Result, defined, read_results
from electra.report.runs import HAS_LEARNED, METRICS_NAME
from electra.report.verdict import CAN_READ_MEAN, NOT_STARTED, for_a_verdict, too_few
from electra.runtime.device import computing
from electra.runtime.threads import use_threads
from electra.runtime.tracking import RecordSettings, log_in, removing_refused, track_results
from electra.tokenizers.unknown import WARN_UNKNOWN_RATE, UnknownTokens

logger = logging.getLogger(__name__)


def evaluate(
    args: Arguments,
    tasks: Sequence[Task],
    prefix: str,
    encoder: Encoder | None = None,
) -> Evaluation | None:
    """Fine-tune an encoder on tasks of one kind, report the results, and return the evaluation.

    Args:
        args: options of the command.
        tasks: tasks in the order of their runs; a task comes after the one from whose encoder it starts.
        prefix: first part of the folder's name, if --experiment_name is not given.
        encoder: encoder in place of the one that the options name.
    Returns:
        The evaluation with all results, on the main process; None elsewhere and with --plan.
    Raises:
        UserError: the encoder or the data cannot be read, or the folder holds other files or results.
    """
    check_can_save(args)
    log_in(args.tuning.report_to)
    encoder = encoder or open_encoder(args)
    evaluation = open_evaluation(args, encoder, tasks, prefix)
    to_do = plan_runs(evaluation)
    log_plan(evaluation, to_do)
    if args.options.plan:
        return None
    with computing(PartialState().device, torch.get_num_threads()):
        threads = recorded_threads(evaluation)
        if to_do:
            threads = use_threads(PartialState().device, args.tuning.threads, threads)
        to_do = [planned.with_features(encoder.model) for planned in to_do]
        with removing_refused(evaluation.folder, RESULTS_NAME):
            if PartialState().is_main_process:
                evaluation.begin(threads)
            PartialState().wait_for_everyone()
            try:
                run_all(evaluation, to_do)
            except KeyboardInterrupt:
                logger.info(
                    "finished seeds are kept; the same command goes on, and starts the interrupted seed from its "
                    "beginning"
                )
                raise
    if not PartialState().is_main_process:
        return None
    finish(evaluation)
    return evaluation


def recorded_threads(evaluation: Evaluation) -> int | None:
    """Return the number of threads of the last command of an evaluation; None if it is not recorded."""
    path = evaluation.folder / ENVIRONMENT_NAME
    return on_main(lambda: read_json(path).get("threads") if path.is_file() else None)


def open_encoder(args: Arguments) -> Encoder:
    """Return the encoder to fine-tune: the trained one of --pretrain_path, or a new one of --from_scratch.

    Raises:
        UserError: the encoder or its tokenizer cannot be read.
    """
    path = args.encoder.pretrain_path
    tokenizer_path = args.encoder.tokenizer_path
    if path is not None:
        encoder = load_encoder(path, tokenizer_path)
    else:
        set_seed(args.options.seed)
        encoder = fresh_encoder(args.encoder.from_scratch or "", tokenizer_path)
    if args.tuning.left_to_right:
        fine_tuned_left_to_right(encoder.model, encoder.name)
    return encoder


# ---- unfinished runs


class PlannedTask(NamedTuple):
    """A task with runs to do, and its data."""

    task: Task
    tuning: HyperParameters
    settings: dict[str, Any]  # everything a score depends on, as recorded with each result
    data: TaskData
    seeds: list[int]  # seeds of the runs that are not finished

    @property
    def num_rows(self) -> int:
        """Return how many rows the run of the first seed trains on.

        Other seeds may have another number, if a seed chooses texts and these are cut into windows.
        """
        return len(self.data.rows_of(self.seeds[0]))

    def with_features(self, encoder: PreTrainedModel) -> "PlannedTask":
        """Return the task, with the features of its data if the encoder is frozen: see `Task.prepare`."""
        if self.task.prepare is None:
            return self
        return self._replace(data=self.task.prepare(encoder, self.tuning, self.data))

    @property
    def steps(self) -> int:
        """Return how many optimizer steps a run has with the processes of this command, as Trainer counts them."""
        tuning = self.tuning
        processes = PartialState().num_processes
        step = tuning.per_device_train_batch_size * tuning.gradient_accumulation_steps * processes
        return math.ceil(math.ceil(self.num_rows / step) * tuning.num_train_epochs)


def plan_runs(evaluation: Evaluation) -> list[PlannedTask]:
    """Return the tasks that have unfinished runs, with their data read and tokenized.

    Raises:
        UserError: the folder holds results of other settings or data, or no task has data.
    """
    args = evaluation.args
    encoder = evaluation.encoder
    first_seed = args.options.seed
    fingerprint = encoder_fingerprint(encoder, is_fresh=args.encoder.from_scratch is not None)
    option_settings = args.settings()
    tunings = {}
    settings = {}
    for task in evaluation.tasks:
        begun_settings = next((result.settings for result in evaluation.results if result.task == task.name), {})
        tuning = resolve_hyperparameters(
            args,
            task.name,
            encoder,
            default_max_length=task.kind.max_length,
            texts=task.texts and math.ceil(task.texts / PartialState().num_processes),
            begun_settings=begun_settings,
        )
        tunings[task.name] = tuning
        settings[task.name] = {
            **{option: getattr(tuning, option) for option in HYPERPARAMETERS},
            **option_settings,
            **task.settings,
            "precision": tuning.precision,
            "processes": PartialState().num_processes,
            "encoder": fingerprint,
            "start": f"{task.start}, best" if task.start else args.start,
        }
    for result in evaluation.results:
        expected = settings.get(result.task, {**result.settings, "encoder": fingerprint})
        recorded = {**scored_options(type(args.options)), **result.settings}  # a later option had its default then
        check_same_settings(evaluation.folder, result.task, recorded, expected)

    to_do = []
    missing_tasks = set()
    for task in evaluation.tasks:
        wanted_seeds = list(range(first_seed, first_seed + args.options.num_seeds))
        if evaluation.is_start(task) or args.options.save_model:
            # The best run may be one of another command, which kept no encoder and no model.
            wanted_seeds += [seed for seed in evaluation.best_first(task) if seed not in wanted_seeds]
        seeds = unfinished_seeds(evaluation, task, wanted_seeds)
        data = task.load(encoder.tokenizer, tunings[task.name]) if seeds else None
        if data is not None:
            facts: dict[str, float] = {CAN_READ_MEAN: True} if can_read_mean(encoder.model.config) else {}
            facts |= auc_before_start(args.encoder.pretrain_path)
            facts |= share_of_unknown(task, data, encoder.tokenizer)
            data = data._replace(measured={**data.measured, **facts})
            to_do.append(PlannedTask(task, tunings[task.name], settings[task.name], data, seeds))
        elif seeds:
            missing_tasks.add(task.name)
        if task.start in missing_tasks or len(missing_tasks) == len(evaluation.tasks):
            raise UserError(f"there is no data of {' '.join(sorted(missing_tasks))}; see the warnings")
    return to_do


def auc_before_start(network: str | None) -> dict[str, float]:
    """Return `NOT_STARTED` -> held-out AUC of a discriminator, in [0, 1], if it has not started to learn; else {}.

    Args:
        network: folder of a run of pre-training, of its discriminator or of a checkpoint. The result for other
            networks, such as a generator or one of the Hub, is {}, because their AUC is not known.
    """
    run = None if network is None or Path(network).name == "generator" else run_of(network)
    path = run / METRICS_NAME if run is not None else None
    if path is None or not path.is_file():
        return {}
    metrics = read_json(path)
    verdict = metrics.get("verdict")
    if not isinstance(verdict, str) or HAS_LEARNED in verdict:
        return {}
    return {NOT_STARTED: round(metrics["held_out"]["trained"]["discriminator_auc"], 4)}


def share_of_unknown(task: Task, data: TaskData, tokenizer: PreTrainedTokenizerBase) -> dict[str, float]:
    """Return `UNKNOWN_SHARE` -> share of unknown tokens, in [0, 1], in the split with the largest share.

    Log a warning, too. If the share is at most `WARN_UNKNOWN_RATE`, return {} and log nothing.
    """
    counts = {}
    for name, split in data.splits.items():
        counts[name] = UnknownTokens()
        counts[name].add(ids_of_rows(split.rows), tokenizer)
    worst_name = max(counts, key=lambda name: counts[name].share)
    counts[worst_name].warn(f"{task.name} {worst_name}")
    share = counts[worst_name].share
    return {UNKNOWN_SHARE: round(share, 4)} if share > WARN_UNKNOWN_RATE else {}


def unfinished_seeds(evaluation: Evaluation, task: Task, seeds: Sequence[int]) -> list[int]:
    """Return those of the seeds whose runs have no result, or lack their encoder or their model; on every process."""

    def is_finished(seed: int) -> bool:
        if evaluation.find(task.name, seed) is None:
            return False
        if evaluation.is_start(task) and not evaluation.encoder_path(task.name, seed).is_dir():
            return False
        return is_saved(evaluation, task, seed)

    return on_main(lambda: [seed for seed in seeds if not is_finished(seed)])


def log_plan(evaluation: Evaluation, to_do: Sequence[PlannedTask]) -> None:
    """Log model, folder and planned runs; warn of untrained positions, and of too few examples for a verdict."""
    model = evaluation.encoder.model
    parameters = model.num_parameters()
    weights = ", with random weights" if evaluation.args.encoder.from_scratch else ""
    logger.info(
        "model          %s: %s, %d parameters%s", evaluation.encoder.name, type(model).__name__, parameters, weights
    )
    logger.info("folder         %s", evaluation.folder)
    for planned in to_do:
        tuning = planned.tuning
        logger.info(
            "%-14s %d rows, %d steps, learning rate %g, %d tokens, seeds %s",
            planned.task.name, planned.num_rows, planned.steps, tuning.learning_rate, tuning.max_length, planned.seeds,
        )  # fmt: skip
        trained = getattr(model.config, POSITIONS_KEY, None)  # other programs' encoders do not say
        if trained is not None and tuning.max_length > trained:
            logger.warning(
                "%s: the encoder was pre-trained with %d tokens, positions beyond are untrained; try --max_length %d",
                planned.task.name, trained, trained,
            )  # fmt: skip
        if planned.task.texts is not None and model.config.hidden_size < NARROW_DEFAULTS.below:
            given_options = given_hyperparameters(evaluation.args, planned.task.name)
            values = {
                "num_train_epochs": f"{tuning.num_train_epochs:g}",
                "learning_rate": f"{tuning.learning_rate:g}",
                "layerwise_lr_decay": f"{tuning.layerwise_lr_decay:g}",
                "head": tuning.head,
            }
            defaults = " ".join(f"--{name} {value}" for name, value in values.items() if name not in given_options)
            if defaults:
                logger.info(
                    "               with the defaults of an encoder narrower than %d: %s",
                    NARROW_DEFAULTS.below, defaults,
                )  # fmt: skip
        unit = planned.task.kind.reporting.unit
        scored_rows = sum(split.examples for name, split in planned.data.scored.items() if name.startswith("dev"))
        if reason := too_few(scored_rows, unit):
            logger.warning("%s: there will be no verdict: %s. %s", planned.task.name, reason, for_a_verdict(unit))
    runs = sum(len(planned.seeds) for planned in to_do)
    logger.info("%s, %d finished", counted(runs, "run"), len(evaluation.results))


# ---- runs

WAIT = 10.0
"""Seconds to wait for a run of another command before asking again."""
STEPS_OF_ESTIMATE = 10
"""Steps that are timed to say how long a run takes."""


class Progress(TrainerCallback):
    """The progress over the steps of all runs: a bar, or a line every `LINE_SECONDS` where no bar can be seen.

    The first `STEPS_OF_ESTIMATE` steps of a task say how long its seeds take.

    Args:
        steps: steps of all runs together.
        is_shown: whether this process may show a bar.
    """

    def __init__(self, steps: int, *, is_shown: bool) -> None:
        form = "{desc} {percentage:3.0f}% |{bar}| {elapsed}<{remaining}"
        self.bar = tqdm(total=steps, disable=not (is_shown and shows_bars()), bar_format=form, leave=False)
        self.said_at = time.monotonic()
        self.timed_tasks: set[str] = set()

    def begin(self, planned: PlannedTask, seed: int) -> None:
        """Name the run to which the next steps belong."""
        self.task = planned.task.name
        self.title = f"{self.task} seed {seed}"
        self.bar.set_description_str(self.title)

    def say(self, text: str) -> None:
        """Log a line, above the bar if there is one."""
        say = logger.info if self.bar.disable else self.bar.write
        say(printable(text))
        self.said_at = time.monotonic()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        self.bar.update()
        step = state.global_step
        if step in (1, STEPS_OF_ESTIMATE) and args.device.type != "cpu":
            torch.accelerator.synchronize()
        now_seconds = time.monotonic()
        if step == 1:  # slower than the others
            self.first_step_end = now_seconds
            return
        seconds = (now_seconds - self.first_step_end) / (step - 1)  # of a step
        if step == STEPS_OF_ESTIMATE and self.task not in self.timed_tasks:
            self.timed_tasks.add(self.task)
            self.say(f"{self.task}: training takes about {format_seconds(seconds * state.max_steps)} for each seed")
        elif self.bar.disable and now_seconds - self.said_at > LINE_SECONDS:
            time_left = format_seconds(seconds * (state.max_steps - step))
            self.say(f"{self.title}: step {step} of {state.max_steps}, about {time_left} left")


def run_all(evaluation: Evaluation, to_do: Sequence[PlannedTask]) -> None:
    """Make the planned runs in order, but leave out runs that other commands make or have made meanwhile."""
    is_shown = PartialState().is_main_process and not evaluation.args.tuning.disable_tqdm
    progress = Progress(sum(planned.steps * len(planned.seeds) for planned in to_do), is_shown=is_shown)
    for planned in to_do:
        busy = [seed for seed in planned.seeds if not run_if_free(evaluation, planned, seed, progress, timeout=0)]
        if busy:
            logger.info("%s: other commands make the seeds %s", planned.task.name, busy)
        while busy and evaluation.is_start(planned.task):  # all of its runs must be finished
            busy = [seed for seed in busy if not run_if_free(evaluation, planned, seed, progress, WAIT)]
    progress.bar.close()
    evaluation.refresh()


def run_if_free(
    evaluation: Evaluation,
    planned: PlannedTask,
    seed: int,
    progress: Progress,
    timeout: float,
) -> bool:
    """Make a run unless it is finished; return False if another command still makes it after `timeout` seconds."""
    progress.begin(planned, seed)
    with evaluation.claim(planned.task.name, seed, timeout) as is_free:
        if not is_free:
            return False
        evaluation.refresh()
        if not unfinished_seeds(evaluation, planned.task, [seed]):
            progress.bar.update(planned.steps)
            return True
        result = run_one(evaluation, planned, seed, progress)
        reporting = planned.task.kind.reporting
        scores_by_name = {
            name: value for name, value in result.metrics.items() if reporting.repeats.get(name) not in result.metrics
        }
        scores = [f"{name} {percent(value)}" for name, value in scores_by_name.items()]
        if result.collapsed:
            scores.append("collapsed: one answer to all")
        progress.say(f"{progress.title}: {', '.join(scores)}")
    return True


def run_one(evaluation: Evaluation, planned: PlannedTask, seed: int, progress: Progress) -> Result:
    """Train and score one run, write its output, and return its result."""
    task = planned.task
    data = planned.data
    references = data.references
    group = evaluation.folder.name
    start, source = start_of(evaluation, task)
    model = evaluation.encoder.name
    about = {**planned.settings, "task": task.name, "run_seed": seed, "started_from": start, "model": model}
    # In a sweep the settings are the agent's.
    callbacks = [progress] if is_sweep() else [progress, RecordSettings(about)]
    with tracked_run(planned.tuning.report_to, group):
        outcome = train_and_score(
            lambda: task.head(new_encoder(evaluation, source), planned.tuning, data),
            planned.tuning,
            seed=seed,
            train=data.rows_of(seed),
            dev={name: split.rows for name, split in data.scored.items()},
            score=lambda logits: task.headline(task.metrics(logits, references)),
            collator=task.collator(evaluation.encoder.tokenizer.pad_token_id),
            loss=task.loss,
            folder=evaluation.folder / "logs" / f"{task.name}-{seed}",
            name=f"{group}-{task.name}-{seed}",
            callbacks=callbacks,
        )
        progress.bar.update(planned.steps - outcome.trainer.state.global_step)  # of a run that --patience has ended
        metrics = task.metrics(outcome.logits, references)
        prefix = f"{task.name}/" if is_sweep() else "eval_"
        outcome.trainer.log({f"{prefix}{name}": value for name, value in metrics.items()})
    development = [split for split in outcome.logits if split.startswith("dev")]
    result = Result(
        task=task.name,
        seed=seed,
        metrics={name: defined(value) for name, value in metrics.items()},
        collapsed=any(task.is_collapsed(outcome.logits[split], references[split]) for split in development),
        epoch=round(outcome.epoch, 6),
        start=start,
        model=model,
        parameters=evaluation.encoder.model.num_parameters(),
        rows=data.examples,
        settings={**planned.settings, **data.measured},
    )
    logits = dict(outcome.logits)
    for name, split in data.splits.items():
        if not split.is_labelled:
            logits[name] = outcome.trainer.predict_logits(split.rows)
    if PartialState().is_main_process:
        write_run(evaluation, planned, result, logits, outcome.trainer.model)
    evaluation.refresh()
    return result


def start_of(evaluation: Evaluation, task: Task) -> tuple[str, Path | None]:
    """Return `Result.start` of a task's runs, and the folder of the encoder that they start from.

    The folder is None if they start from the encoder of the evaluation.
    """
    if task.start is None:
        return evaluation.args.start, None
    (source,) = (candidate for candidate in evaluation.tasks if candidate.name == task.start)
    seed = evaluation.best_first(source)[0]
    return f"{source.name}-{seed}", evaluation.encoder_path(source.name, seed)


def new_encoder(evaluation: Evaluation, source: Path | None) -> PreTrainedModel:
    """Return an encoder for a run: from the folder `source`, else a copy of the evaluation's, or a new random one."""
    options = evaluation.args.encoder
    if source is not None:
        return load_encoder(str(source)).model
    if not options.from_scratch:
        return copy.deepcopy(evaluation.encoder.model)
    encoder = fresh_encoder(options.from_scratch, options.tokenizer_path)
    if evaluation.args.tuning.left_to_right:
        fine_tuned_left_to_right(encoder.model, encoder.name)
    return encoder.model


def write_run(
    evaluation: Evaluation,
    planned: PlannedTask,
    result: Result,
    logits: Logits,
    model: TaskModel,
) -> None:
    """Write predictions, encoder and model of a run, and last its line in results.jsonl: then the run is finished.

    Args:
        logits: logits of all splits but train, also of those that are not scored.
        model: the model that was trained.
    """
    task = planned.task
    data = planned.data
    seed = result.seed
    evaluation.write_logits(task.name, seed, logits)
    for split in logits:
        files = task.predictions(split, logits, data.references) if task.predictions else {}
        for ending, content in files.items():
            path = evaluation.predictions / f"{task.name}-{seed}{ending}"
            path.parent.mkdir(exist_ok=True)
            if isinstance(content, str):
                write_file(content.encode(), path)
            else:
                write_json(content, path)
    if logits and data.baselines is not None:
        baselines = data.baselines(seed)
        scores = {title: baseline.metrics for title, baseline in baselines.items()}
        write_json(scores, evaluation.predictions / f"{task.name}-{seed}{BASELINES_ENDING}")
        rows = score_rows(task.row_scores, {name: logits[name] for name in data.scored}, data.references)
        result = replace(result, paired_errors=paired_errors(rows, baselines))
    if evaluation.is_start(task):
        folder = evaluation.encoder_path(task.name, seed)
        unfinished = folder.with_name(f".{folder.name}.unfinished")
        with translate_write_errors(evaluation.folder, "make room, and run the same command again"):
            model.encoder.save_pretrained(unfinished)
            evaluation.encoder.tokenizer.save_pretrained(unfinished)
            replace_folder(unfinished, folder)
    with evaluation.lock("results"):
        evaluation.results = read_results(evaluation.folder / RESULTS_NAME)
        kept_values = task.kept_values(logits, data.references) if task.kept_values else {}
        save_model(evaluation, task, data, result, model, kept_values)
        evaluation.add(result)


@contextmanager
def tracked_run(report_to: Sequence[str], group: str) -> Iterator[None]:
    """Track what the block trains as one run of a group in wandb; in a sweep, as a part of the trial's run."""
    if "wandb" not in report_to:
        yield
        return
    import wandb

    has_group = "WANDB_RUN_GROUP" in os.environ
    if not has_group:
        os.environ["WANDB_RUN_GROUP"] = group
    if not is_sweep():  # with one id, all runs would be one
        os.environ.pop("WANDB_RUN_ID", None)
    try:
        yield
    finally:
        if PartialState().is_main_process and wandb.run is not None and not is_sweep():
            wandb.finish()
        if not has_group:
            del os.environ["WANDB_RUN_GROUP"]


# ---- after the runs


def finish(evaluation: Evaluation) -> None:
    """Print the table of results, write the reports and the cards of saved models."""
    if not evaluation.results:  # other commands make all runs
        return
    logs = evaluation.folder / "logs"
    for folder in (*logs.glob("*"), logs):
        with suppress(OSError):  # it has files of a tracker, or there is none
            folder.rmdir()
    write_report(evaluation.kind.reporting.report([evaluation.folder]), evaluation.folder)
    for task in evaluation.tasks:
        copy_predictions(evaluation, task)
        describe_model(evaluation, task)
        write_scores(evaluation, task)
    if is_sweep():  # the trial may optimise any of these
        run = evaluation.kind.reporting.summarize(evaluation.results, "")
        scalars = {name: value for name, value in run.scalars.items() if value is not None}
        track_results(evaluation.args.tuning.report_to, scalars, [])


def copy_predictions(evaluation: Evaluation, task: Task) -> None:
    """Copy the predictions of a task's best run, for a test set if there is one, to the evaluation's folder."""
    for seed in evaluation.best_first(task)[:1]:
        run = f"{task.name}-{seed}"
        paths = [path for split in ("test", "dev") for path in evaluation.predictions.glob(f"{run}-{split}.*")]
        for path in paths[:1]:
            target = evaluation.folder / f"predictions{path.suffix}"
            write_file(path.read_bytes(), target)
            logger.info("predictions    %s (%s)", target, path.name)
