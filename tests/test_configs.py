"""Every file in configs/pretraining/ is a valid command line, builds the networks of its source, and trains."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from electra.backbones import BACKBONES
from electra.cli import CommandLine
from electra.model.joint import ElectraForJointPretraining, parameter_counts
from electra.objectives import OBJECTIVES
from electra.pretraining.model import build_model
from electra.pretraining.options import GROUPS, QUICKSTART, Arguments, parse_arguments
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
ABLATIONS = ("paper_electra_15", "paper_replace_mlm", "paper_all_tokens_mlm", "paper_two_stage", "paper_adversarial")
TYING = ("paper_tying_none", "paper_tying_word", "paper_tying_all")
ALECTRA = tuple(f"lmtuners_alectra_small_{name}" for name in ("bert_generator", "albert", "tied_encoder"))
LMTUNERS = (
    "lmtuners_bert_small",
    "lmtuners_albert_small",
    "lmtuners_electra_small",
    "lmtuners_albert_generator",
    *ALECTRA,
)
CONTINUED = "continue_from_electra_small"
BUILT = ("electra_small_owt", *STUDY, *PAPER, "paper_bert_small", *ABLATIONS, *TYING, *LMTUNERS)
EXPERIMENTS = (*BUILT, CONTINUED)
"""Files that repeat an experiment of a source; the others are this project's own."""

SMALL = 13_549_057
"""Of the discriminator, by hand. Embeddings 128 x (30522 + 512 + 2), their LayerNorm 256, projection 128 x 256 + 256;
12 layers of 12 x 256^2 + 13 x 256; head 256^2 + 256 + 257."""
BASE, BASE_MLM = 109_483_009, 109_514_298
BERT_EMBEDDINGS, BERT_LM_HEAD = 7_847_424, 96_826
BERT_ENCODER = BERT_EMBEDDINGS + 12 * 789_760
ALBERT_ENCODER, ALBERT_LM_HEAD = 3_923_712 + 33_024 + 789_760, 63_674
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
    "paper_bert_small": (13_546_682, 0),  # as the generator of full size
    "paper_electra_15": (BASE, 33_740_602),
    "paper_two_stage": (BASE, BASE_MLM),
    "paper_adversarial": (BASE, 33_740_602),
    "paper_replace_mlm": (BASE_MLM, 33_740_602),
    "paper_all_tokens_mlm": (BASE_MLM, 33_740_602),
    **dict.fromkeys(TYING, (BASE, BASE_MLM)),
    # BERT of 256: embeddings 256 x (30522 + 128 + 2) + 512; 12 layers as Small's; LM head 256 x 257 + 512 + 30522, or
    # pooler 256 x 257 and head 256 x 257 + 257. Its generator: 3 layers of 4 x 256 x 257 + 2 x 256^2 + 5 x 256 + 256
    "lmtuners_bert_small": (BERT_ENCODER + BERT_LM_HEAD, 0),
    "lmtuners_electra_small": (BERT_ENCODER + 2 * 65_792 + 257, BERT_EMBEDDINGS + 3 * 395_776 + BERT_LM_HEAD),
    # ALBERT with embeddings of 256, which it projects all the same, one layer of the same size as that generator's
    "lmtuners_albert_generator": (
        BERT_ENCODER + 2 * 65_792 + 257,
        BERT_EMBEDDINGS + 65_792 + 395_776 + BERT_LM_HEAD,
    ),
    # ALBERT, embeddings of 128: 128 x (30522 + 128 + 2) + 256, projection 128 x 256 + 256, one of Small's layers;
    # pooler and head as above, LM head 256 x 128 + 128 + 256 + 30522
    "lmtuners_albert_small": (ALBERT_ENCODER + ALBERT_LM_HEAD, 0),
    "lmtuners_alectra_small_albert": (ALBERT_ENCODER + 2 * 65_792 + 257, ALBERT_ENCODER + ALBERT_LM_HEAD),
    "lmtuners_alectra_small_tied_encoder": (ALBERT_ENCODER + 2 * 65_792 + 257, ALBERT_ENCODER + ALBERT_LM_HEAD),
    # BERT of 128: embeddings as ALBERT's, 3 layers of 12 x 128^2 + 13 x 128, LM head 128 x 129 + 256 + 30522
    "lmtuners_alectra_small_bert_generator": (
        ALBERT_ENCODER + 2 * 65_792 + 257,
        3_923_712 + 3 * 198_272 + 47_290,
    ),
}
PUBLISHED = {"small": (14e6, 0.5e6), "small++": (14e6, 0.5e6), "base": (110e6, 1e6), "large": (335e6, 0.5e6)}
"""Parameters of the discriminator as the paper prints them, by recipe, and how far off the exact number may be."""
PUBLISHED_BY_LMTUNERS = {"bert": (17e6, 0.5e6), "albert": (4.8e6, 0.2e6)}
"""The same by architecture; it prints 4 million for ALECTRA and 4.81 as its code counts."""


