"""The command that settles what only a GPU can tell: every row runs, and the command ends with what is known."""

import json
import os
import time
import warnings
from pathlib import Path

import pytest
import torch
from pytest import approx

from benchmarks import bench_gpu
from benchmarks.bench_gpu import GPU_GIGABYTES, Row, Session, read_rows, table
from benchmarks.gpu_rows import ROWS, Bench
from tests.helpers import ROOT, parametrize, run
from tests.pretraining.runs import write_corpus

pytestmark = pytest.mark.usefixtures("short_end")

# ---- rows


def bench_of(folder, row):
    """What a row needs to run here, in this process, with a text of nonsense."""
    write_corpus(folder / "corpus.txt", documents=100)
    (folder / f"{row}.go").touch()  # the turn of the row has come
    bench = Bench(folder, row, is_rehearsal=True)
    bench.text = {"train_file": str(folder / "corpus.txt")}
    return bench


def measure(folder, row):
    """Run a row; return the content of its file."""
    ROWS[row](bench_of(folder, row))
    return json.loads((folder / f"{row}.json").read_text())


def test_rows_are_those_of_the_command_in_the_same_order():
    assert [row.name for row in bench_gpu.ROWS] == list(ROWS)


@pytest.mark.slow
@parametrize("row", [name for name in ROWS if name.startswith(("small", "base"))])
def test_rows_that_train_tell_their_speed(tmp_path, row):
    record = measure(tmp_path, row)
    assert len(record["seconds_per_step"]) == 3 and min(record["seconds_per_step"]) > 0
    assert record["waits"] == {} and record["kernels_per_step"] == 0 and all(loss > 0 for loss in record["losses"])
    assert record["is_still_compiled"] is record["is_compiled"] is (row == "small_default")
    rate = record["tokens_per_step"] / min(record["seconds_per_step"][-2:])
    lines = table({row: {"row": row, "peak_flops": 1e9, **record}}).splitlines()
    assert any(f"| {row} | {rate:,.0f} |" in line and " % |" in line for line in lines)


@pytest.mark.slow
@parametrize("row", ["plain", "plain_compiled", "peaks", "attention"])
def test_rows_that_time_parts_tell_rates(tmp_path, row):
    record = measure(tmp_path, row)
    if row == "attention":
        assert record["tiny, 4 documents, dropout 0.0"]["MATH"] > 0 and "flex" in record.popitem()[1]
    else:
        rates = [value for name, value in record.items() if "per_second" in name or name == "matmul_flops"]
        assert rates and all(min(rate) > 0 if isinstance(rate, list) else rate > 0 for rate in rates)


@pytest.mark.slow
def test_losses_and_gradients_are_compared_with_fp32(tmp_path):
    record = measure(tmp_path, "correct")
    assert record["skipped"] == record["skipped_wanted"] == 2
    # bfloat16 has 8 bits: 0.4 % for each number, and some samples whose number stands near a border.
    for name, most in (("fp32", 1e-6), ("bf16", 0.03), ("bf16_with_mask", 0.03), ("bf16_compiled", 0.03)):
        assert record[name]["gradient_error"] < most and record[name]["same_samples"] > 0.95
        assert record[name]["losses"] == approx(record["fp32"]["losses"], rel=0.01)


@pytest.mark.slow
@parametrize("row", ["resumed", "resumed_deterministic"])
def test_the_real_command_is_repeated_and_resumed(tmp_path, row, monkeypatch):
    for name in ("CUBLAS_WORKSPACE_CONFIG", "CUDA_LAUNCH_BLOCKING"):  # which transformers sets
        monkeypatch.setenv(name, os.environ.get(name, ""))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            record = measure(tmp_path, row)
    finally:
        torch.use_deterministic_algorithms(False)
    assert record["is_again_equal"] and record["is_resumed_equal"] and record["difference_resumed"] == 0
    assert len(record["checkpoints"]) == 2 and len(record["evaluations"]) >= 2 and min(record["evaluations"]) > 0


@pytest.mark.slow
def test_a_network_learns_and_is_fine_tuned(tmp_path):
    record = measure(tmp_path, "learn")
    assert len(record["auc"]) >= 4 and record["held_out"]["trained"] and min(record["checkpoints"]) > 0
    record = measure(tmp_path, "finetune")["default"]
    assert record["rows_per_second"] > 0 and record["metrics"]


