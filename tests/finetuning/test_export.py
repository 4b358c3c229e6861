"""Which heads can be saved, and the model card of a saved model."""

from types import SimpleNamespace

from huggingface_hub import ModelCard

from electra.finetuning.evaluation import Evaluation
from electra.finetuning.export import check_can_save, describe_model
from electra.report.results import Result
from electra.tasks.glue.task import GLUE
from tests.conftest import refused
from tests.helpers import parametrize


@parametrize(("head", "overrides"), [("google", {}), ("hf", {"rte": {"head": "mean_pool"}})])
def test_a_head_of_our_own_cannot_be_saved(head, overrides):
    args = SimpleNamespace(
        options=SimpleNamespace(save_model="best"), tuning=SimpleNamespace(head=head), overrides=overrides
    )
    assert "--head hf" in refused(lambda: check_can_save(args, ("hf",)))
    args.options.save_model = "none"
    check_can_save(args, ("hf",))


@parametrize("rows", [{"train": 8551, "dev": 1043}, {"train": 24, "dev": 12}])
def test_a_card_tells_the_hub_what_was_scored_on_what(rows, tmp_path):
    settings = {"max_length": 128}
    results = [
        Result("cola", seed, {"mcc": 0.1 * seed, "accuracy": None}, False, 3.0, "pretrained", model, 1, rows, settings)
        for seed, model in ((4, "google/electra-small-discriminator"), (6, "google/electra-small-discriminator"))
    ]
    args = SimpleNamespace(record={"pretrain_path": "google/electra-small-discriminator"})
    task = SimpleNamespace(kind=GLUE, name="cola", note="Scores are on [0, 5].", hub_dataset=("nyu-mll/glue", "cola"))
    evaluation = Evaluation(args, None, [task], tmp_path, results)
    describe_model(evaluation, task, tmp_path, results[1]._asdict())
    card = ModelCard.load(tmp_path / "README.md")
    (score,) = card.data.eval_results  # an undefined metric has no entry
    assert (score.metric_type, score.metric_value, score.dataset_split) == ("matthews_correlation", 0.6, "validation")
    assert (score.task_type, score.dataset_name) == ("text-classification", "CoLA")
    is_official = rows["dev"] == 1043
    assert score.dataset_type == ("nyu-mll/glue" if is_official else "cola")
    assert card.data.datasets == (["nyu-mll/glue"] if is_official else None)
    assert card.data.base_model == "google/electra-small-discriminator"
    assert (card.data.library_name, card.data.pipeline_tag) == ("transformers", "text-classification")
    assert card.data.license is None and card.data.metrics == ["matthews_correlation"]
    assert "| mcc | 60.0 | 50.0 | 14.1 |" in card.text and "run_glue.py --pretrain_path=google" in card.text
