"""The demo task: CoLA's form on text that every Python installation contains. No download, no torch.

The sentences are prose from the builtin corpus; in half of them the word order is disturbed. Label 1: original;
0: disturbed. One pair of neighbouring words per five words is swapped, for three reasons:

- A swap keeps the bag of words. To tell the classes apart, a model must know which word follows which.
- Form reveals nothing: length, the first word and every word with a comma or the full stop stay as they are.
- The difficulty is medium. On 4,000 rows logistic regression reaches an MCC of about 0.5 with word bigrams and about
  0 with single words. One swap per sentence would leave it at 0.2, a full shuffle at 0.7.

Some swaps do no harm ("copies and pickles"), so no model reaches 1. A model pre-trained on the builtin corpus has
read these sentences in their original order: the score compares models of one corpus, and is no benchmark.
"""

import itertools
import random
import re
from collections.abc import Iterable

from electra.data.builtin import builtin_documents
from electra.finetuning.data import Examples

ROWS = {"train": 4000, "dev": 1000}
"""Rows of the demo by split."""
MIN_WORDS = 6
MAX_WORDS = 30
"""Words of the shortest and the longest sentence."""
WORDS_PER_SWAP = 5
"""Words of a sentence for each swapped pair; see above for its effect."""
DEMO_SEED = 20200323
"""Seed of the choice and the swaps, the same in every installation."""
SHORT_LINE = 50
"""Characters below which a line was not wrapped, so that the next line is a text of its own, such as an item of a
list."""

_WORD = r"[A-Za-z]+(?:['-][A-Za-z]+)*"
"""A word of letters, with an apostrophe or a hyphen inside."""
_SENTENCE = re.compile(rf"[A-Z][a-z]*(?:,? {_WORD})+\.")  # letters, commas and one full stop: no code, no signature
_SENTENCE_END = re.compile(r"(?<=[.!?:;])\s+|\n")
"""White space behind the end of a sentence or a clause, and line ends."""


def demo_data(documents: Iterable[str] | None = None) -> dict[str, Examples]:
    """Return the splits `train` and `dev`, 4,000 and 1,000 rows, which are the same in every run with one Python.

    No bag of words occurs twice, so no sentence, original or disturbed, is in both splits or in both classes.

    Args:
        documents: texts to take sentences from; None for the builtin corpus.
    """
    rng = random.Random(DEMO_SEED)
    pairs = []
    for sentence in prose_sentences(builtin_documents() if documents is None else documents):
        disturbed = disturb(sentence, rng)
        if disturbed is not None:  # also for label 1: a sentence that cannot be disturbed would reveal its label
            pairs.append((disturbed, sentence))
    rng.shuffle(pairs)
    data = {}
    unused_pairs = iter(pairs)
    for split, rows in ROWS.items():
        labels = [row % 2 for row in range(rows)]
        rng.shuffle(labels)
        pairs_of_split = itertools.islice(unused_pairs, rows)
        texts = [pair[label] for pair, label in zip(pairs_of_split, labels, strict=True)]
        data[split] = Examples(texts, labels=labels)
    return data


def prose_sentences(documents: Iterable[str]) -> list[str]:
    """Return the sentences of 6 to 30 words with commas and a full stop; of equal bags of words only the first."""
    sentence_of_bag: dict[tuple[str, ...], str] = {}
    for document in documents:
        for paragraph in re.split(r"\n\s*\n", document):
            lines = paragraph.split("\n")
            ends = [" " if len(line) >= SHORT_LINE else "\n" for line in lines]
            text = "".join(line.strip() + end for line, end in zip(lines, ends, strict=True))
            for sentence in _SENTENCE_END.split(text):
                words = sentence.split()
                sentence = " ".join(words)
                if MIN_WORDS <= len(words) <= MAX_WORDS and _SENTENCE.fullmatch(sentence):
                    bag = sorted(re.findall(_WORD, sentence.lower()))
                    sentence_of_bag.setdefault(tuple(bag), sentence)
    return list(sentence_of_bag.values())


def disturb(sentence: str, rng: random.Random) -> str | None:
    """Return a sentence with pairs of neighbouring words swapped, one per five words; None if it has too few pairs."""
    words = sentence.split()
    candidates = []  # positions of the first words of pairs
    for position, (word, following) in enumerate(itertools.pairwise(words)):
        are_plain = word[-1].isalpha() and following[-1].isalpha()
        if position > 0 and are_plain and word.lower() != following.lower():
            candidates.append(position)
    rng.shuffle(candidates)
    swap_count = round(len(words) / WORDS_PER_SWAP)
    swaps: list[int] = []
    for position in candidates:
        is_free = all(abs(position - swapped) > 1 for swapped in swaps)
        if is_free and len(swaps) < swap_count:
            swaps.append(position)
    if len(swaps) < swap_count:
        return None
    for position in swaps:
        words[position], words[position + 1] = words[position + 1], words[position]
    return " ".join(words)
