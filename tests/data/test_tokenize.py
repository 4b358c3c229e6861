"""Tokenizers of a corpus: trained once, complete or not at all, with a report whose numbers can be counted by hand."""

import random

from electra.base.checkpoints import find_damage
from electra.data import tokenize as tokenizer_module
from electra.data.corpus import Corpus
from electra.data.options import CorpusArguments
from electra.data.tokenize import REPORT_NAME, _measure, is_held_out, load_or_train_tokenizer, train_on_corpus
from electra.tokenizers import command
from electra.tokenizers.command import main
from electra.tokenizers.load import load_tokenizer, tokenizer_fingerprint
from electra.tokenizers.options import TokenizerArguments
from electra.tokenizers.train import train_on_documents
from tests.conftest import refused
from tests.helpers import read_json

OPTIONS = TokenizerArguments(vocab_size=120)


def texts(count, seed=0):
    """Documents of 3 to 30 words and a number, so that no two are equal."""
    rng = random.Random(seed)
    words = ["fox", "dog", "lazy", "quick", "jumps", "über", "zebra", "xylophone", "generator", "discriminator"]
    return [" ".join(rng.choices(words, k=rng.randint(3, 30))) + f" {i}" for i in range(count)]


def held_out(documents, seed=42):
    """The documents on which a tokenizer is measured and not trained."""
    return [document for document in documents if is_held_out(document, seed)]


def test_held_out_documents_are_chosen_by_text_and_seed():
    documents = [f"document {i}" for i in range(20000)]
    first, second = (set(held_out(documents, seed)) for seed in (1, -2))
    assert 0.043 < len(first) / len(documents) < 0.057  # 0.05 within 4.5 standard deviations
    assert 20 < len(first & second) < 85  # independent: 0.0025 of the documents, 50 +- 7


def test_a_tokenizer_is_trained_on_all_but_held_out_documents(write_corpus):
    documents = texts(300)
    tokenizer, report = train_on_corpus(write_corpus(documents), OPTIONS)
    training = [document for document in documents if not is_held_out(document, 42)]
    assert tokenizer_fingerprint(tokenizer) == tokenizer_fingerprint(train_on_documents(training, OPTIONS))
    apart = held_out(documents)
    ids = [token for text in apart for token in tokenizer(text, add_special_tokens=False).input_ids]
    assert report == {
        "vocab_size": len(tokenizer),
        "training_documents": len(training),
        "held_out_documents": len(apart),
        "unknown_token_rate": ids.count(tokenizer.unk_token_id) / len(ids),
        "unknown_character_rate": 0.0,
        "bytes_per_token": len("".join(apart).encode()) / len(ids),
        "tokens": len(ids),
    }


def test_characters_in_unknown_words_are_counted(write_corpus, caplog):
    tokenizer, _ = train_on_corpus(write_corpus(texts(300)), OPTIONS)
    word = texts(1)[0].split()[0]
    report = _measure("tokenizer", tokenizer, [f"{word} \u0416{word}", word])
    assert report["unknown_character_rate"] == (1 + len(word)) / (1 + 3 * len(word))
    assert "unknown words" in caplog.text


def test_what_lower_casing_loses_is_logged(write_corpus, caplog):
    caplog.set_level("INFO")
    german = [f"Heute {'essen' if number % 2 else 'das Essen'} wir gut, Anna {number}." for number in range(400)]
    train_on_corpus(write_corpus(german), OPTIONS)
    (line,) = [line for line in caplog.messages if "lower-cased" in line]
    assert "--no_lowercase" in line and "'Essen'" in line and "'essen'" in line
    (percent,) = [int(word) for word in line.split() if word.isdecimal()]
    assert 25 < percent < 45  # 3 of 9 words behind others, sentences begun not counted
    caplog.clear()
    train_on_corpus(write_corpus(german), TokenizerArguments(vocab_size=120, lowercase=False))
    train_on_corpus(write_corpus(texts(300)), OPTIONS)
    assert "lower-cased" not in caplog.text


