"""What needs no network: the best constant answer, and a linear model of the words, from the same texts as a run.

The linear model is logistic regression with C = 10 on tf-idf of words and pairs of words, a few lines of scikit-learn
and a few seconds. For more than `MOST_REGRESSIONS` classes it is naive Bayes, whose time does not grow with the
classes; for numbers it is ridge regression. Texts of scripts without spaces are cut into characters.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import regex
from scipy.special import logit
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import ComplementNB, MultinomialNB

from electra.finetuning.data import UNSPACED, Array
from electra.finetuning.task import Split
from electra.finetuning.trainer import Logits
from electra.tasks.classify.data import NUMBER, SEVERAL, SINGLE, Example, LabelledTexts
from electra.tasks.classify.report import BAG_OF_WORDS, CONSTANT

MOST_REGRESSIONS = 50
"""Number of classes up to which a logistic regression is fitted."""
MOST_WEIGHTS = 2_000_000
MOST_COUNTS = 10_000_000
"""Words of the vocabulary times classes, at most, for a regression and for naive Bayes: only the most frequent words
are kept."""
MOSTLY = 0.2
"""Share of characters of scripts without spaces, above which texts are cut into characters, not words."""
FAINT = 1e-6
"""Logit of a class that is answered although its probability is below one half: just above 0."""
NEVER = -30.0
"""Logit of a class that no text of a run has."""


def make_baselines(
    data: LabelledTexts,
    splits: Mapping[str, Split],
    chosen: Callable[[int], Array] | None,
) -> Callable[[int], Mapping[str, Logits]]:
    """Return a function of a run's seed that returns the logits of both baselines by name and split.

    Args:
        chosen: seed of a run -> numbers of the rows that the run trains on; None for all.
    """
    if chosen is None:
        whole = cache(lambda: _baselines(data, splits, range(len(data.splits["train"]))))
        return lambda seed: whole()
    owners = splits["train"].references.owners
    return lambda seed: _baselines(data, splits, np.unique(owners[chosen(seed)]).tolist())


def _baselines(data: LabelledTexts, splits: Mapping[str, Split], texts: Sequence[int]) -> dict[str, Logits]:
    """Return logits (R, C) by baseline and scored split, from the training texts with these numbers."""
    train = [data.splits["train"][number] for number in texts]
    part = data._replace(splits={"train": train})
    scored = {name: split for name, split in splits.items() if split.is_labelled and name != "train"}
    shares = part.shares("train")
    constant = shares if data.labels.kind == NUMBER else logit(np.clip(shares, 1e-9, 1 - 1e-9))
    if data.labels.kind == SEVERAL and constant.max() <= 0:  # an answer of no class has no score
        constant = np.where(constant == constant.max(), FAINT, constant)
    found = {CONSTANT: {name: np.tile(constant, (len(split.references.owners), 1)) for name, split in scored.items()}}
    score = fit_words(train, part.targets("train"), data.labels.kind, len(data.labels.classes))
    if score is not None:
        logits = {name: score(data.splits[name]).astype(np.float32) for name in scored}
        found[BAG_OF_WORDS] = {name: values[splits[name].references.owners] for name, values in logits.items()}
    return found


def fit_words(
    examples: Sequence[Example], targets: Array, kind: str, classes: int
) -> Callable[[Sequence[Example]], Array] | None:
    """Fit a linear model of words, and return a function of N texts that returns their logits or numbers (N, C).

    Args:
        targets: labels of the examples, as `LabelledTexts.targets` returns them.
    Returns:
        None if the texts have no words, or one class only.
    """
    texts = [text_of_example(example) for example in examples]
    sample = "".join(texts[:1000])
    options: dict[str, Any] = {"ngram_range": (1, 2)}
    if len(regex.findall(f"[{UNSPACED}]", sample)) > MOSTLY * len(sample):
        options = {"analyzer": "char", "ngram_range": (1, 3)}
    is_small = classes <= MOST_REGRESSIONS
    limit = (MOST_WEIGHTS if is_small else MOST_COUNTS) // max(classes, 1)
    words = TfidfVectorizer(sublinear_tf=True, max_features=limit, **options)
    try:
        features = words.fit_transform(texts)
    except ValueError:  # no text has a word
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about classes that every text has, or none
        if kind == NUMBER:
            ridge = Ridge().fit(features, targets[:, 0])
            return lambda examples: ridge.predict(words.transform(map(text_of_example, examples)))[:, None]
        model: Any
        if kind == SINGLE:
            if len(np.unique(targets)) < 2:
                return None
            model = LogisticRegression(C=10, max_iter=1000) if is_small else ComplementNB()
        else:
            model = OneVsRestClassifier(
                LogisticRegression(C=10, solver="liblinear", random_state=0) if is_small else MultinomialNB(alpha=0.1)
            )
        model.fit(features, targets)

    def score(examples: Sequence[Example]) -> Array:
        rows = words.transform(map(text_of_example, examples))
        logits = np.full((len(examples), classes), NEVER)
        if kind != SINGLE:
            probabilities = model.predict_proba(rows)
            logits[:] = logit(np.clip(probabilities, 1e-9, 1 - 1e-9))
        elif hasattr(model, "decision_function"):
            decision = model.decision_function(rows)
            logits[:, model.classes_] = decision if decision.ndim == 2 else np.stack([-decision, decision], 1) / 2
        else:
            logits[:, model.classes_] = model.predict_joint_log_proba(rows)
        return logits

    return score


def text_of_example(example: Example) -> str:
    """Return the text of an example; for a pair, both texts joined."""
    return example.text if example.pair is None else f"{example.text} {example.pair}"
