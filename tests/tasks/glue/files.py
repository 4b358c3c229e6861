"""A tiny GLUE in the official layout, an encoder for it, and the command line of an evaluation."""

import random

import torch

from tests.finetuning.commands import tiny_flags
from tests.finetuning.encoders import tiny_electra
from tests.pretraining.runs import WORDS

BINARY = ["0", "1"]
NLI2 = ["entailment", "not_entailment"]
FORMS = {
    "CoLA": ("source,label,star,sentence", BINARY),
    "SST-2": ("sentence,label", BINARY),
    "MRPC": ("Quality,#1 ID,#2 ID,#1 String,#2 String", BINARY),
    "STS-B": ("index,genre,sentence1,sentence2,score", ["0.0", "2.5", "5.000"]),
    "QQP": ("id,qid1,qid2,question1,question2,is_duplicate", BINARY),
    "MNLI": ("index,sentence1,sentence2,gold_label", ["entailment", "neutral", "contradiction"]),
    "QNLI": ("index,question,sentence,label", NLI2),
    "RTE": ("index,sentence1,sentence2,label", NLI2),
    "WNLI": ("index,sentence1,sentence2,label", BINARY),
}
"""Columns and labels of each task."""
LABEL_COLUMNS = ("label", "gold_label", "score", "Quality", "is_duplicate")
MNLI_FILES = {"dev": ("dev_matched", "dev_mismatched"), "test": ("test_matched", "test_mismatched")}


def write_glue(folder, *titles):
    """Write folders of these tasks, by default all and the diagnostic set; the first word of a row is its label's."""
    source = random.Random(0)
    for title in titles or FORMS:
        (folder / title).mkdir(parents=True, exist_ok=True)
        for split, rows in (("train", 24), ("dev", 12), ("test", 6)):
            for name in MNLI_FILES.get(split, (split,)) if title == "MNLI" else (split,):
                _write(folder / title / f"{name}.tsv", _lines(source, title, split == "test", rows))
    if not titles:
        (folder / "AX").mkdir(exist_ok=True)
        rows_of_ax = [f"{number}\t{WORDS[number]}\t{WORDS[number + 1]}" for number in range(6)]
        _write(folder / "AX" / "diagnostic.tsv", ["index\tsentence1\tsentence2", *rows_of_ax])
    return folder


def _write(path, lines):
    """Write lines with the line ends of Unix."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _lines(source, title, is_test, rows):
    """Return the lines of a file of GLUE, with its header if the task has one."""
    names, labels = FORMS[title]
    has_header = title != "CoLA" or is_test
    columns = ["index", "sentence"] if title == "CoLA" and is_test else names.split(",")
    columns = [column for column in columns if not (is_test and column in LABEL_COLUMNS)]
    lines = ["\t".join(columns)] if has_header else []
    for index in range(rows):
        label = index % len(labels)
        cells = []
        for column in columns:
            is_text = column.startswith(("sentence", "question")) or column.endswith("String")
            text = [WORDS[label], *source.choices(WORDS[20:60], k=source.randint(1, 5))] if is_text else [str(index)]
            cells.append(labels[label] if column in LABEL_COLUMNS else " ".join(text))
        lines.append("\t".join(cells))
    return lines


def write_encoder(folder, tokenizer, seed=0, **values):
    """Write a model folder with a `tiny_electra` of random weights."""
    torch.manual_seed(seed)
    tiny_electra(len(tokenizer), pad_token_id=tokenizer.pad_token_id, **values).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def flags(folder, **options):
    """Return the command line of an evaluation below `folder`: its glue/ and its encoder/, one epoch, two seeds."""
    return tiny_flags(folder, **{"glue_dir": folder / "glue", **options})
