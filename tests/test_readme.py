"""The documentation stays correct: its commands parse, its modules exist, its links resolve."""

import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest

from electra.options import CommandLine
from electra.pretraining.configuration import GROUPS
from electra.tasks.glue import task as glue
from electra.tasks.minimal_pairs import task as minimal_pairs
from electra.tasks.multiple_choice import task as multiple_choice
from electra.tasks.squad import task as squad
from electra.tasks.tagging import task as tagging
from electra.tokenizers import run as train_tokenizer

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
OPTIONS = {
    "run_blimp.py": minimal_pairs.GROUPS,
    "run_glue.py": glue.GROUPS,
    "run_pretraining.py": GROUPS,
    "run_squad.py": squad.GROUPS,
    "run_swag.py": multiple_choice.GROUPS,
    "run_tagging.py": tagging.GROUPS,
    "train_tokenizer.py": train_tokenizer.GROUPS,
}


def shell_commands(text: str) -> list[list[str]]:
    """Words of every line in the shell blocks of a page, or of the commands in a script's docstring."""
    joined = re.sub(r" *\\\n *", " ", text)
    blocks = re.findall(r"```(?:bash|sh|shell)\n(.*?)```", joined, flags=re.DOTALL)
    lines = (
        "\n".join(blocks).splitlines() if blocks else re.findall(r"^ +(python .*?)(?:  .*)?$", joined, re.MULTILINE)
    )
    return [words for line in lines if (words := shlex.split(line, comments=True))]


@pytest.mark.parametrize("path", [*PAGES, *(ROOT / script for script in OPTIONS)], ids=lambda path: path.name)
def test_every_command_in_the_documentation_parses(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for words in shell_commands(path.read_text(encoding="utf-8")):
        script = next((word for word in words if word in OPTIONS), None)
        if script is None:
            continue
        argv = words[words.index(script) + 1 :]
        argv = argv[: argv.index("...")] if "..." in argv else argv
        if "--config" in argv and argv[argv.index("--config") + 1].startswith("output/"):  # of a run that is not here
            at = argv.index("--config")
            del argv[at : at + 2]
        CommandLine(OPTIONS[script], "test").parse(argv)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_modules_and_links_of_a_page_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for module in set(re.findall(r"python -m ((?:electra|benchmarks|docs)[\w.]*\w)", text)):
        assert find_spec(module) is not None, f"{page.name} runs {module}"
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if not target.startswith(("http://", "https://", "mailto:")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_commands_of_the_readme_are_targets_of_the_makefile() -> None:
    targets = [words[1] for words in shell_commands(PAGES[0].read_text()) if words[0] == "make"]
    assert targets and all(f"\n{target}:" in (ROOT / "Makefile").read_text() for target in targets)
