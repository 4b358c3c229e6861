"""Every (task, seed) that is not finished: fine-tune, score, keep."""

import copy
import logging
import math
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from accelerate import PartialState
from tqdm import tqdm
from transformers import PreTrainedModel, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from electra.console import format_seconds
from electra.finetuning.encoder import fresh_encoder, load_encoder
from electra.finetuning.encoding import Rows
from electra.finetuning.protocol.evaluation import is_sweep
from electra.finetuning.protocol.family import Family
from electra.finetuning.protocol.plan import HowToTrain, PlannedTask
from electra.finetuning.protocol.settings import settings_of
from electra.finetuning.results import Result
from electra.finetuning.run import Logits, Outcome, fine_tune
from electra.finetuning.trainer import Machine
from electra.tracking import RecordSettings

logger = logging.getLogger(__name__)


class Progress(TrainerCallback):
    """One bar over all runs; it advances by their tokens, so that its remaining time holds across tasks."""

    def __init__(self, total: float, *, is_shown: bool) -> None:
        super().__init__()
        form = "{desc} {percentage:3.0f}% |{bar}| {elapsed}<{remaining}"
        self.bar = tqdm(total=total, disable=None if is_shown else True, bar_format=form, leave=False)
        self.tokens = 0.0
        self.start = 0.0

    def begin(self, title: str, tokens: float) -> None:
        self.tokens, self.start = tokens, self.bar.n
        self.bar.set_description_str(title)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.bar.update(self.start + self.tokens * state.global_step / max(1, state.max_steps) - self.bar.n)

    def say(self, line: str) -> None:
        if self.bar.disable:
            logger.info(line)
        else:
            self.bar.write(line)


class Runs:
    """What is left to be run, and what its runs share.

    Args:
        family: the kind of task.
        computed: how runs are computed here.
        fingerprint: of the encoder.
        planned: what is left, task by task.
        tests: test splits of each task.
        tasks: all tasks of the command whose data is there, finished ones included.
    """

    def __init__(
        self,
        family: Family,
        computed: Machine,
        fingerprint: str,
        planned: Sequence[PlannedTask],
        tests: dict[str, dict[str, Rows]],
        tasks: list[str],
    ) -> None:
        self.family, self.computed, self.fingerprint = family, computed, fingerprint
        self.planned, self.tests, self.tasks = planned, tests, tasks

    def run_all(self) -> None:
        """Run what is planned, task by task in its order; a result is kept as soon as it is there.

        Raises:
            UserError: as of `Family.start`.
        """
        is_shown = PartialState().is_main_process and not self.family.args.tuning.disable_tqdm
        progress = Progress(sum(p.tokens * len(p.seeds) for p in self.planned), is_shown=is_shown)
        runs = [(p, seed) for p in self.planned for seed in p.seeds]
        try:
            for number, (p, seed) in enumerate(runs, start=1):
                progress.begin(f"{p.name} seed {seed} ({number} of {len(runs)})", p.tokens)
                started = time.monotonic()
                result = self._run(p, seed, progress)
                took = format_seconds(time.monotonic() - started)
                progress.say(f"{p.name} seed {seed}: {describe(result)}  ({took}, {number} of {len(runs)})")
        finally:
            progress.bar.close()

    def how_to_train(self, p: PlannedTask, start_path: str | None = None) -> HowToTrain:
        """Model, batches and loss of a task; the model is made anew at each call."""
        return HowToTrain(
            lambda: self.family.make_model(p.name, self._make_encoder(start_path), p.settings),
            self.family.collator(),
            self.family.loss,
        )

    def _run(self, p: PlannedTask, seed: int, progress: Progress) -> Result:
        family, encoder = self.family, self.family.encoder
        folder = family.evaluation.folder
        start, start_path = family.start(p.name, seed)
        how = self.how_to_train(p, start_path)

        def metrics_of(logits: Logits) -> dict[str, float]:
            return family.metrics(p.name, {split: logits[split] for split in p.dev})

        settings = settings_of(
            p.settings, family.more_settings(p.name), self.computed, self.fingerprint, family.start_title(p.name)
        )
        about = {**settings, "task": p.name, "run_seed": seed, "started_from": start, "model": encoder.name}
        with tracked_run(self.computed.report_to, folder.name):
            outcome = fine_tune(
                how.make_model,
                p.settings,
                self.computed,
                seed=seed,
                train=p.train,
                dev=p.dev,
                score=lambda logits: family.headline(p.name, metrics_of(logits)),
                collator=how.collator,
                loss=how.loss,
                folder=folder / "logs" / f"{p.name}-{seed}",
                name=f"{folder.name}-{p.name}-{seed}",
                callbacks=[progress, *([] if is_sweep() else [RecordSettings(about)])],  # a trial's are the agent's
            )
            metrics = metrics_of(outcome.logits)
            prefix = f"{p.name}/" if is_sweep() else "eval_"
            outcome.trainer.log({f"{prefix}{name}": value for name, value in metrics.items()})
        result = Result(
            task=p.name,
            seed=seed,
            metrics={name: value if math.isfinite(value) else None for name, value in metrics.items()},
            collapsed=family.is_collapsed(p.name, outcome.logits),
            epoch=round(outcome.epoch, 6),
            start=start,
            model=next((found.model for found in family.evaluation.results), encoder.name),
            parameters=encoder.model.num_parameters(),
            rows=p.rows,
            settings=settings,
        )
        self._keep(p, seed, outcome, result)
        return result

    def _make_encoder(self, start_path: str | None) -> PreTrainedModel:
        options = self.family.args.encoder
        if start_path is not None:
            return load_encoder(start_path).model
        if options.from_scratch:
            return fresh_encoder(options.from_scratch, options.tokenizer_path).model
        return copy.deepcopy(self.family.encoder.model)

    def _keep(self, p: PlannedTask, seed: int, outcome: Outcome, result: Result) -> None:
        """Write what a run leaves; its line in results.jsonl last, because the line says that it is finished."""
        for split, rows in self.tests.get(p.name, {}).items():
            outcome.logits[split] = outcome.trainer.predict_logits(rows)
        evaluation = self.family.evaluation
        if PartialState().is_main_process:
            evaluation.write_predictions(p.name, seed, outcome.logits)
            self.family.keep(p.name, seed, outcome)
            evaluation.add(result)
        else:
            evaluation.results.append(result)
        PartialState().wait_for_everyone()


def describe(result: Result) -> str:
    """The metrics of a run in percent, for a person."""
    parts = [f"{name} {'undefined' if v is None else format(100 * v, '.1f')}" for name, v in result.metrics.items()]
    return ", ".join(parts) + (", collapsed: one answer to all" if result.collapsed else "")


@contextmanager
def tracked_run(report_to: Sequence[str], group: str) -> Iterator[None]:
    """Have wandb take what follows as one run of a group, ended with it; in a sweep, as part of the trial's run."""
    if "wandb" not in report_to:
        yield
        return
    import wandb

    os.environ.setdefault("WANDB_RUN_GROUP", group)
    if not is_sweep():  # one id for all of them would make one run of them
        os.environ.pop("WANDB_RUN_ID", None)
    try:
        yield
    finally:
        if PartialState().is_main_process and wandb.run is not None and not is_sweep():
            wandb.finish()
