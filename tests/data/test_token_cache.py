"""The token cache: exactly the tokenizer's ids, built once, never served half-built; and the held-out split."""

import pickle
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from pytest import raises

from electra.base.checkpoints import MANIFEST_NAME
from electra.core.errors import UserError
from electra.data import tokenize
from electra.data.corpus import Corpus
from electra.data.options import CorpusArguments
from electra.data.shards import load_or_build_cache
from electra.data.token_cache import DESCRIPTION_NAME, FORMAT_VERSION
from electra.tokenizers.load import load_tokenizer
from electra.tokenizers.options import TokenizerArguments
from electra.tokenizers.train import ALGORITHMS, train_on_documents
from tests.conftest import TEXTS, make_number_tokenizer, refused
from tests.data.rows import all_ids
from tests.helpers import parametrize, read_json

SHARD = "shard-00000-of-00001/data.arrow"
GAPS = [" ", "\n", "\n\n", "\n   ", "  \n", " \n \n ", "\n\t", "\n\n\n  \n", "\t", "  ", " \t\u3000\n\xa0"]


def spaced_texts(count, seed=0):
    """Documents of real words with every kind of white space between, before and after them."""
    rng = random.Random(seed)
    words = " ".join(TEXTS).split()
    texts = []
    for _ in range(count):
        parts = [rng.choice(["", "", " ", "\n", "\n \n"])]
        for _ in range(rng.randint(1, 60)):
            parts += [rng.choice(words), rng.choice(GAPS) if rng.random() < 0.5 else " "]
        texts.append("".join(parts))
    return texts


@pytest.fixture(scope="module")
def tokenizers():
    """One per algorithm; the byte-level one is cased and has learned runs of white space as tokens."""
    return {
        algorithm: train_on_documents(
            spaced_texts(200, seed=1),
            TokenizerArguments(tokenizer_algorithm=algorithm, vocab_size=size, lowercase=algorithm != "byte_bpe"),
        )
        for algorithm, size in {"wordpiece": 160, "byte_bpe": 400, "unigram": 100}.items()
    }


@pytest.fixture
def build(tokenizers, write_corpus, tmp_path):
    """`build(texts or corpus, tokenizer, **options)`: the cache in `tmp_path / "cache"`."""

    def build_cache(texts, tokenizer="wordpiece", **options):
        corpus = texts if isinstance(texts, Corpus) else write_corpus(texts)
        backend = tokenizers[tokenizer] if isinstance(tokenizer, str) else tokenizer
        return load_or_build_cache(corpus, backend, tmp_path / "cache", **options)

    return build_cache


def expected_ids(tokenizer, texts):
    """The ids of each text as transformers encodes it."""
    return tokenizer(texts, add_special_tokens=False)["input_ids"]


def file_stamp(cache):
    """Number and time of the file of tokens, another pair after a rebuild."""
    status = (cache.path / SHARD).stat()
    return status.st_ino, status.st_mtime_ns


# What is in it


@parametrize("algorithm", ALGORITHMS)
def test_the_cache_holds_exactly_the_ids_of_the_tokenizer(algorithm, tokenizers, build, monkeypatch):
    monkeypatch.setattr(tokenize, "BATCH_CHARACTERS", 500)  # many batches
    texts = [*spaced_texts(50), *(text.replace("\n", " ") for text in spaced_texts(50))]
    cache = build(texts, algorithm)
    expected = expected_ids(tokenizers[algorithm], texts)
    assert all_ids(cache) == expected
    assert cache.lengths.tolist() == [len(ids) for ids in expected] and cache.num_tokens == sum(map(len, expected))
    copy = pickle.loads(pickle.dumps(cache))  # for a worker process: a path
    assert all_ids(copy) == expected and len(pickle.dumps(cache)) < 1000


def test_the_cache_has_the_lengths_of_the_lines(tokenizers, build):
    texts = spaced_texts(50)
    cache = build(texts)
    for document, text in enumerate(texts):
        lines = [line for line in text.split("\n") if line.strip()]
        lengths = [len(ids) for ids in expected_ids(tokenizers["wordpiece"], lines)]
        assert cache.line_lengths(document).tolist() == lengths


def test_byte_level_lines_together_spell_the_document(tokenizers, build):
    texts = ["First line.\nSecond  line.\n\n\n  Third.\n", "One line"]
    tokenizer = tokenizers["byte_bpe"]
    cache = build(texts, tokenizer)
    assert [tokenizer.decode(ids) for ids in all_ids(cache)] == texts
    ends = np.cumsum(cache.line_lengths(0)).tolist()
    ids = all_ids(cache)[0]
    lines = [tokenizer.decode(ids[start:end]) for start, end in zip([0, *ends], ends, strict=False)]
    assert [line.strip() for line in lines] == ["First line.", "Second  line.", "Third."]


@parametrize(("vocab_size", "dtype"), [(2**16, np.uint16), (2**16 + 1, np.uint32)])
def test_ids_take_two_bytes_as_long_as_the_vocabulary_allows(vocab_size, dtype, build):
    last = vocab_size - 1
    cache = build([f"5 {last} 6"], make_number_tokenizer(vocab_size))
    assert cache.tokens(0, 0, 3).dtype == dtype
    assert all_ids(cache) == [[5, last, 6]]


@parametrize(
    ("algorithm", "equal", "others"),
    [
        ("wordpiece", ["one two", "One  two\n", "one\ntwo", " one two "], ["two", "one two two", "two one"]),
        ("byte_bpe", ["one two", "one two\n", "one two \n \n"], ["One two", "one  two", "one\ntwo", "one two."]),
        ("unigram", ["one two", "one two\n", "one\ntwo"], ["two", "one two two"]),
    ],
)
def test_documents_of_equal_tokens_have_equal_hashes(algorithm, equal, others, build):
    hashes = build([*equal, *others], algorithm).content_hashes.tolist()
    assert len({*hashes[: len(equal)]}) == 1 and len({*hashes}) == 1 + len(others)


