"""The interface of evaluate over the official metrics; which modules need no torch; the published experiments."""

import subprocess
import sys
from pathlib import Path

import pytest

from electra.errors import UserError
from electra.squad.metric import SquadMetric
from electra.squad.metrics import evaluate_v1, evaluate_v2
from electra.squad.options import parse_arguments

REFERENCES = {"a": ["the Paris", "Rome"], "b": ["x y"]}
SAID = {"a": "Paris", "b": "y"}
CONFIGS = Path(__file__).parents[2] / "configs" / "squad"


def answers(texts: list[str]) -> dict[str, list[object]]:
    return {"text": list(texts), "answer_start": [0] * len(texts)}


def test_evaluate_s_interface_gives_the_official_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    references = [{"id": n, "answers": answers(texts)} for n, texts in REFERENCES.items()]
    found = SquadMetric("squad").compute(
        predictions=[{"id": n, "prediction_text": text} for n, text in SAID.items()], references=references
    )
    assert found == evaluate_v1(REFERENCES, SAID) == {"exact_match": 50.0, "f1": pytest.approx(250 / 3)}
    odds = {"a": 0.25, "b": 0.75}
    none = {"a": REFERENCES["a"], "b": []}
    metric = SquadMetric("squad_v2")
    metric.add_batch(
        predictions=[{"id": n, "prediction_text": text, "no_answer_probability": odds[n]} for n, text in SAID.items()],
        references=[{"id": n, "answers": answers(texts)} for n, texts in none.items()],
    )
    found = metric.compute(no_answer_threshold=0.5)
    assert found == evaluate_v2(none, SAID, odds, 0.5)
    assert found is not None and found["exact"] == 100.0
    assert not list(tmp_path.iterdir())


def test_an_unknown_metric_is_an_error() -> None:
    with pytest.raises(UserError, match="'squad_v3'; choose from squad squad_v2"):
        SquadMetric("squad_v3")


@pytest.mark.parametrize("module", ["metrics", "report", "data"])
def test_scores_and_reports_need_no_torch(module: str) -> None:
    code = f"import electra.squad.{module}, sys; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=CONFIGS.parents[1], check=False).returncode == 0


@pytest.mark.parametrize(("name", "dataset"), [("paper_v1", "squad"), ("paper_v2", "squad_v2")])
def test_the_paper_s_experiments_are_its_table_7(name: str, dataset: str) -> None:
    args = parse_arguments([f"--config={CONFIGS / name}.yaml", "--pretrain_path=x"])
    squad, tuning = args.options, args.tuning
    assert (squad.dataset_name, len(args.seeds), tuning.max_length, tuning.num_train_epochs) == (dataset, 10, 512, 2.0)
    assert (squad.max_query_length, squad.doc_stride, squad.beam_size, squad.max_answer_length) == (64, 128, 20, 30)
    assert (tuning.head, tuning.head_dropout, tuning.weight_decay, tuning.warmup_steps) == ("joint", 0.0, 0.0, 0.1)
    assert (tuning.learning_rate, tuning.layerwise_lr_decay, tuning.per_device_train_batch_size) == (None, None, 32)
    assert tuning.layerwise_lr_decay_mode == "paper"
