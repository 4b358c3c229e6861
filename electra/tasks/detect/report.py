"""How well scores agree with labels, and the page of the worst texts."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, fbeta_score, roc_auc_score

from electra.report.blocks import Block, Heading, Items, Passage, Report, Table, Text
from electra.tasks.detect.scores import Judged

CONTEXT = 200
"""Characters on each side of the worst token of a text that the page shows."""
MEASURES = {"share": "share", "auroc": "AUROC", "average_precision": "average precision", "f05": "F0.5"}
DEFINITIONS = (
    "D is the probability with which the discriminator takes a token for replaced. The score of a text is the mean or "
    "the maximum of its D.",
    "AUROC: probability that a wrong token or text has a higher score than a right one. Average precision: mean "
    "precision over the recall; guessing gets the share of wrong ones. F0.5: F-measure of what is above the "
    "threshold; precision counts twice as much as recall.",
)


class Scores:
    """Scores and labels: of tokens, and of texts by the mean and the maximum of their tokens."""

    def __init__(self) -> None:
        self.found: dict[str, list[Any]] = {"token": [], "mean": [], "max": []}

    def add(self, judged: Judged, is_wrong: bool | None, spans: Sequence[Sequence[int]] | None) -> None:
        """Keep what has labels; `spans` are the characters of the wrong passages."""
        if is_wrong is not None:
            self.found["mean"].append(([judged.mean], [is_wrong]))
            self.found["max"].append(([judged.max], [is_wrong]))
        if spans is not None:
            wrong = np.zeros(len(judged.starts), dtype=bool)
            for start, end in spans:
                wrong |= (judged.starts < end) & (judged.ends > start)
            self.found["token"].append((judged.probabilities, wrong))

    def arrays(self) -> dict[str, tuple[NDArray[Any], NDArray[np.bool_]]]:
        """Scores and labels of each level that has some."""
        arrays = {}
        for level, found in self.found.items():
            if found:
                scores, labels = zip(*found, strict=True)
                arrays[level] = np.concatenate(scores), np.concatenate(labels)
        return arrays

    def agreement(self, thresholds: Mapping[str, float]) -> dict[str, dict[str, float]]:
        """The measures of each level that has right and wrong ones."""
        agreement = {}
        for level, (scores, is_wrong) in self.arrays().items():
            if len(np.unique(is_wrong)) == 2:
                agreement[level] = measures(is_wrong, scores, thresholds[level])
        return agreement


def measures(is_wrong: NDArray[np.bool_], scores: NDArray[Any], threshold: float) -> dict[str, float]:
    """How well scores find what is labelled as wrong."""
    flagged = scores > threshold
    return {
        "share": float(is_wrong.mean()),
        "auroc": float(roc_auc_score(is_wrong, scores)),
        "average_precision": float(average_precision_score(is_wrong, scores)),
        "f05": float(fbeta_score(is_wrong, flagged, beta=0.5, zero_division=0.0)),
    }


def report(summary: Mapping[str, Any], worst: Sequence[tuple[Judged, Mapping[str, Any]]]) -> Report:
    """The page of `detect`: `summary` as in summary.json, and the worst texts with their lines in scores.jsonl."""
    rows = []
    passages: list[Block] = []
    for judged, line in worst:
        place = line["place"]
        text = line["text"]
        worst_spans = sorted(line["spans"], key=lambda span: -span[2])
        words = [text[start:end] for start, end, _ in worst_spans[:5]]
        cells = [f"{line[name]:.3f}" for name in ("mean", "max")]
        rows.append([place, *cells, ", ".join(words)])
        passages.append(Heading(place, 3))
        passages.append(Passage(pieces(text, judged)))
    table = Table(["text", "mean", "max", "worst spans"], rows, words=["worst spans"])
    counts = ", ".join(f"{summary[name]:,} {name}" for name in ("texts", "tokens", "spans"))
    threshold = summary["thresholds"]["token"]
    blocks: list[Block] = [Text(f"{summary['file']}: {counts} above {threshold:.4f}.")]
    if summary["agreement"]:
        agreement = []
        for level, found in summary["agreement"].items():
            numbers = [f"{found[name]:.3f}" for name in MEASURES]
            agreement.append([level, *numbers])
        blocks.append(Heading("Agreement with the labels"))
        blocks.append(Table(["", *MEASURES.values()], agreement))
    blocks += [Heading("Worst texts"), table]
    blocks += [Heading("Their worst passages"), *passages]
    blocks += [Heading("Definitions"), Items(DEFINITIONS)]
    return Report("Words that look wrong", blocks, table)


def pieces(text: str, judged: Judged) -> list[tuple[str, float | None]]:
    """The surroundings of the worst token: tokens with D, and the text between them without."""
    if not len(judged.starts):
        return [(text[:CONTEXT], None)]
    center = judged.starts[judged.probabilities.argmax()]
    position = max(0, center - CONTEXT)
    found: list[tuple[str, float | None]] = []
    for start, end, p in zip(*judged, strict=True):
        if end > position and start < center + CONTEXT:
            begin = max(position, start)
            found.append((text[position:begin], None))
            found.append((text[begin:end], float(p)))
            position = end
    return found
