"""Segment policies on documents in which every token tells its place: which windows, how often, how uniformly."""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from electra.data.collator import SegmentCollator
from electra.data.google_builder import GooglePolicy
from electra.data.policies import POLICIES, make_policy
from electra.data.segments import Segment, SegmentPolicy
from electra.data.token_cache import TokenCache
from electra.errors import UserError

MAX_LENGTH = 19
BODY = 16  # tokens of a two-segment window: 19 less [CLS], [SEP], [SEP]
SMALLEST_P = 1e-4
# In windows: half, one less and one more than one, between, whole numbers, many.
LENGTHS = [8, 15, 16, 17, 18, 24, 28, 32, 33, 40, 48, 160]

MakeCache = Callable[[Sequence[int]], TokenCache]


class Corpus:
    """Documents of given lengths with a document before, between and behind them that is not to be used."""

    def __init__(self, make_numbered_cache: MakeCache, lengths: Sequence[int]) -> None:
        padded = [7, *(length for n in lengths for length in (n, 3))]
        self.cache = make_numbered_cache(padded)
        self.documents = np.arange(1, len(padded), 2)
        self.lengths = np.array(lengths)
        self.first = 5 + np.cumsum([0, *padded])[self.documents]  # id of the first token of each

    def policy(self, name: str = "windows", max_length: int = MAX_LENGTH, seed: int = 42) -> SegmentPolicy:
        return make_policy(name, self.cache, self.documents, max_length=max_length, seed=seed)

    def place(self, tokens: NDArray | None) -> tuple[int, int]:
        """(which document, start in it) of tokens that must be a contiguous piece of one document."""
        assert tokens is not None
        document = int(np.searchsorted(self.first, tokens[0], side="right")) - 1
        start = int(tokens[0] - self.first[document])
        assert np.diff(tokens.astype(int)).tolist() == [1] * (len(tokens) - 1)
        assert start >= 0 and start + len(tokens) <= self.lengths[document]
        return document, start


def epoch_of(policy: SegmentPolicy, epoch: int) -> list[Segment]:
    return policy.cut(epoch, np.arange(len(policy)))


def text_of(segment: Segment) -> NDArray:
    return segment.first if segment.second is None else np.concatenate([segment.first, segment.second])


def as_lists(segments: Sequence[Segment]) -> list[tuple[list[int], list[int] | None]]:
    return [(s.first.tolist(), None if s.second is None else s.second.tolist()) for s in segments]


# ------------------------------------------------------------------------------------------------------------- windows


@pytest.fixture(scope="module")
def mixed(make_numbered_cache: MakeCache) -> Corpus:
    """Ten documents of each of LENGTHS, in mixed order."""
    return Corpus(make_numbered_cache, np.random.default_rng(0).permutation(LENGTHS * 10).tolist())


def test_an_epoch_uses_as_many_tokens_as_the_corpus_has(mixed: Corpus) -> None:
    for epoch in range(20):
        used = sum(len(text_of(segment)) for segment in epoch_of(mixed.policy(), epoch))
        # One window in ten has a token more: 0.6 % at this length, 0.08 % at 128.
        assert used / mixed.lengths.sum() == pytest.approx(1.006, abs=0.012)


def test_an_epoch_shows_three_quarters_of_the_different_tokens_and_more_of_long_documents(mixed: Corpus) -> None:
    epochs = 20
    seen: Counter[int] = Counter()
    for epoch in range(epochs):
        for token in set(np.concatenate([text_of(segment) for segment in epoch_of(mixed.policy(), epoch)]).tolist()):
            document = int(np.searchsorted(mixed.first, token, side="right")) - 1
            seen[mixed.lengths[document]] += 1
    share = {length: seen[length] / (epochs * 10 * length) for length in LENGTHS}
    assert min(share[length] for length in (8, 15, 16, 17, 18, 48, 160)) > 0.75
    assert min(share.values()) > 0.72  # the worst are documents of one window and three quarters
    assert share[8] > 0.97 and share[15] > 0.97  # but for the rounding, all of them
    assert share[160] > 0.88  # independent starts would show 65 %


def test_windows_are_full_and_only_those_of_shorter_documents_are_not(mixed: Corpus) -> None:
    kinds: Counter[bool] = Counter()
    for epoch in range(20):
        for segment in epoch_of(mixed.policy(), epoch):
            document, _ = mixed.place(text_of(segment))
            full = BODY + (segment.second is None)
            assert len(text_of(segment)) == min(full, mixed.lengths[document])
            kinds[segment.second is None] += 1
    assert kinds[True] > 100 and kinds[False] > 1000


@pytest.mark.parametrize("max_length", [MAX_LENGTH, 64, 128])
def test_a_batch_of_long_documents_has_no_padding(make_numbered_cache: MakeCache, max_length: int) -> None:
    corpus = Corpus(make_numbered_cache, [126, 127, 300, 1000, 2000])
    segments = [s for epoch in range(10) for s in epoch_of(corpus.policy(max_length=max_length), epoch)]
    batch = SegmentCollator(2, 3, 0)(segments)
    assert batch["input_ids"].shape == (len(segments), max_length)
    assert "attention_mask" not in batch


