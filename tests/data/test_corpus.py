"""The corpus: every format and compression gives the same documents, and errors name the file and the place."""

import bz2
import csv
import gzip
import itertools
import json
import lzma
import os
import tracemalloc
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from electra.config import CorpusArguments
from electra.data.corpus import SHORT_NAMES, Corpus
from tests.conftest import refused

DOCUMENTS = ["The first document.\nIt has two lines.", "Zweites Dokument, größer: 犬 😀", 'He said "no", then\tleft.']
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    ".gz": lambda data: gzip.compress(data, compresslevel=1),
    ".bz2": bz2.compress,
    ".xz": lambda data: lzma.compress(data, preset=0),
    ".zst": zstandard.ZstdCompressor().compress,
}


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hf-cache")
    datasets.disable_progress_bars()


def write(path: Path, data: str | bytes) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8"))
    return str(path)


def corpus_of(*files: str | Path, seed: int = 42, **options: Any) -> Corpus:
    return Corpus(CorpusArguments(train_file=list(map(str, files)), **options), seed)


def dataset_corpus(name: str | Path, **options: Any) -> Corpus:
    return Corpus(CorpusArguments(dataset_name=[str(name)], **options))


def read(*files: str | Path, **options: Any) -> list[str]:
    return list(corpus_of(*files, **options))


def encode(documents: Sequence[str | None], file_format: str, folder: Path) -> bytes:
    """Write the documents by other means than the code under test."""
    path = folder / "encoded"
    if file_format == "txt":
        return "\n\n".join(str(document) for document in documents).encode("utf-8")
    if file_format == "jsonl":
        return "".join(json.dumps({"id": 7, "text": document}) + "\n" for document in documents).encode("utf-8")
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, "excel-tab" if file_format == "tsv" else "excel")
        writer.writerows([["id", "text"], *([7, document] for document in documents)])
    return path.read_bytes()


def save_parquet(path: Path, columns: dict[str, Any], **options: Any) -> str:
    pq.write_table(pa.table(columns), path, **options)
    return str(path)


# Formats


@pytest.mark.parametrize("compression", [*COMPRESS, ".zip"])
@pytest.mark.parametrize("file_format", ["txt", "jsonl", "csv", "tsv"])
def test_every_format_and_compression_gives_the_same_documents(
    tmp_path: Path, file_format: str, compression: str
) -> None:
    data = encode(DOCUMENTS, file_format, tmp_path)
    path = tmp_path / f"corpus.{file_format}{compression}"
    if compression == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(f"corpus.{file_format}", data)
    else:
        path.write_bytes(COMPRESS[compression](data))
    corpus = corpus_of(path)
    assert list(corpus) == DOCUMENTS
    assert (corpus.bytes_read, corpus.size_bytes) == (path.stat().st_size, path.stat().st_size)


@pytest.mark.parametrize("name", ["a.text", "a.raw", "a.tokens", "a.md", "A.TXT", "wiki_00"])
def test_known_text_extensions_and_none_are_plain_text(tmp_path: Path, name: str) -> None:
    assert read(write(tmp_path / name, "one\n\ntwo")) == ["one", "two"]


def test_parquet_gives_the_text_column_of_every_row_group_and_skips_null(tmp_path: Path) -> None:
    texts = [f"document {number}" if number % 10 else None for number in range(500)]
    path = save_parquet(tmp_path / "a.parquet", {"n": list(range(500)), "body": texts}, row_group_size=90)
    corpus = corpus_of(path, text_column="body")
    assert list(corpus) == [text for text in texts if text]
    assert (corpus.documents_seen, corpus.empty_documents_skipped) == (450, 50)
    assert corpus.bytes_read == corpus.size_bytes == os.path.getsize(path)


@pytest.mark.parametrize("column_type", [pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.string_view()])
def test_parquet_text_may_have_any_arrow_type_of_text(tmp_path: Path, column_type: pa.DataType) -> None:
    column = pa.array(["same", "same", "other"]).cast(column_type)
    assert read(save_parquet(tmp_path / "a.parquet", {"text": column})) == ["same", "same", "other"]


