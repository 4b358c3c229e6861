"""Segment policies on documents in which every token tells its place: which windows, how often, how uniformly."""

import itertools
import random
from collections import Counter
from typing import get_args

import numpy as np
import pytest
import torch
from pytest import approx, raises
from scipy import stats

from electra.base.options import types_of
from electra.core.corruption import choose_in_segments
from electra.core.errors import UserError
from electra.core.segments import PackedRow, Segment, SegmentCollator
from electra.data.options import SegmentArguments
from electra.data.policies import POLICIES, GooglePolicy, make_policy
from electra.data.policies.packed import pack_lengths
from tests.data.rows import contents
from tests.helpers import parametrize

MAX_LENGTH = 19
BODY = 16  # tokens of a two-segment window: 19 less [CLS], [SEP], [SEP]
SMALLEST_P = 1e-4
# In windows: half, one less and one more than one, between, whole numbers, many.
LENGTHS = [8, 15, 16, 17, 18, 24, 28, 32, 33, 40, 48, 160]


class Corpus:
    """Documents of given lengths with a document before, between and behind them that is not to be used."""

    def __init__(self, make_numbered_cache, lengths):
        padded = [7, *(padded_length for length in lengths for padded_length in (length, 3))]
        self.cache = make_numbered_cache(padded)
        self.documents = np.arange(1, len(padded), 2)
        self.lengths = np.array(lengths)
        self.first = 5 + np.cumsum([0, *padded])[self.documents]  # id of the first token of each

    def policy(self, name="windows", max_length=MAX_LENGTH, seed=42):
        """A segment policy over the documents that are used."""
        return make_policy(name, self.cache, self.documents, max_length=max_length, seed=seed)

    def place(self, tokens):
        """(which document, start in it) of tokens that must be a contiguous piece of one document."""
        assert tokens is not None
        assert len(tokens) > 0
        document = int(np.searchsorted(self.first, tokens[0], side="right")) - 1
        start = int(tokens[0] - self.first[document])
        assert np.diff(tokens.astype(int)).tolist() == [1] * (len(tokens) - 1)
        assert start >= 0
        assert start + len(tokens) <= self.lengths[document]
        return document, start


def epoch_of(policy, epoch):
    """All rows of an epoch in the order of their indices."""
    return list(policy.cut(epoch, np.arange(len(policy))))


def segments_of(row):
    """The segments of a row, which is one itself unless it is packed."""
    return row.segments if isinstance(row, PackedRow) else [row]


def text_of(segment):
    """The ids of both parts of a segment."""
    return segment.first if segment.second is None else np.concatenate([segment.first, segment.second])


# Windows


@pytest.fixture(scope="module")
def mixed(make_numbered_cache):
    """Ten documents of each of LENGTHS, in mixed order."""
    return Corpus(make_numbered_cache, np.random.default_rng(0).permutation(LENGTHS * 10).tolist())


def test_each_name_of_a_policy_has_one(mixed):
    for name in get_args(types_of(SegmentArguments)["segment_policy"]):
        assert len(mixed.policy(name)) > 0


def test_windows_are_full_and_documents_get_their_share(mixed):
    policy = mixed.policy()
    windows = np.maximum(1, mixed.lengths / BODY)
    assert len(policy) == round(windows.sum())
    share = windows * len(policy) / windows.sum()
    total = np.zeros(len(share))
    for epoch in range(30):
        counts = np.zeros(len(share), dtype=int)
        used = 0
        for segment in epoch_of(policy, epoch):
            document, _ = mixed.place(text_of(segment))
            assert len(text_of(segment)) == min(BODY + (segment.second is None), mixed.lengths[document])
            counts[document] += 1
            used += len(text_of(segment))
        assert np.all((counts == np.floor(share)) | (counts == np.ceil(share)))
        # An epoch has as many tokens as the corpus; one window in ten has a token more, 0.6 % at this length.
        assert used / mixed.lengths.sum() == approx(1.006, abs=0.012)
        total += counts
    # A share of 2.3 is 3 three times in ten: at most 0.5 off in the mean of one epoch.
    assert np.abs(total / 30 - share).max() < 5 * 0.5 / 30**0.5


def test_every_start_is_equally_likely(make_numbered_cache):
    corpus = Corpus(make_numbered_cache, [23, 40, 31] * 40)  # 40 is two windows and a half
    starts = {}
    for epoch in range(60):
        for segment in epoch_of(corpus.policy(), epoch):
            document, start = corpus.place(text_of(segment))
            starts.setdefault((corpus.lengths[document], segment.second is None), Counter())[start] += 1
    for (length, is_single), counts in starts.items():
        observed = [counts[start] for start in range(length - (BODY + is_single) + 1)]
        assert sum(observed) == counts.total()
        assert stats.chisquare(observed).pvalue > SMALLEST_P
    assert len(starts) == 6  # three lengths, of one and of two segments


