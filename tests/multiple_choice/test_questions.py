"""Rows of every kind of data set as questions; exact texts, exact answers."""

import pytest

from electra.multiple_choice.questions import (
    BadRow,
    Counting,
    as_question,
    how_numbers_count,
    is_header,
    without_header,
)

FIRST = ("Ann sings.", ["She stops.", "She eats bread."], ["stops.", "eats bread."], 1)


def texts(row: dict, *counting: Counting) -> tuple:
    found = as_question(row, "f row 1", *counting)
    return found.first, found.seconds, found.choices, found.answer


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"sent1": "Ann sings.", "sent2": "She", "ending0": "stops.", "ending1": "eats bread.", "label": 1,
          "gold-source": "gold", "startphrase": "x", "video-id": "7"}, FIRST),
        ({"sent1": "Ann sings.", "sent2": "She", "ending0": "stops.", "ending1": "eats bread.", "label": "1"}, FIRST),
        ({"context": "Ann sings.", "question": "She", "choices": ["stops.", "eats bread."], "answer": "B"}, FIRST),
        ({"question": "Q?", "A": "a", "B": "b", "C": "c", "answer": "C"}, ("Q?", ["a", "b", "c"], ["a", "b", "c"], 2)),
        ({"question": "Q?", "choice1": "a", "choice2": "b", "answer": "1"}, ("Q?", ["a", "b"], ["a", "b"], 0)),
        ({"ctx": "C", "endings": ["a", "b", "c"], "label": "2"}, ("C", ["a", "b", "c"], ["a", "b", "c"], 2)),
        ({"question": "Q?", "choices": {"text": ["a", "b"], "label": ["1", "2"]}, "answerKey": "2"},
         ("Q?", ["a", "b"], ["a", "b"], 1)),
        ({"question": {"stem": "Q?", "choices": [{"text": "a", "label": "A"}, {"text": "b", "label": "B"}]},
          "answerKey": "B"}, ("Q?", ["a", "b"], ["a", "b"], 1)),
        ({"questionID": "7", "question": "What (of it)? (A) one (B) two (C) 3 (D) four", "AnswerKey": "D"},
         ("What (of it)?", ["one", "two", "3", "four"], ["one", "two", "3", "four"], 3)),
        ({"question": "In Figure (A) what is it? (A) one (B) two", "answer": "B"},
         ("In Figure (A) what is it?", ["one", "two"], ["one", "two"], 1)),
        ({"question": "Of (1) and (B)? (A) one (B) two", "answer": "2"},
         ("Of (1) and (B)?", ["one", "two"], ["one", "two"], 1)),
        ({"question": "Q?", "A": "a", "B": "b", "D": "d", "answer": "D"},
         ("Q?", ["a", "b", "d"], ["a", "b", "d"], 2)),
        ({"premise": "P.", "question": "cause", "choice1": "a", "choice2": "b", "label": 1},
         ("P.", ["cause a", "cause b"], ["a", "b"], 1)),
        ({"question": "Q? (1) one (2) two", "answer": "2"}, ("Q?", ["one", "two"], ["one", "two"], 1)),
        (without_header(["Q?", "a", "b", "c", "d", "4"]), ("Q?", ["a", "b", "c", "d"], ["a", "b", "c", "d"], 3)),
        (without_header(["Q?", "a", "", "c", " ", "C"]), ("Q?", ["a", "c"], ["a", "c"], 1)),
        ({"question": "Q?", "A": "a", "B": "b"}, ("Q?", ["a", "b"], ["a", "b"], None)),
        ({"sent1": "Ann sings.", "sent2": "", "ending0": "a", "ending1": "b", "label": -1},
         ("Ann sings.", ["a", "b"], ["a", "b"], None)),
    ],
)  # fmt: skip
def test_a_row_becomes_a_question(row: dict, expected: tuple) -> None:
    assert texts(row) == expected


def test_numbers_count_from_zero_where_a_zero_is_among_them_and_labels_always() -> None:
    rows = [{"question": "Q", "A": "a", "B": "b", "answer": value} for value in ("1", "0")]
    assert how_numbers_count(rows) == Counting(0, 0) and how_numbers_count(rows[:1]) == Counting(0, 1)
    assert texts(rows[0], Counting(other=0))[3] == 1 and texts(rows[0])[3] == 0
    assert texts({"question": "Q", "A": "a", "B": "b", "label": "1"})[3] == 1


