"""A tiny SQuAD that a tiny encoder can learn: the answer is the word, or the words, of one kind in the paragraph."""

import json
import random
from pathlib import Path
from typing import Any

from tests.finetuning.commands import file_flags
from tests.pretraining.runs import WORDS

ANSWERS = WORDS[:2]


def write_squad(folder: Path, *, version_2: bool = False, train: int = 40, dev: int = 20, words: int = 12) -> Path:
    """train.json and dev.json; two questions on a paragraph, of version 2.0 every second one without answer."""
    source = random.Random(0)
    folder.mkdir(parents=True, exist_ok=True)
    for name, count in (("train", train), ("dev", dev)):
        paragraphs = [_paragraph(source, f"{name}{i}", version_2, i, words) for i in range(count // 2)]
        articles = [{"title": "t", "paragraphs": paragraphs[:3]}, {"title": "u", "paragraphs": paragraphs[3:]}]
        (folder / f"{name}.json").write_text(json.dumps({"version": "x", "data": articles}))
    return folder


def _paragraph(source: random.Random, name: str, version_2: bool, index: int, words: int) -> dict[str, Any]:
    text = source.choices(WORDS[20:60], k=source.randint(words // 2, words))
    is_impossible = version_2 and index % 2 == 1
    answer = " ".join(ANSWERS[: 1 + index % 2])
    place = source.randint(0, len(text))
    written = text if is_impossible else [*text[:place], answer, *text[place:]]
    start = len(" ".join([*text[:place], ""]))
    answers = [] if is_impossible else [{"text": answer, "answer_start": start}]
    extra = {"is_impossible": is_impossible} if version_2 else {}
    questions = [
        {"id": f"{name}-{i}", "question": " ".join(source.choices(WORDS[20:60], k=3)), "answers": answers, **extra}
        for i in range(2)
    ]
    return {"context": " ".join(written), "qas": questions}


def flags(folder: Path, **options: object) -> list[str]:
    """The command line of an evaluation below `folder`: its squad/ and its encoder/, two seeds."""
    return file_flags(folder, "squad/train.json", "squad/dev.json", **options)
