"""Files of both versions and data sets, broken files, misplaced answers."""

import csv
import gzip
import json
import logging
from operator import attrgetter

import datasets
from datasets import ClassLabel
from pytest import raises

from electra.core.errors import UserError
from electra.tasks.squad.data import SquadArguments, load_questions
from electra.tasks.squad.questions import check_answers, check_question_ids
from tests.conftest import refused
from tests.helpers import parametrize
from tests.tasks.squad.files import read_questions


def question(name, *answers, **extra):
    """Return a question of a file with its answers, as pairs of text and start."""
    listed = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": name, "question": f"{name}?", "answers": listed, **extra}


def write(path, *paragraphs):
    """Write a file of SQuAD from pairs of a paragraph and its questions; return the path."""
    data = [{"title": "t", "paragraphs": [{"context": context, "qas": qas}]} for context, qas in paragraphs]
    path.write_text(json.dumps({"version": "1.1", "data": data}, ensure_ascii=False), encoding="utf-8")
    return path


def test_questions_keep_their_paragraph_and_all_their_answers(tmp_path):
    path = write(
        tmp_path / "q.json",
        ("Über Köln.", [question("a", ("Köln", 5), ("Über Köln", 0)), question("b", ("Über", 0))]),
        ("Rome.", [question("c", ("Rome", 0))]),
    )
    data = read_questions(path)
    assert data.paragraphs == ["Über Köln.", "Rome."] and not data.is_version_2 and len(data) == 3
    assert [(asked.id, asked.text, asked.paragraph, asked.answers, asked.start) for asked in data.questions] == [
        ("a", "a?", 0, ("Köln", "Über Köln"), 5), ("b", "b?", 0, ("Über",), 0), ("c", "c?", 1, ("Rome",), 0),
    ]  # fmt: skip
    assert data.references == {"a": ("Köln", "Über Köln"), "b": ("Über",), "c": ("Rome",)}


def test_version_2_has_questions_without_an_answer(tmp_path):
    possible = question("a", ("Rome", 0), is_impossible=False)
    without = question("b")
    for asked in ([possible], [question("c", ("Rome", 0)), without]):
        assert read_questions(write(tmp_path / "q.json", ("Rome.", asked))).is_version_2
    impossible = question("d", ("Rome", 0), is_impossible=True)
    data = read_questions(write(tmp_path / "q.json", ("Rome.", [possible, without, impossible])))
    assert [(entry.answers, entry.start) for entry in data.questions] == [(("Rome",), 0), ((), None), ((), None)]


@parametrize(("answer", "start"), [("Rome", 0), ("Rome", -5), ("Rome", 99), (" ", 2), ("", 0), ("rome", 3)])
def test_misplaced_answers_are_refused_and_counted(answer, start, tmp_path):
    asked = [
        question("a", ("In", 0)),
        question("none"),
        question("b", (answer, start)),
        question("c", (answer, start)),
    ]
    data = read_questions(write(tmp_path / "q.json", ("In Rome.", asked)))
    message = refused(lambda: check_answers(data))
    assert "q.json" in message and "question b" in message and "2 of 4" in message


def test_a_broken_file_is_refused_with_its_name(tmp_path):
    path = tmp_path / "q.json"
    untold = {"data": [{"paragraphs": [{"context": "x", "qas": [question("a", (None, 0))]}]}]}
    for text, named in (
        ('{"data": [}', "line 1 column 11"),
        ('{"data": []}', "no questions"),
        ('{"data": [{"title": "t"}]}', "id: Field required"),
        ('{"data": [{"paragraphs": 3}]}', "'paragraphs' that is no list"),
        (json.dumps(untold), "question a: answers"),
    ):
        path.write_text(text)
        with raises(UserError, match=rf"q\.json.*{named}|{named}.*q\.json"):
            read_questions(path)


ANSWERS = {"text": ["Rome"], "answer_start": [3]}
ROWS = [
    {"id": "a", "title": "t", "context": "In Rome.", "question": "Where?", "answers": ANSWERS},
    {"id": 7, "title": "t", "context": "In Rome.", "question": "When?", "answers": {"text": [], "answer_start": []}},
]


