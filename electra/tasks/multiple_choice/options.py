"""Options of multiple choice."""

from dataclasses import dataclass

from electra.finetuning.config import FileTaskArguments
from electra.options import option


@dataclass(frozen=True)
class MultipleChoiceArguments(FileTaskArguments):
    """Questions with choices, and output."""

    train_file: list[str] = option(
        [],
        "Question files (.csv with a header, or .jsonl) in the form of SWAG or HellaSwag, or with the columns "
        "question, choices and label. Default without a data set: allenai/swag from the Hub.",
        replaced_by=("dataset_name",),
    )
    validation_file: list[str] = option([], "Development set in the same format.", replaced_by=("dataset_name",))
    test_file: list[str] = option([], "Test set in the same format; answers are optional.")
