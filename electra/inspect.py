"""Show what an ELECTRA masks in a sentence, what its generator samples, and which tokens look replaced.

    electra inspect output/small_owt "the chef cooked the meal"
    electra inspect google/electra-small-discriminator "the chef ate the meal"
    electra inspect google/electra-base-discriminator --generator google/electra-base-generator "a sentence"

Without a generator, a discriminator judges the text as given: replace words yourself. For an Electric it shows the
log probability of each token given the others, from one pass.
"""

import logging

import torch

from electra.io.console import setup_logging
from electra.io.errors import Parser, UserError
from electra.io.files import is_encodable
from electra.model.configuration import longest_text
from electra.model.networks import is_detector
from electra.model.pretrained import Networks, load_networks
from electra.model.probe import probe, run_corruption, to_samples
from electra.samples import Sample, to_terminal

logger = logging.getLogger("electra.inspect")


def inspect_texts(
    networks: Networks, texts: list[str], *, seed: int = 0, mlm_probability: float | None = None
) -> list[Sample]:
    """One sample per text; the same seed gives the same masks and replacements.

    Text is corrupted as in the run of the networks, with `mlm_probability` in place of its share of masked tokens.

    Raises:
        UserError: a text cannot be encoded, has no tokens or too many.
    """
    config = run_corruption(networks)
    if mlm_probability is not None:
        config.mlm_probability = mlm_probability
    tokenizer = networks.tokenizer
    longest = longest_text(networks.discriminator.config)
    samples = []
    noise = torch.Generator().manual_seed(seed)
    for text in texts:
        if not is_encodable(text):
            raise UserError(f"the text {text!a} is not UTF-8; give a sentence in UTF-8")
        encoded = tokenizer(text, return_tensors="pt", return_token_type_ids=True)
        length = encoded["input_ids"].size(1)
        if length <= tokenizer.num_special_tokens_to_add():
            raise UserError(f"the text {text!r} has no tokens; give a sentence")
        if length > longest:
            raise UserError(f"a text has {length} tokens, more than the {longest} positions of the model; shorten it")
        batch = {name: encoded[name] for name in ("input_ids", "attention_mask", "token_type_ids")}
        batch["mask_noise"] = torch.rand(1, length, 2, generator=noise)
        batch["sample_noise"] = torch.rand(1, length, generator=noise)
        samples += to_samples(probe(networks.generator, networks.discriminator, batch, config), tokenizer)
    return samples


def main(argv: list[str] | None = None) -> None:
    parser = Parser(prog="electra inspect", description="Show what an ELECTRA masks, replaces and finds suspicious.")
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="run, checkpoint, exported folder or Hub id")
    parser.add_argument("texts", nargs="+", metavar="TEXT", help="sentences")
    parser.add_argument("--generator", metavar="PATH", help="a generator to replace words with")
    parser.add_argument("--seed", type=int, default=0, help="seed of masks and samples")
    parser.add_argument("--mlm_probability", type=float, help="share of the tokens to replace, in (0, 1)")
    arguments = parser.parse_args(argv)
    setup_logging()
    share = arguments.mlm_probability
    if share is not None and not 0 < share < 1:
        raise UserError(f"--mlm_probability {share} is not possible: it must be in (0, 1)")
    if not 0 <= arguments.seed < 2**63:
        raise UserError(f"--seed {arguments.seed} is not possible: it must be in [0, 2^63)")
    networks = load_networks(arguments.checkpoint, arguments.generator)
    if is_detector(networks.discriminator) and networks.generator is None:
        logger.info("no generator: the text is scored as given; pass one with --generator PATH\n")
    samples = inspect_texts(networks, arguments.texts, seed=arguments.seed, mlm_probability=share)
    logger.info("\n\n".join(map(to_terminal, samples)))
