"""The corpus: every format and packing gives the same documents, and what cannot be read as promised says so."""

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

from electra.data.corpus import SHORT_NAMES, Corpus, CorpusOptions
from electra.errors import UserError

DOCUMENTS = ["The first document.\nIt has two lines.", "Zweites Dokument, größer: 犬 😀", 'He said "no", then\tleft.']
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    ".gz": lambda data: gzip.compress(data, compresslevel=1),
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
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


def read(*files: str | Path, **options: Any) -> list[str]:
    return list(Corpus(CorpusOptions(train_file=tuple(map(str, files)), **options)))


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


@pytest.mark.parametrize("packed", [*PACKERS, ".zip"])
@pytest.mark.parametrize("file_format", ["txt", "jsonl", "csv", "tsv"])
def test_every_format_gives_the_same_documents_packed_or_not(tmp_path: Path, file_format: str, packed: str) -> None:
    data = encode(DOCUMENTS, file_format, tmp_path)
    path = tmp_path / f"corpus.{file_format}{packed}"
    if packed == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(f"corpus.{file_format}", data)
    else:
        path.write_bytes(PACKERS[packed](data))
    corpus = Corpus(CorpusOptions(train_file=(str(path),)))
    assert list(corpus) == DOCUMENTS
    assert (corpus.bytes_read, corpus.size_bytes) == (path.stat().st_size, path.stat().st_size)


@pytest.mark.parametrize("name", ["a.text", "a.raw", "a.tokens", "a.md", "A.TXT", "wiki_00"])
def test_known_text_extensions_and_none_are_plain_text(tmp_path: Path, name: str) -> None:
    assert read(write(tmp_path / name, "one\n\ntwo")) == ["one", "two"]


def test_parquet_gives_the_text_column_of_every_row_group_and_skips_null(tmp_path: Path) -> None:
    texts = [f"document {number}" if number % 10 else None for number in range(500)]
    path = save_parquet(tmp_path / "a.parquet", {"n": list(range(500)), "body": texts}, row_group_size=90)
    corpus = Corpus(CorpusOptions(train_file=(path,), text_column="body"))
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
        corpus = Corpus(CorpusOptions(train_file=(write(tmp_path / name, lines),)))
        assert list(corpus) == ["one", "two\nlines\nhere"]
        assert corpus.empty_documents_skipped == 2


def test_csv_keeps_quoted_line_ends_and_fields_longer_than_the_default_limit(tmp_path: Path) -> None:
    long = "word " * 50_000
    path = write(tmp_path / "a.csv", f'id,text\r\n1,"two\r\nlines, ""quoted"""\r\n\r\n2,{long}\r\n3,\r\n')
    corpus = Corpus(CorpusOptions(train_file=(path,)))
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
    with pytest.raises(UserError, match=r"release\.v2\.zip!data/z\.csv has no column 'text', it has: body"):
        Corpus(CorpusOptions(train_file=(str(path),)))


def test_zstd_frames_follow_each_other_and_skippable_frames_are_skipped(tmp_path: Path) -> None:
    pack = zstandard.ZstdCompressor().compress
    skippable = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"meta"
    write(tmp_path / "a.txt.zst", pack(b"one\n") + skippable + pack(b"") + pack(b"still one\n\ntwo"))
    assert read(tmp_path / "a.txt.zst") == ["one\nstill one", "two"]


# Plain text


TEXT = " \n\none\nline \n\t\nsecond\n\n\n\nthird\n\n"


@pytest.mark.parametrize(
    ("separator", "expected"),
    [
        ("blank_line", ["one\nline ", "second", "third"]),
        ("line", ["one", "line ", "second", "third"]),
        ("file", [" \n\none\nline \n\t\nsecond\n\n\n\nthird"]),
    ],
)
def test_document_separator_says_what_ends_a_document(tmp_path: Path, separator: str, expected: list[str]) -> None:
    path = write(tmp_path / "a.txt", TEXT)
    other = write(tmp_path / "b.txt", "fourth")  # the end of a file always ends a document
    assert read(path, other, document_separator=separator) == [*expected, "fourth"]


