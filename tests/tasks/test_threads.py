"""The number of threads of fine-tuning: chosen for every kind of task, recorded and kept; no result depends on how."""

import pytest
import torch

from electra.runtime import threads
from electra.tasks.classify.task import main as classify
from electra.tasks.glue.task import main as glue
from electra.tasks.multiple_choice.task import main as choose
from electra.tasks.squad.task import main as squad
from electra.tasks.tagging.task import main as tag
from tests.helpers import exit_codes, fork, parametrize, read_json
from tests.tasks.classify.files import flags as text_flags
from tests.tasks.classify.files import write_texts
from tests.tasks.glue.files import flags as glue_flags
from tests.tasks.glue.files import write_glue
from tests.tasks.multiple_choice.files import flags as choice_flags
from tests.tasks.squad.files import flags as squad_flags
from tests.tasks.tagging.files import flags as tagging_flags

pytestmark = pytest.mark.slow


def start(command, argv):
    """A command on a machine with two cores; short runs are timed."""
    torch.set_num_threads(2)
    threads.usable_cores = lambda: 2
    threads.SHORT_STEPS = threads.SHORT_SECONDS = threads.SETTLING = 0
    command(argv)


def fine_tune(command, argv, folder, omp=""):
    """The lines of a command; `omp` is OMP_NUM_THREADS."""
    process = fork(start, command, argv, log=folder / "log", OMP_NUM_THREADS=omp)
    assert exit_codes([process]) == [0], process.log.read_text()
    return process.log.read_text()


def recorded(folder):
    return read_json(folder / "environment.json")["threads"]


@pytest.fixture(scope="module")
def folder(files):
    """The data of every kind of task and encoder/, without dropout."""
    write_glue(files / "glue", "CoLA", "STS-B")
    return write_texts(files)


def topics_flags(folder, **options):
    return text_flags(folder, "topics", "jsonl", **options)


@parametrize(
    ("command", "flags", "options"),
    [
        (glue, glue_flags, {"tasks": ["stsb"], "head": "google"}),
        (classify, topics_flags, {}),
        (tag, tagging_flags, {}),
        (squad, squad_flags, {"head": "joint"}),
        (choose, choice_flags, {}),
    ],
)
def test_a_choice_changes_no_result(command, flags, options, folder, tmp_path):
    def argv(name, **others):
        paths = {"pretrain_path": folder / "encoder", "output_dir": tmp_path, "experiment_name": name}
        return flags(folder, **{"num_seeds": 1, "use_cpu": True, **options, **paths, **others})

    log = fine_tune(command, argv("chosen"), tmp_path)
    number = recorded(tmp_path / "chosen")
    assert number in (1, 2) and f"threads        {number}" in log
    fine_tune(command, argv("fixed", threads=number), tmp_path)
    chosen, fixed = (tmp_path / name for name in ("chosen", "fixed"))
    assert (chosen / "results.jsonl").read_bytes() == (fixed / "results.jsonl").read_bytes()
    (one,), (two,) = (folder.glob("predictions/*.npz") for folder in (chosen, fixed))
    assert one.read_bytes() == two.read_bytes()


def test_an_evaluation_keeps_its_number_unless_another_is_given(folder, tmp_path):
    def argv(**options):
        return topics_flags(folder, pretrain_path=folder / "encoder", output_dir=tmp_path, use_cpu=True, **options)

    fine_tune(classify, argv(num_seeds=1, threads=2), tmp_path, omp="1")
    assert recorded(tmp_path / "run") == 2
    assert "bit-equal" not in fine_tune(classify, argv(num_seeds=2), tmp_path)
    assert recorded(tmp_path / "run") == 2
    log = fine_tune(classify, argv(num_seeds=3), tmp_path, omp="1")
    assert recorded(tmp_path / "run") == 1
    assert len([line for line in log.splitlines() if "bit-equal" in line]) == 1
