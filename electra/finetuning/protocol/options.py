"""The options of an evaluation as values, whatever its tasks are."""

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from electra.command_line import CommandLine
from electra.errors import UserError
from electra.finetuning_arguments import EncoderArguments, FineTuningArguments, ProtocolArguments

Options = TypeVar("Options", bound=ProtocolArguments, covariant=True)


@dataclass(frozen=True)
class Arguments(Generic[Options]):
    """All options of a command, by subject.

    Args:
        encoder: what is fine-tuned.
        options: of this kind of task; among them seeds and folder.
        tuning: how it is fine-tuned.
        effective: what was chosen, by name, ready to be written for --config.
        overrides: options that differ from task to task, by task.

    Raises:
        UserError: not exactly one of --pretrain_path and --from_scratch.
    """

    encoder: EncoderArguments
    options: Options
    tuning: FineTuningArguments
    effective: dict[str, Any] = field(default_factory=dict)
    overrides: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.encoder.pretrain_path is None) == (self.encoder.from_scratch is None):
            found = "both" if self.encoder.pretrain_path else "neither"
            raise UserError(
                f"name either --pretrain_path, what to fine-tune, or --from_scratch, an architecture; got {found}"
            )

    @property
    def seeds(self) -> range:
        """Of the runs of each task."""
        return range(self.options.seed, self.options.seed + self.options.num_seeds)


FILES = ("train_file", "validation_file", "test_file")
DATA_SET = ("dataset_name", "dataset_config_name")


def flags_above_file(command_line: CommandLine, options: ProtocolArguments) -> None:
    """Data that is named on the command line takes the place of the other kind that a --config file names."""
    for named, other in ((FILES, DATA_SET), (DATA_SET[:1], FILES)):
        if command_line.flags.isdisjoint(named) or not command_line.flags.isdisjoint(other):
            continue
        for name in other:
            if hasattr(options, name):
                setattr(options, name, command_line.get_default(name))
                command_line.effective.pop(name, None)
