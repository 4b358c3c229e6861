"""How probable it is that the tokens of a text were replaced: of texts in memory, and of a file.

    electra detect --pretrain_path RUN texts.txt
    electra detect --pretrain_path RUN texts.jsonl --validation_file held_out.txt --false_alarm_rate 0.01

The command writes a line of JSON for each text, and prints the worst texts. Memory holds a block of texts.
"""

import heapq
import json
import logging
import math
from argparse import Namespace
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import average_precision_score, fbeta_score, roc_auc_score
from sklearn.model_selection import StratifiedGroupKFold
from transformers import PreTrainedModel

from electra.base.console import environment, setup_logging
from electra.base.files import check_results, expand, new_folder, open_new, write_json
from electra.base.parser import Parser
from electra.core.configuration import longest_text
from electra.core.errors import UserError, abridged
from electra.core.networks import is_detector
from electra.core.ranges import check
from electra.data.cells import DELIMITER_HELP, QUOTING_HELP, QUOTINGS
from electra.finetuning.data import Array
from electra.finetuning.words import SINGLE, fit_words
from electra.model.pretrained import Networks, check_given_tokenizer, load_networks, networks_of
from electra.report.blocks import Table, Verdict, table_of, text_table
from electra.report.evaluation import BAG_OF_WORDS, UNKNOWN_SHARE
from electra.report.verdict import Rival, too_few, too_unknown, verdict
from electra.runtime.device import keep_freed_memory, prepare_network
from electra.tasks.detect.scores import Detector, LabelledText, ScoredTokens, read_texts

logger = logging.getLogger(__name__)

SHORTEST_WINDOW = 8
"""Tokens of a window, at least, with special tokens."""
TEXTS_PER_BLOCK = 256
"""Texts that are in memory and scored together, in batches of similar length."""
SHOWN = 10
"""Texts on the terminal, at most."""
SHOWN_CHARACTERS = 60
"""Characters of a text on the terminal, at most."""
FOLDS = 5
"""Parts of the labelled texts; a bag of words judges each after it was trained on the others."""


def main(argv: list[str] | None = None) -> None:
    parser = Parser(prog="electra detect", description="Find words and texts that look replaced to a discriminator.")
    parser.add_argument("file", metavar="FILE", help="txt with a text in each line, or csv, tsv, jsonl, parquet")
    parser.add_argument("--pretrain_path", required=True, help="run, checkpoint, discriminator or Hub id of one")
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
    keep_freed_memory()
    detect(args)


