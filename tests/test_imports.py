"""The layer rule of docs/architecture.md, read off the syntax trees: an import may only point down. Nothing is run."""

import ast
import graphlib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = "electra"
SCRIPTS = "scripts"

LAYERS = (
    (SCRIPTS,),
    ("sweep",),
    ("efficiency",),
    ("report", "inspect"),
    ("pretraining", "glue", "squad", "tagging", "multiple_choice"),
    ("finetuning.protocol",),
    ("finetuning",),
    ("model", "data"),
    (
        "corruption",
        "objectives",
        "backbones",
        "kernels",
        "tokenizer_training",
        "tokenization",
        "optimization",
        "flops",
        "recipes",
        "arguments",
        "finetuning_arguments",
        "command_line",
        "errors",
        "files",
        "environment",
        "console",
        "units",
        "markup",
        "svg",
        "samples",
        "redaction",
        "tracking",
        "hardware",
        "machine",
        "memory",
    ),
)
"""From the top: names below electra/, and the scripts. Only members of the last layer may know each other."""
DEPTH = {group: depth for depth, layer in enumerate(LAYERS) for group in layer}
STAGES = ("pretraining", "glue", "squad", "tagging", "multiple_choice")
COMMAND_LINE_ONLY = ("arguments", "finetuning_arguments", "command_line")
"""Seen by the scripts, the stages and the protocol that they share: library functions take values, not the objects of
a command line."""


def modules_of(root: Path) -> dict[str, Path]:
    """Dotted name of every script and every module of the package, with its file."""
    modules = {path.stem: path for path in root.glob("*.py")}
    for path in (root / PACKAGE).rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return dict(sorted(modules.items()))


def imported(module: str, path: Path, modules: dict[str, Path]) -> Iterator[tuple[str, int]]:
    """Our own modules that a module imports, wherever in it, each with its line."""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            found = next((known for known in _prefixes(name) if known in modules), None)
            if found is not None:
                yield found, node.lineno


def _prefixes(name: str) -> Iterator[str]:
    """a.b.c, a.b, a: of `from a.b import c`, c may be a module or something in one."""
    parts = name.split(".")
    yield from (".".join(parts[:size]) for size in range(len(parts), 0, -1))


def group_of(module: str) -> str:
    """What LAYERS knows a module by; the package itself has no group."""
    first, *rest = module.split(".")
    if first != PACKAGE:
        return SCRIPTS
    nested = ".".join(rest[:2])
    return nested if nested in DEPTH else "".join(rest[:1])


def violations(root: Path) -> list[str]:
    """What breaks the rule below `root`, a line for each."""
    modules = modules_of(root)
    broken = [
        f"{module}: {group_of(module)} has no layer; give it one in LAYERS and in docs/architecture.md"
        for module in modules
        if group_of(module) and group_of(module) not in DEPTH
    ]
    edges: dict[str, set[str]] = {}
    for module, path in modules.items():
        for target, line in imported(module, path, modules):
            edges.setdefault(module, set()).add(target)
            reason = _forbidden(group_of(module), group_of(target))
            if reason:
                broken.append(f"{module} line {line} imports {target}: {reason}")
    if broken:  # an import that points up often closes a circle, too
        return broken
    try:
        graphlib.TopologicalSorter(edges).prepare()
    except graphlib.CycleError as error:
        return [f"circular import: {' -> '.join(reversed(error.args[1]))}"]
    return []


def _forbidden(importer: str, target: str) -> str | None:
    if not importer:
        return "the package itself imports nothing"
    if importer not in DEPTH or target not in DEPTH:
        return None  # has been named already
    if DEPTH[target] < DEPTH[importer]:
        return "an import may only point down"
    if target in COMMAND_LINE_ONLY and importer not in (
        SCRIPTS,
        *STAGES,
        "finetuning.protocol",
        *COMMAND_LINE_ONLY,
    ):
        return "only scripts and stages see the command line"
    if importer == "pretraining" and target.startswith("finetuning"):
        return "a folder on disk is the whole interface between pre-training and fine-tuning"
    is_last = DEPTH[importer] == len(LAYERS) - 1
    if DEPTH[target] == DEPTH[importer] and target != importer and not is_last:
        return f"{importer} and {target} do not know each other"
    return None


def test_imports_point_down_only() -> None:
    assert violations(ROOT) == []


def test_the_checker_sees_the_whole_project() -> None:
    modules = modules_of(ROOT)
    assert {
        "run_pretraining",
        "electra",
        "electra.data",
        "electra.data.corpus",
        "electra.model.modeling",
        "electra.finetuning.protocol.runs",
    } <= set(modules)
    assert len(modules) == len(list(ROOT.glob("*.py"))) + len(list((ROOT / "electra").rglob("*.py")))
    targets = {
        target for target, _ in imported("electra.pretraining.setup", modules["electra.pretraining.setup"], modules)
    }
    assert {"electra.model.modeling", "electra.data.segments", "electra.console", "electra.errors"} <= targets


