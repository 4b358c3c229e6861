"""What labels are found to be, what is refused, and which rows are chosen."""

import json
import logging
import random
import time
import tracemalloc
from collections import Counter
from functools import partial

import datasets

from electra.finetuning.data import table_rows
from electra.finetuning.words import NUMBER, SEVERAL, SINGLE
from electra.io.rows import read_rows
from electra.tasks.classify.data import ClassifyArguments, read_examples
from electra.tasks.classify.labels import (
    Example,
    LabelSet,
    class_names,
    find_labels,
    number_labels,
    unpack_lists,
    without_hidden,
)
from electra.tasks.classify.selection import choose_examples, hold_out, nested_order
from electra.tasks.classify.task import LabelledTexts, read_labelled
from tests.conftest import refused
from tests.helpers import parametrize

USUAL = (None, None, None)


def examples(labels):
    return [Example(f"text {number}", None, label, f"a.csv:{number + 2}") for number, label in enumerate(labels)]


@parametrize(
    ("labels", "separator", "found"),
    [
        (["good", "bad", "good"], None, LabelSet(SINGLE, ["bad", "good"])),
        (["10", "9", "-1"], None, LabelSet(SINGLE, ["-1", "9", "10"])),
        (["1.0", "0"], None, LabelSet(SINGLE, ["0", "1"])),
        ([True, False], None, LabelSet(SINGLE, ["False", "True"])),
        (["好", "坏", "1.0.0"], None, LabelSet(SINGLE, ["1.0.0", "坏", "好"])),
        ([["a", "b"], [], ["c"]], None, LabelSet(SEVERAL, ["a", "b", "c"], form="lists")),
        ([["a"], ["b"], ["a"]], None, LabelSet(SINGLE, ["a", "b"], form="lists")),
        ([[1, 0, 0], [0, 1, 1]], None, LabelSet(SEVERAL, ["0", "1", "2"], form="positions")),
        ([[1.0, 0.0], [0.0, 0.0]], None, LabelSet(SEVERAL, ["0", "1"], form="positions")),
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
        (list(range(21)), None, LabelSet(NUMBER, [], 0.0, 20.0)),
        (list(range(20)), None, LabelSet(SINGLE, [str(n) for n in range(20)])),
        (["1", "2", "many"], None, LabelSet(SINGLE, ["many", "1", "2"])),
    ],
)
def test_the_kind_of_labels_is_found_in_the_data(labels, separator, found):
    assert find_labels(examples(labels), "auto", separator) == found


def test_a_kind_that_is_asked_for_overrides_what_is_found():
    assert find_labels(examples(["1", "2", "5"]), NUMBER, None) == LabelSet(NUMBER, [], 1.0, 5.0)
    assert find_labels(examples(["0.5", "1"]), SINGLE, None) == LabelSet(SINGLE, ["0.5", "1"])


POSITIONS = LabelSet(SEVERAL, ["0", "1", "2"], form="positions")
TRUTHS = LabelSet(SEVERAL, ["insult", "threat"], form="truths")


@parametrize(
    ("label", "labels", "expected"),
    [
        ("good", LabelSet(SINGLE, ["bad", "good"]), (1,)),
        (1, LabelSet(SINGLE, ["0", "1"]), (1,)),
        (["a"], LabelSet(SINGLE, ["a", "b"], form="lists"), (0,)),
        (["c", "a", "a"], LabelSet(SEVERAL, ["a", "b", "c"], form="lists"), (0, 2)),
        ([], LabelSet(SEVERAL, ["a", "b"], form="lists"), ()),
        ([0, 1.0, 1], POSITIONS, (1, 2)),
        ({"threat": "1", "insult": "0"}, TRUTHS, (1,)),
        ({"insult": "True", "threat": "1.0"}, TRUTHS, (0, 1)),
        ("3", LabelSet(NUMBER, [], 1.0, 5.0), 0.5),
        ("3,5", LabelSet(NUMBER, [], 1.0, 6.0), 0.5),
    ],
)
def test_labels_become_numbers(label, labels, expected):
    (found,) = number_labels(examples([label]), labels, None)
    assert found.label == expected


