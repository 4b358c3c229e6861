"""Fine-tuned models as Hugging Face folders (--save_model): a class of transformers as it was trained.

models/TASK/         the seed with the best headline in results.jsonl so far (--save_model best)
models/TASK-SEED/    every seed (--save_model all)

A folder is written as a whole before the line of its run. A missing one is restored by running its seed again.
"""

import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCardData

from electra.finetuning.config import Arguments
from electra.finetuning.evaluation import model_name
from electra.finetuning.task import TaskAdapter
from electra.io.console import shown_command
from electra.io.errors import UserError
from electra.io.files import expand, may_be_hub_id, replace_folder, write_json
from electra.model.pretrained import silent_transformers
from electra.options import as_flags
from electra.report.blocks import Table
from electra.report.card import Card, write_card
from electra.report.evaluation import percent
from electra.report.results import Result

logger = logging.getLogger(__name__)

FOLDER_NAME = "models"
RESULT_NAME = "result.json"
"""The line of results.jsonl of the saved run."""
METRIC_TYPES = {
    "mcc": "matthews_correlation", "pearson": "pearsonr", "spearman": "spearmanr",
    "accuracy_matched": "accuracy", "accuracy_mismatched": "accuracy",
}  # fmt: skip
"""Names of metrics on the Hub where they differ from ours."""


def check_can_save(args: Arguments[Any], saved_heads: Sequence[str]) -> None:
    """Refuse --save_model before any work if a head is not one of transformers."""
    if args.options.save_model == "none":
        return
    heads = {args.tuning.head, *(chosen["head"] for chosen in args.overrides.values() if "head" in chosen)}
    for head in sorted(heads - set(saved_heads)):
        raise UserError(
            f"--save_model: transformers has no class with the head {head}; train with --head {saved_heads[0]}"
        )


def _is_wanted(adapter: TaskAdapter, task: str, seed: int, *more: Result) -> bool:
    which = adapter.args.options.save_model
    return which == "all" or (which == "best" and adapter.best_first(task, *more)[:1] == [seed])


def is_saved(adapter: TaskAdapter, task: str, seed: int) -> bool:
    """Whether the model of a finished run is there or not wanted."""
    return not _is_wanted(adapter, task, seed) or _read_result(_folder(adapter, task, seed)).get("seed") == seed


def save_model(adapter: TaskAdapter, result: Result, model: Any, labels: Sequence[str] | None) -> None:
    """Save the model of a run if it is wanted; on the main process, before the result is written."""
    if not _is_wanted(adapter, result.task, result.seed, result):
        return
    folder = _folder(adapter, result.task, result.seed)
    unfinished = folder.with_name(f".{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # left by a killed command
    exported = adapter.transformers_head(model).with_encoder(model.encoder)
    if labels is not None:
        exported.config.id2label = dict(enumerate(labels))
        exported.config.label2id = {label: number for number, label in enumerate(labels)}
    for name, value in adapter.config(result.task).items():
        setattr(exported.config, name, value)
    with silent_transformers():
        exported.save_pretrained(unfinished)
    adapter.encoder.tokenizer.save_pretrained(unfinished)
    kept = adapter.evaluation.find(result.task, result.seed) or result
    write_json(kept._asdict(), unfinished / RESULT_NAME)
    replace_folder(unfinished, folder)


def describe_models(adapter: TaskAdapter, tasks: Sequence[str]) -> None:
    """Write the cards of the saved models, now that all seeds are known, and log where they are."""
    for folder in dict.fromkeys(_folder(adapter, task, seed) for task in tasks for seed in adapter.args.seeds):
        if result := _read_result(folder):
            describe_model(adapter, folder, result)
            logger.info("model          %s", folder)
    if (adapter.evaluation.folder / FOLDER_NAME).is_dir():
        return
    if adapter.args.tuning.head in adapter.saved_heads:
        logger.info("The fine-tuned weights were not saved. The same command with --save_model trains and saves them.")
    else:
        hint = f"--head {adapter.saved_heads[0]} --save_model --experiment_name NAME"
        logger.info("The fine-tuned weights were not saved; %s trains models that can be saved.", hint)


def describe_model(adapter: TaskAdapter, folder: Path, result: Mapping[str, Any]) -> None:
    """Write the card of a saved model; `result` is the line of its run in results.jsonl."""
    name, model, settings = result["task"], result["model"], result["settings"]
    (task,) = (run.tasks[name] for run in adapter.reporting.summarize(adapter.evaluation.results, ""))
    hub_id, hub_config = (None, None) if task.other_rows else adapter.hub_dataset(name)
    scores = [
        EvalResult(
            task_type=adapter.pipeline,
            dataset_type=hub_id or name,
            dataset_name=task.task.title,
            dataset_config=hub_config,
            dataset_split="test" if metric.startswith("test_") else "validation",
            metric_type=METRIC_TYPES.get(metric, metric.removeprefix("test_")),
            metric_name=metric,
            metric_value=round(value, 6),
        )
        for metric, value in result["metrics"].items()
        if value is not None
    ]
    is_on_hub = may_be_hub_id(model) and not expand(model).exists()
    data = ModelCardData(
        library_name="transformers",
        pipeline_tag=adapter.pipeline,
        base_model=model if result["start"] != "scratch" and is_on_hub else None,
        datasets=hub_id and [hub_id],
        metrics=sorted({score.metric_type for score in scores}),
        model_name=f"{model_name(model)}-{name}" if scores else None,
        eval_results=scores or None,
    )
    rows = []
    for metric, spread in task.metrics.items():
        values = (spread.values[result["seed"]], spread.median, spread.std)
        rows.append([metric, *map(percent, values)])
    training = {"source network": model, "start": result["start"], "seed": result["seed"], **settings}
    card = Card(
        title=f"{model}, fine-tuned on {task.task.title}",
        about=f"Inputs are truncated to {settings['max_length']} tokens. {adapter.note(name)}",
        auto_class=adapter.auto_model.__name__,
        folder=str(folder),
        scores_title="Scores on the development set, percent",
        scores=Table(["metric", "this model", f"median of {len(task.results)} seeds", "std"], rows),
        training=[(option, str(value)) for option, value in training.items()],
        command=shown_command(adapter.script, as_flags(adapter.args.record)),
    )
    write_card(folder / "README.md", data, card)


def _folder(adapter: TaskAdapter, task: str, seed: int) -> Path:
    name = f"{task}-{seed}" if adapter.args.options.save_model == "all" else task
    return adapter.evaluation.folder / FOLDER_NAME / name


def _read_result(folder: Path) -> dict[str, Any]:
    """The result of the run whose model is in a folder; empty if there is none."""
    try:
        values: dict[str, Any] = json.loads((folder / RESULT_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return values
