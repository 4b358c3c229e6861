"""Rows of files: csv and tsv, JSON, parquet, workbooks; encodings and compression; what is refused, with its place."""

import bz2
import csv
import gzip
import json
import lzma
import os
import random
import sys
from types import SimpleNamespace

import datasets
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from electra.core.errors import UserError
from electra.data.readers import read_file
from electra.data.rows import open_table, read_rows
from tests.conftest import refused
from tests.data.workbooks import ods, xlsx
from tests.helpers import parametrize

ROWS = [{"text": "Es war, sagt man, gut", "label": "ja"}, {"text": "Nein", "label": "nein"}]


def rows_of(path, *args, **options):
    """The rows of a table, without their places."""
    return [row for _, row in read_rows(path, *args, **options)]


def write(path, content, encoding="utf-8"):
    """Write text or bytes; return the path."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    return path


@pytest.fixture(autouse=True)
def working_folder(tmp_path, monkeypatch):
    """A folder without other files, where `-` and relative names are looked up."""
    monkeypatch.chdir(tmp_path)


# ---- csv and tsv: what separates the cells


@parametrize(
    ("name", "content"),
    [
        ("a.csv", 'text,label\n"Es war, sagt man, gut",ja\nNein,nein\n'),
        ("a.csv", "text;label\nEs war, sagt man, gut;ja\nNein;nein\n"),
        ("a.csv", "text\tlabel\nEs war, sagt man, gut\tja\nNein\tnein\n"),
        ("a.csv", "text|label\nEs war, sagt man, gut|ja\nNein|nein\n"),
        ("a.tsv", "text\tlabel\nEs war, sagt man, gut\tja\nNein\tnein\n"),
        ("a.tsv", "text;label\nEs war, sagt man, gut;ja\nNein;nein\n"),
        ("a.tab", "text\tlabel\nEs war, sagt man, gut\tja\nNein\tnein\n"),
    ],
)
def test_the_name_or_the_first_line_says_what_separates_cells(tmp_path, name, content):
    assert rows_of(write(tmp_path / name, content)) == ROWS


def test_a_text_with_semicolons_stays_a_text(tmp_path):
    path = write(tmp_path / "a.csv", "text,label\none; two; three,a\nfour,b\n")
    assert rows_of(path)[0] == {"text": "one; two; three", "label": "a"}


def test_a_table_may_have_one_column(tmp_path):
    path = write(tmp_path / "a.csv", "text\nno delimiter; here\nanywhere\n")
    assert rows_of(path) == [{"text": "no delimiter; here"}, {"text": "anywhere"}]


def test_the_delimiter_of_the_user_is_taken(tmp_path):
    path = write(tmp_path / "a.csv", "text#label\nEs war, sagt man, gut#ja\nNein#nein\n")
    assert rows_of(path, "#") == ROWS
    assert rows_of(write(tmp_path / "b.csv", "text\tlabel\nx\ty\n"), "tab") == [{"text": "x", "label": "y"}]
    assert "--delimiter" in refused(lambda: rows_of(path, "##"))


@parametrize(
    ("name", "character"),
    [("tab", "\t"), ("TAB", "\t"), (r"\t", "\t"), ("space", " "), ("comma", ","), ("semicolon", ";")],
)
def test_delimiters_that_a_shell_reads_itself_have_names(tmp_path, name, character):
    path = write(tmp_path / "a.csv", f"text{character}label\none{character}1\n")
    assert rows_of(path, name) == [{"text": "one", "label": "1"}]


def test_a_first_line_with_two_other_delimiters_is_refused(tmp_path):
    path = write(tmp_path / "a.csv", "text; or so|label\na|b\n")
    message = refused(lambda: rows_of(path))
    assert "a.csv" in message and "--delimiter" in message and "docs/data.md" in message
    assert rows_of(path, "|") == [{"text; or so": "a", "label": "b"}]


# ---- rows and columns


@parametrize(
    ("content", "texts"),
    [
        ('text\na\n""\nb\n', ["a", "", "b"]),
        ("text,n\na,1\n,\nb,2\n", ["a", "", "b"]),
        ("text,n\na,1\n\n\r\nb,2\n", ["a", "b"]),
        ('text,n\na,1\n"",\nb,2\n\n', ["a", "", "b"]),
    ],
)
def test_only_a_blank_line_is_no_row(tmp_path, content, texts):
    path = write(tmp_path / "a.csv", content)
    assert [row["text"] for row in rows_of(path)] == texts
    assert [row["text"] for row in rows_of(path, skips_empty=True)] == [text for text in texts if text]


def test_a_row_has_the_place_of_its_first_line(tmp_path):
    path = write(tmp_path / "a.csv", '\ntext,n\n"a\nb",1\n\nc,2\n')
    assert [place for place, _ in read_rows(path)] == [f"{path}:3", f"{path}:6"]


def test_columns_without_a_name_are_left_out(tmp_path, caplog):
    path = write(tmp_path / "a.csv", "kind,message,,\nham,hello,,\nspam,win,,\n")
    assert rows_of(path) == [{"kind": "ham", "message": "hello"}, {"kind": "spam", "message": "win"}]
    assert not caplog.text
    write(path, "kind,message,,\nham,hello, you,\nspam,win,,\n")
    assert rows_of(path)[0] == {"kind": "ham", "message": "hello"}
    assert "1 rows have cells in columns without a name" in caplog.text


def test_the_index_of_pandas_is_a_column_without_a_name(tmp_path):
    pd.DataFrame({"kind": ["ham", "spam"]}).to_csv(tmp_path / "a.csv")
    assert rows_of(tmp_path / "a.csv") == [{"": "0", "kind": "ham"}, {"": "1", "kind": "spam"}]


def test_characters_without_width_are_no_part_of_a_name(tmp_path):
    path = write(tmp_path / "a.csv", "text\u200b,\u200blabel \u2060\na\u200b,x\n")
    assert rows_of(path) == [{"text": "a\u200b", "label": "x"}]


@parametrize(
    ("name", "content", "named"),
    [
        ("a.csv", "text,label\na,b,c\nd,e\n", "a.csv:2 has 3 cells, the header 2"),
        (
            "a.csv",
            "text,label\na,b,c\n1,2,3\n",
            "a.csv:2 has 3 cells, the header 2",
        ),  # names of rows, as R writes them
        ("a.csv", "text\nwell,\n", "a.csv:2 has 2 cells, the header 1"),
        ("a.csv", "# of Monday\ntext,label\na,b\n", "a.csv:2 has 2 cells, the header 1"),
        ("a.csv", "id,text,label\n1,Well, good,a\n2,No, bad,b\n", "a.csv:2 has 4 cells, the header 3"),
        ("a.csv", "text,label\na;b,c;d\nx,y,z\n", "a.csv:3 has 3 cells"),
        ("a.csv", "text,label\na,b\ntext,label\nc,d\n", "a.csv:3 names the columns again"),
        ("a.csv", "\ufefftext,label\na,x\n\ufefftext,label\na,x\n", "a.csv:3 names the columns again"),
        ("a.csv", "text,text\na,b\n", "two columns of one name, 'text'"),
        ("a.csv", ",,\na,b,c\n", "a.csv has no header"),
        ("a.csv", 'text,label\n"a" b,c\n', "a.csv:2 cannot be read"),
        ("a.csv", 'text,label\na,b\n"a,c\nd,e\n', "a.csv:3 cannot be read"),
        ("a.csv", "text,n\na\rb,1\nc,2\n", "a.csv:2 cannot be read"),
        ("a.tsv", "text\na\rb\nc\n", "a.tsv:2 cannot be read"),
        ("a.csv", 'id, text\n1, "a, b"\n', "a.csv:2 has spaces before quotation marks"),
        ("a.csv", 'id, text\n1, "a"\n', "a.csv:2 has spaces before quotation marks"),
        ("a.tsv", 'text\tlabel\na "b\tc\n"x\ty"\tz\tw\n', "a.tsv:3 has 4 cells"),
    ],
)
def test_a_row_that_does_not_fit_is_refused_with_its_place(tmp_path, name, content, named):
    assert named in refused(lambda: rows_of(write(tmp_path / name, content)))


@parametrize(("first", "is_warned_of"), [("'It is good'", True), ("It's good", False)])
def test_a_column_all_in_single_marks_is_warned_of(tmp_path, caplog, first, is_warned_of):
    path = write(tmp_path / "a.csv", f"text,label\n{first},x\n'Bad',y\n")
    assert rows_of(path, skips_empty=True)[0] == {"text": first, "label": "x"}
    assert ("'text'" in caplog.text) == is_warned_of


# ---- quotation marks


def test_quoting_single_removes_single_marks(tmp_path, caplog):
    path = tmp_path / "a.csv"
    texts = ["Ja, 'so' ist \"das\"", "it's\nhere", "plain"]
    pd.DataFrame({"text": texts, "label": ["a", "b", "a"]}).to_csv(path, index=False, quotechar="'")
    assert "--quoting" in refused(lambda: rows_of(path))
    assert [row["text"] for row in rows_of(path, quoting="single")] == texts
    path.write_text("text,label\n'eins','a'\n'zwei','b'\n", encoding="utf-8")
    assert rows_of(path, skips_empty=True)[0]["text"] == "'eins'"
    assert "--quoting single" in caplog.text
    assert rows_of(path, quoting="single") == [{"text": "eins", "label": "a"}, {"text": "zwei", "label": "b"}]


@parametrize("end", ["\n", "\r\n"])
@parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
@parametrize("text", ["one\ntwo", 'he said "no"', "a\tb", "plain, with comma", '"all in marks"', ' "', ""])
def test_cells_that_pandas_quotes_are_read(tmp_path, text, quoting, end):
    table = pd.DataFrame({"text": ["plain", text, "It's"], "label": ["x", "y", "x"], "n": [1, 2, 3]})
    table.to_csv(tmp_path / "a.tsv", sep="\t", index=False, quoting=quoting, lineterminator=end)
    assert rows_of(tmp_path / "a.tsv") == table.astype(str).to_dict("records")


def test_cells_that_excel_quotes_are_read(tmp_path):
    content = 'text\tlabel\n"no, ""never"""\tx\n"a, b"\ty\nplain\ty\n'
    assert [row["text"] for row in rows_of(write(tmp_path / "a.tsv", content))] == ['no, "never"', "a, b", "plain"]


