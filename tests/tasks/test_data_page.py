"""docs/data.md: every example of a form is read by its task as the page says; the tests of tagging read its own."""

import re
import shlex

import pytest

from electra.finetuning.labelled.metrics import NUMBER, SEVERAL, SINGLE
from electra.tasks.classify.task import parse_classify_arguments, read_labelled
from electra.tasks.minimal_pairs.data import load_pairs
from electra.tasks.multiple_choice.data import MultipleChoiceArguments, load_choice_splits
from electra.tasks.squad.data import SquadArguments, load_questions
from tests.helpers import ROOT, parametrize

PAGE = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")


def examples_of(section):
    """Return, by the name of each file below a heading, the options that its paragraph gives, and the content."""
    part = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    matches = re.findall(r"((?:[^\n]+\n)*[^\n]*)`([\w.]+)`:\n\n```\w+\n(.*?)```", part, re.DOTALL)
    return {
        name: (shlex.split(" ".join(re.findall(r"`(--[^`]+)`", about))), content) for about, name, content in matches
    }


LABELS = examples_of("Labels of texts")
QUESTIONS = examples_of("Questions on a text")
CHOICES = examples_of("Questions with choices")
PAIRS = examples_of("Minimal pairs")


def test_each_section_has_its_examples():
    assert {*LABELS} == {"reviews.csv", "topics.jsonl", "colours.csv", "columns.csv", "marks.tsv", "pairs.csv"}
    assert ({*QUESTIONS}, {*CHOICES}, {*PAIRS}) == (
        {"squad.json", "squad.jsonl"},
        {"quiz.jsonl", "swag.csv"},
        {"grammar.csv"},
    )


@pytest.fixture
def file(tmp_path):
    """`file(name, content)`: the path of a file with this content."""

    def write(name, content):
        (tmp_path / name).write_text(content, encoding="utf-8")
        return str(tmp_path / name)

    return write


COLOURS = [{"red", "blue"}, {"blue"}, {"red"}, set()]


@parametrize(
    ("name", "kind", "expected"),
    [
        ("reviews.csv", SINGLE, [{"good"}, {"bad"}, {"good"}, {"bad"}]),
        ("topics.jsonl", SEVERAL, COLOURS),
        ("colours.csv", SEVERAL, COLOURS),
        ("columns.csv", SEVERAL, COLOURS),
        ("marks.tsv", NUMBER, [4.5, 1, 4, 1.5]),
        ("pairs.csv", SINGLE, [{"entailment"}, {"contradiction"}]),
    ],
)
def test_labels_are_read_as_the_page_says(file, name, kind, expected):
    options, content = LABELS[name]
    path = file(name, content)
    words = ["--pretrain_path=a", "--train_file", path, "--validation_file", path, *options]
    data = read_labelled(parse_classify_arguments(words).options)
    assert data.labels.kind == kind
    for example, label in zip(data.splits["train"], expected, strict=True):
        if kind == NUMBER:
            assert data.labels.low + (data.labels.high - data.labels.low) * example.label == label
        else:
            assert {data.labels.classes[number] for number in example.label} == label
        assert (example.pair is not None) == (name == "pairs.csv")


@parametrize("name", [*QUESTIONS])
def test_questions_are_read_as_the_page_says(file, name):
    path = file(name, QUESTIONS[name][1])
    data = load_questions(SquadArguments(train_file=[path], validation_file=path))["train"]
    assert data.paragraphs == ["Rome lies on the Tiber."]
    assert [question.answers for question in data.questions][:2] == [("on the Tiber",), ("Rome",)]
    assert data.is_version_2 == (name == "squad.jsonl")


@parametrize("name", [*CHOICES])
def test_choices_are_read_as_the_page_says(file, name):
    path = file(name, CHOICES[name][1])
    questions = load_choice_splits(MultipleChoiceArguments(train_file=[path], validation_file=path))["train"]
    answers = [question.choices[question.answer] for question in questions]
    expected = {
        "quiz.jsonl": ["a dog", "a bird", "Ann", "ice"],
        "swag.csv": ["walks in.", "barks.", "open umbrellas."],
    }
    assert answers == expected[name]


def test_pairs_are_read_as_the_page_says(file):
    pairs = load_pairs(file("grammar.csv", PAIRS["grammar.csv"][1]))
    assert [pair.paradigm for pair in pairs] == ["agreement", "agreement", "polarity"]
