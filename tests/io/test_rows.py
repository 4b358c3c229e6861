"""Rows of tables as programs write them: delimiters, quotation marks, encodings, compression, shapes of JSON."""

import bz2
import gzip
import io
import json
import logging
import lzma

import datasets
import pandas as pd
import pyarrow as pa
import pytest

from electra.data.readers import read_file
from electra.io.rows import read_rows, read_source
from tests.conftest import refused
from tests.helpers import parametrize

ROWS = [{"text": "Es war, sagt man, gut", "label": "ja"}, {"text": "Nein", "label": "nein"}]


def columns(path, *args, **options):
    return [row for _, row in read_rows(path, *args, **options)]


def write(path, content, encoding="utf-8"):
    path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    return path


# ---- delimiters and headers


@parametrize(
    ("name", "content"),
    [
        ("a.csv", '"Es war, sagt man, gut",ja\nNein,nein\n'),
        ("a.csv", "Es war, sagt man, gut;ja\nNein;nein\n"),
        ("a.csv", "Es war, sagt man, gut\tja\nNein\tnein\n"),
        ("a.csv", "Es war, sagt man, gut|ja\nNein|nein\n"),
        ("a.tsv", "Es war, sagt man, gut;ja\nNein;nein\n"),
        ("a.csv", "sep=;\r\nEs war, sagt man, gut;ja\r\nNein;nein\r\n"),
        ("a.csv", '"sep=|"\nEs war, sagt man, gut|ja\nNein|nein\n'),
    ],
)
def test_the_delimiter_is_found_by_the_header_and_the_rows(tmp_path, name, content):
    found = content.replace(",ja", ";ja").split("ja")[0][-1]
    first, *rest = content.split("\n") if "sep=" in content else ["", content]
    delimiter = next(one for one in ",;\t|" if f"{one}ja" in content)
    header = f"text{delimiter}label\n"
    body = "\n".join(rest) if first else content
    path = write(tmp_path / name, f"{first}\n{header}{body}" if first else header + body)
    assert columns(path) == ROWS and found


def test_a_given_delimiter_counts(tmp_path):
    path = write(tmp_path / "a.csv", "text#label\nEs war, sagt man, gut#ja\nNein#nein\n")
    assert columns(path, "#") == ROWS
    assert columns(write(tmp_path / "b.csv", "text\tlabel\nx\ty\n"), "tab") == [{"text": "x", "label": "y"}]
    assert "--delimiter" in refused(lambda: columns(path, "##"))


def test_a_text_with_semicolons_stays_a_text(tmp_path):
    path = write(tmp_path / "a.csv", "text,label\none; two; three,a\nfour,b\n")
    assert columns(path)[0] == {"text": "one; two; three", "label": "a"}
    path = write(tmp_path / "b.csv", "text\nno delimiter\nanywhere\n")
    assert columns(path) == [{"text": "no delimiter"}, {"text": "anywhere"}]


@parametrize("header", ["id; text; label", "id;text;label"])
@parametrize("delimiter", [",", ";"])
def test_spaces_before_quotation_marks_are_no_part_of_a_cell(tmp_path, header, delimiter):
    text = ROWS[0]["text"]
    content = f'{header}\n1; "TEXT"; ja\n2; "Nein"; nein\n'.replace(";", delimiter).replace("TEXT", text)
    path = write(tmp_path / "a.csv", content)
    assert [{name: row[name] for name in ("text", "label")} for row in columns(path)] == ROWS
    assert [row.text for row in read_source(path)] == content.splitlines(keepends=True)[1:]


