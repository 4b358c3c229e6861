"""Rows and files of every kind as questions: exact texts and answers, and what is refused."""

import json
from pathlib import Path

import pytest

from electra.errors import UserError
from electra.tasks.multiple_choice.data import (
    InvalidRow,
    Numbering,
    Question,
    detect_numbering,
    load_splits,
    parse_question,
    without_header,
)

FIRST = ("Ann sings.", ["She stops.", "She eats bread."], ["stops.", "eats bread."], 1)


def texts(row: dict, *numbering: Numbering) -> tuple:
    found = parse_question(row, "f row 1", *numbering)
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
    assert detect_numbering(rows) == Numbering(0, 0) and detect_numbering(rows[:1]) == Numbering(0, 1)
    assert texts(rows[0], Numbering(other=0))[3] == 1 and texts(rows[0])[3] == 0
    assert texts({"question": "Q", "A": "a", "B": "b", "label": "1"})[3] == 1


def test_labels_count_from_one_where_one_is_the_number_of_its_choices_and_none_is_zero() -> None:
    rows = [{"question": "Q", "A": "a", "B": "b", "C": "", "label": value} for value in (1, 2, 0)]
    assert detect_numbering(rows[:2]).label == 1 and texts(rows[1], Numbering(label=1))[3] == 1
    assert detect_numbering(rows).label == 0 and detect_numbering(rows[:1]).label == 0
    named = {"question": "Q", "choices": {"label": ["1", "2"], "text": ["a", "b"]}, "label": "2"}
    assert detect_numbering([named]).label == 0 and texts(named)[3] == 1


def test_places_are_numbers_where_there_are_more_choices_than_letters() -> None:
    row = {"question": "Q?", "choices": [f"c{i}" for i in range(30)], "label": 2}
    assert texts(row)[3] == 2 and texts({**row, "label": 29})[3] == 29
    assert texts({"question": "Q?", "choices": row["choices"], "answer": 2})[3] == 1
    found = parse_question(row, "f row 1")
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
        (without_header(["Q?", "a", "b", "c", "d", "E"]), "'E'.* A B C D"),
        (without_header(["Q?", "a", "b", "", "d", "C"]), "'C'.* A B D"),
        (without_header(["Q?", "a", "b", "c", "d", "5"]), "'5'"),
        (without_header(["Q?", "a", "b", "c", "d", "both"]), "'both'"),
        (without_header(["Q?", "a", "", "A"]), "1 choices"),
        (without_header(["", "a", "b", "A"]), "no question"),
        ({"question": "Q? without any", "answerKey": "A"}, "0 choices"),
        (
            {"question": "Q?", "A": "a", "B": "b", "D": "d", "answer": "C"},
            "'C'.* A B D",
        ),
        (
            {"question": "Q?", "choices": {"label": ["A", "B", "D"], "text": ["a", "b", "d"]}, "answer": "C"},
            "'C'.* A B D",
        ),
        ({"question": "Q? (A) a (B) b (D) d", "answer": "C"}, "A B D.*A B C"),
        ({"question": "Q?", "choices": {"text": ["a", "b"]}, "answer": "A"}, "'label' and 'text'"),
        ({"question": "Q?", "choices": {"label": None, "text": None}, "answer": "A"}, "'label' and 'text'"),
        ({"question": "Q?", "choices": {"label": ["A"], "text": ["a", "b"]}, "answer": "A"}, "1 labels and 2 texts"),
        ({"question": "Q?", "choices": [{"text": "a"}, {"text": "b"}], "answer": "A"}, "0 labels and 2 texts"),
        ({"question": "Q?", "choices": [{"text": "a", "label": "A"}, "b"], "answer": "A"}, "1 labels and 2 texts"),
        (
            {"question": "Q?", "choice1": "a", "choice3": "b", "answer": "3"},
            "choice1 choice3",
        ),
        (without_header(["Q?", "a", "b", "9" * 5000]), "'9{60}'"),
    ],
)
def test_a_row_that_is_no_question_is_said_to_be_none(row: dict, message: str) -> None:
    with pytest.raises(InvalidRow, match=message):
        parse_question(row, "f row 1")


