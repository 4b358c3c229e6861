"""Baselines without a network: the best constant answer, and a linear model of the words, from the texts of a run."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np

from electra.finetuning.data import Array, Logits
from electra.finetuning.labelled.labels import Example, LabelledTexts
from electra.finetuning.labelled.metrics import SEVERAL
from electra.finetuning.labelled.scores import score_splits, score_texts
from electra.finetuning.task import Baselines, Split, score_all
from electra.finetuning.words import fit_words
from electra.report.evaluation import BAG_OF_WORDS, CONSTANT

FAINT = 1e-6
"""Logit of a class that is answered although its probability is below one half: just above 0."""


def make_baselines(
    data: LabelledTexts,
    splits: Mapping[str, Split],
    chosen_rows: Callable[[int], Array] | None,
) -> Callable[[int], Baselines]:
    """Return a function of a run's seed that returns both baselines by name: `TaskData.baselines`.

    Args:
        splits: the encoded splits of `data`.
        chosen_rows: seed of a run -> numbers of the rows that the run trains on; None for all.
    """
    if chosen_rows is None:
        of_all_texts = cache(lambda: _score_baselines(data, splits, range(len(data.splits["train"]))))
        return lambda seed: of_all_texts()
    owners = splits["train"].references.owners
    return lambda seed: _score_baselines(data, splits, np.unique(owners[chosen_rows(seed)]).tolist())


def _score_baselines(data: LabelledTexts, splits: Mapping[str, Split], text_numbers: Sequence[int]) -> Baselines:
    """Return both baselines, made of the training texts with these numbers."""
    return score_all(score_splits, score_texts, _answers(data, splits, text_numbers), splits)


def _answers(data: LabelledTexts, splits: Mapping[str, Split], text_numbers: Sequence[int]) -> dict[str, Logits]:
    """Return baseline -> scored split -> logits (R, C) for the R rows of the split.

    Args:
        text_numbers: numbers of the training texts that the baselines are made of.
    """
    train = [data.splits["train"][number] for number in text_numbers]
    chosen_data = data._replace(splits={"train": train})
    scored_splits = {name: split for name, split in splits.items() if split.is_labelled and name != "train"}
    constant = chosen_data.constant("train")
    if data.labels.kind == SEVERAL and constant.max() <= 0:  # no class is in half of the texts
        constant = np.where(constant == constant.max(), FAINT, constant)
    answers = {
        CONSTANT: {name: np.tile(constant, (len(split.references.owners), 1)) for name, split in scored_splits.items()}
    }
    texts_of = {name: [text_of_example(example) for example in data.splits[name]] for name in scored_splits}
    train_texts = [text_of_example(example) for example in train]
    score = fit_words(train_texts, chosen_data.targets("train"), data.labels.kind, len(data.labels.classes))
    if score is not None:
        logits = {name: score(texts_of[name]).astype(np.float32) for name in scored_splits}
        answers[BAG_OF_WORDS] = {name: values[splits[name].references.owners] for name, values in logits.items()}
    return answers


def text_of_example(example: Example) -> str:
    """Return the text of an example; for a pair, both texts joined."""
    return example.text if example.pair is None else f"{example.text} {example.pair}"
