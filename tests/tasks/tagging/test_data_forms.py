"""The forms of words with labels: those that are read, exactly, and those that are refused, with their line."""

import gzip
import json
import re

import datasets
import pandas as pd
from pytest import raises

from electra.core.errors import UserError
from electra.tasks.tagging.columns import FORMS_PAGE
from electra.tasks.tagging.data import TaggingArguments, is_table, load_tagging_splits
from electra.tasks.tagging.task import parse_tagging_row, rows_of_words, say_that_texts_are_cut
from tests.conftest import refused
from tests.helpers import ROOT, parametrize
from tests.tasks.tagging.files import words_and_labels

WORDS = [["Ann", "saw", "New", "York"], ["She", "left"]]
LABELS = [["B-PER", "O", "B-LOC", "I-LOC"], ["O", "O"]]
TEXT = "Ann saw New York."
SPANS = [(0, 3, "PER"), (8, 16, "LOC")]
SPAN_OBJECTS = [dict(zip(("start", "end", "label"), span, strict=True)) for span in SPANS]
UNIVERSAL = "1\t1 000\t1000\tNUM\tCD\t_\t0\troot\t_\t_\n\n"


def lines(*columns, separator="\t", before=None):
    """Return a file of columns; `before` is a line above each sentence."""
    content = []
    for number, sentence in enumerate(zip(*columns, strict=True)):
        content += [before.format(number)] if before else []
        content += [separator.join(cells) for cells in zip(*sentence, strict=True)]
        content.append("")
    return "\n".join(content) + "\n"


def counted(start=1, *, running=False):
    """Return a column with the numbers of words, in each sentence or, if `running`, in the file."""
    firsts = [start, start + len(WORDS[0]) if running else start]
    return [[str(first + place) for place in range(len(words))] for first, words in zip(firsts, WORDS, strict=True)]


def constant(value):
    """Return a column with one value."""
    return [[value] * len(words) for words in WORDS]


def read(path, content, **options):
    """Return the words and labels of a file, which is both training and development set."""
    path.write_text(content, encoding="utf-8")
    files = {"train_file": str(path), "validation_file": str(path)}
    return words_and_labels(load_tagging_splits(TaggingArguments(**files, **options))["train"])


def no_form(path, content, **options):
    """Return the message of a refusal, which names a line of the file and the page."""
    message = refused(lambda: read(path, content, **options))
    assert FORMS_PAGE in message and f"{path}:" in message
    return message


def test_the_forms_of_the_page_are_read(tmp_path):
    page = (ROOT / "docs" / "data.md").read_text(encoding="utf-8").partition("\n## Tagging\n")[2].partition("\n## ")[0]
    examples = {}
    for name, content in re.findall(r"`([\w.]+)`:\n\n```\w+\n(.*?)```", page, re.DOTALL):
        options = {"word_column": "1", "label_column": "2"} if name == "germeval.tsv" else {}
        examples[name] = read(tmp_path / name, content, **options)
    first = (["Ann", "lives", "in", "New", "York"], ["B-PER", "O", "O", "B-LOC", "I-LOC"])
    assert examples.pop("germeval.tsv") == ([["Ann", "lebt", "in", "Rom"]], [["B-PER", "O", "O", "B-LOC"]])
    assert examples.pop("trees.conllu") == ([["Ann", "vive", "."]], [["PROPN", "VERB", "PUNCT"]])
    assert {*examples} == {"names.conll", "words.jsonl", "spans.jsonl"}
    assert all((words[0][:5], labels[0][:5]) == first for words, labels in examples.values())


# ---- columns


