"""How fast text becomes batches: building the token cache, and cutting segments out of it.

    python -m benchmarks.bench_data --train_file corpus.txt --tokenizer_path tokenizer

Cache building is compared with the tokenizer's own `encode_batch_fast` on the same documents and the same threads,
in one process, alternating, after a warm-up; medians and their ratio. The next-batch rate is that of one process:
`policy -> SegmentCollator` for 128 shuffled positions at a time, real tokens per second.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from transformers import PreTrainedTokenizerBase

from electra.core.segments import SegmentCollator, TrainingSegments
from electra.data.corpus import Corpus
from electra.data.options import CorpusArguments
from electra.data.policies import POLICIES, make_policy
from electra.data.shards import load_or_build_cache
from electra.data.token_cache import TokenCache
from electra.tokenizers.load import load_tokenizer, plain_backend

BATCH_SIZE = 128
"""Segments of a batch."""
BATCHES = 200
"""Batches of which the median rate is taken."""


def seconds(action: Callable[[], object]) -> float:
    """Return the seconds that an action takes."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def compare_cache_building(corpus: Corpus, tokenizer: PreTrainedTokenizerBase, rounds: int) -> None:
    """Print the median seconds of `encode_batch_fast` and of building a cache, and the ratio of their speeds."""
    documents = list(corpus)
    backend = plain_backend(tokenizer)

    def bare() -> None:
        for first in range(0, len(documents), 1000):
            backend.encode_batch_fast(documents[first : first + 1000], add_special_tokens=False)

    def ours() -> None:
        with tempfile.TemporaryDirectory() as folder:
            load_or_build_cache(corpus, tokenizer, folder)

    bare()
    ours()
    times = [(seconds(bare), seconds(ours)) for _ in range(rounds)]
    bare_median, our_median = (statistics.median(column) for column in zip(*times, strict=True))
    megabytes = sum(len(document.encode()) for document in documents) / 1e6
    print(f"encode_batch_fast  {bare_median:6.2f} s  {megabytes / bare_median:6.2f} MB/s")
    print(f"token cache        {our_median:6.2f} s  {megabytes / our_median:6.2f} MB/s")
    print(f"cache / bare       {bare_median / our_median:6.2f}")


def measure_next_batch(cache: TokenCache, tokenizer: PreTrainedTokenizerBase, max_length: int) -> None:
    """Print the real tokens per second of one process with each policy: the median over batches."""
    collate = SegmentCollator.of(tokenizer)
    for name in POLICIES:
        policy = make_policy(name, cache, np.arange(len(cache)), max_length=max_length, seed=0)
        segments = TrainingSegments(policy, num_samples=10**9, seed=0)
        rates = []
        for first in range(0, BATCHES * BATCH_SIZE, BATCH_SIZE):
            positions = range(first, first + BATCH_SIZE)
            started = time.perf_counter()
            batch = collate(segments.__getitems__(positions))
            tokens = int(batch["attention_mask"].sum()) if "attention_mask" in batch else batch["input_ids"].numel()
            rates.append(tokens / (time.perf_counter() - started))
        print(f"{name:10s} {statistics.median(rates) / 1e6:6.1f} million tokens/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train_file", nargs="+", required=True)
    parser.add_argument("--tokenizer_path", required=True)
    parser.add_argument("--max_length", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    tokenizer = load_tokenizer(args.tokenizer_path)
    corpus = Corpus(CorpusArguments(train_file=args.train_file))
    compare_cache_building(corpus, tokenizer, args.rounds)
    with tempfile.TemporaryDirectory() as folder:
        cache = load_or_build_cache(corpus, tokenizer, Path(folder))
        measure_next_batch(cache, tokenizer, args.max_length)


if __name__ == "__main__":
    main()
