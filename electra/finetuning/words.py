"""A bag of words: a linear model of the words of labelled texts, which needs no network.

The model is logistic regression (scikit-learn's, with C = 10) on tf-idf of words and pairs of words, which takes a few
seconds. For more than `MOST_REGRESSIONS` classes it is naive Bayes, whose time does not grow with the classes; for
numbers it is ridge regression. Texts of scripts without spaces are cut into characters.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import regex
from scipy.special import logit

from electra.data.lines import UNSPACED
from electra.finetuning.data import Array
from electra.finetuning.labelled.metrics import NUMBER, SINGLE

MOST_REGRESSIONS = 50
"""Number of classes up to which a logistic regression is fitted."""
MOST_WEIGHTS = 2_000_000
"""Words of the vocabulary times classes, at most, of a regression: only the most frequent words are kept."""
MOST_COUNTS = 10_000_000
"""The same of naive Bayes."""
MOSTLY = 0.2
"""Share of characters of scripts without spaces, above which texts are cut into characters, not words."""
NEVER = -30.0
"""Logit of a class that no text of a run has."""


def fit_words(
    texts: Sequence[str], targets: Array, kind: str, classes: int
) -> Callable[[Sequence[str]], Array] | None:
    """Fit a linear model of words, and return a function of texts that returns its answers.

    Args:
        texts: T texts to learn from.
        targets: their labels: numbers of classes, (T,); of several classes 1 or 0 for each, (T, C); or numbers in
            [0, 1], (T, 1).
        kind: `SINGLE`, `SEVERAL` or `NUMBER`. Labels of another form are put as `SEVERAL`: of ordered ratings, for
            example, whether a rating is above each of the C lower ones.
        classes: number of classes, C; not read for numbers.
    Returns:
        function of N texts that returns logits (N, C), or numbers (N, 1); None if the training texts have no words, or
        all have the same class.
    """
    # Not at the top: scikit-learn takes half a second, and `electra predict` has no use for it.
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.naive_bayes import ComplementNB, MultinomialNB

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
            return lambda new_texts: ridge.predict(words.transform(new_texts))[:, None]
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

    def score(new_texts: Sequence[str]) -> Array:
        rows = words.transform(new_texts)
        logits = np.full((len(new_texts), classes), NEVER)
        if kind != SINGLE:
            probabilities = model.predict_proba(rows)[:, -classes:]  # of a single class, both answers
            logits[:] = logit(np.clip(probabilities, 1e-9, 1 - 1e-9))
        elif hasattr(model, "decision_function"):
            decision = model.decision_function(rows)
            logits[:, model.classes_] = decision if decision.ndim == 2 else np.stack([-decision, decision], 1) / 2
        else:
            logits[:, model.classes_] = model.predict_joint_log_proba(rows)
        return logits

    return score
