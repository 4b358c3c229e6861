"""Column files and tables: exact sentences, bad lines named, predictions in the file's own form."""

import json

import datasets
from pytest import raises

from electra.core.errors import UserError
from electra.finetuning.data import table_rows
from electra.tasks.tagging.columns import as_columns, read_columns
from electra.tasks.tagging.data import TaggingArguments, load_tagging_splits
from electra.tasks.tagging.rows import read_sentences
from tests.tasks.tagging.files import words_and_labels

TEXT = """-DOCSTART- -X- O

EU NNP I-ORG
rejects VBZ O


-DOCSTART- -X- O

Peter NNP I-PER
"""


def write(folder, text):
    """Write a.txt; return its path."""
    (folder / "a.txt").write_text(text, encoding="utf-8")
    return str(folder / "a.txt")


def test_sentences_end_at_blank_lines(tmp_path):
    sentences = read_columns(write(tmp_path, TEXT))
    words, labels = words_and_labels(sentences)
    assert words == [["EU", "rejects"], ["Peter"]] and labels == [["I-ORG", "O"], ["I-PER"]]
    assert sentences[1].place == f"{tmp_path / 'a.txt'} sentence 2"
    for column in (1, -2):
        assert words_and_labels(read_columns(write(tmp_path, TEXT), column))[1] == [["NNP", "VBZ"], ["NNP"]]
    predicted = as_columns(words, labels, [["I-ORG", "I-PER"], ["O"]])
    assert predicted == "EU I-ORG I-ORG\nrejects O I-PER\n\nPeter I-PER O\n\n"


def test_tabs_and_carriage_returns_separate_but_strange_spaces_are_text(tmp_path):
    content = "\ufeffa\u00a0b\tO\r\nc\u2028d\t B-X\r\n\r\ne\tO\r\n\r\n"
    words = [["a\u00a0b", "c\u2028d"], ["e"]]
    assert words_and_labels(read_columns(write(tmp_path, content))) == (words, [["O", "B-X"], ["O"]])


def test_a_test_file_may_have_no_labels(tmp_path):
    path = write(tmp_path, "EU\nrejects\n")
    assert words_and_labels(read_columns(path, 2, needs_labels=False)) == ([["EU", "rejects"]], [None])
    with raises(UserError, match=r"1 columns.*--label_column -1"):
        read_columns(path)
    assert words_and_labels(read_columns(write(tmp_path, "EU X\n"), 2, needs_labels=False))[1] == [None]
    assert as_columns([["New York", " "]], [["B-ORG", "O"]]) == "New_York B-ORG\n_ O\n\n"


def test_a_file_in_another_encoding_is_refused(tmp_path):
    (tmp_path / "a.txt").write_bytes("Zürich B-LOC\n".encode("latin-1"))
    with raises(UserError, match=r"a\.txt:1 is not UTF-8"):
        read_columns(str(tmp_path / "a.txt"))


def test_a_bad_file_is_refused_with_its_line(tmp_path):
    for text, column, message in (
        ("a O\n\nb X O\n", -1, r"a\.txt:3 has 3 columns.* 2"),
        ("-DOCSTART- O\n\n", -1, r"a\.txt has no sentences"),
        ("", -1, r"a\.txt has no sentences"),
        *(("a O\n", column, rf"a\.txt:1 has 2 columns.*--label_column {column}") for column in (2, 0, -2)),
    ):
        with raises(UserError, match=message):
            read_columns(write(tmp_path, text), column)


def read_table(columns, label_column=None, **options):
    """Return the sentences of a data set, whose columns may be a dictionary."""
    table = datasets.Dataset.from_dict(columns) if isinstance(columns, dict) else columns
    return read_sentences(table_rows(table, "d"), label_column, **options)


def test_a_data_set_gives_names_of_classes():
    names = datasets.ClassLabel(names=["O", "B-PER", "I-PER"])
    features = datasets.Features({"tokens": datasets.List(datasets.Value("string")), "ner_tags": datasets.List(names)})
    columns = {"tokens": [["Ann", "Lee"], [], ["-DOCSTART-"], ["x"]], "ner_tags": [[1, 2], [], [0], [0]]}
    first, second = read_table(datasets.Dataset.from_dict(columns, features))
    assert (first.words, first.labels) == (["Ann", "Lee"], ["B-PER", "I-PER"])
    assert (second.words, second.labels) == (["x"], ["O"])