@parametrize(
    "texts",
    [
        ['"A great film"', "plain"],
        ['"A great film"', 'He said "hi" twice'],
        ['"Well, good"', 'He said "hi" twice'],
        ['a 5" disk', "plain"],
        ['"open', "plain", 'close"'],
        ['"One", she said, "and two"', '"three"'],
    ],
)
def test_marks_that_are_part_of_a_text_stay(tmp_path, texts):
    path = write(tmp_path / "a.tsv", "text\tlabel\n" + "".join(f"{text}\tx\n" for text in texts))
    assert [row["text"] for row in rows_of(path)] == texts


@parametrize(
    "texts",
    [
        ['"Well, good"', "plain"],  # speech, or Excel, which quotes cells with a comma
        ['"A great film"', '"A bad film"'],
        ['"A ""great"" film"', 'He said "hi" twice'],
    ],
)
def test_ambiguous_marks_are_refused_unless_quoting_is_given(tmp_path, texts):
    path = write(tmp_path / "a.tsv", "text\tlabel\n" + "".join(f"{text}\tx\n" for text in texts))
    message = refused(lambda: rows_of(path))
    assert "a.tsv:" in message and "--quoting none" in message and "--quoting minimal" in message
    assert [row["text"] for row in rows_of(path, quoting="none")] == texts
    assert rows_of(path, quoting="minimal")[0]["text"] == texts[0][1:-1].replace('""', '"')


