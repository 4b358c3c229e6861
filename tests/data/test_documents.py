"""The token cache: exactly the tokenizer's ids, built once, never served half-built; and the held-out split."""

import json
import multiprocessing
import os
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
from filelock import FileLock
from transformers import BertTokenizer, PreTrainedTokenizerBase

from electra.data import documents as documents_module
from electra.data.corpus import Corpus, CorpusOptions
from electra.data.documents import ARROW_NAME, DESCRIPTION_NAME, TokenCache, load_or_build_cache, split_documents
from electra.errors import UserError
from electra.tokenization import SPECIAL_TOKENS, load_tokenizer
from electra.tokenizer_training import TOKENIZER_ALGORITHMS, TokenizerOptions, train_tokenizer
from tests.conftest import TEXTS, make_number_tokenizer

WriteCorpus = Callable[..., Corpus]
GAPS = [" ", "\n", "\n\n", "\n   ", "  \n", " \n \n ", "\n\t", "\r\n", "\n\n\n  \n", "\t", "  ", " \t\u3000\n\xa0"]
VOCAB_SIZES = {"wordpiece": 160, "byte_bpe": 400, "unigram": 100}

algorithms = pytest.mark.parametrize("algorithm", TOKENIZER_ALGORITHMS)


def spaced_texts(count: int, seed: int = 0) -> list[str]:
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
def tokenizers() -> dict[str, PreTrainedTokenizerBase]:
    """One trained tokenizer per algorithm; the byte-level one has learned runs of white space as tokens."""
    texts = spaced_texts(200, seed=1)
    return {
        algorithm: train_tokenizer(texts, TokenizerOptions(tokenizer_algorithm=algorithm, vocab_size=vocab_size))
        for algorithm, vocab_size in VOCAB_SIZES.items()
    }


def all_ids(cache: TokenCache) -> list[list[int]]:
    return [cache.tokens(d, 0, int(cache.lengths[d])).tolist() for d in range(len(cache))]


def expected_ids(tokenizer: PreTrainedTokenizerBase, texts: list[str]) -> list[list[int]]:
    return tokenizer(texts, add_special_tokens=False)["input_ids"]


def file_stamp(cache: TokenCache) -> tuple[int, int]:
    """Another pair after a rebuild."""
    status = (cache.path / ARROW_NAME).stat()
    return status.st_ino, status.st_mtime_ns


# ------------------------------------------------------------------------------------------------------- what is in it


