"""Every file in configs/ is a valid command line and builds its networks."""

from pathlib import Path

import pytest
import torch
import yaml

from electra.arguments import check_lengths
from electra.command_line import CommandLine
from electra.model.configuration import discriminator_config, generator_config
from electra.model.modeling import ElectraForJointPretraining, ElectraPretrainingConfig
from electra.pretraining.options import GROUPS, QUICKSTART, Arguments

CONFIGS = sorted((Path(__file__).parents[1] / "configs" / "pretraining").glob("*.yaml"))


def test_the_quickstart_is_there() -> None:
    assert QUICKSTART in CONFIGS


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_config_parses_and_builds_its_networks(path: Path) -> None:
    args = Arguments(*CommandLine(GROUPS, "test").parse(["--config", str(path)]), effective={})
    check_lengths(args.segments.max_length, args.model.max_position_embeddings)
    sizes = {name: value for name, value in vars(args.model).items() if not name.startswith(("generator", "model"))}
    discriminator = discriminator_config(vocab_size=args.tokenizer.vocab_size, pad_token_id=0, **sizes)
    generator, _ = generator_config(discriminator, args.model.generator_size, args.model.generator_layer_size)
    with torch.device("meta"):
        ElectraForJointPretraining(ElectraPretrainingConfig(generator, discriminator))
    assert args.training.warmup_steps < args.training.max_steps


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_config_is_named_after_its_experiment_and_says_what_it_is(path: Path) -> None:
    text = path.read_text()
    assert text.startswith("# ")
    assert yaml.safe_load(text)["experiment_name"] == path.stem