def test_marks_around_a_name_alone_are_refused(tmp_path):
    message = refused(lambda: rows_of(write(tmp_path / "a.tsv", 'text\t"my label"\na\tb\n')))
    assert "header of" in message and "a.tsv" in message and "--quoting" in message


def test_line_breaks_in_a_single_column_need_quoting_minimal(tmp_path):
    path = write(tmp_path / "a.tsv", 'text\n"a\nb"\nc\n')
    assert "a.tsv:2" in refused(lambda: rows_of(path))
    assert rows_of(path, quoting="minimal") == [{"text": "a\nb"}, {"text": "c"}]


def test_marks_in_a_csv_are_removed_unless_quoting_is_none(tmp_path):
    path = write(tmp_path / "a.csv", 'text;label\n"Great; film";x\n"Bad";y\n')
    assert [row["text"] for row in rows_of(path)] == ["Great; film", "Bad"]
    path = write(tmp_path / "b.csv", 'text;label\n"Great" film;x\n"Bad";y\n')
    assert "--quoting none" in refused(lambda: rows_of(path))
    assert [row["text"] for row in rows_of(path, quoting="none")] == ['"Great" film', '"Bad"']


def test_random_tables_are_read_as_they_were_written(tmp_path):
    """Few of them, less than a tenth, are ambiguous, and need --quoting."""
    random.seed(0)
    pieces = [
        "a",
        "Wort",
        " ",
        "  ",
        '"',
        '""',
        "'",
        ",",
        ";",
        "\t",
        "|",
        "\n",
        "\r\n",
        "é",
        "犬",
        "\u2028",
        "[1]",
        "\\",
    ]
    refusals = 0
    for number in range(120):
        delimiter, ending = random.choice([(",", "csv"), (";", "csv"), ("\t", "tsv"), ("|", "csv")])
        width = random.randint(1, 4)
        names = random.sample(["text", "label", "id", "Ä b"], width)
        cells = ["".join(random.choices(pieces, k=random.randint(0, 5))) for _ in range(width * random.randint(1, 8))]
        rows = [dict(zip(names, cells[start:], strict=False)) for start in range(0, len(cells), width)]
        path = tmp_path / f"{number}.{ending}"
        quoting = random.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
        table = pd.DataFrame(rows, columns=names)
        table.to_csv(path, sep=delimiter, index=False, quoting=quoting, lineterminator=random.choice(["\n", "\r\n"]))
        try:
            assert rows_of(path) == rows
        except UserError as error:
            assert "--quoting" in str(error)
            refusals += 1
            assert rows_of(path, delimiter, "minimal") == rows
    assert refusals < 12


