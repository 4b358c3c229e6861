"""JSON Schema of `--config` files and sweep files, made by pydantic of the options' types.

Editors with a YAML language server complete and check a file whose first line names the schema:

    # yaml-language-server: $schema=../electra.schema.json

`python -m docs.reference` writes `configs/electra.schema.json`.
"""

import dataclasses
import json
from functools import reduce
from operator import or_
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import Field, TypeAdapter

from electra.base.command_line import CommandLine
from electra.base.options import default_of, plain_value, types_of
from electra.core.options import rules_of
from electra.data.command import CACHE_GROUPS
from electra.finetuning.registry import TASKS, groups_of
from electra.pretraining.options import GROUPS
from electra.pretraining.testset import TestSetArguments
from electra.tasks.glue.task import TASK_OPTIONS
from electra.tokenizers.command import TOKENIZER_GROUPS
from electra.tools.sweep_file import NUMBER_PATTERN, Sweep

Schema = dict[str, Any]
"""A JSON Schema, as the mapping that JSON writes."""

VERBS_WITH_CONFIG = {
    "pretrain": GROUPS,
    **{verb: groups_of(verb) for verb in TASKS},
    "tokenizer": TOKENIZER_GROUPS,
    "cache": CACHE_GROUPS,
    "testset": (TestSetArguments,),
}
"""Verb with `--config` -> the groups of its options."""
DRAFT = "http://json-schema.org/draft-07/schema#"
"""URL of draft 7 of JSON Schema, which editors know."""


def to_json(schema: Schema) -> str:
    """Return a schema as the content of its file."""
    return json.dumps({"$schema": DRAFT, **schema}, indent=1, ensure_ascii=False) + "\n"


def schema_of_files() -> Schema:
    """Return the schema of all files: `--config` files of all verbs, and sweep files.

    An option that several verbs have with the same schema is written at the first of them, to which others refer.
    """
    definitions = {verb: schema_of_verb(verb) for verb in [*VERBS_WITH_CONFIG, "sweep"]}
    parts_of_sweep = definitions["sweep"].pop("definitions")
    references: dict[str, str] = {}
    for verb in VERBS_WITH_CONFIG:
        properties = definitions[verb]["properties"]
        for name, schema in properties.items():
            reference = f"#/definitions/{verb}/properties/{name}"
            first = references.setdefault(json.dumps([name, schema]), reference)
            if first != reference:
                properties[name] = {"$ref": first}
    return {
        "title": "A --config file of a command of this package, or a sweep file",
        "anyOf": [{"$ref": f"#/definitions/{verb}"} for verb in definitions],
        "definitions": {**definitions, **parts_of_sweep},
    }


def schema_of_verb(verb: str) -> Schema:
    """Return the schema of a verb's `--config` file, in which other names are errors; of sweep, that of its files."""
    if verb == "sweep":
        schema = Sweep.model_json_schema(ref_template="#/definitions/{model}")
        return {"definitions": schema.pop("$defs"), **schema}
    options = CommandLine(VERBS_WITH_CONFIG[verb], "").options
    properties = {name: schema_of_option(f, types_of(group)[name]) for name, (f, group) in options.items()}
    for name, value in (TASKS[verb].preset if verb in TASKS else {}).items():
        properties[name]["default"] = value
    if verb == "glue":
        overrides = {name: properties[name] for name in properties if name in TASK_OPTIONS}
        of_task = {"type": "object", "properties": overrides, "additionalProperties": False}
        properties["task_overrides"]["anyOf"].append({"type": "object", "additionalProperties": of_task})
    return {
        "title": f"Options of electra {verb}",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }


def schema_of_option(option: dataclasses.Field[Any], annotation: Any) -> Schema:
    """Return the schema of an option's value in a file; null stands for an option that is not given.

    Args:
        annotation: type of the option.
    """
    valid = rules_of(option).valid
    text = option.metadata.get("help", "").replace("%%", "%")  # argparse's spelling
    schema = {
        "description": f"{text} Range: {valid.expected}." if valid else text,
        "default": plain_value(default_of(option)),
        **TypeAdapter(type_in_file(option, annotation) | None).json_schema(),
    }
    return {key: value for key, value in schema.items() if value is not None}


def type_in_file(option: dataclasses.Field[Any], annotation: Any) -> Any:
    """Return the type that an option's value has in a file, with choices and range.

    A file may have one value for a list, and a number for a text. A type that is not of Python stands for any value.

    Args:
        annotation: type of the option, or a part of it.
    """
    valid = rules_of(option).valid
    in_range = Field(json_schema_extra=dict(valid.bounds) if valid else {})
    if get_origin(annotation) in (Union, UnionType):
        return reduce(or_, [type_in_file(option, part) for part in get_args(annotation)])
    if get_origin(annotation) is list:
        element: Any = type_in_file(option, get_args(annotation)[0])
        return list[element] | element
    if annotation is float:
        return Annotated[float, in_range] | Annotated[str, Field(pattern=NUMBER_PATTERN)]
    if annotation is int:
        return Annotated[int, in_range]
    if annotation is str:
        choices = tuple(option.metadata.get("choices", ()))
        return Literal[choices] if choices else str | float
    return annotation if annotation in (bool, NoneType, dict) or get_origin(annotation) in (Literal, dict) else Any
