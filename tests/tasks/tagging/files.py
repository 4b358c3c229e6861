"""A tiny corpus of labelled words that can be learned, and the command line of a run on it."""

import random

from electra.tokenizers.options import TokenizerArguments
from electra.tokenizers.train import train_on_documents
from tests.finetuning.commands import file_flags
from tests.pretraining.runs import WORDS
from tests.tasks.glue.files import write_encoder

NAMES = {"PER": WORDS[:10], "LOC": WORDS[10:20]}


def write_columns(folder):
    """Write train.txt, dev.txt and test.txt with columns for the word, something else and the label, in IOB1.

    Each word says by itself of which type it is, and whether it begins a name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for split, count, seed in (("train", 100, 0), ("dev", 12, 1), ("test", 8, 2)):
        source = random.Random(seed)
        lines = ["-DOCSTART- X O", ""]
        for _ in range(count):
            for _ in range(source.randint(1, 3)):
                lines += [f"{word} X O" for word in source.choices(WORDS[30:60], k=source.randint(1, 3))]
                kind = source.choice(list(NAMES))
                name = [source.choice(NAMES[kind][:5]), source.choice(NAMES[kind][5:])]
                lines += [f"{word} X I-{kind}" for word in name[: source.randint(1, 2)]]
            lines.append("")
        (folder / f"{split}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def write_wide_encoder(folder):
    """Write a model folder with random weights, so wide that words, a token each, are told apart untrained."""
    tokenizer = train_on_documents([" ".join(WORDS)] * 4, TokenizerArguments(vocab_size=400))
    sizes = dict.fromkeys(("embedding_size", "hidden_size", "intermediate_size"), 64)
    return write_encoder(folder, tokenizer, dropout=0.0, initializer_range=0.02, **sizes)


def flags(folder, **options):
    """Return the command line of a run below `folder`: its names/ and its encoder/, two seeds."""
    return file_flags(folder, "names/train.txt", "names/dev.txt", **options)


def words_and_labels(sentences):
    """Return the words of all sentences, and their labels."""
    return [sentence.words for sentence in sentences], [sentence.labels for sentence in sentences]
