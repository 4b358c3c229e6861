"""The demo task: CoLA's form on text that every computer with Python has. No download, no torch.

Sentences of prose from the builtin corpus; half of them have their word order disturbed. Label 1: as it was written;
0: disturbed. Neighbouring words were swapped, one pair per five words of the sentence, and that for three reasons:

- A swap leaves the bag of words as it is. To tell the classes apart one has to know which word follows which.
- Nothing is told by form. The first word with its capital stays, and so does every word that carries a comma or the
  full stop; the length is the same.
- It is not trivial and not hopeless. Logistic regression on 4,000 rows reaches an MCC of about 0.5 on word bigrams
  and about 0 on single words. A single swap per sentence would leave it at 0.2, a full shuffle at 0.7.

Two words may swap places without harm ("copies and pickles"), so nobody reaches 1. A model that was pre-trained on
the builtin corpus has read these sentences in their right order: the score shows that the way from pre-training to a
table works, and compares models of one corpus. It is no benchmark.
"""

import random
import re
from collections.abc import Iterable

from electra.data.builtin_corpus import builtin_documents
from electra.errors import UserError
from electra.finetuning.examples import Examples

ROWS = {"train": 4000, "dev": 1000}
WORDS = (6, 30)
"""Fewest and most words of a sentence."""
WORDS_PER_SWAP = 5
SEED = 20200323
SHORT_LINE = 50
"""A line with fewer characters was not wrapped: what follows it, such as the next item of a list, is another text."""

_WORD = r"[A-Za-z]+(?:['-][A-Za-z]+)*"
_SENTENCE = re.compile(rf"[A-Z][a-z]*(?:,? {_WORD})+\.")  # letters, commas and one full stop: no code, no signature
_SENTENCE_END = re.compile(r"(?<=[.!?:;])\s+|\n")


def demo_data(documents: Iterable[str] | None = None) -> dict[str, Examples]:
    """The splits `train` and `dev`, 4,000 and 1,000 rows; the same ones in every run with the same Python.

    No bag of words occurs twice, so no sentence and no twin of it is in both splits or in both classes. Half of the
    rows of each split are disturbed.

    Args:
        documents: where the sentences are from; the builtin corpus if None.

    Raises:
        UserError: the documents have too few sentences.
    """
    rng = random.Random(SEED)
    pairs = []
    for sentence in prose_sentences(builtin_documents() if documents is None else documents):
        disturbed = disturb(sentence, rng)
        if disturbed is not None:  # whatever its label will be: what cannot be disturbed would give itself away
            pairs.append((disturbed, sentence))
    if len(pairs) < sum(ROWS.values()):
        raise UserError(
            f"the demo task needs {sum(ROWS.values())} sentences, the docstrings of this Python have {len(pairs)}; "
            "use a complete Python, or a task of GLUE"
        )
    rng.shuffle(pairs)
    data, start = {}, 0
    for split, rows in ROWS.items():
        labels = [row % 2 for row in range(rows)]
        rng.shuffle(labels)
        texts = [pair[label] for pair, label in zip(pairs[start : start + rows], labels, strict=True)]
        data[split] = Examples(texts, labels=labels)
        start += rows
    return data


def prose_sentences(documents: Iterable[str]) -> list[str]:
    """Sentences of 6 to 30 words that consist of letters, commas and a full stop, one for each bag of words."""
    found: dict[tuple[str, ...], str] = {}
    for document in documents:
        for paragraph in re.split(r"\n\s*\n", document):
            lines = paragraph.split("\n")
            text = "".join(line.strip() + (" " if len(line) >= SHORT_LINE else "\n") for line in lines)
            for sentence in _SENTENCE_END.split(text):
                words = sentence.split()
                sentence = " ".join(words)
                if WORDS[0] <= len(words) <= WORDS[1] and _SENTENCE.fullmatch(sentence):
                    found.setdefault(tuple(sorted(re.findall(_WORD, sentence.lower()))), sentence)
    return list(found.values())


def disturb(sentence: str, rng: random.Random) -> str | None:
    """Swap neighbours in disjoint places, one pair per five words; None where there are too few places."""
    words = sentence.split()
    places = [
        place
        for place in range(1, len(words) - 1)
        if words[place][-1].isalpha()
        and words[place + 1][-1].isalpha()
        and words[place].lower() != words[place + 1].lower()
    ]
    rng.shuffle(places)
    wanted = round(len(words) / WORDS_PER_SWAP)
    chosen: list[int] = []
    for place in places:
        if len(chosen) < wanted and all(abs(place - other) > 1 for other in chosen):
            chosen.append(place)
    if len(chosen) < wanted:
        return None
    for place in chosen:
        words[place], words[place + 1] = words[place + 1], words[place]
    return " ".join(words)
