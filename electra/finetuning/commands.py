"""The command of a kind of task as a value: what `electra VERB`, `fine_tune`, sweeps and `electra predict` call."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from electra.base.console import setup_logging
from electra.base.options import Values
from electra.finetuning.config import Arguments
from electra.finetuning.evaluation import Evaluation
from electra.finetuning.heads import Encoder
from electra.finetuning.predict import AskedColumns, Predictor, Saved
from electra.finetuning.task import Task, TaskKind
from electra.runtime.device import keep_freed_memory


@dataclass(frozen=True)
class TaskCommand:
    """The command of a kind of task: its options, its tasks, and the answers of its saved models.

    Args:
        kind: facts that all tasks of the command share.
        groups: groups of the options: the encoder, the data and output, the tuning.
        parse: (words of a command line or options by name, rows of a program by split, values of a preset) -> the
            options, checked; the last two may be left out. Commands whose data are fixed take the first alone.
        open: options -> the tasks. It reads as much of the data as decides what the tasks are.
        prefix: options -> beginning of the name of an evaluation's folder; the name of the model follows.
        predictor: (saved model, columns that the user names) -> what reads rows for the model and makes answers.
        finish: function that is called with a finished evaluation, such as one that writes a submission.
    """

    kind: TaskKind
    groups: tuple[type, ...]
    parse: Callable[..., Arguments]
    open: Callable[[Arguments], Sequence[Task]]
    prefix: Callable[[Any], str]
    predictor: Callable[[Saved, AskedColumns], Predictor]
    finish: Callable[[Evaluation], None] | None = None

    def run(self, argv: Sequence[str] | None = None, preset: Values | None = None) -> None:
        """Run the command with words, by default those of `sys.argv`: the `main` of the module.

        Args:
            preset: see `Registration.preset`.
        """
        setup_logging()
        args = self.parse(argv, preset=preset) if preset else self.parse(argv)
        keep_freed_memory(use_cpu=args.tuning.use_cpu)
        self.evaluate(args)

    def evaluate(self, args: Arguments, encoder: Encoder | None = None) -> Evaluation | None:
        """Fine-tune an encoder, by default the one that the options name, on the tasks, and return the evaluation.

        The result is None with --plan, and on all processes but the main one.
        """
        from electra.finetuning.runner import evaluate  # takes half a second with Trainer, which no prediction needs

        evaluation = evaluate(args, self.open(args), self.prefix(args.options), encoder)
        if evaluation is not None and self.finish is not None:
            self.finish(evaluation)
        return evaluation
