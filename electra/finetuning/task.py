"""What a task is: a value that holds plain functions. The runner does everything else.

The runner owns the folder, seeds, resuming, training, saving, tracking and the report. It calls the functions of a
`Task` in this order: `load` once for all seeds, then for each seed `head`, `loss` at every step, and `metrics`,
`is_collapsed` and `predictions` at the end.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from electra.base.options import Values
from electra.finetuning.config import HyperParameters
from electra.finetuning.data import Array, Collator, ColumnRows, Logits, PaddingCollator
from electra.report.evaluation import Reporting
from electra.report.results import defined, metric_of
from electra.report.verdict import paired_error

Loss = Callable[[Any, Tensor, Tensor | int | None], Tensor]
"""Function (output of the model, labels of the batch, number of labels in the step) -> the batch's part of the step's
loss, ()."""
COLLAPSED_SHARE = 0.99
"""Share of the examples with the same answer from which a run may be collapsed."""
RARE_ANSWERS = 0.1
"""Ratio of the share of other answers to their share in the references, below which a run is collapsed."""


def step_loss(
    logits: Tensor,
    labels: Tensor,
    num_items_in_batch: Tensor | int | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    """Return a batch's part of the mean loss over the labels of a step, ().

    Args:
        logits: (B, C); C = 1 for a regression.
        labels: int64 (B,) for one of C classes, int64 (B, C) for any of them, 0 or 1 each; float (B,) for a number.
        num_items_in_batch: number of labels in the step; None for the mean over the batch.
        weights: weight of each of C classes, or of a yes to it, (C,); None for equal weights, and for a number.
    """
    logits = logits.float()
    if weights is not None:
        weights = weights.to(logits.device)
    if labels.is_floating_point():
        losses = (logits.squeeze(1) - labels.float()).square()
    elif labels.dim() == 2:
        losses = nn.functional.binary_cross_entropy_with_logits(
            logits, labels.float(), pos_weight=weights, reduction="none"
        )
    else:
        losses = nn.functional.cross_entropy(logits, labels, weights, reduction="none")
    return losses.mean() if num_items_in_batch is None else losses.sum() / num_items_in_batch


class TaskKind(NamedTuple):
    """A kind of task: facts that all tasks of one command have in common.

    Args:
        reporting: titles, metrics and published rows of the kind's reports, its name and its command.
        auto_model: class of transformers that opens a saved model, such as `AutoModelForSequenceClassification`; if
            transformers has no class for the model (`Registration.architectures`), AutoModel, which opens the encoder.
        pipeline: tag of the task on the Hub, such as text-classification.
        max_length: maximum input length in tokens without --max_length.
        reads_windows: whether longer inputs are cut into windows; otherwise they are truncated.
        kept_lists: names of lists in a saved config.json, with a number for each label; see `Task.kept_values`.
    """

    reporting: Reporting
    auto_model: type
    pipeline: str
    max_length: int = 128
    reads_windows: bool = False
    kept_lists: Sequence[str] = ()

    @property
    def name(self) -> str:
        """Return the name of the module or package in electra/tasks."""
        return self.reporting.kind


class Split(NamedTuple):
    """One split of a task's data.

    Args:
        rows: N tokenized rows. They have the column `input_ids`, or a column `choices`, a list of tokenized pairs with
            `input_ids` each, in which unknown tokens are counted; rows for training also have `labels`. The collator
            may cut a row into several texts.
        references: whatever `metrics` and `predictions` compare the N logits with: labels, texts, windows.
        examples: number of examples, recorded with each result. There may be more rows: windows of long texts, or
            parts of an example.
        is_labelled: whether the split is scored; otherwise its logits are only kept.
    """

    rows: ColumnRows
    references: Any
    examples: int
    is_labelled: bool = True


class Baseline(NamedTuple):
    """What a rule without a network reaches on the rows of a run.

    Args:
        metrics: metric -> fraction, named as in `Task.metrics`.
        rows: scored split -> `Task.row_scores` (N,); {} without such scores.
    """

    metrics: Mapping[str, float]
    rows: Mapping[str, Array] = {}


Baselines = Mapping[str, Baseline]
"""Name of a baseline, such as the most frequent answer -> what it reaches."""


class TaskData(NamedTuple):
    """The data of a task.

    Args:
        splits: `train`, `dev` and others by name. Names of the development sets begin with dev.
        labels: names of the classes by number, for a saved model.
        problem_type: name in transformers' configuration of what a saved sequence classifier predicts.
        chosen_rows: seed of a run -> numbers of the rows of `train` that the run trains on, int64 (M,); None for all
            rows.
        saved: values for the configuration of a saved model, beside the classes.
        baselines: seed of a run -> what is reached without a network, from the same training rows; None without
            baselines.
        measured: numbers about the texts, which are recorded with the settings of each result; unlike settings, they
            may differ where an evaluation is continued.
    """

    splits: Mapping[str, Split]
    labels: Sequence[str] = ()
    problem_type: str | None = None
    chosen_rows: Callable[[int], Array] | None = None
    saved: Values = {}
    baselines: Callable[[int], Baselines] | None = None
    measured: Mapping[str, float] = {}

    @property
    def train(self) -> ColumnRows:
        """Return all rows of the training data."""
        return self.splits["train"].rows

    def rows_of(self, seed: int) -> ColumnRows:
        """Return the rows that the run with this seed trains on."""
        return self.train if self.chosen_rows is None else self.train.take(self.chosen_rows(seed))

    @property
    def scored(self) -> dict[str, Split]:
        """Return the labelled splits besides train."""
        return {name: split for name, split in self.splits.items() if split.is_labelled and name != "train"}

    @property
    def references(self) -> dict[str, Any]:
        """Return the references of all splits by name."""
        return {name: split.references for name, split in self.splits.items()}

    @property
    def examples(self) -> dict[str, int]:
        """Return the number of examples of each labelled split, the training data included."""
        return {name: split.examples for name, split in self.splits.items() if split.is_labelled}


Load = Callable[[PreTrainedTokenizerBase, HyperParameters], TaskData | None]
Prepare = Callable[[PreTrainedModel, HyperParameters, TaskData], TaskData]
Head = Callable[[PreTrainedModel, HyperParameters, TaskData], nn.Module]
ComputeMetrics = Callable[[Logits, Mapping[str, Any]], dict[str, float]]
ScoreSplit = Callable[[Array, Any], dict[str, float]]
"""Function of the logits (N, ...) and the references of one split that returns its metrics."""
RowScores = Callable[[Array, Any], Array | None]
"""Function of the logits (N, ...) and the references of one split that returns `Task.row_scores` of them."""
WritePredictions = Callable[[str, Logits, Mapping[str, Any]], Mapping[str, str | Values]]
"""Types of the functions of a `Task`, which describes their arguments and results."""


def no_row_scores(logits: Array, references: Any) -> None:
    """Return None: the headline metric has no parts; see `Task.row_scores`."""


class Task(NamedTuple):
    """A task, as a value: its name and settings, and the functions in which tasks differ.

    Options and the source of the data are bound to the functions by `functools.partial`.

    Args:
        kind: facts that all tasks of the command share.
        name: name of the task in results and file names: word characters, dots and hyphens.
        headlines: the metric that runs are ranked by, then substitutes for results that do not have it. The metrics of
            the kind's `Reporting` say whether less of it is better.
        settings: facts on which scores depend, beside the options and the fingerprints of rows that the runner
            records with each result: such as the kind of the labels.

        load: (tokenizer, tuning) -> `TaskData`; None, after a warning, if the data is not there.
        head: (encoder, tuning, data) -> a module with the attributes `encoder` and `head`, drawn from torch's random
            state. It maps a batch without its labels to one tensor (B, ...), B rows.
        metrics: (logits by split, references by split) -> metric -> fraction, nan if it is undefined. Logits are
            float32 (N, ...), in the order of the rows, of all scored splits.
        is_collapsed: (logits, references) of one development set -> whether (almost) all examples get one answer.

        loss: (output of the model (B, ...), labels (B, ...), num_items) -> the batch's contribution to the mean loss
            of its step, (), in which `num_items` labels are not -100.
        collator: pad token id -> function of a list of rows that makes a batch of tensors.
        predictions: (split, logits by split, references by split) -> end of a file's name -> text, or values to be
            written as JSON. The files are written for each run and split; their names begin with
            predictions/TASK-SEED.
        kept_values: (logits by split, references by split) -> values that a saved model keeps in its config.json.
        texts: number of training texts, by which the defaults of narrow encoders are chosen (`NARROW_DEFAULTS`); None
            for a task in which they have the defaults of other encoders.
        start: the task from whose best encoder runs start; None for the pre-trained encoder.
        note: a sentence for users of a saved model, in its card.
        example: Python code that answers an input with `model` and `tokenizer`, for the card of a saved model;
            MAX_LENGTH stands for the tokens of an input.
        prepare: (encoder, tuning, data) -> the data with the features of a frozen encoder, computed once for all runs;
            None if runs train the encoder.
        row_scores: (logits, references) of one split -> the part of each example in the headline metric, float64 (N,):
            their mean is the metric, and its standard error their standard deviation / sqrt(N). For a share of the
            examples the parts are 1 and 0; for an F1 see `parts_of_ratio` in labelled/metrics.py. None if the metric
            has no such parts.
    """

    kind: TaskKind
    name: str
    headlines: Sequence[str]
    load: Load
    head: Head
    metrics: ComputeMetrics
    is_collapsed: Callable[[Array, Any], bool]
    settings: Values = {}
    loss: Loss = step_loss
    collator: Callable[[int], Collator] = PaddingCollator
    predictions: WritePredictions | None = None
    kept_values: Callable[[Logits, Mapping[str, Any]], Values] | None = None
    texts: int | None = None
    start: str | None = None
    note: str = ""
    example: str = ""
    prepare: Prepare | None = None
    row_scores: RowScores = no_row_scores

    def headline(self, metrics: Mapping[str, float | None]) -> float:
        """Return the score that runs are ranked by: more is better, -infinity if it is undefined.

        It is the headline metric; where less of this is better, its negative.
        """
        name = next((name for name in self.headlines if name in metrics), "")
        value = defined(metrics.get(name))
        if value is None:
            return -math.inf
        return -value if metric_of(self.kind.reporting.metrics, name).lower_is_better else value


def by_split(score: ScoreSplit) -> ComputeMetrics:
    """Make `Task.metrics` from a function of one split's logits and references.

    The names of metrics begin with the name of their split and `_`, but for the split dev.
    """

    def metrics(logits: Logits, references: Mapping[str, object]) -> dict[str, float]:
        scores = {}
        for split, values in logits.items():
            prefix = "" if split == "dev" else f"{split}_"
            for name, value in score(values, references[split]).items():
                scores[f"{prefix}{name}"] = value
        return scores

    return metrics


def score_all(
    metrics: ComputeMetrics,
    row_scores: RowScores,
    answers: Mapping[str, Logits],
    splits: Mapping[str, Split],
) -> dict[str, Baseline]:
    """Return what each baseline reaches.

    Args:
        metrics, row_scores: functions of the task.
        answers: name of a baseline -> scored split -> logits that stand for its answers.
        splits: the splits of the task.
    """
    references = {name: split.references for name, split in splits.items()}
    return {
        name: Baseline(metrics(logits, references), score_rows(row_scores, logits, references))
        for name, logits in answers.items()
    }


def score_rows(row_scores: RowScores, logits: Logits, references: Mapping[str, Any]) -> dict[str, Array]:
    """Return split -> `Task.row_scores`, float64 (N,), without the splits for which they are None."""
    parts = {split: row_scores(values, references[split]) for split, values in logits.items()}
    return {split: np.asarray(values, np.float64) for split, values in parts.items() if values is not None}


def paired_errors(rows: Mapping[str, Array], baselines: Baselines) -> dict[str, dict[str, float]]:
    """Return `Result.paired_errors` of a run: baseline -> dev or test -> error; the sets of dev count together.

    Args:
        rows: result of `score_rows` for the run.
        baselines: what the baselines reach on the same rows.
    """
    errors: dict[str, dict[str, float]] = {}
    for title, baseline in baselines.items():
        differences: dict[str, list[float]] = {}
        for split, scores in rows.items():
            if split in baseline.rows:
                differences.setdefault(split.split("_")[0], []).extend((scores - baseline.rows[split]).tolist())
        for split, values in differences.items():
            if math.isfinite(error := paired_error(values)):
                errors.setdefault(title, {})[split] = error
    return errors


def of_one_split(write: Callable[[str, Array, Any], Mapping[str, str | Values]]) -> WritePredictions:
    """Make `Task.predictions` from a function of a split's name, its logits and its references."""
    return lambda split, logits, references: write(split, logits[split], references[split])