@parametrize(
    ("name", "content"),
    [
        ("conll2003.txt", "-DOCSTART- -X- O O\n\n" + lines(WORDS, constant("NNP"), constant("I-NP"), LABELS)),
        ("wnut.conll", lines(WORDS, LABELS)),
        ("commented.txt", lines(WORDS, LABELS, before="# text = {}\n#\n# two more")),
        ("crlf.txt", "\ufeff" + lines(WORDS, LABELS).replace("\n", "\r\n")),
        ("trailing.tsv", lines(WORDS, LABELS, constant(""))),
        ("bert.txt", lines(WORDS, LABELS, separator=" ").replace("\n\n", "\n \n")),
    ],
)
def test_columns_are_read_as_corpora_have_them(tmp_path, name, content):
    assert read(tmp_path / name, content) == (WORDS, LABELS)


def test_words_that_look_like_comments_or_numbers_are_words(tmp_path):
    words, labels = [["#", "love", "#x"], ["#y"], ["1", "2"]], [["O", "B-X", "O"], ["B-X"], ["O", "O"]]
    assert read(tmp_path / "a.txt", lines(words, labels)) == (words, labels)
    numbers, kinds = [["7"], ["4", "2"], ["1", "2"]], [["X"], ["Y", "X"], ["X", "X"]]
    assert read(tmp_path / "b.txt", lines(numbers, kinds)) == (numbers, kinds)
    spaced = [["New York", "is"], ["big"]]
    assert read(tmp_path / "c.txt", lines(spaced, [["B-LOC", "O"], ["O"]])) == (spaced, [["B-LOC", "O"], ["O"]])
    assert [row["tokens"] for _, row in rows_of_words(write(tmp_path / "d.conll", "# a comment\n#\n1\n"))] == [
        ["#", "1"]
    ]


def write(path, content):
    """Write a file; return its path."""
    path.write_text(content, encoding="utf-8")
    return str(path)


@parametrize("first", [counted(), counted(0, running=True), [["a-1"] * 4, ["a-2"] * 2], constant("NNP")])
def test_more_than_two_columns_are_numbered_by_the_user(tmp_path, first):
    content = lines(first, WORDS, LABELS, before="#\thttp://a.b/{} [2009-10-17]")
    for options in ({}, {"word_column": "1"}, {"label_column": "2"}):
        message = no_form(tmp_path / "a.tsv", content, **options)
        assert "a.tsv:2 has 3 columns" in message and "--word_column" in message and "--label_column" in message
    assert read(tmp_path / "a.tsv", content, word_column="1", label_column="2") == (WORDS, LABELS)
    assert "3 columns" in refused(lambda: rows_of_words(str(tmp_path / "a.tsv")))
    assert [row["tokens"] for _, row in rows_of_words(str(tmp_path / "a.tsv"), "1")] == WORDS


def test_germeval_needs_the_columns_of_its_outer_entities(tmp_path):
    outer, inner = LABELS, [["O", "O", "B-LOCderiv", "O"], ["O", "O"]]
    content = lines(counted(), WORDS, outer, inner, before="#\thttp://a.b/{} [2009-10-17]")
    for options in ({}, {"word_column": "1"}):
        assert "4 columns" in no_form(tmp_path / "a.tsv", content, **options)
    assert read(tmp_path / "a.tsv", content, word_column="1", label_column="2") == (WORDS, outer)


def test_words_behind_their_parts_of_speech_are_refused(tmp_path):
    tags = [["NNP", "VBD", "NNP", "NNP"], ["PRP", "VBD"]]
    assert "6 labels" in no_form(tmp_path / "a.txt", lines(tags, WORDS))
    assert read(tmp_path / "a.txt", lines(tags, WORDS), word_column="1", label_column="0") == (WORDS, tags)


