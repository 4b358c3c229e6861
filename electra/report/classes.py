"""The classes and confusions of a run as blocks of a page, from predictions/TASK-SEED-details.json. No torch."""

from typing import NotRequired, Required

from typing_extensions import TypedDict

from electra.report.blocks import Blocks, Fold, Heading, Table, Text, table_of
from electra.report.evaluation import percent

MOST_CONFUSIONS = 100
"""Classes up to which a table has all confusions; of more classes, it has the most frequent ones."""
MOST_ROWS = 50
"""Rows of a table of the most frequent confusions, and classes that a page shows without a click, at most."""


class ClassScores(TypedDict):
    """The scores of a class on the development set, as fractions, and how many texts and answers have the class.

    `threshold` is the probability above which the class is answered, if a text may have several and it is not one
    half.
    """

    name: str
    texts: int
    answers: int
    precision: float
    recall: float
    f1: float
    threshold: NotRequired[float]


class Details(TypedDict, total=False):
    """The content of predictions/TASK-SEED-details.json: classes or, for numbers, the range of the training labels.

    `confusions` is label -> answer -> number of texts, where a text has one class.
    """

    baseline: Required[dict[str, float | None]]
    range: list[float]
    classes: list[ClassScores]
    confusions: dict[str, dict[str, int]]


def class_blocks(details: Details, whose: str) -> Blocks:
    """Return blocks with the classes of a run and their confusions; `whose` is a sentence about the run."""
    if "range" in details:
        low, high = details["range"][:1], details["range"][-1:]
        edges = " to ".join(f"{edge:g}" for edge in (*low, *high))
        return [Heading("Labels"), Text(f"The labels of the training data are {edges}.")]
    classes = details.get("classes", [])
    rows = []
    for one in classes:
        row = {"class": one["name"], "texts": f"{one['texts']:,}", "answers": f"{one['answers']:,}"}
        row |= {"precision": percent(one["precision"]), "recall": percent(one["recall"]), "F1": percent(one["f1"])}
        if "threshold" in one:
            row["threshold"] = percent(one["threshold"])
        rows.append(row)
    about = f"{whose} Development set; precision, recall and F1 in percent."
    if any("threshold" in one for one in classes):
        about += " A class is answered above its threshold, which is the best one on this set."
    blocks: Blocks = [Heading("Classes"), Text(about), table_of(rows[:MOST_ROWS])]
    if len(rows) > MOST_ROWS:
        blocks.append(Fold(f"{len(rows) - MOST_ROWS:,} more classes", [table_of(rows[MOST_ROWS:])]))
    confusions = details.get("confusions")
    if confusions is None:
        return blocks
    names = [one["name"] for one in classes]
    if len(names) <= MOST_CONFUSIONS:
        about = "Texts with the label of the row and the answer of the column."
        matrix = [[name, *(str(confusions.get(name, {}).get(answer, 0)) for answer in names)] for name in names]
        return [*blocks, Heading("Confusions"), Text(about), Table(["label \\ answer", *names], matrix)]
    wrong = [(texts, label, answer) for label, row in confusions.items() for answer, texts in row.items()]
    wrong = sorted((one for one in wrong if one[1] != one[2]), key=lambda one: -one[0])
    about = f"The most frequent wrong answers. All confusions of {len(names):,} classes are too many for a table"
    if len(wrong) > MOST_ROWS:
        left = sum(texts for texts, _, _ in wrong[MOST_ROWS:])
        about += f": {len(wrong) - MOST_ROWS:,} other pairs of a label and an answer, of {left:,} texts, are left out"
    about += ". predictions.csv has the answer to each text."
    shown = Table(
        ["label", "answer", "texts"], [[label, answer, f"{texts:,}"] for texts, label, answer in wrong[:MOST_ROWS]]
    )
    return [*blocks, Heading("Confusions"), Text(about), *([shown] if wrong else [])]
