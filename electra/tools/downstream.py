"""Fine-tuning from Python: `fine_tune`. The commands of the kinds of tasks in `TASKS` do the same.

A command parses words, and this module takes values; both make `Arguments` and a `Task` and call `evaluate`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from electra.base.console import log_by_default
from electra.base.errors import hint_of_unknown
from electra.core.errors import UserError
from electra.finetuning.commands import TaskCommand
from electra.finetuning.config import (
    Arguments,
    ClassificationArguments,
    EncoderArguments,
    ProtocolArguments,
    parse_options,
)
from electra.finetuning.data import DATASET_ARGUMENTS, SPLITS, NamedRows, as_table
from electra.finetuning.evaluation import Evaluation, on_main
from electra.finetuning.heads import Encoder, encoder_of
from electra.finetuning.predict import FineTuned
from electra.finetuning.registry import TASKS, command_of
from electra.finetuning.runner import evaluate
from electra.finetuning.saved import SAVED_HEADS, folder_of, heads_of, read_saved
from electra.finetuning.task import Task
from electra.model.pretrained import check_is_model, name_of
from electra.runtime.device import keeping_random_states
from electra.tasks.glue.tasks import KNOWN_TASKS

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict
    from pandas import DataFrame

TaskRows: TypeAlias = "str | Path | Sequence[str | Path] | Sequence[Mapping[str, object]] | Dataset | DataFrame"
"""Type of the rows of a split: a file, files, dictionaries, or a table."""
Evaluate = Callable[[Arguments, Encoder | None], Evaluation | None]
"""Type of a function that fine-tunes by arguments an encoder, which is None if the arguments name it."""
TASKS_OF_USER = tuple(verb for verb, row in TASKS.items() if row.is_trained and row.takes_rows)
"""Verbs of fine-tuning on data of the user."""


def fine_tune(
    model: str | Path | PreTrainedModel | None,
    train_dataset: "TaskRows | DatasetDict | None" = None,
    eval_dataset: "TaskRows | None" = None,
    *,
    test_dataset: "TaskRows | None" = None,
    task: str | Task = "classify",
    name: str | None = None,
    processing_class: PreTrainedTokenizerBase | str | Path | None = None,
    save_model: bool | None = None,
    **options: object,
) -> FineTuned:
    """Fine-tune an encoder on a task with several seeds, with layer-wise learning rates, and score it.

        tuned = fine_tune("output/mine", "reviews.csv", num_seeds=3)
        tuned.scores["accuracy"]                        # on the development set, the median over the seeds
        predict(tuned, ["What a film!"])

    The scores and weights are those of the command: `electra classify --pretrain_path output/mine --train_file
    reviews.csv --num_seeds 3 --save_model`. Results are kept in a folder, by default output/TASK_NAME_MODEL; the same
    call again makes only the seeds that are missing, and a call with other rows or settings needs another name.

    Args:
        model: a run, a checkpoint, an exported folder, the Hub id of any encoder, or a model in memory, of which a
            copy is fine-tuned; `tiny-en`, the small English network of this package; None for the default of the verb,
            see the option `pretrain_path`, or with the option `from_scratch`.
        train_dataset, eval_dataset, test_dataset: rows with the columns `text` and `label` (docs/classify.md), or
            those of the task. The path of a .csv, .tsv, .jsonl or .parquet file; a list of dictionaries; a table of
            `datasets` or pandas. A `DatasetDict` has all splits. Without a development set, a tenth of the training
            rows is held out.
        task: a verb for data of the user, such as classify (docs/data.md has all); the name of a task of GLUE, such as
            rte, or demo, which needs no data; or a `Task`, which brings its data.
        name: name of the data in results and in the name of the folder, of verbs with --task_name; by default that of
            the file, and of rows data.
        processing_class: the tokenizer of a model in memory; by default that of the folder it was loaded from.
        save_model: save the model of the seed with the best score; by default, if its head is one of transformers.
        options: options of the command, such as num_seeds, seed, learning_rate, layerwise_lr_decay, num_train_epochs,
            max_length, select, text_column, label_column, output_dir, experiment_name, use_cpu.
    Returns:
        the same `FineTuned` on every process.
    Raises:
        UserError: an option is unknown or has a wrong value, a row cannot be read, there is no such model, or the
            folder holds results of other settings.
    """
    log_by_default()
    tables = {"train": train_dataset, "validation": eval_dataset, "test": test_dataset}
    if isinstance(train_dataset, Mapping):  # a `DatasetDict`
        tables |= train_dataset
    data = {
        split: NamedRows(DATASET_ARGUMENTS[split], tables[split_name])
        for split, split_name in SPLITS.items()
        if tables[split_name] is not None
    }
    if model is not None:
        check_is_model(model, "model")
    is_in_memory = isinstance(model, PreTrainedModel)
    if not is_in_memory and not isinstance(processing_class, str | Path | None):
        raise UserError(f"processing_class is for a model in memory; {model} has its tokenizer, or see tokenizer_path")
    values = {**options, "save_model": save_model, "pretrain_path": name_of(model) if is_in_memory else model}
    if processing_class is not None and not is_in_memory:
        values["tokenizer_path"] = processing_class
    if name is not None:
        values["task_name"] = name
    if options.get("plan"):
        raise UserError("fine_tune prints no plan; leave plan out, or use the command line")
    args, run = _arguments(task, data, values)
    record = dict(args.record)
    encoder = None
    if is_in_memory:
        encoder = encoder_of(model, processing_class)
        del record["pretrain_path"]
    if save_model is None and isinstance(task, str) and heads_of(args) <= SAVED_HEADS:
        args = replace(args, options=replace(args.options, save_model=True))
        record["save_model"] = True
    with keeping_random_states():
        evaluation = run(replace(args, record=record), encoder)
    return on_main(lambda: _fine_tuned(evaluation))


def _arguments(task: str | Task, data: Mapping[str, NamedRows], values: dict[str, Any]) -> tuple[Arguments, Evaluate]:
    """Return the arguments of a task, and the function that fine-tunes by them.

    Args:
        task: see `fine_tune`.
        data: split -> its rows; {} if the task brings its data.
        values: option -> value; for files, the options that name them are added.
    Raises:
        UserError: there is no such task, it brings its own data, or an option is unknown or wrong.
    """
    if isinstance(task, str) and task in TASKS_OF_USER:
        command: TaskCommand = command_of(task)
        preset = TASKS[task].preset
        if all(_is_path(part.table) for part in data.values()):
            values |= {f"{SPLITS[split]}_file": part.table for split, part in data.items()}
            return command.parse(values, preset=preset), command.evaluate
        if any(f.name == "task_name" for group in command.groups for f in fields(group)):
            values.setdefault("task_name", "data")
        rows = {split: part._replace(table=as_table(part.table, part.argument)) for split, part in data.items()}
        return command.parse(values, rows, preset), command.evaluate
    if not isinstance(task, Task) and str(task) not in KNOWN_TASKS:
        names = [*TASKS_OF_USER, *KNOWN_TASKS]
        hint = hint_of_unknown(str(task), names, f"the tasks are {', '.join(names)}")
        raise UserError(f"there is no task {task!r}; {hint}")
    if data:
        raise UserError(f"this task has its own data; leave rows out, or choose {', '.join(TASKS_OF_USER)}")
    if isinstance(task, str):
        glue: TaskCommand = command_of("glue")
        return glue.parse({**values, "tasks": [task]}), glue.evaluate
    args = parse_options((EncoderArguments, ProtocolArguments, ClassificationArguments), "", values)
    return args, lambda args, encoder: evaluate(args, [task], task.kind.name, encoder)


def _is_path(rows: Any) -> bool:
    """Return True if `rows` is the path of a file, or a list of paths."""
    return isinstance(rows, str | Path) or (
        isinstance(rows, list | tuple) and bool(rows) and all(isinstance(path, str | Path) for path in rows)
    )


def _fine_tuned(evaluation: Evaluation | None) -> FineTuned:
    """Return the results of the last task of an evaluation, whose other tasks are those that it starts from.

    Raises:
        UserError: another program makes the runs.
    """
    assert evaluation is not None
    task = evaluation.tasks[-1]
    results = sorted(
        (result for result in evaluation.results if result.task == task.name), key=lambda result: result.seed
    )
    if not results:
        raise UserError(f"another program makes the runs of {evaluation.folder}; wait for it and call again")
    run = evaluation.kind.reporting.summarize(results, "")
    scores = {name: seed_scores.median for name, seed_scores in run.tasks[task.name].metrics.items()}
    model_folder = folder_of(evaluation, task) if read_saved(evaluation, task) is not None else None
    verdict = "\n".join(sentence.text for sentence in evaluation.kind.reporting.sentences([evaluation.folder]))
    return FineTuned(evaluation.folder, scores, results, model_folder, verdict)
