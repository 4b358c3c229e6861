"""Rows and files of the three forms as questions: exact texts and answers, and what is refused."""

import logging
import math

from electra.tasks.multiple_choice.data import MultipleChoiceArguments, load_choice_splits, parse_question
from tests.conftest import refused
from tests.helpers import parametrize

SWAG = {"sent1": "Ann sings.", "sent2": "She", "ending0": "stops.", "ending1": "eats.", "label": 1, "video-id": "7"}
GENERAL = {"question": "Q?", "choices": ["a", "b", "c"], "label": 2}


@parametrize(
    ("row", "expected"),
    [
        (SWAG, ("Ann sings.", ["She stops.", "She eats."], ["stops.", "eats."], 1)),
        ({**SWAG, "sent2": "", "label": -1}, ("Ann sings.", ["stops.", "eats."], ["stops.", "eats."], None)),
        ({"ctx": "C", "endings": ["a", "b", "c"], "label": "2"}, ("C", ["a", "b", "c"], ["a", "b", "c"], 2)),
        ({**GENERAL, "context": "C"}, ("C", ["Q? a", "Q? b", "Q? c"], ["a", "b", "c"], 2)),
        (
            {"question": "Q?", "choice0": "a", "choice1": "b", "choice2": "", "label": 0},
            ("Q?", *[["a", "b"]] * 2, 0),
        ),
        ({"question": "Q?", "choices": ["a", "b"]}, ("Q?", ["a", "b"], ["a", "b"], None)),
        ({"question": "Q?", "choices": ["a", "b"], "label": 1.0}, ("Q?", ["a", "b"], ["a", "b"], 1)),
        (
            {"article": "C", "question": "Q?", "options": ["a", "b"], "answer": "B"},  # RACE
            ("C", ["Q? a", "Q? b"], ["a", "b"], 1),
        ),
        ({"question": "Q?", "A": "a", "B": "b", "answer": "A"}, ("Q?", *[["a", "b"]] * 2, 0)),  # MMLU
        ({"question": "Q?", "choices": ["up", "down"], "answer": "down"}, ("Q?", *[["up", "down"]] * 2, 1)),
        ({"question": "Q?", "choices": ["B", "A"], "answer": "A"}, ("Q?", *[["B", "A"]] * 2, 1)),
        ({"question": "Q?", "choices": ["3", "1"], "answer": "1"}, ("Q?", *[["3", "1"]] * 2, 1)),
        (
            {"question_stem": "Q?", "choices": {"text": ["a", "b"], "label": ["A", "B"]}, "answerKey": "B"},
            ("Q?", *[["a", "b"]] * 2, 1),
        ),
        (
            {"question": "Q?", "choices": {"text": ["a", "b"], "label": ["1", "2"]}, "answerKey": "1"},
            ("Q?", *[["a", "b"]] * 2, 0),
        ),
        (
            {"question": "Q?", "choices": {"text": ["a", "b"], "label": ["A", "B"]}, "answerKey": ""},
            ("Q?", *[["a", "b"]] * 2, None),
        ),
        ({"question": "Q?", "choices": ["a", "b"], "label": math.nan}, ("Q?", ["a", "b"], ["a", "b"], None)),
    ],
)
def test_a_row_becomes_a_question(row, expected):
    found = parse_question(row, "f line 1")
    assert (found.first, found.seconds, found.choices, found.answer) == expected


@parametrize(
    ("row", "named"),
    [
        ({"text": "a", "label": 0}, "text label"),
        ({"question": "Q?", "label": 0}, "no list of choices in its columns question, label"),
        ({"question": "Q?", "choice1": "a", "choice2": "b", "label": 0}, "choice0, choice1"),
        ({**GENERAL, "choices": "a b"}, "list of choices"),
        ({**GENERAL, "choices": ["a", "", "c"]}, "not empty"),
        ({**GENERAL, "label": 3}, "'3'"),
        ({**GENERAL, "label": "B"}, "'B'"),
        (
            {"question": "Q?", "choices": {"text": ["a", "b"], "label": ["A", "B"]}, "answerKey": "1"},
            "expected one of A, B",
        ),
        ({"question": "Q?", "choices": ["4", "2", "1"], "answer": "1"}, "the text of choice 2"),
        ({"question": "Q?", "choices": ["a", "b"], "answer": "C"}, "'C'"),
    ],
)
def test_a_row_that_is_no_question_is_refused(row, named):
    message = refused(lambda: parse_question(row, "f line 7"))
    assert "f line 7" in message and named in message


@parametrize(
    ("text", "place"),
    [("", "no questions"), ("question,choice0,choice1\nQ?,a,b\n", "dev.csv:2 has no label")],
)
def test_bad_files_are_refused_with_their_line(tmp_path, text, place):
    path = tmp_path / "dev.csv"
    path.write_text(text)
    assert place in refused(lambda: load_choice_splits(MultipleChoiceArguments(validation_file=[str(path)])))


def test_labels_that_count_from_one_are_noticed(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("electra"), "propagate", True)
    path = tmp_path / "train.csv"

    def read(first):
        rows = "".join(f"Q{number}?,a,b,c,d,{first + number % 3}\n" for number in range(30))
        path.write_text(f"question,choice0,choice1,choice2,choice3,label\n{rows}")
        load_choice_splits(MultipleChoiceArguments(train_file=[str(path)]))

    read(0)
    assert not caplog.text
    read(1)
    assert "labels count from 0" in caplog.text