def test_columns_without_a_name_are_left_out_if_they_are_empty(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("electra"), "propagate", True)
    path = write(tmp_path / "a.csv", "kind,message,,,\nham,hello,,,\nspam,win,,,\n")
    assert columns(path) == [{"kind": "ham", "message": "hello"}, {"kind": "spam", "message": "win"}]
    assert not caplog.text
    write(path, "kind,message,,\nham,hello, you,\nspam,win,,\n")
    assert columns(path)[0] == {"kind": "ham", "message": "hello"}
    assert "1 rows have cells in columns without a name" in caplog.text
    write(path, "kind,message\nham,hello,,\n,,\nspam,win,\n")  # rows longer than the header, an empty row
    assert [row["kind"] for row in columns(path)] == ["ham", "spam"]
    write(path, ",kind\n0,ham\n1,spam\n")  # pandas' index
    assert columns(path) == [{"": "0", "kind": "ham"}, {"": "1", "kind": "spam"}]


def test_names_of_rows_are_a_column_as_r_writes_them(tmp_path):
    path = write(tmp_path / "a.tsv", '"text"\t"label"\n"1"\t"Good, film"\t"pos"\n"2"\t"Bad"\tNA\n')
    assert columns(path) == [{"": "1", "text": "Good, film", "label": "pos"}, {"": "2", "text": "Bad", "label": "NA"}]
    path = write(tmp_path / "a.csv", '"text" "label"\n"1" "Good film" "pos"\n"2" "Bad" "neg"\n')
    assert [row["text"] for row in columns(path)] == ["Good film", "Bad"]


@parametrize(
    ("name", "content", "named"),
    [
        ("a.csv", "text,label\na,b,c\nd,e\n", "a.csv:2 has 3 cells, the header 2"),
        ("a.csv", "# of Monday\ntext,label\na,b\n", "a.csv:2 has 2 cells, the header 1"),
        ("a.csv", "sep=;\ntext;label\na;b\nc;d;e\n", "a.csv:4 has 3 cells, the header 2"),
        ("a.csv", "# of Monday\ntext,label\na,b\n", "leave out what stands above"),
        ("a.csv", "text,label\na,b\ntext,label\nc,d\n", "a.csv:3 names the columns again"),
        ("a.csv", b"PK\x03\x04" + bytes(range(256)), "a.csv is a zip archive"),
        ("a.tsv", gzip.compress(b"text\tlabel\na\tb\n", mtime=0), "name it .gz"),
        ("a.jsonl", lzma.compress(b'{"text": "a"}\n'), "name it .xz"),
        ("a.csv", 'text,label\n"a" b,c\n', "a.csv:2 cannot be read"),
        ("a.csv", "id,text,label\n1,Well, good,a\n2,No, bad,b\n", "a.csv:2 has 4 cells, the header 3"),
        ("a.csv", "text,text\na,b\n", "two columns of one name, 'text'"),
        ("a.tsv", 'text\tlabel\na "b\tc\n"x\ty"\tz\tw\n', "a.tsv:3 has 4 cells"),
        ("a.csv", "text,label\nZ\xfcrich,b\n".encode("latin-1"), "a.csv:2 is not UTF-8; convert the file with `iconv"),
        ("a.csv", "text,label\na,b\n".encode("utf-16-le"), "a.csv:1 is not UTF-8"),
        ("a.xlsx", b"PK\x03\x04", "a.xlsx must be one of .csv"),
        ("a.txt", "__label__a some words\n", "a.txt must be one of .csv"),
        ("a.csv.gz", gzip.compress(b"text,label\n" + b"a,b\n" * 99, mtime=0)[:-12], "a.csv.gz cannot be read"),
        ("a.csv.gz", b"no gzip", "a.csv.gz cannot be read"),
    ],
)
def test_what_is_not_read_is_refused_with_its_place(tmp_path, name, content, named):
    path = write(tmp_path / name, content)
    assert named in refused(lambda: columns(path))


# ---- quotation marks in tables with tabs

TABLE = pd.DataFrame(
    {"text": ["one\ntwo", 'he said "no"', "a\tb", "plain, with comma"], "label": ["x", "y", "x", "y"]}
)


