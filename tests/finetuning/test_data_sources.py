"""What says which data a result is of."""

import os
from pathlib import Path
from types import SimpleNamespace

import datasets
import numpy as np
import torch

from electra.finetuning.data import (
    NamedRows,
    dataset_settings,
    file_settings,
    fingerprint,
    placed_rows,
    rows_by_split,
    table_rows,
)
from electra.tasks.classify.task import open_classification, parse_classify_arguments
from tests.conftest import refused
from tests.helpers import parametrize


def write(path, text):
    """Write a file, in a folder that may not exist; return its path."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_a_fingerprint_is_of_bytes_and_not_of_names(tmp_path):
    file = write(tmp_path / "a", "one")
    other_file = write(tmp_path / "b", "two")
    equal_file = write(tmp_path / "c", "one")
    assert fingerprint([file]) == fingerprint([equal_file]) != fingerprint([other_file])
    lists_of_files = [file, other_file], [other_file, file], [file], [file, equal_file]
    assert len({fingerprint(paths) for paths in lists_of_files}) == len(lists_of_files)
    assert file_settings({"train": [file], "dev": [other_file]}) == {
        "train_data": fingerprint([file]),
        "validation_data": fingerprint([other_file]),
    }


def test_labels_in_a_folder_that_look_like_missing_values_are_names(tmp_path):
    content = "text,label\nmin nan,nan\nnot available,NA\nnothing,None\nempty,\n"
    expected = ["nan", "NA", "None", ""]
    for split in ("train", "validation"):
        write(tmp_path / f"{split}.csv", content)
    options = SimpleNamespace(dataset_name=str(tmp_path))
    rows = rows_by_split(options)["train"]
    assert [row["label"] for _, row in rows] == expected


def test_a_data_set_is_its_name_or_its_files(tmp_path):
    assert dataset_settings("squad") == {"train_data": "squad train", "validation_data": "squad validation"}
    assert dataset_settings("arc", "easy")["train_data"] == "arc easy train"
    write(tmp_path / "set" / "train.jsonl", "one")
    before = dataset_settings(str(tmp_path / "set"))
    assert dataset_settings(str(tmp_path / "set")) == before
    write(tmp_path / "set" / "train.jsonl", "three")
    assert dataset_settings(str(tmp_path / "set")) != before


def open_with(rows, **values):
    """The task of the rows of a program, all of which are development data, too, and the settings of its results."""
    named_rows = {split: NamedRows(f"{split} argument", rows) for split in ("train", "dev")}
    args = parse_classify_arguments({"pretrain_path": "a", **values}, named_rows)
    return open_classification(args), args.settings()


def test_rows_of_a_program_are_named_and_known_again():
    rows = [{"text": word, "label": number % 2} for number, word in enumerate("abcd")]
    task, settings = open_with(rows, task_name="mine")
    assert task.name == "mine"
    assert open_with(rows)[1] == settings
    assert settings["train_data"] == settings["validation_data"] != open_with(rows[:3])[1]["train_data"]
    assert "train argument row 1" in refused(lambda: open_with([*rows[:1], {"text": ""}]))


def test_a_string_is_a_path_and_in_a_list_a_text(tmp_path):
    def texts_of(rows):
        return [row["text"] for _, row in placed_rows(rows, "rows", "text")]

    for name in ("new.cvs", "folder/new.csv", "What a film!", Path("new"), "long " * 1000):
        assert "there is no file" in refused(lambda: texts_of(name))  # noqa: B023
    assert "list of texts" in refused(lambda: texts_of("What a film!"))
    texts = ["new.cvs", "See new.cvs", "Good.", "3.50"]
    assert texts_of(texts) == texts
    path = write(tmp_path / "a" / "new.txt", "one\ntwo\n")
    assert texts_of(str(path)) == texts_of(path) == ["one", "two"]


def test_rows_of_a_program_beside_a_file_or_a_data_set_are_refused():
    assert "train_file" in refused(lambda: open_with([], train_file="a.csv"))
    assert "dataset_name" in refused(lambda: open_with([], dataset_name="imdb"))


def test_a_pipe_has_no_fingerprint(tmp_path):
    os.mkfifo(tmp_path / "a.csv")
    assert "a.csv is a pipe" in refused(lambda: fingerprint([tmp_path / "a.csv"]))


COLUMNS = {"text": ["a", "b"], "label": [1, 0], "mark": [0.5, 1.0], "classes": [[0, 1], [1, 1]]}
"""Two rows with a text, numbers and a list."""


@parametrize("library", [None, "numpy", "torch", "pandas"])
def test_a_table_has_plain_values_in_any_format(library):
    table = datasets.Dataset.from_dict(COLUMNS).with_format(library)
    rows = [row for _, row in table_rows(table, "a")]
    assert rows == datasets.Dataset.from_dict(COLUMNS).to_list()
    assert [type(value) for value in rows[0].values()] == [str, int, float, list]


def test_rows_of_a_program_have_plain_values():
    row = {"label": np.int64(1), "mark": torch.tensor(0.5), "truth": np.bool_(True), "classes": np.array([0, 1])}
    (plain_row,) = [row for _, row in table_rows([{**row, "list": [torch.tensor(1), "x"]}], "a")]
    assert repr(plain_row) == "{'label': 1, 'mark': 0.5, 'truth': True, 'classes': [0, 1], 'list': [1, 'x']}"
