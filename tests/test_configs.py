"""Every file in configs/pretraining/ is a valid command line and builds the networks of its source."""

import re
import shlex

import torch
import yaml
from pytest import approx

from electra.core.recipes import RECIPES
from electra.core.schedules import create_schedule
from electra.pretraining.model import build_model
from electra.pretraining.options import parse_pretraining_arguments
from electra.pretraining.plan import parameter_counts
from tests.helpers import ROOT, parametrize

FOLDER = ROOT / "configs" / "pretraining"
STUDY = {
    f"generator_size_{percent}": width for percent, width in ((12, 32), (25, 64), (50, 128), (75, 192), (100, 256))
}
"""Width of the generator, by file of the study of its size."""
TYING = ("paper_tying_none", "paper_tying_word", "paper_tying_all")
CONTINUED = tuple(path.stem for path in FOLDER.glob("continue_*.yaml"))
"""Files whose networks are on the Hub, or of an earlier run."""
SMALL = 13_549_057
"""Of the discriminator, by hand. Embeddings 128 x (30522 + 512 + 2), their LayerNorm 256, projection 128 x 256 + 256;
12 layers of 12 x 256^2 + 13 x 256; head 256^2 + 256 + 257."""
BASE = 109_483_009
BASE_MLM = 109_514_298
BERT_EMBEDDINGS = 7_847_424
BERT_LM_HEAD = 96_826
BERT_ENCODER = BERT_EMBEDDINGS + 12 * 789_760
ALBERT_ENCODER = 3_923_712 + 33_024 + 789_760
ALBERT_LM_HEAD = 63_674
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
    # embeddings 1024 x (30522 + 512 + 2) + 2048; 24 layers of 12 x 1024^2 + 13 x 1024; LM head 1024 x 1025 + 2048 +
    # 30522
    "paper_bert_large_400k": (335_174_458, 0),
    "bert_ltr": (BASE_MLM, 0),  # the same sum with 768
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
    # DeBERTa-v3 of 768 and V tokens: V x 768, norm 1,536; relative positions 512 x 768, norm 1,536; layers of
    # 4 x 768 x 769 + 2 x 768 x 3072 + 3840 + 3072; head 768 x 769 + 769, or LM head 768 x 769 + 1,536 + V.
    # CamemBERTa's generator of 256: V x 768, projection 768 x 256, norm 512; 512 x 256 + 512; 12 layers of 789,760;
    # 256 x 768 + 768 + 1,536 + V
    "camembertav2_base": (111_207_937, 35_203_328),
    "deberta_v3_base": (184_346_881, 141_948_417),
    "deberta_v3_small": (141_819_649, 120_684_801),
}
VOCABULARIES = {"camembertav2_base": 32_768, "deberta_v3_base": 128_001, "deberta_v3_small": 128_001}
"""Tokens of tokenizers, by file, other than BERT's 30,522."""
EXPERIMENTS = (*PARAMETERS, *sorted({*CONTINUED} - {"continue_run", "continue_anneal"}))
"""Files that repeat an experiment of a source; the others are this project's own."""


def parse(stem):
    """The options of a file of the folder."""
    return parse_pretraining_arguments([f"--config={FOLDER / stem}.yaml"])


def content(stem):
    """The lines of a file of the folder, as they are written."""
    return yaml.safe_load((FOLDER / f"{stem}.yaml").read_text())


class Vocabulary:
    """What the networks' sizes need of a tokenizer."""

    pad_token_id = 0
    mask_token_id = 4
    all_special_ids = (0, 1, 2, 3, 4)

    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def get_vocab(self):
        return {str(row): row for row in range(self.size)}


def networks(args):
    """The joint model of a vocabulary of the size that is asked for, without memory for its weights."""
    size = VOCABULARIES.get(args.training.experiment_name, args.tokenizer.vocab_size)
    with torch.device("meta"):
        return build_model(args, Vocabulary(size))


def test_without_a_corpus_the_quickstart_is_taken():
    assert parse_pretraining_arguments([]).training.experiment_name == "quickstart"
    assert parse_pretraining_arguments(["--dataset_name", ""]).training.experiment_name == "electra"


@parametrize("stem", sorted(path.stem for path in FOLDER.glob("*.yaml")))
def test_a_config_parses_and_builds_the_networks_of_its_source(stem):
    args = parse(stem)
    text = (FOLDER / f"{stem}.yaml").read_text()
    assert text.startswith("# ") and args.training.experiment_name == stem
    assert args.training.get_warmup_steps(args.training.max_steps) < args.training.max_steps
    if stem in EXPERIMENTS:
        assert "# To reach" in text and "# Not reproducible: " in text
    if stem not in CONTINUED:
        counts = parameter_counts(networks(args))
        assert PARAMETERS.get(stem) in (None, (counts["discriminator"], counts["generator"]))


