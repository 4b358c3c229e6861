"""What are thresholds worth where classes are rare? F1 of 28 classes of 4 % of the texts, at one half and at them.

    python -m benchmarks.bench_thresholds

A text has 12 words of 500. Each class has two words of its own; a text of the class has one of them in four cases of
five, and one text in four has such a word by chance. The logits are those of a logistic regression on the words of
2,000 texts; 1,000 are the development set and 1,000 the test set.
"""

import random
import statistics

import numpy as np
from scipy.special import logit
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from electra.base.errors import run_script
from electra.base.parser import Parser
from electra.finetuning.data import Array
from electra.finetuning.labelled.labels import LabelSet
from electra.finetuning.labelled.scores import (
    ClassificationReferences,
    score_splits,
)
from electra.finetuning.words import SEVERAL
from electra.report.blocks import table_of, to_markdown
from electra.tasks.classify.report import CLASSIFY_REPORTING

CLASSES = [f"c{number}" for number in range(28)]
SHARE = 0.04
WORDS = [f"w{number}" for number in range(500)]
ROWS = {"train": 2000, "dev": 1000, "test": 1000}
METRICS = ("macro_f1", "threshold_macro_f1", "micro_f1", "threshold_micro_f1", "average_precision", "ece")


def make_texts(count: int, rng: random.Random) -> tuple[list[str], Array]:
    """Return texts, and 0 or 1 for each class, float64 (N, C)."""
    texts = []
    matrix = np.zeros((count, len(CLASSES)))
    for row in matrix:
        words = rng.choices(WORDS, k=12)
        for number, name in enumerate(CLASSES):
            row[number] = rng.random() < SHARE
            if row[number] and rng.random() < 0.8:
                words.append(f"{name}{rng.choice('ab')}")
        if rng.random() < 0.25:
            words.append(f"{rng.choice(CLASSES)}{rng.choice('ab')}")
        texts.append(" ".join(words))
    return texts, matrix


def measure(seed: int) -> dict[str, float]:
    """Return the metrics of `electra classify` for one draw of texts."""
    rng = random.Random(seed)
    data = {split: make_texts(count, rng) for split, count in ROWS.items()}
    counter = CountVectorizer()
    train = counter.fit_transform(data["train"][0])
    models = [LogisticRegression().fit(train, column) for column in data["train"][1].T]
    labels = LabelSet(SEVERAL, CLASSES)
    logits = {}
    references = {}
    for split in ("dev", "test"):
        texts, matrix = data[split]
        words = counter.transform(texts)
        logits[split] = np.stack([model.decision_function(words) for model in models], axis=1)
        owners = np.arange(len(texts))
        references[split] = ClassificationReferences(labels, matrix, owners, [""] * len(texts), logit(matrix.mean(0)))
    return score_splits(logits, references)


def main() -> None:
    parser = Parser(prog="bench_thresholds", description="F1 of rare classes at one half and at thresholds.")
    parser.add_argument("--seeds", type=int, default=5, help="draws of texts")
    runs = [measure(seed) for seed in range(parser.parse_args().seeds)]
    rows = []
    for metric in METRICS:
        row = {"metric": CLASSIFY_REPORTING.metrics[metric].title}
        for split, prefix in (("development", ""), ("test", "test_")):
            values = [100 * scores[prefix + metric] for scores in runs]
            row[split] = f"{statistics.median(values):.1f} ± {statistics.stdev(values):.1f}"
        rows.append(row)
    print(to_markdown([table_of(rows)]))


if __name__ == "__main__":
    run_script(main)
