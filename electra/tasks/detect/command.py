"""The command `electra detect`: which words and texts of a file look wrong to a discriminator?

electra detect --pretrain_path RUN texts.txt
electra detect --pretrain_path RUN texts.jsonl --validation_file held_out.txt --false_alarm_rate 0.01
"""

from electra.io.console import setup_logging
from electra.io.errors import Parser
from electra.options import check

SHORTEST_WINDOW = 8
"""Tokens, with special tokens."""


def main(argv: list[str] | None = None) -> None:
    parser = Parser(prog="electra detect", description="Find words and texts that look replaced to a discriminator.")
    parser.add_argument("file", metavar="FILE", help="txt with a text in each line, or csv, tsv, jsonl, parquet")
    parser.add_argument(
        "--pretrain_path",
        required=True,
        help="run, checkpoint, discriminator or Hub id of one",
    )
    parser.add_argument(
        "--text_column",
        default="text",
        help="column of the text in tables; default: text",
    )
    parser.add_argument(
        "--label_column",
        default="label",
        help="column that says which texts are wrong: 1, or right: 0; '' for none; default: label",
    )
    parser.add_argument("--output_dir", help="folder; default: output/detect_ and the name of the file")
    parser.add_argument(
        "--threshold",
        type=float,
        default=0.5,
        help="flag tokens above it; default: 0.5",
    )
    parser.add_argument("--validation_file", help="right text that sets both thresholds, in place of --threshold")
    parser.add_argument(
        "--false_alarm_rate",
        type=float,
        default=0.01,
        help="share of the right tokens, and of the right texts, that may be flagged; default: 0.01",
    )
    parser.add_argument(
        "--max_length",
        type=int,
        default=128,
        help="tokens that are read at once; default: 128",
    )
    args = parser.parse_args(argv)
    for name in ("threshold", "false_alarm_rate"):
        value = getattr(args, name)
        check(0 < value < 1, name, value, "in (0, 1)")
    check(args.max_length >= SHORTEST_WINDOW, "max_length", args.max_length, f"at least {SHORTEST_WINDOW}")
    setup_logging()
    from electra.tasks.detect.task import detect  # takes seconds: help and wrong options come before

    detect(args)