def test_no_experiment_repeats_what_its_recipe_says():
    for stem in EXPERIMENTS:
        values = content(stem)
        recipe = RECIPES[values.pop("model_size", "small")]
        repeated = {name for name, value in values.items() if name in recipe and float(value) == recipe[name]}
        # All files of the study of the generator's size name it.
        assert repeated == ({"generator_size"} if stem == "generator_size_25" else set())


def test_the_study_varies_the_generator_s_width_alone():
    for stem, width in STUDY.items():
        generator = networks(parse(stem)).config.generator
        assert (generator.hidden_size, generator.num_hidden_layers) == (width, 12)
    without_size = [
        {**content(stem), "generator_size": 0, "experiment_name": ""} for stem in (*STUDY, "electra_small_owt")
    ]
    assert all(values == without_size[0] for values in without_size)


def test_the_runs_of_the_paper_are_table_6():
    rows = {  # steps, batch, length, rate, share of masked tokens
        "paper_small": (1_000_000, 128, 128, 5e-4, 0.15),
        "paper_small_plusplus": (4_000_000, 128, 512, 5e-4, 0.15),
        "paper_base": (766_000, 256, 512, 2e-4, 0.15),
        "paper_large_400k": (400_000, 2048, 512, 2e-4, 0.25),
        "paper_large_1750k": (1_750_000, 2048, 512, 2e-4, 0.25),
    }
    for stem, row in rows.items():
        args = parse(stem)
        training = args.training
        length = args.segments.max_length
        values = training.max_steps, training.per_device_train_batch_size, length, training.learning_rate
        assert (*values, args.objective.mlm_probability) == row
        assert (training.adam_bias_correction, training.product_schedule) == (False, True)
    assert parse("paper_small").training.checkpoint_fractions == [0.0625, 0.125, 0.25, 0.5, 1.0]
    training = parse("electra_small_owt").training
    assert training.per_device_train_batch_size * training.gradient_accumulation_steps == 128
    steps = training.logging_steps, training.eval_steps, training.save_steps
    assert steps == (3840 / 128, 12800 / 128, 1280000 / 128)  # in samples there; docs/reference_flags.md
    assert (training.max_steps, training.learning_rate) == (1_000_000, 5e-4)


def test_the_published_command_on_the_page_of_flags_is_its_file():
    page = (ROOT / "docs" / "reference_flags.md").read_text().replace("\\\n", " ")
    argv = shlex.split(
        re.search(r"^electra pretrain (.* --experiment_name pretraining_OWT .*)$", page, re.MULTILINE)[1]
    )
    command, file = parse_pretraining_arguments(argv), parse("electra_small_owt")
    assert command.spec == file.spec
    values, expected = command.used_values(), file.used_values()
    differ = {name for name in values.keys() | expected.keys() if values.get(name) != expected.get(name)}
    # The command gives what is the objective's default, too; precision is a sentence of the page.
    assert differ - {"bf16"} == {"experiment_name", "mlm_replacement_probability"}


def test_the_runs_of_deberta_v3_are_their_papers():
    rows = {  # steps, batch, length, rate; masked, of these [MASK]; betas; width and layers of the generator
        "camembertav2_base": (91_500, 8192, 512, 7e-4, 0.2, 0.85, 0.878, 0.974, 1 / 3, 1.0),
        "deberta_v3_base": (500_000, 8192, 512, 5e-4, 0.15, 1.0, 0.9, 0.98, 1.0, 0.5),
        "deberta_v3_small": (500_000, 8192, 512, 5e-4, 0.15, 1.0, 0.9, 0.98, 1.0, 0.5),
    }
    for stem, row in rows.items():
        args = parse(stem)
        training = args.training
        model = args.model
        batch = training.per_device_train_batch_size * training.gradient_accumulation_steps
        values = (training.max_steps, batch, args.segments.max_length, training.learning_rate)
        values += (args.objective.mlm_probability, args.spec.mlm_replacement_probability)
        values += (training.adam_beta1, training.adam_beta2, model.generator_size, model.generator_layer_size)
        assert values == row
        assert (training.warmup_steps, model.tie, model.discriminator_type) == (10_000, "gdes", "deberta-v2")
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=7e-4)
    schedule = create_schedule(parse("camembertav2_base").training, optimizer, [91_500])
    rates = [7e-4 * schedule.lr_lambdas[0](step) for step in (0, 5_000, 10_000, 50_750, 91_500)]
    middle = 1e-5 + (7e-4 - 1e-5) * 0.5**0.5  # a polynomial of the power of one half
    assert rates == approx([0, 3.5e-4, 7e-4, middle, 1e-5])
