"""What labels are found to be, what is refused, and which rows are chosen."""

import logging
import random
import time
import tracemalloc
from collections import Counter
from functools import partial

import datasets

from electra.data.rows import read_rows
from electra.finetuning.data import table_rows
from electra.finetuning.held_out import choose_share, hold_out
from electra.finetuning.labelled.labels import (
    Example,
    LabelSet,
    class_names,
    find_labels,
    number_labels,
    parse_cell,
)
from electra.finetuning.labelled.metrics import NUMBER, SEVERAL, SINGLE
from electra.finetuning.labelled.selection import content_of, label_order, nested_order
from electra.finetuning.labelled.texts import TextColumns, read_examples
from electra.finetuning.row_checks import is_unlabelled
from electra.tasks.classify.data import ClassifyArguments
from electra.tasks.classify.task import LabelledTexts, read_labelled
from tests.conftest import refused
from tests.helpers import parametrize
from tests.tasks.classify.files import write_lines

USUAL = TextColumns()


def examples(labels):
    """Return texts with these labels, from a.csv:2 on."""
    return [Example(f"text {number}", None, label, f"a.csv:{number + 2}") for number, label in enumerate(labels)]


@parametrize(
    ("labels", "separator", "expected"),
    [
        (["good", "bad", "good"], None, LabelSet(SINGLE, ["bad", "good"])),
        (["10", "9", "-1"], None, LabelSet(SINGLE, ["-1", "9", "10"])),
        (["1.0", "0"], None, LabelSet(SINGLE, ["0", "1"])),
        ([True, False], None, LabelSet(SINGLE, ["False", "True"])),
        (["好", "坏", "1.0.0"], None, LabelSet(SINGLE, ["1.0.0", "坏", "好"])),
        ([["a", "b"], [], ["c"]], None, LabelSet(SEVERAL, ["a", "b", "c"], form="lists")),
        ([["a"], ["b"], ["a"]], None, LabelSet(SINGLE, ["a", "b"], form="lists")),
        ([[3, 1], [0, 1]], None, LabelSet(SEVERAL, ["0", "1", "3"], form="lists")),
        ([[1, 0], [0, 1, 1]], None, LabelSet(SEVERAL, ["0", "1"], form="lists")),
        ([{"b": 1, "a": 0}, {"a": 1, "b": 1}], None, LabelSet(SEVERAL, ["b", "a"], form="truths")),
        (["a; b", "c"], ";", LabelSet(SEVERAL, ["a", "b", "c"], form="separated")),
        (["0.5", "3", "-1e1"], None, LabelSet(NUMBER, [], -10.0, 3.0)),
        (["0.5", "3", "n/a"], None, LabelSet(NUMBER, [], 0.5, 3.0)),
        (["3.5", "a", "b"], None, LabelSet(SINGLE, ["a", "b", "3.5"])),
        ([f"{n}_1" for n in range(30)], None, LabelSet(SINGLE, sorted((f"{n}_1" for n in range(30)), key=float))),
        ([f"{n:03}" for n in range(30)], None, LabelSet(SINGLE, [f"{n:03}" for n in range(30)])),
        ([f"{n}E4" for n in range(30)], None, LabelSet(SINGLE, [f"{n}E4" for n in range(30)])),
        ([f"{n}e+04" for n in range(30)], None, LabelSet(NUMBER, [], 0.0, 29e4)),
        (["1.5E10", "2", ".5", "-3."], None, LabelSet(NUMBER, [], -3.0, 1.5e10)),
        (["nan", "NA", "None"], None, LabelSet(SINGLE, ["NA", "None", "nan"])),
        (["٣", "٤"], None, LabelSet(SINGLE, ["٣", "٤"])),
        (list(range(21)), None, LabelSet(NUMBER, [], 0.0, 20.0)),  # more than 20 numbers are no classes
        (list(range(20)), None, LabelSet(SINGLE, [str(n) for n in range(20)])),
        (["1", "2", "many"], None, LabelSet(SINGLE, ["many", "1", "2"])),
        (["yes", "no"], None, LabelSet(SINGLE, ["no", "yes"])),
        (["1,5 kg", "2,5 kg"], None, LabelSet(SINGLE, ["1,5 kg", "2,5 kg"])),
    ],
)
def test_the_kind_of_labels_is_found_in_the_data(labels, separator, expected):
    assert find_labels(examples(labels), "auto", separator) == expected


