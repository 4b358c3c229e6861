"""A run that is being written belongs to one process: the second one is told so, and touches nothing.

Caches that two processes build at once are in tests/data/test_token_cache.py.
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
    assert err.startswith("error: ") and err.count("\n") == 1 and f"{tmp_path}/output/run" in err
    assert contents(tmp_path) == before