def read(path: Path, text: str) -> list[Question]:
    path.write_text(text, encoding="utf-8")
    return load_splits({"dev": [str(path)]}, None, None)["dev"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "Which question?,a,b,A\nR?,c,d,B\n"),
        ("a.tsv", "Which question?\ta\tb\tA\nR?\tc\td\tB\n"),
        ("a.csv", ",Question,A,B,AnswerKey\nx,Which question?,a,b,A\ny,R?,c,d,B\n"),
        ("a.jsonl", '{"question": "Which question?", "A": "a", "B": "b", "answer": "A"}\n\n'
                    '{"question": "R?", "A": "c", "B": "d", "answer": "B"}\n'),
    ],
)  # fmt: skip
def test_files_with_and_without_a_header_are_read(tmp_path: Path, name: str, text: str) -> None:
    found = read(tmp_path / name, text)
    assert [(q.first, q.choices, q.answer) for q in found] == [
        ("Which question?", ["a", "b"], 0), ("R?", ["c", "d"], 1)
    ]  # fmt: skip
    assert [q.place for q in found] == [f"{tmp_path / name} row {n}" for n in (1, 2)]


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        ("dev.csv", "", r"dev\.csv"),
        ("dev.csv", "Q?,a,b,E\nR?,a,b,A\n", r"dev\.csv row 1.*'E' .*1 of 2 rows"),
        ("dev.csv", "Q?,a,b,A\nR?,a,b,c,A\n", r"dev\.csv row 2 has 5 columns.* 4"),
        ("dev.csv", "Q?,A\n", r"dev\.csv has 2 columns"),
        ("dev.csv", 'Q?,"a,b,A\n', r"dev\.csv"),
        ("dev.csv", "question,A,B,answer\nQ?,a,b\n", r"dev\.csv row 1 has 3 columns.* 4"),
        ("dev.csv", "question,A,B\nQ?,a,b\n", r"dev\.csv row 1.* dev"),
        ("dev.csv", "question,A,a,answer\nQ?,a,b,A\n", r"dev\.csv has two columns a"),
        ("dev.jsonl", '{"question": "Q?"\n', r"dev\.jsonl line 1"),
        ("dev.jsonl", "[1]\n", r"dev\.jsonl line 1.*list"),
        ("dev.jsonl", '{"question": "Q?", "choices": ["a"], "answer": "A"}\n', r"row 1: 1 choices"),
    ],
)
def test_bad_files_are_refused_with_their_row(tmp_path: Path, name: str, text: str, named: str) -> None:
    with pytest.raises(UserError, match=named) as error:
        read(tmp_path / name, text)
    assert "\n" not in str(error.value)


def test_invalid_rows_are_left_out_and_counted_but_never_in_a_test_set(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = "Q?,a,b,A\n" * 5 + "Which?,a,b,E\n"
    assert len(read(tmp_path / "a.csv", text)) == 5
    (record,) = caplog.records
    assert record.args[1:3] == (1, 6)
    with pytest.raises(UserError, match=r"a\.csv row 6.*'E'"):
        load_splits({"test": [str(tmp_path / "a.csv")]}, None, None)


def test_numbers_count_alike_in_all_files(tmp_path: Path) -> None:
    row = {"question": "Q", "A": "a", "B": "b", "C": "c"}
    for split, answers in (("train", (0, 1)), ("dev", (1, 1))):
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps({**row, "answer": a}) + "\n" for a in answers))
    files = {split: [str(tmp_path / f"{split}.jsonl")] for split in ("train", "dev")}
    found = load_splits(files, None, None)
    assert [[q.answer for q in found[split]] for split in files] == [[0, 1], [1, 1]]
    assert len(load_splits({"dev": [*files["train"], *files["dev"]], "test": []}, None, None)["dev"]) == 4


def test_only_line_ends_end_rows(tmp_path: Path) -> None:
    (question,) = read(tmp_path / "odd.csv", 'Q?,a\u2028b,"c\x0bd\ne",A\n')
    assert question.choices == ["a\u2028b", "c\x0bd\ne"]


def test_a_folder_is_read_as_a_data_set(tmp_path: Path) -> None:
    swag = {"sent1": "a", "sent2": "b", "ending0": "c", "ending1": "d", "label": 1}
    for split in ("train", "validation"):
        (tmp_path / f"{split}.jsonl").write_text(json.dumps(swag) + "\n")
    (question,) = load_splits({}, str(tmp_path), None)["dev"]
    assert (question.first, question.seconds, question.answer) == ("a", ["b c", "b d"], 1)
