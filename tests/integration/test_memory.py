"""Memory of a run: from step 100 to step 300, and with eleven times the text."""

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
    """Prints anonymous memory, which is without mapped files, in MB, at `FROM_STEP` and before the last step."""

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step in (FROM_STEP, state.max_steps - 1):
            status = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
            print("MEMORY", int(status["RssAnon"].split()[0]) * 1024 / 1e6)


class WatchedTrainer(run.ElectraTrainer):
    """The trainer of a run that is watched."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.add_callback(Watch)


def measure(folder, steps):
    """Train in a process; return what `Watch` prints: MB of anonymous memory at two steps."""
    options = {**FAST, "max_documents": 500, "logging_steps": 50, "save_strategy": "no", "max_steps": steps}
    process = fork(main, flags(folder, **options), log=folder / "log.txt")
    assert exit_codes([process]) == [0], process.log.read_text()
    return [float(line.split()[1]) for line in process.log.read_text().splitlines() if line.startswith("MEMORY")]


def test_memory_depends_neither_on_the_text_nor_on_the_steps(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "ElectraTrainer", WatchedTrainer)
    # Up to this size, text is kept to measure the tokenizer, and little text would have less of it.
    monkeypatch.setattr("electra.data.tokenize.HELD_OUT_BYTES", 100_000)
    for name, documents in (("little", 6000), ("much", 66_000)):  # of 500 bytes
        (tmp_path / name).mkdir()
        write_corpus(tmp_path / name / "corpus.txt", documents=documents, words=100)
    early, late = measure(tmp_path / "little", steps=FROM_STEP + 200)
    with_much, _ = measure(tmp_path / "much", steps=FROM_STEP + 2)
    assert late - early < 2  # MB
    assert with_much == approx(early, abs=15)  # half of what the text has more
