"""Tokenizers of a corpus: trained once, complete or not at all, with a report whose numbers can be counted by hand."""

import json
import logging
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from transformers import PreTrainedTokenizerBase

from electra.checkpoint import find_corruption
from electra.config import CorpusArguments, TokenizerArguments
from electra.data import tokenizer as tokenizer_module
from electra.data.corpus import Corpus
from electra.data.tokenizer import (
    REPORT_NAME,
    TokenizerReport,
    describe_report,
    is_held_out,
    load_or_train_tokenizer,
    train_on_corpus,
    write_tokenizer,
)
from electra.errors import UserError
from electra.tokenizer import load_tokenizer, tokenizer_fingerprint
from electra.tokenizer_training import train_tokenizer

WriteCorpus = Callable[..., Corpus]
OPTIONS = TokenizerArguments(vocab_size=120)


def texts(count: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    words = ["fox", "dog", "lazy", "quick", "jumps", "über", "zebra", "xylophone", "generator", "discriminator"]
    return [" ".join(rng.choices(words, k=rng.randint(3, 30))) + f" {i}" for i in range(count)]


def held_out(documents: list[str], seed: int = 42) -> list[str]:
    return [document for document in documents if is_held_out(document, seed)]


def test_held_out_documents_are_chosen_by_their_text_and_the_seed() -> None:
    documents = [f"document {i}" for i in range(20000)]
    one, other = (set(held_out(documents, seed)) for seed in (1, -2))
    assert one == set(held_out(documents[::-1], 1))
    assert 0.043 < len(one) / len(documents) < 0.057  # 4.5 standard deviations
    assert 20 < len(one & other) < 85  # independent: 0.0025 of the documents


def test_it_is_trained_on_all_documents_but_those_held_out(write_corpus: WriteCorpus) -> None:
    # Each document has a character of its own, which is a word of its own to WordPiece.
    signs = [chr(0x4E00 + i) for i in range(300)]
    documents = [f"{text} {sign * 3}" for text, sign in zip(texts(300), signs, strict=True)]
    apart = {document[-1] for document in held_out(documents)}
    assert 5 < len(apart) < 30
    tokenizer, report = train_on_corpus(write_corpus(documents), TokenizerArguments(vocab_size=500))
    learned = set(signs) & set(tokenizer.get_vocab())
    assert learned.isdisjoint(apart)
    assert len(learned) > 0.95 * (300 - len(apart))  # the rarest are left out by the coverage of the alphabet
    assert report is not None
    assert (report.training_documents, report.held_out_documents) == (300 - len(apart), len(apart))


def test_the_report_says_what_can_be_counted_by_hand(write_corpus: WriteCorpus) -> None:
    documents = texts(300)
    tokenizer, report = train_on_corpus(write_corpus(documents), OPTIONS)
    assert report is not None
    ids = [i for text in held_out(documents) for i in tokenizer(text, add_special_tokens=False).input_ids]
    assert report.vocab_size == len(tokenizer) <= 120
    assert report.tokens == len(ids)
    assert report.unknown_token_rate == ids.count(tokenizer.unk_token_id) / len(ids)
    assert report.bytes_per_token == len("".join(held_out(documents)).encode()) / len(ids)
    line = describe_report(tokenizer, report)
    assert (
        f"{report.bytes_per_token:.2f}" in line
        and f"{report.training_documents} documents" in line
        and "\n" not in line
    )


def test_options_and_seed_reach_the_training(write_corpus: WriteCorpus, tmp_path: Path) -> None:
    options, documents = TokenizerArguments(vocab_size=100, max_documents=20), texts(100)
    corpus = write_corpus(documents)
    _, report = train_on_corpus(corpus, options, seed=1)
    assert report is not None and report.training_documents == 20
    training = [document for document in documents if not is_held_out(document, 1)]
    expected, other = (tokenizer_fingerprint(train_tokenizer(training, options, seed)) for seed in (1, 42))
    assert tokenizer_fingerprint(load_or_train_tokenizer(corpus, options, tmp_path, seed=1)) == expected != other


def test_only_some_held_out_text_is_kept_in_memory(write_corpus: WriteCorpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer_module, "HELD_OUT_BYTES", 100)
    documents = texts(300)
    _, report = train_on_corpus(write_corpus(documents), OPTIONS)
    kept = next(n for n in range(300) if len("".join(held_out(documents)[:n]).encode()) >= 100)
    assert report is not None and report.held_out_documents == kept
    assert report.training_documents == 300 - len(held_out(documents))


def test_without_a_held_out_document_there_is_no_report(write_corpus: WriteCorpus) -> None:
    documents = [document for document in texts(50) if not is_held_out(document, 42)]
    tokenizer, report = train_on_corpus(write_corpus(documents), OPTIONS)
    assert report is None and "fox" in tokenizer.get_vocab()
    assert str(len(tokenizer)) in describe_report(tokenizer, None)


def test_a_corpus_whose_only_document_would_be_held_out_is_learned_from(write_corpus: WriteCorpus) -> None:
    (document, *_) = held_out(["\n".join(texts(40, seed)) for seed in range(100)])
    tokenizer, report = train_on_corpus(write_corpus([document]), OPTIONS)
    assert report is None
    assert tokenizer.unk_token_id not in tokenizer(document).input_ids


# -------------------------------------------------------------------------------------------------------------- cached


def test_the_second_call_loads_the_same_tokenizer_and_reads_nothing(
    write_corpus: WriteCorpus, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    corpus = write_corpus(texts(300))
    first = load_or_train_tokenizer(corpus, OPTIONS, tmp_path)
    assert corpus.documents_seen == 300
    (folder,) = tmp_path.glob("tokenizer-*[!k]")
    report = TokenizerReport(**json.loads((folder / REPORT_NAME).read_text()))
    assert describe_report(first, report) in caplog.text
    _, expected = train_on_corpus(corpus, OPTIONS)
    assert expected is not None
    assert {**asdict(report), "training_seconds": 0} == {**asdict(expected), "training_seconds": 0}

    again = Corpus(corpus.options)
    second = load_or_train_tokenizer(again, OPTIONS, tmp_path)
    assert again.documents_seen == 0
    assert tokenizer_fingerprint(second) == tokenizer_fingerprint(first)
    assert type(second) is type(first) and second.get_vocab() == first.get_vocab()


def test_a_cached_tokenizer_of_half_its_vocabulary_is_trained_again(
    write_corpus: WriteCorpus, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    corpus = write_corpus(texts(100))
    complete = tokenizer_fingerprint(load_or_train_tokenizer(corpus, OPTIONS, tmp_path))
    (file,) = tmp_path.glob("tokenizer-*/tokenizer.json")
    state = json.loads(file.read_text())
    state["model"]["vocab"] = dict(list(state["model"]["vocab"].items())[:60])
    file.write_text(json.dumps(state))
    assert tokenizer_fingerprint(load_or_train_tokenizer(corpus, OPTIONS, tmp_path)) == complete
    assert str(file.parent) in caplog.text and "tokenizer.json" in caplog.text


def test_another_corpus_option_or_seed_has_its_own_tokenizer(write_corpus: WriteCorpus, tmp_path: Path) -> None:
    corpus = write_corpus(texts(100))
    sampled = Corpus(CorpusArguments(train_file=corpus.options.train_file, dataset_sampling=[0.5]))
    load_or_train_tokenizer(corpus, OPTIONS, tmp_path)
    load_or_train_tokenizer(write_corpus(texts(100)), OPTIONS, tmp_path)
    load_or_train_tokenizer(sampled, OPTIONS, tmp_path)
    load_or_train_tokenizer(corpus, TokenizerArguments(vocab_size=110), tmp_path)
    load_or_train_tokenizer(corpus, OPTIONS, tmp_path, seed=1)
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 5


def test_a_written_tokenizer_replaces_a_tokenizer_but_never_a_model_or_other_files(
    write_corpus: WriteCorpus, tmp_path: Path
) -> None:
    folder = tmp_path / "tokenizer"
    for options in (OPTIONS, TokenizerArguments(vocab_size=110)):
        tokenizer, report = train_on_corpus(write_corpus(texts(100)), options)
        write_tokenizer(tokenizer, report, folder)
    assert load_tokenizer(str(folder)).get_vocab() == tokenizer.get_vocab()

    (folder / "model.safetensors").write_text("weights")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "vocab.txt").write_text("mine")
    for occupied in (folder, tmp_path / "notes"):
        before = sorted(occupied.iterdir())
        with pytest.raises(UserError, match=str(occupied)):
            write_tokenizer(tokenizer, report, occupied)
        assert sorted(occupied.iterdir()) == before


def test_a_tokenizer_has_its_name_only_when_it_is_complete_and_what_a_kill_left_is_not_used(
    write_corpus: WriteCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save, folders_while_saving = PreTrainedTokenizerBase.save_pretrained, []

    def save_and_look(self: PreTrainedTokenizerBase, folder: Path, **options: Any) -> None:
        save(self, folder, **options)
        folders_while_saving.extend(path.name.rpartition(".")[2] for path in tmp_path.iterdir() if path.is_dir())

    monkeypatch.setattr(PreTrainedTokenizerBase, "save_pretrained", save_and_look)
    corpus = write_corpus(texts(100))
    expected = load_or_train_tokenizer(corpus, OPTIONS, tmp_path)
    assert folders_while_saving == ["unfinished"]
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    assert find_corruption(folder) is None

    folder.rename(f"{folder}.unfinished")
    (tmp_path / f"{folder.name}.unfinished" / "tokenizer.json").write_text("{")
    assert load_or_train_tokenizer(corpus, OPTIONS, tmp_path).get_vocab() == expected.get_vocab()
    assert not list(tmp_path.glob("*.unfinished"))


def test_a_training_that_fails_leaves_nothing_and_frees_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("\n\n".join(texts(100)).encode() + b"\n\n\xff\xfe")
    with pytest.raises(UserError, match=r"a\.txt") as caught:
        load_or_train_tokenizer(Corpus(CorpusArguments(train_file=[str(path)])), OPTIONS, tmp_path / "cache")
    (lock,) = (tmp_path / "cache").iterdir()
    with FileLock(lock, timeout=0):  # free, although the traceback still has the frames of the training
        assert caught.value is not None


def test_a_cache_folder_that_cannot_be_made_is_an_error_that_names_the_option(
    write_corpus: WriteCorpus, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="--cache_dir"):
        load_or_train_tokenizer(write_corpus(texts(10)), OPTIONS, tmp_path / "file")


def test_all_that_write_one_folder_at_once_succeed(glue_tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    def write(_: int) -> None:
        write_tokenizer(glue_tokenizer, None, tmp_path / "tokenizer")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(12)))
    assert len(load_tokenizer(str(tmp_path / "tokenizer"))) == len(glue_tokenizer)
    assert not list(tmp_path.glob("*unfinished*"))