def test_ndjson_and_json_are_json_lines_and_blank_lines_are_no_rows(tmp_path: Path) -> None:
    lines = '\ufeff{"text": "one"}\r\n\r\n{"text": "two\\r\\nlines\\rhere"}\n{"text": null}\n{"text": " \\n"}'
    for name in ("a.ndjson", "a.json"):
        corpus = corpus_of(write(tmp_path / name, lines))
        assert list(corpus) == ["one", "two\nlines\nhere"]
        assert corpus.empty_documents_skipped == 2


def test_csv_keeps_quoted_line_ends_and_fields_longer_than_the_default_limit(tmp_path: Path) -> None:
    long = "word " * 50_000
    corpus = corpus_of(write(tmp_path / "a.csv", f'id,text\r\n1,"two\r\nlines, ""quoted"""\r\n\r\n2,{long}\r\n3,\r\n'))
    assert list(corpus) == ['two\nlines, "quoted"', long]
    assert corpus.empty_documents_skipped == 1


def test_zip_members_are_read_by_their_own_extension_and_others_left_out(tmp_path: Path) -> None:
    path = tmp_path / "release.v2.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data/b.txt", "one\n\ntwo")
        archive.writestr("data/a.jsonl", '{"text": "three"}')
        for name in ("data/", "picture.png", "__MACOSX/b.txt", ".hidden.txt", "inner.txt.gz", "t.parquet"):
            archive.writestr(name, "must not be read")
    assert read(path) == ["one", "two", "three"]
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("data/z.csv", "body\nfour\n")
    assert "release.v2.zip!data/z.csv" in refused(lambda: corpus_of(path))


def test_zstd_frames_follow_each_other_and_skippable_frames_are_skipped(tmp_path: Path) -> None:
    pack = zstandard.ZstdCompressor().compress
    skippable = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"meta"
    write(tmp_path / "a.txt.zst", pack(b"one\n") + skippable + pack(b"") + pack(b"still one\n\ntwo"))
    assert read(tmp_path / "a.txt.zst") == ["one\nstill one", "two"]


# Plain text


@pytest.mark.parametrize(
    ("separator", "expected"),
    [
        ("blank_line", ["one\nline ", "second", "third"]),
        ("line", ["one", "line ", "second", "third"]),
        ("file", [" \n\none\nline \n\t\nsecond\n\n\n\nthird"]),
    ],
)
def test_document_separator_says_what_ends_a_document(tmp_path: Path, separator: str, expected: list[str]) -> None:
    path = write(tmp_path / "a.txt", " \n\none\nline \n\t\nsecond\n\n\n\nthird\n\n")
    other = write(tmp_path / "b.txt", "fourth")  # the end of a file always ends a document
    assert read(path, other, document_separator=separator) == [*expected, "fourth"]


def test_a_whitespace_file_is_one_empty_document_if_files_are_documents(tmp_path: Path) -> None:
    corpus = corpus_of(write(tmp_path / "a.txt", " \n\n"), document_separator="file")
    assert (list(corpus), corpus.empty_documents_skipped, corpus.documents_seen) == ([], 1, 0)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_line_ends_of_every_system_and_a_byte_order_mark_are_accepted(tmp_path: Path, end: str, mark: bytes) -> None:
    text = "één\nregel\n\ntwee\u2028zelfde regel\n".replace("\n", end)
    assert read(write(tmp_path / "a.txt", mark + text.encode())) == ["één\nregel", "twee\u2028zelfde regel"]


def test_characters_and_line_ends_across_block_borders_survive(tmp_path: Path) -> None:
    block = 1 << 20
    for shift in range(4):
        head = "x" * (block - 4 - shift)
        text = head + "😀\r\n\r\nnext\r\n" + "ß" * block  # the last line is longer than a block, too
        assert read(write(tmp_path / "a.txt", text)) == [head + "😀", "next\n" + "ß" * block]


