"""What several test files share: two tiny tokenizers, corpora of a few lines, token caches with known ids.

Tests run on the CPU: on a GPU each tiny training would be compiled, and a process that has used one cannot be forked.
With ELECTRA_TEST_GPU=1 in the environment the tests that are marked `gpu` run, and no others.
"""

import gc
import json
import logging
import os
import re
from functools import lru_cache, partial

gc.disable()  # until all is imported, see `pytest_collection_finish`
WANTS_GPU = os.environ.get("ELECTRA_TEST_GPU") == "1"
if not WANTS_GPU:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # before torch looks for GPUs
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before transformers reads it: no test waits for a network
os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is loaded: several tests run at once

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from electra.base.errors import run_script
from electra.core.errors import UserError
from electra.data.corpus import Corpus
from electra.data.options import CorpusArguments
from electra.data.shards import load_or_build_cache
from electra.report.metrics import make_panels
from electra.runtime.device import measure_matmul_flops
from electra.tokenizers.load import SPECIAL_TOKENS, wrap_backend
from electra.tokenizers.options import TokenizerArguments
from electra.tokenizers.train import train_on_documents
from tests.helpers import copying_python
from tests.pretraining.runs import WORDS

TEXTS = [
    "The quick brown fox jumps over the lazy dog and the dog does not mind.",
    "A generator fills the masked words, a discriminator says which words are real.",
    "She sells sea shells by the sea shore; the shells she sells are real shells.",
    "Words that are replaced by the generator are told from the words that are real.",
]
MOST_OBJECTS = 30_000
"""Objects that a module may leave to garbage collections: several times what its tests make."""
NUMBERS = 6000
"""Ids of the number tokenizer: enough to give every token of a test's corpus an id of its own."""


def pytest_collection_modifyitems(config, items):
    """Leave out the tests that need a GPU, or all others."""
    parts = {True: [], False: []}
    for item in items:
        needs_gpu = item.get_closest_marker("gpu") is not None
        parts[needs_gpu == WANTS_GPU].append(item)
    config.hook.pytest_deselected(items=parts[False])
    items[:] = parts[True]


def pytest_collection_finish(session):
    """Leave what is imported out of garbage collections.

    Trainers collect several times in a run, which would take most of the time of a tiny one: half a million objects.
    """
    gc.freeze()
    gc.enable()
    if not WANTS_GPU:
        # Where torch is built for CUDA, and its compiler is loaded before the first backward pass, autograd makes a
        # thread for a device that is not there. A process with such a thread cannot be forked, as many tests do.
        torch.ones((), requires_grad=True).backward()


@pytest.fixture(autouse=True, scope="module")
def few_objects():
    """Leave out what other modules have imported since, such as the networks of transformers."""
    if len(gc.get_objects()) > MOST_OBJECTS:
        gc.collect()
        gc.freeze()


@pytest.fixture(autouse=True)
def passes_log_on(monkeypatch):
    """Let the log of the package reach pytest's handler once, also behind a test whose command wrote it itself."""
    monkeypatch.setattr(logging.getLogger("electra"), "propagate", True)


def refused(make):
    """The message of the `UserError` that `make` raises: one line."""
    with pytest.raises(UserError) as error:
        make()
    assert "\n" not in str(error.value)
    return str(error.value)


def refused_command(main, argv, capsys):
    """The one line with which a wrong command ends, with exit code 2."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        run_script(lambda: main(argv))
    output = capsys.readouterr()
    lines = [line for line in re.split(r"[\r\n]+", output.err) if line.strip() and "B/s]" not in line]  # no bars
    assert stopped.value.code == 2 and "Traceback" not in output.out + output.err, output
    assert len(lines) == 1 and lines[0].startswith("error: "), output.err
    return lines[0]


def make_number_tokenizer(size):
    """A word-level tokenizer in which the text of token id 17 is "17"; ids 0-4 are the special tokens."""
    vocab = [*SPECIAL_TOKENS.values(), *map(str, range(len(SPECIAL_TOKENS), size))]
    backend = Tokenizer(models.WordLevel({token: i for i, token in enumerate(vocab)}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=backend, **SPECIAL_TOKENS)


@pytest.fixture(scope="session")
def copying():
    """A program that is Python, but starts at once, see `copying_python`."""
    with copying_python() as program:
        yield program


_matmul_flops = lru_cache(partial(measure_matmul_flops, seconds=0.01))


@pytest.fixture(scope="module")
def short_end():
    """Reports of runs have curves, but draw none, and the device is measured once: both take half of a tiny run.

    tests/report draws all curves, and so do integration/test_rc2020.py and the runs that are processes of their own.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("electra.report.page.make_panels", lambda runs, code_base="": make_panels(runs) and {})
        patch.setattr(
            "electra.pretraining.callbacks.measure_matmul_flops", lambda device, dtype, _: _matmul_flops(device, dtype)
        )
        yield


@pytest.fixture(scope="session")
def number_tokenizer():
    """A tokenizer whose ids are their own text, for tests that give token ids rather than text."""
    return make_number_tokenizer(NUMBERS)


@pytest.fixture(scope="session")
def wordpiece_tokenizer():
    """A real WordPiece tokenizer of 160 tokens."""
    return train_on_documents(TEXTS * 3, TokenizerArguments(vocab_size=160))


@pytest.fixture(scope="session")
def framed_tokenizer():
    """The number tokenizer with texts framed as BERT's are: `[CLS] 17 [SEP]`."""
    return wrap_backend(make_number_tokenizer(NUMBERS).backend_tokenizer, dict(SPECIAL_TOKENS))


@pytest.fixture(scope="session")
def glue_tokenizer():
    """A WordPiece tokenizer that knows the words of the tiny GLUE in tests/tasks/glue/files.py."""
    return train_on_documents([" ".join(WORDS)] * 4, TokenizerArguments(vocab_size=150))


@pytest.fixture(scope="session")
def write_corpus(tmp_path_factory):
    """`write_corpus(texts, **options)`: a corpus of exactly these documents, from a JSON lines file of its own."""

    def write(texts, **options):
        path = tmp_path_factory.mktemp("corpus") / "documents.jsonl"
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        return Corpus(CorpusArguments(train_file=[str(path)], **options))

    return write


@pytest.fixture(scope="session")
def make_cache(tmp_path_factory, number_tokenizer, write_corpus):
    """`make_cache(documents)`: a token cache of documents given as lists of lines, lines being lists of token ids."""

    def make(documents):
        texts = ["\n".join(" ".join(map(str, line)) for line in lines) for lines in documents]
        folder = tmp_path_factory.mktemp("cache")
        return load_or_build_cache(write_corpus(texts), number_tokenizer, folder)

    return make


@pytest.fixture(scope="session")
def make_numbered_cache(make_cache):
    """`make_numbered_cache(lengths)`: one-line documents of these lengths; id - 5 is a token's place in the corpus."""

    def make(lengths):
        ends = [5 + sum(lengths[: place + 1]) for place in range(len(lengths))]
        return make_cache([[list(range(end - length, end))] for length, end in zip(lengths, ends, strict=True)])

    return make
