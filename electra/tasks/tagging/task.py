"""The command `electra tag`: a label for each word, such as names, and answers to new texts.

A word has the label of its first token, as in google-research/electra, finetune/tagging/tagging_tasks.py.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.special import softmax
from torch import Tensor
from transformers import AutoModel, AutoModelForTokenClassification, PreTrainedModel, PreTrainedTokenizerBase

from electra.base.files import TINY_EN
from electra.base.options import Values
from electra.core.errors import UserError
from electra.core.networks import gather_hidden
from electra.data.lines import extension_of
from electra.data.rows import PAGE, TEXT_COLUMN, Columns, PlacedRow, text_of
from electra.finetuning.commands import TaskCommand
from electra.finetuning.config import (
    Arguments,
    EncoderArguments,
    FeatureName,
    FineTuningArguments,
    HyperParameters,
    parse_data_options,
)
from electra.finetuning.data import (
    IGNORED,
    Array,
    ColumnRows,
    NamedRows,
    PaddingCollator,
    task_name,
)
from electra.finetuning.features import FEATURES_KEY, FeatureCollator, FeatureTagger, add_features
from electra.finetuning.heads import TaskModel, TransformersHead
from electra.finetuning.predict import AskedColumns, Predictor, Saved
from electra.finetuning.task import (
    Baselines,
    Split,
    Task,
    TaskData,
    TaskKind,
    by_split,
    has_one_answer,
    of_one_split,
    pipeline_example,
    score_all,
    step_loss,
)
from electra.tasks.tagging.columns import TaggedSentence, as_columns, read_columns
from electra.tasks.tagging.data import (
    SentenceWindows,
    TaggingArguments,
    is_table,
    load_tagging_splits,
    make_sentence_windows,
)
from electra.tasks.tagging.metrics import score_labels, score_sentences
from electra.tasks.tagging.report import TAGGING_REPORTING, TAGGING_TASKS
from electra.tasks.tagging.rows import tokens_of
from electra.tasks.tagging.schemes import (
    LABEL,
    OUTSIDE,
    UNSPACED_WORD,
    Bounds,
    choose_scheme,
    convert,
    entities_of,
    tag_set,
    with_prefixes,
    words_of,
)

logger = logging.getLogger(__name__)


# ---- the command


TAGGING_GROUPS = (EncoderArguments, TaggingArguments, FineTuningArguments)
"""Groups of options of `electra tag`."""


def parse_tagging_arguments(
    argv: Sequence[str] | Values | None, rows: Mapping[str, NamedRows] = {}, preset: Mapping[str, object] = {}
) -> Arguments:
    """Return the options of `electra tag`, checked; arguments and errors as in `parse_data_options`."""
    about = "Fine-tune an encoder to label words, such as names and chunks, and score it."
    return parse_data_options(TAGGING_GROUPS, about, argv, rows, preset, encoder=TINY_EN)


# ---- the task

TAGGING = TaskKind(
    TAGGING_REPORTING,
    AutoModelForTokenClassification,
    "token-classification",
    max_length=256,
    reads_windows=True,
)
"""The kind of the tasks of `electra tag`."""
FEATURE_BASED = TAGGING._replace(auto_model=AutoModel)
"""The kind of tasks with a frozen encoder, which AutoModel opens: transformers has no class with a BiLSTM."""
NOTE = 'A word has the label of its first token: use the pipeline with `aggregation_strategy="first"`.'
"""Note in the card of a saved tagger."""
EXAMPLE = pipeline_example("token-classification", '"Ann lives in Rome."', ', aggregation_strategy="first"')
"""Python code for the card of a saved tagger."""
FEATURE_NOTE = (
    "The encoder is frozen, and a BiLSTM labels words by its states: `electra predict` reads both, and transformers "
    "the encoder alone."
)
"""Note in the card of a saved tagger on a frozen encoder."""


def open_tagging_task(args: Arguments) -> Task:
    """Return the task of the command; read the data first, whose size decides the defaults of narrow encoders.

    Raises:
        UserError: options do not go together, or the data cannot be read.
    """
    options = args.options
    features = options.features
    if features and args.encoder.from_scratch:
        raise UserError("--features are those of a trained encoder; name one with --pretrain_path")
    if features and args.tuning.left_to_right:
        raise UserError("--features and --left_to_right do not go together; leave one of them out")
    data = load_tagging_splits(options, args.rows)
    return Task(
        kind=FEATURE_BASED if features else TAGGING,
        name=task_name(options, TAGGING.name, TAGGING_TASKS),
        headlines=TAGGING_REPORTING.headlines,
        load=partial(load_tagging_task, data, options.scheme),
        head=partial(build_feature_tagger, features) if features else build_tagger,
        loss=word_loss,
        metrics=by_split(score_tagging),
        is_collapsed=is_tagger_collapsed,
        row_scores=score_tagged_sentences,
        predictions=of_one_split(tagging_files),
        texts=None if features else len(data["train"]),
        note=FEATURE_NOTE if features else NOTE,
        example="" if features else EXAMPLE,
        collator=FeatureCollator if features else PaddingCollator,
        prepare=partial(add_features, features) if features else None,
    )


class TaggingReferences(NamedTuple):
    """What the logits of a split are compared with.

    Args:
        sentences: the sentences of the split, all with labels or all without.
        windows: their windows of tokens, one for each row of logits.
        tags: names of the classes by number, labels of `scheme`.
    """

    sentences: Sequence[TaggedSentence]
    windows: SentenceWindows
    scheme: str
    tags: Sequence[str]

    @property
    def words(self) -> list[list[str]]:
        """Return the words of each sentence."""
        return [sentence.words for sentence in self.sentences]

    @property
    def labels(self) -> list[list[str]]:
        """Return the right labels of each sentence in `scheme`; [] for a sentence without labels."""
        return [convert(sentence.labels or [], self.scheme) for sentence in self.sentences]

    def predicted(self, logits: Array) -> list[list[str]]:
        """Return the predicted labels of each sentence in `scheme`, repaired.

        Args:
            logits: logits of N windows with at most W words and C tags, (N, W, C).
        """
        numbers = self.windows.predictions(logits.argmax(-1))
        return [convert([self.tags[number] for number in sentence], self.scheme) for sentence in numbers]


def load_tagging_task(
    data: Mapping[str, Sequence[TaggedSentence]],
    asked_scheme: str,
    tokenizer: PreTrainedTokenizerBase,
    tuning: HyperParameters,
) -> TaskData:
    """Return the windows of all splits: `Task.load`.

    Args:
        asked_scheme: value of --scheme.
    Raises:
        UserError: the labels do not fit the scheme, or a split has labels that the training data lacks.
    """
    train_labels = [sentence.labels or [] for sentence in data["train"]]
    scheme = choose_scheme(train_labels, asked_scheme)
    tags = tag_set(train_labels, scheme)
    logger.info("labels         %s, %d of them: %s", scheme, len(tags), " ".join(tags))
    splits = {}
    for split, sentences in data.items():
        classes = None
        if sentences[0].labels is not None:
            classes = [class_ids(sentence.labels or [], scheme, tags, split) for sentence in sentences]
        words = [sentence.words for sentence in sentences]
        windows = make_sentence_windows(words, classes, tokenizer, tuning.max_length)
        references = TaggingReferences(sentences, windows, scheme, tags)
        splits[split] = Split(windows, references, len(sentences), is_labelled=classes is not None)
    baselines = cache(lambda: tagging_baselines(splits))
    return TaskData(splits, tags, baselines=lambda seed: baselines())


def tagging_baselines(splits: Mapping[str, Split]) -> Baselines:
    """Return what two rules reach without a network, from counts of the training data.

    "most frequent tag" gives all words the tag that is most frequent; "most frequent tag of the word" gives a word the
    tag that it has most often, and a new word the most frequent one.
    """
    train = splits["train"].references
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for word, label in zip(chain(*train.words), chain(*train.labels), strict=True):
        counts[word][label] += 1
    (tag, _), *_ = sum(counts.values(), Counter()).most_common(1)
    tag_of_word = {word: label_counts.most_common(1)[0][0] for word, label_counts in counts.items()}
    scored_splits = {name: split.references for name, split in splits.items() if split.is_labelled and name != "train"}
    rules: dict[str, Mapping[str, str]] = {"most frequent tag": {}, "most frequent tag of the word": tag_of_word}
    answers: dict[str, dict[str, Any]] = {
        title: {
            split: [convert([rule.get(word, tag) for word in words], references.scheme) for words in references.words]
            for split, references in scored_splits.items()
        }
        for title, rule in rules.items()
    }

    def score(labels: Any, references: TaggingReferences) -> dict[str, float]:
        return score_labels(labels, references.labels, references.scheme)

    def rows(labels: Any, references: TaggingReferences) -> Array:
        return score_sentences(labels, references.labels, references.scheme)

    return score_all(by_split(score), rows, answers, splits)


def class_ids(
    labels: Sequence[str],
    scheme: str,
    tags: Sequence[str],
    split: str,
) -> list[int]:
    """Return the numbers of a sentence's labels in `tags`; raise a UserError if a label is not in the training data.

    Args:
        split: name of the split, for the message.
    """
    converted = convert(labels, scheme)
    for label, written in zip(converted, labels, strict=True):
        if label not in tags or (label == OUTSIDE) != (written == OUTSIDE):
            raise UserError(f"{split} has the label '{written}', which is not in the training data; correct the file")
    return [tags.index(label) for label in converted]


class EncoderWithTagger(TaskModel):
    """An encoder with transformers' head of its architecture on the first token of each word."""

    def __init__(self, encoder: PreTrainedModel, num_labels: int, dropout: float) -> None:
        super().__init__(
            encoder, TransformersHead(AutoModelForTokenClassification, encoder.config, dropout, num_labels)
        )

    def forward(self, input_ids: Tensor, attention_mask: Tensor, positions: Tensor) -> Tensor:
        """Return logits of W words, float32 (B, W, num_labels), with first tokens at `positions`, int64 (B, W)."""
        hidden = self.hidden_states(input_ids, attention_mask)
        words = gather_hidden(hidden, positions)
        return self.head(words, torch.ones_like(positions)).logits


