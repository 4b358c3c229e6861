"""run_squad.py as a user runs it: in its own process, killed and taken up again."""

import signal
import time
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from tests.finetuning.commands import run, start
from tests.glue.files import write_encoder
from tests.squad.files import flags, write_squad


def test_killed_in_the_second_seed_and_started_again_it_ends_in_the_same_files(
    tmp_path: Path, glue_tokenizer: PreTrainedTokenizerBase
) -> None:
    write_encoder(tmp_path / "encoder", glue_tokenizer)
    write_squad(tmp_path / "squad", version_2=True)
    argv = flags(tmp_path, num_train_epochs=10, experiment_name=None)
    run("run_squad.py", [*argv, "--experiment_name=undisturbed"], tmp_path)

    killed = start("run_squad.py", [*argv, "--experiment_name=killed"], tmp_path)
    folder = tmp_path / "output" / "killed"
    results = folder / "results.jsonl"
    while not (results.is_file() and results.read_bytes().count(b"\n") == 1):
        assert killed.poll() is None, killed.communicate()
        time.sleep(0.02)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert results.read_bytes().count(b"\n") == 1
    run("run_squad.py", [*argv, "--experiment_name=killed"], tmp_path)
    other = tmp_path / "output" / "undisturbed"
    names = ["results.jsonl"] + [
        f"predictions/squad_v2-{seed}/{name}.json"
        for seed in (42, 43)
        for name in ("predictions", "nbest_predictions", "null_odds", "metrics")
    ]
    for name in names:
        assert (folder / name).read_bytes() == (other / name).read_bytes(), name


def test_a_broken_file_ends_the_command_with_one_line_and_code_2(
    tmp_path: Path, glue_tokenizer: PreTrainedTokenizerBase
) -> None:
    write_encoder(tmp_path / "encoder", glue_tokenizer)
    path = write_squad(tmp_path / "squad") / "dev.json"
    path.write_text(path.read_text()[:-30])
    _, err = run("run_squad.py", flags(tmp_path), tmp_path, expect=2)
    assert err.startswith(f"error: {path} line 1 column ") and err.count("\n") == 1
    assert not (tmp_path / "output" / "run").exists()