def test_every_start_is_equally_likely_the_first_and_the_last_included(make_numbered_cache: MakeCache) -> None:
    corpus = Corpus(make_numbered_cache, [23, 40, 31] * 40)  # 40 is two windows and a half
    policy = corpus.policy()
    starts: dict[tuple[int, bool], Counter[int]] = {}
    for epoch in range(60):
        for segment in epoch_of(policy, epoch):
            document, start = corpus.place(text_of(segment))
            starts.setdefault((corpus.lengths[document], segment.second is None), Counter())[start] += 1
    for (length, is_single), counts in starts.items():
        observed = [counts[start] for start in range(length - (BODY + is_single) + 1)]
        assert sum(observed) == counts.total() and min(observed) > 0
        assert stats.chisquare(observed).pvalue > SMALLEST_P
    assert len(starts) == 6


def test_windows_of_a_document_are_evenly_spaced(make_numbered_cache: MakeCache) -> None:
    corpus = Corpus(make_numbered_cache, [160, 1600])
    for epoch in range(20):
        places = sorted(corpus.place(text_of(s)) for s in epoch_of(corpus.policy(), epoch) if s.second is not None)
        starts = np.array([start for document, start in places if document == 1])
        assert 80 <= len(starts) <= 101
        gaps = np.diff(starts)
        single = gaps > 20  # a single-segment window between them, which is not in `starts`
        assert set(gaps[~single].tolist()) <= {15, 16}
        assert corpus.lengths[1] - starts[-1] - BODY < 64 and starts[0] < 64


def test_nine_windows_in_ten_have_two_segments_split_anywhere(make_numbered_cache: MakeCache) -> None:
    corpus = Corpus(make_numbered_cache, [1000, 1500, 3000])
    splits: Counter[int] = Counter()
    total = 0
    for epoch in range(40):
        segments = epoch_of(corpus.policy(), epoch)
        total += len(segments)
        splits.update(len(segment.first) for segment in segments if segment.second is not None)
    assert total > 12_000
    assert splits.total() / total == pytest.approx(0.9, abs=0.01)
    assert sorted(splits) == list(range(1, BODY))
    assert stats.chisquare(list(splits.values())).pvalue > SMALLEST_P


def test_documents_of_one_and_two_tokens_are_segments_too(make_numbered_cache: MakeCache) -> None:
    corpus = Corpus(make_numbered_cache, [1, 2] * 10 + [1])
    segments = epoch_of(corpus.policy(), 0)
    assert len(segments) == 21
    sizes = Counter((len(s.first), None if s.second is None else len(s.second)) for s in segments)
    assert sizes[1, None] == 11 and sizes[1, 1] + sizes[2, None] == 10 and sizes[1, 1] >= 5


def test_each_document_gets_its_share_rounded_up_or_down_and_no_index_is_lost(mixed: Corpus) -> None:
    policy = mixed.policy()
    windows = np.maximum(1, mixed.lengths / BODY)
    assert len(policy) == round(windows.sum())
    share = windows * len(policy) / windows.sum()
    total = np.zeros(len(share))
    for epoch in range(50):
        counts = np.zeros(len(share), dtype=int)
        for segment in epoch_of(policy, epoch):
            counts[mixed.place(text_of(segment))[0]] += 1
        assert np.all((counts == np.floor(share)) | (counts == np.ceil(share)))
        total += counts
    # A share of 2.3 is 3 three times in ten: at most 0.5 off in the mean of one epoch.
    assert np.abs(total / 50 - share).max() < 5 * 0.5 / 50**0.5


@pytest.mark.parametrize("length", [8, 16, 24, 32, 37])
def test_many_equal_documents_lose_no_window_to_rounding_errors(make_cache: Callable, length: int) -> None:
    cache = make_cache([[list(range(5 + i, 5 + i + length))] for i in range(1501)])
    policy = make_policy("windows", cache, np.arange(len(cache)), max_length=MAX_LENGTH, seed=1)
    share = max(1, length / BODY)
    for epoch in range(10):
        # A document's first id is 5 + its number; windows start at most length - 1 later, so count by their start.
        counts = Counter(round(float(tokens[0])) for tokens in map(text_of, epoch_of(policy, epoch)))
        assert sum(counts.values()) == len(policy) == round(1501 * share)
    if length <= BODY:  # whole documents: each exactly once
        assert sorted(counts) == list(range(5, 5 + 1501))


def test_short_documents_come_exactly_once_an_epoch_when_nothing_is_to_be_rounded(
    make_numbered_cache: MakeCache,
) -> None:
    corpus = Corpus(make_numbered_cache, [5, 16, 3, 1, 12, 9, 16, 32])
    for epoch in range(50):
        places = [corpus.place(text_of(segment))[0] for segment in epoch_of(corpus.policy(), epoch)]
        assert sorted(places) == [0, 1, 2, 3, 4, 5, 6, 7, 7]


def test_a_corpus_of_one_document_of_one_window_has_one_segment(make_numbered_cache: MakeCache) -> None:
    corpus = Corpus(make_numbered_cache, [BODY])
    assert [text_of(segment).tolist() for segment in epoch_of(corpus.policy(), 3)] == [list(range(12, 12 + BODY))]


