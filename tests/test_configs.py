"""Every file in configs/pretraining/ is a valid command line, builds the networks of its source, and trains."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from electra.arguments import check_lengths
from electra.command_line import CommandLine
from electra.model.modeling import ElectraForJointPretraining, parameter_counts
from electra.pretraining.networks import build_model
from electra.pretraining.options import GROUPS, QUICKSTART, Arguments
from electra.recipes import RECIPES
from run_pretraining import main
from tests.pretraining.runs import TINY, flags, write_corpus

FOLDER = Path(__file__).parents[1] / "configs" / "pretraining"
CONFIGS = sorted(FOLDER.glob("*.yaml"))
STUDY = {
    f"generator_size_{percent}": width for percent, width in ((12, 32), (25, 64), (50, 128), (75, 192), (100, 256))
}
"""Width of the generator, by file of the study of its size."""
PAPER = ("paper_small", "paper_small_plusplus", "paper_base", "paper_large_400k", "paper_large_1750k")
EXPERIMENTS = ("electra_small_owt", *STUDY, *PAPER)
"""Files that repeat an experiment of a source; the others are this project's own."""

SMALL = 13_549_057
"""Of the discriminator, by hand. Embeddings 128 x (30522 + 512 + 2), their LayerNorm 256, projection 128 x 256 + 256;
12 layers of 12 x 256^2 + 13 x 256; head 256^2 + 256 + 257."""
PARAMETERS = {
    # discriminator, generator of width w: embeddings as above, projection to w unless w is their width, 12 layers of
    # 12 w^2 + 13 w, head w x 128 + 128 + 256, one bias for each of 30522 tokens
    "electra_small_owt": (SMALL, 4_620_026),
    "generator_size_12": (SMALL, 4_164_442),
    "generator_size_25": (SMALL, 4_620_026),
    "generator_size_50": (SMALL, 6_399_418),
    "generator_size_75": (SMALL, 9_391_482),
    "generator_size_100": (SMALL, 13_546_682),
    "paper_small": (SMALL, 4_620_026),
    "paper_small_plusplus": (SMALL, 13_546_682),
    # the same sums with embeddings of 768 and 1024, which the discriminator does not project
    "paper_base": (109_483_009, 33_740_602),
    "paper_large_400k": (335_142_913, 51_295_290),
    "paper_large_1750k": (335_142_913, 51_295_290),
}
PUBLISHED = {"small": (14e6, 0.5e6), "small++": (14e6, 0.5e6), "base": (110e6, 1e6), "large": (335e6, 0.5e6)}
"""Parameters of the discriminator as the paper prints them, by recipe, and how far off the exact number may be."""


def parse(path: Path) -> Arguments:
    return Arguments(*CommandLine(GROUPS, "test").parse(["--config", str(path)]), {})


class Vocabulary:
    """What the networks' sizes need of a tokenizer."""

    pad_token_id, mask_token_id, all_special_ids = 0, 4, (0, 1, 2, 3, 4)

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size


def networks(args: Arguments) -> ElectraForJointPretraining:
    """Of the vocabulary size that is asked for, without memory for their weights."""
    with torch.device("meta"):
        return build_model(args, Vocabulary(args.tokenizer.vocab_size))  # type: ignore[arg-type]


def content(stem: str) -> dict[str, Any]:
    return yaml.safe_load((FOLDER / f"{stem}.yaml").read_text())


def test_the_quickstart_and_every_experiment_are_there() -> None:
    assert QUICKSTART in CONFIGS
    assert set(EXPERIMENTS) <= {path.stem for path in CONFIGS}


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_config_parses_and_builds_its_networks(path: Path) -> None:
    args = parse(path)
    check_lengths(args.segments.max_length, args.model.max_position_embeddings)
    networks(args)
    assert args.training.get_warmup_steps(args.training.max_steps) < args.training.max_steps


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_config_is_named_after_its_experiment_and_says_what_it_is(path: Path) -> None:
    text = path.read_text()
    assert text.startswith("# ")
    assert yaml.safe_load(text)["experiment_name"] == path.stem


@pytest.mark.parametrize("stem", EXPERIMENTS)
def test_an_experiment_says_its_source_what_it_should_reach_and_what_cannot_be_had(stem: str) -> None:
    comment = (FOLDER / f"{stem}.yaml").read_text().split("experiment_name:")[0]
    assert all(line.startswith("# ") for line in comment.splitlines())
    assert any(source in comment for source in ("rc2020_electra", "Clark et al. 2020", "google-research/electra"))
    assert "# To reach" in comment and "# Cannot be had: " in comment