def test_labels_count_from_one_where_one_is_the_number_of_its_choices_and_none_is_zero() -> None:
    rows = [{"question": "Q", "A": "a", "B": "b", "C": "", "label": value} for value in (1, 2, 0)]
    assert how_numbers_count(rows[:2]).label == 1 and texts(rows[1], Counting(label=1))[3] == 1
    assert how_numbers_count(rows).label == 0 and how_numbers_count(rows[:1]).label == 0
    named = {"question": "Q", "choices": {"label": ["1", "2"], "text": ["a", "b"]}, "label": "2"}
    assert how_numbers_count([named]).label == 0 and texts(named)[3] == 1


def test_places_are_numbers_where_there_are_more_choices_than_letters() -> None:
    row = {"question": "Q?", "choices": [f"c{i}" for i in range(30)], "label": 2}
    assert texts(row)[3] == 2 and texts({**row, "label": 29})[3] == 29
    assert texts({"question": "Q?", "choices": row["choices"], "answer": 2})[3] == 1
    found = as_question(row, "f row 1")
    assert found.names[2] == "3"


def test_what_is_null_keeps_its_place() -> None:
    assert texts({"question": "Q?", "A": "a", "B": None, "C": "c", "answer": "C"})[2:] == (["a", "c"], 1)
    assert texts({"question": "Q?", "ending0": "a", "ending1": None, "ending2": "c", "label": 2})[2:] == (
        ["a", "c"],
        1,
    )
    assert texts({"question": "Q?", "choices": ["a", None, "c"], "answer": 3})[2:] == (["a", "c"], 1)
    assert texts({"sent1": "S", "sent2": None, "ending0": "a", "ending1": "b", "label": 1})[:2] == ("S", ["a", "b"])
    assert texts({"context": None, "question": "Q?", "A": "a", "B": "b", "label": None, "answer": "B"})[0] == "Q?"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (without_header(["Q?", "a", "b", "c", "d", "E"]), "the answer 'E' is none of the 4 choices A B C D"),
        (without_header(["Q?", "a", "b", "", "d", "C"]), "the answer 'C' is none of the 3 choices A B D"),
        (without_header(["Q?", "a", "b", "c", "d", "5"]), "the answer '5' is none"),
        (without_header(["Q?", "a", "b", "c", "d", "both"]), "'both' is neither a letter nor a number"),
        (without_header(["Q?", "a", "", "A"]), "1 choices that are not empty"),
        (without_header(["", "a", "b", "A"]), "no text of a question"),
        ({"question": "Q? without any", "answerKey": "A"}, "0 choices"),
        (
            {"question": "Q?", "A": "a", "B": "b", "D": "d", "answer": "C"},
            "the answer 'C' is none of the 3 choices A B D",
        ),
        (
            {"question": "Q?", "choices": {"label": ["A", "B", "D"], "text": ["a", "b", "d"]}, "answer": "C"},
            "the answer 'C' is none",
        ),
        ({"question": "Q? (A) a (B) b (D) d", "answer": "C"}, "its choices are marked A B D, not A B C"),
        ({"question": "Q?", "choices": {"text": ["a", "b"]}, "answer": "A"}, "no lists 'label' and 'text'"),
        ({"question": "Q?", "choices": {"label": None, "text": None}, "answer": "A"}, "no lists 'label' and 'text'"),
        ({"question": "Q?", "choices": {"label": ["A"], "text": ["a", "b"]}, "answer": "A"}, "1 labels and 2 texts"),
        ({"question": "Q?", "choices": [{"text": "a"}, {"text": "b"}], "answer": "A"}, "0 labels and 2 texts"),
        ({"question": "Q?", "choices": [{"text": "a", "label": "A"}, "b"], "answer": "A"}, "1 labels and 2 texts"),
        (
            {"question": "Q?", "choice1": "a", "choice3": "b", "answer": "3"},
            "columns choice1 choice3 do not have each",
        ),
        (without_header(["Q?", "a", "b", "9" * 5000]), "'9{60}' is neither a letter nor a number"),
        ({"question": "Q? \ud800", "A": "a", "B": "b", "answer": "A"}, "half of a surrogate pair"),
        ({"question": "Q?", "A": "a", "B": "\udc00", "answer": "A"}, "half of a surrogate pair"),
    ],
)
def test_a_row_that_is_no_question_is_said_to_be_none(row: dict, message: str) -> None:
    with pytest.raises(BadRow, match=message):
        as_question(row, "f row 1")


def test_a_header_names_columns() -> None:
    assert is_header(["", "video-id", "sent1", "ending0"]) and is_header(["questionID", "Question", "AnswerKey"])
    assert not is_header(["Which question is right?", "a", "b", "A"])
