"""What pyproject.toml promises: packages are in the wheel, commands and tools start, imports are declared."""

import ast
import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib import import_module
from pathlib import Path

from pytest import mark, raises

from docs.help_files import FOLDER, help_of
from electra.base import errors
from electra.base.errors import OPTIONAL, where_is
from electra.base.files import PACKAGED_NETWORK
from electra.tools import commands
from tests.helpers import ROOT, parametrize
from tests.test_page_numbers import sentences_of_code

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRA_PACKAGES = PROJECT["project"]["optional-dependencies"]
DISTRIBUTIONS = {"yaml": "pyyaml", "sklearn": "scikit-learn", "python_calamine": "python-calamine"}
TOOLS = [
    path
    for folder in ("benchmarks", "docs", "tests")
    for path in sorted((ROOT / folder).glob("*.py"))
    if '\nif __name__ == "__main__":' in path.read_text(encoding="utf-8")
]


def names(requirements):
    """The names of packages, in lower case, without versions and extras."""
    return {re.split(r"[\[<>=!~ ]", line, maxsplit=1)[0].lower() for line in requirements}


def test_every_package_is_listed():
    packages = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "electra").rglob("*.py")}
    listed = set(PROJECT["tool"]["setuptools"]["packages"])
    assert packages <= listed and listed - packages <= {"electra.configs", "electra.tasks"}


@parametrize("verb", commands.VERBS)
def test_the_help_of_a_verb_is_that_of_its_declarations(verb):
    written = (FOLDER / f"{verb}.txt").read_text(encoding="utf-8")
    assert written.split() == help_of(verb).split(), "run: python -m docs.reference"  # versions of Python break lines
    assert written.startswith("example: ") and f"usage: electra {verb} " in written
    assert len(list(FOLDER.iterdir())) == len(commands.VERBS)


def test_help_all_has_every_option(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["electra", "pretrain", "--help", "all"])
    with raises(SystemExit) as stop:
        commands.main()
    texts = (FOLDER / "pretrain.txt").read_text(encoding="utf-8"), capsys.readouterr().out
    basic, every = (set(re.findall(r"^  (--\w+)", text, re.MULTILINE)) for text in texts)
    assert not stop.value.code and basic < every and "--adam_beta1" in every


def test_the_command_of_the_package_runs_a_verb():
    module, _, function = PROJECT["project"]["scripts"]["electra"].partition(":")
    assert getattr(import_module(module), function) is commands.main


def run_electra(*words):
    """The finished command, and the names of the modules that it imported."""
    program = "import sys; from electra.tools.commands import main\ntry: main()\nfinally: print(*sys.modules)"
    completed = subprocess.run([sys.executable, "-c", program, *words], cwd=ROOT, capture_output=True, text=True)
    return completed, set(completed.stdout.splitlines()[-1].split())


@parametrize(
    ("words", "code", "line"),
    [(["--help"], 0, "  tag "), (["tag", "-h"], 0, "  --train_file FILE"), (["tagg"], 2, "did you mean tag?")],
)
def test_electra_answers_without_importing_libraries(words, code, line):
    completed, imported = run_electra(*words)
    assert completed.returncode == code and line in completed.stdout + completed.stderr
    assert not {"torch", "transformers", "numpy"} & imported


@mark.slow
@parametrize(
    ("words", "unused"),
    [
        ("predict evaluation dev.csv", ["datasets", "pandas", "sklearn", "transformers.trainer", "wandb"]),
        (
            "classify --pretrain_path networks/discriminator --train_file train.csv --validation_file dev.csv",
            ["wandb"],
        ),
    ],
)
def test_a_command_imports_no_library_that_it_does_not_use(words, unused, tmp_path):
    release = ROOT / "tests" / "fixtures" / "earlier_release"
    verb, *others = words.split()
    paths = [str(release / word) if (release / word).exists() else word for word in others]
    options = ["--output_dir", str(tmp_path), "--num_train_epochs", "1"] if verb == "classify" else []
    completed, imported = run_electra(verb, *paths, *options)
    assert completed.returncode == 0 and "electra.finetuning.predict" in imported
    assert not imported.intersection(unused)


