"""Rows and files of the three forms as questions: exact texts and answers, and what is refused."""

import math

from electra.tasks.multiple_choice.data import load_splits, parse_question
from electra.tasks.multiple_choice.options import MultipleChoiceArguments
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
        ({"question": "Q?", "label": 0}, "[]"),
        ({**GENERAL, "choices": "a b"}, "list of choices"),
        ({**GENERAL, "choices": ["a", "", "c"]}, "not empty"),
        ({**GENERAL, "label": 3}, "'3'"),
        ({**GENERAL, "label": "B"}, "'B'"),
    ],
)
def test_a_row_that_is_no_question_is_refused(row, named):
    message = refused(lambda: parse_question(row, "f line 7"))
    assert "f line 7" in message and named in message


def read(path, text):
    path.write_text(text, encoding="utf-8")
    return load_splits(MultipleChoiceArguments(validation_file=[str(path)]))["dev"]


@parametrize(
    ("name", "text", "lines"),
    [
        ("a.csv", "question,choice0,choice1,label\n\"Q, then?\",a,b,0\nR?,c,d,1\n", (2, 3)),
        ("a.jsonl", '{"question": "Q, then?", "choices": ["a", "b"], "label": 0}\n\n'
                    '{"question": "R?", "choices": ["c", "d"], "label": 1}\n', (1, 3)),
    ],
)  # fmt: skip
def test_csv_and_jsonl_files_are_read(tmp_path, name, text, lines):
    found = read(tmp_path / name, text)
    assert [(q.first, q.choices, q.answer) for q in found] == [("Q, then?", ["a", "b"], 0), ("R?", ["c", "d"], 1)]
    assert [q.place for q in found] == [f"{tmp_path / name}:{line}" for line in lines]


@parametrize(
    ("name", "text", "place"),
    [
        ("dev.csv", "", "no questions"),
        ("dev.csv", "question,choice0,choice1\nQ?,a,b\n", "dev.csv:2 has no label"),
    ],
)
def test_bad_files_are_refused_with_their_line(tmp_path, name, text, place):
    assert place in refused(lambda: read(tmp_path / name, text))