@parametrize(
    ("content", "line", "named"),
    [
        (lines(LABELS, WORDS), 1, "--label_column"),
        ("Ann\tB-PER\n\n\tO\n", 3, "column 0"),
        ("Ann\tX\tB-PER\nleft\t\tO\n", 2, "no label in column 1"),
        ("Ann\tB-PER\nleft\t\n", 2, "1 columns"),
        ("Ann\tNNP B-PER\nleft\tVB O\n", 1, "'NNP B-PER'"),
        ("#begin document (bn/a); part 000\nbn/a 0 0 Ann NN (PERSON)\n", 2, "columns"),
        ("#FORMAT=WebAnno TSV 3.3\n\n#Text=Ann\n1-1\t0-3\tAnn\tPER\n", 4, "columns"),
        ("T1\tPER 0 3\tAnn\n", 1, "3 columns"),
        ("Ann saw New York.\nShe left.\n", 2, "2 columns"),
        ("Ann\nsaw\n", 1, "--label_column"),
    ],
)
def test_other_columns_are_refused_with_their_line(tmp_path, content, line, named):
    options = {"word_column": "0", "label_column": "1"} if "label in" in named else {}
    message = no_form(tmp_path / "a.txt", content, **options)
    assert f"a.txt:{line} " in message and named in message


def test_the_columns_may_be_numbered_from_either_end(tmp_path):
    content = lines(LABELS, constant("X"), WORDS)
    for word, label in (("2", "0"), ("-1", "-3")):
        assert read(tmp_path / "a.txt", content, word_column=word, label_column=label) == (WORDS, LABELS)
    for options in ({"word_column": "word"}, {"label_column": "tags"}):
        message = refused(lambda options=options: read(tmp_path / "a.txt", content, **options))
        assert "counted from 0" in message and " ".join(options.values()) in message


def test_a_file_without_blank_lines_is_noticed(tmp_path, caplog):
    read(tmp_path / "a.txt", "Ann B-PER\nleft O\n" * 600)
    assert "line 1 has 1200 words" in caplog.text


# ---- CoNLL-U


def test_conllu_is_read_by_form_and_upos(tmp_path):
    kinds = [["VERB", *["NOUN"] * (len(words) - 1)] for words in WORDS]
    unread_columns = [constant("_")] * 6
    content = lines(counted(), WORDS, WORDS, kinds, *unread_columns, before="# sent_id = {}")
    content = content.replace("1\tAnn", "1-2\tAnnsaw" + "\t_" * 8 + "\n1\tAnn").replace("# sent_id = 1", "#x")
    content += "8.1\tx" + "\t_" * 8 + "\n"
    assert read(tmp_path / "a.conllu", content) == (WORDS, kinds)
    assert read(tmp_path / "a.conllu", content, label_column="2")[1] == WORDS
    rows = rows_of_words(str(tmp_path / "a.conllu"))
    assert [row for _, row in rows] == [{"tokens": words} for words in WORDS]
    (tmp_path / "a.conllu.gz").write_bytes(gzip.compress(UNIVERSAL.encode()))
    arguments = TaggingArguments(test_file=str(tmp_path / "a.conllu.gz"), label_column="7")
    # A space is part of a word.
    assert words_and_labels(load_tagging_splits(arguments)["test"]) == ([["1 000"]], [["root"]])
    assert ":1 begins with 'ID'" in no_form(tmp_path / "b.conllu", "ID\tFORM\n" + content)
    renamed = content.replace("#x", "# x")
    assert "--word_column" in no_form(tmp_path / "c.conll", renamed)


def test_new_words_are_read_as_those_of_training(tmp_path):
    columns = write(tmp_path / "new.tsv", lines(WORDS, LABELS))
    assert [row["tokens"] for _, row in rows_of_words(columns)] == WORDS
    assert rows_of_words(write(tmp_path / "table.tsv", "text\tid\nAnn left.\t1\n")) is None
    assert rows_of_words(write(tmp_path / "table.csv", "text\nAnn left.\n")) is None
    with raises(UserError, match=r"new\.txt .*\.conll"):
        rows_of_words(write(tmp_path / "new.txt", lines(WORDS, LABELS)))


# ---- rows


def as_lines(*rows):
    """Return rows as JSON lines."""
    return "".join(json.dumps(row) + "\n" for row in rows)