@algorithms
def test_the_cache_holds_exactly_the_ids_of_the_tokenizer_document_by_document(
    algorithm: str,
    tokenizers: dict[str, PreTrainedTokenizerBase],
    write_corpus: WriteCorpus,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(documents_module, "BATCH_CHARACTERS", 500)  # many batches
    tokenizer = tokenizers[algorithm]
    corpus = write_corpus(spaced_texts(100))
    texts = list(corpus)
    cache = load_or_build_cache(corpus, tokenizer, tmp_path)
    expected = expected_ids(tokenizer, texts)
    assert all_ids(cache) == expected
    assert len(cache) == 100 and cache.lengths.tolist() == [len(ids) for ids in expected]
    assert cache.num_tokens == sum(map(len, expected))


def test_any_stretch_of_a_document_can_be_read_and_nothing_can_be_written(
    make_cache: Callable[..., TokenCache],
) -> None:
    cache = make_cache([[[10, 11, 12]], [[20], [21, 22]], [[30]]])
    assert cache.tokens(1, 0, 3).tolist() == [20, 21, 22]
    assert cache.tokens(1, 1, 2).tolist() == [21, 22]
    assert cache.tokens(2, 0, 1).tolist() == [30]
    assert not cache.tokens(0, 0, 3).flags.writeable


def test_datasets_opens_the_folder(make_cache: Callable[..., TokenCache]) -> None:
    cache = make_cache([[[10, 11, 12]], [[20], [21, 22]]])
    dataset = datasets.load_from_disk(str(cache.path))
    assert {
        name: str(feature.feature.dtype) for name, feature in dataset.features.items() if name != "content_hash"
    } == {
        "input_ids": "uint16",
        "line_lengths": "uint32",
    }
    assert dataset.features["content_hash"].dtype == "uint64"
    assert dataset["input_ids"][:] == [[10, 11, 12], [20, 21, 22]]
    assert dataset["line_lengths"][:] == [[3], [1, 2]]
    assert dataset["content_hash"][:] == cache.content_hashes.tolist()


def test_line_lengths_count_the_tokens_of_each_line_that_has_text(
    wordpiece_tokenizer: PreTrainedTokenizerBase,
    write_corpus: WriteCorpus,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(documents_module, "BATCH_CHARACTERS", 500)
    corpus = write_corpus(spaced_texts(100))
    cache = load_or_build_cache(corpus, wordpiece_tokenizer, tmp_path)
    for document, text in enumerate(corpus):
        lines = [line for line in text.split("\n") if line.strip()]
        expected = [len(ids) for ids in expected_ids(wordpiece_tokenizer, lines)]
        assert cache.line_lengths(document).tolist() == expected
        assert sum(expected) == cache.lengths[document]


def test_byte_level_lines_together_spell_the_document_newlines_included(
    tokenizers: dict[str, PreTrainedTokenizerBase], write_corpus: WriteCorpus, tmp_path: Path
) -> None:
    options = TokenizerOptions(tokenizer_algorithm="byte_bpe", vocab_size=400, lowercase=False)
    tokenizer = train_tokenizer(spaced_texts(50), options)
    corpus = write_corpus(["First line.\nSecond  line.\n\n\n  Third.\n", "One line", *spaced_texts(20)])
    cache = load_or_build_cache(corpus, tokenizer, tmp_path)
    assert [tokenizer.decode(ids) for ids in all_ids(cache)] == list(corpus)
    ends = np.cumsum(cache.line_lengths(0)).tolist()
    lines = [tokenizer.decode(all_ids(cache)[0][a:b]) for a, b in zip([0, *ends], ends, strict=False)]
    assert [line.strip() for line in lines] == ["First line.", "Second  line.", "Third."]


def test_text_that_spells_a_special_token_gets_no_special_id(
    tokenizers: dict[str, PreTrainedTokenizerBase], write_corpus: WriteCorpus, tmp_path: Path
) -> None:
    corpus = write_corpus(["a [MASK] b[SEP]c [CLS] [PAD]"])
    for tokenizer in tokenizers.values():
        special = {tokenizer.mask_token_id, tokenizer.sep_token_id, tokenizer.cls_token_id, tokenizer.pad_token_id}
        ids = all_ids(load_or_build_cache(corpus, tokenizer, tmp_path))[0]
        assert len(ids) > 4 and special.isdisjoint(ids)


@pytest.mark.parametrize(("vocab_size", "dtype"), [(2**16, np.uint16), (70_000, np.uint32)])
def test_ids_take_two_bytes_as_long_as_the_vocabulary_allows(
    vocab_size: int, dtype: type, write_corpus: WriteCorpus, tmp_path: Path
) -> None:
    last = vocab_size - 1
    cache = load_or_build_cache(write_corpus([f"5 {last} 6"]), make_number_tokenizer(vocab_size), tmp_path)
    assert cache.tokens(0, 0, 3).dtype == dtype
    assert all_ids(cache) == [[5, last, 6]] == datasets.load_from_disk(str(cache.path))["input_ids"][:]


@algorithms
def test_lines_too_long_for_one_piece_give_the_same_ids(
    algorithm: str,
    tokenizers: dict[str, PreTrainedTokenizerBase],
    write_corpus: WriteCorpus,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    corpus = write_corpus([text.replace("\r", " ").replace("\n", " ") for text in spaced_texts(100)])
    monkeypatch.setattr(documents_module, "MAX_PIECE_CHARACTERS", 30)  # of up to 500
    cache = load_or_build_cache(corpus, tokenizers[algorithm], tmp_path)
    assert all_ids(cache) == expected_ids(tokenizers[algorithm], list(corpus))
    assert all(len(cache.line_lengths(d)) == 1 for d in range(100))


def test_a_line_of_the_real_limit_is_cut_and_so_is_one_without_any_white_space(
    wordpiece_tokenizer: PreTrainedTokenizerBase, write_corpus: WriteCorpus, tmp_path: Path
) -> None:
    vocab = [*SPECIAL_TOKENS.values(), "我", "们", "词"]
    chinese_tokenizer = BertTokenizer(vocab={token: i for i, token in enumerate(vocab)})
    for tokenizer, text in [(wordpiece_tokenizer, " ".join(TEXTS) * 400), (chinese_tokenizer, "我们词" * 40_000)]:
        assert len(text) > 2 * documents_module.MAX_PIECE_CHARACTERS
        cache = load_or_build_cache(write_corpus([text]), tokenizer, tmp_path)
        assert all_ids(cache) == expected_ids(tokenizer, [text])


def test_equal_texts_have_equal_hashes_whatever_the_tokenizer(
    tokenizers: dict[str, PreTrainedTokenizerBase], write_corpus: WriteCorpus, tmp_path: Path
) -> None:
    corpus = write_corpus(["one two", "one  two", "two", "one two", "One two"])
    hashes = [load_or_build_cache(corpus, tokenizer, tmp_path).content_hashes for tokenizer in tokenizers.values()]
    assert hashes[0].dtype == np.uint64 and hashes[0].tolist() == hashes[1].tolist() == hashes[2].tolist()
    assert hashes[0][0] == hashes[0][3] and len(set(hashes[0].tolist())) == 4


def test_documents_without_a_token_leave_no_row_not_even_where_they_fill_whole_batches(
    wordpiece_tokenizer: PreTrainedTokenizerBase,
    write_corpus: WriteCorpus,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(documents_module, "BATCH_CHARACTERS", 4)
    silent = "\u200b\u200b\u200b\u200b"  # not white space to Python, but nothing to BERT
    corpus = write_corpus([silent, silent, "fox", silent, "dog\n" + silent, silent])
    cache = load_or_build_cache(corpus, wordpiece_tokenizer, tmp_path)
    assert all_ids(cache) == expected_ids(wordpiece_tokenizer, ["fox", "dog"])
    assert cache.content_hashes.tolist() == [
        load_or_build_cache(write_corpus([text]), wordpiece_tokenizer, tmp_path).content_hashes[0]
        for text in ("fox", "dog\n" + silent)
    ]


def test_the_description_counts_what_is_inside(number_tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    texts = ["7 8 ü\n9", "", "10 unknown", "  \n"]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    corpus = Corpus(CorpusOptions(train_file=(str(path),)))
    cache = load_or_build_cache(corpus, number_tokenizer, tmp_path / "cache")
    description = json.loads((cache.path / DESCRIPTION_NAME).read_text())
    assert description == cache.description
    expected = {
        "format_version": documents_module.FORMAT_VERSION,
        "sources": corpus.describe(),
        "documents": 2,
        "tokens": 6,
        "unknown_tokens": 2,
        "unknown_rate": 2 / 6,
        "text_bytes": 8 + 10,
        "bytes_per_token": 18 / 6,
        "empty_documents_skipped": 2,
        "documents_sampled_out": 0,
        "bytes": (cache.path / ARROW_NAME).stat().st_size,
    }
    assert {name: description[name] for name in expected} == expected
    assert description["tokenizer"]["vocab_size"] == len(number_tokenizer)
    assert cache.path.name == f"documents-{description['fingerprint'][:16]}"


# ------------------------------------------------------------------------------------------------ once, and only whole


def test_the_second_call_reads_and_another_tokenizer_corpus_or_sample_builds_its_own(
    tokenizers: dict[str, PreTrainedTokenizerBase], tmp_path: Path, write_corpus: WriteCorpus
) -> None:
    corpus = write_corpus(spaced_texts(30))
    (file,) = corpus.options.train_file
    first = load_or_build_cache(corpus, tokenizers["wordpiece"], tmp_path)
    stamp = file_stamp(first)
    sampled = [Corpus(CorpusOptions(train_file=(file,), dataset_sampling=(0.5,), seed=seed)) for seed in (1, 2)]
    others = [
        load_or_build_cache(corpus, tokenizers["unigram"], tmp_path),
        load_or_build_cache(write_corpus(spaced_texts(30)), tokenizers["wordpiece"], tmp_path),
        *(load_or_build_cache(sample, tokenizers["wordpiece"], tmp_path) for sample in sampled),
    ]
    assert len({first.path, *(cache.path for cache in others)}) == 5
    assert others[2].description["documents_sampled_out"] == 30 - len(others[2])
    assert all_ids(others[2]) == expected_ids(tokenizers["wordpiece"], list(sampled[0]))

    again = load_or_build_cache(Corpus(CorpusOptions(train_file=(file,))), tokenizers["wordpiece"], tmp_path)
    assert again.path == first.path and file_stamp(again) == stamp
    tokenizers["wordpiece"].save_pretrained(tmp_path / "tokenizer")
    reloaded = load_or_build_cache(corpus, load_tokenizer(str(tmp_path / "tokenizer")), tmp_path)
    assert reloaded.path == first.path and file_stamp(reloaded) == stamp


def test_a_changed_file_is_another_corpus(wordpiece_tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("the fox")
    first = load_or_build_cache(Corpus(CorpusOptions(train_file=(str(path),))), wordpiece_tokenizer, tmp_path)
    path.write_text("the fox and the dog")
    second = load_or_build_cache(Corpus(CorpusOptions(train_file=(str(path),))), wordpiece_tokenizer, tmp_path)
    assert first.path != second.path
    assert all_ids(second) == expected_ids(wordpiece_tokenizer, ["the fox and the dog"])


def test_overwrite_builds_anew_and_leaves_open_caches_readable(
    wordpiece_tokenizer: PreTrainedTokenizerBase, write_corpus: WriteCorpus, tmp_path: Path
) -> None:
    corpus = write_corpus(TEXTS)
    first = load_or_build_cache(corpus, wordpiece_tokenizer, tmp_path)
    stamp = file_stamp(first)
    second = load_or_build_cache(corpus, wordpiece_tokenizer, tmp_path, overwrite=True)
    assert second.path == first.path and file_stamp(second) != stamp
    assert all_ids(second) == all_ids(first) == expected_ids(wordpiece_tokenizer, TEXTS)


def damage_by_cutting_the_data(folder: Path) -> None:
    os.truncate(folder / ARROW_NAME, (folder / ARROW_NAME).stat().st_size - 8)


def damage_by_losing_the_data(folder: Path) -> None:
    (folder / ARROW_NAME).unlink()


def damage_by_losing_the_description(folder: Path) -> None:
    (folder / DESCRIPTION_NAME).unlink()


def damage_by_cutting_the_description(folder: Path) -> None:
    os.truncate(folder / DESCRIPTION_NAME, 40)


def damage_by_another_format(folder: Path) -> None:
    description = json.loads((folder / DESCRIPTION_NAME).read_text())
    (folder / DESCRIPTION_NAME).write_text(json.dumps({**description, "format_version": 0}))


def damage_by_stopping_before_the_rename(folder: Path) -> None:
    folder.rename(f"{folder}.unfinished")
    damage_by_cutting_the_data(Path(f"{folder}.unfinished"))


@pytest.mark.parametrize(
    "damage",
    [
        damage_by_cutting_the_data,
        damage_by_losing_the_data,
        damage_by_losing_the_description,
        damage_by_cutting_the_description,
        damage_by_another_format,
        damage_by_stopping_before_the_rename,
    ],
)
def test_what_a_killed_build_left_is_never_served_but_built_again(
    damage: Callable[[Path], None],
    wordpiece_tokenizer: PreTrainedTokenizerBase,
    write_corpus: WriteCorpus,
    tmp_path: Path,
) -> None:
    corpus = write_corpus(TEXTS)
    path = load_or_build_cache(corpus, wordpiece_tokenizer, tmp_path).path
    damage(path)
    cache = load_or_build_cache(corpus, wordpiece_tokenizer, tmp_path)
    assert cache.path == path and all_ids(cache) == expected_ids(wordpiece_tokenizer, TEXTS)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [path.name, f"{path.name}.lock"]
    stamp = file_stamp(cache)
    assert file_stamp(load_or_build_cache(corpus, wordpiece_tokenizer, tmp_path)) == stamp


def test_a_build_that_fails_in_the_middle_leaves_nothing_and_frees_the_lock(
    wordpiece_tokenizer: PreTrainedTokenizerBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents_module, "BATCH_CHARACTERS", 100)
    good, broken = tmp_path / "1.txt", tmp_path / "2.txt"
    good.write_text("\n\n".join(TEXTS * 5))
    broken.write_bytes(b"the fox \xff\xfe")
    corpus = Corpus(CorpusOptions(train_file=(str(good), str(broken))))
    with pytest.raises(UserError, match="UTF-8") as caught:
        load_or_build_cache(corpus, wordpiece_tokenizer, tmp_path / "cache")
    (lock,) = (tmp_path / "cache").iterdir()  # nothing else is there
    with FileLock(lock, timeout=0):  # free, although the traceback still holds the frames of the build
        assert caught.value is not None


def build_with_another(barrier: Any, file: str, tokenizer_path: str, cache_dir: str) -> tuple[Any, list[list[int]]]:
    """Build when both processes are there; what was built, and its ids."""
    corpus, tokenizer = Corpus(CorpusOptions(train_file=(file,))), load_tokenizer(tokenizer_path)
    barrier.wait(timeout=60)
    cache = load_or_build_cache(corpus, tokenizer, cache_dir)
    return file_stamp(cache), all_ids(cache)


def test_two_processes_that_build_the_same_cache_at_once_both_get_the_whole_one(
    wordpiece_tokenizer: PreTrainedTokenizerBase, write_corpus: WriteCorpus, tmp_path: Path
) -> None:
    (file,) = write_corpus(TEXTS * 2000).options.train_file
    wordpiece_tokenizer.save_pretrained(tmp_path / "tokenizer")
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, context.Pool(1) as pool:
        arguments = (manager.Barrier(2), file, str(tmp_path / "tokenizer"), str(tmp_path / "cache"))
        elsewhere = pool.apply_async(build_with_another, arguments)
        stamp, ids = build_with_another(*arguments)
        assert elsewhere.get(timeout=60) == (stamp, ids)  # of one and the same build
    assert ids == expected_ids(wordpiece_tokenizer, TEXTS) * 2000
    assert len(list((tmp_path / "cache").glob("documents-*"))) == 2  # the cache and its lock


def test_a_pickled_cache_is_a_path_and_reads_the_same(
    wordpiece_tokenizer: PreTrainedTokenizerBase, write_corpus: WriteCorpus, tmp_path: Path
) -> None:
    cache = load_or_build_cache(write_corpus(TEXTS * 100), wordpiece_tokenizer, tmp_path)
    pickled = pickle.dumps(cache)
    assert len(pickled) < 1000
    copy = pickle.loads(pickled)
    assert all_ids(copy) == all_ids(cache)
    assert copy.content_hashes.tolist() == cache.content_hashes.tolist()


# -------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize("text", ["\n \n", "\u200b"])
def test_a_corpus_without_a_token_is_an_error(
    text: str, wordpiece_tokenizer: PreTrainedTokenizerBase, write_corpus: WriteCorpus, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=r"corpus is empty.*documents\.jsonl"):
        load_or_build_cache(write_corpus([text]), wordpiece_tokenizer, tmp_path)
    assert [entry.suffix for entry in tmp_path.iterdir()] == [".lock"]


def test_a_cache_folder_that_cannot_be_made_is_an_error_that_names_the_option(
    wordpiece_tokenizer: PreTrainedTokenizerBase, write_corpus: WriteCorpus, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="--cache_dir"):
        load_or_build_cache(write_corpus(TEXTS), wordpiece_tokenizer, tmp_path / "file")


# ------------------------------------------------------------------------------------------------------ held-out split


def hashes_with_duplicates(distinct: int, seed: int = 0) -> np.ndarray:
    """Each hash one to four times, in random order."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 2**64, distinct, dtype=np.uint64)
    return rng.permutation(np.repeat(values, rng.integers(1, 5, distinct)))


@pytest.mark.parametrize(
    ("distinct", "fraction", "expected"),
    [(1000, 0.05, 50), (1000, 0.0001, 1), (2, 0.05, 1), (7, 0.5, 4), (5, 0.999, 4)],
)
def test_an_exact_share_of_the_distinct_documents_is_held_out_and_both_sides_get_some(
    distinct: int, fraction: float, expected: int
) -> None:
    hashes = hashes_with_duplicates(distinct)
    training, held_out = split_documents(hashes, fraction, seed=42)
    assert len(set(hashes[held_out].tolist())) == expected
    assert sorted([*training.tolist(), *held_out.tolist()]) == list(range(len(hashes)))
    assert training.tolist() == sorted(training) and held_out.tolist() == sorted(held_out)


def test_equal_documents_are_on_the_same_side() -> None:
    hashes = hashes_with_duplicates(500)
    training, held_out = split_documents(hashes, 0.3, seed=42)
    assert set(hashes[training].tolist()).isdisjoint(hashes[held_out].tolist())


def test_the_split_follows_from_seed_and_content_not_from_order() -> None:
    hashes = hashes_with_duplicates(1000)
    held_out = {seed: set(hashes[split_documents(hashes, 0.1, seed)[1]].tolist()) for seed in (1, 2)}
    turned = hashes[::-1].copy()
    assert set(turned[split_documents(turned, 0.1, 1)[1]].tolist()) == held_out[1]
    assert len(held_out[1] & held_out[2]) < 30  # 10 of 100 are expected in both


def test_a_document_is_held_out_as_often_as_any_other() -> None:
    hashes = np.arange(20, dtype=np.uint64)
    counts = np.bincount(
        np.concatenate([split_documents(hashes, 0.25, seed)[1] for seed in range(2000)]), minlength=20
    )
    assert counts.sum() == 2000 * 5
    assert np.abs(counts - 500).max() < 5 * (2000 * 0.25 * 0.75) ** 0.5


def test_fraction_zero_holds_nothing_out() -> None:
    training, held_out = split_documents(np.array([3, 3], dtype=np.uint64), 0, seed=1)
    assert training.tolist() == [0, 1] and held_out.tolist() == []


def test_one_distinct_document_cannot_be_split() -> None:
    with pytest.raises(UserError, match=r"only one distinct document.*--validation_fraction 0"):
        split_documents(np.array([3, 3, 3], dtype=np.uint64), 0.1, seed=1)
