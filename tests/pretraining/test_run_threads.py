"""The number of threads of a run: that of the cores or given, recorded, kept on resuming. It decides the rounding."""

import shutil

import pytest
import torch

from electra.pretraining.run import main
from electra.runtime import threads
from tests.helpers import exit_codes, fork, read_json
from tests.pretraining.runs import FAST, assert_same_state, flags, write_corpus

pytestmark = pytest.mark.slow


def start(argv, number):
    """The command on a machine with two cores, of which torch takes `number` by itself."""
    torch.set_num_threads(number)
    threads.usable_cores = lambda: 2
    main(argv)


def pretrain(folder, number=2, omp="", **options):
    """The lines of a tiny run; `omp` is OMP_NUM_THREADS."""
    values = {"hidden_dropout_prob": 0.1, "per_device_train_batch_size": 16, **FAST, "hidden_size": 64, **options}
    process = fork(start, flags(folder, **values), number, log=folder / "log", OMP_NUM_THREADS=omp)
    assert exit_codes([process]) == [0], process.log.read_text()
    return process.log.read_text()


def recorded(folder, name, step=12):
    """The number of threads that a checkpoint records, and the recorded changes of options."""
    origin = read_json(folder / "output" / name / f"checkpoint-{step}" / "origin.json")
    return origin["options"]["threads"], origin["changes"]


def keep_until(folder, source, name, step):
    """A copy of a run that was killed after a step."""
    run = folder / "output" / name
    shutil.copytree(folder / "output" / source, run)
    for path in run.iterdir():
        is_later = path.name.startswith("checkpoint-") and int(path.name.removeprefix("checkpoint-")) > step
        if is_later or path.name in ("discriminator", "generator"):
            shutil.rmtree(path)
    (run / "metrics.json").unlink()


def test_all_cores_are_used_and_their_number_is_kept(tmp_path):
    write_corpus(tmp_path / "corpus.txt")
    pretrain(tmp_path, experiment_name="cores")
    assert recorded(tmp_path, "cores") == (2, [])

    checkpoint = tmp_path / "output" / "cores" / "checkpoint-12"
    for name, options in (("fixed", {"threads": 2}), ("environment", {"omp": "2"})):
        pretrain(tmp_path, experiment_name=name, **options)
        assert_same_state(checkpoint, tmp_path / "output" / name / "checkpoint-12")

    keep_until(tmp_path, "cores", "resumed", 4)
    pretrain(tmp_path, number=1, experiment_name="resumed", auto_resume=True)
    assert recorded(tmp_path, "resumed") == (2, [])
    assert_same_state(checkpoint, tmp_path / "output" / "resumed" / "checkpoint-12")


def test_a_number_of_the_user_wins_and_is_recorded(tmp_path):
    write_corpus(tmp_path / "corpus.txt")
    pretrain(tmp_path, omp="1", threads=2, experiment_name="run")
    assert recorded(tmp_path, "run") == (2, [])

    for name, options in (("flag", {"threads": 1}), ("environment", {"omp": "1"})):
        keep_until(tmp_path, "run", name, 4)
        log = pretrain(tmp_path, experiment_name=name, auto_resume=True, **options)
        assert recorded(tmp_path, name) == (1, ["from step 4 on: threads 1 instead of 2"])
        assert len([line for line in log.splitlines() if "bit-equal" in line]) == 1  # the warning that it is not

    keep_until(tmp_path, "flag", "again", 8)  # resumed once more: the number of the last start is kept
    pretrain(tmp_path, experiment_name="again", auto_resume=True)
    assert recorded(tmp_path, "again")[0] == 1


def test_networks_do_not_depend_on_the_number_before_the_first_step(tmp_path):
    write_corpus(tmp_path / "corpus.txt")
    options = {"init_from_generator": None, "initialization": "local", "learning_rate": 0, "max_steps": 1}
    for number in (1, 2):
        pretrain(tmp_path, number=number, experiment_name=str(number), threads=number, **options)
    first, second = (tmp_path / "output" / str(number) / "checkpoint-1" for number in (1, 2))
    assert (first / "model.safetensors").read_bytes() == (second / "model.safetensors").read_bytes()
