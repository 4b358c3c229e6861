"""Files of both versions, broken files, and answers that are not at their given position."""

import json
from pathlib import Path
from typing import Any

import datasets
import pytest

from electra.errors import UserError
from electra.tasks.squad.data import NEARBY, align_answers, load_dataset_questions, read_questions


def question(name: str, *answers: tuple[str, int], **extra: Any) -> dict[str, Any]:
    listed = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": name, "question": f"{name}?", "answers": listed, **extra}


def write(path: Path, *paragraphs: tuple[str, list[dict[str, Any]]]) -> Path:
    data = [{"title": "t", "paragraphs": [{"context": context, "qas": qas}]} for context, qas in paragraphs]
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
    ("asked", "is_version_2", "answers"),
    [
        ([question("a", ("Rome", 0))], False, ("Rome",)),
        ([question("a", ("Rome", 0), is_impossible=False)], True, ("Rome",)),
        ([question("a", ("Rome", 0)), question("b")], True, ("Rome",)),
        ([question("a", ("Rome", 0), is_impossible=True)], True, ()),
    ],
)
def test_version_2_has_questions_without_an_answer(
    tmp_path: Path, asked: list[dict[str, Any]], is_version_2: bool, answers: tuple[str, ...]
) -> None:
    data = read_questions(write(tmp_path / "q.json", ("Rome.", asked)))
    assert data.is_version_2 is is_version_2
    assert (data.questions[0].answers, data.questions[0].start) == (answers, 0 if answers else None)


FAR = "x" * (NEARBY + 5)


@pytest.mark.parametrize(
    ("context", "answer", "start", "found"),
    [
        ("In Rome and Rome", "Rome", 12, 12),
        ("In Rome.", "Rome", 0, 3),
        ("In Rome.", "Rome", 8, 3),
        ("In Rome.", "Rome", -4, 3),
        ("In Rome.", "Rome", 10**6, None),
        ("In Rome, Rome.", "Rome", 0, None),  # ambiguous
        ("In Rome.", "rome", 3, None),
        (f"Rome {FAR} here", "Rome", NEARBY + 1, None),
        (f"Rome {FAR} Rome", "Rome", 2, 0),
        ("In Rome.", "", 3, None),
        ("In Rome.", " ", 2, None),
    ],
)
def test_an_answer_is_aligned_if_it_occurs_once_nearby(
    context: str, answer: str, start: int, found: int | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked = [question("a", (answer, start)), question("none"), question("b", (context[:1], 0))]
    kept = align_answers(read_questions(write(tmp_path / "q.json", (context, asked))))
    assert [(q.id, q.start) for q in kept.questions] == [*([("a", found)] if found is not None else []),
                                                          ("none", None), ("b", 0)]  # fmt: skip
    assert len(caplog.records) == (found != start)
    if found != start:
        assert caplog.records[0].args[1:] == (1, found is not None, found is None)  # wrong, found nearby, left out


def test_data_without_any_aligned_answer_is_refused(tmp_path: Path) -> None:
    data = read_questions(write(tmp_path / "q.json", ("Rome.", [question("a", ("Pisa", 0)), question("b")])))
    with pytest.raises(UserError, match=r"q\.json"):
        align_answers(data)


def broken(*keys: Any, value: Any = None, without: bool = False) -> str:
    content: Any = {"data": [{"paragraphs": [{"context": "Rome.", "qas": [question("a", ("Rome", 0))]}]}]}
    inner = content
    for key in keys[:-1]:
        inner = inner[key]
    if without:
        del inner[keys[-1]]
    else:
        inner[keys[-1]] = value
    return json.dumps(content)


QA = ("data", 0, "paragraphs", 0, "qas", 0)
TWICE = [question("a", ("Rome", 0))] * 2


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('{"data": [}', r"q\.json.* line 1 column 11"),
        ("\xff", r"q\.json.*utf-8"),
        ("[]", r"q\.json.*'data'"),
        ("{}", r"q\.json.*'data'"),
        ('{"data": []}', r"q\.json"),
        (broken("data", value={}), r"q\.json: 'data'.* \{\}"),
        (broken("data", 0, "paragraphs", without=True), r"q\.json data\[0\].*'paragraphs'"),
        (broken("data", 0, "paragraphs", 0, "context", value=3), r"paragraphs\[0\].*'context' is 3"),
        (broken(*QA, "question", without=True), r"q\.json data\[0\] paragraphs\[0\] qas\[0\].*'question'"),
        (broken(*QA, "id", value=5), r"qas\[0\].*'id' is 5"),
        (broken(*QA, "answers", without=True), r"qas\[0\].*'answers'"),
        (broken(*QA, "answers", 0, "answer_start", value="0"), r"answers\[0\].*'answer_start' is '0'"),
        (broken(*QA, "answers", 0, "answer_start", value=True), r"'answer_start' is True"),
        (broken(*QA, "answers", 0, value="Rome"), r"answers\[0\].*'text'"),
        (broken(*QA, "is_impossible", value="no"), r"'is_impossible' is 'no'"),
        (broken(*QA[:-1], value=TWICE), r"q\.json.* a$"),
        (None, r"nowhere\.json"),
    ],
)
def test_a_broken_file_is_refused_with_its_name_and_the_place(tmp_path: Path, text: str | None, named: str) -> None:
    path = tmp_path / ("nowhere.json" if text is None else "q.json")
    if text is not None:
        path.write_text(text, encoding="latin-1")
    with pytest.raises(UserError, match=named) as error:
        read_questions(path)
    assert "\n" not in str(error.value)


