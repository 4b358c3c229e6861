"""The number of threads of fine-tuning: that of the cores or given, recorded and kept."""

import pytest
import torch

from electra.runtime import threads
from electra.tasks.classify.task import main as classify
from tests.helpers import exit_codes, fork, read_json
from tests.tasks.classify.files import topics_flags

pytestmark = pytest.mark.slow


def start(command, argv):
    """Run a command as on a machine with two cores."""
    torch.set_num_threads(2)
    threads.usable_cores = lambda: 2
    command(argv)


def fine_tune(command, argv, folder, omp=""):
    """Run a command; return its lines. `omp` is OMP_NUM_THREADS."""
    process = fork(start, command, argv, log=folder / "log", OMP_NUM_THREADS=omp)
    assert exit_codes([process]) == [0], process.log.read_text()
    return process.log.read_text()


def recorded(folder):
    """Return the number of threads that an evaluation records."""
    return read_json(folder / "environment.json")["threads"]


def test_an_evaluation_keeps_its_number_of_threads_unless_another_is_asked_for(folder, tmp_path):
    def argv(**options):
        return topics_flags(folder, pretrain_path=folder / "encoder", output_dir=tmp_path, use_cpu=True, **options)

    fine_tune(classify, argv(num_seeds=1, experiment_name="cores"), tmp_path)
    assert recorded(tmp_path / "cores") == 2
    fine_tune(classify, argv(num_seeds=1, threads=2), tmp_path, omp="1")
    assert recorded(tmp_path / "run") == 2
    assert "bit-equal" not in fine_tune(classify, argv(num_seeds=2), tmp_path)
    assert recorded(tmp_path / "run") == 2
    log = fine_tune(classify, argv(num_seeds=3), tmp_path, omp="1")
    assert recorded(tmp_path / "run") == 1
    assert len([line for line in log.splitlines() if "bit-equal" in line]) == 1