FILES = {
    "run_pretraining.py": "from electra.pretraining import trainer\nfrom electra.arguments import X\n",
    "electra/__init__.py": "",
    "electra/errors.py": "import os\n",
    "electra/recipes.py": "",
    "electra/arguments.py": "from electra.recipes import RECIPES\n",
    "electra/command_line.py": "from electra.errors import UserError\n",
    "electra/corruption.py": "import torch\n",
    "electra/data/__init__.py": "",
    "electra/data/corpus.py": "from electra.data.readers import read\nfrom electra.errors import UserError\n",
    "electra/data/readers.py": "import numpy\n",
    "electra/model/__init__.py": "",
    "electra/model/modeling.py": "from electra.corruption import mask\n",
    "electra/pretraining/__init__.py": "",
    "electra/sweep/__init__.py": "",
    "electra/sweep/points.py": "from electra.glue import tasks\n",
    "electra/finetuning/__init__.py": "",
    "electra/finetuning/run.py": "from electra.model import modeling\n",
    "electra/finetuning/protocol/__init__.py": "",
    "electra/finetuning/protocol/plan.py": (
        "from electra.finetuning import run\nfrom electra.command_line import CommandLine\n"
    ),
    "electra/tagging/__init__.py": "",
    "electra/glue/__init__.py": "",
    "electra/glue/runs.py": "from electra.finetuning import run\nfrom electra.command_line import CommandLine\n",
    "electra/glue/tasks.py": "",
    "electra/pretraining/trainer.py": "from electra import arguments\nimport electra.data.corpus\n",
}


def plant(root: Path, extra: dict[str, str]) -> Path:
    """A small tree that keeps the rule, with lines added to some of its files."""
    for name in {*FILES, *extra}:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(FILES.get(name, "") + extra.get(name, ""))
    return root


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("electra/data/corpus.py", "from electra.recipes import RECIPES"),
        ("electra/data/corpus.py", "from . import readers"),
        ("electra/data/corpus.py", "import transformers.data.data_collator"),
        ("electra/model/modeling.py", "from ..corruption import sample"),
        ("electra/pretraining/trainer.py", "from electra.model import modeling"),
        ("electra/pretraining/trainer.py", "from electra.command_line import CommandLine"),
        ("run_pretraining.py", "from electra.data import corpus"),
        ("electra/corruption.py", "text = 'from electra.data import corpus'"),
    ],
)
def test_what_points_down_is_allowed(tmp_path: Path, file: str, line: str) -> None:
    assert violations(plant(tmp_path, {file: f"{line}\n"})) == []


@pytest.mark.parametrize(
    ("file", "line", "message"),
    [
        ("electra/model/modeling.py", "from electra.data.corpus import Corpus", "imports electra.data.corpus: model"),
        ("electra/model/modeling.py", "from electra.data import corpus", "model and data do not know each other"),
        ("electra/model/modeling.py", "from electra import data", "imports electra.data: model and data"),
        ("electra/model/modeling.py", "from ..data import corpus", "imports electra.data.corpus: model and data"),
        ("electra/data/corpus.py", "import electra.model.modeling", "imports electra.model.modeling: data and model"),
        ("electra/data/corpus.py", "def f():\n    import electra.model.modeling", "line 4 imports electra.model"),
        ("electra/data/corpus.py", "from electra.pretraining import trainer", "an import may only point down"),
        ("electra/data/corpus.py", "from electra.arguments import X", "see the command line"),
        ("electra/model/modeling.py", "import electra.command_line as c", "see the command line"),
        ("electra/corruption.py", "from electra.arguments import X", "see the command line"),
        ("electra/corruption.py", "from electra.data.corpus import Corpus", "an import may only point down"),
        ("electra/model/modeling.py", "import electra.pretraining", "imports electra.pretraining: an import may only"),
        ("electra/errors.py", "from .pretraining.trainer import T", "an import may only point down"),
        ("electra/pretraining/trainer.py", "import run_pretraining", "an import may only point down"),
        ("electra/__init__.py", "from electra.errors import UserError", "the package itself imports nothing"),
        (
            "electra/recipes.py",
            "import electra.errors\nfrom electra import recipes",
            "circular import: electra.recipes",
        ),
        ("electra/data/readers.py", "from electra.data.corpus import Corpus", "circular import: electra.data."),
        ("electra/translation/tasks.py", "import numpy", "electra.translation.tasks: translation has no layer"),
        ("electra/glue/tasks.py", "import electra.pretraining", "glue and pretraining do not know each other"),
        ("electra/pretraining/trainer.py", "from electra.glue import runs", "pretraining and glue do not know"),
        (
            "electra/pretraining/trainer.py",
            "from electra.finetuning import run",
            "folder on disk is the whole interface",
        ),
        ("electra/finetuning/run.py", "from electra.glue import tasks", "an import may only point down"),
        ("electra/finetuning/run.py", "from electra.finetuning.protocol import plan", "an import may only point down"),
        ("electra/squad/tasks.py", "from electra.glue import tasks", "squad and glue do not know each other"),
        ("electra/glue/tasks.py", "from electra.tagging import x", "glue and tagging do not know each other"),
        ("electra/finetuning/run.py", "from electra.arguments import X", "see the command line"),
        ("electra/glue/tasks.py", "import electra.sweep.points", "imports electra.sweep.points: an import may only"),
        ("electra/sweep/points.py", "from electra.arguments import X", "see the command line"),
    ],
)
def test_a_planted_violation_is_found_and_named(tmp_path: Path, file: str, line: str, message: str) -> None:
    found = violations(plant(tmp_path, {file: f"{line}\n"}))
    assert len(found) == 1, found
    assert message in found[0]