def test_a_whitespace_file_is_one_empty_document_if_files_are_documents(tmp_path: Path) -> None:
    corpus = Corpus(CorpusOptions(train_file=(write(tmp_path / "a.txt", " \n\n"),), document_separator="file"))
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
    for bad, found in [(b"caf\xe9 au lait\n", "byte 0xe9"), (b"abc\0", "a NUL byte"), (b"abc\xe7\x8a", "byte 0xe7")]:
        path = write(tmp_path / "a.txt", good + bad)
        with pytest.raises(UserError) as caught:
            read(path)
        message = str(caught.value)
        assert f"{path}: {found} at byte offset {len(good) + 3} (line {line}) is not UTF-8" in message
        assert "iconv" in message


@pytest.mark.parametrize(("encoding", "offset"), [("utf-16", 0), ("utf-16-le", 1)])
def test_utf16_is_recognised_as_not_utf8(tmp_path: Path, encoding: str, offset: int) -> None:
    with pytest.raises(UserError, match=rf"byte offset {offset} \(line 1\) is not UTF-8"):
        read(write(tmp_path / "a.txt", "text".encode(encoding)))


# Bounded memory and progress


@pytest.mark.parametrize("packed", ["", ".gz", ".zst"])
def test_reading_holds_a_small_part_of_the_file(tmp_path: Path, packed: str) -> None:
    text = os.urandom(10 << 20).hex().encode()  # 20 MiB, which no packer makes smaller than 10
    lines = [text[start : start + 1024] for start in range(0, len(text), 1024)]
    path = write(tmp_path / f"a.txt{packed}", PACKERS[packed](b"\n\n".join(lines)))
    documents = iter(Corpus(CorpusOptions(train_file=(path,))))
    tracemalloc.start()
    assert sum(1 for _ in documents) == len(lines)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20


def test_reading_parquet_holds_a_small_part_of_a_row_group(tmp_path: Path) -> None:
    rows = [os.urandom(500).hex() for _ in range(20_000)]  # 20 MB in one row group
    path = save_parquet(tmp_path / "a.parquet", {"text": rows})
    before = pa.total_allocated_bytes()
    documents = iter(Corpus(CorpusOptions(train_file=(path,))))
    held = max(pa.total_allocated_bytes() - before for _ in documents)
    assert 0 < held < 8 << 20


def test_progress_grows_with_the_documents_and_starts_again(tmp_path: Path) -> None:
    rows = [f"{number:07d} " + os.urandom(500).hex() for number in range(4000)]
    parquet = save_parquet(tmp_path / "a.parquet", {"text": rows})
    text = write(tmp_path / "b.txt", "\n\n".join(rows))
    corpus = Corpus(CorpusOptions(train_file=(parquet, text)))
    assert corpus.size_bytes == os.path.getsize(parquet) + os.path.getsize(text)
    for _ in range(2):
        seen = [(document, corpus.bytes_read) for document in corpus]
        positions = [position for _, position in seen]
        assert positions == sorted(positions)
        assert positions[0] < 0.02 * corpus.size_bytes
        assert positions[2000] == pytest.approx(os.path.getsize(parquet) / 2, rel=0.05)
        assert os.path.getsize(parquet) < positions[4001] < corpus.size_bytes
        assert corpus.bytes_read == corpus.size_bytes
        assert corpus.documents_seen == 8000


def test_iteration_starts_again_after_being_left_in_the_middle(tmp_path: Path) -> None:
    corpus = Corpus(CorpusOptions(train_file=(write(tmp_path / "a.txt", "one\n\ntwo\n\nthree"),)))
    assert next(iter(corpus)) == "one"
    assert list(corpus) == ["one", "two", "three"]
    assert corpus.documents_seen == 3


# Finding files


def test_a_folder_is_its_readable_files_sorted_without_hidden_ones(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.jsonl", "c/deep/er/x.csv", "notes"):
        text = {"z.jsonl": '{"text": "z.jsonl"}', "x.csv": "text\nx.csv"}.get(Path(name).name, Path(name).name)
        write(tmp_path / name, text)
    for name in (".hidden.txt", ".git/config.txt", "picture.png", "archive.tar.gz", "table.parquet.gz"):
        write(tmp_path / name, "must not be read")
    assert read(tmp_path) == ["z.jsonl", "b.txt", "x.csv", "notes"]


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


def test_a_name_with_brackets_is_a_name_before_it_is_a_pattern(tmp_path: Path) -> None:
    assert read(write(tmp_path / "corpus[1].txt", "bracket")) == ["bracket"]


def test_a_home_folder_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / "a.txt", "home")
    assert read("~/a.txt") == ["home"]


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("missing.txt", "no such file or folder"),
        ("*.jsonl", "no such file or folder, and no file matches"),
        ("empty", "no file below this folder can be read; expected plain text"),
        ("a.pdf", r"not supported; expected plain text .*\.parquet"),
        ("*.pdf", "not supported"),
        ("pipe", "neither a file nor a folder"),
    ],
)
def test_entries_that_name_nothing_readable_are_refused_at_once(tmp_path: Path, entry: str, reason: str) -> None:
    (tmp_path / "empty").mkdir()
    write(tmp_path / "a.pdf", "%PDF")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match=reason) as caught:
        Corpus(CorpusOptions(train_file=(str(tmp_path / entry),)))
    assert str(tmp_path) in str(caught.value)