def open_detector(networks: Networks, max_length: int) -> Detector:
    """Return the `Detector` of a pair of networks, whose discriminator is put on the device.

    Args:
        max_length: tokens that are read at once, special ones included; more than the network reads are reduced.
    Raises:
        UserError: the network has no head for replaced tokens, or the head gives energies.
    """
    network = networks.discriminator
    if not is_detector(network) or networks.is_electric:
        raise UserError(f"{networks.source} has no head that finds replaced tokens; name a discriminator")
    check(max_length >= SHORTEST_WINDOW, "max_length", max_length, f"at least {SHORTEST_WINDOW}")
    prepare_network(network)
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
    processing_class: Any = None,
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
        discriminator: a run, a checkpoint, an exported discriminator or the Hub id of one; or such a model in memory.
        processing_class: the tokenizer of a model in memory; by default that of the folder it was loaded from.
        max_length: tokens that are read at once. Longer texts are read in windows that overlap by half; the
            probability of a token in several windows is the mean.
    Returns:
        for each text a list of (piece, start, end, probability), without special tokens: the characters of the token,
        where they are in the text, and a number in [0, 1].
    Raises:
        UserError: there is no such model, or the model has no head for replaced tokens.
    """
    if isinstance(texts, bytes | Mapping) or not isinstance(texts, Iterable):
        raise UserError(f"texts is {abridged(texts)}; give a string, or several")
    strings = [texts] if isinstance(texts, str) else list(texts)
    for number, text in enumerate(strings):
        if not isinstance(text, str):
            raise UserError(f"text {number} is {abridged(text)}; give strings")
    check(isinstance(max_length, int), "max_length", repr(max_length), "a whole number")
    if isinstance(discriminator, PreTrainedModel):
        networks = networks_of(discriminator, processing_class)
    elif isinstance(discriminator, str | Path):
        networks = load_networks(str(discriminator))
        check_given_tokenizer(processing_class, networks.tokenizer, networks.source)
    else:
        kind = type(discriminator).__name__
        raise UserError(f"discriminator is a {kind}; give a folder, a Hub id or a model of transformers")
    was_training = networks.discriminator.training
    judged = []
    try:
        detector = open_detector(networks, max_length)
        for start in range(0, len(strings), TEXTS_PER_BLOCK):
            block = strings[start : start + TEXTS_PER_BLOCK]
            scores = detector.score(block)
            judged += [token_probabilities(text, scored) for text, scored in zip(block, scores, strict=True)]
        detector.unknown.warn("the texts")
    finally:
        networks.discriminator.train(was_training)
    return judged


def token_probabilities(text: str, scored: ScoredTokens) -> list[TokenProbability]:
    """Return the scored tokens of a text, each with its characters."""
    columns = [values.tolist() for values in scored]
    return [TokenProbability(text[start:end], start, end, p) for start, end, p in zip(*columns, strict=True)]


def detect(args: Namespace) -> None:
    """Score the texts of a file, write scores.jsonl and summary.json, and print what they say."""
    networks = load_networks(args.pretrain_path)
    folder = expand(args.output_dir or f"output/detect_{Path(args.file).stem}")
    about = {"model": args.pretrain_path, "file": args.file}
    check_results(folder, "summary.json", about)
    detector = open_detector(networks, args.max_length)
    logger.info("model          %s", networks.source)
    if expand(args.file).is_file():  # no stream
        for _ in read_texts(args.file, args.text_column, args.label_column, args.delimiter, args.quoting):
            pass  # refuses a bad row before hours of work
    thresholds = dict.fromkeys(("token", "text"), args.threshold)
    if args.validation_file:  # right text; false_alarm_rate of its tokens, and of its texts, are above the thresholds
        held_out = Scores()
        for _, scored in score_texts(detector, read_texts(args.validation_file, args.text_column, "")):
            held_out.add(scored, is_wrong=False, spans=[])
        if not held_out.values["token"]:
            raise UserError(f"{args.validation_file} has no text that the tokenizer reads; name a file of right text")
        thresholds = held_out.thresholds(args.false_alarm_rate)
    counts: Counter[str] = Counter()
    scores = Scores()
    labelled: list[LabelledText] = []
    worst: list[dict[str, Any]] = []
    with new_folder(folder), open_new(folder / "scores.jsonl") as file:
        texts = read_texts(args.file, args.text_column, args.label_column, args.delimiter, args.quoting)
        for text, scored in score_texts(detector, texts):
            line = as_line(text, scored, thresholds["token"])
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
            scores.add(scored, text.is_wrong, text.spans)
            if text.is_wrong is not None:
                labelled.append(text)
            counts.update(texts=1, tokens=len(line["tokens"]), spans=len(line["spans"]))
            worst = heapq.nlargest(SHOWN, [*worst, line], key=lambda line: line["mean"])
        detector.unknown.warn("the texts")
        if not counts["tokens"]:
            raise UserError(f"{args.file} has no text that the tokenizer reads")
        summary = {
            **about,
            UNKNOWN_SHARE: round(detector.unknown.share, 4),
            "thresholds": thresholds,
            **counts,
            "agreement": scores.agreement(thresholds),
        }
        if words_agreement := agreement_of_words(labelled):
            summary[BAG_OF_WORDS] = words_agreement
        # It says whose folder this is, so it comes before scores.jsonl has its name.
        write_json({**summary, **environment()}, folder / "summary.json")
    logger.info("\n%s\n", text_table(table_of([worst_row(line) for line in worst])))
    agreement = agreement_table(summary)
    if agreement.rows:
        logger.info("agreement with the labels\n%s\n", text_table(agreement))
        logger.info("%s", counts_of(summary))
    logger.info("%s", verdict_of(summary).text)
    logger.info("scores         %s", folder / "scores.jsonl")


def score_texts(detector: Detector, texts: Iterator[LabelledText]) -> Iterator[tuple[LabelledText, ScoredTokens]]:
    """Yield each text with its scored tokens, in order."""
    while block := list(islice(texts, TEXTS_PER_BLOCK)):
        yield from zip(block, detector.score([text.text for text in block]), strict=True)


def as_line(text: LabelledText, scored: ScoredTokens, threshold: float) -> dict[str, Any]:
    """Return the values of a text for scores.jsonl: mean D, spans above the threshold, and all tokens."""
    tokens = []
    spans: list[list[Any]] = []
    columns = [values.tolist() for values in scored]
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
        "mean": scored.mean,
        "spans": spans,
        "tokens": tokens,
    }


# ---- thresholds, and agreement with labels


class Scores:
    """Scores with labels at two levels: scores of tokens, and scores of texts, which are means over tokens."""

    def __init__(self) -> None:
        self.values: dict[str, list[float]] = defaultdict(list)
        self.labels: dict[str, list[bool]] = defaultdict(list)

    def add(
        self,
        scored: ScoredTokens,
        is_wrong: bool | None,
        spans: Sequence[Sequence[int]] | None,
    ) -> None:
        """Add the scores of a text and its tokens, as far as they have labels.

        Args:
            is_wrong: label of the text; None if it is unknown.
            spans: first character of each wrong passage, and the one after its last; None if they are unknown.
        """
        if is_wrong is not None:
            self.values["text"].append(scored.mean)
            self.labels["text"].append(is_wrong)
        if spans is not None:
            wrong = np.zeros(len(scored.starts), bool)
            for start, end in spans:
                wrong |= (scored.starts < end) & (scored.ends > start)
            self.values["token"] += scored.probabilities.tolist()
            self.labels["token"] += wrong.tolist()

    def thresholds(self, false_alarm_rate: float) -> dict[str, float]:
        """Return for each level the threshold that a share `false_alarm_rate` of the scores exceeds."""
        thresholds = {}
        for level, values in self.values.items():
            thresholds[level] = float(np.quantile(values, 1 - false_alarm_rate, method="higher"))
        return thresholds

    def agreement(self, thresholds: Mapping[str, float]) -> dict[str, dict[str, float]]:
        """Return by level, if it has right and wrong labels, metrics of how well scores find the wrong ones."""
        measures = {}
        for level, labels in self.labels.items():
            scores = np.array(self.values[level])
            if len(set(labels)) == 2:
                measures[level] = measures_of(labels, scores, thresholds[level])
        return measures


def measures_of(labels: Sequence[bool], scores: Array, threshold: float) -> dict[str, float]:
    """Return metrics of how well scores find what is wrong, with the numbers of wrong and right labels.

    Args:
        labels: whether each is wrong, (N,); both kinds occur.
        scores: higher for what is more suspicious, (N,).
        threshold: a score above this is called wrong, for F0.5.
    """
    return {
        "AUROC": float(roc_auc_score(labels, scores)),
        "average precision": float(average_precision_score(labels, scores)),
        "F0.5": float(fbeta_score(labels, scores > threshold, beta=0.5, zero_division=0.0)),
        "wrong": sum(labels),
        "right": len(labels) - sum(labels),
    }


def auroc_error(measures: Mapping[str, float]) -> float:
    """Return the standard error of an AUROC (Hanley and McNeil 1982) of the wrong and the right ones."""
    area, wrong, right = measures["AUROC"], measures["wrong"], measures["right"]
    both_wrong = area / (2 - area) - area**2
    both_right = 2 * area**2 / (1 + area) - area**2
    variance = area * (1 - area) + (wrong - 1) * both_wrong + (right - 1) * both_right
    return math.sqrt(max(variance, 0.0) / (wrong * right))


def agreement_of_words(texts: Sequence[LabelledText]) -> dict[str, float]:
    """Return the measures of a bag of words on N labelled texts, each judged by a model of other texts.

    Texts that differ only in case and white space are in the same part.

    Returns:
        nothing if the texts have no words, or fewer than two different ones are right, or wrong.
    """
    labels = np.array([bool(text.is_wrong) for text in texts])
    contents = [" ".join(text.text.casefold().split()) for text in texts]
    kinds = [
        {content for content, is_wrong in zip(contents, labels, strict=True) if is_wrong == kind} for kind in (0, 1)
    ]
    folds = min(FOLDS, *map(len, kinds))
    if folds < 2:
        return {}
    scores = np.zeros(len(texts))
    words = np.array([text.text for text in texts], object)
    parts = StratifiedGroupKFold(folds, shuffle=True, random_state=0)
    for trained, judged in parts.split(words, labels, contents):
        score = fit_words(words[trained].tolist(), labels[trained].astype(np.int64), SINGLE, 2)
        if score is None:
            return {}
        logits = score(words[judged].tolist())
        scores[judged] = logits[:, 1] - logits[:, 0]
    return measures_of(labels.tolist(), scores, 0.0)


# ---- what is printed


def worst_row(line: Mapping[str, Any]) -> dict[str, str]:
    """Return the cells of a text in the table of the worst texts, from its line in scores.jsonl."""
    text = line["text"]
    if len(text) > SHOWN_CHARACTERS:
        text = f"{text[: SHOWN_CHARACTERS - 1]}…"
    return {"text": text, "mean": f"{line['mean']:.3f}", "place": line["place"]}


def verdict_of(summary: Mapping[str, Any]) -> Verdict:
    """Return the sentence that a reader needs first: how well D finds what is wrong, or how much it suspects."""
    for level in ("text", "token"):
        measures = summary["agreement"].get(level)
        if measures is None:
            continue
        error = auroc_error(measures)
        count = int(measures["wrong"] + measures["right"])
        what = f"D finds wrong {level}s with an AUROC of {measures['AUROC']:.3f}"
        guessing = Rival("guessing", 0.5, error)
        why_none = too_unknown(summary.get(UNKNOWN_SHARE, 0.0)) or too_few(count, f"{level}s")
        sentence = verdict(what, measures["AUROC"], [guessing], "{:.3f}".format, f"{count:,} {level}s", why_none)
        if level == "text" and BAG_OF_WORDS in summary:
            bag_of_words = summary[BAG_OF_WORDS]
            area = f"{bag_of_words['AUROC']:.3f} ± {auroc_error(bag_of_words):.3f}"
            text = f"{sentence.text} A bag of words that has learned from the labels of the other texts has {area}."
            sentence = sentence._replace(text=text)
        return sentence
    return Verdict(counts_of(summary), None)


def counts_of(summary: Mapping[str, Any]) -> str:
    """Return a sentence about the texts, their tokens, and the spans above the threshold."""
    counts = ", ".join(f"{summary[name]:,} {name}" for name in ("texts", "tokens", "spans"))
    return f"{summary['file']}: {counts} above {summary['thresholds']['token']:.3f}."


def agreement_table(summary: Mapping[str, Any]) -> Table:
    """Return a row for D at each level of `Scores.agreement`, and one for the bag of words on the texts."""
    rows = [(f"{level}s", "D", measures) for level, measures in summary["agreement"].items()]
    if BAG_OF_WORDS in summary:
        rows.append(("texts", BAG_OF_WORDS, summary[BAG_OF_WORDS]))
    return table_of([{"of": level, "score": score, **cells_of(measures)} for level, score, measures in rows])


def cells_of(measures: Mapping[str, float]) -> dict[str, str]:
    """Return measures as text for the cells of a table, the AUROC with its standard error."""
    cells = {name: f"{value:,}" if name in ("wrong", "right") else f"{value:.3f}" for name, value in measures.items()}
    cells["AUROC"] += f" ± {auroc_error(measures):.3f}"
    return cells
