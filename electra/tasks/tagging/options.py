"""Options of tagging."""

from dataclasses import dataclass
from typing import Literal

from electra.finetuning.config import FileTaskArguments
from electra.options import option


@dataclass(frozen=True)
class TaggingArguments(FileTaskArguments):
    """Words and labels, and output."""

    train_file: str | None = option(
        None,
        "File of columns: the word first, its label in --label_column; blank lines separate sentences. Or "
        ".conllu; or .jsonl or .parquet with tokens and tags, or with text and entities: [[start, end, label], ...].",
        replaced_by=("dataset_name",),
    )
    validation_file: str | None = option(None, "Development set in the same format.", replaced_by=("dataset_name",))
    test_file: str | None = option(None, "Test set in the same format; labels are optional.")
    label_column: str | None = option(
        None,
        "Column of the labels: in files of columns its number, from 0 or from the end; in rows its name. Default: the "
        "last column, of CoNLL-U the part of speech; in rows the only one whose name ends in tags or labels.",
    )
    scheme: Literal["auto", "iob2", "bioes"] = option(
        "auto", "Tagging scheme for training. auto: bioes if the data uses it, otherwise iob2."
    )