def test_cells_that_pandas_quotes_are_read(tmp_path):
    TABLE.to_csv(tmp_path / "a.tsv", sep="\t", index=False)
    assert columns(tmp_path / "a.tsv") == TABLE.to_dict("records")
    TABLE.iloc[1:2].to_csv(tmp_path / "b.tsv", sep="\t", index=False)  # nothing but doubled marks
    assert columns(tmp_path / "b.tsv") == TABLE.iloc[1:2].to_dict("records")
    TABLE.to_csv(tmp_path / "c.tsv", sep="\t", index=False, quoting=1)
    assert columns(tmp_path / "c.tsv") == TABLE.to_dict("records")


def test_cells_that_excel_quotes_are_read(tmp_path):
    content = 'text\tlabel\n"no, ""never"""\tx\n"a, b"\ty\nplain\ty\n'
    assert [row["text"] for row in columns(write(tmp_path / "a.tsv", content))] == ['no, "never"', "a, b", "plain"]


def test_many_cells_that_are_quoted_for_a_comma_are_excels(tmp_path):
    rows = [f'"a, {n}"\tx\n' for n in range(5)] + ["plain\ty\n"]
    assert columns(write(tmp_path / "a.tsv", "text\tlabel\n" + "".join(rows)))[0]["text"] == "a, 0"
    speech = [*rows, '"Great film"\tx\n']  # which Excel would not quote
    assert columns(write(tmp_path / "b.tsv", "text\tlabel\n" + "".join(speech)))[0]["text"] == '"a, 0"'


@parametrize(
    "texts",
    [
        ['"A great film"', "plain"],
        ['"A great film"', 'He said "hi" twice'],
        ['a 5" disk', "plain"],
        ['"open', "plain", 'close"'],
        ['"One", she said, "and two"', '"three"'],
    ],
)
def test_marks_of_speech_stay(tmp_path, texts):
    path = write(tmp_path / "a.tsv", "text\tlabel\n" + "".join(f"{text}\tx\n" for text in texts))
    assert [row["text"] for row in columns(path)] == texts


# ---- encodings, compression, line ends


@parametrize("end", ["\n", "\r\n", "\r"])
@parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encodings_and_line_ends_of_spreadsheets(tmp_path, encoding, end):
    content = end.join(["text\tlabel", "Grüße, 北京\tja", "Nein\tnein", ""])
    path = write(tmp_path / "a.tsv", content, encoding)
    assert columns(path) == [{"text": "Grüße, 北京", "label": "ja"}, {"text": "Nein", "label": "nein"}]


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
    assert columns(write(tmp_path / f"a.jsonl{suffix}", compress(lines))) == ROWS
    table = b"text;label\nEs war, sagt man, gut;ja\nNein;nein\n"
    path = write(tmp_path / f"a.csv{suffix}", compress(table))
    assert columns(path) == ROWS
    assert [*read_file(str(path), "text", "blank_line")] == [row["text"] for row in ROWS]


# ---- JSON and parquet


@parametrize("orient", ["records", "columns", "index", "split", "table"])
def test_json_of_pandas_is_rows(tmp_path, orient):
    pd.DataFrame(ROWS).to_json(tmp_path / "a.json", orient=orient, indent=1 if orient == "records" else None)
    found = [{name: row[name] for name in ROWS[0]} for row in columns(tmp_path / "a.json")]
    assert found == ROWS


@parametrize(
    "content",
    [
        json.dumps(ROWS),
        json.dumps(ROWS, indent=2),
        "[\n" + ",\n".join(map(json.dumps, ROWS)) + "\n]\n",
        "".join(json.dumps(row, indent=2) + "\n" for row in ROWS),
        "\ufeff" + "".join(json.dumps(row) + "\r\n\r\n" for row in ROWS),
        json.dumps({"version": 1, "data": ROWS}),
        json.dumps({"rows": ROWS}),
        json.dumps({"features": [], "rows": [{"row_idx": n, "row": row} for n, row in enumerate(ROWS)]}, indent=1),
        json.dumps({name: [row[name] for row in ROWS] for name in ROWS[0]}),
    ],
)
def test_json_of_several_shapes_is_rows(tmp_path, content):
    path = write(tmp_path / "a.json", content)
    assert columns(path) == ROWS
    assert [*read_file(str(path), "text", "blank_line")] == [row["text"] for row in ROWS]


