"""Rows and files of both forms as questions: exact texts and answers, and what is refused."""

import csv
import json
import math

import datasets

from electra.tasks.multiple_choice.data import MultipleChoiceArguments, load_choice_splits, parse_question
from tests.conftest import refused
from tests.helpers import parametrize

SWAG = {"sent1": "Ann sings.", "sent2": "She", "ending0": "stops.", "ending1": "eats.", "label": 1, "video-id": "7"}
GENERAL = {"question": "Q?", "choices": ["a", "b", "c"], "label": 2}


@parametrize(
    ("row", "expected"),
    [
        (SWAG, ("Ann sings.", ["She stops.", "She eats."], ["stops.", "eats."], 1)),
        ({**SWAG, "sent2": "", "label": ""}, ("Ann sings.", ["stops.", "eats."], ["stops.", "eats."], None)),
        ({**SWAG, "ending2": ""}, ("Ann sings.", ["She stops.", "She eats."], ["stops.", "eats."], 1)),
        (GENERAL, ("Q?", *[["a", "b", "c"]] * 2, 2)),
        ({**GENERAL, "context": "C"}, ("C", ["Q? a", "Q? b", "Q? c"], ["a", "b", "c"], 2)),
        ({**GENERAL, "choices": '["a", "b", "c"]', "label": "2"}, ("Q?", *[["a", "b", "c"]] * 2, 2)),
        ({"question": "Q?", "choices": ["a", "b"]}, ("Q?", ["a", "b"], ["a", "b"], None)),
        ({"question": "Q?", "choices": ["a", "b"], "label": 1.0}, ("Q?", ["a", "b"], ["a", "b"], 1)),
        ({"question": "Q?", "choices": ["a", "b"], "label": math.nan}, ("Q?", ["a", "b"], ["a", "b"], None)),
    ],
)
def test_a_row_becomes_a_question(row, expected):
    question = parse_question(row, "f line 1")
    assert (question.first, question.seconds, question.choices, question.answer) == expected


@parametrize(
    ("row", "named"),
    [
        ({"text": "a", "label": 0}, "text, label"),
        ({"question": "Q?", "label": 0}, "its columns are question, label"),
        ({"question": "Q?", "choice0": "a", "choice1": "b", "label": 0}, "choice0, choice1"),
        ({"question": "Q?", "A": "a", "B": "b", "answer": "A"}, "question, A, B, answer"),
        ({"ctx": "C", "endings": ["a", "b"], "label": 0}, "ctx, endings"),
        ({"question": "Q?", "choices": {"text": ["a", "b"], "label": ["A", "B"]}, "answerKey": "B"}, "answerKey"),
        ({**GENERAL, "choices": "a b"}, "choices (a list)"),
        ({**GENERAL, "choices": ["a", "", "c"]}, "not empty"),
        ({**GENERAL, "choices": [{"text": "a"}, {"text": "b"}]}, "'text': 'a'"),
        ({**GENERAL, "choices": [["a"], ["b"]]}, "['a']"),
        ({**GENERAL, "question": ["Q?"]}, "question, choices, label"),
        ({**GENERAL, "label": 3}, "the label 3"),
        ({**GENERAL, "label": "B"}, "'B'"),
        ({**GENERAL, "label": -1}, "--no_label"),
    ],
)
def test_a_row_that_is_no_question_is_refused(row, named):
    message = refused(lambda: parse_question(row, "f line 7"))
    assert "f line 7" in message and named in message


def write(path, rows):
    """Write rows as JSON lines; return the path."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def load(**options):
    """Return the questions by split that a command with these options reads."""
    return load_choice_splits(MultipleChoiceArguments(**options))


def test_other_forms_are_counted_and_refused_with_the_page(tmp_path):
    rows = [GENERAL, {"question": "Q?", "A": "a", "B": "b"}, GENERAL, {"question": "Q?", "options": ["a", "b"]}]
    message = refused(lambda: load(train_file=write(tmp_path / "train.jsonl", rows)))
    assert "train.jsonl:2" in message and "2 of 4 rows" in message and "docs/data.md" in message
    (tmp_path / "empty.csv").write_text("")
    assert "no rows" in refused(lambda: load(train_file=str(tmp_path / "empty.csv")))


def test_questions_without_a_label_are_at_most_predicted(tmp_path, caplog):
    rows = [{**GENERAL, "label": label} for label in (0, -1, 1, "", None, 2)]
    path = write(tmp_path / "a.jsonl", rows)
    splits = load(train_file=path, validation_file=path, test_file=path, no_label=["-1"])
    answers = {split: [question.answer for question in questions] for split, questions in splits.items()}
    assert answers == {"train": [0, 1, 2], "dev": [0, 1, 2], "test": [0, 1, 2], "test_unlabelled": [None] * 3}
    counted = {record.getMessage() for record in caplog.records if "3 of 6 rows" in record.getMessage()}
    assert len(counted) == 3
    assert "2 of 2 rows" in refused(lambda: load(train_file=write(tmp_path / "b.jsonl", rows[3:5])))
    hidden = write(tmp_path / "c.jsonl", rows[3:5])
    splits = load(train_file=path, validation_file=path, test_file=hidden, no_label=["-1"])
    assert [question.answer for question in splits["test"]] == [None] * 2
    message = refused(lambda: load(train_file=path))
    assert "a.jsonl:2" in message and "1 of 6 rows" in message and "--no_label" in message


def test_hidden_labels_of_a_data_set_are_none(tmp_path):
    features = datasets.Features(
        {name: datasets.Value("string") for name in ("sent1", "sent2", "ending0", "ending1")}
        | {"label": datasets.ClassLabel(names=["0", "1"])}
    )
    rows = [{**SWAG, "label": label} for label in (1, 0, -1)]
    columns = {name: [row[name] for row in rows] for name in features}
    table = datasets.Dataset.from_dict(columns, features)
    datasets.DatasetDict(train=table.select([0, 1]), validation=table, test=table.select([2])).save_to_disk(
        tmp_path / "d"
    )
    splits = load(dataset_name=str(tmp_path / "d"))
    assert {split: [question.answer for question in questions] for split, questions in splits.items()} == {
        "train": [1, 0], "dev": [1, 0], "test": [None],
    }  # fmt: skip


def test_labels_that_count_from_one_are_refused(tmp_path, caplog):
    path = tmp_path / "train.csv"

    def read(first):
        with open(path, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["question", "choices", "label"])
            writer.writerows([f"Q{number}?", '["a", "b", "c", "d"]', first + number % 3] for number in range(30))
        return load(train_file=str(path))

    splits = read(0)
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
    assert [len(splits[split]) for split in ("train", "dev")] == [27, 3]  # without a development set
    assert not {question.first for question in splits["dev"]} & {question.first for question in splits["train"]}
    assert "0 to 3" in refused(lambda: read(2))
