"""Files of both versions, what is wrong with some, and answers that stand elsewhere than their file says."""

import json
from pathlib import Path
from typing import Any

import datasets
import pytest

from electra.errors import UserError
from electra.squad.data import NEARBY, Questions, load_dataset_questions, read_questions, with_found_answers


def question(name: str, *answers: tuple[str, int], **extra: Any) -> dict[str, Any]:
    return {
        "id": name, "question": f"{name}?", "answers": [{"text": t, "answer_start": s} for t, s in answers], **extra
    }  # fmt: skip


def write(path: Path, *paragraphs: tuple[str, list[dict[str, Any]]]) -> Path:
    content = [{"context": context, "qas": qas} for context, qas in paragraphs]
    data = [{"title": "t", "paragraphs": [paragraph]} for paragraph in content]
    path.write_text(json.dumps({"version": "1.1", "data": data}, ensure_ascii=False), encoding="utf-8")
    return path


def test_questions_keep_their_paragraph_and_all_their_answers(tmp_path: Path) -> None:
    path = write(
        tmp_path / "q.json",
        ("Über Köln.", [question("a", ("Köln", 5), ("Über Köln", 0)), question("b", ("Über", 0))]),
        ("Rome.", [question("c", ("Rome", 0))]),
    )
    data = read_questions(path)
    assert data.paragraphs == ["Über Köln.", "Rome."] and not data.is_version_2
    assert [(q.id, q.text, q.paragraph, q.answers, q.start) for q in data.questions] == [
        ("a", "a?", 0, ("Köln", "Über Köln"), 5), ("b", "b?", 0, ("Über",), 0), ("c", "c?", 1, ("Rome",), 0),
    ]  # fmt: skip
    assert data.references == {"a": ("Köln", "Über Köln"), "b": ("Über",), "c": ("Rome",)}


@pytest.mark.parametrize(
    ("asked", "is_version_2"),
    [
        ([question("a", ("Rome", 0))], False),
        ([question("a", ("Rome", 0), is_impossible=False)], True),
        ([question("a", ("Rome", 0)), question("b")], True),
    ],
)
def test_version_2_is_recognised_by_its_questions(
    tmp_path: Path, asked: list[dict[str, Any]], is_version_2: bool
) -> None:
    assert read_questions(write(tmp_path / "q.json", ("Rome.", asked))).is_version_2 is is_version_2


def test_an_impossible_question_has_no_answers_whatever_stands_there(tmp_path: Path) -> None:
    path = write(tmp_path / "q.json", ("Rome.", [question("a", ("Rome", 0), is_impossible=True)]))
    (found,) = read_questions(path).questions
    assert (found.answers, found.start) == ((), None)


FAR = "x" * (NEARBY + 5)


@pytest.mark.parametrize(
    ("context", "answer", "start", "found"),
    [
        ("In Rome and Rome", "Rome", 12, 12),  # where it says, though it also stands elsewhere
        ("In Rome.", "Rome", 0, 3),
        ("In Rome.", "Rome", 8, 3),
        ("In Rome.", "Rome", -4, 3),
        ("In Rome.", "Rome", 10**6, None),
        ("In Rome, Rome.", "Rome", 0, None),  # twice
        ("In Rome.", "rome", 3, None),
        (f"Rome {FAR} here", "Rome", NEARBY + 1, None),
        (f"Rome {FAR} Rome", "Rome", 2, 0),  # the other one is far away
        ("In Rome.", "", 3, None),
        ("In Rome.", " ", 2, None),
    ],
)
def test_an_answer_is_found_where_it_stands_once_nearby_or_left_out(
    context: str, answer: str, start: int, found: int | None, tmp_path: Path
) -> None:
    path = write(tmp_path / "q.json", (context, [question("a", (answer, start)), question("none")]))
    kept = with_found_answers(read_questions(path))
    assert [(q.id, q.start) for q in kept.questions] == [*([] if found is None else [("a", found)]), ("none", None)]
    if found is not None:
        assert context[found:].startswith(answer)


def test_what_was_moved_and_left_out_is_said_in_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    asked = [question("a", ("Rome", 3)), question("b", ("Rome", 4)), question("c", ("Pisa", 0))]
    with_found_answers(read_questions(write(tmp_path / "q.json", ("In Rome.", asked))))
    (record,) = caplog.records
    assert record.getMessage() == (
        f"{tmp_path / 'q.json'}: 2 answers do not stand where it says: 1 found nearby, 1 questions left out"
    )


def good() -> dict[str, Any]:
    return {"data": [{"paragraphs": [{"context": "Rome.", "qas": [question("a", ("Rome", 0))]}]}]}


def broken(*keys: Any, value: Any = None, without: bool = False) -> str:
    content: Any = good()
    inner = content
    for key in keys[:-1]:
        inner = inner[key]
    if without:
        del inner[keys[-1]]
    else:
        inner[keys[-1]] = value
    return json.dumps(content)