def test_documents_without_a_token_leave_no_row(tokenizers, build, monkeypatch):
    monkeypatch.setattr(tokenize, "BATCH_CHARACTERS", 4)
    silent = "\u200b\u200b\u200b\u200b"  # not white space to Python, but nothing to BERT
    cache = build([silent, silent, "fox", silent, "dog\n" + silent, silent])
    assert all_ids(cache) == expected_ids(tokenizers["wordpiece"], ["fox", "dog"])
    assert cache.content_hashes.tolist() == [build([text]).content_hashes[0] for text in ("fox", "dog\n" + silent)]
    assert "documents.jsonl" in refused(lambda: build([silent]))


def test_the_description_counts_what_is_inside_by_source(number_tokenizer, tmp_path):
    texts = ("7 8 ü\\n9", "", "10 unknown", " ")
    (tmp_path / "a.jsonl").write_text("".join(f'{{"text": "{text}"}}\n' for text in texts))
    (tmp_path / "b.txt").write_text("\n\n")
    (tmp_path / "c.txt").write_text("11 12\n\n13")
    corpus = Corpus(CorpusArguments(train_file=[str(tmp_path / name) for name in ("a.jsonl", "b.txt", "c.txt")]))
    cache = load_or_build_cache(corpus, number_tokenizer, tmp_path / "cache")
    counts = [{"documents": 2, "tokens": 6}, {"documents": 0, "tokens": 0}, {"documents": 2, "tokens": 3}]
    expected = {"format_version": FORMAT_VERSION, "sources": counts, "tokens": 9}
    description = read_json(cache.path / DESCRIPTION_NAME)
    assert description == cache.description and description.items() >= expected.items()
    assert all_ids(cache) == [[7, 8, 1, 9], [10, 1], [11, 12], [13]]


# Once, and only whole


def test_the_second_call_reads_and_another_text_builds_its_own(tokenizers, build, write_corpus, tmp_path):
    corpus = write_corpus(spaced_texts(30))
    (file,) = corpus.options.train_file
    first = build(corpus)
    stamp = file_stamp(first)
    sampled = [Corpus(CorpusArguments(train_file=[file], dataset_sampling=[0.5]), seed) for seed in (1, 2)]
    others = [build(corpus, "unigram"), *map(build, sampled)]
    assert len({first.path, *(cache.path for cache in others)}) == 4
    assert all_ids(others[1]) == expected_ids(tokenizers["wordpiece"], list(sampled[0]))

    tokenizers["wordpiece"].save_pretrained(tmp_path / "tokenizer")
    for again in (corpus, Corpus(CorpusArguments(train_file=[file])), write_corpus(spaced_texts(30))):
        assert file_stamp(build(again, load_tokenizer(str(tmp_path / "tokenizer")))) == stamp


DAMAGES = {
    "description edited": lambda folder: (folder / DESCRIPTION_NAME).write_text("{}"),
    "killed before the end": lambda folder: (folder / MANIFEST_NAME).unlink(),
}


@parametrize("damage", DAMAGES)
def test_an_incomplete_cache_is_never_used_but_built_again(damage, write_corpus, build):
    corpus = write_corpus(TEXTS)
    path = build(corpus).path
    ids = all_ids(build(corpus))
    DAMAGES[damage](path)
    cache = build(corpus)
    assert cache.path == path and all_ids(cache) == ids
    names = {entry.name for entry in path.parent.iterdir()}
    assert names - {f"{path.name}.lock"} == {path.name}  # some versions of filelock delete their file
    assert file_stamp(build(corpus)) == file_stamp(cache)


def test_a_build_that_fails_leaves_no_cache_and_frees_the_lock(build, tmp_path, monkeypatch):
    monkeypatch.setattr(tokenize, "BATCH_CHARACTERS", 100)
    good = tmp_path / "1.txt"
    broken = tmp_path / "2.txt"
    good.write_text("\n\n".join(TEXTS * 5))
    broken.write_bytes(b"the fox \xff\xfe")
    with raises(UserError, match=r"2\.txt") as error:
        build(Corpus(CorpusArguments(train_file=[str(good), str(broken)])))
    assert error.traceback  # whose frames of the failed build live on: they must not hold the lock
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.suffix != ".lock"]
    broken.write_bytes(b"the fox")
    build(Corpus(CorpusArguments(train_file=[str(good), str(broken)])))  # the lock is free


def test_two_builds_at_once_both_get_the_complete_cache(wordpiece_tokenizer, write_corpus, tmp_path):
    options = write_corpus(TEXTS * 200).options
    barrier = threading.Barrier(2)

    def build(_):
        corpus = Corpus(options)
        barrier.wait(timeout=300)
        cache = load_or_build_cache(corpus, wordpiece_tokenizer, tmp_path)
        return file_stamp(cache), all_ids(cache)

    with ThreadPoolExecutor(2) as pool:  # the lock excludes threads as it does processes
        (stamp, ids), other = pool.map(build, range(2))
    assert other == (stamp, ids)  # of one and the same build
    assert ids == expected_ids(wordpiece_tokenizer, TEXTS) * 200
    assert [path.is_dir() for path in tmp_path.glob("documents-*") if path.suffix != ".lock"] == [True]


def test_a_cache_says_how_large_it_is(make_cache):
    cache = make_cache([[[5, 6]], [[7]]])
    assert "2 documents" in repr(cache) and "3 tokens" in repr(cache)
