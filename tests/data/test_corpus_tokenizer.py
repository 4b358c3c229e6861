"""Tokenizers of a corpus: trained once, whole or not at all, with a report whose numbers can be counted by hand."""

import json
import logging
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import pytest
from filelock import FileLock
from transformers import PreTrainedTokenizerBase

from electra.data import corpus_tokenizer
from electra.data.corpus import Corpus, CorpusOptions
from electra.data.corpus_tokenizer import (
    REPORT_NAME,
    describe_report,
    load_or_train_tokenizer,
    train_on_corpus,
    write_tokenizer,
)
from electra.errors import UserError
from electra.tokenization import load_tokenizer, tokenizer_fingerprint
from electra.tokenizer_training import TokenizerOptions, TokenizerReport, is_held_out

WriteCorpus = Callable[..., Corpus]
OPTIONS = TokenizerOptions(vocab_size=120)


def texts(count: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    words = ["fox", "dog", "lazy", "quick", "jumps", "über", "zebra", "xylophone", "generator", "discriminator"]
    return [" ".join(rng.choices(words, k=rng.randint(3, 30))) + f" {i}" for i in range(count)]


def held_out(documents: list[str], seed: int = OPTIONS.seed) -> list[str]:
    return [document for document in documents if is_held_out(document, seed)]


def test_it_is_trained_on_all_documents_but_those_held_out(write_corpus: WriteCorpus) -> None:
    # Each document has a character of its own, which is a word of its own to WordPiece.
    signs = [chr(0x4E00 + i) for i in range(300)]
    documents = [f"{text} {sign * 3}" for text, sign in zip(texts(300), signs, strict=True)]
    apart = {document[-1] for document in held_out(documents)}
    assert 5 < len(apart) < 30
    tokenizer, report = train_on_corpus(write_corpus(documents), TokenizerOptions(vocab_size=500))
    learned = set(signs) & set(tokenizer.get_vocab())
    assert learned.isdisjoint(apart)
    assert len(learned) > 0.95 * (300 - len(apart))  # the rarest are left out by the coverage of the alphabet
    assert report is not None
    assert (report.training_documents, report.held_out_documents) == (300 - len(apart), len(apart))


def test_the_report_says_what_can_be_counted_by_hand(write_corpus: WriteCorpus) -> None:
    documents = texts(300)
    tokenizer, report = train_on_corpus(write_corpus(documents), OPTIONS)
    assert report is not None
    ids = [
        token_id for text in held_out(documents) for token_id in tokenizer(text, add_special_tokens=False).input_ids
    ]
    text_bytes = len("".join(held_out(documents)).encode())
    assert report.vocab_size == len(tokenizer) <= 120
    assert report.tokens == len(ids)
    assert report.unknown_token_rate == ids.count(tokenizer.unk_token_id) / len(ids)
    assert report.bytes_per_token == text_bytes / len(ids)
    assert 0 < report.training_seconds < 60


def test_max_documents_bounds_the_training_documents(write_corpus: WriteCorpus) -> None:
    _, report = train_on_corpus(write_corpus(texts(100)), TokenizerOptions(vocab_size=120, max_documents=20))
    assert report is not None and report.training_documents == 20


def test_only_some_held_out_text_is_kept_in_memory(write_corpus: WriteCorpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_tokenizer, "HELD_OUT_BYTES", 100)
    documents = texts(300)
    _, report = train_on_corpus(write_corpus(documents), OPTIONS)
    kept = next(n for n in range(300) if len("".join(held_out(documents)[:n]).encode()) >= 100)
    assert report is not None and report.held_out_documents == kept
    assert report.training_documents == 300 - len(held_out(documents))


def test_without_a_held_out_document_there_is_no_report(write_corpus: WriteCorpus) -> None:
    documents = [document for document in texts(50) if not is_held_out(document, OPTIONS.seed)]
    tokenizer, report = train_on_corpus(write_corpus(documents), OPTIONS)
    assert report is None and "fox" in tokenizer.get_vocab()


def test_a_corpus_whose_only_document_would_be_held_out_is_learned_from(write_corpus: WriteCorpus) -> None:
    (document, *_) = held_out(["\n".join(texts(40, seed)) for seed in range(100)])
    tokenizer, report = train_on_corpus(write_corpus([document]), OPTIONS)
    assert report is None
    assert tokenizer.unk_token_id not in tokenizer(document).input_ids


def test_the_description_is_one_line_for_a_person(wordpiece_tokenizer: PreTrainedTokenizerBase) -> None:
    report = TokenizerReport(
        vocab_size=30522,
        training_documents=9500,
        training_seconds=12.345,
        held_out_documents=500,
        unknown_token_rate=0.00125,
        bytes_per_token=4.567,
        tokens=123,
    )
    assert describe_report(wordpiece_tokenizer, report) == (
        "30,522 tokens, trained on 9,500 documents in 12.3 s; on 500 held-out documents 0.125% unknown tokens, "
        "4.57 bytes per token"
    )
    without = describe_report(wordpiece_tokenizer, None)
    assert without == f"{len(wordpiece_tokenizer)} tokens; too few documents to hold some out and measure on them"


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
    assert second("The quick fox.", "Über 7!").data == first("The quick fox.", "Über 7!").data


def test_another_corpus_or_other_options_get_their_own(write_corpus: WriteCorpus, tmp_path: Path) -> None:
    corpus = write_corpus(texts(100))
    (file,) = corpus.options.train_file
    sampled = Corpus(CorpusOptions(train_file=(file,), dataset_sampling=(0.5,)))
    load_or_train_tokenizer(corpus, OPTIONS, tmp_path)
    load_or_train_tokenizer(write_corpus(texts(100)), OPTIONS, tmp_path)
    load_or_train_tokenizer(sampled, OPTIONS, tmp_path)
    load_or_train_tokenizer(corpus, TokenizerOptions(vocab_size=110), tmp_path)
    load_or_train_tokenizer(corpus, TokenizerOptions(vocab_size=120, seed=1), tmp_path)
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 5


def test_a_written_tokenizer_replaces_a_tokenizer_but_never_a_model_or_other_files(
    write_corpus: WriteCorpus, tmp_path: Path
) -> None:
    folder = tmp_path / "tokenizer"
    for options in (OPTIONS, TokenizerOptions(vocab_size=110)):
        tokenizer, report = train_on_corpus(write_corpus(texts(100)), options)
        write_tokenizer(tokenizer, report, folder)
    assert load_tokenizer(str(folder)).get_vocab() == tokenizer.get_vocab()

    (folder / "model.safetensors").write_text("weights")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "vocab.txt").write_text("mine")
    for occupied in (folder, tmp_path / "notes"):
        before = sorted(occupied.iterdir())
        with pytest.raises(UserError, match="something else than a tokenizer"):
            write_tokenizer(tokenizer, report, occupied)
        assert sorted(occupied.iterdir()) == before


