"""Fine-tuned models as Hugging Face folders (--save_model): a class of transformers as it was trained.

models/TASK/ has the seed with the best headline in results.jsonl so far. The folder is written as a whole before the
line of its run. A missing one is restored by running its seed again.
"""

import logging
import shutil
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCardData

from electra.finetuning.config import Arguments
from electra.finetuning.evaluation import Evaluation
from electra.finetuning.task import Task, TaskData
from electra.io.console import shown_command
from electra.io.errors import UserError
from electra.io.files import expand, may_be_hub_id, replace_folder, write_json
from electra.model.pretrained import silent_transformers
from electra.options import as_flags
from electra.report.blocks import Table
from electra.report.card import Card, write_card
from electra.report.evaluation import percent
from electra.report.results import Result, read_result

logger = logging.getLogger(__name__)

RESULT_NAME = "result.json"
"""The line of results.jsonl of the saved run."""
SAVED_HEADS = {"hf", "linear"}
"""Heads with a `TransformersHead`; linear is that of taggers."""


def check_can_save(args: Arguments) -> None:
    """Refuse --save_model before any work if a head is not one of transformers."""
    heads = {args.tuning.head}
    for chosen in args.overrides.values():
        heads.add(chosen.get("head", args.tuning.head))
    if args.options.save_model and not heads <= SAVED_HEADS:
        raise UserError(f"--save_model: transformers has no class with the head {' '.join(heads)}; use --head hf")


def is_saved(evaluation: Evaluation, task: Task, seed: int) -> bool:
    """Whether the model of a finished run is there or not wanted."""
    is_wanted = evaluation.args.options.save_model and evaluation.best_first(task)[0] == seed
    saved = read_saved(evaluation, task) if is_wanted else None
    return not is_wanted or (saved is not None and saved.seed == seed)


def folder_of(evaluation: Evaluation, task: Task) -> Path:
    return evaluation.folder / "models" / task.name


def read_saved(evaluation: Evaluation, task: Task) -> Result | None:
    """Return the result of the run whose model is saved; None if there is none."""
    path = folder_of(evaluation, task) / RESULT_NAME
    return read_result(path) if path.is_file() else None


def save_model(
    evaluation: Evaluation,
    task: Task,
    data: TaskData,
    result: Result,
    model: Any,
) -> None:
    """Save the model of a run if it is the best; on the main process, before the result is written."""
    if not evaluation.args.options.save_model or evaluation.best_first(task, result)[0] != result.seed:
        return
    folder = folder_of(evaluation, task)
    unfinished = folder.with_name(f".{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # left by a killed command
    exported = model.transformers_head.with_encoder(model.encoder)
    config = exported.config
    if data.labels:
        config.id2label = dict(enumerate(data.labels))
        config.label2id = {label: number for number, label in enumerate(data.labels)}
    if data.problem_type is not None:
        config.problem_type = data.problem_type
    with silent_transformers():
        exported.save_pretrained(unfinished)
    evaluation.encoder.tokenizer.save_pretrained(unfinished)
    kept = evaluation.find(task.name, result.seed) or result
    write_json(kept._asdict(), unfinished / RESULT_NAME)
    replace_folder(unfinished, folder)


def describe_model(evaluation: Evaluation, task: Task) -> None:
    """Write the card of a saved model, now that all seeds are known, and log where it is."""
    result = read_saved(evaluation, task)
    if result is None:
        return
    folder = folder_of(evaluation, task)
    kind = task.kind
    model = result.model
    settings = result.settings
    (summary,) = (run.tasks[task.name] for run in kind.reporting.summarize(evaluation.results, ""))
    is_on_hub = may_be_hub_id(model) and not expand(model).exists()
    metadata = ModelCardData(
        library_name="transformers",
        pipeline_tag=kind.pipeline,
        base_model=model if result.start != "scratch" and is_on_hub else None,
    )
    rows = [
        [metric, *map(percent, (spread.values.get(result.seed), spread.median, spread.std))]
        for metric, spread in summary.metrics.items()
    ]
    training = {"source network": model, "start": result.start, "seed": result.seed, **settings}
    reads_windows = kind.reads_windows or settings.get("long_texts") == "windows"
    treatment = "cut into windows of" if reads_windows else "truncated to"
    card = Card(
        title=f"{model}, fine-tuned on {summary.task.title}",
        about=f"Longer inputs are {treatment} {settings['max_length']} tokens. {task.note}",
        auto_class=kind.auto_model.__name__,
        folder=str(folder),
        scores_title="Scores on the development set, percent",
        scores=Table(["metric", "this model", f"median of {len(summary.results)} seeds", "std"], rows),
        training=[(option, str(value)) for option, value in training.items()],
        command=shown_command(kind.command, as_flags(evaluation.args.record)),
    )
    write_card(folder / "README.md", metadata, card)
    logger.info("model          %s", folder)
