"""The JSON schema of files: made of the options, kept in configs/, fulfilled by each file there, not by wrong ones."""

import json
import re
from importlib.metadata import version

import pytest
import yaml
from jsonschema import Draft7Validator

from docs.schema import VERBS_WITH_CONFIG, schema_of_files, schema_of_verb, to_json
from tests.helpers import ROOT, parametrize

FILE = ROOT / "configs" / "electra.schema.json"
FILES = sorted((ROOT / "configs").glob("*/*.yaml"))


@pytest.fixture(scope="module")
def validator():
    """A validator of files by the schema that is made of the options."""
    schema = schema_of_files()
    Draft7Validator.check_schema(schema)
    return Draft7Validator(schema)


def test_the_schema_in_configs_is_that_of_the_options():
    pinned = re.search(r"^transformers==(.*)$", (ROOT / "requirements.txt").read_text(), re.MULTILINE)[1]
    if version("transformers") != pinned:
        pytest.skip("some options are those of transformers")
    assert FILE.read_text() == to_json(schema_of_files()), "run: python -m docs.reference"


@parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_each_file_names_the_schema_and_fulfils_it(file, validator):
    text = file.read_text()
    path = re.match(r"# yaml-language-server: \$schema=(\S+)\n", text)[1]
    assert (file.parent / path).resolve() == FILE
    assert not [error.message for error in validator.iter_errors(yaml.safe_load(text))]


@parametrize(
    "text",
    [
        "modle_size: small",
        "model_size: enormous",
        "mlm_probability: 1.5",
        "max_steps: many",
        "max_steps: 0",
        "generator_size: [0.25]",
        "tie: words",
        "model_size: small\nlayerwise_lr_decay: 0.9",  # options of two commands
        "task_overrides: {rte: {lerning_rate: 1.0e-5}}",
        "bf16: 1",
        "dataloader_num_workers: few",  # an option of transformers
        "program: run_glue.py\nmethod: grid\nmetric: {name: AVG}\nparameters: {seed: {vales: [1]}}",
        "program: run_glue.py\nmethod: all\nmetric: {name: AVG}\nparameters: {seed: {values: [1]}}",
    ],
)
def test_wrong_names_and_values_do_not_fulfil_it(text, validator):
    assert not validator.is_valid(yaml.safe_load(text))


@parametrize(
    "text",
    [
        "learning_rate: 5e-4",  # text for YAML 1.1
        "experiment_name: 1e5",
        "train_file: a.txt",
        "train_file: [a.txt, b.txt]",
        "lowercase: false\nmax_length: null",
        "lr_scheduler_kwargs: {num_stable_steps: 10}",
    ],
)
def test_what_the_commands_read_fulfils_it(text, validator):
    assert validator.is_valid(yaml.safe_load(text))


def test_a_verb_has_a_schema_of_its_own():
    for verb in [*VERBS_WITH_CONFIG, "sweep"]:
        Draft7Validator.check_schema(schema_of_verb(verb))
    options = schema_of_verb("pretrain")["properties"]
    assert options["generator_size"]["default"] == 0.25 and "Range: " in options["generator_size"]["description"]
    assert "layerwise_lr_decay" not in options and json.loads(to_json(schema_of_verb("sweep")))["$schema"]