@parametrize(
    "row",
    [
        {"text": TEXT, "spans": SPANS},
        {"text": TEXT, "entities": SPANS, "id": 4},
        {"text": TEXT, "spans": [{**span, "token_start": 0} for span in SPAN_OBJECTS]},
        {"text": TEXT, "entities": [{**span, "text": TEXT[span["start"] : span["end"]]} for span in SPAN_OBJECTS]},
    ],
)
def test_spans_are_lists_or_objects(tmp_path, row):
    words, labels = read(tmp_path / "a.jsonl", as_lines(row, row))
    assert words == [["Ann", "saw", "New", "York", "."]] * 2
    assert labels == [["B-PER", "O", "B-LOC", "I-LOC", "O"]] * 2


def test_label_column_chooses_the_column_of_spans(tmp_path):
    content = as_lines({"text": TEXT, "label": SPANS, "spans": SPANS[:1]})
    assert read(tmp_path / "a.jsonl", content)[1] == [["B-PER", *["O"] * 4]]
    assert read(tmp_path / "a.jsonl", content, label_column="label")[1] == [["B-PER", "O", "B-LOC", "I-LOC", "O"]]
    both = as_lines({"text": TEXT, "entities": SPANS, "spans": []})
    assert "--label_column" in refused(lambda: read(tmp_path / "a.jsonl", both))


@parametrize(
    ("row", "named"),
    [
        ({"text": TEXT, "label": "pos"}, "text, label"),
        ({"text": TEXT, "label": SPANS}, "--label_column"),
        ({"text": TEXT, "spans": [["PER", 0, 3]]}, "['PER', 0, 3]"),
        ({"text": TEXT, "spans": [[0, 3, " "]]}, "[0, 3, ' ']"),
        ({"text": TEXT, "entities": [{"label": "PER", "start_offset": 0, "end_offset": 3}]}, "start_offset"),
        ({"text": TEXT, "entities": {"start": [0], "end": [3], "label": ["PER"]}}, "'start': [0]"),
        ({"text": TEXT, "spans": [], "_task_hash": 1, "answer": "ignore"}, "answer 'ignore'"),
        ({"data": {"text": TEXT}, "annotations": [{"result": []}]}, "data, annotations"),
        ({"tokens": [{"text": "Ann", "start": 0}], "text": "Ann", "spans": []}, "for its words"),
        ({"tokens": ["Ann", None], "tags": ["O", "O"]}, "for its words"),
        ({"tokens": ["Ann", 2.50], "tags": ["O", "O"]}, "for its words"),
        ({"tokens": "Ann left", "tags": "O O"}, "'Ann left'"),
        ({"text": "Ann left", "tags": "O O"}, "no labels of its words"),
        ({"sentence_id": 1, "word": "Ann", "tag": "O"}, "sentence_id, word, tag"),
    ],
)
def test_rows_of_other_forms_are_refused_with_the_page(tmp_path, row, named):
    message = no_form(tmp_path / "a.jsonl", as_lines(row))
    assert named in message and "a.jsonl:1 " in message


def test_white_space_is_no_part_of_a_label(tmp_path):
    row = {"tokens": WORDS[0], "tags": [f" {label} " for label in LABELS[0]]}
    assert read(tmp_path / "a.jsonl", json.dumps(row)) == ([WORDS[0]], [LABELS[0]])
    row["tags"][1] = " "
    assert "a.jsonl:1 " in refused(lambda: read(tmp_path / "a.jsonl", json.dumps(row)))


def test_a_damaged_file_of_columns_is_refused(tmp_path):
    path = tmp_path / "a.conll.gz"
    path.write_bytes(gzip.compress(lines(WORDS, LABELS).encode())[:-9])
    arguments = TaggingArguments(train_file=str(path))
    assert "a.conll.gz" in refused(lambda: load_tagging_splits(arguments))


def test_spans_inside_words_are_said_with_their_place(tmp_path, caplog):
    read(tmp_path / "a.jsonl", as_lines({"text": TEXT, "spans": SPANS}, {"text": TEXT, "spans": [[0, 2, "X"]]}))
    assert "1 of 2 texts" in caplog.text and "a.jsonl:2" in caplog.text


