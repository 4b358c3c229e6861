"""Average the answers of networks that were fine-tuned on the same texts with several seeds, and score the averages.

    python runs/average_seeds.py output/classify_a/pretrained-0.01 output/classify_b/pretrained-0.01 ...

The folders are evaluations of `electra classify` with one label and one row of tokens for each text. A part of the
training texts (`--train_fractions`) is drawn with `--eval_seed` + seed, so the seeds 42 and 43 of `--seed 42
--eval_seed 0` and the seeds 2 and 3 of `--seed 2 --eval_seed 40` draw the same two sets of texts. Without a
development set of its own, another `--eval_seed` holds out other texts, so give a `--validation_file`. The table has a
line for each set of texts of both splits: accuracy in percent of the networks, in the mean; of the mean of their
probabilities; and of the bag of words. The last line has the median of each column, and the standard deviation over
the sets.
"""

import argparse
import csv
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax

from electra.base.errors import run_script
from electra.core.errors import UserError
from electra.report.results import read_results


class Finetuned(NamedTuple):
    """A fine-tuned network's answers on the development set."""

    name: str
    """Folder and seed of the network, for messages."""
    probabilities: np.ndarray
    """Probabilities of the classes, (texts, classes)."""
    labels: np.ndarray
    """Numbers of the classes of the texts, (texts,)."""
    bag_of_words: float
    """Accuracy of the bag of words that was trained on the same texts."""


def finetuned_networks(folder: Path) -> list[tuple[tuple[Any, ...], Finetuned]]:
    """Read the networks of an evaluation, each with a key that is equal for the same texts of both splits."""
    found = []
    for run in read_results(folder / "results.jsonl"):
        settings = run.settings
        if settings.get("label_kind") != "single" or settings.get("long_texts") == "windows":
            raise UserError(
                f"{folder} has several labels, numbers or windows for a text; name evaluations of electra classify "
                "with one class for each text, without --long_texts windows"
            )
        start = folder / "predictions" / f"{run.task}-{run.seed}"
        details = json.loads(Path(f"{start}-details.json").read_text(encoding="utf-8"))
        number = {one["name"]: column for column, one in enumerate(details["classes"])}
        with open(f"{start}-dev.csv", encoding="utf-8", newline="") as file:
            answers = list(csv.DictReader(file))
        labels = np.array([number[row["label"]] for row in answers])
        places = tuple(row["place"] for row in answers)
        with np.load(f"{start}.npz", allow_pickle=False) as logits:
            probabilities = softmax(logits["dev"].astype(np.float64), axis=-1)
        baselines = json.loads(Path(f"{start}-baselines.json").read_text(encoding="utf-8"))
        is_drawn = settings.get("train_texts") == "drawn for each seed"
        draw = settings["eval_seed"] + run.seed if is_drawn else "all"
        data = tuple(settings.get(name) for name in ("train_data", "validation_data"))
        key = (run.task, run.rows["train"], draw, data, places)
        name = f"{folder}, seed {run.seed}"
        found.append((key, Finetuned(name, probabilities, labels, baselines["bag of words"]["accuracy"])))
    return found


def score_averages(folders: Sequence[Path]) -> list[tuple[tuple[Any, ...], int, float, float, float]]:
    """Score the networks of some evaluations, and the mean of the probabilities of those trained on the same texts.

    Returns:
        for each set of texts its key, the number of networks, and the accuracy in percent of the networks in the mean,
        of their average, and of the bag of words.
    """
    networks: dict[tuple[Any, ...], list[Finetuned]] = defaultdict(list)
    for folder in folders:
        for key, network in finetuned_networks(folder):
            for other in networks[key]:
                if np.array_equal(other.probabilities, network.probabilities):
                    raise UserError(f"{network.name} and {other.name} are one network; name each of them once")
            networks[key].append(network)
    scores = []
    for key, members in sorted(networks.items(), key=lambda item: str(item[0])):
        labels = members[0].labels
        alone = np.mean([np.mean(one.probabilities.argmax(-1) == labels) for one in members])
        average = np.mean([one.probabilities for one in members], axis=0)
        together = np.mean(average.argmax(-1) == labels)
        scores.append((key, len(members), 100 * float(alone), 100 * float(together), 100 * members[0].bag_of_words))
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, help="evaluations of electra classify")
    folders = parser.parse_args().folders
    for folder in folders:
        if not (folder / "results.jsonl").is_file():
            parser.error(f"{folder} has no results.jsonl; name evaluations of electra classify")
    scores = score_averages(folders)
    print(f"{'texts':28}{'networks':>10}{'alone':>8}{'average':>9}{'bag of words':>14}")
    for (task, rows, draw, *_), count, *values in scores:
        alone, together, words = values
        print(f"{f'{task}, {rows} ({draw})':28}{count:10}{alone:8.1f}{together:9.1f}{words:14.1f}")
    columns = np.array([values for _, _, *values in scores])
    spread = columns.std(axis=0, ddof=1) if len(columns) > 1 else np.zeros(columns.shape[1])
    middle = [f"{median:.1f} ± {std:.1f}" for median, std in zip(np.median(columns, axis=0), spread, strict=True)]
    print("median ± standard deviation:", ", ".join(middle))


if __name__ == "__main__":
    run_script(main)