def build_tagger(encoder: PreTrainedModel, tuning: HyperParameters, data: TaskData) -> EncoderWithTagger:
    """Return the encoder with a new head that has a logit for each label."""
    return EncoderWithTagger(encoder, len(data.labels), tuning.head_dropout)


def build_feature_tagger(
    features: FeatureName, encoder: PreTrainedModel, tuning: HyperParameters, data: TaskData
) -> FeatureTagger:
    """Return the frozen encoder with a new BiLSTM that has a logit for each label."""
    return FeatureTagger(encoder, features, len(data.labels), tuning.head_dropout)


def word_loss(output: Tensor, labels: Tensor, num_items_in_batch: Tensor | int | None = None) -> Tensor:
    """Return a batch's part of the mean cross-entropy over the words of a step, ().

    Args:
        output: logits of words, (B, W, C).
        labels: their classes, int64 (B, W); `IGNORED` behind the last word of a row.
        num_items_in_batch: number of words in the step; None for the mean over the batch.
    """
    is_word = labels != IGNORED
    return step_loss(output[is_word], labels[is_word], num_items_in_batch)


def score_tagging(logits: Array, references: TaggingReferences) -> dict[str, float]:
    """Return the scores of a split from its logits, see `score_labels`."""
    return score_labels(references.predicted(logits), references.labels, references.scheme)


