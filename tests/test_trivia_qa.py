"""TriviaQA's files -> SQuAD's format: which documents, which answers, what cannot be read."""

import json

import pytest

from electra.tasks.squad.questions import check_answers
from examples.trivia_qa import find_answers, first_words, main
from tests.conftest import refused, refused_command
from tests.helpers import parametrize
from tests.tasks.squad.files import read_questions


def ask(name, aliases, pages=(), results=()):
    """A question of TriviaQA with its answers, and the names of its documents of both sources."""
    return {
        "Question": f"Who is {name}?",
        "QuestionId": name,
        "QuestionSource": "http://example.org/",
        "Answer": {"Aliases": aliases, "NormalizedAliases": [*map(str.lower, aliases)], "Value": aliases[0]},
        "EntityPages": [{"DocSource": "TagMe", "Filename": page, "Title": "t"} for page in pages],
        "SearchResults": [{"Filename": result, "Rank": 0, "Title": "t", "Url": "u"} for result in results],
    }


@pytest.fixture
def folder(tmp_path):
    """qa.json, and evidence/ with documents of both sources."""
    for name, text in {
        "wikipedia/Tolkien.txt": "The writer\n\nJ.R.R.  Tolkien, an English author, wrote it. Tolkien died in 1973.",
        "wikipedia/Other.txt": "Nobody is named here.",
        "web/35/35_9.txt": "A page about JOHN TOLKIEN and others.",
        "wikipedia/Late.txt": "word " * 400 + "Tolkien",
    }.items():
        path = tmp_path / "evidence" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (tmp_path / "evidence" / "web" / "latin.txt").write_bytes(b"Tolki\xe9n Tolkien")
    aliases = ["J. R. R. Tolkien", "Tolkien", "John Tolkien"]
    data = [
        ask("tc_1", aliases, ["Tolkien.txt", "Other.txt", "Late.txt", "Tolkien.txt"], ["35/35_9.txt", "latin.txt"]),
        ask("tc_2", ["Nobody"], ["missing.txt"]),
        {**ask("tc_3", ["Köln"], ["Tolkien.txt"]), "Answer": None},  # as in test sets
    ]
    (tmp_path / "qa.json").write_text(json.dumps({"Data": data, "Domain": "Web", "Version": 1.0}))
    return tmp_path


def convert(folder, *more):
    """The questions of `folder`, converted and read."""
    main([
        f"--qa_file={folder / 'qa.json'}", f"--evidence_dir={folder / 'evidence'}",
        f"--output_file={folder / 'out.json'}", *more,
    ])  # fmt: skip
    return read_questions(folder / "out.json")


def test_documents_that_name_the_answer_become_questions(folder, capsys):
    converted = convert(folder)
    check_answers(converted)
    first, second = converted.questions
    assert (first.id, first.text) == ("tc_1--Tolkien.txt", "Who is tc_1?")
    assert (second.id, second.text) == ("tc_1--35/35_9.txt", "Who is tc_1?")
    assert first.answers == ("J.R.R.  Tolkien", "Tolkien") and second.answers == ("JOHN TOLKIEN", "TOLKIEN")
    printed = capsys.readouterr().out
    assert "2 of 7 documents" in printed and "1 of 3 questions, 2 paragraphs" in printed
    assert not converted.is_version_2


def test_a_paragraph_is_the_beginning_of_a_document(folder):
    assert len(convert(folder, "--max_words=401")) == 3
    short = convert(folder, "--max_words=4")
    assert short.paragraphs == ["The writer\n\nJ.R.R.  Tolkien,"]
    assert first_words(" a  b c ", 2) == " a  b" and first_words("a b", 5) == "a b"


@parametrize(
    ("text", "aliases", "expected"),
    [
        ("In the JRRT club", ["JRR"], []),
        ("don't and Don't", ["Don T"], [(0, "don't")]),
        ("a New York b New Yorker, York", ["York", "New York"], [(2, "New York"), (6, "York")]),
        ("Straße in KÖLN", ["Köln", "strasse"], [(0, "Straße"), (10, "KÖLN")]),
        ("nothing", ["", "!"], []),
    ],
)
def test_an_answer_is_whole_words_in_any_case(text, aliases, expected):
    assert find_answers(text, aliases) == expected


def test_files_that_cannot_be_converted_are_refused(folder, capsys):
    files = [f"--qa_file={folder / 'qa.json'}", f"--output_file={folder / 'out.json'}"]
    assert "--evidence_dir" in refused_command(main, files, capsys)
    assert "evidence" in refused_command(main, [*files, f"--evidence_dir={folder / 'evidence' / 'web'}"], capsys)
    assert "--max_words 0" in refused(lambda: convert(folder, "--max_words=0"))
    (folder / "qa.json").write_text(json.dumps({"Data": [ask("tc_3", ["Köln"], ["Tolkien.txt"])]}))
    assert "names the answer" in refused(lambda: convert(folder))
    (folder / "qa.json").write_text(json.dumps({"Data": [{"Question": "x"}]}))
    assert "QuestionId" in refused(lambda: convert(folder))
    assert not (folder / "out.json").exists()
    assert "docs/data.md" in refused(lambda: read_questions(folder / "qa.json"))
