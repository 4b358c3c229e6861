"""The command `electra predict`: the answers of a saved, fine-tuned model to the rows of a file.

    electra predict output/classify_reviews_small_owt new.csv --output_file answers.csv
    cat new.jsonl | electra predict output/tagging_small_owt/models/news - > answers.jsonl

Each row is written with all its columns, as text, and the answer behind them, in the order of the input. Rows are
read, answered and written `BLOCK` at a time, so that memory does not grow with the file. The network is put together
from the modules that it was trained with, so that its answers are those that were scored.
"""

import copy
import csv
import json
import logging
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext, redirect_stdout
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, NamedTuple

import torch
import transformers
from accelerate import PartialState
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from typing_extensions import TypedDict

from electra.base.console import setup_logging
from electra.base.files import (
    PATH_TYPES,
    RESULT_NAME,
    expand,
    network_path,
    open_new,
    read_json,
    run_of,
    saved_models,
)
from electra.base.options import Values
from electra.base.parser import Parser
from electra.core.errors import UserError, check_kind
from electra.core.networks import check_finite
from electra.core.ranges import check
from electra.data.cells import DELIMITER_HELP, QUOTING_HELP, QUOTINGS
from electra.data.lines import extension_of
from electra.data.rows import (
    DELIMITERS,
    TEXT_COLUMN,
    WORKBOOKS,
    Columns,
    OpenTable,
    PlacedRow,
    open_table,
    read_rows,
)
from electra.finetuning.data import TEXT_FORM, Array, Collator, ColumnRows, PaddingCollator, placed_rows
from electra.finetuning.heads import TaskModel, longest_input, predict_logits
from electra.finetuning.registry import BY_KIND, TASKS, command_of, part
from electra.finetuning.row_checks import ids_of_rows, read_all
from electra.model.pretrained import (
    check_given_tokenizer,
    load_network,
    load_tokenizer_beside_model,
    name_of,
    read_config,
    tokenizer_of,
)
from electra.report.results import ENVIRONMENT_NAME, RESULTS_NAME, Environment, Result, read_result
from electra.runtime.device import computes_bf16, computing, keep_freed_memory, keeping_random_states, tune_for_cpu
from electra.runtime.threads import default_threads
from electra.tokenizers.load import vocabulary_size
from electra.tokenizers.unknown import UnknownTokens

logger = logging.getLogger("electra.predict")


ARCHITECTURES = {name: path for row in TASKS.values() for name, path in row.architectures.items()}
"""`Registration.architectures` of all kinds."""
BLOCK = 4096
"""Rows that are read, answered and written together."""
LONGEST_TEXT = 512
"""Tokens of a text that are read, at most, where the settings of training are unknown."""


class SavedKind(TypedDict, total=False):
    """The kind of the task of a saved model, in its result.json; folders of earlier versions have none."""

    kind: str