def test_files_of_zero_size_give_no_document_and_no_error(tmp_path: Path) -> None:
    assert read(*(write(tmp_path / f"a.{extension}", b"") for extension in ("txt", "jsonl", "csv"))) == []


# Broken files and rows


def test_files_that_were_cut_off_are_named(tmp_path: Path) -> None:
    # Incompressible text over several blocks, so that the beginning reads well and only the end is missing.
    data = os.urandom(1 << 20).hex().encode()
    for packed in (".gz", ".bz2", ".xz", ".zst"):
        whole = PACKERS[packed](data)
        path = write(tmp_path / f"a.txt{packed}", whole[: len(whole) * 2 // 3])
        with pytest.raises(UserError, match=r"is broken, incomplete or not permitted: .") as caught:
            read(path)
        assert path in str(caught.value)


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.bz2", "a.txt.xz", "a.txt.zst", "a.zip", "a.parquet"])
def test_files_that_are_not_what_their_extension_says_are_named(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, b"plain text after all, without any magic bytes\n" * 3)
    with pytest.raises(UserError, match="is broken") as caught:
        read(path)
    assert path in str(caught.value)


def test_a_damaged_parquet_page_is_named_while_reading(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    save_parquet(path, {"text": [os.urandom(50).hex() for _ in range(5000)]}, compression="zstd")
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 3 : len(damaged) // 2] = b"\xff" * (len(damaged) // 2 - len(damaged) // 3)
    path.write_bytes(damaged)
    corpus = Corpus(CorpusOptions(train_file=(str(path),)))  # header and footer are fine
    with pytest.raises(UserError, match=r"a\.parquet"):
        list(corpus)


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.jsonl", '{"text": "a"}\n{"text": "b"\n', r"a\.jsonl, line 2: expected one JSON object per line"),
        ("a.json", '[\n  {"text": "a"}\n]', "line 1: expected one JSON object per line"),
        ("a.json", '[{"text": "a"}]', "line 1: expected one JSON object per line, got list"),
        ("a.jsonl", "[" * 100_000, "line 1: expected one JSON object"),
        ("a.jsonl", '{"text": "a"}\n\n{"body": "b", "n": 1}', "line 3 has no column 'text', it has: body, n"),
        ("a.jsonl", '{"text": "a"}\n{"text": 3}', "line 2: 'text' holds int, expected text or null"),
        ("a.jsonl", '{"text": "\\ud83d\\ude00"}\n{"text": "\\ud83d"}', "line 2: 'text' has half of a surrogate pair"),
        ("a.csv", "id,body\n1,x\n", r"a\.csv has no column 'text', it has: id, body; .*--text_column"),
        ("a.csv", 'id,text\n1,"a\nb"\n2,hello, world\n', "line 4: 3 fields where the header has 2"),
        ("a.tsv", 'id\ttext\n1\t"Stop" he said\n', "line 2: .*double quotes"),
        ("a.csv", 'id,text\n1,"never closed\n', "line 2: .*double quotes"),
    ],
)
def test_rows_that_are_not_as_promised_are_placed(tmp_path: Path, name: str, data: str, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        read(write(tmp_path / name, data))


def test_columns_are_checked_in_every_file_before_anything_is_read(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", '{"text": "a"}\n')
    for name, data in [("b.jsonl", '{"body": "a"}\n'), ("b.csv", "body\na\n"), ("b.jsonl.gz", "no gzip")]:
        path = write(tmp_path / name, data)
        with pytest.raises(UserError, match=r"/b\."):
            Corpus(CorpusOptions(train_file=(str(tmp_path),)))
        os.remove(path)
    save_parquet(tmp_path / "b.parquet", {"body": ["a"], "n": [1]})
    with pytest.raises(UserError, match="no column 'text', it has: body, n"):
        Corpus(CorpusOptions(train_file=(str(tmp_path),)))
    with pytest.raises(UserError, match="column 'n' holds int64, not text"):
        Corpus(CorpusOptions(train_file=(str(tmp_path / "b.parquet"),), text_column="n"))


def test_parquet_text_that_is_not_utf8_is_placed(tmp_path: Path) -> None:
    column = pa.array([b"good"] * 70 + [b"caf\xe9"]).cast(pa.string(), safe=False)
    path = save_parquet(tmp_path / "a.parquet", {"text": column})
    with pytest.raises(UserError, match=r"a\.parquet, rows 65 to 71: the text is not UTF-8"):
        read(path)


def test_an_encrypted_zip_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "text")
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1  # the flag in the central directory
    path.write_bytes(data)
    with pytest.raises(UserError, match=r"a\.zip!a\.txt is encrypted"):
        Corpus(CorpusOptions(train_file=(str(path),)))


# Data sets


def test_a_saved_dataset_and_a_split_of_a_saved_dict_are_read(tmp_path: Path) -> None:
    texts = [f"row {number}" for number in range(200)]
    dataset = datasets.Dataset.from_dict({"n": list(range(203)), "text": [*texts, None, " ", "a\r\nb"]})
    dataset.save_to_disk(tmp_path / "one")
    datasets.DatasetDict(train=dataset, validation=dataset.select([5, 3])).save_to_disk(tmp_path / "dict")
    corpus = Corpus(CorpusOptions(dataset_name=(str(tmp_path / "one"),)))
    assert list(corpus) == [*texts, "a\nb"]
    assert corpus.empty_documents_skipped == 2
    assert corpus.bytes_read == corpus.size_bytes > 2000
    options = CorpusOptions(dataset_name=(str(tmp_path / "dict"),), dataset_split="validation")
    assert list(Corpus(options)) == ["row 5", "row 3"]


def test_a_local_folder_of_parquet_loads_as_a_hub_dataset_does(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    save_parquet(tmp_path / "repo/train-00000.parquet", {"text": ["a", "b", "c", "d"], "n": [1, 2, 3, 4]})
    name = str(tmp_path / "repo")
    assert list(Corpus(CorpusOptions(dataset_name=(name,), dataset_split="train[:50%]"))) == ["a", "b"]
    mistakes: list[tuple[dict[str, Any], str]] = [
        ({"dataset_split": "tset"}, r"split tset\) could not be loaded: Unknown split"),
        ({"dataset_config_name": ("en",)}, r"configuration en, .*BuilderConfig 'en' not found"),
        ({"text_column": "body"}, "has no column 'body', it has: text, n"),
        ({"text_column": "n"}, "column 'n' holds int64, not text"),
    ]
    for wrong, reason in mistakes:
        with pytest.raises(UserError, match=reason):
            Corpus(CorpusOptions(dataset_name=(name,), **wrong))


@pytest.mark.parametrize(
    ("name", "config", "loaded", "loaded_config"),
    [
        ("wikipedia", (), "wikimedia/wikipedia", "20231101.en"),
        ("wikipedia", ("20231101.simple",), "wikimedia/wikipedia", "20231101.simple"),
        ("wikitext", ("none",), "Salesforce/wikitext", "wikitext-103-raw-v1"),
        ("openwebtext", (), "Skylion007/openwebtext", None),
        ("someone/something", ("none",), "someone/something", None),
    ],
)
def test_short_names_stand_for_parquet_repositories_and_without_network_say_so(
    name: str, config: tuple[str, ...], loaded: str, loaded_config: str | None
) -> None:
    reason = rf"dataset '{loaded}' \(configuration {loaded_config}, split train\) could not be loaded: .*reach.*Hub"
    with pytest.raises(UserError, match=reason):
        Corpus(CorpusOptions(dataset_name=(name,), dataset_config_name=config))
    assert set(SHORT_NAMES) == {"openwebtext", "wikipedia", "bookcorpus", "wikitext"}


def test_a_folder_with_a_loading_script_and_a_broken_saved_folder_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "scripted/scripted.py", "raise SystemExit\n")
    with pytest.raises(UserError, match="could not be loaded: Dataset scripts are no longer supported"):
        Corpus(CorpusOptions(dataset_name=(str(tmp_path / "scripted"),)))
    datasets.Dataset.from_dict({"text": ["a"]}).save_to_disk(tmp_path / "saved")
    next((tmp_path / "saved").glob("*.arrow")).write_bytes(b"cut")
    with pytest.raises(UserError, match=r"dataset .*saved cannot be read, it is broken or incomplete"):
        Corpus(CorpusOptions(dataset_name=(str(tmp_path / "saved"),)))


def test_saved_folders_are_told_from_files_and_have_no_configurations(tmp_path: Path) -> None:
    dataset = datasets.Dataset.from_dict({"text": ["a"]})
    dataset.save_to_disk(tmp_path / "one")
    datasets.DatasetDict(train=dataset).save_to_disk(tmp_path / "dict")
    one, both = str(tmp_path / "one"), str(tmp_path / "dict")
    for options, reason in [
        (CorpusOptions(train_file=(one,)), "written by datasets.save_to_disk; name it with --dataset_name"),
        (CorpusOptions(dataset_name=(one,), dataset_config_name=("en",)), "has no configuration 'en'"),
        (CorpusOptions(dataset_name=("builtin",), dataset_config_name=("en",)), "has no configuration 'en'"),
        (CorpusOptions(dataset_name=(both,), dataset_split="test"), "no split 'test', it has: train"),
        (CorpusOptions(dataset_name=(one,), dataset_split="test"), "saved without splits"),
    ]:
        with pytest.raises(UserError, match=reason):
            Corpus(options)


@pytest.mark.parametrize("name", ["", "json", "text", "a.txt"])
def test_files_and_file_formats_are_not_names_of_datasets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    write(tmp_path / "a.txt", "load_dataset('text') would read this file")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=rf"'{name}' is not the name of a data set; name files with --train_file"):
        Corpus(CorpusOptions(dataset_name=(name,)))


def test_builtin_is_the_text_of_the_python_installation() -> None:
    corpus = Corpus(CorpusOptions(dataset_name=("builtin",)))
    documents = list(corpus)
    assert len(documents) == corpus.documents_seen > 300
    assert any(document.startswith("Assignment statements\n*****") for document in documents)  # help("ASSIGNMENT")
    assert corpus.bytes_read == corpus.size_bytes > 1_000_000
    assert corpus.describe()[0]["kind"] == "builtin"


# Options


def test_no_corpus_at_all_says_how_to_name_one() -> None:
    with pytest.raises(UserError, match=r"--train_file .*--dataset_name .*builtin"):
        Corpus(CorpusOptions())


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"document_separator": "page"}, "'page': expected one of blank_line, line, file"),
        ({"dataset_sampling": (0.5, 0.5, 0.5)}, "dataset_sampling has 3 values for 2 corpora"),
        ({"dataset_sampling": (0.0,)}, "dataset_sampling 0.0: expected a fraction above 0 and up to 1"),
        ({"dataset_sampling": (1.0, 1.5)}, "dataset_sampling 1.5"),
        ({"dataset_sampling": (float("nan"),)}, "dataset_sampling nan"),
        ({"dataset_config_name": ("a", "b")}, "dataset_config_name has 2 values for 1 dataset names"),
    ],
)
def test_options_are_checked(tmp_path: Path, options: dict[str, Any], reason: str) -> None:
    train_file = (write(tmp_path / "a.txt", "text"),)
    with pytest.raises(UserError, match=reason):
        Corpus(CorpusOptions(dataset_name=("builtin",), train_file=train_file, **options))


