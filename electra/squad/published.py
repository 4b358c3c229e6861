"""Published results on SQuAD of ELECTRA and what it is compared with, as data, for tables beside ours. No torch.

Percent, one decimal, as the source prints them; what a source does not give is left out. Single models, dev sets.
"""

from electra.finetuning.protocol.plain_report import PublishedScores

PAPER = "https://openreview.net/pdf?id=r1xMH1BtvB"
GOOGLE = "https://github.com/google-research/electra#expected-results"


def _rows(
    name: str, label: str, v1: tuple[float, ...], v2: tuple[float, ...], protocol: str, source: str, table: str
) -> list[PublishedScores]:
    """A row for each version; exact match, then F1 if there is one."""
    metrics = ("exact_match", "f1")
    return [
        PublishedScores(name, label, task, dict(zip(metrics, scores, strict=False)), protocol, source, table)
        for task, scores in (("squad_v1", v1), ("squad_v2", v2))
        if scores
    ]


def _of_paper(name: str, label: str, v1: tuple[float, ...], v2: tuple[float, ...]) -> list[PublishedScores]:
    return _rows(name, label, v1, v2, "as the paper reports it", PAPER, "table 4")


def _of_readme(name: str, label: str, v1: tuple[float, ...], v2: tuple[float, ...]) -> list[PublishedScores]:
    return _rows(name, label, v1, v2, "median of many seeds", GOOGLE, "Expected Results")


PUBLISHED = (
    *_of_readme("ELECTRA-Small++", "ELECTRA-Small++", (75.8,), (70.1,)),
    *_of_paper("BERT-Base", "BERT-Base", (80.8, 88.5), ()),
    *_of_paper("XLNet-Base", "XLNet-Base", (81.3,), (78.5,)),
    *_of_paper("ELECTRA-Base", "ELECTRA-Base", (84.5, 90.8), (80.5, 83.3)),
    *_of_readme("ELECTRA-Base++", "ELECTRA-Base++", (86.8,), (80.5,)),
    *_of_paper("BERT-Large", "BERT-Large", (84.1, 90.9), (79.0, 81.8)),
    *_of_paper("BERT-Large (the paper's own)", "BERT-Large, paper's own", (88.0, 93.7), (84.7, 87.5)),
    *_of_paper("ELECTRA-Large, 400k steps", "ELECTRA-Large 400k", (88.7, 94.2), (86.9, 89.6)),
    *_of_paper("ELECTRA-Large, 1.75M steps", "ELECTRA-Large 1.75M", (89.7, 94.9), (88.0, 90.6)),
    *_of_readme("ELECTRA-Large (released)", "ELECTRA-Large released", (89.7,), (88.1,)),
)
"""From the smallest to the largest. The released Small and Base are the paper's Small++ and Base++."""
