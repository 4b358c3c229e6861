"""Shards: any number, in any order, with kills, give one cache; and which documents are held out."""

import json
import os
import random
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from filelock import FileLock

from electra.core.rng import random_bits
from electra.data import shards
from electra.data.command import main
from electra.data.corpus import Corpus
from electra.data.foreign import open_cache
from electra.data.held_out import Documents, held_out_documents, shared_documents, text_fingerprint
from electra.data.options import CorpusArguments
from electra.data.shards import build_shard, cache_folder, describe_sources, load_or_build_cache
from electra.data.token_cache import TokenCache
from electra.data.tokenize import DocumentEncoder, load_or_train_tokenizer
from electra.tokenizers.options import TokenizerArguments
from tests.conftest import TEXTS, refused
from tests.data.rows import all_ids
from tests.helpers import exit_codes, fork, parametrize

WORDS = " ".join(TEXTS).split()


@pytest.fixture
def corpus(tmp_path):
    """Sources of every kind, one of which is sampled."""
    rng = random.Random(0)
    texts = [" ".join(rng.choices(WORDS, k=rng.randint(1, 40))) + rng.choice(["", "\nmore"]) for _ in range(400)]
    (tmp_path / "a.txt").write_text("\n \n\n".join(texts[:90]))
    (tmp_path / "b.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts[90:180]))
    (tmp_path / "c.csv").write_text("text\n" + "".join(f'"{text}"\n' for text in texts[180:230]))
    pq.write_table(pa.table({"text": texts[230:300]}), tmp_path / "d.parquet", row_group_size=9)
    datasets.Dataset.from_dict({"text": texts[300:]}).save_to_disk(tmp_path / "saved")
    files = [str(tmp_path / name) for name in ("a.txt", "b.jsonl", "c.csv", "d.parquet")]
    fractions = [1.0, 0.5, 1.0, 1.0, 1.0]
    return Corpus(
        CorpusArguments(dataset_name=[str(tmp_path / "saved")], train_file=files, dataset_sampling=fractions)
    )


def contents(cache):
    """Ids, lengths of lines and hashes of all documents of a cache."""
    lines = [cache.line_lengths(document).tolist() for document in range(len(cache))]
    return all_ids(cache), lines, cache.content_hashes.tolist()


@parametrize("separator", ["blank_line", "line", "file"])
@parametrize("count", [2, 3, 7, 50])
def test_parts_of_a_corpus_are_the_whole_in_order(corpus, separator, count):
    options = CorpusArguments(**{**vars(corpus.options), "document_separator": separator})
    whole = Corpus(options)
    for number, documents in enumerate(whole.by_source()):
        parts = [[*whole.by_source(shard, count)][number] for shard in range(count)]
        assert [document for part in parts for document in part] == [*documents]


def test_lines_between_documents_are_found_from_any_byte(tmp_path):
    text = "\ufeffone\r\nline\r\n \r\n\r\ntwo\u3000\n\u3000\nthree é\n\nfour"
    (tmp_path / "a.txt").write_text(text, newline="")
    corpus = Corpus(CorpusArguments(train_file=[str(tmp_path / "a.txt")]))
    for count in range(1, len(text.encode()) + 1):
        parts = [document for shard in range(count) for part in corpus.by_source(shard, count) for document in part]
        assert parts == ["one\nline", "two\u3000", "three é", "four"]


def test_one_two_and_seven_shards_give_one_cache(corpus, wordpiece_tokenizer, tmp_path):
    caches = []
    for count in (1, 2, 7):
        folder = cache_folder(corpus, wordpiece_tokenizer, tmp_path / str(count))
        for shard in random.Random(count).sample(range(count), count // 2):
            build_shard(corpus, wordpiece_tokenizer, folder, shard, count)
            build_shard(corpus, wordpiece_tokenizer, folder, shard, count)  # again: it is there
        cache = load_or_build_cache(corpus, wordpiece_tokenizer, tmp_path / str(count))
        sums = {name: cache.description[name] for name in ("tokens", "sources")}
        caches.append((contents(cache), sums))
    assert caches[0] == caches[1] == caches[2]
    hashes = caches[0][0][2]
    assert hashes != sorted(hashes)  # they are in the order of the documents


def test_unknown_tokens_of_all_shards_are_warned_of(write_corpus, number_tokenizer, tmp_path, caplog):
    corpus = write_corpus(["x x x x"] * 20 + ["5 6 7 8"] * 20)
    build_shard(corpus, number_tokenizer, cache_folder(corpus, number_tokenizer, tmp_path), 0, 2)
    load_or_build_cache(corpus, number_tokenizer, tmp_path)
    assert "50.0% unknown tokens" in caplog.text


def test_a_cache_of_another_format_has_a_folder_of_its_own(corpus, number_tokenizer, tmp_path, monkeypatch):
    before = cache_folder(corpus, number_tokenizer, tmp_path)
    monkeypatch.setattr("electra.data.shards.FORMAT_VERSION", 0)
    assert cache_folder(corpus, number_tokenizer, tmp_path) != before


def test_a_text_that_is_written_while_it_is_read_is_refused(tmp_path, wordpiece_tokenizer):
    path = tmp_path / "a.txt"
    cache = tmp_path / "cache"
    attempts = (
        lambda corpus: load_or_build_cache(corpus, wordpiece_tokenizer, cache),
        lambda corpus: build_shard(corpus, wordpiece_tokenizer, cache / "documents", 0, 2),
        lambda corpus: load_or_train_tokenizer(corpus, TokenizerArguments(vocab_size=60), cache),
    )
    for build in attempts:
        path.write_text("one two\n\nthree four\n")
        corpus = Corpus(CorpusArguments(train_file=[str(path)]))
        corpus.fingerprint()
        with path.open("a") as file:
            file.write("\nfive six\n")
        assert "a.txt has changed" in refused(lambda build=build, corpus=corpus: build(corpus))
        assert not [path for path in cache.rglob("*") if path.is_file() and path.suffix != ".lock"]
        build(Corpus(corpus.options))
        shutil.rmtree(cache)


def test_a_command_that_is_killed_keeps_its_shards(corpus, wordpiece_tokenizer, tmp_path, monkeypatch, capsys):
    wordpiece_tokenizer.save_pretrained(tmp_path / "tokenizer")
    flags = [
        *("--dataset_name", *corpus.options.dataset_name, "--train_file", *corpus.options.train_file),
        *("--dataset_sampling", *map(str, corpus.options.dataset_sampling)),
        *("--tokenizer_path", str(tmp_path / "tokenizer"), "--cache_dir", str(tmp_path / "cache")),
    ]
    monkeypatch.setattr("electra.data.command.setup_logging", lambda: None)  # which hides logs from other tests
    monkeypatch.setattr(shards, "SHARD_BYTES", corpus.size_bytes // 2 + 1)
    monkeypatch.setattr(shards, "usable_cores", lambda: 1)
    build = shards.build_shard

    def build_or_die(*args, shard, **others):
        if shard == 1:
            monkeypatch.setattr(DocumentEncoder, "_encode", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        build(*args, shard=shard, **others)

    with monkeypatch.context() as patch:
        patch.setattr(shards, "build_shard", build_or_die)
        assert exit_codes([fork(main, flags, log=tmp_path / "log.txt")]) == [-signal.SIGKILL]
    (folder,) = (tmp_path / "cache").glob("documents-*[!k]")  # not its lock
    before = stamps(folder / "shard-00000-of-00002")
    main(flags)
    assert capsys.readouterr().out.split() == [str(folder)]
    assert stamps(folder / "shard-00000-of-00002") == before
    alone = load_or_build_cache(corpus, wordpiece_tokenizer, tmp_path / "alone")
    assert contents(TokenCache(folder)) == contents(alone)
    assert not [*folder.glob("*.unfinished")]


@pytest.fixture
def folder_with_valid(tmp_path):
    """A corpus of a folder of two files, one of which is named as held-out text, of which a user is warned."""
    (tmp_path / "texts").mkdir()
    for name in ("a.txt", "valid.txt"):
        (tmp_path / "texts" / name).write_text("\n\n".join(TEXTS * 10))
    return Corpus(CorpusArguments(train_file=[str(tmp_path / "texts")]))


def test_a_cache_does_not_repeat_warnings_about_files(folder_with_valid, wordpiece_tokenizer, tmp_path, caplog):
    load_or_build_cache(folder_with_valid, wordpiece_tokenizer, tmp_path)
    assert any("named valid" in record.getMessage() for record in caplog.get_records("setup"))  # of the fixture
    assert "named valid" not in caplog.text


@pytest.mark.slow
def test_a_host_builds_with_several_processes(
    corpus, folder_with_valid, wordpiece_tokenizer, tmp_path, monkeypatch, capfd
):
    files = [*corpus.options.train_file, *folder_with_valid.options.train_file]
    corpus = Corpus(replace(corpus.options, train_file=files, dataset_sampling=[1.0, 0.5, 1.0, 1.0, 1.0, 1.0]))
    alone = load_or_build_cache(corpus, wordpiece_tokenizer, tmp_path / "alone")
    monkeypatch.setattr(shards, "SHARD_BYTES", corpus.size_bytes // 4)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    together = load_or_build_cache(corpus, wordpiece_tokenizer, tmp_path / "together")
    assert len(together.description["files"]) == 5
    assert contents(together) == contents(alone)
    assert "named valid" not in capfd.readouterr().err  # the processes open the folder, too, and print warnings


# What is in the folder already


@pytest.fixture
def shards_of(corpus, wordpiece_tokenizer, tmp_path):
    """`shards_of(3, 0, 2)`: the folder of the cache, with shards 0 and 2 of 3; all of them without numbers."""

    def build(count, *numbers):
        folder = cache_folder(corpus, wordpiece_tokenizer, tmp_path)
        for shard in numbers or range(count):
            build_shard(corpus, wordpiece_tokenizer, folder, shard, count)
        return folder

    return build


@pytest.fixture
def load(corpus, wordpiece_tokenizer, tmp_path):
    """`load()`: the cache in that folder, which is completed or built."""
    return lambda: load_or_build_cache(corpus, wordpiece_tokenizer, tmp_path)


@pytest.fixture
def expected(corpus, wordpiece_tokenizer, tmp_path):
    """The contents of a cache of the same corpus that is built in a folder of its own, at once."""
    return contents(load_or_build_cache(corpus, wordpiece_tokenizer, tmp_path / "alone"))


def stamps(folder):
    """Of each file its time and number, which change if it is written again; lock files are left out."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"]
    return {str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.stat().st_ino) for path in files}


def test_shards_of_an_earlier_version_are_used(shards_of, load, expected):
    """Its jobs built shards of any N: those of the N that is nearest to its end are completed, the others stay."""
    folder = shards_of(4, 0, 1, 3)
    shards_of(9, 5)
    before = stamps(folder)
    cache = load()
    assert len(cache.description["files"]) == 4
    assert contents(cache) == expected
    assert stamps(folder).items() >= before.items()


DAMAGES = {
    "index": lambda folder: os.truncate(folder / "lengths.npy", 100),
    "no manifest": lambda folder: (folder / "manifest.json").unlink(),
    "no index": lambda folder: [path.unlink() for path in folder.iterdir() if path.is_file()],
    "tokens": lambda folder: os.truncate(folder / "shard-00001-of-00003" / "data.arrow", 100),
    "no tokens": lambda folder: (folder / "shard-00001-of-00003" / "data.arrow").unlink(),
    "no shard": lambda folder: shutil.rmtree(folder / "shard-00001-of-00003"),
}


@parametrize("damage", DAMAGES)
def test_a_damaged_part_of_a_cache_is_built_again_alone(damage, shards_of, load, expected):
    folder = shards_of(3)
    load()
    before = stamps(folder)
    DAMAGES[damage](folder)
    lost = "shard-00001" if damage in ("tokens", "no tokens", "no shard") else "none"
    assert contents(load()) == expected
    after = stamps(folder)
    assert after.keys() == before.keys()
    undamaged = [name for name in before if name.startswith("shard-") and not name.startswith(lost)]
    assert undamaged and [after[name] for name in undamaged] == [before[name] for name in undamaged]


def test_what_killed_jobs_left_is_removed_and_nothing_else(shards_of, load):
    folder = shards_of(3)
    for name in ("shard-00000-of-00002", "shard-00001-of-00002", "shard-00001-of-00003"):
        (folder / f"{name}.unfinished").mkdir()
        (folder / f"{name}.lock").touch()
    with FileLock(folder / "shard-00000-of-00002.lock"):  # a job is at work
        load()
    assert [path.name for path in folder.glob("*.unfinished")] == ["shard-00000-of-00002.unfinished"]


@pytest.mark.slow
def test_commands_at_once_all_succeed(shards_of, load, expected, tmp_path):
    folder = shards_of(3, 0, 2)
    before = stamps(folder)
    assert exit_codes([fork(load, log=tmp_path / f"{number}.txt") for number in range(6)]) == [0] * 6
    assert contents(load()) == expected
    assert stamps(folder).items() >= before.items()
    assert not [*folder.glob("*.unfinished")]


@pytest.mark.slow
@parametrize("moves", range(7))
def test_an_index_whose_writing_was_killed_is_written_again(moves, shards_of, load, expected, tmp_path, monkeypatch):
    """The kill is in the place of each of its 6 renames; the seventh run is not killed."""
    folder = shards_of(3)
    load()
    finished = {name: (folder / name).read_bytes() for name in ("cache.json", "manifest.json", "lengths.npy")}
    (folder / "hashes.npy").unlink()
    before = stamps(folder)
    moves_left = iter(range(moves))
    move = os.replace

    def move_or_die(source, target):
        if "index.unfinished" in str(source) and Path(target).parent == folder and next(moves_left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        move(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", move_or_die)
        assert exit_codes([fork(load, log=tmp_path / "log.txt")]) == [-signal.SIGKILL if moves < 6 else 0]
    assert contents(load()) == expected
    after = stamps(folder)
    assert all(after[name] == before[name] for name in before if name.startswith("shard-"))
    assert {name: (folder / name).read_bytes() for name in finished} == finished


def test_sources_have_the_names_of_this_run(corpus, wordpiece_tokenizer, tmp_path, load):
    cache = load()
    (tmp_path / "a.txt").rename(tmp_path / "renamed.txt")
    files = [str(tmp_path / "renamed.txt"), *corpus.options.train_file[1:]]
    renamed = Corpus(CorpusArguments(**{**vars(corpus.options), "train_file": files}))
    again = load_or_build_cache(renamed, wordpiece_tokenizer, tmp_path)
    assert again.path == cache.path
    sources = describe_sources(renamed, again)
    assert [source["name"] for source in sources] == [str(tmp_path / "saved"), *files]
    assert sources[2].items() >= {"documents": 90, "files": 1}.items()
    texts = [path.read_text() for path in cache.path.rglob("*.json")]
    assert not any("a.txt" in text or "saved" in text for text in texts)


def test_a_moved_cache_is_trained_on_without_its_text(corpus, wordpiece_tokenizer, number_tokenizer, tmp_path):
    cache = load_or_build_cache(corpus, wordpiece_tokenizer, tmp_path / "cache")
    expected = contents(cache)
    moved = tmp_path / "elsewhere" / "moved"
    shutil.copytree(cache.path, moved)
    shutil.rmtree(cache.path)
    assert contents(open_cache(moved, wordpiece_tokenizer, str(tmp_path))) == expected
    assert "another tokenizer" in refused(lambda: open_cache(moved, number_tokenizer, str(tmp_path)))
    tokens = moved / "shard-00000-of-00001" / "data.arrow"
    os.truncate(tokens, 100)
    assert "data.arrow has 100 of" in refused(lambda: open_cache(moved, wordpiece_tokenizer, str(tmp_path)))
    tokens.unlink()
    assert "has no shard-00000-of-00001/data.arrow" in refused(
        lambda: open_cache(moved, wordpiece_tokenizer, str(tmp_path))
    )


# Documents without memory


def test_documents_are_all_but_those_left_out():
    for left_out in ([], [0, 1, 5], [9], [*range(1, 10)]):
        documents = Documents(10, np.array(left_out, dtype=np.int64))
        expected = np.delete(np.arange(10), left_out)
        assert len(documents) == len(expected)
        assert documents[:].tolist() == expected.tolist()
        assert documents[1:4].tolist() == expected[1:4].tolist()
        rows = np.array([[0, len(expected) - 1]])
        assert documents[rows].tolist() == expected[rows].tolist()


@parametrize("seed", range(5))
@parametrize("fraction", [1e-9, 0.1, 0.9, 0.9999])
def test_documents_of_the_lowest_ranks_are_held_out(fraction, seed, monkeypatch):
    hashes = np.random.default_rng(0).integers(0, 500, 3000, dtype=np.uint64)
    ranks = random_bits(seed, hashes)
    lowest = np.unique(ranks)  # sorted
    # Equal texts are one; at least one is held out, and at least one is trained on.
    count = min(max(1, round(fraction * len(lowest))), len(lowest) - 1)
    expected = np.flatnonzero(ranks <= lowest[count - 1])
    for block in (7, 10**6):
        monkeypatch.setattr("electra.data.held_out.DOCUMENTS_PER_BLOCK", block)
        assert held_out_documents(hashes, fraction, seed).tolist() == expected.tolist()
        assert shared_documents(hashes, hashes[:9]).tolist() == np.flatnonzero(np.isin(hashes, hashes[:9])).tolist()
        assert text_fingerprint(hashes, expected) == text_fingerprint(np.delete(hashes, expected))
    assert len(held_out_documents(hashes, 0, seed)) == 0
    assert "--validation_fraction 0" in refused(lambda: held_out_documents(np.ones_like(hashes), fraction, seed))
