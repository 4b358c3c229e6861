"""Rows of every kind of data set as questions; exact texts, exact answers."""

import pytest

from electra.multiple_choice.questions import BadRow, as_question, counts_from_zero, is_header, without_header

FIRST = ("Ann sings.", ["She stops.", "She eats bread."], ["stops.", "eats bread."], 1)


def texts(row: dict, **options: int) -> tuple:
    found = as_question(row, "f row 1", **options)
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
    assert counts_from_zero(rows) and not counts_from_zero(rows[:1])
    assert texts(rows[0], counts_from=0)[3] == 1 and texts(rows[0], counts_from=1)[3] == 0
    assert texts({"question": "Q", "A": "a", "B": "b", "label": "1"}, counts_from=1)[3] == 1


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
    ],
)
def test_a_row_that_is_no_question_is_said_to_be_none(row: dict, message: str) -> None:
    with pytest.raises(BadRow, match=message):
        as_question(row, "f row 1")


def test_a_header_names_columns() -> None:
    assert is_header(["", "video-id", "sent1", "ending0"]) and is_header(["questionID", "Question", "AnswerKey"])
    assert not is_header(["Which question is right?", "a", "b", "A"])
