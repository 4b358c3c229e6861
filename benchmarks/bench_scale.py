"""The data path at the size of a large corpus: a synthetic index.

    python -m benchmarks.bench_scale index --documents 20000000 --folder /tmp/index

`index` writes the index of a cache, 20 bytes a document, whose tokens are holes of a sparse file, and then measures,
each in a process of its own, a first start and a later one: seconds after the imports until the first batch, of the
wall clock and of a core, and anonymous memory at its peak, which no other process shares. It counts the places that
2^20 samples are read from.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

MEAN_LENGTH = 500
MIB_OF_TOKENS = 2**19
CHUNK = 2**20


def write_index(folder: Path, documents: int) -> None:
    """Write a cache without text: lengths are exponential with a mean of 500 tokens, hashes are random."""
    from electra.base.checkpoints import write_manifest
    from electra.data.token_cache import FORMAT_VERSION

    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    arrays = {
        name: np.lib.format.open_memmap(folder / f"{name}.npy", mode="w+", dtype=dtype, shape=(documents,))
        for name, dtype in (("lengths", "int32"), ("starts", "int64"), ("hashes", "uint64"))
    }
    tokens = 0
    for first in range(0, documents, CHUNK):
        count = min(CHUNK, documents - first)
        lengths = 1 + rng.exponential(MEAN_LENGTH, count).astype(np.int32)
        ends = tokens + lengths.cumsum(dtype=np.int64)
        arrays["lengths"][first : first + count] = lengths
        arrays["starts"][first : first + count] = ends - lengths
        arrays["hashes"][first : first + count] = rng.integers(0, 2**64, count, dtype=np.uint64)
        tokens = int(ends[-1])
    with open(folder / "data.arrow", "wb") as file:
        file.truncate(2 * tokens)
    description = {
        "format_version": FORMAT_VERSION,
        "tokenizer": "",
        "sources": [],
        "tokens": tokens,
        "documents": documents,
        "has_lines": False,
        "files": [{"path": "data.arrow", "dtype": "uint16", "documents": documents, "bytes": 2 * tokens}],
    }
    (folder / "cache.json").write_text(json.dumps(description))
    write_manifest(folder, "data.arrow")


class AnonymousMemory(threading.Thread):
    """The peak of this process's anonymous memory, in bytes, above that at the start."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.before = self.now()
        self.peak = 0
        self.start()

    def now(self) -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(line.split()[1] for line in lines if line.startswith("RssAnon")))

    def run(self) -> None:
        while True:
            self.peak = max(self.peak, self.now() - self.before)
            time.sleep(0.001)


def start(folder: Path) -> None:
    """Do what a rank does at its start, and print its time and memory."""
    from electra.base.checkpoints import find_damage
    from electra.core.segments import SegmentCollator, TrainingSegments
    from electra.data.policies import make_policy
    from electra.data.token_cache import Documents, TokenCache, held_out_documents, load_or_compute, text_fingerprint

    memory = AnonymousMemory()
    cpu_before = time.process_time()
    started = time.perf_counter()
    assert find_damage(folder) is None
    cache = TokenCache(folder)

    def split() -> dict[str, object]:
        left_out = held_out_documents(cache.content_hashes, 0.005, 42)
        fingerprints = text_fingerprint(cache.content_hashes), text_fingerprint(cache.content_hashes, left_out)
        return {"left_out": left_out, "corpus": fingerprints[0], "training_text": fingerprints[1]}

    left_out = load_or_compute(folder.with_suffix(".npz"), split)["left_out"]
    policy = make_policy("windows", cache, Documents(len(cache), left_out), max_length=512, seed=1)
    segments = TrainingSegments(policy, num_samples=10**12, seed=1)
    collate = SegmentCollator(101, 102, 0)
    collate(segments.__getitems__(range(128)))
    ended = time.perf_counter()
    cpu = time.process_time() - cpu_before
    print(
        f"{ended - started:6.2f} s to the first batch, {cpu:.2f} s of one core; anonymous memory "
        f"{memory.peak / len(cache):.2f} bytes a document, {memory.peak / 1e6:.0f} MB"
    )
    times = []
    for first in range(128, 128 * 60, 128):
        began = time.process_time()
        collate(segments.__getitems__(range(first, first + 128)))
        times.append(time.process_time() - began)
    print(f"{1000 * statistics.median(times):6.1f} ms of a core for a batch of 128 x 512")


def count_places(folder: Path) -> None:
    """Print how much of the file 2^20 samples in a row touch, and the documents in a batch, by order of reading."""
    from electra.core.rng import permute, permute_locally
    from electra.data.policies.windows import WindowPolicy
    from electra.data.token_cache import TokenCache

    cache = TokenCache(folder)
    policy = WindowPolicy(cache, np.arange(len(cache)), max_length=512, seed=1)
    for order in (permute, permute_locally):
        mebibytes = set()
        batches = []
        for first in range(0, 2**20, 2**14):
            shuffled = order(np.arange(first, first + 2**14), len(policy), 1, 100, 0)
            starts = cache._starts[policy._locate(0, shuffled)[0]]
            mebibytes.update((starts // MIB_OF_TOKENS).tolist())
            batches.append(len(set((starts[:128] // (len(policy) * 512 // 1000)).tolist())))
        share = len(mebibytes) * MIB_OF_TOKENS / cache.num_tokens
        print(
            f"{order.__name__:16s} 2^20 samples touch {len(mebibytes):,} MiB, {share:.1%} of the file; a batch of 128 "
            f"comes from {statistics.mean(batches):.0f} of 1000 equal parts of the corpus"
        )


def measure_index(folder: Path, documents: int) -> None:
    if not folder.is_dir():
        write_index(folder, documents)
    folder.with_suffix(".npz").unlink(missing_ok=True)
    for name in ("first start", "later start"):
        print(name, flush=True)
        subprocess.run([sys.executable, "-m", "benchmarks.bench_scale", "start", "--folder", str(folder)], check=True)
    count_places(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("index", "start"))
    parser.add_argument("--documents", type=int, default=20_000_000)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir(), "electra-index"))
    args = parser.parse_args()
    if args.what == "index":
        measure_index(args.folder, args.documents)
    else:
        start(args.folder)


if __name__ == "__main__":
    main()