KILLED_WHILE_SAVING = """
import os, signal, sys
from transformers import PreTrainedTokenizerBase
from electra.data.corpus import Corpus, CorpusOptions
from electra.data.corpus_tokenizer import load_or_train_tokenizer
from electra.tokenizer_training import TokenizerOptions

file, cache_dir = sys.argv[1:]
save = PreTrainedTokenizerBase.save_pretrained

def save_a_part(self, folder, **options):
    save(self, folder, **options)
    os.truncate(os.path.join(folder, "tokenizer.json"), 100)
    os.kill(os.getpid(), signal.SIGKILL)

PreTrainedTokenizerBase.save_pretrained = save_a_part
load_or_train_tokenizer(Corpus(CorpusOptions(train_file=(file,))), TokenizerOptions(vocab_size=120), cache_dir)
"""


def test_a_training_that_is_killed_while_it_saves_leaves_nothing_that_is_served(
    write_corpus: WriteCorpus, tmp_path: Path
) -> None:
    corpus = write_corpus(texts(100))
    command = [sys.executable, "-c", KILLED_WHILE_SAVING, corpus.options.train_file[0], str(tmp_path)]
    killed = subprocess.run(command, env={**os.environ, "PYTHONPATH": os.getcwd()}, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert [path.name.rpartition(".")[2] for path in tmp_path.iterdir() if path.is_dir()] == ["unfinished"]
    tokenizer = load_or_train_tokenizer(corpus, OPTIONS, tmp_path)
    expected, _ = train_on_corpus(corpus, OPTIONS)
    assert corpus.documents_seen == 100
    assert tokenizer.get_vocab() == expected.get_vocab()
    assert not list(tmp_path.glob("*.unfinished"))


def test_a_training_that_fails_leaves_nothing_and_frees_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("\n\n".join(texts(100)).encode() + b"\n\n\xff\xfe")
    with pytest.raises(UserError, match="UTF-8") as caught:
        load_or_train_tokenizer(Corpus(CorpusOptions(train_file=(str(path),))), OPTIONS, tmp_path / "cache")
    (lock,) = (tmp_path / "cache").iterdir()
    with FileLock(lock, timeout=0):  # free, although the traceback still holds the frames of the training
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
        list(pool.map(write, range(40)))
    assert len(load_tokenizer(str(tmp_path / "tokenizer"))) == len(glue_tokenizer)
    assert not list(tmp_path.glob("*unfinished*"))
