"""The rule of imports of docs/architecture.md: rings around a heart; imports point down, without cycles."""

import ast
import sys
from graphlib import TopologicalSorter

from tests.helpers import ROOT

LAYERS = (
    "core",
    "base",
    "runtime tokenizers",
    "data model",
    "report",
    "finetuning pretraining",
    "tasks",
    "tools",
)
"""Packages of electra/, lowest first."""
LIBRARIES_OF_CORE = {"torch", "transformers", "numpy"}
NOT_IN_CORE = {"argparse", "csv", "json", "logging", "subprocess"}
"""Modules of the standard library that belong to commands and files."""
ENTRY_POINTS = {"electra", "electra.__main__", "electra.pretraining.run"}
"""Modules that may import tools: the front door, the commands, and the run, whose probes are tools."""


def module_name(path):
    """The name by which a file is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path, modules):
    """The modules of this package that a module imports, inside functions too."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names} - {"electra"}  # the package itself: where its files are
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {
                name if name in modules else node.module
                for name in (f"{node.module}.{alias.name}" for alias in node.names)
            }
    return names & modules


def layer(module):
    """The number of a module's layer from below; commands and the front door are above everything else."""
    if module in ENTRY_POINTS:
        return len(LAYERS)
    if module.rpartition(".")[2] == "command":
        return len(LAYERS) - 1
    return next(level for level, names in enumerate(LAYERS) if module.split(".")[1] in names.split())


def graph():
    """The modules that each module of the package imports, by name."""
    paths = {module_name(path): path for path in (ROOT / "electra").rglob("*.py")}
    return {name: imports_of(path, set(paths)) - {name} for name, path in paths.items()}


def test_the_graph_has_imports_of_modules_and_inside_functions():
    assert "electra.core.joint" in graph()["electra.model.joint"]
    assert "electra.model.joint" in graph()["electra.pretraining.model"]


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


def test_packages_of_one_layer_do_not_import_each_other():
    def package_of(module):  # each kind of tasks is one
        return ".".join(module.split(".")[1 : 3 if module.startswith("electra.tasks.") else 2])

    mixed = [
        f"{name} imports {other}"
        for name, imported in graph().items()
        for other in imported
        if layer(name) == layer(other) < len(LAYERS) - 1 and package_of(name) != package_of(other)
    ]
    assert mixed == []


def test_only_entry_points_import_the_tools():
    others = [
        f"{name} imports {other}"
        for name, imported in graph().items()
        for other in imported
        if other.startswith("electra.tools.") and not name.startswith("electra.tools.") and name not in ENTRY_POINTS
    ]
    assert others == []


def test_the_heart_stands_alone():
    """core imports itself, torch, transformers and numpy, inside functions too: the folder can be copied elsewhere."""
    allowed = LIBRARIES_OF_CORE | (sys.stdlib_module_names - NOT_IN_CORE)
    strangers = []
    for path in (ROOT / "electra/core").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = ["." * node.level + (node.module or "")]
            strangers += [
                f"{path.name}: {name}"
                for name in names
                if name.split(".")[0] not in allowed and not name.startswith("electra.core.")
            ]
    assert strangers == []