def test_lists_of_ones_and_zeros_alone_are_refused():
    assert "a column with 1 or 0" in refused(lambda: find_labels(examples([[1, 0], [0, 1.0]]), "auto", None))


def test_a_kind_that_is_asked_for_overrides_what_is_found():
    assert find_labels(examples(["1", "2", "5"]), NUMBER, None) == LabelSet(NUMBER, [], 1.0, 5.0)
    assert find_labels(examples(["0.5", "1"]), SINGLE, None) == LabelSet(SINGLE, ["0.5", "1"])


TRUTHS = LabelSet(SEVERAL, ["insult", "threat"], form="truths")


@parametrize(
    ("label", "labels", "expected"),
    [
        ("good", LabelSet(SINGLE, ["bad", "good"]), (1,)),
        (1, LabelSet(SINGLE, ["0", "1"]), (1,)),
        (["a"], LabelSet(SINGLE, ["a", "b"], form="lists"), (0,)),
        (["c", "a", "a"], LabelSet(SEVERAL, ["a", "b", "c"], form="lists"), (0, 2)),
        ([], LabelSet(SEVERAL, ["a", "b"], form="lists"), ()),
        ({"threat": "1", "insult": "0"}, TRUTHS, (1,)),
        ({"insult": "True", "threat": "1.0"}, TRUTHS, (0, 1)),
        ("3", LabelSet(NUMBER, [], 1.0, 5.0), 0.5),
    ],
)
def test_labels_become_numbers(label, labels, expected):
    (numbered_text,) = number_labels(examples([label]), labels, None)
    assert numbered_text.label == expected


@parametrize(
    ("label", "labels", "named"),
    [
        ("fine", LabelSet(SINGLE, ["bad", "good"]), "bad, good"),
        (["bad", "good"], LabelSet(SINGLE, ["bad", "good"]), "['bad', 'good']"),
        ("many", LabelSet(NUMBER, [], 0.0, 1.0), "training has numbers"),
        ("inf", LabelSet(NUMBER, [], 0.0, 1.0), "training has numbers"),
        ("nan", LabelSet(NUMBER, [], 0.0, 1.0), "training has numbers"),
        ("1_0", LabelSet(NUMBER, [], 0.0, 1.0), "training has numbers"),
        ("3,5", LabelSet(NUMBER, [], 0.0, 9.0), "training has numbers"),
        ({"insult": "3.0", "threat": "0"}, TRUTHS, "insult '3.0'"),
        ({"insult": "yes", "threat": "no"}, TRUTHS, "insult 'yes'"),
        ({"insult": "1", "threat": "-1"}, TRUTHS, "threat '-1'"),
        ({"insult": "1", "threat": ""}, TRUTHS, "threat ''"),
    ],
)
def test_a_label_that_training_does_not_have_is_refused(label, labels, named):
    message = refused(lambda: number_labels(examples([label] * 3), labels, None))
    assert "a.csv:2" in message and named in message
    assert "3 of 3 rows" in message and "docs/data.md" in message and "--no_label" in message


def test_spaces_and_empty_parts_are_no_part_of_a_name():
    assert class_names(" a ;; b; ", ";") == ["a", "b"]


