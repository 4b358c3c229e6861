"""The documentation stays correct: its commands parse, its modules exist, its links resolve."""

import re
import shlex
from argparse import SUPPRESS
from importlib.util import find_spec

import electra
from docs import babylm_tables, reference
from docs.schema import VERBS_WITH_CONFIG
from electra.base.command_line import CommandLine
from electra.tools.commands import VERBS
from tests.helpers import ROOT, parametrize

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
SCRIPTS = {"run_pretraining.py": "pretrain", "run_glue.py": "glue", "train_tokenizer.py": "tokenizer"}


def shell_commands(text):
    """Words of every line in the shell blocks of a page, or of the commands in a script's docstring."""
    joined = re.sub(r" *\\\n *", " ", text)
    blocks = re.findall(r"```(?:bash|sh|shell)\n(.*?)```", joined, flags=re.DOTALL)
    lines = (
        "\n".join(blocks).splitlines() if blocks else re.findall(r"^ +(python .*?)(?:  .*)?$", joined, re.MULTILINE)
    )
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def verb_and_options(words):
    """The verb of a command line of this project and its options; None for other commands."""
    for place, word in enumerate(words):
        before, behind = words[:place], words[place + 1 :]
        if word in SCRIPTS:
            return SCRIPTS[word], behind
        if word == "electra" and (before in ([], ["srun"]) or before[-1] in ("-m", "|") or before[0] == "seq"):
            return behind[0], behind[1:]
    return None, []


def test_the_examples_of_the_verbs_parse():
    for name, groups in VERBS_WITH_CONFIG.items():
        CommandLine(groups, "test").parse(shlex.split(VERBS[name].example))


@parametrize("path", [*PAGES, *(ROOT / script for script in SCRIPTS)], ids=lambda path: path.name)
def test_every_command_in_the_documentation_parses(path, monkeypatch):
    monkeypatch.chdir(ROOT)
    for words in shell_commands(path.read_text(encoding="utf-8")):
        verb, argv = verb_and_options(words)
        assert verb is None or verb in VERBS
        if verb not in VERBS_WITH_CONFIG:
            continue
        argv = argv[: argv.index("...")] if "..." in argv else argv
        if "--config" in argv and argv[argv.index("--config") + 1].startswith("output/"):  # of a run that is not here
            place = argv.index("--config")
            del argv[place : place + 2]
        CommandLine(VERBS_WITH_CONFIG[verb], "test").parse(argv)


@parametrize("page", PAGES, ids=lambda path: path.name)
def test_modules_and_links_of_a_page_exist(page):
    text = page.read_text(encoding="utf-8")
    modules = set(re.findall(r"python -m ((?:electra|benchmarks|docs)[\w.]*\w)", text))
    for module in modules if page.name != "CHANGELOG.md" else ():  # it names modules that are gone
        assert find_spec(module) is not None, f"{page.name} runs {module}"
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", text):
        if not target.startswith(("http://", "https://", "mailto:", "../../actions/")):  # the last are GitHub's
            linked = page.parent / target if target else page
            assert linked.exists(), f"{page.name} links to {target}"
            if anchor and linked.suffix == ".md":
                assert anchor in anchors(linked.read_text(encoding="utf-8")), f"{page.name} links to {target}#{anchor}"


def test_the_tree_of_the_architecture_is_that_of_the_files():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set()
    package = folder = ROOT / "electra"
    for line in re.search(r"```\n(electra/ .*?)```", page, flags=re.DOTALL)[1].splitlines()[1:]:
        if re.match(r"  \w", line):
            first = line.split()[0]
            folder = package / first if first.endswith("/") else package
        for name in re.findall(r"[\w/*]+\.py\b", line):
            files = set(folder.glob(name) if folder == package else folder.rglob(name))
            assert files, f"docs/architecture.md names {name} in {folder.name}/"
            named |= files
    files = {path for path in package.rglob("*.py") if path.name not in ("__init__.py", "__main__.py")}
    assert files - named - {*(package / "tasks").glob("*.py")} == set()  # a module there is a kind of tasks


def test_the_scores_of_babylm_are_those_of_their_file():
    data = babylm_tables.read_data()
    networks = [row for row in data["results"] if "model" in row]
    assert len(networks) == 4 and all(task in row for row in networks for task in babylm_tables.TASKS)  # all cells
    constant = min(row["sib200"] for row in networks)
    assert [row["model"] for row in networks if "collapsed" in row] == [
        row["model"] for row in networks if row["sib200"] == constant
    ]
    text = babylm_tables.PAGE.read_text(encoding="utf-8")
    assert babylm_tables.page(text, data) == text, "run: python -m docs.babylm_tables"


def test_the_pages_that_are_made_of_the_code_are_those_of_the_code():
    for path, text in reference.pages().items():
        assert path.read_text(encoding="utf-8") == text, "run: python -m docs.reference"


def test_the_reference_has_each_option_file_and_name():
    texts = {path.name: text for path, text in reference.pages().items()}
    for groups in VERBS_WITH_CONFIG.values():
        fields = [field for field, _ in CommandLine(groups, "").options.values() if "rules" in field.metadata]
        options = [field.name for field in fields if field.metadata["help"] != SUPPRESS]
        assert not [name for name in options if f"| `--{name}` |" not in texts["options.md"]]
    files = [path for path in (ROOT / "configs").glob("*/*.yaml") if f"/{path.name})" not in texts["configs.md"]]
    assert not files
    assert not [name for name in electra.__all__ if f"### {name}\n" not in texts["python.md"]]
    examples = re.findall(r"```python\n(from electra .*?)```", texts["python.md"], flags=re.DOTALL)
    assert len(examples) == 3
    for example in examples:
        compile(example, "python.md", "exec")


def anchors(text):
    """The anchors that GitHub makes of the titles of a page."""
    titles = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_commands_of_the_readme_are_targets_of_the_makefile():
    targets = [words[1] for words in shell_commands(PAGES[0].read_text()) if words[0] == "make"]
    assert targets and all(f"\n{target}:" in (ROOT / "Makefile").read_text() for target in targets)
