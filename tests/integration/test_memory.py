"""Memory does not depend on how much text there is, and does not grow with the steps."""

from pathlib import Path

import pytest
from pytest import approx
from transformers import TrainerCallback

from electra.pretraining import run
from electra.pretraining.run import main
from tests.helpers import exit_codes, fork
from tests.pretraining.runs import FAST, flags, write_corpus

pytestmark = pytest.mark.slow

FROM_STEP = 100
"""By then allocators and caches have what they need."""


class Watch(TrainerCallback):
    """Prints resident and anonymous memory, MB, at `FROM_STEP` and before the last step."""

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step in (FROM_STEP, state.max_steps - 1):
            status = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
            kilobytes = (status[name].split()[0] for name in ("VmRSS", "RssAnon"))
            print("MEMORY", *(int(number) * 1024 / 1e6 for number in kilobytes))


class WatchedTrainer(run.ElectraTrainer):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.add_callback(Watch)


def measure(folder, steps):
    """Return what `Watch` prints in a run: megabytes of resident and of anonymous memory, a tuple for each step."""
    options = {**FAST, "max_documents": 500, "logging_steps": 50, "save_strategy": "no", "max_steps": steps}
    process = fork(main, flags(folder, **options), log=folder / "log.txt")
    assert exit_codes([process]) == [0], process.log.read_text()
    lines = [line.split()[1:] for line in process.log.read_text().splitlines() if line.startswith("MEMORY")]
    return [tuple(map(float, numbers)) for numbers in lines]


def test_memory_depends_neither_on_the_text_nor_on_the_steps(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "ElectraTrainer", WatchedTrainer)
    for name, documents in (("little", 6000), ("much", 18_000)):  # of 500 bytes
        (tmp_path / name).mkdir()
        write_corpus(tmp_path / name / "corpus.txt", documents=documents, words=100)
    (resident, early), (_, late) = measure(tmp_path / "little", steps=FROM_STEP + 200)
    (with_much, _), _ = measure(tmp_path / "much", steps=FROM_STEP + 2)
    assert late - early < 2  # MB
    assert with_much == approx(resident, abs=30)