class Saved(NamedTuple):
    """A saved fine-tuned model.

    Args:
        settings: options of its training, as recorded with its result, and the name of its task as `task`.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    settings: Values


class FineTuned(NamedTuple):
    """The result of `fine_tune`: the scores of each seed, and the saved model of the seed with the best score.

    Args:
        folder: folder of the evaluation, with results.jsonl, predictions/, report.html and, if a model is saved,
            models/.
        scores: metrics of the development set, and of a test set with the prefix test_, as fractions: medians over
            the seeds; None where one is undefined.
        results: result of each seed, in order: `metrics` and all `settings`.
        model_folder: folder of the saved model, which `predict` and the classes of transformers open; None without
            one. The attribute `model` loads it.
        verdict: the first sentences of the report: how the score compares with baselines without a network, and what
            to try.
    """

    folder: Path
    scores: dict[str, float | None]
    results: list[Result]
    model_folder: Path | None
    verdict: str

    def __repr__(self) -> str:
        seeds = ", ".join(str(result.seed) for result in self.results)
        return f"FineTuned: {self.scores}, seeds {seeds}, folder {str(self.folder)!r}\n{self.verdict}"

    @property
    def model(self) -> PreTrainedModel:
        """Load the saved model as the class of transformers for its task."""
        saved, _ = open_saved(self.saved_model())
        return saved.model

    def saved_model(self) -> Path:
        """Return the folder of the saved model; raise a UserError if there is none."""
        if self.model_folder is None:
            raise UserError(f"{self.folder} has no model; call fine_tune with save_model=True and a head such as hf")
        return self.model_folder


class AskedColumns(NamedTuple):
    """What a user names who asks a saved model.

    Args:
        model: the model, for messages.
        text_column, text_pair_column: columns of the texts; None for those of training.
    """

    model: str
    text_column: str | None = None
    text_pair_column: str | None = None


Forward = Callable[[ColumnRows], Array]
"""Function of R rows of tokens that returns the logits of a saved model, float32 (R, ...)."""


class Predictor(NamedTuple):
    """A model with the functions that read rows for it and turn its logits into answers.

    Args:
        module: model of the task, into which the head of the saved model is put.
        parse: (columns, place) of a row -> item, what is answered; raises a UserError if the row cannot be read.
        answer: (items, forward) -> for each item the columns of its answer.
        collator: see `Task`.
        read: path -> the rows of a file of columns of words, or None if the file is a table; None if the model answers
            tables alone.
    """

    module: TaskModel
    parse: Callable[[Columns, str], Any]
    answer: Callable[[Sequence[Any], Forward], list[Columns]]
    collator: Callable[[int], Collator] = PaddingCollator
    read: Callable[[str], Iterator[PlacedRow] | None] | None = None


def open_saved(path: str | Path) -> tuple[Saved, str]:
    """Return the model in a folder, or in the folder of an evaluation with a single model, and the verb of its task.

    Raises:
        UserError: there is no fine-tuned model, or its files do not belong together.
    """
    models = saved_models(expand(path))
    if len(models) > 1:
        raise UserError(f"{path} has {len(models)} models; name one: {', '.join(map(str, models))}")
    if not models:
        raise UserError(why_no_model(str(path)))
    (folder,) = models
    run = read_result(folder / RESULT_NAME)
    source = str(folder)
    config = read_config(source)
    head = str((config.architectures or [""])[0]).rpartition("For")[2]
    if head not in ARCHITECTURES:
        raise UserError(f"{path} is a model for {head or 'nothing'}; name one that was fine-tuned")
    path_of_class = ARCHITECTURES[head]
    network_class = part(path_of_class)(config) if path_of_class else getattr(transformers, f"AutoModelFor{head}")
    model, _ = load_network(network_class, source, config)
    tokenizer = load_tokenizer_beside_model(source)
    if vocabulary_size(tokenizer) > model.get_input_embeddings().num_embeddings:
        raise UserError(f"{path} has another tokenizer, with more tokens than embeddings; restore its tokenizer.json")
    length = run.settings.get("max_length", 0)
    if not isinstance(length, int) or not 8 <= length <= longest_input(model):
        raise UserError(f"{folder / RESULT_NAME} has the max_length {length}, which the model cannot read; restore it")
    verb = verb_of(read_json(folder / RESULT_NAME, SavedKind), head, run.settings)
    return Saved(model, tokenizer, {**run.settings, "task": run.task}), verb


def why_no_model(path: str) -> str:
    """Return the message for a path without a saved model, with the command that makes one, if that is known."""
    folder = network_path(path)
    if (folder / RESULTS_NAME).is_file() and (folder / "config.yaml").is_file():
        kind = read_json(folder / ENVIRONMENT_NAME, Environment).get("kind", "")
        verb = BY_KIND.get(kind, "classify")
        return (
            f"{folder} is an evaluation without a saved model: it has not ended, or was made without --save_model; "
            f"if it no longer runs, finish it with: electra {verb} --config {folder}/config.yaml --save_model"
        )
    if run_of(path) is not None:
        return (
            f"{path} is an encoder, which has learned no labels; fine-tune it, with fine_tune in Python or: "
            f"electra classify --pretrain_path {shlex.quote(path)} --train_file FILE --save_model"
        )
    what = "is no fine-tuned model" if folder.exists() else "does not exist"
    return f"{folder} {what}; name a folder in models/, which --save_model writes"


def saved_in_memory(
    model: PreTrainedModel, processing_class: PreTrainedTokenizerBase | None = None
) -> tuple[Saved, str]:
    """Return a copy of a fine-tuned model in memory, with its tokenizer and settings, and the verb of its task.

    The settings are those of the folder from which the model was loaded. Without one, texts are cut to what the model
    reads, and to `LONGEST_TEXT` tokens.

    Raises:
        UserError: the model is for no task, or has no tokenizer.
    """
    head = type(model).__name__.rpartition("For")[2]
    if head not in ARCHITECTURES:
        raise UserError(f"{type(model).__name__} answers no rows; give one that fine_tune or --save_model has made")
    tokenizer = tokenizer_of(model, processing_class)
    path = Path(name_of(model)) / RESULT_NAME
    settings: dict[str, Any] = {"max_length": min(longest_input(model), tokenizer.model_max_length, LONGEST_TEXT)}
    recorded: SavedKind = {}
    if path.is_file():
        run = read_result(path)
        recorded = read_json(path, SavedKind)
        settings |= {**run.settings, "task": run.task}
    return Saved(copy.deepcopy(model).float().cpu(), tokenizer, settings), verb_of(recorded, head, settings)


def verb_of(recorded: SavedKind, head: str, settings: Values) -> str:
    """Return the verb whose command answers rows with a saved model.

    It is the verb of the recorded kind. Folders of earlier versions, models in memory and tasks of a program have no
    recorded kind: then it is the first verb with models of this architecture, or `classify` if the settings have a
    kind of labels, which no other verb records.

    Args:
        recorded: what the folder of the model records.
        head: end of the name of the model's class, such as SequenceClassification.
        settings: options of the training.
    """
    verbs = [verb for verb, row in TASKS.items() if head in row.architectures and not row.preset]
    verb = BY_KIND.get(recorded.get("kind", ""), "")
    if verb in verbs:
        return verb
    return "classify" if "label_kind" in settings else verbs[0]


def forward_of(predictor: Predictor, saved: Saved, batch_size: int, unknown_tokens: UnknownTokens) -> Forward:
    """Return the function rows -> logits of the predictor's module with the saved weights, as in the evaluation.

    The function counts the tokens of the rows in `unknown_tokens`, and raises a UserError if a logit is nan.
    """
    predictor.module.take_from(saved.model)
    device = PartialState().device
    model = predictor.module.to(device)
    tune_for_cpu(model)
    collator = predictor.collator(saved.tokenizer.pad_token_id)
    precision = "bf16" if saved.settings.get("precision") == "bf16" and computes_bf16() else "fp32"

    def forward(rows: ColumnRows) -> Array:
        unknown_tokens.add(ids_of_rows(rows), saved.tokenizer)
        with computing(device, default_threads()):
            logits = predict_logits(model, rows, collator, batch_size, precision)
        check_finite(torch.from_numpy(logits))
        return logits

    return forward


@keeping_random_states()
def predict(
    model: FineTuned | PreTrainedModel | str | Path,
    rows: object,
    processing_class: PreTrainedTokenizerBase | None = None,
    *,
    text_column: str | None = None,
    text_pair_column: str | None = None,
    per_device_eval_batch_size: int = 128,
) -> list[Columns]:
    """Return the answers of a fine-tuned model to texts or rows, as the command `electra predict` does.

        predict(tuned, ["What a film!", "A waste of time."])
        [{"prediction": "good", "probability": 0.98}, {"prediction": "bad", "probability": 0.95}]

    Args:
        model: result of `fine_tune`; the folder of a saved model, or of an evaluation with one; or a model of
            transformers for sequence classification, token classification, multiple choice or question answering.
        rows: a list of texts; dictionaries with the columns of training; a table of `datasets` or pandas; or the path
            of a .csv, .tsv, .jsonl, .parquet, .xlsx or .txt file.
        processing_class: the tokenizer of a model in memory; by default that of the folder it was loaded from.
        text_column, text_pair_column: columns of the texts, by default those of training.
        per_device_eval_batch_size: texts of a forward pass.
    Returns:
        for each row, in order, a dictionary with `prediction` and, but for numbers, `probability`, which docs/use.md
        describes for each task.
    Raises:
        UserError: there is no such model or file, or a row cannot be read.
    """
    asked_columns = AskedColumns("the model", text_column, text_pair_column)
    if isinstance(model, PreTrainedModel):
        saved, verb = saved_in_memory(model, processing_class)
    else:
        path = model.saved_model() if isinstance(model, FineTuned) else model
        check_kind(path, PATH_TYPES, "model", "a result of fine_tune, the folder of a saved model, or such a model")
        saved, verb = open_saved(path)
        check_given_tokenizer(processing_class, saved.tokenizer, str(path))
        asked_columns = asked_columns._replace(model=str(path))
    predictor: Predictor = command_of(verb).predictor(saved, asked_columns)
    placed = list(placed_rows(rows, "rows", text_column or saved.settings.get("text_column") or TEXT_COLUMN))
    check_rows(predictor, placed)
    answered = answer_rows(predictor, saved, per_device_eval_batch_size, placed, "the rows")
    return [answer for _, answer in answered]


def check_rows(predictor: Predictor, rows: Iterable[PlacedRow]) -> None:
    """Raise a UserError if rows cannot be read; it has the message of the first of them, and their number."""

    def parse(placed_row: PlacedRow) -> None:  # what is read is dropped: a file may be larger than memory
        predictor.parse(placed_row[1], placed_row[0])

    read_all(rows, parse)


def answer_rows(
    predictor: Predictor, saved: Saved, batch_size: int, rows: Iterable[PlacedRow], source: str
) -> Iterator[tuple[PlacedRow, Columns]]:
    """Yield each row with its answer, in order; after the last row, warn if many tokens are unknown.

    Args:
        batch_size: texts of a forward pass.
        source: what has the rows, for the warning.
    """
    unknown_tokens = UnknownTokens()
    forward = forward_of(predictor, saved, batch_size, unknown_tokens)
    waiting_rows = iter(rows)
    while block := list(islice(waiting_rows, BLOCK)):
        answers = predictor.answer([predictor.parse(row, place) for place, row in block], forward)
        yield from zip(block, answers, strict=True)
    unknown_tokens.warn(source)


def open_rows(
    path: str, predictor: Predictor, delimiter: str | None, quoting: str | None
) -> tuple[OpenTable | None, Iterator[PlacedRow]]:
    """Open a file of rows or of columns of words, and return its table and its rows.

    Args:
        path: path of the file; "-" for the standard input.
        delimiter, quoting: see `read_rows`.
    Returns:
        the open csv, tsv or workbook, None for a file of another form; and place and columns of each row.
    """
    words = predictor.read(path) if predictor.read is not None else None
    if words is not None:
        return None, words
    form = extension_of(path)
    if form in (*DELIMITERS, *WORKBOOKS):
        table = open_table(path, delimiter, quoting)
        return table, table.rows
    return None, read_rows(path, reads_text=form == TEXT_FORM)


def write_rows(file: IO[str], table: OpenTable | None, answered: Iterable[tuple[PlacedRow, Columns]]) -> int:
    """Write each row with the columns of its answer behind the row's own, and return the number of rows.

    Rows of a table are written with its delimiter, below a header, and workbooks as csv; other rows as JSON lines.

    Raises:
        UserError: a row and its answer have a column of the same name.
    """
    # csv quotes a cell that has a character of the line's end: with both characters, a carriage return ends no row
    lines: Any = SimpleNamespace(write=lambda line: file.write(line.removesuffix("\r\n") + "\n"))
    writer = csv.writer(lines, delimiter=table.delimiter if table else ",", lineterminator="\r\n")
    count = 0
    for count, ((place, row), answer) in enumerate(answered, start=1):
        if shared_columns := row.keys() & answer.keys():
            raise UserError(f"{place} has the column '{min(shared_columns)}', as the answers have; rename it")
        if table is None:
            file.write(f"{as_json({**row, **answer})}\n")
            continue
        if count == 1:
            writer.writerow([*table.names, *answer])
        texts = [as_json(value) if isinstance(value, list | dict) else value for value in answer.values()]
        writer.writerow([*row.values(), *texts])
    return count


def as_json(value: object) -> str:
    """Return a value as JSON in one line; what JSON has no form for, such as a date, becomes text."""
    return json.dumps(value, ensure_ascii=False, default=str)


def main(argv: list[str] | None = None) -> None:
    """Run `electra predict` with words, by default those of `sys.argv`; the output file appears when it is whole."""
    parser = Parser(prog="electra predict", description="Answer the rows of a file with a fine-tuned model.")
    parser.add_argument("model", metavar="MODEL", help="folder of a saved model, or its evaluation")
    parser.add_argument(
        "file", metavar="FILE", help=".csv, .tsv, .jsonl, .parquet, .xlsx, .txt ..., also .gz; - is the standard input"
    )
    parser.add_argument("--delimiter", metavar="X", help=DELIMITER_HELP)
    parser.add_argument("--quoting", choices=QUOTINGS, help=QUOTING_HELP)
    parser.add_argument(
        "--output_file", metavar="PATH", help="where rows and answers go; - and default: the standard output"
    )
    parser.add_argument("--text_column", metavar="NAME", help="column of the text; default: as in training")
    parser.add_argument("--text_pair_column", metavar="NAME", help="column of a second text; default: as in training")
    parser.add_argument("--per_device_eval_batch_size", type=int, default=128, metavar="N", help="texts per batch")
    parser.add_argument("--threads", type=int, metavar="N", help="threads that compute on a CPU; default: all cores")
    args = parser.parse_args(argv)
    for option in ("per_device_eval_batch_size", "threads"):
        value = getattr(args, option)
        check(value is None or value > 0, option, value, "at least 1")
    output: Any = nullcontext(sys.stdout)  # the rows alone: what libraries print goes to the standard error
    if args.output_file not in (None, "-"):
        path = expand(args.output_file)
        is_free = path.resolve().parent.is_dir() and not path.is_dir()
        check(is_free, "output_file", path, "a file in a folder that exists")
        output = open_new(path)
    setup_logging(sys.stderr)
    with redirect_stdout(sys.stderr):
        keep_freed_memory()
        saved, verb = open_saved(args.model)
        asked_columns = AskedColumns(args.model, args.text_column, args.text_pair_column)
        predictor: Predictor = command_of(verb).predictor(saved, asked_columns)
        if args.file != "-":  # refuse a bad row before hours of work
            check_rows(predictor, open_rows(args.file, predictor, args.delimiter, args.quoting)[1])
        if args.threads is not None:
            torch.set_num_threads(args.threads)
        table, rows = open_rows(args.file, predictor, args.delimiter, args.quoting)
        with output as file:
            answered = answer_rows(predictor, saved, args.per_device_eval_batch_size, rows, args.file)
            count = write_rows(file, table, answered)
            if not count:
                raise UserError(f"{args.file} has no rows; give a header and rows, or JSON lines")
        logger.info("%d rows are answered", count)
