"""The converter of other programs' annotations: one small input of each, the exact rows, and what is printed."""

import json
import re
import runpy

import pytest

from electra.tasks.tagging.data import TaggingArguments, load_tagging_splits
from tests.helpers import ROOT, parametrize
from tests.tasks.tagging.files import words_and_labels

TEXT = "Ann saw New York."
SPANS = [[0, 3, "PER"], [8, 16, "LOC"]]
WORDS = [["Ann", "saw", "New", "York"], ["She", "left"]]
TAGS = [["B-PER", "O", "B-LOC", "I-LOC"], ["O", "O"]]
ALLENAI = [{"text": "a cat", "label": "A"}, {"text": "a dog", "label": "B"}]
QUESTION = {"question": "What barks?", "choices": ["a cat", "a dog"], "label": 1}


@pytest.fixture(scope="module")
def main():
    """The `main` of the script, which is no module of a package."""
    return runpy.run_path(str(ROOT / "examples" / "convert_annotations.py"))["main"]


def write(path, content):
    """Write text, or rows as lines of JSON; return the path as text."""
    if not isinstance(content, str):
        content = "".join(json.dumps(row) + "\n" for row in content)
    path.parent.mkdir(exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return str(path)


@pytest.fixture
def convert(main, tmp_path, capsys):
    """A function (name, content) -> the converted rows, and what was printed."""

    def convert(name, content):
        assert main([write(tmp_path / name, content), str(tmp_path / "out.jsonl")]) == 0
        rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
        return rows, capsys.readouterr().out

    return convert


def columns(*parts, separator="\t"):
    """Sentences with a word in each line, beside it what the other parts say of it, and a blank line behind each."""
    sentences = zip(*parts, strict=True)
    return "\n".join(
        "\n".join(separator.join(cells) for cells in zip(*sentence, strict=True)) + "\n" for sentence in sentences
    )


def changed(pattern, new):
    """The labels, with a part of each replaced."""
    return [[re.sub(pattern, new, tag) for tag in tags] for tags in TAGS]


def label_studio(*results, **more):
    """A task of Label Studio with these results of an annotation."""
    return {"id": 1, "data": {"text": TEXT}, "annotations": [{"result": list(results), **more}]}


def labelled(start, end, label):
    """A span as a result of Label Studio."""
    return {
        "type": "labels",
        "from_name": "label",
        "value": {"start": start, "end": end, "text": TEXT[start:end], "labels": [label]},
    }


@parametrize(
    "row",
    [
        {"id": 1, "text": TEXT, "label": SPANS},
        {"id": 1, "data": TEXT, "label": SPANS, "Comments": []},
        {
            "text": TEXT,
            "entities": [
                {"id": 1, "label": label, "start_offset": start, "end_offset": end} for start, end, label in SPANS
            ],
            "relations": [],
        },
        {
            "text": TEXT,
            "tokens": [{"text": "Ann", "start": 0, "end": 3, "id": 0}],
            "spans": [{"start": start, "end": end, "label": label, "token_start": 0} for start, end, label in SPANS],
            "_task_hash": 1,
            "answer": "accept",
        },
        label_studio(*(labelled(*span) for span in SPANS), {"type": "relation", "from_id": "a", "to_id": "b"}),
        {"text": TEXT, "label": [labelled(*span)["value"] for span in SPANS], "annotator": 1, "lead_time": 2.0},
        {  # places in a longer text, of which this is a part
            "text": TEXT,
            "spans": [
                {"start": start + 5, "end": end + 5, "label": label, "text": TEXT[start:end]}
                for start, end, label in SPANS
            ],
        },
        {"text": TEXT, "label": [[8, 11, "X"], *SPANS]},  # inside a longer span
    ],
)
def test_spans_of_annotation_tools_become_texts_with_spans(convert, row):
    rows, output = convert("a.jsonl", [row, row])
    assert rows == [{"text": TEXT, "spans": SPANS}] * 2
    assert "texts with spans" in output and "PER 2" in output and "LOC 2" in output and TEXT in output


@parametrize(
    ("name", "content"),
    [
        ("a.json", json.dumps([label_studio(*(labelled(*span) for span in SPANS))], indent=1)),
        (
            "a.csv",
            f'id,text,label\n1,{TEXT},"{json.dumps(SPANS)}"\n'.replace('"PER"', '""PER""').replace('"LOC"', '""LOC""'),
        ),
    ],
)
def test_spans_in_an_array_and_in_a_table_become_texts_with_spans(convert, name, content):
    assert convert(name, content)[0] == [{"text": TEXT, "spans": SPANS}]


def test_brat_has_a_row_for_each_line_of_its_documents(convert, main, tmp_path):
    text = f"\n{TEXT}\nNo name here\n"
    notes = (
        "T1\tPER 1 4\tAnn\nT2\tLOC 9 17\tNew York\nR1\tin Arg1:T1 Arg2:T2\nT3\tX 1 4;6 8\tAnn w\nT4\tX 15 21\trk. No\n"
    )
    write(tmp_path / "brat" / "a.txt", text)
    rows, output = convert("brat/a.ann", notes)
    assert rows == [{"text": TEXT, "spans": SPANS}, {"text": "No name here", "spans": []}]
    assert "several parts" in output and "another line" in output
    assert main([str(tmp_path / "brat"), str(tmp_path / "folder.jsonl")]) == 0
    assert (tmp_path / "folder.jsonl").read_bytes() == (tmp_path / "out.jsonl").read_bytes()


def test_brat_spans_of_a_text_from_windows_cover_what_they_name(main, tmp_path):
    write(tmp_path / "a.ann", "T1\tPER 11 14\tAnn\nT2\tLOC 19 27\tNew York\n")  # CR LF are two characters
    (tmp_path / "a.txt").write_bytes(f"She left.\r\n{TEXT}\r\n".encode())
    assert main([str(tmp_path / "a.ann"), str(tmp_path / "out.jsonl")]) == 0
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert rows == [{"text": "She left.", "spans": []}, {"text": TEXT, "spans": SPANS}]


def test_brat_spans_of_another_text_are_refused(main, tmp_path, capsys):
    write(tmp_path / "a.ann", "T1\tPER 0 3\tAnn\n")
    write(tmp_path / "a.txt", f"Once {TEXT}")
    with pytest.raises(SystemExit):
        main([str(tmp_path / "a.ann"), str(tmp_path / "out.jsonl")])
    assert "'Ann'" in capsys.readouterr().err and not (tmp_path / "out.jsonl").exists()


WEBANNO = """#FORMAT=WebAnno TSV 3.3
#T_SP=de.tudarmstadt.ukp.dkpro.core.api.lexmorph.type.pos.POS|PosValue
#T_SP=de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity|identifier|value


#Text=Ann saw New York
1-1\t0-3\tAnn\tNN\t_\tPER\t
1-2\t4-7\tsaw\tVB\t_\t_\t
1-3\t8-11\tNew\tNN\t*[1]\tLOC[1]\t
1-4\t12-16\tYork\tNN\t*[1]\tLOC[1]|X[2]\t

#Text=She left
2-1\t17-20\tShe\tNN\t_\t_\t
2-2\t21-25\tleft\tVB\t_\t_\t
"""


def ontonotes():
    """The sentences as a file of OntoNotes; the second has a verb, whose column makes its lines longer."""
    brackets = [["(PER)", "*", "(LOC*", "*)"], ["*", "*"]]
    content = ["#begin document (bn/a); part 000"]
    for number, words in enumerate(WORDS):
        for place, word in enumerate(words):
            cells = ["bn/a", "0", str(place), word, "NN", "(TOP(S*", "-", "-", "-", "-", brackets[number][place]]
            content.append("   ".join([*cells, *["(V*)"] * number, "-"]))
        content.append("")
    return "\n".join([*content, "#end document"])


@parametrize(
    ("name", "content"),
    [
        ("a.tsv", WEBANNO),
        ("a.gold_conll", ontonotes()),
        ("bio.txt", "-DOCSTART- -X- O\n\n# id 1\n" + columns(WORDS, changed("-", "_"))),
        ("behind.txt", columns(WORDS, [["-".join(tag.split("-")[::-1]) for tag in tags] for tags in TAGS])),
        ("zero.txt", columns(WORDS, changed("O$", "0"))),
        ("bmes.txt", columns(WORDS, [["B-PER", "O", "B-LOC", "M-LOC"], ["O", "O"]])),
        ("rows.jsonl", [{"tokens": words, "ner_tags": tags}
                        for words, tags in zip(WORDS, changed("-", "_"), strict=True)]),
    ],
)  # fmt: skip
def test_words_of_corpora_and_tools_become_rows_that_tag_reads(convert, tmp_path, name, content):
    rows, output = convert(name, content)
    assert rows == [{"tokens": words, "tags": tags} for words, tags in zip(WORDS, TAGS, strict=True)]
    assert "2 rows" in output and "PER 1" in output
    split = load_tagging_splits(TaggingArguments(test_file=str(tmp_path / "out.jsonl")))["test"]
    assert words_and_labels(split) == (WORDS, TAGS)


def test_columns_have_numbers_and_a_word_may_look_like_a_comment(main, tmp_path):
    content = "# a tweet\n1 # B_TAG O\n2 Rome I_TAG O\n\n# id 7\n# x B_TAG O\n"
    path = write(tmp_path / "a.txt", content)
    out = tmp_path / "out.jsonl"
    assert main([path, str(out), "--word_column", "1", "--label_column", "2"]) == 0
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert rows == [
        {"tokens": ["#", "Rome"], "tags": ["B-TAG", "I-TAG"]},
        {"tokens": ["x"], "tags": ["B-TAG"]},
    ]


@parametrize(
    ("row", "label"),
    [
        ({"id": 1, "text": "good", "label": ["pos"]}, "pos"),
        ({"text": "good", "label": ["pos", "new"]}, ["pos", "new"]),
        ({"text": "good", "label": "pos", "_task_hash": 1, "answer": "accept"}, "pos"),
        (
            {"text": "good", "options": [{"id": 1, "text": "pos"}, {"id": 2, "text": "neg"}], "accept": [1]},
            "pos",
        ),
        (
            {
                "data": {"text": "good"},
                "annotations": [{"result": [{"type": "choices", "from_name": "s", "value": {"choices": ["pos"]}}]}],
            },
            "pos",
        ),
        ({"text": "good", "mood": "pos", "id": 3, "annotator": 1, "lead_time": 3.2}, "pos"),
        ({"text": "good", "label": {"choices": ["pos", "new"]}, "lead_time": 3.2}, ["pos", "new"]),
    ],
)  # fmt: skip
def test_classes_of_annotation_tools_become_texts_with_labels(convert, row, label):
    rows, output = convert("a.jsonl", [row] * 3)
    assert rows == [{"text": "good", "label": label}] * 3
    assert "texts with classes" in output and "pos 3" in output


@parametrize(
    "row",
    [
        {"id": "Q", "question": {"stem": "What barks?", "choices": ALLENAI}, "answerKey": "B"},
        {"question": "What barks?", "choices": {"text": ["a cat", "a dog"], "label": ["1", "2"]}, "answerKey": "2"},
        {"question_stem": "What barks?", "choices": {"text": ["a cat", "a dog"], "label": [*"AB"]}, "answerKey": "B"},
        {"question": "What barks?", "choices": ["a cat", "a dog"], "subject": "x", "answer": 1},
        {"question": "What barks?", "A": "a cat", "B": "a dog", "answer": "B"},
        {"question": "What barks?", "a": "a cat", "b": "a dog", "answer": "b"},
        {"ctx": "What barks?", "endings": ["a cat", "a dog"], "label": "1"},
    ],
)  # fmt: skip
def test_questions_of_corpora_become_questions_with_choices(convert, row):
    rows, output = convert("a.jsonl", [row, row])
    assert rows == [QUESTION] * 2 and "questions with choices" in output


def test_questions_may_have_a_text_and_a_table_no_header(convert, main, tmp_path):
    race = {"article": "Dogs bark.", "questions": ["What barks?"], "options": [["a cat", "a dog"]], "answers": ["B"]}
    assert convert("a.json", json.dumps(race))[0] == [{**QUESTION, "context": "Dogs bark."}]
    path = write(tmp_path / "arc.csv", "What barks?,a cat,a dog,B\nWhat meows?,a cat,a dog,A\n")
    assert main([path, str(tmp_path / "b.jsonl")]) == 0
    rows = [json.loads(line) for line in (tmp_path / "b.jsonl").read_text().splitlines()]
    assert rows == [QUESTION, {**QUESTION, "question": "What meows?", "label": 0}]


def test_what_is_left_out_is_printed_with_its_place(convert):
    accepted = {"text": TEXT, "spans": SPANS, "_task_hash": 1, "answer": "accept"}
    others = [{**accepted, "answer": "ignore"}, {**accepted, "answer": "reject"}, {"title": "x"}]
    rows, output = convert("a.jsonl", [accepted, *others, {**accepted, "spans": [[0, 99, "X"]]}])
    assert rows == [{"text": TEXT, "spans": SPANS}, {"text": TEXT, "spans": []}]
    for reason, place in (
        ("'ignore'", "row 2"),
        ("'reject'", "row 3"),
        ("another form", "row 4"),
        ("inside the text", "row 5"),
    ):
        (line,) = [line for line in output.splitlines() if reason in line]
        assert f"a.jsonl {place}" in line and "(1, first" in line


def test_files_that_cannot_be_converted_are_refused_and_none_is_overwritten(main, tmp_path, capsys):
    for name, content in (
        ("a.txt", "Some more prose.\nIt is very short.\n"),
        ("a.jsonl", [{"x": 1}]),
        ("a.csv", "one\ntwo\n"),
        ("b.jsonl", ""),
    ):
        with pytest.raises(SystemExit) as ended:
            main([write(tmp_path / name, content), str(tmp_path / "out.jsonl")])
        assert ended.value.code == 2 and name in capsys.readouterr().err
        assert not (tmp_path / "out.jsonl").exists()
    path = write(tmp_path / "c.jsonl", [{"text": "good", "label": "pos"}])
    with pytest.raises(SystemExit):
        main([path, path])  # nothing is overwritten
    assert "good" in (tmp_path / "c.jsonl").read_text()
