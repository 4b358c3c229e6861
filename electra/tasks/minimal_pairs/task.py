"""The command `electra pairs`: scores of the sentences of minimal pairs by networks, without training."""

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from electra.base.command_line import CommandLine, write_yaml
from electra.base.console import environment, setup_logging
from electra.base.files import (
    OPTIONS_TITLE,
    check_results,
    expand,
    making_folder,
    may_be_hub_id,
    write_file,
    write_json,
)
from electra.core.backbones import BACKBONES
from electra.core.configuration import CAUSAL_KEY, longest_text
from electra.core.errors import UserError
from electra.core.networks import is_detector
from electra.finetuning.data import Array
from electra.finetuning.evaluation import model_name
from electra.model.inference import run_corruption
from electra.model.pretrained import Networks, load_networks
from electra.report.blocks import write_report
from electra.report.eval_results import HubData, HubScore, write_eval_results
from electra.report.results import ENVIRONMENT_NAME
from electra.runtime.device import computing, keep_freed_memory, prepare_networks
from electra.runtime.threads import default_threads
from electra.tasks.minimal_pairs.accuracies import margin, outcomes_of, summarize
from electra.tasks.minimal_pairs.data import MinimalPairArguments, Pair, load_pairs
from electra.tasks.minimal_pairs.report import BASELINES, PAIR_RESULTS_NAME, Accuracies, PairResults, report_pairs
from electra.tasks.minimal_pairs.scores import (
    Scorer,
    SentenceBatch,
    baseline_scores,
    encode_sentences,
    sentence_lengths,
)
from electra.tokenizers.unknown import UnknownTokens

logger = logging.getLogger(__name__)


# ---- the command


PAIRS_GROUPS = (MinimalPairArguments,)
"""Groups of options of `electra pairs`."""


def main(argv: list[str] | None = None) -> None:
    """Run `electra pairs` with words, by default those of `sys.argv`."""
    setup_logging()
    command_line = CommandLine(PAIRS_GROUPS, "Score minimal pairs of sentences, such as BLiMP, without training.")
    parsed = command_line.parse(argv)
    (args,) = parsed.groups
    keep_freed_memory(use_cpu=args.use_cpu)
    score_pairs(args, parsed.record)


# ---- scoring pairs

PAIRS_NAME = "pair_scores.jsonl"
"""File of an evaluation with a line for each pair and its scores, in the order of the data."""


def make_scorer(args: MinimalPairArguments, networks: Networks) -> Scorer:
    """Return the scorer of a pair of networks, and put them on the device; P of scores.py is that of their run.

    The score `corrected` is not possible for a run with --disallow_correct: its derivation does not hold.
    """
    corruption = run_corruption(networks)
    objective = corruption.objective_with_values()
    judges_chosen = objective.finds_replaced and not objective.at_all_tokens
    chosen_share = 1.0 if judges_chosen else objective.mlm_probability
    discriminator = networks.discriminator
    generator = networks.generator
    possible = []
    if is_detector(discriminator):
        possible.append("electric" if networks.is_electric else "discriminator")
    else:  # a language model
        generator = discriminator
        discriminator = None
    if generator is not None and getattr(generator.config, CAUSAL_KEY, False):
        possible.append("causal")
    elif generator is not None:
        if objective.answers_probability and "discriminator" in possible and not objective.disallow_correct:
            possible.append("corrected")
        possible.append("pll")
    prepare_networks(*filter(None, (discriminator, generator)), use_cpu=args.use_cpu)
    return Scorer(
        discriminator,
        generator,
        networks.tokenizer.mask_token_id,
        args.per_device_eval_batch_size,
        chosen_share * (objective.mlm_replacement_probability + objective.mlm_random_probability),
        objective.temperature,
        possible,
    )


