"""Rows and files of every kind as questions: exact texts and answers, and what is refused."""

import json
from pathlib import Path

import pytest

from electra.io.errors import UserError
from electra.tasks.multiple_choice.data import InvalidRow, Question, load_splits, parse_question
from tests.conftest import refused

SWAG = {"sent1": "Ann sings.", "sent2": "She", "ending0": "stops.", "ending1": "eats.", "label": 1, "video-id": "7"}
TWO = (["a", "b"], ["a", "b"])
THREE = (["a", "b", "c"], ["a", "b", "c"])


def plain(*cells: str) -> dict:
    """A row of a file without a header."""
    return {"question": cells[0], "choices": list(cells[1:-1]), "answer": cells[-1]}


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (SWAG, ("Ann sings.", ["She stops.", "She eats."], ["stops.", "eats."], 1)),
        ({"context": "Ann sings.", "question": "She", "choices": ["stops.", "eats."], "answer": "B"},
         ("Ann sings.", ["She stops.", "She eats."], ["stops.", "eats."], 1)),
        ({"Question": "Q?", "A": "a", "B": "b", "C": "c", "Answer": "C"}, ("Q?", *THREE, 2)),
        ({"question": "Q?", "choice1": "a", "choice2": "b", "answer": "1"}, ("Q?", *TWO, 0)),
        ({"ctx": "C", "endings": ["a", "b", "c"], "label": "2"}, ("C", *THREE, 2)),
        ({"question": "Q?", "choices": {"text": ["a", "b"], "label": ["1", "2"]}, "answerKey": "2"}, ("Q?", *TWO, 1)),
        ({"question": {"stem": "Q?", "choices": [{"text": "a", "label": "A"}, {"text": "b", "label": "B"}]},
          "answerKey": "B"}, ("Q?", *TWO, 1)),
        ({"question": "What (of it)? (A) a (B) b (C) c", "AnswerKey": "C"}, ("What (of it)?", *THREE, 2)),
        ({"question": "Of (1) and (B)? (A) a (B) b", "answer": "2"}, ("Of (1) and (B)?", *TWO, 1)),
        ({"question": "Q? (1) a (2) b", "answer": "2"}, ("Q?", *TWO, 1)),
        ({"question": "Q?", "A": "a", "B": "b", "D": "c", "answer": "D"}, ("Q?", *THREE, 2)),
        (plain("Q?", "a", "b", "c", "3"), ("Q?", *THREE, 2)),
        (plain("Q?", "a", "", "b", " ", "C"), ("Q?", *TWO, 1)),
        ({"question": "Q?", "ending0": "a", "ending1": None, "ending2": "b", "label": 2}, ("Q?", *TWO, 1)),
        ({"context": None, "question": "Q?", "A": "a", "B": "b", "label": None, "answer": "B"}, ("Q?", *TWO, 1)),
        ({"question": "Q?", "A": "a", "B": "b"}, ("Q?", *TWO, None)),
        ({**SWAG, "sent2": "", "label": -1}, ("Ann sings.", ["stops.", "eats."], ["stops.", "eats."], None)),
    ],
)  # fmt: skip
def test_a_row_becomes_a_question(row: dict, expected: tuple) -> None:
    found = parse_question(row, "f row 1")
    assert (found.first, found.seconds, found.choices, found.answer) == expected


@pytest.mark.parametrize(
    "row",
    [
        plain("Q?", "a", "b", "E"),
        plain("Q?", "a", "b", "", "d", "C"),
        plain("Q?", "a", "b", "3"),
        plain("Q?", "a", "b", "both"),
        plain("Q?", "a", "", "A"),
        plain("", "a", "b", "A"),
        {"question": "Q? without any", "answerKey": "A"},
        {"question": "Q?", "choices": {"label": ["A", "B", "D"], "text": ["a", "b", "d"]}, "answer": "C"},
        {"question": "Q?", "choices": {"label": ["A"], "text": ["a", "b"]}, "answer": "A"},
    ],
)
def test_a_row_that_is_no_question_is_invalid(row: dict) -> None:
    with pytest.raises(InvalidRow):
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
    ("name", "text", "place"),
    [
        ("dev.csv", "", "dev.csv"),
        ("dev.csv", "Q?,a,b,E\nR?,a,b,A\n", "dev.csv row 1"),  # too many of them
        ("dev.csv", "Q?,a,b,A\nR?,a,b,c,A\n", "dev.csv row 2"),
        ("dev.csv", 'Q?,"a,b,A\n', "dev.csv"),
        ("dev.csv", "question,A,B\nQ?,a,b\n", "dev.csv row 1"),  # without an answer
        ("dev.jsonl", '\n{"question": "Q?", "choices": ["a", "b"]}\n{"question"\n', "dev.jsonl after row 1"),
        ("dev.jsonl", "[1]\n", "dev.jsonl"),
    ],
)
def test_bad_files_are_refused_with_their_row(tmp_path: Path, name: str, text: str, place: str) -> None:
    assert place in refused(lambda: read(tmp_path / name, text))


def test_invalid_rows_are_left_out_and_counted_but_never_in_a_test_set(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert len(read(tmp_path / "a.csv", "Q?,a,b,A\n" * 5 + "Which?,a,b,E\n")) == 5
    (record,) = caplog.records
    assert record.args[1:3] == (1, 6)
    with pytest.raises(UserError):
        load_splits({"test": [str(tmp_path / "a.csv")]}, None, None)


def test_numbers_count_alike_in_all_files_and_from_zero_if_one_is_zero(tmp_path: Path) -> None:
    row = {"question": "Q", "A": "a", "B": "b", "C": "c"}
    files: dict[str, list[str]] = {}
    for split, answers in (("train", (0, 1)), ("dev", (1, 1))):
        path = tmp_path / f"{split}.jsonl"
        path.write_text("".join(json.dumps({**row, "answer": a}) + "\n" for a in answers))
        files[split] = [str(path)]
    found = load_splits(files, None, None)
    assert [[q.answer for q in found[split]] for split in files] == [[0, 1], [1, 1]]
    assert [q.answer for q in load_splits({"dev": files["dev"]}, None, None)["dev"]] == [0, 0]
    assert len(load_splits({"dev": [*files["train"], *files["dev"]], "test": []}, None, None)["dev"]) == 4


def test_a_folder_is_read_as_a_data_set(tmp_path: Path) -> None:
    for split in ("train", "validation"):
        (tmp_path / f"{split}.jsonl").write_text(json.dumps(SWAG) + "\n")
    (question,) = load_splits({}, str(tmp_path), None)["dev"]
    assert (question.first, question.answer) == ("Ann sings.", 1)
