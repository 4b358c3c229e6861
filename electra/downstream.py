"""Fine-tuning from Python: `fine_tune`. The verbs classify, tag, choose, squad and glue of `electra` do the same.

A command parses words, and this module takes values. From there on both go one way: `Arguments`, `Task`, `evaluate`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from transformers import PreTrainedModel

from electra.command_line import CommandLine
from electra.finetuning.config import Arguments, ClassificationArguments, EncoderArguments, ProtocolArguments
from electra.finetuning.data import SPLITS, GivenTables, given_table
from electra.finetuning.evaluation import Evaluation, on_main
from electra.finetuning.heads import Encoder, encoder_of
from electra.finetuning.predict import FineTuned
from electra.finetuning.runner import evaluate
from electra.finetuning.saved import SAVED_HEADS, folder_of, heads_of, read_saved
from electra.finetuning.task import Task
from electra.io.console import log_by_default
from electra.io.errors import UserError, abridged, hint_of_unknown
from electra.model.pretrained import name_of
from electra.options import Values
from electra.runtime.device import keeping_random_states
from electra.tasks.classify.task import evaluate_classification, parse_classify_arguments
from electra.tasks.glue.task import evaluate_glue, parse_glue_arguments
from electra.tasks.glue.tasks import KNOWN_TASKS
from electra.tasks.multiple_choice.task import evaluate_choices, parse_choice_arguments
from electra.tasks.squad.task import evaluate_squad, parse_squad_arguments
from electra.tasks.tagging.task import evaluate_tagging, parse_tagging_arguments


class TaskOfUser(NamedTuple):
    """A kind of task on data of the user.

    Args:
        parse: function of options by name that returns `Arguments`.
        evaluate: function of `Arguments` and an encoder, None for the one that they name, that fine-tunes.
        needs: arguments of `fine_tune` that must be given together, unless a data set is given by name.
        has_default: the task has a data set of its own, which is used if no data are given.
        has_test: the task reads a test set.
    """

    parse: Callable[[Values], Arguments]
    evaluate: Callable[[Arguments, Encoder | None], Evaluation | None]
    needs: tuple[str, ...] = ("train_dataset", "eval_dataset")
    has_default: bool = False
    has_test: bool = True


TASKS_OF_USER = {
    "classify": TaskOfUser(parse_classify_arguments, evaluate_classification, ("train_dataset",)),
    "tag": TaskOfUser(parse_tagging_arguments, evaluate_tagging),
    "choose": TaskOfUser(parse_choice_arguments, evaluate_choices, has_default=True),
    "squad": TaskOfUser(parse_squad_arguments, evaluate_squad, has_default=True, has_test=False),
}
"""Kinds of tasks on data of the user, by the verb of their command."""
SPLIT_OF = {"train_dataset": "train", "eval_dataset": "validation", "test_dataset": "test"}
"""Argument of `fine_tune` that holds data -> name of the split on the Hub."""


def fine_tune(
    model: str | Path | PreTrainedModel | None,
    train_dataset: Any = None,
    eval_dataset: Any = None,
    *,
    test_dataset: Any = None,
    task: str | Task = "classify",
    processing_class: Any = None,
    save_model: bool | None = None,
    **options: Any,
) -> FineTuned:
    """Fine-tune an encoder on a task with several seeds, with layer-wise learning rates, and score it.

        tuned = fine_tune("output/mine", "reviews.csv", num_seeds=3)
        tuned.scores["accuracy"]                        # on the development set, the median over the seeds
        predict(tuned, ["What a film!"])

    The scores and weights are those of the command: `electra classify --pretrain_path output/mine --train_file
    reviews.csv --num_seeds 3 --save_model`. Results are kept in a folder, by default output/TASK_DATA_MODEL; the same
    call again makes only the seeds that are missing, and a call with other settings needs another `experiment_name`.

    Args:
        model: a run, a checkpoint, an exported folder, the Hub id of any encoder, or a model in memory, of which a
            copy is fine-tuned; None with the option `from_scratch`.
        train_dataset, eval_dataset, test_dataset: rows with the columns `text` and `label` (docs/classify.md), or
            those of the task. The path of a .csv, .tsv, .jsonl or .parquet file; a list of dictionaries; a table of
            `datasets` or pandas. A `DatasetDict` has all splits. Without a development set, a tenth of the training
            rows is held out.
        task: classify, tag, choose, squad; the name of a task of GLUE, such as rte, or demo, which needs no data; or
            a `Task`, which brings its data.
        processing_class: the tokenizer of a model in memory; by default that of the folder it was loaded from.
        save_model: save the model of the seed with the best score; by default, if its head is one of transformers.
        options: options of the command, such as num_seeds, seed, learning_rate, layerwise_lr_decay, num_train_epochs,
            max_length, select, text_column, label_column, output_dir, experiment_name, use_cpu.
    Returns:
        folder, scores, results of each seed, and the saved model; the same on every process.
    Raises:
        UserError: an option is unknown or has a wrong value, a row cannot be read, there is no such model, or the
            folder holds results of other settings.
    """
    log_by_default()
    given = {"train_dataset": train_dataset, "eval_dataset": eval_dataset, "test_dataset": test_dataset}
    values = {**options, **_encoder_options(model, processing_class), "save_model": save_model}
    if options.get("plan"):
        raise UserError("fine_tune prints no plan; leave plan out, or use the command line")
    args, run = _arguments(task, {name: rows for name, rows in given.items() if rows is not None}, values)
    if len(getattr(args.options, "train_fractions", [1.0])) > 1:
        raise UserError("fine_tune takes one of train_fractions; call it once for each, with an experiment_name")
    record = dict(args.record)
    if isinstance(record.get("dataset_name"), GivenTables):  # no file can name rows in memory
        del record["dataset_name"]
    encoder = None
    if isinstance(model, PreTrainedModel):
        encoder = encoder_of(model, processing_class)
        del record["pretrain_path"]
    if save_model is None and isinstance(task, str) and heads_of(args) <= SAVED_HEADS:
        args = replace(args, options=replace(args.options, save_model=True))
        record["save_model"] = True
    with keeping_random_states():
        evaluation = run(replace(args, record=record), encoder)
    return on_main(lambda: _fine_tuned(evaluation))


def _encoder_options(model: Any, processing_class: Any) -> dict[str, Any]:
    """Return the options that name the model and its tokenizer."""
    if isinstance(model, PreTrainedModel):
        return {"pretrain_path": name_of(model)}
    if not isinstance(model, str | Path | None):
        raise UserError(f"the model is a {type(model).__name__}; give a folder, a Hub id or a model of transformers")
    if not isinstance(processing_class, str | Path | None):
        raise UserError(f"processing_class is for a model in memory; {model} has its tokenizer, or see tokenizer_path")
    named = {"pretrain_path": model, "tokenizer_path": processing_class}
    return {name: value for name, value in named.items() if value is not None}


def _arguments(
    task: str | Task, given: Mapping[str, Any], values: Values
) -> tuple[Arguments, Callable[[Arguments, Encoder | None], Evaluation | None]]:
    """Return the arguments of a task, and the function that fine-tunes with them."""
    kind = TASKS_OF_USER.get(task) if isinstance(task, str) else None
    if kind is not None:
        return kind.parse({**values, **_data_options(kind, given, values)}), kind.evaluate
    if not isinstance(task, str | Task):
        raise UserError(f"task is {abridged(task)}; give the name of a task, or a Task")
    if isinstance(task, str) and task not in KNOWN_TASKS:
        known = [*TASKS_OF_USER, *KNOWN_TASKS]
        hint = hint_of_unknown(task, known, f"the tasks are {', '.join(known)}")
        raise UserError(f"there is no task {task!r}; {hint}")
    if given:
        raise UserError(f"this task has its own data; leave {min(given)} out, or choose {', '.join(TASKS_OF_USER)}")
    if isinstance(task, Task):
        custom = task
        command_line = CommandLine((EncoderArguments, ProtocolArguments, ClassificationArguments), "")
        encoder, options, tuning = command_line.parse(values)
        args = Arguments(encoder, options, tuning, command_line.record)
        return args, lambda args, encoder: evaluate(args, [custom], custom.kind.name, encoder)
    return parse_glue_arguments({**values, "tasks": [task]}), evaluate_glue


def _data_options(kind: TaskOfUser, given: Mapping[str, Any], values: Values) -> dict[str, Any]:
    """Return the options that name the data: paths as `*_file`, rows in memory as `dataset_name`."""
    rows = {SPLIT_OF[name]: (name, one) for name, one in given.items()}
    whole = given.get("train_dataset")
    if isinstance(whole, Mapping) and "train" in whole:
        rows |= {split: (f"train_dataset[{split!r}]", whole[split]) for split in SPLITS.values() if split in whole}
    if "test" in rows and not kind.has_test:
        raise UserError("this task reads no test set; leave test_dataset out, or give the set as eval_dataset")
    is_named = "dataset_name" in values or any(f"{split}_file" in values for split in SPLITS.values())
    if rows and is_named:
        raise UserError(f"{min(given)} and an option both name the data; leave one of them out")
    missing = [name for name in kind.needs if SPLIT_OF[name] not in rows]
    if missing and not is_named and (rows or not kind.has_default):
        raise UserError(f"{missing[0]} is missing; give rows, the path of a file, or dataset_name")
    if all(_is_path(one) for _, one in rows.values()):
        return {f"{split}_file": one for split, (_, one) in rows.items()}
    return {
        "dataset_name": GivenTables("data", {split: given_table(one, name) for split, (name, one) in rows.items()})
    }


def _is_path(rows: Any) -> bool:
    """Return True if `rows` is the path of a file, or a list of paths."""
    return isinstance(rows, str | Path) or (
        isinstance(rows, list | tuple) and bool(rows) and all(isinstance(one, str | Path) for one in rows)
    )


def _fine_tuned(evaluation: Evaluation | None) -> FineTuned:
    """Return the results of an evaluation's last task; other tasks are those whose encoder it starts from."""
    assert evaluation is not None
    task = evaluation.tasks[-1]
    results = sorted((one for one in evaluation.results if one.task == task.name), key=lambda one: one.seed)
    if not results:
        raise UserError(f"another program makes the runs of {evaluation.folder}; wait for it and call again")
    (run,) = evaluation.kind.reporting.summarize(results, "")
    scores = {name: spread.median for name, spread in run.tasks[task.name].metrics.items()}
    has_model = read_saved(evaluation, task) is not None
    return FineTuned(evaluation.folder, scores, results, folder_of(evaluation, task) if has_model else None)
