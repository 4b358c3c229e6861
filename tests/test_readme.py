"""The documentation stays correct: its commands parse, its modules exist, its links resolve."""

import re
import shlex
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

from electra import train_tokenizer
from electra.cli import CommandLine, write_yaml
from electra.pretraining.options import GROUPS
from electra.tasks.glue import task as glue
from electra.tasks.multiple_choice import task as multiple_choice
from electra.tasks.squad import task as squad
from electra.tasks.tagging import task as tagging

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
OPTIONS = {
    "run_glue.py": glue.GROUPS,
    "run_pretraining.py": GROUPS,
    "run_squad.py": squad.GROUPS,
    "run_swag.py": multiple_choice.GROUPS,
    "run_tagging.py": tagging.GROUPS,
    "train_tokenizer.py": train_tokenizer.GROUPS,
}


def shell_commands(text: str) -> list[list[str]]:
    """Words of every line in fenced shell blocks, continuation lines joined, comments dropped."""
    blocks = re.findall(r"```(?:bash|sh|shell)\n(.*?)```", text, flags=re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def docstring_commands(text: str) -> list[str]:
    """The example commands of a script, continuation lines joined, without what is said beside them."""
    return re.findall(r"^ +(python .*?)(?:  .*)?$", re.sub(r" *\\\n *", " ", text), flags=re.MULTILINE)


def script_commands() -> list[list[str]]:
    """Words of every command of one of our scripts, and where it stands."""
    sources = [*PAGES, *(ROOT / script for script in OPTIONS)]
    commands = []
    for path in sources:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".py":  # the example commands of a script's docstring
            text = "```sh\n" + "\n".join(docstring_commands(text)) + "\n```"
        ours = (words for words in shell_commands(text) if not OPTIONS.keys().isdisjoint(words))
        commands += [[*words, f"@{path.name}"] for words in ours]
    return commands


@pytest.mark.parametrize("words", script_commands(), ids=" ".join)
def test_every_command_in_the_documentation_parses(words: list[str]) -> None:
    script = next(word for word in words if word in OPTIONS)
    argv = words[words.index(script) + 1 : -1]
    argv = argv[: argv.index("...")] if "..." in argv else argv
    if "--config" in argv:
        at = argv.index("--config")
        if argv[at + 1].startswith("output/"):  # of a run that is not here
            del argv[at : at + 2]
        else:
            assert (ROOT / argv[at + 1]).is_file(), f"{argv[at + 1]} does not exist"
    CommandLine(OPTIONS[script], "test").parse(argv)


@pytest.mark.parametrize(
    ("script", "task"),
    [("run_squad.py", squad), ("run_tagging.py", tagging), ("run_swag.py", multiple_choice)],
)
def test_the_commands_of_a_script_are_accepted_by_it(
    script: str, task: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(ROOT)
    commands = docstring_commands((ROOT / script).read_text())
    assert len(commands) >= 3
    for command in commands:
        args = task.parse_arguments(shlex.split(command)[2:])
        write_yaml(args.effective, tmp_path / "config.yaml", "as a run writes it")
        again = task.parse_arguments([f"--config={tmp_path / 'config.yaml'}"])
        assert again.options == args.options and again.tuning == args.tuning


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_modules_named_in_commands_exist(page: Path) -> None:
    for module in set(
        re.findall(r"python -m ((?:electra|benchmarks|docs)[\w.]*\w)", page.read_text(encoding="utf-8"))
    ):
        assert find_spec(module) is not None, f"{page.name} runs {module}"


def test_the_two_commands_are_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    mentioned = [words[1] for words in shell_commands(PAGES[0].read_text()) if words[0] == "make"]
    assert mentioned == ["quickstart", "test"]
    assert all(f"\n{target}:" in makefile for target in mentioned)
    assert "make test" in (ROOT / ".ci" / "run").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_between_pages_resolve(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not target.startswith(("http://", "https://", "mailto:")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
