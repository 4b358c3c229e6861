"""A run that is killed leaves a readable report."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from electra.report.page import write_report
from electra.report.runs import read_run
from tests.pretraining.runs import flags, write_corpus

ROOT = Path(__file__).parents[2]


def test_a_killed_run_has_a_report_of_what_it_had_saved(tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus.txt")
    argv = flags(tmp_path, max_steps=100_000, save_steps=4, logging_steps=2, eval_steps=4, save_total_limit=2)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    run = tmp_path / "output" / "run"
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "run_pretraining.py"), *argv],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        end = time.monotonic() + 120
        while time.monotonic() < end and not list(run.glob("checkpoint-*/rng_state.pth")):
            time.sleep(0.05)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert not (run / "metrics.json").exists() and not (run / "report.html").exists()
    record = read_run(run)
    assert record.step >= 4 and record.step % 4 == 0
    page_file, _ = write_report([run])
    page = page_file.read_text()
    assert f"step {record.step:,} of 100,000" in page
    assert "total loss" in page and "discriminator AUC" in page and f"step {record.step:,}" in page
