"""Write docs/python.md, the page of the public names, from their docstrings.

python -m docs.python_page
"""

import argparse
import inspect
import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from textwrap import fill
from typing import Any

import electra

PAGE = Path(__file__).with_name("python.md")
INTRODUCTION = """# Python

`from electra import NAME` imports a name when it is first used. Options are those of the commands: `--num_seeds 3` is
`num_seeds=3`, also where a message names an option; `electra classify --help` and the `--help` of the other commands
list the options with their defaults. A path may be a string or a `Path`. Wrong arguments and files
raise `electra.io.errors.UserError`, a `ValueError` of one line; a missing file raises `FileNotFoundError`. What
a command prints is printed here, too, unless the program sets up `logging` for INFO itself.

A model in memory needs its tokenizer, as `processing_class`, unless it was loaded from a folder that has one, which is
then the only one that is accepted. After each call the settings of the whole process are as before (threads, precision
of products, malloc, signals), and after `fine_tune`, `predict` and `replaced_token_probabilities` the random states,
too, which Trainer seeds.
`AutoModel` opens the joint model of a run's `checkpoint-N`, too, after `from electra import` of any name of a model.

| to | use |
|---|---|
| make a tokenizer and a corpus | `train_tokenizer` or `load_tokenizer`, `tokenize_corpus`: a `TokenCache` |
| pre-train | `ElectraForJointPretraining.from_recipe`, `ElectraTrainingArguments`, `ElectraTrainer` |
| export networks, write the report | `finish_run` |
| fine-tune, and answer new rows | `fine_tune`: a `FineTuned`; `predict` |
| find words that look wrong | `replaced_token_probabilities`: `TokenProbability` of each token |

[examples/](../examples) has programs and [a notebook](../examples/electra.ipynb). This page is made from the
docstrings by `python -m docs.python_page`.
"""
SECTION = re.compile(r"^(Args|Returns|Raises|Attributes|Yields):$")


def page() -> str:
    """Return the page: a section for each public name, in the order of the alphabet."""
    sections = [section(name, getattr(electra, name)) for name in electra.__all__]
    return "\n".join([INTRODUCTION, *sections])


def section(name: str, value: Any) -> str:
    """Return the section of a public name: how it is called, then its docstring."""
    lines = [f"## {name}", ""]
    if isinstance(value, dict):
        names = ", ".join(f"`{key}`" for key in value)
        text = fill(f"{RECIPES_ARE} The names are {names}. `RECIPES['small']` is:", WIDTH)
        return "\n".join([*lines, text, "", "```python", *values_of(value["small"]), "```", ""])
    lines += ["```python", signature(name, value), "```", "", *as_markdown(inspect.getdoc(value) or ""), ""]
    if name == "SegmentArguments":
        items = [f"- `{f.name}`: {f.metadata['help']}" for f in fields(value)]
        lines += ["**Args**", "", *(fill(item, WIDTH, subsequent_indent="  ") for item in items), ""]
    if inspect.isclass(value):
        for method_name in PUBLIC_METHODS.get(name, ()):
            method = inspect.getattr_static(value, method_name)
            function = getattr(method, "__func__", method)
            lines += ["```python", signature(f"{name}.{method_name}", function), "```", ""]
            lines += [*as_markdown(inspect.getdoc(function) or ""), ""]
    return "\n".join(lines)


WIDTH = 119
"""Characters of a line, at most."""
RECIPES_ARE = (
    "The sizes of networks and their training, by name: a dictionary of options for each recipe. `from_recipe` uses "
    "those of the networks."
)
"""Meaning of `RECIPES`, which is a value and has no docstring."""


def values_of(options: Mapping[str, Any]) -> list[str]:
    """Return a dictionary of options as lines of Python."""
    return ["{", *(f"    {name!r}: {value!r}," for name, value in options.items()), "}"]


PUBLIC_METHODS = {
    "ElectraForJointPretraining": ("from_recipe", "forward", "generate", "replace", "discriminate"),
    "ElectraTrainer": ("train",),
}
"""Methods that have a paragraph of their own."""


def signature(name: str, value: Any) -> str:
    """Return a call of a function or class with its parameters, those of options by group left out."""
    parameters = [p for p in inspect.signature(value).parameters.values() if p.name not in ("self", "cls")]
    if len(parameters) > 20:  # options by name
        first = [parameters[0].name] if parameters[0].default is inspect.Parameter.empty else []
        return f"{name}({', '.join([*first, '**options'])})"
    words = []
    is_keyword_only = False
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and not is_keyword_only:
            words.append("*")
            is_keyword_only = True
        prefix = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        default = "" if p.default is p.empty else f"={getattr(p.default, '__name__', repr(p.default))}"
        if default == "=<factory>":  # of a dataclass: an empty list
            default = "=[]"
        words.append(f"{prefix}{p.name}{default}")
    return f"{name}({', '.join(words)})"


def as_markdown(docstring: str) -> list[str]:
    """Return a docstring as Markdown: sections become lists, other indented lines become code."""
    lines: list[str] = []
    in_section = in_list = in_code = False
    for line in docstring.splitlines():
        indent = len(line) - len(line.lstrip())
        text = line.strip()
        if in_code and text and indent == 0:
            while not lines[-1]:
                lines.pop()
            lines += ["```", ""]
            in_code = False
        if SECTION.match(line):
            lines += [*([""] if lines and lines[-1] else []), f"**{text[:-1]}**", ""]
            in_section = True
            in_list = text != "Returns:"  # a paragraph, which may have colons
        elif in_section and text and not in_list:
            lines.append(text)
        elif in_section and text and indent == 4 and ":" in text:
            name, _, meaning = text.partition(":")
            lines.append(f"- `{name}`:{meaning}")
        elif in_section and text and indent:
            lines.append(f"  {text}")
        elif text and indent >= 4 and not in_section and not in_code:
            lines += ["```", line[4:]]
            in_code = True
        elif in_code:
            lines.append(line[4:])
        else:
            in_section = in_section and not text
            lines.append(line)
    if in_code:
        lines.append("```")
    return lines


def main() -> None:
    argparse.ArgumentParser(description="Write docs/python.md from the docstrings of the public names.").parse_args()
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