def test_emoji_are_words_with_all_their_parts(tmp_path, caplog):
    emoji = ["\u2764\ufe0f", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f44d\U0001f3fd", "1\ufe0f\u20e3"]
    for symbol in [*emoji, "\U0001f1e9\U0001f1ea", "\U0001f3f4\U000e0067\U000e007f", "\u203c\ufe0f", "!\u0301"]:
        text = f"Hi{symbol}Kyoto {symbol}" if symbol[0] != "1" else f"Hi {symbol} Kyoto {symbol}"
        start = text.index("Kyoto")
        spans = [[start, start + 5, "LOC"], [start + 6, start + 6 + len(symbol), "X"]]
        words, labels = read(tmp_path / "a.jsonl", as_lines({"text": text, "spans": spans}))
        assert (words, labels) == ([["Hi", symbol, "Kyoto", symbol]], [["O", "O", "B-LOC", "B-X"]])
    assert "inside" not in caplog.text


# ---- tables


def test_lists_in_the_cells_of_a_table_are_json(tmp_path):
    rows = [
        {"tokens": json.dumps(words), "ner_tags": json.dumps(tags)} for words, tags in zip(WORDS, LABELS, strict=True)
    ]
    for name, separator in (("a.csv", ","), ("a.tsv", "\t")):
        content = pd.DataFrame(rows).to_csv(index=False, sep=separator)
        assert is_table(write(tmp_path / name, content))
        assert read(tmp_path / name, content) == (WORDS, LABELS)
    spans = pd.DataFrame([{"text": TEXT, "spans": json.dumps(SPANS)}]).to_csv(index=False)
    assert read(tmp_path / "b.csv", spans)[1] == [["B-PER", "O", "B-LOC", "I-LOC", "O"]]


@parametrize(
    "row",
    [
        {"words": "Ann left", "labels": "B-PER O"},
        {"text": "Ann left", "tags": "B-PER O"},
        {"Sentence #": "1", "Word": "Ann", "Tag": "O"},
    ],
)
def test_other_tables_are_refused_with_the_page(tmp_path, row):
    assert "a.csv:2 " in no_form(tmp_path / "a.csv", pd.DataFrame([row]).to_csv(index=False))


def test_a_tsv_of_words_is_no_table(tmp_path):
    assert not is_table(write(tmp_path / "a.tsv", "Ann\tB-PER\n\ntext\tO\n"))
    assert not is_table(write(tmp_path / "a.tsv", ""))
    assert "3 columns" in no_form(tmp_path / "a.tsv", "Sentence #\tWord\tTag\n1\tAnn\tO\n1\tleft\tO\n")


def test_parquet_of_a_data_set_has_names_of_tags(tmp_path):
    names = datasets.ClassLabel(names=["O", "B-PER", "B-LOC", "I-LOC"])
    features = datasets.Features({"tokens": datasets.List(datasets.Value("string")), "ner_tags": datasets.List(names)})
    table = datasets.Dataset.from_dict({"tokens": WORDS, "ner_tags": LABELS}, features)
    table.to_parquet(tmp_path / "a.parquet")
    sentences = load_tagging_splits(TaggingArguments(test_file=str(tmp_path / "a.parquet")))["test"]
    assert words_and_labels(sentences) == (WORDS, LABELS)


def test_the_column_of_words_has_no_number_in_rows(tmp_path, caplog):
    read(tmp_path / "a.jsonl", as_lines({"tokens": ["Ann", "left"], "tags": ["B-PER", "O"]}), word_column="1")
    assert "--word_column 1 has no effect" in caplog.text


# ---- texts without spaces


def test_that_texts_without_spaces_are_cut_is_said_once(caplog):
    say_that_texts_are_cut.cache_clear()
    parse_tagging_row("text", {"text": "Ann left."}, "a:1")
    assert not caplog.text
    for place in ("a:2", "a:3"):
        parse_tagging_row("text", {"text": "ฉันกินข้าว"}, place)
    assert caplog.text.count("are cut") == 1
