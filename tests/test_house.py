"""What a reader meets: a short way to a step, names of one meaning, paths of objects that exist."""

import ast
import re
import sys
from collections import Counter
from contextlib import contextmanager

import pytest
from torch.optim.optimizer import register_optimizer_step_post_hook

from electra.model.joint import ElectraForJointPretraining
from electra.pretraining.run import main
from tests.helpers import ROOT
from tests.pretraining.runs import FAST, flags, write_corpus

CODE = ROOT / "electra"
PROTOCOL = {"logger", "main", "predictor", "report"}
"""Names that several modules define: each command has a `main`, each kind of task the others."""
MOST_SHARED_NAMES = 0
"""Other public names that several modules define."""
FILES_OF_STEP = 11
"""Modules that an optimizer step runs, without logging, evaluation and checkpoints."""
FILES_BEFORE_STEP = 50
"""Modules that a new run runs before its first step, without those that only define something."""
FILES_OF_RESUME = 45
"""Modules that a resumed run runs before its first batch."""


def modules():
    """The modules of the package with content, by path."""
    paths = sorted(CODE.rglob("*.py"))
    return {path: path.read_text(encoding="utf-8") for path in paths if path.stat().st_size}


def test_a_public_name_means_one_thing():
    names = Counter()
    for text in modules().values():
        names.update(set().union(*map(names_of, ast.parse(text).body)))
    twice = {name for name, count in names.items() if count > 1 and not name.startswith("_")}
    assert len(twice - PROTOCOL) <= MOST_SHARED_NAMES, twice


def is_assignment(node):
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
    owned = {
        "electra." + ".".join(path.relative_to(CODE).with_suffix("").parts): set().union(
            *map(names_of, ast.parse(text).body)
        )
        for path, text in modules().items()
    }
    for path, text in modules().items():
        for module, name in re.findall(r"(electra(?:\.\w+)+)\.([A-Za-z]\w*)", text):
            is_there = module not in owned or name in owned[module] | {"json"}
            assert is_there, f"{path.relative_to(CODE)} names {module}.{name}"


# ---- the way to a step, traced


class Trace:
    """The modules of the package whose functions were called in each phase of a run."""

    def __init__(self):
        self.files = {}
        self.phase = "start"

    def __call__(self, frame, event, argument):
        code = frame.f_code
        if event == "call" and code.co_name != "<module>" and code.co_filename.startswith(str(CODE)):
            files = self.files.setdefault(self.phase, {})
            files[code.co_filename.removeprefix(f"{CODE}/")] = None  # a dictionary keeps the order


@contextmanager
def traced():
    trace = Trace()
    before = sys.getprofile()
    sys.setprofile(trace)
    try:
        yield trace
    finally:
        sys.setprofile(before)


@pytest.fixture(scope="module")
def steps(tmp_path_factory, short_end):
    """A run of five steps: the modules before its first step, and those of its fourth."""
    folder = tmp_path_factory.mktemp("steps")
    write_corpus(folder / "corpus.txt")
    count = 0

    def after_step(*_):
        nonlocal count
        count += 1
        trace.phase = f"step {count + 1}"
        if count == 4:
            sys.setprofile(None)  # which makes all that follows slow

    options = {**FAST, "max_steps": 5, "logging_steps": 10, "save_steps": 10, "dataloader_num_workers": 0}
    with traced() as trace:
        handle = register_optimizer_step_post_hook(after_step)
        try:
            main(flags(folder, **options))
        finally:
            handle.remove()
    return folder, trace.files


@pytest.mark.slow
def test_a_step_is_in_few_files(steps):
    _, files = steps
    assert "core/joint.py" in files["step 4"]
    assert len(files["step 4"]) <= FILES_OF_STEP, [*files["step 4"]]


@pytest.mark.slow
def test_a_run_begins_soon(steps):
    _, files = steps
    before = {*files["start"], *files.get("step 1", {})}
    assert len(before) <= FILES_BEFORE_STEP, sorted(before)


@pytest.mark.slow
def test_a_resumed_run_goes_on_soon(steps, monkeypatch):
    folder, _ = steps
    forward = ElectraForJointPretraining.forward

    def first_forward(*arguments, **options):
        sys.setprofile(None)
        return forward(*arguments, **options)

    monkeypatch.setattr(ElectraForJointPretraining, "forward", first_forward)
    with traced() as trace:
        main([f"--resume_from_checkpoint={folder / 'output' / 'run'}", "--max_steps=6", "--disable_tqdm"])
    assert 0 < len(trace.files["start"]) <= FILES_OF_RESUME, sorted(trace.files["start"])