def test_windows_of_a_document_are_evenly_spaced(make_numbered_cache):
    corpus = Corpus(make_numbered_cache, [160, 1600])
    for epoch in range(10):
        pairs = [segment for segment in epoch_of(corpus.policy(), epoch) if segment.second is not None]
        places = sorted(corpus.place(text_of(segment)) for segment in pairs)
        starts = np.array([start for document, start in places if document == 1])
        assert 80 <= len(starts) <= 101  # nine tenths of a hundred windows
        gaps = np.diff(starts)
        # A wider gap has a single-segment window in it, which is not in `starts`.
        assert set(gaps[gaps <= 20].tolist()) <= {15, 16}
        # Nor before the first and behind the last: at most three windows, all of which had to be single segments.
        assert corpus.lengths[1] - starts[-1] - BODY < 4 * BODY
        assert starts[0] < 4 * BODY


def test_nine_windows_in_ten_have_two_segments_split_anywhere(make_numbered_cache):
    corpus = Corpus(make_numbered_cache, [1000, 1500, 3000])
    segments = [segment for epoch in range(30) for segment in epoch_of(corpus.policy(), epoch)]
    splits = Counter(len(segment.first) for segment in segments if segment.second is not None)
    assert splits.total() / len(segments) == approx(0.9, abs=0.01)
    assert sorted(splits) == list(range(1, BODY))
    assert stats.chisquare(list(splits.values())).pvalue > SMALLEST_P


def test_documents_of_one_and_two_tokens_are_segments_too(make_numbered_cache):
    segments = epoch_of(Corpus(make_numbered_cache, [1, 2] * 10 + [1]).policy(), 0)
    sizes = Counter(
        (len(segment.first), None if segment.second is None else len(segment.second)) for segment in segments
    )
    assert sizes[1, None] == 11
    assert sizes[1, 1] + sizes[2, None] == 10
    assert sizes[1, 1] >= 5  # nine in ten have two parts


@parametrize("length", [8, 16, 37])
def test_many_equal_documents_lose_no_window_to_rounding_errors(make_cache, length):
    cache = make_cache([[list(range(5 + i, 5 + i + length))] for i in range(1501)])
    policy = make_policy("windows", cache, np.arange(len(cache)), max_length=MAX_LENGTH, seed=1)
    for epoch in range(3):
        first_ids = sorted(int(text_of(segment)[0]) for segment in epoch_of(policy, epoch))
        assert len(first_ids) == len(policy) == round(1501 * max(1, length / BODY))
        if length <= BODY:  # whole documents: each exactly once
            assert first_ids == list(range(5, 5 + 1501))


# Document and pairs


def test_document_policy_gives_one_window_per_document(mixed):
    segments = epoch_of(mixed.policy("document"), 1)
    assert [mixed.place(segment.first)[0] for segment in segments] == list(range(len(mixed.lengths)))
    assert [len(segment.first) for segment in segments] == np.minimum(mixed.lengths, MAX_LENGTH - 2).tolist()
    assert all(segment.second is None for segment in segments)


def test_windows_of_the_document_policy_start_anywhere(make_numbered_cache):
    corpus = Corpus(make_numbered_cache, [36] * 100)
    segments = [segment for epoch in range(40) for segment in epoch_of(corpus.policy("document"), epoch)]
    starts = Counter(corpus.place(segment.first)[1] for segment in segments)
    assert sorted(starts) == list(range(36 - 17 + 1))  # the last one included
    assert stats.chisquare(list(starts.values())).pvalue > SMALLEST_P


def test_pairs_show_each_document_once(mixed):
    partners = set()
    for epoch in range(5):
        pairs = []
        for segment in epoch_of(mixed.policy("pairs"), epoch):
            parts = [segment.first, segment.second]
            pairs.append(tuple(mixed.place(part)[0] for part in parts))
            assert [len(part) for part in parts] == [min(8, mixed.lengths[document]) for document in pairs[-1]]
        assert sorted(itertools.chain.from_iterable(pairs)) == list(range(120))
        partners.update(pairs)
    assert len(partners) > 290  # of 300: other pairs in every epoch


def test_pieces_of_pairs_start_anywhere_independently(make_numbered_cache):
    corpus = Corpus(make_numbered_cache, [12] * 200)
    segments = [segment for epoch in range(50) for segment in epoch_of(corpus.policy("pairs"), epoch)]
    starts = Counter((corpus.place(first)[1], corpus.place(second)[1]) for first, second, _ in segments)
    assert len(starts) == 5 * 5
    assert stats.chisquare(list(starts.values())).pvalue > SMALLEST_P