@parametrize(
    ("content", "columns", "named"),
    [
        ("text,label\na,\n", USUAL, "a.csv:2 has no label"),
        ("text,label\n ,1\n", USUAL, "a.csv:2 has no text in the column 'text'"),
        ("text,y\na,1\n", USUAL, "a.csv:2 has no column 'label', nor has any other row; its columns are text, y"),
        ("text,label\na,1\n", TextColumns(label=["y"]), "no column 'y'"),
        ("text,label\na,1\n", TextColumns(text="body"), "no column 'body'; its columns are text, label"),
        ("text,label\na,1\n", TextColumns(pair="second"), "--text_pair_column"),
        ("text,label\na,b,1\n", USUAL, "a.csv:2 has 3 cells, the header 2"),
        ("A great film,1\nA bad one,0\n", USUAL, "its columns are A great film, 1"),
        ("text,x\na,1\n", TextColumns(label=["x", "y"]), "no column 'y'"),
        ("text, label\na,\n", USUAL, "a.csv:2 has no label"),
    ],
)
def test_a_wrong_row_is_named(content, columns, named, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text(content, encoding="utf-8", errors="surrogateescape")
    assert named in refused(lambda: read_examples(read_rows("a.csv"), columns, True))


@parametrize(
    ("labels", "named"),
    [
        (["3,5", "4", "2,25"], "--label_separator ,"),
        (["4,27", "3", "12"], "--label_kind single"),
        (["900", "1,200", "3,400"], "a.csv:3 has the label '1,200'"),
        (["0.5", "1,200.5", "3"], "docs/data.md"),
        (["0,5", "1.200,5", "n/a"], "docs/data.md"),
        ([[0.2, 0.8], [0.5, 0.5]], "no fractions"),
        ([{"a": 1, "b": 0}, "a"], "a.csv:2"),
    ],
)
def test_labels_that_may_be_two_things_are_refused_with_the_page(labels, named):
    assert named in refused(lambda: find_labels(examples(labels), "auto", None))
    if isinstance(labels[0], str):
        assert find_labels(examples(labels), SINGLE, None).kind == SINGLE


def parsed(labels, kind="auto"):
    """Return labels as they are parsed from cells."""
    return [parse_cell(example, kind).label for example in examples(labels)]


def test_a_separator_is_refused_beside_a_column_for_each_class():
    assert "--label_separator ;" in refused(lambda: find_labels(examples([{"a": 1, "b": 0}] * 3), "auto", ";"))


def test_lists_without_any_class_are_refused(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "a", "label": []}\n' * 20, encoding="utf-8")
    arguments = ClassifyArguments(train_file=str(tmp_path / "a.jsonl"))
    assert "all labels are []" in refused(lambda: read_labelled(arguments))


def test_cells_with_json_are_lists_and_mappings():
    written = ['["a", "b"]', '[ "c" ]', "[]", "[1, 0]", '{"a": 1, "b": 0}', "a", 3, ["x"]]
    assert parsed(written) == [["a", "b"], ["c"], [], [1, 0], {"a": 1, "b": 0}, "a", 3, ["x"]]


@parametrize("cell", ["['a', 'b']", "['a' 'b']", "{'a'}", "('a', 'b')", "[a]", "[0. 1.]", "[1 0 1]"])
def test_lists_that_are_not_json_are_refused_or_are_names(cell):
    message = refused(lambda: parsed(["c", cell]))
    assert "a.csv:3" in message and "--label_kind single" in message
    assert parsed(["c", cell], SINGLE) == ["c", cell]


def test_names_of_columns_may_have_capitals(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("ID,Text,LABEL\n1,a,x\n")
    (example,) = read_examples(read_rows(path), USUAL, True)
    assert (example.text, example.label) == ("a", "x")


def test_rows_that_an_annotator_rejected_are_refused():
    row = {"text": "a", "label": "x", "answer": "reject", "_task_hash": 1}
    assert "a:1 has the answer 'reject'" in refused(lambda: read_examples([("a:1", row)], USUAL, True))
    assert read_examples([("a:1", {**row, "answer": "accept"})], USUAL, True)[0].label == "x"
    labelled_texts = read_examples([("a:1", row)], TextColumns(label=["answer"]), True)
    assert labelled_texts[0].label == "reject"


def test_thousands_of_classes_need_seconds_and_megabytes():
    rows = examples([f"L{number % 2000}" for number in range(30_000)])
    tracemalloc.start()
    begun = time.process_time()
    labels = find_labels(rows, "auto", None)
    numbered = number_labels(rows, labels, None)
    dev, train = hold_out_examples(numbered, 0.1, seed=1)
    shares = LabelledTexts(labels, {"train": train, "dev": dev}).shares("train")
    assert time.process_time() - begun < 20
    assert tracemalloc.get_traced_memory()[1] < 60e6
    tracemalloc.stop()
    assert len(labels.classes) == len(shares) == 2000
    assert 0.09 < len(dev) / 30_000 < 0.11


def test_cells_are_read_as_they_are(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes('\ufefftext,label\r\n"two\nlines, ""quoted""",NA\r\n\r\nÄ,None\r\n'.encode())
    labelled_texts = read_examples(read_rows(path), USUAL, True)
    assert [(example.text, example.label) for example in labelled_texts] == [
        ('two\nlines, "quoted"', "NA"),
        ("Ä", "None"),
    ]
    assert [example.place for example in labelled_texts] == [f"{path}:2", f"{path}:5"]
    path.write_text('"text, body"\na\n')  # one column, whose name has the delimiter
    assert [row for _, row in read_rows(path)] == [{"text, body": "a"}]
    path.write_text("text,label,insult,threat\na,nan,1,0\n")
    assert read_examples(read_rows(path), USUAL, True)[0].label == "nan"
    several = read_examples(read_rows(path), TextColumns(label=["insult", "threat"]), True)
    assert several[0].label == {"insult": "1", "threat": "0"}


# ---- rows without a label


def write_labels(path, labels, columns=("label",)):
    """Write a csv of texts with one or several columns of labels; return its path."""
    lines = [
        ",".join([f"text {number}", *(label if isinstance(label, tuple) else [label])])
        for number, label in enumerate(labels)
    ]
    path.write_text("\n".join([",".join(["text", *columns]), *lines]) + "\n")
    return str(path)


def read_files(**options):
    """Return the texts that a command with these options reads."""
    return read_labelled(ClassifyArguments(**options))


@parametrize(("text", "label"), [("text", "label"), ("sentence", "labels")])
def test_columns_of_the_usual_names_need_no_option(tmp_path, text, label):
    rows = [f"text {number},{'ab'[number % 2]}\n" for number in range(20)]
    (tmp_path / "train.csv").write_text(f"{text},{label}\n{''.join(rows)}")
    assert read_files(train_file=str(tmp_path / "train.csv")).labels.classes == ["a", "b"]


@parametrize(("written", "no_label"), [("", []), ("-", ["-"]), ("-1.0", ["-", "-1"]), (" ? ", ["?"])])
def test_rows_without_a_label_are_left_out_and_counted(tmp_path, caplog, written, no_label):
    labels = [written if number % 4 == 0 else ("good", "bad")[number % 2] for number in range(40)]
    train = write_labels(tmp_path / "train.csv", labels)
    dev = write_labels(tmp_path / "dev.csv", ["good", written, "bad"])
    test = write_labels(tmp_path / "test.csv", [written, "good", written, "bad"])
    data = read_files(train_file=train, validation_file=dev, test_file=test, no_label=no_label)
    assert data.labels == LabelSet(SINGLE, ["bad", "good"])
    assert {split: len(rows) for split, rows in data.splits.items()} == {
        "train": 30, "dev": 2, "test": 2, "test_unlabelled": 2,
    }  # fmt: skip
    assert [example.label for example in data.splits["test_unlabelled"]] == [None, None]
    assert [example.place.rpartition(":")[2] for example in data.splits["test_unlabelled"]] == ["2", "4"]
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    for counted in ("10 of 40 rows", "1 of 3 rows", "2 of 4 rows"):
        assert sum(counted in message for message in warned) == 1


def test_what_programs_and_annotators_write_for_no_label_is_asked_about(tmp_path, caplog):
    """R, spreadsheets, pandas, Python, JSON, SQL, files of words and GLUE; no row is left out."""
    names = ["-", "_", "?", "-1", "NA", "N/A", "n/a", "nan", "NaN", "None", "null", "NULL", "unknown"]
    path = write_labels(tmp_path / "train.csv", ["good", "bad", *names] * 8)
    assert {*names} < {*read_files(train_file=path).labels.classes}
    (asked,) = (message for message in caplog.messages if "--no_label" in message)
    assert {*names} == {*asked.partition("--no_label ")[2].split()}


def test_a_label_that_may_mean_none_is_a_class_with_a_warning(tmp_path, caplog):
    path = write_labels(tmp_path / "train.csv", ["good", "bad", "-", "-1", "none"] * 8)
    assert read_files(train_file=path).labels.classes == ["-1", "-", "bad", "good", "none"]
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warned) == 1 and "--no_label -1 -" in warned[0] and "none" not in warned[0]


def test_of_several_columns_all_must_be_without_a_label(tmp_path):
    columns = ("insult", "threat")
    train = write_labels(tmp_path / "train.csv", [("1", "0"), ("0", "1"), ("-1", "-1"), ("", "-1")] * 8, columns)
    hidden = write_labels(tmp_path / "test.csv", [("-1", "-1")] * 4, columns)
    half = write_labels(tmp_path / "half.csv", [("1", "-1"), ("1", "1"), ("-1", "0")], columns)
    options = {"train_file": train, "label_column": [*columns], "no_label": ["-1"]}
    data = read_files(**options, test_file=hidden)
    assert data.labels == LabelSet(SEVERAL, [*columns], form="truths")
    assert len(data.splits["train"]) + len(data.splits["dev"]) == 16
    assert [example.label for example in data.splits["test"]] == [None] * 4
    message = refused(lambda: read_files(**options, test_file=half))
    assert "half.csv:2 has threat '-1'" in message and "2 of 3 rows" in message
    message = refused(lambda: read_files(**{**options, "no_label": []}))
    assert "train.csv:4 has insult '-1'" in message and "16 of 32 rows" in message and "--no_label" in message


def test_of_a_list_all_must_be_without_a_label():
    rows = [("a", {"text": "x", "label": label}) for label in ([1, 0], [-1, -1], [0, 1], [], [-1, 1])]
    are_unlabelled = [is_unlabelled(example.label, ["-1"]) for example in read_examples(rows, USUAL, True)]
    assert are_unlabelled == [False, True, False, False, False]


def test_data_in_which_no_row_has_a_label_are_refused(tmp_path):
    train = write_labels(tmp_path / "train.csv", ["a", "b"] * 8)
    hidden = write_labels(tmp_path / "hidden.csv", ["-1"] * 3)
    message = refused(lambda: read_files(train_file=train, validation_file=hidden, no_label=["-1"]))
    assert "3 of 3 rows" in message and "hidden.csv:2" in message
    other = write_labels(tmp_path / "other.csv", ["a", "b"], ["y"])
    assert "its columns are text, y" in refused(lambda: read_files(train_file=other))


@parametrize("columns", [(), ("label",)])
def test_a_test_set_needs_no_labels(tmp_path, columns):
    train = write_labels(tmp_path / "train.csv", ["a", "b"] * 8)
    test = write_labels(tmp_path / "test.csv", [("",) * len(columns)] * 3, columns)
    assert [example.label for example in read_files(train_file=train, test_file=test).splits["test"]] == [None] * 3


def test_a_name_that_no_row_has_is_said(tmp_path, caplog):
    train = write_labels(tmp_path / "train.csv", ["a", "b", "-"] * 8)
    read_files(train_file=train, no_label=["?"])
    assert "--no_label ?: no row" in caplog.text


@parametrize("text", ["", " ", None, 3])
def test_rows_without_a_text_are_counted(tmp_path, text):
    rows = [{"text": text if number in (7, 9, 30) else f"text {number}", "label": number % 2} for number in range(40)]
    path = write_lines(tmp_path / "a.jsonl", rows)
    message = refused(lambda: read_files(train_file=str(path)))
    assert "a.jsonl:8 has no text" in message and "3 of 40 rows" in message and "docs/data.md" in message


def test_names_of_classes_come_from_a_data_set():
    names = datasets.ClassLabel(names=["neg", "pos"])
    features = datasets.Features({"text": datasets.Value("string"), "label": names, "all": datasets.List(names)})
    table = datasets.Dataset.from_dict({"text": ["a", "b"], "label": [1, -1], "all": [[0, 1], []]}, features)
    assert list(table_rows(table, "test")) == [
        ("test row 0", {"text": "a", "label": "pos", "all": ["neg", "pos"]}),
        ("test row 1", {"text": "b", "label": None, "all": []}),
    ]


# ---- choosing rows

choose_examples = partial(choose_share, key=label_order)
hold_out_examples = partial(hold_out, content_of=content_of, key=label_order)


def test_a_share_has_each_class_in_its_proportion():
    rows = examples([(0,)] * 300 + [(1,)] * 100)
    chosen = choose_examples(rows, 0.1, seed=3)
    counts = Counter(row.label for row in chosen)
    assert len(chosen) == 40
    assert abs(counts[(1,)] - 10) <= 1
    assert chosen == [row for row in rows if row in chosen]
    assert choose_examples(rows, 0.1, seed=3) == chosen
    assert choose_examples(rows, 0.1, seed=4) != chosen


def test_a_share_has_each_range_of_numbers_in_its_proportion():
    inside = choose_examples(examples([number / 100 for number in range(100)]), 0.2, seed=0)
    assert [int(row.label * 10) // 2 for row in inside] == [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4 + [4] * 4


@parametrize("count", [20, 57, 200, 399])
def test_every_beginning_of_an_order_has_the_shares_of_the_whole(count):
    classes = examples([(0,)] * 280 + [(1,)] * 100 + [(2,)] * 20)
    numbers = examples([number / 400 for number in range(400)])
    for rows, shares in ((classes, (0.7, 0.25, 0.05)), (numbers, (0.25,) * 4)):
        parts = Counter()
        for number in nested_order(rows, seed=3)[:count]:
            label = rows[number].label
            parts[label[0] if isinstance(label, tuple) else int(4 * label)] += 1
        assert all(abs(parts[part] - count * share) <= 2 for part, share in enumerate(shares))


def test_an_order_has_every_row_once_and_depends_on_the_seed():
    rows = examples([(0,)] * 60 + [(1,)] * 40)
    orders = [nested_order(rows, seed) for seed in range(400)]
    assert all(sorted(order) == list(range(100)) for order in orders)
    assert nested_order(rows, 0) == orders[0]
    counts = Counter(number for order in orders for number in order[:20])
    assert all(abs(counts[number] - 80) <= 40 for number in range(100))  # a fifth of 400; 5 standard deviations


def test_equal_texts_are_held_out_together():
    rng = random.Random(0)
    texts = [f"{'Text' if number % 3 else 'text '} {rng.randrange(150)}" for number in range(400)]
    rows = [
        Example(text, pair, (number % 2,), f"{number}") for number, text in enumerate(texts) for pair in (None, "b")
    ]
    dev, train = hold_out_examples(rows, 0.1, seed=1)
    sides = [{(" ".join(row.text.lower().split()), row.pair) for row in side} for side in (dev, train)]
    assert not sides[0] & sides[1]
    assert 0.08 < len(sides[0]) / (len(sides[0]) + len(sides[1])) < 0.12
    assert sorted([*dev, *train], key=str) == sorted(rows, key=str)
    different = examples([(0,)] * 300 + [(1,)] * 100)
    assert hold_out_examples(different, 0.1, seed=3)[0] == choose_examples(different, 0.1, seed=3)


@parametrize("labels", [[(0,), (2,), (1,)], [(0, 2), (0, 1), (), (1,), (2,), (0,), (0, 1, 2)]])
def test_the_choice_is_that_of_rows_of_zeros_and_ones(labels):
    """So the held-out rows of earlier versions stay held out."""
    rows = examples(labels * 20)
    written = examples([[float(number in label) for number in range(3)] for label in labels * 20])
    for choose in (
        lambda rows: choose_examples(rows, 0.3, seed=5),
        lambda rows: hold_out_examples(rows, 0.3, seed=5)[0],
    ):
        assert [row.place for row in choose(rows)] == [row.place for row in choose(written)]
    assert nested_order(rows, 3) == nested_order(written, 3)


def test_the_whole_is_all_rows_in_their_order():
    rows = examples([(1,), (0,), (1,)])
    assert choose_examples(rows, 1.0, 0) == rows


@parametrize(
    ("labels", "named"),
    [
        ([["a"], ["a", None]], "None"),
        ([["a"], [["b"]]], "[['b']]"),
        ([["a"], [{"name": "b"}]], "a list of these"),
        ([b"a", b"b"], "b'a'"),
        (['["a"]', '["a", null]'], "None"),
    ],
)
def test_labels_that_would_be_misread_are_refused(labels, named):
    rows = [(f"a.csv:{number}", {"text": f"text {number}", "label": label}) for number, label in enumerate(labels)]
    message = refused(
        lambda: [parse_cell(example, "auto") for example in read_examples(rows, USUAL, needs_labels=True)]
    )
    assert named in message


def test_classes_that_only_look_odd_have_no_warning(tmp_path, caplog):
    labels = ["C", "C#", "F", "F#", "yes", "no; but", "no", "but", "none", "red"]
    read_files(train_file=write_labels(tmp_path / "a.csv", labels * 8))
    assert "WARNING" not in caplog.text


def test_many_classes_are_said(tmp_path, caplog):
    read_files(train_file=write_labels(tmp_path / "a.csv", [f"id {number % 30}" for number in range(60)]))
    assert "30 classes in" in caplog.text
