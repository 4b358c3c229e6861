"""Zero-shot grammar: which sentence of each minimal pair do the networks score higher? No training."""

import logging
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from electra.backbones import BACKBONES
from electra.cli import CommandLine, write_yaml
from electra.config import NOT_EMPTY, POSITIVE, UP_TO_ONE, Options, check, option
from electra.finetuning.evaluation import model_name
from electra.io.console import environment, format_seconds, setup_logging
from electra.io.errors import UserError
from electra.io.files import expand, holds_files, read_options, write_json
from electra.model.configuration import longest_text
from electra.model.networks import is_detector
from electra.model.pretrained import STEP_KEY, Networks, load_networks
from electra.report.results import ENVIRONMENT_NAME
from electra.runtime.cpu import tune_networks, tune_process
from electra.tasks.minimal_pairs.data import BLIMP, Pair, load_pairs
from electra.tasks.minimal_pairs.report import RESULTS_NAME, summarize, terminal_table, write_report
from electra.tasks.minimal_pairs.scores import NEEDS, Encoded, Scorer, cost, encode_sentences, seconds_per_token

logger = logging.getLogger(__name__)

DEFAULT_SCORES = ("electric", "discriminator", "corrected", "pll")


@dataclass
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
        "A .jsonl file with sentence_good and sentence_bad, a folder of such files, or a data set on the Hub.",
        NOT_EMPTY,
    )
    score: list[str] = option([], f"Scores: {', '.join(NEEDS)}. Default: {', '.join(DEFAULT_SCORES)} if possible.")
    max_pairs: int | None = option(None, "Maximum pairs of each paradigm, the first ones. Default: all.", POSITIVE)
    mlm_probability: float | None = option(
        None,
        "Share of the tokens that were chosen in pre-training, for the corrected scores. Default: that of the run, "
        "0.15 if it is unknown.",
        UP_TO_ONE,
    )
    output_dir: str = option("output", "Parent folder; the results are written to output_dir/experiment_name.")
    experiment_name: str | None = option(None, "Name of the folder. Default: blimp and the name of the model.")
    per_device_eval_batch_size: int = option(256, "Sentences per batch.", POSITIVE)
    use_cpu: bool = option(False, "Use the CPU even if there is an accelerator.")
    plan: bool = option(False, "Print what is computed and an estimate of the time; score and write nothing.")
    disable_tqdm: bool = option(False, "Hide the progress bar.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self.pretrain_path != "", "pretrain_path", self.pretrain_path, "a run, a model folder or a Hub id")
        for name in self.score:
            check(name in NEEDS, "score", name, f"one of {', '.join(NEEDS)}")
        folder = self.experiment_name or "blimp"
        is_plain = folder != ".." and Path(folder).name == folder
        check(is_plain, "experiment_name", folder, "a plain folder name, without slashes")


GROUPS = (MinimalPairArguments,)


def chosen_share(args: MinimalPairArguments, networks: Networks) -> float:
    """P of scores.py: that of the checkpoint or of the config.yaml of the run; 1 for `electra_15`."""
    if args.mlm_probability is not None:
        return args.mlm_probability
    values: dict[str, Any] = {}
    if networks.joint is not None:
        values = networks.joint.to_dict()
    elif Path(networks.source).is_dir():
        values = read_options(Path(networks.source).parent) or {}
    return 1.0 if values.get("objective") == "electra_15" else float(values.get("mlm_probability", 0.15))


def chosen_scores(
    args: MinimalPairArguments, has_discriminator: bool, is_electric: bool, has_language_model: bool
) -> list[str]:
    """The requested scores, or by default those that the networks allow."""

    def missing(name: str) -> str:
        if "replaced" in NEEDS[name] and (not has_discriminator or is_electric != (name == "electric")):
            kind = "an Electric" if name == "electric" else "a discriminator that is no Electric"
            return f"{kind}; name one with --pretrain_path"
        if NEEDS[name] != ("replaced",) and not has_language_model:
            return "a generator; name one with --generator"
        return ""

    for name in args.score:
        if missing(name):
            raise UserError(
                f"--score {name} is not possible with {args.pretrain_path} alone: it needs {missing(name)}"
            )
    return list(dict.fromkeys(args.score)) or [name for name in DEFAULT_SCORES if not missing(name)]


def check_sentences(
    pairs: list[Pair], encoded: Encoded, networks: list[PreTrainedModel], tokenizer: PreTrainedTokenizerBase
) -> None:
    """Refuse sentences that are longer than the networks' positions, have special tokens, or no tokens at all."""
    limit, special = tokenizer.model_max_length, {*tokenizer.all_special_ids} - {tokenizer.unk_token_id}
    for config in (network.config for network in networks):
        is_known = config.model_type in BACKBONES
        limit = min(limit, longest_text(config) if is_known else getattr(config, "max_position_embeddings", limit))
    lengths = np.array([group.ids.shape[1] for group in encoded.groups])[encoded.place[:, 0]]
    if lengths.max() > limit:
        row = int(lengths.argmax())
        raise UserError(
            f"{pairs[row // 2].place} has a sentence of {lengths[row]} tokens, more than the {limit} positions of the "
            "model; shorten or remove it"
        )
    for row, (group, place) in enumerate(encoded.place):
        ids = encoded.groups[group].ids[place][encoded.groups[group].is_text[place]]
        problem = "leaves no token of" if not len(ids) else "finds a special token in"
        if not len(ids) or not special.isdisjoint(ids.tolist()):
            text = pairs[row // 2][row % 2]
            raise UserError(f"{pairs[row // 2].place}: the tokenizer {problem} {text!a:.60}; remove the pair")


def main(argv: list[str] | None = None) -> None:
    setup_logging()
    command_line = CommandLine(GROUPS, "Score minimal pairs of sentences, such as BLiMP, without training.")
    (args,) = command_line.parse(argv)
    folder = expand(args.output_dir) / (args.experiment_name or f"blimp_{model_name(args.pretrain_path)}")
    if folder.exists() and not (folder / RESULTS_NAME).is_file() and (not folder.is_dir() or holds_files(folder)):
        raise UserError(f"{folder} contains other files; choose another --experiment_name")
    networks = load_networks(args.pretrain_path, args.generator, of_any_type=True)
    has_discriminator = is_detector(networks.discriminator)
    language_model = networks.generator if has_discriminator else networks.discriminator
    names = chosen_scores(args, has_discriminator, networks.is_electric, language_model is not None)
    pairs = load_pairs(args.data, args.max_pairs)
    encoded = encode_sentences([text for pair in pairs for text in (pair.good, pair.bad)], networks.tokenizer)
    used = [network for network in {networks.discriminator, language_model} if network is not None]
    check_sentences(pairs, encoded, used, networks.tokenizer)

    accelerator = None if args.use_cpu else torch.accelerator.current_accelerator(check_available=True)
    device = accelerator or torch.device("cpu")
    tune_process(device)
    for network in used:
        network.to(device).eval()
        tune_networks(network)
    share = chosen_share(args, networks)
    scorer = Scorer(
        networks.discriminator if has_discriminator else None,
        language_model,
        networks.tokenizer.mask_token_id,
        args.per_device_eval_batch_size,
        share,
    )
    needs = sorted({need for name in names for need in NEEDS[name]})
    rates = {need: seconds_per_token(scorer, need, encoded) for need in needs}
    tokens = {need: sum(cost(need, group) for group in encoded.groups) for need in needs}
    total = sum(rates[need] * tokens[need] for need in needs)
    step = getattr(networks.discriminator.config, STEP_KEY, None)
    logger.info("model          %s%s", args.pretrain_path, "" if step is None else f", step {step:,} of pre-training")
    counts = Counter(pair.paradigm for pair in pairs)
    sentences = sum(len(group.ids) for group in encoded.groups)
    logger.info("pairs          %d of %d paradigms, %d different sentences", len(pairs), len(counts), sentences)
    logger.info("scores         %s", ", ".join(names))
    parts = [f"{need} {tokens[need] / 1e6:.1f} M, {format_seconds(rates[need] * tokens[need])}" for need in needs]
    logger.info("time           about %s on %s (tokens: %s)", format_seconds(total), device.type, "; ".join(parts))
    if args.plan:
        return
    folder.mkdir(parents=True, exist_ok=True)  # an error before the work, not behind it
    form = "{percentage:3.0f}% |{bar}| {elapsed}<{remaining}"
    with tqdm(total=total, disable=args.disable_tqdm or None, bar_format=form, leave=False) as bar:
        found = scorer.scores(encoded, names, lambda need, count: bar.update(rates[need] * count))
    results = {}
    for name, values in found.items():
        good, bad = values[0::2], values[1::2]
        results[name] = summarize(pairs, np.where(good == bad, 0.5, (good > bad).astype(np.float64)))
    about = {"model": args.pretrain_path, "source": networks.source, "generator": args.generator}
    write_json(
        {**about, "data": args.data, "pairs": len(pairs), "mlm_probability": share, "scores": results},
        folder / RESULTS_NAME,  # first, because it identifies the folder
    )
    write_yaml(command_line.effective, folder / "config.yaml", "Effective options; --config reads them back.")
    write_json({"kind": "minimal_pairs", **environment()}, folder / ENVIRONMENT_NAME)
    paths = write_report([folder], folder)
    logger.info("\n%s\n", terminal_table([folder]))
    for path in (folder / RESULTS_NAME, *paths):
        logger.info("%s", path)
