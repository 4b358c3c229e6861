"""A tiny GLUE in the official layout, an encoder for it, and the command line of an evaluation."""

import random
from pathlib import Path

import torch
from transformers import ElectraConfig, ElectraModel, PreTrainedTokenizerBase

from tests.finetuning.commands import tiny_flags
from tests.pretraining.runs import WORDS

HEADERS = {
    "SST-2": ("sentence", "label"),
    "MRPC": ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"),
    "STS-B": ("index", "genre", "sentence1", "sentence2", "score"),
    "QQP": ("id", "qid1", "qid2", "question1", "question2", "is_duplicate"),
    "MNLI": ("index", "sentence1", "sentence2", "gold_label"),
    "QNLI": ("index", "question", "sentence", "label"),
    "RTE": ("index", "sentence1", "sentence2", "label"),
    "WNLI": ("index", "sentence1", "sentence2", "label"),
}
LABELS: dict[str, list[str]] = {
    "CoLA": ["0", "1"],
    "SST-2": ["0", "1"],
    "MRPC": ["0", "1"],
    "STS-B": ["0.0", "2.5", "5.000"],
    "QQP": ["0", "1"],
    "MNLI": ["entailment", "neutral", "contradiction"],
    "QNLI": ["entailment", "not_entailment"],
    "RTE": ["entailment", "not_entailment"],
    "WNLI": ["0", "1"],
}
LABEL_COLUMNS = {"label", "gold_label", "score", "Quality", "is_duplicate"}
MNLI_FILES = {"dev": ("dev_matched", "dev_mismatched"), "test": ("test_matched", "test_mismatched")}


def write_glue(folder: Path, *titles: str, train: int = 24, dev: int = 12, test: int = 6) -> Path:
    """TSV folders of these tasks, by default all and the diagnostic set; the first word of a row is its label's."""
    source = random.Random(0)
    for title in titles or LABELS:
        (folder / title).mkdir(parents=True)
        for split, rows in (("train", train), ("dev", dev), ("test", test)):
            for name in MNLI_FILES.get(split, (split,)) if title == "MNLI" else (split,):
                lines = _lines(source, title, split, rows)
                (folder / title / f"{name}.tsv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    if not titles:
        (folder / "AX").mkdir()
        lines = ["index\tsentence1\tsentence2", *(f"{i}\t{WORDS[i]}\t{WORDS[i + 1]}" for i in range(test))]
        (folder / "AX" / "diagnostic.tsv").write_text("".join(f"{line}\n" for line in lines))
    return folder


def _lines(source: random.Random, title: str, split: str, rows: int) -> list[str]:
    labels = LABELS[title]
    lines = []
    for index in range(rows):
        label = labels[index % len(labels)]

        def text(label: str = label) -> str:
            return " ".join([WORDS[labels.index(label)], *source.choices(WORDS[20:60], k=source.randint(1, 5))])

        if title == "CoLA":
            lines.append(f"{index}\t{text()}" if split == "test" else f"gj04\t{label}\t\t{text()}")
            continue
        cells = {column: label if column in LABEL_COLUMNS else text() for column in HEADERS[title]}
        cells |= {
            column: str(index) for column in cells if column in ("index", "id", "qid1", "qid2", "#1 ID", "#2 ID")
        }
        lines.append(
            "\t".join(
                v for column, v in cells.items() if split == "train" or split == "dev" or column not in LABEL_COLUMNS
            )
        )
    if title == "CoLA":
        return ["index\tsentence", *lines] if split == "test" else lines
    return ["\t".join(c for c in HEADERS[title] if split != "test" or c not in LABEL_COLUMNS), *lines]


def write_encoder(folder: Path, tokenizer: PreTrainedTokenizerBase, seed: int = 0, dropout: float = 0.1) -> Path:
    """A model folder with an encoder of random weights."""
    torch.manual_seed(seed)
    model = ElectraModel(
        ElectraConfig(
            vocab_size=len(tokenizer),
            embedding_size=8,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            max_position_embeddings=32,
            pad_token_id=tokenizer.pad_token_id,
            initializer_range=0.2,
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
        )
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def flags(folder: Path, **options: object) -> list[str]:
    """The command line of an evaluation below `folder`: its glue/ and its encoder/, one epoch, two seeds."""
    return tiny_flags(folder, **{"glue_dir": folder / "glue", **options})
