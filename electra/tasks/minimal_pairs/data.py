"""The data of minimal pairs: options; an acceptable sentence, and one that is not and differs as little as possible.

A row has two columns of sentences, with names of `PAIR_COLUMNS` or of the user, and may name its paradigm and its
phenomenon. Without a phenomenon, the phenomenon is the paradigm; without both, the file or the configuration is both.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from electra.base.errors import first_line
from electra.base.files import TINY_EN, expand
from electra.base.options import FOLDER_NAME, NOT_EMPTY, Options
from electra.core.errors import UserError
from electra.core.options import option
from electra.core.ranges import POSITIVE, check
from electra.data.cells import DELIMITER_HELP, QUOTING_HELP, Quoting
from electra.data.lines import extension_of
from electra.data.rows import TABLES, Columns, PlacedRow, read_rows, text_of
from electra.finetuning.data import load_tables, table_rows
from electra.finetuning.row_checks import read_all

logger = logging.getLogger(__name__)

BLIMP = "nyu-mll/blimp"
"""Data set of the Hub that --data names by default."""
PAIR_COLUMNS = (
    ("sentence_good", "sentence_bad"),  # BLiMP, ZhoBLiMP, BLiMP-NL, TurBLiMP, Zorro
    ("sen", "wrong_sen"),  # MultiBLiMP
    ("source_sentence", "target_sentence"),  # RuBLiMP
)
"""Names of the columns of the acceptable and the unacceptable sentence."""
PARADIGM_COLUMNS = ("UID", "PID", "paradigm")
"""Names of the column with the paradigm: of BLiMP, of RuBLiMP, and of other data sets."""
PHENOMENON_COLUMNS = ("linguistics_term", "phenomenon")
"""Names of the column with the phenomenon: of BLiMP, and of other data sets."""
PHENOMENA = {"s-selection": "argument_structure"}
"""Term in BLiMP's rows -> phenomenon: 13 terms stand for 12 in its paper, which has s-selection as argument
structure."""


class Pair(NamedTuple):
    """A minimal pair.

    Args:
        good, bad: the acceptable and the unacceptable sentence.
        place: source and line, FILE:LINE, for messages.
    """

    good: str
    bad: str
    paradigm: str
    phenomenon: str
    place: str


def load_pairs(
    data: str,
    max_pairs: int | None = None,
    config: str | None = None,
    columns: Sequence[str] = (),
    delimiter: str | None = None,
    quoting: str | None = None,
) -> list[Pair]:
    """Return the pairs of a file, of all tables in a folder, or of a Hub data set.

    Args:
        data: path of the file or folder, or Hub id.
        max_pairs: pairs of each paradigm, at most: the first ones; None for all.
        config: configuration of the data set; None for all.
        columns: names of the columns of the acceptable and the unacceptable sentence, if not in `PAIR_COLUMNS`.
        delimiter, quoting: see `read_rows`.
    Raises:
        UserError: the data cannot be found or read, a row is not a pair, or a paradigm has two phenomena.
    """
    counts: Counter[str] = Counter()
    phenomena: dict[str, str] = {}
    all_pairs = read_all(_rows(data, config, delimiter, quoting), lambda row: _read_pair(*row, columns))
    pairs = []
    for pair in all_pairs:
        phenomenon = phenomena.setdefault(pair.paradigm, pair.phenomenon)
        if phenomenon != pair.phenomenon:
            raise UserError(
                f"{pair.place}: the paradigm {pair.paradigm} is of {phenomenon} and {pair.phenomenon}; rename one"
            )
        counts[pair.paradigm] += 1
        if max_pairs is None or counts[pair.paradigm] <= max_pairs:
            pairs.append(pair)
    equal_places = [pair.place for pair in pairs if pair.good.split() == pair.bad.split()]
    if equal_places:
        logger.warning(
            "%s: the sentences of %d of %d pairs are equal (first: %s), so no score can tell them apart",
            data, len(equal_places), len(pairs), equal_places[0],
        )  # fmt: skip
    if not pairs:
        raise UserError(f"{data} is empty; name a file with a pair in each row")
    return pairs


def _read_pair(source: str, placed: PlacedRow, columns: Sequence[str]) -> Pair:
    """Return the pair in a row of a file or configuration `source`."""
    place, row = placed
    names = next((names for names in PAIR_COLUMNS if names[0] in row), PAIR_COLUMNS[0])
    good, bad = (text_of(row, name, place, "--columns GOOD BAD") for name in columns or names)
    phenomenon_of_row = _first_value(row, PHENOMENON_COLUMNS)
    paradigm = _first_value(row, PARADIGM_COLUMNS) or phenomenon_of_row or source
    phenomenon = phenomenon_of_row or paradigm
    return Pair(good, bad, paradigm, PHENOMENA.get(phenomenon, phenomenon), place)


def _rows(
    data: str, config: str | None, delimiter: str | None, quoting: str | None
) -> Iterator[tuple[str, PlacedRow]]:
    """Yield for each row the name of its file or configuration, and the row with its place."""
    path = expand(data)
    if config is None and path.exists():
        files = [path]
        if path.is_dir():
            files = sorted(file for file in path.iterdir() if extension_of(file) in TABLES)
        for file in files:
            for row in read_rows(file, delimiter, quoting, skips_empty=True):
                yield file.stem, row
        return
    import datasets  # takes a second

    instead = "check --data and --dataset_config_name"
    try:
        configs = [config] if config else datasets.get_dataset_config_names(data)
    except Exception as error:  # being offline, unknown or forbidden end in many exception types
        raise UserError(f"the data set {data} could not be loaded ({first_line(error)}); {instead}") from error
    for config in configs:
        for split, table in load_tables(data, config, instead).items():
            for row in table_rows(table, f"{data} {config} {split}"):
                yield config, row


def _first_value(row: Columns, names: tuple[str, ...]) -> str:
    """Return the first value that is not blank in the columns with these names, without spaces around it; else ""."""
    values = (str(row[name]).strip() for name in names if row.get(name))
    return next(filter(None, values), "")


# ---- options


PAIR_SCORES = ("electric", "discriminator", "corrected", "pll", "causal")
"""Names of the scores of a sentence; scores.py defines them."""


@dataclass(frozen=True)
class MinimalPairArguments(Options):
    """Networks, pairs, scores and output."""

    pretrain_path: str = option(
        TINY_EN,
        "Networks to score with: a run, a checkpoint, a folder of a discriminator or of any masked language model, or "
        "the Hub id of one.",
        always_recorded=True,
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
    delimiter: str | None = option(None, DELIMITER_HELP, NOT_EMPTY)
    quoting: Quoting | None = option(None, QUOTING_HELP)
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
