"""Tiny tables of texts with labels, and the command line of a run on them."""

import csv
import json
import random

from tests.finetuning.commands import file_flags
from tests.pretraining.runs import WORDS


def write_table(path, header, rows):
    """Write a csv with the line ends of Windows, which are those of the csv module; return the path."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
    return path


def write_lines(path, rows):
    """Write rows as JSON lines; return the path."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def texts(count, seed, num_classes=2):
    """Return texts whose first word names their class, and the numbers of their classes."""
    source = random.Random(seed)
    labels = [row % num_classes for row in range(count)]
    return [
        " ".join([WORDS[label], *source.choices(WORDS[20:60], k=source.randint(2, 8))]) for label in labels
    ], labels


def write_texts(folder):
    """Write reviews/ (one of two classes, csv), topics/ (several classes, jsonl) and marks/ (numbers, tsv)."""
    for name in ("reviews", "topics", "marks"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for split, count, seed in (("train", 48, 0), ("dev", 16, 1)):
        sentences, labels = texts(count, seed)
        names = [("bad", "good")[label] for label in labels]
        write_table(folder / "reviews" / f"{split}.csv", ["text", "label"], zip(sentences, names, strict=True))
        sentences, labels = texts(count, seed, 4)
        sets = [["red"] * (label % 2) + ["blue"] * (label // 2) for label in labels]
        rows = [{"text": text, "labels": label} for text, label in zip(sentences, sets, strict=True)]
        write_lines(folder / "topics" / f"{split}.jsonl", rows)
        marks = [f"{text}\t{10 + 2.5 * label}" for text, label in zip(sentences, labels, strict=True)]
        (folder / "marks" / f"{split}.tsv").write_text("\n".join(["sentence\tlabel", *marks]) + "\n")
    return folder


def flags(folder, name, suffix, **options):
    """Return the command line of a run below `folder` on the files of `name`/."""
    values = {"output_dir": folder / "output", **options}
    return file_flags(folder / name, f"train.{suffix}", f"dev.{suffix}", **values)


def topics_flags(folder, **options):
    """Return the command line of a run on topics/ of `write_texts`."""
    return flags(folder, "topics", "jsonl", **options)


def reviews_flags(folder, **options):
    """Return the command line of a run on reviews/ of `write_texts`."""
    return flags(folder, "reviews", "csv", **options)