# ---- encodings, compression, line ends


@parametrize("end", ["\n", "\r\n", "\r"])
@parametrize(
    ("encoding", "mark"), [("utf-8", ""), ("utf-8-sig", ""), ("utf-16-le", "\ufeff"), ("utf-16-be", "\ufeff")]
)
def test_encodings_and_line_ends_of_spreadsheets_are_read(tmp_path, encoding, mark, end):
    content = mark + end.join(["text\tlabel", "Grüße, 北京\tja", "Nein\tnein", ""])
    path = write(tmp_path / "a.tsv", content, encoding)
    assert rows_of(path) == [{"text": "Grüße, 北京", "label": "ja"}, {"text": "Nein", "label": "nein"}]


@parametrize(
    ("suffix", "compress"),
    [
        (".gz", lambda data: gzip.compress(data[:9]) + gzip.compress(data[9:]) + bytes(512)),
        (".bz2", bz2.compress),
        (".xz", lzma.compress),
        (".zst", lambda data: pa.Codec("zstd").compress(data, asbytes=True)),
    ],
)
def test_compressed_files_are_read(tmp_path, suffix, compress):
    lines = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
    assert rows_of(write(tmp_path / f"a.jsonl{suffix}", compress(lines))) == ROWS
    table = b"text;label\nEs war, sagt man, gut;ja\nNein;nein\n"
    path = write(tmp_path / f"a.csv{suffix}", compress(table))
    assert rows_of(path) == ROWS
    assert [*read_file(str(path), "text", "blank_line")] == [row["text"] for row in ROWS]


@parametrize(
    ("name", "content", "named"),
    [
        ("a.csv", b"PK\x03\x04" + bytes(range(256)), "a.csv:1 is not UTF-8"),
        ("a.tsv", gzip.compress(b"text\tlabel\na\tb\n", mtime=0), ".gz"),
        ("a.csv", "text,label\nZ\xfcrich,b\n".encode("latin-1"), "a.csv:2 is not UTF-8; convert the file with `iconv"),
        ("a.csv", "text,label\na,b\n".encode("utf-16-le"), "a.csv:1 is not UTF-8"),
        ("a.csv.gz", gzip.compress(b"text,label\n" + b"a,b\n" * 99, mtime=0)[:-12], "a.csv.gz cannot be read"),
        ("a.csv.gz", b"no gzip", "a.csv.gz cannot be read"),
        ("a.parquet", b"PAR1", "a.parquet cannot be read"),
        ("a.docx", b"PK\x03\x04", "a.docx must be one of .csv"),
        ("a.txt", "__label__a some words\n", "a.txt must be one of .csv"),
    ],
)
def test_a_file_that_is_no_table_is_refused(tmp_path, name, content, named):
    path = write(tmp_path / name, content)
    assert named in refused(lambda: rows_of(path))


