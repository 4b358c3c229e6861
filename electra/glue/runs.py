"""Every (task, seed) that is not finished: fine-tune, score, keep."""

import copy
import logging
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from accelerate import PartialState
from tqdm import tqdm
from transformers import PreTrainedModel, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from electra.console import format_seconds
from electra.errors import UserError
from electra.files import replace_folder
from electra.finetuning.encoder import Encoder, fresh_encoder, load_encoder
from electra.finetuning.encoding import EncodedExamples
from electra.finetuning.results import Result
from electra.finetuning.run import Logits, Outcome, fine_tune
from electra.finetuning.trainer import Machine
from electra.glue.decisions import decide
from electra.glue.evaluation import Evaluation, is_sweep
from electra.glue.metrics import is_collapsed, score
from electra.glue.options import Arguments
from electra.glue.plan import PlannedTask
from electra.glue.protocol import settings_of
from electra.glue.tasks import TASKS, Task

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


class RecordSettings(TrainerCallback):
    """Puts what a run is into wandb's record of it, where Trainer's own arguments say only a part."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__()
        self.settings = settings

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if "wandb" not in args.report_to or not state.is_world_process_zero:
            return
        import wandb

        if wandb.run is not None and not is_sweep():  # of a sweep, the settings are the agent's
            wandb.config.update(self.settings, allow_val_change=True)


class GlueRuns:
    """What all runs of an evaluation share.

    Args:
        tests: test splits of each task, encoded without labels; "ax" among those of MNLI.
        fingerprint: of the encoder.
    """

    def __init__(
        self,
        args: Arguments,
        encoder: Encoder,
        evaluation: Evaluation,
        computed: Machine,
        tests: dict[str, dict[str, EncodedExamples]],
        fingerprint: str,
    ) -> None:
        self.args, self.encoder, self.evaluation, self.computed = args, encoder, evaluation, computed
        self.tests, self.fingerprint = tests, fingerprint

    def run_all(self, planned: Sequence[PlannedTask]) -> None:
        """Run what is planned, task by task in the given order; a result is kept as soon as it is there.

        Raises:
            UserError: another run of MNLI is the best by now than the one that others started from.
        """
        is_shown = PartialState().is_main_process and not self.args.tuning.disable_tqdm
        progress = Progress(sum(p.tokens * len(p.seeds) for p in planned), is_shown=is_shown)
        runs = [(p, seed) for p in planned for seed in p.seeds]
        try:
            for number, (p, seed) in enumerate(runs, start=1):
                progress.begin(f"{p.task.name} seed {seed} ({number} of {len(runs)})", p.tokens)
                started = time.monotonic()
                result = self._run(p, seed, progress)
                took = format_seconds(time.monotonic() - started)
                progress.say(
                    f"{p.task.name} seed {seed}: {describe(p.task, result)}  ({took}, {number} of {len(runs)})"
                )
        finally:
            progress.bar.close()

    def _start(self, task: Task, seed: int) -> tuple[str, str | None]:
        """What a run starts from: its name in the results, and the folder if it is not the encoder itself."""
        if task.name not in self.args.glue.start_from_mnli:
            return ("scratch" if self.args.encoder.from_scratch else "pretrained"), None
        if self.args.glue.mnli_run == "best":
            mnli = [r for r in self.evaluation.results if r.task == "mnli" and r.seed in self.args.seeds]
            seed = max(mnli, key=lambda r: (headline_of(TASKS["mnli"], r.metrics), -r.seed)).seed
            others = {r.start for r in self.evaluation.results if r.task == task.name} - {f"mnli-{seed}"}
            if others:
                raise UserError(
                    f"{self.evaluation.folder} holds {task.name} started from {' '.join(sorted(others))}, and the "
                    f"best run of mnli is now mnli-{seed}; choose another --experiment_name"
                )
        return f"mnli-{seed}", str(self.evaluation.encoder_path(seed))

    def _run(self, p: PlannedTask, seed: int, progress: Progress) -> Result:
        task, folder = p.task, self.evaluation.folder
        start, start_path = self._start(task, seed)

        def metrics_of(logits: Logits) -> dict[str, float]:
            return score(task, {split: decide(logits[split], task) for split in p.dev}, p.references)

        settings = settings_of(self.args, task.name, p.settings, self.computed, self.fingerprint)
        about = {**settings, "task": task.name, "run_seed": seed, "started_from": start, "model": self.encoder.name}
        with tracked_run(self.computed.report_to, folder.name):
            outcome = fine_tune(
                lambda: self._make_encoder(start_path),
                p.settings,
                self.computed,
                seed=seed,
                num_labels=max(1, len(task.labels)),
                train=p.train,
                dev=p.dev,
                score=lambda logits: headline_of(task, metrics_of(logits)),
                pad_token_id=self.encoder.tokenizer.pad_token_id,
                folder=folder / "logs" / f"{task.name}-{seed}",
                name=f"{folder.name}-{task.name}-{seed}",
                callbacks=[progress, RecordSettings(about)],
            )
            metrics = metrics_of(outcome.logits)
            prefix = f"{task.name}/" if is_sweep() else "eval_"
            outcome.trainer.log({f"{prefix}{name}": value for name, value in metrics.items()})
        result = Result(
            task=task.name,
            seed=seed,
            metrics={name: value if math.isfinite(value) else None for name, value in metrics.items()},
            collapsed=any(
                is_collapsed(task, decide(outcome.logits[split], task), p.references[split]) for split in p.dev
            ),
            epoch=round(outcome.epoch, 6),
            start=start,
            model=next((found.model for found in self.evaluation.results), self.encoder.name),
            parameters=self.encoder.model.num_parameters(),
            rows=p.rows,
            settings=settings,
        )
        self._keep(p, seed, outcome, result)
        return result

    def _make_encoder(self, start_path: str | None) -> PreTrainedModel:
        if start_path is not None:
            return load_encoder(start_path).model
        if self.args.encoder.from_scratch:
            return fresh_encoder(self.args.encoder.from_scratch, self.args.encoder.tokenizer_path).model
        return copy.deepcopy(self.encoder.model)

    def _keep(self, p: PlannedTask, seed: int, outcome: Outcome, result: Result) -> None:
        """Write what a run leaves; its line in results.jsonl last, because the line says that it is finished."""
        logits = {**outcome.logits}
        for split, examples in self.tests.get(p.task.name, {}).items():
            logits[split] = outcome.trainer.predict_logits(examples)
        if PartialState().is_main_process:
            self.evaluation.write_predictions(p.task.name, seed, logits)
            if p.task.name == "mnli" and self.args.glue.start_from_mnli:
                target = self.evaluation.encoder_path(seed)
                unfinished = target.with_name(f".{target.name}.unfinished")
                model: Any = outcome.trainer.model
                model.encoder.save_pretrained(unfinished)
                self.encoder.tokenizer.save_pretrained(unfinished)
                replace_folder(unfinished, target)
            self.evaluation.add(result)
        else:
            self.evaluation.results.append(result)
        PartialState().wait_for_everyone()


def headline_of(task: Task, metrics: Mapping[str, float | None]) -> float:
    """What a run is judged by, -infinity if undefined; matched accuracy for MNLI without mismatched examples."""
    value = metrics.get(task.headline, metrics.get("accuracy_matched"))
    return value if value is not None and math.isfinite(value) else -math.inf


def describe(task: Task, result: Result) -> str:
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
