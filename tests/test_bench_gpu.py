"""The command that settles what only a GPU can tell: every row runs, and those that failed run again. Drains."""

import json
import sys

from pytest import approx

from benchmarks import bench_gpu, bench_pretraining
from tests.helpers import parametrize, read_json
from tests.pretraining.runs import FAST, make, write_corpus


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


def test_rows_that_are_missing_or_failed_are_measured_again(tmp_path, monkeypatch):
    output = tmp_path / "gpu.json"
    output.write_text(json.dumps({"peaks": {"done": 1}, "waits": {"error": "no memory"}}))
    measured = []

    def run_row(name, options):
        measured.append(name)
        return {"done": 2}

    monkeypatch.setattr(bench_gpu, "run_row", run_row)
    monkeypatch.setattr(sys, "argv", ["bench_gpu", f"--output={output}"])
    bench_gpu.main()
    told = read_json(output)
    assert measured == list(bench_gpu.ROWS)[1:]
    assert [told[row]["done"] for row in ("peaks", "waits", "base")] == [1, 2, 2]


def test_the_device_is_waited_for_at_the_ends_of_windows_only(tmp_path, monkeypatch):
    waits = []
    monkeypatch.setattr(bench_pretraining, "wait_for_device", lambda: waits.append(trainer.state.global_step))
    write_corpus(tmp_path / "corpus.txt")
    trainer = make(tmp_path, **FAST, save_strategy="no", max_steps=bench_pretraining.WARM_UP + 4, logging_steps=100)
    take = bench_pretraining.bare_loop(trainer, is_plain=False, precision="fp32")
    assert take(3) > 0 and len(waits) == 1
    bench_pretraining.through_trainer(trainer)
    assert waits == [0, bench_pretraining.WARM_UP, trainer.args.max_steps]
