"""What a reader of the code meets: the described way to a step, names of one meaning, paths of objects that exist."""

import ast
import re
import sys
from collections import Counter

import pytest
from torch.optim.optimizer import register_optimizer_step_post_hook

from electra.pretraining.run import main
from tests.helpers import ROOT
from tests.pretraining.runs import FAST, flags, write_corpus

CODE = ROOT / "electra"
PROTOCOL = {"logger", "main", "predictor", "report"}
"""Names that several modules define: each command has a `main`, each kind of task the others."""


def modules():
    """The modules of the package with content, by path."""
    paths = sorted(CODE.rglob("*.py"))
    return {path: path.read_text(encoding="utf-8") for path in paths if path.stat().st_size}


def test_a_public_name_means_one_thing():
    names = Counter()
    for text in modules().values():
        names.update(set().union(*map(names_of, ast.parse(text).body)))
    twice = {name for name, count in names.items() if count > 1 and not name.startswith("_")}
    assert twice <= PROTOCOL


def is_assignment(node):
    """True if a statement gives names a value."""
    return isinstance(node, ast.Assign | ast.AnnAssign)


def names_of(node):
    """The names that a statement of a module defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    if not is_assignment(node):
        return set()
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}


def test_objects_that_are_named_by_their_path_exist():
    defined = {
        "electra." + ".".join(path.relative_to(CODE).with_suffix("").parts): set().union(
            *map(names_of, ast.parse(text).body)
        )
        for path, text in modules().items()
    }
    named = {path: re.findall(r"(electra(?:\.\w+)+)\.([A-Za-z]\w*)", text) for path, text in modules().items()}
    assert any(named.values())
    for path, objects in named.items():
        for module, name in objects:
            exists = module not in defined or name in defined[module] | {"json"}  # a file of this name is no object
            assert exists, f"{path.relative_to(CODE)} names {module}.{name}"


@pytest.mark.slow
def test_a_step_runs_the_files_that_are_described(tmp_path, short_end):
    write_corpus(tmp_path / "corpus.txt")
    steps, files = 0, set()

    def add_file(frame, event, argument):
        code = frame.f_code
        if event == "call" and code.co_name != "<module>" and code.co_filename.startswith(str(CODE)):
            files.add(code.co_filename.removeprefix(f"{CODE}/"))

    def after_step(*_):
        nonlocal steps
        steps += 1
        sys.setprofile(add_file if steps == 3 else None)  # of the fourth step, which neither logs nor saves

    handle = register_optimizer_step_post_hook(after_step)
    try:
        intervals = {"max_steps": 5, "logging_steps": 10, "save_steps": 10}
        main(flags(tmp_path, **{**FAST, **intervals}, dataloader_num_workers=0))
    finally:
        sys.setprofile(None)
        handle.remove()
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("## From a batch to the optimizer")[2].partition("\n## ")[0]
    assert "core/joint.py" in files
    assert files <= {*re.findall(r"[\w/]+\.py", section)}
