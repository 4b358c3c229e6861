"""A pair small enough to be made anew for every test, and the plan of a run with it."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from electra.core.segments import Segment
from electra.data.options import SegmentArguments
from electra.pretraining.options import parse_pretraining_arguments
from electra.pretraining.plan import make_plan
from electra.pretraining.run import main
from tests.core.helpers import make_model
from tests.pretraining.runs import flags, write_corpus


@pytest.fixture(autouse=True, scope="module")
def short_ends(short_end):
    """All runs of these tests end shortly."""


@pytest.fixture
def folder(tmp_path):
    """Where a run can be: a corpus lies there."""
    write_corpus(tmp_path / "corpus.txt")
    return tmp_path


@pytest.fixture(scope="session")
def make_pair(wordpiece_tokenizer):
    """`make_pair(**options)`: a `make_model` for the WordPiece tokenizer."""
    return lambda **options: make_model(vocab_size=len(wordpiece_tokenizer), **options).eval()


@pytest.fixture(scope="session")
def cache(make_numbered_cache):
    """Four documents of 100 tokens altogether."""
    return make_numbered_cache([50, 20, 20, 10])


class Rows:
    """A policy of `count` rows with so many tokens, to which two special ones are added."""

    options = SegmentArguments()

    def __init__(self, count, tokens):
        self.count = count
        self.tokens = tokens

    def __len__(self):
        return self.count

    def cut(self, epoch, indices):
        return [Segment(np.zeros(self.tokens, np.uint16), None) for _ in indices]


@pytest.fixture(scope="session")
def plan_of(cache):
    """`plan_of(pair)`: the plan of 12 steps of 10 x 16 tokens with a pair."""
    args = parse_pretraining_arguments(flags(Path(), per_device_train_batch_size=10))
    sources = [{"name": "numbers", "documents": 4, "tokens": 100}]
    data = SimpleNamespace(
        cache=cache,
        sources=sources,
        held_out_lengths=[10],
        policy=Rows(30, 14),
        segments=SegmentArguments(max_length=16),
    )
    return lambda pair: make_plan(args.training, pair, data)


@pytest.fixture(scope="session")
def plan(make_pair, plan_of):
    """The plan of such a run with a pair as ELECTRA's."""
    return plan_of(make_pair())


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory):
    """The folder of a run of twelve steps, not to be changed."""
    folder = tmp_path_factory.mktemp("finished")
    write_corpus(folder / "corpus.txt")
    main(flags(folder, experiment_name="first", license="mit", language="en"))
    return folder / "output" / "first"