def test_only_some_held_out_text_is_kept_in_memory(write_corpus, monkeypatch):
    """Documents up to the one that fills the limit; the others are not trained on, either."""
    monkeypatch.setattr(tokenizer_module, "HELD_OUT_BYTES", 100)
    documents = texts(300)
    _, report = train_on_corpus(write_corpus(documents), OPTIONS)
    apart = held_out(documents)
    count = next(count for count in range(300) if len("".join(apart[:count]).encode()) >= 100)
    assert report["held_out_documents"] == count < len(apart)
    assert report["training_documents"] == 300 - len(apart)


def test_a_corpus_of_one_document_is_learned_from(write_corpus):
    (document, *_) = held_out(["\n".join(texts(40, seed)) for seed in range(100)])
    tokenizer, report = train_on_corpus(write_corpus([document]), OPTIONS)
    assert report["held_out_documents"] == 0 and "tokens" not in report
    assert tokenizer.unk_token_id not in tokenizer(document).input_ids
    assert "documents.jsonl" in refused(lambda: train_on_corpus(write_corpus([" "]), OPTIONS))


# Cached


def test_each_corpus_option_and_seed_has_its_own_tokenizer(write_corpus, tmp_path):
    corpus = write_corpus(texts(100))
    first = load_or_train_tokenizer(corpus, OPTIONS, tmp_path)
    (folder,) = tmp_path.glob("tokenizer-*[!k]")  # not its lock
    assert find_damage(folder) is None

    again = Corpus(corpus.options)
    second = load_or_train_tokenizer(again, OPTIONS, tmp_path)
    assert tokenizer_fingerprint(second) == tokenizer_fingerprint(first)

    sampled = Corpus(CorpusArguments(train_file=corpus.options.train_file, dataset_sampling=[0.5]))
    limited = TokenizerArguments(vocab_size=100, max_documents=20)
    for other, options, seed in [(sampled, OPTIONS, 42), (corpus, limited, 1), (corpus, limited, 2)]:
        last = load_or_train_tokenizer(other, options, tmp_path, seed)
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 4
    training = [document for document in texts(100) if not is_held_out(document, 2)]
    assert tokenizer_fingerprint(last) == tokenizer_fingerprint(train_on_documents(training, limited, seed=2))


def test_a_damaged_tokenizer_is_trained_again(write_corpus, tmp_path):
    corpus = write_corpus(texts(100))
    first = load_or_train_tokenizer(corpus, OPTIONS, tmp_path)
    (folder,) = tmp_path.glob("tokenizer-*[!k]")
    (folder / "tokenizer.json").write_text("{")
    again = load_or_train_tokenizer(corpus, OPTIONS, tmp_path)
    assert tokenizer_fingerprint(again) == tokenizer_fingerprint(first) and find_damage(folder) is None


# The command


def test_the_command_writes_a_tokenizer_into_a_new_folder(write_corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "setup_logging", lambda: None)  # which hides logs from other tests
    folder = tmp_path / "tokenizer"
    flags = [
        "--train_file",
        *write_corpus(texts(100)).options.train_file,
        "--output_dir",
        str(folder),
        "--no_lowercase",
    ]
    main([*flags, "--vocab_size", "100", "--seed", "7"])
    training = [document for document in texts(100) if not is_held_out(document, 7)]
    expected = train_on_documents(training, TokenizerArguments(vocab_size=100, lowercase=False))
    assert tokenizer_fingerprint(load_tokenizer(str(folder))) == tokenizer_fingerprint(expected)
    assert read_json(folder / REPORT_NAME)["vocab_size"] == 100
    assert "is not empty" in refused(lambda: main(flags))


def test_a_folder_that_was_filled_meanwhile_is_left_alone(write_corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "setup_logging", lambda: None)  # which hides logs from other tests
    folder = tmp_path / "tokenizer"
    train = train_on_documents

    def fill(*args):
        folder.mkdir()
        (folder / "precious").write_text("mine")
        return train(*args)

    monkeypatch.setattr(tokenizer_module, "train_on_documents", fill)
    flags = ["--train_file", *write_corpus(texts(100)).options.train_file, "--output_dir", str(folder)]
    assert "is not empty" in refused(lambda: main([*flags, "--vocab_size", "100"]))
    assert [path.name for path in folder.iterdir()] == ["precious"]