def score_tagged_sentences(logits: Array, references: TaggingReferences) -> Array:
    """Return `Task.row_scores` of the sentences of a split from its logits, see `score_sentences`."""
    return score_sentences(references.predicted(logits), references.labels, references.scheme)


def is_tagger_collapsed(logits: Array, references: TaggingReferences) -> bool:
    """Return True if a logit is nan, or (almost) all words get one label."""
    answers = list(chain.from_iterable(references.predicted(logits)))
    right = list(chain.from_iterable(references.labels))
    return bool(np.isnan(logits).any()) or has_one_answer(answers, right)


def tagging_files(split: str, logits: Array, references: TaggingReferences) -> dict[str, str]:
    """Return the file of predictions: a line per word with its label, if known, and the prediction, in one scheme."""
    labels = [] if references.sentences[0].labels is None else [references.labels]
    return {f"-{split}.txt": as_columns(references.words, *labels, references.predicted(logits))}


# ---- answers to new texts or words: spans with label and probability

# The probability of a span is the smallest of its words.


Item = tuple[list[str], list[Bounds]]
"""Words, and the range of each: in characters of the text, or in numbers of tokens."""


def predictor(saved: Saved, asked_columns: AskedColumns) -> Predictor:
    """Return the predictor of a saved tagger, for texts, and for words in rows or in files of columns."""
    config = saved.model.config
    tags = [config.id2label[number] for number in range(config.num_labels)]
    if not any(LABEL.fullmatch(tag) for tag in tags) and OUTSIDE in tags and saved.settings.get("scheme") != "plain":
        tags = with_prefixes(tags)
    elif not all(LABEL.fullmatch(tag) or tag == OUTSIDE for tag in tags):
        # Plain labels, such as parts of speech, are spans of one word.
        tags = [tag if tag == OUTSIDE else f"S-{tag}" for tag in tags]
    encoder = saved.model.base_model
    features = getattr(config, FEATURES_KEY, None)
    module: TaskModel = EncoderWithTagger(encoder, config.num_labels, 0.0)
    if features is not None:
        module = FeatureTagger(encoder, features, config.num_labels, 0.0)
    return Predictor(
        module,
        partial(parse_tagging_row, asked_columns.text_column or TEXT_COLUMN),
        partial(answer_sentences, saved, tags),
        read=partial(rows_of_words, word_column=saved.settings.get("word_column")),
    )


