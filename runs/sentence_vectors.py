"""Sentence vectors: train a network on entailment pairs with sentence-transformers; similarity before and after.

    pip install sentence-transformers
    python runs/sentence_vectors.py output/small_owt/discriminator mnli_en.train.jsonl --pairs MRPC/dev.tsv \\
        --output_dir vectors

A pair of the rows is a premise and a hypothesis that it entails; the other hypotheses of a batch are wrong answers
(MultipleNegativesRankingLoss). The vector is the mean of the last hidden states. `--pairs` has sentence1, sentence2
and score (a number, or 0 and 1), and may be GLUE's dev.tsv of STS-B or MRPC. Scores are Spearman's correlation of the
cosine with the score, in percent; of 0 and 1 also the average precision. Beside them are those of tf-idf of the words.
"""

import argparse
import json
from pathlib import Path

import datasets
import numpy as np
from scipy.stats import spearmanr
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
    losses,
)
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import average_precision_score

from electra.data.rows import read_rows

FIRST = ("sentence1", "#1 String", "premise", "sentence_A")
SECOND = ("sentence2", "#2 String", "hypothesis", "sentence_B")
SCORE = ("score", "Quality", "label", "relatedness_score")
ENTAILMENT = ("entailment", "0", 0)


def entailment_pairs(path: str) -> datasets.Dataset:
    """Return the columns anchor and positive of the rows whose label is entailment."""
    rows = [row for _, row in read_rows(path)]
    found = [row for row in rows if row["label"] in ENTAILMENT]
    return datasets.Dataset.from_dict(
        {"anchor": [row["premise"] for row in found], "positive": [row["hypothesis"] for row in found]}
    )


def scored_pairs(path: str) -> tuple[list[str], list[str], np.ndarray]:
    """Read the first texts, the second texts and the scores of a file."""
    rows = [row for _, row in read_rows(path)]
    first, second, scores = (
        [row[next(name for name in names if name in row)] for row in rows] for names in (FIRST, SECOND, SCORE)
    )
    return first, second, np.array(scores, dtype=float)


def agreement(first: np.ndarray, second: np.ndarray, scores: np.ndarray) -> dict[str, float]:
    """Compare the cosines of vectors of length 1, two arrays (pairs, dimensions), with the scores."""
    cosine = (first * second).sum(1)
    found = {"spearman": round(100 * float(spearmanr(cosine, scores).statistic), 1)}
    if set(scores) == {0.0, 1.0}:
        found["average_precision"] = round(100 * float(average_precision_score(scores, cosine)), 1)
    return found


def similarity(model: SentenceTransformer, path: str) -> dict[str, float]:
    """Score the cosine of the network's vectors of the pairs of a file."""
    first, second, scores = scored_pairs(path)
    vectors = [model.encode(texts, normalize_embeddings=True, batch_size=128) for texts in (first, second)]
    return agreement(*map(np.asarray, vectors), scores)


def similarity_of_words(path: str) -> dict[str, float]:
    """Score the cosine of tf-idf of the words, without any network."""
    first, second, scores = scored_pairs(path)
    words = TfidfVectorizer().fit(first + second)
    return agreement(*(words.transform(texts).toarray() for texts in (first, second)), scores)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="folder or Hub id of an encoder")
    parser.add_argument("rows", help="premise, hypothesis and label in jsonl, csv, tsv or parquet")
    parser.add_argument("--pairs", required=True, help="pairs with a score, to measure")
    parser.add_argument("--output_dir", required=True, help="folder of the trained model and of scores.json")
    parser.add_argument("--learning_rate", type=float, default=3e-4)
    parser.add_argument("--num_train_epochs", type=float, default=1)
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--max_length", type=int, default=96)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    model = SentenceTransformer(given.model)  # without a pooling layer in the folder: the mean of all tokens
    model.max_seq_length = given.max_length
    scores = {"words": similarity_of_words(given.pairs), "before": similarity(model, given.pairs)}
    arguments = SentenceTransformerTrainingArguments(
        given.output_dir,
        num_train_epochs=given.num_train_epochs,
        per_device_train_batch_size=given.batch_size,
        learning_rate=given.learning_rate,
        warmup_steps=0.1,
        seed=given.seed,
        save_strategy="no",
        report_to="none",
    )
    loss = losses.MultipleNegativesRankingLoss(model)
    SentenceTransformerTrainer(model, arguments, train_dataset=entailment_pairs(given.rows), loss=loss).train()
    scores["after"] = similarity(model, given.pairs)
    model.save_pretrained(given.output_dir)
    Path(given.output_dir, "scores.json").write_text(json.dumps(scores, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(scores))


if __name__ == "__main__":
    main()
