"""TriviaQA's questions and documents -> a file in SQuAD's format, on which `electra squad` trains.

    python examples/trivia_qa.py --qa_file qa/wikipedia-train.json --evidence_dir evidence \
        --output_file trivia.json

TriviaQA has no positions of answers: a question has names of documents, of which some name the answer. As in BERT's
paper (section 4.2), a paragraph is the first 400 words of a document in which the answer occurs, and the answer is its
first occurrence, under any of its aliases; other documents are left out. Questions of all of TriviaQA's sets are read,
also of the unfiltered one, whose documents may not name the answer.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NotRequired

from typing_extensions import TypedDict

from electra.base.console import setup_logging
from electra.base.errors import run_script
from electra.base.files import expand, read_json, write_json
from electra.base.parser import Parser
from electra.core.errors import UserError
from electra.core.ranges import check

logger = logging.getLogger("electra.examples.trivia_qa")

_WORD = re.compile(r"\w+")
"""A word in which answers are looked for."""
_COUNTED_WORD = re.compile(r"\S+")
"""A word that is counted, between white space."""
SOURCES = {"EntityPages": "wikipedia", "SearchResults": "web"}
"""Field in which a question names documents -> folder of these documents in the folder of the evidence."""


class TriviaAnswer(TypedDict, total=False):
    """An answer with its names; test sets have none."""

    Value: str
    Aliases: list[str]
    NormalizedAliases: list[str]


class TriviaDocument(TypedDict):
    """A document that a question names: its file in the folder of its source."""

    Filename: NotRequired[str]


class TriviaQuestion(TypedDict):
    """A question, its answer and its documents."""

    Question: str
    QuestionId: str
    Answer: NotRequired[TriviaAnswer | None]
    EntityPages: NotRequired[list[TriviaDocument]]
    SearchResults: NotRequired[list[TriviaDocument]]


class TriviaFile(TypedDict):
    """The content of a file in TriviaQA's folder qa."""

    Data: list[TriviaQuestion]


class Occurrence(NamedTuple):
    """An occurrence of an answer: its first character in a text, and its text."""

    start: int
    text: str


def first_words(text: str, count: int) -> str:
    """Return the first `count` words of a text, or all of a shorter one; words stand between white space."""
    for number, match in enumerate(_COUNTED_WORD.finditer(text), start=1):
        if number == count:
            return text[: match.end()]
    return text


def find_answers(context: str, aliases: Sequence[str]) -> list[Occurrence]:
    """Return the first occurrence of each alias in a text, sorted by start; the longest comes first at equal starts.

    Case and the characters between words do not count, and no word is cut: "JRR" is not in "JRRT".
    """
    spans = [match.span() for match in _WORD.finditer(context)]
    words = [context[begin:end].casefold() for begin, end in spans]
    occurrences = set()
    for wanted_words in {tuple(word.casefold() for word in _WORD.findall(alias)) for alias in aliases}:
        size = len(wanted_words)
        candidates = (index for index, word in enumerate(words) if size and word == wanted_words[0])
        first = next((index for index in candidates if tuple(words[index : index + size]) == wanted_words), None)
        if first is not None:
            begin = spans[first][0]
            end = spans[first + size - 1][1]
            occurrences.add(Occurrence(begin, context[begin:end]))
    return sorted(occurrences, key=lambda occurrence: (occurrence.start, -len(occurrence.text)))


def convert_trivia_qa(
    questions: Sequence[TriviaQuestion], evidence: Path, max_words: int, counts: Counter[str]
) -> Iterator[Any]:
    """Yield an article of SQuAD's format for each document that names the answer, with one question.

    Args:
        evidence: folder with a folder of documents for each of `SOURCES`.
        max_words: words of a document that are its paragraph.
        counts: counter to which are added the numbers of `questions` with an article, of `documents`, and of `missing`
            ones, which have no file.
    """
    for question in questions:
        answer = question.get("Answer") or {}
        aliases = [answer.get("Value", ""), *answer.get("Aliases", []), *answer.get("NormalizedAliases", [])]
        has_document = False
        for key, folder in SOURCES.items():
            documents: Any = question.get(key, [])
            for name in dict.fromkeys(document["Filename"] for document in documents if document.get("Filename")):
                text = read_document(evidence, folder, name)
                counts["documents"] += 1
                counts["missing"] += text is None
                context = first_words(text or "", max_words)
                answers = find_answers(context, aliases)
                if answers:
                    has_document = True
                    row = {
                        "id": f"{question['QuestionId']}--{name}",
                        "question": question["Question"],
                        "answers": [
                            {"text": occurrence.text, "answer_start": occurrence.start} for occurrence in answers
                        ],
                    }
                    yield {"title": name, "paragraphs": [{"context": context, "qas": [row]}]}
        counts["questions"] += has_document


def read_document(evidence: Path, folder: str, name: str) -> str | None:
    """Return the text of a document; None if there is no such file, or it is not UTF-8."""
    try:
        return (evidence / folder / name).read_text(encoding="utf-8-sig")
    except (OSError, ValueError):
        return None


def main(argv: list[str] | None = None) -> None:
    """Convert a file of TriviaQA; the output appears when it is complete."""
    parser = Parser(prog="python examples/trivia_qa.py", description="Convert TriviaQA's questions to SQuAD's format.")
    parser.add_argument("--qa_file", required=True, help="file of TriviaQA's folder qa, such as wikipedia-train.json")
    parser.add_argument("--evidence_dir", required=True, help="TriviaQA's folder evidence, with wikipedia/ and web/")
    parser.add_argument("--output_file", required=True, help="for --train_file of `electra squad`")
    parser.add_argument("--max_words", type=int, default=400, help="words of a document that are its paragraph")
    arguments = parser.parse_args(argv)
    setup_logging()
    check(arguments.max_words > 0, "max_words", arguments.max_words, "at least 1")
    evidence = expand(arguments.evidence_dir)
    check(evidence.is_dir(), "evidence_dir", evidence, "a folder with the documents")
    questions = read_json(expand(arguments.qa_file), TriviaFile)["Data"]
    counts: Counter[str] = Counter()
    articles = list(convert_trivia_qa(questions, evidence, arguments.max_words, counts))
    if counts["missing"] == counts["documents"]:
        raise UserError(f"none of {counts['documents']} documents is in {evidence}; name TriviaQA's folder evidence")
    if counts["missing"]:
        logger.warning("%d of %d documents cannot be read", counts["missing"], counts["documents"])
    if not articles:
        raise UserError(
            f"no document of {arguments.qa_file} names the answer; name another file, test sets have no answers"
        )
    write_json({"version": "1.1", "data": articles}, expand(arguments.output_file))
    logger.info(
        "%d of %d questions, %d paragraphs in %s",
        counts["questions"],
        len(questions),
        len(articles),
        arguments.output_file,
    )


if __name__ == "__main__":
    run_script(main)