def test_a_configuration_without_a_dataset_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="1 values for 0 dataset names"):
        read(write(tmp_path / "a.txt", "text"), dataset_config_name=("en",))


# Sampling


@pytest.fixture
def numbered(tmp_path: Path) -> str:
    return write(tmp_path / "numbered.txt", "".join(f"{number}\n" for number in range(20_000)))


def sample(path: str, *fractions: float, seed: int = 42) -> list[int]:
    options = {"document_separator": "line", "dataset_sampling": fractions, "seed": seed}
    return [int(document) for document in read(*[path] * len(fractions), **options)]


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
    second = set(both[len(kept) :])
    assert set(both[: len(kept)]) == kept
    assert len(kept & second) == pytest.approx(1800, abs=250)


def test_fractions_belong_to_names_then_files_and_counts_tell_what_was_left_out(tmp_path: Path, numbered: str) -> None:
    datasets.Dataset.from_dict({"text": ["a", "b", None, "c"] * 25}).save_to_disk(tmp_path / "saved")
    corpus = Corpus(
        CorpusOptions(
            dataset_name=(str(tmp_path / "saved"),),
            train_file=(numbered, numbered),
            dataset_sampling=(1.0, 0.1, 1.0),
            document_separator="line",
        )
    )
    assert [source.fraction for source in corpus.sources] == [1.0, 0.1, 1.0]
    documents = list(corpus)
    assert documents[:75] == ["a", "b", "c"] * 25
    assert documents[-20_000:] == [str(number) for number in range(20_000)]
    assert (corpus.documents_seen, corpus.empty_documents_skipped) == (40_075, 25)
    assert corpus.documents_sampled_out == 40_075 - len(documents) == pytest.approx(18_000, abs=200)