@parametrize("row", [{"tokens": ["a", "b"], "tags": ["X", "Y"]}, {"text": "a", "rows": [{"x": 1}]}])
def test_a_single_row_of_lists_is_a_row(tmp_path, row):
    assert columns(write(tmp_path / "a.json", json.dumps(row))) == [row]


@parametrize(
    ("content", "named"),
    [
        ('{"text": "a"}\n{"text": \n', "a.jsonl:2 is not a line of JSON"),
        ('{"text": }\n{"text": "b"}\n', "a.jsonl:1 is not a line of JSON"),
        ("[1, 2]", "a.jsonl row 1 is not a JSON object"),
        ('[{"text": "a"}', "a.jsonl:1 begins no JSON"),
        ("text\n", "a.jsonl:1 is not a line of JSON"),
    ],
)
def test_broken_json_is_refused(tmp_path, content, named):
    assert named in refused(lambda: columns(write(tmp_path / "a.jsonl", content)))


def test_classes_of_a_saved_data_set_have_their_names(tmp_path):
    names = datasets.ClassLabel(names=["O", "B-LOC"])
    features = datasets.Features({"label": names, "tags": datasets.List(names)})
    table = datasets.Dataset.from_dict({"label": [1, -1], "tags": [[0, 1], []]}, features)
    table.to_parquet(tmp_path / "a.parquet")
    assert columns(tmp_path / "a.parquet") == [{"label": "B-LOC", "tags": ["O", "B-LOC"]}, {"label": None, "tags": []}]
    assert columns(tmp_path / "a.parquet", names_classes=False)[0] == {"label": 1, "tags": [0, 1]}


# ---- rows as they are written


@parametrize(
    ("name", "content"),
    [
        ("a.csv", '\ufefftext;label\r\n"a; ""b""";1,50\r\nc;"d"\r\n'),
        ("a.tsv", 'text\tlabel\n"Great"\tx\nHe "said"\ty\n'),
        ("a.tsv", 'text\tlabel\n"a\nb ""c"""\t1\nd\t2\n'),
        ("a.csv", "sep=,\ntext,label,,\na,1.10,,\nb,2,,\n"),
        ("a.jsonl", '{"n": 1.10, "e": "\\u00e9"}\n{"n":1e5 , "e": ""}\n'),
    ],
)
def test_rows_keep_how_they_are_written(tmp_path, name, content):
    rows = [*read_source(write(tmp_path / name, content))]
    head = rows[0].head.text if rows[0].head else ""
    assert head + "".join(row.text for row in rows) == content


def test_the_standard_input_is_read_once(monkeypatch):
    for content, expected in (
        (b"text;label\nEs war, sagt man, gut;ja\nNein;nein\n", ROWS),
        (json.dumps(ROWS).encode(), ROWS),
    ):
        stream = io.BufferedReader(io.BytesIO(content))
        monkeypatch.setattr("sys.stdin", type("Stdin", (), {"buffer": stream}))
        assert columns("-") == expected
    stream = io.BufferedReader(io.BytesIO(b"\xef\xbb\xbfsep=;\r\ntext;label\r\na;b\r\n"))
    monkeypatch.setattr("sys.stdin", type("Stdin", (), {"buffer": stream}))
    (row,) = read_source("-")
    assert row.head.text == "\ufeffsep=;\r\ntext;label\r\n" and row.columns == {"text": "a", "label": "b"}


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_byte_order_mark_of_a_joined_file_does_not_make_its_header_a_row(tmp_path):
    content = "\ufefftext,label\na,x\n" * 2
    assert "a.csv:3 names the columns again" in refused(lambda: columns(write(tmp_path / "a.csv", content)))


def test_characters_without_width_are_no_part_of_a_name(tmp_path):
    path = write(tmp_path / "a.csv", "text\u200b,\u200blabel \u2060\na\u200b,x\n")
    assert columns(path) == [{"text": "a\u200b", "label": "x"}]