@parametrize(
    ("label", "labels", "named"),
    [
        ("fine", LabelSet(SINGLE, ["bad", "good"]), "bad, good"),
        (["bad", "good"], LabelSet(SINGLE, ["bad", "good"]), "['bad', 'good']"),
        ("many", LabelSet(NUMBER, [], 0.0, 1.0), "training has numbers"),
        ("inf", LabelSet(NUMBER, [], 0.0, 1.0), "training has numbers"),
        ("nan", LabelSet(NUMBER, [], 0.0, 1.0), "training has numbers"),
        ("1_0", LabelSet(NUMBER, [], 0.0, 1.0), "training has numbers"),
        ([0, 1], POSITIONS, "write 1 or 0 for each class"),
        ({"insult": "3.0", "threat": "0"}, TRUTHS, "write 1 or 0 for each class"),
    ],
)
def test_a_label_that_training_does_not_have_is_refused(label, labels, named):
    message = refused(lambda: number_labels(examples([label]), labels, None))
    assert "a.csv:2" in message
    assert named in message


def test_spaces_and_empty_parts_are_no_part_of_a_name():
    assert class_names(" a ;; b; ", ";") == ["a", "b"]


@parametrize(
    ("content", "columns", "named"),
    [
        ("text,label\na,\n", USUAL, "a.csv:2 has no label"),
        ("text,label\n ,1\n", USUAL, "a.csv:2 has no text in the column 'text'"),
        ("text,y\na,1\n", USUAL, "no label; its columns are text, y"),
        (
            "text,label\na,1\n",
            ("body", None, None),
            "no column 'body'; its columns are text, label; choose one with --text_column",
        ),
        ("text,label\na,1\n", (None, "second", None), "--text_pair_column"),
        ("text,label\na,b,1\n", USUAL, "a.csv:2 has 3 cells, the header 2"),
        ("A great film,1\nA bad one,0\n", USUAL, "a first line that names them"),
        ("text,x,y\na,1,0\nb,,1\n", (None, None, ["x", "y"]), "a.csv:3 has no label (x: '', y: '1')"),
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
        (["3,5", "4", "2,25"], "--label_kind number"),
        (["4,27", "3", "12"], "--label_separator ,"),
        ([[0.2, 0.8], [0.5, 0.5]], "numbers in lists"),
    ],
)
def test_labels_that_may_be_two_things_are_refused_with_the_options(labels, named):
    assert named in refused(lambda: find_labels(examples(labels), "auto", None))


def test_lists_that_are_text_are_lists_in_all_splits():
    written = ['["a", "b"]', "['c']", "['a' 'c']", "[]", "{'b'}", "set()"]
    splits = {"train": examples(written), "dev": examples(["['a', 'c']", "c"])}
    found = unpack_lists(splits)
    assert [e.label for e in found["train"]] == [["a", "b"], ["c"], ["a", "c"], [], ["b"], []]
    assert [e.label for e in found["dev"]] == [["a", "c"], "c"]
    assert [e.label for e in unpack_lists({"train": examples(["[0. 1.]", "[1. 0.]"])})["train"]] == [[0, 1], [1, 0]]
    studio = examples(['{"choices": ["a", "b"]}', '{"choices": ["c"]}'])
    assert [e.label for e in unpack_lists({"train": studio})["train"]] == [["a", "b"], ["c"]]
    kept = {"train": examples(["[a]", "b"])}
    assert unpack_lists(kept) == kept


def test_a_test_set_without_a_column_of_labels_has_no_hidden_ones(caplog):
    unlabelled = examples([None, None])
    assert without_hidden(unlabelled, LabelSet(SINGLE, ["a", "b"])) == unlabelled
    assert "all labels are" not in caplog.text