@parametrize("count", [1, 3])
def test_pairs_of_an_odd_number_use_one_document_twice(make_numbered_cache, count):
    corpus = Corpus(make_numbered_cache, [20] * count)
    for epoch in range(10):
        segments = epoch_of(corpus.policy("pairs"), epoch)
        pairs = [{corpus.place(part)[0] for part in (first, second)} for first, second, _ in segments]
        assert len(pairs) == (count + 1) // 2
        assert set().union(*pairs) == set(range(count))
        assert all(len(pair) == min(2, count) for pair in pairs)


# The original's example builder, against its rule written down a second time with plain lists of token ids


def reference_examples(documents, max_length, seed):
    """The rule of `ExampleBuilder` in build_pretraining_dataset.py, a document ending as at a blank line there."""
    rng = random.Random(seed)
    target_length = max_length
    for document in documents:
        sentences = []
        for line in [*document, None]:
            if line is not None:
                sentences.append(line)
            current_length = sum(len(sentence) for sentence in sentences)
            if current_length == 0 or (line is not None and current_length < target_length):
                continue
            first_segment_target = 100_000 if rng.random() < 0.1 else (target_length - 3) // 2
            first = []
            second = []
            for sentence in sentences:
                is_first = (
                    not first
                    or len(first) + len(sentence) < first_segment_target
                    or (not second and len(first) < first_segment_target and rng.random() < 0.5)
                )
                (first if is_first else second).extend(sentence)
            first = first[: max_length - 2]
            second = second[: max(0, max_length - len(first) - 3)]
            yield first, second or None
            sentences = []
            target_length = rng.randint(5, max_length) if rng.random() < 0.05 else max_length


@parametrize(("max_length", "longest_line"), [(128, 60), (128, 300), (32, 12), (20, 50)])
def test_all_examples_are_those_of_the_original_in_every_epoch(make_cache, max_length, longest_line):
    rng = random.Random(max_length + longest_line)
    documents = [
        [
            [rng.randrange(5, 6000) for _ in range(rng.choice([rng.randint(1, 4), rng.randint(1, longest_line)]))]
            for _ in range(rng.choice([1, 2, rng.randint(1, 25)]))
        ]
        for _ in range(300)
    ]
    chosen = np.random.default_rng(0).permutation(300)[:200]
    policy = GooglePolicy(make_cache(documents), chosen, max_length=max_length, seed=42)
    expected = list(reference_examples([documents[i] for i in chosen], max_length, seed=42))
    assert len(expected) > 150
    assert contents(epoch_of(policy, 0)) == contents(epoch_of(policy, 5)) == expected


@parametrize(("mean", "lost"), [(30, 0.15), (200, 0.54)])
def test_long_lines_lose_the_share_that_the_page_of_fidelity_says(make_cache, mean, lost):
    lengths = np.random.default_rng(0).integers(1, 2 * mean, 4000)
    policy = GooglePolicy(make_cache([[[7] * int(n) for n in lengths]]), np.array([0]), max_length=128, seed=42)
    kept = sum(len(text_of(segment)) for segment in epoch_of(policy, 0))
    assert 1 - kept / lengths.sum() == approx(lost, abs=0.02)


# Packed


def test_packed_rows_hold_each_short_document_once(make_numbered_cache):
    lengths = np.random.default_rng(0).integers(1, 20, 400)
    corpus = Corpus(make_numbered_cache, lengths.tolist())
    policy = corpus.policy("packed", max_length=40)
    neighbours = []
    for epoch in range(3):
        rows = [segments_of(row) for row in epoch_of(policy, epoch)]
        documents = [[corpus.place(text_of(segment))[0] for segment in row] for row in rows]
        assert sorted(itertools.chain.from_iterable(documents)) == list(range(400))
        texts = [text_of(segment) for row in rows for segment in row]
        assert all(len(text) == lengths[corpus.place(text)[0]] for text in texts)
        # With [CLS] and [SEP], and another [SEP] between two parts.
        lengths_of_rows = [
            sum(len(text_of(segment)) + 2 + (segment.second is not None) for segment in row) for row in rows
        ]
        assert max(lengths_of_rows) == 40
        assert np.mean(lengths_of_rows) > 0.975 * 40  # a single segment leaves one token
        neighbours.append({frozenset(pair) for row in documents for pair in itertools.combinations(row, 2)})
    assert len(neighbours[0] & neighbours[1]) < 0.25 * len(neighbours[0])  # the shortest fill rows by dozens
    segments = [segment for epoch in range(3) for row in epoch_of(policy, epoch) for segment in segments_of(row)]
    is_single = [segment.second is None for segment in segments if len(text_of(segment)) > 1]
    assert np.mean(is_single) == approx(0.1, abs=0.04)