@parametrize("name", ["a.jsonl", "a.json", "a.parquet", "a.csv", "flat.json", "qas.json", "a.jsonl.gz"])
def test_rows_of_a_data_set_are_read_from_files(tmp_path, name):
    path = tmp_path / name
    rows = [{**row, "id": str(row["id"])} for row in ROWS]
    table = datasets.Dataset.from_list(rows)
    if name == "flat.json":
        path.write_text(json.dumps({"version": "v2", "data": rows}, indent=1))
    elif name == "qas.json":
        asked = [{name: row[name] for name in ("id", "question", "answers")} for row in rows]
        path.write_text(json.dumps([{"context": "In Rome.", "qas": asked}]))
    elif name == "a.json":
        path.write_text(json.dumps(rows))
    elif name == "a.parquet":
        table.to_parquet(path)
    elif name == "a.csv":
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, [*rows[0]])
            writer.writeheader()
            writer.writerows({**row, "answers": json.dumps(row["answers"])} for row in rows)
    else:
        content = "".join(json.dumps(row) + "\n" for row in rows).encode()
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    splits = load_questions(SquadArguments(train_file=str(path), validation_file=str(path)))
    for split in ("train", "dev"):
        assert splits[split].is_version_2 and splits[split].paragraphs == ["In Rome."]
        first, second = splits[split].questions
        assert (first.id, first.answers, first.start) == ("a", ("Rome",), 3)
        assert (second.id, second.answers, second.start) == ("7", (), None)


@parametrize(
    ("change", "named"),
    [
        ({"id": None}, "id"),
        ({"id": ["a"]}, "id"),
        ({"question": None}, "question: "),
        ({"context": 3}, "context: "),
        ({"answers": None}, "answers"),
        ({"answers": ["Rome"]}, "answers"),
        ({"answers": {"text": "Rome", "answer_start": 3}}, "answers"),
        ({"answers": {"text": ["Rome"], "answer_start": []}}, "answers: "),
        ({"answers": {"text": ["Rome"], "answer_start": [None]}}, "answers"),
        ({"answers": {"text": ["Rome"], "answer_start": [3.5]}}, "answers"),
        ({"answers": {"text": ["Rome"], "answer_start": [True]}}, "answers"),
        ({"is_impossible": "perhaps"}, "is_impossible: "),
    ],
)
def test_questions_of_another_form_are_refused_and_counted(tmp_path, change, named):
    rows = [ROWS[0], {**ROWS[0], "id": "b", **change}, {**ROWS[0], "id": "c"}, {**ROWS[0], "id": "d", **change}]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    message = refused(lambda: read_questions(path))
    assert "a.jsonl:2, question " in message and f": {named}" in message
    assert "2 of 4 rows" in message and "docs/data.md" in message


@parametrize(
    "row",
    [
        {"id": "a", "question": "Where?", "context": "In Rome.", "answer": "Rome", "answer_start": 3},
        {"question": "Where?", "context": "In Rome.", "answers": {"text": ["Rome"], "answer_start": [3]}},
        {"Data": [], "Domain": "Web"},
        {"text": "a", "label": "b"},
    ],
)
def test_other_rows_are_refused_with_the_form_and_the_page(tmp_path, row):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(row) + "\n" + json.dumps(row) + "\n")
    message = refused(lambda: read_questions(path))
    assert "a.jsonl:1" in message and '"answer_start": [3]' in message and "docs/data.md" in message


