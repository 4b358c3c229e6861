"""A tiny SQuAD that a tiny encoder can learn: the answer is the word, or the words, of one kind in the paragraph."""

import json
import random

from electra.data.rows import read_rows
from electra.tasks.squad.questions import parse_questions
from tests.finetuning.commands import file_flags
from tests.pretraining.runs import WORDS

ANSWERS = WORDS[:2]


def write_squad(folder, *, version_2=False):
    """Write train.json and dev.json, 40 and 20 questions, two on a paragraph; in version 2.0 half have no answer."""
    source = random.Random(0)
    folder.mkdir(parents=True, exist_ok=True)
    for name, count in (("train", 20), ("dev", 10)):
        paragraphs = [_paragraph(source, f"{name}{number}", version_2, number) for number in range(count)]
        articles = [{"title": "t", "paragraphs": paragraphs[:3]}, {"title": "u", "paragraphs": paragraphs[3:]}]
        (folder / f"{name}.json").write_text(json.dumps({"version": "x", "data": articles}))
    return folder


def _paragraph(source, name, version_2, index):
    """Return a paragraph with its two questions, whose answer is the same."""
    text = source.choices(WORDS[20:60], k=source.randint(6, 12))
    answers = []
    if not version_2 or index % 2 == 0:
        place = source.randint(0, len(text))
        answer = " ".join(ANSWERS[: 1 + index % 2])
        text.insert(place, answer)
        answers = [{"text": answer, "answer_start": len(" ".join([*text[:place], ""]))}]
    questions = [
        {"id": f"{name}-{number}", "question": " ".join(source.choices(WORDS[20:60], k=3)), "answers": answers}
        for number in range(2)
    ]
    return {"context": " ".join(text), "qas": questions}


def flags(folder, **options):
    """Return the command line of an evaluation below `folder`: its squad/ and its encoder/, two seeds."""
    return file_flags(folder, "squad/train.json", "squad/dev.json", **options)


def read_questions(path):
    """Return the questions of a file."""
    return parse_questions(read_rows(path, names_classes=False), str(path))
