"""Fine-tuned models that are saved: a folder of transformers for each task (--save_model), its card, its scores.

models/TASK/ has the seed with the best headline in results.jsonl so far. The folder is written as a whole before the
line of its run. A missing one is restored by running its seed again.
"""

import hashlib
import logging
import shutil
from dataclasses import asdict
from pathlib import Path

from huggingface_hub import ModelCardData
from transformers.utils import CONFIG_NAME

from electra.base.checkpoints import translate_write_errors
from electra.base.console import shown_command
from electra.base.files import (
    CARD,
    RESULT_NAME,
    may_be_hub_id,
    network_path,
    read_json,
    replace_folder,
    write_file,
    write_json,
)
from electra.base.options import Values
from electra.base.parser import as_flags
from electra.core.errors import UserError
from electra.finetuning.config import Arguments, ProtocolArguments
from electra.finetuning.evaluation import Evaluation
from electra.finetuning.heads import TaskModel
from electra.finetuning.task import Task, TaskData
from electra.model.pretrained import (
    silent_transformers,
)
from electra.report.blocks import Card, Table, card_content
from electra.report.eval_results import HubData, hub_scores, model_index, write_eval_results
from electra.report.evaluation import percent
from electra.report.results import Result, read_result

logger = logging.getLogger(__name__)

CARDS_NAME = "cards.json"
"""File of an evaluation: name of a task -> hash (hex sha256) of the card that was written for its model."""
SAVED_HEADS = {"hf", "hf_mean", "linear"}
"""Names of heads that are a `TransformersHead`, which can be saved; linear is the name in results of taggers."""


def heads_of(args: Arguments) -> set[str]:
    """Return the names of the heads that tasks of a command can have, with the overrides of single tasks."""
    head = args.tuning.head or "hf"  # the default is hf or hf_mean
    return {head, *(overrides.get("head", head) for overrides in args.overrides.values())}


def check_can_save(args: Arguments) -> None:
    """Raise a UserError if --save_model is given and transformers has no class for what is trained."""
    heads = heads_of(args)
    if args.options.save_model and not heads <= SAVED_HEADS:
        raise UserError(
            f"--save_model: transformers has no class with the head {' '.join(sorted(heads - SAVED_HEADS))}; use "
            "--head hf, or hf_mean for layers of ModernBERT"
        )
    if args.options.save_model and args.tuning.left_to_right:
        raise UserError("--save_model: transformers has no class that is --left_to_right; leave one of them out")


def is_saved(evaluation: Evaluation, task: Task, seed: int) -> bool:
    """Return True if the model of a finished run is saved, or need not be."""
    is_wanted = evaluation.args.options.save_model and evaluation.best_first(task)[0] == seed
    saved = read_saved(evaluation, task) if is_wanted else None
    return not is_wanted or (saved is not None and saved.seed == seed)