def has_one_answer(answers: Sequence[str | float] | Array, references: Sequence[object] | Array) -> bool:
    """Return True if a run has collapsed: (almost) all examples get one answer that fewer references have.

    Args:
        answers, references: what N examples get, and should get; the caller rounds numbers to what counts as equal.
    """
    distinct, counts = np.unique(answers, return_counts=True)
    most_frequent = counts.argmax()
    share = counts[most_frequent] / len(answers)
    expected = np.mean(np.asarray(references) == distinct[most_frequent])
    return bool(share >= COLLAPSED_SHARE and 1 - share < RARE_ANSWERS * (1 - expected))


def pipeline_example(pipeline: str, text: str, options: str = "") -> str:
    """Return Python code for `Task.example` that calls a pipeline of transformers.

    Args:
        pipeline: tag of the pipeline.
        text: code of the input.
        options: code of further arguments, a comma before each.
    """
    return (
        "from transformers import pipeline\n\n"
        f'ask = pipeline("{pipeline}", model=model, tokenizer=tokenizer)\n'
        f"print(ask({text}{options}))"
    )


def classifier_example(*, is_pair: bool, has_several_classes: bool = False) -> str:
    """Return Python code for `Task.example` that calls a classifier of texts or of pairs.

    Args:
        has_several_classes: whether a text may have several classes, so that the probabilities of all are asked for.
    """
    text = '{"text": "A text.", "text_pair": "Another text."}' if is_pair else '"A text."'
    options = ", top_k=None" if has_several_classes else ""
    return pipeline_example("text-classification", text, f"{options}, truncation=True, max_length=MAX_LENGTH")