def test_truth_is_not_what_is_not_empty(tmp_path):
    path = tmp_path / "a.jsonl"
    rows = [
        {**ROWS[0], "id": str(number), "is_impossible": value}
        for number, value in enumerate(("false", "True", 0, 1, None))
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [len(entry.answers) for entry in read_questions(path).questions] == [1, 0, 1, 0, 1]


def test_a_data_set_gives_what_the_file_gives(tmp_path):
    rows = [("a", "In Rome.", ["Rome"]), ("b", "Pisa.", []), ("c", "In Rome.", ["In", "In Rome"])]
    answers = [
        {"text": texts, "answer_start": [context.find(answer) for answer in texts]} for _, context, texts in rows
    ]
    names, contexts, _ = map(list, zip(*rows, strict=True))
    columns = {"id": names, "context": contexts, "question": [f"{name}?" for name in names], "answers": answers}
    table = datasets.Dataset.from_dict(columns)
    datasets.DatasetDict(train=table, validation=table.select([0])).save_to_disk(tmp_path / "saved")
    splits = load_questions(SquadArguments(dataset_name=str(tmp_path / "saved")))
    asked = [question("a", ("Rome", 3)), question("c", ("In", 0), ("In Rome", 0))]
    expected = read_questions(write(tmp_path / "q.json", ("In Rome.", asked), ("Pisa.", [question("b")])))
    assert splits["train"].paragraphs == expected.paragraphs and splits["train"].is_version_2
    by_id = attrgetter("id")
    assert sorted(splits["train"].questions, key=by_id) == sorted(expected.questions, key=by_id)
    assert len(splits["dev"]) == 1 and not splits["dev"].is_version_2
    classes = ClassLabel(names=["no", "yes"])
    with_classes = table.add_column("is_impossible", [0, 1, 0]).cast_column("is_impossible", classes)
    datasets.DatasetDict(train=with_classes, validation=table).save_to_disk(tmp_path / "classes")
    with_classes = load_questions(SquadArguments(dataset_name=str(tmp_path / "classes")))
    assert with_classes["train"].questions == splits["train"].questions


def load_files(train, dev):
    """Return the questions by split of training files and a development file."""
    return load_questions(SquadArguments(train_file=[*map(str, train)], validation_file=str(dev)))


def test_several_training_files_are_one_split(tmp_path):
    first = write(tmp_path / "a.json", ("In Rome.", [question("a", ("Rome", 3))]), ("Pisa.", [question("b")]))
    other = write(tmp_path / "b.json", ("At Köln.", [question("a", ("Köln", 3)), question("c", ("At", 0))]))
    splits = load_files([first, other], other)
    train = splits["train"]
    assert train.paragraphs == ["In Rome.", "Pisa.", "At Köln."] and train.is_version_2 and len(train) == 4
    assert [(entry.id, entry.paragraph, entry.answers) for entry in train.questions] == [
        ("a", 0, ("Rome",)), ("b", 1, ()), ("a", 2, ("Köln",)), ("c", 2, ("At",)),
    ]  # fmt: skip
    assert len(splits["dev"]) == 2 and not splits["dev"].is_version_2


def test_the_training_file_with_a_misplaced_answer_is_named(tmp_path):
    right = write(tmp_path / "right.json", ("In Rome.", [question("a", ("Rome", 3))]))
    wrong = write(tmp_path / "wrong.json", ("In Rome.", [question("b", ("Rome", 2))]))
    with raises(UserError, match=r"wrong\.json.* b .*answer_start 2"):
        load_files([right, wrong], right)
    assert len(load_files([right], wrong)["dev"]) == 1  # of which the texts alone are compared


# ---- mistakes of real people


def test_ids_that_are_equal_as_text_are_ids_of_two_questions(tmp_path):
    path = write(tmp_path / "q.json", ("x", [question(1, ("x", 0)), question("1", ("x", 0))]))
    assert "2 questions with the id 1" in refused(lambda: check_question_ids(read_questions(path)))
    right = write(tmp_path / "right.json", ("x", [question("a", ("x", 0))]))
    assert "the id 1" in refused(lambda: load_files([right], path))
    assert len(load_files([path], right)["train"]) == 2  # whose ids name no answer


@parametrize(
    ("asked", "named"),
    [
        ([question("a", ("rom", 3)), question("b", ("r\u00f6me", 3))], "1 of 2 questions have no answer in"),
        (
            [question("a", ("", 0)), question("b", ("rome", 3), ("x", 1))],
            "1 of 2 questions have no answer in",
        ),
        ([question("a"), question("b", ("Rome", 3))], None),
        ([question("a", is_impossible=True), question("b", ("Rome", 3), is_impossible=False)], None),
    ],
)
def test_questions_that_look_like_a_mistake_are_counted(tmp_path, caplog, asked, named):
    good = write(tmp_path / "t.json", ("In Rome.", [question("z", ("Rome", 3))]))
    path = write(tmp_path / "q.json", ("In Rome.", asked))
    load_questions(SquadArguments(train_file=[str(good)], validation_file=str(path)))
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert any(named in message for message in warned) if named else warned == []


@parametrize(("articles", "unit"), [(20, "title"), (4, "paragraph")])
def test_held_out_questions_are_of_whole_articles_or_paragraphs(tmp_path, articles, unit):
    data = [
        {
            "title": f"t{article}",
            "paragraphs": [
                {
                    "context": f"Rome {article} {part}.",
                    "qas": [question(f"{article}-{part}-{letter}", ("Rome", 0)) for letter in "ab"],
                }
                for part in range(60 // articles)
            ],
        }
        for article in range(articles)
    ]
    path = tmp_path / "train.json"
    path.write_text(json.dumps({"version": "1.1", "data": data}))
    splits = load_questions(SquadArguments(train_file=[str(path)]))
    assert len(splits["dev"]) == 12 and len(splits["train"]) == 108
    assert not {*splits["dev"].paragraphs} & {*splits["train"].paragraphs}
    shared = {*splits["dev"].articles} & {*splits["train"].articles}
    assert not shared if unit == "title" else shared
    for split in splits.values():
        for asked in split.questions:  # is still about its own paragraph
            article, part, _ = asked.id.split("-")
            assert split.paragraphs[asked.paragraph] == f"Rome {article} {part}."
            assert split.articles[asked.paragraph] == f"t{article}"
    again = load_questions(SquadArguments(train_file=[str(path)], eval_seed=7))
    assert again["dev"].paragraphs != splits["dev"].paragraphs
