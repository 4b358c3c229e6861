"""The probabilities that the tokens of texts were replaced: of texts in memory, and of a file.

    electra detect --pretrain_path RUN texts.txt

The command writes a line of JSON for each text, prints the worst texts, and, if the file says which texts or passages
are wrong, how well D finds them.
"""

import json
import logging
import math
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sklearn.metrics import roc_auc_score
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from typing_extensions import TypedDict

from electra.base.console import environment, setup_logging
from electra.base.files import TINY_EN, check_results, expand, making_folder, open_new, write_json
from electra.base.parser import Parser
from electra.core.configuration import longest_text
from electra.core.errors import UserError, abridged
from electra.core.networks import is_detector
from electra.core.objectives import OBJECTIVES
from electra.core.ranges import check
from electra.data.cells import DELIMITER_HELP, QUOTING_HELP, QUOTINGS
from electra.model.pretrained import Networks, check_given_tokenizer, check_is_model, load_networks, networks_of
from electra.report.blocks import Verdict, table_of, text_table
from electra.report.evaluation import UNKNOWN_SHARE
from electra.report.verdict import Rival, too_few, too_unknown, verdict
from electra.runtime.device import keep_freed_memory, prepare_networks
from electra.tasks.detect.scores import Detector, LabelledText, ScoredTokens, read_texts

logger = logging.getLogger(__name__)

SHORTEST_WINDOW = 8
"""Tokens of a window, at least, with special tokens."""
SHOWN_TEXTS = 10
"""Texts on the terminal, at most."""
SHOWN_CHARACTERS = 60
"""Characters of a text on the terminal, at most."""
SHOWN_SPANS = 3
"""Suspicious spans of a text on the terminal, at most."""


