"""How well scores agree with labels, and the page of the worst texts."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score, fbeta_score, roc_auc_score

from electra.report.blocks import Blocks, Heading, Items, Passage, Report, Table, Text, table_of
from electra.tasks.detect.scores import Judged

CONTEXT = 50
"""Tokens on each side of the worst one of a text that the page shows."""
DETECT_DEFINITIONS = (
    "D is the probability with which the discriminator takes a token for replaced. The score of a text is the mean "
    "of its D.",
    "AUROC: probability that a wrong token or text has a higher score than a right one. Average precision: mean "
    "precision over the recall; guessing gets the share of wrong ones. F0.5: F-measure of what is above the "
    "threshold; precision counts twice as much as recall.",
)


class Scores:
    """Scores and labels: of tokens, and of texts, the mean of their tokens."""

    def __init__(self) -> None:
        self.values: dict[str, list[float]] = defaultdict(list)
        self.labels: dict[str, list[bool]] = defaultdict(list)

    def add(
        self,
        judged: Judged,
        is_wrong: bool | None,
        spans: Sequence[Sequence[int]] | None,
    ) -> None:
        """Keep what has labels; `spans` are the characters of the wrong passages."""
        if is_wrong is not None:
            self.values["text"].append(judged.mean)
            self.labels["text"].append(is_wrong)
        if spans is not None:
            wrong = np.zeros(len(judged.starts), bool)
            for start, end in spans:
                wrong |= (judged.starts < end) & (judged.ends > start)
            self.values["token"] += judged.probabilities.tolist()
            self.labels["token"] += wrong.tolist()

    def thresholds(self, false_alarm_rate: float) -> dict[str, float]:
        """Above them is this share of the scores."""
        found = {}
        for level, values in self.values.items():
            found[level] = float(np.quantile(values, 1 - false_alarm_rate, method="higher"))
        return found

    def agreement(self, thresholds: Mapping[str, float]) -> dict[str, dict[str, float]]:
        """How well the scores of each level find what is labelled as wrong, if some is and some is not."""
        found = {}
        for level, labels in self.labels.items():
            scores = np.array(self.values[level])
            if len(set(labels)) == 2:
                flagged = scores > thresholds[level]
                found[level] = {
                    "AUROC": float(roc_auc_score(labels, scores)),
                    "average precision": float(average_precision_score(labels, scores)),
                    "F0.5": float(fbeta_score(labels, flagged, beta=0.5, zero_division=0.0)),
                }
        return found


def report(summary: Mapping[str, Any], worst: Sequence[Mapping[str, Any]]) -> Report:
    """The page of `detect`: `summary` as in summary.json, and the worst lines of scores.jsonl."""
    rows = []
    passages: Blocks = []
    for line in worst:
        spans = sorted(line["spans"], key=lambda span: -span[2])
        words = [line["text"][start:end] for start, end, _ in spans[:10]]
        rows.append(
            {
                "text": line["place"],
                "mean": f"{line['mean']:.3f}",
                "worst spans": ", ".join(words),
            }
        )
        passages += [Heading(line["place"], 3), Passage(pieces(line))]
    table = table_of(rows)
    blocks: Blocks = [Text(counts_of(summary))]
    agreement = agreement_table(summary)
    if agreement.rows:
        blocks += [Heading("Agreement with the labels"), agreement]
    blocks += [Heading("Worst texts"), table, Heading("Their worst passages"), *passages]
    blocks += [Heading("Definitions"), Items(DETECT_DEFINITIONS)]
    return Report("Words that look wrong", blocks, Table(table.header, table.rows[:10]))


def counts_of(summary: Mapping[str, Any]) -> str:
    """Return a sentence about the texts, their tokens, and the spans above the threshold."""
    counts = ", ".join(f"{summary[name]:,} {name}" for name in ("texts", "tokens", "spans"))
    return f"{summary['file']}: {counts} above {summary['thresholds']['token']:.3f}."


def agreement_table(summary: Mapping[str, Any]) -> Table:
    """Return how well tokens and texts agree with the labels, a row each; no rows without labels of both kinds."""
    return table_of([{"of": level, **rounded(found)} for level, found in summary["agreement"].items()])


def pieces(line: Mapping[str, Any]) -> list[tuple[str, float | None]]:
    """The surroundings of the worst token of a text: tokens with D, and the text between them without."""
    tokens = line["tokens"]
    if not tokens:
        return []
    center = np.argmax([p for _, _, p in tokens])
    near = tokens[max(0, center - CONTEXT) : center + CONTEXT]
    position = near[0][0]
    found: list[tuple[str, float | None]] = []
    for start, end, p in near:
        begin = max(position, start)  # pieces of one character have the same start and end
        found.append((line["text"][position:begin], None))
        found.append((line["text"][begin:end], p))
        position = max(position, end)
    return found


def rounded(numbers: Mapping[str, float]) -> dict[str, str]:
    return {name: f"{number:.3f}" for name, number in numbers.items()}
