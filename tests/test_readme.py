"""The README does not rot: its commands parse, its links resolve, its tree is the tree."""

import re
import shlex
from pathlib import Path
from types import ModuleType

import pytest

import run_squad
import run_swag
import run_tagging
import train_tokenizer
from electra.command_line import CommandLine, write_yaml
from electra.glue.options import GROUPS as GLUE_GROUPS
from electra.multiple_choice.options import GROUPS as CHOICE_GROUPS
from electra.pretraining.options import GROUPS
from electra.squad.options import GROUPS as SQUAD_GROUPS
from electra.tagging.options import GROUPS as TAGGING_GROUPS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
OPTIONS = {
    "run_glue.py": GLUE_GROUPS,
    "run_pretraining.py": GROUPS,
    "run_squad.py": SQUAD_GROUPS,
    "run_swag.py": CHOICE_GROUPS,
    "run_tagging.py": TAGGING_GROUPS,
    "train_tokenizer.py": tuple(train_tokenizer.Arguments.__annotations__.values()),
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
    sources = [*PAGES, *(ROOT / script for script in OPTIONS)]
    commands = []
    for path in sources:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".py":  # the example commands of a script's docstring
            text = "```sh\n" + "\n".join(docstring_commands(text)) + "\n```"
        commands += [[*words, f"@{path.name}"] for words in shell_commands(text)]
    return commands


@pytest.mark.parametrize("words", script_commands(), ids=" ".join)
def test_every_command_in_the_documentation_parses(words: list[str]) -> None:
    scripts = [word for word in words if word in OPTIONS]
    if not scripts:
        pytest.skip("not one of our scripts")
    argv = words[words.index(scripts[0]) + 1 : -1]
    argv = argv[: argv.index("...")] if "..." in argv else argv
    if "--config" in argv:
        at = argv.index("--config")
        if argv[at + 1].startswith("output/"):  # of a run that is not here
            del argv[at : at + 2]
        else:
            assert (ROOT / argv[at + 1]).is_file(), f"{argv[at + 1]} does not exist"
    CommandLine(OPTIONS[scripts[0]], "test").parse(argv)


@pytest.mark.parametrize("script", [run_squad, run_tagging, run_swag], ids=lambda script: script.__name__)
def test_the_commands_of_a_script_are_accepted_by_it(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(ROOT)
    assert script.__file__ is not None
    commands = docstring_commands(Path(script.__file__).read_text())
    assert len(commands) >= 3
    for command in commands:
        args = script.parse_arguments(shlex.split(command)[2:])
        write_yaml(args.effective, tmp_path / "config.yaml", "as a run writes it")
        again = script.parse_arguments([f"--config={tmp_path / 'config.yaml'}"])
        assert again.options == args.options and again.tuning == args.tuning


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


def test_the_tree_in_the_readme_names_what_is_there() -> None:
    tree = PAGES[0].read_text().split("## Where things are")[1].split("```")[1]
    for name in re.findall(r"^(?:  )?([\w.]+(?:\.py|/))", tree, flags=re.MULTILINE):
        assert (ROOT / name).exists() or (ROOT / "electra" / name).exists(), f"{name} is not there"