@parametrize("name", ["pretrain", "glue", "pairs", "tokenizer"])
def test_a_wrong_option_is_named(name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["electra", name, "--no_such_option", "4"])
    with raises(SystemExit) as stop:
        commands.main()
    assert stop.value.code == 2 and "no_such_option" in capsys.readouterr().err


def test_every_import_is_a_declared_dependency_and_pinned():
    imported = set()
    for path in (ROOT / "electra").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                imported.add(node.module.partition(".")[0])
    foreign = imported - set(sys.stdlib_module_names) - {"electra"}
    optional = [line for extra, lines in EXTRA_PACKAGES.items() if extra != "all" for line in lines]
    declared = names([*PROJECT["project"]["dependencies"], *optional])
    assert {DISTRIBUTIONS.get(name, name) for name in foreign} <= declared
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    pinned = [line for line in lines if line and not line.startswith("#")]
    assert all("==" in line for line in pinned) and names(pinned) == declared


def test_every_optional_package_has_its_extra():
    assert names([line for extra, lines in EXTRA_PACKAGES.items() if extra != "all" for line in lines]) == OPTIONAL


@mark.skipif(Path(sys.prefix) != ROOT / ".venv", reason="not the environment that make creates")
def test_make_installs_the_clone_for_programs_in_any_folder(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    argv = [sys.executable, "-c", "import electra; print(electra.__file__)"]
    completed = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert Path(completed.stdout.strip()) == ROOT / "electra" / "__init__.py"


@parametrize("path", TOOLS, ids=lambda path: path.name)
def test_a_tool_beside_the_package_has_a_help(path, monkeypatch, capsys):
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    monkeypatch.setattr(sys, "argv", [str(path), "--help"])
    with raises(SystemExit) as stop:
        runpy.run_module(module, run_name="__main__")
    assert not stop.value.code and "usage: " in capsys.readouterr().out


def named_files():
    """The pages, programs and experiments that a string of the package names."""
    return {*re.findall(r"\b(?:docs|examples|configs)/[\w/.]+\.\w+", "\n".join(sentences_of_code()))}


def test_the_pages_and_programs_that_messages_name_exist():
    assert len(named_files()) > 5 and [name for name in named_files() if not (ROOT / name).is_file()] == []


def test_a_message_names_the_page_that_a_wheel_installed(tmp_path, monkeypatch):
    monkeypatch.setattr(errors, "__file__", str(tmp_path / "lib" / "python3" / "dist-packages" / "errors.py"))
    assert where_is("docs/data.md") == "docs/data.md"  # a clone
    page = tmp_path / "share" / "doc" / "electra" / "docs" / "data.md"
    page.parent.mkdir(parents=True)
    page.touch()
    assert where_is("docs/data.md") == str(page)


@mark.slow
@mark.skipif(not PACKAGED_NETWORK.is_dir(), reason="the network of the package was removed")
def test_wheel_and_source_distribution_have_the_network(tmp_path):
    for name in ("electra", "configs", "docs", "examples", "pyproject.toml", "README.md", "LICENSE"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile
        copy(ROOT / name, tmp_path / name)
    program = "from setuptools.build_meta import *; build_wheel('dist'); build_sdist('dist')"
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, check=True)
    (wheel,), (source,) = (tmp_path / "dist").glob("*.whl"), (tmp_path / "dist").glob("*.tar.gz")
    files = {path.relative_to(ROOT).as_posix() for path in PACKAGED_NETWORK.rglob("*") if path.is_file()}
    with zipfile.ZipFile(wheel) as archive:
        assert files <= set(archive.namelist())
        shared = {name.partition("/share/doc/electra/")[2] for name in archive.namelist()}
    assert {name for name in named_files() if not name.startswith("configs/")} <= shared
    with tarfile.open(source) as archive:
        assert files <= {name.partition("/")[2] for name in archive.getnames()}
    assert wheel.stat().st_size < 10e6
