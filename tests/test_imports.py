"""The layer rule of docs/architecture.md: imports point down, without cycles."""

import ast
from graphlib import TopologicalSorter

from tests.helpers import ROOT

LAYERS = (
    "data model",
    "report",
    "finetuning pretraining",
    "tasks",
    "downstream tools",
)
"""Packages and commands of electra/, lowest first. What is not named here is the base, below all of them."""


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path, modules):
    """The modules of this package that a module imports, inside functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} - {"electra"}  # the package itself: where its files are
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {
                name if name in modules else node.module
                for name in (f"{node.module}.{alias.name}" for alias in node.names)
            }
    return found & modules


def layer(module):
    """Commands and the front door are above everything else."""
    if module == "electra" or module.rpartition(".")[2] in (
        "run",
        "command",
        "commands",
        "schema",
        "checks",
        "__main__",
    ):
        return len(LAYERS) + 1
    room = module.split(".")[1] if "." in module else ""
    return next((level for level, names in enumerate(LAYERS, start=1) if room in names.split()), 0)


def graph():
    paths = {module_name(path): path for path in (ROOT / "electra").rglob("*.py")}
    return {name: imports_of(path, set(paths)) - {name} for name, path in paths.items()}


def test_imports_point_down():
    upward = [
        f"{name} imports {other}"
        for name, imported in graph().items()
        for other in imported
        if layer(other) > layer(name)
    ]
    assert upward == []


def test_there_are_no_cycles():
    TopologicalSorter(graph()).prepare()  # raises CycleError, which names the modules


def test_rooms_of_one_layer_do_not_import_each_other():
    def room(module):
        return ".".join(module.split(".")[1 : 3 if module.startswith("electra.tasks.") else 2])

    mixed = [
        f"{name} imports {other}"
        for name, imported in graph().items()
        for other in imported
        if layer(name) == layer(other) and layer(name) in (1, 3, 4) and room(name) != room(other)
    ]
    assert mixed == []


def test_only_verbs_import_the_tools():
    others = [
        f"{name} imports {other}"
        for name, imported in graph().items()
        for other in imported
        if other.startswith("electra.tools.") and layer(name) < layer(other)
    ]
    assert others == []
