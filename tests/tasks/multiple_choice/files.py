"""Questions that can be learned, with two to four choices, and the command line of a run on them."""

import csv
import json
import random

from tests.finetuning.commands import file_flags
from tests.pretraining.runs import WORDS


def rows(count, seed):
    """Return rows of a question, two to four choices as JSON, and the label: the choice with one of ten words."""
    source = random.Random(seed)
    questions = []
    for _ in range(count):
        choices = [" ".join(source.choices(WORDS[30:60], k=2)) for _ in range(source.randint(2, 4))]
        answer = source.randrange(len(choices))
        choices[answer] = f"{source.choice(WORDS[:10])} {choices[answer]}"
        questions.append([source.choice(WORDS[20:30]), json.dumps(choices), str(answer)])
    return questions


def write_questions(folder):
    """Write train.csv, dev.csv and test.csv with 80, 20 and 10 questions; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, count, seed in (("train", 80, 0), ("dev", 20, 1), ("test", 10, 2)):
        with open(folder / f"{split}.csv", "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["question", "choices", "label"])
            writer.writerows(rows(count, seed))
    return folder


def flags(folder, **options):
    """Return the command line of a run below `folder`: its quiz/ and its encoder/, two seeds."""
    return file_flags(folder, "quiz/train.csv", "quiz/dev.csv", **options)
