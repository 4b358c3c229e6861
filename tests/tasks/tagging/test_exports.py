"""Sentences as corpora and annotation tools export them: columns that count, comments, headers, spans, tables."""

import gzip
import json
import logging

import datasets
import pandas as pd

from electra.tasks.tagging.data import TaggingArguments, is_table, load_tagging_splits
from electra.tasks.tagging.task import parse_tagging_row, rows_of_words
from tests.conftest import refused
from tests.helpers import parametrize

WORDS = [["Ann", "saw", "New", "York"], ["She", "left"]]
LABELS = [["B-PER", "O", "B-LOC", "I-LOC"], ["O", "O"]]
TEXT = "Ann saw New York."
SPANS = [(0, 3, "PER"), (8, 16, "LOC")]


def lines(*columns, separator="\t", before=None, start=1):
    """A file of columns; `before` is a line above each sentence."""
    content = []
    for number, sentence in enumerate(zip(*columns, strict=True)):
        content += [before.format(number)] if before else []
        content += [separator.join(cells) for cells in zip(*sentence, strict=True)]
        content.append("")
    return "\n".join(content) + "\n"


def counted(start=1, *, running=False):
    firsts = [start, start + len(WORDS[0]) if running else start]
    return [[str(first + n) for n in range(len(words))] for first, words in zip(firsts, WORDS, strict=True)]


def constant(value):
    return [[value] * len(words) for words in WORDS]


def read(path, content, **options):
    path.write_text(content, encoding="utf-8")
    found = load_tagging_splits(TaggingArguments(train_file=str(path), **options))["train"]
    return found.words, found.labels


