"""Show what an ELECTRA masks in a sentence, what its generator samples, and which tokens look replaced.

    electra inspect "the chef cooked the meal"
    electra inspect output/small_owt "the chef cooked the meal"
    electra inspect google/electra-small-discriminator "the chef ate the meal"
    electra inspect google/electra-base-discriminator --generator google/electra-base-generator "a sentence"

Without a generator, a discriminator judges the text as given: replace words yourself. For an Electric it shows the
log probability of each token given the others, from one pass.
"""

import logging

from electra.base.console import setup_logging
from electra.base.files import TINY_EN
from electra.base.parser import Parser
from electra.base.samples import Sample, marked
from electra.core.ranges import INSIDE, check
from electra.report.blocks import Table, text_table
from electra.runtime.threads import limit_threads

logger = logging.getLogger("electra.inspect")


def main(argv: list[str] | None = None) -> None:
    parser = Parser(prog="electra inspect", description="Show what an ELECTRA masks, replaces and finds suspicious.")
    parser.add_argument(
        "checkpoint",
        nargs="?",
        default=TINY_EN,
        metavar="CHECKPOINT",
        help="run, checkpoint, exported folder or Hub id; before a single text it may be left out: tiny-en",
    )
    parser.add_argument(
        "texts",
        nargs="+",
        metavar="TEXT",
        help="sentences",
    )
    parser.add_argument(
        "--generator",
        metavar="PATH",
        help="a generator to replace words with",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        help="seed of masks and samples",
    )
    parser.add_argument(
        "--mlm_probability",
        type=float,
        help="share of the tokens to replace, in (0, 1)",
    )
    arguments = parser.parse_args(argv)
    share = arguments.mlm_probability
    check(share is None or INSIDE.holds(share), "mlm_probability", share, INSIDE.expected)
    setup_logging()
    from electra.model.inference import inspect_texts
    from electra.model.pretrained import load_networks  # takes seconds: help and wrong options come before

    limit_threads()
    networks = load_networks(arguments.checkpoint, arguments.generator)
    samples = inspect_texts(networks, arguments.texts, seed=arguments.seed, mlm_probability=share)
    logger.info("\n\n".join(map(to_terminal, samples)))


def to_terminal(sample: Sample) -> str:
    """Return a sample as text for a terminal: its versions, and a table of tokens with the main network's numbers."""
    lines = []
    for name, tokens, _ in sample.lines():
        if name != "judged":
            text = "".join(map(marked, tokens))
            lines.append(f"{name:10}{text.strip()}")
    rows = []
    judged = zip(sample.shown, sample.original, sample.probabilities or [], strict=False)
    for token, original, number in judged:
        shown_token = marked(token).strip()
        was = original.strip() if token != original else ""
        rows.append([shown_token, was, f"{number:.3f}"])
    if rows:
        lines += ["", text_table(Table(["token", "was", sample.score], rows))]
    return "\n".join(lines)