QA = ("data", 0, "paragraphs", 0, "qas", 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"data": [}', r"q.json line 1 column 11 is not json"),
        ("[" * 200000, r"q.json is json that cannot be read: "),
        ("9" * 5000, r"q.json is json that cannot be read: "),
        (broken(*QA, "question", value="\ud800?"), r"qas\[0\]: 'question' has half of a surrogate pair"),
        (broken("data", 0, "paragraphs", 0, "context", value="\udc00"), r"'context' has half of a surrogate pair"),
        ("[]", r"q.json must be an object with a 'data'"),
        ("{}", r"q.json has no 'data'"),
        ('{"data": []}', r"q.json has no questions"),
        (broken("data", value={}), r"q.json: 'data' is \{\}, expected a list"),
        (broken("data", 0, "paragraphs", without=True), r"q.json data\[0\] has no 'paragraphs'"),
        (broken("data", 0, "paragraphs", 0, "context", value=3), r"paragraphs\[0\]: 'context' is 3, expected a text"),
        (broken(*QA, "question", without=True), r"q.json data\[0\] paragraphs\[0\] qas\[0\] has no 'question'"),
        (broken(*QA, "id", value=5), r"qas\[0\]: 'id' is 5, expected a text"),
        (broken(*QA, "answers", without=True), r"qas\[0\] has no 'answers'"),
        (broken(*QA, "answers", 0, "answer_start", value="0"), r"answers\[0\]: 'answer_start' is '0', expected a who"),
        (broken(*QA, "answers", 0, "answer_start", value=True), r"'answer_start' is True"),
        (broken(*QA, "answers", 0, value="Rome"), r"answers\[0\] must be an object with a 'text'"),
        (broken(*QA, "is_impossible", value="no"), r"'is_impossible' is 'no', expected true or false"),
    ],
)
def test_a_broken_file_is_refused_with_its_name_and_the_place(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "q.json").write_text(text)
    with pytest.raises(UserError, match=message) as error:
        read_questions(tmp_path / "q.json")
    assert "\n" not in str(error.value)


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read .*nowhere.json: No such file"):
        read_questions(tmp_path / "nowhere.json")
    (tmp_path / "q.json").write_bytes(b"\xff\xfe{")
    with pytest.raises(UserError, match=r"q\.json is not UTF-8"):
        read_questions(tmp_path / "q.json")
    twice = write(tmp_path / "twice.json", ("Rome.", [question("a", ("Rome", 0))] * 2))
    with pytest.raises(UserError, match="two questions with the id a"):
        read_questions(twice)


def table(*rows: tuple[str, str, list[str]]) -> datasets.Dataset:
    columns: dict[str, list[Any]] = {"id": [], "title": [], "context": [], "question": [], "answers": []}
    for name, context, answers in rows:
        values = (
            name,
            "t",
            context,
            f"{name}?",
            {"text": answers, "answer_start": [context.find(a) for a in answers]},
        )
        for column, value in zip(columns, values, strict=True):
            columns[column].append(value)
    return datasets.Dataset.from_dict(columns)


def test_a_data_set_gives_what_the_file_gives(tmp_path: Path) -> None:
    rows = table(("a", "In Rome.", ["Rome"]), ("b", "Pisa.", []), ("c", "In Rome.", ["In", "In Rome"]))
    datasets.DatasetDict(train=rows, validation=rows.select([0])).save_to_disk(tmp_path / "saved")
    found = load_dataset_questions(str(tmp_path / "saved"))
    asked = [question("a", ("Rome", 3)), question("c", ("In", 0), ("In Rome", 0))]
    path = write(tmp_path / "q.json", ("In Rome.", asked), ("Pisa.", [question("b")]))
    expected = read_questions(path)
    assert found["train"].paragraphs == expected.paragraphs and found["train"].is_version_2
    assert sorted(found["train"].questions, key=lambda q: q.id) == sorted(expected.questions, key=lambda q: q.id)
    assert len(found["validation"]) == 1 and not found["validation"].is_version_2


def test_a_data_set_that_is_not_squad_s_is_refused(tmp_path: Path) -> None:
    rows = table(("a", "In Rome.", ["Rome"]))
    datasets.DatasetDict(train=rows).save_to_disk(tmp_path / "half")
    with pytest.raises(UserError, match="has no split validation; it has train"):
        load_dataset_questions(str(tmp_path / "half"))
    datasets.DatasetDict(train=rows.remove_columns("answers")).save_to_disk(tmp_path / "other")
    with pytest.raises(UserError, match="split train: no column answers"):
        load_dataset_questions(str(tmp_path / "other"))
    uneven = [{"text": ["Rome", "In"], "answer_start": [3]}]
    rows = datasets.Dataset.from_dict({"id": ["a"], "context": ["In Rome."], "question": ["?"], "answers": uneven})
    datasets.DatasetDict(train=rows, validation=rows).save_to_disk(tmp_path / "uneven")
    with pytest.raises(UserError, match=r"\(train\) row 0 has 2 texts of answers and 1 places"):
        load_dataset_questions(str(tmp_path / "uneven"))
    with pytest.raises(UserError, match=r"could not be loaded .*--train_file and --validation_file"):
        load_dataset_questions("nobody/nothing")


def test_a_split_is_its_questions() -> None:
    assert len(Questions(["c"], [], False, "x")) == 0
