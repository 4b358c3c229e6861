"""Options of GLUE, and how it is fine-tuned."""

from dataclasses import dataclass
from typing import Literal

from electra.finetuning.config import HEADS, ClassificationArguments, HeadName, ProtocolArguments
from electra.options import option
from electra.tasks.glue.tasks import GLUE_TASKS


@dataclass(frozen=True)
class GlueArguments(ProtocolArguments):
    """GLUE tasks and output."""

    tasks: list[str] = option(
        [*GLUE_TASKS],
        "GLUE tasks; or demo, which needs no data.",
    )
    glue_dir: str | None = option(
        None, "Folder with the official TSV folders (CoLA, SST-2 ...). Default: nyu-mll/glue from the Hub."
    )
    task_overrides: str = option(
        '{"rte": {"num_train_epochs": 10}, "stsb": {"num_train_epochs": 10}}',
        'Options that differ by task: a mapping in a --config file, or JSON, \'{"rte": {"learning_rate": 2e-5}}\'.'
        " A flag on the command line overrides them.",
    )
    double_unordered: bool = option(
        True, "Train MRPC and STS-B on each pair in both orders, as the original code does. Doubles the rows."
    )
    start_from_mnli: list[str] = option(
        [], "Tasks that start from the encoder fine-tuned on MNLI, such as: rte stsb mrpc. MNLI is run first."
    )
    predict_test: Literal["none", "best", "ensemble"] = option(
        "none",
        "Write submission.zip for gluebenchmark.com. best (also without a value): predictions of the run of each task "
        "with the best score on the development set; ensemble: of all runs together.",
        without_value="best",
    )


@dataclass(frozen=True)
class GlueTuningArguments(ClassificationArguments):
    """How an encoder is fine-tuned on GLUE, by default as in the paper."""

    head: HeadName = option("google", HEADS)
