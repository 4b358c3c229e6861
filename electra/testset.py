"""Make a fixed corrupted test set, on which discriminators of different runs can be compared.

    electra testset --pretrain_path RUN --validation_file held_out.txt --output_file fixed.safetensors
    python run_pretraining.py ... --tokenizer_path RUN --eval_corruption fixed.safetensors

Runs that are compared must not train on this text: name it as their --validation_file.
"""

from dataclasses import dataclass

from electra.io.console import setup_logging
from electra.options import AT_LEAST_8, INSIDE, POSITIVE, SEED, CommandLine, Options, check, option
from electra.runtime.threads import limit_threads


@dataclass(frozen=True)
class TestSetArguments(Options):
    """Generator, text and output."""

    pretrain_path: str = option("", "The run whose generator replaces tokens, an exported folder or a Hub id.")
    validation_file: list[str] = option([], "Held-out text.")
    output_file: str = option("", "A new file, FILE.safetensors.")
    seed: int = option(42, "Seed of segments, masks and samples.", SEED)
    max_segments: int = option(2000, "Size of the fixed random subset.", POSITIVE)
    max_length: int | None = option(None, "Tokens of a segment. Default: the run's, 128 if unknown.", AT_LEAST_8)
    mlm_probability: float | None = option(
        None, "Share of masked tokens. Default: the run's, 0.15 if unknown.", INSIDE
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        is_safetensors = self.output_file.endswith(".safetensors")
        check(is_safetensors, "output_file", self.output_file, "FILE.safetensors")


def main(argv: list[str] | None = None) -> None:
    setup_logging()
    (args,) = CommandLine((TestSetArguments,), "Make a fixed corrupted test set.").parse(argv)
    from electra.corruption_set import corrupt_held_out_text  # takes seconds: help and wrong options come before

    limit_threads()
    corrupt_held_out_text(**vars(args))
