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
        assert told["skipped"] == 2 and told["default"]["losses"] == approx(told["fp32"]["losses"], rel=0.05)
    elif row.startswith(("base", "small")):
        assert min(told["tokens_per_second"]) > 0
        rate = max(told["tokens_per_second"])
        assert any(line.split()[:2] == [row, f"{rate:,.0f}"] for line in bench_gpu.table({row: told}))
    else:
        assert all(value > 0 for value in told.values() if isinstance(value, float))


def test_full_rows_are_full(tmp_path):
    write_corpus(tmp_path / "corpus.txt", documents=100, words=3)
    bench = bench_gpu.Bench(tmp_path, is_rehearsal=True)
    bench.text = {"train_file": str(tmp_path / "corpus.txt")}
    for is_full in (True, False):
        trainer = bench.trainer(is_full=is_full)
        batch = trainer.data_collator(trainer.train_dataset.__getitems__(range(8)))
        assert ("attention_mask" not in batch) is is_full