def check_lengths(pairs: Sequence[Pair], batches: Sequence[SentenceBatch], scorer: Scorer) -> None:
    """Raise a UserError if a sentence has more tokens than a network has positions."""
    longest = batches[-1]
    length = longest.ids.shape[1]
    for network in filter(None, (scorer.discriminator, scorer.generator)):
        config = network.config
        limit = getattr(config, "max_position_embeddings", length)
        if config.model_type in BACKBONES:
            limit = longest_text(config)
        if length > limit:
            place = pairs[longest.texts[0] // 2].place
            raise UserError(f"{place} has {length} tokens, more than the {limit} positions of the model; shorten it")


def write_pairs(path: Path, pairs: Sequence[Pair], scores: dict[str, Array]) -> None:
    """Write a line of JSON for each pair: its sentences, its paradigm, and its scores as [good, bad].

    Args:
        scores: name of a score -> its values for good and bad sentences in turns, (2 N,).
    """
    lines = []
    for row, pair in enumerate(pairs):
        pair_scores = slice(2 * row, 2 * row + 2)
        line = {
            "sentence_good": pair.good,
            "sentence_bad": pair.bad,
            "UID": pair.paradigm,
            "scores": {name: values[pair_scores].round(4).tolist() for name, values in scores.items()},
        }
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    write_file("".join(lines).encode(), path)


def write_predictions(folder: Path, pairs: Sequence[Pair], scores: Mapping[str, Array]) -> None:
    """Write predictions_SCORE.json, for BabyLM's evaluation: the sentence of each pair that has the higher score.

    BabyLM's scorer counts no half pairs, so of tied pairs every second one has the acceptable sentence.

    Args:
        scores: see `write_pairs`.
    """
    for name, values in scores.items():
        predictions: dict[str, dict[str, list[dict[str, str]]]] = {}
        ties = 0
        for pair, good, bad in zip(pairs, values[0::2], values[1::2], strict=True):
            ties += good == bad
            is_right = good > bad or (good == bad and ties % 2 == 0)
            rows = predictions.setdefault(pair.paradigm, {"predictions": []})["predictions"]
            rows.append({"id": f"{pair.paradigm}_{len(rows)}", "pred": pair.good if is_right else pair.bad})
        write_json(predictions, folder / f"predictions_{name}.json")


def hub_scores_of_pairs(
    args: MinimalPairArguments, pairs: Sequence[Pair], scores: Mapping[str, Accuracies]
) -> list[HubScore]:
    """Return the overall accuracies in the form of the Hub; [] for files, and for a part of a data set.

    Args:
        scores: accuracies by name of the score.
    """
    if args.max_pairs is not None or not may_be_hub_id(args.data) or expand(args.data).exists():
        return []
    data = HubData(args.data, args.dataset_config_name)
    count = len({pair.paradigm for pair in pairs})
    hub_scores = []
    for name, accuracies in scores.items():
        overall = accuracies["overall"]
        error = overall["standard_error"]
        notes = f"accuracy of the score {name}, a fraction, mean of {count} paradigms, {len(pairs)} pairs"
        notes += "" if error is None else f", standard error {error:.4f}"
        value = round(overall["accuracy"], 4)
        hub_scores.append(HubScore("pairs", "minimal pairs", data, name, "accuracy", "accuracy", value, notes, True))
    return hub_scores


def score_pairs(args: MinimalPairArguments, record: Mapping[str, object]) -> None:
    """Score the pairs, write the results and print their report.

    Args:
        record: options to be written for --config.
    Raises:
        UserError: networks or pairs cannot be read, or a score is not possible with the networks.
    """
    networks = load_networks(args.pretrain_path, args.generator, of_any_type=True)
    scorer = make_scorer(args, networks)
    names = args.score or scorer.possible
    if impossible := set(names) - set(scorer.possible):
        raise UserError(
            f"--score {' '.join(impossible)} is not possible with {args.pretrain_path}, only "
            f"{' '.join(scorer.possible)}; corrected and pll need a --generator, electric an Electric, "
            "causal a causal language model"
        )
    about = {
        "model": args.pretrain_path,
        "generator": args.generator,
        "data": args.data,
        "dataset_config_name": args.dataset_config_name,
        "score": args.score,
        "max_pairs": args.max_pairs,
    }
    folder = expand(args.output_dir) / (args.experiment_name or f"blimp_{model_name(args.pretrain_path)}")
    check_results(folder, PAIR_RESULTS_NAME, about)
    pairs = load_pairs(args.data, args.max_pairs, args.dataset_config_name, args.columns, args.delimiter, args.quoting)
    texts = [text for pair in pairs for text in (pair.good, pair.bad)]
    batches = encode_sentences(texts, networks.tokenizer)
    unknown_tokens = UnknownTokens()
    for sentences in batches:
        unknown_tokens.add(sentences.ids, networks.tokenizer)
    unknown_tokens.warn("the sentences")
    check_lengths(pairs, batches, scorer)
    logger.info("model          %s, %d pairs, scores: %s", networks.source, len(pairs), ", ".join(names))
    network: Any = scorer.discriminator or scorer.generator
    with making_folder(folder), computing(network.device, default_threads()):
        scores = scorer.scores(batches, names)
    counts = sentence_lengths(batches)
    outcomes = {name: outcomes_of(values) for name, values in scores.items()}
    per_token = {name: outcomes_of(values / np.maximum(counts, 1)) for name, values in scores.items()}
    baseline_outcomes = dict(zip(BASELINES, map(outcomes_of, baseline_scores(batches)), strict=True))
    results: PairResults = {
        "scores": {name: summarize(pairs, values) for name, values in outcomes.items()},
        "per_token": {name: summarize(pairs, values) for name, values in per_token.items()},
        "baselines": {name: summarize(pairs, values) for name, values in baseline_outcomes.items()},
        "margins": {name: margin(pairs, values, baseline_outcomes) for name, values in outcomes.items()},
        "unequal_share": float((counts[0::2] != counts[1::2]).mean()),
    }
    # The results come first, because they identify the folder.
    written_results = {**about, "replaced_share": scorer.replaced_share, "pairs": len(pairs), **results}
    write_json(written_results, folder / PAIR_RESULTS_NAME)
    write_pairs(folder / PAIRS_NAME, pairs, scores)
    write_predictions(folder, pairs, scores)
    write_eval_results(hub_scores_of_pairs(args, pairs, results["scores"]), folder)
    write_yaml(record, folder / "config.yaml", f"{OPTIONS_TITLE}; --config reads them back.")
    write_json({"kind": "minimal_pairs", **environment()}, folder / ENVIRONMENT_NAME)
    write_report(report_pairs([folder]), folder)
