"""The classes of a run and their confusions as blocks of a page, from predictions/TASK-SEED-details.json. No torch."""

from typing import NotRequired

from typing_extensions import TypedDict

from electra.report.blocks import Blocks, Heading, Table, Text, table_of
from electra.report.evaluation import percent

MOST_CLASSES = 100
"""Classes with which a page has the table of their confusions, at most."""


class ClassScores(TypedDict):
    """The scores of a class on the development set, as fractions.

    Attributes:
        texts: number of texts with the class.
        answers: number of texts to which the class is answered.
        threshold: probability above which the class is answered; missing if the class is answered by another rule, or
            above one half.
    """

    name: str
    texts: int
    answers: int
    precision: float
    recall: float
    f1: float
    threshold: NotRequired[float]


class Details(TypedDict, total=False):
    """The content of predictions/TASK-SEED-details.json.

    Attributes:
        range: lowest and highest label of the training data, if labels are numbers.
        classes: scores of each class, if labels are classes.
        confusions: label -> answer -> number of texts, if each text has one class; pairs without a text are missing.
    """

    range: list[float]
    classes: list[ClassScores]
    confusions: dict[str, dict[str, int]]


def class_blocks(details: Details, about_run: str) -> Blocks:
    """Return blocks with the classes of a run and their confusions; if labels are numbers, with their range.

    Args:
        about_run: sentence above the table of classes that says which run it is.
    """
    if "range" in details:
        edges = " to ".join(f"{edge:g}" for edge in details["range"])
        return [Heading("Labels"), Text(f"The labels of the training data are {edges}.")]
    classes = details.get("classes", [])
    rows = []
    for scores in classes:
        counts = {"class": scores["name"], "texts": f"{scores['texts']:,}", "answers": f"{scores['answers']:,}"}
        shares = {"precision": scores["precision"], "recall": scores["recall"], "F1": scores["f1"]}
        if "threshold" in scores:
            shares["threshold"] = scores["threshold"]
        rows.append(counts | {title: percent(share) for title, share in shares.items()})
    about = (
        f"{about_run} Development set; texts have the class as their label, answers are texts to which the network "
        "answers it; precision, recall and F1 in percent."
    )
    if any("threshold" in scores for scores in classes):
        about += " A class is answered above its threshold, also in percent, which is the best one on this set."
    blocks: Blocks = [Heading("Classes"), Text(about), table_of(rows)]
    confusions = details.get("confusions")
    if confusions is None:
        return blocks
    names = [scores["name"] for scores in classes]
    if len(names) > MOST_CLASSES:
        return [
            *blocks,
            Text(f"The confusions of {len(names):,} classes are too many for a table: see predictions.csv."),
        ]
    about = "Texts with the label of the row and the answer of the column."
    matrix = [[name, *(str(confusions.get(name, {}).get(answer, 0)) for answer in names)] for name in names]
    return [*blocks, Heading("Confusions"), Text(about), Table(["label \\ answer", *names], matrix)]
