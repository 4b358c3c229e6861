"""The official metrics of SQuAD as an `evaluate.Metric` that needs no network and writes no file.

`evaluate.load("squad")` fetches a script from the Hub. Here only the interface is evaluate's; metrics.py computes.
"""

from typing import Any

import datasets
import evaluate

from electra.errors import UserError
from electra.squad.metrics import DEFAULT_THRESHOLD, evaluate_v1, evaluate_v2

CONFIGS = ("squad", "squad_v2")


class SquadMetric(evaluate.Metric):
    """`SquadMetric("squad").compute(predictions=[...], references=[...])`, in percent as the official scripts print.

    Predictions are `{"id", "prediction_text"}`, of squad_v2 also `"no_answer_probability"`; references are
    `{"id", "answers": {"text": [...], "answer_start": [...]}}`. Both as of evaluate's metrics of these names, and so
    is `no_answer_threshold`, an argument of `compute` for squad_v2.

    Args:
        config_name: one of `CONFIGS`.

    Raises:
        UserError: there is no such metric.
    """

    def __init__(self, config_name: str, **kwargs: Any) -> None:
        if config_name not in CONFIGS:
            raise UserError(f"unknown metric '{config_name}'; choose from {' '.join(CONFIGS)}")
        super().__init__(config_name, keep_in_memory=True, **kwargs)

    def _info(self) -> evaluate.MetricInfo:
        text = datasets.Value("string")
        prediction = {"id": text, "prediction_text": text}
        if self.config_name == "squad_v2":
            prediction["no_answer_probability"] = datasets.Value("float64")
        answers = {"text": datasets.List(text), "answer_start": datasets.List(datasets.Value("int64"))}
        return evaluate.MetricInfo(
            description=f"SQuAD: {self.config_name}",
            citation="",
            inputs_description="",
            features=datasets.Features({"predictions": prediction, "references": {"id": text, "answers": answers}}),
        )

    def _build_data_dir(self) -> str:
        return ""  # the parent makes a folder in the user's cache

    def _compute(
        self,
        *,
        predictions: list[dict[str, Any]],
        references: list[dict[str, Any]],
        no_answer_threshold: float = DEFAULT_THRESHOLD,
    ) -> dict[str, float]:
        expected = {row["id"]: row["answers"]["text"] for row in references}
        said = {row["id"]: row["prediction_text"] for row in predictions}
        if self.config_name == "squad":
            return evaluate_v1(expected, said)
        odds = {row["id"]: row["no_answer_probability"] for row in predictions}
        return evaluate_v2(expected, said, odds, no_answer_threshold)
