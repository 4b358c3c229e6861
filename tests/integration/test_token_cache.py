"""A token cache that was moved gives the run of its text; one that was damaged ends a run."""

import shutil

import numpy as np
import pytest

from electra.data.command import main as cache
from electra.pretraining.run import main as pretrain
from tests.helpers import parametrize
from tests.helpers import run as run_script
from tests.pretraining.runs import assert_same_state, flags, write_corpus

pytestmark = pytest.mark.slow


def test_a_run_from_a_moved_cache_is_that_of_the_text_bit_for_bit(tmp_path, capsys):
    write_corpus(tmp_path / "corpus.txt")
    pretrain(flags(tmp_path, max_steps=4))
    words = ["--train_file", str(tmp_path / "corpus.txt"), "--cache_dir", str(tmp_path / "built")]
    cache([*words, "--vocab_size", "120"])
    folder = capsys.readouterr().out.split()[-1]
    shutil.move(folder, tmp_path / "moved")
    shutil.rmtree(tmp_path / "built")
    (tmp_path / "corpus.txt").unlink()
    moved = {"train_file": None, "token_cache": tmp_path / "moved", "vocab_size": None, "experiment_name": "moved"}
    pretrain(flags(tmp_path, max_steps=4, **moved))
    assert_same_state(tmp_path / "output/run/checkpoint-4", tmp_path / "output/moved/checkpoint-4")


@parametrize("workers", [0, 2])
def test_an_id_beyond_the_vocabulary_ends_a_run_in_one_line(workers, tmp_path, copying):
    write_corpus(tmp_path / "corpus.txt")
    options = {"validation_fraction": 0, "eval_strategy": "no", "max_steps": 40, "dataloader_num_workers": workers}
    pretrain(flags(tmp_path, **options, plan=True))
    (path,) = tmp_path.glob("cache/documents-*/shard-*/data.arrow")
    ids = np.memmap(path, "<u2", mode="r+")
    ids[len(ids) // 4 : len(ids) // 2] = 60_000  # there are 120 tokens
    ids.flush()
    _, errors = run_script("run_pretraining.py", flags(tmp_path, **options), tmp_path, expect=2, python=copying)
    (line,) = (line for line in errors.splitlines() if "error" in line.lower())
    assert line.startswith("error: ") and " 60000," in line and "Traceback" not in errors