@pytest.mark.parametrize("blocks", [0, 3])
def test_bytes_that_are_not_utf8_are_placed_exactly(tmp_path: Path, blocks: int) -> None:
    good = b"\xef\xbb\xbf" + ("é 犬\n" * 6).encode() + (b"x" * 63 + b"\n") * (blocks << 14)
    line = good.count(b"\n") + 1
    for bad, found in [(b"caf\xe9 au lait\n", "0xe9"), (b"abc\0", "NUL"), (b"abc\xe7\x8a", "0xe7")]:
        path = write(tmp_path / "a.txt", good + bad)
        message = refused(lambda path=path: read(path))
        assert f"{path}, line {line}:" in message and found in message and "iconv" in message


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
def test_utf16_is_recognised_as_not_utf8(tmp_path: Path, encoding: str) -> None:
    assert "line 1: " in refused(lambda: read(write(tmp_path / "a.txt", "text".encode(encoding))))


# Bounded memory and progress


@pytest.mark.parametrize("compression", ["", ".gz", ".zst"])
def test_reading_needs_a_small_part_of_the_file_in_memory(tmp_path: Path, compression: str) -> None:
    text = os.urandom(10 << 20).hex().encode()  # 20 MiB, which no compression makes smaller than 10
    lines = [text[start : start + 1024] for start in range(0, len(text), 1024)]
    path = write(tmp_path / f"a.txt{compression}", COMPRESS[compression](b"\n\n".join(lines)))
    documents = iter(corpus_of(path))
    tracemalloc.start()
    assert sum(1 for _ in documents) == len(lines)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20


def test_reading_parquet_needs_a_small_part_of_a_row_group_in_memory(tmp_path: Path) -> None:
    rows = [os.urandom(500).hex() for _ in range(20_000)]  # 20 MB in one row group
    path = save_parquet(tmp_path / "a.parquet", {"text": rows})
    before = pa.total_allocated_bytes()
    held = max(pa.total_allocated_bytes() - before for _ in corpus_of(path))
    assert 0 < held < 8 << 20


def test_progress_grows_with_the_documents_and_starts_again(tmp_path: Path) -> None:
    rows = [f"{number:07d} " + os.urandom(500).hex() for number in range(4000)]
    parquet = save_parquet(tmp_path / "a.parquet", {"text": rows})
    text = write(tmp_path / "b.txt", "\n\n".join(rows))
    corpus = corpus_of(parquet, text)
    assert corpus.size_bytes == os.path.getsize(parquet) + os.path.getsize(text)
    assert next(iter(corpus)) == rows[0]
    for _ in range(2):
        positions = [corpus.bytes_read for _ in corpus]
        assert positions == sorted(positions)
        assert positions[0] < 0.02 * corpus.size_bytes
        assert positions[2000] == pytest.approx(os.path.getsize(parquet) / 2, rel=0.05)
        assert os.path.getsize(parquet) < positions[4001] < corpus.size_bytes
        assert corpus.bytes_read == corpus.size_bytes
        assert corpus.documents_seen == 8000


# Finding files


