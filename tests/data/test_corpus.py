"""The corpus: every format and compression gives the same documents, and errors name the file and the place."""

import bz2
import csv
import gzip
import json
import lzma
import os
import tracemalloc
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pytest import approx

from electra.data.builtin import builtin_documents, builtin_files
from electra.data.corpus import Corpus
from electra.data.options import CorpusArguments
from electra.data.readers import format_of, read_file
from tests.conftest import refused
from tests.helpers import parametrize

# Several lines, several bytes to a letter, a mark of quotation and a tab: what a format may have to escape.
DOCUMENTS = ["The first document.\nIt has two lines.", "Zweites Dokument, größer: 犬 😀", 'He said "no", then\tleft.']
COMPRESS = {
    "": lambda data: data,
    ".gz": lambda data: gzip.compress(data, compresslevel=1),
    ".zst": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
    ".xz": lzma.compress,
    ".bz2": lambda data: bz2.compress(data[:40]) + bz2.compress(data[40:]),  # two streams, as of pbzip2
}


@pytest.fixture(autouse=True)
def empty_datasets_cache(monkeypatch, tmp_path):
    """No data set that this machine has downloaded before is found."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hf-cache")


def write(path, data):
    """Write a file and the folders above it; return its path as text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8"))
    return str(path)


def corpus_of(*files, seed=42, **options):
    """The corpus of files, folders and globs."""
    return Corpus(CorpusArguments(train_file=list(map(str, files)), **options), seed)


def dataset_corpus(name, **options):
    """The corpus of one data set, by its name or its folder."""
    return Corpus(CorpusArguments(dataset_name=[str(name)], **options))


def read(*files, **options):
    """All documents of files, folders and globs."""
    return list(corpus_of(*files, **options))


def save_parquet(path, columns, **options):
    """Write a table; return its path as text."""
    pq.write_table(pa.table(columns), path, **options)
    return str(path)


# Formats


@parametrize("compression", COMPRESS)
@parametrize("file_format", ["txt", "jsonl", "csv"])
def test_every_format_and_compression_gives_the_same_documents(tmp_path, file_format, compression):
    plain = tmp_path / "plain"
    path = tmp_path / f"corpus.{file_format}{compression}"
    with plain.open("w", newline="", encoding="utf-8") as file:
        if file_format == "txt":
            file.write("\n\n".join(DOCUMENTS))
        elif file_format == "jsonl":
            file.write("".join(json.dumps({"id": 7, "text": document}) + "\n" for document in DOCUMENTS))
        else:
            csv.writer(file).writerows([["id", "text"], *([7, document] for document in DOCUMENTS)])
    path.write_bytes(COMPRESS[compression](plain.read_bytes()))
    corpus = corpus_of(path)
    assert list(corpus) == list(corpus) == DOCUMENTS
    assert corpus.size_bytes == path.stat().st_size


