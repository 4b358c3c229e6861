"""Write docs/python.md, the page of the public names, from their docstrings.

python -m docs.python_page
"""

import argparse
import inspect
import re
from pathlib import Path
from typing import Any

import electra

PAGE = Path(__file__).with_name("python.md")
INTRODUCTION = """# Python

`from electra import NAME` imports a name when it is first used. Options are those of the commands: `--num_seeds 3` is
`num_seeds=3`, also where a message names an option. A path may be a string or a `Path`. Wrong arguments and files
raise `electra.io.errors.UserError`, a `ValueError` of one line; a missing file raises `FileNotFoundError`. What
a command prints is printed here, too, unless the program sets up `logging` for INFO itself.

Models in memory need their tokenizer, as `processing_class`, unless they were loaded from a folder that has it. Once a
name that needs transformers has been used, `AutoConfig` and `AutoModel` open the joint model in a run's checkpoint-N.

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
        return "\n".join([*lines, f"The names of the recipes: {', '.join(f'`{key}`' for key in value)}.", ""])
    lines += ["```python", signature(name, value), "```", "", *as_markdown(inspect.getdoc(value) or ""), ""]
    if inspect.isclass(value):
        for method_name in PUBLIC_METHODS.get(name, ()):
            method = inspect.getattr_static(value, method_name)
            function = getattr(method, "__func__", method)
            lines += ["```python", signature(f"{name}.{method_name}", function), "```", ""]
            lines += [*as_markdown(inspect.getdoc(function) or ""), ""]
    return "\n".join(lines)


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
        words.append(f"{prefix}{p.name}{default}")
    return f"{name}({', '.join(words)})"


def as_markdown(docstring: str) -> list[str]:
    """Return a docstring as Markdown: sections become lists, other indented lines become code."""
    lines: list[str] = []
    in_section = in_code = False
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