# ------------------------------------------------------------------------------------------------------------ document


def test_document_policy_gives_one_window_per_document_of_one_segment(mixed: Corpus) -> None:
    policy = mixed.policy("document")
    segments = epoch_of(policy, 1)
    places = [mixed.place(segment.first) for segment in segments]
    assert [document for document, _ in places] == list(range(len(mixed.lengths)))
    assert [len(s.first) for s in segments] == np.minimum(mixed.lengths, MAX_LENGTH - 2).tolist()
    assert all(segment.second is None for segment in segments)


def test_document_policy_starts_anywhere_the_last_start_included(make_numbered_cache: MakeCache) -> None:
    corpus = Corpus(make_numbered_cache, [36] * 100)
    segments = [segment for epoch in range(40) for segment in epoch_of(corpus.policy("document"), epoch)]
    starts = Counter(corpus.place(segment.first)[1] for segment in segments)
    assert sorted(starts) == list(range(36 - 17 + 1))
    assert stats.chisquare(list(starts.values())).pvalue > SMALLEST_P


# --------------------------------------------------------------------------------------------------------------- pairs


def test_pairs_join_pieces_of_two_documents_and_show_each_document_once(mixed: Corpus) -> None:
    policy = mixed.policy("pairs")
    partners = set()
    for epoch in range(5):
        documents = []
        for segment in epoch_of(policy, epoch):
            pair = []
            for part in (segment.first, segment.second):
                assert part is not None
                pair.append(mixed.place(part)[0])
                assert len(part) == min(8, mixed.lengths[pair[-1]])
            documents += pair
            partners.add(tuple(pair))
        assert sorted(documents) == list(range(120))
    assert len(partners) > 290  # of 300: other pairs in every epoch


def test_pieces_of_pairs_start_anywhere_independently(make_numbered_cache: MakeCache) -> None:
    corpus = Corpus(make_numbered_cache, [12] * 200)
    policy = corpus.policy("pairs")
    segments = [segment for epoch in range(50) for segment in epoch_of(policy, epoch)]
    starts = Counter((corpus.place(first)[1], corpus.place(second)[1]) for first, second, _ in segments)
    assert len(starts) == 5 * 5
    assert stats.chisquare(list(starts.values())).pvalue > SMALLEST_P


@pytest.mark.parametrize("count", [1, 3, 7])
def test_pairs_of_an_odd_number_of_documents_use_one_of_them_twice(make_numbered_cache: MakeCache, count: int) -> None:
    corpus = Corpus(make_numbered_cache, [20] * count)
    for epoch in range(20):
        segments = epoch_of(corpus.policy("pairs"), epoch)
        pairs = [(corpus.place(s.first)[0], corpus.place(s.second)[0]) for s in segments]
        assert len(pairs) == (count + 1) // 2
        assert set(np.ravel(pairs).tolist()) == set(range(count))
        assert count == 1 or all(first != second for first, second in pairs)


# --------------------------------------------------------------------------------------------------------- all of them


@pytest.mark.parametrize("name", POLICIES)
def test_a_segment_follows_from_seed_epoch_and_index_alone(name: str, mixed: Corpus) -> None:
    policy = mixed.policy(name)
    whole = as_lists(epoch_of(policy, 3))
    assert len(whole) == len(policy)
    order = np.random.default_rng(0).permutation(len(policy))
    again = mixed.policy(name)
    assert as_lists(again.cut(3, order)) == [whole[i] for i in order]
    assert [as_lists(again.cut(3, np.array([i])))[0] for i in range(20)] == whole[:20]
    assert as_lists(again.cut(3, np.array([7, 7]))) == [whole[7], whole[7]]
    if name != "google":  # which is static, and of documents of one line has nothing to decide
        assert as_lists(epoch_of(mixed.policy(name, seed=43), 3)) != whole != as_lists(epoch_of(policy, 4))


@pytest.mark.parametrize("name", POLICIES)
def test_no_policy_leaves_its_documents_or_exceeds_the_length(name: str, mixed: Corpus) -> None:
    policy = mixed.policy(name)
    for segment in epoch_of(policy, 0):
        for part in (segment.first, segment.second):
            if part is not None:
                assert len(part) > 0
                mixed.place(part)
    batch = SegmentCollator(2, 3, 0)(epoch_of(policy, 0))
    assert batch["input_ids"].shape[1] <= MAX_LENGTH


def test_the_google_policy_is_made_by_its_builder(mixed: Corpus) -> None:
    assert isinstance(mixed.policy("google"), GooglePolicy)


@pytest.mark.parametrize("name", POLICIES)
def test_a_corpus_shorter_than_one_segment_is_an_error(name: str, make_numbered_cache: MakeCache) -> None:
    corpus = Corpus(make_numbered_cache, [10, 5])
    with pytest.raises(UserError, match="--max_length"):
        corpus.policy(name)
    with pytest.raises(UserError, match="--max_length"):
        make_policy(name, corpus.cache, np.array([], dtype=np.int64), max_length=MAX_LENGTH, seed=1)