def folder_of(evaluation: Evaluation, task: Task) -> Path:
    """Return the folder of a task's saved model."""
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
    model: TaskModel,
    kept_values: Values,
) -> None:
    """Save the model of a run if it is the best one; the main process calls this before the result is written.

    config.json of the model gets the names of the labels, the problem type and the values of `TaskData.saved`.

    Args:
        data: the data of the task.
        result: result of the run.
        kept_values: further values for config.json, see `Task.kept_values`.
    """
    if not evaluation.args.options.save_model or evaluation.best_first(task, result)[0] != result.seed:
        return
    folder = folder_of(evaluation, task)
    unfinished = folder.with_name(f".{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # left by a killed command
    exported = model.exported()
    config = exported.config
    if data.labels:
        config.id2label = dict(enumerate(data.labels))
        config.label2id = {label: number for number, label in enumerate(data.labels)}
    if data.problem_type is not None:
        config.problem_type = data.problem_type
    for name, value in {**data.saved, **kept_values}.items():
        setattr(config, name, value)
    recorded_result = evaluation.find(task.name, result.seed) or result
    with translate_write_errors(evaluation.folder, "make room, and run the same command again"):
        with silent_transformers():
            exported.save_pretrained(unfinished)
        evaluation.encoder.tokenizer.save_pretrained(unfinished)
        write_json({"kind": task.kind.name, **asdict(recorded_result)}, unfinished / RESULT_NAME)
        if is_edited(folder / CARD):
            shutil.copyfile(folder / CARD, unfinished / CARD)
        replace_folder(unfinished, folder)


def describe_model(evaluation: Evaluation, task: Task) -> None:
    """Write the card of a saved model and its scores for the Hub, which need all seeds; log the model's folder.

    A card that its owner has edited stays as it is.
    """
    result = read_saved(evaluation, task)
    if result is None:
        return
    folder = folder_of(evaluation, task)
    kind = task.kind
    model = result.model
    settings = result.settings
    summary = kind.reporting.summarize(evaluation.results, "").tasks[task.name]
    scores = hub_scores(kind.reporting, summary, hub_data(evaluation.args.options), result.seed)
    metadata = ModelCardData(
        library_name="transformers",
        pipeline_tag=kind.pipeline,
        base_model=model if evaluation.args.record.get("pretrain_path") == model and is_on_hub(model) else None,
        model_name=f"{task.name}, fine-tuned",
        eval_results=model_index(scores, kind.pipeline),
    )
    rows = [
        [metric, *map(percent, (spread.values.get(result.seed), spread.median, spread.std))]
        for metric, spread in summary.metrics.items()
    ]
    header = ["metric", "this model", f"median of {len(summary.results)} seeds", "std"]
    columns = 2 if len(summary.results) == 1 else 4
    training = {"source network": model, "start": result.start, "seed": result.seed, **settings}
    config = read_json(folder / CONFIG_NAME)
    labels = list(config.get("id2label", {}).values())
    if labels:
        training["labels"] = ", ".join(labels)
    for name in kind.kept_lists:
        if name in config:
            values = zip(labels, config[name], strict=True)
            training[name] = ", ".join(f"{label} {value:.3g}" for label, value in values)
    reads_windows = kind.reads_windows or settings.get("long_texts") == "windows"
    treatment = "cut into windows of" if reads_windows else "truncated to"
    card = Card(
        title=f"{model}, fine-tuned on {summary.task.title}",
        about=f"Longer inputs are {treatment} {settings['max_length']} tokens. {task.note}",
        auto_class=kind.auto_model.__name__,
        folder=str(folder),
        example=task.example.replace("MAX_LENGTH", str(settings["max_length"])),
        scores_title="Scores on the development set, percent",
        scores=Table(header[:columns], [row[:columns] for row in rows]),
        training=[(option, str(value)) for option, value in training.items()],
        command=shown_command(kind.reporting.verb, as_flags(evaluation.args.record)),
    )
    _write_card(card_content(metadata, card), folder / CARD)
    write_eval_results(scores, folder)
    logger.info("model          %s", folder)
    if result.collapsed:
        logger.warning("               it has collapsed: almost all inputs get the same answer; train it for longer")


def is_edited(card: Path) -> bool:
    """Return True if there is a card of a saved model, and it is not the one that was written."""
    return card.is_file() and _hash(card.read_bytes()) != _written_cards(card).get(card.parent.name)


def _write_card(content: bytes, path: Path) -> None:
    """Write the card of a saved model and record its hash; log that it stays if it was edited."""
    if is_edited(path) and path.read_bytes() != content:
        logger.info(
            "card           %s was edited, or is of an earlier version, and stays; remove it for a new one", path
        )
        return
    write_file(content, path)
    write_json({**_written_cards(path), path.parent.name: _hash(content)}, path.parents[2] / CARDS_NAME)


def _written_cards(card: Path) -> dict[str, str]:
    """Return the content of `CARDS_NAME` in the evaluation of a card; {} if there is no such file."""
    record = card.parents[2] / CARDS_NAME
    return read_json(record) if record.is_file() else {}


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def write_scores(evaluation: Evaluation, task: Task) -> None:
    """Write the median scores of a task into the folder of the evaluation, in the form of the Hub."""
    reporting = task.kind.reporting
    run = reporting.summarize(evaluation.results, "")
    if task.name in run.tasks:
        scores = hub_scores(reporting, run.tasks[task.name], hub_data(evaluation.args.options))
        write_eval_results(scores, evaluation.folder)


def hub_data(options: ProtocolArguments) -> HubData:
    """Return the data set of the Hub that options name; one without a name for files, and for rows of a program."""
    name = getattr(options, "dataset_name", None)
    if not name or not is_on_hub(name):
        return HubData()
    return HubData(name, getattr(options, "dataset_config_name", None))


def is_on_hub(name: str) -> bool:
    """Return True if a model or data set of this name is not a folder here, and may be on the Hub."""
    return may_be_hub_id(name) and not network_path(name).exists()