def parse(path: Path) -> Arguments:
    return Arguments(*CommandLine(GROUPS, "test").parse(["--config", str(path)]), {})


class Vocabulary:
    """What the networks' sizes need of a tokenizer."""

    pad_token_id, mask_token_id, all_special_ids = 0, 4, (0, 1, 2, 3, 4)

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def get_vocab(self) -> dict[str, int]:
        return {str(row): row for row in range(self.size)}


def networks(args: Arguments) -> ElectraForJointPretraining:
    """Of the vocabulary size that is asked for, without memory for their weights."""
    with torch.device("meta"):
        return build_model(args, Vocabulary(args.tokenizer.vocab_size))  # type: ignore[arg-type]


def test_an_empty_name_of_a_corpus_is_not_the_quickstart() -> None:
    assert parse_arguments([]).corpus.dataset_name == ["builtin"]
    args = parse_arguments(["--dataset_name", ""])
    assert args.corpus.dataset_name == [""]
    assert args.training.experiment_name == "electra"


def content(stem: str) -> dict[str, Any]:
    return yaml.safe_load((FOLDER / f"{stem}.yaml").read_text())


def test_the_quickstart_and_every_experiment_are_there() -> None:
    assert QUICKSTART in CONFIGS
    assert set(EXPERIMENTS) <= {path.stem for path in CONFIGS}


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_config_parses_and_builds_its_networks(path: Path) -> None:
    args = parse(path)
    assert args.segments.max_length <= args.model.max_position_embeddings
    if path.stem != CONTINUED:  # whose networks are on the Hub
        networks(args)
    assert args.training.get_warmup_steps(args.training.max_steps) < args.training.max_steps


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_config_is_named_after_its_experiment_and_says_what_it_is(path: Path) -> None:
    text = path.read_text()
    assert text.startswith("# ")
    assert yaml.safe_load(text)["experiment_name"] == path.stem


@pytest.mark.parametrize("stem", EXPERIMENTS)
def test_an_experiment_names_its_source_its_target_and_what_is_not_reproducible(stem: str) -> None:
    comment = (FOLDER / f"{stem}.yaml").read_text().split("experiment_name:")[0]
    assert all(line.startswith("# ") for line in comment.splitlines())
    assert any(
        source in comment for source in ("rc2020_electra", "Clark et al. 2020", "google-research/electra", "lmtuners")
    )
    assert "# To reach" in comment and "# Not reproducible: " in comment


@pytest.mark.parametrize("stem", EXPERIMENTS)
def test_an_experiment_states_nothing_that_its_recipe_says_already(stem: str) -> None:
    values = content(stem)
    recipe = RECIPES[values.pop("model_size", "small")]
    said_twice = {name for name, value in values.items() if name in recipe and float(value) == recipe[name]}
    assert said_twice == ({"generator_size"} if stem == "generator_size_25" else set())  # all of its study state it


@pytest.mark.parametrize("stem", BUILT)
def test_an_experiment_has_the_parameters_of_its_source(stem: str) -> None:
    args = parse(FOLDER / f"{stem}.yaml")
    counts = parameter_counts(networks(args))
    assert (counts["discriminator"], counts["generator"]) == PARAMETERS[stem]
    published, tolerance = PUBLISHED[args.model.model_size]
    if stem in LMTUNERS:
        published, tolerance = PUBLISHED_BY_LMTUNERS[args.model.discriminator_type]
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