@parametrize(("lengths", "max_length"), [([9] * 100, 24), ([9] * 50 + [11] * 50, 26)])
def test_packed_documents_change_partners(make_numbered_cache, lengths, max_length):
    """Two are in a row: of one length, or of two lengths that occur equally often."""
    corpus = Corpus(make_numbered_cache, lengths)
    policy = corpus.policy("packed", max_length=max_length)
    pairs = set()
    for epoch in range(10):
        for row in epoch_of(policy, epoch):
            pairs.add(frozenset(corpus.place(text_of(segment))[0] for segment in segments_of(row)))
    assert len(pairs) > 400  # of 500


def test_packed_documents_that_fill_a_row_are_windows(mixed):
    rows = epoch_of(mixed.policy("packed"), 2)
    is_long = mixed.lengths > BODY
    long = [row for row in rows if mixed.lengths[mixed.place(text_of(segments_of(row)[0]))[0]] > BODY]
    assert len(long) == round((mixed.lengths[is_long] / BODY).sum())
    assert all(isinstance(row, Segment) and len(text_of(row)) == BODY + (row.second is None) for row in long[:50])
    alone = make_policy("packed", mixed.cache, mixed.documents[is_long], max_length=MAX_LENGTH, seed=42)
    assert len(alone) == len(long)


@parametrize("mlm_probability", [0.15, 0.4])
def test_packed_batches_have_one_shape_and_the_slots_that_a_row_needs(make_numbered_cache, mlm_probability):
    lengths = np.random.default_rng(0).integers(1, 17, 300)
    policy = Corpus(make_numbered_cache, lengths.tolist()).policy("packed", max_length=40)
    collator = SegmentCollator(1, 2, 0, length=40, most_segments=policy.most_segments)
    most = policy.most_chosen(mlm_probability)
    largest = 0
    widths = set()
    for epoch in range(4):
        rows = epoch_of(policy, epoch)
        for start in range(0, len(rows), 8):
            batch = collator(rows[start : start + 8])
            widths.add(batch["segment_lengths"].size(1))
            is_maskable, noise = batch["input_ids"] >= 5, batch["mask_noise"][..., 0]
            inputs = is_maskable, noise, mlm_probability, batch["segment_lengths"]
            positions, is_chosen = choose_in_segments(*inputs)
            fewer_positions, fewer_chosen = choose_in_segments(*inputs, most)
            assert torch.equal(fewer_positions, positions[:, :most])
            assert torch.equal(fewer_chosen, is_chosen[:, :most])
            assert not is_chosen[:, most:].any()
            largest = max(largest, int(is_chosen.sum(dim=1).max()))
    assert widths == {policy.most_segments}
    assert largest == most < positions.size(1)


@parametrize("capacity", [8, 64])
def test_lengths_are_packed_best_fit_decreasing(capacity):
    lengths = np.random.default_rng(capacity).integers(3, capacity + 1, 500)
    spaces = []  # written out, one item at a time
    for length in sorted(lengths.tolist(), reverse=True):
        fitting = [place for place, space in enumerate(spaces) if space >= length]
        best = min(fitting, key=spaces.__getitem__, default=len(spaces))
        spaces[best:] = [spaces[best] - length, *spaces[best + 1 :]] if fitting else [capacity - length]
    kinds = pack_lengths(np.bincount(lengths, minlength=capacity + 1).tolist(), capacity)
    packed = [length for row, repeats in kinds for length in row * repeats]
    assert sorted(packed) == sorted(lengths.tolist())
    room = [capacity - sum(row) for row, repeats in kinds for _ in range(repeats)]
    assert sorted(room) == sorted(spaces)


# All of them


@parametrize("name", POLICIES)
def test_a_segment_follows_from_seed_epoch_and_index(name, mixed):
    policy = mixed.policy(name)
    again = mixed.policy(name)
    whole = contents(epoch_of(policy, 3))
    order = np.random.default_rng(0).permutation(len(policy))
    assert contents(again.cut(3, order)) == [whole[i] for i in order]
    assert contents(again.cut(3, np.array([7, 7]))) == [whole[7], whole[7]]
    if name != "google":  # which is static, and of documents of one line has nothing to decide
        assert contents(epoch_of(mixed.policy(name, seed=43), 3)) != whole != contents(epoch_of(policy, 4))


def test_a_corpus_shorter_than_one_segment_is_an_error(make_numbered_cache):
    corpus = Corpus(make_numbered_cache, [10, 5])
    for documents in (corpus.documents, np.array([], dtype=np.int64)):
        with raises(UserError, match="--max_length"):
            make_policy("windows", corpus.cache, documents, max_length=MAX_LENGTH, seed=1)
