"""Reports of tagging: titles, columns, definitions and published rows."""

from electra.report.evaluation import PublishedScores, Reporting
from electra.report.results import ScoredTask

TAGGING_METRICS = {"f1": "F1", "test_f1": "test F1", "accuracy": "accuracy"}
"""Metric -> its title in tables."""
TAGGING_TASKS = {
    "conll2003": ScoredTask("conll2003", "CoNLL-2003", "f1", columns=TAGGING_METRICS),
    "conll2000": ScoredTask("conll2000", "CoNLL-2000", "f1", columns=TAGGING_METRICS),
}
"""Official tasks by name."""
TAGGING_DEFINITIONS = (
    "F1 is that of entities, micro-averaged: an entity is right if its type and both of its ends are. f1_TYPE is that "
    "of one type. Metrics that begin with test are of the test set; no run is chosen by them.",
    "Accuracy is that of words, O included.",
    "Most frequent tag: every word gets the tag that most words of the training data have. Of the word: every word "
    "gets the tag that it has most often there, a new word the most frequent one.",
)
"""Definitions of the metrics, for the end of a report."""
BERT_TABLE = ("https://aclanthology.org/N19-1423.pdf", "table 7")
"""URL of BERT's paper, and the table with its scores on CoNLL-2003."""
PUBLISHED_TAGGING = [
    PublishedScores(name, {"conll2003": scores}, f"{protocol}, document context", *BERT_TABLE)
    for name, protocol, scores in (
        ("BERT-Large", "fine-tuned", {"f1": 96.6, "test_f1": 92.8}),
        ("BERT-Base", "fine-tuned", {"f1": 96.4, "test_f1": 92.4}),
        ("BERT-Base, concat_4", "frozen", {"f1": 96.1}),
        ("BERT-Base, mix_4", "frozen", {"f1": 95.9}),
        ("BERT-Base, second_to_last", "frozen", {"f1": 95.6}),
        ("BERT-Base, mix_all", "frozen", {"f1": 95.5}),
        ("BERT-Base, last", "frozen", {"f1": 94.9}),
        ("BERT-Base, embeddings", "frozen", {"f1": 91.0}),
    )
]
"""Published scores on CoNLL-2003, in percent."""
TAGGING_REPORTING = Reporting(
    "Tagging results",
    TAGGING_TASKS,
    TAGGING_METRICS,
    TAGGING_DEFINITIONS,
    headlines=("f1", "accuracy"),
    published=PUBLISHED_TAGGING,
    unit="sentences",
)
"""How evaluations of `electra tag` are reported."""
report = TAGGING_REPORTING.report
"""Return the report of evaluations of `electra tag`; `electra report` calls it."""
