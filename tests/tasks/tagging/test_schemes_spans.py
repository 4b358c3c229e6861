"""Spans of characters as labels of words and back; rows of words and of texts."""

import json

from electra.tasks.tagging.data import TaggingArguments, load_tagging_splits
from electra.tasks.tagging.schemes import LabelledSpan, labels_of, words_of
from tests.conftest import refused
from tests.helpers import parametrize

TEXT = "Ann-Marie Lee (Uppsala) left."


def test_words_do_not_depend_on_spans():
    words = words_of(TEXT)
    assert [TEXT[start:end] for start, end in words] == ["Ann", "-", "Marie", "Lee", "(", "Uppsala", ")", "left", "."]
    labels = labels_of(
        words, [LabelledSpan(0, 13, "PER"), LabelledSpan(15, 22, "LOC"), LabelledSpan(24, 26, "X")], "row"
    )
    assert labels == ["B-PER", "I-PER", "I-PER", "I-PER", "O", "B-LOC", "O", "B-X", "O"]
    for word in ("हिन्दी", "cafe\u0301", "می\u200cروم", "m²"):
        assert words_of(word) == [(0, len(word))]
    assert len(words_of("北京ABC、東京タワー")) == 9 and len(words_of("ที่นี่")) == 2  # scripts without spaces


def write(path, *rows):
    """Write rows as JSON lines; return the path."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def read(path, split="train"):
    """Return the sentences of a file that is the training set or the test set."""
    files = {"train_file": path, "validation_file": path} if split == "train" else {"test_file": path}
    return load_tagging_splits(TaggingArguments(**files))[split]


def test_rows_of_texts_are_sentences(tmp_path, caplog):
    path = write(
        tmp_path / "a.jsonl",
        {"text": TEXT, "entities": [[0, 13, "PER"]]},
        {"text": "It rained.", "entities": []},
    )
    first, second = read(path)
    assert second.words == ["It", "rained", "."] and second.labels == ["O", "O", "O"]
    assert first.labels[:5] == ["B-PER", "I-PER", "I-PER", "I-PER", "O"]
    assert "inside a word" not in caplog.text
    read(write(tmp_path / "d.jsonl", {"text": "BerlinTegel closed", "entities": [[0, 6, "LOC"]]}))
    assert "1 texts have spans that begin or end inside a word" in caplog.text
    for row, words in (({"text": "It rained."}, ["It", "rained", "."]), ({"words": ["Ann"]}, ["Ann"])):
        (sentence,) = read(write(tmp_path / "b.jsonl", row), "test")
        assert sentence.words == words and sentence.labels is None


@parametrize(
    ("row", "named"),
    [
        ({"text": "Ann", "entities": [[0, 4, "PER"]]}, "[0, 4, 'PER']"),
        ({"text": "Ann", "entities": [[2, 1, "PER"]]}, "[2, 1, 'PER']"),
        ({"text": "Ann", "entities": [[0, 3]]}, "[0, 3]"),
        ({"text": "Ann", "entities": 5}, "5"),
        ({"text": "Ann", "entities": {"0": 3}}, "{'0': 3}"),
        ({"text": "Ann", "entities": [[0.0, 3, "PER"]]}, "0.0"),
        ({"text": "Ann", "entities": [[False, True, "PER"]]}, "False"),
        ({"tokens": ["Ann"], "tags": 5}, "5 in the column 'tags'"),
        ({"tokens": ["Ann"], "tags": "B"}, "'B' in the column 'tags'"),
        ({"tokens": ["Ann"], "tags": {"Ann": "B"}}, "'Ann': 'B'"),
        ({"text": "Ann Lee", "entities": [[0, 7, "PER"], [4, 7, "X"]]}, "another"),
        ({"text": "Ann Lee", "entities": [[3, 4, "PER"]]}, "no word"),
        ({"text": " ", "entities": []}, "no text"),
        ({"text": "Ann"}, "no labels of its words"),
    ],
)
def test_a_bad_row_is_refused_with_its_place(row, named, tmp_path):
    message = refused(lambda: read(write(tmp_path / "a.jsonl", row)))
    assert named in message and "a.jsonl:1" in message