def test_full_rows_are_full(tmp_path):
    bench = bench_of(tmp_path, "small_default")
    write_corpus(tmp_path / "corpus.txt", documents=100, words=3)
    for is_full in (True, False):
        trainer = bench.trainer(is_full=is_full, max_steps=4)
        batch = trainer.data_collator(trainer.train_dataset.__getitems__(range(8)))
        assert ("attention_mask" not in batch) is is_full


# ---- all rows

TELLS = "echo '{\"number\": 1}' > $1/$0.json"
PREPARES = f"{TELLS}; sleep 0.1; touch $1/$0.ready; while [ ! -e $1/$0.go ]; do sleep 0.01; done"
MEASURES = f"{PREPARES}; echo begin $0 >> trace; sleep 0.05; echo end $0 >> trace"
LARGE = f"echo prepare $0 >> trace; sleep 0.1; echo prepared $0 >> trace; {MEASURES}"
SCRIPTS = {
    "fails": "echo no such kernel; exit 3",
    "fails_later": f"{PREPARES}; exit 4",
    "hangs": f"{PREPARES}; sleep 60 & echo $! > child; wait",
    "never_ready": "sleep 60",
    "crowded": f"[ -e once ] || {{ touch once; echo CUDA out of memory; exit 1; }}; {MEASURES}",
    **dict.fromkeys(("large", "larger"), LARGE),
    "beside": "echo begin $0 >> trace; sleep 0.2; echo end $0 >> trace",
}
"""What the process of a row does, in place of measuring."""


def lines_of(folder, rows, seconds=20.0):
    """What is known of rows after all of them, by name, and the seconds that all took."""
    began = time.monotonic()
    words = {row.name: ["sh", "-c", f"cd {folder}; {SCRIPTS.get(row.name, MEASURES)}", row.name] for row in rows}
    Session(rows, lambda row, where: [*words[row], str(where)], folder / "out.jsonl", seconds).run()
    return read_rows(folder / "out.jsonl"), time.monotonic() - began


def test_rows_prepare_side_by_side_and_measure_one_after_another(tmp_path):
    rows = [Row("one", 9), Row("two", 9), Row("crowded", 9), Row("beside", 9, is_timed=False), Row("later", 9, wave=1)]
    records, _ = lines_of(tmp_path, rows)
    assert records == {row.name: {"row": row.name, **({"number": 1} if row.is_timed else {})} for row in rows}
    events = (tmp_path / "trace").read_text().split()[1::2]
    assert events == [name for name in ("beside", "one", "two", "crowded", "later") for _ in range(2)]


def test_a_row_that_fails_hangs_or_is_late_costs_itself_only(tmp_path):
    rows = [Row("hangs", 0.3), Row("fails", 9), Row("fails_later", 9), Row("one", 9), Row("never_ready", 9)]
    records, seconds = lines_of(tmp_path, rows, seconds=4.0)
    assert "error" not in records["one"] and records["fails"] == {"row": "fails", "error": "no such kernel"}
    assert records["fails_later"] == {"row": "fails_later", "number": 1, "error": "exit code 4"}
    assert records["hangs"]["number"] == 1 and records["hangs"]["error"] and records["never_ready"]["error"]
    assert seconds < 20  # far from the minute for which two rows sleep
    status = Path(f"/proc/{(tmp_path / 'child').read_text().strip()}/status")  # a zombie has ended, too
    assert not status.exists() or "State:\tZ" in status.read_text()


def test_what_has_no_room_on_the_gpu_prepares_later(tmp_path):
    records, _ = lines_of(tmp_path, [Row(name, 9, gigabytes=0.9 * GPU_GIGABYTES) for name in ("large", "larger")])
    assert [record.get("error") for record in records.values()] == [None, None]
    events = (tmp_path / "trace").read_text().splitlines()
    assert [event for event in events if "prepare" in event] == [
        "prepare large", "prepared large", "prepare larger", "prepared larger",
    ]  # fmt: skip


@pytest.mark.slow
def test_the_command_writes_lines_and_a_table_and_goes_on(tmp_path, copying):
    words = ["--rehearse", "--output", str(tmp_path / "out.jsonl"), "--rows", "tests"]
    rows_are_copies = f"sys.executable = {copying!r}"
    output, _ = run("benchmarks/bench_gpu.py", words, ROOT, python=copying, before=rows_are_copies)
    records = read_rows(tmp_path / "out.jsonl")
    assert records["peaks"]["matmul_flops"] > 0 and records["environment"]["versions"]
    assert "error" not in records["tests"]
    assert "| peaks |" in output.splitlines()[-2] + output.splitlines()[-3]
