"""The values of options that depend on the encoder and the number of texts."""

from dataclasses import fields

import torch
from transformers import AutoModel, ElectraConfig, ModernBertConfig

from electra.finetuning.config import (
    HYPERPARAMETERS,
    FineTuningArguments,
    ProtocolArguments,
    resolve_hyperparameters,
    scored_options,
)
from electra.finetuning.heads import Encoder
from electra.tasks.classify.task import parse_classify_arguments
from electra.tasks.multiple_choice.task import parse_choice_arguments
from tests.helpers import parametrize

NAMES = ("learning_rate", "layerwise_lr_decay", "num_train_epochs", "head")
PAPER = (3e-4, 0.8, 3.0, "hf")
"""The values of `NAMES` in table 7 of the paper, for an ELECTRA-Small."""


def encoder(model_type, width):
    """Return an encoder of this kind and width that has no weights."""
    sizes = {"vocab_size": 10, "hidden_size": width, "num_hidden_layers": 1, "num_attention_heads": 1}
    special = {"bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3, "pad_token_id": 0}
    configs = {
        "electra": lambda: ElectraConfig(**sizes),
        "modernbert": lambda: ModernBertConfig(intermediate_size=8, **sizes, **special),
    }
    with torch.device("meta"):
        return Encoder(AutoModel.from_config(configs[model_type]()), None, "somewhere", 512)


def values(encoder, *argv, parse=parse_classify_arguments, **options):
    """Return the options named in `NAMES` of a command, as the encoder decides them."""
    args = parse(["--pretrain_path=a", "--train_file=b.csv", *argv])
    hyperparameters = resolve_hyperparameters(args, "mine", encoder, **options)
    return tuple(getattr(hyperparameters, name) for name in NAMES)


@parametrize(
    ("model_type", "width", "texts", "expected"),
    [
        ("modernbert", 192, 720, (1e-3, 1.0, 11.0, "hf_mean")),  # 250 steps of 23 an epoch
        ("modernbert", 255, 1500, (1e-3, 1.0, 6.0, "hf_mean")),
        ("modernbert", 192, 20, (1e-3, 1.0, 40.0, "hf_mean")),  # the most epochs
        ("modernbert", 192, 100_000, (1e-3, 1.0, 3.0, "hf_mean")),  # the least
        ("electra", 128, 720, (1e-3, 1.0, 11.0, "hf")),  # whose class reads the first token
        ("electra", 256, 720, PAPER),  # ELECTRA-Small
        ("modernbert", 256, 720, PAPER),
        ("electra", 768, 720, (1e-4, 0.8, 3.0, "hf")),
        ("electra", 1024, 720, (5e-5, 0.9, 3.0, "hf")),
    ],
)
def test_narrow_encoders_have_defaults_of_their_own_and_others_the_papers(model_type, width, texts, expected):
    assert values(encoder(model_type, width), texts=texts) == expected


def test_options_of_the_user_stay_and_the_batch_counts():
    tiny = encoder("modernbert", 192)
    assert values(tiny, "--num_train_epochs=3", "--head=hf", texts=720) == (1e-3, 1.0, 3.0, "hf")
    assert values(tiny, "--per_device_train_batch_size=8", "--gradient_accumulation_steps=8", texts=720)[2] == 21.0
    assert values(tiny, "--per_device_train_batch_size=16", texts=720)[2] == 6.0


@parametrize("parse", [parse_classify_arguments, parse_choice_arguments])
def test_without_a_number_of_texts_it_is_table_7_of_the_paper(parse):
    """As for a task whose defaults are the paper's."""
    assert values(encoder("modernbert", 192), parse=parse) == PAPER


def test_an_evaluation_that_the_papers_defaults_began_goes_on_with_them():
    tiny = encoder("modernbert", 192)
    paper = dict(zip(NAMES, PAPER, strict=True))
    assert values(tiny, texts=720, begun_settings=paper) == PAPER
    assert values(tiny, "--learning_rate=1e-4", texts=720, begun_settings={**paper, "learning_rate": 1e-4}) == (
        1e-4,
        *PAPER[1:],
    )
    narrow = dict(zip(NAMES, (1e-3, 1.0, 11.0, "hf_mean"), strict=True))
    assert values(tiny, texts=720, begun_settings=narrow) == tuple(narrow.values())
    other_settings = {**paper, "learning_rate": 5e-4}  # by an option, which is not given now: other settings
    assert values(tiny, texts=720, begun_settings=other_settings) == tuple(narrow.values())


def test_options_of_machine_log_and_protocol_are_no_settings_of_a_result():
    """So an evaluation goes on elsewhere; the precision has a record of its own."""
    of_machine = {"per_device_eval_batch_size", "bf16", "fp16", "use_cpu", "threads"}
    of_log = {"logging_steps", "report_to", "disable_tqdm"}
    assert {f.name for f in fields(FineTuningArguments)} - {*HYPERPARAMETERS} == of_machine | of_log
    assert not scored_options(ProtocolArguments)  # more seeds, another folder
