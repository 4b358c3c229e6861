"""What an ELECTRA makes of a sentence: what is masked, what the generator puts there, what looks replaced.

    python -m electra.inspect output/small_owt "the chef cooked the meal"
    python -m electra.inspect google/electra-small-discriminator "the chef ate the meal"
    python -m electra.inspect google/electra-base-discriminator --generator google/electra-base-generator "a sentence"

A discriminator without generator judges the text as it is given: replace words yourself.
"""

import json
import logging
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging as transformers_logging

from electra.backbones import BACKBONES
from electra.console import setup_logging
from electra.errors import Parser, UserError, run_script
from electra.files import is_encodable
from electra.model.configuration import ElectraPretrainingConfig, longest_text
from electra.model.modeling import ElectraForJointPretraining
from electra.model.networks import class_of, is_detector
from electra.model.pretrained import locate_model
from electra.model.probe import Corruption, probe, to_samples
from electra.samples import Sample, to_terminal
from electra.tokenization import check_tokenizer, load_tokenizer

logger = logging.getLogger("electra.inspect")


class Networks(NamedTuple):
    """What is looked at. Either network may be missing, not both."""

    generator: PreTrainedModel | None
    discriminator: PreTrainedModel | None
    tokenizer: PreTrainedTokenizerBase
    joint: ElectraPretrainingConfig | None
    """How the pair was trained, if that is known."""


def load_networks(checkpoint: str, generator: str | None = None) -> Networks:
    """The networks that a user names.

    Args:
        checkpoint: a run folder (its exported networks, else its newest whole checkpoint), a checkpoint of the joint
            model, an exported folder, or a Hub id; of an ELECTRA, with its head.
        generator: the same of a generator; in place of the one that belongs to the checkpoint.
    Raises:
        UserError: nothing of the kind is there, or it has no head, or the vocabularies differ.
    """
    source = locate_model(checkpoint)
    tokenizer = load_tokenizer(source)
    check_tokenizer(tokenizer, source)
    joint = None
    if _config(source).get("model_type") == ElectraPretrainingConfig.model_type:
        model = _load(ElectraForJointPretraining, source)
        joint, small, large = model.config, model.generator, model.discriminator
    else:
        large = _load_network(source)
        beside = Path(source).parent / "generator"
        is_run = Path(checkpoint).is_dir() and Path(source) != Path(checkpoint)  # named as a whole
        small = _load_network(str(beside)) if is_run and beside.is_dir() and generator is None else None
    if generator is not None:
        small = _load_network(locate_model(generator))
    if small is not None and is_detector(small):
        raise UserError(f"{generator} is a discriminator, not a generator; name a masked language model")
    networks = [network for network in (small, large) if network is not None]
    sizes = sorted({network.config.vocab_size for network in networks})
    if len(sizes) > 1:
        raise UserError(f"the vocabularies differ ({sizes[0]:,} and {sizes[1]:,} tokens); name networks of one pair")
    return Networks(small, large, tokenizer, joint)


def inspect_texts(
    networks: Networks,
    texts: list[str],
    *,
    seed: int = 0,
    mlm_probability: float | None = None,
) -> list[Sample]:
    """A sample for each text; the same seed gives the same masks and replacements.

    Args:
        networks: what to ask.
        texts: each not empty, no longer than the position table.
        seed: of masks and samples.
        mlm_probability: share of the tokens that is chosen; not given: as the pair was trained, else 0.15.
    Raises:
        UserError: a text has no tokens, or too many.
    """
    generator, discriminator, tokenizer, joint = networks
    config = joint or ElectraPretrainingConfig()
    network = discriminator or generator
    assert network is not None
    corruption = Corruption(
        mask_token_id=tokenizer.mask_token_id,
        special_token_ids=tokenizer.all_special_ids,
        mlm_probability=config.mlm_probability if mlm_probability is None else mlm_probability,
        mlm_replacement_probability=config.mlm_replacement_probability,
        mlm_random_probability=config.mlm_random_probability,
        sampling_temperature=config.sampling_temperature,
        disallow_correct=config.disallow_correct,
    )
    samples = []
    noise = torch.Generator().manual_seed(seed)
    for text in texts:
        if not is_encodable(text):
            raise UserError(f"the text {text!r} is no UTF-8; write it otherwise")
        encoded = tokenizer(text, return_tensors="pt", return_token_type_ids=True)
        length, longest = encoded["input_ids"].size(1), longest_text(network.config)
        if encoded["input_ids"].size(1) <= tokenizer.num_special_tokens_to_add():
            raise UserError(f"the text {text!r} has no tokens; give a sentence")
        if length > longest:
            raise UserError(f"a text has {length} tokens, more than the {longest} positions of the model; shorten it")
        batch = {name: encoded[name] for name in ("input_ids", "attention_mask", "token_type_ids")}
        batch["mask_noise"] = torch.rand(1, length, 2, generator=noise)
        batch["sample_noise"] = torch.rand(1, length, generator=noise)
        probed = probe(generator, discriminator, batch, corruption)
        samples += to_samples(probed, tokenizer)
    return samples