def test_a_folder_is_its_readable_files_sorted_without_hidden_ones(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    for name in ("b.txt", "a/z.jsonl", "c/deep/er/x.csv", "notes", "read.md"):
        text = {"z.jsonl": '{"text": "z.jsonl"}', "x.csv": "text\nx.csv"}.get(Path(name).name, Path(name).name)
        write(tmp_path / name, text)
    for name in (".hidden.txt", ".git/config.txt", "picture.png", "archive.tar.gz", "table.parquet.gz"):
        write(tmp_path / name, "must not be read")
    assert read(tmp_path) == ["z.jsonl", "b.txt", "x.csv", "notes", "read.md"]
    (line,) = [message for message in caplog.messages if str(tmp_path) in message]
    assert "5 files" in line and "3 files" in line and "1 .png" in line and "2 .gz" in line


def test_links_are_followed_once_and_a_circle_ends(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere/a.txt", "linked")
    write(tmp_path / "corpus/b.txt", "plain")
    (tmp_path / "corpus/link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "corpus/again.txt").symlink_to(tmp_path / "corpus/b.txt")
    (tmp_path / "elsewhere/up").symlink_to(tmp_path / "corpus")
    assert sorted(read(tmp_path / "corpus")) == ["linked", "plain"]


def test_a_glob_is_its_matches_sorted_and_each_file_is_read_once(tmp_path: Path) -> None:
    for name in ("x/10.txt", "x/9.txt", "x/y/1.txt", "x/y/1.csv"):
        write(tmp_path / name, name)
    assert read(tmp_path / "x/*.txt") == ["x/10.txt", "x/9.txt"]
    assert read(tmp_path / "**/x/**/*.txt") == ["x/10.txt", "x/9.txt", "x/y/1.txt"]
    assert read(tmp_path / "x/[0-9]*.txt", tmp_path / "x/9.txt") == ["x/10.txt", "x/9.txt", "x/9.txt"]


def test_a_name_with_brackets_is_a_name_and_a_home_folder_is_expanded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read(write(tmp_path / "corpus[1].txt", "bracket")) == ["bracket"]
    monkeypatch.setenv("HOME", str(tmp_path))
    assert read("~/corpus[1].txt") == ["bracket"]


@pytest.mark.parametrize("entry", ["missing.txt", "*.jsonl", "empty", "a.pdf", "*.pdf", "pipe"])
def test_entries_that_name_nothing_readable_are_refused_at_once(tmp_path: Path, entry: str) -> None:
    (tmp_path / "empty").mkdir()
    write(tmp_path / "a.pdf", "%PDF")
    os.mkfifo(tmp_path / "pipe")
    assert str(tmp_path) in refused(lambda: corpus_of(tmp_path / entry))


def test_files_of_zero_size_give_no_document_and_no_error(tmp_path: Path) -> None:
    assert read(*(write(tmp_path / f"a.{extension}", b"") for extension in ("txt", "jsonl", "csv"))) == []


# Broken files and rows


@pytest.mark.parametrize("compression", [".gz", ".bz2", ".xz", ".zst"])
def test_truncated_files_are_named(tmp_path: Path, compression: str) -> None:
    # Incompressible text over several blocks, so that the beginning reads well and only the end is missing.
    whole = COMPRESS[compression](os.urandom(1 << 20).hex().encode())
    path = write(tmp_path / f"a.txt{compression}", whole[: len(whole) * 2 // 3])
    assert path in refused(lambda: read(path))


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.bz2", "a.txt.xz", "a.txt.zst", "a.zip", "a.parquet"])
def test_files_that_are_not_what_their_extension_says_are_named(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, b"plain text after all, without any magic bytes\n" * 3)
    assert path in refused(lambda: read(path))


def test_a_damaged_parquet_page_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    save_parquet(path, {"text": [os.urandom(50).hex() for _ in range(5000)]}, compression="zstd")
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 3 : len(damaged) // 2] = b"\xff" * (len(damaged) // 2 - len(damaged) // 3)
    path.write_bytes(damaged)
    assert "a.parquet" in refused(lambda: read(path))


@pytest.mark.parametrize(
    ("name", "data", "place", "found"),
    [
        ("a.jsonl", '{"text": "a"}\n{"text": "b"\n', "a.jsonl, line 2", ""),
        ("a.json", '[\n  {"text": "a"}\n]', "line 1", ""),
        ("a.json", '[{"text": "a"}]', "line 1", "list"),
        ("a.jsonl", "[" * 100_000, "a.jsonl", "recursion"),
        ("a.jsonl", '{"text": "a"}\n\n{"body": "b", "n": 1}', "line 3", "'text', it has: body, n"),
        ("a.jsonl", '{"text": "a"}\n{"text": 3}', "line 2", "int"),
        ("a.jsonl", '{"text": "\\ud83d\\ude00"}\n{"text": "\\ud83d"}', "line 2", "surrogate"),
        ("a.csv", "id,body\n1,x\n", "a.csv", "'text', it has: id, body"),
        ("a.csv", 'id,text\n1,"a\nb"\n2,hello, world\n', "line 4", "3 fields where the header has 2"),
        ("a.tsv", 'id\ttext\n1\t"Stop" he said\n', "line 2", "double quotes"),
        ("a.csv", 'id,text\n1,"never closed\n', "line 2", "double quotes"),
    ],
)
def test_rows_that_are_not_as_expected_are_placed(
    tmp_path: Path, name: str, data: str, place: str, found: str
) -> None:
    message = refused(lambda: read(write(tmp_path / name, data)))
    assert place in message and found in message


def test_columns_are_checked_in_every_file_before_anything_is_read(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", '{"text": "a"}\n')
    for name, data in [("b.jsonl", '{"body": "a"}\n'), ("b.csv", "body\na\n"), ("b.jsonl.gz", "no gzip")]:
        path = write(tmp_path / name, data)
        assert "/b." in refused(lambda: corpus_of(tmp_path))
        os.remove(path)
    save_parquet(tmp_path / "b.parquet", {"body": ["a"], "n": [1]})
    assert "'text', it has: body, n" in refused(lambda: corpus_of(tmp_path))
    assert "'n' holds int64" in refused(lambda: corpus_of(tmp_path / "b.parquet", text_column="n"))


def test_parquet_text_that_is_not_utf8_is_placed(tmp_path: Path) -> None:
    column = pa.array([b"good"] * 70 + [b"caf\xe9"]).cast(pa.string(), safe=False)
    path = save_parquet(tmp_path / "a.parquet", {"text": column})
    assert "a.parquet, rows 65 to 71" in refused(lambda: read(path))


def test_an_encrypted_zip_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "text")
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1  # the flag in the central directory
    path.write_bytes(data)
    message = refused(lambda: corpus_of(path))
    assert str(path) in message and "a.txt" in message and "encrypted" in message


# Data sets


def test_a_saved_dataset_and_a_split_of_a_saved_dict_are_read(tmp_path: Path) -> None:
    texts = [f"row {number}" for number in range(200)]
    dataset = datasets.Dataset.from_dict({"n": list(range(203)), "text": [*texts, None, " ", "a\r\nb"]})
    dataset.save_to_disk(tmp_path / "one")
    datasets.DatasetDict(train=dataset, validation=dataset.select([5, 3])).save_to_disk(tmp_path / "dict")
    corpus = dataset_corpus(tmp_path / "one")
    assert list(corpus) == [*texts, "a\nb"]
    assert corpus.empty_documents_skipped == 2
    assert corpus.bytes_read == corpus.size_bytes > 2000
    assert list(dataset_corpus(tmp_path / "dict", dataset_split="validation")) == ["row 5", "row 3"]
    for make, found in [
        (lambda: corpus_of(tmp_path / "one"), "--dataset_name"),
        (lambda: dataset_corpus(tmp_path / "one", dataset_config_name=["en"]), "'en'"),
        (lambda: dataset_corpus("builtin", dataset_config_name=["en"]), "'en'"),
        (lambda: dataset_corpus(tmp_path / "dict", dataset_split="test"), "'test', it has: train, validation"),
        (lambda: dataset_corpus(tmp_path / "one", dataset_split="test"), "--dataset_split test"),
    ]:
        assert found in refused(make)


def test_a_local_folder_of_parquet_loads_as_a_hub_dataset_does(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    save_parquet(tmp_path / "repo/train-00000.parquet", {"text": ["a", "b", "c", "d"], "n": [1, 2, 3, 4]})
    name = str(tmp_path / "repo")
    assert list(dataset_corpus(name, dataset_split="train[:50%]")) == ["a", "b"]
    mistakes: list[tuple[dict[str, Any], str]] = [
        ({"dataset_split": "tset"}, "split tset"),
        ({"dataset_config_name": ["en"]}, "configuration en"),
        ({"text_column": "body"}, "'body', it has: text, n"),
        ({"text_column": "n"}, "'n' holds int64"),
    ]
    for wrong, found in mistakes:
        assert found in refused(lambda wrong=wrong: dataset_corpus(name, **wrong))


@pytest.mark.parametrize(
    ("name", "config", "loaded", "loaded_config"),
    [
        ("wikipedia", [], "wikimedia/wikipedia", "20231101.en"),
        ("wikipedia", ["20231101.simple"], "wikimedia/wikipedia", "20231101.simple"),
        ("wikitext", ["none"], "Salesforce/wikitext", "wikitext-103-raw-v1"),
        ("openwebtext", [], "Skylion007/openwebtext", None),
        ("someone/something", ["none"], "someone/something", None),
    ],
)
def test_short_names_stand_for_parquet_repositories_and_without_network_say_so(
    name: str, config: list[str], loaded: str, loaded_config: str | None
) -> None:
    message = refused(lambda: dataset_corpus(name, dataset_config_name=config))
    assert f"'{loaded}' (configuration {loaded_config}, split train)" in message and "Hub" in message
    assert set(SHORT_NAMES) == {"openwebtext", "wikipedia", "bookcorpus", "wikitext"}


def test_a_folder_with_a_loading_script_and_a_broken_saved_folder_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "scripted/scripted.py", "raise SystemExit\n")
    assert str(tmp_path / "scripted") in refused(lambda: dataset_corpus(tmp_path / "scripted"))
    datasets.Dataset.from_dict({"text": ["a"]}).save_to_disk(tmp_path / "saved")
    next((tmp_path / "saved").glob("*.arrow")).write_bytes(b"cut")
    assert str(tmp_path / "saved") in refused(lambda: dataset_corpus(tmp_path / "saved"))


@pytest.mark.parametrize("name", ["", "json", "text", "a.txt"])
def test_files_and_file_formats_are_not_names_of_datasets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    write(tmp_path / "a.txt", "load_dataset('text') would read this file")
    monkeypatch.chdir(tmp_path)
    message = refused(lambda: dataset_corpus(name))
    assert f"'{name}'" in message and "--train_file" in message


def test_builtin_is_the_documentation_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("electra.data.corpus.builtin_documents", lambda: iter(["one", "two"]))  # parsing takes seconds
    corpus = dataset_corpus("builtin")
    assert list(corpus) == ["one", "two"]
    assert corpus.bytes_read == corpus.size_bytes > 1_000_000
    assert corpus.describe()[0]["kind"] == "builtin"


# Options


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"dataset_name": [], "train_file": []}, "--train_file"),
        ({"dataset_sampling": [0.5, 0.5, 0.5]}, "dataset_sampling has 3 values for 2"),
        ({"dataset_sampling": [0.0]}, "dataset_sampling 0.0"),
        ({"dataset_sampling": [1.0, 1.5]}, "dataset_sampling 1.5"),
        ({"dataset_sampling": [float("nan")]}, "dataset_sampling nan"),
        ({"dataset_config_name": ["a", "b"]}, "dataset_config_name has 2 values for 1"),
        ({"dataset_config_name": ["a"], "dataset_name": []}, "dataset_config_name has 1 values for 0"),
    ],
)
def test_options_are_checked(tmp_path: Path, options: dict[str, Any], found: str) -> None:
    named = {"dataset_name": ["builtin"], "train_file": [write(tmp_path / "a.txt", "text")]}
    assert found in refused(lambda: Corpus(CorpusArguments(**{**named, **options})))


# Sampling


@pytest.fixture
def numbered(tmp_path: Path) -> str:
    return write(tmp_path / "numbered.txt", "".join(f"{number}\n" for number in range(20_000)))


def sample(path: str, *fractions: float, seed: int = 42) -> list[int]:
    kept = read(*[path] * len(fractions), document_separator="line", dataset_sampling=list(fractions), seed=seed)
    return list(map(int, kept))


def test_sampling_keeps_a_random_subset_of_about_the_fraction(numbered: str) -> None:
    kept = sample(numbered, 0.3)
    assert kept == sample(numbered, 0.3) == sorted(set(kept))
    # Binomial(20000, 0.3) has a standard deviation of 65, each tenth of it one of 20.
    assert len(kept) == pytest.approx(6000, abs=4 * 65)
    tenths = [sum(number // 2000 == tenth for number in kept) for tenth in range(10)]
    assert tenths == pytest.approx([600] * 10, abs=4 * 20.5)
    # Neighbours are drawn independently: both are kept with probability 0.09.
    pairs = sum(second - first == 1 for first, second in itertools.pairwise(kept))
    assert pairs == pytest.approx(1800, abs=250)


def test_seeds_and_sources_draw_differently_and_a_larger_fraction_contains_a_smaller(numbered: str) -> None:
    kept = set(sample(numbered, 0.3))
    assert len(kept & set(sample(numbered, 0.3, seed=43))) == pytest.approx(1800, abs=250)
    assert kept < set(sample(numbered, 0.4))
    both = sample(numbered, 0.3, 0.3)
    assert set(both[: len(kept)]) == kept
    assert len(kept & set(both[len(kept) :])) == pytest.approx(1800, abs=250)


def test_fractions_belong_to_names_then_files_and_what_is_left_out_is_counted(tmp_path: Path, numbered: str) -> None:
    datasets.Dataset.from_dict({"text": ["a", "b", None, "c"] * 25}).save_to_disk(tmp_path / "saved")
    corpus = corpus_of(
        numbered,
        numbered,
        dataset_name=[str(tmp_path / "saved")],
        dataset_sampling=[1.0, 0.1, 1.0],
        document_separator="line",
    )
    documents = list(corpus)
    assert documents[:75] == ["a", "b", "c"] * 25
    assert documents[-20_000:] == [str(number) for number in range(20_000)]
    assert (corpus.documents_seen, corpus.empty_documents_skipped) == (40_075, 25)
    assert corpus.documents_sampled_out == 40_075 - len(documents) == pytest.approx(18_000, abs=200)


# Fingerprint and description


def fingerprint(*files: str, **options: Any) -> str:
    return corpus_of(*files, **options).fingerprint()


def test_the_fingerprint_changes_with_all_that_changes_the_documents(tmp_path: Path) -> None:
    text = write(tmp_path / "a.txt", "one\n\ntwo")
    table = write(tmp_path / "b.jsonl", '{"text": "a", "body": "b"}')
    saved = str(tmp_path / "saved")
    datasets.Dataset.from_dict({"text": ["a"]}).save_to_disk(saved)
    prints = [
        fingerprint(text),
        fingerprint(table),
        fingerprint(text, table),
        fingerprint(table, text),
        fingerprint(text, text),
        fingerprint(text, document_separator="line"),
        fingerprint(table, text_column="body"),
        fingerprint(text, dataset_sampling=[0.5]),
        fingerprint(text, dataset_sampling=[0.5], seed=1),
        fingerprint(text, dataset_sampling=[0.6]),
        fingerprint(text, table, dataset_sampling=[0.5, 1.0]),
        fingerprint(text, table, dataset_sampling=[1.0, 0.5]),
        fingerprint(text, dataset_name=["builtin"]),
        fingerprint(text, dataset_name=[saved]),
    ]
    datasets.Dataset.from_dict({"text": ["b"]}).save_to_disk(saved)
    prints.append(fingerprint(text, dataset_name=[saved]))
    status = os.stat(text)
    os.utime(text, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    prints.append(fingerprint(text))
    write(tmp_path / "a.txt", "one\n\ntwo!")
    os.utime(text, ns=(status.st_atime_ns, status.st_mtime_ns))
    prints.append(fingerprint(text))
    assert len(set(prints)) == len(prints) == 17
    assert all(len(value) == 64 and int(value, 16) for value in prints)


def test_the_fingerprint_ignores_what_does_not_change_the_documents(tmp_path: Path) -> None:
    text = write(tmp_path / "a.txt", "one\n\ntwo")
    table = write(tmp_path / "b.jsonl", '{"text": "a"}')
    assert fingerprint(text) == fingerprint(text, seed=7) == fingerprint(text, text_column="body")
    assert fingerprint(text) == fingerprint(text, dataset_sampling=[1.0], seed=3)
    assert fingerprint(text) == fingerprint(str(tmp_path / "*.txt")) == fingerprint(os.path.relpath(text))
    assert fingerprint(table) == fingerprint(table, document_separator="line")


def test_the_description_is_json_and_names_every_input(tmp_path: Path) -> None:
    text = write(tmp_path / "a.txt", "one")
    table = write(tmp_path / "b.jsonl", '{"text": "a"}')
    saved = str(tmp_path / "saved")
    datasets.DatasetDict(train=datasets.Dataset.from_dict({"text": ["a", "b"]})).save_to_disk(saved)
    corpus = corpus_of(tmp_path / "[ab].*", dataset_name=[saved], dataset_sampling=[0.5])
    dataset, files = json.loads(json.dumps(corpus.describe()))
    assert {key: dataset[key] for key in ("name", "kind", "id", "config", "split", "rows", "sampling")} == {
        "name": saved, "kind": "saved", "id": saved, "config": None, "split": "train", "rows": 2, "sampling": 0.5,
    }  # fmt: skip
    assert files == {
        "name": str(tmp_path / "[ab].*"),
        "kind": "files",
        "files": [{"path": text, "bytes": 3}, {"path": table, "bytes": 13}],
        "text_files": 1,
        "sampling": 0.5,
    }