# Fingerprint and description


def fingerprint(*files: str, **options: Any) -> str:
    return Corpus(CorpusOptions(train_file=files, **options)).fingerprint()


def test_the_fingerprint_changes_with_all_that_changes_the_documents(tmp_path: Path) -> None:
    text = write(tmp_path / "a.txt", "one\n\ntwo")
    table = write(tmp_path / "b.jsonl", '{"text": "a", "body": "b"}')
    datasets.Dataset.from_dict({"text": ["a"]}).save_to_disk(tmp_path / "saved")
    saved = str(tmp_path / "saved")
    prints = [
        fingerprint(text),
        fingerprint(table),
        fingerprint(text, table),
        fingerprint(table, text),
        fingerprint(text, text),
        fingerprint(text, document_separator="line"),
        fingerprint(table, text_column="body"),
        fingerprint(text, dataset_sampling=(0.5,)),
        fingerprint(text, dataset_sampling=(0.5,), seed=1),
        fingerprint(text, dataset_sampling=(0.6,)),
        fingerprint(text, table, dataset_sampling=(0.5, 1.0)),
        fingerprint(text, table, dataset_sampling=(1.0, 0.5)),
        fingerprint(text, dataset_name=("builtin",)),
        fingerprint(text, dataset_name=(saved,)),
    ]
    assert len(set(prints)) == len(prints)
    assert all(len(value) == 64 and int(value, 16) for value in prints)
    datasets.Dataset.from_dict({"text": ["b"]}).save_to_disk(saved)
    assert fingerprint(text, dataset_name=(saved,)) not in prints
    status = os.stat(text)
    os.utime(text, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert fingerprint(text) not in prints
    write(tmp_path / "a.txt", "one\n\ntwo!")
    os.utime(text, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert fingerprint(text) not in prints


def test_the_fingerprint_ignores_what_does_not_change_the_documents(tmp_path: Path) -> None:
    text = write(tmp_path / "a.txt", "one\n\ntwo")
    table = write(tmp_path / "b.jsonl", '{"text": "a"}')
    assert fingerprint(text) == fingerprint(text, seed=7) == fingerprint(text, text_column="body")
    assert fingerprint(text) == fingerprint(text, dataset_sampling=(1.0,), seed=3)
    assert fingerprint(text) == fingerprint(str(tmp_path / "*.txt")) == fingerprint(os.path.relpath(text))
    assert fingerprint(table) == fingerprint(table, document_separator="line")


def test_the_description_is_json_and_names_every_input(tmp_path: Path) -> None:
    text = write(tmp_path / "a.txt", "one")
    table = write(tmp_path / "b.jsonl", '{"text": "a"}')
    datasets.DatasetDict(train=datasets.Dataset.from_dict({"text": ["a", "b"]})).save_to_disk(tmp_path / "saved")
    saved = str(tmp_path / "saved")
    options = CorpusOptions(dataset_name=(saved,), train_file=(str(tmp_path / "[ab].*"),), dataset_sampling=(0.5,))
    dataset, files = json.loads(json.dumps(Corpus(options).describe()))
    assert {key: dataset[key] for key in ("name", "kind", "id", "config", "split", "rows", "sampling")} == {
        "name": saved, "kind": "saved", "id": saved, "config": None, "split": "train", "rows": 2, "sampling": 0.5,
    }  # fmt: skip
    assert files == {
        "name": str(tmp_path / "[ab].*"),
        "kind": "files",
        "files": [{"path": text, "bytes": 3}, {"path": table, "bytes": 13}],
        "sampling": 0.5,
    }
