"""The command that settles what only a GPU can tell: every row runs."""

import json

from pytest import approx

from benchmarks import bench_gpu
from tests.helpers import parametrize
from tests.pretraining.runs import write_corpus


@parametrize("row", bench_gpu.ROWS)
def test_every_row_runs_in_tiny_sizes(tmp_path, row):
    bench = bench_gpu.Bench(tmp_path, is_rehearsal=True)
    write_corpus(tmp_path / "corpus.txt", documents=100)
    bench.text = {"train_file": str(tmp_path / "corpus.txt")}
    told = json.loads(json.dumps(bench_gpu.ROWS[row](bench)))
    if row == "waits":
        assert told == {"waits": {}}
    elif row == "correctness":
        assert told["skipped"] == 2 and told["default"] == approx(told["fp32"], rel=0.05)
    elif row in ("base", "ladder"):
        assert all(min(way["tokens_per_second"]) > 0 for way in told.values())
    else:
        assert all(value > 0 for value in told.values() if isinstance(value, float))