def main(argv: list[str] | None = None) -> None:
    """Run `electra detect` with words, by default those of `sys.argv`."""
    parser = Parser(prog="electra detect", description="Find words and texts that look replaced to a discriminator.")
    parser.add_argument("file", metavar="FILE", help="txt with a text in each line, or csv, tsv, jsonl, parquet")
    parser.add_argument(
        "--pretrain_path", default=TINY_EN, help="run, checkpoint, discriminator or Hub id of one; default: tiny-en"
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
    parser.add_argument("--delimiter", help=DELIMITER_HELP)
    parser.add_argument("--quoting", choices=QUOTINGS, help=QUOTING_HELP)
    parser.add_argument("--output_dir", help="folder; default: output/detect_ and the name of the file")
    parser.add_argument(
        "--threshold",
        type=float,
        default=0.5,
        help="flag tokens above it; default: 0.5",
    )
    parser.add_argument(
        "--max_length",
        type=int,
        default=128,
        help="tokens that are read at once; default: 128",
    )
    args = parser.parse_args(argv)
    check(0 < args.threshold < 1, "threshold", args.threshold, "in (0, 1)")
    setup_logging()
    keep_freed_memory()
    detect(args)


def open_detector(networks: Networks, max_length: int) -> Detector:
    """Return the `Detector` of a pair of networks, whose discriminator is put on the device.

    Args:
        max_length: tokens of a window, special ones included; it is lowered to what the network reads.
    Raises:
        UserError: the network has no head for replaced tokens, the head gives no probability, or `max_length` is below
            `SHORTEST_WINDOW`.
    """
    network = networks.discriminator
    if not is_detector(network):
        raise UserError(f"{networks.source} has no head that finds replaced tokens; name a discriminator")
    if networks.objective is not None and not OBJECTIVES[networks.objective].answers_probability:
        raise UserError(
            f"{networks.source} was trained with --objective {networks.objective}, whose answers are no "
            "probabilities; name another discriminator"
        )
    check(max_length >= SHORTEST_WINDOW, "max_length", max_length, f"at least {SHORTEST_WINDOW}")
    prepare_networks(network)
    return Detector(network, networks.tokenizer, min(max_length, longest_text(network.config)))


class TokenProbability(NamedTuple):
    """A token of a text, with the probability that the token was replaced.

    Args:
        piece: characters of the token in the text.
        start, end: the first of these characters, and the one after the last.
        probability: D, in [0, 1].
    """

    piece: str
    start: int
    end: int
    probability: float


def replaced_token_probabilities(
    texts: str | Iterable[str],
    discriminator: str | Path | PreTrainedModel,
    processing_class: PreTrainedTokenizerBase | None = None,
    *,
    max_length: int = 128,
) -> list[list[TokenProbability]]:
    r"""Return for each token of each text the probability that it was replaced, as `electra detect` computes it.

        for token in replaced_token_probabilities("the chef ate the meal", "output/mine")[0]:
            print(token.piece, token.probability)

    A long word has several tokens. The probability of a word can be taken as that of its most suspicious token:

        text = "the chef ate the meal"
        (tokens,) = replaced_token_probabilities(text, "output/mine")
        for word in re.finditer(r"\w+", text):
            parts = [t.probability for t in tokens if t.start < word.end() and t.end > word.start()]
            print(word.group(), max(parts))

    Args:
        texts: a text, or several.
        discriminator: a run, a checkpoint, an exported discriminator, the Hub id of one, or tiny-en; or such a model
            in memory.
        processing_class: the tokenizer of a model in memory; by default that of the folder it was loaded from.
        max_length: tokens that are read at once. Longer texts are read in windows that overlap by half; the
            probability of a token in several windows is the mean.
    Returns:
        for each text a list of `TokenProbability`, without special tokens.
    Raises:
        UserError: there is no such model, the model has no head for replaced tokens, or `texts` are not strings.
    """
    strings = [texts] if isinstance(texts, str) else list_of_texts(texts)
    check_is_model(discriminator, "discriminator")
    if isinstance(discriminator, PreTrainedModel):
        networks = networks_of(discriminator, processing_class)
    else:
        networks = load_networks(str(discriminator))
        check_given_tokenizer(processing_class, networks.tokenizer, networks.source)
    was_training = networks.discriminator.training
    try:
        detector = open_detector(networks, max_length)
        scores = detector.score(strings)
        detector.unknown.warn("the texts")
    finally:
        networks.discriminator.train(was_training)
    return [token_probabilities(text, scored) for text, scored in zip(strings, scores, strict=True)]


def list_of_texts(texts: object) -> list[str]:
    """Return texts as a list.

    Raises:
        UserError: `texts` is a table or a mapping, of which the names of columns would be read, or holds no texts.
    """
    if isinstance(texts, Iterable) and not isinstance(texts, Mapping) and getattr(texts, "ndim", 1) == 1:
        values = list(texts)
        strings = [value for value in values if isinstance(value, str)]
        if len(strings) == len(values):
            return strings
    raise UserError(f"texts is {abridged(texts)}; give a text, or a list of texts, such as the column of a table")


def token_probabilities(text: str, scored: ScoredTokens) -> list[TokenProbability]:
    """Return the scored tokens of a text, each with its characters."""
    columns = [values.tolist() for values in scored]
    return [TokenProbability(text[start:end], start, end, p) for start, end, p in zip(*columns, strict=True)]


def detect(args: Namespace) -> None:
    """Score the texts of a file, write scores.jsonl and summary.json, and print what they say.

    Args:
        args: options of the command.
    """
    networks = load_networks(args.pretrain_path)
    folder = expand(args.output_dir or f"output/detect_{Path(args.file).stem}")
    about = {"model": args.pretrain_path, "file": args.file}
    check_results(folder, "summary.json", about)
    detector = open_detector(networks, args.max_length)
    logger.info("model          %s", networks.source)
    texts = [*read_texts(args.file, args.text_column, args.label_column, args.delimiter, args.quoting)]
    with making_folder(folder), open_new(folder / "scores.jsonl") as file:
        scores = detector.score([text.text for text in texts])
        detector.unknown.warn("the texts")
        lines = [as_line(text, scored, args.threshold) for text, scored in zip(texts, scores, strict=True)]
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        summary = {
            **about,
            UNKNOWN_SHARE: round(detector.unknown.share, 4),
            "threshold": args.threshold,
            "texts": len(texts),
            "tokens": sum(len(line["tokens"]) for line in lines),
            "spans": sum(len(line["spans"]) for line in lines),
            "agreement": agreement(texts, scores),
        }
        if not summary["tokens"]:
            raise UserError(f"{args.file} has no text that the tokenizer reads")
        # It says whose folder this is, so it comes before scores.jsonl has its name.
        write_json({**summary, **environment()}, folder / "summary.json")
    worst_lines = sorted(lines, key=lambda line: -line["mean"])[:SHOWN_TEXTS]
    logger.info("\n%s\n", text_table(table_of([worst_row(line) for line in worst_lines])))
    counts = ", ".join(f"{summary[name]:,} {name}" for name in ("texts", "tokens", "spans"))
    logger.info("%s: %s above %.3f.", args.file, counts, args.threshold)
    for sentence in verdicts_of(summary):
        logger.info("%s", sentence.text)
    logger.info("scores         %s", folder / "scores.jsonl")


class ScoredLine(TypedDict):
    """The values of a text in scores.jsonl."""

    place: str
    text: str
    mean: float  # of D over the tokens
    spans: list[list[Any]]  # start, end, highest D
    tokens: list[list[Any]]  # start, end, D


def as_line(text: LabelledText, scored_tokens: ScoredTokens, threshold: float) -> ScoredLine:
    """Return the line of a text in scores.jsonl; neighbouring tokens with D above the threshold are one span."""
    tokens = []
    spans: list[list[Any]] = []
    columns = [values.tolist() for values in scored_tokens]
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
        "mean": scored_tokens.mean,
        "spans": spans,
        "tokens": tokens,
    }


