"""JSON Schema of `--config` files and sweep files, made of the options themselves: the command `electra schema`.

Editors with a YAML language server complete and check a file whose first line names the schema:

    # yaml-language-server: $schema=../electra.schema.json

`configs/electra.schema.json` has what this command prints.
"""

import json
import sys
from argparse import Action
from collections.abc import Sequence
from typing import Any

from transformers.hf_argparser import string_to_bool

from electra.command_line import CommandLine
from electra.data.command import CACHE_GROUPS
from electra.options import Range, rules_of
from electra.parser import Parser
from electra.pretraining.options import GROUPS
from electra.pretraining.testset import TestSetArguments
from electra.tasks.classify.task import CLASSIFY_GROUPS
from electra.tasks.glue.task import GLUE_GROUPS, TASK_OPTIONS
from electra.tasks.minimal_pairs.task import PAIRS_GROUPS
from electra.tasks.multiple_choice.task import CHOICE_GROUPS
from electra.tasks.squad.task import SQUAD_GROUPS
from electra.tasks.tagging.task import TAGGING_GROUPS
from electra.tokenizers.command import TOKENIZER_GROUPS
from electra.tools.sweep_file import ENTRIES, GOALS, METHODS, PROGRAMS, RANGES, UNUSED

Schema = dict[str, Any]
"""A JSON Schema, as the mapping that JSON writes."""

VERBS_WITH_CONFIG = {
    "pretrain": GROUPS,
    "glue": GLUE_GROUPS,
    "classify": CLASSIFY_GROUPS,
    "squad": SQUAD_GROUPS,
    "tag": TAGGING_GROUPS,
    "choose": CHOICE_GROUPS,
    "pairs": PAIRS_GROUPS,
    "tokenizer": TOKENIZER_GROUPS,
    "cache": CACHE_GROUPS,
    "testset": (TestSetArguments,),
}
"""Verb with `--config` -> the groups of its options."""
NUMBER_PATTERN = r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$"
"""Expression of a number as text, because YAML 1.1 reads `5e-4`, which has no point, as text."""
MAPPINGS = (
    "accelerator_config",
    "deepspeed",
    "fsdp_config",
    "gradient_checkpointing_kwargs",
    "lr_scheduler_kwargs",
    "task_overrides",
)
"""Options whose text is JSON; a file may have a mapping in place of the text."""
DRAFT = "http://json-schema.org/draft-07/schema#"
"""URL of the version of JSON Schema that editors know."""


def main(argv: Sequence[str] | None = None) -> None:
    """Print the schema of the files of one command, or of all commands."""
    parser = Parser(description="Print a JSON schema for --config files and sweep files.")
    parser.add_argument("verb", nargs="?", choices=[*VERBS_WITH_CONFIG, "sweep"], help="Default: all of them.")
    verb = parser.parse_args(argv).verb
    sys.stdout.write(to_json(schema_of_verb(verb) if verb else schema_of_files()))


def to_json(schema: Schema) -> str:
    """Return a schema as a text of JSON."""
    return json.dumps({"$schema": DRAFT, **schema}, indent=1, ensure_ascii=False) + "\n"


def schema_of_files() -> Schema:
    """Return the schema of all files: those of all commands, and sweep files."""
    definitions = {verb: schema_of_options(verb) for verb in VERBS_WITH_CONFIG}
    definitions["sweep"] = schema_of_sweeps(definitions)
    return {
        "title": "A --config file of a command of this package, or a sweep file",
        "anyOf": [{"$ref": f"#/definitions/{name}"} for name in definitions],
        "definitions": definitions,
    }


def schema_of_verb(verb: str) -> Schema:
    """Return the schema of the files of a command; for the verb sweep, that of sweep files."""
    if verb != "sweep":
        return schema_of_options(verb)
    definitions = {name: schema_of_options(name) for name in PROGRAMS.values()}
    return {**schema_of_sweeps(definitions), "definitions": definitions}


# ---- options


def schema_of_options(verb: str) -> Schema:
    """Return the schema of a verb's `--config` file: a mapping from options to values, without other names."""
    parser = CommandLine(VERBS_WITH_CONFIG[verb], "")
    actions = {action.dest: action for action in parser._actions}
    properties = {name: schema_of_line(actions[name], rules_of(f).valid) for name, (f, _) in parser.options.items()}
    for name in properties.keys() & set(MAPPINGS):
        properties[name]["type"] = ["object", "string", "null"]
    if verb == "glue":
        each = {name: properties[name] for name in properties if name in TASK_OPTIONS}
        of_task = {"type": "object", "properties": each, "additionalProperties": False}
        properties["task_overrides"]["additionalProperties"] = of_task
    return {
        "title": f"Options of electra {verb}",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }


def schema_of_line(action: Action, valid: Range | None) -> Schema:
    """Return the schema of an option's value. `null` stands for an option that is not given.

    Args:
        action: the option for argparse: type, choices, number of values, default, help.
        valid: the range of the option's values; None for any.
    """
    description = " ".join((action.help or "").replace("%%", "%").split())
    if valid is not None:
        description = f"{description} Range: {valid.expected}."
    value = _schema_of_value(action, valid)
    if action.nargs == "+":
        value = {"anyOf": [{"type": "array", "items": value}, value, {"type": "null"}]}
    elif "type" in value:
        kinds = value["type"] if isinstance(value["type"], list) else [value["type"]]
        value = {**value, "type": [*kinds, "null"]}
    elif "enum" in value:
        value = {"enum": [*value["enum"], None]}
    else:
        value = {"anyOf": [*value["anyOf"], {"type": "null"}]}
    default = {} if action.default is None or not _is_json(action.default) else {"default": action.default}
    return {"description": description, **default, **value}


def _schema_of_value(action: Action, valid: Range | None) -> Schema:
    """Return the schema of one value of an option."""
    bounds = dict(valid.bounds) if valid else {}
    if action.choices:
        return {"enum": list(action.choices)}
    if action.type is int:
        return {"type": "integer", **bounds}
    if action.type is float:
        return {"anyOf": [{"type": "number", **bounds}, {"type": "string", "pattern": NUMBER_PATTERN}]}
    if action.type is string_to_bool or action.const is False:  # or the opposite of a switch
        return {"type": "boolean"}
    if action.type is str:
        return {"type": ["string", "number"]}  # a number is read as it is written: a name, a time
    return {"type": ["string", "number", "boolean", "object", "array"]}  # mappings and the like, of transformers


def _is_json(value: Any) -> bool:
    """Return True if a default can be written as JSON."""
    return isinstance(value, str | int | float | bool | list | dict)


# ---- sweeps


def schema_of_sweeps(definitions: dict[str, Schema]) -> Schema:
    """Return the schema of sweep files in wandb's format.

    Args:
        definitions: verb -> schema of the verb's options, which stands at `#/definitions/VERB`.
    """
    texts: dict[str, Schema] = {name: {"type": "string"} for name in UNUSED}
    of_program = [
        {
            "if": {"properties": {"program": {"pattern": program.replace(".", r"\.") + "$"}}},
            "then": {"properties": {"parameters": _schema_of_parameters(verb, definitions[verb])}},
        }
        for program, verb in PROGRAMS.items()
        if program.endswith(".py")  # parameters of the others are checked by the command alone
    ]
    properties: dict[str, Schema] = {
        "program": {"description": "The script that is run for each point.", "enum": [*PROGRAMS]},
        "method": {"enum": [*METHODS]},
        "metric": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "goal": {"enum": [*GOALS]}},
            "required": ["name"],
        },
        "parameters": {"description": "Option -> value, values, or min and max.", "type": "object"},
        "command": {"type": "array", "items": {"type": "string"}},
        "run_cap": {"description": "The most points.", "type": "integer", "minimum": 1},
        **texts,
    }
    assert properties.keys() == {*ENTRIES, *UNUSED}
    return {
        "title": "A sweep file",
        "type": "object",
        "properties": properties,
        "required": ["program", "method", "metric", "parameters"],
        "additionalProperties": False,
        "allOf": of_program,
    }


def _schema_of_parameters(verb: str, options: Schema) -> Schema:
    """Return the schema of a sweep's parameters: options of a verb, and `config`."""
    number = {"type": ["number", "string"]}

    def parameter(value: Schema) -> Schema:
        return {
            "type": "object",
            "properties": {
                "value": value,
                "values": {"type": "array", "items": value, "minItems": 1},
                "distribution": {"enum": ["constant", "categorical", *RANGES]},
                "min": number,
                "max": number,
                "q": number,
            },
            "additionalProperties": False,
        }

    names = options["properties"]
    return {
        "type": "object",
        "properties": {
            "config": parameter({"type": "string"}),
            **{name: parameter({"$ref": f"#/definitions/{verb}/properties/{name}"}) for name in names},
        },
        "additionalProperties": False,
    }