@pytest.mark.parametrize("path", [path for path in CONFIGS if path.stem != CONTINUED], ids=lambda path: path.stem)
def test_a_config_takes_a_step_when_scaled_down(path: Path, tmp_path: Path) -> None:
    """With the file's objective, networks, segments, tokenizer, optimizer, and its generator's relative width."""
    # Embeddings half as wide as the network, so that what does not project them can stand beside what does.
    sizes: dict[str, int | None] = {
        "hidden_size": 64,
        "embedding_size": 32,
        "intermediate_size": 256,
        "num_attention_heads": 4,
    }
    args = parse(path)
    types = {args.model.discriminator_type, args.model.generator_type or args.model.discriminator_type}
    if not any(BACKBONES[name].projection for name in types):
        sizes["embedding_size"] = None  # of no account, and refused
    if args.objective.objective == "mlm":
        sizes["generator_size"] = None
    checkpoint = take_steps(path, tmp_path, **sizes)

    config = json.loads((checkpoint / "config.json").read_text())
    assert config["mlm_probability"] == args.objective.mlm_probability
    if config["generator"] is not None:
        width = config["generator"]["hidden_size"]
        assert width == pytest.approx(64 * args.model.generator_size, abs=8)  # half a head
    dropout = BACKBONES[args.model.discriminator_type].renamed.get("hidden_dropout_prob", "hidden_dropout_prob")
    assert config["discriminator"][dropout] == args.model.hidden_dropout_prob
    logs = [log for log in read_log(checkpoint) if "grad_norm" in log]
    assert all(math.isfinite(log["grad_norm"]) and log["grad_norm"] > 0 for log in logs)
    for log in logs:
        assert log["loss"] == pytest.approx(expected_loss(args, log), rel=1e-3, abs=1e-5)
    assert logs[0]["learning_rate"] == pytest.approx(TINY["learning_rate"])


def test_a_released_discriminator_is_continued_with_a_small_generator_beside_it(tmp_path: Path) -> None:
    """With an export of this project in the place of what is on the Hub."""
    released = take_steps(FOLDER / "paper_small.yaml", tmp_path / "released", hidden_size=64).parent
    path = tmp_path / f"{CONTINUED}.yaml"
    path.write_text(yaml.safe_dump({**content(CONTINUED), "init_discriminator": str(released)}))
    sizes = dict.fromkeys(("embedding_size", "hidden_size", "num_hidden_layers", "num_attention_heads"))
    sizes |= dict.fromkeys(("intermediate_size", "max_position_embeddings", "vocab_size"))
    checkpoint = take_steps(path, tmp_path, **sizes)
    config = json.loads((checkpoint / "config.json").read_text())
    assert config["discriminator"]["hidden_size"] == 64 and config["generator"]["hidden_size"] == 16
    assert [log["step"] for log in read_log(checkpoint) if "grad_norm" in log] == [1, 2]


def take_steps(path: Path, folder: Path, **sizes: int | None) -> Path:
    """Two optimizer steps of an experiment on nonsense; the checkpoint after them."""
    folder.mkdir(exist_ok=True)
    write_corpus(folder / "corpus.txt")
    values = yaml.safe_load(path.read_text())
    for name in ("dataset_name", "train_file", "tokenizer_path"):  # of the network; no flag takes them back
        values.pop(name, None)
    scaled = folder / "scaled.yaml"
    scaled.write_text(yaml.safe_dump(values))
    tiny = {**TINY, "vocab_size": 300, "generator_size": None, "warmup_steps": 0, **sizes}
    two_steps = {"max_steps": 2, "logging_steps": 1, "eval_strategy": "no", "validation_fraction": 0}
    main([f"--config={scaled}", *flags(folder, **{**tiny, **two_steps}, config=None, experiment_name=path.stem)])
    return folder / "output" / path.stem / "checkpoint-2"


def read_log(checkpoint: Path) -> list[dict[str, Any]]:
    return json.loads((checkpoint / "trainer_state.json").read_text())["log_history"]


def expected_loss(args: Arguments, log: dict[str, float]) -> float:
    """The total loss of a step, put together from its parts by the objective's own formula."""
    objective = args.objective.objective
    _, _, weight = args.objective.corruption_and_weight()
    if objective == "two_stage":
        return log["generator_loss"] if log["step"] == 1 else weight * log["discriminator_loss"]
    if objective == "mlm":
        return log["mlm_loss"]
    large = weight * log[OBJECTIVES[objective].loss_name]
    if objective == "adversarial":
        return log["adversarial_loss"] + log["baseline_loss"] + large
    return log["generator_loss"] + large
