"""BERT's "LTR" and "LTR + BiLSTM": a causal network is pre-trained, then fine-tuned with --left_to_right."""

from functools import partial

import pytest

from electra.finetuning import heads
from electra.finetuning.heads import BiLstm
from electra.pretraining.run import main as pretrain
from electra.report.results import read_results
from electra.tasks.glue.task import main as glue
from electra.tasks.squad import heads as squad_heads
from electra.tasks.squad.task import main as squad
from tests.conftest import refused
from tests.pretraining.runs import FAST, WORDS, write_corpus
from tests.pretraining.runs import flags as run_flags
from tests.tasks.glue.files import flags as glue_flags
from tests.tasks.glue.files import write_glue
from tests.tasks.squad.files import flags as squad_flags
from tests.tasks.squad.files import write_squad

pytestmark = pytest.mark.slow


def test_a_causal_run_is_fine_tuned_left_to_right_with_and_without_bilstm(tmp_path, monkeypatch):
    assert BiLstm(2, 0.0).width == 2 * 768  # of the paper; smaller here
    for module in (heads, squad_heads):
        monkeypatch.setattr(module, "BiLstm", partial(BiLstm, units=8))
    write_corpus(tmp_path / "corpus.txt")
    write_glue(tmp_path / "glue", "RTE")
    write_squad(tmp_path / "squad")
    pretrain(run_flags(tmp_path, **FAST, objective="causal", max_steps=2, vocab_size=len(WORDS) + 60))
    shared = {"pretrain_path": tmp_path / "output" / "run", "num_seeds": 1, "left_to_right": True, "max_length": 32}
    of_glue = {**shared, "glue_dir": tmp_path / "glue", "tasks": ["rte"]}
    for head in ("google", "bilstm"):
        glue(glue_flags(tmp_path, **of_glue, head=head, experiment_name=f"glue_{head}"))
    squad(squad_flags(tmp_path, **shared, head="bilstm", experiment_name="squad"))
    (of_mean,), (of_bilstm,), (of_squad,) = (
        read_results(tmp_path / "output" / name / "results.jsonl") for name in ("glue_google", "glue_bilstm", "squad")
    )
    assert (of_mean.settings["left_to_right"], of_bilstm.settings["head"]) == (True, "bilstm")
    assert of_squad.metrics.keys() == {"exact_match", "f1"}
    refusal = refused(lambda: glue(glue_flags(tmp_path, **of_glue, head="hf", save_model=True, experiment_name="x")))
    assert "--left_to_right" in refusal
    both_sides = {**of_glue, "left_to_right": False, "head": "google", "experiment_name": "glue_google"}
    assert "left_to_right" in refused(lambda: glue(glue_flags(tmp_path, **both_sides)))  # other settings
