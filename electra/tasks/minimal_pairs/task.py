"""Zero-shot grammar: which sentence of each minimal pair do the networks score higher? No training."""

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from electra.backbones import BACKBONES
from electra.finetuning.evaluation import model_name
from electra.io.console import environment
from electra.io.errors import UserError
from electra.io.files import expand, holds_files, write_file, write_json
from electra.model.configuration import ElectraPretrainingConfig, longest_text
from electra.model.networks import is_detector
from electra.model.pretrained import STEP_KEY, Networks, load_networks
from electra.model.probe import run_corruption
from electra.options import write_yaml
from electra.report.blocks import text_table, write_report
from electra.report.results import ENVIRONMENT_NAME
from electra.runtime.cpu import tune_networks, tune_process
from electra.tasks.minimal_pairs.data import Pair, load_pairs
from electra.tasks.minimal_pairs.options import OF_DISCRIMINATOR, OF_LANGUAGE_MODEL, SCORES, MinimalPairArguments
from electra.tasks.minimal_pairs.report import RESULTS_NAME, read_results, report, summarize
from electra.tasks.minimal_pairs.scores import (
    Encoded,
    Scorer,
    Values,
    encode_sentences,
)

logger = logging.getLogger(__name__)

PAIRS_NAME = "pair_scores.jsonl"
"""Each pair with its scores, in the order of the data."""


@dataclass
class Judges:
    """The networks of a command by what they can do; `discriminator` may be an Electric's."""

    discriminator: PreTrainedModel | None
    language_model: PreTrainedModel | None
    is_electric: bool
    corruption: ElectraPretrainingConfig
    """How the run of the networks corrupted text."""

    @property
    def networks(self) -> list[PreTrainedModel]:
        return [network for network in (self.discriminator, self.language_model) if network is not None]

    def generator_source(self, networks: Networks) -> str | None:
        """Where the generator of a run or checkpoint is; None without one."""
        if self.discriminator is None or self.language_model is None:
            return None
        return networks.source if networks.joint is not None else str(Path(networks.source).parent / "generator")

    def missing(self, score: str) -> str:
        """What the networks lack for a score; "" if nothing."""
        is_fitting = self.discriminator is not None and self.is_electric == (score == "electric")
        if score in OF_DISCRIMINATOR and not is_fitting:
            kind = "an Electric" if score == "electric" else "a discriminator that is no Electric"
            return f"{kind}; name one with --pretrain_path"
        if score in OF_LANGUAGE_MODEL and self.language_model is None:
            return "a generator; name one with --generator"
        return ""

    def replaced_share(self, mlm_probability: float | None) -> float:
        """P of scores.py; `mlm_probability` counts in place of the run's share of chosen tokens."""
        chosen = self.corruption.mlm_probability
        if mlm_probability is not None:
            chosen = mlm_probability
        elif self.corruption.objective == "electra_15":
            chosen = 1.0
        return chosen * (self.corruption.mlm_replacement_probability + self.corruption.mlm_random_probability)


def judges_of(networks: Networks) -> Judges:
    corruption = run_corruption(networks)
    if is_detector(networks.discriminator):
        return Judges(networks.discriminator, networks.generator, networks.is_electric, corruption)
    return Judges(None, networks.discriminator, False, corruption)


def chosen_scores(args: MinimalPairArguments, judges: Judges) -> list[str]:
    """The requested scores, or by default those that the networks allow.

    The derivation of `corrected` does not hold for samples that were not drawn from the generator's own distribution,
    so there it is not a default.
    """
    for name in args.score:
        if missing := judges.missing(name):
            raise UserError(f"--score {name} is not possible with {args.pretrain_path} alone: it needs {missing}")
    if args.score:
        return list(dict.fromkeys(args.score))
    possible = [name for name in SCORES if not judges.missing(name)]
    if judges.corruption.sampling_temperature != 1 or judges.corruption.disallow_correct:
        return [name for name in possible if name != "corrected"]
    return possible