def test_names_of_columns_may_have_capitals(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("ID,Text,LABEL\n1,a,x\n")
    (example,) = read_examples(read_rows(path), USUAL, True)
    assert (example.text, example.label) == ("a", "x")


def test_hidden_labels_of_a_test_set_are_none():
    labels = LabelSet(SINGLE, ["0", "1"])
    for hidden in ("-1", -1, -1.0, "?"):
        assert [e.label for e in without_hidden(examples([hidden] * 2), labels)] == [None, None]
    for kept in (["-1", "1"], ["2", "2"], ["1", "1"]):
        assert without_hidden(examples(kept), labels) == examples(kept)
    assert without_hidden(examples(["-1"]), LabelSet(SINGLE, ["-1", "1"])) == examples(["-1"])


def test_rows_that_an_annotator_rejected_are_refused():
    row = {"text": "a", "label": "x", "answer": "reject", "_task_hash": 1}
    assert "a:1 has the answer 'reject'" in refused(lambda: read_examples([("a:1", row)], USUAL, True))
    assert read_examples([("a:1", {**row, "answer": "accept"})], USUAL, True)[0].label == "x"


def test_thousands_of_classes_need_seconds_and_megabytes():
    rows = examples([f"L{n % 2000}" for n in range(30_000)])
    tracemalloc.start()
    begun = time.process_time()
    labels = find_labels(rows, "auto", None)
    numbered = number_labels(rows, labels, None)
    dev, train = hold_out(numbered, 0.1, seed=1)
    shares = LabelledTexts(labels, {"train": train, "dev": dev}).shares("train")
    assert time.process_time() - begun < 20
    assert tracemalloc.get_traced_memory()[1] < 60e6
    tracemalloc.stop()
    assert len(labels.classes) == len(shares) == 2000
    assert 0.09 < len(dev) / 30_000 < 0.11


def test_cells_are_read_as_they_are(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes('\ufefftext,label\r\n"two\nlines, ""quoted""",NA\r\n\r\nÄ,None\r\n'.encode())
    found = read_examples(read_rows(path), USUAL, True)
    assert [(e.text, e.label) for e in found] == [('two\nlines, "quoted"', "NA"), ("Ä", "None")]
    assert [e.place for e in found] == [f"{path}:2", f"{path}:5"]
    path.write_text('"text, body"\na\n')  # one column, whose name has the delimiter
    assert [row for _, row in read_rows(path)] == [{"text, body": "a"}]
    path.write_text("text,label,insult,threat\na,nan,1,0\n")
    assert read_examples(read_rows(path), USUAL, True)[0].label == "nan"
    several = read_examples(read_rows(path), (None, None, ["insult", "threat"]), True)
    assert several[0].label == {"insult": "1", "threat": "0"}


def test_a_test_set_needs_no_labels_but_all_or_none(tmp_path):
    path = tmp_path / "a.csv"
    for content in ("text\na\nb\n", "text,label\na,\nb,\n"):
        path.write_text(content)
        assert [e.label for e in read_examples(read_rows(path), USUAL, False)] == [None, None]
    for content, place in (("text,label\na,1\nb,\n", "a.csv:3"), ("text,label\na,\nb,1\n", "a.csv:2")):
        path.write_text(content)
        assert f"{place} has no label" in refused(lambda: read_examples(read_rows(path), USUAL, False))


def test_names_of_classes_come_from_a_data_set():
    names = datasets.ClassLabel(names=["neg", "pos"])
    features = datasets.Features({"text": datasets.Value("string"), "label": names, "all": datasets.List(names)})
    table = datasets.Dataset.from_dict({"text": ["a", "b"], "label": [1, -1], "all": [[0, 1], []]}, features)
    assert list(table_rows(table, "test")) == [
        ("test row 0", {"text": "a", "label": "pos", "all": ["neg", "pos"]}),
        ("test row 1", {"text": "b", "label": None, "all": []}),
    ]


# ---- choosing rows


def test_a_share_has_each_class_in_its_proportion():
    rows = examples([(0,)] * 300 + [(1,)] * 100)
    inside, outside = choose_examples(rows, 0.1, seed=3)
    counts = Counter(row.label for row in inside)
    assert len(inside) == 40
    assert abs(counts[(1,)] - 10) <= 1
    assert sorted([*inside, *outside]) == sorted(rows)
    assert choose_examples(rows, 0.1, seed=3) == (inside, outside)
    assert choose_examples(rows, 0.1, seed=4)[0] != inside


def test_a_share_has_each_range_of_numbers_in_its_proportion():
    inside, _ = choose_examples(examples([number / 100 for number in range(100)]), 0.2, seed=0)
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


def test_an_order_has_every_row_once_and_another_seed_begins_with_others():
    rows = examples([(0,)] * 60 + [(1,)] * 40)
    orders = [nested_order(rows, seed) for seed in range(400)]
    assert all(sorted(order) == list(range(100)) for order in orders)
    assert nested_order(rows, 0) == orders[0]
    counts = Counter(number for order in orders for number in order[:20])
    assert all(abs(counts[number] - 80) <= 40 for number in range(100))  # 5 standard deviations


def test_equal_texts_are_held_out_together():
    rng = random.Random(0)
    texts = [f"{'Text' if n % 3 else 'text '} {rng.randrange(150)}" for n in range(400)]
    rows = [Example(text, pair, (n % 2,), f"{n}") for n, text in enumerate(texts) for pair in (None, "b")]
    dev, train = hold_out(rows, 0.1, seed=1)
    sides = [{(" ".join(row.text.lower().split()), row.pair) for row in side} for side in (dev, train)]
    assert not sides[0] & sides[1]
    assert 0.08 < len(sides[0]) / (len(sides[0]) + len(sides[1])) < 0.12
    assert sorted([*dev, *train], key=str) == sorted(rows, key=str)
    different = examples([(0,)] * 300 + [(1,)] * 100)
    assert hold_out(different, 0.1, seed=3) == choose_examples(different, 0.1, seed=3)


@parametrize("labels", [[(0,), (2,), (1,)], [(0, 2), (0, 1), (), (1,), (2,), (0,), (0, 1, 2)]])
def test_the_choice_is_that_of_rows_of_zeros_and_ones(labels):
    """So the held-out rows of earlier versions stay held out."""
    rows = examples(labels * 20)
    written = examples([[float(n in label) for n in range(3)] for label in labels * 20])
    for choose in (partial(choose_examples, share=0.3, seed=5), partial(hold_out, share=0.3, seed=5)):
        assert [row.place for row in choose(rows)[0]] == [row.place for row in choose(written)[0]]
    assert nested_order(rows, 3) == nested_order(written, 3)


def test_the_whole_is_all_rows_in_their_order():
    rows = examples([(1,), (0,), (1,)])
    assert choose_examples(rows, 1.0, 0) == (rows, [])


# ---- labels that are typed in several ways


@parametrize(
    ("labels", "named"),
    [
        (["900", "1,200", "3,400"], "thousands"),
        (["1,200", "13,400,000"], "thousands"),
        ([["a"], ["a", None]], "None"),
        ([["a"], [["b"]]], "[['b']]"),
        ([["a"], [{"name": "b"}]], "a list of these"),
        ([b"a", b"b"], "b'a'"),
        (['["a"]', '["a", null]'], "None"),
    ],
)
def test_labels_that_would_be_misread_are_refused(labels, named):
    rows = [(f"a.csv:{n}", {"text": f"text {n}", "label": label}) for n, label in enumerate(labels)]

    def read(kind):
        splits = {"train": read_examples(rows, USUAL, needs_labels=True)}
        return find_labels(unpack_lists(splits)["train"], kind, None)

    assert named in refused(lambda: read("auto"))
    if "thousands" in named:
        assert named in refused(lambda: read(NUMBER))
        assert read(SINGLE).classes == sorted(labels)


def test_a_comma_is_decimal_beside_a_number_below_one():
    assert find_labels(examples(["1,250", "0,500"]), NUMBER, None) == LabelSet(NUMBER, [], 0.5, 1.25)


def test_columns_of_labels_are_named_where_one_is_missing():
    def read(row):
        return read_examples([("a.csv:2", {"text": "x", **row})], (None, None, ["insult", "threat"]), True)

    assert "no column 'threat'" in refused(lambda: read({"insult": "1"}))
    assert "write 1 or 0" in refused(lambda: read({"insult": "1", "threat": ""}))


def test_a_label_in_another_spelling_is_named():
    labels = LabelSet(SINGLE, ["news", "sport"])
    assert "write 'sport'" in refused(lambda: number_labels(examples(["Sport"]), labels, None))
    assert "--label_kind" in refused(lambda: number_labels(examples(["arts"]), labels, None))


@parametrize(
    ("labels", "options", "named"),
    [
        (["Sport", "sport ", "news", "arts"], {}, "'Sport', 'sport'"),
        (["caf\u00e9", "cafe\u0301", "news"], {}, "spelling alone"),
        (["not_good", "not good", "bad"], {}, "'not good', 'not_good'"),
        (["0 1 0", "1 0 0"], {}, "[1, 0, 0]"),
        (["010", "100"], {}, "[1, 0, 0]"),
        (["0,1,0", "1,0,0"], {}, "[1, 0, 0]"),
        (["a,b", "a", "b"], {"label_separator": ";"}, "--label_separator ','"),
        (["1.200", "900", "5.400"], {}, "is read as 1.2"),
        (["C", "C++", "C#"], {}, None),
        (["1.250", "3.500"], {}, None),
    ],
)
def test_labels_that_look_like_a_mistake_are_named(tmp_path, caplog, monkeypatch, labels, options, named):
    monkeypatch.setattr(logging.getLogger("electra"), "propagate", True)
    path = tmp_path / "a.csv"
    rows = "".join(f'text {n} and {n % 7},"{labels[n % len(labels)]}"\n' for n in range(40))
    path.write_text(f"text,label\n{rows}", encoding="utf-8")
    read_labelled(ClassifyArguments(train_file=str(path), **options))
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert any(named in message for message in warned) if named else warned == []


# ---- exports of annotation tools


def test_choices_of_label_studio_are_labels(tmp_path):
    def task(number, **more):
        choice = {"type": "choices", "from_name": "mood", "value": {"choices": ["good" if number % 2 else "bad"]}}
        return {"id": number, "data": {"text": f"text {number}"}, "annotations": [{"result": [choice], **more}]}

    path = tmp_path / "a.json"
    path.write_text(json.dumps([task(number) for number in range(40)]))
    assert read_labelled(ClassifyArguments(train_file=str(path))).labels == LabelSet(
        SINGLE, ["bad", "good"], form="lists"
    )
    read_labelled(ClassifyArguments(train_file=str(path), label_column=["mood"]))
    path.write_text(json.dumps([task(number, was_cancelled=number == 7) for number in range(40)]))
    assert "row 8 was skipped" in refused(lambda: read_labelled(ClassifyArguments(train_file=str(path))))


def test_answers_of_prodigy_are_refused_unless_they_are_the_label(tmp_path):
    path = tmp_path / "a.jsonl"
    rows = [{"text": f"text {n}", "label": "POS", "answer": ["accept", "reject"][n % 2]} for n in range(40)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "answer 'reject'" in refused(lambda: read_labelled(ClassifyArguments(train_file=str(path))))
    found = read_labelled(ClassifyArguments(train_file=str(path), label_column=["answer"]))
    assert found.labels.classes == ["accept", "reject"]