def test_hidden_labels_are_none():
    for hidden, no_label in (
        ([[-1, -1], [-1]], ["-1"]),
        ([["-", "-"], ["-"]], "-"),
        ([[None, None], [None]], []),
        ([None, None], []),
    ):
        sentences = read_table({"tokens": [["a", " "], ["c"]], "tags": hidden}, no_label=no_label)
        assert [(sentence.words, sentence.labels) for sentence in sentences] == [(["a", " "], None), (["c"], None)]
    with raises(UserError, match=r"row 0 .*without a name.*; 1 of 2 rows"):
        read_table({"tokens": [["a", " "], ["c"]], "tags": [["O", None], ["O"]]})


def test_a_data_set_that_does_not_fit_is_refused():
    for columns, column, message in (
        ({"tokens": [["a"]], "tags": [[1]]}, None, "row 0.* without a name"),
        ({"tokens": [["a", "b"], ["a"]], "tags": [["O"], ["O"]]}, None, "row 0 has 2 words and 1 labels.*1 of 2 rows"),
        ({"text": ["a"], "tags": [["O"]]}, None, "no labels.*text, tags"),
        ({"tokens": [["a"]], "pos_tags": [["X"]], "ner_tags": [["O"]]}, None, "pos_tags, ner_tags.*--label_column"),
        ({"tokens": [["a"]], "tags": [["O"]]}, "chunks", "no labels"),
    ):
        with raises(UserError, match=message):
            read_table(columns, column)


def test_sentences_without_labels_are_left_out_or_predicted(tmp_path, caplog):
    files = {}
    for split in ("train", "validation", "test"):
        rows = [
            {"tokens": [f"{split}{number}"], "tags": [["O"], ["B-PER"]][number % 3 - 1] if number % 3 else None}
            for number in range(9)
        ]
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        files[f"{split}_file"] = str(tmp_path / f"{split}.jsonl")
    splits = load_tagging_splits(TaggingArguments(**files))
    assert {split: len(sentences) for split, sentences in splits.items()} == {
        "train": 6, "dev": 6, "test": 6, "test_unlabelled": 3,
    }  # fmt: skip
    assert words_and_labels(splits["test_unlabelled"]) == ([["test0"], ["test3"], ["test6"]], [None] * 3)
    messages = {record.getMessage() for record in caplog.records}
    for split in ("train", "validation", "test"):
        assert any("3 of 9 rows have no label" in line and f"{split}.jsonl:1)" in line for line in messages)
    (tmp_path / "a.txt").write_text("a -\nb -\n\nc O\nd -\n")
    path = str(tmp_path / "a.txt")
    splits = load_tagging_splits(TaggingArguments(train_file=path, validation_file=path, no_label=["-"]))
    assert words_and_labels(splits["train"]) == ([["c", "d"]], [["O", "-"]])


def test_a_folder_is_a_data_set_and_files_need_a_column_number(tmp_path):
    for split, word, tag in (("train", "a", '"X", "Y"'), ("validation", "b", '"X", "X"'), ("test", "c", "null, null")):
        row = f'{{"tokens": ["{word}", "z"], "ner_tags": ["O", "O"], "pos_tags": [{tag}]}}\n'
        (tmp_path / f"{split}.jsonl").write_text(row)
    splits = load_tagging_splits(TaggingArguments(dataset_name=str(tmp_path), label_column="pos_tags"))
    assert {split: words_and_labels(sentences) for split, sentences in splits.items()} == {
        "train": ([["a", "z"]], [["X", "Y"]]), "dev": ([["b", "z"]], [["X", "X"]]), "test": ([["c", "z"]], [None]),
    }  # fmt: skip
    splits = load_tagging_splits(TaggingArguments(test_file=write(tmp_path, TEXT), label_column="1"))
    assert [sentence.labels for sentence in splits["test"]] == [["NNP", "VBZ"], ["NNP"]]
    with raises(UserError, match="--label_column tags"):
        load_tagging_splits(TaggingArguments(train_file=write(tmp_path, TEXT), label_column="tags"))