# ---- agreement with labels


def agreement(texts: Sequence[LabelledText], scores: Sequence[ScoredTokens]) -> dict[str, dict[str, float]]:
    """Return text and token -> how well D finds the wrong ones: the result of `auroc_of`.

    The score of a text is the mean of D over its tokens. A token is wrong if it has a character of a wrong passage.
    What does not have both right and wrong labels is left out.
    """
    pairs = [*zip(texts, scores, strict=True)]
    means = [(scored.mean, text.is_wrong) for text, scored in pairs if text.is_wrong is not None]
    tokens = [
        (p, any(first < end and start < last for start, end in text.spans))
        for text, scored in pairs
        if text.spans is not None
        for first, last, p in zip(*scored, strict=True)
    ]
    levels = {"text": means, "token": tokens}
    return {level: auroc_of(scored) for level, scored in levels.items() if len({wrong for _, wrong in scored}) == 2}


def auroc_of(scored: Sequence[tuple[float, bool]]) -> dict[str, float]:
    """Return the AUROC of scores with labels, its standard error, and the numbers of wrong and of right labels.

    Args:
        scored: score, higher for what is more suspicious, and whether it is wrong; there are wrong and right ones.
    """
    scores, labels = zip(*scored, strict=True)
    area, wrong = float(roc_auc_score(labels, scores)), sum(labels)
    right = len(labels) - wrong
    return {"AUROC": area, "standard_error": auroc_error(area, wrong, right), "wrong": wrong, "right": right}


def auroc_error(area: float, wrong: int, right: int) -> float:
    """Return the standard error of an AUROC from the numbers of wrong and right labels (Hanley and McNeil 1982)."""
    both_wrong = area / (2 - area) - area**2
    both_right = 2 * area**2 / (1 + area) - area**2
    variance = area * (1 - area) + (wrong - 1) * both_wrong + (right - 1) * both_right
    return math.sqrt(max(variance, 0.0) / (wrong * right))


# ---- what is printed


def worst_row(line: ScoredLine) -> dict[str, str]:
    """Return the cells of a text in the table of the worst texts, from its line in scores.jsonl.

    The suspicious spans are named with their highest D, the most suspicious first.
    """
    text = line["text"]
    worst_spans = sorted(line["spans"], key=lambda span: -span[2])[:SHOWN_SPANS]
    words = ", ".join(f"{text[start:end]} {highest:.2f}" for start, end, highest in worst_spans)
    if len(text) > SHOWN_CHARACTERS:
        text = f"{text[: SHOWN_CHARACTERS - 1]}…"
    return {"text": text, "suspicious": words, "mean": f"{line['mean']:.3f}", "place": line["place"]}


def verdicts_of(summary: Mapping[str, Any]) -> list[Verdict]:
    """Return a sentence for texts and one for tokens, as far as they have labels: how well D finds the wrong ones.

    Args:
        summary: content of summary.json.
    """
    verdicts = []
    for level, measures in summary["agreement"].items():
        area, count = measures["AUROC"], measures["wrong"] + measures["right"]
        guessing = Rival("guessing", 0.5, measures["standard_error"])
        why_none = too_unknown(summary[UNKNOWN_SHARE]) or too_few(count, f"{level}s")
        claim = f"D finds wrong {level}s with an AUROC of {area:.3f}"
        verdicts.append(verdict(claim, area, [guessing], "{:.3f}".format, f"{count:,} {level}s", why_none))
    return verdicts