def parse_tagging_row(column: str, row: Columns, place: str) -> Item:
    """Return the words of a row, and the range of each.

    Args:
        column: column of the text, which is read if the row has no words.
    Raises:
        UserError: the row has neither words nor a text.
    """
    tokens = tokens_of(row, place)
    if tokens == [] and column not in row:
        raise UserError(f"{place} has an empty list of words; leave the row out, or give its words")
    if tokens:
        edges = range(len(tokens) + 1)
        return tokens, list(pairwise(edges))
    text = text_of(row, column, place, "--text_column")
    if UNSPACED_WORD.search(text):
        say_that_texts_are_cut()
    bounds = words_of(text)
    return [text[start:end] for start, end in bounds], bounds


@cache
def say_that_texts_are_cut() -> None:
    """Log a warning that a text in a script without spaces is not cut into words; only the first call logs."""
    logger.warning("texts without spaces are cut into single characters; for a tagger of words, give tokens, a list")


def rows_of_words(path: str, word_column: str | None = None) -> Iterator[PlacedRow] | None:
    """Return a row for each sentence of a file of columns, with the sentence's words as `tokens`; None for a table.

    Args:
        word_column: column of the words, as in training.
    Raises:
        UserError: the file has another form, or is a .txt, whose lines may be words or texts.
    """
    if is_table(path):
        return None
    if extension_of(path) == ".txt":
        raise UserError(
            f"{path} may have a word or a text in each line: name a file of words .conll, or write texts as the "
            f"column 'text' of a csv; see {PAGE}"
        )
    sentences = read_columns(path, word_column=word_column, needs_labels=False)
    return ((sentence.place, {"tokens": sentence.words}) for sentence in sentences)


def answer_sentences(
    saved: Saved,
    tags: Sequence[str],
    items: Sequence[Item],
    forward: Callable[[ColumnRows], Array],
) -> list[Columns]:
    """Return for each item `prediction`, a list of [start, end, label], and `probability`, a number for each of them.

    Args:
        tags: label of each class, O or a type with a prefix.
    """
    sentences = [words for words, _ in items]
    windows = make_sentence_windows(sentences, None, saved.tokenizer, saved.settings["max_length"])
    logits = forward(windows)
    numbers = windows.predictions(logits.argmax(-1))
    probabilities = windows.predictions(softmax(logits, axis=-1).max(-1))
    answers = []
    for (_, bounds), class_numbers, word_probabilities in zip(items, numbers, probabilities, strict=True):
        spans = []
        certainties = []
        for label, first, last in entities_of([tags[number] for number in class_numbers]):
            start, _ = bounds[first]
            _, end = bounds[last]
            spans.append([start, end, label])
            certainties.append(min(word_probabilities[first : last + 1]))
        answers.append({"prediction": spans, "probability": certainties})
    return answers


# ---- the command, of which the verb, `fine_tune` and `electra predict` are made


TAGGING_COMMAND = TaskCommand(
    TAGGING,
    TAGGING_GROUPS,
    parse_tagging_arguments,
    lambda args: [open_tagging_task(args)],
    lambda options: f"tagging_{task_name(options, 'data', TAGGING_TASKS)}",
    predictor,
)
"""The command of `electra tag`."""
main = TAGGING_COMMAND.run
