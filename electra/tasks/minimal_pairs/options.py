"""Options of the minimal pairs, and the names of the scores."""

from dataclasses import dataclass

from electra.options import FOLDER_NAME, NOT_EMPTY, POSITIVE, Options, check, option
from electra.tasks.minimal_pairs.data import BLIMP

PAIR_SCORES = ("electric", "discriminator", "corrected", "pll", "causal")


@dataclass(frozen=True)
class MinimalPairArguments(Options):
    """Networks, pairs, scores and output."""

    pretrain_path: str = option(
        "",
        "Networks to score with: a run, a checkpoint, a folder of a discriminator or of any masked language model, or "
        "the Hub id of one.",
    )
    generator: str | None = option(
        None, "Run, folder or Hub id of a generator. Default: that of --pretrain_path.", NOT_EMPTY
    )
    data: str = option(
        BLIMP,
        "A file of pairs (.jsonl, .csv, .tsv, .parquet), a folder of such files, or a data set on the Hub.",
        NOT_EMPTY,
    )
    dataset_config_name: str | None = option(
        None, "Configuration of the data set, such as a language. Default: all of them.", NOT_EMPTY
    )
    columns: list[str] = option(
        [],
        "Columns of the acceptable and of the unacceptable sentence. Default: those of BLiMP, MultiBLiMP or RuBLiMP.",
        NOT_EMPTY,
    )
    score: list[str] = option([], "Scores. Default: all that the networks allow.", choices=PAIR_SCORES)
    max_pairs: int | None = option(None, "Maximum pairs of each paradigm, the first ones. Default: all.", POSITIVE)
    output_dir: str = option("output", "Parent folder; the results are written to output_dir/experiment_name.")
    experiment_name: str | None = option(
        None, "Name of the folder. Default: blimp and the name of the model.", FOLDER_NAME
    )
    per_device_eval_batch_size: int = option(256, "Sentences per batch.", POSITIVE)
    use_cpu: bool = option(False, "Use the CPU even if there is an accelerator.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check(len(self.columns) in (0, 2), "columns", self.columns, "two names")