@pytest.mark.parametrize("stem", EXPERIMENTS)
def test_an_experiment_states_nothing_that_its_recipe_says_already(stem: str) -> None:
    values = content(stem)
    recipe = RECIPES[values.pop("model_size", "small")]
    said_twice = {name for name, value in values.items() if name in recipe and float(value) == recipe[name]}
    assert said_twice == ({"generator_size"} if stem == "generator_size_25" else set())  # all of its study state it


@pytest.mark.parametrize("stem", EXPERIMENTS)
def test_an_experiment_has_the_parameters_of_its_source(stem: str) -> None:
    args = parse(FOLDER / f"{stem}.yaml")
    counts = parameter_counts(networks(args))
    assert (counts["discriminator"], counts["generator"]) == PARAMETERS[stem]
    published, tolerance = PUBLISHED[args.model.model_size]
    assert counts["discriminator"] == pytest.approx(published, abs=tolerance)


def test_the_study_of_generator_sizes_varies_the_generator_s_width_and_nothing_else() -> None:
    for stem, width in STUDY.items():
        generator = networks(parse(FOLDER / f"{stem}.yaml")).config.generator
        assert (generator.hidden_size, generator.num_hidden_layers) == (width, 12)
    rest = [{**content(stem), "generator_size": None, "experiment_name": None} for stem in STUDY]
    assert all(values == rest[0] for values in rest)
    first = {**content("electra_small_owt"), "generator_size": None, "experiment_name": None}
    assert first == rest[0]  # its 25 % is experiment 1


def test_the_samples_of_the_published_command_are_these_steps() -> None:
    """3840, 12800 and 1280000 samples there, in batches of 128; docs/reference_flags.md."""
    training = parse(FOLDER / "electra_small_owt.yaml").training
    assert training.per_device_train_batch_size * training.gradient_accumulation_steps == 128
    steps = training.logging_steps, training.eval_steps, training.save_steps
    assert steps == (3840 / 128, 12800 / 128, 1280000 / 128)
    assert (training.max_steps, training.learning_rate) == (1_000_000, 5e-4)


def test_the_paper_s_runs_are_table_6() -> None:
    rows = {}
    for stem in PAPER:
        args = parse(FOLDER / f"{stem}.yaml")
        training = args.training
        batch = training.per_device_train_batch_size, args.segments.max_length
        rows[stem] = training.max_steps, batch, training.learning_rate, args.objective.mlm_probability
        assert (training.adam_bias_correction, training.product_schedule) == (False, True)
    assert rows == {
        "paper_small": (1_000_000, (128, 128), 5e-4, 0.15),
        "paper_small_plusplus": (4_000_000, (128, 512), 5e-4, 0.15),
        "paper_base": (766_000, (256, 512), 2e-4, 0.15),
        "paper_large_400k": (400_000, (2048, 512), 2e-4, 0.25),
        "paper_large_1750k": (1_750_000, (2048, 512), 2e-4, 0.25),
    }
    assert parse(FOLDER / "paper_small.yaml").training.checkpoint_fractions == [0.0625, 0.125, 0.25, 0.5, 1.0]


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_config_takes_a_step_when_scaled_down(path: Path, tmp_path: Path) -> None:
    """With the file's objective, segments, tokenizer, optimizer, and its generator's width relative to the other."""
    write_corpus(tmp_path / "corpus.txt")
    values = yaml.safe_load(path.read_text())
    for name in ("dataset_name", "tokenizer_path"):  # of the network; no flag takes them back
        values.pop(name, None)
    scaled = tmp_path / "scaled.yaml"
    scaled.write_text(yaml.safe_dump(values))
    sizes = {"vocab_size": 300, "hidden_size": 64, "num_attention_heads": 4, "generator_size": None}
    tiny = {**TINY, **sizes, "warmup_steps": 0}
    one_step = {"max_steps": 1, "logging_steps": 1, "eval_strategy": "no", "validation_fraction": 0}
    main([f"--config={scaled}", *flags(tmp_path, **{**tiny, **one_step}, config=None, experiment_name=path.stem)])

    args = parse(path)
    checkpoint = tmp_path / "output" / path.stem / "checkpoint-1"
    config = json.loads((checkpoint / "config.json").read_text())
    assert config["mlm_probability"] == args.objective.mlm_probability
    assert config["generator"]["hidden_size"] == pytest.approx(64 * args.model.generator_size, abs=8)  # half a head
    assert config["discriminator"]["hidden_dropout_prob"] == args.model.hidden_dropout_prob
    logs = json.loads((checkpoint / "trainer_state.json").read_text())["log_history"][0]
    assert logs["step"] == 1 and math.isfinite(logs["grad_norm"]) and logs["grad_norm"] > 0
    _, _, weight = args.objective.corruption_and_weight()
    expected = logs["generator_loss"] + weight * logs["discriminator_loss"]
    assert logs["loss"] == pytest.approx(expected, rel=1e-3)
    assert logs["learning_rate"] == pytest.approx(TINY["learning_rate"])