def check_sentences(
    pairs: list[Pair], encoded: Encoded, networks: list[PreTrainedModel], tokenizer: PreTrainedTokenizerBase
) -> None:
    """Refuse sentences that are longer than the networks' positions, have special tokens, or no tokens at all."""
    limit = tokenizer.model_max_length
    special = {*tokenizer.all_special_ids} - {tokenizer.unk_token_id}
    for config in (network.config for network in networks):
        is_known = config.model_type in BACKBONES
        limit = min(limit, longest_text(config) if is_known else getattr(config, "max_position_embeddings", limit))
    for row, (group, place) in enumerate(encoded.place):
        where = pairs[row // 2].place
        length = encoded.groups[group].ids.shape[1]
        if length > limit:
            raise UserError(
                f"{where} has a sentence of {length} tokens, more than the {limit} positions of the model; shorten or "
                "remove it"
            )
        ids = encoded.groups[group].ids[place][encoded.groups[group].is_text[place]]
        problem = "leaves no token of" if not len(ids) else "finds a special token in"
        if not len(ids) or not special.isdisjoint(ids.tolist()):
            text = pairs[row // 2][row % 2]
            raise UserError(f"{where}: the tokenizer {problem} {text!a:.60}; remove the pair")


def fingerprint(networks: Sequence[PreTrainedModel], pairs: Sequence[Pair]) -> str:
    """12 hexadecimal digits of the weights and of the sentences."""
    digest = hashlib.sha256(json.dumps([pair[:2] for pair in pairs]).encode())
    for network in networks:
        for value in network.state_dict().values():
            digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()[:12]


def check_folder(folder: Path, about: dict[str, Any]) -> None:
    """Refuse a folder that this command did not write, or that holds results of other networks or other pairs."""
    if not folder.exists() or (folder.is_dir() and not holds_files(folder)):
        return
    if not (folder / RESULTS_NAME).is_file():
        raise UserError(f"{folder} contains other files; choose another --experiment_name")
    found = read_results(folder)
    if found.get("fingerprint") != about["fingerprint"]:
        raise UserError(
            f"{folder} holds results of other networks or sentences, {found.get('model')} on {found.get('data')}; "
            "choose another --experiment_name"
        )


def write_pairs(path: Path, pairs: Sequence[Pair], scores: dict[str, Values]) -> None:
    """Write a line of JSON for each pair: its sentences, its paradigm, and its scores as [good, bad]."""
    lines = []
    for row, pair in enumerate(pairs):
        of_pair = {name: values[2 * row : 2 * row + 2].round(4).tolist() for name, values in scores.items()}
        line = {"sentence_good": pair.good, "sentence_bad": pair.bad, "UID": pair.paradigm, "scores": of_pair}
        lines.append(json.dumps(line, ensure_ascii=False))
    write_file(("\n".join(lines) + "\n").encode(), path)


def score_pairs(args: MinimalPairArguments, record: dict[str, Any]) -> None:
    """Score the pairs and write the results; `record` has the options to be written for --config."""
    networks = load_networks(args.pretrain_path, args.generator, of_any_type=True)
    judges = judges_of(networks)
    names = chosen_scores(args, judges)
    pairs = load_pairs(args.data, args.max_pairs)
    encoded = encode_sentences([text for pair in pairs for text in (pair.good, pair.bad)], networks.tokenizer)
    check_sentences(pairs, encoded, judges.networks, networks.tokenizer)
    about = {
        "model": args.pretrain_path,
        "source": networks.source,
        "generator": args.generator or judges.generator_source(networks),
        "data": args.data,
        "pairs": len(pairs),
        "fingerprint": fingerprint(judges.networks, pairs),
        "replaced_share": judges.replaced_share(args.mlm_probability),
    }
    folder = expand(args.output_dir) / (args.experiment_name or f"blimp_{model_name(args.pretrain_path)}")
    check_folder(folder, about)
    folder.mkdir(parents=True, exist_ok=True)  # an error before the work, not behind it

    step = getattr(networks.discriminator.config, STEP_KEY, None)
    logger.info("model          %s%s", args.pretrain_path, "" if step is None else f", step {step:,} of pre-training")
    sentences = sum(len(group.ids) for group in encoded.groups)
    paradigms = len({pair.paradigm for pair in pairs})
    logger.info("pairs          %d of %d paradigms, %d different sentences", len(pairs), paradigms, sentences)
    logger.info("scores         %s", ", ".join(names))
    scorer = make_scorer(args, judges, networks.tokenizer.mask_token_id)
    with tqdm(total=sentences, disable=args.disable_tqdm or None, unit=" sentences", leave=False) as bar:
        scores = scorer.scores(encoded, names, bar.update)

    results = {}
    for name, values in scores.items():
        good, bad = values[0::2], values[1::2]
        results[name] = summarize(pairs, np.where(good == bad, 0.5, (good > bad).astype(np.float64)))
    # The results come first, because they identify the folder.
    content = json.dumps({**about, "scores": results}, indent=2, ensure_ascii=False) + "\n"
    write_file(content.encode(), folder / RESULTS_NAME)
    write_pairs(folder / PAIRS_NAME, pairs, scores)
    write_yaml(record, folder / "config.yaml", "Effective options; --config reads them back.")
    write_json({"kind": "minimal_pairs", **environment()}, folder / ENVIRONMENT_NAME)
    found = report([folder])
    paths = write_report(found, folder)
    logger.info("\n%s\n", text_table(found.table.header, found.table.rows))
    for path in (folder / RESULTS_NAME, folder / PAIRS_NAME, *paths):
        logger.info("%s", path)


def make_scorer(args: MinimalPairArguments, judges: Judges, mask_token_id: int) -> Scorer:
    """The scorer, with its networks on the device."""
    accelerator = None if args.use_cpu else torch.accelerator.current_accelerator(check_available=True)
    device = accelerator or torch.device("cpu")
    tune_process(device)
    for network in judges.networks:
        network.to(device).eval()
        tune_networks(network)
    share = judges.replaced_share(args.mlm_probability)
    batch_size = args.per_device_eval_batch_size
    return Scorer(judges.discriminator, judges.language_model, mask_token_id, batch_size, share)