@parametrize("column_type", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_parquet_gives_the_text_column_of_every_row_group(tmp_path, column_type):
    texts = [f"document {number}" if number % 10 else None for number in range(500)]
    columns = {"n": list(range(500)), "body": pa.array(texts).cast(column_type)}
    corpus = corpus_of(save_parquet(tmp_path / "a.parquet", columns, row_group_size=90), text_column="body")
    assert list(corpus) == [text for text in texts if text]


def test_rows_may_have_several_lines_and_empty_rows_are_left_out(tmp_path):
    lines = '\ufeff{"text": "one"}\r\n\r\n{"text": "two\\r\\nlines\\rhere"}\n{"text": null}\n{"text": " \\n"}'
    assert read(write(tmp_path / "a.json", lines)) == ["one", "two\nlines\nhere"]
    long = "word " * 50_000  # csv's default limit is shorter
    table = f'id,text\r\n1,"two\r\nlines, ""quoted"""\r\n\r\n2,{long}\r\n3,\r\n'
    assert read(write(tmp_path / "a.csv", table)) == ['two\nlines, "quoted"', long]
    assert read(write(tmp_path / "a.tsv", 'id\ttext\n1\tsaid "no", then\n')) == ['said "no", then']


# Plain text


@parametrize(
    ("separator", "expected"),
    [
        ("blank_line", ["one\nline ", "second", "third"]),
        ("line", ["one", "line ", "second", "third"]),
        ("file", [" \n\none\nline \n\t\nsecond\n\n\n\nthird"]),
    ],
)
def test_document_separator_says_what_ends_a_document(tmp_path, separator, expected):
    path = write(tmp_path / "a.txt", " \n\none\nline \n\t\nsecond\n\n\n\nthird\n\n")
    other = write(tmp_path / "b.txt", "fourth")  # the end of a file always ends a document
    assert read(path, other, document_separator=separator) == [*expected, "fourth"]


@parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_of_every_system_are_accepted(tmp_path, end):
    text = "één\nregel\n\ntwee\u2028zelfde regel\n".replace("\n", end)
    for mark in (b"", b"\xef\xbb\xbf"):
        assert read(write(tmp_path / "a.txt", mark + text.encode())) == ["één\nregel", "twee\u2028zelfde regel"]


@parametrize("name", ["a.txt", "a.jsonl"])
def test_bytes_that_are_not_utf8_are_named(tmp_path, name):
    for line, first_wrong in [(b"caf\xe9 au lait\n", "0xe9"), (b"abc\xe7\x8a", "0xe7")]:
        path = write(tmp_path / name, '\ufeff{"text": "é 犬"}\n'.encode() + line)
        message = refused(lambda path=path: list(read_file(path, "text", "line")))
        assert f"{path} is not UTF-8" in message and first_wrong in message
        assert "iconv" in message


# Bounded memory and progress


@parametrize("compression", ["", ".gz", ".zst"])
def test_reading_needs_a_small_part_of_the_file_in_memory(tmp_path, compression):
    text = os.urandom(5 << 20).hex().encode()  # 10 MiB, which no compression makes smaller than 5
    lines = [text[start : start + 1024] for start in range(0, len(text), 1024)]
    path = write(tmp_path / f"a.txt{compression}", COMPRESS[compression](b"\n\n".join(lines)))
    documents = iter(corpus_of(path))
    tracemalloc.start()
    assert sum(1 for _ in documents) == len(lines)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20


def test_reading_parquet_holds_a_small_part_of_a_row_group(tmp_path):
    rows = [f"{number:07d} " + os.urandom(500).hex() for number in range(16_000)]
    parquet = save_parquet(tmp_path / "a.parquet", {"text": rows})
    text = write(tmp_path / "b.txt", "\n\n".join(rows))
    corpus = corpus_of(parquet, text)
    assert next(iter(corpus)) == rows[0]
    before = pa.total_allocated_bytes()
    for _ in range(2):
        allocated_bytes = [pa.total_allocated_bytes() - before for _ in corpus]
        assert len(allocated_bytes) == 32_000
        assert max(allocated_bytes) < 8 << 20  # of 16 MiB, which are one row group


# Finding files


def test_a_folder_is_its_readable_files_sorted(tmp_path):
    for name in ("b.TXT", "a/z.jsonl", "c/deep/er/x.csv", "notes", "read.md"):
        text = {"z.jsonl": '{"text": "z.jsonl"}', "x.csv": "text\nx.csv"}.get(Path(name).name, Path(name).name)
        write(tmp_path / "corpus[1]" / name, text)
    for name in (".hidden.txt", ".git/config.txt", "picture.png", "archive.tar.gz"):
        write(tmp_path / "corpus[1]" / name, "must not be read")
    write(tmp_path / "elsewhere/linked.txt", "linked")
    (tmp_path / "corpus[1]/link").symlink_to(tmp_path / "elsewhere")
    assert read(tmp_path / "corpus[1]") == ["z.jsonl", "b.TXT", "x.csv", "linked", "notes", "read.md"]


def test_a_glob_is_its_matches_sorted_and_each_file_is_read_once(tmp_path, monkeypatch):
    for name in ("x/10.txt", "x/9.txt", "x/y/1.txt", "x/y/1.csv"):
        write(tmp_path / name, name)
    assert read(tmp_path / "x/*.txt") == ["x/10.txt", "x/9.txt"]
    assert read(tmp_path / "**/x/**/*.txt") == ["x/10.txt", "x/9.txt", "x/y/1.txt"]
    monkeypatch.setenv("HOME", str(tmp_path))
    assert read("~/x/[0-9]*.txt", tmp_path / "x/9.txt") == ["x/10.txt", "x/9.txt", "x/9.txt"]


def test_what_a_folder_has_beside_its_texts_is_skipped_and_counted(tmp_path, caplog):
    texts = ("a.train", "b.fi", "c.txt.xz", "d.dev.bz2")
    for name in texts:
        write(tmp_path / "texts" / name, COMPRESS.get(os.path.splitext(name)[1], COMPRESS[""])(name.encode()))
    papers = ("README.md", "LICENSE", "Licence.txt", "COPYING", "CHANGELOG.md", "requirements.txt")
    for name in ("scan.pdf", "scan2.pdf", "old.txt.7z", *papers):
        write(tmp_path / "texts" / name, "must not be read")
    assert read(tmp_path / "texts") == list(texts)
    (line,) = (record.getMessage() for record in caplog.records if "skipped" in record.getMessage())
    assert "9 of 13 files" in line
    assert "LICENSE, Licence.txt, README.md, old.txt.7z, requirements.txt, scan.pdf" in line


def test_a_folder_may_have_the_names_of_known_corpora():
    """WikiText has .raw and .tokens, BabyLM .train, .dev and .test, parallel corpora the codes of ISO 639-1.

    There are 183 codes, and bh, which was withdrawn.
    """
    for ending in ["txt", "text", "md", "raw", "tokens", "train", "valid", "validation", "dev", "test", "eval"]:
        assert format_of(f"a.{ending}")[0] == "text"
    tables = {"jsonl": "jsonl", "ndjson": "jsonl", "json": "jsonl", "csv": "csv", "tsv": "tsv", "tab": "tsv"}
    for ending, form in {**tables, "parquet": "parquet"}.items():
        assert format_of(f"a.{ending}")[0] == form
    letters = "abcdefghijklmnopqrstuvwxyz"
    codes = {first + second for first in letters for second in letters if format_of(f"a.{first}{second}")[0]}
    assert len(codes - {"md", "gz", "xz"}) == 184 and {"en", "fi", "zu", "bh"} <= codes


@parametrize(
    ("names", "parts"),
    [
        (("wiki.train.tokens", "wiki.valid.tokens", "wiki.test.tokens"), "test, valid"),
        (("train.txt", "dev.txt"), "dev"),
        (("a.txt", "b/Eval_2.txt"), "eval"),
        (("a.txt", "latest.txt", "devil.txt", "protest.md"), ""),
        (("test.txt", "test_2.txt"), ""),  # all are: the user has named them
    ],
)
def test_files_named_as_held_out_text_are_warned_of(tmp_path, names, parts, caplog):
    for name in names:
        write(tmp_path / "texts" / name, name.encode())
    assert len(read(tmp_path / "texts")) == len(names)
    lines = [record.getMessage() for record in caplog.records if "--validation_file" in record.getMessage()]
    assert len(lines) == bool(parts) and all(f"named {parts}," in line for line in lines)


def test_a_file_that_is_named_may_have_any_ending(tmp_path):
    assert read(write(tmp_path / "news.2019.shuffled", "a\n\nb")) == ["a", "b"]
    assert read(write(tmp_path / "news.shuf.gz", gzip.compress(b"c"))) == ["c"]
    write(tmp_path / "x.part", "d")
    assert read(tmp_path / "*.part") == ["d"]
    for name, data in (("a.docx", b"text"), ("a.tar.gz", gzip.compress(b"a"))):
        assert "none of 1 files" in refused(lambda name=name, data=data: corpus_of(write(tmp_path / name, data)))
    assert "a.foo" in refused(lambda: read(write(tmp_path / "a.foo", b"\0\1\2")))


ROWS = "".join(f"{number},some words of prose,good\n" for number in range(40))
"""A table that is read as plain text: without a blank line it is one document."""


@parametrize(
    ("texts", "shares"),  # of all text in percent, by the file that has it in one document
    [
        ({"a.txt": ROWS}, {"a.txt": 100}),
        ({"a.txt": f"{ROWS}\n \n\n", "b.txt": "one\n\ntwo" * 200, "c.txt": "one"}, {"a.txt": 41}),
        ({"a.txt": f"{ROWS}\n{ROWS}", "rows.csv": f"n,text,label\n{ROWS}"}, {}),
        ({f"{number}.txt": ROWS for number in range(11)}, {}),  # a book in each
    ],
)
def test_a_file_that_is_one_document_of_much_text_is_warned_of(tmp_path, texts, shares, caplog):
    for name, text in texts.items():
        write(tmp_path / "texts" / name, text)
    corpus_of(tmp_path / "texts")
    lines = [record.getMessage() for record in caplog.records if "one document" in record.getMessage()]
    assert len(lines) == len(shares)
    for line, (name, share) in zip(lines, shares.items(), strict=True):
        assert name in line and f"{share} %" in line and "--document_separator line" in line
    caplog.clear()
    corpus_of(tmp_path / "texts", document_separator="line")
    assert "one document" not in caplog.text


def test_a_compressed_file_without_its_ending_is_refused_with_that_ending(tmp_path):
    path = write(tmp_path / "a.txt", gzip.compress(b"text"))
    assert ".gz" in refused(lambda: read(path))


@parametrize("entry", ["missing.txt", "*.jsonl", "empty", "a.pdf", "pipe"])
def test_entries_that_name_nothing_readable_are_refused_at_once(tmp_path, entry):
    (tmp_path / "empty").mkdir()
    write(tmp_path / "a.pdf", "%PDF")
    os.mkfifo(tmp_path / "pipe")
    assert str(tmp_path / entry) in refused(lambda: corpus_of(tmp_path / entry))


def test_a_glob_of_folders_is_not_called_missing(tmp_path):
    write(tmp_path / "corpus" / "a" / "a.txt", "text")
    assert "only folders" in refused(lambda: corpus_of(tmp_path / "corpus" / "*"))


def test_a_folder_without_a_file_of_text_is_refused(tmp_path):
    write(tmp_path / "pages" / "a.html", "<p>x</p>")
    assert "none of 1 files (a.html)" in refused(lambda: read(tmp_path / "pages"))


def test_a_link_back_gives_no_file_again(tmp_path):
    write(tmp_path / "corpus/sub/a.txt", "a")
    for name in ("loop", "sub/up", "sub/other"):
        (tmp_path / "corpus" / name).symlink_to(tmp_path / "corpus")
    assert read(tmp_path / "corpus") == ["a"]
    (tmp_path / "corpus/sub/up").unlink()
    (tmp_path / "corpus/sub/other").unlink()
    assert read(tmp_path / "corpus/**/*.txt") == ["a"]


# Broken files and rows


@parametrize("name", ["a.txt.gz", "a.txt.zst", "a.txt.xz", "a.txt.bz2", "a.parquet"])
def test_truncated_and_misnamed_files_are_named(tmp_path, name):
    broken = [b"plain text after all, without any magic bytes\n" * 3]
    if name.startswith("a.txt"):
        # Incompressible text over several blocks, so that the beginning reads well and only the end is missing.
        whole = COMPRESS[os.path.splitext(name)[1]](os.urandom(1 << 20).hex().encode())
        broken.append(whole[: len(whole) * 2 // 3])
    for data in broken:
        path = write(tmp_path / name, data)
        assert path in refused(lambda path=path: read(path))


@parametrize(
    ("name", "data", "message_part"),
    [
        ("a.jsonl", '{"text": "a"}\n{"text": "b"\n', "a.jsonl:2"),
        ("a.json", '[{"text": "a"}, 3]', "a.json row 2"),
        ("a.jsonl", '{"text": "a"}\n\n{"body": "b", "n": 1}', "a.jsonl:3 has no column 'text', it has: body, n"),
        ("a.jsonl", '{"text": "a"}\n\n{"body": "b", "n": 1}', "or leave the file out"),
        ("a.jsonl", '{"text": "a"}\n{"text": 3}', "a.jsonl:2"),
        ("a.jsonl", '{"text": "\\ud83d\\ude00"}\n{"text": "\\ud83d"}', "a.jsonl:2"),  # half of a surrogate pair
        ("a.csv", 'id,text\n1,"a\nb"\n2,hello, world\n', "a.csv:4"),
        ("a.csv", 'id,text\n1,"never closed\n', "a.csv"),
    ],
)
def test_rows_that_are_not_as_expected_are_refused_with_their_place(tmp_path, name, data, message_part):
    assert message_part in refused(lambda: read(write(tmp_path / name, data)))


def test_columns_are_checked_before_anything_is_read(tmp_path):
    path = write(tmp_path / "b.jsonl", '{"body": "a"}\n')
    assert path in refused(lambda: corpus_of(tmp_path))
    os.remove(path)
    save_parquet(tmp_path / "b.parquet", {"body": ["a"], "n": [1]})
    assert "'text', it has: body, n" in refused(lambda: corpus_of(tmp_path))
    assert "'n' is 1" in refused(lambda: corpus_of(tmp_path / "b.parquet", text_column="n"))


# Data sets


def test_a_saved_dataset_and_a_split_of_a_saved_dict_are_read(tmp_path):
    texts = [f"row {number}" for number in range(200)]
    dataset = datasets.Dataset.from_dict({"n": list(range(203)), "text": [*texts, None, " ", "a\r\nb"]})
    dataset.save_to_disk(tmp_path / "one")
    datasets.DatasetDict(train=dataset, validation=dataset.select([5, 3])).save_to_disk(tmp_path / "dict")
    corpus = dataset_corpus(tmp_path / "one")
    assert list(corpus) == [*texts, "a\nb"]
    assert corpus.size_bytes > 2000
    assert list(dataset_corpus(tmp_path / "dict", dataset_split="validation")) == ["row 5", "row 3"]


def test_what_a_saved_dataset_does_not_have_is_refused(tmp_path):
    dataset = datasets.Dataset.from_dict({"text": ["a", "b"]})
    dataset.save_to_disk(tmp_path / "one")
    datasets.DatasetDict(train=dataset).save_to_disk(tmp_path / "dict")
    assert "split test" in refused(lambda: dataset_corpus(tmp_path / "dict", dataset_split="test"))
    for options in ({"dataset_split": "train[:2]"}, {"dataset_config_name": ["de"]}):  # which would do nothing
        (name,) = options
        assert name in refused(lambda options=options: dataset_corpus(tmp_path / "one", **options))
    assert "dataset_config_name" in refused(lambda: dataset_corpus("builtin", dataset_config_name=["de"]))
    next((tmp_path / "one").glob("*.arrow")).write_bytes(b"cut")
    assert str(tmp_path / "one") in refused(lambda: dataset_corpus(tmp_path / "one"))


def test_a_local_folder_of_parquet_loads_as_a_hub_dataset_does(tmp_path):
    (tmp_path / "repo").mkdir()
    save_parquet(tmp_path / "repo/train-00000.parquet", {"text": ["a", "b", "c", "d"], "n": [1, 2, 3, 4]})
    assert list(dataset_corpus(tmp_path / "repo", dataset_split="train[:50%]")) == ["a", "b"]
    assert "split tset" in refused(lambda: dataset_corpus(tmp_path / "repo", dataset_split="tset"))
    assert "'n' is 1" in refused(lambda: dataset_corpus(tmp_path / "repo", text_column="n"))


@parametrize(
    ("name", "config", "repository"),
    [
        ("wikipedia", [], "'wikimedia/wikipedia' (configuration 20231101.en, split train)"),
        ("wikitext", ["none"], "'Salesforce/wikitext' (configuration wikitext-103-raw-v1,"),
        ("openwebtext", [], "'Skylion007/openwebtext' (configuration None,"),
        ("someone/something", ["none"], "'someone/something' (configuration None,"),
        ("a.txt", [], "'a.txt'"),
    ],
)
def test_short_names_stand_for_parquet_repositories(name, config, repository):
    """As the message says, because no test may download them."""
    message = refused(lambda: dataset_corpus(name, dataset_config_name=config))
    assert repository in message
    assert "--train_file" in message


# Builtin


def test_builtin_documents_are_topics_then_docstrings(tmp_path, monkeypatch):
    prose = "This sentence is long enough to be taken for prose by whoever counts its characters. " * 4
    module = f'"""B. {prose}"""\nif True:\n    def first():\n        """First.\n\n        Not indented.\n        """\n'
    module += (
        '        def inner():\n            "Inner \\ud800."\nclass Second:\n    """Second."""\n    x = """no"""\n'
    )
    filler = '"""' + "Filler text of a long module docstring.\n" * 9 + '"""\n'
    files = {
        "pydoc_data/topics.py": "topics = {'b': 'Second topic', 'a': r'''First \\d topic\n''', 'empty': ' \\n'}\n",
        "b.py": module, "a.py": filler, "short.py": '"""Short."""\n',
        **{f"{folder}/p.py": filler for folder in ("site-packages", "dist-packages", "test", "x/tests", "idle_test")},
    }  # fmt: skip
    for name, text in files.items():
        write(tmp_path / name, text)
    first, second, third, fourth = builtin_documents(tmp_path)
    assert [first, second, third[:6]] == ["Second topic", "First \\d topic", "Filler"]
    assert fourth == f"B. {prose}\nFirst.\n\nNot indented.\nInner .\nSecond."  # without half a surrogate pair
    assert [path.name for path in builtin_files(tmp_path)] == ["topics.py", "a.py", "b.py", "short.py"]
    monkeypatch.setattr("electra.data.corpus.builtin_documents", lambda: [first, second])
    assert list(dataset_corpus("builtin")) == [first, second]


# Options


@parametrize(
    ("options", "message_part"),
    [
        ({"dataset_name": [], "train_file": []}, "--train_file"),
        ({"dataset_sampling": [0.5, 0.5, 0.5]}, "dataset_sampling has 3 values for 2"),
        ({"dataset_sampling": [1.0, 1.5]}, "dataset_sampling 1.5"),
        ({"dataset_config_name": ["a"], "dataset_name": []}, "dataset_config_name has 1 values for 0"),
    ],
)
def test_options_that_do_not_fit_the_sources_are_refused(tmp_path, options, message_part):
    sources = {"dataset_name": ["builtin"], "train_file": [write(tmp_path / "a.txt", "text")]}
    assert message_part in refused(lambda: Corpus(CorpusArguments(**{**sources, **options})))


def test_saved_data_sets_without_rows_or_as_files_are_refused(tmp_path):
    saved = str(tmp_path / "saved")
    datasets.Dataset.from_dict({"text": []}).save_to_disk(saved)
    assert saved in refused(lambda: dataset_corpus(saved))
    assert "--dataset_name" in refused(lambda: corpus_of(saved))


# Sampling


@pytest.fixture
def numbered(tmp_path):
    """A file of 20,000 lines, which are their numbers."""
    return write(tmp_path / "numbered.txt", "".join(f"{number}\n" for number in range(20_000)))


def sample(path, *fractions, seed=42):
    """The numbers of the lines that are kept of a file, which is read once for each fraction."""
    lines = read(*[path] * len(fractions), document_separator="line", dataset_sampling=list(fractions), seed=seed)
    return list(map(int, lines))


def test_sampling_keeps_a_random_subset(numbered):
    numbers = sample(numbered, 0.3)
    assert numbers == sample(numbered, 0.3) == sorted(set(numbers))
    # Binomial(20000, 0.3) has a standard deviation of 65, each tenth of it one of 20.5.
    assert len(numbers) == approx(6000, abs=4 * 65)
    tenths = [sum(number // 2000 == tenth for number in numbers) for tenth in range(10)]
    assert tenths == approx([600] * 10, abs=4 * 20.5)
    both = sample(numbered, 0.3, 0.3)
    assert both[: len(numbers)] == numbers
    assert set(numbers) < set(sample(numbered, 0.4))
    # Draws are independent: a document is kept twice, or with its neighbour, with probability 0.09: 1800 +- 40 times.
    for others in (sample(numbered, 0.3, seed=43), both[len(numbers) :], [number + 1 for number in numbers]):
        assert len(set(numbers) & set(others)) == approx(1800, abs=250)


def test_fractions_belong_to_names_then_files(tmp_path, numbered):
    datasets.Dataset.from_dict({"text": ["a", "b", None, "c"] * 25}).save_to_disk(tmp_path / "saved")
    names = [str(tmp_path / "saved")]
    fractions = [1.0, 0.1, 1.0]
    corpus = corpus_of(numbered, numbered, dataset_name=names, dataset_sampling=fractions, document_separator="line")
    documents = list(corpus)
    assert documents[:75] == ["a", "b", "c"] * 25
    assert documents[-20_000:] == [str(number) for number in range(20_000)]
    assert len(documents) == approx(75 + 2000 + 20_000, abs=200)  # 42 is the standard deviation


# Fingerprint and description


def fingerprint(*files, **options):
    """The fingerprint of the corpus of files, folders and globs."""
    return corpus_of(*files, **options).fingerprint()


def test_the_fingerprint_changes_with_the_documents_only(tmp_path):
    text = write(tmp_path / "a.txt", "one\n\ntwo")
    table = write(tmp_path / "b.jsonl", '{"text": "a", "body": "b"}')
    saved = str(tmp_path / "saved")
    datasets.Dataset.from_dict({"text": ["a"]}).save_to_disk(saved)
    first = fingerprint(text)
    assert first == fingerprint(text, seed=7, dataset_sampling=[1.0])
    assert first == fingerprint(str(tmp_path / "*.txt")) == fingerprint(os.path.relpath(text))
    prints = [
        first,
        fingerprint(table),
        fingerprint(text, table),
        fingerprint(table, text),
        fingerprint(text, document_separator="line"),
        fingerprint(table, text_column="body"),
        fingerprint(text, dataset_sampling=[0.5]),
        fingerprint(text, dataset_sampling=[0.5], seed=1),
        fingerprint(text, table, dataset_sampling=[0.5, 1.0]),
        fingerprint(text, table, dataset_sampling=[1.0, 0.5]),
        fingerprint(text, dataset_name=["builtin"]),
        fingerprint(text, dataset_name=[saved]),
    ]
    datasets.Dataset.from_dict({"text": ["b"]}).save_to_disk(saved)
    prints.append(fingerprint(text, dataset_name=[saved]))
    status = os.stat(text)
    os.utime(text, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert fingerprint(text) == first == fingerprint(write(tmp_path / "elsewhere/moved.txt", "one\n\ntwo"))
    prints.append(fingerprint(write(tmp_path / "b.txt", '{"text": "a", "body": "b"}')))  # the bytes of b.jsonl
    write(tmp_path / "a.txt", "one\n\ntwi")
    os.utime(text, ns=(status.st_atime_ns, status.st_mtime_ns))
    prints.append(fingerprint(text))
    assert len({*prints}) == len(prints)


def change_byte(path, place):
    """Change one bit of the byte at a place; the size stays."""
    content = bytearray(Path(path).read_bytes())
    content[place] ^= 1
    Path(path).write_bytes(content)


def test_every_byte_counts_but_of_large_corpora_samples(tmp_path, monkeypatch):
    text, other = (write(tmp_path / name, 30_000 * "eight by") for name in ("a.txt", "b.txt"))  # 240,000 bytes each
    datasets.Dataset.from_dict({"text": 30_000 * ["eight by"]}).save_to_disk(tmp_path / "saved")
    saved = str(next((tmp_path / "saved").glob("*.arrow")))
    for largest, notices in ((480_000, True), (479_999, False)):
        monkeypatch.setattr("electra.data.corpus.WHOLE_BYTES", largest)
        before = fingerprint(text, other)
        change_byte(text, 20_000)
        assert (fingerprint(text, other) != before) == notices
        for place in (0, 239_999):  # the first and the last bytes always count
            before = fingerprint(text, other)
            change_byte(text, place)
            assert fingerprint(text, other) != before
    monkeypatch.undo()
    before = fingerprint(text, dataset_name=[str(tmp_path / "saved")])
    change_byte(saved, 20_000)
    assert fingerprint(text, dataset_name=[str(tmp_path / "saved")]) != before


def test_the_description_counts_files(tmp_path):
    write(tmp_path / "a.txt", "one")
    write(tmp_path / "b.jsonl", '{"text": "a"}')
    datasets.Dataset.from_dict({"text": ["a", "b"]}).save_to_disk(tmp_path / "saved")
    corpus = corpus_of(tmp_path / "[ab].*", dataset_name=[str(tmp_path / "saved")])
    files = {"name": str(tmp_path / "[ab].*"), "files": 2, "text_files": 1}
    assert corpus.describe() == [{"name": str(tmp_path / "saved")}, files]


# ---- encodings


@parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le"])
def test_utf_16_and_utf_32_without_a_mark_are_refused(tmp_path, encoding):
    assert "utf-16" in refused(lambda: read(write(tmp_path / "a.txt", "One line.\n\nTwo.\n".encode(encoding))))
    assert read(write(tmp_path / "b.txt", "One\0 line of text with a NUL.\n")) == ["One\0 line of text with a NUL."]