@parametrize("name", ["a.csv", "a.jsonl", "a.parquet", "a.xlsx", "a.cvs"])
def test_a_file_that_is_missing_and_a_folder_are_refused(tmp_path, name):
    assert f"there is no file {tmp_path / name}" in refused(lambda: rows_of(tmp_path / name))
    (tmp_path / name).mkdir()
    assert f"{tmp_path / name} is a folder" in refused(lambda: rows_of(tmp_path / name))


def test_plain_text_is_a_column_of_lines_if_it_is_asked_for(tmp_path):
    path = write(tmp_path / "a.txt", "Eins, zwei\n\n drei \r\n")
    assert rows_of(path, reads_text=True) == [{"text": "Eins, zwei"}, {"text": " drei "}]


@pytest.fixture
def piped(monkeypatch):
    """`piped(content)`: the standard input is a pipe with this content, which cannot be read twice."""
    reading_end, writing_end = os.pipe()

    def write_pipe(content):
        os.write(writing_end, content)
        os.close(writing_end)

    with open(reading_end, "rb") as pipe:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=pipe))
        yield write_pipe


@parametrize("name", ["a.csv", "a.jsonl", "a.parquet", "a.xlsx"])
def test_a_pipe_is_refused(tmp_path, name):
    os.mkfifo(tmp_path / name)
    assert f"{name} is a pipe" in refused(lambda: rows_of(tmp_path / name))


@parametrize(
    "content",
    [
        b"text;label\nEs war, sagt man, gut;ja\nNein;nein\n",
        b"\xef\xbb\xbf\r\ntext;label\r\nEs war, sagt man, gut;ja\r\nNein;nein\r\n",
        b'text\tlabel\n"Es war, sagt man, gut"\tja\nNein\tnein\n',
        json.dumps(ROWS).encode(),
        "".join(json.dumps(row) + "\n" for row in ROWS).encode(),
    ],
)
def test_the_standard_input_is_read_once(piped, content):
    piped(content)
    assert rows_of("-", quoting="minimal") == ROWS


def test_marks_of_the_standard_input_are_judged_by_all_its_rows(piped):
    piped(b'text\tlabel\n"no, ""never"""\tx\n"a, b"\ty\nplain\ty\n')
    assert [row["text"] for row in rows_of("-")] == ['no, "never"', "a, b", "plain"]


@parametrize("content", [b"", b"\n\n"])
def test_an_empty_standard_input_has_no_rows(piped, content):
    piped(content)
    assert rows_of("-") == []


# ---- JSON


@parametrize(
    "content",
    [
        "".join(json.dumps(row) + "\n" for row in ROWS),
        "\ufeff" + "".join(json.dumps(row) + "\r\n\r\n" for row in ROWS),
        json.dumps(ROWS),
        json.dumps(ROWS, indent=2),
        "[\n" + ",\n".join(map(json.dumps, ROWS)) + "\n]\n",
    ],
)
def test_json_is_lines_or_one_array(tmp_path, content):
    for name in ("a.jsonl", "a.ndjson", "a.json"):
        path = write(tmp_path / name, content)
        assert rows_of(path) == ROWS
    assert [*read_file(str(path), "text", "blank_line")] == [row["text"] for row in ROWS]


@parametrize("row", [{"tokens": ["a", "b"], "tags": ["X", "Y"]}, {"data": [{"x": 1}]}, {"text": ["a"], "label": [1]}])
@parametrize("indent", [None, 2])
def test_a_file_of_one_object_is_one_row(tmp_path, row, indent):
    assert rows_of(write(tmp_path / "a.json", json.dumps(row, indent=indent))) == [row]


@parametrize(
    ("content", "named"),
    [
        ('{"text": "a"}\n{"text": \n', "a.jsonl:2 is no JSON"),
        ('{"text": }\n{"text": "b"}\n', "a.jsonl is no JSON (Expecting value: line 1"),
        ('{"text":\n"a"}\n{"text": "b"}\n', "a.jsonl is no JSON (Extra data: line 3"),
        ("[1, 2]", "a.jsonl row 1 is no object"),
        ('{"text": "a"}\n["b"]\n', "a.jsonl:2 is no object"),
        ('{"text": "\\ud83d\\ude00"}\n{"text": [{"\\ude00": 1}]}\n', "a.jsonl:2 is no JSON"),
        ('[{"text": "\\ud83d"}]', "a.jsonl is no JSON"),
        ('[{"text": "a"}', "a.jsonl is no JSON"),
        ("text\n", "a.jsonl is no JSON"),
    ],
)
def test_broken_json_is_refused(tmp_path, content, named):
    assert named in refused(lambda: rows_of(write(tmp_path / "a.jsonl", content)))


