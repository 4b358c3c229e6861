"""What needs no network and learns nothing: the name or number that lies nearest to the words of the question.

The idea is that of the sliding window in SQuAD's paper (Rajpurkar et al. 2016, section 5): the answer is where the
words of the question are. Candidates are runs of capitalized words and numbers instead of constituents of a parser.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from electra.tasks.squad.questions import Questions

NEAREST_NAME = "nearest name or number"
UNANSWERED = "no answer"
"""Names of the baselines in reports."""
NEAR = 10
"""Distance in words at which a word of the question counts half."""
OTHER_SENTENCE = 0.3
"""Factor for a word of the question in another sentence than the candidate."""
FREQUENT = (5, 0.2)
"""Number and share of the paragraphs above which a word is too frequent to tell a place, such as `the`."""
_WORD = re.compile(r"\w+(?:[.,'’-]\w+)*|[^\w\s]")
"""Words, also with inner points, commas, hyphens and apostrophes, and punctuation marks."""


class Word(NamedTuple):
    """A word or a punctuation mark of a text, with its first character and the one behind the last."""

    text: str
    start: int
    end: int

    @property
    def is_name(self) -> bool:
        """Return True for a word that begins with a capital letter or a digit."""
        return self.text[0].isupper() or self.text[0].isdigit()


class NearestNames(NamedTuple):
    """Answers by id of the question, and null odds in [-1, 0]: minus the share of the question's words near by."""

    predictions: dict[str, str]
    null_odds: dict[str, float]


def split_words(text: str) -> list[Word]:
    """Return the words and punctuation marks of a text in their order."""
    return [Word(found.group(), *found.span()) for found in _WORD.finditer(text)]


def nearest_names(data: Questions) -> NearestNames:
    """Return for each question the run of names and numbers that lies nearest to the words of the question.

    A run is near by the sum over the question's words of idf x nearness; see `nearness`. Words of the question and
    very frequent words are in no run. A paragraph without such a run is answered with a run of other words.
    """
    paragraphs = [split_words(paragraph) for paragraph in data.paragraphs]
    counts = Counter(word for words in paragraphs for word in {word.text.lower() for word in words})
    number, share = FREQUENT
    frequent = {word for word, count in counts.items() if count > max(number, share * len(paragraphs))}
    idf = {word: math.log(1 + len(paragraphs) / count) for word, count in counts.items()}
    predictions = {}
    null_odds = {}
    for question in data.questions:
        words = paragraphs[question.paragraph]
        asked = {word.text.lower() for word in split_words(question.text) if word.text[0].isalnum()} - frequent
        best, (first, last) = 0.0, (0, -1)
        for run in candidate_runs(words, asked | frequent):
            found = nearness(words, run, asked)
            score = sum(idf[word] * near for word, near in found.items())
            if score > best or last < first:
                best, (first, last) = score, run
        text = data.paragraphs[question.paragraph]
        predictions[question.id] = text[words[first].start : words[last].end] if last >= first else ""
        most = sum(idf.get(word, math.log(1 + len(paragraphs))) for word in asked)
        null_odds[question.id] = -best / most if most else 0.0
    return NearestNames(predictions, null_odds)


def candidate_runs(words: Sequence[Word], excluded: set[str]) -> list[tuple[int, int]]:
    """Return first and last word of each longest run of names and numbers; without any, of all words.

    Args:
        excluded: words in lower case that are in no run.
    """
    content = [word.text[0].isalnum() and word.text.lower() not in excluded for word in words]
    names = [inside and word.is_name for inside, word in zip(content, words, strict=True)]
    runs: list[tuple[int, int]] = []
    for place, inside in enumerate(names if any(names) else content):
        if not inside:
            continue
        if runs and runs[-1][1] == place - 1:
            runs[-1] = (runs[-1][0], place)
        else:
            runs.append((place, place))
    return runs


def nearness(words: Sequence[Word], run: tuple[int, int], asked: set[str]) -> dict[str, float]:
    """Return word of the question -> nearness of its nearest occurrence to a run, in (0, 1].

    The nearness at a distance of d words is 1 / (1 + d / 10), and .3 of that in another sentence. Words that the
    paragraph does not have are left out.
    """
    first, last = run
    found: dict[str, float] = {}
    for place, word in enumerate(words):
        name = word.text.lower()
        if name not in asked:
            continue
        distance = max(first - place, place - last)
        between = words[place:first] if place < first else words[last:place]
        factor = OTHER_SENTENCE if any(one.text in ".!?" for one in between) else 1.0
        found[name] = max(found.get(name, 0.0), factor / (1 + distance / NEAR))
    return found
