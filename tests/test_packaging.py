"""What pyproject.toml promises: every package is in the wheel, every command exists, every import is declared."""

import ast
import re
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from electra import errors
from electra.files import CONFIGS, config_path
from electra.pretraining.options import parse_arguments

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
DISTRIBUTIONS = {"yaml": "pyyaml", "sklearn": "scikit-learn", "jinja2": "jinja2", "huggingface_hub": "huggingface_hub"}


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=!~ ]", line, maxsplit=1)[0].lower() for line in requirements}


def test_every_package_is_listed() -> None:
    found = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "electra").rglob("*.py")}
    listed = set(PROJECT["tool"]["setuptools"]["packages"])
    assert found <= listed and listed - found <= {"electra.configs", "electra.tasks"}


@pytest.mark.parametrize("target", PROJECT["project"]["scripts"].values())
def test_every_console_command_starts_a_module_with_a_main(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, _, function = target.partition(":")
    commands = import_module(module)
    started: list[str] = []
    monkeypatch.setattr(commands, "_run", started.append)
    getattr(commands, function)()
    source = ROOT / f"{started[0].replace('.', '/')}.py"
    assert "main" in {node.name for node in ast.parse(source.read_text()).body if isinstance(node, ast.FunctionDef)}


def test_every_import_is_a_declared_dependency() -> None:
    imported = set()
    for path in (ROOT / "electra").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                imported.add(node.module.partition(".")[0])
    project = PROJECT["project"]
    extras = [line for extra in project["optional-dependencies"].values() for line in extra]
    foreign = imported - set(sys.stdlib_module_names) - {"electra"}
    assert {DISTRIBUTIONS.get(name, name) for name in foreign} <= names([*project["dependencies"], *extras])


def test_requirements_pin_all_that_is_declared() -> None:
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    pinned = [line for line in lines if line and not line.startswith("#")]
    assert all("==" in line for line in pinned)
    extras = PROJECT["project"]["optional-dependencies"]
    declared = [*PROJECT["project"]["dependencies"], *(line for key in extras if key != "all" for line in extras[key])]
    assert names(pinned) == names(declared)


def test_a_packaged_config_is_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert config_path("configs/glue/paper.yaml") == CONFIGS / "glue" / "paper.yaml"
    assert parse_arguments(["--config", "configs/pretraining/paper_base.yaml"]).model.hidden_size == 768
    (tmp_path / "configs" / "glue").mkdir(parents=True)
    (tmp_path / "configs" / "glue" / "paper.yaml").touch()
    assert config_path("configs/glue/paper.yaml") == Path("configs/glue/paper.yaml")


def test_a_missing_optional_package_is_one_line_that_names_the_extra(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def main() -> None:
        raise ModuleNotFoundError("No module named 'seqeval'", name="seqeval")

    monkeypatch.setattr(errors, "_exit", sys.exit)
    with pytest.raises(SystemExit, match="2"):
        errors.run_script(main)
    assert len(line := capsys.readouterr().err.splitlines()) == 1 and "electra[tagging]" in line[0]


def test_every_optional_package_has_its_extra() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    assert all(package in names(extras[extra]) for package, extra in errors.EXTRAS.items())
