"""A run that is being written belongs to one process: the second one is told so, and touches nothing.

Caches that two processes build at once are in tests/data/test_documents.py.
"""

from pathlib import Path

from run_pretraining import main
from tests.finetuning.commands import run
from tests.pretraining.runs import flags, write_corpus

FAST = {"eval_strategy": "no", "validation_fraction": 0, "hidden_size": 16, "num_hidden_layers": 1, "max_steps": 4}


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_second_process_does_not_go_on_with_a_run_that_is_at_work(tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus.txt")
    main(flags(tmp_path, **FAST))  # this process holds the run until it ends
    before = contents(tmp_path)
    argv = flags(tmp_path, **{**FAST, "max_steps": 8}, auto_resume=True)
    _, err = run("run_pretraining.py", argv, tmp_path, expect=2)
    assert err == (f"error: another process is at work on {tmp_path}/output/run; let it end, or end it, first\n")
    assert contents(tmp_path) == before