def _config(source: str) -> dict[str, Any]:
    path = Path(source) / "config.json"
    try:
        values = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {error}") from error
    return values if isinstance(values, dict) else {}


def _load_network(source: str) -> Any:
    """A discriminator or a generator, by what its configuration says it is; one that does not say is the former."""
    try:
        config = AutoConfig.from_pretrained(source)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot open {source}: {str(error).splitlines()[0]}") from error
    if config.model_type not in BACKBONES:
        raise UserError(
            f"{source} is of type {config.model_type}; name a model with its head, of type {', '.join(BACKBONES)}"
        )
    return _load(class_of(config), source)


def _load(model_class: type[PreTrainedModel], source: str) -> Any:
    """A model with all of its weights: a head that is missing would be drawn at random."""
    verbosity = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    try:
        model, info = model_class.from_pretrained(
            source,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # they are reported, and refused below
        )
    except SafetensorError as error:
        raise UserError(f"{source}: its weights are damaged or incomplete: {error}") from error
    except (OSError, ValueError, RuntimeError) as error:
        raise UserError(f"cannot open {source}: {str(error).splitlines()[0]}") from error
    finally:
        transformers_logging.set_verbosity(verbosity)
    ignored = model._keys_to_ignore_on_save or set()
    missing = sorted(set(info["missing_keys"]) - set(ignored))
    if missing:
        raise UserError(f"{source} has no {missing[0]}; name a model with all of its weights and its head")
    for name, stored, built in sorted(info["mismatched_keys"]):
        sizes = f"{tuple(stored)}, and its config.json says {tuple(built)}"
        raise UserError(f"{source} has {name} of size {sizes}; its files are not of one model")
    return model.eval()


def main(argv: list[str] | None = None) -> None:
    parser = Parser(
        prog="python -m electra.inspect", description="Show what an ELECTRA masks, replaces and finds suspicious."
    )
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="run, checkpoint, exported folder or Hub id")
    parser.add_argument("texts", nargs="+", metavar="TEXT", help="sentences")
    parser.add_argument("--generator", metavar="PATH", help="a generator to replace words with")
    parser.add_argument("--seed", type=int, default=0, help="of masks and samples")
    parser.add_argument("--mlm_probability", type=float, help="share of the tokens to replace, in (0, 1)")
    arguments = parser.parse_args(argv)
    setup_logging()
    share = arguments.mlm_probability
    if share is not None and not 0 < share < 1:
        raise UserError(f"--mlm_probability {share} is not possible: it must be in (0, 1)")
    if not 0 <= arguments.seed < 2**63:
        raise UserError(f"--seed {arguments.seed} is not possible: it must be in [0, 2^63)")
    networks = load_networks(arguments.checkpoint, arguments.generator)
    if networks.discriminator is not None and is_detector(networks.discriminator) and networks.generator is None:
        logger.info("no generator: the text is judged as it is given; --generator PATH names one\n")
    samples = inspect_texts(networks, arguments.texts, seed=arguments.seed, mlm_probability=share)
    colours = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    logger.info("\n\n".join(to_terminal(sample, colours=colours) for sample in samples))


if __name__ == "__main__":
    run_script(main)
