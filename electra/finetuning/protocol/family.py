"""What a kind of task supplies, so that the protocol can run it: data as tokens, a model, a loss, metrics.

Seeds, folder, resuming, plan, progress, tracked runs, results, table and report are the protocol's. GLUE, question
answering, tagging and multiple choice each are one class.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

from electra.finetuning.encoder import Encoder
from electra.finetuning.encoding import PaddingCollator, Rows
from electra.finetuning.protocol.evaluation import Evaluation
from electra.finetuning.protocol.options import Arguments
from electra.finetuning.protocol.report import Reporting
from electra.finetuning.run import Logits, Outcome
from electra.finetuning.trainer import Hyperparameters, step_loss


@dataclass(frozen=True)
class TaskRows:
    """A task's data as tokens.

    Args:
        train: with labels.
        dev: with labels, by name of split.
        examples: number of examples in train and in each dev split, as they are written with a result.
        test: what is to be predicted as well, by name of split, which begins with "test".
    """

    train: Rows
    dev: dict[str, Rows]
    examples: dict[str, int]
    test: dict[str, Rows] = field(default_factory=dict)


class Family(ABC):
    """Tasks of one kind, of one command.

    Args:
        args: the options of the command.
        encoder: what is fine-tuned; its model must not be changed.
        evaluation: the folder, and what is finished in it.
    """

    default_max_length = 128
    """Tokens, where --max_length is not given."""
    reporting: Reporting

    def __init__(self, args: Arguments[Any], encoder: Encoder, evaluation: Evaluation) -> None:
        self.args, self.encoder, self.evaluation = args, encoder, evaluation

    # ---- data

    @abstractmethod
    def names(self) -> list[str]:
        """The tasks, in the order in which they are run."""

    @abstractmethod
    def load(self, names: Sequence[str], settings: Mapping[str, Hyperparameters]) -> dict[str, TaskRows]:
        """Read and tokenize tasks that are not finished; one whose data is not there may be left out.

        Raises:
            UserError: data cannot be used.
        """

    # ---- training

    @abstractmethod
    def make_model(self, task: str, encoder: PreTrainedModel, settings: Hyperparameters) -> nn.Module:
        """A module with the attributes `encoder` and `head`; the head is drawn from torch's random state.

        It takes what the collator gives but `labels`, and puts out one tensor (B, ...).
        """

    def loss(self, output: Tensor, labels: Tensor, num_items_in_batch: Tensor | int | None) -> Tensor:
        """What a batch adds to the loss of its step, (); the number of labels that are not -100 is the step's."""
        return step_loss(output, labels, num_items_in_batch)

    def collator(self) -> Callable[[Any], dict[str, Tensor]]:
        """Rows -> a batch."""
        return PaddingCollator(self.encoder.tokenizer.pad_token_id)

    def adjust(self, task: str, settings: Hyperparameters) -> Hyperparameters:
        """Settings that this kind of task cannot have otherwise."""
        return settings

    def more_settings(self, task: str) -> dict[str, Any]:
        """What a score depends on beside the hyper-parameters, as it is written with a result."""
        return {}

    # ---- scores

    @abstractmethod
    def metrics(self, task: str, logits: Logits) -> dict[str, float]:
        """Of the development splits, as fractions; of all of them, more is better; nan where undefined."""

    @abstractmethod
    def headline(self, task: str, metrics: Mapping[str, float | None]) -> float:
        """What a run is judged by; -infinity if undefined."""

    @abstractmethod
    def is_collapsed(self, task: str, logits: Logits) -> bool:
        """Whether a run says one and the same of (almost) every example."""

    # ---- what else there may be

    @property
    def wants_test(self) -> bool:
        """Whether test splits are predicted."""
        return False

    def start_title(self, task: str) -> str:
        """What the runs of a task start from, in words, as a setting."""
        return "scratch" if self.args.encoder.from_scratch else "pretrained"

    def start(self, task: str, seed: int) -> tuple[str, str | None]:
        """What a run starts from: its name in the results, and the folder if it is not the encoder itself."""
        return ("scratch" if self.args.encoder.from_scratch else "pretrained"), None

    def is_kept(self, task: str, seed: int) -> bool:
        """Whether what `keep` writes is there."""
        return True

    def keep(self, task: str, seed: int, outcome: Outcome) -> None:
        """Write more of a run than its logits. Called by the main process, before the result is written."""
        return None

    def finish(self, tasks: Sequence[str]) -> None:
        """Write what comes of all runs beside the report. Called by the main process."""
        return None

    def best_first(self, task: str) -> list[int]:
        """Seeds of the finished runs of this command, the best headline first."""
        runs = [r for r in self.evaluation.results if r.task == task and r.seed in self.args.seeds]
        return [r.seed for r in sorted(runs, key=lambda r: (-self.headline(task, r.metrics), r.seed))]
