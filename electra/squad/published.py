"""Published results on SQuAD of ELECTRA and what it is compared with, as data, for tables beside ours. No torch.

Percent, one decimal, as the source prints them; what a source does not give is left out. Single models, dev sets.
"""

from collections.abc import Mapping
from dataclasses import dataclass

PAPER = "https://openreview.net/pdf?id=r1xMH1BtvB"
GOOGLE = "https://github.com/google-research/electra#expected-results"

V1_METRICS = ("exact_match", "f1")
V2_METRICS = ("best_exact", "best_f1")
"""What a pair of published numbers is, under the names of the official scripts."""


@dataclass(frozen=True)
class Published:
    """One row of a published table.

    Args:
        name: of the model.
        label: the same in a picture.
        scores: task -> metric -> percent.
        protocol: how the numbers came about, in a few words.
        source: address.
        table: which table there.
    """

    name: str
    label: str
    scores: Mapping[str, Mapping[str, float]]
    protocol: str
    source: str
    table: str


def _scores(*percent: float | None) -> dict[str, dict[str, float]]:
    """Exact match and F1 of version 1.1, then of 2.0; None where there is none."""
    cells = [("squad_v1", m) for m in V1_METRICS] + [("squad_v2", m) for m in V2_METRICS]
    scores: dict[str, dict[str, float]] = {}
    for (task, metric), value in zip(cells, percent, strict=True):
        if value is not None:
            scores.setdefault(task, {})[metric] = value
    return scores


def _of_paper(name: str, label: str, *percent: float | None) -> Published:
    return Published(name, label, _scores(*percent), "as the paper reports it", PAPER, "table 4")


def _of_readme(name: str, label: str, *percent: float | None) -> Published:
    return Published(name, label, _scores(*percent), "median of many seeds", GOOGLE, "Expected Results")


PUBLISHED = (
    _of_readme("ELECTRA-Small++", "ELECTRA-Small++", 75.8, None, 70.1, None),
    _of_paper("BERT-Base", "BERT-Base", 80.8, 88.5, None, None),
    _of_paper("XLNet-Base", "XLNet-Base", 81.3, None, 78.5, None),
    _of_paper("ELECTRA-Base", "ELECTRA-Base", 84.5, 90.8, 80.5, 83.3),
    _of_readme("ELECTRA-Base++", "ELECTRA-Base++", 86.8, None, 80.5, None),
    _of_paper("BERT-Large", "BERT-Large", 84.1, 90.9, 79.0, 81.8),
    _of_paper("BERT-Large (the paper's own)", "BERT-Large, paper's own", 88.0, 93.7, 84.7, 87.5),
    _of_paper("ELECTRA-Large, 400k steps", "ELECTRA-Large 400k", 88.7, 94.2, 86.9, 89.6),
    _of_paper("ELECTRA-Large, 1.75M steps", "ELECTRA-Large 1.75M", 89.7, 94.9, 88.0, 90.6),
    _of_readme("ELECTRA-Large, 1.75M steps (released)", "ELECTRA-Large released", 89.7, None, 88.1, None),
)
"""From the smallest to the largest. The released Small and Base are the paper's Small++ and Base++."""