def table(*rows: tuple[str, str, list[str]]) -> datasets.Dataset:
    answers = [{"text": texts, "answer_start": [context.find(a) for a in texts]} for _, context, texts in rows]
    names, contexts, _ = map(list, zip(*rows, strict=True))
    asked = [f"{name}?" for name in names]
    return datasets.Dataset.from_dict({"id": names, "context": contexts, "question": asked, "answers": answers})


def test_a_data_set_gives_what_the_file_gives(tmp_path: Path) -> None:
    rows = table(("a", "In Rome.", ["Rome"]), ("b", "Pisa.", []), ("c", "In Rome.", ["In", "In Rome"]))
    datasets.DatasetDict(train=rows, validation=rows.select([0])).save_to_disk(tmp_path / "saved")
    found = load_dataset_questions(str(tmp_path / "saved"))
    asked = [question("a", ("Rome", 3)), question("c", ("In", 0), ("In Rome", 0))]
    expected = read_questions(write(tmp_path / "q.json", ("In Rome.", asked), ("Pisa.", [question("b")])))
    assert found["train"].paragraphs == expected.paragraphs and found["train"].is_version_2
    assert sorted(found["train"].questions, key=lambda q: q.id) == sorted(expected.questions, key=lambda q: q.id)
    assert len(found["dev"]) == 1 and not found["dev"].is_version_2


@pytest.mark.parametrize(
    ("train", "has_validation", "named"),
    [
        (table(("a", "In Rome.", ["Rome"])), False, "validation"),
        (table(("a", "In Rome.", ["Rome"])).remove_columns("answers"), True, r"\(train\).* answers"),
        (
            datasets.Dataset.from_dict({"id": ["a"], "context": ["In Rome."], "question": ["?"],
                                        "answers": [{"text": ["Rome", "In"], "answer_start": [3]}]}),
            True, r"\(train\) row 0",
        ),
    ],
)  # fmt: skip
def test_a_data_set_that_is_not_squad_s_is_refused(
    tmp_path: Path, train: datasets.Dataset, has_validation: bool, named: str
) -> None:
    datasets.DatasetDict({"train": train, **({"validation": train} if has_validation else {})}).save_to_disk(tmp_path)
    with pytest.raises(UserError, match=named):
        load_dataset_questions(str(tmp_path))


def test_a_data_set_that_cannot_be_loaded_is_refused() -> None:
    with pytest.raises(UserError, match="nobody/nothing"):
        load_dataset_questions("nobody/nothing")