# ---- parquet and workbooks


def test_classes_of_a_saved_data_set_have_their_names(tmp_path):
    names = datasets.ClassLabel(names=["O", "B-LOC"])
    features = datasets.Features({"label": names, "tags": datasets.List(names)})
    table = datasets.Dataset.from_dict({"label": [1, -1], "tags": [[0, 1], []]}, features)
    table.to_parquet(tmp_path / "a.parquet")
    assert rows_of(tmp_path / "a.parquet") == [{"label": "B-LOC", "tags": ["O", "B-LOC"]}, {"label": None, "tags": []}]
    assert rows_of(tmp_path / "a.parquet", names_classes=False)[0] == {"label": 1, "tags": [0, 1]}


CELLS = [["text", "label"], ["007", "NA"], [" a\nb ", "3.50"], ["", ""], ['"x", y', "TRUE"]]
"""A header, and rows whose texts a reader that guesses would change."""


@parametrize("value", [2, -2])
def test_a_number_without_a_class_is_refused_with_its_row(tmp_path, value):
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["no", "yes"])})
    table = pa.table({"text": ["a", "b"], "label": [0, value]})
    pq.write_table(table.replace_schema_metadata(features.arrow_schema.metadata), tmp_path / "a.parquet")
    assert "a.parquet:2 " in refused(lambda: rows_of(tmp_path / "a.parquet"))


@parametrize("metadata", [b"{bad", b'{"info": {"features": {"text": {"_type": "Unheard"}}}}'])
def test_metadata_that_datasets_cannot_read_is_refused(tmp_path, metadata):
    table = pa.table({"text": ["a"]}).replace_schema_metadata({b"huggingface": metadata})
    pq.write_table(table, tmp_path / "a.parquet")
    assert "a.parquet" in refused(lambda: rows_of(tmp_path / "a.parquet"))


@parametrize("ending", [".xlsx", ".ods"])
def test_texts_of_a_workbook_are_exact(tmp_path, ending):
    pytest.importorskip("python_calamine")
    path = write(tmp_path / f"a{ending}", xlsx(CELLS) if ending == ".xlsx" else ods(CELLS))
    rows = [*read_rows(path)]
    assert [[*row.values()] for _, row in rows] == CELLS[1:]
    assert rows[1][0] == f"{path}:3"


def test_numbers_of_a_workbook_are_written_as_shown(tmp_path):
    pytest.importorskip("python_calamine")
    path = write(tmp_path / "a.xlsx", xlsx([["n", "x"], [1, 2.5], [0, -1]]))
    assert rows_of(path) == [{"n": "1", "x": "2.5"}, {"n": "0", "x": "-1"}]


def test_the_first_of_several_sheets_is_read_with_a_warning(tmp_path, caplog):
    pytest.importorskip("python_calamine")
    path = write(tmp_path / "a.xlsx", xlsx([["text"], ["a"]], [["text"], ["b"]]))
    assert rows_of(path) == [{"text": "a"}]
    assert "Sheet 1" in caplog.text


def test_a_workbook_that_cannot_be_read_is_refused(tmp_path, monkeypatch):
    pytest.importorskip("python_calamine")
    for name in ("a.xlsx", "a.ods", "a.xls"):
        path = write(tmp_path / name, b"PK\x03\x04")
        assert f"{name} cannot be read" in refused(lambda path=path: rows_of(path))
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    assert "python-calamine" in refused(lambda: rows_of(path))


# ---- open tables


@parametrize(
    ("name", "content", "delimiter_and_names"),
    [
        ("a.csv", "text;n\na;1\n", (";", ["text", "n"])),
        ("a.tsv", 'text\tn\nHe "said"\t1\n', ("\t", ["text", "n"])),
        ("a.tsv", 'text\tn\n"He ""said"""\t1\n', ("\t", ["text", "n"])),
        ("a.csv", ",text,,\n1,a,,\n", (",", ["", "text"])),
        ("a.csv", "", (",", [])),
    ],
)
def test_an_open_table_has_its_delimiter_and_names(tmp_path, name, content, delimiter_and_names):
    table = open_table(write(tmp_path / name, content))
    assert table[:2] == delimiter_and_names
    rows = [row for _, row in table.rows]
    assert len(rows) == bool(content) and all([*row] == table.names for row in rows)
