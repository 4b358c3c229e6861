"""Judges every text of a file: a line of JSON for each, and a page with the worst. Memory holds a block of texts."""

import heapq
import json
import logging
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from electra.io.console import environment, setup_logging
from electra.io.errors import Parser, UserError
from electra.io.files import check_results, expand, new_folder, open_new, write_json
from electra.model.configuration import longest_text
from electra.model.networks import is_detector
from electra.model.pretrained import load_networks
from electra.options import check
from electra.report.blocks import text_table, write_report
from electra.runtime.device import prepare_network
from electra.tasks.detect.report import Scores, agreement_table, counts_of, report
from electra.tasks.detect.scores import Detector, Judged, LabelledRows, read_texts

logger = logging.getLogger(__name__)


# ---- The command `electra detect`: which words and texts of a file look wrong to a discriminator?

# electra detect --pretrain_path RUN texts.txt electra detect --pretrain_path RUN texts.jsonl --validation_file
# held_out.txt --false_alarm_rate 0.01


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


TEXTS_PER_BLOCK = 256
"""Texts that are judged at once, in batches of similar length."""
SHOWN = 50
"""Texts on the page."""


def detect(args: Namespace) -> None:
    """Judge the texts of a file; write scores.jsonl, summary.json, report.md and report.html."""
    networks = load_networks(args.pretrain_path)
    network = networks.discriminator
    if not is_detector(network) or networks.is_electric:
        raise UserError(f"{args.pretrain_path} has no head that finds replaced tokens; name a discriminator")
    folder = expand(args.output_dir or f"output/detect_{Path(args.file).stem}")
    about = {"model": args.pretrain_path, "file": args.file}
    check_results(folder, "summary.json", about)
    prepare_network(network)
    logger.info("model          %s", networks.source)
    max_length = min(args.max_length, longest_text(network.config))
    detector = Detector(network, networks.tokenizer, max_length)
    if expand(args.file).is_file():  # no stream
        for _ in read_texts(args.file, args.text_column, args.label_column):
            pass  # refuses a bad row before hours of work
    thresholds = dict.fromkeys(("token", "text"), args.threshold)
    if args.validation_file:  # right text; false_alarm_rate of its tokens, and of its texts, are above the thresholds
        held_out = Scores()
        for _, judged in judged_texts(detector, read_texts(args.validation_file, args.text_column, "")):
            held_out.add(judged, is_wrong=False, spans=[])
        if not held_out.values["token"]:
            raise UserError(f"{args.validation_file} has no text that the tokenizer reads; name a file of right text")
        thresholds = held_out.thresholds(args.false_alarm_rate)
    counts: Counter[str] = Counter()
    scores = Scores()
    worst: list[dict[str, Any]] = []
    with new_folder(folder), open_new(folder / "scores.jsonl") as file:
        for text, judged in judged_texts(detector, read_texts(args.file, args.text_column, args.label_column)):
            line = as_line(text, judged, thresholds["token"])
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
            scores.add(judged, text.is_wrong, text.spans)
            counts.update(texts=1, tokens=len(line["tokens"]), spans=len(line["spans"]))
            worst = heapq.nlargest(SHOWN, [*worst, line], key=lambda line: line["mean"])
        if not counts["tokens"]:
            raise UserError(f"{args.file} has no text that the tokenizer reads")
        summary = {
            **about,
            "thresholds": thresholds,
            **counts,
            "agreement": scores.agreement(thresholds),
        }
        # It says whose folder this is, so it comes before scores.jsonl has its name.
        write_json({**summary, **environment()}, folder / "summary.json")
    write_report(report(summary, worst), folder)
    agreement = agreement_table(summary)
    if agreement.rows:
        logger.info("\nagreement with the labels\n%s", text_table(agreement))
    logger.info("\n%s", counts_of(summary))


def judged_texts(detector: Detector, texts: Iterator[LabelledRows]) -> Iterator[tuple[LabelledRows, Judged]]:
    """Each text with its tokens."""
    while block := list(islice(texts, TEXTS_PER_BLOCK)):
        yield from zip(block, detector.judge([text.text for text in block]), strict=True)


def as_line(text: LabelledRows, judged: Judged, threshold: float) -> dict[str, Any]:
    """The line of a text: its scores, its spans above the threshold, and all of its tokens."""
    tokens = []
    spans: list[list[Any]] = []
    columns = [values.tolist() for values in judged]
    for start, end, p in zip(*columns, strict=True):
        token = [start, end, round(p, 4)]
        tokens.append(token)
        if p <= threshold:
            continue
        if spans and start <= spans[-1][1]:  # the next piece of a word
            first, _, highest = spans.pop()
            token = [first, end, max(highest, token[2])]
        spans.append(token)
    return {
        "place": text.place,
        "text": text.text,
        "mean": judged.mean,
        "spans": spans,
        "tokens": tokens,
    }