@parametrize(
    ("name", "content"),
    [
        ("germeval.tsv", lines(counted(), WORDS, LABELS, before="#\thttp://a.b/{} [2009-10-17]")),
        ("running.txt", lines(counted(0, running=True), WORDS, LABELS)),
        ("gaps.tsv", lines([["3", "5", "6", "9"], ["1", "8"]], WORDS, LABELS)),
        ("from_zero.conll", lines(counted(0), WORDS, LABELS, separator=" ")),
        (
            "multiconer.conll",
            lines(WORDS, constant("_"), constant("_"), LABELS, separator=" ", before="# id 0{} x=dev"),
        ),
        ("wnut.conll", lines(WORDS, LABELS)),
        ("header.tsv", "token\tner\n" + lines(WORDS, LABELS)),
        ("header_gap.txt", "Word POS Tag\n\n" + lines(WORDS, constant("X"), LABELS, separator=" ")),
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
    assert read(tmp_path / "b.txt", lines([["1"], ["2", "4"]], [["X"], ["Y", "X"]])) == (
        [["1"], ["2", "4"]],
        [["X"], ["Y", "X"]],
    )
    spaced = [["New York", "is"], ["big"]]
    assert read(tmp_path / "c.txt", lines(spaced, [["B-LOC", "O"], ["O"]])) == (spaced, [["B-LOC", "O"], ["O"]])


def test_labels_before_the_words_are_refused_with_the_options(tmp_path):
    content = lines(LABELS, WORDS)
    said = refused(lambda: read(tmp_path / "a.txt", content))
    assert "--word_column" in said and "--label_column 0" in said
    assert read(tmp_path / "a.txt", content, word_column="1", label_column="0") == (WORDS, LABELS)


def test_a_file_without_blank_lines_is_noticed(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("electra"), "propagate", True)
    read(tmp_path / "a.txt", "Ann B-PER\nleft O\n" * 600)
    assert "line 1 has 1200 words" in caplog.text


def test_compressed_conllu_has_names_of_columns(tmp_path):
    path = tmp_path / "a.conllu.gz"
    path.write_bytes(gzip.compress(b"1\tdogs\tdog\tNOUN\tNNS\t_\t0\troot\t_\t_\n\n" * 2))
    found = load_tagging_splits(TaggingArguments(train_file=str(path), label_column="deprel"))["train"]
    assert (found.words[0], found.labels[0]) == (["dogs"], ["root"])


def test_columns_may_be_chosen_by_number_and_by_name(tmp_path):
    content = "pos\tword\tner\n" + lines(constant("X"), WORDS, LABELS)
    assert read(tmp_path / "a.txt", content) == (WORDS, LABELS)
    assert read(tmp_path / "a.txt", content, label_column="pos")[1] == constant("X")
    plain = lines(constant("X"), WORDS, LABELS)
    assert read(tmp_path / "b.txt", plain, word_column="1", label_column="2") == (WORDS, LABELS)
    assert "'word' must be" not in refused(lambda: read(tmp_path / "b.txt", plain, word_column="word"))


def test_columns_of_nested_entities_must_be_chosen(tmp_path):
    outer, inner = LABELS, [["O", "O", "B-LOC", "O"], ["O", "O"]]
    for nested in (inner, constant("O")):
        content = lines(counted(), WORDS, outer, nested)
        assert "--label_column 2" in refused(lambda content=content: read(tmp_path / "a.tsv", content))
        assert read(tmp_path / "a.tsv", content, label_column="2") == (WORDS, outer)
    chunks = [["B-NP", "B-VP", "B-NP", "I-NP"], ["B-NP", "B-VP"]]
    assert read(tmp_path / "b.txt", lines(WORDS, chunks, LABELS)) == (WORDS, LABELS)


def test_conll_2009_has_more_columns_where_there_are_more_predicates(tmp_path):
    tail = [["_ _"] * 4, ["_"] * 2]
    content = lines(counted(), WORDS, constant("lemma"), constant("NN"), tail, separator=" ")
    assert read(tmp_path / "a.txt", content, label_column="3") == (WORDS, constant("NN"))
    said = refused(lambda: read(tmp_path / "a.txt", content))
    assert "line 6 has 5 columns" in said and "--label_column from the front" in said


def test_conllu_under_other_names_and_with_names_of_columns(tmp_path):
    rest = [constant("_")] * 6
    universal = lines(counted(), WORDS, WORDS, constant("NOUN"), *rest, before="# sent_id = {}")
    universal = universal.replace("1\tAnn", "1-2\tAnnsaw" + "\t_" * 8 + "\n1\tAnn")
    assert read(tmp_path / "a.conllu", universal) == (WORDS, constant("NOUN"))
    assert read(tmp_path / "b.conll", universal) == (WORDS, constant("NOUN"))
    plus = "# global.columns = ID FORM UPOS MY:NER\n" + lines(
        counted(), WORDS, constant("X"), LABELS, before="# a = {}"
    )
    assert read(tmp_path / "a.conllup", plus) == (WORDS, LABELS)
    assert read(tmp_path / "a.conllup", plus, label_column="UPOS") == (WORDS, constant("X"))
    assert [row.columns for row in rows_of_words(str(tmp_path / "a.conllu"))] == [{"tokens": words} for words in WORDS]


def ontonotes(*, with_predicates=False):
    """Sentences in the columns of CoNLL-2012; a predicate adds a column to its sentence."""
    brackets = [["(PERSON)", "*", "(GPE*", "*)"], ["*", "(X*)"]]
    content = ["#begin document (bn/a); part 000"]
    for number, words in enumerate(WORDS):
        for place, word in enumerate(words):
            cells = ["bn/a", "0", str(place), word, "NN", "(TOP(S*", "-", "-", "-", "-", brackets[number][place]]
            cells += ["(V*)"] * (number if with_predicates else 0)
            content.append("   ".join([*cells, "-"]))
        content.append("")
    return "\n".join([*content, "#end document", "#begin document (bn/a); part 001", *content[1:], "#end document"])


@parametrize("with_predicates", [True, False])
def test_ontonotes_has_its_words_and_entities(tmp_path, with_predicates):
    content = ontonotes(with_predicates=with_predicates)
    labels = [["B-PERSON", "O", "B-GPE", "I-GPE"], ["O", "B-X"]]
    assert read(tmp_path / "a.gold_conll", content) == (WORDS * 2, labels * 2)
    assert read(tmp_path / "a.v4_gold_conll", content, label_column="4") == (WORDS * 2, constant("NN") * 2)


def test_labels_with_brackets_are_spans(tmp_path):
    brackets = [["(A0*", "*", "*)", "*"], ["(V*)", "(A1)"]]
    assert read(tmp_path / "a.txt", lines(WORDS, brackets)) == (
        WORDS,
        [["B-A0", "I-A0", "I-A0", "O"], ["B-V", "B-A1"]],
    )
    nested = [["(A0*", "(A1)", "*)", "*"], ["*", "*"]]
    assert "inside another" in refused(lambda: read(tmp_path / "a.txt", lines(WORDS, nested)))


@parametrize("separator", ["\u2013", "\u2212", "/", ":", "_"])
def test_prefixes_have_any_separator(tmp_path, separator):
    spelt = [[label.replace("-", separator) for label in labels] for labels in LABELS]
    assert read(tmp_path / "a.txt", lines(WORDS, spelt)) == (WORDS, LABELS)
    behind = [[separator.join(label.split("-")[::-1]) for label in labels] for labels in LABELS]
    assert read(tmp_path / "a.txt", lines(WORDS, behind)) == (WORDS, LABELS)


def test_types_that_differ_in_case_are_named(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("electra"), "propagate", True)
    mixed = [LABELS[0], ["B-Loc", "O"]]
    assert read(tmp_path / "a.txt", lines(WORDS, mixed)) == (WORDS, mixed)
    assert "B-LOC, B-Loc" in caplog.text


def test_conllu_with_spaces_in_place_of_tabs(tmp_path):
    rest = [constant("_")] * 6
    content = lines(counted(), WORDS, WORDS, constant("NOUN"), *rest, separator=" ", before="# sent_id = {}")
    assert read(tmp_path / "a.conllu", content) == (WORDS, constant("NOUN"))


@parametrize(
    ("name", "content", "named"),
    [
        ("a.tsv", "#FORMAT=WebAnno TSV 3.3\n\n#Text=Ann\n1-1\t0-3\tAnn\tPER\n", "CoNLL"),
        ("a.ann", "T1\tPER 0 3\tAnn\n", "entities: [[start, end, label], ...]"),
        ("a.txt", "Ann\tO\n\n\tO\n", "line 3"),
        ("a.xlsx", "PK", "must be one of .csv"),
    ],
)
def test_other_exports_are_refused_with_what_is_read(tmp_path, name, content, named):
    assert named in refused(lambda: read(tmp_path / name, content))


# ---- texts with spans


def as_lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


@parametrize(
    "row",
    [
        {"text": TEXT, "label": SPANS},
        {"id": 4, "data": TEXT, "label": SPANS, "Comments": []},
        {"text": TEXT, "labels": SPANS},
        {"text": TEXT, "entities": [{"id": 1, "label": c, "start_offset": a, "end_offset": b} for a, b, c in SPANS]},
        {"text": TEXT, "entities": [{"start": a, "end": b, "label": c} for a, b, c in SPANS], "relations": []},
        {"text": TEXT, "spans": [{"start": a, "end": b, "type": c, "text": TEXT[a:b]} for a, b, c in SPANS]},
        {"text": TEXT, "label": [{"start": a, "end": b, "labels": [c]} for a, b, c in SPANS]},
        {
            "text": TEXT,
            "tokens": [{"text": "Ann", "start": 0, "end": 3, "id": 0}],
            "spans": [{"start": a, "end": b, "label": c, "token_start": 0} for a, b, c in SPANS],
            "_task_hash": 1,
            "answer": "accept",
        },
        {
            "data": {"text": TEXT},
            "annotations": [
                {"result": [{"type": "labels", "value": {"start": a, "end": b, "labels": [c]}} for a, b, c in SPANS]}
            ],
        },
        {
            "data": {"text": TEXT},
            "annotations": [
                {"was_cancelled": True, "result": []},
                {"result": [{"type": "labels", "value": {"start": a, "end": b, "labels": [c]}} for a, b, c in SPANS]},
            ],
        },
        {"text": TEXT, "entities": {"start": [0, 8], "end": [3, 16], "type": ["PER", "LOC"]}},
        [TEXT, {"entities": SPANS}],
    ],
)
def test_spans_are_read_as_annotation_tools_write_them(tmp_path, row):
    words, labels = read(tmp_path / "a.jsonl", as_lines(row, row))
    assert words == [["Ann", "saw", "New", "York", "."]] * 2
    assert labels == [["B-PER", "O", "B-LOC", "I-LOC", "O"]] * 2


@parametrize(
    ("row", "named"),
    [
        ({"text": TEXT, "label": "pos"}, "entities: [[start, end, label], ...]"),
        ({"text": TEXT, "label": [["PER", 0, 3]]}, "is not [start, end, label]"),
        ({"text": TEXT, "spans": [{"start": 1, "end": 4, "label": "PER", "text": "Ann"}]}, "count characters"),
        ({"text": TEXT, "spans": [], "_task_hash": 1, "answer": "ignore"}, "answer 'ignore'"),
        ({"data": {"text": TEXT}, "annotations": [{"result": []}, {"result": []}]}, "2 annotations"),
        ({"text": TEXT, "spans": [], "answer": "reject"}, "answer 'reject'"),
        ({"data": {"text": TEXT}, "annotations": [{"was_cancelled": True, "result": []}]}, "skipped"),
        ({"tokens": ["Ann", None], "tags": ["O", "O"]}, "for its words"),
        ({"tokens": ["Ann"], "tags": [3]}, "labels without a name"),
        ({"text": "Ann left", "tags": "O O O"}, "2 words and 3 labels"),
    ],
)
def test_rows_that_cannot_be_read_are_refused(tmp_path, row, named):
    assert named in refused(lambda: read(tmp_path / "a.jsonl", as_lines(row)))


@parametrize("rows", [[[TEXT, {"entities": SPANS}], ["No name", {"entities": []}]]])
def test_examples_of_spacy_in_an_array(tmp_path, rows):
    for content in (json.dumps(rows), json.dumps({"classes": ["PER"], "annotations": rows})):
        words, labels = read(tmp_path / "a.json", content)
        assert words[1] == ["No", "name"] and labels[0] == ["B-PER", "O", "B-LOC", "I-LOC", "O"]


def test_spans_inside_words_are_said_with_their_place(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("electra"), "propagate", True)
    read(tmp_path / "a.jsonl", as_lines({"text": TEXT, "entities": SPANS}, {"text": TEXT, "entities": [[0, 2, "X"]]}))
    assert "1 of 2 texts" in caplog.text and "a.jsonl:2" in caplog.text


# ---- tables


def table(first_only):
    rows = []
    for number, (words, labels) in enumerate(zip(WORDS, LABELS, strict=True)):
        for place, (word, label) in enumerate(zip(words, labels, strict=True)):
            sentence = f"Sentence: {number}" if place == 0 or not first_only else None
            rows.append({"Sentence #": sentence, "Word": word, "POS": "NN", "Tag": label})
    return pd.DataFrame(rows)


@parametrize("first_only", [True, False])
@parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.csv.gz"])
def test_tables_with_a_word_in_each_row(tmp_path, name, first_only):
    if name == "a.jsonl":
        table(first_only).to_json(tmp_path / name, orient="records", lines=True)
    else:
        table(first_only).to_csv(tmp_path / name, index=False, sep="\t" if ".tsv" in name else ",")
    assert is_table(str(tmp_path / name))
    found = load_tagging_splits(TaggingArguments(train_file=str(tmp_path / name)))["train"]
    assert (found.words, found.labels) == (WORDS, LABELS)


def test_tables_of_words_need_a_number_of_the_sentence(tmp_path):
    content = table(False).drop(columns="Sentence #").to_csv(index=False)
    assert "sentence_id" in refused(lambda: read(tmp_path / "a.csv", content))
    mixed = pd.concat([table(False), table(False).head(1)]).to_csv(index=False)
    assert "sort the rows" in refused(lambda: read(tmp_path / "a.csv", mixed))


@parametrize(
    "row",
    [
        {"tokens": str(WORDS[0]), "ner_tags": str(LABELS[0])},
        {"tokens": json.dumps(WORDS[0]), "tags": json.dumps(LABELS[0])},
        {"words": " ".join(WORDS[0]), "labels": " ".join(LABELS[0])},
        {"text": " ".join(WORDS[0]), "tags": " ".join(LABELS[0])},
        {"text": " ".join(WORDS[0]), "entities": str([[0, 3, "PER"], [8, 16, "LOC"]])},
    ],
)
def test_lists_in_the_cells_of_a_table(tmp_path, row):
    content = pd.DataFrame([row]).to_csv(index=False)
    assert read(tmp_path / "a.csv", content) == (WORDS[:1], LABELS[:1])


def test_parquet_of_a_data_set_has_names_of_tags(tmp_path):
    names = datasets.ClassLabel(names=["O", "B-PER", "B-LOC", "I-LOC"])
    features = datasets.Features({"tokens": datasets.List(datasets.Value("string")), "ner_tags": datasets.List(names)})
    table = datasets.Dataset.from_dict({"tokens": WORDS, "ner_tags": LABELS}, features)
    table.to_parquet(tmp_path / "a.parquet")
    found = load_tagging_splits(TaggingArguments(train_file=str(tmp_path / "a.parquet")))["train"]
    assert (found.words, found.labels) == (WORDS, LABELS)


# ---- texts without spaces


def test_a_tagger_of_words_says_that_a_text_is_cut(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("electra"), "propagate", True)
    row = {"text": "ฉันกินข้าว"}
    parse_tagging_row("text", row, "a:1")
    assert not caplog.text
    for place in ("a:1", "a:2"):
        parse_tagging_row("text", row, place, cuts=False)
    assert "a:1, are cut" in caplog.text and "a:2" not in caplog.text
